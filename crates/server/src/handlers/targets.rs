//! Targets: add, list and remove them, and send dead deliveries again.

use std::collections::BTreeMap;

use agent::limits;
use agent::port::{NewsKind, NewsOf, Page, StoredTarget, TargetState};
use axum::Json;
use axum::extract::State;

use super::agents::{find_living_agent, handle_of};
use crate::app_state::{AppState, SharedState};
use crate::extract::{Named, Optional, PathParam, Sent, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done};
use crate::problem::{Code, Problem, WriteResponse};
use api::{DeadDelivery, DeliveriesRetried, DeliveryRetry, NewTargetJson, PageJson, PageQuery, TargetJson};

/// Lists all targets by name.
#[utoipa::path(get, path = "/v1/targets", tag = "targets", params(PageQuery),
    responses((status = 200, description = "A page of targets.", body = PageJson<TargetJson>)))]
pub(super) async fn list_targets(
    State(app): SharedState,
    list: List<PageQuery>,
) -> Result<Listed<TargetJson>, Problem> {
    let all = app.ports.target_book.targets().await?;
    let Page { items: found, next } = list.cut(all, |state| state.target.name.clone(), |_| 0);
    let mut items = Vec::new();
    for state in found {
        items.push(target_json(&app, state).await?);
    }
    Ok(list.answer(Page { items, next }, |target| target))
}

/// Returns a target.
#[utoipa::path(get, path = "/v1/targets/{target}", tag = "targets",
    params(("target" = String, Path, description = "Name of the target.")),
    responses((status = 200, description = "The target.", body = TargetJson)))]
pub(super) async fn get_target(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
) -> Result<Json<TargetJson>, Problem> {
    let state = find(&app, &name).await?;
    Ok(Json(target_json(&app, state).await?))
}

/// Adds a target, or changes one. It is told what happens from then on; one that was off is on again, and what waits for it
/// is sent.
#[utoipa::path(put, path = "/v1/targets/{target}", tag = "targets", request_body = NewTargetJson,
    params(("target" = String, Path, description = "Name of the target, as a handle.")),
    responses((status = 200, description = "The target as it is now.", body = TargetJson)))]
pub(super) async fn put_target(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { body: Sent(new), once }: Change<Sent<NewTargetJson>>,
) -> Result<Done<Json<TargetJson>>, Problem> {
    let name = agent::entity::handle(&name)?;
    let NewTargetJson { url, secrets, on, space, agent, only_if, body, allow } = new;
    let of = match (space, agent) {
        (Some(space), None) => {
            let found = app.ports.reader.space(space.clone()).await?;
            NewsOf::Space(found.ok_or_else(|| Problem::not_found("space", &space))?.id)
        }
        (None, Some(agent)) => NewsOf::Agent(find_living_agent(&app, &agent).await?.id),
        _ => return Err(bad("wanted either `space` or `agent`")),
    };
    let on = kinds(&on, of)?;
    let at = app.ports.clock.now();
    let target = StoredTarget { name, url, secrets, allow, on, of, only_if, body, off: None, at };
    app.ports.courier.check(&target).map_err(|why| bad(&why))?;
    run_to_completion(async move {
        let name = target.name.clone();
        let read = async || target_json(&app, find(&app, &name).await?).await.map(Json);
        let run = async || {
            let _one_at_a_time = app.ports.declaring.lock().await;
            let stored = app.ports.target_book.targets().await?;
            let is_new = stored.iter().all(|other| other.target.name != target.name);
            if stored.len() >= limits::TARGETS_MAX && is_new {
                let why = format!("wanted at most {} targets", limits::TARGETS_MAX);
                return Err(bad(&why).hint("remove some first"));
            }
            app.ports.target_book.put_target(target).await?;
            read().await
        };
        once.change(run, async || read().await).await
    })
    .await
}

/// Removes a target with all that waits for it.
#[utoipa::path(delete, path = "/v1/targets/{target}", tag = "targets",
    params(("target" = String, Path, description = "Name of the target.")),
    responses((status = 204, description = "There is no such target any more.")))]
pub(super) async fn delete_target(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { once, .. }: Change<()>,
) -> Result<Done<WriteResponse<TargetJson>>, Problem> {
    run_to_completion(async move {
        let run = async || match app.ports.target_book.delete_target(name.to_string()).await? {
            true => Ok(WriteResponse::Removed),
            false => Err(Problem::not_found("target", &name)),
        };
        once.change(run, async || Ok(WriteResponse::Removed)).await
    })
    .await
}

/// Lists the deliveries to a target that were given up, oldest first: the last 1 000.
#[utoipa::path(get, path = "/v1/targets/{target}/dead", tag = "targets",
    params(("target" = String, Path, description = "Name of the target."), PageQuery),
    responses((status = 200, description = "A page of deliveries.", body = PageJson<DeadDelivery>)))]
pub(super) async fn list_dead(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    list: List<PageQuery>,
) -> Result<Listed<DeadDelivery>, Problem> {
    let state = find(&app, &name).await?;
    let dead = app.ports.target_book.dead_deliveries(state.target.name).await?;
    let page = list.cut(dead, |one| one.id.clone(), |one| one.body.len());
    Ok(list.answer(page, DeadDelivery::from))
}

/// Sends dead deliveries again, before everything that happened later.
#[utoipa::path(post, path = "/v1/targets/{target}/retry", tag = "targets", request_body = Option<DeliveryRetry>,
    params(("target" = String, Path, description = "Name of the target.")),
    responses((status = 200, description = "They wait again.", body = DeliveriesRetried)))]
pub(super) async fn retry_dead(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { body: Optional(wanted), once }: Change<Optional<DeliveryRetry>>,
) -> Result<Done<Json<DeliveriesRetried>>, Problem> {
    let target = find(&app, &name).await?.target.name;
    run_to_completion(async move {
        let run = async || {
            let (book, now) = (&app.ports.target_book, app.ports.clock.now());
            let retried = book.retry_deliveries(target, wanted.id, now).await?;
            Ok(DeliveriesRetried { retried })
        };
        once.answer(run).await
    })
    .await
}

fn bad(why: &str) -> Problem {
    Problem::explained(Code::BadTarget, why)
}

/// The kinds of news with these names, each once and in order.
fn kinds(names: &[String], of: NewsOf) -> Result<Vec<NewsKind>, Problem> {
    let known: Vec<&str> = NewsKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let all = format!("known are `{}`", known.join("`, `"));
    if names.is_empty() {
        return Err(bad("`on`: wanted what the target is told").hint(all));
    }
    let mut kinds = Vec::new();
    for name in names {
        let kind: NewsKind = name.parse().map_err(|_| {
            let shown: String = name.chars().take(40).collect();
            bad(&format!("`on`: there is no `{shown}`")).hint(all.clone())
        })?;
        let of_spaces = matches!(kind, NewsKind::Message | NewsKind::ApprovalWanted);
        if matches!(of, NewsOf::Space(_)) && !of_spaces {
            return Err(
                bad(&format!("`on`: a space has no `{name}`")).hint("name an agent instead of a space")
            );
        }
        kinds.push(kind);
    }
    kinds.sort();
    kinds.dedup();
    Ok(kinds)
}

async fn find(app: &AppState, name: &str) -> Result<TargetState, Problem> {
    let all = app.ports.target_book.targets().await?;
    let found = all.into_iter().find(|state| state.target.name == name);
    found.ok_or_else(|| Problem::not_found("target", name))
}

async fn target_json(app: &AppState, state: TargetState) -> Result<TargetJson, Problem> {
    let TargetState { target, waiting, dead, why, next_at, attempts, failed_at, arrived_at } = state;
    let refused = app.ports.courier.refused(&target);
    let StoredTarget { name, url, secrets, allow, on, of, only_if, body, off, at } = target;
    let (space, agent) = match of {
        NewsOf::Space(id) => (Some(id), None),
        NewsOf::Agent(id) => (None, Some(id)),
    };
    let space_handle = match space {
        Some(id) => app.ports.reader.space(id.to_string()).await?.map(|space| space.name),
        None => None,
    };
    let agent_handle = match agent {
        Some(id) => Some(handle_of(app, id).await?),
        None => None,
    };
    let on = on.into_iter().map(|kind| kind.as_str().to_owned()).collect();
    let mut missing_secrets = BTreeMap::new();
    for secret in &secrets {
        if let Some(why) = app.ports.courier.unusable_secret(secret).await {
            missing_secrets.insert(secret.clone(), why);
        }
    }
    // Before the first attempt it is tried at once.
    let next_at = next_at.filter(|at| at.as_second() > 0);
    Ok(TargetJson {
        name,
        url,
        secrets,
        on,
        space,
        space_handle,
        agent,
        agent_handle,
        only_if,
        body,
        allow,
        refused,
        off,
        missing_secrets,
        waiting,
        dead,
        why,
        next_at,
        attempts,
        failed_at,
        arrived_at,
        at,
    })
}
