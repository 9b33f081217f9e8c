//! Spaces and their members.

use std::sync::Arc;

use agent::config::WakeOn;
use agent::entity::handle;
use agent::id::{EntityId, SpaceId};
use agent::limits;
use agent::port::{Denial, RegistryError};
use agent::update::{Topic, Update};
use axum::Json;
use axum::extract::State;

use super::entities::called;
use crate::api::{MemberJson, NewMember, NewSpaceJson, PageJson, PageQuery, SpaceChangeJson, SpaceJson};
use crate::app_state::{AppState, HallState};
use crate::auth::{Caller, InSpace};
use crate::extract::{At, Body, Query, page, text, to_the_end};
use crate::problem::{Code, Made, Problem};

/// Opens a space.
#[utoipa::path(post, path = "/v1/spaces", tag = "spaces", request_body = NewSpaceJson,
    responses((status = 201, description = "Opened.", body = SpaceJson)))]
pub(super) async fn open(
    State(app): HallState,
    body: Body<NewSpaceJson>,
) -> Result<Made<SpaceJson>, Problem> {
    let NewSpaceJson { name, display_name, description, wake_on, members } = body.value;
    let name = handle(&name)?;
    if members.len() > limits::SPACE_MEMBERS_MAX {
        let detail =
            format!("`members` must be at most {}, got {}", limits::SPACE_MEMBERS_MAX, members.len());
        return Err(Problem::new(Code::BadValue, detail));
    }
    let mut ids: Vec<EntityId> = Vec::with_capacity(members.len());
    for member in &members {
        let id = called(&app, member).await?.id;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let display_name = display_name.unwrap_or_else(|| name.clone());
    let new = agent::port::NewSpace {
        id: SpaceId(app.ports.ids.uuid()),
        display_name: text("display_name", display_name, limits::DISPLAY_NAME_MAX_BYTES)?,
        description: text("description", description.unwrap_or_default(), limits::DESCRIPTION_MAX_BYTES)?,
        name,
        wake_on: rule(wake_on)?.unwrap_or_default(),
        members: ids,
        at: app.ports.clock.now(),
    };
    to_the_end(async move {
        let made = app.ports.registry.open_space(new).await?;
        let place = format!("/v1/spaces/{}", made.id);
        Ok(Made::At(place, made.into()))
    })
    .await
}

/// Spaces by name: all of them with an admin key, the caller's own with an entity's.
#[utoipa::path(get, path = "/v1/spaces", tag = "spaces", params(PageQuery),
    responses((status = 200, description = "A page.", body = PageJson<SpaceJson>)))]
pub(super) async fn list(
    State(app): HallState,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<PageJson<SpaceJson>>, Problem> {
    let found = app.ports.reader.spaces(caller.entity(), page(query.cursor, query.limit)?).await?;
    Ok(Json(PageJson::of(found, SpaceJson::from)))
}

/// One space.
#[utoipa::path(get, path = "/v1/spaces/{space}", tag = "spaces",
    params(("space" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The space.", body = SpaceJson)))]
pub(super) async fn get(InSpace(space): InSpace) -> Json<SpaceJson> {
    Json(Arc::unwrap_or_clone(space).into())
}

/// Changes a space: names for people, what it is for, and which messages of agents wake the agents there.
#[utoipa::path(patch, path = "/v1/spaces/{space}", tag = "spaces", request_body = SpaceChangeJson,
    params(("space" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The space as it is now.", body = SpaceJson)))]
pub(super) async fn amend(
    State(app): HallState,
    At(name): At<String>,
    body: Body<SpaceChangeJson>,
) -> Result<Json<SpaceJson>, Problem> {
    let SpaceChangeJson { display_name, description, wake_on } = body.value;
    let bounded = |field, value: Option<String>, max| value.map(|value| text(field, value, max)).transpose();
    let change = agent::port::SpaceChange {
        display_name: bounded("display_name", display_name, limits::DISPLAY_NAME_MAX_BYTES)?,
        description: bounded("description", description, limits::DESCRIPTION_MAX_BYTES)?,
        wake_on: rule(wake_on)?,
    };
    let id = space_called(&app, &name).await?.id;
    to_the_end(async move { Ok(Json(app.ports.registry.amend_space(id, change).await?.into())) }).await
}

/// Closes a space to further messages; its history stays readable.
#[utoipa::path(post, path = "/v1/spaces/{space}/close", tag = "spaces",
    params(("space" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The space as it is now.", body = SpaceJson)))]
pub(super) async fn close(State(app): HallState, At(name): At<String>) -> Result<Json<SpaceJson>, Problem> {
    let id = space_called(&app, &name).await?.id;
    to_the_end(async move { Ok(Json(app.ports.registry.close_space(id).await?.into())) }).await
}

/// Members of a space, oldest first.
#[utoipa::path(get, path = "/v1/spaces/{space}/members", tag = "spaces",
    params(("space" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "All of them.", body = PageJson<MemberJson>)))]
pub(super) async fn members(
    State(app): HallState,
    InSpace(space): InSpace,
) -> Result<Json<PageJson<MemberJson>>, Problem> {
    let members = app.ports.reader.members(space.id).await?;
    Ok(Json(PageJson { items: members.into_iter().map(MemberJson::from).collect(), next: None }))
}

/// Adds a member; adding one again changes the role.
#[utoipa::path(post, path = "/v1/spaces/{space}/members", tag = "spaces", request_body = NewMember,
    params(("space" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The member.", body = MemberJson)))]
pub(super) async fn add_member(
    State(app): HallState,
    At(name): At<String>,
    body: Body<NewMember>,
) -> Result<Json<MemberJson>, Problem> {
    let space = space_called(&app, &name).await?;
    let entity = called(&app, &body.value.entity).await?;
    let role = body.value.role.unwrap_or_else(|| agent::entity::Member::ROLE.to_owned());
    let role = text("role", role, limits::DISPLAY_NAME_MAX_BYTES)?;
    let now = app.ports.clock.now();
    to_the_end(async move {
        let rev = app.ports.registry.add_member(space.id, entity.id, role, now).await?;
        publish_member(&app, space.id, entity.id, true, rev);
        let members = app.ports.reader.members(space.id).await?;
        let member = members.into_iter().find(|member| member.entity.id == entity.id);
        // Removed again in this very moment, if it is not there.
        Ok(Json(member.ok_or_else(|| Problem::not_found("member", &entity.name))?.into()))
    })
    .await
}

/// Removes a member. Its streams end; what waits in its inbox stays.
#[utoipa::path(delete, path = "/v1/spaces/{space}/members/{entity}", tag = "spaces",
    params(("space" = String, Path, description = "Id or handle."),
           ("entity" = String, Path, description = "Id or handle.")),
    responses((status = 204, description = "Removed.")))]
pub(super) async fn remove_member(
    State(app): HallState,
    At((name, entity)): At<(String, String)>,
) -> Result<Made<MemberJson>, Problem> {
    let space = space_called(&app, &name).await?;
    let entity = called(&app, &entity).await?;
    to_the_end(async move {
        let removed = app.ports.registry.remove_member(space.id, entity.id).await;
        let rev = removed.map_err(|error| match error {
            RegistryError::Denied(Denial::NotMember { .. }) => Problem::not_found("member", &entity.name),
            other => other.into(),
        })?;
        publish_member(&app, space.id, entity.id, false, rev);
        Ok(Made::Gone)
    })
    .await
}

fn publish_member(app: &AppState, space: SpaceId, entity: EntityId, joined: bool, rev: u64) {
    let update = Update::Member { space, entity, joined, rev };
    app.ports.live.bus().publish(&[Topic::Space(space)], Arc::new(update));
}

fn rule(wake_on: Option<String>) -> Result<Option<WakeOn>, Problem> {
    let read = |name: String| {
        let got: String = name.chars().take(60).collect();
        let detail = format!("`wake_on` must be `all` or `mention`, got `{got}`");
        WakeOn::try_from(&*name).map_err(|_| Problem::new(Code::BadValue, detail))
    };
    wake_on.map(read).transpose()
}

async fn space_called(app: &AppState, name: &str) -> Result<agent::entity::Space, Problem> {
    let found = app.ports.reader.space(name.to_owned()).await?;
    found.ok_or_else(|| Problem::not_found("space", name))
}
