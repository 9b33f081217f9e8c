//! Cancel, suspend, stop and start from outside.

use std::sync::Arc;
use std::time::Duration;

use agent::call::Effect;
use agent::config::AgentConfig;
use agent::id::AgentId;
use agent::life::Standing;
use agent::port::{Clock, ModelError};
use agent::run::Ending;
use futures_util::FutureExt;
use jiff::SignedDuration;
use models::scripted::{Script, Scripted};
use serde_json::json;

use crate::fixture::{Fixture, answer, done, one, send, step};
use crate::store_wrapper::{Intercept, WakeRead, Wrapped};

#[tokio::test]
async fn a_cancel_drops_the_generation_and_does_not_wake_it_again() {
    let model = Scripted::answering(|prompt| answer(prompt, "lobby", "ok"));
    model.push(Script::new().text("thinking").hang());
    let fixture = Fixture::with(model, |store| store);
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let message = world.say(husam, lobby, "hi").await.unwrap();
    world.pass(Duration::from_secs(1)).await.unwrap();
    world.registry().cancel(ada, None).await.unwrap();
    world.node().unwrap().recheck(ada);
    world.pass(Duration::from_millis(1)).await.unwrap();
    assert_eq!(fixture.model.dropped(), 1, "at once, not at a time-out");
    world.quiet().await.unwrap();
    assert_eq!(world.state(ada, &message.to_string()).await.unwrap().as_str(), "canceled");
    assert_eq!(world.runs(ada).await.unwrap()[0].ending, Ending::Canceled);
    assert_eq!(fixture.model.prompts().len(), 1);
    world.say(husam, lobby, "again").await.unwrap();
    world.quiet().await.unwrap();
    assert_eq!(world.posted_texts(lobby).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_cancel_whose_signal_is_lost_is_seen_at_the_next_commit() {
    let fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new().call("slow", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", "must not be said")),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hi").await.unwrap();
    world.pass(Duration::from_secs(1)).await.unwrap();
    world.registry().cancel(ada, None).await.unwrap();
    fixture.gate.open();
    world.quiet().await.unwrap();
    assert_eq!(world.posted_texts(lobby).await.unwrap().len(), 1);
    assert_eq!(world.runs(ada).await.unwrap()[0].ending, Ending::Canceled);
}

#[tokio::test]
async fn a_suspended_agent_keeps_its_events_and_continues_when_resumed() {
    let fixture = Fixture::new(|prompt| answer(prompt, "lobby", "here again"));
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.registry().set_standing(ada, Standing::Suspended, fixture.now()).await.unwrap();
    world.say(husam, lobby, "hello?").await.unwrap();
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert!(fixture.model.prompts().is_empty());
    world.registry().set_standing(ada, Standing::Active, fixture.now()).await.unwrap();
    world.node().unwrap().recheck(ada);
    world.quiet().await.unwrap();
    assert_eq!(world.posted_texts(lobby).await.unwrap().len(), 2);
}

/// A read for an activation takes so long.
struct Slow(Arc<dyn Clock>, Duration);

impl Intercept for Slow {
    fn wake<'a>(&'a self, _: AgentId, read: WakeRead<'a>) -> WakeRead<'a> {
        Box::pin(async move {
            let read = read.await;
            self.0.sleep(self.1).await;
            read
        })
    }
}

#[tokio::test]
async fn no_request_begins_after_a_suspension_is_answered() {
    let clock = crate::fixture::clock();
    let slow: Arc<dyn Clock> = Arc::new(clock.clone());
    let model = Arc::new(Scripted::answering(|prompt| answer(prompt, "lobby", "here again")));
    let (world, ..) = crate::fixture::world_at(
        clock,
        one(&model),
        move |inner| {
            Arc::new(Wrapped { inner, by: Slow(Arc::clone(&slow), Duration::from_secs(1)) }) as Arc<_>
        },
        Effect::ReadOnly,
    );
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hello?").await.unwrap();
    world.pass(Duration::from_millis(900)).await.unwrap();
    let stand = async |standing| {
        world.registry().set_standing(ada, standing, world.clock().now()).await.unwrap();
        let node = world.node().unwrap();
        if standing == Standing::Active { node.resume(ada) } else { node.suspend(ada) }
    };
    stand(Standing::Suspended).await;
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert!(model.prompts().is_empty());
    assert_eq!(world.reader().totals().await.unwrap().waiting, 1);
    stand(Standing::Active).await;
    world.quiet().await.unwrap();
    assert_eq!(world.posted_texts(lobby).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_cancel_between_the_read_and_the_opening_of_a_resumed_cycle_drops_its_request() {
    let clock = crate::fixture::clock();
    let slow: Arc<dyn Clock> = Arc::new(clock.clone());
    let failed = std::sync::atomic::AtomicBool::new(false);
    let model = Arc::new(Scripted::answering(move |prompt| match step(prompt) {
        0 => Script::new().call("send_message", &send("lobby", "begun")),
        _ if failed.swap(true, std::sync::atomic::Ordering::SeqCst) => Script::new().hang(),
        _ => Script::fails(ModelError::Auth("no key".into())),
    }));
    let (world, ..) = crate::fixture::world_at(
        clock,
        one(&model),
        move |inner| {
            Arc::new(Wrapped { inner, by: Slow(Arc::clone(&slow), Duration::from_secs(10)) }) as Arc<_>
        },
        Effect::ReadOnly,
    );
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hello?").await.unwrap();
    world.pass(Duration::from_secs(16)).await.unwrap();
    assert_eq!(model.prompts().len(), 2, "it is parked, and read again");
    // The signal comes while there is no lease to look with: as if it were lost.
    world.registry().cancel(ada, None).await.unwrap();
    world.pass(Duration::from_secs(10)).await.unwrap();
    let endings: Vec<_> = world.runs(ada).await.unwrap().iter().map(|run| run.ending).collect();
    assert_eq!((endings, model.prompts().len()), (vec![Ending::Canceled], 2));
}

#[tokio::test]
async fn a_suspended_agent_does_not_retry_a_failed_request() {
    let failed = ModelError::Cut("there".into());
    let fixture = Fixture::new(move |_| Script::fails(failed.clone()));
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hello?").await.unwrap();
    world.pass(Duration::from_millis(500)).await.unwrap();
    world.registry().set_standing(ada, Standing::Suspended, fixture.now()).await.unwrap();
    world.node().unwrap().suspend(ada);
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert_eq!(fixture.model.prompts().len(), 1);
}

#[tokio::test]
async fn a_request_without_any_answer_yet_is_dropped_when_its_agent_is_suspended() {
    let model = Scripted::answering(|prompt| answer(prompt, "lobby", "here again"));
    model.push(Script::new().hang());
    let fixture = Fixture::with(model, |store| store);
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hello?").await.unwrap();
    world.pass(Duration::from_millis(500)).await.unwrap();
    let node = world.node().unwrap();
    let nothing_pending = || node.no_pending_request(ada).now_or_never().is_some();
    assert!(fixture.model.prompts().len() == 1 && !nothing_pending());
    world.registry().set_standing(ada, Standing::Suspended, fixture.now()).await.unwrap();
    node.suspend(ada);
    world.pass(Duration::from_millis(1)).await.unwrap();
    assert!(nothing_pending());
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert_eq!((fixture.model.prompts().len(), fixture.model.dropped()), (1, 1));
    world.registry().set_standing(ada, Standing::Active, fixture.now()).await.unwrap();
    node.resume(ada);
    world.quiet().await.unwrap();
    assert_eq!(world.posted_texts(lobby).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_reply_that_has_begun_is_read_to_its_end_although_the_agent_is_suspended() {
    let clock = crate::fixture::clock();
    let slow: Arc<dyn Clock> = Arc::new(clock.clone());
    let model = Arc::new(Scripted::answering(move |_| {
        let begun = Script::new().text("well").pause(&slow, Duration::from_secs(10));
        begun.call("send_message", &send("lobby", "here I am"))
    }));
    let one = one(&model);
    let (world, ..) = crate::fixture::world_at(clock, one, |store| store, Effect::ReadOnly);
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hello?").await.unwrap();
    world.pass(Duration::from_secs(1)).await.unwrap();
    world.registry().set_standing(ada, Standing::Suspended, world.clock().now()).await.unwrap();
    world.node().unwrap().suspend(ada);
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert_eq!((world.posted_texts(lobby).await.unwrap().len(), model.prompts().len()), (2, 1));
}

#[tokio::test]
async fn a_graceful_stop_parks_the_cycle_after_its_step_and_it_resumes() {
    let mut fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new().call("slow", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", "after the deploy")),
        _ => done(),
    });
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    fixture.world.say(husam, lobby, "hi").await.unwrap();
    fixture.world.pass(Duration::from_secs(1)).await.unwrap();
    fixture.gate.open();
    fixture.world.stop().await.unwrap();
    assert_eq!(fixture.world.reader().totals().await.unwrap().open_cycles, 1);
    fixture.world.start();
    fixture.world.quiet().await.unwrap();
    assert_eq!(fixture.world.posted_texts(lobby).await.unwrap().len(), 2);
    let runs = fixture.world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending), (1, Ending::Completed));
    assert_eq!(fixture.counters.calls("slow"), 1, "the running step was finished, not repeated");
}

#[tokio::test]
async fn graceful_stops_count_as_no_attempts_however_slow_the_model() {
    let mut fixture =
        Fixture::with(Scripted::answering(|_| Script::new().text("well").hang()), |store| store);
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let message = fixture.world.say(husam, lobby, "important").await.unwrap();
    for _ in 0..7 {
        fixture.world.pass(Duration::from_secs(1)).await.unwrap();
        fixture.world.stop().await.unwrap();
        let row = fixture.world.reader().event(ada, agent::id::EventId(message.to_string())).await.unwrap();
        let row = row.unwrap();
        assert_eq!((row.state.as_str(), row.attempts), ("waiting", 0));
        assert_eq!(fixture.world.reader().totals().await.unwrap().open_cycles, 0);
        fixture.world.start();
    }
}

#[tokio::test]
async fn a_tool_that_outlasts_a_stop_is_aborted_and_run_again() {
    let mut fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new().call("look", &json!({})).call("slow", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", "at last")),
        _ => done(),
    });
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    fixture.world.say(husam, lobby, "hi").await.unwrap();
    for _ in 0..7 {
        fixture.world.pass(Duration::from_secs(1)).await.unwrap();
        fixture.world.stop().await.unwrap();
        fixture.world.start();
    }
    fixture.gate.open();
    fixture.world.quiet().await.unwrap();
    assert_eq!(fixture.world.posted_texts(lobby).await.unwrap().len(), 2);
    assert_eq!(fixture.world.runs(ada).await.unwrap()[0].ending, Ending::Completed);
    assert_eq!(fixture.counters.calls("look"), 1, "a call with an outcome is not repeated");
}

#[tokio::test]
async fn a_jump_of_the_wall_clock_neither_ends_a_cycle_nor_lengthens_it() {
    let check = async |hours: i64, seconds: u64, expected: (Ending, Option<&str>)| {
        let fixture = Fixture::new(|prompt| match step(prompt) {
            0 => Script::new().call("slow", &json!({})),
            _ => Script::new().call("send_message", &send("lobby", "still here")).call("done", &json!({})),
        });
        let world = &fixture.world;
        let husam = world.human("husam").await.unwrap();
        let config: AgentConfig = serde_json::from_value(json!({"limits": {"wall_clock": 20_000}})).unwrap();
        let ada = world.agent("ada", config).await.unwrap();
        let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
        world.say(husam, lobby, "hi").await.unwrap();
        world.pass(Duration::from_secs(seconds)).await.unwrap();
        fixture.clock.jump_wall(SignedDuration::from_hours(hours));
        fixture.gate.open();
        world.quiet().await.unwrap();
        let runs = world.runs(ada).await.unwrap();
        assert_eq!((runs[0].ending, runs[0].reason.as_deref()), expected, "{hours} hours");
    };
    check(24, 1, (Ending::Completed, None)).await;
    let late = Some("the limit of 20000 ms awake was reached");
    check(-24, 25, (Ending::Exhausted, late)).await;
    check(0, 25, (Ending::Exhausted, late)).await;
}
