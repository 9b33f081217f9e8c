//! What every state of the protocol must keep, and every step from one to the next.

use super::model::ProtocolState;
use super::stored::{Call, Entry, Open, RowState, UNSAFE};

/// A promise, named as it is told when it is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Every event that arrived has one row in the ledger.
    OneRow,
    /// An event is in the log exactly if it is processed, and then once.
    LivedOnce,
    /// At most one node holds the epoch.
    OneLife,
    /// Epochs never fall, commits are counted without a gap.
    EpochsRise,
    /// A call that cannot be repeated is made at most once.
    UnsafeOnce,
    /// No call is made before its decision, none is left without an outcome.
    EffectsTold,
    /// The log is one that a model takes.
    PrefixValid,
    /// Whoever takes up what was left open counts it, unless a model was being waited for; no failure is
    /// forgotten.
    BudgetsFall,
    /// From everywhere it comes to rest, if nothing else goes wrong.
    RestReachable,
}

const OF_STEPS: [Promise; 8] = [
    Promise::OneRow,
    Promise::LivedOnce,
    Promise::OneLife,
    Promise::UnsafeOnce,
    Promise::EffectsTold,
    Promise::PrefixValid,
    Promise::EpochsRise,
    Promise::BudgetsFall,
];

/// The first promise that a step breaks.
pub(crate) fn broken(before: &ProtocolState, after: &ProtocolState) -> Option<Promise> {
    let keeps = |promise: &Promise| match promise {
        Promise::OneRow => one_row(after),
        Promise::LivedOnce => lived_once(after),
        Promise::OneLife => one_life(after),
        Promise::UnsafeOnce => after.made[UNSAFE] <= 1,
        Promise::EffectsTold => effects_reported(after),
        Promise::PrefixValid => prefix_valid(after),
        Promise::EpochsRise => epochs_rise(before, after),
        Promise::BudgetsFall => budgets_fall(before, after),
        Promise::RestReachable => true,
    };
    OF_STEPS.iter().find(|promise| !keeps(promise)).copied()
}

/// Whether all is done: nothing waits, no cycle is open.
pub(crate) fn at_rest(world: &ProtocolState) -> bool {
    world.stored.waiting() == 0 && world.stored.open.is_none()
}

fn one_row(world: &ProtocolState) -> bool {
    (0..2).all(|event| {
        let rows = world.stored.rows().filter(|row| row.event == event).count();
        rows == usize::from(world.sent[usize::from(event)] > 0)
    })
}

fn lived_once(world: &ProtocolState) -> bool {
    world.stored.rows().enumerate().all(|(place, row)| {
        let shows = |entry: &Entry| match entry {
            Entry::Inbox(rows) | Entry::Injection(rows) => rows & 1 << place != 0,
            _ => false,
        };
        let shown = world.stored.log().filter(shows).count();
        shown == usize::from(row.state == RowState::Processed)
            && !(row.taken && row.state != RowState::Waiting)
    })
}

fn one_life(world: &ProtocolState) -> bool {
    world.nodes.iter().filter(|node| node.opened && node.lease == world.stored.epoch).count() <= 1
}

fn epochs_rise(before: &ProtocolState, after: &ProtocolState) -> bool {
    let (old, new) = (&before.stored, &after.stored);
    new.epoch >= old.epoch && (new.n == old.n || new.n == old.n + 1)
}

fn effects_reported(world: &ProtocolState) -> bool {
    let decided = world.stored.log().any(|entry| entry == Entry::Calling);
    let marked = world.made[UNSAFE] == 0 || !matches!(world.stored.calls[UNSAFE], Call::Planned);
    let open = world.stored.open.is_some_and(|open| open.decided && open.step == 0);
    let told = world.made.iter().zip(world.stored.calls).all(|(made, call)| {
        // Once the model was answered, a zombie's late call changes nothing that it reads.
        *made == 0 || (decided && (open || call.is_over()))
    });
    told && marked
}

/// Calls are answered at once or not yet; nothing else stands between; what is open can be gone on with.
fn prefix_valid(world: &ProtocolState) -> bool {
    let mut before = None;
    for entry in world.stored.log() {
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
    let lives = world.stored.open.filter(|open| open.decided);
    match before {
        Some(Entry::Calling) => lives.is_some_and(|open| open.step == 0),
        Some(Entry::Outcomes) => lives.is_some_and(|open| open.step == 1),
        None | Some(Entry::Assistant | Entry::Notice) => lives.is_none(),
        Some(Entry::Inbox(_) | Entry::Injection(_)) => false,
    }
}

/// No failure is forgotten, and each opening of what was left open counts one more.
fn budgets_fall(before: &ProtocolState, after: &ProtocolState) -> bool {
    let (old, new) = (&before.stored, &after.stored);
    let left = old.open.filter(|_| new.epoch > old.epoch);
    let died = u8::from(left.is_some_and(|open| !open.asked));
    let taken = left.filter(|open| !open.decided).map_or(0, |open| open.taken);
    let rows = old.rows().zip(new.rows()).enumerate().all(|(place, (old, new))| {
        let counted = died * (taken >> place & 1);
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
