//! Tool execution: inward calls in order, each seeing what those before it want changed; outward
//! calls in parallel where their effect allows, each under its own time-out, none able to take the
//! cycle down with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent::call::{CallRow, Effect, Outcome, OutcomeStatus};
use agent::changes::Inward;
use agent::cycle::Cycle;
use agent::id::{AgentId, CallId, CycleId, RootId, SpaceId};
use agent::life::Facts;
use agent::limits;
use agent::port::{Done, Hands, Lookup, Tool, ToolError};
use agent::update::{Topic, Update};
use jiff::Timestamp;
use tokio::task::{self, JoinError, JoinSet};

use crate::Ports;

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

    /// Returns when it began.
    fn tell_started(&self, row: &CallRow) -> Timestamp {
        let (agent, cycle) = (self.agent, self.cycle);
        let arguments = row.arguments.chars().take(limits::ARGUMENTS_SHOWN_CHARS).collect();
        let (call, tool) = (row.id.clone(), row.tool.clone());
        let update = Update::ToolStarted { agent, cycle, call, tool, arguments };
        self.ports.live.bus().publish(&[Topic::Agent(agent)], Arc::new(update));
        self.ports.clock.now()
    }

    fn tell_done(&self, row: &CallRow, status: OutcomeStatus, since: Timestamp) {
        let (agent, cycle) = (self.agent, self.cycle);
        let took = self.ports.clock.now().as_millisecond().saturating_sub(since.as_millisecond());
        let (call, tool, ms) = (row.id.clone(), row.tool.clone(), u64::try_from(took).ok());
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

/// Runs inward calls in order. A panic is that call's failure.
pub(crate) async fn inward(
    cycle: &Cycle,
    agent: AgentId,
    ports: &Ports,
    rows: Vec<CallRow>,
) -> Vec<Result<Done, ToolError>> {
    let scene = Scene::of(cycle, agent, ports);
    let mut pending = Inward::default();
    let mut results = Vec::with_capacity(rows.len());
    for row in rows {
        let began = scene.tell_started(&row);
        let (there, before) = (scene.clone(), pending.clone());
        let (row, result) = {
            let task = tokio::spawn(async move {
                let result = there.run(&row, &before).await;
                (row, result)
            });
            match task.await {
                Ok(ended) => ended,
                Err(broken) => {
                    results.push(Err(broke(&broken)));
                    continue;
                }
            }
        };
        let status = match &result {
            Ok(done) => done.outcome.status,
            Err(_) => OutcomeStatus::Error,
        };
        scene.tell_done(&row, status, began);
        if let Some(done) = result.as_ref().ok().filter(|done| !done.outcome.failed()) {
            pending.extend(done.inward.clone());
        }
        results.push(result);
    }
    results
}

fn broke(error: &JoinError) -> ToolError {
    ToolError { model: "the tool broke; nothing of it was done".into(), operator: Some(error.to_string()) }
}

/// Outward calls on their way. Dropping it gives them up.
#[derive(Default)]
pub(crate) struct Outward {
    running: JoinSet<Outcome>,
    /// Which call each task runs.
    calls: HashMap<task::Id, CallId>,
}

impl Outward {
    /// Starts calls side by side; the machine hands out unsafe ones one after another.
    pub(crate) fn start(&mut self, cycle: &Cycle, agent: AgentId, ports: &Ports, rows: Vec<CallRow>) {
        let scene = Scene::of(cycle, agent, ports);
        for row in rows {
            let (there, call) = (scene.clone(), row.id.clone());
            let task = self.running.spawn(async move {
                let began = there.tell_started(&row);
                let outcome = outcome_of(there.run(&row, &Inward::default()).await);
                there.tell_done(&row, outcome.status, began);
                outcome
            });
            self.calls.insert(task.id(), call);
        }
    }

    /// The next outcome; never ready where nothing runs.
    pub(crate) async fn next(&mut self) -> (CallId, Outcome) {
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

    /// Outcomes that have come already; everything else is given up.
    pub(crate) fn let_go(mut self) -> Vec<(CallId, Outcome)> {
        let mut came = Vec::new();
        while let Some(ended) = self.running.try_join_next_with_id() {
            came.extend(self.answered(ended));
        }
        came
    }

    fn answered(&mut self, ended: Result<(task::Id, Outcome), JoinError>) -> Option<(CallId, Outcome)> {
        match ended {
            Ok((task, outcome)) => Some((self.calls.remove(&task)?, outcome)),
            Err(error) => {
                let text = "the tool broke; unknown whether it happened".to_owned();
                let (status, detail) = (OutcomeStatus::Unknown, Some(error.to_string()));
                Some((self.calls.remove(&error.id())?, Outcome { status, text, detail }))
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
