//! Who may write, and what a commit makes of the rows of a life: the rules behind
//! [`crate::port::Store::commit`], the same for every store. A store reads the rows under its locks (own
//! life, then spaces by id, then inbox heads by id), asks here, and writes what it is told.

use jiff::Timestamp;

use crate::changes::{Changes, CommitKind};
use crate::event::Fate;
use crate::id::CycleId;
use crate::life::{Lease, RestReason, Standing};
use crate::run::{Ending, Usage};

/// The life row, as far as a commit reads and writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct LifeRow {
    /// The fencing token.
    pub epoch: u64,
    /// Commits so far.
    pub commit_n: u64,
    /// Cycles in which something was lived.
    pub cycles: u64,
    /// Cycles that were skipped.
    pub skips: u64,
    /// Failures in a row.
    pub failures: u32,
    /// Tokens of all its life.
    pub usage: Usage,
    /// The open cycle.
    pub open: Option<CycleId>,
    /// Told in the next inbox entry.
    pub notice: Option<String>,
    /// Whether the agent may live.
    pub standing: Standing,
    /// The cycle that is to be canceled.
    pub cancel: Option<CycleId>,
}

/// The head of an inbox, as far as a commit of its own agent reads and writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxRow {
    /// Events that wait.
    pub waiting: u32,
    /// Of these, taken by the open cycle.
    pub taken: u32,
    /// When the agent has something to do.
    pub due_at: Option<Timestamp>,
    /// Kept back until then, whatever waits.
    pub hold_until: Option<Timestamp>,
    /// Why it is kept back.
    pub reason: Option<RestReason>,
}

/// Whether a commit may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Write,
    /// It may have been written before: the audit row says so.
    AskAudit,
    /// The lease is lost.
    Lost,
    /// The cycle was canceled.
    Canceled,
}

/// Whether the lease may write: it holds the epoch (or makes the next one), nothing was committed
/// that it does not know, and it speaks of the cycle that is open.
pub fn admission(life: &LifeRow, lease: Lease, changes: &Changes) -> Admission {
    if life.commit_n != changes.expect {
        let next = life.epoch == lease.epoch && life.commit_n == changes.expect + 1;
        return if next { Admission::AskAudit } else { Admission::Lost };
    }
    let holds = match changes.kind {
        // Who may not live may still hear that its cycle is canceled.
        CommitKind::Open => {
            lease.epoch == life.epoch + 1 && (life.standing == Standing::Active || life.cancel.is_some())
        }
        CommitKind::View => lease.epoch == life.epoch,
        _ => lease.epoch == life.epoch && life.open == Some(changes.cycle),
    };
    if !holds {
        return Admission::Lost;
    }
    let canceled = life.cancel == Some(changes.cycle) && must_hear_a_cancel(changes);
    if canceled { Admission::Canceled } else { Admission::Write }
}

/// A cancel that was acknowledged holds: what would begin something, or end the cycle as if nothing had
/// been said, is refused. What has happened may be settled.
fn must_hear_a_cancel(changes: &Changes) -> bool {
    match changes.kind {
        CommitKind::Decide | CommitKind::Start | CommitKind::Sent | CommitKind::Park => true,
        CommitKind::Close => changes.run.as_ref().is_none_or(|run| run.ending != Ending::Canceled),
        CommitKind::Open | CommitKind::Settle | CommitKind::View | CommitKind::Arrived => false,
    }
}

/// What a commit makes of the life row.
pub fn life_after(life: &LifeRow, lease: Lease, changes: &Changes) -> LifeRow {
    let mut life = life.clone();
    life.epoch = lease.epoch;
    life.commit_n += 1;
    life.failures = changes.failures.unwrap_or(life.failures);
    life.notice = changes.notice.clone().unwrap_or(life.notice);
    life.usage.add(&changes.usage);
    match &changes.run {
        Some(run) => {
            life.usage.add(&run.usage);
            life.usage.add(&run.estimated());
            life.cycles = run.ordinal;
        }
        None => {
            let skipped = changes.settle.iter().any(|end| matches!(end.fate, Fate::Skipped { .. }));
            life.skips += u64::from(skipped && changes.open.is_none());
        }
    }
    if changes.retire {
        life.standing = Standing::Retired;
    }
    life.open = changes.open.as_ref().map(|open| open.id);
    life.cancel = life.cancel.filter(|cycle| *cycle == changes.cycle && !closes(changes));
    life
}

/// From when on an agent is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// As it was.
    Unchanged,
    /// Not before something is accepted.
    Never,
    /// From then on.
    At(Timestamp),
    /// From when on the first event that waits is, but not before the hold.
    FirstWaiting,
}

/// What a commit makes of its agent's inbox head, after what it settles has left: the row, and from when on
/// the agent is due. `life` is the row after the commit.
pub fn inbox_after(inbox: &InboxRow, life: &LifeRow, changes: &Changes) -> (InboxRow, Due) {
    let mut inbox = *inbox;
    let rests = closes(changes) || changes.kind == CommitKind::Park || changes.rest.is_some();
    if rests || changes.kind == CommitKind::Open {
        inbox.hold_until = changes.rest.as_ref().and_then(|rest| rest.not_before);
        inbox.reason = changes.rest.as_ref().and_then(|rest| rest.reason);
    }
    if closes(changes) || changes.kind == CommitKind::Park {
        inbox.taken = 0;
    }
    let due = if changes.kind == CommitKind::Open {
        Due::At(inbox.due_at.map_or(changes.at, |due| due.min(changes.at)))
    } else if !rests {
        Due::Unchanged
    } else if life.standing != Standing::Active || (changes.open.is_none() && inbox.waiting == 0) {
        Due::Never
    } else if changes.open.is_some() {
        Due::At(inbox.hold_until.map_or(changes.at, |hold| hold.max(changes.at)))
    } else {
        Due::FirstWaiting
    };
    (inbox, due)
}

/// Closing may be merged with a decision or a settlement; a view is about the log, not the rest.
pub fn closes(changes: &Changes) -> bool {
    changes.open.is_none() && changes.kind != CommitKind::View
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Rest;
    use crate::id::AgentId;
    use crate::life::OpenCycle;
    use uuid::Uuid;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    fn cycle(n: u128) -> CycleId {
        CycleId(Uuid::from_u128(n))
    }

    fn life() -> LifeRow {
        LifeRow {
            epoch: 3,
            commit_n: 7,
            cycles: 1,
            skips: 0,
            failures: 0,
            usage: Usage::default(),
            open: Some(cycle(1)),
            notice: None,
            standing: Standing::Active,
            cancel: None,
        }
    }

    fn lease(epoch: u64) -> Lease {
        Lease { agent: AgentId(Uuid::nil()), epoch }
    }

    fn changes(kind: CommitKind) -> Changes {
        let open = matches!(kind, CommitKind::Close).then_some(()).is_none();
        let open = open.then(|| OpenCycle::new(cycle(1), 1, at(0)));
        Changes { open, ..Changes::new(kind, cycle(1), 0, 7, at(50)) }
    }

    #[test]
    fn a_lease_writes_only_what_it_knows_of_its_own_cycle() {
        use CommitKind::{Decide, Open, View};
        for (kind, epoch, row, expected) in [
            (Decide, 3, life(), Admission::Write),
            (Decide, 2, life(), Admission::Lost),
            (Decide, 3, LifeRow { commit_n: 8, ..life() }, Admission::AskAudit),
            (Decide, 3, LifeRow { commit_n: 9, ..life() }, Admission::Lost),
            (Decide, 3, LifeRow { commit_n: 8, epoch: 4, ..life() }, Admission::Lost),
            (Decide, 3, LifeRow { open: Some(cycle(2)), ..life() }, Admission::Lost),
            (Decide, 3, LifeRow { open: None, ..life() }, Admission::Lost),
            (View, 3, LifeRow { open: None, ..life() }, Admission::Write),
            (Open, 4, life(), Admission::Write),
            (Open, 3, life(), Admission::Lost),
            (Open, 4, LifeRow { standing: Standing::Suspended, ..life() }, Admission::Lost),
            (
                Open,
                4,
                LifeRow { standing: Standing::Retired, cancel: Some(cycle(1)), ..life() },
                Admission::Write,
            ),
        ] {
            assert_eq!(admission(&row, lease(epoch), &changes(kind)), expected, "{kind:?} {row:?}");
        }
    }

    #[test]
    fn a_cancel_is_heard_before_anything_begins_or_ends_as_if_nothing_was_said() {
        use CommitKind::{Arrived, Close, Decide, Open, Park, Sent, Settle, Start, View};
        let row = LifeRow { cancel: Some(cycle(1)), ..life() };
        for kind in [Decide, Start, Sent, Park, Close] {
            assert_eq!(admission(&row, lease(3), &changes(kind)), Admission::Canceled, "{kind:?}");
        }
        for kind in [Settle, View, Arrived] {
            assert_eq!(admission(&row, lease(3), &changes(kind)), Admission::Write, "{kind:?}");
        }
        assert_eq!(admission(&row, lease(4), &changes(Open)), Admission::Write);
        assert_eq!(life_after(&row, lease(4), &changes(Open)).cancel, Some(cycle(1)));
        assert_eq!(life_after(&row, lease(3), &changes(Close)).cancel, None);
    }

    #[test]
    fn when_an_agent_is_due_again_is_as_its_rest_says() {
        use CommitKind::{Close, Decide, Open, Park};
        let inbox = |waiting, hold: Option<i64>| InboxRow {
            waiting,
            taken: 1,
            due_at: Some(at(90)),
            hold_until: hold.map(at),
            reason: None,
        };
        let rest = |until: Option<i64>| Some(Rest { not_before: until.map(at), reason: None });
        for (kind, waiting, until, standing, due) in [
            (Open, 1, None, Standing::Active, Due::At(at(50))),
            (Decide, 1, None, Standing::Active, Due::Unchanged),
            (Close, 0, Some(rest(None)), Standing::Active, Due::Never),
            (Close, 2, Some(rest(None)), Standing::Active, Due::FirstWaiting),
            (Close, 2, Some(rest(Some(70))), Standing::Suspended, Due::Never),
            (Park, 0, Some(rest(Some(70))), Standing::Active, Due::At(at(70))),
            (Park, 0, Some(rest(Some(20))), Standing::Active, Due::At(at(50))),
        ] {
            let changes = Changes { rest: until.flatten(), ..changes(kind) };
            let row = LifeRow { standing, ..life() };
            let (after, found) = inbox_after(&inbox(waiting, Some(60)), &row, &changes);
            assert_eq!(found, due, "{kind:?}");
            assert_eq!(after.taken, u32::from(!matches!(kind, Close | Park)));
        }
    }
}
