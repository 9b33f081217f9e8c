//! Cancel, suspend, stop and start: all from outside, all at once.

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

use crate::between::{Behind, Between, Woken};
use crate::play::{One, Play, answer, done, send, step};

#[tokio::test]
async fn a_cancel_drops_the_generation_and_does_not_wake_it_again() {
    let model = Scripted::answering(|prompt| answer(prompt, "lobby", "ok"));
    model.push(Script::new().text("thinking").hang());
    let play = Play::with(model, |store| store);
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let message = world.say(husam, lobby, "hi").await.unwrap();
    world.pass(Duration::from_secs(1)).await.unwrap();
    world.registry().cancel(ada, None).await.unwrap();
    world.node().unwrap().look(ada);
    world.pass(Duration::from_millis(1)).await.unwrap();
    assert_eq!(play.model.dropped(), 1, "at once, not at a time-out");
    world.quiet().await.unwrap();
    assert_eq!(world.state(ada, &message.to_string()).await.unwrap().as_str(), "canceled");
    assert_eq!(world.runs(ada).await.unwrap()[0].ending, Ending::Canceled);
    assert_eq!(play.model.prompts().len(), 1);
    world.say(husam, lobby, "again").await.unwrap();
    world.quiet().await.unwrap();
    assert_eq!(world.heard(lobby).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_cancel_whose_signal_is_lost_is_seen_at_the_next_commit() {
    let play = Play::new(|prompt| match step(prompt) {
        0 => Script::new().call("slow", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", "must not be said")),
        _ => done(),
    });
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hi").await.unwrap();
    world.pass(Duration::from_secs(1)).await.unwrap();
    world.registry().cancel(ada, None).await.unwrap();
    play.gate.open();
    world.quiet().await.unwrap();
    assert_eq!(world.heard(lobby).await.unwrap().len(), 1);
    assert_eq!(world.runs(ada).await.unwrap()[0].ending, Ending::Canceled);
}

#[tokio::test]
async fn a_suspended_agent_keeps_its_events_and_goes_on_when_resumed() {
    let play = Play::new(|prompt| answer(prompt, "lobby", "here again"));
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.registry().set_standing(ada, Standing::Suspended, play.now()).await.unwrap();
    world.say(husam, lobby, "hello?").await.unwrap();
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert!(play.model.prompts().is_empty());
    world.registry().set_standing(ada, Standing::Active, play.now()).await.unwrap();
    world.node().unwrap().look(ada);
    world.quiet().await.unwrap();
    assert_eq!(world.heard(lobby).await.unwrap().len(), 2);
}

/// What is read at an activation is a second on its way.
struct Slow(Arc<dyn Clock>);

impl Between for Slow {
    fn wake<'a>(&'a self, _: AgentId, read: Woken<'a>) -> Woken<'a> {
        Box::pin(async move {
            let read = read.await;
            self.0.sleep(Duration::from_secs(1)).await;
            read
        })
    }
}

#[tokio::test]
async fn once_a_suspension_is_answered_no_request_begins_although_the_agent_was_about_to_ask() {
    let clock = crate::play::clock();
    let slow: Arc<dyn Clock> = Arc::new(clock.clone());
    let model = Arc::new(Scripted::answering(|prompt| answer(prompt, "lobby", "here again")));
    let (world, ..) = crate::play::ground_at(
        clock,
        Arc::new(One(Arc::clone(&model))),
        move |inner| Arc::new(Behind { inner, by: Slow(Arc::clone(&slow)) }) as Arc<_>,
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
    assert_eq!(world.heard(lobby).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_suspended_agent_is_not_asked_for_again_after_a_request_that_failed() {
    let failed = ModelError::Cut("there".into());
    let play = Play::new(move |_| Script::fails(failed.clone()));
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hello?").await.unwrap();
    world.pass(Duration::from_millis(500)).await.unwrap();
    world.registry().set_standing(ada, Standing::Suspended, play.now()).await.unwrap();
    world.node().unwrap().suspend(ada);
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert_eq!(play.model.prompts().len(), 1);
}

#[tokio::test]
async fn a_request_that_nothing_has_come_back_of_is_dropped_when_its_agent_is_suspended() {
    let model = Scripted::answering(|prompt| answer(prompt, "lobby", "here again"));
    model.push(Script::new().hang());
    let play = Play::with(model, |store| store);
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hello?").await.unwrap();
    world.pass(Duration::from_millis(500)).await.unwrap();
    let node = world.node().unwrap();
    let asks_nothing = || node.asks_nothing(ada).now_or_never().is_some();
    assert!(play.model.prompts().len() == 1 && !asks_nothing());
    world.registry().set_standing(ada, Standing::Suspended, play.now()).await.unwrap();
    node.suspend(ada);
    world.pass(Duration::from_millis(1)).await.unwrap();
    assert!(asks_nothing());
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert_eq!((play.model.prompts().len(), play.model.dropped()), (1, 1));
    world.registry().set_standing(ada, Standing::Active, play.now()).await.unwrap();
    node.resume(ada);
    world.quiet().await.unwrap();
    assert_eq!(world.heard(lobby).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_model_that_has_begun_to_answer_is_heard_to_the_end_although_its_agent_is_suspended() {
    let clock = crate::play::clock();
    let slow: Arc<dyn Clock> = Arc::new(clock.clone());
    let model = Arc::new(Scripted::answering(move |_| {
        let begun = Script::new().text("well").pause(&slow, Duration::from_secs(10));
        begun.call("send_message", &send("lobby", "here I am"))
    }));
    let one = Arc::new(One(Arc::clone(&model)));
    let (world, ..) = crate::play::ground_at(clock, one, |store| store, Effect::ReadOnly);
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hello?").await.unwrap();
    world.pass(Duration::from_secs(1)).await.unwrap();
    world.registry().set_standing(ada, Standing::Suspended, world.clock().now()).await.unwrap();
    world.node().unwrap().suspend(ada);
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert_eq!((world.heard(lobby).await.unwrap().len(), model.prompts().len()), (2, 1));
}

#[tokio::test]
async fn a_graceful_stop_parks_the_cycle_at_the_border_of_a_step_and_it_resumes() {
    let mut play = Play::new(|prompt| match step(prompt) {
        0 => Script::new().call("slow", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", "after the deploy")),
        _ => done(),
    });
    let husam = play.world.human("husam").await.unwrap();
    let ada = play.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = play.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    play.world.say(husam, lobby, "hi").await.unwrap();
    play.world.pass(Duration::from_secs(1)).await.unwrap();
    play.gate.open();
    play.world.stop().await.unwrap();
    assert_eq!(play.world.reader().totals().await.unwrap().open_cycles, 1);
    play.world.start();
    play.world.quiet().await.unwrap();
    assert_eq!(play.world.heard(lobby).await.unwrap().len(), 2);
    let runs = play.world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending), (1, Ending::Completed));
    assert_eq!(play.counters.calls("slow"), 1, "the step in hand was finished, not repeated");
}

#[tokio::test]
async fn stops_in_good_order_are_nobodys_fault_however_slow_the_model() {
    let mut play = Play::with(Scripted::answering(|_| Script::new().text("well").hang()), |store| store);
    let husam = play.world.human("husam").await.unwrap();
    let ada = play.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = play.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let message = play.world.say(husam, lobby, "important").await.unwrap();
    for _ in 0..7 {
        play.world.pass(Duration::from_secs(1)).await.unwrap();
        play.world.stop().await.unwrap();
        let row = play.world.reader().event(ada, agent::id::EventId(message.to_string())).await.unwrap();
        let row = row.unwrap();
        assert_eq!((row.state.as_str(), row.attempts), ("waiting", 0));
        assert_eq!(play.world.reader().totals().await.unwrap().open_cycles, 0);
        play.world.start();
    }
}

#[tokio::test]
async fn a_tool_that_outlasts_a_stop_is_given_up_and_run_again() {
    let mut play = Play::new(|prompt| match step(prompt) {
        0 => Script::new().call("look", &json!({})).call("slow", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", "at last")),
        _ => done(),
    });
    let husam = play.world.human("husam").await.unwrap();
    let ada = play.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = play.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    play.world.say(husam, lobby, "hi").await.unwrap();
    for _ in 0..7 {
        play.world.pass(Duration::from_secs(1)).await.unwrap();
        play.world.stop().await.unwrap();
        play.world.start();
    }
    play.gate.open();
    play.world.quiet().await.unwrap();
    assert_eq!(play.world.heard(lobby).await.unwrap().len(), 2);
    assert_eq!(play.world.runs(ada).await.unwrap()[0].ending, Ending::Completed);
    assert_eq!(play.counters.calls("look"), 1, "what was settled is not asked again");
}

#[tokio::test]
async fn a_jump_of_the_wall_clock_neither_ends_a_cycle_nor_lengthens_it() {
    let check = async |hours: i64, seconds: u64, expected: (Ending, Option<&str>)| {
        let play = Play::new(|prompt| match step(prompt) {
            0 => Script::new().call("slow", &json!({})),
            _ => Script::new().call("send_message", &send("lobby", "still here")).call("done", &json!({})),
        });
        let world = &play.world;
        let husam = world.human("husam").await.unwrap();
        let config: AgentConfig = serde_json::from_value(json!({"limits": {"wall_clock": 20_000}})).unwrap();
        let ada = world.agent("ada", config).await.unwrap();
        let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
        world.say(husam, lobby, "hi").await.unwrap();
        world.pass(Duration::from_secs(seconds)).await.unwrap();
        play.clock.jump_wall(SignedDuration::from_hours(hours));
        play.gate.open();
        world.quiet().await.unwrap();
        let runs = world.runs(ada).await.unwrap();
        assert_eq!((runs[0].ending, runs[0].reason.as_deref()), expected, "{hours} hours");
    };
    check(24, 1, (Ending::Completed, None)).await;
    let late = Some("the limit of 20000 ms awake was reached");
    check(-24, 25, (Ending::Exhausted, late)).await;
    check(0, 25, (Ending::Exhausted, late)).await;
}
