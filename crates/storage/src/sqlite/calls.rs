//! Outcomes from outside the cycle: compare-and-set on the call row; whoever is first wins.

use agent::call::{CallState, Outcome as Answer};
use agent::event::{Channel, Envelope, Event, EventData, EventKind, Fate, Principal, Trust};
use agent::id::{AgentId, CallId, CycleId, EventId, RootId};
use agent::life::Standing;
use agent::port::{BoxFuture, CallError, Calls, Claim, Finish, FinishedCall};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::events::{Head, admit};
use super::fault::Outcome;
use super::rows::{first, ms, run, to_json, uuid_at, uuid_or_none};
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
    let sql = "UPDATE call SET state = 'done', outcome = ? WHERE id = ? AND state <> 'done'";
    if run(db, sql, params![to_json(&answer.outcome)?, answer.id.0])? == 0 {
        return Ok(Some(Finish::Already));
    }
    show::update(db, &answer.id)?;
    if asked.awaited && asked.open == Some(asked.cycle) {
        // An answer ends a pause, but not a rest that the provider or a failure made necessary.
        let sql = "UPDATE inbox_head SET hold_until = NULL, due_at = min(coalesce(due_at, ?1), ?1) \
                   WHERE agent = ?2 AND rest_reason IS NULL \
                   AND (SELECT standing FROM agent WHERE id = ?2) = 0";
        run(db, sql, params![ms(answer.at), asked.row])?;
        return Ok(Some(Finish::Awaited(asked.agent)));
    }
    let mut head = Head::read(db, asked.row)?;
    if head.standing != Standing::Retired {
        let event = late(&answer.id, asked.tool, &answer.outcome, answer.at);
        admit(db, session, &mut head, &event, None, &Fate::Waiting)?;
    }
    Ok(Some(Finish::Late(asked.agent)))
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
