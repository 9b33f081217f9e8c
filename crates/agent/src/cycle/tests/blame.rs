//! Which events and steps are blamed for a failure or for the death of the process.

use super::*;

#[test]
fn a_failure_of_the_content_gives_the_batch_back_and_counts_an_attempt() {
    let mut cycle = begin((1..=8).map(|n| service(n, 0)).collect());
    drive(&mut cycle);
    cycle.replied(Err(ModelError::Invalid("no".into())), at(2_000));
    let (commits, next) = drive(&mut cycle);
    assert!(matches!(next, Next::Finished(ActivationEnd::Parked { until: Some(_), .. })));
    assert!(commits[0].blame);
    assert!(commits[0].settle.iter().all(|s| s.state == EventState::Waiting));
}

#[test]
fn a_failure_of_the_surroundings_counts_no_attempt_and_backs_off_longer_each_time() {
    let mut pauses = Vec::new();
    for failures in 0..3 {
        let mut activation = activation(vec![service(1, 0)]);
        activation.life.failures = failures;
        let mut cycle = begin_with(activation);
        drive(&mut cycle);
        cycle.replied(Err(ModelError::Network("down".into())), at(2_000));
        let (commits, _) = drive(&mut cycle);
        assert!(!commits[0].blame);
        assert_eq!(commits[0].failures, Some(failures + 1));
        pauses.push(commits[0].idle.as_ref().unwrap().not_before.unwrap());
    }
    assert!(pauses[0] < pauses[1] && pauses[1] < pauses[2]);
}

#[test]
fn an_event_that_fails_alone_too_often_is_dead() {
    let mut cycle = begin(vec![service(1, 4)]);
    drive(&mut cycle);
    cycle.replied(Err(ModelError::Invalid("no".into())), at(2_000));
    let (commits, next) = drive(&mut cycle);
    assert!(matches!(commits[0].settle[0].state, EventState::Dead { .. }));
    assert_eq!(ended(&next).0, Ending::Failed);
}

/// Drives the activation after one that closed nothing, over the same cycle.
fn after(end: End, deaths: u32, attempts: u32, events: u64) -> (Vec<Changes>, Next) {
    let events_seen = events;
    let events: Vec<Waiting> = (1..=events).map(|seq| Waiting { deaths, ..service(seq, attempts) }).collect();
    let taken: Vec<u64> = events.iter().map(|event| event.seq).collect();
    let mut again = activation(events);
    again.life.open = Some(left_open(&taken));
    again.died = end == End::Died;
    again.clean = !again.died;
    again.panicked = (end == End::Panicked).then_some(events_seen);
    drive(&mut begin_with(again))
}

use super::attempts::End;

#[test]
fn an_event_that_kills_the_process_too_often_is_dead_without_a_model_call() {
    let (commits, next) = after(End::Died, limits::DEATHS_MAX - 1, 0, 1);
    assert_eq!(kinds(&commits), [CommitKind::Open, CommitKind::Close]);
    assert_eq!(commits[0].tried, [Tried { seq: 1, attempts: 0, deaths: limits::DEATHS_MAX }]);
    let EventState::Dead { reason } = &commits[1].settle[0].state else { panic!("wanted a dead event") };
    assert!(reason.contains("the process died 19 times"), "{reason}");
    assert_eq!(ended(&next).0, Ending::Failed);
}

#[test]
fn the_cycle_of_a_dead_process_keeps_its_id_and_counts_the_death() {
    let (commits, next) = after(End::Died, 0, 0, 4);
    let open = commits[0].open.as_ref().unwrap();
    assert_eq!((open.id, open.opening), (CycleId(Uuid::from_u128(40)), Some(CycleId(Uuid::from_u128(50)))));
    assert_eq!(open.taken, [1, 2], "half of the events of the crash");
    assert_eq!(commits[0].tried.iter().map(|tried| tried.deaths).collect::<Vec<_>>(), [1; 4]);
    assert_eq!(kinds(&commits), [CommitKind::Open, CommitKind::Sent]);
    assert!(commits[1].open.as_ref().unwrap().asked && matches!(next, Next::Think(_)));
}

#[test]
fn a_suspect_cycle_records_that_its_request_was_sent_and_its_reply_arrived() {
    let mut again = activation(vec![Waiting { deaths: 1, ..service(1, 0) }]);
    again.clean = false;
    let mut cycle = begin_with(again);
    assert!(matches!(cycle.next(at(2_000)), Next::Commit(_)));
    cycle.committed(done(Glance::default()), at(2_000));
    assert!(matches!(cycle.next(at(2_000)), Next::Encode(_)), "built before it is recorded as sent");
    let (sent, _) = drive(&mut cycle);
    assert_eq!(kinds(&sent), [CommitKind::Sent]);
    let (commits, _) = reply_with(&mut cycle, vec![text("well")]);
    assert_eq!(kinds(&commits), [CommitKind::Arrived, CommitKind::Decide]);
    assert!(!commits[0].open.as_ref().unwrap().asked);
}

#[test]
fn deaths_during_a_step_fail_its_cycle_but_deaths_while_waiting_for_a_model_do_not() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, _) = reply_with(&mut cycle, vec![call("note")]);
    let again = |deaths, asked| {
        let mut again = after_crash(&commits, 9);
        let open = again.life.open.as_mut().unwrap();
        (open.deaths, open.asked) = (deaths, asked);
        again.died = true;
        drive(&mut begin_with(again))
    };
    let (commits, next) = again(limits::DEATHS_MAX - 1, false);
    assert!(matches!(&ended(&next), (Ending::Failed, Some(why)) if why.contains("the process died")));
    assert_eq!(kinds(&commits), [CommitKind::Open, CommitKind::Close]);
    for asked in [false, true] {
        let (commits, next) = again(3, asked);
        assert_eq!(commits[0].open.as_ref().unwrap().deaths, if asked { 3 } else { 4 });
        assert!(matches!(next, Next::Think(_)), "{next:?}");
    }
}

#[test]
fn a_cycle_that_deaths_have_ended_says_so_also_if_an_answer_comes_in_between() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, _) = reply_with(&mut cycle, vec![call("look")]);
    let mut again = after_crash(&commits, 9);
    again.life.open.as_mut().unwrap().deaths = limits::DEATHS_MAX - 1;
    again.died = true;
    let look = again.calls[0].id.clone();
    let mut cycle = begin_with(again);
    assert!(matches!(cycle.next(at(2_000)), Next::Commit(open) if open.kind == CommitKind::Open));
    cycle.committed(done(Glance::default()), at(2_000));
    for answered in [false, true] {
        let Next::Commit(close) = cycle.next(at(2_000)) else { panic!("wanted it closed") };
        assert_eq!(close.kind, CommitKind::Close);
        let reason = close.run.unwrap().reason.unwrap();
        let died = format!("the process died {} times", limits::DEATHS_MAX);
        assert!(reason.contains(&died) && !reason.contains("failed"), "{reason}");
        if !answered {
            let answer = (look.clone(), Outcome::ok("seen"));
            cycle.committed(CommitOutcome::Answered(vec![answer]), at(2_000));
        }
    }
}

#[test]
fn after_a_crash_only_agents_that_were_awake_are_suspects() {
    let crashed = |waiting| Activation { clean: false, ..activation(waiting) };
    assert_eq!(crashed(vec![service(1, 0)]).suspicion(), None, "its event only waited");
    assert_eq!(crashed(vec![service(1, 0), service(2, 1)]).suspicion(), Some(0));
    let died = Waiting { deaths: 1, ..service(1, 0) };
    assert_eq!(crashed(vec![died]).suspicion(), Some(1), "this death counts as well");
    let (opened, _) = drive(&mut begin(vec![service(1, 0)]));
    let mut awake = crashed(vec![service(1, 0)]);
    awake.life.open.clone_from(&opened[0].open);
    assert_eq!(awake.suspicion(), Some(0));
    awake.clean = true;
    assert_eq!(awake.suspicion(), None, "nothing crashed");
}

#[test]
fn only_the_event_that_failed_is_dead_even_if_others_have_arrived() {
    // Later events, and one that an operator sent again, which waits under its old number.
    for (others, most, attempts) in [(&[8u64, 9][..], 1, 0), (&[3], 5, 4)] {
        let mut events = vec![service(7, attempts)];
        events.extend(others.iter().map(|seq| service(*seq, 0)));
        events.sort_by_key(|event| event.seq);
        let mut again = activation(events);
        let mut config = (*again.config).clone();
        config.limits.max_attempts = most;
        again.config = Arc::new(config);
        again.life.open = Some(left_open(&[7]));
        again.panicked = Some(7);
        let (commits, next) = drive(&mut begin_with(again));
        let dead: Vec<_> = commits[1].settle.iter().map(|end| end.seq).collect();
        assert_eq!(dead, [7], "with {others:?}");
        assert_eq!(ended(&next).0, Ending::Failed);
    }
}

#[test]
fn an_event_that_failed_only_with_others_is_tried_alone_before_it_is_dead() {
    let (commits, next) = after(End::Panicked, 0, 5, 2);
    assert_eq!(commits[0].open.as_ref().unwrap().taken, [1]);
    assert_eq!(commits[0].tried.iter().map(|tried| tried.attempts).collect::<Vec<_>>(), [6, 6]);
    assert!(matches!(next, Next::Think(_)), "{next:?}");
    let (commits, _) = after(End::Panicked, 0, 5, 1);
    assert!(matches!(commits[1].settle[0].state, EventState::Dead { .. }), "it panicked alone");
}

#[test]
fn a_request_after_a_failed_one_is_built_only_after_the_wait_is_recorded_as_over() {
    let mut again = activation(vec![Waiting { deaths: 1, ..service(1, 0) }]);
    again.clean = false;
    let mut config = (*again.config).clone();
    config.fallback = vec!["other".into()];
    again.config = Arc::new(config);
    let mut cycle = begin_with(again);
    let (commits, _) = drive(&mut cycle);
    assert_eq!(kinds(&commits), [CommitKind::Open, CommitKind::Sent]);
    cycle.replied(Err(ModelError::Network("down".into())), at(2_000));
    let Next::Commit(arrived) = cycle.next(at(2_000)) else { panic!("wanted a commit first") };
    assert!(arrived.kind == CommitKind::Arrived && !arrived.open.as_ref().unwrap().asked);
    cycle.committed(done(Glance::default()), at(2_000));
    assert!(matches!(cycle.next(at(2_000)), Next::Encode(_)));
}
