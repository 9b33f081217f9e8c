//! Checks an agent's log: entries have no gaps and match their checksums, the transcript is valid for every vendor,
//! and the rows of calls agree with the log.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use agent::call::CallState;
use agent::entry::{Compaction, Entry, EntryKind};
use agent::id::{CallId, CycleId};
use agent::message::Part;
use agent::transcript::valid_entries;
use rusqlite::params;

use super::row::Row;
use super::walk::{Walk, gap_before};
use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::tables::calls::{CALL, call_at};
use crate::sqlite::tables::entries::{ENTRY, entry_at};
use crate::sqlite::tables::rows::{bytes, from_json, trust_at, u32_at, u64_at, uuid_at};

/// The first log entry of each step in which the agent was shown something.
pub(super) type Shown = HashMap<(CycleId, u32), u64>;

/// The readable entries of one cycle.
#[derive(Default)]
struct Cycle {
    entries: Vec<Arc<Entry>>,
    /// Whether one of its entries is unreadable.
    unreadable: bool,
}

/// Checks the log; returns the first entry of each step.
pub(super) fn check(walk: &mut Walk<'_>, life: &Row) -> Shown {
    let (mut shown, mut cycle, mut last, mut calls) = (Shown::new(), Cycle::default(), 0, 0);
    let sql = format!("{ENTRY} WHERE agent = ? ORDER BY seq");
    walk.each("entry", &sql, [life.agent], |walk, row| {
        let (seq, id) = (u64_at(row, 0)?, CycleId(uuid_at(row, 1)?));
        let gap = gap_before(&mut last, seq, "entry");
        walk.require(gap.is_none(), "entry", seq, || gap.unwrap_or_default());
        if cycle.entries.first().is_some_and(|first| first.cycle != id) {
            calls += transcript(walk, life, std::mem::take(&mut cycle), false);
        }
        shown.entry((id, u32_at(row, 2)?)).or_insert(seq);
        match entry_at(row) {
            Ok(entry) => cycle.entries.push(Arc::new(entry)),
            Err(fault) => {
                cycle.unreadable = true;
                return Err(fault);
            }
        }
        Ok(())
    });
    let unreadable = cycle.unreadable;
    calls += transcript(walk, life, cycle, true);
    walk.require(last == life.head_seq, "entry", last, || {
        format!("it is the last one, but `life` counts {}", life.head_seq)
    });
    check_call_rows(walk, life, (!unreadable).then_some(calls));
    shown
}

/// Checks the entries of one cycle; returns how many calls they ask for.
fn transcript(walk: &mut Walk<'_>, life: &Row, cycle: Cycle, newest: bool) -> u64 {
    let Cycle { entries, unreadable } = cycle;
    let kept: HashSet<u64> = valid_entries(&entries).iter().map(|entry| entry.seq).collect();
    let mut calls = 0;
    for (position, entry) in entries.iter().enumerate() {
        let asks = entry.message.calls().next().is_some();
        let answer = entries.get(position + 1).filter(|next| next.kind == EntryKind::Outcomes);
        // The newest decision may still wait for its outcomes.
        let open = asks && newest && position + 1 == entries.len() && life.is_open(entry.cycle);
        let tolerated = unreadable || open || is_empty_reply(entry);
        if !tolerated && !kept.contains(&entry.seq) {
            walk.flaw("entry", entry.seq, "it is not valid at this position of the transcript");
        }
        if asks {
            calls += check_calls(walk, life, entry, answer.is_some());
        }
    }
    calls
}

/// Whether a reply is empty: such a reply is stored but never sent.
fn is_empty_reply(entry: &Entry) -> bool {
    let has_content = |part: &Part| match part {
        Part::Text { text } => !text.trim().is_empty(),
        Part::Reasoning { .. } => false,
        _ => true,
    };
    entry.kind == EntryKind::Assistant && !entry.message.parts.iter().any(has_content)
}

/// Checks the rows of the calls that an entry asks for; returns how many there are.
fn check_calls(walk: &mut Walk<'_>, life: &Row, entry: &Entry, answered: bool) -> u64 {
    let mut wanted = entry.message.calls().map(|(id, _, _)| id.clone());
    let mut count = 0;
    let sql = "SELECT id, state FROM call WHERE agent = ? AND cycle = ? AND step = ? ORDER BY idx";
    walk.each("call", sql, params![life.agent, bytes(entry.cycle.0), entry.step], |walk, row| {
        let (id, state): (String, String) = (row.get(0)?, row.get(1)?);
        count += 1;
        walk.require(wanted.next() == Some(CallId(id.clone())), "call", &id, || {
            format!("it is not the call that entry {} asks for at this position", entry.seq)
        });
        // For a detached call the log has the outcome "pending".
        walk.require(!answered || state == "done" || state == "detached", "call", &id, || {
            format!("the log has its outcome after entry {}, but its row is {state}", entry.seq)
        });
        Ok(())
    });
    for id in wanted {
        walk.flaw("call", id, format!("entry {} asks for it, but it has no row", entry.seq));
    }
    count
}

/// Checks each row of a call by itself. `known` is how many calls the log asks for.
fn check_call_rows(walk: &mut Walk<'_>, life: &Row, known: Option<u64>) {
    let mut count = 0;
    let sql = format!("SELECT {CALL} FROM call WHERE agent = ?");
    walk.each("call", &sql, [life.agent], |_, row| {
        count += 1;
        let call = call_at(row, 0)?;
        let done = matches!(call.state, CallState::Done | CallState::Detached);
        if done != call.outcome.is_some() {
            let what =
                if done { "it is done, but has no outcome" } else { "it has an outcome, but is not done" };
            return Err(damaged(what));
        }
        if call.state == CallState::Detached && call.awaited {
            return Err(damaged("it is detached, but its cycle waits for it"));
        }
        if !done && call.awaited && !life.is_open(call.cycle) {
            return Err(damaged("its cycle has ended, but it has no answer"));
        }
        Ok(())
    });
    if let Some(known) = known {
        walk.require(count == known, "call", "", || format!("{count} rows, but the log asks for {known}"));
    }
}

/// Checks the views: their ranges must be valid, and the record of their compaction must be readable.
pub(super) fn views(walk: &mut Walk<'_>, life: &Row) {
    let mut last = 0;
    let sql = "SELECT rev, commit_n, tail, ranges, trust, compaction FROM view WHERE agent = ? ORDER BY rev";
    walk.each("view", sql, [life.agent], |walk, row| {
        let rev = u64_at(row, 0)?;
        let gap = gap_before(&mut last, rev, "view");
        walk.require(gap.is_none(), "view", rev, || gap.unwrap_or_default());
        let (n, tail) = (u64_at(row, 1)?, u64_at(row, 2)?);
        let ranges: Vec<(u64, u64)> = from_json(&row.get::<_, String>(3)?, "its ranges")?;
        walk.require(n <= life.commit_n, "view", rev, || {
            format!("it is of commit {n}, which does not exist yet")
        });
        trust_at(row, 4)?;
        if let Some(compaction) = row.get::<_, Option<String>>(5)? {
            from_json::<Compaction>(&compaction, "its compaction")?;
        }
        check_ranges(&ranges, tail, life.head_seq)
    });
}

fn check_ranges(ranges: &[(u64, u64)], tail: u64, head: u64) -> Outcome<()> {
    let ordered = ranges.iter().all(|(from, to)| from <= to)
        && ranges.windows(2).all(|pair| pair[0].1 < pair[1].0)
        && ranges.last().is_none_or(|(_, to)| *to < tail);
    if !ordered {
        return Err(damaged("its ranges overlap, or are not in order"));
    }
    if tail > head + 1 {
        return Err(damaged(format!("its tail begins at entry {tail}, but the log ends at {head}")));
    }
    Ok(())
}
