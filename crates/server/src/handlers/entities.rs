//! Entities: people and agents by name.

use agent::id::EntityId;
use agent::limits;
use agent::port::NewHuman;
use axum::Json;
use axum::extract::State;
use uuid::Uuid;

use crate::app_state::{AppState, SharedState};
use crate::extract::{Named, PathParam, Sent, bounded_text, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done};
use crate::problem::{Problem, WriteResponse};
use api::{EntityJson, EntityQuery, NewEntity, PageJson};

/// Creates a person.
#[utoipa::path(post, path = "/v1/entities", tag = "entities", request_body = NewEntity,
    responses((status = 201, description = "The new person.", body = EntityJson),
              (status = 200, description = "The person was created before by this request.", body = EntityJson)))]
pub(super) async fn create(
    State(app): SharedState,
    Change { body: Sent(new), once }: Change<Sent<NewEntity>>,
) -> Result<Done<WriteResponse<EntityJson>>, Problem> {
    let NewEntity { handle, display_name, external_id } = new;
    let name = agent::entity::handle(&handle)?;
    let max = limits::DISPLAY_NAME_MAX_BYTES;
    let fresh = app.ports.ids.uuid();
    let new = NewHuman {
        id: EntityId(fresh),
        display_name: bounded_text("display_name", display_name.unwrap_or_else(|| name.clone()), max)?,
        name,
        external_id: external_id.map(|id| bounded_text("external_id", id, max)).transpose()?,
        at: app.ports.clock.now(),
    };
    run_to_completion(async move {
        let app = &app;
        let make = async move |id| {
            let created = app.ports.registry.create_human(NewHuman { id: EntityId(id), ..new }).await?;
            let location = format!("/v1/entities/{}", created.id);
            Ok(WriteResponse::Created(location, created.into()))
        };
        let find = async |id: Uuid| Ok(app.ports.reader.entity(id.to_string()).await?.map(EntityJson::from));
        once.create(fresh, make, find).await
    })
    .await
}

/// Lists people and agents by name.
#[utoipa::path(get, path = "/v1/entities", tag = "entities", params(EntityQuery),
    responses((status = 200, description = "A page of entities.", body = PageJson<EntityJson>)))]
pub(super) async fn list(
    State(app): SharedState,
    list: List<EntityQuery>,
) -> Result<Listed<EntityJson>, Problem> {
    let found = app.ports.reader.entities(list.filters.kind, list.page.clone()).await?;
    Ok(list.answer(found, EntityJson::from))
}

/// Returns a person or an agent.
#[utoipa::path(get, path = "/v1/entities/{entity}", tag = "entities",
    params(("entity" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The entity.", body = EntityJson)))]
pub(super) async fn get(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
) -> Result<Json<EntityJson>, Problem> {
    Ok(Json(find_entity(&app, &name).await?.into()))
}

/// The entity with that id or handle.
pub(super) async fn find_entity(app: &AppState, name: &str) -> Result<agent::entity::Entity, Problem> {
    let found = app.ports.reader.entity(name.to_owned()).await?;
    found.ok_or_else(|| Problem::not_found("entity", name))
}
