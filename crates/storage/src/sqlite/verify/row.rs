//! The rows `agent`, `life` and `inbox_head` of an agent, with which its other rows are compared.

use agent::config::Urgency;
use agent::id::CycleId;
use agent::life::{OpenCycle, Requester, Standing};

use super::walk::Walk;
use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::tables::life::open_at;
use crate::sqlite::tables::rows::{
    first, from_json, reason_or_none, standing_at, time_at, time_or_none, u32_at, u64_at, uuid_or_none,
    wake_on_at,
};

/// The rows `agent`, `life` and `inbox_head` of an agent, with which its other rows are compared.
pub(super) struct Row {
    pub(super) agent: i64,
    pub(super) active: bool,
    pub(super) epoch: u64,
    pub(super) commit_n: u64,
    pub(super) head_seq: u64,
    pub(super) cycles: u64,
    pub(super) open: Option<OpenCycle>,
    pub(super) inbox_seq: u64,
    pub(super) waiting: u64,
    pub(super) taken: u64,
    pub(super) held: u64,
    pub(super) due: bool,
    pub(super) canceled: bool,
    pub(super) config_rev: u64,
}

impl Row {
    /// Whether that cycle is open.
    pub(super) fn is_open(&self, cycle: CycleId) -> bool {
        self.open.as_ref().is_some_and(|open| open.id == cycle)
    }

    /// Whether the open cycle has taken the event.
    pub(super) fn has_taken(&self, seq: u64) -> bool {
        self.open.as_ref().is_some_and(|open| open.taken.contains(&seq))
    }
}

/// Checks the columns that copy values of the config and the open cycle for faster queries.
fn copies(walk: &mut Walk<'_>, agent: i64) {
    let sql = "SELECT a.id, a.urgency, l.requesters, h.due_at, h.hold_until, a.wake_on, a.hop_limit, a.inbox_max, \
               a.debounce, h.idle_reason, l.skips, l.unpriced, e.created_at FROM agent a JOIN entity e ON e.id = a.id \
               JOIN life l ON l.agent = a.id JOIN inbox_head h ON h.agent = a.id WHERE a.id = ?";
    walk.each("agent", sql, [agent], |_, row| {
        if let Some(text) = row.get::<_, Option<String>>(1)? {
            from_json::<Urgency>(&text, "an urgency")?;
        }
        if let Some(text) = row.get::<_, Option<String>>(2)? {
            from_json::<Vec<Requester>>(&text, "requesters")?;
        }
        time_or_none(row, 3)?;
        time_or_none(row, 4)?;
        wake_on_at(row, 5)?;
        u32_at(row, 6)?;
        u32_at(row, 7)?;
        u32_at(row, 8)?;
        reason_or_none(row, 9)?;
        u64_at(row, 10)?;
        u64_at(row, 11)?;
        time_at(row, 12).map(drop)
    });
}

pub(super) fn read(walk: &mut Walk<'_>, agent: i64) -> Outcome<Option<Row>> {
    copies(walk, agent);
    let sql = "SELECT a.standing, a.config_rev, l.epoch, l.commit_n, l.head_seq, l.cycles, l.open_cycle, l.open, \
               l.active_space, s.id, h.head_seq, h.waiting, h.taken, h.held, h.due_at, h.cancel FROM agent a \
               JOIN life l ON l.agent = a.id JOIN inbox_head h ON h.agent = a.id \
               LEFT JOIN space s ON s.id = l.active_space WHERE a.id = ?";
    first(walk.db, sql, [agent], |row| {
        let open = open_at(row, 7)?;
        walk.require(uuid_or_none(row, 6)? == open.as_ref().map(|open| open.id.0), "life", "open", || {
            "`open` and `open_cycle` name different cycles".into()
        });
        let space: Option<i64> = row.get(8)?;
        walk.require(space == row.get(9)?, "life", "active_space", || "its space does not exist".into());
        Ok(Row {
            agent,
            active: standing_at(row, 0)? == Standing::Active,
            config_rev: u64_at(row, 1)?,
            epoch: u64_at(row, 2)?,
            commit_n: u64_at(row, 3)?,
            head_seq: u64_at(row, 4)?,
            cycles: u64_at(row, 5)?,
            open,
            inbox_seq: u64_at(row, 10)?,
            waiting: u64_at(row, 11)?,
            taken: u64_at(row, 12)?,
            held: u64_at(row, 13)?,
            due: row.get::<_, Option<i64>>(14)?.is_some(),
            canceled: uuid_or_none(row, 15)?.is_some(),
        })
    })
}
