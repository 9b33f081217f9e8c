//! What the first message to a new agent costs: the shipped binary with its defaults, with every API, by
//! layer. Any change of a text that models read shows its cost here.

use std::fmt::Write as _;

use agent::tokens::estimate;
use serde_json::Value;
use testkit::stubs::{Answer, Stub, Vendor};

use crate::world::{Server, run};

/// Maximum number of tokens of a request with native tools, and of one with a schema of the reply. The schemas of `recall`
/// and `read_cycle` take 110 and 260 of them: without these two an agent has nothing but its window. Those of the three tools
/// for plans take 330 and 456: without them an agent acts only when somebody speaks to it.
const NATIVE_MAX: u32 = 1_950;
const SCHEMA_MAX: u32 = 2_750;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_message_costs_the_recorded_tokens_and_one_request_with_native_tools() {
    let mut table = String::new();
    for (name, vendor, key, mode, max) in [
        ("anthropic/claude-sonnet-5", Vendor::Anthropic, "ANTHROPIC_API_KEY", "native", NATIVE_MAX),
        ("google/gemini-3-flash", Vendor::Gemini, "GEMINI_API_KEY", "native", NATIVE_MAX),
        ("openai-responses/gpt-5", Vendor::Responses, "OPENAI_API_KEY", "native", NATIVE_MAX),
        ("openai-compatible/x", Vendor::OpenAi, "OPENAI_COMPATIBLE_API_KEY", "native", NATIVE_MAX),
        ("llamacpp/small", Vendor::OpenAi, "LLAMACPP_API_KEY", "json_schema", SCHEMA_MAX),
    ] {
        let stub = Stub::start(vendor).await;
        if mode == "native" {
            let text = r#"{"text":"Hello!"}"#;
            stub.push(Answer::new().call("a1", "send_message", text, 99).call("a2", "done", "{}", 9));
        } else {
            // One tool per answer.
            stub.push(Answer::new().text(r#"{"name": "send_message", "arguments": {"text": "Hello!"}}"#));
            stub.push(Answer::new().text(r#"{"name": "done", "arguments": {}}"#));
        }
        let model = ["--model", name, "--base-url", &stub.url(), "--tool-mode", mode];
        let server =
            Server::start_with(tempfile::tempdir().unwrap(), &model, &[(key, "sk-canary-0123456789")]);
        let ran = run(server.dir.path(), &["say", "--wait", "hi"]);
        // Some servers are asked for their context window first.
        let asked = stub.requests().into_iter().filter(|request| !request.body.is_null());
        let requests: Vec<_> = asked.collect();
        assert_eq!(requests.len(), if mode == "native" { 1 } else { 2 }, "{name}: {}", ran.shown());
        assert!(ran.out.contains("Hello!"), "{name}: {}", ran.shown());
        let layers = layers(&requests[0].body);
        let all: u32 = layers.iter().map(|(_, tokens)| tokens).sum();
        assert!(all <= max, "{name}: {all} tokens, {layers:?}");
        let shown: Vec<_> = layers.iter().map(|(layer, tokens)| format!("{layer} {tokens}")).collect();
        let _ = writeln!(table, "{name} ({mode}): {all} = {}", shown.join(" + "));
    }
    insta::assert_snapshot!("price_of_a_first_message", table);
}

/// The layers of a request, in tokens by our estimate.
fn layers(body: &Value) -> Vec<(&'static str, u32)> {
    let of = |names: &[&str]| names.iter().find_map(|name| body.get(name)).unwrap_or(&Value::Null);
    let turns = of(&["messages", "contents", "input"]).as_array().unwrap();
    let is_system = |turn: &&Value| turn["role"] == "system" || turn["role"] == "developer";
    let first = turns.iter().find(is_system).unwrap_or(&Value::Null);
    let system = texts(of(&["system", "systemInstruction", "instructions"])) + &texts(first);
    let turn_texts: Vec<String> = turns.iter().filter(|turn| !is_system(turn)).map(texts).collect();
    let json = |value: &Value| if value.is_null() { 0 } else { estimate(&value.to_string()) };
    let mut layers = vec![
        ("system", estimate(&system)),
        ("tools", json(of(&["tools"]))),
        ("inbox and workspace", estimate(&stable(&turn_texts.join("\n")))),
    ];
    let schema = of(&["response_format"]);
    if !schema.is_null() {
        layers.push(("schema of the reply", json(schema)));
    }
    layers
}

/// All texts of a layer, wherever the API puts them.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(texts).collect(),
        Value::Object(fields) => {
            ["content", "parts", "text"].iter().filter_map(|name| fields.get(*name)).map(texts).collect()
        }
        _ => String::new(),
    }
}

/// Replaces all times by one, so that the count is the same in each run.
fn stable(text: &str) -> String {
    let shown = |word: &str| match word.split_once("T").is_some_and(|(day, _)| day.len() == 10) {
        true => "2026-01-01T00:00:00Z".to_owned(),
        false => word.to_owned(),
    };
    let text: Vec<String> = text.split(' ').map(shown).collect();
    let text = text.join(" ");
    match text.split_once(" s ago: ") {
        Some((before, after)) => {
            let before = before.rsplit_once(' ').map_or(before, |(before, _)| before);
            format!("{before} just now: {after}")
        }
        None => text,
    }
}
