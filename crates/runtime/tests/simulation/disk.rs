//! A store that can lose what was not synced. Submitted commands wait until the disk syncs; only then are they applied
//! and answered. When a process dies, some of its submitted commands are applied without an answer, and the others
//! are lost.
//!
//! The data is SQLite in memory, kept across all deaths. Must not know what commands mean.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::call::CallRow;
use agent::changes::{Changes, CommitKind, CommitOutcome, News, Notifications};
use agent::entry::Entry;
use agent::id::{AgentId, CallId, ClaimId, SpaceId};
use agent::life::{Activation, Lease, SpaceFacts};
use agent::port::{
    Accept, Accepted, Beginning, BoxFuture, CallError, Calls, Claimed, Clock as _, CycleRef, DetachedCall,
    Due, DueFired, Finish, FinishedCall, Lookup, Messages, NextDue, Recall, RecallError, RecallQuery,
    Recalled, Registry as _, RequestKey, Store, StoreError, Wakeup, WorkerCall,
};
use agent::run::Run;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use storage::sqlite::Sqlite;
use tokio::sync::oneshot;

use crate::command_cost;
use crate::environment::{Environment, Liveness};

/// Applies a command and returns how to answer it.
type Apply = Box<dyn FnOnce(&Sqlite) -> Box<dyn FnOnce() + Send> + Send>;

struct Command {
    node: u64,
    apply: Apply,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Command>,
    /// When the next sync is.
    due: Option<u64>,
}

pub(crate) struct Disk {
    env: Arc<Environment>,
    sqlite: Mutex<Sqlite>,
    queue: Mutex<Queue>,
    /// The node that committed under an agent's epoch.
    writers: Mutex<BTreeMap<(AgentId, u64), u64>>,
    epochs: Mutex<BTreeMap<AgentId, u64>>,
}

/// The answer of a store in memory, which is ready at once.
pub(crate) fn now<T>(answer: BoxFuture<'_, T>) -> T {
    answer.now_or_never().expect("a store in memory answers at once")
}

impl Disk {
    pub(crate) fn new(env: &Arc<Environment>) -> Arc<Self> {
        let sqlite = Sqlite::in_memory(Arc::new(env.clock.clone())).unwrap();
        sqlite.count_steps().unwrap();
        Arc::new(Self {
            env: Arc::clone(env),
            sqlite: Mutex::new(sqlite),
            queue: Mutex::default(),
            writers: Mutex::default(),
            epochs: Mutex::default(),
        })
    }

    pub(crate) fn sqlite(&self) -> Sqlite {
        self.sqlite.lock().unwrap().clone()
    }

    /// Submits a command to the disk.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        node: u64,
        apply: impl FnOnce(&Sqlite) -> T + Send + 'static,
        answer: impl FnOnce(T) + Send + 'static,
    ) {
        let apply = Box::new(move |sqlite: &Sqlite| {
            let done = apply(sqlite);
            Box::new(move || answer(done)) as Box<dyn FnOnce() + Send>
        });
        let mut queue = self.queue.lock().unwrap();
        queue.waiting.push(Command { node, apply });
        if queue.due.is_none() {
            let most = if self.env.faults_ended() { 0 } else { self.env.faults.sync_ms };
            queue.due = Some(self.env.ms() + self.env.dice.between(0, most));
        }
    }

    /// When the next sync is, if a command waits.
    pub(crate) fn due(&self) -> Option<u64> {
        self.queue.lock().unwrap().due
    }

    /// Syncs: applies all waiting commands, then answers them all.
    pub(crate) fn sync(&self) {
        let group = std::mem::take(&mut *self.queue.lock().unwrap()).waiting;
        let sqlite = self.sqlite();
        let answers: Vec<_> = group.into_iter().map(|command| (command.apply)(&sqlite)).collect();
        answers.into_iter().for_each(|answer| answer());
    }

    /// A process died: some of its submitted commands are applied all the same.
    pub(crate) fn crash(&self, node: u64) {
        let waiting = std::mem::take(&mut self.queue.lock().unwrap().waiting);
        let (lost, kept): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|command| command.node == node);
        let there = usize::try_from(self.env.dice.below(lost.len() as u64 + 1)).unwrap();
        self.env.note("lost", &format!("{} of {}", lost.len() - there, lost.len()));
        let sqlite = self.sqlite();
        for command in lost.into_iter().take(there) {
            drop((command.apply)(&sqlite));
        }
        let mut queue = self.queue.lock().unwrap();
        queue.waiting = kept;
        if queue.waiting.is_empty() {
            queue.due = None;
        }
    }

    /// Opens the store again.
    pub(crate) fn restart(&self, peaceful: bool) {
        let mut sqlite = self.sqlite.lock().unwrap();
        *sqlite = sqlite.restarted(peaceful).unwrap();
    }

    /// Checks that only one node commits under an epoch, and that no epoch returns.
    fn committed(&self, node: u64, lease: Lease, changes: &Changes, outcome: &CommitOutcome) {
        let what = match outcome {
            CommitOutcome::Committed { .. } => "committed",
            CommitOutcome::Lost => "lost its lease",
            CommitOutcome::Refused(_) => "refused a call",
            CommitOutcome::Canceled => "refused a cycle",
            CommitOutcome::Barred => "barred",
            CommitOutcome::Answered(_) => "answered outside",
            CommitOutcome::Gone(_) => "gone",
        };
        let Lease { agent, epoch } = lease;
        let (cycle, step) = (changes.cycle, changes.step);
        let kind = changes.kind.as_str();
        self.env.note(what, &format!("{kind} {agent} epoch {epoch} cycle {cycle} step {step} node {node}"));
        let audit = &self.env.audit;
        if matches!(outcome, CommitOutcome::Lost | CommitOutcome::Gone(_)) {
            audit.lost(agent, node);
        }
        if !matches!(outcome, CommitOutcome::Committed { .. }) {
            return;
        }
        if changes.kind == CommitKind::Sent {
            self.env.note("suspected", &agent.to_string());
        }
        let ago = self.env.clock.now().as_millisecond() - changes.at.as_millisecond();
        let made = self.env.ms().saturating_sub(u64::try_from(ago).unwrap_or(0));
        if let Err(why) = audit.committed(agent, node, epoch, changes, made) {
            self.env.violation(format!("P6: {agent} at {}: {why}", self.env.ms()));
        }
        let writer = *self.writers.lock().unwrap().entry((agent, epoch)).or_insert(node);
        self.env.check(writer == node, || {
            format!("P3: nodes {writer} and {node} both committed for {agent} under epoch {epoch}")
        });
        let mut epochs = self.epochs.lock().unwrap();
        let last = epochs.entry(agent).or_default();
        self.env.check(epoch >= *last, || format!("P3: {agent} went back from epoch {last} to {epoch}"));
        *last = epoch;
    }
}

/// The store as one process sees it.
pub(crate) struct Port {
    pub(crate) env: Arc<Environment>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) liveness: Arc<Liveness>,
}

impl Port {
    async fn write<T: Send + 'static>(
        &self,
        whose: Option<AgentId>,
        apply: impl FnOnce(&Sqlite) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.liveness.touch().await;
        let aimed = whose.is_none_or(|agent| !self.env.is_bystander(agent));
        let meets = aimed || self.env.is_closed();
        if let Some(refusal) = meets.then(|| self.env.refusal()).flatten() {
            return Err(refusal);
        }
        let (reply, answer) = oneshot::channel();
        // The caller may be gone.
        self.disk.submit(self.liveness.node, apply, |done| drop(reply.send(done)));
        let Ok(done) = answer.await else { return std::future::pending().await };
        self.liveness.touch().await;
        if aimed && done.is_ok() && self.env.fault(|faults| faults.unanswered) {
            self.env.note("unanswered", "");
            self.env.waits.refused();
            return Err(StoreError::Busy("the answer was lost".into()));
        }
        done
    }

    async fn read<T>(
        &self,
        whose: Option<AgentId>,
        look: impl FnOnce(&Sqlite) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.liveness.touch().await;
        let aimed = whose.is_none_or(|agent| !self.env.is_bystander(agent));
        if aimed && self.env.fault(|faults| faults.busy) {
            self.env.waits.refused();
            return Err(StoreError::Busy("on purpose".into()));
        }
        self.env.maybe_delay(self.liveness.node).await;
        let found = look(&self.disk.sqlite());
        self.env.maybe_delay(self.liveness.node).await;
        self.liveness.touch().await;
        found
    }

    /// Notes a failed request of an activation to the store.
    fn answered<T>(&self, agent: AgentId, what: Option<CommitKind>, done: &Result<T, StoreError>) {
        if done.is_err() {
            self.env.audit.refused(agent, self.liveness.node, what, self.env.ms());
        }
    }

    /// Signals are hints: some are lost, some come twice.
    fn hints(&self, wake: Vec<Wakeup>) -> Vec<Wakeup> {
        let mut arrived = Vec::new();
        for wakeup in wake {
            if !self.env.signal_arrives(wakeup.agent) {
                self.env.note("signal lost", &wakeup.agent.to_string());
                continue;
            }
            arrived.push(wakeup);
            if self.env.fault(|faults| faults.doubled) {
                arrived.push(wakeup);
            }
        }
        arrived
    }

    fn echo(&self, echo: Notifications) -> Notifications {
        Notifications { wake: self.hints(echo.wake), ..echo }
    }
}

impl Store for Port {
    fn accept(
        &self,
        what: Accept,
        request: Option<RequestKey>,
    ) -> BoxFuture<'_, Result<Accepted, StoreError>> {
        let env = Arc::clone(&self.env);
        Box::pin(self.write(None, move |sqlite| {
            env.command(sqlite, "accept", 0, || now(sqlite.accept(what, request)))
        }))
    }

    fn due(
        &self,
        at: Timestamp,
        after: Option<Due>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        Box::pin(self.read(None, move |sqlite| now(sqlite.due(at, after, limit))))
    }

    fn next_due(&self, at: Timestamp) -> BoxFuture<'_, Result<NextDue, StoreError>> {
        Box::pin(self.read(None, move |sqlite| now(sqlite.next_due(at))))
    }

    fn wake(
        &self,
        agent: AgentId,
        at: Timestamp,
        known: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<Activation>, StoreError>> {
        Box::pin(self.read(Some(agent), move |sqlite| now(sqlite.wake(agent, at, known))))
    }

    fn commit(
        &self,
        lease: Lease,
        changes: Changes,
    ) -> BoxFuture<'_, Result<(CommitOutcome, Notifications), StoreError>> {
        let (disk, node, kind) = (Arc::clone(&self.disk), self.liveness.node, changes.kind);
        // The membership is removed for a moment, just before the message is written.
        let space = changes.inward.messages.last().map(|message| message.space);
        let removal = space.filter(|_| self.env.fault(|faults| faults.removals));
        Box::pin(async move {
            let done = self.write(Some(lease.agent), move |sqlite| {
                let (entity, at) = (lease.agent.entity(), changes.at);
                let removed_from = removal.filter(|space| now(sqlite.remove_member(*space, entity)).is_ok());
                let (what, bytes) = (changes.kind.as_str(), command_cost::bytes(&changes));
                let commit = || now(sqlite.commit(lease, changes.clone()));
                let outcome = disk.env.command(sqlite, what, bytes, commit);
                if let Some(space) = removed_from {
                    now(sqlite.add_member(space, entity, "member".into(), at)).unwrap();
                }
                if let Ok((outcome, _)) = &outcome {
                    disk.committed(node, lease, &changes, outcome);
                }
                outcome
            });
            let done = done.await;
            self.answered(lease.agent, Some(kind), &done);
            let (outcome, echo) = done?;
            Ok((outcome, self.echo(echo)))
        })
    }

    fn glance(
        &self,
        lease: Lease,
        known_facts: Option<u64>,
    ) -> BoxFuture<'_, Result<Option<News>, StoreError>> {
        Box::pin(async move {
            let seen =
                self.read(Some(lease.agent), move |sqlite| now(sqlite.glance(lease, known_facts))).await;
            self.answered(lease.agent, None, &seen);
            seen
        })
    }

    fn quarantine(&self, agent: AgentId, why: String) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.write(None, move |sqlite| now(sqlite.quarantine(agent, why))))
    }

    fn panicked(&self, agent: AgentId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.write(None, move |sqlite| now(sqlite.panicked(agent))))
    }

    fn fire_due(&self, at: Timestamp, limit: u32) -> BoxFuture<'_, Result<DueFired, StoreError>> {
        Box::pin(async move {
            let env = Arc::clone(&self.env);
            let fire =
                move |sqlite: &Sqlite| env.command(sqlite, "fire_due", 0, || now(sqlite.fire_due(at, limit)));
            let fired = self.write(None, fire).await?;
            Ok(DueFired { wake: self.hints(fired.wake), ..fired })
        })
    }
}

/// Separates a failure of the store from an unknown call.
fn known<T>(answer: Result<T, CallError>) -> Result<Result<T, CallId>, StoreError> {
    match answer {
        Ok(done) => Ok(Ok(done)),
        Err(CallError::Unknown(call)) => Ok(Err(call)),
        Err(CallError::Store(error)) => Err(error),
    }
}

impl Calls for Port {
    fn detached(
        &self,
        after: Option<CallId>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<DetachedCall>, StoreError>> {
        Box::pin(self.read(None, move |sqlite| now(sqlite.detached(after, limit))))
    }

    fn take_up(&self, call: CallId) -> BoxFuture<'_, Result<Option<u32>, CallError>> {
        let done = self.write(None, move |sqlite| known(now(sqlite.take_up(call))));
        Box::pin(async move { done.await?.map_err(CallError::Unknown) })
    }

    fn claim(
        &self,
        call: CallId,
        claim: ClaimId,
        barrier: bool,
    ) -> BoxFuture<'_, Result<Claimed, CallError>> {
        let done = self.write(None, move |sqlite| known(now(sqlite.claim(call, claim, barrier))));
        Box::pin(async move { done.await?.map_err(CallError::Unknown) })
    }

    fn may_begin(&self, call: CallId, barrier: bool) -> BoxFuture<'_, Result<Beginning, StoreError>> {
        Box::pin(self.read(None, move |sqlite| now(sqlite.may_begin(call, barrier))))
    }

    fn claimed(&self, claim: ClaimId) -> BoxFuture<'_, Result<Option<WorkerCall>, StoreError>> {
        Box::pin(self.read(None, move |sqlite| now(sqlite.claimed(claim))))
    }

    fn worker_call(&self, call: CallId) -> BoxFuture<'_, Result<Option<WorkerCall>, StoreError>> {
        Box::pin(self.read(None, move |sqlite| now(sqlite.worker_call(call))))
    }

    fn finish(&self, answer: FinishedCall) -> BoxFuture<'_, Result<Finish, CallError>> {
        let env = Arc::clone(&self.env);
        let done = self.write(None, move |sqlite| {
            known(env.command(sqlite, "finish", 0, || now(sqlite.finish(answer))))
        });
        Box::pin(async move {
            Ok(match done.await?.map_err(CallError::Unknown)? {
                Finish::Awaited(agent, echo) => Finish::Awaited(agent, self.echo(echo)),
                Finish::Late(agent, echo) => Finish::Late(agent, self.echo(echo)),
                other @ (Finish::Already | Finish::NotClaimed) => other,
            })
        })
    }
}

impl Recall for Port {
    fn recall(&self, agent: AgentId, query: RecallQuery) -> BoxFuture<'_, Result<Recalled, RecallError>> {
        let found = self.read(None, move |sqlite| match now(sqlite.recall(agent, query)) {
            Err(RecallError::Store(error)) => Err(error),
            answer => Ok(answer),
        });
        Box::pin(async move { found.await? })
    }

    fn cycle(&self, agent: AgentId, cycle: CycleRef) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        Box::pin(self.read(None, move |sqlite| now(Recall::cycle(sqlite, agent, cycle))))
    }
}

impl Lookup for Port {
    fn messages(
        &self,
        agent: AgentId,
        space: SpaceId,
        before: Option<u64>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Option<Messages>, StoreError>> {
        Box::pin(self.read(None, move |sqlite| now(Lookup::messages(sqlite, agent, space, before, limit))))
    }

    fn space(
        &self,
        agent: AgentId,
        id_or_name: String,
    ) -> BoxFuture<'_, Result<Option<SpaceFacts>, StoreError>> {
        Box::pin(self.read(None, move |sqlite| now(Lookup::space(sqlite, agent, id_or_name))))
    }

    fn call(&self, agent: AgentId, call: CallId) -> BoxFuture<'_, Result<Option<CallRow>, StoreError>> {
        Box::pin(self.read(None, move |sqlite| now(Lookup::call(sqlite, agent, call))))
    }

    fn runs(&self, agent: AgentId, limit: u32) -> BoxFuture<'_, Result<Vec<Run>, StoreError>> {
        Box::pin(self.read(None, move |sqlite| now(Lookup::runs(sqlite, agent, limit))))
    }
}

/// Waits that long in simulated time.
pub(crate) async fn wait(env: &Environment, ms: u64) {
    env.clock.sleep(Duration::from_millis(ms)).await;
}
