//! Outcomes of calls that must not be repeated, while the store does not take them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use agent::call::Effect;
use agent::changes::Changes;
use agent::life::Lease;
use agent::port::{Store, StoreError};
use agent::prompt::Prompt;
use models::scripted::{Script, Scripted};
use serde_json::json;

use crate::calls::{posted, results};
use crate::fixture::{Fixture, done, inbox, send, step};
use crate::store_wrapper::{Committed, Intercept, Wrapped};

/// How the store fails at every commit, while it does.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Failure {
    Nothing,
    Full,
    /// At every commit that has an outcome.
    FullForOutcomes,
    Busy,
    /// The commit panics.
    Panics,
}

#[derive(Clone, Default)]
struct Failing(Arc<AtomicU8>);

impl Failing {
    fn set(&self, failure: Failure) {
        self.0.store(failure as u8, Ordering::SeqCst);
    }
}

impl Intercept for Failing {
    fn commit<'a>(&'a self, store: &'a dyn Store, lease: Lease, changes: Changes) -> Committed<'a> {
        const FULL: u8 = Failure::Full as u8;
        const OUTCOMES: u8 = Failure::FullForOutcomes as u8;
        const BUSY: u8 = Failure::Busy as u8;
        const PANICS: u8 = Failure::Panics as u8;
        let error = match self.0.load(Ordering::SeqCst) {
            FULL => StoreError::Full("no room".into()),
            OUTCOMES if changes.call_changes.iter().any(|change| change.outcome.is_some()) => {
                StoreError::Full("no room".into())
            }
            BUSY => StoreError::Busy("try again".into()),
            PANICS => panic!("the commit panics on purpose"),
            _ => return store.commit(lease, changes),
        };
        Box::pin(async move { Err(error) })
    }
}

fn fixture(calls: &'static [&'static str]) -> (Fixture, Failing) {
    let author = move |prompt: &Prompt| match step(prompt) {
        0 if !inbox(prompt).contains("hi") => done(),
        0 => calls.iter().fold(Script::new(), |script, tool| script.call(tool, &json!({}))),
        1 => Script::new().call("send_message", &send("lobby", &results(prompt).join(" | "))),
        _ => done(),
    };
    let failing = Failing::default();
    let wrapper = failing.clone();
    let wrap =
        move |inner: Arc<dyn Store>| -> Arc<dyn Store> { Arc::new(Wrapped { inner, by: wrapper.clone() }) };
    (Fixture::set_up(Scripted::answering(author), wrap, Effect::Unsafe), failing)
}

#[tokio::test]
async fn an_outcome_that_the_store_did_not_take_is_known_when_it_takes_commits_again() {
    for failure in [Failure::Full, Failure::Busy, Failure::Panics] {
        let (fixture, store) = fixture(&["slow"]);
        let world = &fixture.world;
        let (_, lobby) = fixture.ada().await;
        fixture.gate.begun(1).await;
        store.set(failure);
        fixture.gate.open();
        world.pass(Duration::from_secs(60)).await.unwrap();
        store.set(Failure::Nothing);
        world.pass(Duration::from_secs(600)).await.unwrap();
        let texts = posted(&fixture, lobby).await;
        assert!(texts.len() == 2 && texts[1].contains("success"), "{failure:?}: {texts:?}");
        assert_eq!((fixture.counters.calls("slow"), fixture.counters.effects("slow")), (1, 1), "{failure:?}");
    }
}

#[tokio::test]
async fn a_call_that_runs_while_the_store_fails_runs_to_its_end_and_its_outcome_is_known() {
    let (fixture, store) = fixture(&["slow", "look"]);
    let world = &fixture.world;
    store.set(Failure::FullForOutcomes);
    let (_, lobby) = fixture.ada().await;
    world.pass(Duration::from_secs(5)).await.unwrap();
    fixture.gate.open();
    world.pass(Duration::from_secs(60)).await.unwrap();
    store.set(Failure::Nothing);
    world.pass(Duration::from_secs(600)).await.unwrap();
    let texts = posted(&fixture, lobby).await;
    assert!(texts.len() == 2 && texts[1].contains("success") && !texts[1].contains("unknown"), "{texts:?}");
    assert_eq!((fixture.counters.calls("slow"), fixture.counters.effects("slow")), (1, 1));
}

#[tokio::test]
async fn a_call_that_exceeded_its_time_out_while_the_store_fails_is_reported_by_what_it_became() {
    let (fixture, store) = fixture(&["slow"]);
    let world = &fixture.world;
    let (_, lobby) = fixture.ada().await;
    fixture.gate.begun(1).await;
    store.set(Failure::Full);
    world.pass(Duration::from_millis(agent::limits::TOOL_TIMEOUT_MS + 1_000)).await.unwrap();
    store.set(Failure::Nothing);
    world.pass(Duration::from_secs(60)).await.unwrap();
    let texts = posted(&fixture, lobby).await;
    assert!(texts[1].contains("it goes on") && !texts[1].contains("unknown"), "{texts:?}");
    fixture.gate.open();
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert_eq!((fixture.counters.calls("slow"), fixture.counters.effects("slow")), (1, 1));
}
