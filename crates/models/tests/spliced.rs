//! Two messages in one stream: nothing of either is processed, since nobody knows what belongs together.

use agent::port::{ModelError, Reply, ReplyPart};
use models::wire::Decoder;

use crate::corpus::{anthropic, decode, gemini, openai, responses, sse};

fn played(decoder: Box<impl Decoder>, lines: &[&str]) -> Result<Reply, ModelError> {
    decode(decoder, sse(lines).as_bytes(), usize::MAX).map(|(_, reply)| reply)
}

fn is_refused(heard: Result<Reply, ModelError>, what: &str) {
    assert!(matches!(&heard, Err(ModelError::Garbage(why)) if why.contains("second")), "{what}: {heard:?}");
}

#[test]
fn a_second_message_of_anthropics_is_garbage_wherever_it_begins() {
    let start = r#"{"type":"message_start","message":{"id":"msg_1"}}"#;
    let other = r#"{"type":"message_start","message":{"id":"msg_2"}}"#;
    let call = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"pay","input":{"n":1}}}"#;
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    let finish = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#;
    let over = r#"{"type":"message_stop"}"#;
    is_refused(played(anthropic(), &[start, call, stop, other, call, stop, finish, over]), "in the middle");
    is_refused(played(anthropic(), &[start, call, stop, start, call, stop, finish, over]), "the same id");
    is_refused(
        played(anthropic(), &[start, call, stop, finish, other, call, stop, finish, over]),
        "behind it",
    );
    is_refused(played(anthropic(), &[start, call, stop, finish, call, stop, finish, over]), "unannounced");
    let closed = [start, call, stop, finish, over, other, call, stop, finish, over];
    assert_eq!(played(anthropic(), &closed).unwrap().parts.len(), 1, "what comes behind the end is nobody's");
}

fn chunk(id: &str, rest: &str) -> String {
    format!(r#"{{"id":"{id}","choices":[{{"index":0,{rest}}}]}}"#)
}

fn chat(chunks: &[(&str, &str)]) -> Result<Reply, ModelError> {
    let lines: Vec<String> = chunks.iter().map(|(id, rest)| chunk(id, rest)).collect();
    played(openai(), &lines.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_chunk_of_another_chat_message_is_garbage_wherever_it_comes() {
    let begin = r#""delta":{"role":"assistant","content":""}"#;
    let text = r#""delta":{"content":"hi"}"#;
    let call = r#""delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"pay","arguments":"{}"}}]}"#;
    let finish = r#""delta":{},"finish_reason":"stop""#;
    is_refused(chat(&[("a", text), ("a", text), ("b", call), ("b", finish)]), "in the middle");
    is_refused(chat(&[("a", begin), ("a", call), ("b", begin), ("b", call), ("b", finish)]), "call and call");
    is_refused(chat(&[("a", call), ("a", finish), ("b", call), ("b", finish)]), "behind the finish");
    is_refused(chat(&[("a", text), ("b", text), ("b", text), ("b", finish)]), "behind one piece");
    for id in ["a", ""] {
        let two = [(id, call), (id, finish), (id, begin), (id, call), (id, finish)];
        is_refused(chat(&two), "behind the finish, under the same id or none");
        is_refused(chat(&[(id, call), (id, finish), (id, text)]), "words behind the finish");
    }
    let reply = chat(&[("a", text), ("", text), ("a", text), ("", finish)]).unwrap();
    assert_eq!(reply.parts, [ReplyPart::Text("hihihi".into())], "no id says nothing");
}

/// Some servers make a new id for every chunk (Foundry Local, SGLang and LMDeploy behind ms-swift, old
/// llama.cpp): there an id tells nothing.
#[test]
fn a_server_that_numbers_its_chunks_is_understood() {
    let (text, finish) = (r#""delta":{"content":"hi"}"#, r#""delta":{},"finish_reason":"stop""#);
    let reply = chat(&[("1", text), ("2", text), ("3", text), ("4", finish)]).unwrap();
    assert_eq!(reply.parts, [ReplyPart::Text("hihihi".into())]);
    assert_eq!(chat(&[("1", text), ("2", finish)]).unwrap().parts.len(), 1);
}

#[test]
fn a_second_response_is_garbage() {
    let created = |id: &str| format!(r#"{{"type":"response.created","response":{{"id":"{id}"}}}}"#);
    let call = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c","name":"pay","arguments":"{}"}}"#;
    let completed = r#"{"type":"response.completed","response":{"id":"r2"}}"#;
    let (one, two) = (created("r1"), created("r2"));
    is_refused(played(responses(), &[&one, call, &two, call, completed]), "another id");
    is_refused(played(responses(), &[&one, &two, call, completed]), "before anything was said");
    is_refused(played(responses(), &[&one, call, &one, call, completed]), "once more");
    assert!(played(responses(), &[&one, &one, call, completed]).is_ok(), "said twice before it began");
}

#[test]
fn a_second_generation_of_geminis_is_garbage() {
    let text = |id: &str| {
        format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"hi"}}]}}}}],"responseId":"{id}"}}"#)
    };
    let finish = |id: &str| format!(r#"{{"candidates":[{{"finishReason":"STOP"}}],"responseId":"{id}"}}"#);
    let (a, b, end) = (text("a"), text("b"), finish("b"));
    is_refused(played(gemini(), &[&a, &a, &b, &end]), "in the middle");
    is_refused(played(gemini(), &[&a, &finish("a"), &b, &end]), "behind the finish");
    is_refused(played(gemini(), &[&a, &finish("a"), &a, &finish("a")]), "under the same id");
    is_refused(played(gemini(), &[&text(""), &finish(""), &text(""), &finish("")]), "under no id");
    assert!(played(gemini(), &[&a, &text(""), &a, &finish("a")]).is_ok());
}
