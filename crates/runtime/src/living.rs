//! The loop: one waking of one agent. The machine decides, this file does (HOUSE.md, *the loop fits
//! on one screen*).

use std::sync::Arc;
use std::time::Duration;

use agent::call::{CallRow, OutcomeStatus};
use agent::changes::{Changes, CommitKind, CommitOutcome, Echo};
use agent::cycle::{Cycle, Next, Rested, Setup, Verdict};
use agent::id::{AgentId, CycleId};
use agent::life::{Lease, Resting, Window};
use agent::limits;
use agent::port::{Memo, StoreError, specs};
use agent::prompt::Prompt;
use agent::run::{Ending, Spent};
use agent::update::{AgentState, Topic, Update};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Ports;
use crate::beyond::Beyond;
use crate::breaker::Breakers;
use crate::choir::Choir;
use crate::failure;
use crate::fates::Fates;
use crate::hands::{self, Came, Outward, Scene};
use crate::health::Health;
use crate::keeper::Turn;
use crate::node::Node;
use crate::permits::Permits;
use crate::stage::Stage;
use crate::think::{Asked, Asking, Interrupt};
use crate::trace::Trace;
use crate::waits::Wait;
use crate::warm::{Kept, Warm};

/// Why wakings end when the node does.
const STOPPING: &str = "the node stops";

/// What all wakings of a node share.
pub(crate) struct House {
    pub(crate) ports: Ports,
    pub(crate) node: Node,
    pub(crate) warm: Warm,
    pub(crate) health: Arc<Health>,
    pub(crate) permits: Arc<Permits>,
    pub(crate) breakers: Breakers,
    /// Calls that go on beyond their cycle.
    pub(crate) beyond: Arc<Beyond>,
    pub(crate) stopping: CancellationToken,
}

/// How a waking ended.
pub(crate) enum Lived {
    /// Its agent rests.
    Rested(Rested),
    /// Its agent may have been the death of the process before: nothing was done, it waits for a turn alone.
    Suspect,
    /// As many requests as may be are under way at its provider: nothing was done, it stands in line there.
    Full,
}

/// That a waking ended by the store.
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

/// One waking in hand.
struct Waking<'a> {
    house: &'a House,
    agent: AgentId,
    cycle: Cycle,
    config: Arc<agent::config::AgentConfig>,
    choir: Choir,
    knock: &'a Notify,
    outward: Outward,
    /// Held until the first decision is committed, where this agent may have been the cause of a
    /// crash.
    suspected: Option<DropGuard>,
    /// Whether its opening is committed.
    opened: bool,
    fates: Fates,
    /// What the cycle took, once its receipt is written.
    spent: Option<Spent>,
    /// When it began, by the clock that never jumps.
    began: u64,
    trace: Trace,
}

/// Lives one agent until it rests. `knock` says: look again now (cancel, suspend). `watch` is held by a
/// suspect until it has shown that it is none.
pub(crate) async fn live(
    house: &House,
    turn: Turn,
    watch: Option<DropGuard>,
    knock: &Notify,
) -> Result<Lived, Unwritten> {
    let (ports, agent) = (&house.ports, turn.agent);
    let kept = house.warm.take(agent);
    let known = kept.as_ref().map(|kept| kept.commit_n);
    let Some(mut read) = ports.store.wake(agent, ports.clock.now(), known).await? else {
        return Ok(Lived::Rested(Rested::Idle));
    };
    if read.is_suspect() && !turn.alone {
        return Ok(Lived::Suspect);
    }
    let suspected = watch.filter(|_| read.is_suspect());
    // What is thought before it is known whether the store takes it may be paid in vain.
    read.clean &= !(turn.careful || house.health.refuses());
    let now = ports.clock.now();
    let (window, memo) = match (std::mem::replace(&mut read.window, Window::Unchanged), kept) {
        (Window::Loaded(window), _) => (window, None),
        (Window::Unchanged, Some(kept)) => (kept.window, Some((kept.memo, kept.model))),
        (Window::Unchanged, None) => (Vec::new(), None),
    };
    let config = Arc::clone(&read.config);
    let choir = Choir::of(&*ports.voices, &config, memo);
    // A suspect goes on alone, and what is canceled needs no model.
    let waits = !turn.alone && read.cancel.is_none();
    if waits && !house.permits.reserve(&choir.own().provider, agent) {
        let provider = choir.own().provider.clone();
        ports.live.wait(agent, Wait::Requests(provider, ports.bounds.requests_per_provider));
        let (memo, model) = choir.into_memo();
        house.warm.keep(agent, Kept { commit_n: read.life.commit_n, window, memo, model });
        return Ok(Lived::Full);
    }
    let setup = Setup {
        tools: specs(&*ports.toolbox, config.tools.as_deref()),
        model: choir.own().clone(),
        others: choir.others(),
        fresh: CycleId(ports.ids.uuid()),
    };
    let cycle = Cycle::begin(read, window, setup, now);
    let trace = Trace::of(agent, &cycle);
    let outward = Outward::default();
    let (spent, began, fates) = (None, ports.clock.monotonic_ms(), Fates::default());
    let opened = false;
    let mut waking = Waking {
        house,
        agent,
        cycle,
        config,
        choir,
        knock,
        outward,
        suspected,
        opened,
        fates,
        spent,
        began,
        trace,
    };
    let rested = waking.run().await;
    let opened = waking.opened;
    ports.live.reset_drafts(agent);
    let rested = waking.part(rested);
    rested.map(Lived::Rested).map_err(|error| Unwritten { error, opened })
}

impl Waking<'_> {
    async fn run(&mut self) -> Result<Rested, StoreError> {
        loop {
            if self.house.stopping.is_cancelled() {
                self.cycle.stop(STOPPING);
            }
            let now = self.now();
            match self.cycle.next(now) {
                Next::OpenAndThink(open, prompt) => self.open_and_think(*open, prompt).await?,
                Next::Think(prompt) => {
                    let asked = self.think(&prompt).await;
                    self.heard(asked);
                }
                Next::Inward(calls) => {
                    let step = self.trace.step(self.cycle.step());
                    let (results, spans) =
                        hands::inward(&self.cycle, self.agent, self.ports(), &step, calls).await;
                    spans.into_iter().for_each(|(call, span)| self.cycle.timed(call, span));
                    self.cycle.acted(results);
                }
                Next::Count(texts) => {
                    let counts = self.ports().tokens.count(texts).await;
                    self.cycle.counted(&counts);
                }
                Next::Commit(changes) => {
                    let verdict = self.commit(*changes).await?;
                    let now = self.now();
                    self.cycle.committed(verdict, now);
                    self.let_go_answered();
                }
                Next::Outward(calls) => {
                    let step = self.trace.step(self.cycle.step());
                    let scene = Scene::of(&self.cycle, self.agent, &self.house.ports);
                    let (awaited, beyond) = calls.into_iter().partition(|row: &CallRow| row.awaited);
                    self.outward.start(&scene, &step, awaited);
                    let beyond: Vec<CallRow> = beyond;
                    for row in beyond {
                        self.house.beyond.start(&scene, row, step.clone());
                    }
                }
                Next::Await => self.wait().await?,
                Next::Rest(rested) => return Ok(rested),
            }
        }
    }

    /// Opening has no effects outside, thinking neither: they may overlap. Watchers may see a draft
    /// at once; what the model decides is held until the opening is durable.
    async fn open_and_think(&mut self, open: Changes, prompt: Prompt) -> Result<(), StoreError> {
        self.show_thinking();
        let mut opening = submit(self.house, self.cycle.lease(), open.clone());
        let house = self.house;
        let mut stage = Stage::of(&self.cycle, self.agent, &house.ports.live);
        let (asking, memo) = self.asking();
        let mut early = None;
        let outcome = {
            let thinking = asking.ask(&prompt, memo, &mut stage);
            tokio::pin!(thinking);
            let outcome = loop {
                // The opening first: its answer says whether what was thought counts.
                tokio::select! {
                    biased;
                    outcome = &mut opening => break joined(outcome)?,
                    asked = &mut thinking, if early.is_none() => early = Some(asked),
                }
            };
            if let (CommitOutcome::Committed { glance, .. }, None) = (&outcome, &early) {
                // What came between waking and opening may be urgent.
                early = match asking.cycle.outdated_by(glance) {
                    true => None,
                    false => Some(thinking.await),
                };
            }
            outcome
        };
        if let (CommitOutcome::Committed { glance, .. }, None) = (&outcome, &early) {
            let tokens = Some(stage.generated_tokens());
            early = Some(Asked::Interrupted(Interrupt::News(glance.clone()), tokens));
        }
        if matches!(early, Some(Asked::Interrupted(..))) {
            stage.void();
        }
        let verdict = self.told(outcome, &open);
        let now = self.now();
        self.cycle.committed(verdict, now);
        if let Some(asked) = early {
            self.heard(asked);
        }
        Ok(())
    }

    async fn think(&mut self, prompt: &Prompt) -> Asked {
        self.show_thinking();
        let house = self.house;
        let mut stage = Stage::of(&self.cycle, self.agent, &house.ports.live);
        let (asking, memo) = self.asking();
        asking.ask(prompt, memo, &mut stage).await
    }

    /// Whoever is to speak in this step, ready to be asked, with what was encoded for that model before.
    fn asking(&mut self) -> (Asking<'_>, &mut Memo) {
        let (model, memo) = self.choir.speak(self.cycle.voice());
        let asking = Asking {
            ports: &self.house.ports,
            breakers: &self.house.breakers,
            permits: &self.house.permits,
            node: &self.house.node,
            model,
            config: &self.config,
            cycle: &self.cycle,
            lease: self.cycle.lease(),
            knock: self.knock,
            stopping: &self.house.stopping,
            step: self.trace.step(self.cycle.step()),
        };
        (asking, memo)
    }

    fn heard(&mut self, asked: Asked) {
        match asked {
            Asked::Thought(thought) => {
                self.show(AgentState::Processing);
                let now = self.now();
                self.cycle.thought(thought, now);
            }
            Asked::Interrupted(interrupt, tokens) => {
                match interrupt {
                    Interrupt::News(glance) => return self.cycle.outdated(glance, tokens),
                    Interrupt::Canceled(glance) => self.cycle.glanced(glance),
                    Interrupt::Stopping => self.cycle.stop(STOPPING),
                    Interrupt::Suspended => self.cycle.stop("suspended"),
                }
                self.cycle.charge(tokens);
                self.cycle.abandoned();
            }
        }
    }

    /// Waits for the next outcome of the running calls, for the news that the cycle is canceled, or
    /// until a stop of the node has waited long enough.
    async fn wait(&mut self) -> Result<(), StoreError> {
        self.show(AgentState::Thinking);
        // Nothing is asked before the calls are answered.
        self.house.permits.leave(self.agent);
        let stopped = async {
            self.house.stopping.cancelled().await;
            self.house.ports.clock.sleep(Duration::from_millis(limits::STEP_GRACE_MS)).await;
        };
        tokio::select! {
            biased;
            came = self.outward.next() => {
                self.settle(came);
                return Ok(());
            }
            () = stopped => self.cycle.stop(STOPPING),
            () = self.knock.notified() => {
                if let Some(glance) = self.house.ports.store.glance(self.cycle.lease()).await? {
                    self.cycle.glanced(glance);
                }
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
                let (timeout, place) = (work.scene.timeout(&work.row), self.house.beyond.place());
                let goes_on = self.cycle.overdue(&call, timeout, place.is_some());
                match place.filter(|_| goes_on) {
                    Some(place) => self.house.beyond.adopt(*work, place),
                    None => work.scene.tell_done(
                        &work.row,
                        OutcomeStatus::Error,
                        "it took longer than it may",
                        span,
                    ),
                }
            }
        }
    }

    /// A commit is never dropped half-way: it runs in a task of its own.
    async fn commit(&mut self, changes: Changes) -> Result<Verdict, StoreError> {
        let outcome = joined(submit(self.house, self.cycle.lease(), changes.clone()).await)?;
        Ok(self.told(outcome, &changes))
    }

    /// Tells watchers and sleepers what a commit caused.
    fn told(&mut self, outcome: CommitOutcome, changes: &Changes) -> Verdict {
        match outcome {
            CommitOutcome::Committed { n, glance, echo } => {
                self.opened = true;
                if !matches!(changes.kind, CommitKind::Open | CommitKind::Show) {
                    self.suspected = None;
                }
                self.publish(n, changes, echo);
                Verdict::Committed(glance)
            }
            CommitOutcome::Lost => Verdict::Lost,
            CommitOutcome::Refused(refusals) => Verdict::Refused(refusals),
            CommitOutcome::Canceled => Verdict::Canceled,
            CommitOutcome::Barred => Verdict::Barred,
            CommitOutcome::Answered(answers) => Verdict::Answered(answers),
            CommitOutcome::Gone(gone) => Verdict::Gone(gone),
        }
    }

    fn publish(&mut self, n: u64, changes: &Changes, echo: Echo) {
        if let Some(run) = &changes.run {
            self.trace.ended(run);
            self.spent = Some(Spent::of(run));
        }
        let live = &self.house.ports.live;
        for message in echo.said {
            live.drop_draft(message.id);
            let spoken_in = message.space;
            if changes.kind == CommitKind::Decide {
                live.enter(self.agent, changes.cycle, AgentState::Processing, &[spoken_in]);
            }
            live.bus().publish(&[Topic::Space(spoken_in)], Arc::new(Update::Message { message }));
        }
        if changes.kind == CommitKind::Decide {
            // What the decision did not say after all is no draft any more.
            live.reset_drafts(self.agent);
        }
        for update in self.fates.after(self.agent, self.cycle.in_sight(), changes) {
            live.bus().publish(&[Topic::Agent(self.agent)], Arc::new(update));
        }
        let Changes { cycle, step, kind, .. } = *changes;
        let commit = Update::Commit { agent: self.agent, n, cycle, step, kind };
        live.bus().publish(&[Topic::Agent(self.agent)], Arc::new(commit));
        self.house.node.signal(&echo.wake);
    }

    /// Nobody thinks whose provider is not even asked.
    fn show_thinking(&mut self) {
        let (model, _) = self.choir.speak(self.cycle.voice());
        if !self.house.breakers.is_shut(&model.info().provider, self.agent) {
            self.show(AgentState::Thinking);
        }
    }

    fn show(&self, state: AgentState) {
        self.house.ports.live.enter(self.agent, self.cycle.id(), state, &self.cycle.spaces());
    }

    /// The waking is over: tell watchers, keep what may be wanted again soon.
    fn part(self, rested: Result<Rested, StoreError>) -> Result<Rested, StoreError> {
        let live = &self.house.ports.live;
        let spaces = self.cycle.spaces();
        match &rested {
            Ok(Rested::Ended { cycle, ending, reason }) => {
                let mut topics = vec![Topic::Agent(self.agent)];
                topics
                    .extend(spaces.iter().filter(|_| *ending != Ending::Skipped).copied().map(Topic::Space));
                let (agent, cycle, ending, reason) = (self.agent, *cycle, *ending, reason.clone());
                let update = Update::CycleEnded { agent, cycle, ending, reason, spent: self.spent };
                live.rest(self.agent, None);
                live.bus().publish(&topics, Arc::new(update));
            }
            Ok(Rested::Parked { until: Some(until), rest: Some(why), reason, .. }) => {
                let rest = Resting { reason: *why, until: *until };
                live.keep_back(self.agent, reason.clone(), rest, &spaces);
            }
            Ok(Rested::Parked { reason, .. }) => live.rest(self.agent, Some(reason.clone())),
            Ok(Rested::Idle | Rested::Lost) | Err(_) => live.rest(self.agent, None),
        }
        if matches!(rested, Ok(Rested::Idle | Rested::Ended { .. } | Rested::Parked { .. })) {
            let (memo, model) = self.choir.into_memo();
            let (commit_n, window) = self.cycle.into_warm();
            self.house.warm.keep(self.agent, Kept { commit_n, window, memo, model });
        }
        rested
    }

    fn ports(&self) -> &Ports {
        &self.house.ports
    }

    /// What time it is. The cycle is told besides how long this waking has lasted, by the clock that
    /// never jumps.
    fn now(&mut self) -> jiff::Timestamp {
        let clock = &self.house.ports.clock;
        self.cycle.awake(clock.monotonic_ms().saturating_sub(self.began));
        clock.now()
    }
}

type Submitted = tokio::task::JoinHandle<Result<CommitOutcome, StoreError>>;

fn submit(house: &House, lease: Lease, changes: Changes) -> Submitted {
    let (ports, health) = (house.ports.clone(), Arc::clone(&house.health));
    tokio::spawn(async move {
        let mut attempt = 1;
        loop {
            let error = match ports.store.commit(lease, changes.clone()).await {
                Ok(_) if attempt == 1 && failpoint::on!("answers-lost") && ports.ids.jitter(3) == 0 => {
                    StoreError::Busy("the answer was lost".into())
                }
                Ok(outcome) => {
                    health.took();
                    failpoint::hit!(match changes.kind {
                        CommitKind::Open => "open.committed",
                        CommitKind::Decide => "decide.committed",
                        CommitKind::Start => "start.committed",
                        CommitKind::Settle => "settle.committed",
                        CommitKind::Close => "close.committed",
                        CommitKind::Park => "park.committed",
                        CommitKind::View => "view.committed",
                        CommitKind::Show => "show.committed",
                    });
                    return Ok(outcome);
                }
                Err(error) => error,
            };
            let Some(pause) = failure::retry_store(&error, attempt, &*ports.ids) else { return Err(error) };
            ports.clock.sleep(pause).await;
            attempt += 1;
        }
    })
}

fn joined(
    ended: Result<Result<CommitOutcome, StoreError>, tokio::task::JoinError>,
) -> Result<CommitOutcome, StoreError> {
    ended.unwrap_or_else(|error| Err(StoreError::Broken(format!("the commit's task ended: {error}"))))
}
