//! Calls that continue without their cycle: asynchronous ones, and those that time out.

use super::*;
use crate::changes::CallChange;
use crate::limits;

const SECOND: Duration = Duration::from_secs(1);

fn outward(next: Next) -> Vec<CallRow> {
    match next {
        Next::Outward(rows) => rows,
        other => panic!("wanted calls, got {other:?}"),
    }
}

/// The states of a commit's calls and the statuses of their outcomes.
fn states(changes: &[CallChange]) -> Vec<(CallState, Option<OutcomeStatus>)> {
    changes.iter().map(|change| (change.state, change.outcome.as_ref().map(|o| o.status))).collect()
}

/// The texts that a model reads in the step's outcomes.
fn read(changes: &Changes) -> Vec<String> {
    let parts = changes.entries.iter().flat_map(|entry| entry.message.parts.iter());
    let texts = parts.filter_map(|part| match part {
        crate::message::Part::ToolResult { text, .. } => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// News with this number of the agent's detached calls.
fn pending(detached: u32) -> News {
    News { glance: Glance { detached, ..Glance::default() }, ..News::default() }
}

const DETACHED: (CallState, Option<OutcomeStatus>) = (CallState::Detached, Some(OutcomeStatus::Pending));

#[test]
fn an_asynchronous_call_is_started_and_reported_as_pending() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, next) = reply_with(&mut cycle, vec![call("order")]);
    assert_eq!(kinds(&commits), [CommitKind::Decide]);
    let rows = outward(next);
    assert!(!rows[0].awaited && !cycle.awaits(&rows[0].id));
    let (commits, next) = drive(&mut cycle);
    assert!(matches!(next, Next::Think(_)));
    assert_eq!(
        (kinds(&commits), states(&commits[0].call_changes)),
        (vec![CommitKind::Settle], vec![DETACHED])
    );
    assert!(read(&commits[0])[0].contains(&rows[0].id.0), "{:?}", read(&commits[0]));
    let record = &commits[0].open.as_ref().unwrap().steps[0].calls[0];
    assert_eq!(record.status, Some(OutcomeStatus::Pending));
    assert_eq!(commits[0].open.as_ref().unwrap().mistakes, 0, "pending is no failure");
}

#[test]
fn an_unsafe_asynchronous_call_is_committed_as_started_with_the_barrier() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, next) = reply_with(&mut cycle, vec![call("ship"), call("ship")]);
    assert_eq!(kinds(&commits), [CommitKind::Decide, CommitKind::Start]);
    assert!(commits[1].barrier);
    assert_eq!(outward(next).len(), 1);
    let (commits, next) = drive(&mut cycle);
    assert_eq!(kinds(&commits), [CommitKind::Settle, CommitKind::Start]);
    assert_eq!(outward(next).len(), 1, "the second one does not wait for the first");
    let (commits, next) = drive(&mut cycle);
    assert!(matches!(next, Next::Think(_)));
    assert_eq!(states(&commits[0].call_changes), [DETACHED]);
    assert_eq!(read(&commits[0]).len(), 2);
}

#[test]
fn a_call_that_times_out_is_detached_if_there_is_room_and_else_given_up() {
    for (room, status) in [(true, OutcomeStatus::Pending), (false, OutcomeStatus::Error)] {
        let mut cycle = begin(vec![service(1, 0)]);
        drive(&mut cycle);
        let (_, next) = reply_with(&mut cycle, vec![call("look")]);
        let rows = outward(next);
        assert_eq!(cycle.overdue(&rows[0].id, SECOND, room), room);
        assert!(!cycle.overdue(&rows[0].id, SECOND, room), "only once");
        let (commits, next) = drive(&mut cycle);
        assert!(matches!(next, Next::Think(_)));
        assert_eq!(commits[0].call_changes[0].outcome.as_ref().unwrap().status, status);
        assert!(read(&commits[0])[0].contains("no answer within 1000 ms"));
    }
}

#[test]
fn no_unsafe_call_starts_after_one_that_was_detached() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (_, next) = reply_with(&mut cycle, vec![call("fire"), call("look"), call("fire")]);
    let rows = outward(next);
    assert_eq!(rows.len(), 2, "the second one waits for the first");
    cycle.settled(rows[1].id.clone(), Outcome::ok("seen"));
    assert!(cycle.overdue(&rows[0].id, SECOND, true));
    let (commits, next) = drive(&mut cycle);
    assert!(matches!(next, Next::Think(_)), "{next:?}");
    assert!(!kinds(&commits).contains(&CommitKind::Start), "{:?}", kinds(&commits));
    let read: Vec<String> = commits.iter().flat_map(read).collect();
    assert!(read[0].contains("it goes on") && read[1] == "seen", "{read:?}");
    assert!(read[2].contains("not started") && read[2].contains(&rows[0].id.0), "{read:?}");
}

#[test]
fn the_model_reads_an_outcome_that_arrives_before_a_time_out_is_committed() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (_, next) = reply_with(&mut cycle, vec![call("look")]);
    let id = outward(next)[0].id.clone();
    assert!(cycle.overdue(&id, SECOND, true));
    assert!(matches!(cycle.next(at(2_000)), Next::Commit(_)));
    cycle.committed(CommitOutcome::Answered(vec![(id, Outcome::ok("found"))]), at(2_000));
    let (commits, _) = drive(&mut cycle);
    assert_eq!((read(&commits[0]), commits[0].call_changes.len()), (vec!["found".to_owned()], 0));
}

#[test]
fn the_detached_calls_of_an_agent_are_limited() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let most = u32::try_from(limits::DETACHED_PER_AGENT).unwrap();
    cycle.looked(Some(pending(most - 1)));
    let (commits, next) = reply_with(&mut cycle, vec![call("order"), call("order"), call("look")]);
    let rows = &commits[0].calls;
    assert!(rows[0].outcome.is_none() && rows[2].outcome.is_none());
    assert!(rows[1].awaited && rows[1].outcome.as_ref().unwrap().text.contains("pending already"));
    let look = outward(next).into_iter().find(|row| row.awaited).unwrap();
    cycle.looked(Some(pending(most)));
    assert!(!cycle.overdue(&look.id, SECOND, true), "a call that times out counts too");
}

#[test]
fn a_canceled_cycle_does_not_cancel_its_detached_calls() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (_, next) = reply_with(&mut cycle, vec![call("order"), call("look")]);
    assert_eq!(outward(next).len(), 2);
    cancel(&mut cycle);
    cycle.drop_running();
    let (commits, next) = drive(&mut cycle);
    assert_eq!(ended(&next).0, Ending::Canceled);
    let canceled = (CallState::Done, Some(OutcomeStatus::Canceled));
    assert_eq!(states(&commits[0].call_changes), [DETACHED, canceled]);
}

#[test]
fn after_a_crash_an_asynchronous_call_is_reported_as_pending_in_any_state() {
    // A planned call starts now. For a started unsafe call or an answered one, an event reports the result.
    for (tool, state, runs) in [
        ("order", CallState::Planned, true),
        ("ship", CallState::Started, false),
        ("order", CallState::Done, false),
    ] {
        let mut cycle = begin(vec![service(1, 0)]);
        let (mut commits, _) = drive(&mut cycle);
        let (more, _) = reply_with(&mut cycle, vec![call(tool)]);
        commits.extend(more);
        let decided = commits.iter().position(|changes| changes.kind == CommitKind::Decide).unwrap();
        let mut again = after_crash(&commits[..=decided], decided as u64 + 1);
        again.calls[0].state = state;
        if state == CallState::Done {
            again.calls[0].outcome = Some(Outcome::ok("an event reports this"));
        }
        let mut cycle = begin_with(again);
        let (mut commits, mut next) = drive(&mut cycle);
        assert_eq!(matches!(next, Next::Outward(_)), runs, "{tool} {state:?}");
        if runs {
            (commits, next) = drive(&mut cycle);
        }
        assert!(matches!(next, Next::Think(_)), "{next:?}");
        let settle = commits.last().unwrap();
        assert!(read(settle)[0].contains("pending"), "{tool} {state:?}: {:?}", read(settle));
    }
}
