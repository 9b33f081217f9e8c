//! The trust of what a cycle appends and writes.

use serde_json::json;

use super::awareness::{configured, shown};
use super::*;
use crate::changes::{Inward, MemoryChange};
use crate::event::NamedMessage;

/// The trust of each entry in these commits, by kind.
fn trusts(commits: &[Changes]) -> Vec<(EntryKind, Trust)> {
    commits.iter().flat_map(|commit| &commit.entries).map(|entry| (entry.kind, entry.trust)).collect()
}

fn of(trust: Trust, seq: u64) -> Waiting {
    let mut waiting = service(seq, 0);
    waiting.event.envelope.trust = trust;
    waiting
}

#[test]
fn an_entry_has_the_lowest_trust_of_its_events_and_what_is_written_then_has_it_too() {
    let mut cycle = configured(&json!({}), vec![of(Trust::Operator, 1), of(Trust::Agent, 2)]);
    drive(&mut cycle);
    let (commits, _) = reply_with(&mut cycle, vec![text("thinking"), call("note")]);
    let all = [EntryKind::Inbox, EntryKind::Assistant, EntryKind::Outcomes];
    assert_eq!(trusts(&commits), all.map(|kind| (kind, Trust::Agent)));
}

#[test]
fn an_outcome_from_outside_lowers_the_trust_of_all_that_the_cycle_does_later() {
    let mut cycle = configured(&json!({}), vec![of(Trust::Operator, 1)]);
    drive(&mut cycle);
    let (mut commits, next) = reply_with(&mut cycle, vec![call("look")]);
    let Next::Outward(calls) = next else { panic!("wanted the call to run, got {next:?}") };
    cycle.settled(calls[0].id.clone(), Outcome::ok("<html>"));
    commits.extend(drive(&mut cycle).0);
    let all = [
        (EntryKind::Inbox, Trust::Operator),
        (EntryKind::Assistant, Trust::Operator),
        (EntryKind::Outcomes, Trust::Outside),
    ];
    assert_eq!(trusts(&commits), all);
    let (commits, _) = reply_with(&mut cycle, vec![call("note")]);
    assert_eq!(trusts(&commits)[0], (EntryKind::Assistant, Trust::Outside));
    assert_eq!(commits[0].open.as_ref().unwrap().trust, Trust::Operator, "that of its events");
}

#[test]
fn a_memory_has_the_trust_of_what_was_read_before_it_was_written() {
    let mut cycle = configured(&json!({}), vec![of(Trust::Operator, 1)]);
    drive(&mut cycle);
    let writes_and_quotes = |_: &CallRow| {
        let inward = Inward { memories: vec![MemoryChange::set("k", "v")], ..Inward::default() };
        Ok(Done { outcome: Outcome { trust: Some(Trust::Agent), ..Outcome::ok("quoted") }, inward })
    };
    let mut write = || {
        cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
        drive_as(&mut cycle, &[], writes_and_quotes).0
    };
    let first = write();
    assert_eq!(first[0].cause.trust, Trust::Operator, "its own outcome came later");
    assert_eq!(trusts(&first)[2], (EntryKind::Outcomes, Trust::Agent));
    assert_eq!(write()[0].cause.trust, Trust::Agent);
}

#[test]
fn earlier_messages_are_shown_before_the_first_decision_and_count_for_the_trust_of_its_entry() {
    let space = SpaceId(Uuid::from_u128(9));
    let message = |seq: u64, text: &str| NamedMessage {
        id: crate::id::MessageId(Uuid::from_u128(u128::from(seq))),
        space,
        space_handle: "team".into(),
        seq,
        sender: EntityId(Uuid::from_u128(3)),
        sender_name: "Bo".into(),
        sender_handle: "bo".into(),
        sender_kind: EntityKind::Agent,
        text: text.into(),
        mentions: Vec::new(),
        at: at(0),
        trust: Trust::Agent,
    };
    let mut named = of(Trust::Member, 1);
    (named.event.kind, named.message) = (EventKind::Mention, Some(message(5, "@ada, see above")));
    named.event.data =
        EventData::Message { space, seq: 5, message: crate::id::MessageId(Uuid::from_u128(5)) };
    // The event of the sixth message is not taken by this activation.
    let recent = vec![message(3, "above"), message(6, "below")];
    let mut cycle = begin_with(Activation { recent, ..activation(vec![named]) });
    let (_, next) = drive(&mut cycle);
    let Next::Think(prompt) = next else { panic!("wanted a request, got {next:?}") };
    let shown = shown(&prompt).join("\n");
    assert!(shown.contains("\"above\"") && !shown.contains("\"below\""), "{shown}");
    let (commits, _) = reply_with(&mut cycle, vec![call("note")]);
    assert_eq!(trusts(&commits)[0], (EntryKind::Inbox, Trust::Agent));
    assert_eq!(commits[0].open.as_ref().unwrap().trust, Trust::Member, "that of its events");
}
