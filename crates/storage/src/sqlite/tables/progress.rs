//! The progress of a cycle's events with a commit: written to their rows, and collected for updates. When an event
//! counts as addressed is decided by `agent::changes`.

use agent::changes::{Changes, CommitKind, EventMoved};
use agent::event::{EventProgress, EventState};
use agent::id::{EventId, SpaceId};
use rusqlite::{Connection, Row, params};

use super::events::State;
use super::rows::{all, bytes, first, int, key_at, run, u32_at, u64_at, uuid_or_none};
use crate::sqlite::engine::fault::{Fault, Outcome};

/// Events that the cycle processed before this commit and has not addressed so far, found by the seqs that it has
/// listed. Joined in this order, because the ledger is long and the cycle's list short.
const PROCESSED: &str = "SELECT e.seq, e.id, s.uuid, e.step FROM life l CROSS JOIN json_each(l.open, '$.listed') j \
    CROSS JOIN event e ON e.agent = l.agent AND e.seq = j.value LEFT JOIN space s ON s.id = e.space \
    WHERE l.agent = ? AND e.cycle = ? AND e.addressed = 0";

/// An event that the cycle processed.
struct ProcessedEvent {
    seq: u64,
    id: EventId,
    space: Option<SpaceId>,
    step: u32,
}

/// Collects the progress that one commit makes with the events of its cycle.
pub(crate) struct ProgressLog<'a> {
    db: &'a Connection,
    agent: i64,
    changes: &'a Changes,
    processed: Vec<ProcessedEvent>,
    moved: Vec<EventMoved>,
}

impl<'a> ProgressLog<'a> {
    /// Reads the cycle's events before the commit settles anything.
    pub(crate) fn begin(db: &'a Connection, agent: i64, changes: &'a Changes) -> Outcome<Self> {
        let may_address = !changes.inward.messages.is_empty() || !changes.addressed.is_empty();
        // No event is processed before the first decision.
        let first = changes.kind == CommitKind::Decide && changes.step == 0;
        let mut processed = Vec::new();
        if (may_address || changes.run.is_some()) && !first {
            processed = all(db, PROCESSED, params![agent, bytes(changes.cycle.0)], processed_event_at)?;
        }
        Ok(Self { db, agent, changes, processed, moved: Vec::new() })
    }

    fn add(&mut self, event: EventId, progress: EventProgress, step: Option<u32>) {
        self.moved.push(EventMoved::new(event, progress, self.changes.cycle, step));
    }

    /// Notes that the cycle has taken an event, or has given it back.
    pub(crate) fn set_taken(&mut self, seq: i64, taken: bool) -> Outcome<()> {
        let sql = "SELECT id FROM event WHERE agent = ? AND seq = ?";
        let id = first(self.db, sql, params![self.agent, seq], |row| key_at(row, 0))?;
        if let Some(id) = id {
            self.add(EventId(id), EventProgress::of(&EventState::Waiting, taken, taken, false), None);
        }
        Ok(())
    }

    /// Notes that an event has reached its final state. `row` has the columns of [`SETTLED`].
    pub(crate) fn settled(&mut self, row: &Row<'_>, state: &EventState) -> Outcome<()> {
        let id = EventId(key_at(row, 1)?);
        let step = match state {
            EventState::Processed { step, .. } => Some(*step),
            _ => None,
        };
        self.add(id, EventProgress::of(state, false, true, false), step);
        if let (EventState::Dead { reason }, Some(moved)) = (state, self.moved.last_mut()) {
            moved.reason = Some(reason.clone());
        }
        if step.is_some() {
            self.processed.push(processed_event_at(row)?);
        }
        Ok(())
    }

    /// Marks the events that this commit addresses. If it ends the cycle, all others are reported as processed.
    pub(crate) fn finish(mut self) -> Outcome<Vec<EventMoved>> {
        for ProcessedEvent { seq, id, space, step } in std::mem::take(&mut self.processed) {
            let addressed = self.changes.addresses(seq, &id, space);
            if addressed {
                let sql = "UPDATE event SET addressed = 1 WHERE agent = ? AND seq = ?";
                run(self.db, sql, params![self.agent, int(seq)])?;
            }
            if addressed || self.changes.run.is_some() {
                let state = EventState::Processed { cycle: self.changes.cycle, step };
                self.add(id, EventProgress::of(&state, false, false, addressed), Some(step));
            }
        }
        Ok(self.moved)
    }
}

/// The columns that settling an event returns.
const SETTLED: &str = "seq, id, (SELECT s.uuid FROM space s WHERE s.id = event.space), step";

fn processed_event_at(row: &Row<'_>) -> Outcome<ProcessedEvent> {
    Ok(ProcessedEvent {
        seq: u64_at(row, 0)?,
        id: EventId(key_at(row, 1)?),
        space: uuid_or_none(row, 2)?.map(SpaceId),
        step: u32_at(row, 3)?,
    })
}

/// Settles events or gives them back to the inbox. Returns how many left the inbox, and how many are
/// no longer taken by the open cycle.
pub(crate) fn settle(
    db: &Connection,
    agent: i64,
    changes: &Changes,
    progress: &mut ProgressLog<'_>,
) -> Outcome<(u32, u32)> {
    let (mut gone, mut untaken, mut missing) = (0, 0, Vec::new());
    let failed = u32::from(changes.blame);
    for settlement in &changes.settle {
        let seq = int(settlement.seq);
        if settlement.state == EventState::Waiting {
            // The agent's back-off is stored with the agent: stored here, later events would overtake these.
            let sql = "UPDATE waiting SET taken = 0, attempts = attempts + ? \
                       WHERE agent = ? AND seq = ? AND taken = 1";
            untaken += run(db, sql, params![failed, agent, seq])?;
            progress.set_taken(seq, false)?;
            continue;
        }
        let sql = "DELETE FROM waiting WHERE agent = ? AND seq = ? RETURNING taken, attempts";
        let taken =
            first(db, sql, params![agent, seq], |row| Ok((row.get::<_, bool>(0)?, row.get::<_, u32>(1)?)))?;
        let attempts = taken.map(|(_, attempts)| attempts);
        let taken = taken.map(|(taken, _)| taken);
        if taken.is_none() && !failpoint::on!("drain-first") {
            // Events are processed at most once: one that does not wait already has its final state.
            missing.push(settlement.seq);
            continue;
        }
        gone += u32::from(taken.is_some());
        untaken += usize::from(taken == Some(true));
        let mut state = State::of(&settlement.state);
        if matches!(settlement.state, EventState::Dead { .. }) {
            state.step = attempts.map(|attempts| attempts + failed);
        }
        let sql = format!(
            "UPDATE event SET state = ?1, cycle = ?2, step = ?3, reason = CASE WHEN ?1 = 2 THEN reason ELSE ?4 END \
             WHERE agent = ?5 AND seq = ?6 RETURNING {SETTLED}"
        );
        let row = params![state.code, state.cycle, state.step, state.reason, agent, seq];
        first(db, &sql, row, |row| progress.settled(row, &settlement.state))?;
    }
    if !missing.is_empty() {
        return Err(Fault::Gone(missing));
    }
    Ok((gone, u32::try_from(untaken).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_looks_for_addressed_events_only_among_those_of_its_cycle() {
        let db = crate::sqlite::engine::schema::open_memory().unwrap();
        let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {PROCESSED}")).unwrap();
        let steps = plan.query_map([1, 1], |row| row.get(3)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        let event = steps.iter().find(|step| step.contains("SEARCH e ")).unwrap();
        assert!(event.contains("(agent=? AND seq=?)"), "{steps:?}");
        assert!(!steps.iter().any(|step| step.contains("SCAN") && !step.contains("VIRTUAL")), "{steps:?}");
    }
}
