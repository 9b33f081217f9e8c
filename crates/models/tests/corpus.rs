//! Recorded streams of real servers, complete and cut at every byte. `VIV_WIRE_CORPUS` names the folder;
//! the recordings are not part of this project.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent::message::Origin;
use agent::port::{ModelError, PartKind, Piece, Reply, ReplyPart, StopReason};
use models::wire::anthropic::AnthropicDecoder;
use models::wire::failure::{self, Hints};
use models::wire::gemini::GeminiDecoder;
use models::wire::openai_chat::{OpenAiDecoder, ToolMode, WIRE, WIRE_JSON};
use models::wire::openai_responses::ResponsesDecoder;
use models::wire::{Decoder, EventFeed};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cuts::cut_at_every_byte;
use crate::support::assert_streamed;

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let Ok(corpus) = std::env::var("VIV_WIRE_CORPUS") else {
        println!("skipped: VIV_WIRE_CORPUS is not set");
        return Vec::new();
    };
    let entries = std::fs::read_dir(Path::new(&corpus).join(folder)).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(ending));
    found.sort();
    assert!(!found.is_empty(), "no recordings in {folder}");
    found
}

fn origin(wire: &str) -> Origin {
    Origin { wire: wire.into(), model: "m".into() }
}

pub(crate) fn anthropic() -> Box<AnthropicDecoder> {
    Box::new(AnthropicDecoder::new(origin("anthropic")))
}

pub(crate) fn openai() -> Box<OpenAiDecoder> {
    Box::new(OpenAiDecoder::new(origin(WIRE), ToolMode::Native))
}

pub(crate) fn json_mode() -> Box<OpenAiDecoder> {
    Box::new(OpenAiDecoder::new(origin(WIRE_JSON), ToolMode::JsonSchema))
}

pub(crate) fn gemini() -> Box<GeminiDecoder> {
    Box::new(GeminiDecoder::new(origin("gemini")))
}

pub(crate) fn responses() -> Box<ResponsesDecoder> {
    Box::new(ResponsesDecoder::new(origin("openai-responses")))
}

/// Decodes in chunks of `size`.
pub(crate) fn decode<D: Decoder>(
    decoder: Box<D>,
    bytes: &[u8],
    size: usize,
) -> Result<(Vec<Piece>, Reply), ModelError> {
    let mut feed = EventFeed::new(decoder);
    let mut pieces = Vec::new();
    for chunk in bytes.chunks(size) {
        pieces.extend(feed.bytes(chunk)?);
    }
    pieces.extend(feed.end(None)?);
    match pieces.pop() {
        Some(Piece::Done(reply)) => Ok((pieces, reply)),
        other => panic!("no end but {other:?}"),
    }
}

/// The events as their vendors send them: an event with a type has it as its name.
pub(crate) fn sse(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{}data: {line}\n\n", event_name(line))).collect()
}

fn event_name(line: &str) -> String {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(line).unwrap();
    fields.get("type").map_or_else(String::new, |name| format!("event: {}\n", name.get().trim_matches('"')))
}

/// The content of a stream, read without the decoder under test.
#[derive(Debug, Default, PartialEq, Eq)]
struct Decoded {
    text: String,
    reasoning: String,
    calls: Vec<(String, String, String)>,
}

fn expected_openai(lines: &[Value]) -> Decoded {
    let mut expected = Decoded::default();
    let mut calls: BTreeMap<u64, (String, String, String)> = BTreeMap::new();
    for delta in lines.iter().map(|line| &line["choices"][0]["delta"]) {
        expected.text += delta["content"].as_str().unwrap_or("");
        expected.reasoning += delta["reasoning_content"].as_str().unwrap_or("");
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let slot = calls.entry(call["index"].as_u64().unwrap_or(0)).or_default();
            slot.0 += call["id"].as_str().unwrap_or("");
            slot.1 += call["function"]["name"].as_str().unwrap_or("");
            slot.2 += call["function"]["arguments"].as_str().unwrap_or("");
        }
    }
    expected.calls = calls.into_values().collect();
    expected
}

fn expected_anthropic(lines: &[Value]) -> Decoded {
    let mut expected = Decoded::default();
    let mut at: BTreeMap<u64, usize> = BTreeMap::new();
    for line in lines {
        let index = line["index"].as_u64().unwrap_or(0);
        let block = &line["content_block"];
        if block["type"] == "tool_use" {
            at.insert(index, expected.calls.len());
            let text = |key: &str| block[key].as_str().unwrap().to_owned();
            expected.calls.push((text("id"), text("name"), String::new()));
        }
        let delta = &line["delta"];
        expected.text += delta["text"].as_str().unwrap_or("");
        expected.reasoning += delta["thinking"].as_str().unwrap_or("");
        if let Some(call) = at.get(&index) {
            expected.calls[*call].2 += delta["partial_json"].as_str().unwrap_or("");
        }
    }
    expected
}

fn expected_gemini(lines: &[Value]) -> Decoded {
    let mut expected = Decoded::default();
    let mut pieces: Vec<BTreeMap<String, String>> = Vec::new();
    for part in lines.iter().flat_map(|line| line["candidates"][0]["content"]["parts"].as_array()).flatten() {
        let text = part["text"].as_str().unwrap_or("");
        if part["thought"] == true { &mut expected.reasoning } else { &mut expected.text }.push_str(text);
        let call = &part["functionCall"];
        if let Some(name) = call["name"].as_str() {
            let args = if call["args"].is_null() { String::new() } else { call["args"].to_string() };
            expected.calls.push((String::new(), name.to_owned(), args));
            pieces.push(BTreeMap::new());
        }
        for piece in call["partialArgs"].as_array().into_iter().flatten() {
            let key = piece["jsonPath"].as_str().unwrap().trim_start_matches("$.").to_owned();
            let text = piece["stringValue"].as_str().unwrap();
            pieces.last_mut().unwrap().entry(key).or_default().push_str(text);
        }
    }
    for (call, pieces) in expected.calls.iter_mut().zip(pieces).filter(|(_, pieces)| !pieces.is_empty()) {
        call.2 = serde_json::to_string(&pieces).unwrap();
    }
    expected
}

fn expected_responses(lines: &[Value]) -> Decoded {
    let mut expected = Decoded::default();
    for line in lines.iter().filter(|line| line["type"] == "response.output_item.done") {
        let item = &line["item"];
        let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
        for part in item["content"].as_array().into_iter().flatten() {
            expected.text += part["text"].as_str().unwrap_or("");
        }
        for part in item["summary"].as_array().into_iter().flatten() {
            expected.reasoning += part["text"].as_str().unwrap_or("");
        }
        let arguments: Value = serde_json::from_str(&text("arguments")).unwrap_or_default();
        if let Some(uses) = arguments["tool_uses"].as_array() {
            for (index, call) in uses.iter().enumerate() {
                let name = call["recipient_name"].as_str().unwrap().replace("functions.", "");
                let id = format!("{}_{index}", text("call_id"));
                expected.calls.push((id, name, call["parameters"].to_string()));
            }
        } else if item["type"] == "function_call" {
            expected.calls.push((text("call_id"), text("name"), text("arguments")));
        }
    }
    expected
}

fn decoded(reply: &Reply) -> Decoded {
    let mut decoded = Decoded::default();
    let ids = reply.native.as_ref().map(|native| native.call_ids.clone()).unwrap_or_default();
    for part in &reply.parts {
        match part {
            ReplyPart::Text(text) => decoded.text += text,
            ReplyPart::Reasoning(text) => decoded.reasoning += text,
            ReplyPart::Call { name, arguments } => {
                decoded.calls.push((ids[decoded.calls.len()].clone(), name.clone(), arguments.clone()));
            }
        }
    }
    decoded
}

/// Decodes a stream in chunks of several sizes, then cut at every byte.
fn replay<D: Decoder + Clone>(
    path: &Path,
    decoder: fn() -> Box<D>,
    expected: fn(&[Value]) -> Decoded,
    is_finish: fn(&Value) -> bool,
) -> Reply {
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    replay_lines(path, &lines, decoder, expected, is_finish)
}

fn replay_lines<D: Decoder + Clone>(
    path: &Path,
    lines: &[&str],
    decoder: fn() -> Box<D>,
    expected: fn(&[Value]) -> Decoded,
    is_finish: fn(&Value) -> bool,
) -> Reply {
    let values: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let finish = values.iter().rposition(is_finish).expect("a recording ends");
    let whole = sse(lines);
    let mut replies = Vec::new();
    for size in [1, 7, 1_000, usize::MAX] {
        let (pieces, reply) = decode(decoder(), whole.as_bytes(), size).unwrap();
        assert_streamed(&pieces, &reply);
        replies.push(reply);
    }
    assert!(replies.windows(2).all(|pair| pair[0] == pair[1]), "{path:?} depends on its chunks");
    let reply = replies.remove(0);
    assert_eq!(decoded(&reply), expected(&values), "{path:?}");
    let ended = sse(&lines[..=finish]).trim_end().len();
    cut_at_every_byte(&name(path), decoder(), whole.as_bytes(), ended, &reply);
    reply
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn counts(reply: &Reply) -> [Option<u64>; 4] {
    [reply.usage.input, reply.usage.cached, reply.usage.output, reply.usage.reasoning]
}

#[test]
fn recorded_anthropic_streams_cut_at_every_byte() {
    for path in files("anthropic", ".jsonl") {
        let reply =
            replay(&path, anthropic, expected_anthropic, |line| !line["delta"]["stop_reason"].is_null());
        println!("{}: {:?} {:?}", name(&path), counts(&reply), reply.stop);
        let expected: [u64; 2] = match name(&path).as_str() {
            "clear-thinking.1.jsonl" => [69, 53],
            "compaction.1.jsonl" => [612, 2819],
            "json-other-tool.1.jsonl" => [843, 28],
            "json-tool.1.jsonl" => [849, 47],
            "message-delta-input-tokens.jsonl" => [61, 2],
            "refusal.jsonl" => [18, 5],
            "text.jsonl" => [12, 30],
            "tool-no-args.jsonl" => [565, 48],
            "web-search-tool.1.jsonl" => [15_665, 795],
            // A newer recording, for which only the general checks above apply.
            _ => continue,
        };
        assert_eq!([reply.usage.input, reply.usage.output], expected.map(Some), "{path:?}");
        assert_eq!(matches!(reply.stop, StopReason::Refused(_)), name(&path) == "refusal.jsonl");
        assert_blocks_kept(&path, &reply);
    }
}

/// Asserts that every block of the recording is in the native block with all its fields.
fn assert_blocks_kept(path: &Path, reply: &Reply) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut blocks: BTreeMap<u64, Value> = BTreeMap::new();
    for line in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_default()) {
        let index = line["index"].as_u64().unwrap_or(0);
        if line["type"] == "content_block_start" {
            blocks.insert(index, line["content_block"].clone());
        }
        let Some(block) = blocks.get_mut(&index).filter(|_| line["type"] == "content_block_delta") else {
            continue;
        };
        let delta = &line["delta"];
        for key in ["text", "thinking", "signature", "content"] {
            if let Some(more) = delta[key].as_str() {
                block[key] = Value::from(block[key].as_str().unwrap_or("").to_owned() + more);
            }
        }
        if let Some(more) = delta["partial_json"].as_str() {
            let so_far = block["raw"].as_str().unwrap_or("").to_owned();
            block["raw"] = Value::from(so_far + more);
        }
        if !delta["citation"].is_null() {
            block["citations"].as_array_mut().unwrap().push(delta["citation"].clone());
        }
    }
    for block in blocks.values_mut() {
        if let Some(raw) = block.as_object_mut().unwrap().remove("raw").filter(|raw| raw != "") {
            block["input"] = serde_json::from_str(raw.as_str().unwrap()).unwrap();
        }
    }
    let native = reply.native.as_ref().map_or("[]", |native| native.body.as_str());
    let kept: Vec<Value> = serde_json::from_str(native).unwrap();
    assert_eq!(kept, blocks.into_values().collect::<Vec<_>>(), "{path:?}");
}

#[test]
fn recorded_chat_streams_cut_at_every_byte() {
    for path in files("openai-chat", ".jsonl") {
        let reply =
            replay(&path, openai, expected_openai, |line| line["choices"][0]["finish_reason"].is_string());
        println!("{}: {:?} {:?}", name(&path), counts(&reply), reply.stop);
        let (usage, calls) = match name(&path).as_str() {
            "deepseek-reasoning.jsonl" => ([Some(18), Some(0), Some(219), Some(205)], 0),
            "deepseek-tool-call.jsonl" => ([Some(339), Some(320), Some(83), Some(39)], 1),
            "groq-tool-call.jsonl" => ([Some(210), None, Some(15), None], 1),
            "mistral-tool-call.jsonl" => ([Some(124), None, Some(22), None], 1),
            "openai-text.jsonl" => ([Some(16), Some(0), Some(300), Some(0)], 0),
            // xAI counts its 227 tokens of reasoning separately from the 26 of the completion.
            "xai-tool-call.jsonl" => ([Some(307), Some(306), Some(253), Some(227)], 1),
            _ => continue,
        };
        assert_eq!(counts(&reply), usage, "{path:?}");
        assert_eq!(decoded(&reply).calls.len(), calls, "{path:?}");
    }
}

#[test]
fn recorded_gemini_streams_cut_at_every_byte() {
    for path in files("google", ".jsonl") {
        let is_finish = |line: &Value| line["candidates"][0]["finishReason"].is_string();
        let reply = replay(&path, gemini, expected_gemini, is_finish);
        println!("{}: {:?} {:?}", name(&path), counts(&reply), reply.stop);
        let text = std::fs::read_to_string(&path).unwrap();
        let body = &reply.native.as_ref().unwrap().body;
        for signature in text.split("\"thoughtSignature\":\"").skip(1) {
            let signature = &signature[..signature.find('"').unwrap()];
            assert!(body.contains(signature), "{path:?} lost a signature");
        }
        let (usage, calls) = match name(&path).as_str() {
            "reasoning-gemini3.jsonl" => ([Some(9), None, Some(325), Some(302)], 0),
            "stream-no-args-tool-call.jsonl" => ([Some(249), None, Some(241), Some(183)], 4),
            "stream-tool-call-arguments.jsonl" => ([Some(26), None, Some(155), Some(132)], 2),
            "text.jsonl" => ([Some(9), None, Some(208), Some(185)], 0),
            "tool-call-gemini3.jsonl" => ([Some(29), None, Some(819), Some(804)], 1),
            "tool-call.jsonl" => ([Some(29), None, Some(60), Some(45)], 1),
            _ => continue,
        };
        assert_eq!(counts(&reply), usage, "{path:?}");
        assert_eq!(decoded(&reply).calls.len(), calls, "{path:?}");
    }
}

#[test]
fn recorded_responses_streams_cut_at_every_byte() {
    for path in files("openai-responses", ".jsonl") {
        let text = std::fs::read_to_string(&path).unwrap();
        // One recording lacks the last brace of two of its lines.
        let mended = |line: &str| match serde_json::from_str::<Value>(line) {
            Ok(_) => line.to_owned(),
            Err(_) => format!("{line}}}"),
        };
        let lines: Vec<String> = text.lines().filter(|line| !line.trim().is_empty()).map(mended).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        if name(&path) == "openai-error.1.jsonl" {
            let error = decode(responses(), sse(&lines).as_bytes(), 99).unwrap_err();
            assert!(matches!(&error, ModelError::Auth(text) if text.contains("exceeded your current quota")));
            let whole = sse(&lines);
            for at in 0..whole.len() {
                let error = decode(responses(), &whole.as_bytes()[..at], 512).unwrap_err();
                assert!(matches!(error, ModelError::Auth(_) | ModelError::Cut(_)), "cut at {at}: {error:?}");
            }
            continue;
        }
        // Some recordings hold several responses one after the other.
        for response in lines.split_inclusive(|line| line.contains("\"type\":\"response.completed\"")) {
            let is_finish = |line: &Value| line["type"] == "response.completed";
            let reply = replay_lines(&path, response, responses, expected_responses, is_finish);
            println!("{}: {:?} {:?}", name(&path), counts(&reply), reply.stop);
            assert_items_kept(&path, response, &reply);
        }
    }
}

/// Asserts that every item of the recording is in the native block with all its fields, except a wrapper,
/// whose calls are there instead.
fn assert_items_kept(path: &Path, lines: &[&str], reply: &Reply) {
    let values = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let done = values.filter(|line| line["type"] == "response.output_item.done");
    let items: Vec<Value> = done.map(|line| line["item"].clone()).collect();
    let kept: Vec<Value> = serde_json::from_str(&reply.native.as_ref().unwrap().body).unwrap();
    let usage = reply.usage;
    match name(path).as_str() {
        "parallel-tool-call-wrapper.1.jsonl" => {
            assert_eq!((kept.len(), usage.input, usage.output), (2, Some(34), Some(28)));
        }
        "openai-phase.1.jsonl" => {
            let counts = [usage.input, usage.cached, usage.output, usage.reasoning];
            assert_eq!(counts, [7112, 3072, 463, 64].map(Some));
            assert_eq!(kept[0]["phase"], "commentary");
            assert_eq!(kept, items);
        }
        _ => assert_eq!(kept, items, "{path:?}"),
    }
}

#[test]
fn recorded_llamacpp_streams_cut_at_every_byte() {
    for path in files("llama.cpp", ".sse") {
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        let is_json = name(&path) == "json-schema.sse";
        let decoder = if is_json { json_mode } else { openai };
        let (pieces, whole) = decode(decoder(), &bytes, usize::MAX).unwrap();
        assert_streamed(&pieces, &whole);
        println!("{}: {:?} {:?} {:?}", name(&path), counts(&whole), whole.stop, whole.parts);
        let payloads = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let values: Vec<Value> = payloads.filter_map(|data| serde_json::from_str(data).ok()).collect();
        let content = expected_openai(&values).text;
        match &whole.parts[..] {
            [ReplyPart::Text(said)] => assert_eq!(*said, content),
            [ReplyPart::Call { name, arguments }] if is_json => {
                assert!(content.contains(arguments.as_str()), "the arguments keep the model's bytes");
                let reply: Value = serde_json::from_str(&content).unwrap();
                assert_eq!(reply["name"], name.as_str());
                assert_eq!(reply["arguments"], serde_json::from_str::<Value>(arguments).unwrap());
            }
            other => panic!("{path:?}: {other:?}"),
        }
        let said = text.contains("\"finish_reason\":\"length\"");
        assert_eq!(whole.stop == StopReason::Length, said, "{path:?}");
        let finish = text.find("\"finish_reason\":\"").unwrap();
        let line_end = finish + text[finish..].find(['\r', '\n']).unwrap();
        cut_at_every_byte(&name(&path), decoder(), &bytes, line_end, &whole);
    }
}

#[test]
fn the_recorded_error_has_its_class() {
    for path in files("llama.cpp", ".http") {
        let text = std::fs::read_to_string(path).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").or_else(|| text.split_once("\n\n")).unwrap();
        let status: u16 = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        let error = failure::classify(status, &Hints::default(), body);
        assert_eq!(error, ModelError::Invalid("HTTP 400: Expected 'messages' to be an array".into()));
    }
}

#[test]
fn a_part_starts_with_its_kind() {
    for path in files("openai-chat", "xai-tool-call.jsonl") {
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let (pieces, _) = decode(openai(), sse(&lines).as_bytes(), usize::MAX).unwrap();
        let kinds: Vec<_> = pieces
            .iter()
            .filter_map(|p| if let Piece::Start { kind, .. } = p { Some(kind) } else { None })
            .collect();
        assert_eq!(kinds, [&PartKind::Reasoning, &PartKind::ToolCall { name: "weather".into() }]);
    }
}
