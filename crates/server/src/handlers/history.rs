//! The history and state of an agent: runs, consciousness, facts, and the context that its model would be sent.

use std::sync::Arc;

use agent::cycle::{self, Cycle, Setup};
use agent::entry::View;
use agent::id::CycleId;
use agent::life::Window;
use agent::limits;
use agent::port::{
    AgentTools, CycleRef, Denial, PageRequest, RecallQuery, Recalled, RegistryError, RunFilter, Toolset,
    time_limit,
};
use agent::run::Trend;
use axum::Json;
use axum::extract::State;
use runtime::Ports;

use super::agents::{agent_json, find_agent, handle_of};
use super::messages::messages_json;
use crate::app_state::SharedState;
use crate::extract::{Exact, Named, PathParam, Query, bounded_text, limit_of};
use crate::listing::{List, Listed};
use crate::problem::{Code, Problem};
use api::{
    Agent, ContextJson, ExcerptJson, FactsJson, LogEntry, LogQuery, OpenCycleJson, PageJson, RecallParams,
    RecalledJson, RunDetail, RunJson, RunQuery, SentContextJson,
};

/// Lists the runs of an agent, newest first.
#[utoipa::path(get, path = "/v1/agents/{agent}/runs", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle."), RunQuery),
    responses((status = 200, description = "A page of runs.", body = PageJson<RunJson>)))]
pub(super) async fn runs(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    list: List<RunQuery>,
) -> Result<Listed<RunJson>, Problem> {
    let found = find_agent(&app, &name).await?;
    let (agent, handle) = (found.id, found.entity.name);
    let filter = RunFilter { ending: list.filters.ending, since: list.filters.since };
    let found = app.ports.reader.runs(agent, filter, list.page.clone()).await?;
    Ok(list.answer(found, |run| RunJson::of(run, handle.clone())))
}

/// Returns the open cycle of an agent: its steps and calls so far. When it ends, it is a run of the same id.
#[utoipa::path(get, path = "/v1/agents/{agent}/cycle", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The open cycle.", body = OpenCycleJson)))]
pub(super) async fn open_cycle(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
) -> Result<Json<OpenCycleJson>, Problem> {
    let card = find_agent(&app, &name).await?;
    let (agent, ordinal) = (card.id, card.cycles + 1);
    let Some(open) = app.ports.reader.open_cycle(agent).await? else {
        return Err(Problem::from(RegistryError::Denied(Denial::NoOpenCycle(agent)))
            .hint("`GET /v1/agents/{agent}/runs` lists the cycles that have ended"));
    };
    let at = app.ports.clock.now();
    let Agent { handle, state, why, model, .. } = agent_json(&app, card, at).await?;
    Ok(Json(OpenCycleJson {
        id: open.id,
        agent,
        agent_handle: handle,
        ordinal,
        woke_for: open.woke_for,
        events: u32::try_from(open.taken.len()).unwrap_or(u32::MAX).saturating_add(open.injected),
        opened_at: open.opened_at,
        at,
        state,
        why,
        steps: open.steps,
        usage: open.usage.into(),
        model,
        config_rev: open.config_rev,
    }))
}

/// Returns a run, with the messages that it posted.
#[utoipa::path(get, path = "/v1/runs/{run}", tag = "runs",
    params(("run" = String, Path, description = "Id of the run, which is the id of its cycle.")),
    responses((status = 200, description = "The run.", body = RunDetail)))]
pub(super) async fn run(
    State(app): SharedState,
    PathParam(id): PathParam<Exact>,
) -> Result<Json<RunDetail>, Problem> {
    let missing = || Problem::not_found("run", &id);
    let cycle: CycleId = id.parse().map_err(|_| missing())?;
    let run = app.ports.reader.run(cycle).await?.ok_or_else(missing)?;
    let messages = app.ports.reader.messages_of_cycle(cycle).await?;
    let handle = handle_of(&app, run.agent).await?;
    Ok(Json(RunDetail { run: RunJson::of(run, handle), messages: messages_json(&app, messages).await? }))
}

/// Returns what the model was sent in a run: the summary, the entries and the texts of its last request.
#[utoipa::path(get, path = "/v1/runs/{run}/context", tag = "runs",
    params(("run" = String, Path, description = "Id of the run, which is the id of its cycle.")),
    responses((status = 200, description = "What was sent, without system text and tools.", body = SentContextJson)))]
pub(super) async fn sent_context(
    State(app): SharedState,
    PathParam(id): PathParam<Exact>,
) -> Result<Json<SentContextJson>, Problem> {
    let missing = || Problem::not_found("run", &id);
    let cycle: CycleId = id.parse().map_err(|_| missing())?;
    let Ports { reader, lookup, .. } = &app.ports;
    let run = reader.run(cycle).await?.ok_or_else(missing)?;
    let last = lookup.cycle(run.agent, CycleRef::Id(cycle)).await?.last().map(|entry| entry.seq);
    let sent = run.steps.iter().rev().find_map(|step| step.sent.as_ref());
    let Some((last, sent)) = last.zip(sent) else {
        let detail = "cannot show what this run sent: it is of an earlier version or sent nothing. \
                      `GET /v1/runs/{run}` has the run";
        return Err(Problem::new(Code::NotFound, detail));
    };
    let shown = reader.shown(run.agent, sent.view, last).await?.ok_or_else(missing)?;
    let handle = handle_of(&app, run.agent).await?;
    Ok(Json(SentContextJson::of(RunJson::of(run, handle), shown)))
}

/// Lists entries of an agent's consciousness, oldest first.
#[utoipa::path(get, path = "/v1/agents/{agent}/consciousness", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle."), LogQuery),
    responses((status = 200, description = "A page of entries.", body = PageJson<LogEntry>)))]
pub(super) async fn consciousness(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    list: List<LogQuery>,
) -> Result<Listed<LogEntry>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let after = list.number().or(list.filters.after).unwrap_or(0);
    let found = app.ports.reader.entries(agent, after, list.page.limit).await?;
    let view = app.ports.reader.view(agent).await?.unwrap_or_else(View::whole);
    Ok(list.answer(found, |entry| {
        let in_view = view.shows(entry.seq);
        LogEntry::of(entry, in_view)
    }))
}

/// Searches all that an agent ever saw, wrote or remembers, and the messages of its spaces. A text is found within two
/// seconds.
#[utoipa::path(get, path = "/v1/agents/{agent}/recall", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle."), RecallParams),
    responses((status = 200, description = "At most `limit` excerpts.", body = RecalledJson)))]
pub(super) async fn recall(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Query(params): Query<RecallParams>,
) -> Result<Json<RecalledJson>, Problem> {
    let RecallParams { query, from, to, space, kind, limit } = params;
    let text = bounded_text("query", query, limits::RECALL_QUERY_MAX_BYTES)?;
    if text.trim().is_empty() {
        return Err(Problem::new(
            Code::BadValue,
            "`query` is empty: wanted words to search for, such as `boiler`",
        ));
    }
    let time = |name: &str, text: Option<String>| {
        let at = text.map(|text| time_limit(name, &text)).transpose();
        at.map_err(|flaw| Problem::new(Code::BadValue, flaw))
    };
    let (from, to) = (time("from", from)?, time("to", to)?);
    let agent = find_agent(&app, &name).await?.id;
    // By default as many as the agent itself is shown.
    let limit = limit_of(limit, limits::RECALL_DEFAULT, limits::RECALL_MAX)?;
    let query = RecallQuery { text, from, to, space, kind, asking: None, limit };
    let Recalled { excerpts, building, newest_spaces_only } = app.ports.lookup.recall(agent, query).await?;
    let items = excerpts.into_iter().map(ExcerptJson::from).collect();
    Ok(Json(RecalledJson { items, next: None, building, newest_spaces_only }))
}

/// Returns what an agent knows in addition to its consciousness: spaces, memories, goals and plans.
#[utoipa::path(get, path = "/v1/agents/{agent}/facts", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The facts.", body = FactsJson)))]
pub(super) async fn facts(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
) -> Result<Json<FactsJson>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    let facts = app.ports.reader.facts(agent).await?;
    Ok(Json(facts.ok_or_else(|| Problem::not_found("agent", &name))?.into()))
}

/// Returns the context of an agent: what its model would be sent now, by layers. The request changes nothing: it
/// neither wakes the agent nor takes events.
#[utoipa::path(get, path = "/v1/agents/{agent}/context", tag = "runs",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "The layers. Together, with `free`, they fill the context window.",
               body = ContextJson)))]
pub(super) async fn context(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
) -> Result<Json<ContextJson>, Problem> {
    let missing = || Problem::not_found("agent", &name);
    let agent = find_agent(&app, &name).await?.id;
    let Ports { store, clock, ids, models, toolbox, .. } = &app.ports;
    let now = clock.now();
    let mut activation = store.wake(agent, now, None).await?.ok_or_else(missing)?;
    let named = activation.config.model.clone();
    let model = models.model(named.as_deref()).map_err(|error| {
        let named = named.as_deref().unwrap_or("the server's default");
        Problem::new(Code::NoSuchModel, format!("cannot show the context for `{named}`: {error}"))
    })?;
    let model = model.info().clone();
    let window = match std::mem::replace(&mut activation.window, Window::Unchanged) {
        Window::Loaded(window) => window,
        Window::Unchanged => Vec::new(),
    };
    let tools = Toolset::from(AgentTools::of(&**toolbox, &**models, &activation.config));
    let setup = Setup {
        tools: Arc::clone(tools.specs()),
        model: model.clone(),
        others: Vec::new(),
        new_cycle: CycleId(ids.uuid()),
        unstored: Vec::new(),
    };
    let compaction = activation.view.compaction.clone();
    let context = Cycle::begin(activation, window, setup, now).context(now);
    let last = PageRequest { cursor: None, limit: limits::TREND_RUNS };
    let runs = app.ports.reader.runs(agent, RunFilter::default(), last).await?.items;
    let cost = (Trend::of(&runs), compaction);
    let counts = uncounted_layers(&context).map(|text| agent::tokens::estimate(&text));
    Ok(Json(ContextJson::of(agent, &model, &context, &counts, cost)))
}

/// The layers whose tokens are not counted yet: system, tools, summary, inbox, workspace.
fn uncounted_layers(context: &cycle::ContextPreview) -> [String; 5] {
    let tools = context.prompt.tools.iter().map(|tool| {
        let schema: &serde_json::Value = &tool.schema;
        format!("{}\n{}\n{schema}\n", tool.name, tool.description)
    });
    [
        context.prompt.system.to_string(),
        tools.collect(),
        context.summary.clone().unwrap_or_default(),
        context.inbox.as_ref().map(|entry| entry.message.countable()).unwrap_or_default(),
        context.layers.iter().map(|layer| &*layer.text).collect(),
    ]
}
