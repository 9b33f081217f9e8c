//! Outcomes from outside the cycle: compare-and-set on the call row; whoever is first wins.

use agent::call::{CallRow, CallState, Outcome as Answer, head_and_tail};
use agent::changes::{CallChange, Echo};
use agent::event::{Channel, Envelope, Event, EventData, EventKind, Fate, Principal, Trust};
use agent::id::{AgentId, CallId, CycleId, EventId, RootId};
use agent::life::Standing;
use agent::limits;
use agent::port::{
    BoxFuture, CallError, Calls, CanceledCall, Denial, Detached, Finish, FinishedCall, StoreError, Waken,
};
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use crate::sqlite::engine::fault::{Fault, Outcome, of, torn};
use crate::sqlite::ports::apart::Way;
use crate::sqlite::ports::registry::known_agent;
use crate::sqlite::ports::store::wake::{CALL, call_at};
use crate::sqlite::tables::events::{Head, admit};
use crate::sqlite::tables::rows::{
    agent_row, all, bytes, first, from_json, key_or_none, ms, run, time, to_json, u32_at, uuid_at,
    uuid_or_none,
};
use crate::sqlite::tables::show;
use crate::sqlite::{Session, Sqlite, Who};

impl Calls for Sqlite {
    fn detached(
        &self,
        after: Option<CallId>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<Detached>, StoreError>> {
        Box::pin(async move {
            Ok(self.among(Way::Read(Who::Living), move |db, _| detached(db, after.as_ref(), limit)).await?)
        })
    }

    fn take_up(&self, call: CallId) -> BoxFuture<'_, Result<Option<u32>, CallError>> {
        let sql =
            "UPDATE call SET attempts = attempts + 1 WHERE id = ? AND state = 'detached' RETURNING attempts";
        let done = self.write(move |db, _| first(db, sql, [&call.0], |row| u32_at(row, 0)));
        Box::pin(async move { Ok(done.await?) })
    }

    fn finish(&self, answer: FinishedCall) -> BoxFuture<'_, Result<Finish, CallError>> {
        let id = answer.id.clone();
        let done = self.write(move |db, session| finish(db, session, &answer));
        Box::pin(async move { done.await?.ok_or(CallError::Unknown(id)) })
    }
}

/// By the index over detached calls alone.
pub(in crate::sqlite) const DETACHED: &str = "SELECT e.uuid, c.root, c.hop, c.id FROM call c JOIN entity e ON e.id = c.agent \
    JOIN agent a ON a.id = c.agent AND a.damage IS NULL WHERE c.state = 'detached' AND c.id > ? ORDER BY c.id LIMIT ?";

fn detached(db: &Connection, after: Option<&CallId>, limit: u32) -> Outcome<Vec<Detached>> {
    let after = after.map_or("", |call| call.0.as_str());
    let found = all(db, DETACHED, params![after, limit], |row| {
        let agent = AgentId(uuid_at(row, 0)?);
        Ok((agent, cause_at(row, 1).map_err(torn(agent))?, CallId(row.get(3)?)))
    })?;
    let sql = format!("SELECT {CALL} FROM call WHERE id = ?");
    let mut calls = Vec::with_capacity(found.len());
    for (agent, (root, hop), id) in found {
        let row = first(db, &sql, [&id.0], |row| call_at(row, 0)).map_err(torn(agent))?;
        calls.extend(row.map(|row| Detached { agent, row, root, hop }));
    }
    Ok(calls)
}

/// What the answer of a call descends from: what its cycle did when it decided, else itself.
fn cause_at(row: &Row<'_>, at: usize) -> Outcome<(RootId, u32)> {
    let hop = row.get::<_, Option<u32>>(at + 1)?.unwrap_or(0);
    Ok((RootId(key_or_none(row, at)?.unwrap_or_default()), hop))
}

/// How many calls of an agent go on beyond their cycles.
pub(in crate::sqlite) fn count_detached(db: &Connection, agent: i64) -> Outcome<u32> {
    let sql = "SELECT count(*) FROM call WHERE agent = ? AND state = 'detached'";
    Ok(first(db, sql, [agent], |row| u32_at(row, 0))?.unwrap_or(0))
}

struct Asked {
    row: i64,
    agent: AgentId,
    cycle: CycleId,
    tool: String,
    awaited: bool,
    open: Option<CycleId>,
    cause: (RootId, u32),
}

fn finish(db: &Connection, session: &Session, answer: &FinishedCall) -> Outcome<Option<Finish>> {
    let sql = "SELECT c.agent, e.uuid, c.cycle, c.tool, c.awaited, l.open_cycle, c.root, c.hop FROM call c \
               JOIN entity e ON e.id = c.agent JOIN life l ON l.agent = c.agent WHERE c.id = ?";
    let asked = first(db, sql, [&answer.id.0], |row| {
        Ok(Asked {
            row: row.get(0)?,
            agent: AgentId(uuid_at(row, 1)?),
            cycle: CycleId(uuid_at(row, 2)?),
            tool: row.get(3)?,
            awaited: row.get(4)?,
            open: uuid_or_none(row, 5)?.map(CycleId),
            cause: cause_at(row, 6)?,
        })
    })?;
    let Some(asked) = asked else { return Ok(None) };
    let outcome = to_json(&answer.outcome)?;
    let sql = "UPDATE call SET state = 'done', outcome = ?, outside = 1 WHERE id = ? AND state <> 'done'";
    if run(db, sql, params![outcome, answer.id.0])? == 0 {
        return Ok(Some(Finish::Already));
    }
    let said = show::spoken(db, show::update(db, &answer.id)?.into_iter().collect())?;
    let mut echo = Echo { said, ..Echo::default() };
    if asked.awaited && asked.open == Some(asked.cycle) {
        // An answer ends a pause, but not a rest that the provider or a failure made necessary.
        let sql = "UPDATE inbox_head SET hold_until = NULL, due_at = min(coalesce(due_at, ?1), ?1) \
                   WHERE agent = ?2 AND rest_reason IS NULL \
                   AND (SELECT standing FROM agent WHERE id = ?2) = 0";
        if run(db, sql, params![ms(answer.at), asked.row])? > 0 {
            echo.wake.push(Waken { agent: asked.agent, at: answer.at, urgent: false });
        }
        return Ok(Some(Finish::Awaited(asked.agent, echo)));
    }
    let mut head = Head::read(db, asked.row).map_err(of(asked.agent))?;
    if head.standing != Standing::Retired {
        let event = late(answer, asked.tool, asked.cause);
        let wake = admit(db, session, &mut head, &event, None, &Fate::Waiting)?;
        echo.wake.extend(
            wake.map(|at| Ok::<_, Fault>(Waken { agent: asked.agent, at: time(at)?, urgent: false }))
                .transpose()?,
        );
    }
    Ok(Some(Finish::Late(asked.agent, echo)))
}

/// Takes an open call back: it is answered as canceled, for its cycle or by an event, like any other
/// answer from outside.
pub(in crate::sqlite) fn cancel(
    db: &Connection,
    session: &Session,
    agent: AgentId,
    call: &CallId,
    at: Timestamp,
) -> Outcome<CanceledCall> {
    let row = known_agent(db, agent)?;
    let missing = || Denial::NotFound { what: "call", name: call.to_string() };
    let sql = format!("SELECT {CALL} FROM call WHERE id = ? AND agent = ?");
    let found = first(db, &sql, params![call.0, row], |row| call_at(row, 0))?.ok_or_else(missing)?;
    let answer = FinishedCall { id: call.clone(), outcome: Answer::canceled(&found), at };
    match finish(db, session, &answer)? {
        Some(Finish::Awaited(_, echo) | Finish::Late(_, echo)) => {
            let call = CallRow { state: CallState::Done, outcome: Some(answer.outcome), ..found };
            Ok(CanceledCall { call, echo })
        }
        Some(Finish::Already) => {
            let ended = found.outcome.map_or("over", |outcome| outcome.status.as_str());
            Err(Denial::CallOver { call: call.clone(), ended }.into())
        }
        None => Err(missing().into()),
    }
}

/// Calls without an answer: those of the open cycle, and those that go on beyond theirs.
pub(in crate::sqlite) fn open(db: &Connection, agent: AgentId) -> Outcome<Vec<CallRow>> {
    let limit = limits::PAGE_MAX;
    let sql = format!(
        "SELECT {CALL} FROM call c WHERE c.agent = ?1 AND c.state = 'detached' UNION ALL \
         SELECT {CALL} FROM call c WHERE c.agent = ?1 AND c.state IN ('planned', 'started') \
         AND c.cycle = (SELECT open_cycle FROM life WHERE agent = ?1) LIMIT {limit}"
    );
    match agent_row(db, agent.0)? {
        Some(row) => all(db, &sql, [row], |row| call_at(row, 0)),
        None => Ok(Vec::new()),
    }
}

/// How many calls of a step that its cycle waits for were answered from outside.
pub(in crate::sqlite) fn count_answered(
    db: &Connection,
    agent: i64,
    (cycle, step): (CycleId, u32),
) -> Outcome<u32> {
    let sql = "SELECT count(*) FROM call WHERE agent = ? AND cycle = ? AND outside = 1 AND step = ? AND awaited = 1";
    Ok(first(db, sql, params![agent, bytes(cycle.0), step], |row| u32_at(row, 0))?.unwrap_or(0))
}

/// These answers.
pub(in crate::sqlite) fn answered(
    db: &Connection,
    agent: i64,
    (cycle, step): (CycleId, u32),
) -> Outcome<Vec<(CallId, Answer)>> {
    let sql = "SELECT outcome, id FROM call \
               WHERE agent = ? AND cycle = ? AND outside = 1 AND step = ? AND awaited = 1";
    all(db, sql, params![agent, bytes(cycle.0), step], |row| Ok((CallId(row.get(1)?), answer_at(row, 0)?)))
}

/// An outcome from its column.
pub(in crate::sqlite) fn answer_at(row: &Row<'_>, at: usize) -> Outcome<Answer> {
    from_json(&row.get::<_, String>(at)?, "an outcome")
}

/// Stops a commit that begins or answers calls which were answered from outside: what the model reads
/// is what the rows say.
pub(in crate::sqlite) fn unanswered(db: &Connection, agent: i64, changes: &[CallChange]) -> Outcome<()> {
    let mut answers = Vec::new();
    for change in changes {
        // What nobody waits for is told by an event: that it was answered sooner is no matter.
        let sql = "SELECT outcome FROM call WHERE id = ? AND agent = ? AND state = 'done' AND outside = 1 \
                   AND (awaited = 1 OR NOT ?)";
        let goes_on = change.state == CallState::Detached;
        let answer = first(db, sql, params![change.id.0, agent, goes_on], |row| answer_at(row, 0))?;
        answers.extend(answer.map(|answer| (change.id.clone(), answer)));
    }
    if answers.is_empty() { Ok(()) } else { Err(Fault::Answered(answers)) }
}

/// The event by which an outcome comes that no cycle waits for any more.
fn late(answer: &FinishedCall, tool: String, (root, hop): (RootId, u32)) -> Event {
    let FinishedCall { id: call, outcome, at } = answer;
    let id = format!("result:{call}");
    let root = if root.0.is_empty() { RootId(id.clone()) } else { root };
    Event {
        id: EventId(id.clone()),
        kind: EventKind::ToolResult,
        urgent: false,
        at: *at,
        envelope: Envelope {
            principal: Principal::Own,
            channel: Channel::Tool,
            trust: Trust::Outside,
            root,
            hop,
        },
        data: EventData::ToolResult {
            call: call.clone(),
            tool,
            text: head_and_tail(&outcome.text, limits::RESULT_MAX_BYTES),
            error: outcome.failed(),
            status: Some(outcome.status),
        },
        cites: None,
    }
}
