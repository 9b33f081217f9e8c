//! Calls of worker tools, which programs outside run: each call is offered here until a worker claims it, and is that
//! worker's until it answers or stops renewing.
//!
//! Who has claimed a call is in its row, durable before the worker hears of it. How long the claim still holds is only
//! here: after a restart, or when its cycle is resumed, a claim holds for its whole time again. Must not know how workers
//! reach the server.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use agent::call::{CallRow, CallState, Outcome, head_and_tail};
use agent::event::Trust;
use agent::id::{AgentId, ClaimId};
use agent::limits;
use agent::port::{CallError, Claimed, Finish, FinishedCall, WorkerCall};
use agent::tool::ToolLabel;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::Ports;
use crate::node::Node;

mod offers;

pub(crate) use offers::WantedCall;
pub use offers::Workers;
use offers::{Held, OfferState};

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
        ports.workers.hold(&row.id, Held::new(&*ports.clock, claim), true);
        return Ok(Some(ClaimedCall { claim, agent, row, times }));
    }
    let claim = claim.unwrap_or_else(|| ClaimId(ports.ids.uuid()));
    let waiting = WaitingWorker::new(&ports.workers, tools);
    let out_of_patience = ports.clock.sleep(patience);
    tokio::pin!(out_of_patience);
    loop {
        let mut news = waiting.news();
        while let Some(taking) = Taking::oldest(&ports.workers, tools) {
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
        let mut offers = workers.lock();
        let news = tools.iter().map(|tool| offers.join(tool)).collect();
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
        let mut offers = self.workers.lock();
        self.tools.iter().for_each(|tool| offers.leave(tool));
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

/// An unclaimed call on its way to a worker; dropping it before returns it to its queue.
struct Taking<'a> {
    workers: &'a Workers,
    agent: AgentId,
    row: CallRow,
    tool: WorkerTool,
    place: u64,
    barrier: bool,
    taken: bool,
}

impl<'a> Taking<'a> {
    /// The oldest unclaimed call of these tools.
    fn oldest(workers: &'a Workers, tools: &[WorkerTool]) -> Option<Self> {
        let mut offers = workers.lock();
        let offered = offers.oldest(tools)?;
        let (agent, row, tool) = (offered.agent, offered.row.clone(), offered.tool.clone());
        let (place, barrier) = (offered.place, offered.barrier);
        Some(Self { workers, agent, row, tool, place, barrier, taken: false })
    }

    /// `None` if the call may not begin any more.
    async fn claim(mut self, ports: &Ports, claim: ClaimId) -> Result<Option<ClaimedCall>, CallError> {
        let claimed = ports.calls.claim(self.row.id.clone(), claim, self.barrier).await?;
        self.taken = true;
        failpoint::hit!("worker.claimed");
        if let Some(offered) = self.workers.lock().get(&self.row.id) {
            if let Claimed::Given(times) = claimed {
                offered.times = times;
            }
            offered.set(match claimed {
                Claimed::Given(_) => OfferState::Held(Held::new(&*ports.clock, claim)),
                Claimed::HeldBack => OfferState::HeldBack,
                Claimed::RuleOver => OfferState::RuleOver,
                Claimed::Refused => OfferState::NotNow,
            });
        }
        let Claimed::Given(times) = claimed else { return Ok(None) };
        Ok(Some(ClaimedCall { claim, agent: self.agent, row: self.row.clone(), times }))
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut offers = self.workers.lock();
        if offers.get(&self.row.id).is_some_and(|offered| offered.place == self.place) {
            offers.queue(&self.tool).add(self.place, self.row.id.clone());
        }
    }
}

/// Lets a worker keep its call for [`limits::WORKER_LEASE_MS`] from now. Returns `false` if the call is not its own any
/// more: it should stop.
pub fn renew(ports: &Ports, call: &WorkerCall, claim: ClaimId) -> bool {
    let newest = call.row.state != CallState::Done && call.row.claim == Some(claim);
    ports.workers.hold(&call.row.id, Held::new(&*ports.clock, claim), newest) || newest
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
