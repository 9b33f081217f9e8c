//! Promises about visible calls: each is one message that shows the state of its call row.

use agent::call::{CallState, Effect, Outcome, OutcomeStatus};
use agent::changes::{CallChange, Changes, CommitKind};
use agent::id::{MessageId, SpaceId};
use agent::port::FinishedCall;
use agent::space::{MessageKind, NewMessage, tool_data, tool_text};
use serde_json::json;

use super::Backend;
use super::world::{CycleDriver, World, at, world};

/// The message that shows this call.
pub(super) fn shown_message(driver: &CycleDriver, space: SpaceId, row: &agent::call::CallRow) -> NewMessage {
    let (text, data) = (tool_text(row), Some(tool_data(row)));
    NewMessage {
        text,
        data,
        call: Some(row.id.clone()),
        id: MessageId::of_card(&row.id),
        ..driver.message(0, space, "")
    }
}

/// A cycle whose first decision calls a visible tool in the space `team`.
async fn calling(w: &World, awaited: bool) -> (CycleDriver, Changes) {
    w.post(w.team, "hello").await;
    let driver = w.open(w.ada).await;
    let mut decision = driver.decision_with(vec![driver.outward(0, awaited)]);
    decision.shows = vec![shown_message(&driver, w.team, &decision.calls[0])];
    (driver, decision)
}

fn settled(driver: &CycleDriver, call: &agent::id::CallId, outcome: Outcome) -> Changes {
    let mut settle = driver.changes(CommitKind::Settle);
    settle.call_changes =
        vec![CallChange { id: call.clone(), state: CallState::Done, outcome: Some(outcome) }];
    settle
}

/// The message keeps its number and id and gets a new `rev` with each change. Readers get the newest state.
pub async fn a_visible_call_is_one_message_that_is_updated_with_its_row(b: Backend) {
    let w = world(b).await;
    let (mut driver, decision) = calling(&w, true).await;
    let call = decision.calls[0].id.clone();
    let (_, notifications) = driver.commit(&w, decision).await;
    let [running] = notifications.messages.as_slice() else {
        panic!("wanted one message, got {:?}", notifications.messages)
    };
    assert_eq!(
        (running.kind, running.seq, running.text.as_str()),
        (MessageKind::Tool, 2, "[fetch: running]")
    );
    assert_eq!((running.id, running.call.as_ref()), (MessageId::of_card(&call), Some(&call)));
    let start = CallChange { id: call.clone(), state: CallState::Started, outcome: None };
    let (_, notifications) =
        driver.commit(&w, Changes { call_changes: vec![start], ..driver.changes(CommitKind::Start) }).await;
    assert_eq!(notifications.messages, [], "a call that starts looks as before");
    let outcome = Outcome { detail: Some("for operators".into()), ..Outcome::ok("found") };
    let settle = settled(&driver, &call, outcome);
    let (_, notifications) = driver.commit(&w, settle).await;
    let [complete] = notifications.messages.as_slice() else {
        panic!("wanted one message, got {:?}", notifications.messages)
    };
    assert_eq!((complete.id, complete.seq, complete.rev), (running.id, 2, running.rev + 1));
    assert_eq!(complete.text, "[fetch: complete]");
    let data = json!({
        "tool": "fetch", "call": call, "state": "complete", "input": "{}", "status": "ok", "output": "found",
    });
    assert_eq!(complete.data, Some(data));
    assert_eq!(w.b.reader.message(running.id).await.unwrap().as_ref(), Some(&complete.message));
    let missed = w.b.reader.messages_since_rev(w.team, running.rev, 10, usize::MAX).await.unwrap().items;
    assert_eq!(missed.as_slice(), std::slice::from_ref(&complete.message));
    w.post(w.team, "next").await;
    let space = w.b.reader.space(w.team.to_string()).await.unwrap().unwrap();
    assert_eq!((space.head_seq, space.rev), (3, complete.rev + 1), "no seq was used up by a change");
}

/// It wakes nobody, counts towards no limit of messages, and agents do not read it as a message.
pub async fn a_visible_call_causes_no_events(b: Backend) {
    let w = world(b).await;
    let (mut driver, decision) = calling(&w, true).await;
    let waiting = w.wake(w.bob).await.waiting.len();
    let (_, notifications) = driver.commit(&w, decision).await;
    assert_eq!(notifications.wake, []);
    assert_eq!(w.wake(w.bob).await.waiting.len(), waiting);
    let (said, _) = w.b.lookup.messages(w.bob, w.team, None, 10).await.unwrap().unwrap();
    assert_eq!(said.iter().map(|said| said.text.as_str()).collect::<Vec<_>>(), ["hello"]);
}

/// In one commit.
pub async fn visible_calls_and_messages_of_a_step_are_posted_in_the_order_of_its_calls(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "hello").await;
    let mut driver = w.open(w.ada).await;
    let refused = Some(Outcome::error("wanted other arguments"));
    let bad = agent::call::CallRow { state: CallState::Done, outcome: refused, ..driver.outward(3, true) };
    let mut decision =
        driver.decision_with(vec![driver.call(0), driver.outward(1, true), driver.call(2), bad]);
    decision.shows = [1, 3].map(|n| shown_message(&driver, w.team, &decision.calls[n])).to_vec();
    decision.inward.messages =
        vec![driver.message(0, w.team, "I look"), driver.message(2, w.team, "I am looking")];
    let (_, notifications) = driver.commit(&w, decision).await;
    let lines: Vec<_> =
        notifications.messages.iter().map(|message| (message.seq, message.text.as_str())).collect();
    assert_eq!(lines, [(2, "I look"), (3, "[fetch: running]"), (4, "I am looking"), (5, "[fetch: error]")]);
}

/// The call itself continues, because not being shown is no reason to fail.
pub async fn a_visible_call_is_not_shown_where_its_agent_may_not_post(b: Backend) {
    let w = world(b).await;
    let (mut driver, decision) = calling(&w, true).await;
    let call = decision.calls[0].id.clone();
    w.b.registry.remove_member(w.team, w.ada.entity()).await.unwrap();
    let (_, notifications) = driver.commit(&w, decision).await;
    assert_eq!(notifications.messages, []);
    let settle = settled(&driver, &call, Outcome::ok("found"));
    let (_, notifications) = driver.commit(&w, settle).await;
    assert_eq!(notifications.messages, []);
}

/// The message shows unknown, canceled and pending outcomes, and answers from outside.
pub async fn a_visible_call_shows_every_kind_of_outcome(b: Backend) {
    let w = world(b).await;
    for status in [OutcomeStatus::Unknown, OutcomeStatus::Canceled, OutcomeStatus::Pending] {
        let (mut driver, decision) = calling(&w, true).await;
        let call = decision.calls[0].id.clone();
        driver.commit(&w, decision).await;
        let settle = settled(&driver, &call, Outcome { status, ..Outcome::ok("so it is") });
        let (_, notifications) = driver.commit(&w, settle).await;
        let wanted = if status == OutcomeStatus::Pending { "[fetch: running]" } else { "[fetch: error]" };
        assert_eq!(notifications.messages[0].text, wanted);
        let closing = driver.closing();
        driver.commit(&w, closing).await;
    }
    let (mut driver, decision) = calling(&w, false).await;
    let call = decision.calls[0].id.clone();
    assert_eq!(decision.calls[0].effect, Effect::Unsafe);
    driver.commit(&w, decision).await;
    let finished = FinishedCall {
        id: call.clone(),
        outcome: Outcome::ok("at last"),
        at: at(3_000),
        claim: None,
        if_claimed: None,
    };
    w.b.calls.finish(finished).await.unwrap();
    let message = w.b.reader.message(MessageId::of_card(&call)).await.unwrap().unwrap();
    assert_eq!(message.text, "[fetch: complete]");
}
