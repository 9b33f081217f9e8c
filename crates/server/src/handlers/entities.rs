//! Entities: people and agents by name.

use agent::entity::handle;
use agent::id::EntityId;
use agent::limits;
use agent::port::NewHuman;
use axum::Json;
use axum::extract::State;

use crate::app_state::{AppState, SharedState};
use crate::extract::{Body, PathParam, Query, bounded_text, page, run_to_completion};
use crate::problem::{Problem, WriteResponse};
use api::{EntityJson, EntityQuery, NewEntity, PageJson};

/// Creates a person.
#[utoipa::path(post, path = "/v1/entities", tag = "entities", request_body = NewEntity,
    responses((status = 201, description = "The new person.", body = EntityJson)))]
pub(super) async fn create(
    State(app): SharedState,
    body: Body<NewEntity>,
) -> Result<WriteResponse<EntityJson>, Problem> {
    let NewEntity { name, display_name, external_id } = body.value;
    let name = handle(&name)?;
    let max = limits::DISPLAY_NAME_MAX_BYTES;
    let new = NewHuman {
        id: EntityId(app.ports.ids.uuid()),
        display_name: bounded_text("display_name", display_name.unwrap_or_else(|| name.clone()), max)?,
        name,
        external_id: external_id.map(|id| bounded_text("external_id", id, max)).transpose()?,
        at: app.ports.clock.now(),
    };
    run_to_completion(async move {
        let created = app.ports.registry.create_human(new).await?;
        let location = format!("/v1/entities/{}", created.id);
        Ok(WriteResponse::Created(location, created.into()))
    })
    .await
}

/// Lists people and agents by name.
#[utoipa::path(get, path = "/v1/entities", tag = "entities", params(EntityQuery),
    responses((status = 200, description = "A page of entities.", body = PageJson<EntityJson>)))]
pub(super) async fn list(
    State(app): SharedState,
    Query(query): Query<EntityQuery>,
) -> Result<Json<PageJson<EntityJson>>, Problem> {
    let found = app.ports.reader.entities(query.kind, page(query.cursor, query.limit)?).await?;
    Ok(Json(PageJson::of(found, EntityJson::from)))
}

/// Returns a person or an agent.
#[utoipa::path(get, path = "/v1/entities/{entity}", tag = "entities",
    params(("entity" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The entity.", body = EntityJson)))]
pub(super) async fn get(
    State(app): SharedState,
    PathParam(name): PathParam<String>,
) -> Result<Json<EntityJson>, Problem> {
    Ok(Json(find_entity(&app, &name).await?.into()))
}

/// The entity with that id or handle.
pub(super) async fn find_entity(app: &AppState, name: &str) -> Result<agent::entity::Entity, Problem> {
    let found = app.ports.reader.entity(name.to_owned()).await?;
    found.ok_or_else(|| Problem::not_found("entity", name))
}
