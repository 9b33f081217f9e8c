//! The checksum of a message: over its content, sender and time, the same in any store. A message whose bytes
//! have changed on disk must not be shown as if it had been sent like that. Log entries have a checksum too
//! (`entries`); other rows have none.

use agent::event::Principal;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use uuid::Uuid;

use super::rows::principal_columns;
use crate::sqlite::engine::fault::Outcome;

/// The number of columns of [`message_is_intact`]: those in the checksum, which are all that people and agents
/// read of a message (`uuid, kind, at`, the sender's `uuid`, `mentions, text, data`), then its `crc`.
pub(crate) const COLUMNS: usize = 8;
/// Shown instead of the text of a message whose checksum does not match.
pub(crate) const UNREADABLE: &str = "(this message cannot be read: its record is damaged)";

/// The parts of a message that its checksum covers.
pub(crate) struct SummedMessage<'a> {
    pub(crate) id: Uuid,
    /// 0 text, 1 tool.
    pub(crate) kind: i64,
    pub(crate) at: i64,
    pub(crate) sender: Uuid,
    pub(crate) mentions: Option<&'a [u8]>,
    pub(crate) text: &'a str,
    pub(crate) data: Option<&'a str>,
}

impl SummedMessage<'_> {
    /// The checksum of the message.
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

/// A hash of a sender, by which the inbox finds its events. Two senders may have the same.
pub(crate) fn sender_hash(principal: &Principal) -> i64 {
    let (kind, principal) = principal_columns(principal);
    sum([ValueRef::Integer(kind), ValueRef::from(&principal)])
}

/// Sums each column with its type and length, so that moving bytes between columns changes the sum.
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

/// Whether the checksum of a message matches. Its [`COLUMNS`] begin at `at`.
pub(crate) fn message_is_intact(row: &Row<'_>, at: usize) -> Outcome<bool> {
    let columns = (at..at + COLUMNS - 1).map(|at| row.get_ref(at)).collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(row.get::<_, i64>(at + COLUMNS - 1)? == sum(columns))
}

/// The text of a message from the column `text`, or [`UNREADABLE`] if its checksum does not match.
pub(crate) fn text_at(row: &Row<'_>, text: usize, at: usize) -> Outcome<String> {
    Ok(if message_is_intact(row, at)? { row.get(text)? } else { UNREADABLE.to_owned() })
}
