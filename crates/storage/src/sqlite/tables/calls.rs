//! Rows of tool calls: inserted with the decision that made them, updated by their outcomes. `agent` decides what
//! an outcome means.

use agent::approval::{Approval, ByRule};
use agent::call::{CallRow, CallState, Effect, Outcome as Answer, Runner};
use agent::changes::{CallChange, Changes};
use agent::event::Trust;
use agent::id::{AgentId, CallId, ClaimId, CycleId, RootId};
use agent::life::{OpenCycle, Standing};
use agent::limits;
use agent::port::{DetachedCall, WorkerCall};
use rusqlite::{Connection, Params, Row, params};

use super::rows::{
    agent_row, all, bytes, code_of, first, from_json, key, key_or_none, ms, run, standing_at, to_json,
    trust_at, u32_at, uuid_at, uuid_or_none,
};
use crate::sqlite::engine::fault::{Outcome, damaged, damaged_agent};

/// Columns of [`call_at`].
pub(crate) const CALL: &str = "id, cycle, step, idx, tool, arguments, effect, tool_version, awaited, state, outcome, runner, claim, \
    approval, by_rule, trust";

pub(crate) fn call_at(row: &Row<'_>, at: usize) -> Outcome<CallRow> {
    let (effect, state): (String, String) = (row.get(at + 6)?, row.get(at + 9)?);
    let runner: String = row.get(at + 11)?;
    Ok(CallRow {
        id: CallId(row.get(at)?),
        cycle: CycleId(uuid_at(row, at + 1)?),
        step: u32_at(row, at + 2)?,
        index: u32_at(row, at + 3)?,
        tool: row.get(at + 4)?,
        arguments: row.get(at + 5)?,
        effect: Effect::try_from(&*effect).map_err(|_| damaged(format!("`{effect}` is not an effect")))?,
        tool_version: row.get(at + 7)?,
        runner: Runner::try_from(&*runner).map_err(|_| damaged(format!("`{runner}` runs no calls")))?,
        claim: uuid_or_none(row, at + 12)?.map(ClaimId),
        approval: approval_or_none(row, at + 13)?,
        by_rule: by_rule_or_none(row, at + 14)?,
        awaited: row.get(at + 8)?,
        state: CallState::try_from(&*state)
            .map_err(|_| damaged(format!("`{state}` is not a state of a call")))?,
        outcome: answer_or_none(row, at + 10)?,
        trust: trust_at(row, at + 15)?,
    })
}

/// A call, with what is needed of its agent to answer it.
pub(crate) struct AgentCall {
    pub(crate) agent_row: i64,
    pub(crate) agent: AgentId,
    pub(crate) standing: Standing,
    /// The agent's open cycle.
    pub(crate) open: Option<CycleId>,
    /// The root and hop for the answer.
    pub(crate) cause: (RootId, u32),
    /// It waits for a person.
    pub(crate) asks: bool,
    pub(crate) row: CallRow,
}

/// Columns of [`agent_call_at`], of a `call c`, before those of [`CALL`].
pub(crate) const OF_AGENT: &str = "c.agent, (SELECT e.uuid FROM entity e WHERE e.id = c.agent), \
    (SELECT a.standing FROM agent a WHERE a.id = c.agent), (SELECT l.open_cycle FROM life l WHERE l.agent = c.agent), \
    c.root, c.hop, c.ask_at IS NOT NULL";

/// Reads [`OF_AGENT`] and [`CALL`].
pub(crate) fn agent_call_at(row: &Row<'_>) -> Outcome<AgentCall> {
    Ok(AgentCall {
        agent_row: row.get(0)?,
        agent: AgentId(uuid_at(row, 1)?),
        standing: standing_at(row, 2)?,
        open: uuid_or_none(row, 3)?.map(CycleId),
        cause: cause_at(row, 4)?,
        asks: row.get(6)?,
        row: call_at(row, 7)?,
    })
}

/// A call by its id, with what is needed of its agent.
pub(crate) fn with_agent(db: &Connection, call: &CallId) -> Outcome<Option<AgentCall>> {
    first(db, &format!("SELECT {OF_AGENT}, {CALL} FROM call c WHERE c.id = ?"), [&call.0], agent_call_at)
}

/// A call by its id.
pub(crate) fn by_id(db: &Connection, call: &CallId) -> Outcome<Option<CallRow>> {
    first(db, &format!("SELECT {CALL} FROM call WHERE id = ?"), [&call.0], |row| call_at(row, 0))
}

/// Writes the outcome of a call from outside its cycle, and what became of the question to a person. The call waits for nobody
/// any more.
pub(crate) fn end(db: &Connection, row: &CallRow) -> Outcome<()> {
    let sql = "UPDATE call SET state = ?, outcome = ?, outside = outside | 1, ask_at = NULL, approval = ? WHERE id = ?";
    let (outcome, approval) = (row.outcome.as_ref().map(to_json), row.approval.as_ref().map(to_json));
    run(db, sql, params![row.state.as_str(), outcome.transpose()?, approval.transpose()?, row.id.0]).map(drop)
}

/// Inserts call rows. An open call stores the root and hop for its answer, which may come after the cycle.
pub(crate) fn put(db: &Connection, agent: i64, changes: &Changes) -> Outcome<()> {
    let sql = "INSERT INTO call (agent, cycle, step, idx, id, tool, effect, tool_version, awaited, \
               state, arguments, outcome, root, hop, runner, approval, ask_at, by_rule, trust) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    for call in &changes.calls {
        let cause = changes.open.as_ref().filter(|_| call.outcome.is_none());
        let outcome = call.outcome.as_ref().map(to_json).transpose()?;
        let row = params![
            agent,
            bytes(call.cycle.0),
            call.step,
            call.index,
            call.id.0,
            call.tool,
            call.effect.as_str(),
            call.tool_version,
            call.awaited,
            call.state.as_str(),
            call.arguments,
            outcome,
            cause.map(|open| key(&open.root.0)),
            cause.map(|open| open.hop),
            call.runner.as_str(),
            call.approval.as_ref().map(to_json).transpose()?,
            call.approval.as_ref().and_then(|approval| approval.next_at()).map(ms),
            call.by_rule.as_ref().map(to_json).transpose()?,
            code_of(&Trust::ALL, &call.trust),
        ];
        run(db, sql, row)?;
    }
    Ok(())
}

/// Updates the states of calls. An outcome is never overwritten: the first answer wins. A call that its cycle
/// answers counts as awaited; a call that it detaches does not. What is over waits for nobody.
pub(crate) fn change(db: &Connection, agent: i64, changes: &[CallChange]) -> Outcome<()> {
    let sql = "UPDATE call SET state = ?1, outcome = coalesce(?2, outcome), \
               awaited = CASE ?1 WHEN 'done' THEN 1 WHEN 'detached' THEN 0 ELSE awaited END, \
               ask_at = iif(?1 = 'done', NULL, ask_at), \
               approval = CASE WHEN ?1 = 'done' AND ask_at IS NOT NULL THEN json_set(approval, '$.state', 'canceled') \
               WHEN ?1 = 'detached' AND state = 'planned' THEN json_set(approval, '$.late', json('true')) ELSE approval END \
               WHERE id = ?3 AND agent = ?4 AND state <> 'done'";
    for change in changes {
        let outcome = change.outcome.as_ref().map(to_json).transpose()?;
        run(db, sql, params![change.state.as_str(), outcome, change.id.0, agent])?;
    }
    Ok(())
}

/// The calls of a cycle's current step, in order. The outcomes of earlier steps are in the log.
pub(crate) fn of_step(db: &Connection, agent: i64, open: &OpenCycle) -> Outcome<Vec<CallRow>> {
    let sql = format!("SELECT {CALL} FROM call WHERE agent = ? AND cycle = ? AND step = ? ORDER BY idx");
    all(db, &sql, params![agent, bytes(open.id.0), open.step], |row| call_at(row, 0))
}

/// Detached calls that wait for nobody, found by the partial index over them. What a person approved begins only if its agent
/// may run.
pub(crate) const DETACHED: &str = "SELECT e.uuid, c.root, c.hop, c.id FROM call c JOIN entity e ON e.id = c.agent \
    JOIN agent a ON a.id = c.agent AND a.damage IS NULL AND (c.approval IS NULL OR a.standing = 0) \
    WHERE c.state = 'detached' AND c.ask_at IS NULL AND c.id > ? ORDER BY c.id LIMIT ?";

/// One call of an agent.
pub(crate) fn of_agent(db: &Connection, agent: i64, call: &CallId) -> Outcome<Option<CallRow>> {
    let sql = format!("SELECT {CALL} FROM call WHERE id = ? AND agent = ?");
    first(db, &sql, params![call.0, agent], |row| call_at(row, 0))
}

pub(crate) fn detached(db: &Connection, after: Option<&CallId>, limit: u32) -> Outcome<Vec<DetachedCall>> {
    let after = after.map_or("", |call| call.0.as_str());
    let found = all(db, DETACHED, params![after, limit], |row| {
        let agent = AgentId(uuid_at(row, 0)?);
        Ok((agent, cause_at(row, 1).map_err(damaged_agent(agent))?, CallId(row.get(3)?)))
    })?;
    let mut calls = Vec::with_capacity(found.len());
    for (agent, (root, hop), id) in found {
        let row = by_id(db, &id).map_err(damaged_agent(agent))?;
        calls.extend(row.map(|row| DetachedCall { agent, row, root, hop }));
    }
    Ok(calls)
}

/// The root and hop for the answer of a call: those of its cycle, or an empty root and 0 if none are stored.
pub(crate) fn cause_at(row: &Row<'_>, at: usize) -> Outcome<(RootId, u32)> {
    let hop = row.get::<_, Option<u32>>(at + 1)?.unwrap_or(0);
    Ok((RootId(key_or_none(row, at)?.unwrap_or_default()), hop))
}

/// Gives an open call of a worker tool to another claim. Returns how often it was claimed, if it is one.
pub(crate) fn claim(db: &Connection, call: &CallId, claim: ClaimId) -> Outcome<Option<u32>> {
    let sql = "UPDATE call SET claim = ?, attempts = attempts + 1, \
               state = CASE state WHEN 'planned' THEN 'started' ELSE state END \
               WHERE id = ? AND runner = 'worker' AND state <> 'done' AND ask_at IS NULL RETURNING attempts";
    first(db, sql, params![bytes(claim.0), call.0], |row| u32_at(row, 0))
}

/// The call, if workers run it.
pub(crate) fn of_worker(db: &Connection, call: &CallId) -> Outcome<Option<WorkerCall>> {
    worker_call(db, "c.id = ?", [&call.0])
}

/// The open call whose newest claim this is.
pub(crate) fn of_claim(db: &Connection, claim: ClaimId) -> Outcome<Option<WorkerCall>> {
    worker_call(db, "c.claim = ? AND c.state <> 'done'", [bytes(claim.0)])
}

fn worker_call(db: &Connection, which: &str, values: impl Params) -> Outcome<Option<WorkerCall>> {
    let sql = format!(
        "SELECT {CALL}, (SELECT e.uuid FROM entity e WHERE e.id = c.agent), attempts FROM call c \
         WHERE c.runner = 'worker' AND {which}"
    );
    first(db, &sql, values, |row| {
        let (agent, times) = (AgentId(uuid_at(row, 16)?), u32_at(row, 17)?);
        Ok(WorkerCall { agent, row: call_at(row, 0)?, times })
    })
}

/// How many detached calls an agent has.
pub(crate) fn count_detached(db: &Connection, agent: i64) -> Outcome<u32> {
    let sql = "SELECT count(*) FROM call WHERE agent = ? AND state = 'detached'";
    Ok(first(db, sql, [agent], |row| u32_at(row, 0))?.unwrap_or(0))
}

/// Calls without an answer, in the order in which they were decided (ids of cycles grow with time): those of the
/// open cycle, and detached ones.
pub(crate) fn open(db: &Connection, agent: AgentId) -> Outcome<Vec<CallRow>> {
    let limit = limits::PAGE_MAX;
    let sql = format!(
        "SELECT {CALL} FROM call c WHERE c.agent = ?1 AND c.state = 'detached' UNION ALL \
         SELECT {CALL} FROM call c WHERE c.agent = ?1 AND c.state IN ('planned', 'started') \
         AND c.cycle = (SELECT open_cycle FROM life WHERE agent = ?1) ORDER BY cycle, step, idx LIMIT {limit}"
    );
    match agent_row(db, agent.0)? {
        Some(row) => all(db, &sql, [row], |row| call_at(row, 0)),
        None => Ok(Vec::new()),
    }
}

/// A number that grows when awaited calls of a step are answered or approved from outside the cycle.
pub(crate) fn count_answered(db: &Connection, agent: i64, (cycle, step): (CycleId, u32)) -> Outcome<u32> {
    let sql = "SELECT coalesce(sum(outside), 0) FROM call WHERE agent = ? AND cycle = ? AND outside > 0 AND step = ? AND awaited = 1";
    Ok(first(db, sql, params![agent, bytes(cycle.0), step], |row| u32_at(row, 0))?.unwrap_or(0))
}

/// The outcomes of the calls that [`count_answered`] counts because they were answered.
pub(crate) fn answered(
    db: &Connection,
    agent: i64,
    (cycle, step): (CycleId, u32),
) -> Outcome<Vec<(CallId, Answer)>> {
    let sql = "SELECT outcome, id FROM call \
               WHERE agent = ? AND cycle = ? AND outside > 0 AND outside & 1 AND step = ? AND awaited = 1";
    all(db, sql, params![agent, bytes(cycle.0), step], |row| Ok((CallId(row.get(1)?), answer_at(row, 0)?)))
}

/// The calls that [`count_answered`] counts because a person has approved them, and that have no outcome.
pub(crate) fn granted(db: &Connection, agent: i64, (cycle, step): (CycleId, u32)) -> Outcome<Vec<CallRow>> {
    let sql = format!(
        "SELECT {CALL} FROM call WHERE agent = ? AND cycle = ? AND outside > 0 AND outside = 2 AND step = ? \
         AND awaited = 1 AND outcome IS NULL ORDER BY idx"
    );
    all(db, &sql, params![agent, bytes(cycle.0), step], |row| call_at(row, 0))
}

/// Reads what is known of a call that waits, or has waited, for a person.
pub(crate) fn approval_or_none(row: &Row<'_>, at: usize) -> Outcome<Option<Box<Approval>>> {
    let approval = row.get::<_, Option<String>>(at)?;
    approval.map(|approval| from_json(&approval, "an approval")).transpose()
}

fn by_rule_or_none(row: &Row<'_>, at: usize) -> Outcome<Option<ByRule>> {
    let by_rule = row.get::<_, Option<String>>(at)?;
    by_rule.map(|by_rule| from_json(&by_rule, "what a rule must be for")).transpose()
}

/// Reads an outcome that a call may not have yet.
pub(crate) fn answer_or_none(row: &Row<'_>, at: usize) -> Outcome<Option<Answer>> {
    let outcome = row.get::<_, Option<String>>(at)?;
    outcome.map(|outcome| from_json(&outcome, "an outcome")).transpose()
}

/// Reads an outcome from its column.
fn answer_at(row: &Row<'_>, at: usize) -> Outcome<Answer> {
    from_json(&row.get::<_, String>(at)?, "an outcome")
}

/// Calls that a commit starts or answers, but that were already answered from outside: the model must read the
/// stored outcomes.
pub(crate) fn answered_before(
    db: &Connection,
    agent: i64,
    changes: &[CallChange],
) -> Outcome<Vec<(CallId, Answer)>> {
    let mut answers = Vec::new();
    for change in changes {
        // The outcome of a detached call arrives as an event, so an earlier answer does not matter here.
        let sql = "SELECT outcome FROM call WHERE id = ? AND agent = ? AND state = 'done' AND outside & 1 \
                   AND (awaited = 1 OR NOT ?)";
        let detaches = change.state == CallState::Detached;
        let answer = first(db, sql, params![change.id.0, agent, detaches], |row| answer_at(row, 0))?;
        answers.extend(answer.map(|answer| (change.id.clone(), answer)));
    }
    Ok(answers)
}
