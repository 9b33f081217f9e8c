//! What an open cycle shows besides what it took is its own from the commit that names it until it is
//! lived, or until the cycle parks.

use agent::changes::{CommitKind, CommitOutcome, Rest};
use agent::event::{Fate, Stage};
use agent::id::EventId;
use agent::life::{OpenCycle, Standing};
use agent::port::{Denial, RegistryError};

use super::Backend;
use super::world::{Living, World, at, everything, service, world};

/// A lived cycle of Ada's that shows `events` at its step 1.
async fn showing(w: &World, events: &[&str]) -> Living {
    w.say(w.family, "begin").await;
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.open = decision.open.clone().unwrap();
    living.done(w, decision).await;
    for event in events {
        w.event(w.ada, service(event)).await;
    }
    let rows = w.b.reader.inbox(w.ada, Some("waiting".into()), everything()).await.unwrap().items;
    let mut shown: Vec<u64> = rows.iter().map(|row| row.seq).collect();
    shown.sort_unstable();
    living.open = OpenCycle { shown, ..living.open.clone() };
    living
}

async fn stage(w: &World, event: &str) -> (Stage, Option<u64>, Option<u32>) {
    let row = w.b.reader.event(w.ada, EventId(event.into())).await.unwrap().unwrap();
    (row.stage, row.ordinal, row.step)
}

/// It is taken: nobody takes it back, it is told with cycle and step, and it is no news any more.
pub async fn what_a_step_shows_is_its_cycles_own_until_it_is_lived_or_parks(b: Backend) {
    let w = world(b).await;
    let mut living = showing(&w, &["a", "b"]).await;
    let show = living.changes(CommitKind::Show);
    living.done(&w, show).await;
    assert_eq!(stage(&w, "a").await, (Stage::Taken, Some(1), Some(1)));
    let refused = w.b.registry.cancel_event(w.ada, EventId("a".into())).await;
    let taken = Denial::EventTaken { event: EventId("a".into()), cycle: living.open.id };
    assert!(matches!(refused, Err(RegistryError::Denied(denial)) if denial == taken));
    let glance = w.b.store.glance(living.lease).await.unwrap().unwrap();
    assert_eq!((glance.waiting, glance.preview.len()), (0, 0));
    let mut park = living.changes(CommitKind::Park);
    park.open.as_mut().unwrap().shown.clear();
    park.rest = Some(Rest { not_before: Some(at(500)), reason: None });
    living.open.shown.clear();
    living.done(&w, park).await;
    assert_eq!(stage(&w, "a").await, (Stage::Waiting, None, None));
    w.b.registry.cancel_event(w.ada, EventId("a".into())).await.unwrap();
    assert_eq!(w.waiting().await, 1);
    let mut decide = living.changes(CommitKind::Decide);
    let rows = w.b.reader.inbox(w.ada, Some("waiting".into()), everything()).await.unwrap().items;
    let fate = Fate::Lived { cycle: living.open.id, step: 1 };
    decide.settle = vec![agent::changes::Settlement { seq: rows[0].seq, fate }];
    living.done(&w, decide).await;
    assert_eq!((w.waiting().await, w.state(w.ada, "b").await), (0, "lived"));
}

/// Whoever comes too late to name or to settle an event is told so, and nothing is written.
pub async fn an_event_that_left_is_neither_named_nor_settled_and_that_is_no_damage(b: Backend) {
    let w = world(b).await;
    let living = showing(&w, &["a", "b"]).await;
    let gone = vec![living.open.shown[0]];
    w.b.registry.cancel_event(w.ada, EventId("a".into())).await.unwrap();
    let show = living.changes(CommitKind::Show);
    assert_eq!(w.commit(living.lease, show).await, CommitOutcome::Gone(gone.clone()));
    assert_eq!(stage(&w, "b").await.0, Stage::Waiting);
    let fate = Fate::Lived { cycle: living.open.id, step: 1 };
    let mut decide = living.changes(CommitKind::Decide);
    let settlement = |seq: &u64| agent::changes::Settlement { seq: *seq, fate: fate.clone() };
    decide.settle = living.open.shown.iter().map(settlement).collect();
    assert_eq!(w.commit(living.lease, decide).await, CommitOutcome::Gone(gone));
    assert_eq!((w.state(w.ada, "a").await, w.state(w.ada, "b").await), ("canceled", "waiting"));
}

/// A cycle that is parked when its agent is retired is due once more, and closed.
pub async fn the_parked_cycle_of_a_retired_agent_is_due_and_may_be_closed(b: Backend) {
    let w = world(b).await;
    let mut living = showing(&w, &[]).await;
    let mut park = living.changes(CommitKind::Park);
    park.rest = Some(Rest { not_before: Some(at(500)), reason: None });
    living.done(&w, park).await;
    w.b.registry.set_standing(w.ada, Standing::Retired, at(2_000)).await.unwrap();
    assert_eq!(w.due(2_000).await, [w.ada]);
    let waking = w.wake(w.ada).await;
    assert_eq!(waking.cancel, Some(living.open.id));
    living.lease.epoch += 1;
    let open = living.changes(CommitKind::Open);
    living.done(&w, open).await;
    let closing = living.closing();
    living.done(&w, closing).await;
    assert_eq!(w.due(i64::from(i32::MAX)).await, [], "and that was the last of it");
}

/// Who is suspended does not live, but hears that its parked cycle is canceled.
pub async fn a_canceled_cycle_of_a_suspended_agent_is_due_and_may_be_closed(b: Backend) {
    let w = world(b).await;
    let mut living = showing(&w, &[]).await;
    let mut park = living.changes(CommitKind::Park);
    park.rest = Some(Rest { not_before: Some(at(500)), reason: None });
    living.done(&w, park).await;
    w.b.registry.set_standing(w.ada, Standing::Suspended, at(2_000)).await.unwrap();
    assert_eq!(w.due(9_000).await, []);
    let heir = |living: &Living| {
        let mut heir = living.clone();
        heir.lease.epoch += 1;
        heir
    };
    let open = heir(&living).changes(CommitKind::Open);
    assert_eq!(w.commit(heir(&living).lease, open).await, CommitOutcome::Lost, "suspended is suspended");
    w.b.registry.cancel(w.ada, None).await.unwrap();
    assert_eq!(w.due(i64::from(i32::MAX)).await, [w.ada]);
    let mut heir = heir(&living);
    let open = heir.changes(CommitKind::Open);
    heir.done(&w, open).await;
    let closing = heir.closing();
    heir.done(&w, closing).await;
    assert_eq!(w.due(i64::from(i32::MAX)).await, [], "and sleeps on");
}
