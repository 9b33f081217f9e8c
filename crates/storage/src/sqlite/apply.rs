//! The parts of a commit that only append or settle: log, calls, receipts, the ledger.

use agent::changes::{CallChange, Changes};
use agent::entry::{Entry, View};
use agent::event::Fate;
use agent::id::ContentRef;
use agent::life::Layer;
use agent::run::Run;
use rusqlite::{Connection, params};

use super::events::State;
use super::fault::{Fault, Outcome, damaged};
use super::rows::{bytes, first, int, key, ms, run, to_json, usage_columns};
use super::schema::FORMAT;
use super::stages::{SETTLED, Stages};
use super::sums;

/// Appends to the log; its new head.
pub(super) fn entries(db: &Connection, agent: i64, head: u64, entries: &[Entry]) -> Outcome<u64> {
    let sql = "INSERT INTO entry (agent, seq, cycle, step, kind, tokens, at, format, crc, message) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let mut head = head;
    for entry in entries {
        head += 1;
        if entry.seq != head {
            return Err(damaged(format!("entry {} does not follow on the log, wanted {head}", entry.seq)));
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
            message
        ];
        run(db, sql, row)?;
    }
    Ok(head)
}

/// Settles taken events or gives them back. Returns how many left the inbox, and how many the open
/// cycle has no longer taken.
pub(super) fn settle(
    db: &Connection,
    agent: i64,
    changes: &Changes,
    stages: &mut Stages<'_>,
) -> Outcome<(u32, u32)> {
    let (mut gone, mut untaken, mut missing) = (0, 0, Vec::new());
    let spared = i64::from(!changes.blame);
    for settlement in &changes.settle {
        let seq = int(settlement.seq);
        if settlement.fate == Fate::Waiting {
            // How long is rested stands with the agent. Here it would let later words overtake these.
            let sql = "UPDATE waiting SET taken = 0, attempts = max(attempts - ?, 0) \
                       WHERE agent = ? AND seq = ? AND taken = 1";
            untaken += run(db, sql, params![spared, agent, seq])?;
            stages.waits(seq, false)?;
            continue;
        }
        let sql = "DELETE FROM waiting WHERE agent = ? AND seq = ? RETURNING taken, attempts";
        let taken =
            first(db, sql, params![agent, seq], |row| Ok((row.get::<_, bool>(0)?, row.get::<_, u32>(1)?)))?;
        let attempts = taken.map(|(_, attempts)| attempts);
        let taken = taken.map(|(taken, _)| taken);
        if taken.is_none() && !failpoint::on!("drain-first") {
            // Lived at most once: what does not wait has its state already.
            missing.push(settlement.seq);
            continue;
        }
        gone += u32::from(taken.is_some());
        untaken += usize::from(taken == Some(true));
        let mut state = State::of(&settlement.fate);
        if matches!(settlement.fate, Fate::Dead { .. }) {
            state.step = attempts;
        }
        let sql = format!(
            "UPDATE event SET state = ?1, cycle = ?2, step = ?3, reason = CASE WHEN ?1 = 2 THEN reason ELSE ?4 END \
             WHERE agent = ?5 AND seq = ?6 RETURNING {SETTLED}"
        );
        let row = params![state.code, state.cycle, state.step, state.reason, agent, seq];
        first(db, &sql, row, |row| stages.settled(row, &settlement.fate))?;
    }
    if !missing.is_empty() {
        return Err(Fault::Gone(missing));
    }
    Ok((gone, u32::try_from(untaken).unwrap_or(u32::MAX)))
}

/// New call rows. One that is open keeps what its answer descends from, should it come after the cycle.
pub(super) fn calls(db: &Connection, agent: i64, changes: &Changes) -> Outcome<()> {
    let sql = "INSERT INTO call (agent, cycle, step, idx, id, tool, effect, tool_version, schema_hash, awaited, \
               state, arguments, outcome, root, hop, crc, outcome_crc) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    for call in &changes.calls {
        let cause = changes.open.as_ref().filter(|_| call.outcome.is_none());
        let outcome = call.outcome.as_ref().map(to_json).transpose()?;
        let (id, effect) = (call.id.0.as_str(), call.effect.as_str());
        let asked = [id, &call.tool, effect, &call.tool_version, &call.schema_hash, &call.arguments];
        let row = params![
            agent,
            bytes(call.cycle.0),
            call.step,
            call.index,
            call.id.0,
            call.tool,
            effect,
            call.tool_version,
            call.schema_hash,
            call.awaited,
            call.state.as_str(),
            call.arguments,
            outcome,
            cause.map(|open| key(&open.root.0)),
            cause.map(|open| open.hop),
            sums::call(asked),
            outcome.as_ref().map(|outcome| sums::outcome(id, outcome)),
        ];
        run(db, sql, row)?;
    }
    Ok(())
}

/// Steps forward of call rows. An outcome is never overwritten: whoever was first has answered. What its
/// cycle answers was awaited, what it detaches is awaited no more.
pub(super) fn call_changes(db: &Connection, agent: i64, changes: &[CallChange]) -> Outcome<()> {
    let sql = "UPDATE call SET state = ?1, outcome = coalesce(?2, outcome), outcome_crc = coalesce(?5, outcome_crc), \
               awaited = CASE ?1 WHEN 'done' THEN 1 WHEN 'detached' THEN 0 ELSE awaited END \
               WHERE id = ?3 AND agent = ?4 AND state <> 'done'";
    for change in changes {
        let outcome = change.outcome.as_ref().map(to_json).transpose()?;
        let crc = outcome.as_ref().map(|outcome| sums::outcome(&change.id.0, outcome));
        run(db, sql, params![change.state.as_str(), outcome, change.id.0, agent, crc])?;
    }
    Ok(())
}

/// Keeps volatile layers by content.
pub(super) fn layers(db: &Connection, layers: &[Layer]) -> Outcome<()> {
    layers.iter().try_for_each(|layer| put_blob(db, layer.text.as_bytes()).map(drop))
}

/// Keeps bytes by content; a repeat is free.
pub(super) fn put_blob(db: &Connection, content: &[u8]) -> Outcome<ContentRef> {
    let name = ContentRef::of(content);
    run(db, "INSERT OR IGNORE INTO blob (hash, content) VALUES (?, ?)", params![unhex(&name), content])?;
    Ok(name)
}

/// The bytes of a content address; empty where it is none.
pub(super) fn unhex(name: &ContentRef) -> Vec<u8> {
    let digits: Option<Vec<u8>> =
        name.0.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    digits.unwrap_or_default().chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A new view row.
pub(super) fn view(db: &Connection, agent: i64, n: u64, view: &View) -> Outcome<()> {
    let sql = "INSERT INTO view (agent, rev, commit_n, tail, reasoning_from, native_from, ranges, summary) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    let (tail, reasoning_from, native_from) =
        (int(view.tail), int(view.reasoning_from), int(view.native_from));
    let ranges = to_json(&view.ranges)?;
    let row = params![agent, int(view.rev), int(n), tail, reasoning_from, native_from, ranges, view.summary];
    run(db, sql, row).map(drop)
}

/// The receipt.
pub(super) fn receipt(db: &Connection, agent: i64, receipt: &Run) -> Outcome<()> {
    let sql = "INSERT INTO run (agent, ordinal, cycle, events, opened_at, ended_at, usage_input, usage_cached, \
               usage_output, usage_reasoning, cost_micros, config_rev, ending, model, woke_for, steps, reason, \
               summary) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let [input, cached, output, reasoning] = usage_columns(&receipt.usage);
    let row = params![
        agent,
        int(receipt.ordinal),
        bytes(receipt.id.0),
        receipt.events,
        ms(receipt.opened_at),
        ms(receipt.ended_at),
        input,
        cached,
        output,
        reasoning,
        receipt.cost_micros.map(int),
        int(receipt.config_rev),
        receipt.ending.as_str(),
        receipt.model,
        receipt.woke_for,
        to_json(&receipt.steps)?,
        receipt.reason,
        receipt.summary,
    ];
    run(db, sql, row).map(drop)
}

/// The audit row.
pub(super) fn audit(db: &Connection, agent: i64, n: u64, epoch: u64, changes: &Changes) -> Outcome<()> {
    let sql = "INSERT INTO commits (agent, n, epoch, cycle, step, kind, at, usage_input, usage_cached, \
               usage_output, usage_reasoning) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let [input, cached, output, reasoning] = usage_columns(&changes.usage);
    let row = params![
        agent,
        int(n),
        int(epoch),
        bytes(changes.cycle.0),
        changes.step,
        changes.kind.as_str(),
        ms(changes.at),
        input,
        cached,
        output,
        reasoning
    ];
    run(db, sql, row).map(drop)
}
