//! An answer in the format of the Messages API. Reasoning is signed for the request that it answers, so
//! that [`super::rules::check_anthropic`] can check whether it is sent back at the right position.

use serde_json::{Value, json};

use super::{Answer, ReplyPiece, rules};

/// The whole stream.
pub(super) fn stream(answer: &Answer, request: &Value) -> String {
    let mut out = String::new();
    let mut event = |value: Value| {
        let name = value["type"].as_str().unwrap_or_default().to_owned();
        out.push_str(&format!("event: {name}\ndata: {value}\n\n"));
    };
    let (input, cached) =
        (answer.usage["input"].as_u64().unwrap_or(0), answer.usage["cached"].as_u64().unwrap_or(0));
    let counts = json!({"input_tokens": input.saturating_sub(cached), "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached, "output_tokens": 1});
    let mut message = json!({"id": "msg_stub", "type": "message", "role": "assistant", "model": request["model"], "content": [], "stop_reason": null, "stop_sequence": null, "usage": counts});
    let dropped = rules::dropped_by_binding(request);
    if !dropped.is_empty() {
        message["input_transformations"] = Value::Array(dropped);
    }
    event(json!({"type": "message_start", "message": message}));
    event(json!({"type": "ping"}));
    let mut signer = rules::Signer::of(request);
    for (index, piece) in answer.pieces.iter().enumerate() {
        block(index, piece, &mut signer, &mut event);
    }
    if let Some(error) = &answer.error {
        event(json!({"type": "error", "error": error}));
        return out;
    }
    if answer.hangs {
        return out;
    }
    let calls = answer.pieces.iter().any(|piece| matches!(piece, ReplyPiece::Call { .. }));
    let reason = answer.stop.as_deref().unwrap_or(if calls { "tool_use" } else { "end_turn" });
    let usage = json!({"output_tokens": answer.usage["output"]});
    event(
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": usage}),
    );
    event(json!({"type": "message_stop"}));
    out
}

fn block(index: usize, piece: &ReplyPiece, signer: &mut rules::Signer, event: &mut impl FnMut(Value)) {
    let mut start =
        |block: Value| event(json!({"type": "content_block_start", "index": index, "content_block": block}));
    let mut deltas: Vec<Value> = Vec::new();
    match piece {
        ReplyPiece::Text(pieces) => {
            start(json!({"type": "text", "text": ""}));
            deltas.extend(pieces.iter().map(|text| json!({"type": "text_delta", "text": text})));
        }
        ReplyPiece::Reasoning(pieces) => {
            start(json!({"type": "thinking", "thinking": "", "signature": ""}));
            deltas.extend(pieces.iter().map(|text| json!({"type": "thinking_delta", "thinking": text})));
            deltas.push(json!({"type": "signature_delta", "signature": signer.sign(&pieces.concat())}));
        }
        ReplyPiece::Redacted(data) => start(json!({"type": "redacted_thinking", "data": data})),
        ReplyPiece::Unknown(block) => start(block.clone()),
        ReplyPiece::Call { id, name, arguments } => {
            start(json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
            let first = std::iter::once("").chain(arguments.iter().map(String::as_str));
            deltas.extend(first.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})));
        }
    }
    for delta in deltas {
        event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }
    event(json!({"type": "content_block_stop", "index": index}));
}
