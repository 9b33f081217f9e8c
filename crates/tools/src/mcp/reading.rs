//! From what a server sends to messages. An answer that cannot be read ends the call that waits for it, at once.

use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde_json::Value;

use super::gate::Gate;
use super::mend::mend;

/// The code of an error that no server has sent: its answer cannot be read.
pub(super) const UNREADABLE: ErrorCode = ErrorCode(i32::MIN);

/// Whether a value is a message, or several.
pub(super) fn is_message(value: &Value) -> bool {
    match value {
        Value::Array(batch) => {
            !batch.is_empty() && batch.iter().all(|one| one.is_object() && is_message(one))
        }
        value => value.get("jsonrpc").is_some(),
    }
}

/// The messages of a value: several if it is a list of some. What of them cannot be used is noted at the gate.
pub(super) fn messages(value: Value, gate: &Gate) -> Vec<ServerJsonRpcMessage> {
    if let Value::Array(batch) = value {
        return batch.into_iter().filter(Value::is_object).flat_map(|one| messages(one, gate)).collect();
    }
    let mut value = value;
    gate.leave_out(mend(&mut value));
    let id = value.get("id").cloned();
    match serde_json::from_value(value) {
        Ok(message) => vec![message],
        Err(_) => {
            gate.count(1, 0);
            let id = id.and_then(|id| serde_json::from_value::<RequestId>(id).ok());
            id.filter(|id| gate.waits_for(id)).map(unreadable).into_iter().collect()
        }
    }
}

/// What ends the call that waits for this text, if one does: it names the call, but is no message.
pub(super) fn nonsense(text: &str, gate: &Gate) -> Option<ServerJsonRpcMessage> {
    gate.named_in(text).map(unreadable)
}

fn unreadable(id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::new(UNREADABLE, "its answer cannot be read", None), Some(id))
}

/// Whether a text that is no JSON names an id as a message would.
pub(super) fn names_id(text: &str, id: &RequestId) -> bool {
    let wanted = serde_json::to_string(id).unwrap_or_default();
    text.match_indices("\"id\"").any(|(at, key)| {
        let rest = text[at + key.len()..].trim_start().strip_prefix(':').map(str::trim_start);
        let rest = rest.and_then(|rest| rest.strip_prefix(wanted.as_str()));
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_a_call_by_its_whole_id() {
        let id = RequestId::Number(5);
        for text in [r#"{"jsonrpc":"2.0","id":5,"result":{"a"#, r#"{"id" : 5}"#, r#"["id":5"#] {
            assert!(names_id(text, &id), "{text}");
        }
        for text in [r#"{"id":55,"#, r#"{"id":"5","#, r#"{"idx":5"#, "id 5", ""] {
            assert!(!names_id(text, &id), "{text}");
        }
    }
}
