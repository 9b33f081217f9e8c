//! The checksum of a message: over what was said, by whom and when, as it would be in any store. Words that
//! have changed by themselves must not be read as if somebody had said them. Log entries have one too, over
//! the bytes of what was thought (`entries`); no other row has.

use agent::event::Principal;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use uuid::Uuid;

use super::rows::principal_columns;
use crate::sqlite::engine::fault::Outcome;

/// Columns of [`message_is_whole`]: what is summed, which is all that people and agents read of a message
/// (`uuid, kind, at`, the sender's `uuid`, `mentions, text, data`), then its `crc`.
pub(crate) const WORDS: usize = 8;
/// What is shown instead of a message whose bytes have changed by themselves: nobody said those words.
pub(crate) const UNREADABLE: &str = "(what was said here cannot be read: its record is damaged)";

/// A message as it is summed.
pub(crate) struct Words<'a> {
    pub(crate) id: Uuid,
    /// 0 text, 1 tool.
    pub(crate) kind: i64,
    pub(crate) at: i64,
    /// Who said it.
    pub(crate) sender: Uuid,
    pub(crate) mentions: Option<&'a [u8]>,
    pub(crate) text: &'a str,
    pub(crate) data: Option<&'a str>,
}

impl Words<'_> {
    /// The checksum of these.
    pub(crate) fn sum(&self) -> i64 {
        let columns = [
            ValueRef::Blob(self.id.as_bytes()),
            ValueRef::Integer(self.kind),
            ValueRef::Integer(self.at),
            ValueRef::Blob(self.sender.as_bytes()),
            self.mentions.map_or(ValueRef::Null, ValueRef::Blob),
            ValueRef::Text(self.text.as_bytes()),
            self.data.map_or(ValueRef::Null, |data| ValueRef::Text(data.as_bytes())),
        ];
        sum(columns)
    }
}

/// The sender of a message, as the inbox finds it: others may have the same.
pub(crate) fn speaker(principal: &Principal) -> i64 {
    let (kind, principal) = principal_columns(principal);
    sum([ValueRef::Integer(kind), ValueRef::from(&principal)])
}

/// Each column with its type and length, so that nothing can move from one into another.
fn sum<'a>(columns: impl IntoIterator<Item = ValueRef<'a>>) -> i64 {
    let mut hasher = crc32fast::Hasher::new();
    let mut add = |tag: u8, bytes: &[u8]| {
        hasher.update(&[tag]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    for column in columns {
        match column {
            ValueRef::Null => add(0, &[]),
            ValueRef::Integer(number) => add(1, &number.to_le_bytes()),
            ValueRef::Real(number) => add(2, &number.to_le_bytes()),
            ValueRef::Text(text) => add(3, text),
            ValueRef::Blob(bytes) => add(4, bytes),
        }
    }
    hasher.finalize().into()
}

/// Whether a message, with its [`WORDS`] columns from that one on, is what was written.
pub(crate) fn message_is_whole(row: &Row<'_>, at: usize) -> Outcome<bool> {
    let columns = (at..at + WORDS - 1).map(|at| row.get_ref(at)).collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(row.get::<_, i64>(at + WORDS - 1)? == sum(columns))
}

/// The words of a message that stand in a column, as long as it is whole.
pub(crate) fn words_at(row: &Row<'_>, text: usize, at: usize) -> Outcome<String> {
    Ok(if message_is_whole(row, at)? { row.get(text)? } else { UNREADABLE.to_owned() })
}
