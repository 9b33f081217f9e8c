//! The calls of a reply while they arrive. Servers number them in different ways.

use crate::wire::json::{self, Merged, RawObject};
use crate::wire::text::{self, Pieces};

/// One call.
#[derive(Clone, Debug, Default)]
pub(super) struct ChatCall {
    pub(super) index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) pieces: Pieces,
    /// Unknown fields of the call, some of which must be sent back.
    pub(super) fields: Merged,
}

impl ChatCall {
    /// The call's JSON as it will be sent back.
    pub(super) fn write(&self) -> String {
        let mut function = RawObject::default();
        function.set_text("name", &json::valid_name(&self.name));
        function.set_text("arguments", &json::valid_arguments(&self.arguments));
        let mut text = String::new();
        function.write(&mut text);
        let mut whole = RawObject::default();
        whole.set_text("id", &self.id);
        whole.set_text("type", "function");
        whole.set("function", text);
        self.fields.write_into(&mut whole);
        let mut text = String::new();
        whole.write(&mut text);
        text
    }
}

/// The call that a delta continues; `None` if it begins a new one. Servers number calls by `index`, or
/// give all calls the same index or none; they send the call's name once or in every delta.
pub(super) fn continued_call(
    calls: &[ChatCall],
    index: Option<u64>,
    id: &str,
    name: &str,
    raw: &str,
) -> Option<usize> {
    let at = match index {
        Some(_) => calls.iter().rposition(|call| call.index == index)?,
        None if !id.is_empty() => calls.iter().rposition(|call| call.id == id)?,
        None => calls.len().checked_sub(1)?,
    };
    let call = &calls[at];
    let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
    if other_id && !name.is_empty() {
        return None;
    }
    // Without an id only the content shows a new call: a second name, or a second object.
    let unidentified = !name.is_empty() && (id.is_empty() || call.id.is_empty());
    let whole = || json::is_object(&call.arguments);
    let other_name = name != call.name && !call.name.is_empty();
    // The earlier arguments are parsed only if the delta could begin a second object.
    let unnamed = call.arguments.is_empty() && index.is_some();
    let renamed = || other_name && !unnamed && (call.arguments.is_empty() || whole());
    let opens = |text: &str| text.trim_start().starts_with('{');
    let begins = || opens(raw) || text::whole(Some(raw)).is_ok_and(|text| opens(&text));
    let second = unidentified && (renamed() || begins() && whole());
    (!second).then_some(at)
}

/// Gives all calls unique ids, which will be sent back.
pub(super) fn assign_ids(calls: &mut [ChatCall], reply: &str) {
    for at in 0..calls.len() {
        let (before, rest) = calls.split_at_mut(at);
        let call = &mut rest[0];
        if call.id.is_empty() || before.iter().any(|other| other.id == call.id) {
            let seed = format!("{}/{}/{}", reply, call.name, call.arguments);
            call.id = json::generated_id(&seed, at);
        }
    }
}
