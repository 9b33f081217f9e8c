//! What every wire format needs of an entry: its text, its native block if that may be sent back, and
//! which call an outcome answers.

use agent::entry::Entry;
use agent::id::CallId;
use agent::message::{ModelMessage, Native, Origin, Part};

use super::json;

/// The texts of a message, in order.
pub(crate) fn texts(message: &ModelMessage) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        // Nothing creates attachments yet.
        Part::Image { .. } | Part::File { .. } => Some("[attachment]"),
        _ => None,
    })
}

/// The texts of a message as paragraphs of one text.
pub(crate) fn text(message: &ModelMessage) -> String {
    texts(message).collect::<Vec<_>>().join("\n\n")
}

/// The native block, if it is of this wire and model and holds all calls of the message.
pub(crate) fn matching<'a>(origin: &Origin, message: &'a ModelMessage) -> Option<&'a Native> {
    let calls = message.calls().count();
    message.native.as_ref().filter(|native| native.origin == *origin && native.call_ids.len() >= calls)
}

/// The call that an outcome answers.
pub(crate) struct AnsweredCall<'a> {
    /// Our id of the call.
    pub(crate) id: &'a CallId,
    /// The tool's name in the call.
    pub(crate) name: &'a str,
    /// The vendor's id of the call, if the native block is sent back.
    pub(crate) native: Option<&'a str>,
}

/// The call with this id in the entry that the outcomes answer. Vendors refuse an outcome without its
/// call, so such an outcome is sent as text ([`orphan`]).
pub(crate) fn answered_call<'a>(
    origin: &Origin,
    entry: Option<&'a Entry>,
    call: &CallId,
) -> Option<AnsweredCall<'a>> {
    let message = &entry?.message;
    let (index, (id, name, _)) = message.calls().enumerate().find(|(_, (id, ..))| *id == call)?;
    let native = matching(origin, message).and_then(|native| native.call_ids.get(index));
    Some(AnsweredCall { id, name, native: native.map(String::as_str) })
}

/// An outcome whose call is not sent, as text.
pub(crate) fn orphan(name: &str, text: &str) -> String {
    format!("[outcome of {}] {}", json::string(name), json::string(text))
}

/// The text of an outcome. Vendors refuse an empty one.
pub(crate) fn output(text: &str) -> &str {
    if text.is_empty() { "(no output)" } else { text }
}
