//! Events that a step shows in addition to the batch: they may be gone at the commit, are canceled with the cycle,
//! and are not shown next to an event that may be poisonous.

use serde_json::json;

use super::awareness::{configured, drive_seeing, shown, urgent};
use super::*;
use crate::life::IdleReason;

/// A cycle whose step 1 shows the urgent event 2 and waits for the model.
fn showing() -> (Cycle, Vec<Changes>, Prompt) {
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let (commits, next) = drive_seeing(&mut cycle, &[urgent(2)]);
    let Next::Think(prompt) = next else { panic!("wanted the next step, got {next:?}") };
    (cycle, commits, prompt)
}

fn settled_states(changes: &Changes) -> Vec<(u64, &'static str)> {
    changes.settle.iter().map(|settled| (settled.seq, settled.state.as_str())).collect()
}

#[test]
fn added_events_are_processed_by_the_decision_and_wait_again_if_the_step_fails() {
    let (mut cycle, commits, _) = showing();
    assert_eq!(kinds(&commits), [CommitKind::Decide], "nothing is written before the model is called");
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let (commits, _) = drive_seeing(&mut cycle, &[]);
    assert_eq!(
        (kinds(&commits), settled_states(&commits[0])),
        (vec![CommitKind::Decide], vec![(2, "processed")])
    );
    let (mut cycle, _, _) = showing();
    cycle.replied(Err(ModelError::Network("gone".into())), at(2_000));
    let (commits, _) = drive_seeing(&mut cycle, &[]);
    assert_eq!((kinds(&commits), settled_states(&commits[0])), (vec![CommitKind::Park], vec![]));
}

#[test]
fn a_decision_over_an_event_that_is_gone_is_retried_without_it_and_its_tokens_count() {
    let (mut cycle, _, _) = showing();
    let usage = Usage { input: Some(100), output: Some(7), ..Usage::default() };
    let mut model_reply = reply(vec![text("for nothing")]);
    model_reply.reply.usage = usage;
    cycle.replied(Ok(model_reply), at(2_000));
    let Next::Commit(_) = cycle.next(at(2_000)) else { panic!("wanted a decision") };
    cycle.committed(CommitOutcome::Gone(vec![2]), at(2_000));
    let (commits, next) = drive_seeing(&mut cycle, &[]);
    assert!(commits.is_empty());
    let Next::Think(prompt) = next else { panic!("wanted another request, got {next:?}") };
    assert!(!shown(&prompt).concat().contains("MID-CYCLE"));
    let (commits, _) = reply_with(&mut cycle, vec![text("again")]);
    let run = commits[0].run.as_ref().unwrap();
    assert_eq!((run.usage.input, run.steps[1].discarded), (Some(100), usage));
}

#[test]
fn a_cancel_also_settles_the_events_that_the_current_step_shows() {
    let (mut cycle, _, _) = showing();
    cancel(&mut cycle);
    cycle.discarded(None);
    let (commits, next) = drive(&mut cycle);
    assert_eq!(ended(&next).0, Ending::Canceled);
    assert_eq!(settled_states(&commits[0]), [(2, "canceled")]);
    assert_eq!(commits[0].run.as_ref().unwrap().events, 1, "only the first one was processed");
    let entries: Vec<_> = commits[0].entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(entries, [EntryKind::Injection, EntryKind::Notice], "the log keeps what the agent was shown");
    // The same before anything was processed.
    let mut cycle = configured(&json!({"awareness": "interrupt"}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.outdated(news(vec![urgent(2)]), None);
    drive(&mut cycle);
    cancel(&mut cycle);
    cycle.discarded(None);
    let (commits, _) = drive(&mut cycle);
    assert_eq!(settled_states(&commits[0]), [(1, "canceled"), (2, "canceled")]);
    assert_eq!(commits[0].run.as_ref().unwrap().events, 0);
}

#[test]
fn the_canceled_cycle_of_a_suspended_agent_closes_without_a_model_call() {
    let (mut cycle, commits_before, _) = showing();
    let mut again = after_crash(&commits_before, 10);
    again.life.standing = Standing::Suspended;
    assert!(matches!(begin_with(again.clone()).next(at(9_000)), Next::Finished(ActivationEnd::Idle)));
    again.cancel = Some(cycle.id());
    let (commits, next) = drive(&mut begin_with(again));
    assert_eq!(
        (kinds(&commits), ended(&next).0),
        (vec![CommitKind::Open, CommitKind::Close], Ending::Canceled)
    );
    cycle.stop("end");
}

#[test]
fn no_event_interrupts_a_batch_that_has_failed_before_its_first_decision() {
    let mut halved = activation(vec![service(1, 1)]);
    halved.config = Arc::new(AgentConfig::from_json(&json!({"awareness": "interrupt"})).unwrap());
    let mut cycle = begin_with(halved);
    drive(&mut cycle);
    assert!(!cycle.outdated_by(&news(vec![urgent(2)])), "event 1 may be poisonous");
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let (_, next) = drive_seeing(&mut cycle, &[urgent(2)]);
    let Next::Think(prompt) = next else { panic!("wanted the next step, got {next:?}") };
    assert!(shown(&prompt).pop().unwrap().contains("MID-CYCLE"), "after the decision it is shown");
}

#[test]
fn a_step_that_failed_with_added_events_is_retried_without_them() {
    let (mut cycle, commits_before, _) = showing();
    cycle.replied(Err(ModelError::Garbage("empty".into())), at(2_000));
    let (commits, next) = drive_seeing(&mut cycle, &[urgent(2)]);
    assert!(matches!(
        next,
        Next::Finished(ActivationEnd::Parked { idle_reason: Some(IdleReason::Backoff), .. })
    ));
    let mut again = after_crash(&[commits_before, commits].concat(), 11);
    again.clean = true;
    let mut cycle = begin_with(again);
    let (_, next) = drive_seeing(&mut cycle, &[urgent(2)]);
    let Next::Think(prompt) = next else { panic!("wanted the step again, got {next:?}") };
    let text = shown(&prompt).concat();
    assert!(!text.contains("MID-CYCLE") && !text.contains("PREVIEW"), "{text}");
    assert!(!cycle.outdated_by(&news(vec![urgent(3)])));
}
