//! Searches an agent's archive: the index finds documents, the store has their texts.

mod places;

use std::collections::HashSet;

use agent::entry::Entry;
use agent::event::Trust;
use agent::id::{AgentId, CycleId, SpaceId};
use agent::limits;
use agent::port::{
    BoxFuture, CycleRef, Excerpt, Recall, RecallError, RecallKind, RecallQuery, Recalled, StoreError,
};
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::{Fault, Outcome, damaged};
use crate::sqlite::engine::mutex::lock;
use crate::sqlite::engine::slot::Slot;
use crate::sqlite::index::excerpt::best;
use crate::sqlite::index::feed::{Feed, Trouble};
use crate::sqlite::index::find::{self, Hit, Sought, find};
use crate::sqlite::index::tailer::store_state;
use crate::sqlite::index::words::words;
use crate::sqlite::index::{file, text};
use crate::sqlite::ports::{Caller, Mode, Sqlite};
use crate::sqlite::tables::entries::{ENTRY, entry_at};
use crate::sqlite::tables::facts::memory;
use crate::sqlite::tables::messages::named_messages;
use crate::sqlite::tables::rows::{
    agent_row, all, bytes, code_of, first, int, ms, time, uuid_at, uuid_or_none,
};
use places::{places, searchable};

impl Recall for Sqlite {
    fn recall(&self, agent: AgentId, query: RecallQuery) -> BoxFuture<'_, Result<Recalled, RecallError>> {
        Box::pin(async move {
            let named = query.space.clone().unwrap_or_default();
            let found = self.search(agent, query).await.map_err(StoreError::from)?;
            found.map_err(|searchable| RecallError::NoSuchSpace { named, searchable })
        })
    }

    fn cycle(&self, agent: AgentId, cycle: CycleRef) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        Box::pin(async move { Ok(self.entries_of(agent, cycle).await?) })
    }
}

/// A document with what the index knows of it.
struct Found {
    hit: Hit,
    key: Option<String>,
    trust: Option<i64>,
    spaces: Vec<i64>,
}

impl Sqlite {
    /// `Err` has the handles of spaces that the agent can search, if the one of the query is none of them.
    async fn search(&self, agent: AgentId, query: RecallQuery) -> Outcome<Result<Recalled, Vec<String>>> {
        let words = sought_words(&query.text);
        let named = query.space.clone();
        let places = self.read_inline(Caller::Agents, move |db, _| places(db, agent, named.as_deref()));
        let Some(places) = places.await? else { return Ok(Ok(Recalled::default())) };
        let row = places.agent;
        let of_messages = query.kind.is_none_or(|kind| kind == RecallKind::Message);
        let newest_spaces_only = of_messages && places.more_spaces;
        let sought = Sought {
            agent: row,
            spaces: places.spaces,
            words: words.clone(),
            from: query.from.map(ms),
            to: query.to.map(ms),
            kind: query.kind.map(|kind| code_of(&RecallKind::ALL, &kind)),
            space: places.space.row(),
        };
        let found = self.index(move |index| {
            let built = file::meta(index, "built")? == Some(1);
            if !places.space.is_searchable(index, row, built)? {
                return Ok(Err(find::processed_spaces(index, row)?));
            }
            let hits = find(index, &sought)?.into_iter();
            Ok(Ok((built, hits.map(|hit| known(index, hit)).collect::<Outcome<Vec<_>>>()?)))
        });
        let (built, found) = match found.await? {
            None => return Ok(Ok(Recalled { building: true, ..Recalled::default() })),
            Some(Err(processed)) => {
                let named = self.read(Caller::Agents, move |db, _| searchable(db, row, &processed));
                return Ok(Err(named.await?));
            }
            Some(Ok(found)) => found,
        };
        let limit = query.limit.clamp(1, limits::RECALL_MAX) as usize;
        let read =
            self.read(Caller::Agents, move |db, _| excerpts(db, row, found, &words, (query.asking, limit)));
        Ok(Ok(Recalled { excerpts: read.await?, building: !built, newest_spaces_only }))
    }

    async fn entries_of(&self, agent: AgentId, cycle: CycleRef) -> Outcome<Vec<Entry>> {
        let named = self.read_inline(Caller::Agents, move |db, _| {
            let Some(row) = agent_row(db, agent.0)? else { return Ok(None) };
            let sql = "SELECT cycle FROM run WHERE agent = ? AND ordinal = ?";
            let cycle = match cycle {
                CycleRef::Id(cycle) => Some(cycle),
                CycleRef::Number(n) => {
                    first(db, sql, params![row, int(n)], |row| Ok(CycleId(uuid_at(row, 0)?)))?
                }
            };
            Ok(cycle.map(|cycle| (row, cycle)))
        });
        let Some((row, cycle)) = named.await? else { return Ok(Vec::new()) };
        let known = self.index(move |index| {
            let sql = "SELECT first, last FROM cycle WHERE agent = ? AND cycle = ? AND first IS NOT NULL";
            let range = first(index, sql, params![row, bytes(cycle.0)], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
            })?;
            let sql = "SELECT entries FROM done WHERE owner = ?";
            let read = first(index, sql, [row], |row| Ok(row.get::<_, i64>(0)?))?;
            Ok((range, read.unwrap_or(0)))
        });
        let (range, read) = known.await?.unwrap_or((None, 0));
        // What was not indexed yet may be the rest of the cycle, or all of it.
        let (from, to) = range.unwrap_or((read + 1, read));
        self.read(Caller::Agents, move |db, _| {
            let sql = format!(
                "{ENTRY} WHERE agent = ?1 AND (seq BETWEEN ?2 AND ?3 OR seq > ?4) AND cycle = ?5 ORDER BY seq LIMIT ?6"
            );
            let given = params![row, from, to, read, bytes(cycle.0), limits::CYCLE_ENTRIES_MAX];
            all(db, &sql, given, entry_at)
        })
        .await
    }

    /// Runs a query on the index; `None` while there is none.
    async fn index<T, F>(&self, work: F) -> Outcome<Option<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        match &self.inner.mode {
            Mode::Inline { db, index } => {
                let db = lock(db);
                let db = db.as_ref().ok_or(Fault::Store(StoreError::Closed))?;
                let mut index = lock(index);
                let index = match &mut *index {
                    Some(index) => index,
                    none => none.insert(file::create_in_memory(store_state(db, true)?)?),
                };
                inline_catch_up(&Feed { store: db, index }).map_err(|trouble| match trouble {
                    Trouble::Store(fault) => fault,
                    Trouble::Index(error) => Fault::Sql(error),
                })?;
                work(index).map(Some)
            }
            Mode::Threaded { tailer, .. } => match tailer.readers() {
                None => Ok(None),
                Some(readers) => {
                    let (kept, slot) = Slot::pair();
                    let read = readers.read(Box::new(move |db: &Connection| kept.keep(work(db)))).await;
                    read.inspect_err(|fault| tailer.report(fault))?;
                    slot.take().map(Some)
                }
            },
        }
    }
}

/// A store in memory has no thread that feeds its index: a query does.
fn inline_catch_up(feed: &Feed<'_>) -> Result<(), Trouble> {
    while file::meta(feed.index, "built").map_err(Trouble::Index)? != Some(1) {
        feed.build()?;
    }
    while feed.next()?.is_some() {}
    Ok(())
}

/// The words of a query, each once.
fn sought_words(query: &str) -> Vec<String> {
    let mut end = query.len().min(limits::RECALL_QUERY_MAX_BYTES);
    while !query.is_char_boundary(end) {
        end -= 1;
    }
    let found = words(&query[..end]);
    let mut known = HashSet::new();
    let mut sought = Vec::new();
    for (at, word) in found.iter().enumerate() {
        // The last character of a run alone is in the pair before it.
        let in_pair = at > 0 && found[at - 1].to == word.to && found[at - 1].from < word.from;
        if !in_pair && sought.len() < limits::RECALL_WORDS_MAX && known.insert(&word.word) {
            sought.push(word.word.clone());
        }
    }
    sought
}

/// A document with its score and its best part.
type Ranked = (f64, Found, String);

fn known(index: &Connection, hit: Hit) -> Outcome<Found> {
    let (trust, spaces) = hit.origin(index)?;
    let key = if hit.seq().is_none() { hit.key(index)? } else { None };
    Ok(Found { hit, key, trust, spaces })
}

/// The best parts of the texts, best first. A text that is gone meanwhile is left out.
fn excerpts(
    db: &Connection,
    agent: i64,
    found: Vec<Found>,
    words: &[String],
    (asking, limit): (Option<CycleId>, usize),
) -> Outcome<Vec<Excerpt>> {
    let mut ranked = Vec::new();
    for mut found in found {
        let Some(text) = text_of(db, agent, &mut found, asking)? else { continue };
        let is_shown = matches!(kind_of(found.hit.kind), Some(RecallKind::Inbox | RecallKind::Message));
        if is_shown && asking.is_some() && found.hit.cycle == asking {
            continue;
        }
        let Some(best) = best(&text, words) else { continue };
        let more = |count: usize, weight: f64| count.saturating_sub(1) as f64 * weight;
        let score = found.hit.score * (1.0 + more(best.found, 0.1) + more(best.together, 0.15));
        ranked.push((score, found, best.part));
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.hit.at.cmp(&a.1.hit.at)));
    // A message that was shown or written in a cycle is found in the text of that cycle.
    let cycles: HashSet<CycleId> = ranked
        .iter()
        .filter(|(_, found, _)| found.hit.posted_in().is_none())
        .filter_map(|(_, found, _)| found.hit.cycle)
        .collect();
    let mut shown = HashSet::new();
    ranked.retain(|(_, Found { hit, .. }, part)| {
        let twice = hit.posted_in().is_some() && hit.cycle.is_some_and(|cycle| cycles.contains(&cycle));
        !twice && shown.insert(part.clone())
    });
    let ranked = repetitions_last(ranked, limit).into_iter();
    ranked.take(limit).map(|(_, found, text)| excerpt(db, found, text)).collect()
}

/// Puts texts that say almost the same as a better one behind the others: a question that was asked again and again would
/// hide its answer.
fn repetitions_last(ranked: Vec<Ranked>, limit: usize) -> Vec<Ranked> {
    let (mut chosen, mut repeated): (Vec<(Ranked, HashSet<String>)>, Vec<Ranked>) = (Vec::new(), Vec::new());
    for one in ranked {
        if chosen.len() == limit {
            break;
        }
        let own: HashSet<String> = words(&one.2).into_iter().map(|word| word.word).collect();
        let alike = own.len() * limits::RECALL_ALIKE_PERCENT / 100;
        match chosen.iter().any(|(_, better)| own.intersection(better).count() > alike) {
            true => repeated.push(one),
            false => chosen.push((one, own)),
        }
    }
    chosen.into_iter().map(|(one, _)| one).chain(repeated).collect()
}

fn excerpt(db: &Connection, found: Found, text: String) -> Outcome<Excerpt> {
    let Found { hit, key, trust, spaces } = found;
    let sql = "SELECT uuid, name FROM space WHERE id = ?";
    let of = match spaces[..] {
        [space] => first(db, sql, [space], |row| Ok((SpaceId(uuid_at(row, 0)?), row.get(1)?)))?,
        _ => None,
    };
    let (space, space_handle) = of.unzip();
    Ok(Excerpt {
        at: time(hit.at)?,
        kind: kind_of(hit.kind).ok_or_else(|| damaged("the index has an unknown kind of text"))?,
        cycle: hit.cycle,
        key,
        space,
        space_handle,
        trust: trust.and_then(|code| Trust::ALL.get(usize::try_from(code).ok()?).copied()),
        text,
    })
}

fn kind_of(code: i64) -> Option<RecallKind> {
    RecallKind::ALL.get(usize::try_from(code).ok()?).copied()
}

/// The text of a document, as it is now. Of a message the store also knows the trust, and the agent's own cycle that
/// processed or wrote it; one whose event is taken belongs to the cycle that asks.
fn text_of(
    db: &Connection,
    agent: i64,
    found: &mut Found,
    asking: Option<CycleId>,
) -> Outcome<Option<String>> {
    if let (Some(space), Some(seq)) = (found.hit.posted_in(), found.hit.seq()) {
        let sql = "SELECT m.trust, CASE m.sender WHEN ?1 THEN m.cycle ELSE (SELECT e.cycle FROM event e \
                   WHERE e.agent = ?1 AND e.id = m.uuid) END, EXISTS (SELECT 1 FROM event e JOIN waiting w \
                   ON w.agent = e.agent AND w.seq = e.seq WHERE e.agent = ?1 AND e.id = m.uuid AND w.taken = 1) \
                   FROM message m WHERE m.space = ?2 AND m.seq = ?3";
        let known = first(db, sql, [agent, space, seq], |row| {
            let cycle = uuid_or_none(row, 1)?.map(CycleId);
            Ok((row.get::<_, i64>(0)?, if row.get(2)? { asking } else { cycle }))
        });
        let (trust, cycle) = known?.unzip();
        (found.trust, found.hit.cycle) = (trust, cycle.flatten());
        let seq = seq.unsigned_abs();
        let message = named_messages(db, space, seq, seq + 1, 1)?;
        return Ok(message.first().map(text::of_message));
    }
    if let Some(seq) = found.hit.seq() {
        let sql = format!("{ENTRY} WHERE agent = ? AND seq = ?");
        let entry = first(db, &sql, [agent, seq], |row| Ok(entry_at(row).ok()))?.flatten();
        // A page that a cycle has read is worth less than the events of that cycle.
        found.trust = entry.as_ref().map(|entry| code_of(&Trust::ALL, &entry.trust));
        return Ok(entry.and_then(|entry| text::of_entry(&entry)).map(|(_, text)| text));
    }
    let Some(key) = &found.key else { return Ok(None) };
    let memory = memory(db, agent, key)?;
    found.trust = memory.as_ref().map(|memory| code_of(&Trust::ALL, &memory.trust));
    Ok(memory.map(|memory| text::of_memory(&memory.key, &memory.value)))
}
