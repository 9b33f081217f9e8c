//! The promises that every state of the protocol, and every step between two states, must keep.

use super::model::ProtocolState;
use super::stored::{Call, Entry, Open, RowState, UNSAFE};

/// A promise, as it is named when it is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Every event that arrived has exactly one row in the ledger.
    OneRow,
    /// A processed event is in the log exactly once, any other event is not in it.
    ProcessedOnce,
    /// At most one node holds the epoch.
    OneOwner,
    /// Epochs never decrease, and commits are numbered without a gap.
    EpochsRise,
    /// A call that cannot be repeated is made at most once.
    UnsafeOnce,
    /// No call is made before its decision, and none is left without an outcome.
    EffectsRecorded,
    /// A model accepts the log.
    LogValid,
    /// A takeover counts one death of the open work, unless its node was waiting for a model. No failure is
    /// forgotten.
    FailuresCounted,
    /// An idle state can be reached from every state without further faults.
    IdleReachable,
}

const CHECKED_PER_STEP: [Promise; 8] = [
    Promise::OneRow,
    Promise::ProcessedOnce,
    Promise::OneOwner,
    Promise::UnsafeOnce,
    Promise::EffectsRecorded,
    Promise::LogValid,
    Promise::EpochsRise,
    Promise::FailuresCounted,
];

/// The first promise that a step breaks.
pub(crate) fn broken(before: &ProtocolState, after: &ProtocolState) -> Option<Promise> {
    let keeps = |promise: &Promise| match promise {
        Promise::OneRow => one_row(after),
        Promise::ProcessedOnce => processed_once(after),
        Promise::OneOwner => one_owner(after),
        Promise::UnsafeOnce => after.calls_made[UNSAFE] <= 1,
        Promise::EffectsRecorded => effects_recorded(after),
        Promise::LogValid => log_valid(after),
        Promise::EpochsRise => epochs_rise(before, after),
        Promise::FailuresCounted => failures_counted(before, after),
        Promise::IdleReachable => true,
    };
    CHECKED_PER_STEP.iter().find(|promise| !keeps(promise)).copied()
}

/// Whether everything is done: no event waits and no cycle is open.
pub(crate) fn is_idle(state: &ProtocolState) -> bool {
    state.stored.waiting() == 0 && state.stored.open.is_none()
}

fn one_row(state: &ProtocolState) -> bool {
    (0..2).all(|event| {
        let rows = state.stored.rows().filter(|row| row.event == event).count();
        rows == usize::from(state.sent[usize::from(event)] > 0)
    })
}

fn processed_once(state: &ProtocolState) -> bool {
    state.stored.rows().enumerate().all(|(index, row)| {
        let shows = |entry: &Entry| match entry {
            Entry::Inbox(rows) | Entry::Injection(rows) => rows & 1 << index != 0,
            _ => false,
        };
        let shown = state.stored.log().filter(shows).count();
        shown == usize::from(row.state == RowState::Processed)
            && !(row.taken && row.state != RowState::Waiting)
    })
}

fn one_owner(state: &ProtocolState) -> bool {
    state.nodes.iter().filter(|node| node.opened && node.lease == state.stored.epoch).count() <= 1
}

fn epochs_rise(before: &ProtocolState, after: &ProtocolState) -> bool {
    let (old, new) = (&before.stored, &after.stored);
    new.epoch >= old.epoch && (new.n == old.n || new.n == old.n + 1)
}

fn effects_recorded(state: &ProtocolState) -> bool {
    let decided = state.stored.log().any(|entry| entry == Entry::Calling);
    let marked = state.calls_made[UNSAFE] == 0 || !matches!(state.stored.calls[UNSAFE], Call::Planned);
    let open = state.stored.open.is_some_and(|open| open.decided && open.step == 0);
    let recorded = state.calls_made.iter().zip(state.stored.calls).all(|(calls_made, call)| {
        // A late call of an outdated node does not matter once the outcomes are in the log.
        *calls_made == 0 || (decided && (open || call.is_over()))
    });
    recorded && marked
}

/// Outcomes directly follow their calls or are still missing, and an open cycle can be continued.
fn log_valid(state: &ProtocolState) -> bool {
    let mut before = None;
    for entry in state.stored.log() {
        let follows = match entry {
            Entry::Outcomes => before == Some(Entry::Calling),
            Entry::Inbox(_) => {
                !matches!(before, Some(Entry::Calling | Entry::Outcomes | Entry::Injection(_)))
            }
            Entry::Injection(_) | Entry::Notice => before == Some(Entry::Outcomes),
            Entry::Calling => matches!(before, Some(Entry::Inbox(_))),
            Entry::Assistant => {
                matches!(before, Some(Entry::Inbox(_) | Entry::Outcomes | Entry::Injection(_)))
            }
        };
        if !follows {
            return false;
        }
        before = Some(entry);
    }
    let open = state.stored.open.filter(|open| open.decided);
    match before {
        Some(Entry::Calling) => open.is_some_and(|open| open.step == 0),
        Some(Entry::Outcomes) => open.is_some_and(|open| open.step == 1),
        None | Some(Entry::Assistant | Entry::Notice) => open.is_none(),
        Some(Entry::Inbox(_) | Entry::Injection(_)) => false,
    }
}

/// No failure is forgotten, and each takeover of open work counts one more death.
fn failures_counted(before: &ProtocolState, after: &ProtocolState) -> bool {
    let (old, new) = (&before.stored, &after.stored);
    let left = old.open.filter(|_| new.epoch > old.epoch);
    let died = u8::from(left.is_some_and(|open| !open.asked));
    let taken = left.filter(|open| !open.decided).map_or(0, |open| open.taken);
    let rows = old.rows().zip(new.rows()).enumerate().all(|(index, (old, new))| {
        let counted = died * (taken >> index & 1);
        new.attempts >= old.attempts && new.deaths == old.deaths + counted
    });
    let of =
        |open: Option<Open>| open.filter(|open| open.decided).map(|open| (open.id, open.step, open.deaths));
    let open = match (of(old.open), of(new.open)) {
        (Some((id, step, before)), Some((same, there, after))) if (id, step) == (same, there) => {
            after == before + died
        }
        _ => true,
    };
    rows && open
}
