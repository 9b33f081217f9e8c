//! Agents: create, read, change, suspend, resume, retire, cancel.

use std::time::Duration;

use agent::approver::Approver;
use agent::config::AgentConfig;
use agent::entity::EntityKind;
use agent::event::Principal;
use agent::id::{AgentId, CycleId, EntityId};
use agent::life::{IdleReason, Standing};
use agent::limits;
use agent::port::{AgentCard, AgentTools, Denial, Page, RegistryError, StoreError};
use agent::quote;
use agent::update::AgentState;
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde_json::Value;

use super::denied::{denied, refused};
use crate::app_state::{AppState, SharedState};
use crate::auth::Caller;
use crate::extract::{Named, Optional, PathParam, Sent, bounded_text, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done, Once};
use crate::problem::{Code, Problem, WriteResponse};
use api::{Agent, AgentChange, AgentQuery, CancelRequest, Canceled, NewAgentJson, PageJson};

/// Creates an agent.
#[utoipa::path(post, path = "/v1/agents", tag = "agents", request_body = NewAgentJson,
    responses((status = 201, description = "The new agent.", body = Agent),
              (status = 200, description = "The agent was created before by this request.", body = Agent)))]
pub(super) async fn create(
    State(app): SharedState,
    Change { body: Sent(new), once }: Change<Sent<NewAgentJson>>,
) -> Result<Done<WriteResponse<Agent>>, Problem> {
    let NewAgentJson { handle, display_name, config } = new;
    let name = agent::entity::handle(&handle)?;
    let display_name = bounded_text(
        "display_name",
        display_name.unwrap_or_else(|| name.clone()),
        limits::DISPLAY_NAME_MAX_BYTES,
    )?;
    let config = AgentConfig::from_json(&config.unwrap_or_else(|| Value::Object(serde_json::Map::new())))?;
    check_names(&app, &config).await?;
    let fresh = app.ports.ids.uuid();
    let new =
        agent::port::NewAgent { id: AgentId(fresh), name, display_name, config, at: app.ports.clock.now() };
    run_to_completion(async move {
        let app = &app;
        let make = async move |id| {
            app.ports.registry.create_agent(agent::port::NewAgent { id: AgentId(id), ..new }).await?;
            let created = card(app, AgentId(id)).await?;
            let location = format!("/v1/agents/{}", created.id);
            Ok(WriteResponse::Created(location, created))
        };
        let find = async |id| match app.ports.reader.agent(AgentId(id)).await? {
            Some(card) => Ok(Some(agent_json(app, card, app.ports.clock.now()).await?)),
            None => Ok(None),
        };
        once.create(fresh, make, find).await
    })
    .await
}

/// Lists agents by name, each with its state, its usage and its last run.
#[utoipa::path(get, path = "/v1/agents", tag = "agents", params(AgentQuery),
    responses((status = 200, description = "A page of agents.", body = PageJson<Agent>)))]
pub(super) async fn list(State(app): SharedState, list: List<AgentQuery>) -> Result<Listed<Agent>, Problem> {
    let Page { items: cards, next } =
        app.ports.reader.agents(list.filters.standing, list.page.clone()).await?;
    let now = app.ports.clock.now();
    let brief = list.filters.brief.unwrap_or(false);
    let mut items = Vec::with_capacity(cards.len());
    for card in cards {
        let agent = agent_json(&app, card, now).await?;
        // Configs contain long instructions, which a client that polls does not need.
        items.push(if brief { Agent { config: Value::Null, ..agent } } else { agent });
    }
    Ok(list.answer(Page { items, next }, |agent| agent))
}

/// Returns an agent.
#[utoipa::path(get, path = "/v1/agents/{agent}", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The agent.", body = Agent)))]
pub(super) async fn get(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
) -> Result<Json<Agent>, Problem> {
    let card = find_agent(&app, &name).await?;
    Ok(Json(agent_json(&app, card, app.ports.clock.now()).await?))
}

/// Changes an agent. A changed config takes effect in the agent's next cycle, some keys at once.
#[utoipa::path(patch, path = "/v1/agents/{agent}", tag = "agents", request_body = AgentChange,
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The agent as it is now.", body = Agent)))]
pub(super) async fn change_agent(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { body: Sent(change), once }: Change<Sent<AgentChange>>,
) -> Result<Done<Json<Agent>>, Problem> {
    let AgentChange { display_name, config } = change;
    let found = find_agent(&app, &name).await?;
    let display_name = display_name
        .map(|value| bounded_text("display_name", value, limits::DISPLAY_NAME_MAX_BYTES))
        .transpose()?;
    if let Some(patch) = &config {
        check_names(&app, &found.config.amended(patch)?).await?;
    }
    let id = found.id;
    let now = app.ports.clock.now();
    run_to_completion(async move {
        let configured = config.is_some();
        let run = async || {
            let amended = app.ports.registry.amend_agent(id, display_name, config, now).await;
            if let Err(error) = amended {
                return Err(change_error(&app, error, id, &found.entity.name).await);
            }
            if configured {
                app.node.retry(id);
            }
            Ok(Json(card(&app, id).await?))
        };
        once.change(run, async || Ok(Json(card(&app, id).await?))).await
    })
    .await
}

/// Suspends an agent. It opens no cycle, its events keep waiting, and an open cycle pauses. After the response the
/// agent starts no request to a model: a request without any reply yet is aborted, a reply that has begun is read
/// to its end.
#[utoipa::path(post, path = "/v1/agents/{agent}/suspend", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The agent as it is now.", body = Agent)))]
pub(super) async fn suspend(
    app: SharedState,
    name: PathParam<Named>,
    change: Change<()>,
) -> Result<Done<Json<Agent>>, Problem> {
    change_standing(app, change.once, name, Standing::Suspended).await
}

/// Resumes a suspended agent. If the agent is backing off, suspended or not, it retries at once, even if the circuit
/// breaker of its model provider is open.
#[utoipa::path(post, path = "/v1/agents/{agent}/resume", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The agent as it is now.", body = Agent)))]
pub(super) async fn resume(
    app: SharedState,
    name: PathParam<Named>,
    change: Change<()>,
) -> Result<Done<Json<Agent>>, Problem> {
    change_standing(app, change.once, name, Standing::Active).await
}

/// Retires an agent. This cannot be undone; the agent's history is kept.
#[utoipa::path(post, path = "/v1/agents/{agent}/retire", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The agent as it is now.", body = Agent)))]
pub(super) async fn retire(
    app: SharedState,
    name: PathParam<Named>,
    change: Change<()>,
) -> Result<Done<Json<Agent>>, Problem> {
    change_standing(app, change.once, name, Standing::Retired).await
}

async fn change_standing(
    State(app): SharedState,
    once: Once,
    PathParam(name): PathParam<Named>,
    standing: Standing,
) -> Result<Done<Json<Agent>>, Problem> {
    let found = find_agent(&app, &name).await?;
    let id = found.id;
    let name = found.entity.name;
    run_to_completion(async move {
        let run = async || {
            set_standing(&app, id, &name, standing).await?;
            Ok(Json(card(&app, id).await?))
        };
        once.change(run, async || Ok(Json(card(&app, id).await?))).await
    })
    .await
}

async fn set_standing(app: &AppState, id: AgentId, name: &str, standing: Standing) -> Result<(), Problem> {
    if let Err(error) = app.ports.registry.set_standing(id, standing, app.ports.clock.now()).await {
        return Err(change_error(app, error, id, name).await);
    }
    match standing {
        Standing::Active => app.node.resume(id),
        Standing::Suspended | Standing::Retired => {
            app.node.suspend(id);
            // The response promises that no request starts: wait until a running one is aborted or replied to.
            let timeout = app.ports.clock.sleep(Duration::from_millis(limits::SUSPEND_WAIT_MS));
            tokio::select! {
                () = app.node.no_pending_request(id) => {}
                () = timeout => {}
            }
        }
    }
    Ok(())
}

/// The error of a change that failed. If one of the agent's own records cannot be read, the agent is quarantined, as
/// it would be at its next activation.
async fn change_error(app: &AppState, error: RegistryError, id: AgentId, name: &str) -> Problem {
    let damage = match &error {
        RegistryError::Store(StoreError::Damaged(why)) if why.contains(&id.to_string()) => Some(why.clone()),
        _ => None,
    };
    let problem = refused(app, error).await.with_name(&id, name);
    let Some(why) = damage else { return problem };
    if let Err(error) = app.ports.store.quarantine(id, why).await {
        return error.into();
    }
    problem.hint(format!(
        "`{name}` is quarantined; all other agents keep running. Restore a backup, or retire the agent"
    ))
}

/// Cancels the open cycle of an agent. The generation stops; what the cycle has committed stays. With a person's
/// key only a cycle that is processing an event of this person can be canceled.
#[utoipa::path(post, path = "/v1/agents/{agent}/cancel", tag = "agents", request_body = Option<CancelRequest>,
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The cycle that is being canceled.", body = Canceled)))]
pub(super) async fn cancel(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    caller: Caller,
    Change { body: Optional(CancelRequest { cycle }), once }: Change<Optional<CancelRequest>>,
) -> Result<Done<WriteResponse<Canceled>>, Problem> {
    let found = find_agent(&app, &name).await;
    let (card, wanted) = match (caller.entity(), once.noted()) {
        (None, _) => (found?, cycle),
        // By now the cycle has probably ended: it would be refused as one that the caller may not cancel.
        (Some(_), Some(cycle)) => (found?, Some(CycleId(cycle))),
        (Some(entity), None) => {
            // A caller without access must not learn which agents exist, nor what they are doing.
            let card = found.map_err(|_| not_own_cycle())?;
            let own = own_cycle(&app, &card, entity, cycle).await?;
            (card, Some(own))
        }
    };
    let id = card.id;
    // The cycle is noted before it is canceled: a repeat must not cancel the next one.
    let cycle = match once.noted() {
        Some(cycle) => CycleId(cycle),
        None => wanted_cycle(&app, &card, wanted).await?,
    };
    run_to_completion(async move {
        let make = async |cycle| match cancel_cycle(&app, id, CycleId(cycle)).await {
            Ok(cycle) => Ok(WriteResponse::Existing(Canceled { cycle })),
            Err(error) => Err(refused(&app, error).await),
        };
        // Cancels the cycle that the same request named or found before, if that is still open.
        let find = async |cycle| {
            let cycle = CycleId(cycle);
            match cancel_cycle(&app, id, cycle).await {
                Ok(_) | Err(RegistryError::Denied(Denial::OtherCycle(_) | Denial::NoOpenCycle(_))) => {
                    Ok(Some(Canceled { cycle }))
                }
                Err(error) => Err(refused(&app, error).await),
            }
        };
        once.create(cycle.0, make, find).await
    })
    .await
}

async fn cancel_cycle(app: &AppState, id: AgentId, cycle: CycleId) -> Result<CycleId, RegistryError> {
    let cycle = app.ports.registry.cancel(id, Some(cycle)).await?;
    app.node.recheck(id);
    Ok(cycle)
}

/// The agent's open cycle, if it is the wanted one.
async fn wanted_cycle(app: &AppState, card: &AgentCard, wanted: Option<CycleId>) -> Result<CycleId, Problem> {
    let open = card.open.as_ref().map(|open| open.id).filter(|open| wanted.is_none_or(|one| one == *open));
    let none = if wanted.is_some() { Denial::OtherCycle(card.id) } else { Denial::NoOpenCycle(card.id) };
    match open {
        Some(open) => Ok(open),
        None => Err(denied(app, none).await),
    }
}

fn not_own_cycle() -> Problem {
    let detail = "with this key you can cancel only a cycle that processes your own events; use an admin key";
    Problem::new(Code::Forbidden, detail)
}

/// The id of the agent's open cycle, if it is processing an event of this entity. The store is given this id, so that
/// it does not cancel another cycle that opens in the meantime.
async fn own_cycle(
    app: &AppState,
    card: &AgentCard,
    entity: EntityId,
    wanted: Option<CycleId>,
) -> Result<CycleId, Problem> {
    if !app.ports.reader.share_a_space(card.entity.id, entity).await? {
        return Err(not_own_cycle());
    }
    let cycle = wanted_cycle(app, card, wanted).await?;
    let mut requesters = card.open.iter().flat_map(|open| &open.requesters);
    let asked = requesters.any(|one| one.principal == Principal::Entity(entity));
    if asked { Ok(cycle) } else { Err(not_own_cycle()) }
}

async fn card(app: &AppState, id: AgentId) -> Result<Agent, Problem> {
    let card = app.ports.reader.agent(id).await?;
    let card = card.ok_or_else(|| Problem::not_found("agent", &id.to_string()))?;
    agent_json(app, card, app.ports.clock.now()).await
}

/// What an agent is doing now.
pub(crate) struct CurrentState {
    pub(crate) state: AgentState,
    /// The code of the reason why it sleeps, or makes no progress.
    pub(crate) reason: Option<&'static str>,
    /// The reason as text, possibly from the model provider.
    pub(crate) why: Option<String>,
    /// When it continues, if that is known.
    pub(crate) until: Option<Timestamp>,
}

/// What an agent is doing now, derived from its rows in the store and from the live state of this node.
pub(crate) fn current_state(app: &AppState, card: &AgentCard, now: Timestamp) -> CurrentState {
    let live = app.node.live();
    let not_before = card.not_before.filter(|until| *until > now);
    let in_state = |state| CurrentState { state, reason: None, why: None, until: not_before };
    if card.standing == Standing::Retired {
        return in_state(AgentState::Retired);
    }
    if let Some(activity) = live.activity(card.id)
        && activity.state != AgentState::Sleeping
    {
        let delay = activity.delay.map(|delay| (delay.kind.as_str(), delay.why)).unzip();
        return CurrentState { reason: delay.0, why: delay.1, ..in_state(activity.state) };
    }
    let asleep = |reason, why| CurrentState { state: AgentState::Sleeping, reason, why, until: not_before };
    match card.idle_reason.zip(not_before) {
        _ if card.damage.is_some() => asleep(Some("damaged"), None),
        _ if card.standing == Standing::Suspended => asleep(Some("suspended"), None),
        Some((IdleReason::Person, _)) => {
            CurrentState { reason: Some(IdleReason::Person.as_str()), ..in_state(AgentState::Paused) }
        }
        Some((reason, until)) => asleep(Some(reason.as_str()), live.idle_reason(card.id, until)),
        None => match live.waiting_for(card.id) {
            Some(wait) => {
                CurrentState { until: wait.until(), ..asleep(Some(wait.class()), Some(wait.describe())) }
            }
            None => asleep(None, None),
        },
    }
}

/// The cycle that an agent is running or has open.
pub(crate) fn cycle_of(app: &AppState, card: &AgentCard) -> Option<CycleId> {
    let live = app.node.live().activity(card.id).map(|activity| activity.cycle);
    live.or_else(|| card.open.as_ref().map(|open| open.id))
}

pub(super) async fn agent_json(app: &AppState, card: AgentCard, now: Timestamp) -> Result<Agent, Problem> {
    let unmatched = unmatched(app, &card).await?;
    let CurrentState { state, reason, why, until } = current_state(app, &card, now);
    let cycle = cycle_of(app, &card);
    let calls = app.node.live().activity(card.id).map(|activity| activity.calls).unwrap_or_default();
    let running_tools = calls.into_iter().map(|(_, tool)| tool).collect();
    let named = card.config.model.clone();
    let model = app.ports.models.model(named.as_deref()).ok();
    let tools = AgentTools::of(&*app.ports.toolbox, &*app.ports.models, &card.config);
    Ok(Agent {
        id: card.id,
        handle: card.entity.name,
        display_name: card.entity.display_name,
        description: card.config.description.clone(),
        state,
        reason: reason.map(str::to_owned),
        why,
        running_tools,
        standing: card.standing,
        model: model.map(|model| model.info().name.clone()).or(named),
        guard: <&str>::from(card.config.guard).to_owned(),
        tools_left_out: tools.left_out,
        unmatched,
        config: card.config.to_json(),
        config_rev: card.config_rev,
        cycle,
        waiting: card.waiting,
        held: card.held,
        cycles: card.cycles,
        skips: card.skips,
        usage: card.usage.into(),
        not_before: until,
        active_space: card.active_space,
        created_at: card.entity.created_at,
        commit_n: card.commit_n,
        cost_micros: card.cost_micros,
        unpriced: card.unpriced,
        last_run: card.last.map(Into::into),
        next_plan_at: card.next_plan,
        damage: card.damage,
        dead_events: card.dead.map(Into::into),
    })
}

/// What the config of a living agent names although it does not exist now: it may have been there when the config was checked.
async fn unmatched(app: &AppState, card: &AgentCard) -> Result<Vec<String>, Problem> {
    if card.standing == Standing::Retired {
        return Ok(Vec::new());
    }
    let mut found = card.config.unmatched_tools(&app.ports.toolbox.names());
    for entry in &card.config.approvers {
        let why = not_an_approver(app, entry).await?;
        found.extend(why.map(|why| format!("`approvers`: `{}` {why}", quote::one_line(entry))));
    }
    Ok(found)
}

/// Why an entry of `approvers` names no person, if it names one person and not a role.
async fn not_an_approver(app: &AppState, entry: &str) -> Result<Option<&'static str>, Problem> {
    let Some(handle) = Approver::of(entry).handle() else { return Ok(None) };
    let found = app.ports.reader.entity(handle.to_owned()).await?;
    Ok(match found.map(|entity| entity.kind) {
        Some(EntityKind::Human) => None,
        Some(EntityKind::Agent) => Some("is an agent; only people approve"),
        None => Some("is nobody"),
    })
}

/// Whether the models, tools and people that a config names exist.
async fn check_names(app: &AppState, config: &AgentConfig) -> Result<(), Problem> {
    for (key, model) in config.named_models() {
        if let Err(error) = app.ports.models.model(Some(model)) {
            return Err(Problem::new(Code::NoSuchModel, format!("`{key}` names `{model}`: {error}")));
        }
    }
    let tools = app.ports.toolbox.names();
    if let Some((_, what, hint)) = config.unknown_tools(&tools).into_iter().next() {
        return Err(Problem::new(Code::NoSuchTool, what).hint(hint));
    }
    let effect = |name: &str| app.ports.toolbox.tool(name).map(|tool| tool.spec().effect);
    if let Some((what, hint)) = config.never_asked(&tools, effect) {
        return Err(Problem::new(Code::BadConfig, what).hint(hint));
    }
    for entry in &config.approvers {
        let Some(why) = not_an_approver(app, entry).await? else { continue };
        let detail = format!("`approvers`: `{}` {why}", quote::one_line(entry));
        let hint = "name people by their handles, or those with a role as `role:NAME`";
        return Err(Problem::new(Code::BadConfig, detail).hint(hint));
    }
    match AgentTools::of(&*app.ports.toolbox, &*app.ports.models, config).too_many() {
        Some((what, hint)) => Err(Problem::new(Code::BadConfig, what).hint(hint)),
        None => Ok(()),
    }
}

/// The handle of an agent that exists.
pub(super) async fn handle_of(app: &AppState, agent: AgentId) -> Result<String, Problem> {
    let found = app.ports.reader.entity(agent.entity().to_string()).await?;
    let found = found.ok_or_else(|| Problem::not_found("agent", &agent.to_string()))?;
    Ok(found.name)
}

/// The agent with that id or handle, which must not be retired.
pub(super) async fn find_living_agent(app: &AppState, name: &str) -> Result<AgentCard, Problem> {
    let card = find_agent(app, name).await?;
    match card.standing {
        Standing::Retired => {
            let detail = format!("the agent `{}` is retired", card.entity.name);
            Err(Problem::new(Code::AgentRetired, detail).hint("name an agent that is not"))
        }
        Standing::Active | Standing::Suspended => Ok(card),
    }
}

/// The agent with that id or handle.
pub(super) async fn find_agent(app: &AppState, name: &str) -> Result<AgentCard, Problem> {
    let missing = || Problem::not_found("agent", name);
    let id: AgentId = match name.parse() {
        Ok(id) => id,
        Err(_) => match app.ports.reader.entity(name.to_owned()).await? {
            Some(entity) if entity.kind == EntityKind::Agent => entity.id.agent(),
            _ => return Err(missing()),
        },
    };
    app.ports.reader.agent(id).await?.ok_or_else(missing)
}
