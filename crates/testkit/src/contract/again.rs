//! A cycle that is gone on with after something came between: what it finds, and what it may still do.

use agent::call::{CallState, Outcome};
use agent::changes::{CallChange, CommitKind, CommitOutcome, Idle, Settlement};
use agent::event::EventState;
use agent::id::EventId;
use agent::life::{OpenCycle, Standing};
use agent::run::Ending;

use super::Backend;
use super::world::{AHEAD, Living, World, at, service, world};

/// A cycle of Ada's whose first decision is made.
async fn begun(w: &World) -> Living {
    w.say(w.family, "begin").await;
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(w, decision).await;
    living
}

/// Whoever comes too late to settle an event is told so, and nothing is written.
pub async fn an_event_that_left_is_not_settled_and_that_is_no_damage(b: Backend) {
    let w = world(b).await;
    let mut living = begun(&w).await;
    for event in ["a", "b"] {
        w.event(w.ada, service(event)).await;
    }
    let shown: Vec<u64> = w.news(living.lease).await.oldest.iter().map(|waiting| waiting.seq).collect();
    w.b.registry.cancel_event(w.ada, EventId("a".into())).await.unwrap();
    let state = EventState::Processed { cycle: living.open.id, step: 1 };
    let settlement = |seq: &u64| Settlement { seq: *seq, state: state.clone() };
    let mut decide = living.changes(CommitKind::Decide);
    decide.settle = shown.iter().map(settlement).collect();
    let mut close = living.canceled();
    close.settle.clone_from(&decide.settle);
    let before = w.dump(w.ada).await;
    for late in [decide.clone(), close] {
        assert_eq!(w.commit(living.lease, late).await, CommitOutcome::Gone(vec![shown[0]]));
    }
    assert_eq!((w.state(w.ada, "a").await, w.state(w.ada, "b").await), ("canceled", "waiting"));
    assert_eq!(w.dump(w.ada).await, before);
    decide.settle.remove(0);
    living.done(&w, decide).await;
    assert_eq!((w.waiting().await, w.state(w.ada, "b").await), (0, "processed"));
}

/// Also where nothing is processed yet: it is the same cycle that is taken up, it ends as canceled, and whoever
/// asks for it by the id that the cancel told finds its run.
pub async fn a_cancel_before_a_cycle_is_taken_up_again_holds_and_its_id_leads_to_a_run(b: Backend) {
    let w = world(b).await;
    for lived in [false, true] {
        w.say(w.family, "begin").await;
        let mut living = w.open(w.ada).await;
        if lived {
            let decision = living.decision();
            living.done(&w, decision).await;
        }
        let read = w.wake(w.ada).await;
        let told = w.b.registry.cancel(w.ada, None).await.unwrap();
        let mut heir = if lived { living.heir() } else { Living::about_to_open(w.ada, &read) };
        assert_eq!((told, heir.open.id), (living.open.id, living.open.id));
        let open = heir.changes(CommitKind::Open);
        let (glance, _) = heir.done(&w, open).await;
        assert!(glance.cancel, "the opening is done and brings the news");
        let before = w.dump(w.ada).await;
        let mut back = heir.changes(CommitKind::Close);
        (back.open, back.settle) = (None, heir.settled(&EventState::Waiting));
        for refused in [heir.decision(), heir.changes(CommitKind::Sent), heir.changes(CommitKind::Park), back]
        {
            assert_eq!(w.commit(heir.lease, refused).await, CommitOutcome::Canceled);
        }
        assert_eq!(w.dump(w.ada).await, before);
        let mut close = heir.canceled();
        if !lived {
            close.settle = heir.settled(&EventState::Canceled { reason: None });
        }
        let (glance, _) = heir.done(&w, close).await;
        assert!(!glance.cancel);
        let run = w.b.reader.run(told).await.unwrap().expect("its run");
        assert_eq!((run.ending, w.waiting().await), (Ending::Canceled, 0));
    }
}

/// What is in the log is not read again for the sake of the step.
pub async fn the_calls_of_the_open_step_come_back_and_those_before_it_are_not_read(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "begin").await;
    let mut living = w.open(w.ada).await;
    let mut steps = Vec::new();
    for step in 0..3 {
        let mut decision = if step == 0 { living.decision() } else { living.changes(CommitKind::Decide) };
        decision.calls = vec![living.call(0), living.outward(1, true)];
        decision.open = Some(OpenCycle { decided: true, step, ..living.open.clone() });
        steps.push(decision.calls.clone());
        living.done(&w, decision).await;
        assert_eq!(w.wake(w.ada).await.calls, steps[step as usize]);
        let mut settle = living.changes(CommitKind::Settle);
        let id = steps[step as usize][1].id.clone();
        settle.call_changes =
            vec![CallChange { id, state: CallState::Done, outcome: Some(Outcome::ok("found")) }];
        settle.open = Some(OpenCycle { step: step + 1, ..living.open.clone() });
        living.done(&w, settle).await;
        assert_eq!(w.wake(w.ada).await.calls, [], "the next step has none yet");
    }
}

/// A cycle that is parked when its agent is retired is due once more, and closed.
pub async fn the_parked_cycle_of_a_retired_agent_is_due_and_may_be_closed(b: Backend) {
    let w = world(b).await;
    let mut living = begun(&w).await;
    let mut park = living.changes(CommitKind::Park);
    park.idle = Some(Idle { not_before: Some(at(500)), reason: None });
    living.done(&w, park).await;
    w.b.registry.set_standing(w.ada, Standing::Retired, at(2_000)).await.unwrap();
    assert_eq!(w.due(2_000).await, [w.ada]);
    let activation = w.wake(w.ada).await;
    assert_eq!(activation.cancel, Some(living.open.id));
    let mut heir = living.heir();
    let open = heir.changes(CommitKind::Open);
    heir.done(&w, open).await;
    let closing = heir.canceled();
    heir.done(&w, closing).await;
    assert_eq!(w.due(AHEAD).await, [], "and that was the last of it");
}

/// Who is suspended does not live, but hears that its parked cycle is canceled.
pub async fn a_canceled_cycle_of_a_suspended_agent_is_due_and_may_be_closed(b: Backend) {
    let w = world(b).await;
    let mut living = begun(&w).await;
    let mut park = living.changes(CommitKind::Park);
    park.idle = Some(Idle { not_before: Some(at(500)), reason: None });
    living.done(&w, park).await;
    w.b.registry.set_standing(w.ada, Standing::Suspended, at(2_000)).await.unwrap();
    assert_eq!(w.due(9_000).await, []);
    let mut heir = living.heir();
    let open = heir.changes(CommitKind::Open);
    assert_eq!(w.commit(heir.lease, open.clone()).await, CommitOutcome::Lost, "suspended is suspended");
    w.b.registry.cancel(w.ada, None).await.unwrap();
    assert_eq!(w.due(AHEAD).await, [w.ada]);
    heir.done(&w, open).await;
    let closing = heir.canceled();
    heir.done(&w, closing).await;
    assert_eq!(w.due(AHEAD).await, [], "and sleeps on");
}
