//! Canceling single calls of a cycle that is running, parked, or left by an earlier process.

use std::time::Duration;

use agent::call::OutcomeStatus;
use agent::config::AgentConfig;
use agent::entry::EntryKind;
use agent::id::{AgentId, CallId, SpaceId};
use agent::life::Standing;
use agent::message::Part;
use agent::port::Delivered;
use agent::prompt::Prompt;
use agent::run::Ending;
use agent::update::{Topic, Update};
use models::scripted::Script;
use serde_json::json;

use crate::fixture::{Fixture, done, entries, send, step};

/// The outcomes of the newest step, as the model reads them.
pub(crate) fn results(prompt: &Prompt) -> Vec<String> {
    let last = entries(prompt).into_iter().rfind(|entry| entry.kind == EntryKind::Outcomes);
    let parts = last.into_iter().flat_map(|entry| &entry.message.parts);
    let texts = parts.filter_map(|part| match part {
        Part::ToolResult { text, .. } => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// The texts of the messages of a space.
pub(crate) async fn posted(fixture: &Fixture, space: SpaceId) -> Vec<String> {
    fixture.world.posted_texts(space).await.unwrap().into_iter().map(|(_, text)| text).collect()
}

pub(crate) async fn open_call(fixture: &Fixture, ada: AgentId, tool: &str) -> CallId {
    let open = fixture.world.reader().open_calls(ada).await.unwrap();
    open.into_iter().find(|row| row.tool == tool).expect("the call is open").id
}

/// Cancels a call as the API does.
pub(crate) async fn cancel(fixture: &Fixture, ada: AgentId, call: &CallId) {
    let canceled = fixture.world.registry().cancel_call(ada, call.clone()).await.unwrap();
    if let Some(node) = fixture.world.node() {
        node.answered(ada, canceled.call.id, canceled.notifications);
    }
}

/// Calls `first` and `look`, then posts the outcome of `first` in the lobby.
fn caller(first: &'static str) -> impl Fn(&Prompt) -> Script + Send + Sync {
    move |prompt| match step(prompt) {
        0 => Script::new().call(first, &json!({})).call("look", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", &results(prompt)[0])),
        _ => done(),
    }
}

#[tokio::test]
async fn a_canceled_call_is_dropped_at_once_and_the_cycle_continues_with_the_others() {
    let fixture = Fixture::new(caller("slow"));
    let world = &fixture.world;
    let (ada, lobby) = fixture.ada().await;
    world.pass(Duration::from_secs(1)).await.unwrap();
    let mut watched = world.ports().live.bus().subscribe(Topic::Agent(ada));
    let call = open_call(&fixture, ada, "slow").await;
    cancel(&fixture, ada, &call).await;
    world.pass(Duration::from_millis(1)).await.unwrap();
    world.quiet().await.unwrap();
    let texts = posted(&fixture, lobby).await;
    assert!(texts[1].contains("canceled by an operator"), "{texts:?}");
    let run = world.runs(ada).await.unwrap().pop().unwrap();
    assert_eq!(
        (run.ending, run.steps[0].calls[0].status),
        (Ending::Completed, Some(OutcomeStatus::Canceled))
    );
    assert_eq!(run.steps[0].calls[1].status, Some(OutcomeStatus::Ok));
    assert_eq!((fixture.counters.calls("slow"), fixture.counters.calls("look")), (1, 1));
    let mut ended = Vec::new();
    while let Some(Some(Delivered::Update(update))) = futures_util::FutureExt::now_or_never(watched.next()) {
        if let Update::ToolDone { call, status, .. } = &**update {
            ended.push((call.clone(), *status));
        }
    }
    assert_eq!(ended[0], (call, OutcomeStatus::Canceled));
}

#[tokio::test]
async fn an_unsafe_call_canceled_after_it_began_is_reported_as_unknown_and_never_repeated() {
    let fixture = Fixture::unsafely(caller("slow"));
    let world = &fixture.world;
    let (ada, lobby) = fixture.ada().await;
    world.pass(Duration::from_secs(1)).await.unwrap();
    cancel(&fixture, ada, &open_call(&fixture, ada, "slow").await).await;
    world.pass(Duration::from_millis(1)).await.unwrap();
    fixture.gate.open();
    world.quiet().await.unwrap();
    assert!(posted(&fixture, lobby).await[1].contains("unknown whether it happened"));
    assert_eq!((fixture.counters.calls("slow"), fixture.counters.effects("slow")), (1, 0));
}

#[tokio::test]
async fn a_call_that_waits_for_another_is_canceled_before_it_begins() {
    let fixture = Fixture::unsafely(|prompt| match step(prompt) {
        0 => Script::new().call("slow", &json!({})).call("fire", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", &results(prompt).join(" | "))),
        _ => done(),
    });
    let world = &fixture.world;
    let (ada, lobby) = fixture.ada().await;
    world.pass(Duration::from_secs(1)).await.unwrap();
    cancel(&fixture, ada, &open_call(&fixture, ada, "fire").await).await;
    fixture.gate.open();
    world.quiet().await.unwrap();
    let texts = posted(&fixture, lobby).await;
    assert!(texts[1].contains("success") && texts[1].contains("before it began"), "{texts:?}");
    assert_eq!((fixture.counters.effects("slow"), fixture.counters.calls("fire")), (1, 0));
}

#[tokio::test]
async fn the_model_reads_a_cancel_whose_signal_was_lost_although_the_tool_answered() {
    let fixture = Fixture::new(caller("slow"));
    let world = &fixture.world;
    let (ada, lobby) = fixture.ada().await;
    world.pass(Duration::from_secs(1)).await.unwrap();
    let call = open_call(&fixture, ada, "slow").await;
    world.registry().cancel_call(ada, call).await.unwrap();
    fixture.gate.open();
    world.quiet().await.unwrap();
    let texts = posted(&fixture, lobby).await;
    assert!(texts.len() == 2 && texts[1].contains("canceled by an operator"), "{texts:?}");
}

#[tokio::test]
async fn calls_of_a_suspended_agent_or_of_an_earlier_process_are_canceled_in_the_same_way() {
    for killed in [true, false] {
        let mut fixture = Fixture::new(caller("slow"));
        let (ada, lobby) = fixture.ada().await;
        fixture.world.pass(Duration::from_secs(1)).await.unwrap();
        match killed {
            true => fixture.world.kill(),
            false => {
                fixture.world.registry().set_standing(ada, Standing::Suspended, fixture.now()).await.unwrap();
                fixture.world.node().unwrap().recheck(ada);
                fixture.world.stop().await.unwrap();
                fixture.world.registry().set_standing(ada, Standing::Active, fixture.now()).await.unwrap();
            }
        }
        cancel(&fixture, ada, &open_call(&fixture, ada, "slow").await).await;
        fixture.world.start();
        fixture.world.quiet().await.unwrap();
        let texts = posted(&fixture, lobby).await;
        assert!(texts[1].contains("canceled by an operator"), "{texts:?}");
        assert_eq!(fixture.counters.calls("slow"), 1, "it was not run again");
    }
}

impl Fixture {
    /// Creates Ada in the lobby, where husam has just posted a message.
    pub(crate) async fn ada(&self) -> (AgentId, SpaceId) {
        let husam = self.world.human("husam").await.unwrap();
        let ada = self.world.agent("ada", AgentConfig::default()).await.unwrap();
        let lobby = self.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
        self.world.say(husam, lobby, "hi").await.unwrap();
        (ada, lobby)
    }
}
