//! One event as it is sent to a client. Consecutive drafts of a message are merged into one frame until the frame is
//! taken. Must not know buffers.

use std::sync::Arc;

use agent::id::MessageId;
use agent::port::Published;
use agent::update::Update;
use bytes::Bytes;
use serde::Serialize;

/// One event.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    content: Content,
    /// The value of the `id:` line, if there is one.
    pub(super) id: Option<u64>,
    /// Whether the frame may be dropped.
    pub(super) transient: bool,
}

#[derive(Clone, Debug)]
enum Content {
    /// Encoded; nothing is merged into it.
    Complete(Bytes),
    /// One published draft; its bytes are shared by all clients.
    Draft(Arc<Published>, Bytes),
    /// Several drafts of one message merged, encoded when the frame is taken.
    Merged(Box<Update>),
}

impl Frame {
    /// A frame with the event `name`.
    pub(super) fn new(name: &str, id: Option<u64>, data: &impl Serialize, transient: bool) -> Self {
        Self { content: Content::Complete(encode(name, id, data)), id, transient }
    }

    /// A frame of an update whose `bytes` all clients share.
    pub(super) fn shared(published: &Arc<Published>, bytes: Bytes, id: Option<u64>) -> Self {
        let content = match id {
            None if draft(published).is_some() => Content::Draft(Arc::clone(published), bytes),
            _ => Content::Complete(bytes),
        };
        Self { content, id, transient: published.is_transient() }
    }

    /// A frame of these bytes.
    pub(super) fn from_bytes(bytes: Bytes, id: Option<u64>, transient: bool) -> Self {
        Self { content: Content::Complete(bytes), id, transient }
    }

    /// A keep-alive comment.
    pub(super) fn ping() -> Self {
        Self::from_bytes(Bytes::from_static(b": ping\n\n"), None, true)
    }

    /// Size in a buffer, in bytes.
    pub(super) fn size(&self) -> usize {
        match &self.content {
            Content::Complete(bytes) | Content::Draft(_, bytes) => bytes.len(),
            Content::Merged(update) => draft(update).map_or(0, |(_, delta, _)| delta.len()) + DRAFT_OVERHEAD,
        }
    }

    /// The encoded frame.
    pub(super) fn into_bytes(self) -> Bytes {
        match self.content {
            Content::Complete(bytes) | Content::Draft(_, bytes) => bytes,
            Content::Merged(update) => encode(update.name(), None, &update),
        }
    }

    /// Merges `next` into this frame if both are drafts of one message; returns whether it did.
    pub(super) fn merge(&mut self, next: &Self) -> bool {
        let (Some(mine), Some(later)) = (self.draft(), next.draft()) else { return false };
        if !same_message(mine, later) {
            return false;
        }
        if let Content::Draft(published, _) = &self.content {
            self.content = Content::Merged(Box::new(Update::clone(published)));
        }
        let Content::Merged(update) = &mut self.content else { return false };
        merge(update, later)
    }

    fn draft(&self) -> Option<&Update> {
        match &self.content {
            Content::Complete(_) => None,
            Content::Draft(published, _) => Some(published),
            Content::Merged(update) => Some(update),
        }
    }
}

/// Approximate size of an encoded draft without its text, in bytes.
const DRAFT_OVERHEAD: usize = 256;

fn draft(update: &Update) -> Option<(MessageId, &str, u64)> {
    match update {
        Update::Draft { message, delta, chars, .. } | Update::ToolInput { message, delta, chars, .. } => {
            Some((*message, delta, *chars))
        }
        _ => None,
    }
}

/// Whether the update is a piece of a message that is being written.
pub(super) fn is_draft(update: &Update) -> bool {
    draft(update).is_some()
}

fn same_message(update: &Update, later: &Update) -> bool {
    matches!((draft(update), draft(later)), (Some((one, ..)), Some((other, ..))) if one == other)
}

/// Merges `later` into `update` if both are drafts of one message; returns whether it did.
pub(super) fn merge(update: &mut Update, later: &Update) -> bool {
    if !same_message(update, later) {
        return false;
    }
    if let (
        Update::Draft { delta: all, chars: count, .. } | Update::ToolInput { delta: all, chars: count, .. },
        Some((_, delta, chars)),
    ) = (update, draft(later))
    {
        all.push_str(delta);
        *count = chars;
    }
    true
}

/// The part of a draft that is new to a client which has the first `known` characters of the message. `None` if all
/// of the draft is new.
pub(super) fn unseen_part(update: &Update, known: u64) -> Option<Update> {
    let (_, delta, chars) = draft(update)?;
    let before = chars.saturating_sub(delta.chars().count() as u64);
    let overlap = usize::try_from(known.checked_sub(before)?).ok().filter(|overlap| *overlap > 0)?;
    let rest: String = delta.chars().skip(overlap).collect();
    let mut update = update.clone();
    if let Update::Draft { delta, .. } | Update::ToolInput { delta, .. } = &mut update {
        *delta = rest;
    }
    Some(update)
}

/// An update without id as bytes; it is encoded once for all clients.
pub(super) fn encode_shared(published: &Arc<Published>) -> Bytes {
    published.encoded(|update| encode(update.name(), None, update))
}

/// One event as bytes.
pub(super) fn encode(name: &str, id: Option<u64>, data: &impl Serialize) -> Bytes {
    // These types always serialise. JSON escapes line ends, so the data is one line.
    let data = serde_json::to_string(data).expect("an update serialises");
    let id_line = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Bytes::from(format!("{id_line}event: {name}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::id::{AgentId, SpaceId};
    use uuid::Uuid;

    fn draft_update(message: u128, delta: &str, chars: u64) -> Arc<Published> {
        let (space, agent) = (SpaceId(Uuid::nil()), AgentId(Uuid::nil()));
        let (message, delta) = (MessageId(Uuid::from_u128(message)), delta.to_owned());
        Arc::new(Published::new(Arc::new(Update::Draft { space, message, agent, delta, chars }), 1))
    }

    #[test]
    fn text_cannot_break_out_of_its_frame() {
        let bytes = Frame::new("draft", Some(3), &"a\n\nevent: forged\r", false).into_bytes();
        let text = std::str::from_utf8(&bytes).unwrap();
        assert_eq!(text, "id: 3\nevent: draft\ndata: \"a\\n\\nevent: forged\\r\"\n\n");
    }

    #[test]
    fn only_drafts_of_the_same_message_are_merged() {
        let shared = |published: &Arc<Published>| Frame::shared(published, encode_shared(published), None);
        let mut frame = shared(&draft_update(1, "Sal", 3));
        assert!(frame.merge(&shared(&draft_update(1, "a", 4))));
        assert!(frame.merge(&shared(&draft_update(1, "m", 5))));
        assert!(!frame.merge(&shared(&draft_update(2, "x", 1))), "another message");
        assert!(!frame.merge(&Frame::new("message", Some(1), &"x", false)));
        assert!(!Frame::new("message", Some(1), &"x", false).merge(&frame));
        let alone = shared(&draft_update(1, "Salam", 5));
        assert_eq!(frame.into_bytes(), alone.into_bytes());
    }

    #[test]
    fn an_update_is_encoded_once_for_all_clients() {
        let published = draft_update(1, "Sal", 3);
        let [one, other] = [encode_shared(&published), encode_shared(&published)];
        assert_eq!(one.as_ptr(), other.as_ptr());
    }

    #[test]
    fn a_client_with_the_beginning_of_a_draft_is_sent_only_the_rest() {
        let published = draft_update(1, "lām 😀", 7);
        let rest = |known| {
            unseen_part(&published, known).map(|update| Frame::new("draft", None, &update, true).into_bytes())
        };
        let sent =
            |delta: &str| Some(Frame::new("draft", None, &**draft_update(1, delta, 7), true).into_bytes());
        assert_eq!(rest(4), sent("m 😀"));
        assert_eq!(rest(7), sent(""));
        assert_eq!((rest(2), rest(1)), (None, None), "all of it is new, or something before it is missing");
    }
}
