//! Tool execution. Inward calls run in order, each sees the pending changes of those before it. Outward calls run in
//! parallel if their effect allows, each under its own time-out. A call that panics does not end its cycle.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use agent::call::{CallRow, Effect, Outcome, OutcomeStatus, Runner};
use agent::changes::{Inward, Notifications};
use agent::cycle::{Cycle, Span};
use agent::entity::EntityKind;
use agent::event::Trust;
use agent::id::{AgentId, CallId, CycleId, RootId, SpaceId};
use agent::life::Facts;
use agent::limits;
use agent::port::{
    Accept, Accepted, Clock, DetachedCall, Done, Lookup, StoreError, ToolContext, ToolError, Toolset,
};
use agent::space::{NewMessage, PostedMessage};
use agent::tool::ToolLabel;
use agent::update::Update;
use jiff::Timestamp;
use tokio::task::{self, AbortHandle, JoinError, JoinSet};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::Ports;
use crate::last_look::LastLook;
use crate::node::Node;
use crate::trace;
use crate::unstored::Unstored;
use crate::workers::WantedCall;

/// The context of a cycle's calls; owned, so that outward calls can run beside the loop.
#[derive(Clone)]
pub(crate) struct CallContext {
    agent: AgentId,
    cycle: CycleId,
    active_space: Option<SpaceId>,
    root: RootId,
    hop: u32,
    trust: Trust,
    /// Whether an urgent event of a requester keeps a call that cannot be repeated from beginning.
    barrier: bool,
    facts: Arc<Facts>,
    tools: Toolset,
    ports: Ports,
    node: Node,
}

impl CallContext {
    pub(crate) fn of(cycle: &Cycle, agent: AgentId, (ports, node): (&Ports, &Node), tools: &Toolset) -> Self {
        let (root, hop) = cycle.cause();
        Self {
            agent,
            cycle: cycle.id(),
            active_space: cycle.active_space(),
            root: root.clone(),
            hop,
            trust: cycle.trust_of_messages(),
            barrier: cycle.barrier(),
            facts: Arc::clone(cycle.facts()),
            tools: tools.clone(),
            ports: ports.clone(),
            node: node.clone(),
        }
    }

    /// The context of a call whose cycle has ended: no active space and no facts, only its root and hop. Its spaces are looked up.
    pub(crate) fn resumed(detached: &DetachedCall, ports: &Ports, node: &Node) -> Self {
        Self {
            agent: detached.agent,
            cycle: detached.row.cycle,
            active_space: None,
            root: detached.root.clone(),
            hop: detached.hop,
            trust: Trust::Outside,
            barrier: false,
            facts: Arc::new(Facts { more_spaces: 1, ..Facts::default() }),
            tools: Toolset::of(&*ports.toolbox, Some(std::slice::from_ref(&detached.row.tool))),
            ports: ports.clone(),
            node: node.clone(),
        }
    }

    /// The clock of the calls.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.ports.clock
    }

    /// How long a cycle waits for a call.
    pub(crate) fn timeout(&self, row: &CallRow) -> Duration {
        let tool = self.tools.tool(&row.tool);
        tool.map_or(Duration::from_millis(limits::TOOL_TIMEOUT_MS), |tool| tool.spec().timeout)
    }

    /// How long a detached call may run: an asynchronous one as long as its time-out.
    pub(crate) fn detached_timeout(&self, row: &CallRow) -> Duration {
        let tool = self.tools.tool(&row.tool);
        match tool.filter(|tool| tool.spec().asynchronous) {
            Some(tool) => tool.spec().timeout,
            None => Duration::from_millis(limits::LATE_MS),
        }
    }

    /// Whether what the tool returns was written by strangers.
    fn returns_strangers_text(&self, row: &CallRow) -> bool {
        self.tools.tool(&row.tool).is_none_or(|tool| tool.spec().labels.has(ToolLabel::Outside))
    }

    async fn run(&self, row: &CallRow, pending: &Inward) -> Result<Done, ToolError> {
        let timeout = self.timeout(row);
        tokio::select! {
            biased;
            done = self.work(row, pending) => done,
            () = self.ports.clock.sleep(timeout) => {
                Err(ToolError::new(Outcome::given_up(row.effect, row.runner, timeout.as_millis()).text))
            }
        }
    }

    /// What a worker runs is offered until it is answered. A call that a worker has already stays its own, whatever
    /// happened to the tool.
    async fn work(&self, row: &CallRow, pending: &Inward) -> Result<Done, ToolError> {
        let tool = self.tools.tool(&row.tool);
        if row.claim.is_some() {
            // Only a worker of the version that the call was decided for may get it, should its worker be gone.
            let same = tool.filter(|tool| tool.spec().version == row.tool_version);
            let version = same.and_then(|tool| tool.spec().worker.as_deref());
            return self.offered(row, version.unwrap_or_default()).await;
        }
        let Some(tool) = tool else {
            return Err(ToolError::new(format!("the tool `{}` no longer exists", row.tool)));
        };
        if tool.spec().version != row.tool_version {
            return Err(ToolError::new(changed(row)));
        }
        let arguments = tool.check(&row.arguments).map_err(ToolError::new)?;
        if let Some(version) = tool.spec().worker.as_deref().filter(|_| row.runner == Runner::Worker) {
            return self.offered(row, version).await;
        }
        let gate = LastLook::at(&self.ports, row, self.barrier);
        let context = ToolContext {
            agent: self.agent,
            cycle: self.cycle,
            call: &row.id,
            now: self.ports.clock.now(),
            active_space: pending.active_space.or(self.active_space),
            root: &self.root,
            hop: self.hop,
            trust: self.trust,
            facts: &self.facts,
            pending,
            lookup: &*self.ports.lookup as &dyn Lookup,
            gate: &gate,
        };
        let done = tool.call(arguments, context).await;
        gate.kept().map_or(done, |outcome| Ok(Done { outcome, inward: Inward::default() }))
    }

    /// Does what an inward tool wants that was approved after its decision: posts its messages. Each is posted once, however
    /// often the call is run.
    async fn done_later(&self, done: Done) -> Result<Done, ToolError> {
        for message in done.inward.messages.clone() {
            self.post(message).await?;
        }
        Ok(done)
    }

    async fn post(&self, message: NewMessage) -> Result<(), ToolError> {
        let space = message.space;
        let failed = |error: StoreError| ToolError {
            model: "the message could not be posted; try again later".to_owned(),
            operator: Some(error.to_string()),
        };
        match self.ports.store.accept(Accept::Message(message), None).await.map_err(failed)? {
            Accepted::Fresh { message: Some(message), wake, .. } => {
                let found = self.ports.lookup.space(self.agent, space.to_string()).await.map_err(failed)?;
                let members = found.map(|found| found.members).unwrap_or_default();
                let own = members.into_iter().find(|member| member.entity.id == self.agent.entity());
                let (name, handle) =
                    own.map(|own| (own.entity.display_name, own.entity.name)).unwrap_or_default();
                let posted = PostedMessage::new(message, name, EntityKind::Agent).with_handle(handle);
                let messages = vec![posted];
                self.node.notify(Notifications { messages, wake, ..Notifications::default() });
                Ok(())
            }
            Accepted::Fresh { message: None, .. } | Accepted::Duplicate { .. } => Ok(()),
            Accepted::Denied(denial) => Err(ToolError::new(format!("nothing was posted: {denial}"))),
            Accepted::Conflict => Err(ToolError::new("nothing was posted: another message has its id")),
        }
    }

    async fn offered(&self, row: &CallRow, version: &str) -> Result<Done, ToolError> {
        let wanted = WantedCall { agent: self.agent, row, version, barrier: self.barrier };
        let outcome = self.ports.workers.run(&*self.ports.clock, wanted).await;
        Ok(Done { outcome, inward: Inward::default() })
    }

    /// Runs a call and measures when it ran.
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
        self.ports.live.tool(agent, update);
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
        self.ports.live.tool(agent, update);
    }
}

/// The model decided the call by an older description of the tool.
fn changed(row: &CallRow) -> String {
    let before = match row.effect {
        _ if row.approval.as_ref().is_some_and(|approval| approval.by.is_some()) => {
            ", though it was approved"
        }
        Effect::Inward | Effect::ReadOnly => "",
        Effect::Idempotent | Effect::Unsafe => ", though it may have run before",
    };
    format!(
        "the tool `{}` has changed since this call was made; it was not run now{before}. Read its description and decide again",
        row.tool
    )
}

/// The results of inward calls, and when they ran.
pub(crate) type InwardResults = (Vec<Result<Done, ToolError>>, Vec<(CallId, Span)>);

/// Runs inward calls in order. A panic fails that call only.
pub(crate) async fn inward(context: &CallContext, step: &tracing::Span, rows: Vec<CallRow>) -> InwardResults {
    let mut pending = Inward::default();
    let mut results = Vec::with_capacity(rows.len());
    let mut spans = Vec::with_capacity(rows.len());
    for row in rows {
        context.publish_started(&row);
        let (call_context, before) = (context.clone(), pending.clone());
        let traced = trace::tool(step, &row);
        let (row, result) = {
            let work = async move {
                let result = call_context.timed(call_context.run(&row, &before)).await;
                (row, result)
            };
            let task = tokio::spawn(work.instrument(traced.clone()));
            match task.await {
                Ok(ended) => ended,
                Err(panic) => {
                    results.push(Err(panicked(&panic)));
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
        trace::tool_done(&traced, status);
        context.publish_done(&row, status, text, span);
        if let Some(done) = result.as_ref().ok().filter(|done| !done.outcome.failed()) {
            pending.extend(done.inward.clone());
        }
        results.push(result);
    }
    (results, spans)
}

fn panicked(error: &JoinError) -> ToolError {
    ToolError {
        model: "the tool crashed; none of its changes was made".into(),
        operator: Some(error.to_string()),
    }
}

/// A running outward call. Dropping it aborts the call.
pub(crate) struct OutwardCall {
    pub(crate) context: CallContext,
    pub(crate) row: CallRow,
    task: AbortOnDropHandle<(Outcome, Span)>,
    at: Timestamp,
    began: u64,
}

impl OutwardCall {
    /// Begins the call, without a time limit.
    pub(crate) fn begin(context: &CallContext, row: CallRow, step: &tracing::Span) -> Self {
        let (at, began) = (context.ports.clock.now(), context.ports.clock.monotonic_ms());
        let traced = trace::tool(step, &row);
        let (call_context, call, ended) = (context.clone(), row.clone(), traced.clone());
        let work = async move {
            call_context.publish_started(&call);
            failpoint::hit!("tool.begins");
            let work = async {
                let done = call_context.work(&call, &Inward::default()).await?;
                call_context.done_later(done).await
            };
            let (result, span) = call_context.timed(work).await;
            failpoint::hit!("tool.done");
            let mut outcome = outcome_of(result);
            if !call_context.returns_strangers_text(&call) {
                outcome.trust = outcome.trust.or(Some(Trust::Operator));
            }
            trace::tool_done(&ended, outcome.status);
            (outcome, span)
        };
        let task = AbortOnDropHandle::new(tokio::spawn(work.instrument(traced)));
        Self { context: context.clone(), row, task, at, began }
    }

    /// Waits for its end. A panic fails that call only.
    pub(crate) async fn finish(&mut self) -> (Outcome, Span) {
        match (&mut self.task).await {
            Ok(ended) => ended,
            Err(error) => {
                let text = "the tool crashed; unknown whether it happened".to_owned();
                let outcome = Outcome::of_runtime(OutcomeStatus::Unknown, text);
                (Outcome { detail: Some(error.to_string()), ..outcome }, self.span())
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

/// What happened to an outward call.
pub(crate) enum OutwardEvent {
    /// It has an outcome.
    Answered(CallId, Outcome, Span),
    /// It exceeded its time-out and is still running.
    Overdue(Box<OutwardCall>),
}

/// The outward calls that a cycle waits for. Dropping it aborts them.
#[derive(Default)]
pub(crate) struct Outward {
    running: JoinSet<OutwardEvent>,
    /// The call of each task.
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
    /// Starts calls in parallel; the state machine starts unsafe ones one after another.
    /// Outcomes of these are noted as soon as they arrive.
    pub(crate) fn start(
        &mut self,
        context: &CallContext,
        step: &tracing::Span,
        rows: Vec<CallRow>,
        unstored: &Arc<Unstored>,
    ) {
        for row in rows {
            let timeout = context.timeout(&row);
            let mut work = OutwardCall::begin(context, row.clone(), step);
            let (at, began, clock) = (work.at, work.began, Arc::clone(&context.ports.clock));
            let unstored = (row.effect == Effect::Unsafe).then(|| Arc::clone(unstored));
            let task = self.running.spawn(async move {
                let (outcome, span) = tokio::select! {
                    biased;
                    ended = work.finish() => ended,
                    () = clock.sleep(timeout) => return OutwardEvent::Overdue(Box::new(work)),
                };
                if let Some(unstored) = unstored {
                    unstored.note(work.context.agent, &work.row.id, &outcome);
                }
                work.context.publish_done(&work.row, outcome.status, &outcome.text, span);
                OutwardEvent::Answered(work.row.id, outcome, span)
            });
            self.calls.insert(task.id(), RunningCall { context: context.clone(), row, task, at, began });
        }
    }

    /// Waits for the next event; never ready if nothing runs.
    pub(crate) async fn next(&mut self) -> OutwardEvent {
        loop {
            match self.running.join_next_with_id().await {
                Some(ended) => {
                    if let Some(event) = self.take(ended) {
                        return event;
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Aborts the calls that may be repeated.
    pub(crate) fn retain_unsafe(&mut self) {
        let repeatable = |running: &RunningCall| running.row.effect != Effect::Unsafe;
        self.calls.extract_if(|_, running| repeatable(running)).for_each(|(_, call)| call.task.abort());
    }

    /// Whether no call runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Aborts the calls that are not wanted. Returns them and when they ran.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&CallId) -> bool) -> Vec<(CallId, Span)> {
        let unwanted = self.calls.extract_if(|_, running| !wanted(&running.row.id));
        let ended = unwanted.map(|(_, running)| {
            running.task.abort();
            let span = span(running.at, running.began, &running.context);
            running.context.publish_done(&running.row, OutcomeStatus::Canceled, "", span);
            (running.row.id, span)
        });
        ended.collect()
    }

    /// The events that have happened already; all other calls are aborted.
    pub(crate) fn take_finished(mut self) -> Vec<OutwardEvent> {
        let mut events = Vec::new();
        while let Some(ended) = self.running.try_join_next_with_id() {
            events.extend(self.take(ended));
        }
        events
    }

    /// `None` for a call that was aborted.
    fn take(&mut self, ended: Result<(task::Id, OutwardEvent), JoinError>) -> Option<OutwardEvent> {
        let (task, event) = ended.ok()?;
        self.calls.remove(&task).map(|_| event)
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
