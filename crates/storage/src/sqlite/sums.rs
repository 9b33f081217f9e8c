//! Checksums of events, messages, calls and memories: over what they are, never over what becomes of them.
//! Bytes that have changed by themselves must not be read as if somebody had said so.

use rusqlite::Row;
use rusqlite::types::{Value, ValueRef};
use uuid::Uuid;

use super::fault::{Outcome, damaged};

/// The columns of an event that never change, in the order in which they are summed.
pub(super) const LASTING: &str = "seq, id, kind, urgent, at, principal_kind, principal, channel, trust, root, hop, \
    space, from_seq, to_seq, data, cites";

/// How many these are.
pub(super) const COUNT: usize = 16;

/// The checksum of those columns.
pub(super) fn sum<'a>(columns: impl IntoIterator<Item = ValueRef<'a>>) -> u32 {
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
    hasher.finalize()
}

/// The same of values that are about to be written.
pub(super) fn sum_of(columns: &[Value]) -> u32 {
    sum(columns.iter().map(ValueRef::from))
}

/// Holds the columns against the checksum that stands beside them.
pub(super) fn check<'a>(
    seq: i64,
    columns: impl IntoIterator<Item = ValueRef<'a>>,
    crc: Option<i64>,
) -> Outcome<()> {
    if crc == Some(i64::from(sum(columns))) {
        return Ok(());
    }
    Err(damaged(format!("event {seq}: its checksum does not match")))
}

/// Columns of [`message_is_whole`]: `crc`, then what is summed, which is all that people and agents read of a
/// message: `uuid, kind, at, sender, mentions, text, data`.
pub(super) const MESSAGE_COLUMNS: usize = 8;
/// What is shown instead of a message whose bytes have changed by themselves: nobody said those words.
pub(super) const UNREADABLE: &str = "(what was said here cannot be read: its record is damaged)";

/// A message as it is summed.
pub(super) struct Words<'a> {
    pub(super) id: Uuid,
    /// 0 text, 1 tool.
    pub(super) kind: i64,
    pub(super) at: i64,
    /// The row of who said it.
    pub(super) sender: i64,
    pub(super) mentions: Option<&'a [u8]>,
    pub(super) text: &'a str,
    pub(super) data: Option<&'a str>,
}

impl Words<'_> {
    /// The checksum of these.
    pub(super) fn sum(&self) -> i64 {
        let id = self.id.into_bytes();
        let columns = [
            ValueRef::Blob(&id),
            ValueRef::Integer(self.kind),
            ValueRef::Integer(self.at),
            ValueRef::Integer(self.sender),
            self.mentions.map_or(ValueRef::Null, ValueRef::Blob),
            ValueRef::Text(self.text.as_bytes()),
            self.data.map_or(ValueRef::Null, |data| ValueRef::Text(data.as_bytes())),
        ];
        sum(columns).into()
    }
}

/// Whether a message, with its [`MESSAGE_COLUMNS`] from that column on, is what was written.
pub(super) fn message_is_whole(row: &Row<'_>, at: usize) -> Outcome<bool> {
    let columns =
        (at + 1..at + MESSAGE_COLUMNS).map(|at| row.get_ref(at)).collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(row.get::<_, Option<i64>>(at)? == Some(i64::from(sum(columns))))
}

/// The words of a message that stand in a column, as long as it is whole.
pub(super) fn words_at(row: &Row<'_>, text: usize, at: usize) -> Outcome<String> {
    Ok(if message_is_whole(row, at)? { row.get(text)? } else { UNREADABLE.to_owned() })
}

/// The checksum of what a call asks for: its id, tool, effect, version, schema and arguments.
pub(super) fn call(columns: [&str; 6]) -> i64 {
    sum(columns.map(|text| ValueRef::Text(text.as_bytes()))).into()
}

/// The checksum of what a call came to.
pub(super) fn outcome(id: &str, outcome: &str) -> i64 {
    sum([id, outcome].map(|text| ValueRef::Text(text.as_bytes()))).into()
}

/// Holds an outcome against its checksum; where there is none, there must be none of either.
pub(super) fn check_outcome(id: &str, kept: Option<&str>, crc: Option<i64>) -> Outcome<()> {
    if kept.map(|kept| outcome(id, kept)) == crc {
        return Ok(());
    }
    Err(damaged(format!("call {id}: the checksum of its outcome does not match")))
}

/// The checksum of a memory.
pub(super) fn memory(key: &str, at: i64, value: &str) -> i64 {
    let columns = [ValueRef::Text(key.as_bytes()), ValueRef::Integer(at), ValueRef::Text(value.as_bytes())];
    sum(columns).into()
}

/// Holds a memory against its checksum.
pub(super) fn check_memory(key: &str, at: i64, value: &str, crc: Option<i64>) -> Outcome<()> {
    if crc == Some(memory(key, at, value)) {
        return Ok(());
    }
    Err(damaged(format!("memory `{key}`: its checksum does not match")))
}
