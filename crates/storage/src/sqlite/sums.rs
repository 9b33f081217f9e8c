//! Checksums of events, messages, calls and memories: over what they are, never over what becomes of them.
//! Bytes that have changed by themselves must not be read as if somebody had said so.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row, params_from_iter};
use uuid::Uuid;

use super::fault::{Outcome, damaged};

/// The columns of an event that never change, in the order in which they are summed.
pub(super) const LASTING: &str = "seq, id, kind, urgent, at, principal_kind, principal, channel, trust, root, hop, \
    space, from_seq, data, cites";

/// How many these are.
pub(super) const COUNT: usize = 15;

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

/// A table whose rows are given their checksums: its key, and what is summed of it.
struct Filled {
    table: &'static str,
    key: &'static [&'static str],
    lasting: &'static str,
    into: &'static str,
    /// Which rows have one.
    which: &'static str,
}

/// Gives each event of an older version its checksum.
pub(super) fn fill_events(db: &Connection) -> rusqlite::Result<()> {
    fill(db, &Filled { table: "event", key: &["agent", "seq"], lasting: LASTING, into: "crc", which: "1" })
}

/// The same for messages, calls and memories.
pub(super) fn fill_others(db: &Connection) -> rusqlite::Result<()> {
    let words = "uuid, kind, at, sender, mentions, text, data";
    let asked = "id, tool, effect, tool_version, schema_hash, arguments";
    let note = &["agent", "key", "from_commit"];
    let tables = [
        Filled { table: "message", key: &["space", "seq"], lasting: words, into: "crc", which: "1" },
        Filled { table: "call", key: &["id"], lasting: asked, into: "crc", which: "1" },
        Filled {
            table: "call",
            key: &["id"],
            lasting: "id, outcome",
            into: "outcome_crc",
            which: "outcome IS NOT NULL",
        },
        Filled { table: "memory", key: note, lasting: "key, at, value", into: "crc", which: "1" },
    ];
    tables.iter().try_for_each(|filled| fill(db, filled))
}

/// A page of rows at a time.
fn fill(db: &Connection, filled: &Filled) -> rusqlite::Result<()> {
    const PAGE: usize = 4_096;
    let Filled { table, key, lasting, into, which } = filled;
    let (keys, blanks) = (key.join(", "), vec!["?"; key.len()].join(", "));
    let from = |after: &str| {
        format!("SELECT {keys}, {lasting} FROM {table} WHERE {which} {after} ORDER BY {keys} LIMIT {PAGE}")
    };
    let (mut first, mut next) =
        (db.prepare(&from(""))?, db.prepare(&from(&format!("AND ({keys}) > ({blanks})")))?);
    let named: Vec<String> = key.iter().map(|name| format!("{name} = ?")).collect();
    let mut write = db.prepare(&format!("UPDATE {table} SET {into} = ? WHERE {}", named.join(" AND ")))?;
    let mut last: Option<Vec<Value>> = None;
    loop {
        let mut page: Vec<(Vec<Value>, u32)> = Vec::with_capacity(PAGE);
        let mut rows = match &last {
            None => first.query([])?,
            Some(last) => next.query(params_from_iter(last))?,
        };
        while let Some(row) = rows.next()? {
            let whose = (0..key.len()).map(|at| row.get(at)).collect::<rusqlite::Result<_>>()?;
            let summed = (key.len()..row.as_ref().column_count())
                .map(|at| row.get_ref(at))
                .collect::<rusqlite::Result<Vec<_>>>()?;
            page.push((whose, sum(summed)));
        }
        drop(rows);
        let Some((whose, _)) = page.last() else { return Ok(()) };
        last = Some(whose.clone());
        for (whose, crc) in page {
            write.execute(params_from_iter(std::iter::once(Value::from(i64::from(crc))).chain(whose)))?;
        }
    }
}
