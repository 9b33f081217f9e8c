//! Audits model requests: each must be paid for by something that happened since the agent's last request on the same
//! node. What pays for a request, and why:
//!
//! | pays | because |
//! |---|---|
//! | a decision or the end of a cycle was committed | progress: one request for each |
//! | it is the first request of this process | the requests of an earlier process were lost |
//! | the last request failed, and the pause of `failure.rs` has passed | a retry, at most three per model call |
//! | it failed as too long, invalid, or by its surroundings | at once: three cuts; one rebuild; one fallback |
//! | the agent backed off, and that time has passed | backing off is durable and grows |
//! | the store refused, and the pause of `turns.rs` has passed | that pause doubles for each refusal in a row |
//! | the store refused the opening, and has accepted it since | once in a row: the reply meanwhile was discarded |
//! | a commit was not accepted: the lease was lost, or its events were withdrawn | once each time |
//! | it shows urgent messages that the last request did not | they interrupted a generation: once each time |
//! | an operator acted, or the clock was set | each drops one generation, soon |
//!
//! A request uses up everything that paid. So the requests of an agent in any minute are bounded by its steps, its
//! interrupts, its lost processes and leases, and the failures that the tables allow. Must not know what is requested,
//! nor when anything is to happen.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use agent::changes::{Changes, CommitKind};
use agent::id::{AgentId, CycleId};
use agent::life::IdleReason;
use agent::limits;
use agent::port::ModelError;

/// How long before a request an operator may have acted to drop it: the store may be slow to report it.
const OPERATOR_MS: u64 = 15_000;
/// A sliding minute.
const MINUTE_MS: u64 = 60_000;
/// The most requests of one agent in a minute that neither a step nor an operator paid for. A failing activation sends
/// six requests at once at most (the first, a fallback, three cuts, one rebuilt) and backs off for a second, longer
/// each time; two alternating classes of failure back off for 1, 1, 2, 2, 4, 4, 8, 8, 16 and 16 seconds.
const IN_VAIN: usize = 60;

/// What paid for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paid {
    Step,
    Start,
    Retry,
    Shorter,
    Rebuilt,
    Fallback,
    BackoffEnd,
    Store,
    Lost,
    News,
    Operator,
}

/// The store refused a request of an activation, or did not answer it.
#[derive(Clone, Copy, Debug)]
struct Refused {
    at: u64,
    /// For an opening: whether the store has accepted it since.
    opening: Option<bool>,
}

/// What happened to one agent on one node since its last request there, and how many requests in a row were paid for
/// without progress.
#[derive(Debug, Default)]
struct Account {
    /// When its last request began.
    begun: Option<u64>,
    /// The cycle of that request, and how many interrupts it had shown.
    shown: Option<(CycleId, usize)>,
    progressed: bool,
    failed: Option<(u64, ModelError)>,
    idle_until: Option<u64>,
    refused: Option<Refused>,
    lost: bool,
    /// Retries of this model call.
    attempts: u32,
    /// In this activation.
    cuts: u32,
    rebuilt: u32,
    fallbacks: u32,
    /// Requests in a row that only a refusal of the store paid for.
    refusals: u32,
    /// The last accepted commit: if its answer was lost, it is sent again.
    last: Option<u64>,
    /// The epoch of that commit.
    epoch: u64,
}

#[derive(Default)]
struct Books {
    accounts: BTreeMap<(AgentId, u64), Account>,
    /// Failures of the surroundings in a row, as each agent counted them when it last backed off.
    in_row: BTreeMap<AgentId, u32>,
    /// When operators acted.
    operators: BTreeMap<AgentId, VecDeque<u64>>,
    /// When requests began that neither a step nor an operator paid for.
    in_vain: BTreeMap<AgentId, VecDeque<u64>>,
}

/// The accounts of one world.
#[derive(Default)]
pub(crate) struct RequestAudit(Mutex<Books>);

impl RequestAudit {
    /// A request begins. Returns what paid for it, or an error if nothing did.
    pub(crate) fn begun(
        &self,
        agent: AgentId,
        node: u64,
        shown: (CycleId, usize),
        now: u64,
    ) -> Result<&'static str, String> {
        let mut books = self.0.lock().unwrap();
        let Books { accounts, operators, in_vain, .. } = &mut *books;
        let account = accounts.entry((agent, node)).or_default();
        let paid = account.paid(shown, now).or_else(|| {
            let (acted, before) = (operators.get_mut(&agent)?, account.begun?);
            acted.retain(|at| at + OPERATOR_MS >= before);
            acted.pop_front().map(|_| Paid::Operator)
        });
        let Some(paid) = paid else { return Err(format!("nothing paid for it: {account:?}")) };
        let before = account.shown;
        account.settle(paid, now);
        // A request paid for by a failure may show new messages as well: those pay for one more.
        let failed = matches!(paid, Paid::Retry | Paid::Shorter | Paid::Rebuilt | Paid::Fallback);
        let unpaid = before.filter(|(cycle, _)| failed && *cycle == shown.0);
        account.shown = match before {
            Some((cycle, times)) if paid == Paid::News && cycle == shown.0 => Some((cycle, times + 1)),
            _ => unpaid.or(Some(shown)),
        };
        if !matches!(paid, Paid::Step | Paid::News | Paid::Operator) {
            let begun = in_vain.entry(agent).or_default();
            begun.push_back(now);
            begun.retain(|at| at + MINUTE_MS > now);
            if begun.len() > IN_VAIN {
                return Err(format!("{} within a minute were in vain", begun.len()));
            }
        }
        Ok(paid.name())
    }

    /// The request in progress failed.
    pub(crate) fn failed(&self, agent: AgentId, node: u64, error: ModelError, now: u64) {
        self.at(agent, node, |account| account.failed = Some((now, error)));
    }

    /// A commit that was built at `made` was accepted. An error if it violates a rule.
    pub(crate) fn committed(
        &self,
        agent: AgentId,
        node: u64,
        epoch: u64,
        changes: &Changes,
        made: u64,
    ) -> Result<(), String> {
        let mut books = self.0.lock().unwrap();
        let Books { accounts, in_row, .. } = &mut *books;
        let account = accounts.entry((agent, node)).or_default();
        account.writes_in(epoch, made);
        account.committed(changes, made, in_row.entry(agent).or_default())
    }

    pub(crate) fn lost(&self, agent: AgentId, node: u64) {
        // An earlier failure belongs to the lost cycle.
        self.at(agent, node, |account| (account.lost, account.failed) = (true, None));
    }

    /// The store refused a request of the agent's activation, or did not answer it.
    pub(crate) fn refused(&self, agent: AgentId, node: u64, what: Option<CommitKind>, at: u64) {
        let opening = (what == Some(CommitKind::Open)).then_some(false);
        self.at(agent, node, |account| *account.refused.get_or_insert(Refused { at, opening }));
    }

    /// An operator acted on the agent.
    pub(crate) fn operator_acted(&self, agent: AgentId, now: u64) {
        self.0.lock().unwrap().operators.entry(agent).or_default().push_back(now);
    }

    fn at<T>(&self, agent: AgentId, node: u64, note: impl FnOnce(&mut Account) -> T) {
        note(self.0.lock().unwrap().accounts.entry((agent, node)).or_default());
    }
}

impl Account {
    fn paid(&self, shown: (CycleId, usize), now: u64) -> Option<Paid> {
        if self.progressed {
            return Some(Paid::Step);
        }
        if self.begun.is_none() {
            return Some(Paid::Start);
        }
        if self.idle_until.is_some_and(|until| until <= now) {
            return Some(Paid::BackoffEnd);
        }
        if let Some(paid) = self.failed.as_ref().and_then(|(at, error)| self.repeated(error, now - at)) {
            return Some(paid);
        }
        let pause = (limits::FAULT_PAUSE_MS << self.refusals.min(16)).min(limits::FAULT_PAUSE_MAX_MS);
        let waited = |refused: &Refused| refused.at + pause <= now;
        if self.was_queued() || self.refused.as_ref().is_some_and(waited) {
            return Some(Paid::Store);
        }
        if self.lost {
            return Some(Paid::Lost);
        }
        let more = self.shown.is_some_and(|(cycle, times)| cycle == shown.0 && times < shown.1);
        more.then_some(Paid::News)
    }

    /// Whether the store refused its opening, as it refused all, and has accepted it since: no failure of its own.
    fn was_queued(&self) -> bool {
        self.refusals == 0 && self.refused.is_some_and(|refused| refused.opening == Some(true))
    }

    /// How a request that failed `ago` milliseconds ago may be repeated within its activation.
    fn repeated(&self, error: &ModelError, ago: u64) -> Option<Paid> {
        let pause = match error.retry_after() {
            Some(after) => u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
            None => limits::BACKOFF_BASE_MS << self.attempts,
        };
        if error.retryable() && self.attempts < limits::MODEL_RETRIES && ago >= pause {
            return Some(Paid::Retry);
        }
        match error {
            ModelError::TooLong(_) if self.cuts < limits::TOO_LONG_CUTS => Some(Paid::Shorter),
            ModelError::Invalid(_) if self.rebuilt < 1 => Some(Paid::Rebuilt),
            // A refusal by a model that has never answered is a failure of the surroundings as well.
            _ => (self.fallbacks < 1).then_some(Paid::Fallback),
        }
    }

    /// Uses up everything that paid.
    fn settle(&mut self, paid: Paid, now: u64) {
        let before = std::mem::take(self);
        (self.begun, self.epoch) = (Some(now), before.epoch);
        if matches!(paid, Paid::Step) {
            return;
        }
        (self.last, self.refusals) = (before.last, 0);
        // Each of these is a new activation.
        if matches!(paid, Paid::BackoffEnd | Paid::Store | Paid::Lost | Paid::Operator) {
            self.refusals = if paid == Paid::Store && !before.was_queued() { before.refusals + 1 } else { 0 };
            return;
        }
        self.attempts = if paid == Paid::Retry { before.attempts + 1 } else { 0 };
        self.cuts = before.cuts + u32::from(paid == Paid::Shorter);
        self.rebuilt = before.rebuilt + u32::from(paid == Paid::Rebuilt);
        self.fallbacks = before.fallbacks + u32::from(paid == Paid::Fallback);
    }

    /// A new epoch is a new activation. Its first request may begin before its first commit, and then it seemed to be paid for by
    /// the end of an activation before it that never knew that it had lost its lease; or after it, and then nothing of that
    /// activation is left to pay for it.
    fn writes_in(&mut self, epoch: u64, made: u64) {
        if std::mem::replace(&mut self.epoch, epoch) == epoch {
            return;
        }
        (self.attempts, self.cuts, self.rebuilt, self.fallbacks) = (0, 0, 0, 0);
        let failed = self.failed.as_ref().is_some_and(|(at, _)| *at >= made);
        let owes_nothing = !failed && self.refused.is_none() && self.idle_until.is_none();
        self.begun = self.begun.filter(|begun| !owes_nothing || *begun >= made);
    }

    fn committed(&mut self, changes: &Changes, made: u64, in_row: &mut u32) -> Result<(), String> {
        if self.last.replace(changes.expect) == Some(changes.expect) {
            return Ok(());
        }
        if let Some(Refused { opening: Some(taken), .. }) = &mut self.refused {
            *taken |= changes.kind == CommitKind::Open;
        }
        let rest = changes.idle.as_ref().and_then(|rest| Some((rest.not_before?, rest.reason?)));
        match (changes.kind, rest) {
            (CommitKind::Close | CommitKind::Park, Some((until, reason))) => {
                let ms = u64::try_from(until.as_millisecond() - changes.at.as_millisecond()).unwrap_or(0);
                self.idle_until = Some(made + ms);
                let checked = self.check_backoff(changes, ms, reason, in_row);
                // An earlier failure belongs to the activation that ended.
                self.failed = None;
                return checked;
            }
            (CommitKind::Decide, _) => self.progressed = true,
            (CommitKind::Close, None)
                if changes.idle.as_ref().is_none_or(|rest| rest.not_before.is_none()) =>
            {
                self.progressed = true;
            }
            // As above.
            (CommitKind::Open, _) if self.failed.as_ref().is_some_and(|(at, _)| *at < made) => {
                self.failed = None;
            }
            _ => {}
        }
        if self.progressed {
            *in_row = 0;
        }
        Ok(())
    }

    /// An agent backs off as long as the table says, and longer for each failure in a row.
    fn check_backoff(
        &self,
        changes: &Changes,
        ms: u64,
        reason: IdleReason,
        in_row: &mut u32,
    ) -> Result<(), String> {
        let counted = changes.failures.filter(|failures| *failures > 0);
        let has_retry_after = self.failed.as_ref().is_some_and(|(_, error)| error.retry_after().is_some());
        let (least, more) = match counted {
            Some(failures) => (least_backoff(failures), failures > *in_row),
            // A model that was not called waits as long as its breaker is open.
            None if reason == IdleReason::Provider => return Ok(()),
            None => (least_backoff(1), true),
        };
        *in_row = counted.unwrap_or(*in_row);
        let long = has_retry_after || ms >= least;
        if long && more { Ok(()) } else { Err(format!("it backs off for {ms} ms only: {self:?}")) }
    }
}

/// The shortest time to back off after that many failures in a row: a second, doubled each time, up to five minutes.
fn least_backoff(failures: u32) -> u64 {
    (1_000 << failures.saturating_sub(1).min(20)).min(300_000)
}

impl Paid {
    fn name(self) -> &'static str {
        match self {
            Self::Step => "paid by a step",
            Self::Start => "paid by a start",
            Self::Retry => "paid by a pause",
            Self::Shorter => "paid by a cut",
            Self::Rebuilt => "paid by a rebuilt log",
            Self::Fallback => "paid by a fallback",
            Self::BackoffEnd => "paid by backing off",
            Self::Store => "paid by the store",
            Self::Lost => "paid by a lost lease",
            Self::News => "paid by an urgent message",
            Self::Operator => "paid by an operator",
        }
    }
}
