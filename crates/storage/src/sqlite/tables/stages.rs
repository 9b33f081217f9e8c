//! How far the events of a cycle come with a commit: noted in their rows, and told on. What it means to deal
//! with an event is decided by `agent::changes`.

use agent::changes::{Changes, CommitKind, Staged};
use agent::event::{Fate, Stage};
use agent::id::{EventId, SpaceId};
use rusqlite::{Connection, Row, params};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::tables::rows::{all, bytes, first, int, key_at, run, u32_at, u64_at, uuid_or_none};

/// Events that the cycle lived before this commit and has not dealt with so far: no more than its own, by the
/// numbers under which it listed them. Joined in this order, since the ledger is long and the cycle short.
const LIVED: &str = "SELECT e.seq, e.id, s.uuid, e.step FROM life l CROSS JOIN json_each(l.open, '$.listed') j \
    CROSS JOIN event e ON e.agent = l.agent AND e.seq = j.value LEFT JOIN space s ON s.id = e.space \
    WHERE l.agent = ? AND e.cycle = ? AND e.addressed = 0";

/// An event that the cycle lived.
struct Lived {
    seq: u64,
    id: EventId,
    space: Option<SpaceId>,
    step: u32,
}

/// What one commit means for the events of its cycle.
pub(in crate::sqlite) struct Stages<'a> {
    db: &'a Connection,
    agent: i64,
    changes: &'a Changes,
    lived: Vec<Lived>,
    told: Vec<Staged>,
}

impl<'a> Stages<'a> {
    /// As it is before the commit has settled anything.
    pub(in crate::sqlite) fn before(db: &'a Connection, agent: i64, changes: &'a Changes) -> Outcome<Self> {
        let speaks = !changes.inward.says.is_empty() || !changes.addressed.is_empty();
        // Before the first decision nothing is lived.
        let first = changes.kind == CommitKind::Decide && changes.step == 0;
        let mut lived = Vec::new();
        if (speaks || changes.run.is_some()) && !first {
            lived = all(db, LIVED, params![agent, bytes(changes.cycle.0)], lived_at)?;
        }
        Ok(Self { db, agent, changes, lived, told: Vec::new() })
    }

    fn tell(&mut self, event: EventId, stage: Stage, step: Option<u32>) {
        self.told.push(Staged::new(event, stage, self.changes.cycle, step));
    }

    /// The cycle has taken an event, or gives it back.
    pub(in crate::sqlite) fn waits(&mut self, seq: i64, taken: bool) -> Outcome<()> {
        let sql = "SELECT id FROM event WHERE agent = ? AND seq = ?";
        let id = first(self.db, sql, params![self.agent, seq], |row| key_at(row, 0))?;
        if let Some(id) = id {
            self.tell(EventId(id), Stage::of(&Fate::Waiting, taken, taken, false), None);
        }
        Ok(())
    }

    /// An event has got its fate; the row is that of [`SETTLED`].
    pub(in crate::sqlite) fn settled(&mut self, row: &Row<'_>, fate: &Fate) -> Outcome<()> {
        let id = EventId(key_at(row, 1)?);
        let step = match fate {
            Fate::Lived { step, .. } => Some(*step),
            _ => None,
        };
        self.tell(id, Stage::of(fate, false, true, false), step);
        if step.is_some() {
            self.lived.push(lived_at(row)?);
        }
        Ok(())
    }

    /// Notes which events this commit deals with, and what became of the others where it ends the cycle.
    pub(in crate::sqlite) fn after(mut self) -> Outcome<Vec<Staged>> {
        for Lived { seq, id, space, step } in std::mem::take(&mut self.lived) {
            let addressed = self.changes.addresses(seq, &id, space);
            if addressed {
                let sql = "UPDATE event SET addressed = 1 WHERE agent = ? AND seq = ?";
                run(self.db, sql, params![self.agent, int(seq)])?;
            }
            if addressed || self.changes.run.is_some() {
                let fate = Fate::Lived { cycle: self.changes.cycle, step };
                self.tell(id, Stage::of(&fate, false, false, addressed), Some(step));
            }
        }
        Ok(self.told)
    }
}

/// What settling an event returns.
pub(in crate::sqlite) const SETTLED: &str =
    "seq, id, (SELECT s.uuid FROM space s WHERE s.id = event.space), step";

fn lived_at(row: &Row<'_>) -> Outcome<Lived> {
    Ok(Lived {
        seq: u64_at(row, 0)?,
        id: EventId(key_at(row, 1)?),
        space: uuid_or_none(row, 2)?.map(SpaceId),
        step: u32_at(row, 3)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_commit_deals_with_is_sought_among_the_events_of_its_cycle_alone() {
        let db = crate::sqlite::engine::schema::open_memory().unwrap();
        let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {LIVED}")).unwrap();
        let steps = plan.query_map([1, 1], |row| row.get(3)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        let event = steps.iter().find(|step| step.contains("SEARCH e ")).unwrap();
        assert!(event.contains("(agent=? AND seq=?)"), "{steps:?}");
        assert!(!steps.iter().any(|step| step.contains("SCAN") && !step.contains("VIRTUAL")), "{steps:?}");
    }
}
