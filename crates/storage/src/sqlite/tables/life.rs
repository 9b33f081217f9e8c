//! The rows `life` and `inbox_head` of an agent, as a commit reads and writes them.

use agent::changes::{Changes, CommitKind};
use agent::fencing::{self, InboxHead, LifeRow};
use agent::id::{AgentId, CycleId};
use agent::life::{IdleReason, OpenCycle};
use rusqlite::{Connection, Row, params};

use super::rows::{
    bytes, code_of, first, from_json, int, ms, reason_or_none, run, space_row, standing_at, time_or_none,
    to_json, u32_at, u64_at, usage_at, usage_columns, uuid_or_none,
};
use super::session::Session;
use crate::sqlite::engine::fault::Outcome;

/// What a commit reads and writes of an agent's rows `life` and `inbox_head`.
pub(crate) struct Life {
    pub(crate) agent: i64,
    pub(crate) head_seq: u64,
    pub(crate) row: LifeRow,
    pub(crate) inbox: InboxHead,
    /// The seq of the newest event in the inbox.
    pub(crate) newest: u64,
    /// The step of the open cycle.
    pub(crate) step: Option<u32>,
}

const LIFE: &str = "SELECT l.agent, l.epoch, l.commit_n, l.head_seq, l.cycles, l.skips, l.failures, \
    l.usage_input, l.usage_cached, l.usage_output, l.usage_reasoning, l.open_cycle, l.step, l.notice, \
    a.standing, h.head_seq, h.waiting, h.taken, h.due_at, h.hold_until, h.idle_reason, h.cancel \
    FROM entity e JOIN life l ON l.agent = e.id JOIN agent a ON a.id = e.id JOIN inbox_head h ON h.agent = e.id \
    WHERE e.uuid = ?";

impl Life {
    pub(crate) fn read(db: &Connection, agent: AgentId) -> Outcome<Option<Self>> {
        first(db, LIFE, [bytes(agent.0)], Self::at)
    }

    fn at(row: &Row<'_>) -> Outcome<Self> {
        Ok(Self {
            agent: row.get(0)?,
            head_seq: u64_at(row, 3)?,
            row: LifeRow {
                epoch: u64_at(row, 1)?,
                commit_n: u64_at(row, 2)?,
                cycles: u64_at(row, 4)?,
                skips: u64_at(row, 5)?,
                failures: u32_at(row, 6)?,
                usage: usage_at(row, 7)?,
                open: uuid_or_none(row, 11)?.map(CycleId),
                notice: row.get(13)?,
                standing: standing_at(row, 14)?,
                cancel: uuid_or_none(row, 21)?.map(CycleId),
            },
            step: row.get(12)?,
            newest: u64_at(row, 15)?,
            inbox: InboxHead {
                waiting: u32_at(row, 16)?,
                taken: u32_at(row, 17)?,
                due_at: time_or_none(row, 18)?,
                hold_until: time_or_none(row, 19)?,
                reason: reason_or_none(row, 20)?,
            },
        })
    }
}

pub(crate) fn write(db: &Connection, session: &Session, life: &Life, changes: &Changes) -> Outcome<()> {
    let (row, open) = (&life.row, changes.open.as_ref());
    let [input, cached, output, reasoning] = usage_columns(&row.usage);
    let known = |cost: Option<u64>| cost.map(int);
    let cost = known(changes.run.as_ref().map_or(changes.cost_micros, |record| record.cost_micros));
    let unpriced = changes.run.is_some() && cost.is_none();
    let active = changes.inward.active_space.map(|space| space_row(db, space)).transpose()?.flatten();
    // The start of the store that runs the cycle; 0 if the cycle is parked.
    let boot = match changes.kind {
        CommitKind::Open => Some(session.boot),
        CommitKind::Park => Some(0),
        _ => None,
    };
    let sql = "UPDATE life SET epoch = ?, commit_n = ?, head_seq = ?, cycles = ?, skips = ?, \
               active_space = coalesce(?, active_space), failures = ?, usage_input = ?, \
               usage_cached = ?, usage_output = ?, usage_reasoning = ?, \
               cost_micros = coalesce(cost_micros + ?, ?, cost_micros), unpriced = unpriced + ?, open_cycle = ?, \
               step = ?, boot = coalesce(?, boot), requesters = ?, notice = ?, open = ?, \
               panicked = CASE WHEN panicked IS ? THEN NULL ELSE panicked END, facts_seen = CASE WHEN ? THEN (SELECT facts_rev FROM agent WHERE id = life.agent) ELSE facts_seen END \
               WHERE agent = ?";
    let values = params![
        int(row.epoch),
        int(row.commit_n),
        int(life.head_seq),
        int(row.cycles),
        int(row.skips),
        active,
        row.failures,
        input,
        cached,
        output,
        reasoning,
        cost,
        cost,
        unpriced,
        open.map(|open| bytes(open.id.0)),
        open.map(|open| open.step),
        boot,
        open.map(|open| to_json(&open.requesters)).transpose()?,
        row.notice,
        open.map(to_json).transpose()?,
        changes.panicked.map(int),
        fencing::closes(changes),
        life.agent,
    ];
    run(db, sql, values)?;
    let inbox = &life.inbox;
    let sql = "UPDATE inbox_head SET waiting = ?, taken = ?, due_at = ?, hold_until = ?, idle_reason = ?, \
               cancel = ? WHERE agent = ?";
    let reason = inbox.reason.map(|reason| code_of(&IdleReason::ALL, &reason));
    let (due_at, hold_until) = (inbox.due_at.map(ms), inbox.hold_until.map(ms));
    let cancel = row.cancel.map(|cycle| bytes(cycle.0));
    run(db, sql, params![inbox.waiting, inbox.taken, due_at, hold_until, reason, cancel, life.agent])
        .map(drop)
}

/// Notes that an activation of the agent has ended by a mistake of the program: its cycle runs no longer. The first of
/// several panics stays, so that none is counted for events that came later.
pub(crate) fn panicked(db: &Connection, agent: i64) -> Outcome<()> {
    let newest = "SELECT head_seq FROM inbox_head WHERE agent = life.agent";
    let sql = format!("UPDATE life SET boot = 0, panicked = coalesce(panicked, ({newest})) WHERE agent = ?");
    run(db, &sql, [agent]).map(drop)
}

/// Reads an open cycle from its column.
pub(crate) fn open_at(row: &Row<'_>, at: usize) -> Outcome<Option<OpenCycle>> {
    row.get::<_, Option<String>>(at)?.map(|open| from_json(&open, "its open cycle")).transpose()
}
