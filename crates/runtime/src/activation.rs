//! The loop: one activation of one agent. The machine decides, this file does.

use std::sync::Arc;
use std::time::Duration;

use agent::call::{CallRow, OutcomeStatus};
use agent::changes::{Changes, CommitKind, CommitOutcome, News};
use agent::cycle::{ActivationEnd, Cycle, ModelReply, Next, Setup};
use agent::id::{AgentId, CycleId};
use agent::life::Window;
use agent::limits;
use agent::port::{BoxFuture, Fault, Memo, ModelError, ModelRequest, StoreError, specs};
use agent::prompt::Prompt;
use agent::run::Spent;
use agent::update::AgentState;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::Ports;
use crate::answered::Answered;
use crate::breaker::Breakers;
use crate::commit::{self, Committed, Submitted, joined};
use crate::detached_calls::DetachedCalls;
use crate::draft_stream::DraftStream;
use crate::health::Health;
use crate::model_set::ModelSet;
use crate::node::Node;
use crate::permits::Permits;
use crate::think::{Asked, Asking, Interrupt};
use crate::tool_runner::{self, CallContext, Came, Outward};
use crate::trace::Trace;
use crate::turn::{Turn, Watch};
use crate::waits::Wait;
use crate::warm::{Kept, Warm};

/// Why activations end when the node does.
const STOPPING: &str = "the node stops";

/// What all activations of a node share.
pub(crate) struct NodeContext {
    pub(crate) ports: Ports,
    pub(crate) node: Node,
    pub(crate) warm: Warm,
    pub(crate) health: Arc<Health>,
    pub(crate) permits: Arc<Permits>,
    pub(crate) breakers: Breakers,
    pub(crate) answered: Answered,
    /// Calls that go on beyond their cycle.
    pub(crate) detached: Arc<DetachedCalls>,
    pub(crate) stopping: CancellationToken,
}

/// How an activation ended.
pub(crate) enum Activated {
    /// Its agent is idle.
    Ended(ActivationEnd),
    /// Its agent may have been the death of the process, which had died over it so often before: nothing was
    /// done, it waits for a turn among its like.
    Suspect { deaths: u32 },
    /// As many requests as may be are under way at its provider: nothing was done, it stands in line there.
    Full,
}

/// That an activation ended by the store.
pub(crate) struct Unwritten {
    pub(crate) error: StoreError,
    /// Whether its opening had been taken.
    pub(crate) opened: bool,
}

impl From<StoreError> for Unwritten {
    fn from(error: StoreError) -> Self {
        Self { error, opened: false }
    }
}

/// One activation in progress.
struct Driver<'a> {
    node_context: &'a NodeContext,
    agent: AgentId,
    cycle: Cycle,
    config: Arc<agent::config::AgentConfig>,
    models: ModelSet,
    recheck: &'a Notify,
    outward: Outward,
    /// Held until the first decision is committed, where this agent may have been the cause of a
    /// crash.
    suspected: Option<Watch>,
    /// Whether its opening is committed.
    opened: bool,
    /// What the cycle took, once its run is written.
    spent: Option<Spent>,
    /// When it began, by the clock that never jumps.
    began: u64,
    trace: Trace,
}

/// Lives one agent until it rests. `knock` says: look again now (cancel, suspend). `watch` is held by a
/// suspect until it has shown that it is none.
pub(crate) async fn live(
    node_context: &NodeContext,
    turn: Turn,
    watch: Option<Watch>,
    recheck: &Notify,
) -> Result<Activated, Unwritten> {
    let (ports, agent) = (&node_context.ports, turn.agent);
    let kept = node_context.warm.take(agent);
    let known = kept.as_ref().map(|kept| kept.commit_n);
    let Some(mut read) = ports.store.wake(agent, ports.clock.now(), known).await? else {
        return Ok(Activated::Ended(ActivationEnd::Idle));
    };
    let suspicion = read.suspicion();
    // What is canceled asks no model, and is told so at once.
    if let Some(deaths) = suspicion.filter(|_| !turn.watched && read.cancel.is_none()) {
        return Ok(Activated::Suspect { deaths });
    }
    let suspected = watch.filter(|_| suspicion.is_some());
    // What is thought before it is known whether the store takes it may be paid in vain.
    read.clean &= !(turn.careful || node_context.health.refuses());
    let now = ports.clock.now();
    let (window, memo) = match (std::mem::replace(&mut read.window, Window::Unchanged), kept) {
        (Window::Loaded(window), _) => (window, None),
        (Window::Unchanged, Some(kept)) => (kept.window, Some((kept.memo, kept.model))),
        (Window::Unchanged, None) => (Vec::new(), None),
    };
    let config = Arc::clone(&read.config);
    let models = ModelSet::of(&*ports.models, &config, memo);
    // A suspect has a place of its own, what is canceled needs no model, and of rules that choose among models
    // it is not known yet which one is asked.
    let waits = !turn.watched && read.cancel.is_none() && config.routing.is_empty();
    if waits && !node_context.permits.reserve(&models.own().provider, agent) {
        let provider = models.own().provider.clone();
        ports.live.wait(agent, Wait::Requests(provider, ports.bounds.requests_per_provider));
        let (memo, model) = models.into_memo();
        node_context.warm.keep(agent, Kept { commit_n: read.life.commit_n, window, memo, model });
        return Ok(Activated::Full);
    }
    let setup = Setup {
        tools: specs(&*ports.toolbox, config.tools.as_deref()),
        model: models.own().clone(),
        others: models.others(),
        fresh: CycleId(ports.ids.uuid()),
        panicked: turn.panicked,
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
        models,
        recheck,
        outward,
        suspected,
        opened,
        spent,
        began,
        trace,
    };
    let rested = activation.run().await;
    let opened = activation.opened;
    ports.live.reset_drafts(agent);
    let rested = activation.part(rested);
    rested.map(Activated::Ended).map_err(|error| Unwritten { error, opened })
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
                Next::Think(prompt) => {
                    let asked = self.think(&prompt).await;
                    self.heard(asked).await;
                }
                Next::Inward(calls) => {
                    let step = self.trace.step(self.cycle.step());
                    let (results, spans) =
                        tool_runner::inward(&self.cycle, self.agent, self.ports(), &step, calls).await;
                    spans.into_iter().for_each(|(call, span)| self.cycle.timed(call, span));
                    self.cycle.acted(results);
                }
                Next::Look => {
                    let news = self.glance().await?;
                    self.cycle.looked(news);
                    self.let_go_answered();
                }
                Next::Commit(changes) => {
                    let outcome = self.commit(*changes).await?;
                    let now = self.now();
                    self.cycle.committed(outcome, now);
                    self.let_go_answered();
                }
                Next::Outward(calls) => {
                    let step = self.trace.step(self.cycle.step());
                    let context = CallContext::of(&self.cycle, self.agent, &self.node_context.ports);
                    let (awaited, detached) = calls.into_iter().partition(|row: &CallRow| row.awaited);
                    self.outward.start(&context, &step, awaited);
                    let detached: Vec<CallRow> = detached;
                    for row in detached {
                        self.node_context.detached.start(&context, row, step.clone());
                    }
                }
                Next::Await => self.wait().await?,
                Next::Finished(rested) => return Ok(rested),
            }
        }
    }

    /// Opening has no effects outside, thinking neither: they may overlap. The opening is on its way before
    /// anything is rendered, so that whatever breaks then is counted. Watchers may see a draft at once; what
    /// the model decides is held until the opening is durable.
    async fn open(&mut self, open: Changes) -> Result<(), StoreError> {
        let opening = self.submit(open.clone());
        let now = self.now();
        let asked = self.cycle.meanwhile(now);
        self.show_thinking();
        let (outcome, asked) = match asked {
            Some(prompt) => self.ask_while(opening, &prompt).await?,
            None => (joined(opening.await)?, None),
        };
        let outcome = self.published(outcome, &open);
        let now = self.now();
        self.cycle.committed(outcome, now);
        if let Some(asked) = asked {
            self.heard(asked).await;
        }
        Ok(())
    }

    /// Asks the model while the opening is written; what came of both.
    async fn ask_while(
        &mut self,
        mut opening: Submitted,
        prompt: &Prompt,
    ) -> Result<(Committed, Option<Asked>), StoreError> {
        let node_context = self.node_context;
        let mut draft = DraftStream::of(&self.cycle, self.agent, &node_context.ports.live);
        let (asking, memo) = self.asking();
        let (outcome, asked) = {
            let mut early = None;
            let thinking = asking.ask(prompt, memo, &mut draft);
            tokio::pin!(thinking);
            let outcome = loop {
                // The opening first: its answer says whether what was thought counts.
                tokio::select! {
                    biased;
                    outcome = &mut opening => break joined(outcome)?,
                    asked = &mut thinking, if early.is_none() => early = Some(asked),
                }
            };
            let CommitOutcome::Committed { glance, .. } = &outcome.0 else { return Ok((outcome, None)) };
            // What came between waking and opening may be urgent.
            if early.is_none() && glance.urgent {
                let news = asking.glance().await?;
                let news = news.filter(|news| asking.cycle.outdated_by(news));
                early = news.map(|news| Asked::Interrupted(Interrupt::News(news), Some(0)));
            }
            match early {
                Some(asked) => (outcome, asked),
                None => (outcome, thinking.await),
            }
        };
        if let Asked::Interrupted(interrupt, tokens) = asked {
            let tokens = tokens.map(|tokens| tokens.max(draft.generated_tokens()));
            draft.void();
            return Ok((outcome, Some(Asked::Interrupted(interrupt, tokens))));
        }
        Ok((outcome, Some(asked)))
    }

    /// Builds the request and drops it unsent.
    fn encode(&mut self, prompt: &Prompt) {
        failpoint::poison!(format!("{prompt:?}"));
        let (model, memo) = self.models.speak(self.cycle.model());
        let timeouts = &self.config.model_timeouts;
        drop(model.stream(ModelRequest { prompt, memo, timeouts }));
        let now = self.now();
        self.cycle.encoded(now);
    }

    async fn think(&mut self, prompt: &Prompt) -> Asked {
        self.show_thinking();
        let node_context = self.node_context;
        let mut draft = DraftStream::of(&self.cycle, self.agent, &node_context.ports.live);
        let (asking, memo) = self.asking();
        asking.ask(prompt, memo, &mut draft).await
    }

    /// Whoever is to speak in this step, ready to be asked, with what was encoded for that model before.
    fn asking(&mut self) -> (Asking<'_>, &mut Memo) {
        let (model, memo) = self.models.speak(self.cycle.model());
        let asking = Asking {
            ports: &self.node_context.ports,
            breakers: &self.node_context.breakers,
            permits: &self.node_context.permits,
            node: &self.node_context.node,
            model,
            config: &self.config,
            cycle: &self.cycle,
            lease: self.cycle.lease(),
            recheck: self.recheck,
            stopping: &self.node_context.stopping,
            step: self.trace.step(self.cycle.step()),
        };
        (asking, memo)
    }

    async fn heard(&mut self, asked: Asked) {
        match asked {
            Asked::Replied(model_reply) => {
                self.show(AgentState::Processing);
                self.see_whether_it_answers(&model_reply).await;
                let now = self.now();
                self.cycle.replied(model_reply, now);
            }
            Asked::Interrupted(interrupt, tokens) => {
                // The model's connection ends in a task of its own, which may be run only once this one yields.
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

    /// Notes that the model has answered, and tells the cycle where it refuses what it was sent and has never
    /// answered anything.
    async fn see_whether_it_answers(&mut self, model_reply: &Result<ModelReply, ModelError>) {
        let (model, _) = self.models.speak(self.cycle.model());
        let name = model.info().name.clone();
        match model_reply {
            Ok(_) => self.node_context.answered.note(&name),
            Err(error) if error.fault() == Fault::Content => {
                let runs = self.ports().lookup.runs(self.agent, limits::RUNS_SEEN).await;
                // Where it cannot be seen the failure is what it looks like.
                if runs.is_ok_and(|runs| !self.node_context.answered.has(&name, &runs)) {
                    self.cycle.never_answered();
                }
            }
            Err(_) => {}
        }
    }

    /// Waits for the next outcome of the running calls, for the news that the cycle is canceled, or
    /// until a stop of the node has waited long enough.
    async fn wait(&mut self) -> Result<(), StoreError> {
        self.show(AgentState::Thinking);
        // Nothing is asked before the calls are answered.
        self.node_context.permits.leave(self.agent);
        let stopped = async {
            self.node_context.stopping.cancelled().await;
            self.node_context.ports.clock.sleep(Duration::from_millis(limits::STEP_GRACE_MS)).await;
        };
        tokio::select! {
            biased;
            came = self.outward.next() => {
                self.settle(came);
                return Ok(());
            }
            () = stopped => self.cycle.stop(STOPPING),
            () = self.recheck.notified() => {
                let news = self.glance().await?;
                self.cycle.looked(news);
                if !self.cycle.interrupted() {
                    self.let_go_answered();
                    return Ok(());
                }
            }
        }
        // What came is kept; the rest is told as what it is when the cycle goes on.
        for came in std::mem::take(&mut self.outward).let_go() {
            if let Came::Answered(..) = came {
                self.settle(came);
            }
        }
        self.cycle.let_go();
        Ok(())
    }

    /// What somebody else has answered need not run any more.
    fn let_go_answered(&mut self) {
        for (call, span) in self.outward.keep(|call| self.cycle.awaits(call)) {
            self.cycle.timed(call, span);
        }
    }

    fn settle(&mut self, came: Came) {
        match came {
            Came::Answered(call, outcome, span) => {
                self.cycle.timed(call.clone(), span);
                self.cycle.settled(call, outcome);
            }
            Came::Overdue(work) => {
                let (call, span) = (work.row.id.clone(), work.span());
                self.cycle.timed(call.clone(), span);
                let (timeout, place) = (work.context.timeout(&work.row), self.node_context.detached.place());
                let goes_on = self.cycle.overdue(&call, timeout, place.is_some());
                match place.filter(|_| goes_on) {
                    Some(place) => self.node_context.detached.adopt(*work, place),
                    None => work.context.publish_done(
                        &work.row,
                        OutcomeStatus::Error,
                        "it took longer than it may",
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
        commit::submit(self.ports(), &self.node_context.health, self.cycle.lease(), changes)
    }

    /// Tells watchers and sleepers what a commit caused.
    fn published(&mut self, (outcome, echo): Committed, changes: &Changes) -> CommitOutcome {
        if let CommitOutcome::Committed { n, .. } = outcome {
            self.opened = true;
            if matches!(changes.kind, CommitKind::Decide | CommitKind::Close | CommitKind::Park) {
                self.suspected = None;
            }
            if let Some(run) = &changes.run {
                self.trace.ended(run);
                self.spent = Some(Spent::of(run));
            }
            self.node_context.node.signal(&echo.wake);
            commit::publish(&self.node_context.ports.live, self.agent, n, changes, echo);
        }
        outcome
    }

    /// Nobody thinks whose provider is not even asked.
    fn show_thinking(&mut self) {
        let (model, _) = self.models.speak(self.cycle.model());
        if !self.node_context.breakers.is_shut(&model.info().provider, self.agent) {
            self.show(AgentState::Thinking);
        }
    }

    fn show(&self, state: AgentState) {
        self.node_context.ports.live.enter(self.agent, self.cycle.id(), state, &self.cycle.spaces());
    }

    /// The activation is over: tell watchers, keep what may be wanted again soon.
    fn part(self, rested: Result<ActivationEnd, StoreError>) -> Result<ActivationEnd, StoreError> {
        let live = &self.node_context.ports.live;
        commit::publish_idle(live, self.agent, &rested, &self.cycle.spaces(), self.spent);
        if matches!(
            rested,
            Ok(ActivationEnd::Idle | ActivationEnd::Ended { .. } | ActivationEnd::Parked { .. })
        ) {
            let (memo, model) = self.models.into_memo();
            let (commit_n, window) = self.cycle.into_warm();
            self.node_context.warm.keep(self.agent, Kept { commit_n, window, memo, model });
        }
        rested
    }

    /// What the world did since the cycle looked.
    fn glance(&self) -> BoxFuture<'a, Result<Option<News>, StoreError>> {
        self.node_context.ports.store.glance(self.cycle.lease(), self.cycle.facts().known())
    }

    fn ports(&self) -> &Ports {
        &self.node_context.ports
    }

    /// What time it is. The cycle is told besides how long this activation has lasted, by the clock that
    /// never jumps.
    fn now(&mut self) -> jiff::Timestamp {
        let clock = &self.node_context.ports.clock;
        self.cycle.awake(clock.monotonic_ms().saturating_sub(self.began));
        clock.now()
    }
}
