//! Streams that are refused although each event is sound: two messages in one, since their parts cannot be told apart, and more parts
//! than a reply has.

use agent::port::{ModelError, Reply, ReplyPart};
use models::wire::Decoder;

use crate::corpus::{anthropic, decode, gemini, openai, responses, sse};

fn decode_lines(decoder: Box<impl Decoder>, lines: &[&str]) -> Result<Reply, ModelError> {
    decode(decoder, sse(lines).as_bytes(), usize::MAX).map(|(_, reply)| reply)
}

fn is_refused(result: Result<Reply, ModelError>, what: &str) {
    assert!(matches!(&result, Err(ModelError::Garbage(why)) if why.contains("second")), "{what}: {result:?}");
}

#[test]
fn a_second_anthropic_message_in_a_stream_is_garbage() {
    let start = r#"{"type":"message_start","message":{"id":"msg_1"}}"#;
    let other = r#"{"type":"message_start","message":{"id":"msg_2"}}"#;
    let call = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"pay","input":{"n":1}}}"#;
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    let finish = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#;
    let over = r#"{"type":"message_stop"}"#;
    is_refused(
        decode_lines(anthropic(), &[start, call, stop, other, call, stop, finish, over]),
        "in the middle",
    );
    is_refused(
        decode_lines(anthropic(), &[start, call, stop, start, call, stop, finish, over]),
        "the same id",
    );
    is_refused(
        decode_lines(anthropic(), &[start, call, stop, finish, other, call, stop, finish, over]),
        "behind it",
    );
    is_refused(
        decode_lines(anthropic(), &[start, call, stop, finish, call, stop, finish, over]),
        "unannounced",
    );
    let closed = [start, call, stop, finish, over, other, call, stop, finish, over];
    assert_eq!(
        decode_lines(anthropic(), &closed).unwrap().parts.len(),
        1,
        "events after the end are ignored"
    );
}

/// As a proxy does that sends each beginning twice.
#[test]
fn an_anthropic_message_that_begins_twice_under_one_id_before_any_content_is_one_message() {
    let start = |id: &str| {
        format!(r#"{{"type":"message_start","message":{{"id":"{id}","usage":{{"input_tokens":7}}}}}}"#)
    };
    let (start, other, nameless) = (start("msg_1"), start("msg_2"), start(""));
    let call = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"pay","input":{"n":1}}}"#;
    let rest = [
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let after = |begin: &[&str]| decode_lines(anthropic(), &[begin, &[call], &rest[..]].concat());
    let ping = r#"{"type":"ping"}"#;
    for begin in [&[&*start, &*start][..], &[&start, ping, &start], &[&start, &start, &start]] {
        let reply = after(begin).unwrap();
        assert_eq!((reply.parts.len(), reply.usage.input), (1, Some(7)), "{begin:?}");
    }
    is_refused(after(&[&start, &other]), "another id");
    is_refused(after(&[&nameless, &nameless]), "no id shows that they are one");
}

fn chunk(id: &str, rest: &str) -> String {
    format!(r#"{{"id":"{id}","choices":[{{"index":0,{rest}}}]}}"#)
}

fn chat(chunks: &[(&str, &str)]) -> Result<Reply, ModelError> {
    let lines: Vec<String> = chunks.iter().map(|(id, rest)| chunk(id, rest)).collect();
    decode_lines(openai(), &lines.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_chunk_of_another_chat_message_is_garbage() {
    let begin = r#""delta":{"role":"assistant","content":""}"#;
    let text = r#""delta":{"content":"hi"}"#;
    let call = r#""delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"pay","arguments":"{}"}}]}"#;
    let finish = r#""delta":{},"finish_reason":"stop""#;
    is_refused(chat(&[("a", text), ("a", text), ("b", call), ("b", finish)]), "in the middle");
    is_refused(chat(&[("a", begin), ("a", call), ("b", begin), ("b", call), ("b", finish)]), "call and call");
    is_refused(chat(&[("a", call), ("a", finish), ("b", call), ("b", finish)]), "after the finish");
    is_refused(chat(&[("a", text), ("b", text), ("b", text), ("b", finish)]), "after one piece");
    for id in ["a", ""] {
        let two = [(id, call), (id, finish), (id, begin), (id, call), (id, finish)];
        is_refused(chat(&two), "after the finish, under the same id or none");
        is_refused(chat(&[(id, call), (id, finish), (id, text)]), "text after the finish");
    }
    let reply = chat(&[("a", text), ("", text), ("a", text), ("", finish)]).unwrap();
    assert_eq!(reply.parts, [ReplyPart::Text("hihihi".into())], "chunks without an id are accepted");
}

/// Some servers give every chunk a new id (Foundry Local, SGLang and LMDeploy behind ms-swift, old
/// llama.cpp); their ids are ignored.
#[test]
fn a_server_that_gives_every_chunk_a_new_id_is_accepted() {
    let (text, finish) = (r#""delta":{"content":"hi"}"#, r#""delta":{},"finish_reason":"stop""#);
    let reply = chat(&[("1", text), ("2", text), ("3", text), ("4", finish)]).unwrap();
    assert_eq!(reply.parts, [ReplyPart::Text("hihihi".into())]);
    assert_eq!(chat(&[("1", text), ("2", finish)]).unwrap().parts.len(), 1);
}

#[test]
fn a_second_response_in_a_stream_is_garbage() {
    let created = |id: &str| format!(r#"{{"type":"response.created","response":{{"id":"{id}"}}}}"#);
    let call = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c","name":"pay","arguments":"{}"}}"#;
    let completed = r#"{"type":"response.completed","response":{"id":"r2"}}"#;
    let (one, two) = (created("r1"), created("r2"));
    is_refused(decode_lines(responses(), &[&one, call, &two, call, completed]), "another id");
    is_refused(decode_lines(responses(), &[&one, &two, call, completed]), "before any content");
    is_refused(decode_lines(responses(), &[&one, call, &one, call, completed]), "the same id again");
    assert!(
        decode_lines(responses(), &[&one, &one, call, completed]).is_ok(),
        "announced twice before any content"
    );
}

#[test]
fn a_call_under_an_index_that_was_used_is_not_lost_and_one_that_is_sent_again_is_no_second_call() {
    let created = r#"{"type":"response.created","response":{"id":"r1"}}"#;
    let item = |call: &str, n: u8| {
        format!(r#"{{"type":"function_call",{call}"name":"pay","arguments":"{{\"n\":{n}}}"}}"#)
    };
    let done = |call: &str, n: u8| {
        format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{}}}"#, item(call, n))
    };
    let delta = r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"n\":2}"}"#;
    let completed = r#"{"type":"response.completed","response":{"id":"r1"}}"#;
    let calls = |events: &[&str]| {
        let reply = decode_lines(responses(), &[&[created], events, &[completed]].concat()).unwrap();
        let ids = reply.native.unwrap().call_ids;
        assert_eq!((ids.len(), ids.first() == ids.get(1)), (reply.parts.len(), false));
        let call = |part| match part {
            ReplyPart::Call { arguments, .. } => arguments,
            other => panic!("{other:?}"),
        };
        reply.parts.into_iter().map(call).collect::<Vec<_>>()
    };
    let both = [r#"{"n":1}"#, r#"{"n":2}"#];
    let (a, b) = (r#""call_id":"a","#, r#""call_id":"b","#);
    assert_eq!(calls(&[&done(a, 1), &done(b, 2)]), both);
    assert_eq!(calls(&[&done(a, 1), delta, &done(b, 2)]), both, "with a delta that was not announced");
    assert_eq!(calls(&[&done("", 1), &done("", 2)]), both, "without ids");
    assert_eq!(
        calls(&[&done(r#""id":"x","call_id":"c","#, 1), &done(r#""id":"y","call_id":"d","#, 2)]),
        both
    );
    for again in [a, "", r#""id":"x","#] {
        assert_eq!(calls(&[&done(again, 1), &done(again, 1)]), both[..1], "{again} again");
    }
}

#[test]
fn a_second_gemini_generation_in_a_stream_is_garbage() {
    let text = |id: &str| {
        format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"hi"}}]}}}}],"responseId":"{id}"}}"#)
    };
    let finish = |id: &str| format!(r#"{{"candidates":[{{"finishReason":"STOP"}}],"responseId":"{id}"}}"#);
    let (a, b, end) = (text("a"), text("b"), finish("b"));
    is_refused(decode_lines(gemini(), &[&a, &a, &b, &end]), "in the middle");
    is_refused(decode_lines(gemini(), &[&a, &finish("a"), &b, &end]), "after the finish");
    is_refused(decode_lines(gemini(), &[&a, &finish("a"), &a, &finish("a")]), "under the same id");
    is_refused(decode_lines(gemini(), &[&text(""), &finish(""), &text(""), &finish("")]), "under no id");
    assert!(decode_lines(gemini(), &[&a, &text(""), &a, &finish("a")]).is_ok());
}

/// Calls are compared with each other, so their number is bounded while they arrive, whatever brings them.
#[test]
fn a_reply_of_too_many_parts_is_refused_by_every_wire_before_it_is_whole() {
    let many = 20_000;
    let call = |n: usize| format!(r#"{{"type":"tool_use","id":"t{n}","name":"pay","input":{{}}}}"#);
    let blocks = (0..many).map(|n| {
        let call = call(n);
        format!(r#"{{"type":"content_block_start","index":{n},"content_block":{call}}}"#)
    });
    let start = r#"{"type":"message_start","message":{"id":"msg_1"}}"#.to_owned();
    let of_anthropic: Vec<String> = [start].into_iter().chain(blocks).collect();
    let listed = |one: &dyn Fn(usize) -> String| (0..many).map(one).collect::<Vec<_>>().join(",");
    let calls =
        listed(&|n| format!(r#"{{"index":{n},"id":"t{n}","function":{{"name":"pay","arguments":"{{}}"}}}}"#));
    let of_chat = vec![chunk("c", &format!(r#""delta":{{"tool_calls":[{calls}]}}"#))];
    let texts = listed(&|n| match n % 2 {
        0 => r#"{"type":"text","text":"a"}"#.to_owned(),
        _ => r#"{"type":"thinking","thinking":[{"type":"text","text":"b"}]}"#.to_owned(),
    });
    let of_mistral = vec![chunk("c", &format!(r#""delta":{{"content":[{texts}]}}"#))];
    let parts = listed(&|n| format!(r#"{{"functionCall":{{"name":"pay","args":{{"n":{n}}}}}}}"#));
    let of_gemini = vec![format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}]}}}}]}}"#)];
    let item =
        |n: usize| format!(r#"{{"type":"function_call","call_id":"t{n}","name":"pay","arguments":"{{}}"}}"#);
    let of_responses =
        vec![format!(r#"{{"type":"response.completed","response":{{"output":[{}]}}}}"#, listed(&item))];
    let read = |lines: &[String], wire: &str| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        match wire {
            "anthropic" => decode_lines(anthropic(), &lines),
            "gemini" => decode_lines(gemini(), &lines),
            "responses" => decode_lines(responses(), &lines),
            _ => decode_lines(openai(), &lines),
        }
    };
    for (wire, lines) in [
        ("anthropic", &of_anthropic),
        ("chat", &of_chat),
        ("mistral", &of_mistral),
        ("gemini", &of_gemini),
        ("responses", &of_responses),
    ] {
        let result = read(lines, wire);
        assert!(
            matches!(&result, Err(ModelError::Garbage(why)) if why.contains("parts")),
            "{wire}: {result:?}"
        );
    }
    let fields: Vec<String> = (0..2_000).map(|n| format!(r#""x{n}":1"#)).collect();
    let fields = format!(r#""delta":{{"tool_calls":[{{"index":0,"id":"t",{}}}]}}"#, fields.join(","));
    let result = chat(&[("c", &fields)]);
    assert!(matches!(&result, Err(ModelError::Garbage(why)) if why.contains("fields")), "{result:?}");
}

/// What a vendor puts beside text and calls is sent back as it came, up to a bound.
#[test]
fn a_reply_keeps_what_else_came_with_it_only_if_that_is_small() {
    let with = |bytes: usize| {
        let extra = "z".repeat(bytes);
        let call = format!(
            r#""delta":{{"tool_calls":[{{"index":0,"id":"t","x_extra":"{extra}","function":{{"name":"pay","arguments":"{{}}"}}}}]}}"#
        );
        chat(&[("c", &call), ("c", r#""delta":{},"finish_reason":"tool_calls""#)]).unwrap()
    };
    let (small, large) = (with(1_000), with(5_000_000));
    assert!(small.native.is_some_and(|native| native.body.contains("x_extra")));
    assert!(large.native.is_none() && large.parts.len() == 1);
}
