//! Runs (the records of cycles), records of steps, and the audit of commits.

use agent::changes::{Changes, CommitKind};
use agent::id::{AgentId, CycleId};
use agent::port::CommitRow;
use agent::run::{Ending, Run, StepRecord};
use rusqlite::{Connection, Row, params};

use super::rows::{
    agent_row, all, bytes, first, from_json, int, ms, run, time_at, to_json, u32_at, u64_at, usage_at,
    usage_columns, uuid_at,
};
use crate::sqlite::engine::fault::{Outcome, damaged};

/// Inserts the step records that the open cycle does not keep any more. When the cycle ends they are deleted: the
/// run has them all.
pub(crate) fn put_steps(db: &Connection, agent: i64, changes: &Changes) -> Outcome<()> {
    let Some(open) = &changes.open else {
        return run(db, "DELETE FROM step WHERE agent = ?", [agent]).map(drop);
    };
    let sql = "INSERT INTO step (agent, cycle, step, record) VALUES (?, ?, ?, ?)";
    let due = if changes.kind == CommitKind::Decide { open.records_due() } else { &[] };
    for record in due {
        run(db, sql, params![agent, bytes(open.id.0), record.step, to_json(record)?])?;
    }
    Ok(())
}

/// Inserts a run.
pub(crate) fn put_run(db: &Connection, agent: i64, record: &Run) -> Outcome<()> {
    let sql = "INSERT INTO run (agent, ordinal, cycle, events, opened_at, ended_at, usage_input, usage_cached, \
               usage_output, usage_reasoning, cost_micros, config_rev, ending, model, woke_for, steps, reason, \
               summary) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let [input, cached, output, reasoning] = usage_columns(&record.usage);
    let row = params![
        agent,
        int(record.ordinal),
        bytes(record.id.0),
        record.events,
        ms(record.opened_at),
        ms(record.ended_at),
        input,
        cached,
        output,
        reasoning,
        record.cost_micros.map(int),
        int(record.config_rev),
        record.ending.as_str(),
        record.model,
        record.woke_for,
        to_json(&record.steps)?,
        record.reason,
        record.summary,
    ];
    run(db, sql, row).map(drop)
}

/// Inserts the audit row of a commit.
pub(crate) fn audit(db: &Connection, agent: i64, n: u64, epoch: u64, changes: &Changes) -> Outcome<()> {
    let sql = "INSERT INTO commits (agent, n, epoch, cycle, step, kind, at, usage_input, usage_cached, \
               usage_output, usage_reasoning) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let [input, cached, output, reasoning] = usage_columns(&changes.usage);
    let row = params![
        agent,
        int(n),
        int(epoch),
        bytes(changes.cycle.0),
        changes.step,
        changes.kind.as_str(),
        ms(changes.at),
        input,
        cached,
        output,
        reasoning
    ];
    run(db, sql, row).map(drop)
}

/// The step records of an open cycle that it does not keep itself.
pub(crate) fn steps(db: &Connection, agent: i64, cycle: CycleId) -> Outcome<Vec<StepRecord>> {
    let sql = "SELECT record FROM step WHERE agent = ? AND cycle = ? ORDER BY step";
    all(db, sql, params![agent, bytes(cycle.0)], |row| from_json(&row.get::<_, String>(0)?, "a record"))
}

pub(crate) const RUN: &str = "SELECT r.cycle, e.uuid, r.ordinal, r.woke_for, r.events, r.opened_at, r.ended_at, r.steps, \
    r.usage_input, r.usage_cached, r.usage_output, r.usage_reasoning, r.cost_micros, r.model, r.config_rev, \
    r.ending, r.reason, r.summary FROM run r JOIN entity e ON e.id = r.agent";

pub(crate) fn run_at(row: &Row<'_>) -> Outcome<Run> {
    let (steps, ending): (String, String) = (row.get(7)?, row.get(15)?);
    Ok(Run {
        id: CycleId(uuid_at(row, 0)?),
        agent: AgentId(uuid_at(row, 1)?),
        ordinal: u64_at(row, 2)?,
        woke_for: row.get(3)?,
        events: u32_at(row, 4)?,
        opened_at: time_at(row, 5)?,
        ended_at: time_at(row, 6)?,
        steps: from_json(&steps, "a record's steps")?,
        usage: usage_at(row, 8)?,
        cost_micros: row.get::<_, Option<i64>>(12)?.and_then(|cost| u64::try_from(cost).ok()),
        model: row.get(13)?,
        config_rev: u64_at(row, 14)?,
        ending: ending_of(&ending)?,
        reason: row.get(16)?,
        summary: row.get(17)?,
    })
}

pub(crate) fn ending_of(text: &str) -> Outcome<Ending> {
    Ending::try_from(text).map_err(|_| damaged(format!("`{text}` is not an ending")))
}

/// The newest runs of an agent, given by its rowid, newest first.
pub(crate) fn newest_runs(db: &Connection, agent: i64, limit: u32) -> Outcome<Vec<Run>> {
    all(
        db,
        &format!("{RUN} WHERE r.agent = ? ORDER BY r.ordinal DESC LIMIT ?"),
        params![agent, limit],
        run_at,
    )
}

pub(crate) fn run_of(db: &Connection, cycle: CycleId) -> Outcome<Option<Run>> {
    first(db, &format!("{RUN} WHERE r.cycle = ?"), [bytes(cycle.0)], run_at)
}

pub(crate) fn commits(db: &Connection, agent: AgentId, after: u64, limit: u32) -> Outcome<Vec<CommitRow>> {
    let Some(row) = agent_row(db, agent.0)? else { return Ok(Vec::new()) };
    let sql =
        "SELECT n, epoch, cycle, step, kind, at FROM commits WHERE agent = ? AND n > ? ORDER BY n LIMIT ?";
    all(db, sql, params![row, int(after), limit], |row| {
        let kind: String = row.get(4)?;
        Ok(CommitRow {
            n: u64_at(row, 0)?,
            epoch: u64_at(row, 1)?,
            cycle: CycleId(uuid_at(row, 2)?),
            step: u32_at(row, 3)?,
            kind: CommitKind::try_from(&*kind)
                .map_err(|_| damaged(format!("`{kind}` is not a kind of commit")))?,
            at: time_at(row, 5)?,
        })
    })
}
