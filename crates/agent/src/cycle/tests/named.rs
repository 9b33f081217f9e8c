//! What a step shows besides the taken events: gone in the meantime, taken back with the cycle, kept away
//! from an event that may be poison.

use serde_json::json;

use super::aware::{configured, drive_seeing, shown, urgent};
use super::*;
use crate::life::IdleReason;

/// A cycle whose step 1 is asked while it shows the urgent event 2.
fn showing() -> (Cycle, Vec<Changes>, Prompt) {
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let (commits, next) = drive_seeing(&mut cycle, &[urgent(2)]);
    let Next::Think(prompt) = next else { panic!("wanted the next step, got {next:?}") };
    (cycle, commits, prompt)
}

fn fates(changes: &Changes) -> Vec<(u64, &'static str)> {
    changes.settle.iter().map(|settled| (settled.seq, settled.state.as_str())).collect()
}

#[test]
fn what_a_step_shows_besides_is_lived_by_its_decision_and_waits_again_where_it_fails() {
    let (mut cycle, commits, _) = showing();
    assert_eq!(kinds(&commits), [CommitKind::Decide], "nothing is written before the model is asked");
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let (commits, _) = drive_seeing(&mut cycle, &[]);
    assert_eq!((kinds(&commits), fates(&commits[0])), (vec![CommitKind::Decide], vec![(2, "processed")]));
    let (mut cycle, _, _) = showing();
    cycle.replied(Err(ModelError::Network("gone".into())), at(2_000));
    let (commits, _) = drive_seeing(&mut cycle, &[]);
    assert_eq!((kinds(&commits), fates(&commits[0])), (vec![CommitKind::Park], vec![]));
}

#[test]
fn a_decision_that_meets_an_event_that_is_gone_is_made_again_without_it_and_its_tokens_count() {
    let (mut cycle, _, _) = showing();
    let usage = Usage { input: Some(100), output: Some(7), ..Usage::default() };
    let mut model_reply = reply(vec![text("for nothing")]);
    model_reply.reply.usage = usage;
    cycle.replied(Ok(model_reply), at(2_000));
    let Next::Commit(_) = cycle.next(at(2_000)) else { panic!("then decided") };
    cycle.committed(CommitOutcome::Gone(vec![2]), at(2_000));
    let (commits, next) = drive_seeing(&mut cycle, &[]);
    assert!(commits.is_empty());
    let Next::Think(prompt) = next else { panic!("wanted to be asked again, got {next:?}") };
    assert!(!shown(&prompt).concat().contains("MID-CYCLE"));
    let (commits, _) = say(&mut cycle, vec![text("again")]);
    let run = commits[0].run.as_ref().unwrap();
    assert_eq!((run.usage.input, run.steps[1].discarded), (Some(100), usage));
}

#[test]
fn a_cancel_takes_what_the_step_in_flight_was_shown_with_it() {
    let (mut cycle, _, _) = showing();
    cancel(&mut cycle);
    cycle.discarded(None);
    let (commits, next) = drive(&mut cycle);
    assert_eq!(rested(&next).0, Ending::Canceled);
    assert_eq!(fates(&commits[0]), [(2, "canceled")]);
    let entries: Vec<_> = commits[0].entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(entries, [EntryKind::Injection, EntryKind::Notice], "the agent knows what it was told");
    // And before anything was processed.
    let mut cycle = configured(&json!({"awareness": "interrupt"}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.outdated(news(vec![urgent(2)]), None);
    drive(&mut cycle);
    cancel(&mut cycle);
    cycle.discarded(None);
    let (commits, _) = drive(&mut cycle);
    assert_eq!(fates(&commits[0]), [(1, "canceled"), (2, "canceled")]);
    assert_eq!(commits[0].run.as_ref().unwrap().events, 2);
}

#[test]
fn a_suspended_agents_canceled_cycle_closes_without_being_asked() {
    let (mut cycle, named, _) = showing();
    let mut again = after_crash(&named, 10);
    again.life.standing = Standing::Suspended;
    assert!(matches!(begin_with(again.clone()).next(at(9_000)), Next::Finished(ActivationEnd::Idle)));
    again.cancel = Some(cycle.id());
    let (commits, next) = drive(&mut begin_with(again));
    assert_eq!(
        (kinds(&commits), rested(&next).0),
        (vec![CommitKind::Open, CommitKind::Close], Ending::Canceled)
    );
    cycle.stop("over");
}

#[test]
fn nothing_breaks_into_a_batch_that_failed_before_its_first_decision() {
    let mut halved = activation(vec![service(1, 1)]);
    halved.config = Arc::new(AgentConfig::from_json(&json!({"awareness": "interrupt"})).unwrap());
    let mut cycle = begin_with(halved);
    drive(&mut cycle);
    assert!(!cycle.outdated_by(&news(vec![urgent(2)])), "it may be the poison");
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let (_, next) = drive_seeing(&mut cycle, &[urgent(2)]);
    let Next::Think(prompt) = next else { panic!("wanted the next step, got {next:?}") };
    assert!(shown(&prompt).pop().unwrap().contains("MID-CYCLE"), "then it is let in");
}

#[test]
fn a_step_that_failed_with_what_was_let_in_is_tried_again_without_it() {
    let (mut cycle, named, _) = showing();
    cycle.replied(Err(ModelError::Garbage("empty".into())), at(2_000));
    let (commits, next) = drive_seeing(&mut cycle, &[urgent(2)]);
    assert!(matches!(next, Next::Finished(ActivationEnd::Parked { rest: Some(IdleReason::Backoff), .. })));
    let mut again = after_crash(&[named, commits].concat(), 11);
    again.clean = true;
    let mut cycle = begin_with(again);
    let (_, next) = drive_seeing(&mut cycle, &[urgent(2)]);
    let Next::Think(prompt) = next else { panic!("wanted the step again, got {next:?}") };
    let told = shown(&prompt).concat();
    assert!(!told.contains("MID-CYCLE") && !told.contains("PREVIEW"), "{told}");
    assert!(!cycle.outdated_by(&news(vec![urgent(3)])));
}
