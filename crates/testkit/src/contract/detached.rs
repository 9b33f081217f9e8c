//! Promises about calls that outlive their cycle: the next start finds them, and each result is one event.

use agent::call::{CallState, Outcome, OutcomeStatus};
use agent::changes::{CallChange, Changes, CommitKind, CommitOutcome};
use agent::event::{EventData, EventKind};
use agent::id::{CallId, RootId};
use agent::limits;
use agent::port::{Finish, FinishedCall};

use super::Backend;
use super::outside::cycle_with_call;
use super::world::{CycleDriver, World, at, world};

fn detaching(driver: &CycleDriver, call: &CallId) -> Changes {
    let (id, outcome) = (call.clone(), Some(Outcome::pending(call)));
    let change = CallChange { id, state: CallState::Detached, outcome };
    Changes { call_changes: vec![change], ..driver.changes(CommitKind::Settle) }
}

async fn detach(w: &World, driver: &mut CycleDriver, call: &CallId) {
    let settle = detaching(driver, call);
    driver.commit(w, settle).await;
}

async fn finish(w: &World, call: &CallId, text: &str) -> Finish {
    let answer = FinishedCall {
        id: call.clone(),
        outcome: Outcome::ok(text),
        at: at(2_000),
        claim: None,
        if_claimed: None,
    };
    w.b.calls.finish(answer).await.unwrap()
}

async fn found(w: &World, after: Option<CallId>) -> Vec<CallId> {
    let found = w.b.calls.detached(after, 10).await.unwrap();
    found.into_iter().map(|detached| detached.row.id).collect()
}

/// The late results that wait for the agent.
async fn results(w: &World) -> Vec<EventData> {
    let activation = w.b.store.wake(w.ada, at(3_000), None).await.unwrap().unwrap();
    let late = activation.waiting.into_iter().filter(|waiting| waiting.event.kind == EventKind::ToolResult);
    late.map(|waiting| waiting.event.data).collect()
}

/// Detached calls are listed in pages by id. Each start that takes one over is counted first. An answered call
/// is not taken over.
pub async fn a_detached_call_is_found_taken_over_and_answered_by_an_event(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = cycle_with_call(&w, false).await;
    assert_eq!(found(&w, None).await, [], "a call that has not started belongs to its cycle");
    assert_eq!(w.b.calls.take_up(id.clone()).await.unwrap(), None);
    detach(&w, &mut driver, &id).await;
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    assert_eq!(found(&w, None).await, std::slice::from_ref(&id));
    assert_eq!(found(&w, Some(id.clone())).await, []);
    let page = w.b.calls.detached(None, 10).await.unwrap();
    assert_eq!((page[0].agent, page[0].row.state, page[0].row.awaited), (w.ada, CallState::Detached, false));
    for times in 1..=2 {
        assert_eq!(w.b.calls.take_up(id.clone()).await.unwrap(), Some(times));
    }
    let pending = w.wake(w.ada).await.facts.pending;
    assert_eq!(pending.iter().map(|call| &call.id).collect::<Vec<_>>(), [&id]);
    let Finish::Late(agent, notifications) = finish(&w, &id, "at last").await else {
        panic!("wanted it late")
    };
    assert_eq!((agent, notifications.wake.len()), (w.ada, 1));
    assert_eq!(finish(&w, &id, "again").await, Finish::Already);
    assert_eq!((found(&w, None).await, w.b.calls.take_up(id.clone()).await.unwrap()), (vec![], None));
    let [EventData::ToolResult { call, text, status, .. }] = &results(&w).await[..] else {
        panic!("wanted one")
    };
    assert_eq!((call, text.as_str(), *status), (&id, "at last", Some(OutcomeStatus::Ok)));
    assert!(w.wake(w.ada).await.facts.pending.is_empty());
}

/// After an awaited call has timed out, its answer is an event, even while the cycle is open.
pub async fn a_detached_call_is_no_longer_awaited(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = cycle_with_call(&w, true).await;
    let (glance, _) = {
        let settle = detaching(&driver, &id);
        driver.commit(&w, settle).await
    };
    assert_eq!(glance.detached, 1);
    assert!(matches!(finish(&w, &id, "late").await, Finish::Late(..)));
    let glance = w.news(driver.lease).await.glance;
    assert_eq!((glance.answered, glance.detached, glance.waiting), (0, 0, 1));
}

/// If the cycle awaits the call, the answer is the outcome and the detachment is not written. If not, the
/// answer is an event and the detachment reports nothing.
pub async fn an_answer_before_the_detachment_is_reported_once(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = cycle_with_call(&w, true).await;
    assert!(matches!(finish(&w, &id, "just in time").await, Finish::Awaited(..)));
    let answered = CommitOutcome::Answered(vec![(id.clone(), Outcome::ok("just in time"))]);
    assert_eq!(w.commit(driver.lease, detaching(&driver, &id)).await, answered);
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    assert_eq!(results(&w).await, []);
    let (mut driver, id) = cycle_with_call(&w, false).await;
    assert!(matches!(finish(&w, &id, "very soon").await, Finish::Late(..)));
    detach(&w, &mut driver, &id).await;
    assert_eq!((results(&w).await.len(), found(&w, None).await), (1, vec![]));
    assert_eq!(w.wake(w.ada).await.calls[0].outcome, Some(Outcome::ok("very soon")));
}

/// The event has the start and the end of the text, the row has all of it.
pub async fn a_late_answer_is_shown_shortened_and_stored_in_full(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = cycle_with_call(&w, false).await;
    detach(&w, &mut driver, &id).await;
    let text = "x".repeat(10 * limits::RESULT_MAX_BYTES);
    finish(&w, &id, &text).await;
    let [EventData::ToolResult { text: short, .. }] = &results(&w).await[..] else { panic!("wanted one") };
    assert!(short.len() < limits::RESULT_MAX_BYTES + 100 && short.contains("bytes left out"));
    assert_eq!(w.wake(w.ada).await.calls[0].outcome, Some(Outcome::ok(text)));
}

/// Otherwise two agents that answer each other through calls would never stop.
pub async fn a_late_answer_keeps_the_root_and_hop_of_its_call(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    driver.open.root = RootId("a long story".into());
    driver.open.hop = 5;
    let decision = driver.decision_with(vec![driver.outward(0, false)]);
    let id = decision.calls[0].id.clone();
    driver.commit(&w, decision).await;
    detach(&w, &mut driver, &id).await;
    let page = w.b.calls.detached(None, 10).await.unwrap();
    assert_eq!((page[0].root.0.as_str(), page[0].hop), ("a long story", 5));
    finish(&w, &id, "x").await;
    let activation = w.b.store.wake(w.ada, at(3_000), None).await.unwrap().unwrap();
    let late = activation.waiting.iter().find(|waiting| waiting.event.kind == EventKind::ToolResult).unwrap();
    assert_eq!((late.event.envelope.root.0.as_str(), late.event.envelope.hop), ("a long story", 5));
}
