//! Promises of a store that outlives its process.

use agent::changes::{CommitKind, Idle};
use agent::event::EventState;
use agent::life::{IdleReason, OpenCycle};
use agent::port::{Accept, Accepted, MessageFilter, StoreError};
use agent::run::StepRecord;
use futures_util::future::join_all;

use super::Backend;
use super::world::{CycleDriver, World, at, message_from, service, world};

impl World {
    fn with(self, change: impl FnOnce(Backend) -> Backend) -> Self {
        Self { b: change(self.b), ..self }
    }

    async fn reopened(self) -> Self {
        Self { b: self.b.reopened().await, ..self }
    }
}

/// Messages, events, agents and members survive without a graceful stop.
pub async fn accepted_messages_and_events_survive_a_crash(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "hello").await;
    w.event(w.ada, service("s-1")).await;
    let before = w.wake(w.ada).await;
    let w = w.with(Backend::crashed);
    let after = w.wake(w.ada).await;
    assert_eq!(after.waiting, before.waiting);
    assert_eq!(after.facts, before.facts);
    assert_eq!(
        w.b.reader.messages(w.team, MessageFilter::default(), 10).await.unwrap().items[0].text,
        "hello"
    );
    assert_eq!(w.due(1_000).await.len(), 2);
}

/// The ledger recognizes the id.
pub async fn an_id_is_recognized_even_after_years_and_restarts(b: Backend) {
    let w = world(b).await;
    let message = message_from(w.husam, w.family, "once");
    w.accept(message.clone()).await;
    w.event(w.ada, service("s-1")).await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    let w = w.reopened().await.with(Backend::crashed);
    let mut late = service("s-1");
    late.at = at(5 * 365 * 86_400_000);
    assert_eq!(w.event(w.ada, late).await, Accepted::Duplicate { message: None });
    assert!(matches!(w.accept(message).await, Accepted::Duplicate { message: Some(_) }));
    assert_eq!(w.wake(w.ada).await.waiting, []);
}

/// The returned event is due again since its arrival, and no later event overtakes it.
pub async fn a_restart_ends_a_backoff_for_a_provider(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "first").await;
    let mut driver = w.open(w.ada).await;
    let mut back = driver.changes(CommitKind::Close);
    back.open = None;
    back.settle = driver.settlements(&EventState::Waiting);
    back.idle = Some(Idle { not_before: Some(at(900_000)), reason: Some(IdleReason::Provider) });
    driver.commit(&w, back).await;
    assert_eq!(w.due(100_000).await, []);
    let w = w.with(Backend::crashed);
    assert_eq!(w.due(100_000).await, [w.ada]);
    w.post(w.family, "second").await;
    let activation = w.b.store.wake(w.ada, at(100_000), None).await.unwrap().unwrap();
    let texts: Vec<_> = activation.waiting.iter().map(|waiting| waiting.text()).collect();
    assert_eq!(texts, ["first", "second"]);
}

/// It keeps its entries and calls, and the next opening raises the epoch.
pub async fn an_open_cycle_is_due_again_after_a_crash(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision_with(vec![driver.outward(0, true)]);
    driver.commit(&w, decision).await;
    let w = w.with(Backend::crashed);
    assert_eq!(w.due(1_000).await, [w.ada]);
    let activation = w.wake(w.ada).await;
    assert_eq!((activation.life.open.as_ref(), activation.calls.len()), (Some(&driver.open), 1));
    assert_eq!(w.b.reader.totals().await.unwrap().open_cycles, 1);
    driver.lease.epoch += 1;
    let open = driver.changes(CommitKind::Open);
    driver.commit(&w, open).await;
    let closing = driver.closing();
    driver.commit(&w, closing).await;
}

/// Each step has one row with the last written record, and the run has all of them.
pub async fn step_records_survive_a_crash_and_move_to_the_run(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let mut steps: Vec<StepRecord> = Vec::new();
    for step in 0..10 {
        let tools = vec![format!("tool-{step}")];
        steps.push(StepRecord { step, tools, ..StepRecord::default() });
        let mut decision = if step == 0 { driver.decision() } else { driver.changes(CommitKind::Decide) };
        decision.open = Some(OpenCycle { decided: true, step, steps: steps.clone(), ..driver.open.clone() });
        driver.commit(&w, decision).await;
        steps.iter_mut().last().unwrap().model_ms = 7;
        let mut settle = driver.changes(CommitKind::Settle);
        settle.open = Some(OpenCycle { step: step + 1, steps: steps.clone(), ..driver.open.clone() });
        driver.commit(&w, settle).await;
    }
    let w = w.with(Backend::crashed);
    let open = w.wake(w.ada).await.life.open.unwrap();
    assert_eq!((open.id, &open.steps), (driver.open.id, &steps));
    let mut successor = driver.takeover();
    let open = successor.changes(CommitKind::Open);
    successor.commit(&w, open).await;
    let mut close = successor.closing();
    close.run.as_mut().unwrap().steps.clone_from(&steps);
    successor.commit(&w, close).await;
    assert_eq!(w.b.reader.run(driver.open.id).await.unwrap().unwrap().steps, steps);
    w.post(w.family, "and again").await;
    let next = w.open(w.ada).await;
    assert_ne!(next.open.id, driver.open.id);
    assert_eq!(w.wake(w.ada).await.life.open.unwrap().steps, []);
}

/// A death is reported for work that was running when the process died, once for each death. It is not
/// reported for parked work, for work that this process opened itself, or after a graceful stop.
pub async fn a_crash_is_reported_only_to_activations_that_continue_interrupted_work(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let died = async |w: &World| w.wake(w.ada).await.died;
    assert!(!died(&w).await);
    let w = w.with(Backend::crashed);
    assert!(died(&w).await);
    let w = w.reopened().await;
    assert!(!died(&w).await, "a graceful stop is not a death");
    let w = w.with(Backend::crashed).with(Backend::crashed);
    assert!(died(&w).await);
    driver = driver.takeover();
    let open = driver.changes(CommitKind::Open);
    driver.commit(&w, open).await;
    assert!(!died(&w).await, "this process has opened it itself");
    let w = w.with(Backend::crashed);
    assert!(died(&w).await);
    driver = driver.takeover();
    let open = driver.changes(CommitKind::Open);
    driver.commit(&w, open).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    let mut park = driver.changes(CommitKind::Park);
    park.idle = Some(Idle { not_before: Some(at(900)), reason: Some(IdleReason::Provider) });
    driver.commit(&w, park).await;
    let w = w.with(Backend::crashed);
    let activation = w.wake(w.ada).await;
    assert_eq!((activation.died, activation.life.open.is_some()), (false, true), "it was parked");
    assert_eq!(activation.suspicion(), None);
}

/// It is read until an opening has counted it, the first of several stays, and a death afterwards is not one of its cycle. An
/// opening that does not know of it leaves it.
pub async fn a_panic_is_read_until_an_opening_has_counted_it(b: Backend) {
    let w = world(b).await;
    let read = async |w: &World| {
        let activation = w.wake(w.ada).await;
        (activation.panicked, activation.died)
    };
    w.post(w.family, "hello").await;
    assert_eq!(read(&w).await, (None, false));
    w.b.store.panicked(w.ada).await.unwrap();
    w.post(w.family, "later").await;
    w.b.store.panicked(w.ada).await.unwrap();
    let w = w.with(Backend::crashed);
    let first = w.wake(w.ada).await.waiting[0].seq;
    assert_eq!(read(&w).await, (Some(first), false), "nothing was open");
    let mut driver = CycleDriver::about_to_open(w.ada, &w.wake(w.ada).await);
    let open = driver.changes(CommitKind::Open);
    driver.commit(&w, open).await;
    assert_eq!(read(&w).await.0, Some(first), "this opening was made before the panic was noted");
    w.b.store.panicked(w.ada).await.unwrap();
    let w = w.with(Backend::crashed);
    assert_eq!(read(&w).await, (Some(first), false), "the cycle did not run any more");
    let mut driver = driver.takeover();
    let mut open = driver.changes(CommitKind::Open);
    open.panicked = Some(first);
    driver.commit(&w, open).await;
    assert_eq!(read(&w).await, (None, false));
    let w = w.with(Backend::crashed);
    assert_eq!(read(&w).await, (None, true), "now it ran");
}

/// Events that arrived since this start are not suspect.
pub async fn an_activation_is_clean_after_a_graceful_stop_and_suspect_after_a_crash(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    assert!(w.wake(w.ada).await.clean);
    let w = w.reopened().await;
    assert!(w.wake(w.ada).await.clean);
    let w = w.with(Backend::crashed);
    assert!(!w.wake(w.ada).await.clean);
    w.post(w.team, "new").await;
    assert!(!w.wake(w.ada).await.clean, "the old one still waits");
    assert!(w.wake(w.bob).await.clean);
}

/// The error says what to do.
pub async fn a_store_that_is_in_use_cannot_be_opened_again(b: Backend) {
    let refused = (b.open)().err().expect("the directory is taken");
    assert!(refused.contains("in use by another viv"), "{refused}");
    assert_eq!(b.reader.totals().await.unwrap().agents, 0, "the first one still works");
    let b = b.reopened().await;
    assert_eq!(b.reader.totals().await.unwrap().agents, 0);
}

/// Concurrent accepts share an fsync. The transactions are counted, not timed.
pub async fn many_accepts_share_few_transactions(b: Backend) {
    let w = world(b).await;
    let before = (w.b.transactions)();
    let many: Vec<_> = (0..512).map(|n| message_from(w.husam, w.family, &format!("{n}"))).collect();
    let done = join_all(many.into_iter().map(|message| w.accept(message))).await;
    assert!(done.iter().all(|accepted| matches!(accepted, Accepted::Fresh { .. })));
    let transactions = (w.b.transactions)() - before;
    assert!((1..=512 / 15).contains(&transactions), "{transactions} transactions for 512 accepts");
}

/// It does not hang and loses nothing.
pub async fn a_closed_store_returns_an_error(b: Backend) {
    let w = world(b).await;
    let store = std::sync::Arc::clone(&w.b.store);
    let message = message_from(w.husam, w.family, "too late");
    let Backend { close, .. } = w.b;
    close().await;
    let late = store.accept(Accept::Message(message), None).await;
    assert!(matches!(late, Err(StoreError::Closed)), "{late:?}");
    assert!(matches!(store.due(at(0), None, 1).await, Err(StoreError::Closed)));
}
