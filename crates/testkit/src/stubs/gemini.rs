//! An answer in the format of `streamGenerateContent`. The first call of an answer is signed, so that
//! [`super::rules::check_gemini`] can check whether the signature stays on its call.

use serde_json::{Map, Value, json};

use super::{Answer, ReplyPiece, rules};

/// The whole stream.
pub(super) fn stream(answer: &Answer) -> String {
    let mut out = String::new();
    let mut event = |parts: Value, finish: Option<&str>, usage: Value| {
        let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
        if let Some(reason) = finish {
            candidate["finishReason"] = json!(reason);
        }
        let chunk = json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub", "responseId": "r-stub"});
        out.push_str(&format!("data: {chunk}\n\n"));
    };
    let running =
        json!({"promptTokenCount": answer.usage["input"], "totalTokenCount": answer.usage["input"]});
    let mut parts = |part: Value| event(json!([part]), None, running.clone());
    let mut calls = 0;
    for piece in &answer.pieces {
        match piece {
            ReplyPiece::Text(pieces) => pieces.iter().for_each(|text| parts(json!({ "text": text }))),
            ReplyPiece::Reasoning(pieces) => {
                pieces.iter().for_each(|text| parts(json!({"text": text, "thought": true})));
            }
            ReplyPiece::Redacted(data) => parts(json!({"text": "", "thoughtSignature": data})),
            ReplyPiece::Unknown(part) => parts(part.clone()),
            ReplyPiece::Call { id, name, arguments } => {
                call(id, name, arguments, calls == 0, &mut parts);
                calls += 1;
            }
        }
    }
    if let Some(error) = &answer.error {
        out.push_str(&format!("data: {}\n\n", rules::gemini_error(error)));
        return out;
    }
    if answer.hangs {
        return out;
    }
    // Reasoning without a call is signed in a last, empty part.
    let thought = answer.pieces.iter().any(|piece| matches!(piece, ReplyPiece::Reasoning(_)));
    let last = match thought && calls == 0 {
        true => json!([{"text": "", "thoughtSignature": "c3R1Yg=="}]),
        false => json!([{ "text": "" }]),
    };
    let mut usage = json!({});
    if let (Some(input), Some(output)) = (answer.usage["input"].as_u64(), answer.usage["output"].as_u64()) {
        usage = json!({"promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output, "cachedContentTokenCount": answer.usage["cached"]});
    }
    event(last, Some(answer.stop.as_deref().unwrap_or("STOP")), usage);
    out
}

/// Sends a call: whole if its argument string is one piece, otherwise in pieces with their paths.
fn call(id: &str, name: &str, arguments: &[String], first: bool, part: &mut impl FnMut(Value)) {
    let args: Map<String, Value> = serde_json::from_str(&arguments.concat()).unwrap_or_default();
    let mut call = json!({ "name": name });
    if !id.is_empty() {
        call["id"] = json!(id);
    }
    let signature = rules::sign_gemini(name, &Value::Object(args.clone()));
    let signed = |call: Value| match first {
        true => json!({"functionCall": call, "thoughtSignature": signature}),
        false => json!({"functionCall": call}),
    };
    let flat = args.values().all(|value| value.is_string() || value.is_number());
    if arguments.len() < 2 || !flat {
        call["args"] = Value::Object(args);
        return part(signed(call));
    }
    call["willContinue"] = json!(true);
    part(signed(call));
    let mut piece = |piece: Value| {
        part(json!({"functionCall": {"partialArgs": [piece], "willContinue": true}}));
    };
    for (key, value) in &args {
        let path = format!("$.{key}");
        let Some(text) = value.as_str() else {
            piece(json!({"jsonPath": path, "numberValue": value}));
            continue;
        };
        for c in text.chars() {
            piece(json!({"jsonPath": path, "stringValue": c.to_string(), "willContinue": true}));
        }
        piece(json!({"jsonPath": path, "stringValue": ""}));
    }
    part(json!({"functionCall": {}}));
}
