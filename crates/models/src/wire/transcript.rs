//! What every wire asks of the entries that it writes: the text, the vendor's own block where it may go
//! back, and which call an outcome answers.

use agent::entry::Entry;
use agent::id::CallId;
use agent::message::{ModelMessage, Native, Origin, Part};

use super::json;

/// The texts of a message, in order.
pub(crate) fn texts(message: &ModelMessage) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        // Nothing makes attachments yet; their place is kept.
        Part::Image { .. } | Part::File { .. } => Some("[attachment]"),
        _ => None,
    })
}

/// The same as one text of several paragraphs.
pub(crate) fn text(message: &ModelMessage) -> String {
    texts(message).collect::<Vec<_>>().join("\n\n")
}

/// The native block, where it is this wire's and this model's and wire_format of the same calls.
pub(crate) fn matching<'a>(origin: &Origin, message: &'a ModelMessage) -> Option<&'a Native> {
    let calls = message.calls().count();
    message.native.as_ref().filter(|native| native.origin == *origin && native.call_ids.len() >= calls)
}

/// A call that an outcome answers.
pub(crate) struct Asked<'a> {
    /// Our id of it.
    pub(crate) id: &'a CallId,
    /// The tool's name, as the call bears it.
    pub(crate) name: &'a str,
    /// The vendor's id of it, where its own block is sent back.
    pub(crate) native: Option<&'a str>,
}

/// The call with this id in the entry that the outcomes answer. An outcome whose call is not there would
/// be refused: it is told in words ([`orphan`]).
pub(crate) fn asked<'a>(origin: &Origin, entry: Option<&'a Entry>, call: &CallId) -> Option<Asked<'a>> {
    let message = &entry?.message;
    let (index, (id, name, _)) = message.calls().enumerate().find(|(_, (id, ..))| *id == call)?;
    let native = matching(origin, message).and_then(|native| native.call_ids.get(index));
    Some(Asked { id, name, native: native.map(String::as_str) })
}

/// An outcome whose call is not sent, in words.
pub(crate) fn orphan(name: &str, text: &str) -> String {
    format!("[outcome of {}] {}", json::string(name), json::string(text))
}

/// The text of an outcome; no vendor takes an empty one.
pub(crate) fn output(text: &str) -> &str {
    if text.is_empty() { "(no output)" } else { text }
}
