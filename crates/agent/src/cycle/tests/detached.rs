//! Calls that go on beyond their cycle: asynchronous ones, and those that time out.

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

/// How the calls of a commit stand, and how the outcomes read.
fn states(changes: &[CallChange]) -> Vec<(CallState, Option<OutcomeStatus>)> {
    changes.iter().map(|change| (change.state, change.outcome.as_ref().map(|o| o.status))).collect()
}

/// The statuses that a model reads in the step's outcomes.
fn read(changes: &Changes) -> Vec<String> {
    let parts = changes.entries.iter().flat_map(|entry| entry.message.parts.iter());
    let texts = parts.filter_map(|part| match part {
        crate::message::Part::ToolResult { text, .. } => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// So many of the agent's calls go on beyond their cycles.
fn pending(detached: u32) -> News {
    News { glance: Glance { detached, ..Glance::default() }, ..News::default() }
}

const GOES_ON: (CallState, Option<OutcomeStatus>) = (CallState::Detached, Some(OutcomeStatus::Pending));

#[test]
fn an_asynchronous_call_is_begun_told_as_pending_and_not_waited_for() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, next) = say(&mut cycle, vec![call("order")]);
    assert_eq!(kinds(&commits), [CommitKind::Decide]);
    let rows = outward(next);
    assert!(!rows[0].awaited && !cycle.awaits(&rows[0].id));
    let (commits, next) = drive(&mut cycle);
    assert!(matches!(next, Next::Think(_)));
    assert_eq!(
        (kinds(&commits), states(&commits[0].call_changes)),
        (vec![CommitKind::Settle], vec![GOES_ON])
    );
    assert!(read(&commits[0])[0].contains(&rows[0].id.0), "{:?}", read(&commits[0]));
    let record = &commits[0].open.as_ref().unwrap().steps[0].calls[0];
    assert_eq!(record.status, Some(OutcomeStatus::Pending));
    assert_eq!(commits[0].open.as_ref().unwrap().mistakes, 0, "pending is no failure");
}

#[test]
fn an_unsafe_asynchronous_call_is_marked_as_begun_behind_the_barrier() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, next) = say(&mut cycle, vec![call("ship"), call("ship")]);
    assert_eq!(kinds(&commits), [CommitKind::Decide, CommitKind::Start]);
    assert!(commits[1].barrier);
    assert_eq!(outward(next).len(), 1);
    let (commits, next) = drive(&mut cycle);
    assert_eq!(kinds(&commits), [CommitKind::Settle, CommitKind::Start]);
    assert_eq!(outward(next).len(), 1, "the second one need not wait for the first");
    let (commits, next) = drive(&mut cycle);
    assert!(matches!(next, Next::Think(_)));
    assert_eq!(states(&commits[0].call_changes), [GOES_ON]);
    assert_eq!(read(&commits[0]).len(), 2);
}

#[test]
fn a_call_that_times_out_goes_on_where_there_is_room_and_else_is_given_up() {
    for (room, status) in [(true, OutcomeStatus::Pending), (false, OutcomeStatus::Error)] {
        let mut cycle = begin(vec![service(1, 0)]);
        drive(&mut cycle);
        let (_, next) = say(&mut cycle, vec![call("look")]);
        let rows = outward(next);
        assert_eq!(cycle.overdue(&rows[0].id, SECOND, room), room);
        assert!(!cycle.overdue(&rows[0].id, SECOND, room), "once");
        let (commits, next) = drive(&mut cycle);
        assert!(matches!(next, Next::Think(_)));
        assert_eq!(commits[0].call_changes[0].outcome.as_ref().unwrap().status, status);
        assert!(read(&commits[0])[0].contains("no answer within 1000 ms"));
    }
}

#[test]
fn behind_an_unsafe_call_that_goes_on_none_begins_that_cannot_be_repeated() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (_, next) = say(&mut cycle, vec![call("fire"), call("look"), call("fire")]);
    let rows = outward(next);
    assert_eq!(rows.len(), 2, "the second one waits for the first");
    cycle.settled(rows[1].id.clone(), Outcome::ok("seen"));
    assert!(cycle.overdue(&rows[0].id, SECOND, true));
    let (commits, next) = drive(&mut cycle);
    assert!(matches!(next, Next::Think(_)), "{next:?}");
    assert!(!kinds(&commits).contains(&CommitKind::Start), "{:?}", kinds(&commits));
    let read: Vec<String> = commits.iter().flat_map(read).collect();
    assert!(read[0].contains("it goes on") && read[1] == "seen", "{read:?}");
    assert!(read[2].contains("not begun") && read[2].contains(&rows[0].id.0), "{read:?}");
}

#[test]
fn an_answer_that_comes_before_a_time_out_is_written_is_what_the_model_reads() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (_, next) = say(&mut cycle, vec![call("look")]);
    let id = outward(next)[0].id.clone();
    assert!(cycle.overdue(&id, SECOND, true));
    assert!(matches!(cycle.next(at(2_000)), Next::Commit(_)));
    cycle.committed(CommitOutcome::Answered(vec![(id, Outcome::ok("found"))]), at(2_000));
    let (commits, _) = drive(&mut cycle);
    assert_eq!((read(&commits[0]), commits[0].call_changes.len()), (vec!["found".to_owned()], 0));
}

#[test]
fn an_agent_has_only_so_many_calls_beyond_its_cycles() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let most = u32::try_from(limits::DETACHED_PER_AGENT).unwrap();
    cycle.looked(Some(pending(most - 1)));
    let (commits, next) = say(&mut cycle, vec![call("order"), call("order"), call("look")]);
    let rows = &commits[0].calls;
    assert!(rows[0].outcome.is_none() && rows[2].outcome.is_none());
    assert!(rows[1].awaited && rows[1].outcome.as_ref().unwrap().text.contains("pending already"));
    let look = outward(next).into_iter().find(|row| row.awaited).unwrap();
    cycle.looked(Some(pending(most)));
    assert!(!cycle.overdue(&look.id, SECOND, true), "nor do those that time out");
}

#[test]
fn a_canceled_cycle_leaves_alone_what_goes_on_beyond_it() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (_, next) = say(&mut cycle, vec![call("order"), call("look")]);
    assert_eq!(outward(next).len(), 2);
    cancel(&mut cycle);
    cycle.let_go();
    let (commits, next) = drive(&mut cycle);
    assert_eq!(rested(&next).0, Ending::Canceled);
    let canceled = (CallState::Done, Some(OutcomeStatus::Canceled));
    assert_eq!(states(&commits[0].call_changes), [GOES_ON, canceled]);
}

#[test]
fn after_a_crash_an_asynchronous_call_is_told_as_pending_whatever_became_of_it() {
    // Not begun for sure: begun again. Begun and unsafe, or answered: whoever takes it up tells the rest.
    for (tool, state, runs) in [
        ("order", CallState::Planned, true),
        ("ship", CallState::Started, false),
        ("order", CallState::Done, false),
    ] {
        let mut cycle = begin(vec![service(1, 0)]);
        let (mut commits, _) = drive(&mut cycle);
        let (more, _) = say(&mut cycle, vec![call(tool)]);
        commits.extend(more);
        let decided = commits.iter().position(|changes| changes.kind == CommitKind::Decide).unwrap();
        let mut again = after_crash(&commits[..=decided], decided as u64 + 1);
        again.calls[0].state = state;
        if state == CallState::Done {
            again.calls[0].outcome = Some(Outcome::ok("the event tells this"));
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
