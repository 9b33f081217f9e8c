//! Promises about calls that workers run: who has one is durable, and only who has it answers it.

use agent::approval::{Answerer, PersonVerdict};
use agent::call::{CallRow, CallState, Outcome, OutcomeStatus, Runner};
use agent::changes::{CallChange, CommitKind};
use agent::event::{EventData, EventKind, Principal};
use agent::id::{CallId, ClaimId};
use agent::life::{Requester, Standing};
use agent::port::{Beginning, Claimed, Finish, FinishedCall, PersonAnswer, PersonAnswered};
use uuid::Uuid;

use super::Backend;
use super::approvals::{asked, plain};
use super::outside::cycle_with_call;
use super::world::{CycleDriver, World, at, world};

fn claim(n: u128) -> ClaimId {
    ClaimId(Uuid::from_u128(n))
}

/// A cycle with one call that workers run.
async fn cycle_with_workers_call(w: &World, awaited: bool) -> (CycleDriver, CallId) {
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let row = CallRow { runner: Runner::Worker, ..driver.outward(0, awaited) };
    let id = row.id.clone();
    let decision = driver.decision_with(vec![row]);
    driver.commit(w, decision).await;
    (driver, id)
}

async fn finish(w: &World, call: &CallId, by: ClaimId, text: &str) -> Finish {
    let (id, outcome) = (call.clone(), Outcome::ok(text));
    w.b.calls
        .finish(FinishedCall { id, outcome, at: at(2_000), claim: Some(by), if_claimed: None })
        .await
        .unwrap()
}

/// The claim is in the row, so a restart knows it, and the call counts as started.
pub async fn a_call_of_workers_is_claimed_by_one_at_a_time_and_answered_by_its_newest(b: Backend) {
    let w = world(b).await;
    let (_, id) = cycle_with_workers_call(&w, true).await;
    assert_eq!(w.wake(w.ada).await.calls[0].claim, None);
    assert_eq!(finish(&w, &id, claim(1), "too early").await, Finish::NotClaimed);
    assert_eq!(w.b.calls.claim(id.clone(), claim(1), true).await.unwrap(), Claimed::Given(1));
    let row = w.wake(w.ada).await.calls.remove(0);
    assert_eq!((row.runner, row.claim, row.state), (Runner::Worker, Some(claim(1)), CallState::Started));
    let found = w.b.calls.worker_call(id.clone()).await.unwrap().unwrap();
    assert_eq!((found.agent, found.row, found.times), (w.ada, row, 1));
    assert_eq!(w.b.calls.claimed(claim(1)).await.unwrap().unwrap().row.id, id);
    assert_eq!(w.b.calls.claim(id.clone(), claim(2), true).await.unwrap(), Claimed::Given(2));
    assert_eq!(w.b.calls.claimed(claim(1)).await.unwrap(), None, "it has another claim");
    assert_eq!(finish(&w, &id, claim(1), "of the first").await, Finish::NotClaimed);
    assert!(matches!(finish(&w, &id, claim(2), "of the second").await, Finish::Awaited(..)));
    assert_eq!(finish(&w, &id, claim(2), "again").await, Finish::Already);
    assert_eq!(w.b.calls.claimed(claim(2)).await.unwrap(), None, "it is over");
    assert_eq!(w.wake(w.ada).await.calls[0].outcome, Some(Outcome::ok("of the second")));
}

/// A detached call may still be claimed; its answer is an event.
pub async fn only_open_calls_of_workers_can_be_claimed(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = cycle_with_workers_call(&w, false).await;
    let change =
        CallChange { id: id.clone(), state: CallState::Detached, outcome: Some(Outcome::pending(&id)) };
    let mut settle = driver.changes(CommitKind::Settle);
    settle.call_changes = vec![change];
    driver.commit(&w, settle).await;
    assert_eq!(w.b.calls.claim(id.clone(), claim(1), true).await.unwrap(), Claimed::Given(1));
    assert_eq!(w.b.calls.worker_call(id.clone()).await.unwrap().unwrap().row.state, CallState::Detached);
    assert!(matches!(finish(&w, &id, claim(1), "late").await, Finish::Late(..)));
    assert_eq!(w.b.calls.claim(id, claim(2), true).await.unwrap(), Claimed::Refused, "it is over");
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    let (_, own) = cycle_with_call(&w, true).await;
    assert_eq!(
        w.b.calls.claim(own.clone(), claim(3), true).await.unwrap(),
        Claimed::Refused,
        "the server runs it"
    );
    assert_eq!(w.b.calls.worker_call(own).await.unwrap(), None);
    assert_eq!(w.b.calls.claim(CallId("c-nothing".into()), claim(4), true).await.unwrap(), Claimed::Refused);
}

/// What refuses the start of a call in this process refuses its claim. One that has begun stays its worker's.
pub async fn a_call_that_may_not_begin_is_given_to_no_worker(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = cycle_with_workers_call(&w, true).await;
    let claimed = async |n, barrier| w.b.calls.claim(id.clone(), claim(n), barrier).await.unwrap();
    w.b.registry.set_standing(w.ada, Standing::Suspended, at(1_500)).await.unwrap();
    assert_eq!(claimed(1, true).await, Claimed::Refused, "its agent is suspended");
    w.b.registry.set_standing(w.ada, Standing::Active, at(1_600)).await.unwrap();
    let requester = Requester { principal: Principal::Entity(w.husam), space: Some(w.family) };
    driver.open.requesters = vec![requester];
    let settle = driver.changes(CommitKind::Settle);
    driver.commit(&w, settle).await;
    w.post(w.family, "stop!").await;
    assert_eq!(claimed(2, true).await, Claimed::HeldBack);
    let looked = async |barrier| w.b.calls.may_begin(id.clone(), barrier).await.unwrap();
    assert_eq!((looked(true).await, looked(false).await), (Beginning::HeldBack, Beginning::Free));
    assert_eq!(w.wake(w.ada).await.calls[0].state, CallState::Planned, "nothing was written");
    assert_eq!(claimed(3, false).await, Claimed::Given(1), "the agent has no barrier");
    assert_eq!(claimed(4, true).await, Claimed::Given(2), "it has begun");
    w.b.registry.set_standing(w.ada, Standing::Suspended, at(1_700)).await.unwrap();
    assert_eq!(claimed(5, true).await, Claimed::Given(3), "it has begun");
}

/// No worker gets a call before the person for whom it waits has answered.
pub async fn a_call_that_waits_for_a_person_is_given_to_no_worker(b: Backend) {
    let w = world(b).await;
    let of_worker = |row, approval| CallRow { runner: Runner::Worker, ..plain(row, approval) };
    let (_, id) = asked(&w, of_worker).await;
    assert_eq!(w.b.calls.claim(id.clone(), claim(1), true).await.unwrap(), Claimed::Refused);
    let (by, verdict) = (Answerer::Operator, PersonVerdict::Approve { arguments: None, remember: None });
    let answer = PersonAnswer { id: id.clone(), verdict, reason: None, by, at: at(2_000), seen: None };
    assert!(matches!(w.b.approvals.answer(answer).await.unwrap(), PersonAnswered::Taken(..)));
    assert_eq!(w.b.calls.claim(id, claim(2), true).await.unwrap(), Claimed::Given(1));
}

/// Whoever gives a call up may not know of a claim that has just been made; the store does.
pub async fn a_call_that_is_given_up_gets_another_outcome_if_a_worker_has_it(b: Backend) {
    let w = world(b).await;
    for claimed in [false, true] {
        let (mut driver, id) = cycle_with_workers_call(&w, true).await;
        if claimed {
            assert_eq!(w.b.calls.claim(id.clone(), claim(1), true).await.unwrap(), Claimed::Given(1));
        }
        let (outcome, if_claimed) = (Outcome::not_claimed(5), Some(Outcome::abandoned()));
        let given_up = FinishedCall { id: id.clone(), outcome, at: at(2_000), claim: None, if_claimed };
        assert!(matches!(w.b.calls.finish(given_up).await.unwrap(), Finish::Awaited(..)));
        let expected = if claimed { Outcome::abandoned() } else { Outcome::not_claimed(5) };
        assert_eq!(w.wake(w.ada).await.calls[0].outcome, Some(expected), "{claimed}");
        let late = finish(&w, &id, claim(1), "after all").await;
        assert_eq!(matches!(late, Finish::Late(..)), claimed, "{late:?}");
        let closing = driver.closing();
        driver.commit(&w, closing).await;
    }
}

/// The agent was told that nobody knows; then the worker answers after all. That counts once.
pub async fn what_a_worker_says_after_all_is_an_event_if_its_agent_was_told_nothing_better(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = cycle_with_workers_call(&w, true).await;
    assert_eq!(w.b.calls.claim(id.clone(), claim(1), true).await.unwrap(), Claimed::Given(1));
    let change = CallChange { id: id.clone(), state: CallState::Done, outcome: Some(Outcome::abandoned()) };
    let mut settle = driver.changes(CommitKind::Settle);
    settle.call_changes = vec![change];
    driver.commit(&w, settle).await;
    assert_eq!(finish(&w, &id, claim(9), "a stranger").await, Finish::NotClaimed);
    assert!(matches!(finish(&w, &id, claim(1), "it happened").await, Finish::Late(..)));
    assert_eq!(finish(&w, &id, claim(1), "again").await, Finish::Already);
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    let waiting = w.b.store.wake(w.ada, at(3_000), None).await.unwrap().unwrap().waiting;
    let late: Vec<_> = waiting.into_iter().filter(|w| w.event.kind == EventKind::ToolResult).collect();
    let [event] = &late[..] else { panic!("wanted one, got {late:?}") };
    let EventData::ToolResult { call, text, status, .. } = &event.event.data else { panic!("{event:?}") };
    assert_eq!((call, text.as_str(), *status), (&id, "it happened", Some(OutcomeStatus::Ok)));
}
