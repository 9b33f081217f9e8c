//! Failures are classed by their cause; nothing is lost, and nothing is repeated silently.

use std::time::Duration;

use agent::config::AgentConfig;
use agent::message::Part;
use agent::port::ModelError;
use agent::run::Ending;
use models::scripted::{Script, Scripted};
use serde_json::json;

use crate::fixture::{Fixture, answer, done, inbox, send, step};

#[tokio::test]
async fn a_provider_that_is_down_for_an_hour_costs_nothing_and_one_cycle_answers_all() {
    let clock = crate::fixture::clock();
    let up_at = agent::port::Clock::now(&clock) + jiff::SignedDuration::from_hours(1);
    let watch = std::sync::Arc::new(std::sync::Mutex::new(None::<std::sync::Arc<dyn agent::port::Clock>>));
    let seen = std::sync::Arc::clone(&watch);
    let fixture = Fixture::new(move |prompt| {
        let now = seen.lock().unwrap().as_ref().map(|clock| clock.now());
        if now.is_none_or(|now| now < up_at) {
            return Script::fails(ModelError::Network("connection refused".into()));
        }
        answer(prompt, "lobby", "back")
    });
    *watch.lock().unwrap() = Some(std::sync::Arc::clone(fixture.world.clock()));
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    for n in 0..5 {
        world.say(husam, lobby, &format!("m{n}")).await.unwrap();
        world.pass(Duration::from_secs(60)).await.unwrap();
    }
    let card = world.reader().agent(ada).await.unwrap().unwrap();
    assert_eq!(card.idle_reason, Some(agent::life::IdleReason::Provider));
    world.pass(Duration::from_secs(3_900)).await.unwrap();
    let runs = world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.events).collect::<Vec<_>>(), [5]);
    assert_eq!(world.reader().totals().await.unwrap().dead, 0);
}

#[tokio::test]
async fn a_retry_after_is_respected_within_the_activation() {
    let model = Scripted::answering(|prompt| answer(prompt, "lobby", "ok"));
    model.push(Script::fails(ModelError::RateLimited {
        message: "slow down".into(),
        retry_after: Some(Duration::from_secs(7)),
    }));
    let fixture = Fixture::with(model, |store| store);
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hi").await.unwrap();
    world.pass(Duration::from_secs(6)).await.unwrap();
    assert_eq!(fixture.model.prompts().len(), 1);
    world.quiet().await.unwrap();
    let runs = world.runs(ada).await.unwrap();
    assert_eq!(runs[0].steps[0].attempts, 2);
}

#[tokio::test]
async fn a_silent_model_reaches_its_time_outs_and_is_called_again() {
    let model = Scripted::answering(|prompt| answer(prompt, "lobby", "ok"));
    model.push(Script::new().hang());
    model.push(Script::new().text("I was about to").hang());
    let fixture = Fixture::with(model, |store| store);
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hi").await.unwrap();
    world.quiet().await.unwrap();
    assert_eq!(fixture.model.dropped(), 2, "both connections were dropped");
    assert_eq!(world.posted_texts(lobby).await.unwrap().len(), 2);
    assert_eq!(world.runs(ada).await.unwrap()[0].steps[0].attempts, 3);
}

#[tokio::test]
async fn one_poisonous_event_dies_alone_and_all_others_are_answered() {
    let fixture = Fixture::new(|prompt| {
        if inbox(prompt).contains("POISON") {
            return Script::fails(ModelError::Invalid("400: cannot be".into()));
        }
        done()
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let config = AgentConfig { debounce: 1_000, ..AgentConfig::default() };
    let ada = world.agent("ada", config).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let mut ids = Vec::new();
    // So many events that halving them needs more failures than one event may have.
    for n in 0..100 {
        let text = if n == 7 { "POISON".to_owned() } else { format!("m{n}") };
        ids.push(world.say(husam, lobby, &text).await.unwrap());
    }
    world.quiet().await.unwrap();
    for (n, id) in ids.iter().enumerate() {
        let state = world.state(ada, &id.to_string()).await.unwrap();
        assert_eq!(state.as_str(), if n == 7 { "dead" } else { "processed" }, "event {n}");
    }
    let later = world.say(husam, lobby, "after it").await.unwrap();
    world.quiet().await.unwrap();
    assert_eq!(world.state(ada, &later.to_string()).await.unwrap().as_str(), "processed");
}

#[tokio::test]
async fn a_cycle_that_processed_an_event_is_broken_off_with_a_notice() {
    let fixture = Fixture::new(|prompt| match step(prompt) {
        0 if inbox(prompt).contains("begin") => Script::new().call("look", &json!({})),
        _ if inbox(prompt).contains("begin") => Script::fails(ModelError::Invalid("400".into())),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "begin").await.unwrap();
    world.quiet().await.unwrap();
    let runs = world.runs(ada).await.unwrap();
    assert_eq!(runs[0].ending, Ending::Failed);
    let mind = world.consciousness(ada).await.unwrap();
    assert!(mind.last().unwrap().message.text().contains("stopped at step 1"));
    world.say(husam, lobby, "next").await.unwrap();
    world.quiet().await.unwrap();
    assert_eq!(world.runs(ada).await.unwrap()[1].ending, Ending::Completed);
}

#[tokio::test]
async fn a_tool_that_panics_is_reported_to_the_model_and_harms_no_other_call() {
    let fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new().call("panics", &json!({})).call("fail", &json!({})).call("look", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", "two of three failed")),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "try").await.unwrap();
    world.quiet().await.unwrap();
    assert_eq!(world.posted_texts(lobby).await.unwrap().len(), 2);
    let mind = world.consciousness(ada).await.unwrap();
    let failed: Vec<bool> = mind[2]
        .message
        .parts
        .iter()
        .map(|part| matches!(part, Part::ToolResult { error: true, .. }))
        .collect();
    assert_eq!(failed, [true, true, false]);
}

#[tokio::test]
async fn after_a_crash_while_tools_run_only_repeatable_calls_run_again() {
    let mut fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new()
            .call("fire", &json!({}))
            .call("put", &json!({}))
            .call("look", &json!({}))
            .call("slow", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", "done")),
        _ => done(),
    });
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    fixture.world.say(husam, lobby, "go").await.unwrap();
    fixture.world.pass(Duration::from_secs(1)).await.unwrap();
    fixture.world.kill();
    fixture.gate.open();
    fixture.world.start();
    fixture.world.quiet().await.unwrap();

    assert_eq!(fixture.counters.calls("fire"), 1, "an unsafe call is never repeated");
    assert_eq!(fixture.counters.effects("put"), 1, "an idempotent one keeps its key");
    assert_eq!(fixture.world.posted_texts(lobby).await.unwrap().len(), 2);
    let mind = fixture.world.consciousness(ada).await.unwrap();
    let outcomes: Vec<_> = mind.iter().filter(|e| e.kind == agent::entry::EntryKind::Outcomes).collect();
    assert_eq!(outcomes[0].message.parts.len(), 4, "one entry, in the order of the calls");
    let Part::ToolResult { text, .. } = &outcomes[0].message.parts[0] else { panic!("an outcome") };
    assert!(text.contains("success"), "an outcome from before the crash stays: {text}");
}

#[tokio::test]
async fn a_history_that_the_vendor_finds_too_long_is_cut_and_the_run_records_it() {
    let fixture = Fixture::new(|prompt| {
        if crate::fixture::entries(prompt).len() > 12 {
            return Script::fails(ModelError::TooLong("prompt is too long".into()));
        }
        answer(prompt, "lobby", "ok")
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    for n in 0..6 {
        world.say(husam, lobby, &format!("m{n}")).await.unwrap();
        world.quiet().await.unwrap();
    }
    let runs = world.runs(ada).await.unwrap();
    assert_eq!(runs.len(), 6);
    assert!(runs.iter().all(|run| run.ending == Ending::Completed), "{runs:?}");
    let cuts: u32 = runs.iter().flat_map(|run| &run.steps).map(|step| step.cut).sum();
    assert!((1..=4).contains(&cuts), "{cuts} cuts");
    assert_eq!(world.consciousness(ada).await.unwrap().len(), 30, "the log itself is whole");
    let requests = fixture.model.prompts();
    for (prompt, next) in requests.iter().zip(&requests[1..]) {
        let sizes = [prompt, next].map(|prompt| crate::fixture::entries(prompt).len());
        assert!(sizes[0] <= 12 || sizes[1] < sizes[0], "a history that was too long is not sent again");
    }
}

#[tokio::test]
async fn a_history_that_the_vendor_refuses_is_rebuilt_once_and_never_sent_unchanged_again() {
    let fixture = Fixture::new(|prompt| {
        let native = |entry: &&agent::entry::Entry| entry.message.native.is_some();
        if step(prompt) == 0 && crate::fixture::entries(prompt).iter().any(native) {
            return Script::fails(ModelError::Invalid("400: messages.1 is malformed".into()));
        }
        answer(prompt, "lobby", "ok").native("w", "m", "{}")
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    for n in 0..3 {
        world.say(husam, lobby, &format!("m{n}")).await.unwrap();
        world.quiet().await.unwrap();
    }
    let runs = world.runs(ada).await.unwrap();
    let rebuilt: Vec<_> = runs.iter().map(|run| run.steps[0].rebuilt).collect();
    assert_eq!(rebuilt, [false, true, true]);
    assert_eq!(fixture.model.prompts().len(), 8, "two steps each, and one refused request in two of them");
    let view = world.reader().view(ada).await.unwrap().unwrap();
    assert_eq!(view.native_from, 11, "the view stores it, so it holds after a restart");
}
