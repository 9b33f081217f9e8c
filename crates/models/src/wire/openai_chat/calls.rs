//! The calls of a reply while they come. Servers count them in their own ways.

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
    /// Fields of the call that we do not know, some of which must go back.
    pub(super) fields: Merged,
}

impl ChatCall {
    /// As it is to be sent back.
    pub(super) fn write(&self) -> String {
        let mut function = RawObject::default();
        function.set_text("name", &json::sound_name(&self.name));
        function.set_text("arguments", &json::sound_arguments(&self.arguments));
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

/// Which call a delta goes on with; `None` where it begins one. Servers count calls by `index`,
/// or give every call the same index, or none; they name the call once, or in every delta.
pub(super) fn goes_on(
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
    // Nothing but the content can tell: a second name, or a second object.
    let untold = !name.is_empty() && (id.is_empty() || call.id.is_empty());
    let whole = || json::is_object(&call.arguments);
    let other_name = name != call.name && !call.name.is_empty();
    // Only a delta that leaves it open pays for reading all that came before.
    let unnamed = call.arguments.is_empty() && index.is_some();
    let renamed = || other_name && !unnamed && (call.arguments.is_empty() || whole());
    let opens = |text: &str| text.trim_start().starts_with('{');
    let begins = || opens(raw) || text::whole(Some(raw)).is_ok_and(|text| opens(&text));
    let second = untold && (renamed() || begins() && whole());
    (!second).then_some(at)
}

/// Unique ids for all calls, as they will be sent back.
pub(super) fn settle_ids(calls: &mut [ChatCall], reply: &str) {
    for at in 0..calls.len() {
        let (before, rest) = calls.split_at_mut(at);
        let call = &mut rest[0];
        if call.id.is_empty() || before.iter().any(|other| other.id == call.id) {
            let seed = format!("{}/{}/{}", reply, call.name, call.arguments);
            call.id = json::made_up_id(&seed, at);
        }
    }
}
