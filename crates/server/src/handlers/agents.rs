//! Agents: make, look at, change, suspend, resume, retire, cancel.

use std::time::Duration;

use agent::config::AgentConfig;
use agent::entity::handle;
use agent::event::Principal;
use agent::id::{AgentId, CycleId, EntityId};
use agent::life::Standing;
use agent::limits;
use agent::port::{AgentCard, Denial, RegistryError, StoreError};
use agent::update::AgentState;
use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde_json::Value;

use crate::api::{Agent, AgentChange, AgentQuery, CancelRequest, Canceled, NewAgentJson, PageJson};
use crate::app_state::{AppState, HallState};
use crate::auth::Caller;
use crate::extract::{At, Body, MaybeBody, Query, page, text, to_the_end};
use crate::problem::{Code, Made, Problem};

/// Makes an agent.
#[utoipa::path(post, path = "/v1/agents", tag = "agents", request_body = NewAgentJson,
    responses((status = 201, description = "Made.", body = Agent)))]
pub(super) async fn create(State(app): HallState, body: Body<NewAgentJson>) -> Result<Made<Agent>, Problem> {
    let NewAgentJson { name, display_name, config } = body.value;
    let name = handle(&name)?;
    let display_name =
        text("display_name", display_name.unwrap_or_else(|| name.clone()), limits::DISPLAY_NAME_MAX_BYTES)?;
    let config = AgentConfig::from_json(&config.unwrap_or_else(|| Value::Object(serde_json::Map::new())))?;
    check_names(&app, &config)?;
    let id = AgentId(app.ports.ids.uuid());
    let new = agent::port::NewAgent { id, name, display_name, config, at: app.ports.clock.now() };
    to_the_end(async move {
        app.ports.registry.create_agent(new).await?;
        let made = card(&app, id).await?;
        let place = format!("/v1/agents/{}", made.id);
        Ok(Made::At(place, made))
    })
    .await
}

/// Agents by name, with what they do now, what they used and how they ended last.
#[utoipa::path(get, path = "/v1/agents", tag = "agents", params(AgentQuery),
    responses((status = 200, description = "A page.", body = PageJson<Agent>)))]
pub(super) async fn list(
    State(app): HallState,
    Query(query): Query<AgentQuery>,
) -> Result<Json<PageJson<Agent>>, Problem> {
    let found = app.ports.reader.agents(page(query.cursor, query.limit)?).await?;
    let now = app.ports.clock.now();
    let brief = query.brief.unwrap_or(false);
    Ok(Json(PageJson::of(found, |card| {
        let agent = shown(&app, card, now);
        // Instructions may be long, and whoever looks every few seconds needs none.
        if brief { Agent { config: Value::Null, ..agent } } else { agent }
    })))
}

/// One agent.
#[utoipa::path(get, path = "/v1/agents/{agent}", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The agent.", body = Agent)))]
pub(super) async fn get(State(app): HallState, At(name): At<String>) -> Result<Json<Agent>, Problem> {
    let card = agent_called(&app, &name).await?;
    Ok(Json(shown(&app, card, app.ports.clock.now())))
}

/// Changes an agent. A changed config is live at its next cycle.
#[utoipa::path(patch, path = "/v1/agents/{agent}", tag = "agents", request_body = AgentChange,
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The agent as it is now.", body = Agent)))]
pub(super) async fn amend(
    State(app): HallState,
    At(name): At<String>,
    body: Body<AgentChange>,
) -> Result<Json<Agent>, Problem> {
    let AgentChange { display_name, config } = body.value;
    let found = agent_called(&app, &name).await?;
    let display_name =
        display_name.map(|value| text("display_name", value, limits::DISPLAY_NAME_MAX_BYTES)).transpose()?;
    if let Some(patch) = &config {
        check_names(&app, &found.config.amended(patch)?)?;
    }
    let id = found.id;
    let now = app.ports.clock.now();
    to_the_end(async move {
        let configured = config.is_some();
        let amended = app.ports.registry.amend_agent(id, display_name, config, now).await;
        if let Err(error) = amended {
            return Err(refused(&app, error, id, &found.entity.name).await);
        }
        if configured {
            app.node.reconsider(id);
        }
        Ok(Json(card(&app, id).await?))
    })
    .await
}

/// Suspends an agent: nothing opens, events keep waiting, an open cycle parks. Once this is answered no request to a
/// model begins for it; a request without any reply yet is dropped, a reply that has begun is read to its end.
#[utoipa::path(post, path = "/v1/agents/{agent}/suspend", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The agent as it is now.", body = Agent)))]
pub(super) async fn suspend(app: HallState, name: At<String>) -> Result<Json<Agent>, Problem> {
    stand(app, name, Standing::Suspended).await
}

/// Resumes a suspended agent. One that backs off, suspended or not, retries at once, and asks its provider even
/// while its circuit breaker is open.
#[utoipa::path(post, path = "/v1/agents/{agent}/resume", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The agent as it is now.", body = Agent)))]
pub(super) async fn resume(app: HallState, name: At<String>) -> Result<Json<Agent>, Problem> {
    stand(app, name, Standing::Active).await
}

/// Retires an agent for good; its history is kept.
#[utoipa::path(post, path = "/v1/agents/{agent}/retire", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The agent as it is now.", body = Agent)))]
pub(super) async fn retire(app: HallState, name: At<String>) -> Result<Json<Agent>, Problem> {
    stand(app, name, Standing::Retired).await
}

async fn stand(
    State(app): HallState,
    At(name): At<String>,
    standing: Standing,
) -> Result<Json<Agent>, Problem> {
    let found = agent_called(&app, &name).await?;
    let id = found.id;
    let name = found.entity.name;
    let now = app.ports.clock.now();
    to_the_end(async move {
        if let Err(error) = app.ports.registry.set_standing(id, standing, now).await {
            return Err(refused(&app, error, id, &name).await);
        }
        match standing {
            Standing::Active => app.node.resume(id),
            Standing::Suspended | Standing::Retired => {
                app.node.suspend(id);
                // The answer is a promise: wait until the request under way is dropped or being answered.
                let timeout = app.ports.clock.sleep(Duration::from_millis(limits::SUSPEND_WAIT_MS));
                tokio::select! {
                    () = app.node.asks_nothing(id) => {}
                    () = timeout => {}
                }
            }
        }
        Ok(Json(card(&app, id).await?))
    })
    .await
}

/// Why an agent cannot be changed. Where a record of its own cannot be read it is quarantined, as it would be at
/// its next activation.
async fn refused(app: &AppState, error: RegistryError, id: AgentId, name: &str) -> Problem {
    let torn = match &error {
        RegistryError::Store(StoreError::Damaged(why)) if why.contains(&id.to_string()) => Some(why.clone()),
        _ => None,
    };
    let problem = Problem::from(error).calls(&id, name);
    let Some(why) = torn else { return problem };
    if let Err(error) = app.ports.store.quarantine(id, why).await {
        return error.into();
    }
    problem.hint(format!(
        "`{name}` is set apart and all others live on: `viv verify` lists what is wrong, `viv restore` puts a backup \
         in place, `viv agents retire {name} --yes` ends it"
    ))
}

/// Cancels the open cycle of an agent. Its generation stops; what it committed stays. With an entity's key
/// only a cycle that answers something of that entity.
#[utoipa::path(post, path = "/v1/agents/{agent}/cancel", tag = "agents", request_body = Option<CancelRequest>,
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The cycle that will end.", body = Canceled)))]
pub(super) async fn cancel(
    State(app): HallState,
    At(name): At<String>,
    caller: Caller,
    MaybeBody(mut body): MaybeBody<CancelRequest>,
) -> Result<Json<Canceled>, Problem> {
    let card = match caller.entity() {
        None => agent_called(&app, &name).await?,
        Some(entity) => {
            // A stranger is not told which agents there are, nor what they do.
            let card = agent_called(&app, &name).await.map_err(|_| not_yours())?;
            body.cycle = Some(own_cycle(&app, &card, entity, body.cycle).await?);
            card
        }
    };
    let id = card.id;
    let name = card.entity.name;
    to_the_end(async move {
        let cycle = app.ports.registry.cancel(id, body.cycle).await;
        let cycle = cycle.map_err(|error| Problem::from(error).calls(&id, &name))?;
        app.node.look(id);
        Ok(Json(Canceled { cycle }))
    })
    .await
}

fn not_yours() -> Problem {
    let detail = "only a person whom the cycle answers may cancel it; otherwise use an admin key";
    Problem::new(Code::Forbidden, detail)
}

/// The open cycle of the agent where it lives something of this entity. Named to the store, so that it is
/// none that opens meanwhile.
async fn own_cycle(
    app: &AppState,
    card: &AgentCard,
    entity: EntityId,
    wanted: Option<CycleId>,
) -> Result<CycleId, Problem> {
    if !app.ports.reader.share_a_space(card.entity.id, entity).await? {
        return Err(not_yours());
    }
    let open = card.open.as_ref().filter(|open| wanted.is_none_or(|wanted| wanted == open.id));
    let none = if wanted.is_some() { Denial::OtherCycle(card.id) } else { Denial::NoOpenCycle(card.id) };
    let open = open.ok_or_else(|| Problem::from(none).calls(&card.id, &card.entity.name))?;
    let asked = open.requesters.iter().any(|one| one.principal == Principal::Entity(entity));
    if asked { Ok(open.id) } else { Err(not_yours()) }
}

async fn card(app: &AppState, id: AgentId) -> Result<Agent, Problem> {
    let card = app.ports.reader.agent(id).await?;
    let card = card.ok_or_else(|| Problem::not_found("agent", &id.to_string()))?;
    Ok(shown(app, card, app.ports.clock.now()))
}

/// What an agent does now.
pub(crate) struct Doing {
    pub(crate) state: AgentState,
    /// The class of why it sleeps.
    pub(crate) reason: Option<&'static str>,
    /// The same in words, a vendor's perhaps.
    pub(crate) why: Option<String>,
    /// Until when, where that is known.
    pub(crate) until: Option<Timestamp>,
}

/// What an agent does now: derived from its rows and from what is live on this node.
pub(crate) fn state_of(app: &AppState, card: &AgentCard, now: Timestamp) -> Doing {
    let live = app.node.live();
    let kept_back = card.not_before.filter(|until| *until > now);
    let doing = |state| Doing { state, reason: None, why: None, until: kept_back };
    if card.standing == Standing::Retired {
        return doing(AgentState::Retired);
    }
    if let Some(activity) = live.activity(card.id)
        && activity.state != AgentState::Sleeping
    {
        return doing(activity.state);
    }
    let asleep = |reason, why| Doing { state: AgentState::Sleeping, reason, why, until: kept_back };
    match card.idle_reason.zip(kept_back) {
        _ if card.damage.is_some() => asleep(Some("damaged"), None),
        _ if card.standing == Standing::Suspended => asleep(Some("suspended"), None),
        Some((reason, until)) => asleep(Some(reason.as_str()), live.why(card.id, until)),
        None => match live.waits(card.id) {
            Some(wait) => Doing { until: wait.until(), ..asleep(Some(wait.class()), Some(wait.words())) },
            None => asleep(None, None),
        },
    }
}

/// The cycle that an agent lives or has open.
pub(crate) fn cycle_of(app: &AppState, card: &AgentCard) -> Option<CycleId> {
    let live = app.node.live().activity(card.id).map(|activity| activity.cycle);
    live.or_else(|| card.open.as_ref().map(|open| open.id))
}

fn shown(app: &AppState, card: AgentCard, now: Timestamp) -> Agent {
    let Doing { state, reason, why, until } = state_of(app, &card, now);
    let cycle = cycle_of(app, &card);
    let named = card.config.model.clone();
    let model = app.ports.models.model(named.as_deref()).ok();
    Agent {
        id: card.id,
        name: card.entity.name,
        display_name: card.entity.display_name,
        description: card.config.description.clone(),
        state,
        reason: reason.map(str::to_owned),
        why,
        standing: card.standing,
        model: model.map(|model| model.info().name.clone()).or(named),
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
        last: card.last.map(Into::into),
        next_plan: card.next_plan,
        damage: card.damage,
    }
}

/// Whether the models and tools that a config names exist.
fn check_names(app: &AppState, config: &AgentConfig) -> Result<(), Problem> {
    for (key, model) in config.named_models() {
        if let Err(error) = app.ports.models.model(Some(model)) {
            return Err(Problem::new(Code::NoSuchModel, format!("`{key}` names `{model}`: {error}")));
        }
    }
    match config.unknown_tools(&app.ports.toolbox.names()).into_iter().next() {
        Some((_, what, hint)) => Err(Problem::new(Code::NoSuchTool, what).hint(hint)),
        None => Ok(()),
    }
}

/// The agent with that id or handle.
pub(super) async fn agent_called(app: &AppState, name: &str) -> Result<AgentCard, Problem> {
    let missing = || Problem::not_found("agent", name);
    let id: AgentId = match name.parse() {
        Ok(id) => id,
        Err(_) => match app.ports.reader.entity(name.to_owned()).await? {
            Some(entity) if entity.kind == agent::entity::EntityKind::Agent => entity.id.agent(),
            _ => return Err(missing()),
        },
    };
    app.ports.reader.agent(id).await?.ok_or_else(missing)
}
