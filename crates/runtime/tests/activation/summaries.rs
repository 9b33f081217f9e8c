//! Long lives in a small window: what a summariser keeps is shown, one that fails costs nothing but quality, a person never
//! waits for it, and a death at any commit leaves a valid history.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use agent::changes::MemoryChange;
use agent::config::AgentConfig;
use agent::entry::{Compaction, SummaryMethod, View};
use agent::id::{AgentId, SpaceId};
use agent::port::{Delivered, ModelError, ModelInfo, Published};
use agent::prompt::{Item, Prompt};
use agent::update::{Topic, Update};
use models::scripted::{Script, Scripted};
use runtime::live::DelayKind;
use serde_json::json;
use tokio::sync::Notify;

use crate::fixture::{Fixture, inbox, send};
use crate::prefix::{accepted_by_every_vendor, cut_at_commit, restart_if_cut};

/// A model with room for a few cycles.
fn small(author: impl Fn(&Prompt) -> Script + Send + Sync + 'static) -> Scripted {
    Scripted::answering(author).with_info(ModelInfo {
        name: "small/one".into(),
        provider: "small".into(),
        context_window: 4_096,
        max_output: 512,
        ..ModelInfo::default()
    })
}

/// All that the model reads outside the system text.
fn everything(prompt: &Prompt) -> String {
    let text = |item: &Item| match item {
        Item::Layer(text) => text.to_string(),
        Item::Entry(entry) => entry.message.text(),
    };
    prompt.items.iter().map(text).collect()
}

fn asks_for_summary(prompt: &Prompt) -> bool {
    prompt.tools.is_empty()
}

/// Answers each message in one request.
fn answers(prompt: &Prompt) -> Script {
    let known = if everything(prompt).contains("the code is 4711") { "known" } else { "unknown" };
    let text = if inbox(prompt).contains("which code") { known } else { "noted" };
    Script::new().call("send_message", &send("lobby", text)).call("done", &json!({}))
}

fn config() -> AgentConfig {
    AgentConfig { tools: Some(vec!["send_message".into(), "done".into()]), ..AgentConfig::default() }
}

/// A first message with a fact, then so many long ones, then a question about the fact.
async fn talk(fixture: &mut Fixture, messages: usize, left: Option<&AtomicI64>) -> (AgentId, SpaceId) {
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", config()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let filler = (0..messages).map(|n| format!("message {n}: {}", "talk ".repeat(240)));
    let texts = std::iter::once("the code is 4711".to_owned()).chain(filler);
    for text in texts.chain(["which code was it?".to_owned()]) {
        fixture.world.say(husam, lobby, &text).await.unwrap();
        if let Some(left) = left {
            fixture.world.pass(std::time::Duration::from_secs(2)).await.unwrap();
            restart_if_cut(fixture, left);
        }
        fixture.world.quiet().await.unwrap();
    }
    (ada, lobby)
}

async fn last_text(fixture: &Fixture, space: SpaceId) -> String {
    fixture.world.posted_texts(space).await.unwrap().pop().unwrap().1
}

async fn view(fixture: &Fixture, ada: AgentId) -> View {
    fixture.world.reader().view(ada).await.unwrap().unwrap()
}

type Updates = Arc<Mutex<Vec<Arc<Published>>>>;

/// What watchers are shown from now on.
fn watched(fixture: &Fixture) -> Updates {
    let mut watched = fixture.world.ports().live.bus().subscribe(Topic::Server);
    let updates = Updates::default();
    let seen = Arc::clone(&updates);
    tokio::spawn(async move {
        while let Some(delivered) = watched.next().await {
            if let Delivered::Update(update) = delivered {
                seen.lock().unwrap().push(update);
            }
        }
    });
    updates
}

fn compactions(updates: &Updates) -> Vec<Compaction> {
    let compaction = |update: &Arc<Published>| match &***update {
        Update::Compaction { compaction, .. } => Some(compaction.clone()),
        _ => None,
    };
    updates.lock().unwrap().iter().filter_map(compaction).collect()
}

#[tokio::test]
async fn what_a_summary_keeps_is_known_for_ever_and_its_tokens_are_charged() {
    let model = small(|prompt| match asks_for_summary(prompt) {
        true => {
            let known = everything(prompt).contains("the code is 4711");
            Script::new()
                .text(if known { "## Facts\n- the code is 4711" } else { "## Facts" })
                .usage(1_000, 0, 10)
        }
        false => answers(prompt).usage(100, 0, 1),
    });
    let mut fixture = Fixture::with(model, |store| store);
    let updates = watched(&fixture);
    let (ada, lobby) = talk(&mut fixture, 40, None).await;
    assert_eq!(last_text(&fixture, lobby).await, "known");
    let compaction = view(&fixture, ada).await.compaction.unwrap();
    assert!(compaction.round >= 5, "{compaction:?}");
    let published = compactions(&updates);
    assert_eq!(published.last(), Some(&compaction), "watchers are told of each");
    assert_eq!(published.len() as u64, compaction.round);
    assert_eq!((compaction.method, compaction.model.as_deref()), (SummaryMethod::Model, Some("small/one")));
    let prompts = fixture.model.prompts();
    let summaries = prompts.iter().filter(|prompt| asks_for_summary(prompt)).count() as u64;
    let card = fixture.world.reader().agent(ada).await.unwrap().unwrap();
    assert_eq!(card.usage.input, Some(summaries * 1_000 + 42 * 100), "nothing is charged twice");
    let runs = fixture.world.runs(ada).await.unwrap();
    assert_eq!(runs.len(), 42, "a summary is no run");
    accepted_by_every_vendor(&prompts, "all");
    let last = prompts.last().unwrap();
    assert!(matches!(&last.items[0], Item::Layer(text) if text.starts_with("[COMPACTED MEMORY — cycles 1–")));
}

#[tokio::test]
async fn a_pinned_memory_is_in_every_request_whatever_a_summariser_forgets() {
    let author = |prompt: &Prompt| match asks_for_summary(prompt) {
        true => Script::new().text("## Facts\n- nothing"),
        false => answers(prompt),
    };
    let mut fixture = Fixture::with(small(author), |store| store);
    let (ada, _) = talk(&mut fixture, 12, None).await;
    let registry = fixture.world.registry();
    let set = |key: String, pinned| MemoryChange::Set {
        value: "v".repeat(100),
        key,
        importance: None,
        pinned,
        trust: None,
    };
    for n in 0..60 {
        registry.change_memory(ada, set(format!("k{n}"), None), fixture.now()).await.unwrap();
    }
    registry.change_memory(ada, set("the pinned one".into(), Some(true)), fixture.now()).await.unwrap();
    let (before, husam) = (fixture.model.prompts().len(), "husam".to_owned());
    let husam = fixture.world.reader().entity(husam).await.unwrap().unwrap().id;
    let lobby = fixture.world.reader().space("lobby".into()).await.unwrap().unwrap().id;
    for n in 0..12 {
        fixture.world.say(husam, lobby, &format!("more {n}: {}", "talk ".repeat(240))).await.unwrap();
        fixture.world.quiet().await.unwrap();
    }
    let (prompts, shown) =
        (fixture.model.prompts(), format!("\"the pinned one\" (pinned): \"{}\"", "v".repeat(100)));
    let requests: Vec<_> = prompts[before..].iter().filter(|prompt| !asks_for_summary(prompt)).collect();
    assert!(requests.len() >= 12 && view(&fixture, ada).await.compaction.unwrap().round > 2);
    assert!(requests.iter().all(|prompt| everything(prompt).contains(&shown)));
    assert!(everything(requests[0]).contains("more left out: \"k"), "not all memories have room");
}

#[tokio::test]
async fn a_summariser_that_fails_in_any_way_never_stops_the_agent() {
    let failing: [fn() -> Script; 5] = [
        || Script::fails(ModelError::Invalid("no".into())),
        || Script::new().text(""),
        || Script::new().text("word ".repeat(4_000)),
        || Script::new().call("done", &json!({})),
        || Script::new().text("Это краткое содержание всего разговора на другом языке, чем сам разговор"),
    ];
    for (n, fail) in failing.into_iter().enumerate() {
        let model = small(move |prompt| if asks_for_summary(prompt) { fail() } else { answers(prompt) });
        let mut fixture = Fixture::with(model, |store| store);
        let (ada, lobby) = talk(&mut fixture, 8, None).await;
        assert_eq!(last_text(&fixture, lobby).await, "known", "{n}: the digest has it");
        assert_eq!(view(&fixture, ada).await.compaction.unwrap().method, SummaryMethod::Digest, "{n}");
        let endings: Vec<_> =
            fixture.world.runs(ada).await.unwrap().iter().map(|run| run.ending.as_str()).collect();
        assert_eq!(endings, ["completed"; 10], "{n}");
        let prompts = fixture.model.prompts();
        let requests = prompts.iter().filter(|prompt| asks_for_summary(prompt)).count();
        assert!(
            requests <= 2 * prompts.len() / 3,
            "{n}: {requests} requests for summaries of {}",
            prompts.len()
        );
        assert!(
            fixture
                .world
                .consciousness(ada)
                .await
                .unwrap()
                .iter()
                .all(|e| !e.message.text().contains("краткое"))
        );
    }
}

#[tokio::test]
async fn a_person_does_not_wait_for_a_summary_between_two_cycles() {
    let never = Arc::new(Notify::new());
    let wait = Arc::clone(&never);
    let model = small(move |prompt| match asks_for_summary(prompt) {
        true => Script::new().wait(Arc::clone(&wait)).text("## Facts"),
        false => answers(prompt),
    });
    let fixture = Fixture::with(model, |store| store);
    let updates = watched(&fixture);
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", config()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    for n in 0..40 {
        let text = format!("message {n}: {}", "talk ".repeat(240));
        let event = fixture.world.say(husam, lobby, &text).await.unwrap();
        fixture.world.pass(std::time::Duration::from_millis(200)).await.unwrap();
        let state = fixture.world.state(ada, &event.to_string()).await.unwrap();
        assert_eq!(state.as_str(), "processed", "message {n}");
    }
    assert!(fixture.model.dropped() > 0, "a summary was begun and dropped");
    let requests = fixture.model.prompts().iter().filter(|prompt| asks_for_summary(prompt)).count() as u64;
    let rounds = view(&fixture, ada).await.compaction.unwrap().round;
    assert!(requests <= 2 * (rounds + 1), "{requests} requests for {rounds} rounds are paid in vain");
    let card = fixture.world.reader().agent(ada).await.unwrap().unwrap();
    let of_runs: u64 = fixture.world.runs(ada).await.unwrap().iter().filter_map(|run| run.usage.input).sum();
    assert!(
        card.usage.input > Some(of_runs + requests * 500),
        "dropped requests are charged: {:?}",
        card.usage
    );
    let interrupted = |compaction: &Compaction| compaction.refused.as_deref() == Some(Compaction::NEW_WORK);
    assert!(compactions(&updates).iter().any(interrupted));
    let is_alert = |update: &Arc<Published>| matches!(&***update, Update::Alert { .. });
    assert!(!updates.lock().unwrap().iter().any(is_alert), "the model did not fail");
}

#[tokio::test]
async fn an_agent_whose_summary_is_written_says_so_until_it_is() {
    let (written, wait) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (release, wait_too) = (Arc::clone(&wait), Arc::clone(&wait));
    let asked = Arc::clone(&written);
    let model = small(move |prompt| match asks_for_summary(prompt) {
        true => {
            asked.notify_one();
            Script::new().wait(Arc::clone(&wait_too)).text("## Facts\n- the code is 4711")
        }
        false => answers(prompt),
    });
    let fixture = Fixture::with(model, |store| store);
    let live = Arc::clone(&fixture.world.ports().live);
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", config()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let mut delay = None;
    for n in 0..40 {
        let text = format!("message {n}: {}", "talk ".repeat(240));
        fixture.world.say(husam, lobby, &text).await.unwrap();
        fixture.world.pass(std::time::Duration::from_millis(200)).await.unwrap();
        delay = live.activity(ada).and_then(|activity| activity.delay);
        if delay.is_some() {
            break;
        }
    }
    let delay = delay.expect("a summary is asked for");
    assert_eq!((delay.kind, delay.why.as_str()), (DelayKind::Summary, "writing a summary of its history"));
    written.notified().await;
    release.notify_one();
    fixture.world.quiet().await.unwrap();
    assert_eq!(live.activity(ada), None);
    assert_eq!(view(&fixture, ada).await.compaction.unwrap().method, SummaryMethod::Model);
}

#[tokio::test]
async fn a_death_at_any_commit_leaves_a_history_that_goes_on() {
    let tell = |cut: i64, written: bool| async move {
        let left = Arc::new(AtomicI64::new(cut));
        let counter = Arc::clone(&left);
        let model = small(|prompt| match asks_for_summary(prompt) {
            true => Script::new().text("## Facts\n- the code is 4711"),
            false => answers(prompt),
        });
        let mut fixture =
            Fixture::with(model, move |inner| cut_at_commit(inner, Arc::clone(&counter), written));
        let (ada, lobby) = talk(&mut fixture, 8, Some(&left)).await;
        let used = 1_000_000 - left.load(Ordering::SeqCst);
        let messages = fixture.world.posted_texts(lobby).await.unwrap();
        accepted_by_every_vendor(&fixture.model.prompts(), "all");
        (messages, view(&fixture, ada).await.compaction.map(|compaction| compaction.method), used)
    };
    let (whole, method, commits) = tell(1_000_000, false).await;
    assert_eq!((whole.len(), method), (20, Some(SummaryMethod::Model)));
    assert_eq!(whole.last().unwrap().1, "known");
    for cut in 0..commits {
        for written in [false, true] {
            let (messages, ..) = tell(cut, written).await;
            assert_eq!(messages, whole, "cut at commit {cut}, written: {written}");
        }
    }
}

#[tokio::test]
async fn a_model_that_counts_more_tokens_than_the_estimate_gets_a_smaller_window() {
    let rounds = async |percent: u64| {
        let model = small(move |prompt| answers(prompt).usage(prompt.tokens * percent / 100, 0, 10));
        let mut fixture = Fixture::with(model, |store| store);
        let (ada, _) = talk(&mut fixture, 6, None).await;
        view(&fixture, ada).await.compaction.map_or(0, |compaction| compaction.round)
    };
    let (as_estimated, twice) = (rounds(100).await, rounds(200).await);
    assert!(twice > as_estimated, "{twice} compactions, and {as_estimated} with the estimate's count");
}

#[tokio::test]
async fn a_restart_does_not_forget_how_a_model_counts() {
    let model = small(|prompt| match asks_for_summary(prompt) {
        true => Script::new().text("## Facts"),
        false => answers(prompt).usage(prompt.tokens * 75 / 100, 0, 10),
    });
    let mut fixture = Fixture::with(model, |store| store);
    let (ada, lobby) = talk(&mut fixture, 40, None).await;
    let husam = fixture.world.reader().entity("husam".into()).await.unwrap().unwrap().id;
    let before = view(&fixture, ada).await.compaction.unwrap().round;
    for n in 0..16 {
        fixture.world.kill();
        fixture.world.start();
        fixture.world.say(husam, lobby, &format!("more {n}: {}", "talk ".repeat(240))).await.unwrap();
        fixture.world.quiet().await.unwrap();
        let compaction = view(&fixture, ada).await.compaction.unwrap();
        assert_eq!((compaction.method, compaction.refused), (SummaryMethod::Model, None), "{n}");
    }
    assert!(view(&fixture, ada).await.compaction.unwrap().round > before + 2);
}
