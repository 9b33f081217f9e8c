//! What requests of models cost: each must be paid for by something that happened since the agent's request
//! before it, on the same node. What pays, and how often:
//!
//! | pays | since |
//! |---|---|
//! | a decision or the end of a cycle was committed | it gets on: one request for each |
//! | the first of this process | whatever an earlier one had in progress, it has to ask for again |
//! | it failed, and a pause of the table in `failure.rs` is over | an attempt, at most three in one asking |
//! | it failed as too long, as invalid, by its surroundings | cut, three times; rebuilt, once; a fallback, one: at once |
//! | it came to rest for a while, and the rest is over | a rest is durable and grows |
//! | the store refused, and the pause of `turns.rs` is over | that pause is doubled for each in a row |
//! | the store refused its opening, and took it since | once in a row: what was thought meanwhile is thought again |
//! | its commit was not taken, since the lease was lost or its events were taken back | each time once |
//! | it shows urgent words that the one before did not | they broke into a generation: each time once |
//! | an operator's word, a clock that was set | each drops one generation, soon |
//!
//! Everything that paid is used up by the request that it paid for. So no agent makes more requests in any minute
//! than it took steps, was interrupted, lost its process or lease, and failed by the tables. This module
//! must not know what is asked, nor when anything is to happen.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use agent::changes::{Changes, CommitKind};
use agent::id::{AgentId, CycleId};
use agent::life::IdleReason;
use agent::limits;
use agent::port::ModelError;

/// How long before a request was begun an operator may have said what dropped it: the store may be slow to tell.
const WORD_MS: u64 = 15_000;
/// A sliding minute.
const MINUTE_MS: u64 = 60_000;
/// Requests of one agent in a minute that no step and no word paid for, at most: an activation
/// that fails asks at once six times at most (itself, a fallback, three cuts, one rebuilt) and rests for a second
/// and longer each time; two classes of failure that alternate rest for 1, 1, 2, 2, 4, 4, 8, 8, 16 and 16 seconds.
const IN_VAIN: usize = 60;

/// What paid for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paid {
    Step,
    Born,
    Again,
    Shorter,
    Rebuilt,
    Fallback,
    ActivationEnd,
    Store,
    Lost,
    News,
    Word,
}

/// The store did not take, or not answer, what an activation asked of it.
#[derive(Clone, Copy, Debug)]
struct Refused {
    at: u64,
    /// It was to take its opening, and whether it did since.
    opening: Option<bool>,
}

/// What happened to one agent on one node since its last request there was begun, and how often in a row
/// what did not get on was paid for.
#[derive(Debug, Default)]
struct Account {
    /// When its last request was.
    begun: Option<u64>,
    /// The cycle of that one, and how often something had broken into it.
    shown: Option<(CycleId, usize)>,
    got_on: bool,
    failed: Option<(u64, ModelError)>,
    rests: Option<u64>,
    refused: Option<Refused>,
    lost: bool,
    /// Attempts of this asking beyond its first.
    attempts: u32,
    /// In this activation.
    cuts: u32,
    rebuilt: u32,
    fallbacks: u32,
    /// Requests in a row that nothing but a refusal of the store paid for.
    refusals: u32,
    /// Which commit was taken last: one that nobody was told of comes again.
    last: Option<u64>,
}

#[derive(Default)]
struct Books {
    accounts: BTreeMap<(AgentId, u64), Account>,
    /// Failures of the surroundings in a row, as each agent's last rest counted them.
    in_row: BTreeMap<AgentId, u32>,
    /// Words of operators, when they were said.
    words: BTreeMap<AgentId, VecDeque<u64>>,
    /// When requests were begun that neither a step nor a word paid for.
    in_vain: BTreeMap<AgentId, VecDeque<u64>>,
}

/// The accounts of one world.
#[derive(Default)]
pub(crate) struct Bill(Mutex<Books>);

impl Bill {
    /// A request is begun; what paid for it, in a word, or why nothing did.
    pub(crate) fn begun(
        &self,
        agent: AgentId,
        node: u64,
        shown: (CycleId, usize),
        now: u64,
    ) -> Result<&'static str, String> {
        let mut books = self.0.lock().unwrap();
        let Books { accounts, words, in_vain, .. } = &mut *books;
        let account = accounts.entry((agent, node)).or_default();
        let paid = account.paid(shown, now).or_else(|| {
            let (words, before) = (words.get_mut(&agent)?, account.begun?);
            words.retain(|at| at + WORD_MS >= before);
            words.pop_front().map(|_| Paid::Word)
        });
        let Some(paid) = paid else { return Err(format!("nothing paid for it: {account:?}")) };
        let before = account.shown;
        account.settle(paid, now);
        // What a failure paid for may show new words, too: those pay for one more.
        let failed = matches!(paid, Paid::Again | Paid::Shorter | Paid::Rebuilt | Paid::Fallback);
        let unpaid = before.filter(|(cycle, _)| failed && *cycle == shown.0);
        account.shown = match before {
            Some((cycle, times)) if paid == Paid::News && cycle == shown.0 => Some((cycle, times + 1)),
            _ => unpaid.or(Some(shown)),
        };
        if !matches!(paid, Paid::Step | Paid::News | Paid::Word) {
            let begun = in_vain.entry(agent).or_default();
            begun.push_back(now);
            begun.retain(|at| at + MINUTE_MS > now);
            if begun.len() > IN_VAIN {
                return Err(format!("{} within a minute were in vain", begun.len()));
            }
        }
        Ok(paid.word())
    }

    /// The request in progress failed.
    pub(crate) fn failed(&self, agent: AgentId, node: u64, error: ModelError, now: u64) {
        self.at(agent, node, |account| account.failed = Some((now, error)));
    }

    /// A commit was taken that was made so many milliseconds ago. Whatever is wrong with it.
    pub(crate) fn committed(
        &self,
        agent: AgentId,
        node: u64,
        changes: &Changes,
        made: u64,
    ) -> Result<(), String> {
        let mut books = self.0.lock().unwrap();
        let Books { accounts, in_row, .. } = &mut *books;
        let account = accounts.entry((agent, node)).or_default();
        account.committed(changes, made, in_row.entry(agent).or_default())
    }

    pub(crate) fn lost(&self, agent: AgentId, node: u64) {
        // What failed before belongs to what was lost.
        self.at(agent, node, |account| (account.lost, account.failed) = (true, None));
    }

    /// The store did not take, or not answer, what the agent's activation asked of it.
    pub(crate) fn refused(&self, agent: AgentId, node: u64, what: Option<CommitKind>, at: u64) {
        let opening = (what == Some(CommitKind::Open)).then_some(false);
        self.at(agent, node, |account| *account.refused.get_or_insert(Refused { at, opening }));
    }

    /// An operator did something to the agent.
    pub(crate) fn word(&self, agent: AgentId, now: u64) {
        self.0.lock().unwrap().words.entry(agent).or_default().push_back(now);
    }

    fn at<T>(&self, agent: AgentId, node: u64, note: impl FnOnce(&mut Account) -> T) {
        note(self.0.lock().unwrap().accounts.entry((agent, node)).or_default());
    }
}

impl Account {
    fn paid(&self, shown: (CycleId, usize), now: u64) -> Option<Paid> {
        if self.got_on {
            return Some(Paid::Step);
        }
        if self.begun.is_none() {
            return Some(Paid::Born);
        }
        if self.rests.is_some_and(|until| until <= now) {
            return Some(Paid::ActivationEnd);
        }
        if let Some(paid) = self.failed.as_ref().and_then(|(at, error)| self.again(error, now - at)) {
            return Some(paid);
        }
        let pause = (limits::FAULT_PAUSE_MS << self.refusals.min(16)).min(limits::FAULT_PAUSE_MAX_MS);
        let works = |refused: &Refused| refused.opening == Some(true) && self.refusals == 0;
        if self.refused.as_ref().is_some_and(|refused| refused.at + pause <= now || works(refused)) {
            return Some(Paid::Store);
        }
        if self.lost {
            return Some(Paid::Lost);
        }
        let more = self.shown.is_some_and(|(cycle, times)| cycle == shown.0 && times < shown.1);
        more.then_some(Paid::News)
    }

    /// How a request that failed so long ago may be made again within its activation.
    fn again(&self, error: &ModelError, ago: u64) -> Option<Paid> {
        let pause = match error.retry_after() {
            Some(after) => u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
            None => limits::BACKOFF_BASE_MS << self.attempts,
        };
        if error.retryable() && self.attempts < limits::MODEL_RETRIES && ago >= pause {
            return Some(Paid::Again);
        }
        match error {
            ModelError::TooLong(_) if self.cuts < limits::TOO_LONG_CUTS => Some(Paid::Shorter),
            ModelError::Invalid(_) if self.rebuilt < 1 => Some(Paid::Rebuilt),
            // What a model refuses that has never answered is its surroundings' failure, too.
            _ => (self.fallbacks < 1).then_some(Paid::Fallback),
        }
    }

    /// Uses up what paid.
    fn settle(&mut self, paid: Paid, now: u64) {
        let before = std::mem::take(self);
        self.begun = Some(now);
        if matches!(paid, Paid::Step) {
            return;
        }
        (self.last, self.refusals) = (before.last, 0);
        // A new activation, each.
        if matches!(paid, Paid::ActivationEnd | Paid::Store | Paid::Lost | Paid::Word) {
            self.refusals = if paid == Paid::Store { before.refusals + 1 } else { 0 };
            return;
        }
        self.attempts = if paid == Paid::Again { before.attempts + 1 } else { 0 };
        self.cuts = before.cuts + u32::from(paid == Paid::Shorter);
        self.rebuilt = before.rebuilt + u32::from(paid == Paid::Rebuilt);
        self.fallbacks = before.fallbacks + u32::from(paid == Paid::Fallback);
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
                self.rests = Some(made + ms);
                let rested = self.rested(changes, ms, reason, in_row);
                // What failed before belongs to an activation that is over.
                self.failed = None;
                return rested;
            }
            (CommitKind::Decide, _) => self.got_on = true,
            (CommitKind::Close, None)
                if changes.idle.as_ref().is_none_or(|rest| rest.not_before.is_none()) =>
            {
                self.got_on = true;
            }
            // The same.
            (CommitKind::Open, _) if self.failed.as_ref().is_some_and(|(at, _)| *at < made) => {
                self.failed = None;
            }
            _ => {}
        }
        if self.got_on {
            *in_row = 0;
        }
        Ok(())
    }

    /// A rest is as long as the table says, and longer for each failure in a row.
    fn rested(&self, changes: &Changes, ms: u64, reason: IdleReason, in_row: &mut u32) -> Result<(), String> {
        let counted = changes.failures.filter(|failures| *failures > 0);
        let told = self.failed.as_ref().is_some_and(|(_, error)| error.retry_after().is_some());
        let (least, more) = match counted {
            Some(failures) => (rest_of(failures), failures > *in_row),
            // Whoever was not even asked waits for others, as long as those do.
            None if reason == IdleReason::Provider => return Ok(()),
            None => (rest_of(1), true),
        };
        *in_row = counted.unwrap_or(*in_row);
        let long = told || ms >= least;
        if long && more { Ok(()) } else { Err(format!("it rests for {ms} ms only: {self:?}")) }
    }
}

/// The shortest rest after so many failures in a row, as the design has it: a second, doubled each time, up to five
/// minutes.
fn rest_of(failures: u32) -> u64 {
    (1_000 << failures.saturating_sub(1).min(20)).min(300_000)
}

impl Paid {
    fn word(self) -> &'static str {
        match self {
            Self::Step => "paid by a step",
            Self::Born => "paid by a start",
            Self::Again => "paid by a pause",
            Self::Shorter => "paid by a cut",
            Self::Rebuilt => "paid by a rebuilt log",
            Self::Fallback => "paid by a fallback",
            Self::ActivationEnd => "paid by a rest",
            Self::Store => "paid by the store",
            Self::Lost => "paid by a lost lease",
            Self::News => "paid by urgent words",
            Self::Word => "paid by an operator",
        }
    }
}
