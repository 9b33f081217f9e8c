//! The loop: one activation of one agent. The state machine (`agent::cycle`) decides, this file acts.

use std::sync::Arc;
use std::time::Duration;

use agent::call::{CallRow, Effect, Outcome, OutcomeStatus};
use agent::changes::{Changes, CommitKind, CommitOutcome, News, PlanChange};
use agent::cycle::{ActivationEnd, Cycle, ModelReply, Next, Setup, SummaryEnd, SummaryRequest};
use agent::entry::EntryKind;
use agent::id::{AgentId, CycleId};
use agent::life::Window;
use agent::limits;
use agent::port::{AgentTools, BoxFuture, Fault, Memo, ModelError, ModelRequest, StoreError, Toolset};
use agent::prompt::Prompt;
use agent::run::Spent;
use agent::update::AgentState;
use futures_util::FutureExt;

use crate::Ports;
use crate::commit::{self, Committed, Submitted, joined};
use crate::draft_stream::DraftStream;
use crate::live::DelayKind;
use crate::model_set::ModelSet;
pub(crate) use crate::node_context::NodeContext;
use crate::sent_requests::{self, SentRequests};
use crate::think::{Interrupt, ModelCall, ModelCallEnd};
use crate::tool_runner::{self, CallContext, Outward, OutwardEvent};
use crate::trace::Trace;
pub(crate) use crate::turn::{Activated, StoreFailure, Wakes};
use crate::turn::{Turn, Watch};
use crate::waits::Wait;
use crate::warm::Kept;

/// Why activations end when the node does.
const STOPPING: &str = "the server is stopping";

/// One activation in progress.
struct Driver<'a> {
    node_context: &'a NodeContext,
    agent: AgentId,
    cycle: Cycle,
    config: Arc<agent::config::AgentConfig>,
    tools: Toolset,
    models: ModelSet,
    wakes: &'a Wakes,
    outward: Outward,
    /// Held by a suspect until its first decision is committed.
    suspected: Option<Watch>,
    /// Whether its opening is committed.
    opened: bool,
    requests: SentRequests,
    /// What the cycle cost, once its run is written.
    spent: Option<Spent>,
    /// When it began, by the monotonic clock.
    began: u64,
    trace: Trace,
}

/// Runs one activation of an agent. A suspect holds
/// `watch` until it has shown that it does not crash the process.
pub(crate) async fn activate(
    node_context: &NodeContext,
    turn: Turn,
    watch: Option<Watch>,
    wakes: &Wakes,
) -> Result<Activated, StoreFailure> {
    let (ports, agent) = (&node_context.ports, turn.agent);
    let mut kept = node_context.warm.take(agent);
    let known = kept.as_ref().map(|kept| kept.commit_n);
    let Some(mut read) = ports.store.wake(agent, ports.clock.now(), known).await? else {
        return Ok(Activated::Ended(ActivationEnd::Idle));
    };
    let suspicion = read.suspicion();
    // A canceled cycle calls no model, so it need not wait as a suspect.
    if let Some(deaths) = suspicion.filter(|_| !turn.watched && read.cancel.is_none()) {
        return Ok(Activated::Suspect { deaths });
    }
    let suspected = watch.filter(|_| suspicion.is_some());
    // A request that is sent before the opening is committed is paid in vain if the store refuses the opening.
    read.clean &= !(turn.careful || node_context.health.refuses());
    let now = ports.clock.now();
    let requests = kept.as_mut().map(|kept| std::mem::take(&mut kept.requests)).unwrap_or_default();
    let requests = requests.begin(&read);
    let (window, memo) = match (std::mem::replace(&mut read.window, Window::Unchanged), kept) {
        (Window::Loaded(window), _) => (window, None),
        (Window::Unchanged, Some(kept)) => (kept.window, Some((kept.memo, kept.model))),
        (Window::Unchanged, None) => (Vec::new(), None),
    };
    let config = Arc::clone(&read.config);
    ports.live.called(agent, &read.entity.name);
    let models = ModelSet::of(&*ports.models, &config, memo);
    // A suspect needs no permit here, a canceled cycle calls no model, and with routing rules the model is not
    // known yet.
    let waits = !turn.watched && read.cancel.is_none() && config.routing.is_empty();
    if waits && !node_context.permits.reserve(&models.own().provider, agent) {
        let provider = models.own().provider.clone();
        ports.live.begin_wait(agent, Wait::Requests(provider, ports.bounds.requests_per_provider));
        let (memo, model) = models.into_memo();
        node_context.warm.keep(agent, Kept { commit_n: read.life.commit_n, window, memo, model, requests });
        return Ok(Activated::Full);
    }
    if node_context.calibration.should_learn(&models.own().name)
        && let Ok(runs) = ports.lookup.runs(agent, limits::RUNS_SEEN).await
    {
        models.names().for_each(|name| node_context.calibration.learn(name, &runs));
    }
    let tools = AgentTools::of(&*ports.toolbox, &*ports.models, &config);
    node_context.left_out.report(&ports.live, agent, &tools.left_out);
    let tools = Toolset::from(tools);
    let setup = Setup {
        tools: Arc::clone(tools.specs()),
        model: node_context.calibration.in_estimate(models.own()),
        others: models.others(&node_context.calibration),
        new_cycle: CycleId(ports.ids.uuid()),
        unstored: node_context.unstored.of(agent),
    };
    let cycle = Cycle::begin(read, window, setup, now);
    let trace = Trace::of(agent, &cycle);
    let outward = Outward::default();
    let (spent, began, opened) = (None, ports.clock.monotonic_ms(), false);
    let mut activation = Driver {
        node_context,
        agent,
        cycle,
        config,
        tools,
        models,
        wakes,
        outward,
        suspected,
        opened,
        requests,
        spent,
        began,
        trace,
    };
    let end = activation.run().await;
    if end.is_err() {
        activation.await_unsafe().await;
    }
    let opened = activation.opened;
    ports.live.reset_drafts(agent);
    let end = activation.finish(end);
    end.map(Activated::Ended).map_err(|error| StoreFailure { error, opened })
}

impl<'a> Driver<'a> {
    async fn run(&mut self) -> Result<ActivationEnd, StoreError> {
        loop {
            if self.node_context.stopping.is_cancelled() {
                self.cycle.stop(STOPPING);
            }
            let now = self.now();
            match self.cycle.next(now) {
                Next::Open(open) => self.open(*open).await?,
                Next::Encode(prompt) => self.encode(&prompt),
                Next::Summarize(request) => {
                    let end = self.summarize(*request).await?;
                    let now = self.now();
                    self.cycle.summarized(end, now);
                }
                Next::Think(prompt) => {
                    let ended = self.think(&prompt).await;
                    self.handle_model_end(prompt, ended).await;
                }
                Next::Inward(calls) => {
                    let step = self.trace.step(self.cycle.step());
                    let (results, spans) = tool_runner::inward(&self.calls(), &step, calls).await;
                    spans.into_iter().for_each(|(call, span)| self.cycle.timed(call, span));
                    self.cycle.acted(results);
                }
                Next::Look => {
                    let news = self.glance().await?;
                    self.cycle.looked(news);
                    self.abort_answered_calls();
                }
                Next::Commit(changes) => {
                    let outcome = self.commit(*changes).await?;
                    let now = self.now();
                    self.cycle.committed(outcome, now);
                    self.abort_answered_calls();
                }
                Next::Outward(calls) => {
                    let step = self.trace.step(self.cycle.step());
                    let context = self.calls();
                    let (awaited, detached) = calls.into_iter().partition(|row: &CallRow| row.awaited);
                    self.outward.start(&context, &step, awaited, &self.node_context.unstored);
                    let detached: Vec<CallRow> = detached;
                    for row in detached {
                        self.node_context.detached.start(&context, row, step.clone());
                    }
                }
                Next::Await => self.wait().await?,
                Next::Finished(end) => return Ok(end),
            }
        }
    }

    /// Neither the opening nor a generation has effects outside, so they may overlap. The opening is submitted
    /// before the prompt is rendered, so that a failure to render counts as an attempt. Watchers may see a draft
    /// at once; the model's decision is held until the opening is durable.
    async fn open(&mut self, open: Changes) -> Result<(), StoreError> {
        let opening = self.submit(open.clone());
        let now = self.now();
        let prompt = self.cycle.prompt_while_opening(now);
        self.show_thinking();
        if let Some(prompt) = &prompt {
            self.check(prompt);
        }
        let (outcome, ended) = match &prompt {
            Some(prompt) => self.think_while(opening, prompt).await?,
            None => (joined(opening.await)?, None),
        };
        let outcome = self.published(outcome, &open);
        let now = self.now();
        self.cycle.committed(outcome, now);
        if let (Some(prompt), Some(ended)) = (prompt, ended) {
            self.handle_model_end(prompt, ended).await;
        }
        Ok(())
    }

    /// Calls the model while the opening is written. Returns the result of both.
    async fn think_while(
        &mut self,
        mut opening: Submitted,
        prompt: &Prompt,
    ) -> Result<(Committed, Option<ModelCallEnd>), StoreError> {
        let node_context = self.node_context;
        let mut draft = DraftStream::of(&self.cycle, self.agent, &node_context.ports.live);
        let (model_call, memo) = self.model_call();
        let (outcome, ended) = {
            let mut early = None;
            let thinking = model_call.ask(prompt, memo, &mut draft);
            tokio::pin!(thinking);
            let outcome = loop {
                // The opening first: its result decides whether the reply counts.
                tokio::select! {
                    biased;
                    outcome = &mut opening => break joined(outcome)?,
                    ended = &mut thinking, if early.is_none() => early = Some(ended),
                }
            };
            let CommitOutcome::Committed { glance, .. } = &outcome.0 else { return Ok((outcome, None)) };
            // Something urgent may have arrived between the first read and the opening, or a cancel.
            if early.is_none() && (glance.urgent || glance.cancel) {
                let interrupt = match model_call.glance().await? {
                    Some(news) if news.glance.cancel => Some(Interrupt::Canceled(news)),
                    Some(news) if model_call.cycle.outdated_by(&news) => Some(Interrupt::News(news)),
                    _ => None,
                };
                early = interrupt.map(|interrupt| ModelCallEnd::Interrupted(interrupt, Some(0)));
            }
            match early {
                Some(ended) => (outcome, ended),
                None => (outcome, thinking.await),
            }
        };
        if let ModelCallEnd::Interrupted(interrupt, tokens) = ended {
            let tokens = tokens.map(|tokens| tokens.max(draft.generated_tokens()));
            draft.withdraw();
            return Ok((outcome, Some(ModelCallEnd::Interrupted(interrupt, tokens))));
        }
        Ok((outcome, Some(ended)))
    }

    /// Builds the request without sending it.
    fn encode(&mut self, prompt: &Prompt) {
        failpoint::poison!(format!("{prompt:?}"));
        let (model, memo) = self.models.select(self.cycle.model());
        let timeouts = &self.config.model_timeouts;
        drop(model.stream(ModelRequest { prompt, memo, timeouts }));
        let now = self.now();
        self.cycle.encoded(now);
    }

    async fn think(&mut self, prompt: &Prompt) -> ModelCallEnd {
        self.show_thinking();
        self.check(prompt);
        let node_context = self.node_context;
        let mut draft = DraftStream::of(&self.cycle, self.agent, &node_context.ports.live);
        let (model_call, memo) = self.model_call();
        model_call.ask(prompt, memo, &mut draft).await
    }

    /// The model call of this step, with the fragments that were encoded for its model before.
    fn model_call(&mut self) -> (ModelCall<'_>, &mut Memo) {
        let (model, memo) = self.models.select(self.cycle.model());
        let retries = self.config.limits.model_retries;
        let retries =
            if self.cycle.has_fallback() { retries.min(limits::RETRIES_BEFORE_FALLBACK) } else { retries };
        let model_call = ModelCall {
            ports: &self.node_context.ports,
            breakers: &self.node_context.breakers,
            calibration: &self.node_context.calibration,
            permits: &self.node_context.permits,
            node: &self.node_context.node,
            model,
            config: &self.config,
            retries,
            tools: &self.tools,
            cycle: &self.cycle,
            lease: self.cycle.lease(),
            recheck: &self.wakes.recheck,
            stopping: &self.node_context.stopping,
            step: self.trace.step(self.cycle.step()),
        };
        (model_call, memo)
    }

    /// Asks for a summary of the history; nothing of it is shown. A request that may wait is dropped when the agent has new
    /// work.
    async fn summarize(&mut self, request: SummaryRequest) -> Result<SummaryEnd, StoreError> {
        let SummaryRequest { prompt, model, may_wait } = request;
        if may_wait {
            // A signal may be of an event that the cycle has processed: the store knows whether one waits.
            let _ = self.wakes.due.notified().now_or_never();
            if self.glance().await?.is_none_or(|news| news.glance.waiting > 0) {
                return Ok(SummaryEnd::Dropped(None));
            }
        }
        failpoint::hit!("summary.asked");
        // Also if it is the first thing that an activation does.
        self.show(AgentState::Thinking);
        let live = &self.node_context.ports.live;
        live.delayed(self.agent, DelayKind::Summary, "writing a summary of its history".to_owned());
        let mut draft = DraftStream::hidden(&self.cycle, self.agent, live);
        let model = self.models.named(model.as_deref());
        let (mut memo, wakes) = (Memo::default(), self.wakes);
        let ended = {
            let retries = self.config.limits.model_retries;
            let model_call = ModelCall { model, retries, ..self.model_call().0 };
            tokio::select! {
                biased;
                ended = model_call.ask(&prompt, &mut memo, &mut draft) => Some(ended),
                () = wakes.due.notified(), if may_wait => None,
            }
        };
        match ended {
            Some(ModelCallEnd::Replied(reply)) => {
                failpoint::hit!("summary.replied");
                Ok(SummaryEnd::Replied(Box::new(reply)))
            }
            Some(ModelCallEnd::Interrupted(interrupt, tokens)) => {
                match interrupt {
                    Interrupt::Canceled(news) | Interrupt::News(news) => self.cycle.looked(Some(news)),
                    Interrupt::Stopping => self.cycle.stop(STOPPING),
                    Interrupt::Suspended => self.cycle.stop("suspended"),
                }
                Ok(SummaryEnd::Dropped(tokens))
            }
            None => Ok(SummaryEnd::Dropped(draft.running_tokens())),
        }
    }

    async fn handle_model_end(&mut self, prompt: Prompt, ended: ModelCallEnd) {
        match ended {
            ModelCallEnd::Replied(mut model_reply) => {
                if let Ok(model_reply) = &mut model_reply {
                    let (model, _) = self.models.select(self.cycle.model());
                    let live = &self.node_context.ports.live;
                    model_reply.sent = self.requests.note(live, self.agent, model.info(), &prompt);
                }
                self.show(AgentState::Processing);
                self.note_answered(&model_reply).await;
                let now = self.now();
                self.cycle.replied(model_reply, now);
            }
            ModelCallEnd::Interrupted(interrupt, tokens) => {
                // Another task closes the model's connection; it can run only once this one yields.
                tokio::task::yield_now().await;
                match interrupt {
                    Interrupt::News(news) => {
                        return self.cycle.outdated(news, tokens);
                    }
                    Interrupt::Canceled(news) => self.cycle.looked(Some(news)),
                    Interrupt::Stopping => self.cycle.stop(STOPPING),
                    Interrupt::Suspended => self.cycle.stop("suspended"),
                }
                self.cycle.discarded(tokens);
            }
        }
    }

    /// Notes that the model has answered. If it refuses the content and has never answered anything, the cycle
    /// learns that.
    async fn note_answered(&mut self, model_reply: &Result<ModelReply, ModelError>) {
        let (model, _) = self.models.select(self.cycle.model());
        let name = model.info().name.clone();
        match model_reply {
            Ok(_) => self.node_context.answered.note(&name),
            Err(error) if error.fault() == Fault::Content => {
                let runs = self.ports().lookup.runs(self.agent, limits::RUNS_SEEN).await;
                // If the runs cannot be read, the failure counts as one of the content.
                if runs.is_ok_and(|runs| !self.node_context.answered.has(&name, &runs)) {
                    self.cycle.never_answered();
                }
            }
            Err(_) => {}
        }
    }

    /// Waits for the next outcome of the running calls, for a cancel of the cycle, or for the end of the grace
    /// period of a stop.
    async fn wait(&mut self) -> Result<(), StoreError> {
        self.show(AgentState::Thinking);
        // No request is made before the calls are answered.
        self.node_context.permits.release(self.agent);
        let stopped = async {
            self.node_context.stopping.cancelled().await;
            self.node_context.ports.clock.sleep(Duration::from_millis(limits::STEP_GRACE_MS)).await;
        };
        tokio::select! {
            biased;
            event = self.outward.next() => {
                self.settle(event);
                return Ok(());
            }
            () = stopped => self.cycle.stop(STOPPING),
            () = self.wakes.recheck.notified() => {
                let news = self.glance().await?;
                self.cycle.looked(news);
                if !self.cycle.interrupted() {
                    self.abort_answered_calls();
                    return Ok(());
                }
            }
        }
        // Outcomes that have arrived are kept. The other calls get theirs when the cycle resumes.
        for event in std::mem::take(&mut self.outward).take_finished() {
            if let OutwardEvent::Answered(..) = event {
                self.settle(event);
            }
        }
        self.cycle.drop_running();
        Ok(())
    }

    /// The store failed. A call that has begun and must not be repeated runs on to its end, so that the next activation
    /// knows whether it happened; the others are dropped.
    async fn await_unsafe(&mut self) {
        let stopping = &self.node_context.stopping;
        let mut running = std::mem::take(&mut self.outward);
        running.retain_unsafe();
        while !running.is_empty() {
            tokio::select! {
                biased;
                event = running.next() => if let OutwardEvent::Overdue(work) = event {
                    let timeout = work.context.timeout(&work.row).as_millis();
                    let outcome = Outcome::given_up(work.row.effect, work.row.runner, timeout);
                    self.node_context.unstored.note(self.agent, &work.row.id, &outcome);
                },
                () = stopping.cancelled() => return,
            }
        }
    }

    /// Aborts calls that were answered from outside.
    fn abort_answered_calls(&mut self) {
        for (call, span) in self.outward.retain(|call| self.cycle.awaits(call)) {
            self.cycle.timed(call, span);
        }
    }

    fn settle(&mut self, event: OutwardEvent) {
        match event {
            OutwardEvent::Answered(call, outcome, span) => {
                self.cycle.timed(call.clone(), span);
                self.cycle.settled(call, outcome);
            }
            OutwardEvent::Overdue(work) => {
                let (call, span) = (work.row.id.clone(), work.span());
                self.cycle.timed(call.clone(), span);
                let (timeout, room) =
                    (work.context.timeout(&work.row), self.node_context.detached.room(&work.row));
                let goes_on = self.cycle.overdue(&call, timeout, room.is_some());
                match room.filter(|_| goes_on) {
                    Some(slot) => {
                        if work.row.effect == Effect::Unsafe {
                            let outcome = Outcome::overdue(&call, timeout.as_millis());
                            self.node_context.unstored.note(self.agent, &call, &outcome);
                        }
                        self.node_context.detached.adopt(*work, slot);
                    }
                    None => work.context.publish_done(
                        &work.row,
                        OutcomeStatus::Error,
                        "it exceeded its time-out",
                        span,
                    ),
                }
            }
        }
    }

    async fn commit(&mut self, changes: Changes) -> Result<CommitOutcome, StoreError> {
        let outcome = joined(self.submit(changes.clone()).await)?;
        Ok(self.published(outcome, &changes))
    }

    fn submit(&self, changes: Changes) -> Submitted {
        let alerts = commit::alerts(&self.ports().live, self.agent, &changes, self.cycle.compaction());
        let changes = Changes { alerts, ..changes };
        commit::submit(self.ports(), &self.node_context.health, self.cycle.lease(), changes)
    }

    /// Publishes what a commit caused to watchers, and signals the agents that it made due.
    fn published(&mut self, (outcome, notifications): Committed, changes: &Changes) -> CommitOutcome {
        if let CommitOutcome::Gone(_) = outcome {
            self.requests.refused();
        }
        if let CommitOutcome::Committed { n, .. } = outcome {
            self.opened = true;
            self.node_context.unstored.stored(self.agent, &changes.call_changes);
            if matches!(changes.kind, CommitKind::Decide | CommitKind::Close | CommitKind::Park) {
                self.suspected = None;
            }
            if changes.entries.iter().any(|entry| entry.kind == EntryKind::Assistant) {
                self.requests.decided(changes.view.as_ref().map(|view| view.rev));
            }
            if let Some(run) = &changes.run {
                self.trace.ended(run);
                self.spent = Some(Spent::of(run));
            }
            self.node_context.node.signal(&notifications.wake);
            let slots = changes.inward.plans.iter().filter_map(PlanChange::next_at);
            self.node_context.node.planned(slots.min());
            let known = self.cycle.compaction();
            commit::publish(&self.node_context.ports.live, self.agent, n, changes, known, notifications);
        }
        outcome
    }

    /// Shows `thinking`, unless the provider's breaker refuses the request anyway.
    fn show_thinking(&mut self) {
        let (model, _) = self.models.select(self.cycle.model());
        if !self.node_context.breakers.refuses(&model.info().provider, self.agent) {
            self.show(AgentState::Thinking);
        }
    }

    /// Checks what is about to be sent.
    fn check(&mut self, prompt: &Prompt) {
        let live = &self.node_context.ports.live;
        self.requests.check_room(live, self.agent, &self.cycle);
        sent_requests::check_pins(live, self.agent, &self.cycle, prompt);
    }

    fn show(&self, state: AgentState) {
        self.node_context.ports.live.enter(self.agent, self.cycle.id(), state, &self.cycle.spaces());
    }

    /// Ends the activation: notifies watchers and keeps the agent's state warm.
    fn finish(self, end: Result<ActivationEnd, StoreError>) -> Result<ActivationEnd, StoreError> {
        let live = &self.node_context.ports.live;
        commit::publish_idle(live, self.agent, &end, &self.cycle.spaces(), self.spent);
        if matches!(end, Ok(ActivationEnd::Ended { .. })) {
            self.node_context.unstored.forget(self.agent);
        }
        if matches!(end, Ok(ActivationEnd::Idle | ActivationEnd::Ended { .. } | ActivationEnd::Parked { .. }))
        {
            let (memo, model) = self.models.into_memo();
            let (commit_n, window) = self.cycle.into_warm();
            let requests = self.requests.kept();
            self.node_context.warm.keep(self.agent, Kept { commit_n, window, memo, model, requests });
        }
        end
    }

    /// What happened since the cycle last looked.
    fn glance(&self) -> BoxFuture<'a, Result<Option<News>, StoreError>> {
        self.node_context.ports.store.glance(self.cycle.lease(), self.cycle.facts().known_rev())
    }

    fn calls(&self) -> CallContext {
        let node = &self.node_context.node;
        CallContext::of(&self.cycle, self.agent, (self.ports(), node), &self.tools)
    }

    fn ports(&self) -> &Ports {
        &self.node_context.ports
    }

    /// The current time. Also tells the cycle how long this activation has lasted by the monotonic clock.
    fn now(&mut self) -> jiff::Timestamp {
        let clock = &self.node_context.ports.clock;
        self.cycle.set_awake_ms(clock.monotonic_ms().saturating_sub(self.began));
        clock.now()
    }
}
