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

#[test]
fn what_the_outcomes_of_a_step_and_of_a_cycle_store_together_is_bounded_and_nothing_is_lost() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (mut of_cycle, mut least) = (0, usize::MAX);
    for _ in 0..4 {
        let (_, mut next) = reply_with(&mut cycle, vec![call("look"); limits::CALLS_PER_STEP]);
        let mut of_step = 0;
        while let Next::Outward(rows) = next {
            for row in rows {
                let text = format!("BEGIN{}END", "x".repeat(limits::OUTCOME_STORED_MAX_BYTES / 2));
                cycle.settled(row.id, Outcome::ok(text));
            }
            let settled;
            (settled, next) = drive(&mut cycle);
            for change in settled.iter().flat_map(|changes| &changes.call_changes) {
                let text = &change.outcome.as_ref().unwrap().text;
                assert!(text.starts_with("BEGIN") && text.ends_with("END"));
                of_step += text.len();
                least = least.min(text.len());
            }
        }
        let most = limits::STEP_OUTCOMES_MAX_BYTES + limits::CALLS_PER_STEP * limits::OUTCOME_SHOWN_MAX_BYTES;
        assert!(of_step <= most, "{of_step}");
        of_cycle += of_step;
    }
    let most =
        limits::CYCLE_OUTCOMES_MAX_BYTES + 4 * limits::CALLS_PER_STEP * limits::OUTCOME_SHOWN_MAX_BYTES;
    assert!((limits::CYCLE_OUTCOMES_MAX_BYTES..=most).contains(&of_cycle), "{of_cycle}");
    assert!((limits::OUTCOME_KEPT_MIN_BYTES..=limits::OUTCOME_SHOWN_MAX_BYTES).contains(&least), "{least}");
    let cut = Outcome::ok(format!("BEGIN{}END", "x".repeat(100_000))).within(0);
    assert!(cut.shown().contains("are stored only up to a limit") && !cut.shown().contains("read_outcome"));
}
