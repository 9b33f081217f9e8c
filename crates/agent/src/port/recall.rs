//! What an agent finds again in its archive: everything that it processed, wrote and remembers, however long ago, and
//! the messages of its spaces. Each query is scoped to the agent. How texts are searched is up to the store; a query is words, not a language.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::{BoxFuture, StoreError};
use crate::entry::Entry;
use crate::event::Trust;
use crate::id::{AgentId, CycleId, SpaceId};

names! {
    /// Where a text was found.
    pub enum RecallKind {
        /// What the agent was shown: messages and other events.
        Inbox,
        /// What it wrote: its replies, and the arguments of its calls.
        Assistant,
        /// What its calls returned.
        Outcomes,
        /// A memory that it has now.
        Memory,
        /// A message in a space that it is a member of now, whether it processed it or not.
        Message,
    }
}

/// A limit of a search as people and models write it: a time, or a date, of which `from` means the beginning and `to` the
/// end. Without a zone it is in UTC.
pub fn time_limit(name: &str, text: &str) -> Result<Timestamp, String> {
    let text = text.trim();
    let utc = |at: DateTime| at.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp());
    let day = |day: Date| if name == "to" { day.tomorrow().ok() } else { Some(day) };
    let is_day = !text.contains(['T', 't', ' ']);
    let at = match text.parse::<Timestamp>() {
        Ok(at) => Some(at),
        Err(_) if is_day => text.parse().ok().and_then(day).and_then(|day| utc(day.into())),
        Err(_) => text.parse().ok().and_then(utc),
    };
    let shown: String = text.chars().take(crate::limits::PREVIEW_CHARS).collect();
    at.ok_or_else(|| {
        format!(
            "`{name}`: wanted a date such as 2026-11-21 or a time such as 2026-11-21T14:03:05Z, got `{shown}`"
        )
    })
}

/// One of an agent's cycles, as people and models name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleRef {
    /// By its id.
    Id(CycleId),
    /// By the number of its run, counted from 1.
    Number(u64),
}

impl FromStr for CycleRef {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.trim();
        match text.parse() {
            Ok(number) => Ok(Self::Number(number)),
            Err(_) => text.parse().map(Self::Id).map_err(|_| ()),
        }
    }
}

/// What is sought; what is `None` excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecallQuery {
    /// The words, in any script; signs between them mean nothing.
    pub text: String,
    /// Only texts of this time or later.
    pub from: Option<Timestamp>,
    /// Only texts before this time.
    pub to: Option<Timestamp>,
    /// Only messages of this space and texts of cycles about it, by handle or id.
    pub space: Option<String>,
    /// Only texts of this kind.
    pub kind: Option<RecallKind>,
    /// Not what this cycle was shown: the one that asks knows it.
    pub asking: Option<CycleId>,
    /// Number of excerpts, at most [`crate::limits::RECALL_MAX`].
    pub limit: u32,
}

/// A part of a text that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// When the text was written.
    pub at: Timestamp,
    /// Where it was found.
    pub kind: RecallKind,
    /// The cycle that it belongs to; `None` for a memory that an operator wrote, and for a message that the agent has
    /// neither processed nor written.
    pub cycle: Option<CycleId>,
    /// The key of the memory.
    pub key: Option<String>,
    /// The message's space, or the one that the cycle was about; `None` if there is none, or if there are several.
    pub space: Option<SpaceId>,
    /// The handle of that space.
    pub space_handle: Option<String>,
    /// The trust of the message, the entry or the memory.
    pub trust: Option<Trust>,
    /// The part with the words.
    pub text: String,
}

/// The result of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recalled {
    /// The best first.
    pub excerpts: Vec<Excerpt>,
    /// Whether the index is still being built: then older texts may be missing.
    pub building: bool,
    /// Whether the agent is in more than [`crate::limits::RECALL_SPACES`] spaces, so that only messages of those with
    /// the newest ones were searched.
    pub newest_spaces_only: bool,
}

/// Why an archive was not searched.
#[derive(Debug, thiserror::Error)]
pub enum RecallError {
    /// The agent is not a member of the space, and no cycle of it was about the space.
    #[error("wanted a space that the agent is a member of or has processed something of, got `{named}`")]
    NoSuchSpace {
        /// The space of the query.
        named: String,
        /// Handles of spaces that it can search, those with the newest messages first; at most
        /// [`crate::limits::RECALL_SPACES`].
        searchable: Vec<String>,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Searching an agent's archive.
pub trait Recall: Send + Sync {
    /// The best excerpts for a query. A text is found within two seconds after its commit. Of a space that the agent
    /// has left, only what it processed itself is found.
    fn recall(&self, agent: AgentId, query: RecallQuery) -> BoxFuture<'_, Result<Recalled, RecallError>>;
    /// The entries of one of the agent's cycles, oldest first; empty if it has no such cycle.
    fn cycle(&self, agent: AgentId, cycle: CycleRef) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_its_beginning_as_from_and_its_end_as_to_and_other_text_is_refused_with_an_example() {
        let at = |name, text| time_limit(name, text).map(|at| at.to_string());
        for (name, text, wanted) in [
            ("from", "2026-11-25", "2026-11-25T00:00:00Z"),
            ("to", "2026-11-25", "2026-11-26T00:00:00Z"),
            ("from", " 2026-11-25T10:00 ", "2026-11-25T10:00:00Z"),
            ("to", "2026-11-25T10:00", "2026-11-25T10:00:00Z"),
            ("to", "2026-11-25T10:00:00+02:00", "2026-11-25T08:00:00Z"),
        ] {
            assert_eq!(at(name, text), Ok(wanted.to_owned()), "{name} {text}");
        }
        for wrong in ["", "yesterday", "2026-11-31", "25.11.2026", "2026-11-25T", "9999-12-31 25:00"] {
            let refused = at("from", wrong).unwrap_err();
            assert!(refused.starts_with("`from`: wanted a date such as 2026-11-21"), "{wrong}: {refused}");
        }
    }
}
