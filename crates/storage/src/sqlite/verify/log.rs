//! An agent's log: entries without gaps that are what was written, a transcript that every vendor takes,
//! calls that stand where the log says and are answered where it says so.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use agent::call::CallState;
use agent::entry::{Entry, EntryKind};
use agent::id::{CallId, CycleId};
use agent::message::Part;
use agent::transcript::sound;
use rusqlite::params;

use super::row::Row;
use super::walk::{Walk, follows};
use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::tables::calls::{CALL, call_at};
use crate::sqlite::tables::entries::entry_at;
use crate::sqlite::tables::rows::{bytes, u32_at, u64_at, uuid_at};

/// Where something was shown to the agent: cycle and step, with the place in the log.
pub(super) type Shown = HashMap<(CycleId, u32), u64>;

/// The entries of one cycle, as far as they can be read.
#[derive(Default)]
struct Cycle {
    entries: Vec<Arc<Entry>>,
    /// Whether one of them cannot.
    torn: bool,
}

/// Judges the log; where it shows that something was processed.
pub(super) fn check(walk: &mut Walk<'_>, life: &Row) -> Shown {
    let (mut shown, mut cycle, mut last, mut calls) = (Shown::new(), Cycle::default(), 0, 0);
    let sql =
        "SELECT seq, cycle, step, kind, tokens, at, crc, message FROM entry WHERE agent = ? ORDER BY seq";
    walk.each("entry", sql, [life.agent], |walk, row| {
        let (seq, id) = (u64_at(row, 0)?, CycleId(uuid_at(row, 1)?));
        let gap = follows(&mut last, seq, "entry");
        walk.hold(gap.is_none(), "entry", seq, || gap.unwrap_or_default());
        if cycle.entries.first().is_some_and(|first| first.cycle != id) {
            calls += transcript(walk, life, std::mem::take(&mut cycle), false);
        }
        shown.entry((id, u32_at(row, 2)?)).or_insert(seq);
        match entry_at(row) {
            Ok(entry) => cycle.entries.push(Arc::new(entry)),
            Err(fault) => {
                cycle.torn = true;
                return Err(fault);
            }
        }
        Ok(())
    });
    let torn = cycle.torn;
    calls += transcript(walk, life, cycle, true);
    walk.hold(last == life.head_seq, "entry", last, || {
        format!("it is the last one, but the life counts {}", life.head_seq)
    });
    rows(walk, life, (!torn).then_some(calls));
    shown
}

/// Judges the entries of one cycle. How many calls they ask for.
fn transcript(walk: &mut Walk<'_>, life: &Row, cycle: Cycle, newest: bool) -> u64 {
    let Cycle { entries, torn } = cycle;
    let kept: HashSet<u64> = sound(&entries).iter().map(|entry| entry.seq).collect();
    let mut calls = 0;
    for (place, entry) in entries.iter().enumerate() {
        let asks = entry.message.calls().next().is_some();
        let answer = entries.get(place + 1).filter(|next| next.kind == EntryKind::Outcomes);
        // The last thing that was decided may still be waiting for its outcomes.
        let open = asks && newest && place + 1 == entries.len() && life.is_open(entry.cycle);
        let may = torn || open || silent(entry);
        if !may && !kept.contains(&entry.seq) {
            walk.flaw("entry", entry.seq, "it stands where no transcript may have it");
        }
        if asks {
            calls += asked(walk, life, entry, answer.is_some());
        }
    }
    calls
}

/// A reply without a word is kept, and not sent.
fn silent(entry: &Entry) -> bool {
    let says = |part: &Part| match part {
        Part::Text { text } => !text.trim().is_empty(),
        Part::Reasoning { .. } => false,
        _ => true,
    };
    entry.kind == EntryKind::Assistant && !entry.message.parts.iter().any(says)
}

/// Judges the rows of the calls that an entry asks for; how many there are.
fn asked(walk: &mut Walk<'_>, life: &Row, entry: &Entry, answered: bool) -> u64 {
    let mut wanted = entry.message.calls().map(|(id, _, _)| id.clone());
    let mut count = 0;
    let sql = "SELECT id, state FROM call WHERE agent = ? AND cycle = ? AND step = ? ORDER BY idx";
    walk.each("call", sql, params![life.agent, bytes(entry.cycle.0), entry.step], |walk, row| {
        let (id, state): (String, String) = (row.get(0)?, row.get(1)?);
        count += 1;
        walk.hold(wanted.next() == Some(CallId(id.clone())), "call", &id, || {
            format!("it is not what entry {} asks for in its place", entry.seq)
        });
        // Of one that goes on beyond its cycle the log has what was known then.
        walk.hold(!answered || state == "done" || state == "detached", "call", &id, || {
            format!("the log has its outcome behind entry {}, but its row is {state}", entry.seq)
        });
        Ok(())
    });
    for id in wanted {
        walk.flaw("call", id, format!("entry {} asks for it, but it has no row", entry.seq));
    }
    count
}

/// Judges each row of a call by itself. `known` is how many the log asks for.
fn rows(walk: &mut Walk<'_>, life: &Row, known: Option<u64>) {
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
            return Err(damaged("it goes on beyond its cycle, which waits for it"));
        }
        if !done && call.awaited && !life.is_open(call.cycle) {
            return Err(damaged("its cycle is over, but it never was answered"));
        }
        Ok(())
    });
    if let Some(known) = known {
        walk.hold(count == known, "call", "", || format!("{count} rows, but the log asks for {known}"));
    }
}

/// Judges what of the log is sent: views with ranges that can be.
pub(super) fn views(walk: &mut Walk<'_>, life: &Row) {
    let mut last = 0;
    let sql = "SELECT rev, commit_n, tail, ranges FROM view WHERE agent = ? ORDER BY rev";
    walk.each("view", sql, [life.agent], |walk, row| {
        let rev = u64_at(row, 0)?;
        let gap = follows(&mut last, rev, "view");
        walk.hold(gap.is_none(), "view", rev, || gap.unwrap_or_default());
        let (n, tail) = (u64_at(row, 1)?, u64_at(row, 2)?);
        let ranges: Vec<(u64, u64)> =
            crate::sqlite::tables::rows::from_json(&row.get::<_, String>(3)?, "its ranges")?;
        walk.hold(n <= life.commit_n, "view", rev, || format!("it is of commit {n}, which is still to come"));
        judge_ranges(&ranges, tail, life.head_seq)
    });
}

fn judge_ranges(ranges: &[(u64, u64)], tail: u64, head: u64) -> Outcome<()> {
    let ordered = ranges.iter().all(|(from, to)| from <= to)
        && ranges.windows(2).all(|pair| pair[0].1 < pair[1].0)
        && ranges.last().is_none_or(|(_, to)| *to < tail);
    if !ordered {
        return Err(damaged("its ranges overlap, or are not in order"));
    }
    if tail > head + 1 {
        return Err(damaged(format!("it begins at entry {tail}, the log ends at {head}")));
    }
    Ok(())
}
