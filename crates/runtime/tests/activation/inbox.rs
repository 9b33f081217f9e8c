//! Waiting events are taken together, and each once.

use std::time::Duration;

use agent::config::AgentConfig;
use agent::id::MessageId;
use models::scripted::Script;
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Fixture, answer, done, inbox, send, step, unaware};

#[tokio::test]
async fn an_id_sent_five_times_is_processed_once() {
    let fixture = Fixture::new(|prompt| answer(prompt, "lobby", "ok"));
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let id = MessageId(Uuid::from_u128(77));
    let mut fresh = 0;
    for _ in 0..5 {
        fresh += u32::from(world.say_as(id, husam, lobby, "once").await.unwrap());
        world.pass(Duration::from_secs(2)).await.unwrap();
    }
    world.quiet().await.unwrap();
    assert_eq!(fresh, 1);
    assert_eq!(world.posted_texts(lobby).await.unwrap().len(), 2);
    assert_eq!(world.runs(ada).await.unwrap().len(), 1);
    assert!(world.service(ada, "s1", "jira", json!({})).await.unwrap());
    assert!(!world.service(ada, "s1", "jira", json!({})).await.unwrap());
}

#[tokio::test]
async fn three_messages_within_a_second_while_it_is_busy_are_one_further_cycle() {
    let fixture = Fixture::new(|prompt| match (inbox(prompt).contains("begin"), step(prompt)) {
        (true, 0) => Script::new().call("slow", &json!({})),
        (false, 0) => Script::new().call("send_message", &send("lobby", "all three")),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", unaware()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "begin").await.unwrap();
    world.pass(Duration::from_millis(100)).await.unwrap();
    for n in 1..=3 {
        world.say(husam, lobby, &format!("m{n}")).await.unwrap();
        world.pass(Duration::from_millis(300)).await.unwrap();
    }
    assert!(world.runs(ada).await.unwrap().is_empty(), "it is still busy");
    fixture.gate.open();
    world.quiet().await.unwrap();
    let runs = world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.events).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(world.posted_texts(lobby).await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_skipped_activation_leaves_no_trace_in_log_runs_and_ordinals() {
    let fixture = Fixture::new(|prompt| match step(prompt) {
        0 if inbox(prompt).contains("not for you") => {
            Script::new().call("skip", &json!({"reason": "not for me"})).usage(100, 0, 7)
        }
        0 => Script::new().call("send_message", &send("lobby", "hello")),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hi").await.unwrap();
    world.quiet().await.unwrap();
    let before = (world.consciousness(ada).await.unwrap(), world.runs(ada).await.unwrap());
    let skipped = world.say(husam, lobby, "not for you").await.unwrap();
    world.quiet().await.unwrap();
    assert_eq!((world.consciousness(ada).await.unwrap(), world.runs(ada).await.unwrap()), before);
    assert_eq!(world.state(ada, &skipped.to_string()).await.unwrap().as_str(), "skipped");
    world.say(husam, lobby, "hi again").await.unwrap();
    world.quiet().await.unwrap();
    assert_eq!(world.runs(ada).await.unwrap()[1].ordinal, 2);
    let card = world.reader().agent(ada).await.unwrap().unwrap();
    assert_eq!((card.skips, card.usage.output), (1, Some(7)), "its cost is kept");
}

#[tokio::test]
async fn agents_that_always_reply_stop_at_the_limit_while_a_person_is_still_served() {
    let fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new().call("send_message", &send("pair", "and you?")),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let a = world.agent("a", AgentConfig::default()).await.unwrap();
    let b = world.agent("b", AgentConfig::default()).await.unwrap();
    let pair = world.space("pair", &[husam, a.entity(), b.entity()]).await.unwrap();
    world.say(husam, pair, "discuss").await.unwrap();
    world.quiet().await.unwrap();
    let posted = world.messages(pair).await.unwrap().len();
    assert!((9..=11).contains(&posted), "{posted} messages");
    let held = |agent| async move { world.reader().agent(agent).await.unwrap().unwrap().held };
    assert!(held(a).await + held(b).await > 0, "held events are kept, not lost");
    world.say(husam, pair, "and me?").await.unwrap();
    world.quiet().await.unwrap();
    assert!(world.messages(pair).await.unwrap().len() >= posted + 3, "both answer a person");
}

#[tokio::test]
async fn a_small_window_never_overflows() {
    let info = agent::port::ModelInfo {
        name: "small".into(),
        provider: "small".into(),
        context_window: 4_096,
        max_output: 512,
        ..agent::port::ModelInfo::default()
    };
    let model = models::scripted::Scripted::answering(|prompt| answer(prompt, "lobby", &"word ".repeat(60)));
    let fixture = Fixture::with(model.with_info(info), |store| store);
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let config =
        AgentConfig { tools: Some(vec!["send_message".into(), "done".into()]), ..AgentConfig::default() };
    let ada = world.agent("ada", config).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    for n in 0..40 {
        world.say(husam, lobby, &format!("message {n}: {}", "x".repeat(300))).await.unwrap();
        world.quiet().await.unwrap();
    }
    let mut prompts = fixture.model.prompts();
    // The others ask for summaries.
    prompts.retain(|prompt| !prompt.tools.is_empty());
    let sizes = prompts.iter().map(|p| crate::fixture::entries(p).iter().map(|e| e.tokens).sum::<u32>());
    assert!(sizes.clone().max().unwrap() < 3_000, "the largest was {:?}", sizes.max());
    assert!(world.reader().view(ada).await.unwrap().unwrap().rev > 0);
    let first = |p| crate::fixture::entries(p).first().map(|e| e.kind);
    assert!(
        prompts.iter().all(|p| first(p) == Some(agent::entry::EntryKind::Inbox)),
        "the view is cut between cycles"
    );
    assert_eq!(world.consciousness(ada).await.unwrap().len(), 200, "the log itself is whole");
}
