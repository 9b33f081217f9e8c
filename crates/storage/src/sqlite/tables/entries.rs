//! The log of an agent: entries with their checksums, the view over them, and layers (text that was sent to the
//! model in addition to entries).

use std::sync::Arc;

use agent::changes::{Changes, CommitKind};
use agent::entry::{Entry, EntryKind, View};
use agent::event::Trust;
use agent::id::CycleId;
use agent::layer::{Layer, LayerKind, ShownLines};
use agent::limits;
use agent::message::ModelMessage;
use rusqlite::{Connection, Row, params};

use super::rows::{
    all, bytes, code_of, first, from_json, int, ms, run, time_at, to_json, trust_at, u32_at, u64_at, uuid_at,
};
use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::engine::schema::FORMAT;

/// Appends entries to the log; returns its new head.
pub(crate) fn append(db: &Connection, agent: i64, head: u64, entries: &[Entry]) -> Outcome<u64> {
    let sql = "INSERT INTO entry (agent, seq, cycle, step, kind, tokens, at, format, crc, message, trust) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let mut head = head;
    for entry in entries {
        head += 1;
        if entry.seq != head {
            return Err(damaged(format!("entry {} does not continue the log, wanted {head}", entry.seq)));
        }
        let message = to_json(&entry.message)?;
        let crc = crc32fast::hash(message.as_bytes());
        let (cycle, kind) = (bytes(entry.cycle.0), entry.kind.as_str());
        let row = params![
            agent,
            int(entry.seq),
            cycle,
            entry.step,
            kind,
            entry.tokens,
            ms(entry.at),
            FORMAT,
            crc,
            message,
            code_of(&Trust::ALL, &entry.trust),
        ];
        run(db, sql, row)?;
    }
    Ok(head)
}

/// Entries with seqs in this inclusive range, oldest first. Each one's checksum is verified.
pub(crate) fn entries(
    db: &Connection,
    agent: i64,
    (from, to): (u64, u64),
    limit: i64,
) -> Outcome<Vec<Entry>> {
    let sql = format!("{ENTRY} WHERE agent = ? AND seq >= ? AND seq <= ? ORDER BY seq LIMIT ?");
    all(db, &sql, params![agent, int(from), int(to), limit], entry_at)
}

/// Columns of [`entry_at`].
pub(crate) const ENTRY: &str = "SELECT seq, cycle, step, kind, tokens, at, crc, message, trust FROM entry";

pub(crate) fn entry_at(row: &Row<'_>) -> Outcome<Entry> {
    let seq = u64_at(row, 0)?;
    let (kind, crc): (String, i64) = (row.get(3)?, row.get(6)?);
    let message = row.get_ref(7)?.as_bytes().map_err(rusqlite::Error::from)?;
    if i64::from(crc32fast::hash(message)) != crc {
        return Err(damaged(format!("entry {seq}: its checksum does not match")));
    }
    let message: ModelMessage = serde_json::from_slice(message)
        .map_err(|error| damaged(format!("entry {seq}: it does not decode: {error}")))?;
    let kind = EntryKind::try_from(&*kind).ok();
    Ok(Entry {
        seq,
        cycle: CycleId(uuid_at(row, 1)?),
        step: u32_at(row, 2)?,
        kind: kind.ok_or_else(|| damaged(format!("entry {seq}: its kind is unknown")))?,
        message,
        tokens: u32_at(row, 4)?,
        at: time_at(row, 5)?,
        trust: trust_at(row, 8)?,
    })
}

/// Inserts a view.
pub(crate) fn put_view(db: &Connection, agent: i64, n: u64, view: &View) -> Outcome<()> {
    let sql = "INSERT INTO view (agent, rev, commit_n, tail, reasoning_from, native_from, ranges, summary, compaction, \
               trust, layers_from) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let (tail, reasoning_from, native_from) =
        (int(view.tail), int(view.reasoning_from), int(view.native_from));
    let ranges = to_json(&view.ranges)?;
    let compaction = view.compaction.as_ref().map(to_json).transpose()?;
    let (rev, n) = (int(view.rev), int(n));
    let trust = code_of(&Trust::ALL, &view.trust);
    let layers_from = int(view.layers_from);
    let row = params![
        agent,
        rev,
        n,
        tail,
        reasoning_from,
        native_from,
        ranges,
        view.summary,
        compaction,
        trust,
        layers_from
    ];
    run(db, sql, row).map(drop)
}

/// The newest view of an agent; the whole log if there is none.
pub(crate) fn view(db: &Connection, agent: i64) -> Outcome<View> {
    view_until(db, agent, u64::MAX)
}

/// The newest view of an agent up to this revision; the whole log if there is none.
pub(crate) fn view_until(db: &Connection, agent: i64, rev: u64) -> Outcome<View> {
    let sql = "SELECT rev, summary, ranges, tail, reasoning_from, native_from, compaction, trust, layers_from FROM view WHERE agent = ? AND rev <= ? ORDER BY rev DESC LIMIT 1";
    let found = first(db, sql, [agent, int(rev)], |row| {
        Ok(View {
            rev: u64_at(row, 0)?,
            summary: row.get(1)?,
            ranges: from_json(&row.get::<_, String>(2)?, "a view")?,
            tail: u64_at(row, 3)?,
            reasoning_from: u64_at(row, 4)?,
            native_from: u64_at(row, 5)?,
            compaction: row
                .get::<_, Option<String>>(6)?
                .map(|compaction| from_json(&compaction, "a view"))
                .transpose()?,
            trust: trust_at(row, 7)?,
            layers_from: u64_at(row, 8)?,
        })
    })?;
    Ok(found.unwrap_or_else(View::whole))
}

/// The entries that a view shows, up to `last`.
pub(crate) fn shown(db: &Connection, agent: i64, view: &View, last: u64) -> Outcome<Vec<Arc<Entry>>> {
    let mut shown = Vec::new();
    for (from, to) in &view.ranges {
        let to = (*to).min(view.tail.saturating_sub(1)).min(last);
        shown.extend(entries(db, agent, (*from, to), i64::MAX)?);
    }
    shown.extend(entries(db, agent, (view.tail, last), i64::MAX)?);
    Ok(shown.into_iter().map(Arc::new).collect())
}

/// Stores the layers that a commit sent. When the cycle has ended, the layers of old requests are deleted.
pub(crate) fn put_layers(db: &Connection, agent: i64, changes: &Changes) -> Outcome<()> {
    let over = changes.open.is_none() && changes.kind != CommitKind::View;
    if changes.layers.is_empty() && !over {
        return Ok(());
    }
    let sql = "SELECT coalesce(max(request), 0) FROM layer WHERE agent = ?";
    let newest: i64 = db.prepare_cached(sql)?.query_row([agent], |row| row.get(0))?;
    let request = newest + i64::from(!changes.layers.is_empty());
    let sql = "INSERT INTO layer (agent, request, idx, cycle, after, text, kind, view, shown) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    for (idx, layer) in changes.layers.iter().enumerate() {
        let (idx, cycle) = (int(idx as u64), bytes(changes.cycle.0));
        let (after, text, kind, view) =
            (int(layer.after), &*layer.text, layer.kind.as_str(), int(layer.view));
        let shown = (!layer.shown.is_empty()).then(|| to_json(&layer.shown)).transpose()?;
        run(db, sql, params![agent, request, idx, cycle, after, text, kind, view, shown])?;
    }
    if over {
        let sql = "DELETE FROM layer WHERE agent = ? AND request <= ?";
        run(db, sql, params![agent, request - int(limits::LAYERS_KEPT)])?;
    }
    Ok(())
}

/// The layers of the view after the entries up to `last`, in the order in which they were sent; from its last whole workspace
/// on. With `cycle` only those of that cycle.
pub(crate) fn layers(
    db: &Connection,
    agent: i64,
    view: &View,
    last: u64,
    cycle: Option<CycleId>,
) -> Outcome<Vec<Layer>> {
    let sql = "SELECT view, after, text, kind, shown FROM layer \
               WHERE agent = ?1 AND view BETWEEN ?2 AND ?5 AND after <= ?3 AND (?4 IS NULL OR cycle = ?4) \
               ORDER BY request DESC, idx DESC";
    let mut statement = db.prepare_cached(sql)?;
    let cycle = cycle.map(|cycle| bytes(cycle.0));
    let (from, to) = (int(view.layers_from), int(view.rev));
    let (mut rows, mut found) = (statement.query(params![agent, from, int(last), cycle, to])?, Vec::new());
    while let Some(row) = rows.next()? {
        let layer = layer_at(row)?;
        let whole = layer.kind == LayerKind::Whole;
        found.push(layer);
        if whole {
            break;
        }
    }
    found.reverse();
    Ok(found)
}

fn layer_at(row: &Row<'_>) -> Outcome<Layer> {
    let (text, kind): (String, String) = (row.get(2)?, row.get(3)?);
    let kind = LayerKind::try_from(&*kind).map_err(|_| damaged(format!("a layer of the kind `{kind}`")))?;
    let shown = row.get::<_, Option<String>>(4)?;
    let shown =
        shown.map(|shown| from_json::<ShownLines>(&shown, "a layer")).transpose()?.unwrap_or_default();
    Ok(Layer { shown, ..Layer::new(kind, u64_at(row, 0)?, u64_at(row, 1)?, text.into()) })
}

#[cfg(test)]
mod tests {
    use agent::id::CycleId;
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::sqlite::engine::schema;

    #[test]
    fn after_a_cycle_layers_are_kept_only_for_the_newest_requests() {
        let db = schema::open_memory().unwrap();
        let kept = |cycle| {
            let cycle = Some(CycleId(Uuid::from_u128(cycle)));
            layers(&db, 1, &View::whole(), u64::MAX, cycle).unwrap().len() as u64
        };
        let commit = |kind, cycle, texts: &[&str]| {
            let mut changes =
                Changes::new(kind, CycleId(Uuid::from_u128(cycle)), 0, 0, Timestamp::UNIX_EPOCH);
            let layer = |text: &&str| Layer::new(LayerKind::Preview, 0, 1, (*text).into());
            changes.layers = texts.iter().map(layer).collect();
            put_layers(&db, 1, &changes).unwrap();
        };
        // A commit without an open cycle ends the cycle, unless it only writes a view.
        for _ in 0..limits::LAYERS_KEPT + 5 {
            commit(CommitKind::View, 1, &["workspace", "preview"]);
        }
        assert_eq!(kept(1), 2 * (limits::LAYERS_KEPT + 5));
        commit(CommitKind::Close, 1, &[]);
        assert_eq!(kept(1), 2 * limits::LAYERS_KEPT);
        commit(CommitKind::Close, 2, &["workspace"]);
        assert_eq!((kept(1), kept(2)), (2 * (limits::LAYERS_KEPT - 1), 1));
    }
}
