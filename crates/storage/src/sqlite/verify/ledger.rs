//! Checks an agent's ledger: every accepted event is in exactly one state, the inbox has exactly the waiting
//! events, and the log has the processed ones.

use std::collections::HashMap;

use agent::delivery::space_of;
use agent::event::{Event, EventData, EventState, Principal};
use agent::id::SpaceId;
use agent::limits;
use rusqlite::params;

use super::log::Shown;
use super::row::Row;
use super::walk::{Walk, gap_before};
use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::tables::events::state_at;
use crate::sqlite::tables::inbox::{COLUMNS, JOINS, NEXT, event_at};
use crate::sqlite::tables::rows::{int, u64_at};
use crate::sqlite::tables::sums;

/// The counts that the inbox head should have.
#[derive(Default)]
struct ExpectedCounts {
    waiting: u64,
    taken: u64,
    held: u64,
}

pub(super) fn check(walk: &mut Walk<'_>, life: &Row, shown: &Shown) {
    let (mut last, mut counted, mut order) = (0, ExpectedCounts::default(), Order::default());
    let sql = format!(
        "SELECT {COLUMNS}, e.state, e.cycle, e.step, e.reason, w.urgent, w.taken, e.space, w.speaker, w.deep \
         FROM event e LEFT JOIN waiting w ON w.agent = e.agent AND w.seq = e.seq {JOINS} WHERE e.agent = ? ORDER BY e.seq"
    );
    walk.each("event", &sql, [life.agent], |walk, row| {
        let seq = u64_at(row, 0)?;
        let gap = gap_before(&mut last, seq, "event");
        walk.require(gap.is_none(), "event", seq, || gap.unwrap_or_default());
        event(walk, life, row, shown, (&mut counted, &mut order))
    });
    walk.require(last == life.inbox_seq, "inbox_head", last, || {
        format!("the last event is {last}, but the inbox counts {}", life.inbox_seq)
    });
    let counts = [
        ("waiting", counted.waiting, life.waiting),
        ("taken", counted.taken, life.taken),
        ("held", counted.held, life.held),
    ];
    for (what, there, noted) in counts {
        walk.require(there == noted, "inbox_head", what, || {
            format!("{there} events are {what}, it counts {noted}")
        });
    }
    let sql = "SELECT w.seq FROM waiting w WHERE w.agent = ? AND NOT EXISTS \
               (SELECT 1 FROM event e WHERE e.agent = w.agent AND e.seq = w.seq)";
    walk.each("waiting", sql, [life.agent], |_, _| Err(damaged("no such event was accepted")));
    due(walk, life);
}

fn event(
    walk: &mut Walk<'_>,
    life: &Row,
    row: &rusqlite::Row<'_>,
    shown: &Shown,
    (counted, order): (&mut ExpectedCounts, &mut Order),
) -> Outcome<()> {
    let seq = u64_at(row, 0)?;
    let taken: Option<bool> = row.get(NEXT + 5)?;
    if let Some(taken) = taken {
        counted.waiting += 1;
        counted.taken += u64::from(taken);
        walk.require(!taken || life.has_taken(seq), "waiting", seq, || {
            "it is taken, but no open cycle has taken it".into()
        });
    }
    let event = event_at(row)?;
    if let Some(urgent) = row.get::<_, Option<bool>>(NEXT + 4)? {
        walk.require(urgent == event.urgent, "waiting", seq, || {
            "its `urgent` differs from the event's".into()
        });
        let sender = sums::sender_hash(&event.envelope.principal);
        walk.require(row.get(NEXT + 7).is_ok_and(|whose: i64| whose == sender), "waiting", seq, || {
            "its `speaker` is not the hash of the event's sender".into()
        });
        let deep: bool = row.get(NEXT + 8)?;
        walk.require(deep || life.waiting <= u64::from(limits::URGENT_LOOK_MAX), "waiting", seq, || {
            "its `deep` is not set, although so many events wait".into()
        });
    }
    check_message(walk, row, seq, &event.data)?;
    let state = state_at(row, NEXT)?;
    counted.held += u64::from(state == EventState::Held);
    if (state == EventState::Waiting) != taken.is_some() {
        let other = if taken.is_some() { "it is still in the inbox" } else { "the inbox does not have it" };
        return Err(damaged(format!("it is {}, but {other}", state.as_str())));
    }
    let EventState::Processed { cycle, step } = state else { return Ok(()) };
    let Some(position) = shown.get(&(cycle, step)) else {
        return Err(damaged(format!(
            "it was processed in step {step} of cycle {cycle}, but the log has no entry of that step"
        )));
    };
    // An event that was dead and sent again may come after later ones, and so may a held one.
    let again = event.cites.is_some() || row.get::<_, Option<String>>(NEXT + 3)?.is_some();
    if !again && !event.envelope.is_by_agent() {
        order.follow(walk, seq, &event, *position);
    }
    Ok(())
}

/// The log entry in which each sender's last event of each space was processed.
#[derive(Default)]
struct Order(HashMap<(Principal, SpaceId), u64>);

impl Order {
    /// Checks that the messages of one sender in one space are processed in their order.
    fn follow(&mut self, walk: &mut Walk<'_>, seq: u64, event: &Event, position: u64) {
        let Some(space) = space_of(event) else { return };
        let sender = (event.envelope.principal.clone(), space);
        if self.0.len() >= limits::SENDERS_VERIFIED_MAX && !self.0.contains_key(&sender) {
            self.0.clear();
        }
        let before = self.0.insert(sender, position).unwrap_or(0);
        walk.require(before <= position, "event", seq, || {
            format!(
                "it was processed at entry {position}, before an earlier event of its sender at entry {before}"
            )
        });
    }
}

/// Checks that the message of an event exists.
fn check_message(walk: &mut Walk<'_>, row: &rusqlite::Row<'_>, seq: u64, data: &EventData) -> Outcome<()> {
    let space: Option<i64> = row.get(NEXT + 6)?;
    // An imported event may refer to a space of another server.
    if space.is_none() {
        return Ok(());
    }
    let EventData::Message { seq: message, .. } = data else { return Ok(()) };
    let sql = "SELECT count(*) FROM message WHERE space = ? AND seq = ?";
    let there = walk.number("message", sql, params![space, int(*message)]);
    walk.require(there == Some(1), "event", seq, || {
        format!("it refers to message {message}, which does not exist")
    });
    Ok(())
}

/// Checks that the agent has a due time exactly if it has something to do.
fn due(walk: &mut Walk<'_>, life: &Row) {
    let work = life.waiting > 0 || life.open.is_some();
    let (due, wanted) = (life.due, life.active && work);
    // An agent that may not run is still due if its cycle is to be canceled.
    walk.require(due == wanted || (due && life.canceled), "inbox_head", "due_at", || {
        let work = if work { "the agent has something to do" } else { "the agent has nothing to do" };
        let active = if life.active { "" } else { " and may not run" };
        format!("{work}{active}, but it is {}", if due { "due" } else { "never due" })
    });
}
