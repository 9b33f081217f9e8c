//! What an agent notices in the middle of a cycle: injections, previews, interrupts, calls that are held back.

use std::time::Duration;

use agent::config::{AgentConfig, Awareness};
use agent::entry::EntryKind;
use agent::id::AgentId;
use agent::port::Delivered;
use agent::run::Ending;
use agent::update::{Topic, Update};
use futures_util::FutureExt;
use models::scripted::Script;
use serde_json::json;

use crate::fixture::{Fixture, done, everything, inbox, send, step};

fn aware(awareness: Awareness) -> AgentConfig {
    AgentConfig { awareness, ..AgentConfig::default() }
}

#[tokio::test]
async fn a_correction_by_the_requester_is_shown_at_the_next_step_and_stays_in_the_log() {
    let fixture = Fixture::new(|prompt| match (everything(prompt).contains("wrong dataset"), step(prompt)) {
        (false, 0) => Script::new().call("slow", &json!({})),
        (true, 1) => Script::new().call("send_message", &send("lab", "the marketing one")),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lab = world.space("lab", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lab, "analyze the sales").await.unwrap();
    world.pass(Duration::from_millis(100)).await.unwrap();
    fixture.gate.begun(1).await;
    let correction = world.say(husam, lab, "wrong dataset, the marketing one").await.unwrap();
    fixture.gate.open();
    world.quiet().await.unwrap();

    let runs = world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].events, runs[0].steps[1].injected), (1, 2, 1));
    let mind = world.consciousness(ada).await.unwrap();
    let kinds: Vec<_> = mind.iter().map(|entry| entry.kind).collect();
    use EntryKind::{Assistant, Inbox, Injection, Outcomes};
    assert_eq!(
        kinds[..5],
        [Inbox, Assistant, Outcomes, Injection, Assistant],
        "the correction is in the log"
    );
    let state = world.state(ada, &correction.to_string()).await.unwrap();
    assert!(matches!(state, agent::event::EventState::Processed { step: 1, .. }), "{state:?}");
}

#[tokio::test]
async fn an_urgent_message_aborts_a_generation_and_its_draft_is_withdrawn() {
    let fixture = Fixture::new(|prompt| match everything(prompt).contains("stop") {
        true if step(prompt) == 0 => Script::new().call("send_message", &send("ops", "stopped")),
        true => done(),
        false => Script::new().raw_call("send_message", r#"{"space":"ops","text":"deploying "#, 8).hang(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", aware(Awareness::Interrupt)).await.unwrap();
    let ops = world.space("ops", &[husam, ada.entity()]).await.unwrap();
    let mut updates = world.ports().live.bus().subscribe(Topic::Space(ops));
    world.say(husam, ops, "deploy").await.unwrap();
    world.pass(Duration::from_millis(100)).await.unwrap();
    fixture.model.asked(1).await;
    assert_eq!(world.node().unwrap().live().drafts(Topic::Space(ops)).len(), 1, "its draft is shown");
    world.say(husam, ops, "stop").await.unwrap();
    world.quiet().await.unwrap();

    assert_eq!(fixture.model.dropped(), 1, "the connection is dropped at once");
    let messages: Vec<_> = world.posted_texts(ops).await.unwrap().into_iter().map(|(_, text)| text).collect();
    assert_eq!(messages, ["deploy", "stop", "stopped"], "the unfinished text is not posted");
    let run = world.runs(ada).await.unwrap().remove(0);
    assert_eq!((run.ending, run.events, run.steps[0].interrupts), (Ending::Completed, 2, 1));
    let mut resets = 0;
    while let Some(Some(messages)) = updates.next().now_or_never() {
        resets += u32::from(
            matches!(&messages, Delivered::Update(update) if matches!(***update, Update::DraftReset { .. })),
        );
    }
    assert_eq!(resets, 1);
}

#[tokio::test]
async fn an_unsafe_call_does_not_start_after_a_new_message_of_its_requester() {
    let fixture = Fixture::unsafely(|prompt| match step(prompt) {
        0 => Script::new().call("slow", &json!({})).call("fire", &json!({})).call("done", &json!({})),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", aware(Awareness::None)).await.unwrap();
    let ops = world.space("ops", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, ops, "launch in two stages").await.unwrap();
    world.pass(Duration::from_millis(100)).await.unwrap();
    fixture.gate.begun(1).await;
    world.say(husam, ops, "not the second one!").await.unwrap();
    fixture.gate.open();
    world.quiet().await.unwrap();

    assert_eq!((fixture.counters.effects("slow"), fixture.counters.effects("fire")), (1, 0));
    let runs = world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].events, runs[0].steps.len()), (1, 2, 2), "it decided again in one cycle");
    let prompts = fixture.model.prompts();
    let shown = everything(prompts.last().unwrap());
    assert!(shown.contains("not started") && shown.contains("not the second one!"), "{shown}");
}

#[tokio::test]
async fn without_a_barrier_the_call_starts_all_the_same() {
    let fixture = Fixture::unsafely(|prompt| match step(prompt) {
        0 if inbox(prompt).contains("launch") => {
            Script::new().call("slow", &json!({})).call("fire", &json!({}))
        }
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let config = AgentConfig { barrier: false, ..aware(Awareness::None) };
    let ada = world.agent("ada", config).await.unwrap();
    let ops = world.space("ops", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, ops, "launch").await.unwrap();
    world.pass(Duration::from_millis(100)).await.unwrap();
    fixture.gate.begun(1).await;
    world.say(husam, ops, "wait!").await.unwrap();
    fixture.gate.open();
    world.quiet().await.unwrap();
    assert_eq!(fixture.counters.effects("fire"), 1);
    assert_eq!(world.runs(ada).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_peek_takes_waiting_events_into_the_cycle() {
    let fixture = Fixture::new(|prompt| match (inbox(prompt).contains("begin"), step(prompt)) {
        (true, 0) => Script::new().call("slow", &json!({})),
        (true, 1) => Script::new().call("peek_inbox", &json!({"count": 1})),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let sara = world.human("sara").await.unwrap();
    let ada = world.agent("ada", aware(Awareness::None)).await.unwrap();
    let lobby = world.space("lobby", &[husam, sara, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "begin").await.unwrap();
    world.pass(Duration::from_millis(100)).await.unwrap();
    fixture.gate.begun(1).await;
    for text in ["first", "second"] {
        world.say(sara, lobby, text).await.unwrap();
    }
    fixture.gate.open();
    world.quiet().await.unwrap();
    let runs = world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.events).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(runs[0].steps[2].injected, 1);
}
#[tokio::test]
async fn an_unsafe_call_does_not_start_even_if_its_requester_posted_much_before() {
    let fixture = Fixture::unsafely(|prompt| match (inbox(prompt).contains("launch"), step(prompt)) {
        (true, 0) => Script::new().call("slow", &json!({})).call("fire", &json!({})).call("done", &json!({})),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let mut config = aware(Awareness::None);
    config.limits.events_per_cycle = 1;
    let ada = world.agent("ada", config).await.unwrap();
    let ops = world.space("ops", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, ops, "launch in two stages").await.unwrap();
    for n in 0..120 {
        world.say(husam, ops, &format!("by the way, {n}")).await.unwrap();
    }
    world.pass(Duration::from_millis(100)).await.unwrap();
    fixture.gate.begun(1).await;
    world.say(husam, ops, "not the second one!").await.unwrap();
    fixture.gate.open();
    world.quiet().await.unwrap();
    assert_eq!((fixture.counters.effects("slow"), fixture.counters.effects("fire")), (1, 0));
}

/// An urgent message takes along its sender's earlier messages. If there is not room for all, the last of them wait,
/// never the first.
#[tokio::test]
async fn the_messages_of_one_person_are_processed_in_order_even_if_an_urgent_one_does_not_fit() {
    for (per_cycle, awareness) in
        [(4, Awareness::PreviewInject), (3, Awareness::Interrupt), (100, Awareness::PreviewInject)]
    {
        let fixture = Fixture::new(|prompt| match (inbox(prompt).contains("begin"), step(prompt)) {
            (true, 0) => Script::new().call("slow", &json!({})),
            _ => done(),
        });
        let world = &fixture.world;
        let (husam, mona) = (world.human("husam").await.unwrap(), world.human("mona").await.unwrap());
        let config = json!({"limits": {"events_per_cycle": per_cycle}, "urgency": {"patterns": ["*5*"]}});
        let config = AgentConfig { awareness, ..AgentConfig::from_json(&config).unwrap() };
        let ada = world.agent("ada", config).await.unwrap();
        let lab = world.space("lab", &[husam, mona, ada.entity()]).await.unwrap();
        world.say(husam, lab, "begin").await.unwrap();
        world.pass(Duration::from_millis(100)).await.unwrap();
        fixture.gate.begun(1).await;
        for n in 1..=5 {
            world.say(mona, lab, &format!("word {n}")).await.unwrap();
        }
        fixture.gate.open();
        world.quiet().await.unwrap();

        assert_eq!(
            words(&fixture, ada).await,
            ["1", "2", "3", "4", "5"],
            "{per_cycle} per cycle, {awareness:?}"
        );
    }
}

/// The message that holds a call back comes after many others of its sender. They are processed in order, and until
/// then the call does not start, however often the model makes it.
#[tokio::test]
async fn a_call_held_back_by_a_message_behind_a_backlog_never_starts() {
    let fixture = Fixture::unsafely(|prompt| match step(prompt) {
        _ if everything(prompt).contains("not the second one!") => done(),
        0 if inbox(prompt).contains("launch") => {
            Script::new().call("slow", &json!({})).call("fire", &json!({}))
        }
        _ => Script::new().call("fire", &json!({})),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let config = AgentConfig::from_json(&json!({"limits": {"events_per_cycle": 3}})).unwrap();
    let ada = world.agent("ada", AgentConfig { awareness: Awareness::None, ..config }).await.unwrap();
    let ops = world.space("ops", &[husam, ada.entity()]).await.unwrap();
    let den = world.space("den", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, ops, "launch in two stages").await.unwrap();
    world.pass(Duration::from_millis(100)).await.unwrap();
    fixture.gate.begun(1).await;
    for n in 10..50 {
        world.say(husam, den, &format!("word {n}")).await.unwrap();
    }
    world.say(husam, ops, "not the second one!").await.unwrap();
    fixture.gate.open();
    world.quiet().await.unwrap();

    assert_eq!(fixture.counters.effects("fire"), 0);
    assert_eq!(words(&fixture, ada).await, (10..50).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(world.runs(ada).await.unwrap().len() < 6, "many messages are processed in one cycle");
}

/// The number after each "word " in everything that the agent was shown, in order.
async fn words(fixture: &Fixture, agent: AgentId) -> Vec<String> {
    let mut read = Vec::new();
    for entry in fixture.world.consciousness(agent).await.unwrap() {
        if matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection) {
            let text = entry.message.text();
            let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect();
            read.extend(text.split("word ").skip(1).map(number));
        }
    }
    read
}
