//! The request to a model: the system layer, the tools, and the transcript with its volatile layers in place. This
//! crate never sees a vendor's bytes.
//!
//! Within a cycle each prompt strictly extends the one before (invariant 7): nothing here edits or removes what was
//! sent, it only appends.

use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::entry::{Entry, EntryKind};
use crate::id::{ContentRef, CycleId};
use crate::limits;
use crate::tool::ToolSpec;

/// One element of the transcript.
#[derive(Clone, Debug)]
pub enum Item {
    /// An entry of the log. The last one may be the entry that the next decision will append.
    Entry(Arc<Entry>),
    /// Text that is shown and not kept in the log: the workspace, a summary. Sent with the user's role.
    Layer(Arc<str>),
}

/// Whether the model may, must or must not call tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// It may.
    #[default]
    Auto,
    /// It must; used only where the vendor allows it.
    Required,
    /// It must not.
    None,
}

/// A complete request, independent of the vendor's format.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Identity, rules and instructions; the bytes do not change.
    pub system: Arc<str>,
    /// All tools of the agent, in a stable order; constant within a view.
    pub tools: Arc<[ToolSpec]>,
    /// The transcript, oldest first.
    pub items: Vec<Item>,
    /// Whether tools may be called.
    pub choice: ToolChoice,
    /// The cycle in progress; reasoning of earlier cycles is not sent unless the model requires it.
    pub cycle: CycleId,
    /// Reasoning of entries below this seq is never sent.
    pub reasoning_from: u64,
    /// Its tokens by the estimate; 0 if nobody counted them.
    pub tokens: u64,
    /// The revision of the view that it shows.
    pub view: u64,
}

impl Prompt {
    /// A hash of what is sent: two requests to one model with the same hash have the same content. An entry of an
    /// agent's log never changes, so its seq stands for it.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        let mut text = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        text(&self.system);
        // One buffer for all: a long history is hashed in each step.
        let mut word = String::new();
        for item in &self.items {
            match item {
                // Examples are no entries of the log.
                Item::Entry(entry) if entry.seq == 0 => text(&entry.message.countable()),
                Item::Entry(entry) => {
                    word.clear();
                    // Writing to a text never fails.
                    let _ = write!(word, "entry {}", entry.seq);
                    text(&word);
                }
                Item::Layer(layer) => text(layer),
            }
        }
        for tool in self.tools.iter() {
            hash.update(tool.hash());
        }
        hash.update(self.reasoning_from.to_le_bytes());
        ContentRef::of(&hash.finalize()).0[..16].to_owned()
    }

    /// What it shows, part by part.
    pub fn parts(&self) -> PromptParts {
        let mut tools = DefaultHasher::new();
        self.tools.iter().for_each(|tool| tool.hash().hash(&mut tools));
        PromptParts {
            system: hash_of(&self.system),
            tools: tools.finish(),
            parts: self.items.iter().map(PromptPart::of).collect(),
        }
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// What a request showed: what is kept of it to find out whether the next one extends it. Entries are those of the history in
/// memory, of texts there is a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptParts {
    system: u64,
    tools: u64,
    parts: Vec<PromptPart>,
}

#[derive(Clone, Debug)]
enum PromptPart {
    Entry(Arc<Entry>),
    Layer {
        /// Its first line.
        title: Arc<str>,
        hash: u64,
    },
}

impl PromptPart {
    fn of(item: &Item) -> Self {
        match item {
            Item::Entry(entry) => Self::Entry(Arc::clone(entry)),
            Item::Layer(text) => {
                let title: String =
                    text.lines().next().unwrap_or_default().chars().take(limits::PREVIEW_CHARS).collect();
                Self::Layer { title: title.into(), hash: hash_of(text) }
            }
        }
    }

    fn is_inbox(&self) -> bool {
        matches!(self, Self::Entry(entry) if entry.kind == EntryKind::Inbox && entry.seq > 0)
    }
}

impl PartialEq for PromptPart {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            // Mostly the same value in memory.
            (Self::Entry(one), Self::Entry(other)) => {
                Arc::ptr_eq(one, other) || (one.seq == other.seq && one.message == other.message)
            }
            (Self::Layer { hash: one, .. }, Self::Layer { hash: other, .. }) => one == other,
            _ => false,
        }
    }
}

impl Eq for PromptPart {}

impl fmt::Display for PromptPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(entry) => write!(f, "entry {} ({})", entry.seq, entry.kind.as_str()),
            Self::Layer { title, .. } => write!(f, "the layer `{title}`"),
        }
    }
}

impl PromptParts {
    /// What this request shows differently than the one `before` it, in which case the provider's cache does not serve
    /// what follows. `None` if it extends it.
    pub fn first_difference(&self, before: &Self) -> Option<String> {
        if self.system != before.system {
            return Some("the system text".to_owned());
        }
        if !self.same_tools(before) {
            return Some("the tools".to_owned());
        }
        let differs = |(at, was): &(usize, &PromptPart)| self.parts.get(*at) != Some(was);
        let (at, was) = before.parts.iter().enumerate().find(differs)?;
        Some(format!("{was}, item {at}"))
    }

    /// Whether both have the same tools.
    pub fn same_tools(&self, other: &Self) -> bool {
        self.tools == other.tools
    }

    /// The parts up to the last inbox entry.
    #[must_use]
    pub fn until_inbox(mut self) -> Self {
        let inbox = self.parts.iter().rposition(PromptPart::is_inbox);
        self.parts.truncate(inbox.map_or(0, |at| at + 1));
        self
    }

    /// About how many bytes it takes beside the entries.
    pub fn bytes(&self) -> usize {
        let title = |part: &PromptPart| match part {
            PromptPart::Entry(_) => 0,
            PromptPart::Layer { title, .. } => title.len(),
        };
        self.parts.iter().map(|part| size_of::<PromptPart>() + title(part)).sum()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::message::ModelMessage;

    fn entry(seq: u64, text: &str) -> Item {
        let message = ModelMessage::user(text.to_owned());
        let (cycle, at) = (CycleId(Uuid::nil()), Timestamp::UNIX_EPOCH);
        Item::Entry(Arc::new(Entry {
            seq,
            cycle,
            step: 0,
            kind: EntryKind::Inbox,
            message,
            tokens: 1,
            at,
            trust: crate::event::Trust::Member,
        }))
    }

    fn prompt(system: &str, items: Vec<Item>) -> Prompt {
        let (tools, cycle) = (Arc::from(Vec::new()), CycleId(Uuid::nil()));
        let (choice, reasoning_from, tokens, view) = (ToolChoice::Auto, 0, 0, 0);
        Prompt { system: system.into(), tools, items, choice, cycle, reasoning_from, tokens, view }
    }

    #[test]
    fn the_first_difference_to_the_request_before_is_named() {
        let layer = |text: &str| Item::Layer(text.into());
        let before = prompt("I am", vec![entry(1, "a"), layer("[WORKSPACE]\nx")]);
        let differs = |system, items| prompt(system, items).parts().first_difference(&before.parts());
        let longer = vec![entry(1, "a"), layer("[WORKSPACE]\nx"), entry(2, "b")];
        assert_eq!(differs("I am", longer), None);
        assert_eq!(differs("You are", before.items.clone()).unwrap(), "the system text");
        let other = differs("I am", vec![entry(1, "A"), layer("[WORKSPACE]\nx")]);
        assert_eq!(other.unwrap(), "entry 1 (inbox), item 0");
        for changed in [vec![entry(1, "a")], vec![entry(1, "a"), layer("[WORKSPACE]\ny"), entry(2, "b")]] {
            assert_eq!(differs("I am", changed).unwrap(), "the layer `[WORKSPACE]`, item 1");
        }
        // The next cycle, where workspaces do not stay.
        let next = prompt("I am", vec![entry(1, "a"), entry(2, "b")]).parts();
        assert_eq!(next.first_difference(&before.parts()).unwrap(), "the layer `[WORKSPACE]`, item 1");
        assert_eq!(next.first_difference(&before.parts().until_inbox()), None);
    }

    #[test]
    fn the_fingerprint_changes_with_whatever_is_sent() {
        let of = |system, items| prompt(system, items).fingerprint();
        let base = of("s", vec![entry(1, "a"), Item::Layer("l".into())]);
        assert_eq!(base, of("s", vec![entry(1, "a"), Item::Layer("l".into())]));
        let others = [
            of("t", vec![entry(1, "a"), Item::Layer("l".into())]),
            of("s", vec![entry(2, "a"), Item::Layer("l".into())]),
            of("s", vec![entry(1, "a"), Item::Layer("m".into())]),
            of("s", vec![entry(1, "a")]),
        ];
        assert!(base.len() == 16 && others.iter().all(|other| *other != base));
    }
}
