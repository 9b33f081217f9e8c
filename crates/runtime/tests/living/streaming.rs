//! What the watchers of a space see of a generation: text and input as they grow, what becomes of
//! them, and never anything left over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agent::config::AgentConfig;
use agent::event::EventProgress;
use agent::id::{AgentId, EntityId, SpaceId};
use agent::port::{Delivered, Listener, ModelError};
use agent::update::{Topic, Update};
use futures_util::FutureExt;
use models::scripted::Script;
use serde_json::json;

use crate::play::{Play, done, inbox, send, step};

/// A watcher of a space.
struct Watcher(Box<dyn Listener>);

impl Watcher {
    /// What it was shown since the last look, a line each; states of agents left out.
    fn seen(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        while let Some(Some(heard)) = self.0.next().now_or_never() {
            let Delivered::Update(update) = heard else { panic!("it looked too late") };
            seen.push(match &**update {
                Update::Draft { delta, chars, .. } => format!("draft {delta:?} {chars}"),
                Update::DraftReset { .. } => "reset".to_owned(),
                Update::ToolInput { tool, delta, chars, .. } => format!("input {tool} {delta:?} {chars}"),
                Update::Message { message } => format!("message {} {}", message.seq, message.text),
                Update::CycleEnded { ending, .. } => ending.as_str().to_owned(),
                _ => continue,
            });
        }
        seen
    }
}

struct Lobby {
    play: Play,
    husam: EntityId,
    ada: AgentId,
    lobby: SpaceId,
    watcher: Watcher,
}

async fn lobby(play: Play) -> Lobby {
    let husam = play.world.human("husam").await.unwrap();
    let ada = play.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = play.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let watcher = Watcher(play.world.ports().live.bus().subscribe(Topic::Space(lobby)));
    Lobby { play, husam, ada, lobby, watcher }
}

#[tokio::test]
async fn a_visible_call_is_shown_from_its_first_input_to_its_outcome_under_one_id() {
    let play = Play::new(|prompt| match step(prompt) {
        0 => Script::new().raw_call("build", r#"{"note":"all"}"#, 7).call("look", &json!({})),
        _ => done(),
    });
    let mut l = lobby(play).await;
    l.play.world.say(l.husam, l.lobby, "build it").await.unwrap();
    l.play.world.pass(Duration::from_secs(1)).await.unwrap();
    assert_eq!(
        l.watcher.seen(),
        [
            r#"input build "" 0"#,
            r#"input build "{\"note\"" 7"#,
            r#"input build ":\"all\"}" 14"#,
            "message 2 [build: running]",
        ]
    );
    assert_eq!(
        l.play.world.ports().live.drafts(Topic::Space(l.lobby)),
        [],
        "the message has replaced its draft"
    );
    l.play.gate.open();
    l.play.world.quiet().await.unwrap();
    assert_eq!(l.watcher.seen(), ["message 2 [build: complete]", "completed"]);
    let messages = l.play.world.messages(l.lobby).await.unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1].data.as_ref().unwrap()["input"], r#"{"note":"all"}"#);
}

#[tokio::test]
async fn a_visible_call_that_is_canceled_or_cut_by_a_crash_does_not_stay_running() {
    let play = Play::new(|prompt| match step(prompt) {
        0 => Script::new().call("build", &json!({})),
        _ => done(),
    });
    let mut l = lobby(play).await;
    l.play.world.say(l.husam, l.lobby, "build it").await.unwrap();
    l.play.world.pass(Duration::from_secs(1)).await.unwrap();
    l.play.world.registry().cancel(l.ada, None).await.unwrap();
    l.play.world.node().unwrap().look(l.ada);
    l.play.world.quiet().await.unwrap();
    assert_eq!(l.watcher.seen().last_chunk().unwrap(), &["message 2 [build: error]", "canceled"]);

    l.play.world.say(l.husam, l.lobby, "again").await.unwrap();
    l.play.world.pass(Duration::from_secs(1)).await.unwrap();
    l.play.world.kill();
    l.play.gate.open();
    l.play.world.start();
    l.play.world.quiet().await.unwrap();
    let texts: Vec<_> = l.play.world.messages(l.lobby).await.unwrap().into_iter().map(|m| m.text).collect();
    assert_eq!(texts, ["build it", "[build: error]", "again", "[build: complete]"]);
}

#[tokio::test]
async fn a_draft_of_a_generation_that_breaks_off_is_withdrawn_and_written_again() {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let play = Play::new(move |prompt| match step(prompt) {
        0 if counted.fetch_add(1, Ordering::SeqCst) == 0 => Script::new()
            .call_in("send_message", vec![r#"{"text":"Sal"#.into(), "a".into()])
            .fail(ModelError::Cut("the connection broke".into())),
        0 => Script::new().call("send_message", &send("lobby", "Salam")),
        _ => done(),
    });
    let mut l = lobby(play).await;
    l.play.world.say(l.husam, l.lobby, "hi").await.unwrap();
    l.play.world.quiet().await.unwrap();
    let seen = l.watcher.seen();
    assert_eq!(&seen[..3], [r#"draft "Sal" 3"#, r#"draft "a" 4"#, "reset"]);
    assert_eq!(seen.last_chunk().unwrap(), &["message 2 Salam", "completed"]);
    assert!(seen[3].starts_with("draft"), "{seen:?}");
}

#[tokio::test]
async fn a_draft_that_is_not_said_in_the_end_is_withdrawn_with_the_decision() {
    let play = Play::new(|prompt| match step(prompt) {
        // Cut by nobody, but `text` must be a text.
        0 => Script::new()
            .call_in(
                "send_message",
                vec![r#"{"text":"never"#.into(), r#"","urgent":true,"#.into(), "}".into()],
            )
            .call("slow", &json!({})),
        _ => done(),
    });
    let mut l = lobby(play).await;
    l.play.world.say(l.husam, l.lobby, "hi").await.unwrap();
    l.play.world.pass(Duration::from_secs(1)).await.unwrap();
    assert_eq!(l.watcher.seen(), [r#"draft "never" 5"#, "reset"], "while `slow` still runs");
    l.play.gate.open();
    l.play.world.quiet().await.unwrap();
    assert_eq!(l.watcher.seen(), ["completed"]);
}

#[tokio::test]
async fn words_that_are_certain_to_be_refused_are_never_shown() {
    let say = || Script::new().call("send_message", &json!({"text": "not yet"}));
    let play = Play::new(move |prompt| match step(prompt) {
        0 | 1 => say().call("build", &json!({})),
        _ => done(),
    });
    let gates = json!({"gates": [{"from": 0, "to": 0, "active_tools": ["look"]}], "tools": ["look", "done"]});
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::from_json(&gates).unwrap()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let mut watcher = Watcher(world.ports().live.bus().subscribe(Topic::Space(lobby)));
    world.say(husam, lobby, "hi").await.unwrap();
    world.quiet().await.unwrap();
    let refused = world.mind(ada).await.unwrap().into_iter().flat_map(|entry| entry.message.parts);
    let refused = refused.filter(|part| matches!(part, agent::message::Part::ToolResult { error: true, .. }));
    assert_eq!(refused.count(), 4, "gated in one step and not among its tools in the other");
    assert_eq!(watcher.seen(), ["completed"]);
}

#[tokio::test]
async fn operators_are_told_of_a_failed_call_apart_from_those_that_worked() {
    let play = Play::new(|prompt| match step(prompt) {
        0 => Script::new().call("look", &json!({})).call("fail", &json!({})),
        1 => Script::new().call("read_messages", &json!({"space": "nowhere"})),
        _ => done(),
    });
    let mut l = lobby(play).await;
    let mut operator = l.play.world.ports().live.bus().subscribe(Topic::Agent(l.ada));
    l.play.world.say(l.husam, l.lobby, "hi").await.unwrap();
    l.play.world.quiet().await.unwrap();
    let (mut worked, mut failed) = (Vec::new(), Vec::new());
    while let Some(Some(Delivered::Update(update))) = operator.next().now_or_never() {
        match &**update {
            Update::ToolDone { tool, .. } => worked.push(tool.clone()),
            Update::ToolError { tool, reason, .. } => failed.push((tool.clone(), reason.clone().unwrap())),
            _ => {}
        }
    }
    assert_eq!(worked, ["look", "done"]);
    assert_eq!(failed[0].0, "fail");
    assert!(failed[0].1.contains("never works") && !failed[0].1.contains("on purpose"), "{failed:?}");
    assert!(failed[1].1.contains("nowhere"), "{failed:?}");
    assert_eq!(l.watcher.seen(), ["completed"]);
}

#[tokio::test]
async fn operators_are_told_how_far_each_event_has_come() {
    let play = Play::new(|prompt| match (inbox(prompt), step(prompt)) {
        (text, 0) if text.contains("hello") => {
            Script::new().call("send_message", &send("lobby", "hello yourself"))
        }
        (text, 0) if text.contains("not for you") => Script::new().call("skip", &json!({})),
        _ => done(),
    });
    let l = lobby(play).await;
    let mut operator = l.play.world.ports().live.bus().subscribe(Topic::Agent(l.ada));
    let mut told = Vec::new();
    for words in ["hello", "just so you know", "not for you"] {
        let id = l.play.world.say(l.husam, l.lobby, words).await.unwrap().to_string();
        l.play.world.quiet().await.unwrap();
        let mut stages = Vec::new();
        while let Some(Some(Delivered::Update(update))) = operator.next().now_or_never() {
            if let Update::EventProgress { event, progress, step, cycle, .. } = &**update {
                assert_eq!((&event.0, cycle.is_some()), (&id, *progress != EventProgress::Skipped));
                stages.push((*progress, *step));
            }
        }
        told.push(stages);
    }
    let taken = (EventProgress::Taken, None);
    let shown = (EventProgress::Shown, Some(0));
    assert_eq!(told[0], [taken, shown, (EventProgress::Addressed, Some(0))]);
    assert_eq!(told[1], [taken, shown, (EventProgress::Read, Some(0))]);
    assert_eq!(told[2], [taken, (EventProgress::Skipped, None)]);
}

#[tokio::test]
async fn a_draft_is_withdrawn_when_its_cycle_is_canceled() {
    let play = Play::new(|_| Script::new().call_in("send_message", vec![r#"{"text":"hal"#.into()]).hang());
    let mut l = lobby(play).await;
    l.play.world.say(l.husam, l.lobby, "hi").await.unwrap();
    l.play.world.pass(Duration::from_secs(1)).await.unwrap();
    assert_eq!(l.watcher.seen(), [r#"draft "hal" 3"#]);
    assert_eq!(
        l.play.world.ports().live.drafts(Topic::Space(l.lobby))[0].text,
        "hal",
        "who comes now sees it"
    );
    l.play.world.registry().cancel(l.ada, None).await.unwrap();
    l.play.world.node().unwrap().look(l.ada);
    l.play.world.quiet().await.unwrap();
    assert_eq!(l.watcher.seen(), ["reset", "canceled"]);
    assert_eq!(l.play.world.ports().live.drafts(Topic::Space(l.lobby)), []);
}
