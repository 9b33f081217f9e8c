//! What the watchers of a space see of a generation: text and input as they arrive, how they end, and that no draft is
//! left.

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

use crate::fixture::{Fixture, done, inbox, send, step};

/// A watcher of a space.
struct Watcher(Box<dyn Listener>);

impl Watcher {
    /// The updates since the last call, one line each, without states of agents.
    fn seen(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        while let Some(Some(delivered)) = self.0.next().now_or_never() {
            let Delivered::Update(update) = delivered else { panic!("it missed updates") };
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
    fixture: Fixture,
    husam: EntityId,
    ada: AgentId,
    lobby: SpaceId,
    watcher: Watcher,
}

async fn lobby(fixture: Fixture) -> Lobby {
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let watcher = Watcher(fixture.world.ports().live.bus().subscribe(Topic::Space(lobby)));
    Lobby { fixture, husam, ada, lobby, watcher }
}

#[tokio::test]
async fn a_visible_call_is_shown_from_its_first_input_to_its_outcome_under_one_id() {
    let fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new().raw_call("build", r#"{"note":"all"}"#, 7).call("look", &json!({})),
        _ => done(),
    });
    let mut l = lobby(fixture).await;
    l.fixture.world.say(l.husam, l.lobby, "build it").await.unwrap();
    l.fixture.world.pass(Duration::from_secs(1)).await.unwrap();
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
        l.fixture.world.ports().live.drafts(Topic::Space(l.lobby)),
        [],
        "the message has replaced its draft"
    );
    l.fixture.gate.open();
    l.fixture.world.quiet().await.unwrap();
    assert_eq!(l.watcher.seen(), ["message 2 [build: complete]", "completed"]);
    let messages = l.fixture.world.messages(l.lobby).await.unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1].data.as_ref().unwrap()["input"], r#"{"note":"all"}"#);
}

#[tokio::test]
async fn a_visible_call_that_is_canceled_or_cut_by_a_crash_is_not_shown_as_running_forever() {
    let fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new().call("build", &json!({})),
        _ => done(),
    });
    let mut l = lobby(fixture).await;
    l.fixture.world.say(l.husam, l.lobby, "build it").await.unwrap();
    l.fixture.world.pass(Duration::from_secs(1)).await.unwrap();
    l.fixture.world.registry().cancel(l.ada, None).await.unwrap();
    l.fixture.world.node().unwrap().recheck(l.ada);
    l.fixture.world.quiet().await.unwrap();
    assert_eq!(l.watcher.seen().last_chunk().unwrap(), &["message 2 [build: error]", "canceled"]);

    l.fixture.world.say(l.husam, l.lobby, "again").await.unwrap();
    l.fixture.world.pass(Duration::from_secs(1)).await.unwrap();
    l.fixture.world.kill();
    l.fixture.gate.open();
    l.fixture.world.start();
    l.fixture.world.quiet().await.unwrap();
    let texts: Vec<_> =
        l.fixture.world.messages(l.lobby).await.unwrap().into_iter().map(|m| m.text).collect();
    assert_eq!(texts, ["build it", "[build: error]", "again", "[build: complete]"]);
}

#[tokio::test]
async fn a_draft_of_a_generation_that_breaks_off_is_withdrawn_and_written_again() {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let fixture = Fixture::new(move |prompt| match step(prompt) {
        0 if counted.fetch_add(1, Ordering::SeqCst) == 0 => Script::new()
            .call_in("send_message", vec![r#"{"text":"Sal"#.into(), "a".into()])
            .fail(ModelError::Cut("the connection broke".into())),
        0 => Script::new().call("send_message", &send("lobby", "Salam")),
        _ => done(),
    });
    let mut l = lobby(fixture).await;
    l.fixture.world.say(l.husam, l.lobby, "hi").await.unwrap();
    l.fixture.world.quiet().await.unwrap();
    let seen = l.watcher.seen();
    assert_eq!(&seen[..3], [r#"draft "Sal" 3"#, r#"draft "a" 4"#, "reset"]);
    assert_eq!(seen.last_chunk().unwrap(), &["message 2 Salam", "completed"]);
    assert!(seen[3].starts_with("draft"), "{seen:?}");
}

#[tokio::test]
async fn a_draft_that_is_not_posted_is_withdrawn_with_the_decision() {
    let fixture = Fixture::new(|prompt| match step(prompt) {
        // The stream is whole, but the arguments are not valid.
        0 => Script::new()
            .call_in(
                "send_message",
                vec![r#"{"text":"never"#.into(), r#"","urgent":true,"#.into(), "}".into()],
            )
            .call("slow", &json!({})),
        _ => done(),
    });
    let mut l = lobby(fixture).await;
    l.fixture.world.say(l.husam, l.lobby, "hi").await.unwrap();
    l.fixture.world.pass(Duration::from_secs(1)).await.unwrap();
    assert_eq!(l.watcher.seen(), [r#"draft "never" 5"#, "reset"], "while `slow` still runs");
    l.fixture.gate.open();
    l.fixture.world.quiet().await.unwrap();
    assert_eq!(l.watcher.seen(), ["completed"]);
}

#[tokio::test]
async fn a_message_that_is_certain_to_be_refused_is_never_shown() {
    let say = || Script::new().call("send_message", &json!({"text": "not yet"}));
    let fixture = Fixture::new(move |prompt| match step(prompt) {
        0 | 1 => say().call("build", &json!({})),
        _ => done(),
    });
    let gates = json!({"gates": [{"from": 0, "to": 0, "active_tools": ["look"]}], "tools": ["look", "done"]});
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::from_json(&gates).unwrap()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let mut watcher = Watcher(world.ports().live.bus().subscribe(Topic::Space(lobby)));
    world.say(husam, lobby, "hi").await.unwrap();
    world.quiet().await.unwrap();
    let refused = world.consciousness(ada).await.unwrap().into_iter().flat_map(|entry| entry.message.parts);
    let refused = refused.filter(|part| matches!(part, agent::message::Part::ToolResult { error: true, .. }));
    assert_eq!(refused.count(), 4, "gated in one step, not among its tools in the other");
    assert_eq!(watcher.seen(), ["completed"]);
}

#[tokio::test]
async fn operators_see_failed_calls_apart_from_successful_ones() {
    let fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new().call("look", &json!({})).call("fail", &json!({})),
        1 => Script::new().call("read_messages", &json!({"space": "nowhere"})),
        _ => done(),
    });
    let mut l = lobby(fixture).await;
    let mut operator = l.fixture.world.ports().live.bus().subscribe(Topic::Agent(l.ada));
    l.fixture.world.say(l.husam, l.lobby, "hi").await.unwrap();
    l.fixture.world.quiet().await.unwrap();
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
async fn operators_see_the_progress_of_each_event() {
    let fixture = Fixture::new(|prompt| match (inbox(prompt), step(prompt)) {
        (text, 0) if text.contains("hello") => {
            Script::new().call("send_message", &send("lobby", "hello yourself"))
        }
        (text, 0) if text.contains("not for you") => Script::new().call("skip", &json!({})),
        _ => done(),
    });
    let l = lobby(fixture).await;
    let mut operator = l.fixture.world.ports().live.bus().subscribe(Topic::Agent(l.ada));
    let mut seen = Vec::new();
    for text in ["hello", "just so you know", "not for you"] {
        let id = l.fixture.world.say(l.husam, l.lobby, text).await.unwrap().to_string();
        l.fixture.world.quiet().await.unwrap();
        let mut progress_of_event = Vec::new();
        while let Some(Some(Delivered::Update(update))) = operator.next().now_or_never() {
            if let Update::EventProgress { event, progress, step, cycle, .. } = &**update {
                assert_eq!((&event.0, cycle.is_some()), (&id, *progress != EventProgress::Skipped));
                progress_of_event.push((*progress, *step));
            }
        }
        seen.push(progress_of_event);
    }
    let taken = (EventProgress::Taken, None);
    let shown = (EventProgress::Shown, Some(0));
    assert_eq!(seen[0], [taken, shown, (EventProgress::Addressed, Some(0))]);
    assert_eq!(seen[1], [taken, shown, (EventProgress::Read, Some(0))]);
    assert_eq!(seen[2], [taken, (EventProgress::Skipped, None)]);
}

#[tokio::test]
async fn a_draft_is_withdrawn_when_its_cycle_is_canceled() {
    let fixture =
        Fixture::new(|_| Script::new().call_in("send_message", vec![r#"{"text":"hal"#.into()]).hang());
    let mut l = lobby(fixture).await;
    l.fixture.world.say(l.husam, l.lobby, "hi").await.unwrap();
    l.fixture.world.pass(Duration::from_secs(1)).await.unwrap();
    assert_eq!(l.watcher.seen(), [r#"draft "hal" 3"#]);
    assert_eq!(
        l.fixture.world.ports().live.drafts(Topic::Space(l.lobby))[0].text,
        "hal",
        "a new watcher sees it"
    );
    l.fixture.world.registry().cancel(l.ada, None).await.unwrap();
    l.fixture.world.node().unwrap().recheck(l.ada);
    l.fixture.world.quiet().await.unwrap();
    assert_eq!(l.watcher.seen(), ["reset", "canceled"]);
    assert_eq!(l.fixture.world.ports().live.drafts(Topic::Space(l.lobby)), []);
}
