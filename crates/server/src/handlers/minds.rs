//! What an agent lived and knows: runs, consciousness, facts; and what its model would be sent.

use agent::cycle::{self, Cycle, Setup};
use agent::entry::View;
use agent::id::CycleId;
use agent::life::Window;
use agent::port::specs;
use axum::Json;
use axum::extract::State;
use runtime::Ports;

use super::agents::agent_called;
use super::messages::named;
use crate::api::{
    Consciousness, FactsJson, LogEntry, LogQuery, MindJson, PageJson, PageQuery, RunDetail, RunJson,
};
use crate::app_state::HallState;
use crate::extract::{At, Query, page, rows};
use crate::problem::{Code, Problem};

/// An agent's runs, newest first.
#[utoipa::path(get, path = "/v1/agents/{agent}/runs", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle."), PageQuery),
    responses((status = 200, description = "A page.", body = PageJson<RunJson>)))]
pub(super) async fn runs(
    State(app): HallState,
    At(name): At<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<PageJson<RunJson>>, Problem> {
    let which = page(query.cursor, query.limit)?;
    let agent = agent_called(&app, &name).await?.id;
    let found = app.ports.reader.runs(agent, which).await?;
    Ok(Json(PageJson::of(found, RunJson::from)))
}

/// One run with what it said.
#[utoipa::path(get, path = "/v1/runs/{run}", tag = "runs",
    params(("run" = String, Path, description = "Id of the run, which is its cycle's.")),
    responses((status = 200, description = "The run.", body = RunDetail)))]
pub(super) async fn run(State(app): HallState, At(id): At<String>) -> Result<Json<RunDetail>, Problem> {
    let missing = || Problem::not_found("run", &id);
    let cycle: CycleId = id.parse().map_err(|_| missing())?;
    let run = app.ports.reader.run(cycle).await?.ok_or_else(missing)?;
    let said = app.ports.reader.said_in(cycle).await?;
    Ok(Json(RunDetail { run: run.into(), messages: named(&app, said).await? }))
}

/// An agent's log, oldest first.
#[utoipa::path(get, path = "/v1/agents/{agent}/consciousness", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle."), LogQuery),
    responses((status = 200, description = "A part of it.", body = Consciousness)))]
pub(super) async fn consciousness(
    State(app): HallState,
    At(name): At<String>,
    Query(query): Query<LogQuery>,
) -> Result<Json<Consciousness>, Problem> {
    let limit = rows(query.limit)?;
    let agent = agent_called(&app, &name).await?.id;
    let entries = app.ports.reader.entries(agent, query.after.unwrap_or(0), limit).await?;
    let view = app.ports.reader.view(agent).await?.unwrap_or_else(View::whole);
    let full = entries.len() as u64 >= u64::from(limit);
    let next = entries.last().map(|entry| entry.seq).filter(|_| full);
    let total_tokens = entries.iter().map(|entry| u64::from(entry.tokens)).sum();
    let entries = entries.into_iter().map(|entry| {
        let agent::entry::Entry { seq, cycle, step, kind, message, tokens, at } = entry;
        LogEntry { seq, cycle, step, kind, message, tokens, at, in_view: view.shows(seq) }
    });
    Ok(Json(Consciousness { agent, entries: entries.collect(), total_tokens, next }))
}

/// What an agent knows apart from its log: spaces, memories, goals, plans.
#[utoipa::path(get, path = "/v1/agents/{agent}/facts", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "All of them.", body = FactsJson)))]
pub(super) async fn facts(State(app): HallState, At(name): At<String>) -> Result<Json<FactsJson>, Problem> {
    let agent = agent_called(&app, &name).await?.id;
    let facts = app.ports.reader.facts(agent).await?;
    Ok(Json(facts.ok_or_else(|| Problem::not_found("agent", &name))?.into()))
}

/// What an agent's model would be sent now, by layers. Nothing is woken or taken by looking.
#[utoipa::path(get, path = "/v1/agents/{agent}/mind", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The layers; their tokens and `free` make the window.", body = MindJson)))]
pub(super) async fn mind(State(app): HallState, At(name): At<String>) -> Result<Json<MindJson>, Problem> {
    let missing = || Problem::not_found("agent", &name);
    let agent = agent_called(&app, &name).await?.id;
    let Ports { store, clock, ids, models, toolbox, .. } = &app.ports;
    let now = clock.now();
    let mut activation = store.wake(agent, now, None).await?.ok_or_else(missing)?;
    let named = activation.config.model.clone();
    let model = models.model(named.as_deref()).map_err(|error| {
        let named = named.as_deref().unwrap_or("the server's default");
        Problem::new(Code::NoSuchModel, format!("cannot say what `{named}` would be sent: {error}"))
    })?;
    let model = model.info().clone();
    let window = match std::mem::replace(&mut activation.window, Window::Unchanged) {
        Window::Loaded(window) => window,
        Window::Unchanged => Vec::new(),
    };
    let tools = specs(&**toolbox, activation.config.tools.as_deref());
    let setup = Setup {
        tools,
        model: model.clone(),
        others: Vec::new(),
        fresh: CycleId(ids.uuid()),
        panicked: false,
    };
    let mind = Cycle::begin(activation, window, setup, now).mind(now);
    let counts = texts(&mind).map(|text| agent::tokens::estimate(&text));
    Ok(Json(MindJson::of(agent, &model, &mind, &counts)))
}

/// What is not counted yet: system, tools, summary, inbox, workspace.
fn texts(mind: &cycle::ContextPreview) -> [String; 5] {
    let tools = mind.prompt.tools.iter().map(|tool| {
        let schema: &serde_json::Value = &tool.schema;
        format!("{}\n{}\n{schema}\n", tool.name, tool.description)
    });
    [
        mind.prompt.system.to_string(),
        tools.collect(),
        mind.summary.clone().unwrap_or_default(),
        mind.inbox.as_ref().map(|entry| entry.message.countable()).unwrap_or_default(),
        mind.layers.iter().map(|layer| &*layer.text).collect(),
    ]
}
