//! Promises about calls that an operator cancels: they are answered at once and never start afterwards.

use agent::call::{CallState, Outcome, OutcomeStatus};
use agent::changes::{CallChange, Changes, CommitKind, CommitOutcome, Idle};
use agent::id::{CallId, MessageId};
use agent::life::IdleReason;
use agent::port::{CanceledCall, Denial, Finish, FinishedCall, RegistryError, Wakeup};

use super::Backend;
use super::outside::cycle_with_call;
use super::visible_calls::shown_message;
use super::world::{CycleDriver, World, at, world};

async fn cancel(w: &World, call: &CallId) -> CanceledCall {
    w.b.registry.cancel_call(w.ada, call.clone()).await.unwrap()
}

async fn denied(w: &World, agent: agent::id::AgentId, call: &CallId) -> Denial {
    match w.b.registry.cancel_call(agent, call.clone()).await {
        Err(RegistryError::Denied(denial)) => denial,
        other => panic!("wanted a denial, got {other:?}"),
    }
}

fn change(driver: &CycleDriver, kind: CommitKind, call: &CallId, outcome: Option<Outcome>) -> Changes {
    let state = if outcome.is_some() { CallState::Done } else { CallState::Started };
    let change = CallChange { id: call.clone(), state, outcome };
    Changes { call_changes: vec![change], ..driver.changes(kind) }
}

/// The row has its outcome when the cancel returns, and the running cycle sees it with the next glance. A
/// second cancel and a cancel of an unknown or another agent's call are denied, each with its own reason.
pub async fn a_canceled_call_is_answered_at_once_and_only_once(b: Backend) {
    let w = world(b).await;
    let (driver, id) = cycle_with_call(&w, true).await;
    assert!(w.news(driver.lease).await.answered.is_empty());
    let canceled = cancel(&w, &id).await;
    let outcome = canceled.call.outcome.clone().unwrap();
    assert_eq!((canceled.call.state, outcome.status), (CallState::Done, OutcomeStatus::Canceled));
    assert!(outcome.text.contains("canceled by an operator before it began"), "{}", outcome.text);
    let news = w.news(driver.lease).await;
    assert_eq!(news.answered, [(id.clone(), outcome.clone())]);
    assert_eq!((news.glance.answered, news.glance.cancel), (1, false), "the cycle itself continues");
    assert_eq!(w.wake(w.ada).await.calls[0].outcome, Some(outcome));
    assert_eq!(denied(&w, w.ada, &id).await, Denial::CallOver { call: id.clone(), ended: "canceled" });
    let missing = |id: &CallId| Denial::NotFound { what: "call", name: id.to_string() };
    assert_eq!(denied(&w, w.bob, &id).await, missing(&id));
    let nothing = CallId("c-nothing".into());
    assert_eq!(denied(&w, w.ada, &nothing).await, missing(&nothing));
    let late =
        FinishedCall { id, outcome: Outcome::ok("too late"), at: at(2_000), claim: None, if_claimed: None };
    assert_eq!(w.b.calls.finish(late).await.unwrap(), Finish::Already);
}

/// The start is refused in its own transaction and returns the outcome in the row.
pub async fn a_canceled_call_never_starts(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = cycle_with_call(&w, true).await;
    let outcome = cancel(&w, &id).await.call.outcome.unwrap();
    let start = change(&driver, CommitKind::Start, &id, None);
    assert_eq!(w.commit(driver.lease, start).await, CommitOutcome::Answered(vec![(id.clone(), outcome)]));
    let row = w.wake(w.ada).await.calls.pop().unwrap();
    assert_eq!((row.state, row.outcome.map(|o| o.status)), (CallState::Done, Some(OutcomeStatus::Canceled)));
    // Nothing was written: the cycle continues from where it was.
    let closing = driver.closing();
    driver.commit(&w, closing).await;
}

/// The first outcome wins, so the model reads what the row holds.
pub async fn an_outcome_that_comes_after_a_cancel_is_not_written(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = cycle_with_call(&w, true).await;
    let start = change(&driver, CommitKind::Start, &id, None);
    driver.commit(&w, start).await;
    let canceled = cancel(&w, &id).await.call.outcome.unwrap();
    assert!(canceled.text.contains("unknown whether it happened"), "{}", canceled.text);
    let before = w.dump(w.ada).await;
    let mut settle = change(&driver, CommitKind::Settle, &id, Some(Outcome::ok("found")));
    settle.entries = vec![driver.entry(1, agent::entry::EntryKind::Outcomes, "found")];
    let answered = CommitOutcome::Answered(vec![(id.clone(), canceled.clone())]);
    assert_eq!(w.commit(driver.lease, settle).await, answered);
    assert_eq!(w.dump(w.ada).await, before);
    assert_eq!(w.wake(w.ada).await.calls[0].outcome, Some(canceled));
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    // In the opposite order the cancel comes too late.
    let (mut driver, id) = cycle_with_call(&w, true).await;
    let settle = change(&driver, CommitKind::Settle, &id, Some(Outcome::ok("found")));
    driver.commit(&w, settle).await;
    assert_eq!(denied(&w, w.ada, &id).await, Denial::CallOver { call: id, ended: "ok" });
}

/// A parked cycle continues. A backoff after a failure is not shortened.
pub async fn canceling_a_call_wakes_its_parked_cycle_but_does_not_shorten_a_backoff(b: Backend) {
    let w = world(b).await;
    for (reason, due) in [(None, vec![w.ada]), (Some(IdleReason::Provider), vec![])] {
        let (mut driver, id) = cycle_with_call(&w, true).await;
        let mut park = driver.changes(CommitKind::Park);
        park.idle = Some(Idle { not_before: Some(at(10_000_000_000_000)), reason });
        driver.commit(&w, park).await;
        let far = 9_000_000_000_000;
        assert_eq!(w.due(far).await, []);
        let wake = cancel(&w, &id).await.notifications.wake;
        assert_eq!(wake.iter().map(|wakeup: &Wakeup| wakeup.agent).collect::<Vec<_>>(), due);
        assert_eq!(w.due(far).await, due);
        let activation = w.wake(w.ada).await;
        assert_eq!(activation.calls[0].outcome.as_ref().map(|o| o.status), Some(OutcomeStatus::Canceled));
        let closing = driver.closing();
        driver.commit(&w, closing).await;
    }
}

/// As for any other late outcome.
pub async fn a_canceled_call_that_no_cycle_waits_for_becomes_an_event(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = cycle_with_call(&w, false).await;
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    let notifications = cancel(&w, &id).await.notifications;
    assert_eq!(notifications.wake.iter().map(|wakeup| wakeup.agent).collect::<Vec<_>>(), [w.ada]);
    assert_eq!(w.state(w.ada, &format!("result:{id}")).await, "waiting");
}

/// Its message in the space changes with the row, and watchers are notified.
pub async fn a_visible_call_shows_that_it_is_canceled(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "hello").await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision_with(vec![driver.outward(0, true)]);
    decision.shows = vec![shown_message(&driver, w.team, &decision.calls[0])];
    let id = decision.calls[0].id.clone();
    let (_, notifications) = driver.commit(&w, decision).await;
    let running = notifications.messages[0].rev;
    let said = cancel(&w, &id).await.notifications.messages;
    assert_eq!((said.len(), said[0].text.as_str(), said[0].rev), (1, "[fetch: error]", running + 1));
    assert_eq!(said[0].data.as_ref().unwrap()["status"], "canceled");
    assert_eq!(w.b.reader.message(MessageId::of_card(&id)).await.unwrap().as_ref(), Some(&said[0].message));
}

/// The unanswered calls of the open cycle, in order.
pub async fn only_calls_without_an_outcome_are_listed_as_open(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let decision =
        driver.decision_with(vec![driver.call(0), driver.outward(1, true), driver.outward(2, true)]);
    let ids: Vec<CallId> = decision.calls.iter().map(|call| call.id.clone()).collect();
    driver.commit(&w, decision).await;
    let open = async || -> Vec<CallId> {
        w.b.reader.open_calls(w.ada).await.unwrap().into_iter().map(|row| row.id).collect()
    };
    assert_eq!(open().await, ids[1..]);
    cancel(&w, &ids[1]).await;
    assert_eq!(open().await, ids[2..]);
    assert_eq!(w.b.reader.open_calls(w.bob).await.unwrap(), []);
}
