//! One history, cut after every commit and resumed: it must end as the whole one, and each vendor must accept every
//! request (invariant 7).
//!
//! Two kinds of cut: the commit never reaches the store, or it does and the answer is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use agent::changes::Changes;
use agent::config::AgentConfig;
use agent::life::Lease;
use agent::port::{Memo, ModelInfo, Store};
use agent::prompt::Prompt;
use models::client::{Address, Clients, VendorModel};
use models::scripted::{Script, Scripted};
use models::wire::Wire;
use models::wire::anthropic::Anthropic;
use models::wire::gemini::Gemini;
use models::wire::openai_chat::{Dialect, OpenAiChat, ToolMode};
use models::wire::openai_responses::OpenAiResponses;
use serde_json::{Value, json};
use testkit::stubs::{Vendor, rules};

use crate::fixture::{Fixture, done, inbox, send, step};
use crate::store_wrapper::{Committed, Intercept, Wrapped};

/// Never answers from the n-th commit on.
struct CutAtCommit {
    left: Arc<AtomicI64>,
    /// Whether the fatal commit is written before its answer is lost.
    written: bool,
}

/// A store that never answers from the n-th commit on.
pub(crate) fn cut_at_commit(inner: Arc<dyn Store>, left: Arc<AtomicI64>, written: bool) -> Arc<dyn Store> {
    Arc::new(Wrapped { inner, by: CutAtCommit { left, written } })
}

/// If the store has stopped answering, the process dies and starts again, and all commits succeed.
pub(crate) fn restart_if_cut(fixture: &mut Fixture, left: &AtomicI64) {
    if left.load(Ordering::SeqCst) < 0 {
        fixture.world.kill();
        left.store(1_000_000, Ordering::SeqCst);
        fixture.world.start();
    }
}

impl Intercept for CutAtCommit {
    fn commit<'a>(&'a self, store: &'a dyn Store, lease: Lease, changes: Changes) -> Committed<'a> {
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        if left > 0 {
            return store.commit(lease, changes);
        }
        let written = self.written && left == 0;
        Box::pin(async move {
            if written {
                store.commit(lease, changes).await?;
            }
            std::future::pending().await
        })
    }
}

/// Three cycles: one with tools of every effect, one that only posts a message, one that answers in plain text.
fn author(prompt: &Prompt) -> Script {
    match (inbox(prompt).contains("work"), step(prompt)) {
        (true, 0) => Script::new()
            .reasoning("let me look")
            .call("look", &json!({}))
            .call("put", &json!({}))
            .call("ask", &json!({}))
            .call("set_memories", &json!({"memories": [{"key": "seen", "value": "yes"}]}))
            .call(
                "set_goals",
                &json!({"goals": [
                    {"description": "work", "ref": "w"},
                    {"description": "look first", "parent_id": "w", "priority": 4},
                ]}),
            )
            .call("send_message", &send("lobby", "working")),
        (true, 1) => Script::new().text("now").call("fire", &json!({})).call("nonsense", &json!({})),
        (true, 2) => Script::new()
            .call("send_message", &send("lobby", "worked"))
            .call("done", &json!({"summary": "w"})),
        _ if inbox(prompt).contains("plainly") => Script::new().text("plain words"),
        (_, 0) => Script::new().call("send_message", &send("lobby", "heard")),
        _ => done(),
    }
}

/// The end of the history: messages, memories, effects, and how the cycles ended.
#[derive(Debug, PartialEq)]
struct End {
    messages: Vec<(String, String)>,
    memories: Vec<(String, String)>,
    /// The tree of goals, each with its depth.
    goals: Vec<(usize, String)>,
    puts: u64,
    fires: u64,
    endings: Vec<&'static str>,
    states: Vec<&'static str>,
}

async fn story(cut_at: i64, written: bool) -> (End, i64, Vec<Prompt>) {
    let left = Arc::new(AtomicI64::new(cut_at));
    let counter = Arc::clone(&left);
    let mut fixture = Fixture::with(Scripted::answering(author), move |inner| {
        cut_at_commit(inner, Arc::clone(&counter), written)
    });
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let mut ids = Vec::new();
    for text in ["please work", "thanks", "and plainly?"] {
        ids.push(fixture.world.say(husam, lobby, text).await.unwrap());
        fixture.world.pass(std::time::Duration::from_secs(2)).await.unwrap();
        restart_if_cut(&mut fixture, &left);
        fixture.world.quiet().await.unwrap();
    }
    let used = 1_000_000 - left.load(Ordering::SeqCst);
    let facts = fixture.world.reader().facts(ada).await.unwrap().unwrap();
    let mut states = Vec::new();
    for id in ids {
        states.push(fixture.world.state(ada, &id.to_string()).await.unwrap().as_str());
    }
    let goals = agent::goals::tree(&facts.goals);
    let goals = goals.into_iter().map(|branch| (branch.depth, branch.goal.description.clone())).collect();
    let end = End {
        goals,
        messages: fixture.world.posted_texts(lobby).await.unwrap(),
        memories: facts.memories.into_iter().map(|memory| (memory.key, memory.value)).collect(),
        puts: fixture.counters.effects("put"),
        fires: fixture.counters.calls("fire"),
        endings: fixture.world.runs(ada).await.unwrap().iter().map(|run| run.ending.as_str()).collect(),
        states,
    };
    (end, used, fixture.model.prompts())
}

#[tokio::test]
async fn every_prefix_of_the_commits_continues_to_the_same_end() {
    let (whole, commits, prompts) = story(1_000_000, false).await;
    // Three messages of husam; of ada two at work, one for the late result of `ask`, one for the thanks, and her text.
    assert_eq!(whole.messages.len(), 8, "{whole:?}");
    let posted = whole.messages.iter().filter(|(_, text)| text == "plain words");
    assert_eq!(posted.count(), 1, "the text without a call is posted once");
    assert_eq!((whole.puts, whole.fires), (1, 1));
    accepted_by_every_vendor(&prompts, "whole");
    assert!(commits >= 9, "{commits} commits");
    for cut in 0..commits {
        for written in [false, true] {
            let (end, _, prompts) = story(cut, written).await;
            let case = format!("cut at commit {cut}, written: {written}");
            assert!(end.fires <= 1, "{case}: an unsafe call was repeated");
            let end = End { fires: whole.fires, ..end };
            assert_eq!(end, whole, "{case}");
            accepted_by_every_vendor(&prompts, &case);
        }
    }
}

pub(crate) fn model(wire: Arc<dyn Wire>) -> VendorModel {
    let info = ModelInfo {
        name: "checked".into(),
        provider: "checked".into(),
        context_window: 100_000,
        max_output: 1_000,
        ..ModelInfo::default()
    };
    let address = Address { base_url: "http://127.0.0.1:9".into(), key: None, headers: BTreeMap::new() };
    VendorModel::new(info, wire, address, Arc::new(Clients::default()))
}

/// Each vendor's wire, with one of its models.
pub(crate) fn wires() -> [(Vendor, Arc<dyn Wire>); 4] {
    [
        (Vendor::Anthropic, Arc::new(Anthropic::new("claude-fable-5-2", 1_000))),
        (Vendor::OpenAi, Arc::new(OpenAiChat::new("gpt-4.1", 1_000, ToolMode::Native, Dialect::OPENAI))),
        (Vendor::Gemini, Arc::new(Gemini::new(GEMINI, 1_000))),
        (Vendor::Responses, Arc::new(OpenAiResponses::new("gpt-5", 1_000))),
    ]
}

const GEMINI: &str = "gemini-3-pro";

/// The vendor's verdict on a request.
pub(crate) fn check(vendor: Vendor, request: &Value) -> rules::RuleVerdict {
    match vendor {
        Vendor::Anthropic => rules::check_anthropic(request),
        Vendor::OpenAi => rules::check_openai(request),
        Vendor::Gemini => rules::check_gemini(GEMINI, request),
        Vendor::Responses => rules::check_responses(request),
    }
}

fn extends(vendor: Vendor, before: &Value, after: &Value) -> rules::RuleVerdict {
    match vendor {
        Vendor::Anthropic => rules::extends_anthropic(before, after),
        Vendor::OpenAi => rules::extends_openai(before, after),
        Vendor::Gemini => rules::extends_gemini(before, after),
        Vendor::Responses => rules::extends_responses(before, after),
    }
}

/// Every vendor accepts each request, and within a cycle no request rewrites a decided one.
pub(crate) fn accepted_by_every_vendor(prompts: &[Prompt], case: &str) {
    accepted_by_every_vendor_but(None, prompts, case);
}

/// The same, without one vendor.
pub(crate) fn accepted_by_every_vendor_but(one: Option<Vendor>, prompts: &[Prompt], case: &str) {
    for (vendor, wire) in wires().into_iter().filter(|(vendor, _)| Some(*vendor) != one) {
        let mut before: Option<(&Prompt, Value)> = None;
        for (prompt, request) in prompts.iter().zip(taken_by(vendor, wire, prompts, case)) {
            // A step that is requested again after a crash is rendered anew: nothing of it was decided.
            let decided = |before: &Prompt| before.cycle == prompt.cycle && step(before) < step(prompt);
            if let Some((_, sent)) = before.filter(|(before, _)| decided(before)) {
                extends(vendor, &sent, &request)
                    .unwrap_or_else(|why| panic!("{case}: {vendor:?}: prefix: {why}"));
            }
            before = Some((prompt, request));
        }
    }
}

/// The requests of these prompts, each of which the vendor must accept.
pub(crate) fn taken_by(vendor: Vendor, wire: Arc<dyn Wire>, prompts: &[Prompt], case: &str) -> Vec<Value> {
    let model = model(wire);
    let taken = |prompt: &Prompt| {
        let body = model.encode(prompt, &mut Memo::default()).body.concat();
        let request: Value = serde_json::from_slice(&body).unwrap();
        check(vendor, &request).unwrap_or_else(|why| panic!("{case}: {vendor:?}: {why}"));
        request
    };
    prompts.iter().map(taken).collect()
}
