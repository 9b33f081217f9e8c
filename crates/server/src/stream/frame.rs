//! One event as it goes onto the wire. Drafts that follow on each other become one frame as long as
//! nobody has taken it. Must not know buffers.

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
    /// The `id:` line, where it has one.
    pub(super) id: Option<u64>,
    /// May be dropped.
    pub(super) transient: bool,
}

#[derive(Clone, Debug)]
enum Content {
    /// Nothing comes to it any more.
    Whole(Bytes),
    /// A draft as it was told; its bytes are shared by all who are sent it.
    Draft(Arc<Published>, Bytes),
    /// Several drafts of one message as one, encoded when it is taken.
    Gathered(Box<Update>),
}

impl Frame {
    /// An event of that name.
    pub(super) fn new(name: &str, id: Option<u64>, data: &impl Serialize, transient: bool) -> Self {
        Self { content: Content::Whole(encode(name, id, data)), id, transient }
    }

    /// An update that every client is shown the same way: encoded once for all of them.
    pub(super) fn shared(published: &Arc<Published>, id: Option<u64>) -> Self {
        let bytes = published.encoded(|update| encode(update.name(), None, update));
        let content = match id {
            Some(id) => Content::Whole([format!("id: {id}\n").as_bytes(), &bytes].concat().into()),
            None if draft(published).is_some() => Content::Draft(Arc::clone(published), bytes),
            None => Content::Whole(bytes),
        };
        Self { content, id, transient: published.is_transient() }
    }

    /// These very bytes.
    pub(super) fn bare(bytes: Bytes, id: Option<u64>, transient: bool) -> Self {
        Self { content: Content::Whole(bytes), id, transient }
    }

    /// A sign of life.
    pub(super) fn ping() -> Self {
        Self::bare(Bytes::from_static(b": ping\n\n"), None, true)
    }

    /// What it weighs in a buffer.
    pub(super) fn size(&self) -> usize {
        match &self.content {
            Content::Whole(bytes) | Content::Draft(_, bytes) => bytes.len(),
            Content::Gathered(update) => draft(update).map_or(0, |(_, delta, _)| delta.len()) + FRAMING,
        }
    }

    /// Its bytes.
    pub(super) fn into_bytes(self) -> Bytes {
        match self.content {
            Content::Whole(bytes) | Content::Draft(_, bytes) => bytes,
            Content::Gathered(update) => encode(update.name(), None, &update),
        }
    }

    /// Takes `next` in, where both are drafts of one message.
    pub(super) fn absorb(&mut self, next: &Self) -> bool {
        let (Some(mine), Some(later)) = (self.draft(), next.draft()) else { return false };
        if !follows(mine, later) {
            return false;
        }
        if let Content::Draft(published, _) = &self.content {
            self.content = Content::Gathered(Box::new(Update::clone(published)));
        }
        let Content::Gathered(update) = &mut self.content else { return false };
        absorb(update, later)
    }

    fn draft(&self) -> Option<&Update> {
        match &self.content {
            Content::Whole(_) => None,
            Content::Draft(published, _) => Some(published),
            Content::Gathered(update) => Some(update),
        }
    }
}

/// About what a draft weighs in addition to its text.
const FRAMING: usize = 256;

fn draft(update: &Update) -> Option<(MessageId, &str, u64)> {
    match update {
        Update::Draft { message, delta, chars, .. } | Update::ToolInput { message, delta, chars, .. } => {
            Some((*message, delta, *chars))
        }
        _ => None,
    }
}

/// Whether it is a piece of what is being written.
pub(super) fn is_draft(update: &Update) -> bool {
    draft(update).is_some()
}

fn follows(update: &Update, later: &Update) -> bool {
    matches!((draft(update), draft(later)), (Some((one, ..)), Some((other, ..))) if one == other)
}

/// Takes `later` in, where both are drafts of one message.
pub(super) fn absorb(update: &mut Update, later: &Update) -> bool {
    if !follows(update, later) {
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

/// What of a draft is new to a client that has its first `known` characters; `None` if all of it is.
pub(super) fn behind(update: &Update, known: u64) -> Option<Update> {
    let (_, delta, chars) = draft(update)?;
    let before = chars.saturating_sub(delta.chars().count() as u64);
    let twice = usize::try_from(known.checked_sub(before)?).ok().filter(|twice| *twice > 0)?;
    let rest: String = delta.chars().skip(twice).collect();
    let mut update = update.clone();
    if let Update::Draft { delta, .. } | Update::ToolInput { delta, .. } = &mut update {
        *delta = rest;
    }
    Some(update)
}

fn encode(name: &str, id: Option<u64>, data: &impl Serialize) -> Bytes {
    // Closed types of ours with string keys only: they serialise. JSON escapes line ends.
    let data = serde_json::to_string(data).expect("an update serialises");
    let id_line = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Bytes::from(format!("{id_line}event: {name}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::id::{AgentId, SpaceId};
    use uuid::Uuid;

    fn growing(message: u128, delta: &str, chars: u64) -> Arc<Published> {
        let (space, agent) = (SpaceId(Uuid::nil()), AgentId(Uuid::nil()));
        let (message, delta) = (MessageId(Uuid::from_u128(message)), delta.to_owned());
        Arc::new(Published::new(Arc::new(Update::Draft { space, message, agent, delta, chars }), 1))
    }

    #[test]
    fn a_frame_is_one_event_whatever_the_text_contains() {
        let bytes = Frame::new("draft", Some(3), &"a\n\nevent: forged\r", false).into_bytes();
        let text = std::str::from_utf8(&bytes).unwrap();
        assert_eq!(text, "id: 3\nevent: draft\ndata: \"a\\n\\nevent: forged\\r\"\n\n");
    }

    #[test]
    fn drafts_of_one_message_become_one_and_nothing_else_does() {
        let mut frame = Frame::shared(&growing(1, "Sal", 3), None);
        assert!(frame.absorb(&Frame::shared(&growing(1, "a", 4), None)));
        assert!(frame.absorb(&Frame::shared(&growing(1, "m", 5), None)));
        assert!(!frame.absorb(&Frame::shared(&growing(2, "x", 1), None)), "another message");
        assert!(!frame.absorb(&Frame::new("message", Some(1), &"x", false)));
        assert!(!Frame::new("message", Some(1), &"x", false).absorb(&frame));
        let alone = Frame::shared(&growing(1, "Salam", 5), None);
        assert_eq!(frame.into_bytes(), alone.into_bytes());
    }

    #[test]
    fn an_update_is_encoded_once_for_all() {
        let published = growing(1, "Sal", 3);
        let [one, other] = [Frame::shared(&published, None), Frame::shared(&published, None)];
        assert_eq!(one.into_bytes().as_ptr(), other.into_bytes().as_ptr());
    }

    #[test]
    fn whoever_has_the_beginning_of_a_draft_is_sent_the_rest_of_it() {
        let published = growing(1, "lām 😀", 7);
        let rest = |known| {
            behind(&published, known).map(|update| Frame::new("draft", None, &update, true).into_bytes())
        };
        let sent = |delta: &str| Some(Frame::new("draft", None, &**growing(1, delta, 7), true).into_bytes());
        assert_eq!(rest(4), sent("m 😀"));
        assert_eq!(rest(7), sent(""));
        assert_eq!((rest(2), rest(1)), (None, None), "all of it is news, or more than that is missing");
    }
}
