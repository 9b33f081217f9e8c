//! What a store keeps beyond its process.

use agent::changes::{CommitKind, Idle};
use agent::event::EventState;
use agent::life::{IdleReason, OpenCycle};
use agent::port::{Accept, Accepted, StoreError};
use agent::run::StepRecord;
use futures_util::future::join_all;

use super::Backend;
use super::world::{World, at, saying, service, world};

impl World {
    fn with(self, change: impl FnOnce(Backend) -> Backend) -> Self {
        Self { b: change(self.b), ..self }
    }

    async fn reopened(self) -> Self {
        Self { b: self.b.reopened().await, ..self }
    }
}

/// Messages, events, agents, members: all of it, without any peaceful end.
pub async fn what_was_accepted_survives_a_crash(b: Backend) {
    let w = world(b).await;
    w.say(w.team, "hello").await;
    w.event(w.ada, service("s-1")).await;
    let before = w.wake(w.ada).await;
    let w = w.with(Backend::crashed);
    let after = w.wake(w.ada).await;
    assert_eq!(after.waiting, before.waiting);
    assert_eq!(after.facts, before.facts);
    assert_eq!(w.b.reader.messages(w.team, None, None, 10).await.unwrap()[0].text, "hello");
    assert_eq!(w.due(1_000).await.len(), 2);
}

/// The ledger is the dedupe.
pub async fn an_id_is_a_duplicate_also_after_years_and_restarts(b: Backend) {
    let w = world(b).await;
    let message = saying(w.husam, w.family, "once");
    w.accept(message.clone()).await;
    w.event(w.ada, service("s-1")).await;
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    let closing = living.closing();
    living.done(&w, closing).await;
    let w = w.reopened().await.with(Backend::crashed);
    let mut late = service("s-1");
    late.at = at(5 * 365 * 86_400_000);
    assert_eq!(w.event(w.ada, late).await, Accepted::Duplicate { message: None });
    assert!(matches!(w.accept(message).await, Accepted::Duplicate { message: Some(_) }));
    assert_eq!(w.wake(w.ada).await.waiting, []);
}

/// What was given back is due again from when it came, and nothing that came later overtakes it.
pub async fn a_start_ends_a_rest_for_a_provider_with_all_that_waits(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "first").await;
    let mut living = w.open(w.ada).await;
    let mut back = living.changes(CommitKind::Close);
    back.open = None;
    back.settle = living.settled(&EventState::Waiting);
    back.idle = Some(Idle { not_before: Some(at(900_000)), reason: Some(IdleReason::Provider) });
    living.done(&w, back).await;
    assert_eq!(w.due(100_000).await, []);
    let w = w.with(Backend::crashed);
    assert_eq!(w.due(100_000).await, [w.ada]);
    w.say(w.family, "second").await;
    let activation = w.b.store.wake(w.ada, at(100_000), None).await.unwrap().unwrap();
    let texts: Vec<_> = activation.waiting.iter().map(|waiting| waiting.words()).collect();
    assert_eq!(texts, ["first", "second"]);
}

/// With its entries and calls; the next opening raises the epoch.
pub async fn an_open_cycle_is_due_again_after_a_crash(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let decision = living.asking(vec![living.outward(0, true)]);
    living.done(&w, decision).await;
    let w = w.with(Backend::crashed);
    assert_eq!(w.due(1_000).await, [w.ada]);
    let activation = w.wake(w.ada).await;
    assert_eq!((activation.life.open.as_ref(), activation.calls.len()), (Some(&living.open), 1));
    assert_eq!(w.b.reader.totals().await.unwrap().open_cycles, 1);
    living.lease.epoch += 1;
    let open = living.changes(CommitKind::Open);
    living.done(&w, open).await;
    let closing = living.closing();
    living.done(&w, closing).await;
}

/// One row each, whoever wrote it last; the run has them all.
pub async fn receipts_of_steps_survive_a_crash_and_leave_with_their_cycle(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let mut steps: Vec<StepRecord> = Vec::new();
    for step in 0..10 {
        let tools = vec![format!("tool-{step}")];
        steps.push(StepRecord { step, tools, ..StepRecord::default() });
        let mut decision = if step == 0 { living.decision() } else { living.changes(CommitKind::Decide) };
        decision.open = Some(OpenCycle { decided: true, step, steps: steps.clone(), ..living.open.clone() });
        living.done(&w, decision).await;
        steps.iter_mut().last().unwrap().model_ms = 7;
        let mut settle = living.changes(CommitKind::Settle);
        settle.open = Some(OpenCycle { step: step + 1, steps: steps.clone(), ..living.open.clone() });
        living.done(&w, settle).await;
    }
    let w = w.with(Backend::crashed);
    let open = w.wake(w.ada).await.life.open.unwrap();
    assert_eq!((open.id, &open.steps), (living.open.id, &steps));
    let mut heir = living.heir();
    let open = heir.changes(CommitKind::Open);
    heir.done(&w, open).await;
    let mut close = heir.closing();
    close.run.as_mut().unwrap().steps.clone_from(&steps);
    heir.done(&w, close).await;
    assert_eq!(w.b.reader.run(living.open.id).await.unwrap().unwrap().steps, steps);
    w.say(w.family, "and again").await;
    let next = w.open(w.ada).await;
    assert_ne!(next.open.id, living.open.id);
    assert_eq!(w.wake(w.ada).await.life.open.unwrap().steps, []);
}

/// Of what was at work when the process died, and once for each death; not of what rested or of what this
/// start has opened itself, and not after an end in peace.
pub async fn a_death_is_told_to_whoever_takes_up_what_was_being_lived_then(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let died = async |w: &World| w.wake(w.ada).await.died;
    assert!(!died(&w).await);
    let w = w.with(Backend::crashed);
    assert!(died(&w).await);
    let w = w.reopened().await;
    assert!(!died(&w).await, "what ended in peace blames nobody");
    let w = w.with(Backend::crashed).with(Backend::crashed);
    assert!(died(&w).await);
    living = living.heir();
    let open = living.changes(CommitKind::Open);
    living.done(&w, open).await;
    assert!(!died(&w).await, "it is taken up");
    let w = w.with(Backend::crashed);
    assert!(died(&w).await);
    living = living.heir();
    let open = living.changes(CommitKind::Open);
    living.done(&w, open).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    let mut park = living.changes(CommitKind::Park);
    park.idle = Some(Idle { not_before: Some(at(900)), reason: Some(IdleReason::Provider) });
    living.done(&w, park).await;
    let w = w.with(Backend::crashed);
    let activation = w.wake(w.ada).await;
    assert_eq!((activation.died, activation.life.open.is_some()), (false, true), "it rested");
    assert_eq!(activation.suspicion(), None);
}

/// What came since this start is no suspect.
pub async fn a_waking_is_clean_after_a_peaceful_end_and_suspect_after_a_crash(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    assert!(w.wake(w.ada).await.clean);
    let w = w.reopened().await;
    assert!(w.wake(w.ada).await.clean);
    let w = w.with(Backend::crashed);
    assert!(!w.wake(w.ada).await.clean);
    w.say(w.team, "new").await;
    assert!(!w.wake(w.ada).await.clean, "the old one still waits");
    assert!(w.wake(w.bob).await.clean);
}

/// In words that tell what to do.
pub async fn a_second_opening_is_refused_while_the_first_lives(b: Backend) {
    let refused = (b.open)().err().expect("the directory is taken");
    assert!(refused.contains("in use") && refused.contains("--data-dir"), "{refused}");
    assert_eq!(b.reader.totals().await.unwrap().agents, 0, "the first one lives on");
    let b = b.reopened().await;
    assert_eq!(b.reader.totals().await.unwrap().agents, 0);
}

/// Whoever waits shares the fsync of the others: counted, not timed.
pub async fn many_accepts_share_few_transactions(b: Backend) {
    let w = world(b).await;
    let before = (w.b.transactions)();
    let many: Vec<_> = (0..512).map(|n| saying(w.husam, w.family, &format!("{n}"))).collect();
    let done = join_all(many.into_iter().map(|message| w.accept(message))).await;
    assert!(done.iter().all(|accepted| matches!(accepted, Accepted::Fresh { .. })));
    let transactions = (w.b.transactions)() - before;
    assert!((1..=512 / 15).contains(&transactions), "{transactions} transactions for 512 accepts");
}

/// Instead of hanging or losing a word.
pub async fn a_closed_store_says_so(b: Backend) {
    let w = world(b).await;
    let store = std::sync::Arc::clone(&w.b.store);
    let message = saying(w.husam, w.family, "too late");
    let Backend { close, .. } = w.b;
    close().await;
    let late = store.accept(Accept::Message(message), None).await;
    assert!(matches!(late, Err(StoreError::Closed)), "{late:?}");
    assert!(matches!(store.due(at(0), None, 1).await, Err(StoreError::Closed)));
}
