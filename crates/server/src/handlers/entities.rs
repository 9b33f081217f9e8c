//! People, and the keys that are bound to them.

use agent::entity::{EntityKind, handle};
use agent::id::{CredentialId, EntityId};
use agent::limits;
use agent::port::{Credential, CredentialKind, NewCredential, NewHuman};
use axum::Json;
use axum::extract::State;

use crate::api::{EntityJson, EntityQuery, KeyJson, NewEntity, NewKey, PageJson};
use crate::app_state::{AppState, HallState};
use crate::extract::{At, Body, MaybeBody, Query, page, text, to_the_end};
use crate::keys;
use crate::problem::{Code, Made, Problem};

/// Makes a person.
#[utoipa::path(post, path = "/v1/entities", tag = "entities", request_body = NewEntity,
    responses((status = 201, description = "Made.", body = EntityJson)))]
pub(super) async fn create(
    State(app): HallState,
    body: Body<NewEntity>,
) -> Result<Made<EntityJson>, Problem> {
    let NewEntity { name, display_name, external_id } = body.value;
    let name = handle(&name)?;
    let max = limits::DISPLAY_NAME_MAX_BYTES;
    let new = NewHuman {
        id: EntityId(app.ports.ids.uuid()),
        display_name: text("display_name", display_name.unwrap_or_else(|| name.clone()), max)?,
        name,
        external_id: external_id.map(|id| text("external_id", id, max)).transpose()?,
        at: app.ports.clock.now(),
    };
    to_the_end(async move {
        let made = app.ports.registry.create_human(new).await?;
        let place = format!("/v1/entities/{}", made.id);
        Ok(Made::At(place, made.into()))
    })
    .await
}

/// Entities by name.
#[utoipa::path(get, path = "/v1/entities", tag = "entities", params(EntityQuery),
    responses((status = 200, description = "A page.", body = PageJson<EntityJson>)))]
pub(super) async fn list(
    State(app): HallState,
    Query(query): Query<EntityQuery>,
) -> Result<Json<PageJson<EntityJson>>, Problem> {
    let found = app.ports.reader.entities(query.kind, page(query.cursor, query.limit)?).await?;
    Ok(Json(PageJson::of(found, EntityJson::from)))
}

/// One entity.
#[utoipa::path(get, path = "/v1/entities/{entity}", tag = "entities",
    params(("entity" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The entity.", body = EntityJson)))]
pub(super) async fn get(State(app): HallState, At(name): At<String>) -> Result<Json<EntityJson>, Problem> {
    Ok(Json(called(&app, &name).await?.into()))
}

/// Makes a key for a person. The secret is shown this once.
#[utoipa::path(post, path = "/v1/entities/{entity}/keys", tag = "entities", request_body = Option<NewKey>,
    params(("entity" = String, Path, description = "Id or handle.")),
    responses((status = 201, description = "The key.", body = KeyJson)))]
pub(super) async fn make_key(
    State(app): HallState,
    At(name): At<String>,
    MaybeBody(body): MaybeBody<NewKey>,
) -> Result<Made<KeyJson>, Problem> {
    let entity = called(&app, &name).await?;
    if entity.kind != EntityKind::Human {
        return Err(Problem::new(Code::NotHuman, "keys are for people; agents need none"));
    }
    let label = text("label", body.label.unwrap_or_default(), limits::DESCRIPTION_MAX_BYTES)?;
    let secret = keys::key(&(app.options.key_source)());
    let id = CredentialId(app.ports.ids.uuid());
    let new = NewCredential {
        credential: Credential { id, kind: CredentialKind::Entity(entity.id), label },
        secret_hash: keys::hash(&secret),
        at: app.ports.clock.now(),
        replace_label: false,
    };
    to_the_end(async move {
        app.ports.registry.add_credential(new).await?;
        Ok(Made::Once(KeyJson { id, key: secret }))
    })
    .await
}

/// The entity with that id or handle.
pub(super) async fn called(app: &AppState, name: &str) -> Result<agent::entity::Entity, Problem> {
    let found = app.ports.reader.entity(name.to_owned()).await?;
    found.ok_or_else(|| Problem::not_found("entity", name))
}
