//! Totals over the whole store, for health checks: they must not scan all agents each time.

use std::sync::Mutex;

use agent::port::Totals;
use rusqlite::Connection;

use super::rows::{first, u64_at};
use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::engine::mutex::lock;

/// The number of agents and spaces up to a row. No row is ever deleted, and new rows have higher numbers.
/// So none is counted twice, and a count reads only rows that are newer than the last one.
#[derive(Default)]
pub(crate) struct Counted(Mutex<Counts>);

#[derive(Clone, Copy, Default)]
struct Counts {
    agents: Count,
    spaces: Count,
}

#[derive(Clone, Copy, Default)]
struct Count {
    up_to: i64,
    rows: u64,
}

impl Count {
    fn add_new(&mut self, db: &Connection, sql: &str) -> Outcome<()> {
        let new = first(db, sql, [self.up_to], |row| Ok((u64_at(row, 0)?, row.get::<_, Option<i64>>(1)?)))?;
        if let Some((rows, Some(last))) = new {
            *self = Self { up_to: last, rows: self.rows + rows };
        }
        Ok(())
    }
}

impl Counted {
    /// The number of agents and spaces. Concurrent counts each begin at the stored row.
    fn count(&self, db: &Connection) -> Outcome<(u64, u64)> {
        let mut counts = *lock(&self.0);
        counts.agents.add_new(db, "SELECT count(*), max(id) FROM agent WHERE id > ?")?;
        counts.spaces.add_new(db, "SELECT count(*), max(id) FROM space WHERE id > ?")?;
        let mut kept = lock(&self.0);
        // A count of an older snapshot must not replace a newer one.
        if counts.agents.up_to >= kept.agents.up_to && counts.spaces.up_to >= kept.spaces.up_to {
            *kept = counts;
        }
        Ok((counts.agents.rows, counts.spaces.rows))
    }
}

/// All but what the index knows.
pub(crate) fn totals(db: &Connection, counted: &Counted) -> Outcome<Totals> {
    let (agents, spaces) = counted.count(db)?;
    let sql = "SELECT (SELECT coalesce(sum(head_seq), 0) FROM space), (SELECT count(*) FROM waiting), \
               (SELECT count(*) FROM event WHERE state = 5), \
               (SELECT count(*) FROM life WHERE open_cycle IS NOT NULL)";
    let found = first(db, sql, [], |row| {
        Ok(Totals {
            agents,
            spaces,
            messages: u64_at(row, 0)?,
            waiting: u64_at(row, 1)?,
            dead: u64_at(row, 2)?,
            open_cycles: u64_at(row, 3)?,
            unindexed_since: None,
            damage: None,
        })
    })?;
    Ok(found.unwrap_or_default())
}
