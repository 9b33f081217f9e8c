//! Promises about cycles that continue after an interruption: what they read, and what they may still do.

use agent::call::{CallState, Outcome};
use agent::changes::{CallChange, CommitKind, CommitOutcome, Idle, Settlement};
use agent::event::EventState;
use agent::id::EventId;
use agent::life::{OpenCycle, Standing};
use agent::run::Ending;

use super::Backend;
use super::world::{AHEAD, CycleDriver, World, at, service, world};

/// A cycle of Ada after its first decision.
async fn cycle_with_decision(w: &World) -> CycleDriver {
    w.post(w.family, "begin").await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(w, decision).await;
    driver
}

/// The commit returns the events that are gone, and nothing is written.
pub async fn settling_an_event_that_is_gone_is_refused_and_writes_nothing(b: Backend) {
    let w = world(b).await;
    let mut driver = cycle_with_decision(&w).await;
    for event in ["a", "b"] {
        w.event(w.ada, service(event)).await;
    }
    let shown: Vec<u64> = w.news(driver.lease).await.oldest.iter().map(|waiting| waiting.seq).collect();
    w.b.registry.cancel_event(w.ada, EventId("a".into())).await.unwrap();
    let state = EventState::Processed { cycle: driver.open.id, step: 1 };
    let settlement = |seq: &u64| Settlement { seq: *seq, state: state.clone() };
    let mut decide = driver.changes(CommitKind::Decide);
    decide.settle = shown.iter().map(settlement).collect();
    let mut close = driver.canceled();
    close.settle.clone_from(&decide.settle);
    let before = w.dump(w.ada).await;
    for late in [decide.clone(), close] {
        assert_eq!(w.commit(driver.lease, late).await, CommitOutcome::Gone(vec![shown[0]]));
    }
    assert_eq!((w.state(w.ada, "a").await, w.state(w.ada, "b").await), ("canceled", "waiting"));
    assert_eq!(w.dump(w.ada).await, before);
    decide.settle.remove(0);
    driver.commit(&w, decide).await;
    assert_eq!((w.waiting_count().await, w.state(w.ada, "b").await), (0, "processed"));
}

/// This also holds if the cycle has processed nothing yet. The takeover continues the same cycle and closes it
/// as canceled, and its run is found by the id that the cancel returned.
pub async fn a_cancel_before_a_takeover_stays_in_force_and_its_cycle_has_a_run(b: Backend) {
    let w = world(b).await;
    for processed in [false, true] {
        w.post(w.family, "begin").await;
        let mut driver = w.open(w.ada).await;
        if processed {
            let decision = driver.decision();
            driver.commit(&w, decision).await;
        }
        let read = w.wake(w.ada).await;
        let canceled = w.b.registry.cancel(w.ada, None).await.unwrap();
        let mut successor =
            if processed { driver.takeover() } else { CycleDriver::about_to_open(w.ada, &read) };
        assert_eq!((canceled, successor.open.id), (driver.open.id, driver.open.id));
        let open = successor.changes(CommitKind::Open);
        let (glance, _) = successor.commit(&w, open).await;
        assert!(glance.cancel, "the opening is committed and reports the cancel");
        let before = w.dump(w.ada).await;
        let mut back = successor.changes(CommitKind::Close);
        (back.open, back.settle) = (None, successor.settlements(&EventState::Waiting));
        for refused in [
            successor.decision(),
            successor.changes(CommitKind::Sent),
            successor.changes(CommitKind::Park),
            back,
        ] {
            assert_eq!(w.commit(successor.lease, refused).await, CommitOutcome::Canceled);
        }
        assert_eq!(w.dump(w.ada).await, before);
        let mut close = successor.canceled();
        if !processed {
            close.settle = successor.settlements(&EventState::Canceled { reason: None });
        }
        let (glance, _) = successor.commit(&w, close).await;
        assert!(!glance.cancel);
        let run = w.b.reader.run(canceled).await.unwrap().expect("its run");
        assert_eq!((run.ending, w.waiting_count().await), (Ending::Canceled, 0));
    }
}

/// Calls of earlier steps are in the log and are not read again.
pub async fn only_the_calls_of_the_open_step_are_read(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "begin").await;
    let mut driver = w.open(w.ada).await;
    let mut steps = Vec::new();
    for step in 0..3 {
        let mut decision = if step == 0 { driver.decision() } else { driver.changes(CommitKind::Decide) };
        decision.calls = vec![driver.call(0), driver.outward(1, true)];
        decision.open = Some(OpenCycle { decided: true, step, ..driver.open.clone() });
        steps.push(decision.calls.clone());
        driver.commit(&w, decision).await;
        assert_eq!(w.wake(w.ada).await.calls, steps[step as usize]);
        let mut settle = driver.changes(CommitKind::Settle);
        let id = steps[step as usize][1].id.clone();
        settle.call_changes =
            vec![CallChange { id, state: CallState::Done, outcome: Some(Outcome::ok("found")) }];
        settle.open = Some(OpenCycle { step: step + 1, ..driver.open.clone() });
        driver.commit(&w, settle).await;
        assert_eq!(w.wake(w.ada).await.calls, [], "the next step has none yet");
    }
}

/// A cycle that is parked when its agent is retired is due once more and is then closed.
pub async fn the_parked_cycle_of_a_retired_agent_is_due_and_can_be_closed(b: Backend) {
    let w = world(b).await;
    let mut driver = cycle_with_decision(&w).await;
    let mut park = driver.changes(CommitKind::Park);
    park.idle = Some(Idle { not_before: Some(at(500)), reason: None });
    driver.commit(&w, park).await;
    w.b.registry.set_standing(w.ada, Standing::Retired, at(2_000)).await.unwrap();
    assert_eq!(w.due(2_000).await, [w.ada]);
    let activation = w.wake(w.ada).await;
    assert_eq!(activation.cancel, Some(driver.open.id));
    let mut successor = driver.takeover();
    let open = successor.changes(CommitKind::Open);
    successor.commit(&w, open).await;
    let closing = successor.canceled();
    successor.commit(&w, closing).await;
    assert_eq!(w.due(AHEAD).await, [], "nothing is left to do");
}

/// A suspended agent does not run, but a cancel of its parked cycle is carried out.
pub async fn a_canceled_cycle_of_a_suspended_agent_is_due_and_can_be_closed(b: Backend) {
    let w = world(b).await;
    let mut driver = cycle_with_decision(&w).await;
    let mut park = driver.changes(CommitKind::Park);
    park.idle = Some(Idle { not_before: Some(at(500)), reason: None });
    driver.commit(&w, park).await;
    w.b.registry.set_standing(w.ada, Standing::Suspended, at(2_000)).await.unwrap();
    assert_eq!(w.due(9_000).await, []);
    let mut successor = driver.takeover();
    let open = successor.changes(CommitKind::Open);
    assert_eq!(w.commit(successor.lease, open.clone()).await, CommitOutcome::Lost, "suspended is suspended");
    w.b.registry.cancel(w.ada, None).await.unwrap();
    assert_eq!(w.due(AHEAD).await, [w.ada]);
    successor.commit(&w, open).await;
    let closing = successor.canceled();
    successor.commit(&w, closing).await;
    assert_eq!(w.due(AHEAD).await, [], "it sleeps again");
}
