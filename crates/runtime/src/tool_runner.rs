//! Tool execution: inward calls in order, each seeing what those before it want changed; outward
//! calls in parallel where their effect allows, each under its own time-out, none able to take the
//! cycle down with it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use agent::call::{CallRow, Outcome, OutcomeStatus};
use agent::changes::Inward;
use agent::cycle::{Cycle, Span};
use agent::id::{AgentId, CallId, CycleId, RootId, SpaceId};
use agent::life::Facts;
use agent::limits;
use agent::port::{Clock, Detached, Done, Lookup, ToolContext, ToolError};
use agent::update::{Topic, Update};
use jiff::Timestamp;
use tokio::task::{self, AbortHandle, JoinError, JoinSet};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::Ports;
use crate::trace;

/// Where calls of a cycle happen; owned, so that outward calls can run beside the loop.
#[derive(Clone)]
pub(crate) struct CallContext {
    agent: AgentId,
    cycle: CycleId,
    active_space: Option<SpaceId>,
    root: RootId,
    hop: u32,
    facts: Arc<Facts>,
    ports: Ports,
}

impl CallContext {
    pub(crate) fn of(cycle: &Cycle, agent: AgentId, ports: &Ports) -> Self {
        let (root, hop) = cycle.descent();
        Self {
            agent,
            cycle: cycle.id(),
            active_space: cycle.active_space(),
            root: root.clone(),
            hop,
            facts: Arc::new(cycle.facts().clone()),
            ports: ports.clone(),
        }
    }

    /// Of a call whose cycle is gone: it stands nowhere and knows nothing but what it descends from.
    pub(crate) fn again(detached: &Detached, ports: &Ports) -> Self {
        Self {
            agent: detached.agent,
            cycle: detached.row.cycle,
            active_space: None,
            root: detached.root.clone(),
            hop: detached.hop,
            facts: Arc::default(),
            ports: ports.clone(),
        }
    }

    /// Its time.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.ports.clock
    }

    /// How long the tool of a call may take.
    pub(crate) fn timeout(&self, row: &CallRow) -> Duration {
        let tool = self.ports.toolbox.tool(&row.tool);
        tool.map_or(Duration::from_millis(limits::TOOL_TIMEOUT_MS), |tool| tool.spec().timeout)
    }

    /// How long a call of it may go on beyond its cycle: what nobody ever waits for has one time.
    pub(crate) fn most(&self, row: &CallRow) -> Duration {
        let tool = self.ports.toolbox.tool(&row.tool);
        match tool.filter(|tool| tool.spec().asynchronous) {
            Some(tool) => tool.spec().timeout,
            None => Duration::from_millis(limits::LATE_MS),
        }
    }

    async fn run(&self, row: &CallRow, pending: &Inward) -> Result<Done, ToolError> {
        let timeout = self.timeout(row);
        tokio::select! {
            biased;
            done = self.work(row, pending) => done,
            () = self.ports.clock.sleep(timeout) => {
                Err(ToolError::new(Outcome::given_up(row.effect, timeout.as_millis()).text))
            }
        }
    }

    async fn work(&self, row: &CallRow, pending: &Inward) -> Result<Done, ToolError> {
        let Some(tool) = self.ports.toolbox.tool(&row.tool) else {
            return Err(ToolError::new(format!("the tool `{}` is gone", row.tool)));
        };
        let arguments = tool.check(&row.arguments).map_err(ToolError::new)?;
        let context = ToolContext {
            agent: self.agent,
            cycle: self.cycle,
            call: &row.id,
            now: self.ports.clock.now(),
            active_space: pending.active_space.or(self.active_space),
            root: &self.root,
            hop: self.hop,
            facts: &self.facts,
            pending,
            lookup: &*self.ports.lookup as &dyn Lookup,
        };
        tool.call(arguments, context).await
    }

    /// Runs a call and says when it ran.
    async fn timed<T>(&self, work: impl Future<Output = T>) -> (T, Span) {
        let clock = &self.ports.clock;
        let (at, began) = (clock.now(), clock.monotonic_ms());
        let done = work.await;
        (done, Span { at, ms: clock.monotonic_ms().saturating_sub(began) })
    }

    fn publish_started(&self, row: &CallRow) {
        let (agent, cycle) = (self.agent, self.cycle);
        let arguments = row.arguments.chars().take(limits::ARGUMENTS_SHOWN_CHARS).collect();
        let (call, tool) = (row.id.clone(), row.tool.clone());
        let update = Update::ToolStarted { agent, cycle, call, tool, arguments };
        self.ports.live.bus().publish(&[Topic::Agent(agent)], Arc::new(update));
    }

    pub(crate) fn publish_done(&self, row: &CallRow, status: OutcomeStatus, text: &str, span: Span) {
        let (agent, cycle) = (self.agent, self.cycle);
        let (call, tool, ms) = (row.id.clone(), row.tool.clone(), Some(span.ms));
        let update = match status {
            OutcomeStatus::Error => {
                let reason = Some(text.chars().take(limits::ARGUMENTS_SHOWN_CHARS).collect());
                Update::ToolError { agent, cycle, call, tool, reason, ms }
            }
            _ => Update::ToolDone { agent, cycle, call, tool, status, ms },
        };
        self.ports.live.bus().publish(&[Topic::Agent(agent)], Arc::new(update));
    }
}

/// What inward calls gave, and when they ran.
pub(crate) type Acted = (Vec<Result<Done, ToolError>>, Vec<(CallId, Span)>);

/// Runs inward calls in order. A panic is that call's failure.
pub(crate) async fn inward(
    cycle: &Cycle,
    agent: AgentId,
    ports: &Ports,
    step: &tracing::Span,
    rows: Vec<CallRow>,
) -> Acted {
    let context = CallContext::of(cycle, agent, ports);
    let mut pending = Inward::default();
    let mut results = Vec::with_capacity(rows.len());
    let mut spans = Vec::with_capacity(rows.len());
    for row in rows {
        context.publish_started(&row);
        let (there, before) = (context.clone(), pending.clone());
        let traced = trace::tool(step, &row);
        let (row, result) = {
            let work = async move {
                let result = there.timed(there.run(&row, &before)).await;
                (row, result)
            };
            let task = tokio::spawn(work.instrument(traced.clone()));
            match task.await {
                Ok(ended) => ended,
                Err(broken) => {
                    results.push(Err(broke(&broken)));
                    continue;
                }
            }
        };
        let (result, span) = result;
        spans.push((row.id.clone(), span));
        let (status, text) = match &result {
            Ok(done) => (done.outcome.status, &done.outcome.text),
            Err(error) => (OutcomeStatus::Error, &error.model),
        };
        trace::done(&traced, status);
        context.publish_done(&row, status, text, span);
        if let Some(done) = result.as_ref().ok().filter(|done| !done.outcome.failed()) {
            pending.extend(done.inward.clone());
        }
        results.push(result);
    }
    (results, spans)
}

fn broke(error: &JoinError) -> ToolError {
    ToolError { model: "the tool broke; nothing of it was done".into(), operator: Some(error.to_string()) }
}

/// An outward call at work. Dropping it gives the call up.
pub(crate) struct Work {
    pub(crate) context: CallContext,
    pub(crate) row: CallRow,
    task: AbortOnDropHandle<(Outcome, Span)>,
    at: Timestamp,
    began: u64,
}

impl Work {
    /// Begins the call, with no bound on how long it takes.
    pub(crate) fn begin(context: &CallContext, row: CallRow, step: &tracing::Span) -> Self {
        let (at, began) = (context.ports.clock.now(), context.ports.clock.monotonic_ms());
        let traced = trace::tool(step, &row);
        let (there, call, ended) = (context.clone(), row.clone(), traced.clone());
        let work = async move {
            there.publish_started(&call);
            failpoint::hit!("tool.begins");
            let (result, span) = there.timed(there.work(&call, &Inward::default())).await;
            failpoint::hit!("tool.done");
            let outcome = outcome_of(result);
            trace::done(&ended, outcome.status);
            (outcome, span)
        };
        let task = AbortOnDropHandle::new(tokio::spawn(work.instrument(traced)));
        Self { context: context.clone(), row, task, at, began }
    }

    /// Waits for its end. A panic is that call's failure.
    pub(crate) async fn ended(&mut self) -> (Outcome, Span) {
        match (&mut self.task).await {
            Ok(ended) => ended,
            Err(error) => {
                let text = "the tool broke; unknown whether it happened".to_owned();
                let (status, detail) = (OutcomeStatus::Unknown, Some(error.to_string()));
                (Outcome { status, text, detail }, self.span())
            }
        }
    }

    /// When it began, and how long it has run.
    pub(crate) fn span(&self) -> Span {
        span(self.at, self.began, &self.context)
    }
}

fn span(at: Timestamp, began: u64, context: &CallContext) -> Span {
    Span { at, ms: context.ports.clock.monotonic_ms().saturating_sub(began) }
}

/// What came of an outward call.
pub(crate) enum Came {
    /// It ended.
    Answered(CallId, Outcome, Span),
    /// It has taken longer than it may, and still is at work.
    Overdue(Box<Work>),
}

/// Outward calls that their cycle waits for. Dropping it gives them up.
#[derive(Default)]
pub(crate) struct Outward {
    running: JoinSet<Came>,
    /// Which call each task runs.
    calls: HashMap<task::Id, RunningCall>,
}

struct RunningCall {
    context: CallContext,
    row: CallRow,
    task: AbortHandle,
    at: Timestamp,
    began: u64,
}

impl Outward {
    /// Starts calls side by side; the machine hands out unsafe ones one after another.
    pub(crate) fn start(&mut self, context: &CallContext, step: &tracing::Span, rows: Vec<CallRow>) {
        for row in rows {
            let timeout = context.timeout(&row);
            let mut work = Work::begin(context, row.clone(), step);
            let (at, began, clock) = (work.at, work.began, Arc::clone(&context.ports.clock));
            let task = self.running.spawn(async move {
                let (outcome, span) = tokio::select! {
                    biased;
                    ended = work.ended() => ended,
                    () = clock.sleep(timeout) => return Came::Overdue(Box::new(work)),
                };
                work.context.publish_done(&work.row, outcome.status, &outcome.text, span);
                Came::Answered(work.row.id, outcome, span)
            });
            self.calls.insert(task.id(), RunningCall { context: context.clone(), row, task, at, began });
        }
    }

    /// What comes next; never ready where nothing runs.
    pub(crate) async fn next(&mut self) -> Came {
        loop {
            match self.running.join_next_with_id().await {
                Some(ended) => {
                    if let Some(came) = self.came(ended) {
                        return came;
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Gives up the calls that are not wanted any more, which ones and when they ran.
    pub(crate) fn keep(&mut self, wanted: impl Fn(&CallId) -> bool) -> Vec<(CallId, Span)> {
        let unwanted = self.calls.extract_if(|_, running| !wanted(&running.row.id));
        let ended = unwanted.map(|(_, running)| {
            running.task.abort();
            let span = span(running.at, running.began, &running.context);
            running.context.publish_done(&running.row, OutcomeStatus::Canceled, "", span);
            (running.row.id, span)
        });
        ended.collect()
    }

    /// What has come already; everything else is given up.
    pub(crate) fn let_go(mut self) -> Vec<Came> {
        let mut came = Vec::new();
        while let Some(ended) = self.running.try_join_next_with_id() {
            came.extend(self.came(ended));
        }
        came
    }

    /// Nothing of what was given up.
    fn came(&mut self, ended: Result<(task::Id, Came), JoinError>) -> Option<Came> {
        let (task, came) = ended.ok()?;
        self.calls.remove(&task).map(|_| came)
    }
}

fn outcome_of(result: Result<Done, ToolError>) -> Outcome {
    let mut outcome = match result {
        Ok(done) => done.outcome,
        Err(error) => Outcome { detail: error.operator, ..Outcome::error(error.model) },
    };
    outcome.text = agent::call::head_and_tail(&outcome.text, limits::OUTCOME_STORED_MAX_BYTES);
    outcome
}
