//! Tests of the demo model's answers to real prompts.

use super::*;
use std::sync::{Arc, OnceLock};

use agent::call::Effect;
use agent::entry::Entry;
use agent::id::CycleId;
use agent::message::{ModelMessage, Part};
use agent::port::ToolSpec;
use agent::prompt::ToolChoice;
use jiff::Timestamp;
use uuid::Uuid;

const SPACE: &str = "home";

fn cycle(n: u128) -> CycleId {
    CycleId(Uuid::from_u128(n))
}

fn item(seq: u64, cycle_n: u128, kind: EntryKind, message: ModelMessage) -> Item {
    let (cycle, at) = (cycle(cycle_n), Timestamp::UNIX_EPOCH);
    Item::Entry(Arc::new(Entry {
        seq,
        cycle,
        step: 0,
        kind,
        message,
        tokens: 1,
        at,
        trust: agent::event::Trust::Member,
    }))
}

fn inbox(seq: u64, cycle_n: u128, lines: &[&str]) -> Item {
    let mut text = format!("[INBOX — {} new events, now 2026-11-21T14:03:05Z]\n\n", lines.len());
    for (index, line) in lines.iter().enumerate() {
        text.push_str(&format!("{}. {line}\n", index + 1));
    }
    item(seq, cycle_n, EntryKind::Inbox, ModelMessage::user(text))
}

fn step(seq: u64, cycle_n: u128) -> Item {
    let parts = vec![Part::Text { text: "…".into() }];
    item(seq, cycle_n, EntryKind::Assistant, ModelMessage { role: Role::Assistant, parts, native: None })
}

fn prompt(items: Vec<Item>) -> Prompt {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        schema: Arc::new(json!({"type": "object"})),
        effect: Effect::Inward,
        visible: false,
        timeout: Duration::from_secs(1),
        asynchronous: false,
        version: "1".into(),
        labels: agent::tool::ToolLabels::default(),
        worker: None,
        foreign: false,
        counted: OnceLock::new(),
    };
    Prompt {
        system: Arc::from("system"),
        tools: ["send_message", "set_memories", "skip", "done"].map(tool).to_vec().into(),
        items,
        choice: ToolChoice::Auto,
        cycle: cycle(1),
        reasoning_from: 0,
        tokens: 0,
        view: 0,
    }
}

fn message_from(who: &str, text: &str) -> String {
    format!("[space {SPACE}] {who} (@someone, human), 2.1 s ago: {}", json!(text))
}

#[test]
fn a_person_is_answered_in_their_space_by_a_message_that_says_it_is_a_demo() {
    let calls =
        tool_calls(&prompt(vec![inbox(1, 1, &[&message_from("Husam", "Tell \"Muhammad\"\nat 3pm")])]));
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].tool, "send_message");
    assert!(calls[0].arguments.to_string().starts_with(&format!("{{\"space\":\"{SPACE}\",\"text\":\"")));
    let text = calls[0].arguments["text"].as_str().unwrap();
    assert!(text.contains("Husam") && text.contains("“Tell \"Muhammad\"\nat 3pm”"), "{text}");
    assert!(text.contains("demo") && text.contains("no language model"), "{text}");
}

#[test]
fn each_space_gets_one_answer_to_all_its_messages() {
    let other = message_from("\"Ann (human), x\"", "b").replace(SPACE, "other");
    let calls = tool_calls(&prompt(vec![inbox(
        1,
        1,
        &[&message_from("Husam", "a"), &other, &message_from("Husam", "c")],
    )]));
    assert_eq!(calls.len(), 2);
    let text = calls[0].arguments["text"].as_str().unwrap();
    assert!(text.contains("“a”, then “c”") && text.starts_with("Hello Husam!"), "{text}");
    assert_eq!(calls[1].arguments["space"], "other");
}

#[test]
fn it_stores_memories_on_request_and_recalls_them_from_the_workspace() {
    let calls = tool_calls(&prompt(vec![inbox(
        1,
        1,
        &[&message_from("Husam", "My name is Husam Ali. Remember that tea is at 5!")],
    )]));
    assert_eq!(calls[0].tool, "set_memories");
    assert_eq!(calls[0].arguments["memories"], json!([{"key": "name of Husam", "value": "Husam Ali"}]));
    let calls =
        tool_calls(&prompt(vec![inbox(1, 1, &[&message_from("Husam", "Remember that tea is at 5!")])]));
    assert_eq!(calls[0].arguments["memories"][0]["value"], "tea is at 5");

    let workspace = "[WORKSPACE — current facts]\n\nNow: x\n\nYour memories:\n- \"tea\": \"at 5\"\n\nYour plans:\n- \"a\": \"b\"\n";
    let items = vec![
        inbox(9, 1, &[&message_from("Husam", "What do you remember?")]),
        Item::Layer(Arc::from(workspace)),
    ];
    let asked = tool_calls(&prompt(items));
    let text = asked[0].arguments["text"].as_str().unwrap();
    assert!(text.contains("I remember: tea: at 5."), "{text}");
    assert_eq!(asked.len(), 1, "a question is not stored");
    // What has changed since is shown by lines.
    let update = "[WORKSPACE — what has changed: these lines replace those with the same name or id]\n\nYour memories:\n- no longer: \"tea\"\n- \"rule\" (pinned): \"be kind\"\n";
    let items = vec![
        Item::Layer(Arc::from(workspace)),
        inbox(9, 1, &[&message_from("Husam", "What do you remember?")]),
        Item::Layer(Arc::from(update)),
    ];
    let text = tool_calls(&prompt(items))[0].arguments["text"].as_str().unwrap().to_owned();
    assert!(text.contains("rule: be kind") && !text.contains("tea"), "{text}");
}

#[test]
fn a_memory_whose_key_repeats_its_value_is_shown_once() {
    let calls =
        tool_calls(&prompt(vec![inbox(1, 1, &[&message_from("Husam", "Remember that I like green.")])]));
    let text = calls[1].arguments["text"].as_str().unwrap();
    assert!(text.contains("I will remember “I like green”. "), "{text}");
    let calls = tool_calls(&prompt(vec![inbox(1, 1, &[&message_from("Husam", "My name is Ali.")])]));
    let text = calls[1].arguments["text"].as_str().unwrap();
    assert!(text.contains("I will remember “Ali” (name of Husam). "), "{text}");

    let workspace = "\nYour memories:\n- \"I like green\": \"I like green\"\n- \"tea\": \"at 5\"\n\n";
    let asks = inbox(9, 1, &[&message_from("Husam", "What do you remember?")]);
    let asked = tool_calls(&prompt(vec![asks, Item::Layer(Arc::from(workspace))]));
    let text = asked[0].arguments["text"].as_str().unwrap();
    assert!(text.contains("I remember: I like green; tea: at 5."), "{text}");
}

#[test]
fn a_message_of_an_agent_is_answered_only_if_it_mentions_the_demo_model() {
    let chatter = format!("[space {SPACE}] Bot (@bot, agent), just now: \"hello all\"");
    assert_eq!(tool_calls(&prompt(vec![inbox(1, 1, &[&chatter])]))[0].tool, "skip");
    let naming = chatter.replace("just now", "just now, mentions you");
    assert_eq!(tool_calls(&prompt(vec![inbox(1, 1, &[&naming])]))[0].tool, "send_message");
    let service = "[service \"jira\"] 4.0 s ago: {\"issue\":\"OPS-7\"}";
    assert_eq!(tool_calls(&prompt(vec![inbox(1, 1, &[service, &chatter])]))[0].tool, "done");
}

#[test]
fn it_calls_done_after_its_answer() {
    let items = vec![inbox(1, 1, &[&message_from("Husam", "hi")]), step(2, 1)];
    let after = tool_calls(&prompt(items));
    assert_eq!((after.len(), after[0].tool.as_str()), (1, "done"));
    // A step of an earlier cycle does not count.
    let items = vec![
        inbox(1, 9, &[&message_from("Husam", "old")]),
        step(2, 9),
        inbox(3, 1, &[&message_from("Husam", "new")]),
    ];
    let again = tool_calls(&prompt(items));
    let text = again[0].arguments["text"].as_str().unwrap();
    assert!(text.contains("“new”") && !text.contains("old") && text.contains("demo"), "{text}");
}

#[test]
fn a_tool_that_the_agent_does_not_have_is_not_called() {
    let mut prompt = prompt(vec![inbox(1, 1, &[&message_from("Husam", "Remember that a is b")])]);
    prompt.tools = prompt.tools.iter().filter(|tool| tool.name != "set_memories").cloned().collect();
    assert_eq!(tool_calls(&prompt).len(), 1);
}

#[test]
fn an_answer_is_streamed_word_by_word() {
    let calls = tool_calls(&prompt(vec![inbox(1, 1, &[&message_from("Husam", "hi")])]));
    let pieces = calls[0].pieces();
    assert!(pieces.len() > 20);
    assert_eq!(pieces.concat(), calls[0].arguments.to_string());
}

#[tokio::test]
async fn it_streams_without_pauses_if_the_pause_is_zero() {
    struct Still;
    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }
        fn monotonic_ms(&self) -> u64 {
            0
        }
        fn sleep(&self, _: Duration) -> agent::port::BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }
    use futures_util::StreamExt as _;
    let model = DemoModel::with_pause(Arc::new(Still), Duration::ZERO);
    assert!(model.info().demo);
    let prompt = prompt(vec![inbox(1, 1, &[&message_from("Husam", "hi")])]);
    let (mut memo, timeouts) = (agent::port::Memo::default(), agent::config::ModelTimeouts::default());
    let request = ModelRequest { prompt: &prompt, memo: &mut memo, timeouts: &timeouts };
    let pieces: Vec<_> = model.stream(request).map(Result::unwrap).collect().await;
    let deltas = pieces.iter().filter(|piece| matches!(piece, Piece::Delta { .. })).count();
    assert!(deltas > 20, "{deltas}");
    assert!(matches!(pieces.last(), Some(Piece::Done(reply)) if reply.parts.len() == 1));
}

/// A workspace sender agent is a member of two spaces.
fn workspace(marks: &str) -> Item {
    Item::Layer(
        format!(
            "[WORKSPACE — current facts]\n\nNow: x\n\nYour spaces:\n- old (\"Old \\\"), active\"), closed\n  \
             members: x\n- home\n  members: x\n- desk (\"The desk\")\n{marks}"
        )
        .into(),
    )
}

#[test]
fn events_of_services_get_one_message_in_the_active_space() {
    let event = "[service \"ops\"] 4 s ago: {\"text\":\"deploy: done\"}";
    let spoken = |marks: &str, lines: &[&str]| {
        let calls = tool_calls(&prompt(vec![inbox(1, 1, lines), workspace(marks)]));
        assert_eq!((calls.len(), calls[0].tool.as_str()), (1, "send_message"), "{calls:?}");
        let of = |key: &str| calls[0].arguments[key].as_str().unwrap().to_owned();
        (of("space"), of("text"))
    };
    let (space, text) = spoken("", &[event]);
    assert_eq!(space, "home");
    assert!(text.contains("`ops` sent {\"text\":\"deploy: done\"}") && text.contains("demo"), "{text}");
    let (space, text) = spoken("(active: desk)\n", &[event; 5]);
    assert_eq!((space.as_str(), text.matches("`ops`").count()), ("desk", 3));
    assert!(text.contains("; and 2 more."), "{text}");
    let bare = event.replace("{\"text\":\"deploy: done\"}", "null");
    assert!(spoken("", &[&bare]).1.starts_with("An event woke me: `ops`. (The demo model"));
    let nowhere = tool_calls(&prompt(vec![inbox(1, 1, &[event])]));
    assert_eq!((nowhere.len(), nowhere[0].tool.as_str()), (1, "done"));
    let after = tool_calls(&prompt(vec![inbox(1, 1, &[event]), step(2, 1), workspace("")]));
    assert_eq!((after.len(), after[0].tool.as_str()), (1, "done"), "it is reported once");
}

#[test]
fn it_calls_a_tool_that_reaches_outside_when_somebody_says_so_and_tells_its_outcome() {
    let said = message_from("Husam", "call weather {\"city\": \"Rome\"}");
    let asking = || vec![inbox(1, 1, &[&said])];
    let with_tool = |items: Vec<Item>| {
        let mut prompt = prompt(items);
        let weather =
            ToolSpec { name: "weather".into(), effect: Effect::ReadOnly, ..prompt.tools[0].clone() };
        prompt.tools = prompt.tools.iter().cloned().chain([weather]).collect();
        tool_calls(&prompt)
    };
    let calls = with_tool(asking());
    assert_eq!((calls.len(), calls[0].tool.as_str()), (1, "weather"));
    assert_eq!(calls[0].arguments, json!({"city": "Rome"}));
    // Nobody takes what is not called for something that was done.
    let told = |text: &str| {
        let calls = with_tool(vec![inbox(1, 1, &[&message_from("Husam", text)])]);
        assert_eq!((calls.len(), calls[0].tool.as_str()), (1, "send_message"), "{text}");
        calls[0].arguments["text"].as_str().unwrap().to_owned()
    };
    for (text, why) in [
        ("call clok__now", "I called nothing: I have no tool `clok__now`."),
        ("Call clok {\"a\": 1}", "I called nothing: I have no tool `clok`."),
        ("call weather {\"city\"", "I called nothing: the arguments of `weather` are no JSON object."),
        ("call done", "I called nothing: `done` reaches nothing outside"),
    ] {
        assert!(told(text).contains(why), "{text}: {}", told(text));
    }
    for text in ["call me tomorrow", "what do you call weather?", "call"] {
        assert!(!told(text).contains("called nothing"), "{text}");
    }
    let result = Part::ToolResult {
        id: agent::id::CallId("c".into()),
        name: "weather".into(),
        text: "{\"degrees\":17}".into(),
        error: false,
    };
    let outcomes = ModelMessage { role: Role::Tool, parts: vec![result], native: None };
    let workspace = Item::Layer(Arc::from("Your spaces:\n- home\n"));
    let so_far = [asking(), vec![step(2, 1), item(3, 1, EntryKind::Outcomes, outcomes), workspace]].concat();
    let calls = with_tool(so_far.clone());
    assert_eq!((calls.len(), calls[0].tool.as_str()), (1, "send_message"));
    assert_eq!(calls[0].arguments["text"], "`weather` says: {\"degrees\":17}");
    assert_eq!(calls[0].arguments["space"], "home");
    assert_eq!(with_tool([so_far, vec![step(4, 1)]].concat())[0].tool, "done");
}
