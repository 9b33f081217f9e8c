//! Outcomes from outside the cycle: compare-and-set on the call row; whoever is first wins.

use agent::call::{CallRow, CallState, Outcome as Answer};
use agent::changes::{CallChange, Echo};
use agent::event::{Channel, Envelope, Event, EventData, EventKind, Fate, Principal, Trust};
use agent::id::{AgentId, CallId, CycleId, EventId, RootId};
use agent::life::Standing;
use agent::port::{BoxFuture, CallError, Calls, CanceledCall, Claim, Denial, Finish, FinishedCall, Waken};
use jiff::Timestamp;
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::events::{Head, admit};
use super::fault::{Fault, Outcome};
use super::registry::known_agent;
use super::rows::{agent_row, all, bytes, first, from_json, ms, run, time, to_json, uuid_at, uuid_or_none};
use super::wake::{CALL, call_at};
use super::{Session, Sqlite, show};

impl Calls for Sqlite {
    fn claim(&self, call: CallId, worker: String, now: Timestamp) -> BoxFuture<'_, Result<Claim, CallError>> {
        let id = call.clone();
        let done = self.write(move |db, _| claim(db, &id, &worker, now));
        Box::pin(async move { done.await?.ok_or(CallError::Unknown(call)) })
    }

    fn finish(&self, answer: FinishedCall) -> BoxFuture<'_, Result<Finish, CallError>> {
        let id = answer.id.clone();
        let done = self.write(move |db, session| finish(db, session, &answer));
        Box::pin(async move { done.await?.ok_or(CallError::Unknown(id)) })
    }
}

fn claim(db: &Connection, call: &CallId, worker: &str, now: Timestamp) -> Outcome<Option<Claim>> {
    let sql = format!("SELECT {CALL} FROM call WHERE id = ?");
    let Some(mut row) = first(db, &sql, [&call.0], |row| call_at(row, 0))? else { return Ok(None) };
    let sql =
        "UPDATE call SET state = 'started', worker = ?, claimed_at = ? WHERE id = ? AND state = 'planned'";
    if run(db, sql, params![worker, ms(now), call.0])? == 0 {
        return Ok(Some(Claim::Taken));
    }
    row.state = CallState::Started;
    Ok(Some(Claim::Yours(Box::new(row))))
}

struct Asked {
    row: i64,
    agent: AgentId,
    cycle: CycleId,
    tool: String,
    awaited: bool,
    open: Option<CycleId>,
}

fn finish(db: &Connection, session: &Session, answer: &FinishedCall) -> Outcome<Option<Finish>> {
    let sql = "SELECT c.agent, e.uuid, c.cycle, c.tool, c.awaited, l.open_cycle FROM call c \
               JOIN entity e ON e.id = c.agent JOIN life l ON l.agent = c.agent WHERE c.id = ?";
    let asked = first(db, sql, [&answer.id.0], |row| {
        Ok(Asked {
            row: row.get(0)?,
            agent: AgentId(uuid_at(row, 1)?),
            cycle: CycleId(uuid_at(row, 2)?),
            tool: row.get(3)?,
            awaited: row.get(4)?,
            open: uuid_or_none(row, 5)?.map(CycleId),
        })
    })?;
    let Some(asked) = asked else { return Ok(None) };
    let sql = "UPDATE call SET state = 'done', outcome = ?, outside = 1 WHERE id = ? AND state <> 'done'";
    if run(db, sql, params![to_json(&answer.outcome)?, answer.id.0])? == 0 {
        return Ok(Some(Finish::Already));
    }
    let said = show::update(db, &answer.id)?.into_iter().collect();
    let mut echo = Echo { said, wake: Vec::new() };
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
    let mut head = Head::read(db, asked.row)?;
    if head.standing != Standing::Retired {
        let event = late(&answer.id, asked.tool, &answer.outcome, answer.at);
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
pub(super) fn cancel(
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
pub(super) fn open(db: &Connection, agent: AgentId) -> Outcome<Vec<CallRow>> {
    let limit = agent::limits::PAGE_MAX;
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

/// Answers from outside to calls that the cycle waits for.
pub(super) fn answered(db: &Connection, agent: i64, cycle: Uuid) -> Outcome<Vec<(CallId, Answer)>> {
    let sql = "SELECT id, outcome FROM call WHERE agent = ? AND cycle = ? AND outside = 1 AND awaited = 1";
    all(db, sql, params![agent, bytes(cycle)], |row| {
        Ok((CallId(row.get(0)?), from_json(&row.get::<_, String>(1)?, "an outcome")?))
    })
}

/// Stops a commit that begins or answers calls which were answered from outside: what the model reads
/// is what the rows say.
pub(super) fn unanswered(db: &Connection, agent: i64, changes: &[CallChange]) -> Outcome<()> {
    let mut answers = Vec::new();
    for change in changes {
        let sql = "SELECT outcome FROM call WHERE id = ? AND agent = ? AND state = 'done' AND outside = 1";
        let outcome = first(db, sql, params![change.id.0, agent], |row| Ok(row.get::<_, String>(0)?))?;
        if let Some(outcome) = outcome {
            answers.push((change.id.clone(), from_json(&outcome, "an outcome")?));
        }
    }
    if answers.is_empty() { Ok(()) } else { Err(Fault::Answered(answers)) }
}

/// The event by which an outcome comes that no cycle waits for any more.
fn late(call: &CallId, tool: String, outcome: &Answer, at: Timestamp) -> Event {
    let id = format!("result:{call}");
    Event {
        id: EventId(id.clone()),
        kind: EventKind::ToolResult,
        urgent: false,
        at,
        envelope: Envelope {
            principal: Principal::Own,
            channel: Channel::Tool,
            trust: Trust::Outside,
            root: RootId(id),
            hop: 0,
        },
        data: EventData::ToolResult {
            call: call.clone(),
            tool,
            text: outcome.text.clone(),
            error: outcome.failed(),
        },
        cites: None,
    }
}
