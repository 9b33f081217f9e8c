//! An agent's ledger: every accepted event in exactly one state, what waits in the inbox and nothing
//! else, what was processed shown by the log.

use std::collections::HashMap;

use agent::delivery::space_of;
use agent::event::{Event, EventData, EventState, Principal, Trust};
use agent::id::SpaceId;
use agent::limits;
use rusqlite::params;

use super::log::Shown;
use super::row::Row;
use super::walk::{Walk, follows};
use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::tables::events::state_at;
use crate::sqlite::tables::inbox::{COLUMNS, JOINS, NEXT, event_at};
use crate::sqlite::tables::rows::{int, u64_at};
use crate::sqlite::tables::sums;

/// What the inbox should count.
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
        let gap = follows(&mut last, seq, "event");
        walk.hold(gap.is_none(), "event", seq, || gap.unwrap_or_default());
        event(walk, life, row, shown, (&mut counted, &mut order))
    });
    walk.hold(last == life.inbox_seq, "inbox_head", last, || {
        format!("the last event is {last}, but the inbox counts {}", life.inbox_seq)
    });
    let counts = [
        ("waiting", counted.waiting, life.waiting),
        ("taken", counted.taken, life.taken),
        ("held", counted.held, life.held),
    ];
    for (what, there, noted) in counts {
        walk.hold(there == noted, "inbox_head", what, || {
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
        walk.hold(!taken || life.has_taken(seq), "waiting", seq, || "it is taken by no open cycle".into());
    }
    let event = event_at(row)?;
    if let Some(urgent) = row.get::<_, Option<bool>>(NEXT + 4)? {
        walk.hold(urgent == event.urgent, "waiting", seq, || "its urgency is not the event's".into());
        let speaker = sums::speaker(&event.envelope.principal);
        walk.hold(row.get(NEXT + 7).is_ok_and(|whose: i64| whose == speaker), "waiting", seq, || {
            "its `speaker` is not who said the event".into()
        });
        let deep: bool = row.get(NEXT + 8)?;
        walk.hold(deep || life.waiting <= u64::from(limits::URGENT_LOOK_MAX), "waiting", seq, || {
            "it is not found by its sender behind as many others".into()
        });
    }
    said(walk, row, seq, &event.data)?;
    let state = state_at(row, NEXT)?;
    counted.held += u64::from(state == EventState::Held);
    if (state == EventState::Waiting) != taken.is_some() {
        let other =
            if taken.is_some() { "it is in the inbox all the same" } else { "the inbox does not have it" };
        return Err(damaged(format!("it is {}, but {other}", state.as_str())));
    }
    let EventState::Processed { cycle, step } = state else { return Ok(()) };
    let Some(place) = shown.get(&(cycle, step)) else {
        return Err(damaged(format!(
            "it was processed in step {step} of cycle {cycle}, of which the log has nothing"
        )));
    };
    // What died and was sent again comes behind what was said after it, as does what was held.
    let again = event.cites.is_some() || row.get::<_, Option<String>>(NEXT + 3)?.is_some();
    if !again && event.envelope.trust != Trust::Agent {
        order.follow(walk, seq, &event, *place);
    }
    Ok(())
}

/// Where in the log the last words of each speaker in each space stand.
#[derive(Default)]
struct Order(HashMap<(Principal, SpaceId), u64>);

impl Order {
    /// What one person says in one space is processed in the order in which it was said.
    fn follow(&mut self, walk: &mut Walk<'_>, seq: u64, event: &Event, place: u64) {
        let Some(space) = space_of(event) else { return };
        let speaker = (event.envelope.principal.clone(), space);
        if self.0.len() >= limits::SPEAKERS_JUDGED_MAX && !self.0.contains_key(&speaker) {
            self.0.clear();
        }
        let before = self.0.insert(speaker, place).unwrap_or(0);
        walk.hold(before <= place, "event", seq, || {
            format!(
                "it was processed at entry {place}, before an earlier word of its speaker at entry {before}"
            )
        });
    }
}

/// What it refers to must be there.
fn said(walk: &mut Walk<'_>, row: &rusqlite::Row<'_>, seq: u64, data: &EventData) -> Outcome<()> {
    let space: Option<i64> = row.get(NEXT + 6)?;
    // What was imported tells of spaces that may be elsewhere.
    if space.is_none() {
        return Ok(());
    }
    let EventData::Message { seq: message, .. } = data else { return Ok(()) };
    let sql = "SELECT count(*) FROM message WHERE space = ? AND seq = ?";
    let there = walk.number("message", sql, params![space, int(*message)]);
    walk.hold(there == Some(1), "event", seq, || {
        format!("it tells of message {message}, which is not there")
    });
    Ok(())
}

/// An agent that has something to do is found by its time, and no other is.
fn due(walk: &mut Walk<'_>, life: &Row) {
    let work = life.waiting > 0 || life.open.is_some();
    let (due, wanted) = (life.due, life.active && work);
    // An agent that may not run is still due if its cycle is to be canceled.
    walk.hold(due == wanted || (due && life.canceled), "inbox_head", "due_at", || {
        let work = if work { "there is something to do" } else { "there is nothing to do" };
        let active = if life.active { "" } else { " and the agent may not live" };
        format!("{work}{active}, but it is {}", if due { "due" } else { "never due" })
    });
}
