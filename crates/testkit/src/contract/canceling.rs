//! Single calls taken back by an operator: answered at once, in one place, and never begun after that.

use agent::call::{CallState, Outcome, OutcomeStatus};
use agent::changes::{CallChange, Changes, CommitKind, CommitOutcome, Idle};
use agent::id::{CallId, MessageId};
use agent::life::IdleReason;
use agent::port::{CanceledCall, Denial, Finish, FinishedCall, RegistryError, Wakeup};

use super::Backend;
use super::outside::asked;
use super::shown::shown;
use super::world::{Living, World, at, world};

async fn cancel(w: &World, call: &CallId) -> CanceledCall {
    w.b.registry.cancel_call(w.ada, call.clone()).await.unwrap()
}

async fn denied(w: &World, agent: agent::id::AgentId, call: &CallId) -> Denial {
    match w.b.registry.cancel_call(agent, call.clone()).await {
        Err(RegistryError::Denied(denial)) => denial,
        other => panic!("wanted a denial, got {other:?}"),
    }
}

fn change(living: &Living, kind: CommitKind, call: &CallId, outcome: Option<Outcome>) -> Changes {
    let state = if outcome.is_some() { CallState::Done } else { CallState::Started };
    let change = CallChange { id: call.clone(), state, outcome };
    Changes { call_changes: vec![change], ..living.changes(kind) }
}

/// The row has its outcome when the cancel returns, and the living hear of it with the next glance. A
/// second cancel, a cancel of nothing and one of another agent's call are told apart.
pub async fn a_canceled_call_is_answered_at_once_and_only_once(b: Backend) {
    let w = world(b).await;
    let (living, id) = asked(&w, true).await;
    assert!(w.news(living.lease).await.answered.is_empty());
    let canceled = cancel(&w, &id).await;
    let outcome = canceled.call.outcome.clone().unwrap();
    assert_eq!((canceled.call.state, outcome.status), (CallState::Done, OutcomeStatus::Canceled));
    assert!(outcome.text.contains("canceled by an operator before it began"), "{}", outcome.text);
    let news = w.news(living.lease).await;
    assert_eq!(news.answered, [(id.clone(), outcome.clone())]);
    assert_eq!((news.glance.answered, news.glance.cancel), (1, false), "the cycle itself goes on");
    assert_eq!(w.wake(w.ada).await.calls[0].outcome, Some(outcome));
    assert_eq!(denied(&w, w.ada, &id).await, Denial::CallOver { call: id.clone(), ended: "canceled" });
    let missing = |id: &CallId| Denial::NotFound { what: "call", name: id.to_string() };
    assert_eq!(denied(&w, w.bob, &id).await, missing(&id));
    let nothing = CallId("c-nothing".into());
    assert_eq!(denied(&w, w.ada, &nothing).await, missing(&nothing));
    let late = FinishedCall { id, outcome: Outcome::ok("too late"), at: at(2_000) };
    assert_eq!(w.b.calls.finish(late).await.unwrap(), Finish::Already);
}

/// The start is refused in its own transaction, with the outcome that stands in the row.
pub async fn a_canceled_call_never_starts(b: Backend) {
    let w = world(b).await;
    let (mut living, id) = asked(&w, true).await;
    let outcome = cancel(&w, &id).await.call.outcome.unwrap();
    let start = change(&living, CommitKind::Start, &id, None);
    assert_eq!(w.commit(living.lease, start).await, CommitOutcome::Answered(vec![(id.clone(), outcome)]));
    let row = w.wake(w.ada).await.calls.pop().unwrap();
    assert_eq!((row.state, row.outcome.map(|o| o.status)), (CallState::Done, Some(OutcomeStatus::Canceled)));
    // Nothing was written: the cycle goes on from where it was.
    let closing = living.closing();
    living.done(&w, closing).await;
}

/// Whoever is first has answered: what the model reads is what the row says.
pub async fn an_outcome_that_comes_after_a_cancel_is_not_written(b: Backend) {
    let w = world(b).await;
    let (mut living, id) = asked(&w, true).await;
    let start = change(&living, CommitKind::Start, &id, None);
    living.done(&w, start).await;
    let canceled = cancel(&w, &id).await.call.outcome.unwrap();
    assert!(canceled.text.contains("unknown whether it happened"), "{}", canceled.text);
    let before = w.dump(w.ada).await;
    let mut settle = change(&living, CommitKind::Settle, &id, Some(Outcome::ok("found")));
    settle.entries = vec![living.entry(1, agent::entry::EntryKind::Outcomes, "found")];
    let answered = CommitOutcome::Answered(vec![(id.clone(), canceled.clone())]);
    assert_eq!(w.commit(living.lease, settle).await, answered);
    assert_eq!(w.dump(w.ada).await, before);
    assert_eq!(w.wake(w.ada).await.calls[0].outcome, Some(canceled));
    let closing = living.closing();
    living.done(&w, closing).await;
    // The other way round the cancel is what comes too late.
    let (mut living, id) = asked(&w, true).await;
    let settle = change(&living, CommitKind::Settle, &id, Some(Outcome::ok("found")));
    living.done(&w, settle).await;
    assert_eq!(denied(&w, w.ada, &id).await, Denial::CallOver { call: id, ended: "ok" });
}

/// A parked cycle goes on; a rest that a failure made necessary is not cut short.
pub async fn who_sleeps_on_a_canceled_call_is_due_and_who_rests_for_a_failure_is_not(b: Backend) {
    let w = world(b).await;
    for (reason, due) in [(None, vec![w.ada]), (Some(IdleReason::Provider), vec![])] {
        let (mut living, id) = asked(&w, true).await;
        let mut park = living.changes(CommitKind::Park);
        park.idle = Some(Idle { not_before: Some(at(10_000_000_000_000)), reason });
        living.done(&w, park).await;
        let far = 9_000_000_000_000;
        assert_eq!(w.due(far).await, []);
        let wake = cancel(&w, &id).await.echo.wake;
        assert_eq!(wake.iter().map(|waken: &Wakeup| waken.agent).collect::<Vec<_>>(), due);
        assert_eq!(w.due(far).await, due);
        let activation = w.wake(w.ada).await;
        assert_eq!(activation.calls[0].outcome.as_ref().map(|o| o.status), Some(OutcomeStatus::Canceled));
        let closing = living.closing();
        living.done(&w, closing).await;
    }
}

/// As any other late outcome.
pub async fn a_canceled_call_that_no_cycle_waits_for_is_told_by_an_event(b: Backend) {
    let w = world(b).await;
    let (mut living, id) = asked(&w, false).await;
    let closing = living.closing();
    living.done(&w, closing).await;
    let echo = cancel(&w, &id).await.echo;
    assert_eq!(echo.wake.iter().map(|waken| waken.agent).collect::<Vec<_>>(), [w.ada]);
    assert_eq!(w.state(w.ada, &format!("result:{id}")).await, "waiting");
}

/// Its message in the space changes with the row, and is told on.
pub async fn a_canceled_call_that_is_shown_says_so(b: Backend) {
    let w = world(b).await;
    w.say(w.team, "hello").await;
    let mut living = w.open(w.ada).await;
    let mut decision = living.asking(vec![living.outward(0, true)]);
    decision.shows = vec![shown(&living, w.team, &decision.calls[0])];
    let id = decision.calls[0].id.clone();
    let (_, echo) = living.done(&w, decision).await;
    let running = echo.messages[0].rev;
    let said = cancel(&w, &id).await.echo.messages;
    assert_eq!((said.len(), said[0].text.as_str(), said[0].rev), (1, "[fetch: error]", running + 1));
    assert_eq!(said[0].data.as_ref().unwrap()["status"], "canceled");
    assert_eq!(w.b.reader.message(MessageId::of_call(&id)).await.unwrap().as_ref(), Some(&said[0].message));
}

/// Of the cycle at work, in order; not what was answered.
pub async fn only_calls_without_an_answer_are_listed_as_open(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let decision = living.asking(vec![living.call(0), living.outward(1, true), living.outward(2, true)]);
    let ids: Vec<CallId> = decision.calls.iter().map(|call| call.id.clone()).collect();
    living.done(&w, decision).await;
    let open = async || -> Vec<CallId> {
        w.b.reader.open_calls(w.ada).await.unwrap().into_iter().map(|row| row.id).collect()
    };
    assert_eq!(open().await, ids[1..]);
    cancel(&w, &ids[1]).await;
    assert_eq!(open().await, ids[2..]);
    assert_eq!(w.b.reader.open_calls(w.bob).await.unwrap(), []);
}
