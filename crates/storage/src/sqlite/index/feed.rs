//! Reads what is new in the store into the index. Everything that it does can be repeated: what was read is noted in
//! the same transaction, and documents are replaced. Must not know threads and files.

use std::collections::{BTreeMap, BTreeSet};

use agent::id::CycleId;
use agent::limits;
use agent::port::RecallKind;
use rusqlite::{Connection, Row, params};

use crate::sqlite::engine::fault::{Fault, Outcome};
use crate::sqlite::index::file::{meta, set_meta};
use crate::sqlite::index::text;
use crate::sqlite::index::words::words;
use crate::sqlite::tables::entries::{ENTRY, entry_at};
use crate::sqlite::tables::facts::{MEMORY as MEMORY_COLUMNS, memory_at};
use crate::sqlite::tables::messages::named_messages;
use crate::sqlite::tables::queue::{self, Queued};
use crate::sqlite::tables::rows::{all, bytes, code_of, first, from_json, int, ms, run, u64_at, uuid_at};

/// Bits of a document's id for its seq, the uppermost of which marks a memory.
pub(crate) const SEQ_BITS: u32 = 36;
/// This bit in a document's id says that it is a memory.
pub(crate) const MEMORY: i64 = 1 << (SEQ_BITS - 1);

/// This bit in the number of an owner says that it is a space: its documents are its messages. Other owners are agents.
pub(crate) const SPACE: i64 = 1 << 26;

/// The first id of an owner's documents.
pub(crate) fn first_id(owner: i64) -> i64 {
    owner << SEQ_BITS
}

/// Why reading stopped.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The store cannot be read.
    Store(Fault),
    /// The index cannot be read or written.
    Index(rusqlite::Error),
}

type Done<T> = Result<T, Trouble>;

/// What goes wrong in the index.
fn index<T>(done: Outcome<T>) -> Done<T> {
    done.map_err(|fault| match fault {
        Fault::Sql(error) => Trouble::Index(error),
        other => Trouble::Store(other),
    })
}

/// The store, read on a snapshot, and the index.
pub(crate) struct Feed<'a> {
    pub(crate) store: &'a Connection,
    pub(crate) index: &'a Connection,
}

impl Feed<'_> {
    /// Reads one part of the queue. Returns the last row that was read; `None` if nothing waits.
    pub(crate) fn next(&self) -> Done<Option<i64>> {
        let read = index(meta(self.index, "n").map_err(Fault::from))?.unwrap_or(0);
        let ends = queue::ends(self.store).map_err(Trouble::Store)?;
        if let Some((_, newest)) = ends.filter(|(oldest, _)| read + 1 < *oldest) {
            // Rows are gone that were never read: what they named is found by reading the store on.
            self.in_transaction(|| {
                let set = |key, value| index(set_meta(self.index, key, value).map_err(Fault::from));
                set("building", 0).and_then(|()| set("built", 0)).and_then(|()| set("n", newest))
            })?;
            return Ok(Some(newest));
        }
        let rows = queue::after(self.store, read, limits::INDEX_BATCH).map_err(Trouble::Store)?;
        let Some(last) = rows.last().map(|row| row.n) else { return Ok(None) };
        self.in_transaction(|| {
            let mut agents: BTreeMap<i64, (Vec<u64>, BTreeSet<String>)> = BTreeMap::new();
            let spaces: BTreeSet<i64> = rows.iter().filter_map(|row| row.space).collect();
            for Queued { agent, events, key, .. } in rows {
                let Some(agent) = agent else { continue };
                let (seqs, keys) = agents.entry(agent).or_default();
                if let Some(events) = events {
                    seqs.extend(from_json::<Vec<u64>>(&events, "a row of the queue").unwrap_or_default());
                }
                keys.extend(key);
            }
            for (agent, (seqs, keys)) in agents {
                self.events_at(agent, &seqs)?;
                while self.entries(agent)? {}
                for key in keys {
                    self.memory(agent, &key)?;
                }
            }
            for space in spaces {
                while self.messages(space)? {}
            }
            index(set_meta(self.index, "n", last).map_err(Fault::from))
        })?;
        Ok(Some(last))
    }

    /// Reads one part of the whole store into a new index; returns whether more is left.
    pub(crate) fn build(&self) -> Done<bool> {
        let at = index(meta(self.index, "building").map_err(Fault::from))?.unwrap_or(0);
        let next = "SELECT min(id) FROM (SELECT min(id) AS id FROM agent WHERE id >= ?1 \
                    UNION ALL SELECT min(id) + ?2 FROM space WHERE id >= ?1 - ?2)";
        let next = first(self.store, next, [at, SPACE], |row| Ok(row.get::<_, Option<i64>>(0)?));
        let next = next.map_err(Trouble::Store)?.flatten();
        self.in_transaction(|| {
            let Some(owner) = next else {
                return index(set_meta(self.index, "built", 1).map_err(Fault::from)).map(|()| false);
            };
            let more = match owner {
                SPACE.. => self.messages(owner - SPACE)?,
                agent => self.events(agent)? || self.entries(agent)?,
            };
            if !more && owner < SPACE {
                self.memories(owner)?;
            }
            let at = if more { owner } else { owner + 1 };
            index(set_meta(self.index, "building", at).map_err(Fault::from)).map(|()| true)
        })
    }

    fn in_transaction<T>(&self, work: impl FnOnce() -> Done<T>) -> Done<T> {
        let sql = |sql: &str| index(self.index.execute_batch(sql).map_err(Fault::from));
        sql("BEGIN IMMEDIATE")?;
        let done = work().and_then(|done| sql("COMMIT").map(|()| done));
        if done.is_err() && !self.index.is_autocommit() {
            sql("ROLLBACK")?;
        }
        done
    }

    /// Reads these events of the ledger.
    fn events_at(&self, agent: i64, seqs: &[u64]) -> Done<()> {
        let sql =
            "SELECT seq, cycle, space, trust FROM event WHERE agent = ? AND seq = ? AND cycle IS NOT NULL";
        for seq in seqs {
            let found = first(self.store, sql, params![agent, int(*seq)], heard_at);
            if let Some((_, cycle, space, trust)) = found.map_err(Trouble::Store)? {
                self.heard(agent, cycle, space, trust)?;
            }
        }
        Ok(())
    }

    /// Reads the next processed events of the ledger; returns whether there were any.
    fn events(&self, agent: i64) -> Done<bool> {
        let from = self.done(agent, "events")?;
        let sql = "SELECT seq, cycle, space, trust FROM event WHERE agent = ? AND seq > ? AND cycle IS NOT NULL \
                   ORDER BY seq LIMIT ?";
        let found = all(self.store, sql, params![agent, from, limits::INDEX_BATCH], heard_at);
        let found = found.map_err(Trouble::Store)?;
        let Some(last) = found.last().map(|(seq, ..)| *seq) else { return Ok(false) };
        for (_, cycle, space, trust) in found {
            self.heard(agent, cycle, space, trust)?;
        }
        index(run(self.index, "UPDATE done SET events = ? WHERE owner = ?", params![last, agent]))?;
        Ok(true)
    }

    fn heard(&self, agent: i64, cycle: CycleId, space: Option<i64>, trust: i64) -> Done<()> {
        let sql = "INSERT INTO cycle (agent, cycle, trust) VALUES (?1, ?2, ?3) ON CONFLICT (agent, cycle) \
                   DO UPDATE SET trust = min(coalesce(trust, ?3), ?3)";
        index(run(self.index, sql, params![agent, bytes(cycle.0), trust]))?;
        space.map_or(Ok(()), |space| self.about(agent, cycle, space))
    }

    fn about(&self, agent: i64, cycle: CycleId, space: i64) -> Done<()> {
        let sql = "INSERT OR IGNORE INTO cycle_space (agent, cycle, space) VALUES (?, ?, ?)";
        index(run(self.index, sql, params![agent, bytes(cycle.0), space])).map(drop)
    }

    /// Reads the next entries of a log; returns whether there were any. An entry that cannot be read is left out.
    fn entries(&self, agent: i64) -> Done<bool> {
        let from = self.done(agent, "entries")?;
        let sql = format!("{ENTRY} WHERE agent = ? AND seq > ? ORDER BY seq LIMIT ?");
        let found = all(self.store, &sql, params![agent, from, limits::INDEX_BATCH], |row| {
            Ok((u64_at(row, 0)?, entry_at(row).ok()))
        });
        let found = found.map_err(Trouble::Store)?;
        let Some(last) = found.last().map(|(seq, _)| *seq) else { return Ok(false) };
        let (mut docs, mut count) = (0, 0);
        let mut known = None;
        for entry in found.into_iter().filter_map(|(_, entry)| entry) {
            let seq = int(entry.seq);
            let sql = "INSERT INTO cycle (agent, cycle, first, last) VALUES (?1, ?2, ?3, ?3) ON CONFLICT (agent, cycle) \
                       DO UPDATE SET first = coalesce(first, ?3), last = ?3";
            index(run(self.index, sql, params![agent, bytes(entry.cycle.0), seq]))?;
            let posted = "SELECT DISTINCT space FROM message WHERE cycle = ?";
            // A cycle's messages are written with the entry that has their calls.
            if known.replace((entry.cycle, entry.step)) != Some((entry.cycle, entry.step)) {
                let spaces = all(self.store, posted, [bytes(entry.cycle.0)], |row| Ok(row.get::<_, i64>(0)?));
                for space in spaces.map_err(Trouble::Store)? {
                    self.about(agent, entry.cycle, space)?;
                }
            }
            if let Some((kind, text)) = text::of_entry(&entry) {
                let id = first_id(agent) | seq;
                docs += 1;
                count += self.put(id, ms(entry.at), kind, Some(entry.cycle), &text)?;
            }
        }
        let sql = "UPDATE done SET entries = ?, docs = docs + ?, words = words + ? WHERE owner = ?";
        index(run(self.index, sql, params![int(last), docs, count, agent]))?;
        Ok(true)
    }

    /// Reads the next messages of a space; returns whether there were any.
    fn messages(&self, space: i64) -> Done<bool> {
        let owner = SPACE | space;
        let from = self.done(owner, "entries")? + 1;
        let head = "SELECT head_seq FROM space WHERE id = ?";
        let head = first(self.store, head, [space], |row| Ok(row.get::<_, i64>(0)?));
        let last = head.map_err(Trouble::Store)?.unwrap_or(0).min(from + i64::from(limits::INDEX_BATCH) - 1);
        if last < from {
            return Ok(false);
        }
        let seq = |seq: i64| seq.unsigned_abs();
        let found =
            named_messages(self.store, space, seq(from), seq(last + 1), i64::from(limits::INDEX_BATCH));
        let (mut docs, mut count) = (0, 0);
        for message in found.map_err(Trouble::Store)? {
            let text = text::of_message(&message);
            docs += 1;
            let id = first_id(owner) | int(message.seq);
            count += self.put(id, ms(message.at), RecallKind::Message, None, &text)?;
        }
        let sql = "UPDATE done SET entries = ?, docs = docs + ?, words = words + ? WHERE owner = ?";
        index(run(self.index, sql, params![last, docs, count, owner]))?;
        Ok(true)
    }

    /// Reads all memories of an agent.
    fn memories(&self, agent: i64) -> Done<()> {
        let sql = "SELECT key FROM memory WHERE agent = ? AND to_commit IS NULL";
        let keys =
            all(self.store, sql, [agent], |row| Ok(row.get::<_, String>(0)?)).map_err(Trouble::Store)?;
        keys.iter().try_for_each(|key| self.memory(agent, key))
    }

    /// Reads a memory as it is now, or forgets it.
    fn memory(&self, agent: i64, key: &str) -> Done<()> {
        self.done(agent, "docs")?;
        let sql = "SELECT slot, words FROM memory WHERE agent = ? AND key = ?";
        let old = first(self.index, sql, params![agent, key], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        });
        let old = index(old)?;
        if let Some((slot, count)) = old {
            let id = first_id(agent) | MEMORY | slot;
            index(run(self.index, "DELETE FROM doc WHERE id = ?", [id]))?;
            index(run(self.index, "DELETE FROM words WHERE rowid = ?", [id]))?;
            index(run(self.index, "DELETE FROM memory WHERE agent = ? AND slot = ?", [agent, slot]))?;
            let sql = "UPDATE done SET docs = docs - 1, words = words - ? WHERE owner = ?";
            index(run(self.index, sql, [count, agent]))?;
        }
        // An operator writes a memory between two commits of the agent: then the times differ.
        let sql = format!(
            "SELECT {MEMORY_COLUMNS}, c.cycle FROM memory m LEFT JOIN commits c \
             ON c.agent = m.agent AND c.n = m.from_commit AND c.at = m.at \
             WHERE m.agent = ? AND m.key = ? AND m.to_commit IS NULL"
        );
        let now = first(self.store, &sql, params![agent, key], |row| {
            let cycle = row.get::<_, Option<[u8; 16]>>(7)?.map(|id| CycleId(uuid::Uuid::from_bytes(id)));
            Ok((memory_at(row)?, cycle))
        });
        let Some((memory, cycle)) = now.map_err(Trouble::Store)? else { return Ok(()) };
        let newest = "SELECT coalesce(max(slot), 0) + 1 FROM memory WHERE agent = ?";
        let newest = index(first(self.index, newest, [agent], |row| Ok(row.get::<_, i64>(0)?)))?.unwrap_or(1);
        let slot = old.map_or(newest, |(slot, _)| slot);
        let text = text::of_memory(&memory.key, &memory.value);
        let id = first_id(agent) | MEMORY | slot;
        let count = self.put(id, ms(memory.updated_at), RecallKind::Memory, cycle, &text)?;
        let sql = "INSERT INTO memory (agent, slot, key, words) VALUES (?, ?, ?, ?)";
        index(run(self.index, sql, params![agent, slot, key, count]))?;
        let sql = "UPDATE done SET docs = docs + 1, words = words + ? WHERE owner = ?";
        index(run(self.index, sql, [count, agent])).map(drop)
    }

    /// Writes a document; returns how many words it has.
    fn put(&self, id: i64, at: i64, kind: RecallKind, cycle: Option<CycleId>, text: &str) -> Done<i64> {
        let words: Vec<String> = words(text).into_iter().map(|word| word.word).collect();
        let sql = "INSERT INTO doc (id, at, kind, words, cycle) VALUES (?, ?, ?, ?, ?)";
        let (count, kind) = (int(words.len() as u64), code_of(&RecallKind::ALL, &kind));
        index(run(self.index, sql, params![id, at, kind, count, cycle.map(|cycle| bytes(cycle.0))]))?;
        index(run(
            self.index,
            "INSERT INTO words (rowid, text) VALUES (?, ?)",
            params![id, words.join(" ")],
        ))?;
        Ok(count)
    }

    /// A number of an owner's row, which is created if it is missing.
    fn done(&self, owner: i64, column: &str) -> Done<i64> {
        let sql = format!("SELECT {column} FROM done WHERE owner = ?");
        let found = index(first(self.index, &sql, [owner], |row| Ok(row.get::<_, i64>(0)?)))?;
        match found {
            Some(found) => Ok(found),
            None => index(run(self.index, "INSERT INTO done (owner) VALUES (?)", [owner])).map(|_| 0),
        }
    }
}

fn heard_at(row: &Row<'_>) -> Outcome<(i64, CycleId, Option<i64>, i64)> {
    Ok((row.get(0)?, CycleId(uuid_at(row, 1)?), row.get(2)?, row.get(3)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::engine::schema;
    use crate::sqlite::index::file::{StoreState, create_in_memory};

    #[test]
    fn an_index_that_missed_rows_of_the_queue_reads_the_store_again() {
        let store = schema::open_memory().unwrap();
        let db = create_in_memory(StoreState { id: 1, queue: Some((1, 5)), clean: true }).unwrap();
        set_meta(&db, "built", 1).unwrap();
        let feed = Feed { store: &store, index: &db };
        let queued = |n: i64| {
            store.execute("INSERT INTO index_queue (n, agent, at) VALUES (?, 1, 0)", [n]).unwrap();
            feed.next().unwrap()
        };
        let state = || (meta(&db, "n").unwrap(), meta(&db, "built").unwrap());
        assert_eq!((queued(6), state()), (Some(6), (Some(6), Some(1))), "nothing is missing");
        store.execute("DELETE FROM index_queue", []).unwrap();
        assert_eq!((queued(9), state()), (Some(9), (Some(9), Some(0))), "7 and 8 were never read");
    }
}
