//! Spaces and their members.

use std::sync::Arc;

use agent::config::WakeOn;
use agent::id::{EntityId, SpaceId};
use agent::limits;
use agent::port::{Denial, RegistryError};
use agent::update::{Topic, Update};
use axum::Json;
use axum::extract::State;
use uuid::Uuid;

use super::denied::refused;
use super::entities::find_entity;
use crate::app_state::{AppState, SharedState};
use crate::auth::{Caller, InSpace, membership};
use crate::extract::{Named, PathParam, Sent, bounded_text, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done, Once};
use crate::problem::{Code, Problem, WriteResponse};
use api::{MemberJson, NewMember, NewSpaceJson, PageJson, PageQuery, SpaceChangeJson, SpaceJson, SpaceQuery};

/// Opens a space.
#[utoipa::path(post, path = "/v1/spaces", tag = "spaces", request_body = NewSpaceJson,
    responses((status = 201, description = "The new space.", body = SpaceJson),
              (status = 200, description = "The space was opened before by this request.", body = SpaceJson)))]
pub(super) async fn open(
    State(app): SharedState,
    Change { body: Sent(new), once }: Change<Sent<NewSpaceJson>>,
) -> Result<Done<WriteResponse<SpaceJson>>, Problem> {
    let NewSpaceJson { handle, display_name, description, wake_on, members } = new;
    let name = agent::entity::handle(&handle)?;
    if members.len() > limits::SPACE_MEMBERS_MAX {
        let detail =
            format!("`members` must be at most {}, got {}", limits::SPACE_MEMBERS_MAX, members.len());
        return Err(Problem::new(Code::BadValue, detail));
    }
    let mut ids: Vec<EntityId> = Vec::with_capacity(members.len());
    for member in &members {
        let id = find_entity(&app, member).await?.id;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let display_name = display_name.unwrap_or_else(|| name.clone());
    let fresh = app.ports.ids.uuid();
    let new = agent::port::NewSpace {
        id: SpaceId(fresh),
        display_name: bounded_text("display_name", display_name, limits::DISPLAY_NAME_MAX_BYTES)?,
        description: bounded_text(
            "description",
            description.unwrap_or_default(),
            limits::DESCRIPTION_MAX_BYTES,
        )?,
        name,
        wake_on: parse_wake_on(wake_on)?.unwrap_or_default(),
        members: ids,
        at: app.ports.clock.now(),
    };
    run_to_completion(async move {
        let app = &app;
        let make = async move |id| {
            let new = agent::port::NewSpace { id: SpaceId(id), ..new };
            let created = app.ports.registry.open_space(new).await?;
            let location = format!("/v1/spaces/{}", created.id);
            Ok(WriteResponse::Created(location, created.into()))
        };
        let find = async |id: Uuid| Ok(app.ports.reader.space(id.to_string()).await?.map(SpaceJson::from));
        once.create(fresh, make, find).await
    })
    .await
}

/// Lists spaces by name: all spaces with an admin key, the person's own spaces with a person's key.
#[utoipa::path(get, path = "/v1/spaces", tag = "spaces", params(SpaceQuery),
    responses((status = 200, description = "A page of spaces.", body = PageJson<SpaceJson>)))]
pub(super) async fn list(
    State(app): SharedState,
    caller: Caller,
    list: List<SpaceQuery>,
) -> Result<Listed<SpaceJson>, Problem> {
    let found = app.ports.reader.spaces(caller.entity(), list.filters.closed, list.page.clone()).await?;
    Ok(list.answer(found, SpaceJson::from))
}

/// Returns a space.
#[utoipa::path(get, path = "/v1/spaces/{space}", tag = "spaces",
    params(("space" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The space.", body = SpaceJson)))]
pub(super) async fn get(InSpace(space): InSpace) -> Json<SpaceJson> {
    Json(Arc::unwrap_or_clone(space).into())
}

/// Changes a space: its display name, its description, and which messages of agents wake the agents in it.
#[utoipa::path(patch, path = "/v1/spaces/{space}", tag = "spaces", request_body = SpaceChangeJson,
    params(("space" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The space as it is now.", body = SpaceJson)))]
pub(super) async fn change_space(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { body: Sent(change), once }: Change<Sent<SpaceChangeJson>>,
) -> Result<Done<Json<SpaceJson>>, Problem> {
    let SpaceChangeJson { display_name, description, wake_on } = change;
    let bounded =
        |field, value: Option<String>, max| value.map(|value| bounded_text(field, value, max)).transpose();
    let change = agent::port::SpaceChange {
        display_name: bounded("display_name", display_name, limits::DISPLAY_NAME_MAX_BYTES)?,
        description: bounded("description", description, limits::DESCRIPTION_MAX_BYTES)?,
        wake_on: parse_wake_on(wake_on)?,
    };
    let id = find_space(&app, &name).await?.id;
    run_to_completion(async move {
        let run = async || Ok(Json(app.ports.registry.amend_space(id, change).await?.into()));
        once.change(run, async || read(&app, id).await).await
    })
    .await
}

/// Closes a space to new messages. Its history stays readable, and another space may take its handle.
#[utoipa::path(post, path = "/v1/spaces/{space}/close", tag = "spaces",
    params(("space" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The space as it is now.", body = SpaceJson)))]
pub(super) async fn close(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { once, .. }: Change<()>,
) -> Result<Done<Json<SpaceJson>>, Problem> {
    set_closed(app, &name, once, true).await
}

/// Opens a closed space again, with its history, its members and its handle.
#[utoipa::path(post, path = "/v1/spaces/{space}/reopen", tag = "spaces",
    params(("space" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The space as it is now.", body = SpaceJson)))]
pub(super) async fn reopen(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { once, .. }: Change<()>,
) -> Result<Done<Json<SpaceJson>>, Problem> {
    set_closed(app, &name, once, false).await
}

async fn set_closed(
    app: Arc<AppState>,
    name: &str,
    once: Once,
    closed: bool,
) -> Result<Done<Json<SpaceJson>>, Problem> {
    let id = find_space(&app, name).await?.id;
    run_to_completion(async move {
        let run = async || Ok(Json(app.ports.registry.set_space_closed(id, closed).await?.into()));
        once.change(run, async || read(&app, id).await).await
    })
    .await
}

async fn read(app: &AppState, id: SpaceId) -> Result<Json<SpaceJson>, Problem> {
    Ok(Json(find_space(app, &id.to_string()).await?.into()))
}

/// Lists the members of a space, in the order in which they were added.
#[utoipa::path(get, path = "/v1/spaces/{space}/members", tag = "spaces",
    params(("space" = String, Path, description = "Id or handle."), PageQuery),
    responses((status = 200, description = "A page of members.", body = PageJson<MemberJson>)))]
pub(super) async fn members(
    State(app): SharedState,
    caller: Caller,
    InSpace(space): InSpace,
    list: List<PageQuery>,
) -> Result<Listed<MemberJson>, Problem> {
    let members = app.ports.reader.members(space.id).await?;
    let page = list.cut(members, |member| member.entity.id.to_string(), |_| 0);
    Ok(list.answer(page, |member| MemberJson::shown(member, caller.is_operator(), caller.entity())))
}

/// Adds a member to a space. Adding a member again changes its role.
#[utoipa::path(post, path = "/v1/spaces/{space}/members", tag = "spaces", request_body = NewMember,
    params(("space" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The member.", body = MemberJson)))]
pub(super) async fn add_member(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { body: Sent(new), once }: Change<Sent<NewMember>>,
) -> Result<Done<Json<MemberJson>>, Problem> {
    let space = find_space(&app, &name).await?;
    let entity = find_entity(&app, &new.entity).await?;
    let role = new.role.unwrap_or_else(|| agent::entity::Member::ROLE.to_owned());
    let role = bounded_text("role", role, limits::DISPLAY_NAME_MAX_BYTES)?;
    let now = app.ports.clock.now();
    run_to_completion(async move {
        let read = async || {
            let member = membership(&app, &space, entity.id).await?;
            // Missing only if it was removed in the meantime.
            Ok(Json(member.ok_or_else(|| Problem::not_found("member", &entity.name))?.into()))
        };
        let run = async || {
            let rev = match app.ports.registry.add_member(space.id, entity.id, role, now).await {
                Ok(rev) => rev,
                Err(error) => return Err(refused(&app, error).await),
            };
            publish_member(&app, space.id, entity.id, true, rev);
            read().await
        };
        once.change(run, async || read().await).await
    })
    .await
}

/// Removes a member from a space. Its streams of the space end; events that wait in its inbox stay there.
#[utoipa::path(delete, path = "/v1/spaces/{space}/members/{entity}", tag = "spaces",
    params(("space" = String, Path, description = "Id or handle."),
           ("entity" = String, Path, description = "Id or handle.")),
    responses((status = 204, description = "The member is removed.")))]
pub(super) async fn remove_member(
    State(app): SharedState,
    PathParam((name, entity)): PathParam<(Named, Named)>,
    Change { once, .. }: Change<()>,
) -> Result<Done<WriteResponse<MemberJson>>, Problem> {
    let space = find_space(&app, &name).await?;
    let entity = find_entity(&app, &entity).await?;
    run_to_completion(async move {
        let run = async || {
            let removed = app.ports.registry.remove_member(space.id, entity.id).await;
            let rev = removed.map_err(|error| match error {
                RegistryError::Denied(Denial::NotMember { .. }) => Problem::not_found("member", &entity.name),
                other => other.into(),
            })?;
            publish_member(&app, space.id, entity.id, false, rev);
            Ok(WriteResponse::Removed)
        };
        once.change(run, async || Ok(WriteResponse::Removed)).await
    })
    .await
}

fn publish_member(app: &AppState, space: SpaceId, entity: EntityId, joined: bool, rev: u64) {
    let update = Update::Member { space, entity, joined, rev };
    app.ports.live.bus().publish(&[Topic::Space(space)], Arc::new(update));
}

fn parse_wake_on(wake_on: Option<String>) -> Result<Option<WakeOn>, Problem> {
    let read = |name: String| {
        let got: String = name.chars().take(60).collect();
        let detail = format!("`wake_on` must be `all` or `mention`, got `{got}`");
        WakeOn::try_from(&*name).map_err(|_| Problem::new(Code::BadValue, detail))
    };
    wake_on.map(read).transpose()
}

pub(super) async fn find_space(app: &AppState, name: &str) -> Result<agent::entity::Space, Problem> {
    let found = app.ports.reader.space(name.to_owned()).await?;
    found.ok_or_else(|| Problem::not_found("space", name))
}
