//! An answer in the format of the Responses API. Each id names the reasoning before it, so that
//! [`super::rules::check_responses`] notices if that reasoning is missing.

use serde_json::{Value, json};

use super::{Answer, ReplyPiece, rules};

struct Writer {
    out: String,
    sequence: u64,
    /// Completed items.
    output: Vec<Value>,
}

impl Writer {
    fn event(&mut self, kind: &str, mut fields: Value) {
        fields["type"] = json!(kind);
        fields["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        self.out.push_str(&format!("event: {kind}\ndata: {fields}\n\n"));
    }

    fn added(&mut self, item: Value) {
        let index = self.output.len();
        self.event("response.output_item.added", json!({"output_index": index, "item": item}));
    }

    fn deltas(&mut self, kind: &str, id: &str, pieces: &[String], field: &str) {
        let index = self.output.len();
        for piece in pieces {
            let mut delta = json!({"item_id": id, "output_index": index, "delta": piece});
            delta[field] = json!(0);
            self.event(&format!("{kind}.delta"), delta);
        }
    }

    fn done(&mut self, item: Value) {
        let index = self.output.len();
        self.event("response.output_item.done", json!({"output_index": index, "item": item}));
        self.output.push(item);
    }
}

/// The whole stream.
pub(super) fn stream(answer: &Answer, request: &Value) -> String {
    let mut writer = Writer { out: String::new(), sequence: 0, output: Vec::new() };
    let response = |status: &str, output: &[Value], usage: &Value| {
        json!({"id": "resp_stub", "object": "response", "status": status, "model": request["model"],
            "output": output, "usage": usage, "error": null, "incomplete_details": null, "store": false})
    };
    let created = response("in_progress", &[], &Value::Null);
    writer.event("response.created", json!({ "response": created }));
    writer.event("response.in_progress", json!({ "response": created }));
    let mut ids = rules::ItemIds::of(request);
    for piece in &answer.pieces {
        item(&mut writer, &mut ids, piece);
    }
    if let Some(error) = &answer.error {
        let error =
            json!({"type": error["type"], "code": error["type"], "message": error["message"], "param": null});
        writer.event("error", json!({ "error": error }));
        return writer.out;
    }
    if answer.hangs {
        return writer.out;
    }
    let mut usage = Value::Null;
    if let (Some(input), Some(output)) = (answer.usage["input"].as_u64(), answer.usage["output"].as_u64()) {
        usage = json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": answer.usage["cached"]},
            "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input + output});
    }
    let status = if answer.stop.is_some() { "incomplete" } else { "completed" };
    let output = std::mem::take(&mut writer.output);
    let mut last = response(status, &output, &usage);
    if let Some(reason) = &answer.stop {
        last["incomplete_details"] = json!({ "reason": reason });
    }
    writer.event(&format!("response.{status}"), json!({ "response": last }));
    writer.out
}

fn item(writer: &mut Writer, ids: &mut rules::ItemIds, piece: &ReplyPiece) {
    match piece {
        ReplyPiece::Text(pieces) => {
            let id = ids.next("msg");
            let mut item = json!({"id": id, "type": "message", "status": "in_progress", "content": [], "role": "assistant", "phase": "commentary"});
            writer.added(item.clone());
            writer.deltas("response.output_text", &id, pieces, "content_index");
            item["status"] = json!("completed");
            item["content"] = json!([{"type": "output_text", "annotations": [], "text": pieces.concat()}]);
            writer.done(item);
        }
        ReplyPiece::Reasoning(_) | ReplyPiece::Redacted(_) => {
            let pieces = match piece {
                ReplyPiece::Reasoning(pieces) => pieces.clone(),
                _ => Vec::new(),
            };
            let (id, sealed) = ids.reasoning();
            let mut item = json!({"id": id, "type": "reasoning", "encrypted_content": "", "summary": []});
            writer.added(item.clone());
            writer.deltas("response.reasoning_summary_text", &id, &pieces, "summary_index");
            item["encrypted_content"] = json!(sealed);
            if !pieces.is_empty() {
                item["summary"] = json!([{"type": "summary_text", "text": pieces.concat()}]);
            }
            writer.done(item);
        }
        ReplyPiece::Unknown(item) => {
            writer.added(item.clone());
            writer.done(item.clone());
        }
        ReplyPiece::Call { id: call_id, name, arguments } => {
            let id = ids.next("fc");
            let mut item = json!({"id": id, "type": "function_call", "status": "in_progress", "arguments": "", "call_id": call_id, "name": name});
            writer.added(item.clone());
            writer.deltas("response.function_call_arguments", &id, arguments, "content_index");
            item["status"] = json!("completed");
            item["arguments"] = json!(arguments.concat());
            writer.done(item);
        }
    }
}
