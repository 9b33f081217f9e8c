//! What the store promises of visible calls: one message each, which is what its call row says.

use agent::call::{CallState, Effect, Outcome, OutcomeStatus};
use agent::changes::{CallChange, Changes, CommitKind};
use agent::id::{MessageId, SpaceId};
use agent::port::FinishedCall;
use agent::space::{MessageKind, NewMessage, tool_data, tool_text};
use serde_json::json;

use super::Backend;
use super::world::{Living, World, at, world};

/// The message of its nth call.
pub(super) fn shown(living: &Living, space: SpaceId, row: &agent::call::CallRow) -> NewMessage {
    let (text, data) = (tool_text(row), Some(tool_data(row)));
    NewMessage {
        text,
        data,
        call: Some(row.id.clone()),
        id: MessageId::of_call(&row.id),
        ..living.says(0, space, "")
    }
}

/// A cycle whose first decision calls a visible tool in the team's space.
async fn calling(w: &World, awaited: bool) -> (Living, Changes) {
    w.say(w.team, "hello").await;
    let living = w.open(w.ada).await;
    let mut decision = living.asking(vec![living.outward(0, awaited)]);
    decision.shows = vec![shown(&living, w.team, &decision.calls[0])];
    (living, decision)
}

fn settled(living: &Living, call: &agent::id::CallId, outcome: Outcome) -> Changes {
    let mut settle = living.changes(CommitKind::Settle);
    settle.call_changes =
        vec![CallChange { id: call.clone(), state: CallState::Done, outcome: Some(outcome) }];
    settle
}

/// One seq, one id, a new `rev` for each change; the row is what a reader finds.
pub async fn a_visible_call_is_one_message_that_follows_its_row(b: Backend) {
    let w = world(b).await;
    let (mut living, decision) = calling(&w, true).await;
    let call = decision.calls[0].id.clone();
    let (_, echo) = living.done(&w, decision).await;
    let [running] = echo.messages.as_slice() else { panic!("wanted one message, got {:?}", echo.messages) };
    assert_eq!(
        (running.kind, running.seq, running.text.as_str()),
        (MessageKind::Tool, 2, "[fetch: running]")
    );
    assert_eq!((running.id, running.call.as_ref()), (MessageId::of_call(&call), Some(&call)));
    let start = CallChange { id: call.clone(), state: CallState::Started, outcome: None };
    let (_, echo) =
        living.done(&w, Changes { call_changes: vec![start], ..living.changes(CommitKind::Start) }).await;
    assert_eq!(echo.messages, [], "a call that begins looks as before");
    let outcome = Outcome { detail: Some("for operators".into()), ..Outcome::ok("found") };
    let settle = settled(&living, &call, outcome);
    let (_, echo) = living.done(&w, settle).await;
    let [complete] = echo.messages.as_slice() else { panic!("wanted one message, got {:?}", echo.messages) };
    assert_eq!((complete.id, complete.seq, complete.rev), (running.id, 2, running.rev + 1));
    assert_eq!(complete.text, "[fetch: complete]");
    let data = json!({
        "tool": "fetch", "call": call, "state": "complete", "input": "{}", "status": "ok", "output": "found",
    });
    assert_eq!(complete.data, Some(data));
    assert_eq!(w.b.reader.message(running.id).await.unwrap().as_ref(), Some(&complete.message));
    let missed = w.b.reader.messages_since_rev(w.team, running.rev, 10).await.unwrap();
    assert_eq!(missed.as_slice(), std::slice::from_ref(&complete.message));
    w.say(w.team, "next").await;
    let space = w.b.reader.space(w.team.to_string()).await.unwrap().unwrap();
    assert_eq!((space.head_seq, space.rev), (3, complete.rev + 1), "no seq was used up by a change");
}

/// Nobody wakes, nobody's limit of messages is used, no agent reads it as said.
pub async fn a_visible_call_causes_no_events(b: Backend) {
    let w = world(b).await;
    let (mut living, decision) = calling(&w, true).await;
    let waiting = w.wake(w.bob).await.waiting.len();
    let (_, echo) = living.done(&w, decision).await;
    assert_eq!(echo.wake, []);
    assert_eq!(w.wake(w.bob).await.waiting.len(), waiting);
    let (said, _) = w.b.lookup.messages(w.bob, w.team, None, 10).await.unwrap().unwrap();
    assert_eq!(said.iter().map(|said| said.text.as_str()).collect::<Vec<_>>(), ["hello"]);
}

/// What is said and what is shown come in the order of the calls, with one commit.
pub async fn visible_calls_and_messages_of_a_step_come_in_the_order_of_its_calls(b: Backend) {
    let w = world(b).await;
    w.say(w.team, "hello").await;
    let mut living = w.open(w.ada).await;
    let refused = Some(Outcome::error("wanted other arguments"));
    let bad = agent::call::CallRow { state: CallState::Done, outcome: refused, ..living.outward(3, true) };
    let mut decision = living.asking(vec![living.call(0), living.outward(1, true), living.call(2), bad]);
    decision.shows = [1, 3].map(|n| shown(&living, w.team, &decision.calls[n])).to_vec();
    decision.inward.messages = vec![living.says(0, w.team, "I look"), living.says(2, w.team, "I am looking")];
    let (_, echo) = living.done(&w, decision).await;
    let lines: Vec<_> = echo.messages.iter().map(|message| (message.seq, message.text.as_str())).collect();
    assert_eq!(lines, [(2, "I look"), (3, "[fetch: running]"), (4, "I am looking"), (5, "[fetch: error]")]);
}

/// Being shown is no reason to fail: the call goes on where its space does not want it.
pub async fn a_visible_call_is_left_out_where_its_agent_may_not_speak(b: Backend) {
    let w = world(b).await;
    let (mut living, decision) = calling(&w, true).await;
    let call = decision.calls[0].id.clone();
    w.b.registry.remove_member(w.team, w.ada.entity()).await.unwrap();
    let (_, echo) = living.done(&w, decision).await;
    assert_eq!(echo.messages, []);
    let settle = settled(&living, &call, Outcome::ok("found"));
    let (_, echo) = living.done(&w, settle).await;
    assert_eq!(echo.messages, []);
}

/// Unknown, canceled, answered by somebody outside: the message says so.
pub async fn a_visible_call_shows_how_it_ended_whoever_tells(b: Backend) {
    let w = world(b).await;
    for status in [OutcomeStatus::Unknown, OutcomeStatus::Canceled, OutcomeStatus::Pending] {
        let (mut living, decision) = calling(&w, true).await;
        let call = decision.calls[0].id.clone();
        living.done(&w, decision).await;
        let settle = settled(&living, &call, Outcome { status, ..Outcome::ok("so it is") });
        let (_, echo) = living.done(&w, settle).await;
        let wanted = if status == OutcomeStatus::Pending { "[fetch: running]" } else { "[fetch: error]" };
        assert_eq!(echo.messages[0].text, wanted);
        let closing = living.closing();
        living.done(&w, closing).await;
    }
    let (mut living, decision) = calling(&w, false).await;
    let call = decision.calls[0].id.clone();
    assert_eq!(decision.calls[0].effect, Effect::Unsafe);
    living.done(&w, decision).await;
    let finished = FinishedCall { id: call.clone(), outcome: Outcome::ok("at last"), at: at(3_000) };
    w.b.calls.finish(finished).await.unwrap();
    let message = w.b.reader.message(MessageId::of_call(&call)).await.unwrap().unwrap();
    assert_eq!(message.text, "[fetch: complete]");
}
