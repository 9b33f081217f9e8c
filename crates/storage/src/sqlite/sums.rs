//! Checksums of the ledger: over what an event is, never over what becomes of it. An event whose bytes
//! have changed by themselves must not be lived as if somebody had said so.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params};

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
pub(super) fn sum_of(columns: &[Value; COUNT]) -> u32 {
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

/// Gives each event of an older version its checksum, a page of them at a time.
pub(super) fn fill(db: &Connection) -> rusqlite::Result<()> {
    const PAGE: usize = 4_096;
    let read = format!(
        "SELECT agent, {LASTING} FROM event WHERE (agent, seq) > (?, ?) ORDER BY agent, seq LIMIT {PAGE}"
    );
    let (mut read, mut write) =
        (db.prepare(&read)?, db.prepare("UPDATE event SET crc = ? WHERE agent = ? AND seq = ?")?);
    let mut last = (i64::MIN, i64::MIN);
    loop {
        let mut page = Vec::with_capacity(PAGE);
        let mut rows = read.query(last)?;
        while let Some(row) = rows.next()? {
            let columns = (1..=COUNT).map(|at| row.get_ref(at)).collect::<rusqlite::Result<Vec<_>>>()?;
            page.push((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, sum(columns)));
        }
        drop(rows);
        let Some((agent, seq, _)) = page.last() else { return Ok(()) };
        last = (*agent, *seq);
        for (agent, seq, crc) in page {
            write.execute(params![crc, agent, seq])?;
        }
    }
}
