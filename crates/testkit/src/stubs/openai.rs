//! An answer in the format of chat completions.

use serde_json::{Value, json};

use super::{Answer, ReplyPiece};

/// The whole stream.
pub(super) fn stream(answer: &Answer, request: &Value) -> String {
    let mut out = String::new();
    let chunk = |choices: Value, usage: Value| {
        let model = request["model"].clone();
        let mut chunk =
            json!({"id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": 1, "model": model});
        chunk["choices"] = choices;
        chunk["usage"] = usage;
        format!("data: {chunk}\n\n")
    };
    let mut delta = |delta: Value| {
        out.push_str(&chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null));
    };
    delta(json!({"role": "assistant", "content": null}));
    let mut calls = 0;
    for piece in &answer.pieces {
        match piece {
            ReplyPiece::Text(pieces) => pieces.iter().for_each(|text| delta(json!({ "content": text }))),
            ReplyPiece::Reasoning(pieces) => {
                pieces.iter().for_each(|text| delta(json!({ "reasoning_content": text })))
            }
            ReplyPiece::Redacted(data) => {
                delta(json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": data}]}))
            }
            ReplyPiece::Unknown(value) => delta(value.clone()),
            ReplyPiece::Call { id, name, arguments } => {
                let function = json!({"name": name, "arguments": ""});
                delta(
                    json!({"tool_calls": [{"index": calls, "id": id, "type": "function", "function": function}]}),
                );
                for piece in arguments {
                    delta(json!({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]}));
                }
                calls += 1;
            }
        }
    }
    if let Some(error) = &answer.error {
        out.push_str(&format!("data: {}\n\n", json!({ "error": error })));
        return out;
    }
    if answer.hangs {
        return out;
    }
    let usual = if calls > 0 { "tool_calls" } else { "stop" };
    let reason = answer.stop.as_deref().unwrap_or(usual);
    out.push_str(&chunk(json!([{"index": 0, "delta": {}, "finish_reason": reason}]), Value::Null));
    if let (Some(input), Some(output)) = (answer.usage["input"].as_u64(), answer.usage["output"].as_u64()) {
        let details = json!({"cached_tokens": answer.usage["cached"]});
        let total = input + output;
        let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": total, "prompt_tokens_details": details});
        out.push_str(&chunk(json!([]), usage));
    }
    out.push_str("data: [DONE]\n\n");
    out
}
