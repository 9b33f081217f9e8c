//! Fencing: whether a commit may be written, and how it changes the agent's rows. These are the rules behind
//! [`crate::port::Store::commit`], the same for every store. A store reads the rows under its locks, calls these
//! functions, and writes what they return.
//!
//! Lock order of every command: the agent's life row, then spaces by id, then inbox heads by id. A command about
//! several independent agents (`fire_due`) may use one transaction for each.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::call::{CallRow, Effect};
use crate::changes::{Changes, CommitKind, Glance, MemoryChange, Refusal};
use crate::event::EventState;
use crate::id::{CallId, CycleId, SpaceId};
use crate::life::{IdleReason, Lease, OpenCycle, Standing};
use crate::memory::{self, Memory};
use crate::port::Denial;
use crate::run::{Ending, Usage};
use crate::space::NewMessage;
use crate::tool::names;
use crate::waits;

/// The life row, as far as a commit reads and writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct LifeRow {
    /// The fencing token.
    pub epoch: u64,
    /// Commits so far.
    pub commit_n: u64,
    /// Cycles in which something was processed.
    pub cycles: u64,
    /// Cycles that were skipped.
    pub skips: u64,
    /// Failures in a row.
    pub failures: u32,
    /// All tokens it has used.
    pub usage: Usage,
    /// The open cycle.
    pub open: Option<CycleId>,
    /// Notice to show in the next inbox entry.
    pub notice: Option<String>,
    /// Whether the agent may run.
    pub standing: Standing,
    /// The cycle that somebody requested to cancel.
    pub cancel: Option<CycleId>,
}

/// The head row of an inbox, as far as a commit of its agent reads and writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxHead {
    /// Events that wait.
    pub waiting: u32,
    /// Of these, taken by the open cycle.
    pub taken: u32,
    /// When the agent is due.
    pub due_at: Option<Timestamp>,
    /// The agent may not run before this time, even if events wait.
    pub hold_until: Option<Timestamp>,
    /// Why it may not run before that time.
    pub reason: Option<IdleReason>,
}

/// Whether a commit may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Write,
    /// It may already be written: the audit row decides.
    AskAudit,
    /// The lease is lost.
    Lost,
    /// The cycle was canceled.
    Canceled,
}

/// Whether a commit under this lease may be written: the lease holds the epoch (or opens the next one), it knows all
/// earlier commits, and the commit belongs to the open cycle.
pub fn admission(life: &LifeRow, lease: Lease, changes: &Changes) -> Admission {
    if life.commit_n != changes.expect {
        let next = life.epoch == lease.epoch && life.commit_n == changes.expect + 1;
        return if next { Admission::AskAudit } else { Admission::Lost };
    }
    let holds = match changes.kind {
        // Even an agent that may not run opens its cycle to process a cancel.
        CommitKind::Open => {
            lease.epoch == life.epoch + 1 && (life.standing == Standing::Active || life.cancel.is_some())
        }
        CommitKind::View => lease.epoch == life.epoch,
        _ => lease.epoch == life.epoch && life.open == Some(changes.cycle),
    };
    if !holds {
        return Admission::Lost;
    }
    let canceled = life.cancel == Some(changes.cycle) && is_refused_by_cancel(changes);
    if canceled { Admission::Canceled } else { Admission::Write }
}

/// Whether a call of this cycle may begin: not if it is over or canceled, or its agent may not run.
pub fn may_begin(life: &LifeRow, cycle: CycleId) -> bool {
    life.open == Some(cycle) && life.cancel != Some(cycle) && life.standing == Standing::Active
}

/// Whether a requested cancel refuses this commit. Commits that start something, or end the cycle without regard to the
/// cancel, are refused. Commits that only record what has already happened are not.
fn is_refused_by_cancel(changes: &Changes) -> bool {
    match changes.kind {
        CommitKind::Decide | CommitKind::Start | CommitKind::Sent | CommitKind::Park => true,
        CommitKind::Close => changes.run.as_ref().is_none_or(|run| run.ending != Ending::Canceled),
        CommitKind::Open | CommitKind::Settle | CommitKind::View | CommitKind::Arrived => false,
    }
}

/// The audit row of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// The epoch under which it was written.
    pub epoch: u64,
    /// Its cycle.
    pub cycle: CycleId,
    /// Its step.
    pub step: u32,
    /// The kind of commit.
    pub kind: CommitKind,
}

/// Whether the commit after the one that `changes` expects is `changes` itself: then it was written, and only the
/// answer was lost. Two processes that take over the same cycle try to open the same epoch, and only one of them may
/// run it. Openings are therefore also compared by the `opening` mark in the `open` cycle.
pub fn was_written(row: AuditRow, open: Option<&OpenCycle>, lease: Lease, changes: &Changes) -> bool {
    let Changes { cycle, step, kind, .. } = *changes;
    let opening = |open: &OpenCycle| open.opening;
    row == AuditRow { epoch: lease.epoch, cycle, step, kind }
        && (kind != CommitKind::Open || open.map(opening) == changes.open.as_ref().map(opening))
}

/// Whether an opening is outdated: an event that it takes no longer waits. `found` is how many of its events still
/// wait.
pub fn is_outdated(open: Option<&OpenCycle>, found: usize) -> bool {
    open.is_some_and(|open| !open.decided && found < open.taken.len())
}

/// A message that a commit adds to a space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Post<'a> {
    /// A text message; if it is denied, its call is refused.
    Message(&'a NewMessage),
    /// The message of a visible call.
    Call(&'a NewMessage),
}

impl<'a> Post<'a> {
    /// The message that is added to the space.
    pub fn message(self) -> &'a NewMessage {
        match self {
            Self::Message(message) | Self::Call(message) => message,
        }
    }
}

/// The spaces of these messages, in the order in which a store locks them.
pub fn spaces(posts: &[Post<'_>]) -> BTreeSet<SpaceId> {
    posts.iter().map(|post| post.message().space).collect()
}

/// The messages that a commit adds to spaces, in the order of the decision's calls.
pub fn posts(changes: &Changes) -> Vec<Post<'_>> {
    let call_index = |message: &NewMessage| {
        changes.calls.iter().position(|row| Some(&row.id) == message.call.as_ref()).unwrap_or(0)
    };
    let messages =
        changes.inward.messages.iter().map(|message| (call_index(message), Post::Message(message)));
    let calls = changes.shows.iter().map(|message| (call_index(message), Post::Call(message)));
    let mut posts: Vec<_> = messages.chain(calls).collect();
    posts.sort_by_key(|(index, _)| *index);
    posts.into_iter().map(|(_, post)| post).collect()
}

/// The refusal of a message that was denied.
pub fn refusal(message: &NewMessage, denial: &Denial) -> Refusal {
    let space: SpaceId = message.space;
    let reason = match denial {
        Denial::NotMember { .. } => {
            format!("you are not a member of the space `{space}` (any more); nothing was posted there")
        }
        Denial::SpaceClosed(_) => format!("the space `{space}` is closed; nothing was posted there"),
        other => format!("{other}; nothing was posted"),
    };
    Refusal { call: message.call.clone().unwrap_or_else(|| CallId(message.id.to_string())), reason }
}

/// The refusals if a decision pins more memories than always have room: it was checked before, but an operator may have
/// pinned others since. `pinned` are the agent's pinned memories with those of the decision.
pub fn pinned_too_many(pinned: &[Memory], changes: &Changes) -> Option<Vec<Refusal>> {
    let writes = |change: &MemoryChange| matches!(change, MemoryChange::Set { key, .. } if pinned.iter().any(|memory| memory.key == *key));
    if !changes.inward.memories.iter().any(writes) {
        return None;
    }
    let wrong = memory::check(&memory::after(pinned, [])).err()?;
    let inward = || changes.calls.iter().filter(|call| call.effect == Effect::Inward);
    let named: Vec<_> = inward().filter(|call| call.tool == names::SET_MEMORIES).collect();
    let blamed = if named.is_empty() { inward().collect() } else { named };
    let refusal =
        |call: &CallRow| Refusal { call: call.id.clone(), reason: format!("nothing was set: {wrong}") };
    Some(blamed.into_iter().map(refusal).collect())
}

/// The refusals if a change names a row that belongs to another agent. A change does not record its call, so the
/// inward calls whose arguments contain the id are refused, or all inward calls if none does.
pub fn not_owned(what: &str, id: &str, calls: &[CallRow]) -> Vec<Refusal> {
    let inward = || calls.iter().filter(|call| call.effect == Effect::Inward);
    let named: Vec<_> = inward().filter(|call| call.arguments.contains(id)).collect();
    let blamed = if named.is_empty() { inward().collect() } else { named };
    let reason = format!("you have no {what} with the id `{id}`");
    blamed.into_iter().map(|call| Refusal { call: call.id.clone(), reason: reason.clone() }).collect()
}

/// The life row after a commit.
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
            let skipped = changes.settle.iter().any(|end| matches!(end.state, EventState::Skipped { .. }));
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

/// When an agent is due after a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueFrom {
    /// As it was.
    Unchanged,
    /// Not until an event is accepted.
    Never,
    /// At this time.
    At(Timestamp),
    /// When the first waiting event is due, but not before `hold_until`.
    FirstWaiting,
}

/// The agent's inbox head after a commit, and when the agent is due. `inbox` no longer counts the settled events,
/// `life` is the life row after the commit, `now` is the time at which the commit is written.
pub fn inbox_after(
    inbox: &InboxHead,
    life: &LifeRow,
    changes: &Changes,
    now: Timestamp,
) -> (InboxHead, DueFrom) {
    let (mut inbox, at) = (*inbox, changes.at.min(now));
    let is_idle = closes(changes) || changes.kind == CommitKind::Park || changes.idle.is_some();
    if is_idle || changes.kind == CommitKind::Open {
        let until = changes.idle.as_ref().and_then(|idle| idle.not_before);
        inbox.hold_until = until.map(|until| waits::rebased(until, changes.at, now));
        inbox.reason = changes.idle.as_ref().and_then(|idle| idle.reason);
        // Somebody needs it already: it does not wait for a person alone.
        if inbox.reason == Some(IdleReason::Person) && inbox.waiting > 0 {
            (inbox.hold_until, inbox.reason) = (None, None);
        }
    }
    if closes(changes) || changes.kind == CommitKind::Park {
        inbox.taken = 0;
    }
    let due = if changes.kind == CommitKind::Open {
        DueFrom::At(inbox.due_at.map_or(at, |due| due.min(at)))
    } else if !is_idle {
        DueFrom::Unchanged
    } else if life.standing != Standing::Active || (changes.open.is_none() && inbox.waiting == 0) {
        DueFrom::Never
    } else if changes.open.is_some() {
        DueFrom::At(inbox.hold_until.map_or(at, |hold| hold.max(at)))
    } else {
        DueFrom::FirstWaiting
    };
    (inbox, due)
}

/// The agent's inbox head after a commit that waits for an answer which has come meanwhile: it waits no longer.
pub fn answered_meanwhile(inbox: InboxHead, changes: &Changes, now: Timestamp) -> (InboxHead, DueFrom) {
    (InboxHead { hold_until: None, reason: None, ..inbox }, DueFrom::At(changes.at.min(now)))
}

/// The part of a [`Glance`] that follows from the rows; the store fills in the counts. `newest` is the highest seq in
/// the inbox.
pub fn glance(life: &LifeRow, inbox: &InboxHead, newest: u64) -> Glance {
    Glance {
        waiting: inbox.waiting.saturating_sub(inbox.taken),
        newest,
        cancel: life.cancel.is_some() && life.cancel == life.open,
        suspended: life.standing != Standing::Active,
        ..Glance::default()
    }
}

/// Whether the commit closes the cycle. A decision or a settlement may close it too; a change of the view never does.
pub fn closes(changes: &Changes) -> bool {
    changes.open.is_none() && changes.kind != CommitKind::View
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Runner;
    use crate::changes::Idle;
    use crate::id::{AgentId, EntityId, MessageId};
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
    fn a_lease_writes_only_to_its_open_cycle_and_only_with_current_knowledge() {
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
    fn a_requested_cancel_refuses_every_commit_that_starts_something_or_ignores_it() {
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
    fn an_agent_is_due_again_as_its_idle_time_says() {
        use CommitKind::{Close, Decide, Open, Park};
        let inbox = |waiting, hold: Option<i64>| InboxHead {
            waiting,
            taken: 1,
            due_at: Some(at(90)),
            hold_until: hold.map(at),
            reason: None,
        };
        let idle = |until: Option<i64>| Some(Idle { not_before: until.map(at), reason: None });
        for (kind, waiting, until, standing, now, due) in [
            (Open, 1, None, Standing::Active, 55, DueFrom::At(at(50))),
            (Decide, 1, None, Standing::Active, 55, DueFrom::Unchanged),
            (Close, 0, Some(idle(None)), Standing::Active, 55, DueFrom::Never),
            (Close, 2, Some(idle(None)), Standing::Active, 55, DueFrom::FirstWaiting),
            (Close, 2, Some(idle(Some(70))), Standing::Suspended, 55, DueFrom::Never),
            (Park, 0, Some(idle(Some(70))), Standing::Active, 55, DueFrom::At(at(70))),
            (Park, 0, Some(idle(Some(20))), Standing::Active, 55, DueFrom::At(at(50))),
            // The clock was set back by 40 ms in between.
            (Open, 1, None, Standing::Active, 10, DueFrom::At(at(10))),
            (Park, 0, Some(idle(Some(70))), Standing::Active, 10, DueFrom::At(at(30))),
        ] {
            let changes = Changes { idle: until.flatten(), ..changes(kind) };
            let row = LifeRow { standing, ..life() };
            let (after, found) = inbox_after(&inbox(waiting, Some(60)), &row, &changes, at(now));
            assert_eq!(found, due, "{kind:?}");
            assert_eq!(after.taken, u32::from(!matches!(kind, Close | Park)));
        }
    }

    #[test]
    fn a_commit_was_written_if_its_audit_row_matches_and_for_an_opening_also_its_mark() {
        let row = |kind| AuditRow { epoch: 3, cycle: cycle(1), step: 0, kind };
        let open = |mark| OpenCycle { opening: Some(cycle(mark)), ..OpenCycle::new(cycle(1), 1, at(0)) };
        let decide = changes(CommitKind::Decide);
        for (row, expected) in [
            (row(CommitKind::Decide), true),
            (row(CommitKind::Settle), false),
            (AuditRow { epoch: 2, ..row(CommitKind::Decide) }, false),
            (AuditRow { cycle: cycle(2), ..row(CommitKind::Decide) }, false),
            (AuditRow { step: 1, ..row(CommitKind::Decide) }, false),
        ] {
            assert_eq!(was_written(row, None, lease(3), &decide), expected, "{row:?}");
        }
        let opens = Changes { open: Some(open(7)), ..changes(CommitKind::Open) };
        for (stored, expected) in [(Some(open(7)), true), (Some(open(8)), false), (None, false)] {
            assert_eq!(was_written(row(CommitKind::Open), stored.as_ref(), lease(3), &opens), expected);
        }
        let taking = OpenCycle { taken: vec![1, 2], ..open(7) };
        let decided = OpenCycle { decided: true, ..taking.clone() };
        for (open, found, outdated) in [
            (Some(&taking), 2, false),
            (Some(&taking), 1, true),
            (Some(&decided), 1, false),
            (None, 0, false),
        ] {
            assert_eq!(is_outdated(open, found), outdated);
        }
    }

    fn call(n: u32, arguments: &str) -> CallRow {
        CallRow {
            id: CallId(format!("c{n}")),
            cycle: cycle(1),
            step: 0,
            index: n,
            tool: "t".into(),
            arguments: arguments.into(),
            effect: Effect::Inward,
            tool_version: "1".into(),
            runner: Runner::Node,
            claim: None,
            approval: None,
            by_rule: None,
            awaited: true,
            state: crate::call::CallState::Done,
            outcome: None,
            trust: crate::event::Trust::Member,
        }
    }

    fn message(call: u32) -> NewMessage {
        let (id, space) = (MessageId(Uuid::from_u128(call.into())), SpaceId(Uuid::nil()));
        let message = NewMessage::of_person(id, space, EntityId(Uuid::nil()), "hi", at(0));
        NewMessage { call: Some(CallId(format!("c{call}"))), ..message }
    }

    #[test]
    fn messages_and_visible_calls_of_a_commit_are_posted_in_the_order_of_its_calls() {
        let mut changes = changes(CommitKind::Decide);
        changes.calls = (0..4).map(|n| call(n, "{}")).collect();
        changes.inward.messages = vec![message(1), message(3)];
        changes.shows = vec![message(0), message(2)];
        let posts = posts(&changes);
        let order = posts.iter().map(|post| {
            let call = post.message().call.clone().unwrap().0;
            (matches!(post, Post::Message(_)), call)
        });
        let expected = [(false, "c0"), (true, "c1"), (false, "c2"), (true, "c3")];
        assert!(order.eq(expected.map(|(is_message, call)| (is_message, call.to_owned()))));
        assert_eq!(spaces(&posts).len(), 1);
    }

    #[test]
    fn a_refusal_names_its_call_and_gives_the_model_a_reason() {
        let message = message(1);
        let (entity, space) = (message.sender, message.space);
        for (denial, text) in [
            (Denial::NotMember { entity, space }, "you are not a member"),
            (Denial::SpaceClosed(space), "is closed; nothing was posted there"),
            (Denial::MessageIdTaken, "taken by another message; nothing was posted"),
        ] {
            let refusal = refusal(&message, &denial);
            assert!(refusal.call.0 == "c1" && refusal.reason.contains(text), "{refusal:?}");
        }
        let calls = [call(0, "{}"), call(1, r#"{"id": "g7"}"#)];
        let blamed = |id| not_owned("goal", id, &calls).into_iter().map(|refusal| refusal.call.0).collect();
        let (named, all): (Vec<String>, Vec<String>) = (blamed("g7"), blamed("g8"));
        assert_eq!((named, all), (vec!["c1".to_owned()], vec!["c0".to_owned(), "c1".to_owned()]));
    }
}
