//! Outcomes from outside the cycle: compare-and-set on the call row, so the first one wins.

use agent::answers::{self, Destination};
use agent::call::{CallRow, CallState, Effect, Outcome as Answer};
use agent::changes::Notifications;
use agent::event::EventState;
use agent::fencing;
use agent::id::{AgentId, CallId, ClaimId, CycleId, RootId};
use agent::life::Standing;
use agent::port::{
    BoxFuture, CallError, Calls, CanceledCall, Claimed, Denial, DetachedCall, Finish, FinishedCall,
    StoreError, Wakeup, WorkerCall,
};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::{Outcome, name_agent};
use crate::sqlite::ports::quarantine::Access;
use crate::sqlite::ports::{Caller, Sqlite};
use crate::sqlite::tables::agents::known_agent;
use crate::sqlite::tables::calls::{self, CALL, cause_at, detached, of_agent};
use crate::sqlite::tables::events::{Head, admit};
use crate::sqlite::tables::life::Life;
use crate::sqlite::tables::rows::{first, run, standing_at, time, to_json, u32_at, uuid_at, uuid_or_none};
use crate::sqlite::tables::session::Session;
use crate::sqlite::tables::{approvals, show, urgent, waits};

impl Calls for Sqlite {
    fn detached(
        &self,
        after: Option<CallId>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<DetachedCall>, StoreError>> {
        Box::pin(async move {
            Ok(self
                .for_several(Access::Read(Caller::Agents), move |db, _| detached(db, after.as_ref(), limit))
                .await?)
        })
    }

    fn take_up(&self, call: CallId) -> BoxFuture<'_, Result<Option<u32>, CallError>> {
        let sql =
            "UPDATE call SET attempts = attempts + 1 WHERE id = ? AND state = 'detached' RETURNING attempts";
        let done = self.write(move |db, _| first(db, sql, [&call.0], |row| u32_at(row, 0)));
        Box::pin(async move { Ok(done.await?) })
    }

    fn claim(
        &self,
        call: CallId,
        claim: ClaimId,
        barrier: bool,
    ) -> BoxFuture<'_, Result<Claimed, CallError>> {
        let done = self.write(move |db, session| match may_be_claimed(db, session, &call, barrier)? {
            Some(refusal) => Ok(refusal),
            None => Ok(calls::claim(db, &call, claim)?.map_or(Claimed::Refused, Claimed::Given)),
        });
        Box::pin(async move { Ok(done.await?) })
    }

    fn claimed(&self, claim: ClaimId) -> BoxFuture<'_, Result<Option<WorkerCall>, StoreError>> {
        Box::pin(async move { Ok(self.read(Caller::Agents, move |db, _| calls::of_claim(db, claim)).await?) })
    }

    fn worker_call(&self, call: CallId) -> BoxFuture<'_, Result<Option<WorkerCall>, StoreError>> {
        Box::pin(
            async move { Ok(self.read(Caller::Agents, move |db, _| calls::of_worker(db, &call)).await?) },
        )
    }

    fn finish(&self, answer: FinishedCall) -> BoxFuture<'_, Result<Finish, CallError>> {
        let id = answer.id.clone();
        let done = self.write(move |db, session| finish(db, session, &answer));
        Box::pin(async move { done.await?.ok_or(CallError::Unknown(id)) })
    }
}

/// What stands in the way of a worker that wants the call. One that has begun, or that no cycle waits for, goes on.
fn may_be_claimed(
    db: &Connection,
    session: &Session,
    call: &CallId,
    barrier: bool,
) -> Outcome<Option<Claimed>> {
    if is_ruled_out(db, session, call)? {
        return Ok(Some(Claimed::RuleOver));
    }
    let sql = "SELECT e.uuid, c.cycle, c.effect, c.approval FROM call c JOIN entity e ON e.id = c.agent \
               WHERE c.id = ? AND c.state = 'planned'";
    let planned = first(db, sql, [&call.0], |row| {
        let effect: String = row.get(2)?;
        let approved = calls::approval_or_none(row, 3)?.and_then(|approval| Some(approval.by?.at));
        Ok((
            AgentId(uuid_at(row, 0)?),
            CycleId(uuid_at(row, 1)?),
            effect == Effect::Unsafe.as_str(),
            approved,
        ))
    })?;
    let Some((agent, cycle, is_unsafe, approved)) = planned else { return Ok(None) };
    let Some(life) = Life::read(db, agent)? else { return Ok(Some(Claimed::Refused)) };
    if !fencing::may_begin(&life.row, cycle) {
        return Ok(Some(Claimed::Refused));
    }
    let held_back =
        barrier && is_unsafe && urgent::waits_of(db, &life, &urgent::requesters(db, life.agent)?, approved)?;
    Ok(held_back.then_some(Claimed::HeldBack))
}

/// Whether no worker has the call yet, and the rule by which it needs no approval does not hold any more.
fn is_ruled_out(db: &Connection, session: &Session, call: &CallId) -> Outcome<bool> {
    let sql = format!(
        "SELECT {CALL}, agent FROM call WHERE id = ? AND by_rule IS NOT NULL AND claim IS NULL AND state <> 'done'"
    );
    let found = first(db, &sql, [&call.0], |row| Ok((calls::call_at(row, 0)?, row.get::<_, i64>(15)?)))?;
    let Some((row, agent)) = found else { return Ok(false) };
    let now = session.now();
    Ok(!row.is_ruled_in(&approvals::rules(db, Some(agent), now)?, now))
}

/// A call, with what is needed of its agent.
struct FoundCall {
    row: i64,
    agent: AgentId,
    cycle: CycleId,
    tool: String,
    awaited: bool,
    open: Option<CycleId>,
    standing: Standing,
    cause: (RootId, u32),
    claim: Option<ClaimId>,
    known: Option<Answer>,
    remark: Option<String>,
}

pub(super) fn finish(db: &Connection, session: &Session, answer: &FinishedCall) -> Outcome<Option<Finish>> {
    let FinishedCall { id, outcome, at, claim: by, if_claimed } = answer;
    let sql = "SELECT c.agent, e.uuid, c.cycle, c.tool, c.awaited, l.open_cycle, a.standing, c.root, c.hop, c.claim, \
               c.outcome, c.approval, c.arguments FROM call c \
               JOIN entity e ON e.id = c.agent JOIN agent a ON a.id = c.agent JOIN life l ON l.agent = c.agent \
               WHERE c.id = ?";
    let found = first(db, sql, [&id.0], |row| {
        Ok(FoundCall {
            row: row.get(0)?,
            agent: AgentId(uuid_at(row, 1)?),
            cycle: CycleId(uuid_at(row, 2)?),
            tool: row.get(3)?,
            awaited: row.get(4)?,
            open: uuid_or_none(row, 5)?.map(CycleId),
            standing: standing_at(row, 6)?,
            cause: cause_at(row, 7)?,
            claim: uuid_or_none(row, 9)?.map(ClaimId),
            known: calls::answer_or_none(row, 10)?,
            remark: calls::remark_at(row, 11)?,
        })
    })?;
    let Some(FoundCall { row, agent, cycle, tool, awaited, open, standing, cause, claim, known, remark }) =
        found
    else {
        return Ok(None);
    };
    if by.is_some_and(|by| claim != Some(by)) {
        return Ok(Some(Finish::NotClaimed));
    }
    let outcome = if_claimed.as_ref().filter(|_| claim.is_some()).unwrap_or(outcome);
    // The outcome of a detached call that goes on is "pending"; its state tells whether the call is over.
    let late = by.is_some() && known.as_ref().is_some_and(answers::answers_unknown);
    let sql = "UPDATE call SET state = 'done', outcome = ?1, outside = outside | 1, ask_at = NULL, \
         approval = iif(ask_at IS NULL, approval, json_set(approval, '$.state', 'canceled')) \
         WHERE id = ?2 AND (state <> 'done' OR ?3)";
    if run(db, sql, params![to_json(outcome)?, id.0, late])? == 0 {
        return Ok(Some(Finish::Already));
    }
    let messages = show::with_sender(db, show::update(db, id)?.into_iter().collect())?;
    let destination = answers::destination(awaited && !late, cycle, open, standing);
    let due = match destination {
        Destination::Cycle => {
            let at = (*at).min(session.now());
            waits::answer(db, row, standing, at)?.then_some(at)
        }
        Destination::Inbox => {
            let mut head = Head::read(db, row).map_err(name_agent(agent))?;
            let event = answers::event(id, tool, remark, outcome, cause, *at, late);
            admit(db, session, &mut head, &event, None, &EventState::Waiting)?.map(time).transpose()?
        }
        Destination::Nobody => None,
    };
    let wake = due.map(|at| Wakeup { agent, at, urgent: false }).into_iter().collect();
    let notifications = Notifications { messages, wake, ..Notifications::default() };
    Ok(Some(if destination == Destination::Cycle {
        Finish::Awaited(agent, notifications)
    } else {
        Finish::Late(agent, notifications)
    }))
}

/// Cancels an open call: it gets the outcome "canceled", which goes to its cycle or becomes an event, like any
/// other answer from outside.
pub(crate) fn cancel(
    db: &Connection,
    session: &Session,
    agent: AgentId,
    call: &CallId,
    at: Timestamp,
) -> Outcome<CanceledCall> {
    let row = known_agent(db, agent)?;
    let missing = || Denial::NotFound { what: "call", name: call.to_string() };
    let found = of_agent(db, row, call)?.ok_or_else(missing)?;
    let outcome = Answer::canceled(&found);
    let answer = FinishedCall { id: call.clone(), outcome, at, claim: None, if_claimed: None };
    match finish(db, session, &answer)? {
        Some(Finish::Awaited(_, notifications) | Finish::Late(_, notifications)) => {
            let call = CallRow { state: CallState::Done, outcome: Some(answer.outcome), ..found };
            Ok(CanceledCall { call, notifications })
        }
        Some(Finish::Already | Finish::NotClaimed) => {
            let ended = found.outcome.map_or("over", |outcome| outcome.status.as_str());
            Err(Denial::CallOver { call: call.clone(), ended }.into())
        }
        None => Err(missing().into()),
    }
}
