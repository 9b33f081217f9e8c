//! Outcomes from outside the cycle: compare-and-set on the call row, so the first one wins.

use agent::answers::{self, Destination};
use agent::approval::ApprovalState;
use agent::call::{CallRow, CallState, Effect, Outcome as Answer};
use agent::changes::Notifications;
use agent::event::EventState;
use agent::fencing;
use agent::id::{AgentId, CallId, ClaimId, CycleId};
use agent::port::{
    Beginning, BoxFuture, CallError, Calls, CanceledCall, Claimed, Denial, DetachedCall, Finish,
    FinishedCall, StoreError, Wakeup, WorkerCall,
};
use jiff::Timestamp;
use rusqlite::Connection;

use crate::sqlite::engine::fault::{Outcome, damaged, name_agent};
use crate::sqlite::ports::quarantine::Access;
use crate::sqlite::ports::{Caller, Sqlite};
use crate::sqlite::tables::agents::known_agent;
use crate::sqlite::tables::calls::{self, AgentCall, CALL, detached, of_agent};
use crate::sqlite::tables::events::{Head, admit};
use crate::sqlite::tables::life::Life;
use crate::sqlite::tables::rows::{first, time, u32_at, uuid_at};
use crate::sqlite::tables::session::Session;
use crate::sqlite::tables::{approval_rules, shift, show, urgent, waits};

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

    fn may_begin(&self, call: CallId, barrier: bool) -> BoxFuture<'_, Result<Beginning, StoreError>> {
        let done =
            self.read_inline(Caller::Agents, move |db, session| beginning(db, session, &call, barrier));
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
    let Some(open) = OpenCall::read(db, call)?.filter(|open| open.is_planned) else { return Ok(None) };
    let Some(life) = Life::read(db, open.agent)? else { return Ok(Some(Claimed::Refused)) };
    if !fencing::may_begin(&life.row, open.cycle) {
        return Ok(Some(Claimed::Refused));
    }
    Ok((barrier && open.is_held_back(db, &life)?).then_some(Claimed::HeldBack))
}

/// Whether a call that the server runs may begin. Urgent events of the requester hold it back while its cycle is open.
fn beginning(db: &Connection, session: &Session, call: &CallId, barrier: bool) -> Outcome<Beginning> {
    if is_ruled_out(db, session, call)? {
        return Ok(Beginning::RuleOver);
    }
    let Some(open) = OpenCall::read(db, call)?.filter(|_| barrier) else { return Ok(Beginning::Free) };
    let life = Life::read(db, open.agent)?.filter(|life| life.row.open == Some(open.cycle));
    match life.map(|life| open.is_held_back(db, &life)).transpose()? {
        Some(true) => Ok(Beginning::HeldBack),
        Some(false) | None => Ok(Beginning::Free),
    }
}

/// What of a call without an outcome decides whether it may begin.
struct OpenCall {
    agent: AgentId,
    cycle: CycleId,
    is_unsafe: bool,
    is_planned: bool,
    approved: Option<Timestamp>,
}

impl OpenCall {
    fn read(db: &Connection, call: &CallId) -> Outcome<Option<Self>> {
        let sql = "SELECT e.uuid, c.cycle, c.effect, c.state, c.approval FROM call c JOIN entity e ON e.id = c.agent \
                   WHERE c.id = ? AND c.state <> 'done'";
        first(db, sql, [&call.0], |row| {
            let (effect, state): (String, String) = (row.get(2)?, row.get(3)?);
            Ok(Self {
                agent: AgentId(uuid_at(row, 0)?),
                cycle: CycleId(uuid_at(row, 1)?),
                is_unsafe: effect == Effect::Unsafe.as_str(),
                is_planned: state == CallState::Planned.as_str(),
                approved: calls::approval_or_none(row, 4)?.and_then(|approval| Some(approval.by?.at)),
            })
        })
    }

    /// Whether its requester has sent an urgent event, after it was approved if it was, that the agent has not read.
    fn is_held_back(&self, db: &Connection, life: &Life) -> Outcome<bool> {
        let requesters = || urgent::requesters(db, life.agent);
        Ok(self.is_unsafe && urgent::waits_of(db, life, &requesters()?, self.approved)?)
    }
}

/// Whether no worker has the call yet, and the rule by which it needs no approval does not hold any more.
fn is_ruled_out(db: &Connection, session: &Session, call: &CallId) -> Outcome<bool> {
    let sql = format!(
        "SELECT {CALL}, agent FROM call WHERE id = ? AND by_rule IS NOT NULL AND claim IS NULL AND state <> 'done'"
    );
    let found = first(db, &sql, [&call.0], |row| Ok((calls::call_at(row, 0)?, row.get::<_, i64>(16)?)))?;
    let Some((row, agent)) = found else { return Ok(false) };
    let now = session.now();
    Ok(!row.is_ruled_in(&approval_rules::in_force(db, agent, now)?, now))
}

pub(super) fn finish(db: &Connection, session: &Session, answer: &FinishedCall) -> Outcome<Option<Finish>> {
    let FinishedCall { id, outcome, at, claim: by, if_claimed } = answer;
    let Some(mut call) = calls::with_agent(db, id)? else { return Ok(None) };
    if by.is_some_and(|by| call.row.claim != Some(by)) {
        return Ok(Some(Finish::NotClaimed));
    }
    let outcome = if_claimed.as_ref().filter(|_| call.row.claim.is_some()).unwrap_or(outcome);
    // The outcome of a detached call that goes on is "pending"; its state tells whether the call is over.
    let late = by.is_some() && call.row.outcome.as_ref().is_some_and(answers::answers_unknown);
    if call.row.state == CallState::Done && !late {
        return Ok(Some(Finish::Already));
    }
    if let Some(approval) = call.row.approval.as_mut().filter(|_| call.asks) {
        approval.state = ApprovalState::Canceled;
    }
    call.row.outcome = Some(outcome.clone());
    let (destination, notifications) = end(db, session, &mut call, *at, late)?;
    Ok(Some(match destination {
        Destination::Cycle => Finish::Awaited(call.agent, notifications),
        Destination::Inbox | Destination::Nobody => Finish::Late(call.agent, notifications),
    }))
}

/// Writes the outcome in the call's row, and tells whom it concerns. `late`: after an outcome that said it is unknown.
pub(super) fn end(
    db: &Connection,
    session: &Session,
    call: &mut AgentCall,
    at: Timestamp,
    late: bool,
) -> Outcome<(Destination, Notifications)> {
    call.row.state = CallState::Done;
    let AgentCall { agent_row, agent, standing, open, cause, row, .. } = &*call;
    let (agent_row, agent, standing) = (*agent_row, *agent, *standing);
    calls::end(db, row)?;
    let messages = show::update(db, row)?.into_iter().collect();
    let destination = answers::destination(row.awaited && !late, row.cycle, *open, standing);
    let due = match destination {
        Destination::Cycle => {
            shift::settle(db, session, agent_row)?;
            let at = at.min(session.now());
            waits::answer(db, agent_row, standing, at)?.then_some(at)
        }
        Destination::Inbox => {
            let mut head = Head::read(db, session, agent_row).map_err(name_agent(agent))?;
            let outcome = row.outcome.as_ref().ok_or_else(|| damaged("a call that ends has no outcome"))?;
            let event = answers::event(row, outcome, cause.clone(), at, late);
            admit(db, session, &mut head, &event, None, &EventState::Waiting)?.map(time).transpose()?
        }
        Destination::Nobody => None,
    };
    let wake = due.map(|at| Wakeup { agent, at, urgent: false }).into_iter().collect();
    let notifications = Notifications { messages, wake, ..Notifications::default() };
    Ok((destination, notifications))
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
