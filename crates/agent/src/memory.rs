//! The agent's memories: notes by key, how important each one is, and how many may be pinned.
//!
//! Must not know tools or stores; both call this module.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::changes::MemoryChange;
use crate::event::Trust;
use crate::limits;
use crate::quote;

/// Bytes of a pinned memory in the workspace in addition to its quoted key and value.
const FRAME_BYTES: usize = 14;

names! {
    /// How important a memory is. Where there is no room for all, the more important ones are shown.
    #[derive(Default, PartialOrd, Ord)]
    pub enum Importance {
        /// It is left out first.
        Low,
        /// The default.
        #[default]
        Normal,
        /// It is shown before the others.
        High,
    }
}

/// A note that the agent keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What it is about.
    pub key: String,
    /// The note.
    pub value: String,
    /// How important it is.
    pub importance: Importance,
    /// Whether it is shown in every cycle, however little room there is.
    pub pinned: bool,
    /// When it was written last.
    pub updated_at: Timestamp,
    /// When it was written, or found by the agent's own `recall`, whichever was later. Being shown is no use: that would
    /// be one write more for every activation.
    pub used_at: Timestamp,
    /// The lowest trust of what the cycle that wrote it had read; the highest if an operator wrote it.
    pub trust: Trust,
}

/// Bytes of a pinned memory in the workspace.
pub fn shown_bytes(key: &str, value: &str) -> usize {
    quote::size(key) + quote::size(value) + FRAME_BYTES
}

/// Why a change of memories is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMemories {
    /// More than [`limits::MEMORIES_MAX`].
    #[error(
        "wanted at most {max} notes in all, these would make {0}; use delete_memories or put several facts into one note",
        max = limits::MEMORIES_MAX
    )]
    TooMany(usize),
    /// More than [`limits::PINNED_MEMORIES_MAX`] are pinned.
    #[error("wanted at most {max} pinned notes, these would make {0}; unpin others first", max = limits::PINNED_MEMORIES_MAX)]
    TooManyPinned(usize),
    /// The pinned ones take more than [`limits::PINNED_MEMORIES_MAX_BYTES`].
    #[error(
        "wanted pinned notes of at most {max} bytes in all, these would make {0}; unpin others first, or shorten them",
        max = limits::PINNED_MEMORIES_MAX_BYTES
    )]
    PinnedTooLong(usize),
}

/// The keys after these changes, each with the bytes that its note takes in any case because it is pinned.
pub fn after<'a>(
    memories: &'a [Memory],
    changes: impl IntoIterator<Item = &'a MemoryChange>,
) -> BTreeMap<&'a str, Option<usize>> {
    let now = |memory: &'a Memory| {
        let pinned = memory.pinned.then(|| shown_bytes(&memory.key, &memory.value));
        (memory.key.as_str(), pinned)
    };
    let mut all: BTreeMap<_, _> = memories.iter().map(now).collect();
    for change in changes {
        match change {
            MemoryChange::Set { key, value, pinned, .. } => {
                let was_pinned = all.get(key.as_str()).is_some_and(Option::is_some);
                all.insert(key, pinned.unwrap_or(was_pinned).then(|| shown_bytes(key, value)));
            }
            MemoryChange::Delete { key } => drop(all.remove(key.as_str())),
            // Only operators mark memories: `registry::change_memory` knows the note.
            MemoryChange::Mark { .. } | MemoryChange::Used { .. } => {}
        }
    }
    all
}

/// Checks the number of memories, and that the pinned ones always have room.
pub fn check(after: &BTreeMap<&str, Option<usize>>) -> Result<(), BadMemories> {
    if after.len() > limits::MEMORIES_MAX {
        return Err(BadMemories::TooMany(after.len()));
    }
    let (count, bytes) = after.values().flatten().fold((0, 0), |(n, sum), bytes| (n + 1, sum + bytes));
    match (count > limits::PINNED_MEMORIES_MAX, bytes > limits::PINNED_MEMORIES_MAX_BYTES) {
        (true, _) => Err(BadMemories::TooManyPinned(count)),
        (false, true) => Err(BadMemories::PinnedTooLong(bytes)),
        (false, false) => Ok(()),
    }
}

/// What is wrong with the key or the value of a memory, if anything is.
pub fn flaw(key: &str, value: &str) -> Option<String> {
    let (most, longest) = (limits::MEMORY_KEY_MAX_BYTES, limits::MEMORY_VALUE_MAX_BYTES);
    let shown = || quote::beginning(&quote::one_line(key));
    if key.is_empty() {
        Some("wanted a key with something in it, got only white space".to_owned())
    } else if key.len() > most {
        Some(format!("wanted a key of at most {most} bytes, got {} in `{}`", key.len(), shown()))
    } else if key.contains(char::is_control) {
        Some(format!("wanted a key on one line, without control characters, got `{}`", shown()))
    } else if value.len() > longest {
        Some(format!("wanted a value of at most {longest} bytes, got {} under `{}`", value.len(), shown()))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(key: &str, pinned: bool) -> Memory {
        let (importance, at) = (Importance::Normal, Timestamp::UNIX_EPOCH);
        let (updated_at, used_at, trust) = (at, at, Trust::Operator);
        Memory { key: key.into(), value: "v".into(), importance, pinned, updated_at, used_at, trust }
    }

    fn pin(key: &str, value: &str, pinned: Option<bool>) -> MemoryChange {
        MemoryChange::Set { key: key.into(), value: value.into(), importance: None, pinned, trust: None }
    }

    #[test]
    fn a_pin_stays_until_it_is_taken_away_or_the_note_is_deleted() {
        let memories = [memory("a", true), memory("b", true), memory("c", false)];
        let delete = MemoryChange::Delete { key: "b".into() };
        let changes = [pin("a", "longer", None), delete, pin("b", "anew", None), pin("c", "v", Some(true))];
        let pinned: Vec<_> = after(&memories, &changes).into_iter().collect();
        let bytes = |key, value| Some(shown_bytes(key, value));
        assert_eq!(pinned, [("a", bytes("a", "longer")), ("b", None), ("c", bytes("c", "v"))]);
        assert_eq!(after(&memories, &[pin("a", "v", Some(false))])["a"], None);
        let used = MemoryChange::Used { key: "gone".into() };
        assert_eq!(after(&memories, &[used]).len(), 3, "a use creates no note");
    }

    #[test]
    fn pinned_notes_are_limited_in_number_and_bytes_and_all_notes_in_number() {
        let many: Vec<_> = (0..=limits::PINNED_MEMORIES_MAX).map(|n| memory(&n.to_string(), true)).collect();
        let checked = |memories: &[Memory]| check(&after(memories, &[]));
        assert_eq!(checked(&many), Err(BadMemories::TooManyPinned(65)));
        assert_eq!(checked(&many[1..]), Ok(()));
        // What counts is the note as it is shown: an escape takes more than the character.
        let (lines, letters) = ("\n".repeat(3_000), "n".repeat(3_000));
        assert_eq!(check(&after(&[], &[pin("k", &letters, Some(true))])), Ok(()));
        let refused = check(&after(&[], &[pin("k", &lines, Some(true))])).unwrap_err();
        assert_eq!(refused, BadMemories::PinnedTooLong(6_019));
        assert!(
            refused.to_string().contains("at most 4096 bytes in all, these would make 6019"),
            "{refused}"
        );
        let all: Vec<_> = (0..=limits::MEMORIES_MAX).map(|n| memory(&n.to_string(), false)).collect();
        assert_eq!((checked(&all), checked(&all[1..])), (Err(BadMemories::TooMany(501)), Ok(())));
    }

    #[test]
    fn keys_are_one_line_and_keys_and_values_are_limited() {
        let (key, value) = ("k".repeat(121), "v".repeat(1024 * 1024));
        for (key, value, wanted) in [
            ("", "", "something in it"),
            (&*key, "", "at most 120 bytes, got 121"),
            ("two\nlines", "", "without control characters, got `two\\nlines`"),
            ("bell\u{7}", "", "got `bell\\u0007`"),
            ("k", &*value, "at most 8192 bytes, got 1048576 under `k`"),
        ] {
            let flaw = flaw(key, value).unwrap();
            assert!(flaw.contains(wanted) && flaw.len() < 300, "{flaw}");
        }
        assert_eq!(flaw("شاي: أخضر", "line\nline"), None);
    }
}
