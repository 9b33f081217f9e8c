//! Outcomes from outside the cycle: compare-and-set on the call row; whoever is first wins.

use agent::call::{CallRow, CallState, Outcome as Answer, head_and_tail};
use agent::changes::Echo;
use agent::event::{Channel, Envelope, Event, EventData, EventKind, Fate, Principal, Trust};
use agent::id::{AgentId, CallId, CycleId, EventId, RootId};
use agent::life::Standing;
use agent::limits;
use agent::port::{
    BoxFuture, CallError, Calls, CanceledCall, Denial, Detached, Finish, FinishedCall, StoreError, Waken,
};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::{Fault, Outcome, of};
use crate::sqlite::ports::{Sqlite, Way, Who};
use crate::sqlite::tables::agents::known_agent;
use crate::sqlite::tables::calls::{CALL, call_at, cause_at, detached};
use crate::sqlite::tables::events::{Head, admit};
use crate::sqlite::tables::rows::{first, ms, run, time, to_json, u32_at, uuid_at, uuid_or_none};
use crate::sqlite::tables::session::Session;
use crate::sqlite::tables::show;

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
pub(crate) fn cancel(
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
