//! Text in pieces: wherever a vendor splits it, even in the middle of a character, it arrives complete or
//! the stream is garbage. No part is left out.

use agent::port::{ModelError, Piece, Reply, ReplyPart};
use models::wire::Decoder;
use proptest::prelude::*;
use serde_json::Value;

use crate::corpus::{anthropic, decode, gemini, json_mode, openai, responses, sse};
use crate::support::assert_streamed;

/// The content that is split into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Text,
    Reasoning,
    Arguments,
}

const ALL: [Content; 3] = [Content::Text, Content::Reasoning, Content::Arguments];

/// The pieces (JSON strings) as each wire sends them.
type Wire = fn(Content, &[String]) -> Result<(Vec<Piece>, Reply), ModelError>;
const WIRES: [(&str, Wire); 4] =
    [("chat", in_chat), ("anthropic", in_anthropic), ("responses", in_responses), ("gemini", in_gemini)];

fn decode_lines(decoder: Box<impl Decoder>, lines: &[String]) -> Result<(Vec<Piece>, Reply), ModelError> {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    decode(decoder, sse(&lines).as_bytes(), 23)
}

fn in_chat(content: Content, pieces: &[String]) -> Result<(Vec<Piece>, Reply), ModelError> {
    let mut lines = Vec::new();
    let mut delta = |delta: String| lines.push(format!(r#"{{"id":"c","choices":[{{"delta":{delta}}}]}}"#));
    if content == Content::Arguments {
        delta(r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":""}}]}"#.into());
    }
    for piece in pieces {
        delta(match content {
            Content::Text => format!(r#"{{"content":{piece}}}"#),
            Content::Reasoning => format!(r#"{{"reasoning_content":{piece}}}"#),
            Content::Arguments => {
                format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":{piece}}}}}]}}"#)
            }
        });
    }
    lines.push(r#"{"id":"c","choices":[{"delta":{},"finish_reason":"stop"}]}"#.into());
    decode_lines(openai(), &lines)
}

fn in_anthropic(content: Content, pieces: &[String]) -> Result<(Vec<Piece>, Reply), ModelError> {
    let (block, delta, field) = match content {
        Content::Text => (r#"{"type":"text","text":""}"#, "text_delta", "text"),
        Content::Reasoning => {
            (r#"{"type":"thinking","thinking":"","signature":"s"}"#, "thinking_delta", "thinking")
        }
        Content::Arguments => {
            (r#"{"type":"tool_use","id":"1","name":"f","input":{}}"#, "input_json_delta", "partial_json")
        }
    };
    let mut lines = vec![
        r#"{"type":"message_start","message":{"id":"m"}}"#.to_owned(),
        format!(r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#),
    ];
    lines.extend(pieces.iter().map(|piece| {
        let delta = format!(r#"{{"type":"{delta}","{field}":{piece}}}"#);
        format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#)
    }));
    lines.push(r#"{"type":"content_block_stop","index":0}"#.into());
    lines.push(r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#.into());
    lines.push(r#"{"type":"message_stop"}"#.into());
    decode_lines(anthropic(), &lines)
}

fn in_responses(content: Content, pieces: &[String]) -> Result<(Vec<Piece>, Reply), ModelError> {
    let (item, kind) = match content {
        Content::Text => (r#"{"type":"message"}"#, "response.output_text.delta"),
        Content::Reasoning => (r#"{"type":"reasoning"}"#, "response.reasoning_text.delta"),
        Content::Arguments => (
            r#"{"type":"function_call","call_id":"1","name":"f","arguments":""}"#,
            "response.function_call_arguments.delta",
        ),
    };
    let mut lines = vec![
        r#"{"type":"response.created","response":{"id":"r"}}"#.to_owned(),
        format!(r#"{{"type":"response.output_item.added","output_index":0,"item":{item}}}"#),
    ];
    lines.extend(
        pieces.iter().map(|piece| format!(r#"{{"type":"{kind}","output_index":0,"delta":{piece}}}"#)),
    );
    lines.push(r#"{"type":"response.completed","response":{"id":"r"}}"#.into());
    decode_lines(responses(), &lines)
}

fn in_gemini(content: Content, pieces: &[String]) -> Result<(Vec<Piece>, Reply), ModelError> {
    let mut lines = Vec::new();
    let mut part = |part: String| {
        lines.push(format!(r#"{{"candidates":[{{"content":{{"parts":[{part}]}}}}],"responseId":"g"}}"#));
    };
    if content == Content::Arguments {
        part(r#"{"functionCall":{"name":"f","willContinue":true}}"#.into());
    }
    for piece in pieces {
        part(match content {
            Content::Text => format!(r#"{{"text":{piece}}}"#),
            Content::Reasoning => format!(r#"{{"text":{piece},"thought":true}}"#),
            Content::Arguments => {
                let more = format!(r#"{{"jsonPath":"$.text","stringValue":{piece},"willContinue":true}}"#);
                format!(r#"{{"functionCall":{{"partialArgs":[{more}],"willContinue":true}}}}"#)
            }
        });
    }
    if content == Content::Arguments {
        part(r#"{"functionCall":{}}"#.into());
    }
    lines.push(r#"{"candidates":[{"finishReason":"STOP"}],"responseId":"g"}"#.into());
    decode_lines(gemini(), &lines)
}

/// Splits the UTF-16 units of a text at `cuts`; each piece is a JSON string. Lone surrogates are escaped,
/// and so are the units for which `escapes` is true.
fn cut(text: &str, cuts: &[bool], escapes: &[bool]) -> Vec<String> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let at = |flags: &[bool], place: usize| flags.get(place % flags.len().max(1)).copied().unwrap_or(false);
    let mut pieces: Vec<Vec<u16>> = vec![Vec::new()];
    for (place, unit) in units.iter().enumerate() {
        if place > 0 && at(cuts, place) {
            pieces.push(Vec::new());
        }
        pieces.last_mut().unwrap().push(*unit);
    }
    let mut place = 0;
    let mut literal = |piece: Vec<u16>| {
        let mut out = String::from("\"");
        for c in char::decode_utf16(piece) {
            place += 1;
            match c {
                Ok(c) if !at(escapes, place) => {
                    let quoted = Value::from(c.to_string()).to_string();
                    out.push_str(&quoted[1..quoted.len() - 1]);
                }
                Ok(c) => {
                    c.encode_utf16(&mut [0; 2]).iter().for_each(|u| out.push_str(&format!("\\u{u:04x}")))
                }
                Err(half) => out.push_str(&format!("\\u{:04X}", half.unpaired_surrogate())),
            }
        }
        out.push('"');
        out
    };
    pieces.into_iter().map(&mut literal).collect()
}

/// Whether any string in a value equals this text.
fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(held) => held == text,
        Value::Array(items) => items.iter().any(|item| holds(item, text)),
        Value::Object(fields) => fields.values().any(|field| holds(field, text)),
        _ => false,
    }
}

fn assert_arrives(wire: &str, content: Content, text: &str, result: Result<(Vec<Piece>, Reply), ModelError>) {
    let (pieces, reply) = result.unwrap_or_else(|error| panic!("{wire} {content:?} {text:?}: {error}"));
    assert_streamed(&pieces, &reply);
    let text = text.to_owned();
    match content {
        Content::Text => assert_eq!(reply.parts, [ReplyPart::Text(text.clone())], "{wire}"),
        Content::Reasoning => assert_eq!(reply.parts, [ReplyPart::Reasoning(text.clone())], "{wire}"),
        Content::Arguments => {
            let [ReplyPart::Call { arguments, .. }] = &reply.parts[..] else { panic!("{wire}: {reply:?}") };
            let value: Value = serde_json::from_str(arguments).unwrap();
            assert_eq!(value["text"], text, "{wire}");
        }
    }
    // On some wires the argument string is JSON inside a string; reasoning that is not sealed is not sent back.
    if content == Content::Text || content == Content::Reasoning && wire != "responses" {
        let native: Value = serde_json::from_str(&reply.native.as_ref().unwrap().body).unwrap();
        assert!(holds(&native, &text), "{wire} {content:?}: {native} lacks {text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_text_split_anywhere_arrives_complete_on_every_wire(
        text in "[a-c\"\\\\ \n\u{1}é…\u{ffff}😀-😇𐀀\u{10ffff}]{1,24}",
        cuts in prop::collection::vec(any::<bool>(), 1..9),
        escapes in prop::collection::vec(any::<bool>(), 1..9),
    ) {
        let object = format!("{{\"text\":{}}}", cut(&text, &[false], &escapes).concat());
        for (wire, play) in WIRES {
            for content in ALL {
                // Gemini sends arguments value by value, the others as one argument string.
                let said = if content == Content::Arguments && wire != "gemini" { &object } else { &text };
                assert_arrives(wire, content, &text, play(content, &cut(said, &cuts, &escapes)));
            }
        }
        let in_json = in_json_mode(&cut(&object, &cuts, &escapes)).unwrap().1;
        prop_assert_eq!(in_json.parts, [ReplyPart::Text(text)]);
    }
}

fn in_json_mode(pieces: &[String]) -> Result<(Vec<Piece>, Reply), ModelError> {
    let mut lines: Vec<String> = pieces
        .iter()
        .map(|piece| format!(r#"{{"id":"c","choices":[{{"delta":{{"content":{piece}}}}}]}}"#))
        .collect();
    lines.push(r#"{"id":"c","choices":[{"delta":{},"finish_reason":"stop"}]}"#.into());
    decode_lines(json_mode(), &lines)
}

#[test]
fn an_incomplete_character_makes_the_stream_garbage() {
    let cases: [&[&str]; 6] = [
        &[r#""do NOT \ud83d""#, r#"" pay""#],
        &[r#""do NOT \ud83d""#],
        &[r#""do NOT ""#, r#""\ude00 pay""#],
        &[r#""do NOT \ud83d""#, r#""\ud83d\ude00 pay""#],
        &[r#""do \ud83dNOT pay""#],
        &[r#""do NOT \ud83d""#, r#""""#, r#""\u00e9""#],
    ];
    for (wire, play) in WIRES {
        for content in ALL {
            for case in cases {
                let pieces: Vec<String> = case.iter().map(|piece| (*piece).to_owned()).collect();
                let result = play(content, &pieces);
                assert!(
                    matches!(result, Err(ModelError::Garbage(_))),
                    "{wire} {content:?} {case:?}: {result:?}"
                );
            }
        }
    }
}

#[test]
fn text_in_an_unknown_form_makes_the_stream_garbage() {
    for delta in [
        r#"{"content":{"parts":["do NOT"]}}"#,
        r#"{"content":["do NOT"]}"#,
        r#"{"content":7}"#,
        r#"{"tool_calls":"f"}"#,
        r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":["do NOT"]}}]}"#,
    ] {
        let lines = [
            format!(r#"{{"id":"c","choices":[{{"delta":{delta}}}]}}"#),
            r#"{"id":"c","choices":[{"delta":{"content":"pay"},"finish_reason":"stop"}]}"#.to_owned(),
        ];
        let result = decode_lines(openai(), &lines);
        assert!(matches!(result, Err(ModelError::Garbage(_))), "{delta}: {result:?}");
    }
}
