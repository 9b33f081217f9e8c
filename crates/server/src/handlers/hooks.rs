//! Hooks: declare, list and remove them, and take their deliveries. Only what the hook's verifier has let pass is read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use agent::event::EventProgress;
use agent::id::{AgentId, EventId};
use agent::life::Standing;
use agent::limits;
use agent::port::{
    DeliveryHead, DeliveryId, Denial, HookAccepted, HookDelivery, HookOutcome, HookReading, HookRefusal,
    NewHookDelivery, Page, RawDelivery, Scope, StoredHook,
};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use super::agents::{find_agent, handle_of};
use super::events::publish_progress;
use crate::app_state::{AppState, SharedState};
use crate::auth::authenticate;
use crate::extract::{Named, PathParam, Sent, read_counted, run_to_completion};
use crate::hook_pool::DeliveryPlace;
use crate::listing::{List, Listed};
use crate::once::{Change, Done, idempotency_key, key_reused, request_key};
use crate::problem::{Code, Problem, WriteResponse};
use api::{HookAnswer, HookDeliveryJson, HookJson, NewHookJson, PageJson, PageQuery};

/// Lists all hooks by name.
#[utoipa::path(get, path = "/v1/hooks", tag = "hooks", params(PageQuery),
    responses((status = 200, description = "A page of hooks.", body = PageJson<HookJson>)))]
pub(super) async fn list_hooks(
    State(app): SharedState,
    list: List<PageQuery>,
) -> Result<Listed<HookJson>, Problem> {
    let all = app.ports.hook_book.hooks().await?;
    let bytes = |hook: &StoredHook| hook.declaration.to_string().len();
    let Page { items, next } = list.cut(all, |hook| hook.name.clone(), bytes);
    let hooks = stream::iter(items).map(|hook| hook_json(&app, hook));
    let items = hooks.buffered(limits::HOOKS_LISTED_AT_ONCE).try_collect().await?;
    Ok(list.answer(Page { items, next }, |hook| hook))
}

/// Returns a hook.
#[utoipa::path(get, path = "/v1/hooks/{hook}", tag = "hooks",
    params(("hook" = String, Path, description = "Name of the hook.")),
    responses((status = 200, description = "The hook.", body = HookJson)))]
pub(super) async fn get_hook(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
) -> Result<Json<HookJson>, Problem> {
    let hook = find(&app, &name).await?;
    Ok(Json(hook_json(&app, hook).await?))
}

/// Declares a hook, or changes one. From then on it accepts deliveries that its kind verifies.
#[utoipa::path(put, path = "/v1/hooks/{hook}", tag = "hooks", request_body = NewHookJson,
    params(("hook" = String, Path, description = "Name of the hook, as a handle.")),
    responses((status = 200, description = "The hook as it is now.", body = HookJson)))]
pub(super) async fn put_hook(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { body: Sent(new), once }: Change<Sent<NewHookJson>>,
) -> Result<Done<Json<HookJson>>, Problem> {
    let name = agent::entity::handle(&name)?;
    let bad = |why: String| Problem::explained(Code::BadHook, &why);
    let NewHookJson { kind, secrets, header, agents: names, template, only_if, urgent, trusted } = new;
    let mut declaration = json!({"kind": kind, "secrets": secrets, "trusted": trusted});
    for (key, value) in [("header", header), ("template", template), ("only_if", only_if), ("urgent", urgent)]
    {
        if let Some(value) = value {
            declaration[key] = value.into();
        }
    }
    let checked = app.ports.hooks.check(&declaration).map_err(|wrong| bad(wrong.join("\n")))?;
    if names.is_empty() || names.len() > limits::HOOK_AGENTS_MAX {
        let most = limits::HOOK_AGENTS_MAX;
        return Err(bad(format!("`agents`: wanted 1 to {most} agents, got {}", names.len())));
    }
    let mut agents: Vec<AgentId> = Vec::new();
    for name in &names {
        let agent = find_agent(&app, name).await?.id;
        if !agents.contains(&agent) {
            agents.push(agent);
        }
    }
    let hook = StoredHook { name, declaration: checked.declaration, agents, at: app.ports.clock.now() };
    run_to_completion(async move {
        let name = hook.name.clone();
        let run = async || {
            let _one_at_a_time = app.ports.declaring.lock().await;
            let stored = app.ports.hook_book.hooks().await?;
            if stored.len() >= limits::HOOKS_MAX && stored.iter().all(|other| other.name != hook.name) {
                let why = format!("wanted at most {} hooks", limits::HOOKS_MAX);
                return Err(Problem::new(Code::BadHook, why).hint("remove some first"));
            }
            app.ports.hook_book.put_hook(hook.clone()).await?;
            hook_json(&app, hook).await.map(Json)
        };
        once.change(run, async || hook_json(&app, find(&app, &name).await?).await.map(Json)).await
    })
    .await
}

/// Removes a hook and the log of its deliveries. What it has delivered stays known.
#[utoipa::path(delete, path = "/v1/hooks/{hook}", tag = "hooks",
    params(("hook" = String, Path, description = "Name of the hook.")),
    responses((status = 204, description = "There is no such hook any more.")))]
pub(super) async fn delete_hook(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { once, .. }: Change<()>,
) -> Result<Done<WriteResponse<HookJson>>, Problem> {
    run_to_completion(async move {
        let run = async || {
            app.refusals.forget(&name);
            match app.ports.hook_book.delete_hook(name.to_string()).await? {
                true => Ok(WriteResponse::Removed),
                false => Err(Problem::not_found("hook", &name)),
            }
        };
        once.change(run, async || Ok(WriteResponse::Removed)).await
    })
    .await
}

/// Lists the last deliveries of a hook, newest first: the last 200 of each outcome, of those that nobody has verified at most one
/// a second for each reason, with the number of those that are not listed.
#[utoipa::path(get, path = "/v1/hooks/{hook}/deliveries", tag = "hooks",
    params(("hook" = String, Path, description = "Name of the hook."), PageQuery),
    responses((status = 200, description = "A page of deliveries.", body = PageJson<HookDeliveryJson>)))]
pub(super) async fn list_deliveries(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    list: List<PageQuery>,
) -> Result<Listed<HookDeliveryJson>, Problem> {
    let hook = find(&app, &name).await?;
    let mut handles: HashMap<AgentId, String> = HashMap::new();
    let mut items = Vec::new();
    let lines = app.ports.hook_book.deliveries(hook.name).await?;
    let Page { items: lines, next } = list.cut(lines, |line| format!("{line:?}"), |_| 0);
    for line in lines {
        let HookDelivery { at, delivery, outcome, detail, event, agents } = line;
        let mut agent_handles = Vec::new();
        for id in &agents {
            let handle = match handles.entry(*id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(vacant) => vacant.insert(handle_of(&app, *id).await?),
            };
            agent_handles.push(handle.clone());
        }
        let outcome = outcome.as_str().to_owned();
        items.push(HookDeliveryJson { at, delivery, outcome, detail, event, agents, agent_handles });
    }
    Ok(list.answer(Page { items, next }, |line| line))
}

/// Takes a delivery of a service. Its raw body is verified before anything of it is read; after the response its event is on
/// disk. A delivery with the same id is accepted once, for as long as the store exists: the id is `webhook-id`,
/// `X-GitHub-Delivery`, Stripe's `id` or Slack's `event_id`; with a shared secret or a key it is the `Idempotency-Key`, and
/// without one each delivery is a new event.
#[utoipa::path(post, path = "/v1/hooks/{hook}", tag = "hooks", request_body = Object,
    params(("hook" = String, Path, description = "Name of the hook."),
           ("idempotency-key" = Option<String>, Header, description = "The id of the delivery, if the hook's secret is shared or a key.")),
    responses((status = 202, description = "The delivery is accepted.", body = HookAnswer),
              (status = 200, description = "It was accepted before, only asked whether the hook is there, or the hook's template made nothing of it.", body = HookAnswer)))]
pub(super) async fn deliver(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    request: Request,
) -> Result<WriteResponse<HookAnswer>, Problem> {
    let key = idempotency_key(request.headers())?;
    let hook = find(&app, &name).await?;
    match verified(&app, &hook, request).await {
        Ok((_place, reading, raw)) => take(&app, hook, key, reading, &raw).await,
        Err(problem) => {
            note_unverified(&app, hook.name, &problem).await;
            Err(problem)
        }
    }
}

/// Waits for the rest of a delivery until it is verified, or has to make room for others.
async fn verified(
    app: &AppState,
    hook: &StoredHook,
    request: Request,
) -> Result<(DeliveryPlace, HookReading, Bytes), Problem> {
    let place = app.hook_pool.enter(&hook.name)?;
    let (reading, raw) = tokio::select! {
        biased;
        problem = place.ended() => Err(problem),
        read = read_verified(app, hook, request, &place) => read,
    }?;
    place.verified()?;
    Ok((place, reading, raw))
}

/// Takes a verified delivery.
async fn take(
    app: &Arc<AppState>,
    hook: StoredHook,
    key: Option<String>,
    reading: HookReading,
    raw: &Bytes,
) -> Result<WriteResponse<HookAnswer>, Problem> {
    let name = hook.name.clone();
    let (delivery, taken) = match reading {
        HookReading::Question(challenge) => {
            note(app, name, HookOutcome::Answered, None, None).await;
            let outcome = HookOutcome::Answered.as_str().to_owned();
            return Ok(WriteResponse::Existing(HookAnswer { outcome, challenge }));
        }
        HookReading::Nothing { delivery } => {
            note(app, name, HookOutcome::Ignored, delivery, None).await;
            let outcome = HookOutcome::Ignored.as_str().to_owned();
            return Ok(WriteResponse::Existing(HookAnswer { outcome, challenge: None }));
        }
        HookReading::Refused { delivery, why } => (delivery, Err(problem(&why))),
        HookReading::Event(event) => {
            let request = match event.delivery {
                DeliveryId::OfSender(_) => key.map(|key| {
                    let (whose, act) = (format!("hook:{name}"), format!("deliver {name}"));
                    request_key(whose, key, &act, raw, &*app.ports.clock)
                }),
                DeliveryId::OfService(_) | DeliveryId::None => None,
            };
            let (fresh, at) = (EventId(app.ports.ids.uuid().to_string()), app.ports.clock.now());
            let new = NewHookDelivery::of(hook, event, fresh, request, at);
            (new.delivery.clone(), accept(Arc::clone(app), new).await)
        }
    };
    if let Err(problem) = &taken {
        note(app, name, HookOutcome::Refused, delivery, Some(reason(problem))).await;
    }
    taken
}

/// What a delivery says, and its body, which is waited for only if its head may be one of this hook's.
async fn read_verified(
    app: &AppState,
    hook: &StoredHook,
    request: Request,
    place: &DeliveryPlace,
) -> Result<(HookReading, Bytes), Problem> {
    let key = check_key(app, request.headers(), &hook.name).await;
    let headers = texts(request.headers());
    let head = || DeliveryHead { headers: &headers, now: app.ports.clock.now(), by_key: key.is_ok() };
    let hooks = &app.ports.hooks;
    let read = async {
        hooks.admit(&hook.declaration, head()).await.map_err(|refusal| problem(&refusal))?;
        let count = |bytes| place.add(bytes);
        let raw = read_counted(request, &*app.ports.clock, limits::HOOK_BODY_MS, count).await?;
        let delivery = RawDelivery { head: head(), body: &raw };
        let reading = hooks.read(&hook.declaration, delivery).await.map_err(|refusal| problem(&refusal))?;
        Ok::<_, Problem>((reading, raw))
    };
    match (read.await, key) {
        // The key says more exactly what is wrong with it.
        (Err(problem), Err(why)) if problem.code() == Code::KeyMissing => Err(why),
        (read, _) => read,
    }
}

/// Checks that the request has a key that may send events of this hook: one of the service with its name. An admin key has no
/// place in the settings of a service outside.
async fn check_key(app: &AppState, headers: &HeaderMap, hook: &str) -> Result<(), Problem> {
    match authenticate(app, headers).await?.credential.scope {
        Scope::Service(service) if service == hook => Ok(()),
        _ => {
            let problem = Problem::new(Code::Forbidden, "this key may not send events of this hook");
            Err(problem.hint(format!("create one with the scope `service:{hook}`")))
        }
    }
}

/// All headers whose values are text.
fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    headers.iter().filter_map(text).collect()
}

async fn accept(app: Arc<AppState>, new: NewHookDelivery) -> Result<WriteResponse<HookAnswer>, Problem> {
    run_to_completion(async move {
        let id = new.event.id.clone();
        let of = |outcome: HookOutcome| HookAnswer { outcome: outcome.as_str().to_owned(), challenge: None };
        match app.ports.hook_book.deliver(new).await? {
            HookAccepted::Fresh { agents, wake } => {
                failpoint::hit!("accept.committed");
                app.node.signal(&wake);
                for agent in agents {
                    publish_progress(&app, agent, id.clone(), EventProgress::Waiting);
                }
                Ok(WriteResponse::Accepted(of(HookOutcome::Accepted)))
            }
            HookAccepted::Duplicate => Ok(WriteResponse::Existing(of(HookOutcome::Duplicate))),
            HookAccepted::Conflict => Err(key_reused()),
            // The sender is not told which agents there are.
            HookAccepted::Denied(Denial::InboxFull(_)) => {
                let why = "an agent of this hook has no room for more events now";
                Err(Problem::new(Code::InboxFull, why).hint("deliver it again later"))
            }
            HookAccepted::Denied(_) => {
                let why = "no agent of this hook takes events any more";
                Err(Problem::new(Code::AgentRetired, why))
            }
        }
    })
    .await
}

/// Adds a refusal to the log that strangers can cause. What they send hides no refusal of another code.
async fn note_unverified(app: &AppState, hook: String, problem: &Problem) {
    let unlisted = app.refusals.listed(&hook, problem.code(), app.ports.clock.monotonic_ms());
    let detail = match unlisted {
        None => return,
        Some(0) => reason(problem),
        Some(count) => format!("{}; {count} more since the last that is listed", reason(problem)),
    };
    note(app, hook, HookOutcome::Unverified, None, Some(detail)).await;
}

/// Why a delivery was refused, as the log has it.
fn reason(problem: &Problem) -> String {
    let reason = format!("{}: {}", problem.code().as_str(), problem.detail());
    reason.chars().take(limits::HOOK_DETAIL_MAX_CHARS).collect()
}

/// Adds a delivery without events to the log. Its answer does not depend on that.
async fn note(
    app: &AppState,
    hook: String,
    outcome: HookOutcome,
    delivery: Option<String>,
    detail: Option<String>,
) {
    let at = app.ports.clock.now();
    let line = HookDelivery { at, delivery, outcome, detail, event: None, agents: Vec::new() };
    if let Err(error) = app.ports.hook_book.note_delivery(hook, line).await {
        tracing::debug!(%error, "a delivery was not written to the log of its hook");
    }
}

fn problem(refusal: &HookRefusal) -> Problem {
    let (code, hint) = match refusal {
        HookRefusal::Type(_) => (Code::NotJson, Some("choose JSON in the settings of the service")),
        HookRefusal::Unready(_) => (
            Code::HookUnready,
            Some("its operator gives it one: its `secrets` are names of secrets of the server"),
        ),
        HookRefusal::KeyWanted => (Code::KeyMissing, None),
        HookRefusal::Unsigned(_) => (Code::SignatureMissing, None),
        HookRefusal::Forged(_) => {
            (Code::SignatureInvalid, Some("is it the secret of this hook, and is the body sent unchanged?"))
        }
        HookRefusal::Old(_) => (Code::SignatureOld, None),
        HookRefusal::Unreadable(_) => (Code::BadDelivery, None),
        HookRefusal::Unmapped(_) => {
            (Code::HookTemplate, Some("its operator corrects the template; deliver it again then"))
        }
    };
    let problem = Problem::new(code, refusal.to_string());
    match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

async fn find(app: &AppState, name: &str) -> Result<StoredHook, Problem> {
    let found = app.ports.hook_book.hook(name.to_owned()).await?;
    found.ok_or_else(|| Problem::not_found("hook", name))
}

async fn hook_json(app: &AppState, hook: StoredHook) -> Result<HookJson, Problem> {
    let StoredHook { name, declaration, agents, at } = hook;
    let missing_secrets = app.ports.hooks.missing_secrets(&declaration).await.into_iter().collect();
    let (mut agent_handles, mut retired_agents) = (Vec::new(), Vec::new());
    for id in agents.iter().copied() {
        let handle = handle_of(app, id).await?;
        // One that cannot be read is not retired, and hides no hook.
        let card = app.ports.reader.agent(id).await.ok().flatten();
        if card.is_some_and(|card| card.standing == Standing::Retired) {
            retired_agents.push(id);
        }
        agent_handles.push(handle);
    }
    let text = |key: &str| declaration[key].as_str().map(str::to_owned);
    let secrets = declaration["secrets"].as_array().into_iter().flatten();
    Ok(HookJson {
        name,
        kind: text("kind").unwrap_or_default(),
        secrets: secrets.filter_map(Value::as_str).map(str::to_owned).collect(),
        header: text("header"),
        agents,
        agent_handles,
        retired_agents,
        template: text("template").or_else(|| text("event")).unwrap_or_default(),
        only_if: text("only_if"),
        urgent: text("urgent"),
        trusted: declaration["trusted"] == true,
        missing_secrets,
        at,
    })
}
