//! Calls that go on beyond their cycle: found again by whoever starts next, told by one event each.

use agent::call::{CallState, Outcome, OutcomeStatus};
use agent::changes::{CallChange, Changes, CommitKind, CommitOutcome};
use agent::event::{EventData, EventKind};
use agent::id::{CallId, RootId};
use agent::limits;
use agent::port::{Finish, FinishedCall};

use super::Backend;
use super::outside::asked;
use super::world::{Living, World, at, world};

fn detaching(living: &Living, call: &CallId) -> Changes {
    let (id, outcome) = (call.clone(), Some(Outcome::pending(call)));
    let change = CallChange { id, state: CallState::Detached, outcome };
    Changes { call_changes: vec![change], ..living.changes(CommitKind::Settle) }
}

async fn detach(w: &World, living: &mut Living, call: &CallId) {
    let settle = detaching(living, call);
    living.done(w, settle).await;
}

async fn finish(w: &World, call: &CallId, text: &str) -> Finish {
    let answer = FinishedCall { id: call.clone(), outcome: Outcome::ok(text), at: at(2_000) };
    w.b.calls.finish(answer).await.unwrap()
}

async fn found(w: &World, after: Option<CallId>) -> Vec<CallId> {
    let found = w.b.calls.detached(after, 10).await.unwrap();
    found.into_iter().map(|detached| detached.row.id).collect()
}

/// What the agent is told, without being awake.
async fn results(w: &World) -> Vec<EventData> {
    let activation = w.b.store.wake(w.ada, at(3_000), None).await.unwrap().unwrap();
    let late = activation.waiting.into_iter().filter(|waiting| waiting.event.kind == EventKind::ToolResult);
    late.map(|waiting| waiting.event.data).collect()
}

/// By its id, page by page; each start that takes it up is counted before it does; none does once it is
/// answered.
pub async fn a_detached_call_is_found_taken_up_and_answered_by_an_event(b: Backend) {
    let w = world(b).await;
    let (mut living, id) = asked(&w, false).await;
    assert_eq!(found(&w, None).await, [], "one that is not begun belongs to its cycle");
    assert_eq!(w.b.calls.take_up(id.clone()).await.unwrap(), None);
    detach(&w, &mut living, &id).await;
    let closing = living.closing();
    living.done(&w, closing).await;
    assert_eq!(found(&w, None).await, std::slice::from_ref(&id));
    assert_eq!(found(&w, Some(id.clone())).await, []);
    let page = w.b.calls.detached(None, 10).await.unwrap();
    assert_eq!((page[0].agent, page[0].row.state, page[0].row.awaited), (w.ada, CallState::Detached, false));
    for times in 1..=2 {
        assert_eq!(w.b.calls.take_up(id.clone()).await.unwrap(), Some(times));
    }
    let pending = w.wake(w.ada).await.facts.pending;
    assert_eq!(pending.iter().map(|call| &call.id).collect::<Vec<_>>(), [&id]);
    let Finish::Late(agent, echo) = finish(&w, &id, "at last").await else { panic!("wanted it late") };
    assert_eq!((agent, echo.wake.len()), (w.ada, 1));
    assert_eq!(finish(&w, &id, "again").await, Finish::Already);
    assert_eq!((found(&w, None).await, w.b.calls.take_up(id.clone()).await.unwrap()), (vec![], None));
    let [EventData::ToolResult { call, text, status, .. }] = &results(&w).await[..] else {
        panic!("wanted one")
    };
    assert_eq!((call, text.as_str(), *status), (&id, "at last", Some(OutcomeStatus::Ok)));
    assert!(w.wake(w.ada).await.facts.pending.is_empty());
}

/// It was awaited, it timed out: its answer is an event also while the cycle is open.
pub async fn what_its_cycle_detaches_is_awaited_no_more(b: Backend) {
    let w = world(b).await;
    let (mut living, id) = asked(&w, true).await;
    let (glance, _) = {
        let settle = detaching(&living, &id);
        living.done(&w, settle).await
    };
    assert_eq!(glance.detached, 1);
    assert!(matches!(finish(&w, &id, "late").await, Finish::Late(..)));
    let glance = w.news(living.lease).await.glance;
    assert_eq!((glance.answered, glance.detached, glance.waiting), (0, 0, 1));
}

/// Where the cycle waits it is the outcome, and the detachment is not written; where it does not, it is
/// an event, and the detachment says nothing of it.
pub async fn an_answer_that_comes_before_the_detachment_is_told_once(b: Backend) {
    let w = world(b).await;
    let (mut living, id) = asked(&w, true).await;
    assert!(matches!(finish(&w, &id, "just in time").await, Finish::Awaited(..)));
    let answered = CommitOutcome::Answered(vec![(id.clone(), Outcome::ok("just in time"))]);
    assert_eq!(w.commit(living.lease, detaching(&living, &id)).await, answered);
    let closing = living.closing();
    living.done(&w, closing).await;
    assert_eq!(results(&w).await, []);
    let (mut living, id) = asked(&w, false).await;
    assert!(matches!(finish(&w, &id, "very soon").await, Finish::Late(..)));
    detach(&w, &mut living, &id).await;
    assert_eq!((results(&w).await.len(), found(&w, None).await), (1, vec![]));
    assert_eq!(w.wake(w.ada).await.calls[0].outcome, Some(Outcome::ok("very soon")));
}

/// Head and tail; the row has all of it.
pub async fn a_late_answer_is_told_in_short_and_kept_whole(b: Backend) {
    let w = world(b).await;
    let (mut living, id) = asked(&w, false).await;
    detach(&w, &mut living, &id).await;
    let text = "x".repeat(10 * limits::RESULT_MAX_BYTES);
    finish(&w, &id, &text).await;
    let [EventData::ToolResult { text: short, .. }] = &results(&w).await[..] else { panic!("wanted one") };
    assert!(short.len() < limits::RESULT_MAX_BYTES + 100 && short.contains("bytes left out"));
    assert_eq!(w.wake(w.ada).await.calls[0].outcome, Some(Outcome::ok(text)));
}

/// Else two agents that answer by way of calls would never come to their end.
pub async fn a_late_answer_descends_from_what_asked_for_it(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    living.open.root = RootId("a long story".into());
    living.open.hop = 5;
    let decision = living.asking(vec![living.outward(0, false)]);
    let id = decision.calls[0].id.clone();
    living.done(&w, decision).await;
    detach(&w, &mut living, &id).await;
    let page = w.b.calls.detached(None, 10).await.unwrap();
    assert_eq!((page[0].root.0.as_str(), page[0].hop), ("a long story", 5));
    finish(&w, &id, "x").await;
    let activation = w.b.store.wake(w.ada, at(3_000), None).await.unwrap().unwrap();
    let late = activation.waiting.iter().find(|waiting| waiting.event.kind == EventKind::ToolResult).unwrap();
    assert_eq!((late.event.envelope.root.0.as_str(), late.event.envelope.hop), ("a long story", 5));
}
