//! Calls of worker tools, which programs outside run: each call is offered here until a worker claims it, and is that
//! worker's until it answers or stops renewing.
//!
//! Who has claimed a call is in its row, durable before the worker hears of it. How long the claim still holds is only
//! here: after a restart, or when its cycle is resumed, a claim holds for its whole time again. Must not know how workers
//! reach the server.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use agent::call::{CallRow, CallState, Effect, Outcome, head_and_tail};
use agent::event::Trust;
use agent::id::{AgentId, CallId, ClaimId};
use agent::limits;
use agent::port::{CallError, Clock, Finish, FinishedCall, WorkerCall};
use agent::tool::ToolLabel;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::Ports;
use crate::node::Node;

/// The tools that a worker runs: name and version.
pub type WorkerTool = (String, String);

/// A call that a worker has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedCall {
    /// The right to answer it.
    pub claim: ClaimId,
    /// The agent that made it.
    pub agent: AgentId,
    /// Its row, as it was offered.
    pub row: CallRow,
    /// How often it was claimed, this time included.
    pub times: u32,
}

/// What a worker's answer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerAnswer {
    /// It is the outcome of the call.
    Taken,
    /// The call was over, and nothing was changed: the answer came twice, or the call was canceled.
    Over,
    /// Another worker has the call, or the claim is of another call.
    NotClaimed,
}

/// How many calls of a tool there are, and programs that wait for some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Requests that wait for a call.
    pub waiting_workers: usize,
    /// Calls that no worker has claimed.
    pub unclaimed_calls: usize,
    /// Calls that workers have.
    pub claimed_calls: usize,
}

/// The calls of worker tools that this node waits for.
#[derive(Default)]
pub struct Workers(Mutex<Desk>);

#[derive(Default)]
struct Desk {
    calls: HashMap<CallId, Offered>,
    queues: HashMap<WorkerTool, Queue>,
    /// Grows with each offer.
    next: u64,
}

/// A call that this node waits for.
struct Offered {
    agent: AgentId,
    row: CallRow,
    tool: WorkerTool,
    /// Its place in the queue of its tool, where it returns if its worker is gone.
    place: u64,
    held: Option<Held>,
    times: u32,
    /// Notified when `held` changes.
    changed: Arc<Notify>,
}

#[derive(Clone, Copy)]
struct Held {
    claim: ClaimId,
    /// In the clock's monotonic milliseconds.
    until: u64,
}

/// The unclaimed calls of one tool, oldest first.
#[derive(Default)]
struct Queue {
    calls: BTreeMap<u64, CallId>,
    /// Notified once for each call that is added.
    news: Arc<Notify>,
    waiting_workers: usize,
}

impl Workers {
    /// How many calls and waiting workers the tool has, over all versions.
    pub fn counts(&self, tool: &str) -> WorkerCounts {
        let desk = self.lock();
        let queues = desk.queues.iter().filter(|((name, _), _)| name == tool);
        let mut counts = WorkerCounts::default();
        for (_, queue) in queues {
            counts.waiting_workers += queue.waiting_workers;
            counts.unclaimed_calls += queue.calls.len();
        }
        let held = |call: &&Offered| call.tool.0 == tool && call.held.is_some();
        counts.claimed_calls = desk.calls.values().filter(held).count();
        counts
    }

    /// Whether a call of the tool waits for a worker of this version.
    pub fn offers(&self, tool: &WorkerTool) -> bool {
        self.lock().queues.get(tool).is_some_and(|queue| !queue.calls.is_empty())
    }

    /// Offers the call until it is answered from outside, which drops this future. Ends only if the workers that claimed
    /// it are gone and nobody else may run it.
    pub(crate) async fn run(
        &self,
        clock: &dyn Clock,
        agent: AgentId,
        row: &CallRow,
        version: &str,
    ) -> Outcome {
        let offer = self.offer(clock.monotonic_ms(), agent, row, version);
        loop {
            let changed = Arc::clone(&offer.changed).notified_owned();
            let now = clock.monotonic_ms();
            match self.held_until(&row.id) {
                Some(until) if until <= now => {
                    if self.lapsed(&row.id) {
                        return Outcome::abandoned();
                    }
                }
                Some(until) => {
                    tokio::select! {
                        () = changed => {}
                        () = clock.sleep(Duration::from_millis(until - now)) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    fn offer(&self, now: u64, agent: AgentId, row: &CallRow, version: &str) -> Offer<'_> {
        let mut desk = self.lock();
        let (place, changed) = (desk.next, Arc::new(Notify::new()));
        desk.next += 1;
        let tool = (row.tool.clone(), version.to_owned());
        let held = row.claim.map(|claim| Held { claim, until: now + limits::WORKER_LEASE_MS });
        if held.is_none() {
            desk.queue(&tool).add(place, row.id.clone());
        }
        let offered = Offered {
            agent,
            row: row.clone(),
            tool: tool.clone(),
            place,
            held,
            times: u32::from(held.is_some()),
            changed: Arc::clone(&changed),
        };
        desk.calls.insert(row.id.clone(), offered);
        Offer { workers: self, call: row.id.clone(), tool, place, changed }
    }

    /// Prolongs a claim. One that has ended is its worker's again if nobody has claimed the call since (`newest`).
    /// Returns whether the call is held by this claim here; one whose cycle is not resumed yet is not.
    fn hold(&self, call: &CallId, held: Held, newest: bool) -> bool {
        let mut desk = self.lock();
        let Some(offered) = desk.calls.get_mut(call) else { return false };
        let same = offered.held.is_some_and(|before| before.claim == held.claim);
        let again = offered.held.is_none() && newest;
        if !same && !again {
            return false;
        }
        offered.held = Some(held);
        offered.changed.notify_one();
        let (tool, place) = (offered.tool.clone(), offered.place);
        if again {
            desk.queue(&tool).calls.remove(&place);
        }
        true
    }

    fn held_until(&self, call: &CallId) -> Option<u64> {
        self.lock().calls.get(call).and_then(|offered| offered.held).map(|held| held.until)
    }

    /// The claim of a call has ended. Returns whether the call is given up; else it is offered again.
    fn lapsed(&self, call: &CallId) -> bool {
        let mut desk = self.lock();
        let Some(offered) = desk.calls.get_mut(call) else { return false };
        tracing::warn!(agent = %offered.agent, %call, tool = offered.tool.0, "a worker stopped renewing its claim");
        if offered.row.effect == Effect::Unsafe || offered.times >= limits::WORKER_CLAIMS_PER_CALL {
            return true;
        }
        offered.held = None;
        let (tool, place) = (offered.tool.clone(), offered.place);
        desk.queue(&tool).add(place, call.clone());
        false
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn queue(&mut self, tool: &WorkerTool) -> &mut Queue {
        self.queues.entry(tool.clone()).or_default()
    }

    /// Forgets the queue of a tool that has neither calls nor workers.
    fn tidy(&mut self, tool: &WorkerTool) {
        if self.queues.get(tool).is_some_and(|queue| queue.calls.is_empty() && queue.waiting_workers == 0) {
            self.queues.remove(tool);
        }
    }
}

impl Queue {
    fn add(&mut self, place: u64, call: CallId) {
        self.calls.insert(place, call);
        self.news.notify_one();
    }
}

/// A call on offer; dropping it takes it back.
struct Offer<'a> {
    workers: &'a Workers,
    call: CallId,
    tool: WorkerTool,
    place: u64,
    changed: Arc<Notify>,
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        let mut desk = self.workers.lock();
        if let Some(queue) = desk.queues.get_mut(&self.tool) {
            queue.calls.remove(&self.place);
        }
        // A resumed cycle may have offered the call anew.
        if desk.calls.get(&self.call).is_some_and(|offered| offered.place == self.place) {
            desk.calls.remove(&self.call);
        }
        desk.tidy(&self.tool);
    }
}

/// Waits, at most for `patience`, for a call of one of these tools, and claims the oldest. A future that is dropped has
/// claimed nothing that a worker could have heard of.
///
/// With an id of the worker's own the claim can be asked for again if the answer was lost: it gives the same call.
///
/// `admits` is asked when there is a call: the worker's key may have been revoked while it waited.
pub async fn claim<E: From<CallError>, F: Future<Output = Result<(), E>>>(
    ports: &Ports,
    tools: &[WorkerTool],
    patience: Duration,
    claim: Option<ClaimId>,
    admits: impl Fn() -> F,
) -> Result<Option<ClaimedCall>, E> {
    if let Some(claim) = claim
        && let Some(WorkerCall { agent, row, times }) =
            ports.calls.claimed(claim).await.map_err(CallError::from)?
    {
        let until = ports.clock.monotonic_ms() + limits::WORKER_LEASE_MS;
        ports.workers.hold(&row.id, Held { claim, until }, true);
        return Ok(Some(ClaimedCall { claim, agent, row, times }));
    }
    let claim = claim.unwrap_or_else(|| ClaimId(ports.ids.uuid()));
    let waiting = WaitingWorker::new(&ports.workers, tools);
    let out_of_patience = ports.clock.sleep(patience);
    tokio::pin!(out_of_patience);
    loop {
        let mut news = waiting.news();
        while let Some(taking) = ports.workers.oldest(tools) {
            admits().await?;
            if let Some(claimed) = taking.claim(ports, claim).await? {
                return Ok(Some(claimed));
            }
        }
        tokio::select! {
            () = any(&mut news) => {}
            () = &mut out_of_patience => return Ok(None),
        }
    }
}

/// A request that waits for a call.
struct WaitingWorker<'a> {
    workers: &'a Workers,
    tools: &'a [WorkerTool],
    news: Vec<Arc<Notify>>,
}

impl<'a> WaitingWorker<'a> {
    fn new(workers: &'a Workers, tools: &'a [WorkerTool]) -> Self {
        let mut desk = workers.lock();
        let join = |tool| {
            let queue = desk.queue(tool);
            queue.waiting_workers += 1;
            Arc::clone(&queue.news)
        };
        let news = tools.iter().map(join).collect();
        Self { workers, tools, news }
    }

    /// What is notified from now on when there is a call.
    fn news(&self) -> Vec<Pin<Box<OwnedNotified>>> {
        let listen = |news: &Arc<Notify>| {
            let mut notified = Box::pin(Arc::clone(news).notified_owned());
            notified.as_mut().enable();
            notified
        };
        self.news.iter().map(listen).collect()
    }
}

impl Drop for WaitingWorker<'_> {
    fn drop(&mut self) {
        let mut desk = self.workers.lock();
        for tool in self.tools {
            if let Some(queue) = desk.queues.get_mut(tool) {
                queue.waiting_workers -= 1;
                // It may have taken the notification of a call that it leaves to the others.
                if !queue.calls.is_empty() {
                    queue.news.notify_one();
                }
            }
            desk.tidy(tool);
        }
    }
}

/// Waits for one of them.
async fn any(news: &mut [Pin<Box<OwnedNotified>>]) {
    poll_fn(|context| {
        let ready = news.iter_mut().any(|notified| notified.as_mut().poll(context).is_ready());
        if ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Workers {
    /// Takes the oldest unclaimed call of these tools out of its queue.
    fn oldest(&self, tools: &[WorkerTool]) -> Option<Taking<'_>> {
        let mut desk = self.lock();
        let first = |tool| {
            let (place, call) = desk.queues.get(tool)?.calls.first_key_value()?;
            Some((*place, call.clone(), tool.clone()))
        };
        let (place, call, tool) = tools.iter().filter_map(first).min_by_key(|(place, ..)| *place)?;
        desk.queue(&tool).calls.remove(&place);
        let offered = desk.calls.get(&call)?;
        let (agent, row) = (offered.agent, offered.row.clone());
        Some(Taking { workers: self, agent, row, tool, place, taken: false })
    }
}

/// An unclaimed call on its way to a worker; dropping it before returns it to its queue.
struct Taking<'a> {
    workers: &'a Workers,
    agent: AgentId,
    row: CallRow,
    tool: WorkerTool,
    place: u64,
    taken: bool,
}

impl Taking<'_> {
    /// `None` if the call was answered or canceled meanwhile.
    async fn claim(mut self, ports: &Ports, claim: ClaimId) -> Result<Option<ClaimedCall>, CallError> {
        let times = ports.calls.claim(self.row.id.clone(), claim).await?;
        self.taken = true;
        failpoint::hit!("worker.claimed");
        let Some(times) = times else { return Ok(None) };
        let until = ports.clock.monotonic_ms() + limits::WORKER_LEASE_MS;
        if let Some(offered) = self.workers.lock().calls.get_mut(&self.row.id) {
            offered.held = Some(Held { claim, until });
            offered.times = times;
            offered.changed.notify_one();
        }
        Ok(Some(ClaimedCall { claim, agent: self.agent, row: self.row.clone(), times }))
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut desk = self.workers.lock();
        if desk.calls.get(&self.row.id).is_some_and(|offered| offered.place == self.place) {
            let (place, call) = (self.place, self.row.id.clone());
            desk.queue(&self.tool).add(place, call);
        }
    }
}

/// Lets a worker keep its call for [`limits::WORKER_LEASE_MS`] from now. Returns `false` if the call is not its own any
/// more: it should stop.
pub fn renew(ports: &Ports, call: &WorkerCall, claim: ClaimId) -> bool {
    let newest = call.row.state != CallState::Done && call.row.claim == Some(claim);
    let until = ports.clock.monotonic_ms() + limits::WORKER_LEASE_MS;
    ports.workers.hold(&call.row.id, Held { claim, until }, newest) || newest
}

/// Stores what a worker answers. An answer that comes after the call was given up becomes an event.
pub async fn finish(
    ports: &Ports,
    node: &Node,
    call: &WorkerCall,
    claim: ClaimId,
    mut outcome: Outcome,
) -> Result<WorkerAnswer, CallError> {
    let tool = ports.toolbox.tool(&call.row.tool);
    if tool.is_some_and(|tool| !tool.spec().labels.has(ToolLabel::Outside)) {
        outcome.trust = Some(Trust::Operator);
    }
    outcome.text = head_and_tail(&outcome.text, limits::OUTCOME_STORED_MAX_BYTES);
    let (id, at) = (call.row.id.clone(), ports.clock.now());
    let finished = ports
        .calls
        .finish(FinishedCall { id: id.clone(), outcome, at, claim: Some(claim), if_claimed: None })
        .await?;
    failpoint::hit!("worker.answered");
    Ok(match finished {
        Finish::Awaited(agent, notifications) | Finish::Late(agent, notifications) => {
            node.answered(agent, id, notifications);
            WorkerAnswer::Taken
        }
        Finish::Already => WorkerAnswer::Over,
        Finish::NotClaimed => WorkerAnswer::NotClaimed,
    })
}
