//! Replies that cannot be processed as they are.

use super::*;

#[test]
fn the_notice_about_a_cut_reply_follows_the_outcomes_of_its_outward_calls() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let mut model_reply = reply(vec![call("look"), call("note")]);
    model_reply.reply.stop = StopReason::Length;
    cycle.replied(Ok(model_reply), at(2_000));
    let (decide, next) = drive(&mut cycle);
    let Next::Outward(rows) = next else { panic!("wanted `look` to be run, got {next:?}") };
    assert_eq!(decide[0].entries.last().unwrap().kind, EntryKind::Assistant);
    cycle.settled(rows[0].id.clone(), Outcome::ok("seen"));
    let (settle, _) = drive(&mut cycle);
    let kinds: Vec<_> = settle[0].entries.iter().map(|entry| (entry.seq, entry.kind)).collect();
    assert_eq!(kinds, [(3, EntryKind::Outcomes), (4, EntryKind::Notice)]);
}

#[test]
fn a_call_that_the_vendor_stopped_is_not_executed_and_the_run_has_the_reason() {
    let refused = |parts| {
        let mut cycle = begin(vec![service(1, 0)]);
        drive(&mut cycle);
        let mut model_reply = reply(parts);
        model_reply.reply.stop = StopReason::Refused("content_filter".into());
        cycle.replied(Ok(model_reply), at(2_000));
        drive(&mut cycle)
    };
    let (_, next) = refused(vec![text("I can")]);
    assert_eq!(ended(&next), (Ending::Completed, Some("the model refused to go on: content_filter")));
    let (commits, next) = refused(vec![call("done")]);
    let outcome = commits[0].calls[0].outcome.as_ref().unwrap();
    assert_eq!(outcome.text, "the vendor stopped the reply in this call; it was not executed");
    assert!(matches!(next, Next::Think(_)), "{next:?}");
}

#[test]
fn a_tool_name_that_is_too_long_is_stored_shortened() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, _) = reply_with(&mut cycle, vec![call(&"é".repeat(50_000))]);
    let row = &commits[0].calls[0];
    assert_eq!(row.tool, "é".repeat(limits::CALLED_NAME_MAX_BYTES / 2));
    assert!(row.outcome.as_ref().unwrap().text.len() < 1_000);
    assert!(commits[0].entries.iter().all(|entry| entry.message.countable().len() < 1_000));
}

#[test]
fn a_reply_that_is_too_large_is_a_failed_attempt_and_arguments_too_large_are_not_stored() {
    let huge = |parts: Vec<ReplyPart>| {
        let mut cycle = begin(vec![service(1, 0)]);
        drive(&mut cycle);
        reply_with(&mut cycle, parts).0
    };
    for parts in [
        vec![text(&"x".repeat(limits::REPLY_TEXT_MAX_BYTES + 1))],
        vec![call("look"); limits::REPLY_CALLS_MAX + 1],
    ] {
        let commits = huge(parts);
        assert_eq!(commits[0].kind, CommitKind::Close);
        assert!(commits[0].entries.is_empty() && commits[0].blame, "nothing of it is processed");
    }
    let arguments = format!("{{\"n\":\"{}\"}}", "x".repeat(limits::ARGUMENTS_MAX_BYTES));
    let commits = huge(vec![ReplyPart::Call { name: "note".into(), arguments }]);
    assert_eq!(commits[0].calls[0].arguments, "{}");
    assert!(commits[0].entries.iter().all(|entry| entry.message.countable().len() < 1_000));
}

#[test]
fn a_large_outcome_is_shown_with_its_ends_and_the_way_to_read_the_rest() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (_, next) = reply_with(&mut cycle, vec![call("look")]);
    let Next::Outward(rows) = next else { panic!("wanted `look` to be run, got {next:?}") };
    let text = format!("BEGIN{}END", "x".repeat(limits::OUTCOME_SHOWN_MAX_BYTES));
    cycle.settled(rows[0].id.clone(), Outcome::ok(&text));
    let (settle, _) = drive(&mut cycle);
    let shown = settle[0].entries[0].message.countable();
    let note =
        format!("[… 9 of {} bytes left out; read_outcome shows them, call: {} …]", text.len(), rows[0].id);
    assert!(shown.contains("BEGIN") && shown.contains("END") && shown.contains(&note), "{shown}");
    assert_eq!(settle[0].call_changes[0].outcome.as_ref().unwrap().text, text, "stored whole");
}
