//! Single calls of a cycle that is at work, sleeps, or was processed by an earlier process.

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

use crate::play::{Play, done, entries, send, step};

/// What the calls of the newest step gave, as the model reads it.
pub(crate) fn results(prompt: &Prompt) -> Vec<String> {
    let last = entries(prompt).into_iter().rfind(|entry| entry.kind == EntryKind::Outcomes);
    let parts = last.into_iter().flat_map(|entry| &entry.message.parts);
    let texts = parts.filter_map(|part| match part {
        Part::ToolResult { text, .. } => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// The words of a space.
pub(crate) async fn said(play: &Play, space: SpaceId) -> Vec<String> {
    play.world.heard(space).await.unwrap().into_iter().map(|(_, text)| text).collect()
}

pub(crate) async fn open_call(play: &Play, ada: AgentId, tool: &str) -> CallId {
    let open = play.world.reader().open_calls(ada).await.unwrap();
    open.into_iter().find(|row| row.tool == tool).expect("the call is open").id
}

/// As the doors do it.
pub(crate) async fn cancel(play: &Play, ada: AgentId, call: &CallId) {
    let canceled = play.world.registry().cancel_call(ada, call.clone()).await.unwrap();
    if let Some(node) = play.world.node() {
        node.answered(ada, canceled.call.id, canceled.echo);
    }
}

/// Calls `first` and `look`, then says in the lobby what `first` gave.
fn caller(first: &'static str) -> impl Fn(&Prompt) -> Script + Send + Sync {
    move |prompt| match step(prompt) {
        0 => Script::new().call(first, &json!({})).call("look", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", &results(prompt)[0])),
        _ => done(),
    }
}

#[tokio::test]
async fn a_canceled_call_is_dropped_at_once_and_the_cycle_goes_on_with_the_others() {
    let play = Play::new(caller("slow"));
    let world = &play.world;
    let (ada, lobby) = play.ada().await;
    world.pass(Duration::from_secs(1)).await.unwrap();
    let mut watched = world.ports().live.bus().subscribe(Topic::Agent(ada));
    let call = open_call(&play, ada, "slow").await;
    cancel(&play, ada, &call).await;
    world.pass(Duration::from_millis(1)).await.unwrap();
    world.quiet().await.unwrap();
    let heard = said(&play, lobby).await;
    assert!(heard[1].contains("canceled by an operator"), "{heard:?}");
    let run = world.runs(ada).await.unwrap().pop().unwrap();
    assert_eq!(
        (run.ending, run.steps[0].calls[0].status),
        (Ending::Completed, Some(OutcomeStatus::Canceled))
    );
    assert_eq!(run.steps[0].calls[1].status, Some(OutcomeStatus::Ok));
    assert_eq!((play.counters.calls("slow"), play.counters.calls("look")), (1, 1));
    let mut told = Vec::new();
    while let Some(Some(Delivered::Update(update))) = futures_util::FutureExt::now_or_never(watched.next()) {
        if let Update::ToolDone { call, status, .. } = &**update {
            told.push((call.clone(), *status));
        }
    }
    assert_eq!(told[0], (call, OutcomeStatus::Canceled));
}

#[tokio::test]
async fn an_unsafe_call_that_is_canceled_after_it_began_is_told_as_in_doubt_and_never_made_again() {
    let play = Play::unsafely(caller("slow"));
    let world = &play.world;
    let (ada, lobby) = play.ada().await;
    world.pass(Duration::from_secs(1)).await.unwrap();
    cancel(&play, ada, &open_call(&play, ada, "slow").await).await;
    world.pass(Duration::from_millis(1)).await.unwrap();
    play.gate.open();
    world.quiet().await.unwrap();
    assert!(said(&play, lobby).await[1].contains("unknown whether it happened"));
    assert_eq!((play.counters.calls("slow"), play.counters.effects("slow")), (1, 0));
}

#[tokio::test]
async fn a_call_that_waits_for_another_is_canceled_before_it_begins() {
    let play = Play::unsafely(|prompt| match step(prompt) {
        0 => Script::new().call("slow", &json!({})).call("fire", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", &results(prompt).join(" | "))),
        _ => done(),
    });
    let world = &play.world;
    let (ada, lobby) = play.ada().await;
    world.pass(Duration::from_secs(1)).await.unwrap();
    cancel(&play, ada, &open_call(&play, ada, "fire").await).await;
    play.gate.open();
    world.quiet().await.unwrap();
    let heard = said(&play, lobby).await;
    assert!(heard[1].contains("success") && heard[1].contains("before it began"), "{heard:?}");
    assert_eq!((play.counters.effects("slow"), play.counters.calls("fire")), (1, 0));
}

#[tokio::test]
async fn a_cancel_whose_signal_is_lost_is_what_the_model_reads_although_the_tool_answered() {
    let play = Play::new(caller("slow"));
    let world = &play.world;
    let (ada, lobby) = play.ada().await;
    world.pass(Duration::from_secs(1)).await.unwrap();
    let call = open_call(&play, ada, "slow").await;
    world.registry().cancel_call(ada, call).await.unwrap();
    play.gate.open();
    world.quiet().await.unwrap();
    let heard = said(&play, lobby).await;
    assert!(heard.len() == 2 && heard[1].contains("canceled by an operator"), "{heard:?}");
}

#[tokio::test]
async fn a_call_of_an_agent_that_sleeps_or_was_lived_by_an_earlier_process_is_canceled_alike() {
    for killed in [true, false] {
        let mut play = Play::new(caller("slow"));
        let (ada, lobby) = play.ada().await;
        play.world.pass(Duration::from_secs(1)).await.unwrap();
        match killed {
            true => play.world.kill(),
            false => {
                play.world.registry().set_standing(ada, Standing::Suspended, play.now()).await.unwrap();
                play.world.node().unwrap().look(ada);
                play.world.stop().await.unwrap();
                play.world.registry().set_standing(ada, Standing::Active, play.now()).await.unwrap();
            }
        }
        cancel(&play, ada, &open_call(&play, ada, "slow").await).await;
        play.world.start();
        play.world.quiet().await.unwrap();
        let heard = said(&play, lobby).await;
        assert!(heard[1].contains("canceled by an operator"), "{heard:?}");
        assert_eq!(play.counters.calls("slow"), 1, "it was not run again");
    }
}

impl Play {
    /// Ada in the lobby, where husam has just said hi.
    pub(crate) async fn ada(&self) -> (AgentId, SpaceId) {
        let husam = self.world.human("husam").await.unwrap();
        let ada = self.world.agent("ada", AgentConfig::default()).await.unwrap();
        let lobby = self.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
        self.world.say(husam, lobby, "hi").await.unwrap();
        (ada, lobby)
    }
}
