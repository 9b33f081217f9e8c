//! Tool execution: inward calls in order, each seeing what those before it want changed; outward
//! calls in parallel where their effect allows, each under its own time-out, none able to take the
//! cycle down with it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use agent::call::{CallRow, Effect, Outcome, OutcomeStatus};
use agent::changes::Inward;
use agent::cycle::{Cycle, Span};
use agent::id::{AgentId, CallId, CycleId, RootId, SpaceId};
use agent::life::Facts;
use agent::limits;
use agent::port::{Done, Hands, Lookup, Tool, ToolError};
use agent::update::{Topic, Update};
use jiff::Timestamp;
use tokio::task::{self, AbortHandle, JoinError, JoinSet};
use tracing::Instrument;

use crate::Ports;
use crate::trace;

/// Where calls of a cycle happen; owned, so that outward calls can run beside the loop.
#[derive(Clone)]
struct Scene {
    agent: AgentId,
    cycle: CycleId,
    active_space: Option<SpaceId>,
    root: RootId,
    hop: u32,
    facts: Arc<Facts>,
    ports: Ports,
}

impl Scene {
    fn of(cycle: &Cycle, agent: AgentId, ports: &Ports) -> Self {
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

    async fn run(&self, row: &CallRow, pending: &Inward) -> Result<Done, ToolError> {
        let Some(tool) = self.ports.toolbox.tool(&row.tool) else {
            return Err(ToolError::new(format!("the tool `{}` is gone", row.tool)));
        };
        let arguments = tool.check(&row.arguments).map_err(ToolError::new)?;
        let hands = Hands {
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
        let timeout = tool.spec().timeout;
        tokio::select! {
            biased;
            done = tool.call(arguments, hands) => done,
            () = self.ports.clock.sleep(timeout) => Err(timed_out(&*tool, timeout)),
        }
    }

    /// Runs a call and says when it ran.
    async fn timed<T>(&self, work: impl Future<Output = T>) -> (T, Span) {
        let clock = &self.ports.clock;
        let (at, began) = (clock.now(), clock.monotonic_ms());
        let done = work.await;
        (done, Span { at, ms: clock.monotonic_ms().saturating_sub(began) })
    }

    fn tell_started(&self, row: &CallRow) {
        let (agent, cycle) = (self.agent, self.cycle);
        let arguments = row.arguments.chars().take(limits::ARGUMENTS_SHOWN_CHARS).collect();
        let (call, tool) = (row.id.clone(), row.tool.clone());
        let update = Update::ToolStarted { agent, cycle, call, tool, arguments };
        self.ports.live.bus().publish(&[Topic::Agent(agent)], Arc::new(update));
    }

    fn tell_done(&self, row: &CallRow, status: OutcomeStatus, span: Span) {
        let (agent, cycle) = (self.agent, self.cycle);
        let (call, tool, ms) = (row.id.clone(), row.tool.clone(), Some(span.ms));
        let update = Update::ToolDone { agent, cycle, call, tool, status, ms };
        self.ports.live.bus().publish(&[Topic::Agent(agent)], Arc::new(update));
    }
}

fn timed_out(tool: &dyn Tool, timeout: Duration) -> ToolError {
    let ms = timeout.as_millis();
    let happened = match tool.spec().effect {
        Effect::Unsafe => "; unknown whether it happened",
        _ => "",
    };
    ToolError::new(format!("`{}` gave no answer within {ms} ms{happened}", tool.spec().name))
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
    let scene = Scene::of(cycle, agent, ports);
    let mut pending = Inward::default();
    let mut results = Vec::with_capacity(rows.len());
    let mut spans = Vec::with_capacity(rows.len());
    for row in rows {
        scene.tell_started(&row);
        let (there, before) = (scene.clone(), pending.clone());
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
        let status = match &result {
            Ok(done) => done.outcome.status,
            Err(_) => OutcomeStatus::Error,
        };
        trace::done(&traced, status);
        scene.tell_done(&row, status, span);
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

/// An outward call that ended.
pub(crate) struct Answered {
    /// Which.
    pub(crate) call: CallId,
    /// How.
    pub(crate) outcome: Outcome,
    /// When it ran; unknown where it broke.
    pub(crate) span: Option<Span>,
}

/// Outward calls on their way. Dropping it gives them up.
#[derive(Default)]
pub(crate) struct Outward {
    running: JoinSet<(Outcome, Span)>,
    /// Which call each task runs.
    calls: HashMap<task::Id, Running>,
}

/// An outward call on its way.
struct Running {
    scene: Scene,
    row: CallRow,
    task: AbortHandle,
    at: Timestamp,
    began: u64,
}

impl Outward {
    /// Starts calls side by side; the machine hands out unsafe ones one after another.
    pub(crate) fn start(
        &mut self,
        cycle: &Cycle,
        agent: AgentId,
        ports: &Ports,
        step: &tracing::Span,
        rows: Vec<CallRow>,
    ) {
        let scene = Scene::of(cycle, agent, ports);
        for row in rows {
            let (there, kept) = (scene.clone(), row.clone());
            let (at, began) = (ports.clock.now(), ports.clock.monotonic_ms());
            let traced = trace::tool(step, &row);
            let ended = traced.clone();
            let work = async move {
                there.tell_started(&row);
                failpoint::hit!("tool.begins");
                let (result, span) = there.timed(there.run(&row, &Inward::default())).await;
                failpoint::hit!("tool.done");
                let outcome = outcome_of(result);
                trace::done(&ended, outcome.status);
                there.tell_done(&row, outcome.status, span);
                (outcome, span)
            };
            let task = self.running.spawn(work.instrument(traced));
            self.calls.insert(task.id(), Running { scene: scene.clone(), row: kept, task, at, began });
        }
    }

    /// The next outcome; never ready where nothing runs.
    pub(crate) async fn next(&mut self) -> Answered {
        loop {
            match self.running.join_next_with_id().await {
                Some(ended) => {
                    if let Some(answered) = self.answered(ended) {
                        return answered;
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
            let ms = running.scene.ports.clock.monotonic_ms().saturating_sub(running.began);
            let span = Span { at: running.at, ms };
            running.scene.tell_done(&running.row, OutcomeStatus::Canceled, span);
            (running.row.id, span)
        });
        ended.collect()
    }

    /// Outcomes that have come already; everything else is given up.
    pub(crate) fn let_go(mut self) -> Vec<Answered> {
        let mut came = Vec::new();
        while let Some(ended) = self.running.try_join_next_with_id() {
            came.extend(self.answered(ended));
        }
        came
    }

    fn answered(&mut self, ended: Result<(task::Id, (Outcome, Span)), JoinError>) -> Option<Answered> {
        match ended {
            Ok((task, (outcome, span))) => {
                Some(Answered { call: self.calls.remove(&task)?.row.id, outcome, span: Some(span) })
            }
            Err(error) => {
                let text = "the tool broke; unknown whether it happened".to_owned();
                let (status, detail) = (OutcomeStatus::Unknown, Some(error.to_string()));
                let call = self.calls.remove(&error.id())?.row.id;
                Some(Answered { call, outcome: Outcome { status, text, detail }, span: None })
            }
        }
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
