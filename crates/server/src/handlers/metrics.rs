//! Metrics for Prometheus: read when they are asked for.

use agent::port::StoreFigures;
use agent::run::Usage;
use agent::update::{AgentState, Topic};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use runtime::counters::{ModelCounts, NodeCounts};

use crate::app_state::SharedState;
use crate::metrics::MetricKind::{Counter, Gauge};
use crate::metrics::{Metrics, OPEN, TEXT};
use crate::problem::Problem;

/// Returns metrics in the text format of Prometheus, or as OpenMetrics if `accept` asks for that. Counters count since the start of
/// the server. Prometheus sends the key as bearer token (`authorization` of a scrape config).
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain",
        example = json!("# HELP viv_build_info The version of the server.\n# TYPE viv_build_info gauge\nviv_build_info{version=\"0.1.0\"} 1\n"))))]
pub(super) async fn metrics(
    State(app): SharedState,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let open = accept.contains("application/openmetrics-text");
    let mut metrics = Metrics::new(open);
    let version = app.options.version.as_str();
    let build = [([("version", version)], 1.0)];
    metrics.add(("viv_build_info", Gauge, "The version of the server."), build);
    let started = app.started_at.as_millisecond() as f64 / 1000.0;
    metrics
        .one(("viv_start_time_seconds", Gauge, "When the server started, in seconds since 1970."), started);
    let figures = app.ports.reader.figures().await?;
    let awake = app.ports.live.awake().into_iter().map(|activity| activity.state);
    of_agents(&mut metrics, &figures, &awake.collect::<Vec<_>>());
    of_store(&mut metrics, &figures, app.ports.clock.now());
    of_counters(&mut metrics, app.ports.live.counters());
    let targets = app.ports.target_book.targets().await?;
    let names = targets.iter().map(|state| state.target.name.as_str());
    let waiting = names.clone().zip(targets.iter().map(|state| state.waiting as f64));
    let waiting = waiting.map(|(name, n)| ([("target", name)], n));
    metrics.add(("viv_target_deliveries_waiting", Gauge, "Deliveries that wait for a target."), waiting);
    let dead = names.clone().zip(targets.iter().map(|state| state.dead as f64));
    let dead = dead.map(|(name, n)| ([("target", name)], n));
    metrics.add(("viv_target_deliveries_dead", Gauge, "Deliveries to a target that were given up."), dead);
    let failing =
        targets.iter().map(|state| f64::from(state.target.off.is_some() || state.failed_at.is_some()));
    let failing = names.zip(failing).map(|(name, n)| ([("target", name)], n));
    metrics.add(
        ("viv_target_failing", Gauge, "1 if the last attempt at a target failed, or it is off."),
        failing,
    );
    let streams = app.quotas.streams() as f64;
    metrics.one(
        ("viv_streams", Gauge, "Open event streams: watchers of spaces, agents and the server."),
        streams,
    );
    let listeners = app.ports.live.bus().listeners(Topic::Server) as f64;
    metrics
        .one(("viv_server_watchers", Gauge, "What listens to everything, once for all watchers."), listeners);
    Ok(([(header::CONTENT_TYPE, if open { OPEN } else { TEXT })], metrics.finish()))
}

fn of_agents(metrics: &mut Metrics, figures: &StoreFigures, awake: &[AgentState]) {
    let at = |state: AgentState| awake.iter().filter(|awake| **awake == state).count() as u64;
    let (thinking, processing) = (at(AgentState::Thinking), at(AgentState::Processing));
    let StoreFigures { suspended, retired, paused, quarantined, .. } = *figures;
    let others = [suspended, retired, paused, thinking, processing].iter().sum::<u64>();
    let states = [
        ("sleeping", figures.totals.agents.saturating_sub(others)),
        ("thinking", thinking),
        ("processing", processing),
        ("paused", paused),
        ("suspended", suspended),
        ("retired", retired),
    ];
    let states = states.map(|(state, n)| ([("state", state)], n as f64));
    metrics.add(("viv_agents", Gauge, "Agents, by what they do."), states);
    let help = "Agents of which a record cannot be read; they are suspended.";
    metrics.one(("viv_agents_quarantined", Gauge, help), quarantined as f64);
    let totals = &figures.totals;
    let events = [("waiting", totals.waiting), ("held", figures.held), ("dead", totals.dead)];
    let events = events.map(|(state, n)| ([("state", state)], n as f64));
    metrics
        .add(("viv_inbox_events", Gauge, "Events in inboxes that are not settled, and dead ones."), events);
    metrics.one(("viv_open_cycles", Gauge, "Cycles that are open."), totals.open_cycles as f64);
    let help = "Calls and questions that wait for a person.";
    metrics.one(("viv_approvals_waiting", Gauge, help), figures.asked as f64);
    let help = "Calls whose cycle does not wait for them: those of workers and asynchronous ones.";
    metrics.one(("viv_calls_detached", Gauge, help), figures.detached as f64);
}

fn of_store(metrics: &mut Metrics, figures: &StoreFigures, now: jiff::Timestamp) {
    let files = [("store", figures.store_bytes), ("wal", figures.wal_bytes), ("index", figures.index_bytes)];
    let files = files.map(|(file, bytes)| ([("file", file)], bytes as f64));
    metrics.add(("viv_store_size_bytes", Gauge, "Sizes of the files of the store."), files);
    let damaged = f64::from(figures.totals.damage.is_some());
    metrics.one(("viv_store_damaged", Gauge, "1 if a check has found the store's file damaged."), damaged);
    let behind = figures.totals.unindexed_since.map_or(0.0, |since| now.duration_since(since).as_secs_f64());
    metrics.one(("viv_index_lag_seconds", Gauge, "Age of the oldest change that searches may miss."), behind);
    let totals = &figures.totals;
    let rows = [("spaces", totals.spaces), ("messages", totals.messages)];
    let rows = rows.map(|(what, n)| ([("what", what)], n as f64));
    metrics.add(("viv_store_rows", Gauge, "What the store has."), rows);
}

fn of_counters(metrics: &mut Metrics, counters: &NodeCounts) {
    let steps = counters.steps() as f64;
    metrics.one(("viv_steps_total", Counter, "Decisions of agents."), steps);
    metrics.one(("viv_commits_total", Counter, "Commits of agents."), counters.commits() as f64);
    metrics.one(
        ("viv_messages_total", Counter, "Messages that were posted or changed."),
        counters.messages() as f64,
    );
    fn labelled(
        label: &str,
        of: impl Iterator<Item = (&'static str, u64)>,
    ) -> impl Iterator<Item = ([(&str, &str); 1], f64)> {
        of.map(move |(value, n)| ([(label, value)], n as f64))
    }
    let cycles = labelled("ending", counters.cycles());
    metrics.add(("viv_cycles_total", Counter, "Cycles that ended, by how."), cycles);
    let calls = labelled("outcome", counters.calls());
    metrics.add(("viv_calls_total", Counter, "Tool calls that ended, by how."), calls);
    let alerts = labelled("alert", counters.alerts());
    metrics.add(("viv_alerts_total", Counter, "Alerts, by what they are about."), alerts);
    let attempts = labelled("result", counters.attempts());
    metrics.add(("viv_target_attempts_total", Counter, "Attempts at targets, by how they went."), attempts);
    of_models(metrics, &counters.models().into_iter().collect::<Vec<_>>());
}

fn of_models(metrics: &mut Metrics, models: &[(String, ModelCounts)]) {
    let requests = models.iter().flat_map(|(model, counts)| {
        let failed = counts.failed.iter().map(|(class, n)| (*class, *n));
        let all = [("ok", counts.answered)].into_iter().chain(failed);
        all.map(|(result, n)| ([("model", model.as_str()), ("result", result)], n as f64))
    });
    let help = "Requests to models, by their result: ok, or the class of the failure.";
    metrics.add(("viv_model_requests_total", Counter, help), requests);
    let tokens = models.iter().flat_map(|(model, counts)| {
        let Usage { input, cached, output, reasoning } = counts.usage;
        let kinds = [("input", input), ("cached", cached), ("output", output), ("reasoning", reasoning)];
        kinds.map(|(kind, n)| ([("model", model.as_str()), ("kind", kind)], n.unwrap_or(0) as f64))
    });
    let help = "Tokens as providers report them; cached ones are part of input, reasoning of output.";
    metrics.add(("viv_model_tokens_total", Counter, help), tokens);
    let cost = models.iter().map(|(model, counts)| {
        let dollars = counts.cost_micros as f64 / 1_000_000.0;
        ([("model", model.as_str())], dollars)
    });
    let help = "What models cost, in US dollars, where their prices are known.";
    metrics.add(("viv_model_cost_dollars_total", Counter, help), cost);
}
