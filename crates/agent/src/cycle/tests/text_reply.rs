//! What becomes of a reply that is text without a call.

use serde_json::{Value, json};

use super::awareness::configured;
use super::*;
use crate::id::MessageId;
use crate::message::Role;
use crate::prompt::Item;

const PERSON: u128 = 7;
const SPACE: u128 = 9;

/// A message of that person in that space.
fn message(seq: u64, person: u128, space: u128) -> Waiting {
    let mut waiting = service(seq, 0);
    waiting.event.kind = EventKind::SpaceMessage;
    waiting.event.envelope.trust = Trust::Member;
    waiting.event.envelope.principal = Principal::Entity(EntityId(Uuid::from_u128(person)));
    let (space, message) = (SpaceId(Uuid::from_u128(space)), MessageId(Uuid::from_u128(u128::from(seq))));
    waiting.event.data = EventData::Message { space, seq, message };
    waiting
}

/// A cycle that was opened by one message of a person, at its first model call.
fn asked(config: &Value) -> Cycle {
    let mut cycle = configured(config, vec![message(1, PERSON, SPACE)]);
    drive(&mut cycle);
    cycle
}

fn posted(commits: &[Changes]) -> Vec<&str> {
    commits.iter().flat_map(|changes| &changes.inward.messages).map(|m| m.text.as_str()).collect()
}

fn notices(commits: &[Changes]) -> Vec<String> {
    let entries = commits.iter().flat_map(|changes| &changes.entries);
    entries.filter(|entry| entry.kind == EntryKind::Notice).map(|entry| entry.message.text()).collect()
}

#[test]
fn an_answer_in_plain_text_is_asked_for_once_and_then_posted() {
    let mut cycle = asked(&json!({}));
    let (nudged, next) = reply_with(&mut cycle, vec![text("Hello!")]);
    assert!(matches!(next, Next::Think(_)), "{next:?}");
    assert_eq!(posted(&nudged), [""; 0]);
    let told = "[NOTICE] Your text has reached nobody. Call send_message to post it, or done to stay silent. \
                If you write text without a call again, it is posted as your message.";
    assert_eq!(notices(&nudged), [told]);
    let (commits, next) = reply_with(&mut cycle, vec![text(" Hello "), text("again.\n")]);
    assert_eq!(ended(&next), (Ending::Completed, None));
    assert_eq!((posted(&commits), notices(&commits).len()), (vec!["Hello\nagain."], 0));
    let message = &commits[0].inward.messages[0];
    assert_eq!(message.id, MessageId::of_text(cycle.id(), 1));
    assert_eq!((message.space, message.hop), (SpaceId(Uuid::from_u128(SPACE)), 1));
    assert_eq!((message.cycle, &message.call), (Some(cycle.id()), &None), "marked as the model's text");
    let steps = &commits[0].run.as_ref().unwrap().steps;
    let unsent: Vec<_> = steps.iter().map(|step| step.unsent.as_deref()).collect();
    assert_eq!(unsent, [Some("Hello!"), None]);
}

#[test]
fn a_model_that_was_told_how_to_post_may_post_or_stay_silent() {
    for ends in [names::DONE, "note"] {
        let mut cycle = asked(&json!({}));
        reply_with(&mut cycle, vec![text("Hello!")]);
        let (commits, next) = reply_with(&mut cycle, vec![text("I stay silent."), call(ends)]);
        assert_eq!(posted(&commits), [""; 0]);
        assert_eq!(matches!(next, Next::Finished(_)), ends == names::DONE);
        let steps = commits[0].run.as_ref().map(|run| run.steps.as_slice());
        let record = steps.unwrap_or_else(|| &commits[0].open.as_ref().unwrap().steps).last().unwrap();
        assert_eq!(record.unsent.as_deref(), Some("I stay silent."), "text next to a call is private too");
    }
}

#[test]
fn an_empty_reply_ends_a_cycle_that_has_processed_its_events_and_fails_before() {
    let mut cycle = asked(&json!({}));
    let (commits, _) = reply_with(&mut cycle, Vec::new());
    assert!(
        commits.iter().all(|changes| changes.kind != CommitKind::Decide),
        "nothing was processed: tried again"
    );
    let mut cycle = asked(&json!({}));
    reply_with(&mut cycle, vec![text("Hello!")]);
    let (commits, next) = reply_with(&mut cycle, Vec::new());
    assert_eq!((ended(&next), posted(&commits)), ((Ending::Completed, None), vec![]));
    assert!(commits[0].entries.is_empty(), "vendors refuse an empty message");
}

#[test]
fn only_a_cycle_that_owes_one_person_an_answer_posts_text() {
    let cases = [
        ("tool", json!({"reply": "tool"}), vec![message(1, PERSON, SPACE)]),
        ("two people", json!({}), vec![message(1, PERSON, SPACE), message(2, 8, SPACE)]),
        ("two spaces", json!({}), vec![message(1, PERSON, SPACE), message(2, PERSON, 10)]),
        ("a service", json!({}), vec![service(1, 0)]),
        ("a person and a service", json!({}), vec![message(1, PERSON, SPACE), service(2, 0)]),
        ("no such tool", json!({"tools": ["note", "done"]}), vec![message(1, PERSON, SPACE)]),
    ];
    for (what, config, waiting) in cases {
        let mut cycle = configured(&config, waiting);
        if what == "no such tool" {
            let tools = cycle.pinned.setup.tools.iter().filter(|tool| tool.name != names::SEND_MESSAGE);
            cycle.pinned.setup.tools = tools.cloned().collect::<Vec<_>>().into();
        }
        drive(&mut cycle);
        let (commits, next) = reply_with(&mut cycle, vec![text("hm")]);
        assert_eq!(ended(&next), (Ending::Completed, None), "{what}");
        assert_eq!(posted(&commits), [""; 0], "{what}");
        assert_eq!(commits[0].run.as_ref().unwrap().steps[0].unsent.as_deref(), Some("hm"), "{what}");
    }
    let mut of_agent = message(1, PERSON, SPACE);
    of_agent.event.envelope.trust = Trust::Agent;
    let mut cycle = configured(&json!({}), vec![of_agent]);
    drive(&mut cycle);
    assert!(matches!(reply_with(&mut cycle, vec![text("hm")]).1, Next::Finished(_)), "an agent's message");
}

#[test]
fn a_cycle_that_has_sent_a_message_ends_with_private_text() {
    let mut cycle = asked(&json!({}));
    cycle.open.sent.push("a hash".to_owned());
    let (commits, next) = reply_with(&mut cycle, vec![text("That is done.")]);
    assert_eq!((ended(&next).0, posted(&commits)), (Ending::Completed, vec![]));
}

#[test]
fn a_required_call_takes_precedence_over_posting_the_text() {
    let mut cycle = asked(&json!({"stop": {"require_tool": true}}));
    for _ in 0..2 {
        let (commits, next) = reply_with(&mut cycle, vec![text("hello")]);
        assert!(matches!(next, Next::Think(_)));
        assert!(!notices(&commits)[0].contains("posted as your message"));
    }
    let (commits, next) = reply_with(&mut cycle, vec![text("hello")]);
    assert_eq!((ended(&next).0, posted(&commits)), (Ending::Completed, vec![]));
}

#[test]
fn a_call_written_as_text_is_never_posted() {
    let markup = "<tool_call>{\"name\": \"send_message\", \"arguments\": {\"text\": \"hi\"}}</tool_call>";
    let mut cycle = asked(&json!({}));
    let (commits, _) = reply_with(&mut cycle, vec![text(markup)]);
    assert!(notices(&commits)[0].starts_with("[NOTICE] You wrote a tool call as text"));
    let (commits, next) = reply_with(&mut cycle, vec![text(markup)]);
    assert_eq!(ended(&next), (Ending::Completed, Some("a tool call written as text was not posted")));
    assert_eq!(posted(&commits), [""; 0]);
    assert_eq!(commits[0].run.as_ref().unwrap().steps[1].unsent.as_deref(), Some(markup));
}

#[test]
fn the_text_of_the_last_allowed_step_is_posted_without_a_nudge() {
    let mut cycle = asked(&json!({"limits": {"max_steps": 1}}));
    let (commits, next) = reply_with(&mut cycle, vec![text("Hello!")]);
    assert_eq!((ended(&next), posted(&commits)), ((Ending::Completed, None), vec!["Hello!"]));
}

#[test]
fn a_gate_that_forbids_sending_keeps_the_text_private() {
    let mut cycle = asked(&json!({"gates": [{"from": 1, "to": 1, "active_tools": ["note"]}]}));
    reply_with(&mut cycle, vec![text("Hello!")]);
    let (commits, next) = reply_with(&mut cycle, vec![text("Hello!")]);
    let why = ended(&next).1.unwrap();
    assert!(posted(&commits).is_empty() && why.starts_with("`send_message` may not be called now"), "{why}");
}

#[test]
fn a_text_that_the_store_refuses_ends_the_cycle_without_another_request() {
    let mut cycle = asked(&json!({}));
    reply_with(&mut cycle, vec![text("Hello!")]);
    cycle.replied(Ok(reply(vec![text("Hello!")])), at(2_000));
    let Next::Commit(changes) = cycle.next(at(2_000)) else { panic!("wanted the decision") };
    let refusal = crate::fencing::refusal(
        &changes.inward.messages[0],
        &crate::port::Denial::SpaceClosed(SpaceId(Uuid::from_u128(SPACE))),
    );
    cycle.committed(CommitOutcome::Refused(vec![refusal]), at(2_000));
    let (commits, next) = drive(&mut cycle);
    assert_eq!((kinds(&commits), posted(&commits)), (vec![CommitKind::Decide], vec![]));
    let (ending, why) = ended(&next);
    assert!(ending == Ending::Completed && why.unwrap().contains("is closed"), "{why:?}");
    assert_eq!(commits[0].run.as_ref().unwrap().steps[1].unsent.as_deref(), Some("Hello!"));
}

#[test]
fn after_a_crash_between_nudge_and_post_the_text_is_posted_under_the_same_id() {
    let mut cycle = asked(&json!({}));
    let (nudged, _) = reply_with(&mut cycle, vec![text("Hello!")]);
    let wanted = MessageId::of_text(cycle.id(), 1);
    // The process dies before, or while, the second reply is committed.
    for decided in [false, true] {
        let mut before = nudged.clone();
        if decided {
            cycle.replied(Ok(reply(vec![text("Hello!")])), at(2_000));
            let Next::Commit(lost) = cycle.next(at(2_000)) else { panic!("wanted the decision") };
            assert_eq!(lost.inward.messages[0].id, wanted);
        }
        before.last_mut().unwrap().settle.clear();
        let mut again = begin_with(after_crash(&before, 9));
        drive(&mut again);
        let (commits, next) = reply_with(&mut again, vec![text("Hello again!")]);
        assert_eq!((ended(&next).0, posted(&commits)), (Ending::Completed, vec!["Hello again!"]));
        assert_eq!(commits.last().unwrap().inward.messages[0].id, wanted);
    }
}

#[test]
fn with_reply_text_the_first_text_is_posted_to_the_space_of_the_people_who_wrote() {
    let config = json!({"reply": "text", "tools": []});
    let one_space = vec![message(1, PERSON, SPACE), message(2, 8, SPACE)];
    for waiting in [one_space[..1].to_vec(), one_space] {
        let mut cycle = configured(&config, waiting);
        cycle.pinned.setup.tools = Vec::new().into();
        drive(&mut cycle);
        let (commits, next) = reply_with(&mut cycle, vec![text("Hello!")]);
        assert_eq!((ended(&next), posted(&commits)), ((Ending::Completed, None), vec!["Hello!"]));
        let message = &commits[0].inward.messages[0];
        assert_eq!((message.space, &message.call), (SpaceId(Uuid::from_u128(SPACE)), &None));
    }
    let mut of_agent = message(1, PERSON, SPACE);
    of_agent.event.envelope.trust = Trust::Agent;
    let two_spaces = vec![message(1, PERSON, SPACE), message(2, PERSON, 10)];
    for (what, waiting) in [("two spaces", two_spaces), ("an agent", vec![of_agent])] {
        let mut cycle = configured(&config, waiting);
        drive(&mut cycle);
        let (commits, next) = reply_with(&mut cycle, vec![text("Hello!")]);
        assert_eq!((ended(&next).0, posted(&commits)), (Ending::Completed, vec![]), "{what}");
        assert_eq!(commits[0].run.as_ref().unwrap().steps[0].unsent.as_deref(), Some("Hello!"), "{what}");
    }
}

#[test]
fn examples_are_shown_before_the_history_and_are_not_part_of_it() {
    let examples = json!([{"message": "What is 1 + 1?", "reply": "Two."}]);
    let config = json!({"reply": "text", "examples": examples, "workspace": {"show": []}});
    let mut cycle = configured(&config, vec![message(1, PERSON, SPACE)]);
    let (_, next) = drive(&mut cycle);
    let Next::Think(prompt) = next else { panic!("wanted a request, got {next:?}") };
    let message = |item: &Item| match item {
        Item::Entry(entry) => (entry.message.role, entry.message.text()),
        Item::Layer(text) => panic!("a workspace is shown: {text}"),
    };
    let shown: Vec<_> = prompt.items.iter().map(message).collect();
    let example = "[INBOX — 1 new event, now 1970-01-01T00:00:00Z]\n\n1. [space home] Owner (@owner, human), \
                   just now: \"What is 1 + 1?\"";
    assert_eq!(shown[0], (Role::User, example.to_owned()));
    assert_eq!(shown[1], (Role::Assistant, "Two.".to_owned()));
    assert_eq!((shown.len(), shown[2].0), (3, Role::User));
    assert!(prompt.system.contains("- What you write is your answer"), "{}", prompt.system);
    let (commits, _) = reply_with(&mut cycle, vec![text("Hello!")]);
    let entries: Vec<u64> =
        commits.iter().flat_map(|changes| &changes.entries).map(|entry| entry.seq).collect();
    assert_eq!(entries, [1, 2]);
}
