//! Calls that are answered from outside while their cycle runs, and canceled cycles.

use super::*;

fn canceled(commits: &[Changes], index: usize) -> (CallId, Outcome) {
    let row = &commits[0].calls[index];
    (row.id.clone(), Outcome::canceled(row))
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

#[test]
fn a_canceled_call_gets_an_outcome_and_the_cycle_continues_with_the_others() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, next) = reply_with(&mut cycle, vec![call("look"), call("peek"), call("look")]);
    let Next::Outward(rows) = next else { panic!("wanted calls, got {next:?}") };
    assert_eq!(rows.len(), 2);
    let (id, outcome) = canceled(&commits, 0);
    assert!(cycle.awaits(&id));
    cycle.looked(Some(News { answered: vec![(id.clone(), outcome)], ..News::default() }));
    assert!(!cycle.awaits(&id) && cycle.awaits(&rows[1].id));
    let (_, next) = drive(&mut cycle);
    assert!(matches!(next, Next::Await), "{next:?}");
    // A later outcome of the call is dropped.
    cycle.settled(id, Outcome::ok("too late"));
    cycle.settled(rows[1].id.clone(), Outcome::ok("seen"));
    let (commits, next) = drive(&mut cycle);
    assert!(matches!(next, Next::Think(_)));
    let settle = commits.last().unwrap();
    let texts = read(settle);
    assert_eq!(texts.len(), 3);
    assert!(texts[0].contains("canceled by an operator") && texts[2] == "seen", "{texts:?}");
    assert_eq!(settle.call_changes.iter().map(|change| &change.id).collect::<Vec<_>>(), [&rows[1].id]);
    let record = &settle.open.as_ref().unwrap().steps[0].calls;
    assert_eq!(record[0].status, Some(OutcomeStatus::Canceled));
}

#[test]
fn a_call_that_is_answered_before_its_start_never_starts_and_the_next_one_does() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call("fire"), call("fire")])), at(2_000));
    let mut decision = None;
    let ids = loop {
        match cycle.next(at(2_000)) {
            Next::Commit(changes) if changes.kind == CommitKind::Start => {
                let decision: &Changes = decision.as_ref().unwrap();
                let answers = vec![canceled(std::slice::from_ref(decision), 0)];
                cycle.committed(CommitOutcome::Answered(answers), at(2_000));
                break decision.calls.iter().map(|row| row.id.clone()).collect::<Vec<_>>();
            }
            Next::Commit(changes) => {
                decision = Some(*changes);
                cycle.committed(done(Glance::default()), at(2_000));
            }
            other => panic!("wanted a start, got {other:?}"),
        }
    };
    let (commits, next) = drive(&mut cycle);
    assert_eq!(kinds(&commits), [CommitKind::Start]);
    assert_eq!(commits[0].call_changes[0].id, ids[1]);
    let Next::Outward(rows) = next else { panic!("wanted the other call, got {next:?}") };
    assert_eq!(rows.iter().map(|row| &row.id).collect::<Vec<_>>(), [&ids[1]]);
}

#[test]
fn a_settlement_that_comes_after_an_answer_is_repeated_with_that_answer() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, next) = reply_with(&mut cycle, vec![call("look")]);
    assert!(matches!(next, Next::Outward(_)));
    let (id, outcome) = canceled(&commits, 0);
    cycle.settled(id.clone(), Outcome::ok("found"));
    let settle = match cycle.next(at(2_000)) {
        Next::Commit(changes) => changes,
        other => panic!("wanted a settlement, got {other:?}"),
    };
    assert_eq!(read(&settle), ["found"]);
    cycle.committed(CommitOutcome::Answered(vec![(id, outcome)]), at(2_000));
    let (commits, next) = drive(&mut cycle);
    assert!(matches!(next, Next::Think(_)));
    assert_eq!(kinds(&commits), [CommitKind::Settle]);
    assert!(read(&commits[0])[0].contains("canceled by an operator"));
    assert!(commits[0].call_changes.is_empty());
}

#[test]
fn a_canceled_cycle_closes_even_if_its_call_is_answered_in_the_meantime() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, _) = reply_with(&mut cycle, vec![call("look"), call("look")]);
    let answer = canceled(&commits, 0);
    cancel(&mut cycle);
    cycle.drop_running();
    let Next::Commit(close) = cycle.next(at(2_000)) else { panic!("wanted a close") };
    assert_eq!(close.call_changes.len(), 2);
    cycle.committed(CommitOutcome::Answered(vec![answer]), at(2_000));
    let (commits, next) = drive(&mut cycle);
    assert_eq!(ended(&next).0, Ending::Canceled);
    assert_eq!(commits[0].call_changes.len(), 1, "only the other call is left");
    assert_eq!(read(&commits[0]).len(), 2);
}

#[test]
fn a_cancel_before_the_first_decision_settles_the_events() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    cancel(&mut cycle);
    assert!(cycle.interrupted());
    cycle.discarded(None);
    let (commits, next) = drive(&mut cycle);
    assert_eq!(ended(&next).0, Ending::Canceled);
    assert_eq!(commits[0].settle[0].state.as_str(), "canceled");
    let kinds: Vec<_> = commits[0].entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Inbox, EntryKind::Notice]);
}

#[test]
fn a_cancel_survives_a_crash_before_the_first_decision() {
    let mut cycle = begin(vec![service(1, 0)]);
    let (opened, _) = drive(&mut cycle);
    let mut again = activation(vec![service(1, 1), service(2, 0)]);
    again.life.open.clone_from(&opened[0].open);
    again.cancel = Some(cycle.id());
    let mut cycle = begin_with(again);
    let (commits, next) = drive(&mut cycle);
    assert_eq!(ended(&next).0, Ending::Canceled);
    let settled: Vec<_> = commits[1].settle.iter().map(|s| (s.seq, s.state.as_str())).collect();
    assert_eq!(settled, [(1, "canceled")], "later events still wait");
}

#[test]
fn a_cancel_during_a_cycle_gives_every_call_an_outcome() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    reply_with(&mut cycle, vec![call("look"), call("fire")]);
    cancel(&mut cycle);
    let (commits, next) = drive(&mut cycle);
    assert_eq!(ended(&next).0, Ending::Canceled);
    let kinds: Vec<_> = commits[0].entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Outcomes, EntryKind::Notice]);
    let statuses: Vec<_> =
        commits[0].call_changes.iter().map(|c| c.outcome.as_ref().unwrap().status).collect();
    assert_eq!(statuses, [OutcomeStatus::Canceled, OutcomeStatus::Unknown]);
}
