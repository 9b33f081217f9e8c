//! The parts of a commit that only append or settle: log, calls, receipts, the ledger.

use agent::changes::{CallChange, Changes, CommitKind};
use agent::entry::{Entry, View};
use agent::event::Fate;
use agent::limits;
use agent::run::Run;
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::{Fault, Outcome, damaged};
use crate::sqlite::engine::schema::FORMAT;
use crate::sqlite::tables::events::State;
use crate::sqlite::tables::rows::{bytes, first, int, key, ms, run, to_json, usage_columns};
use crate::sqlite::tables::stages::{SETTLED, Stages};

/// Appends to the log; its new head.
pub(in crate::sqlite) fn entries(db: &Connection, agent: i64, head: u64, entries: &[Entry]) -> Outcome<u64> {
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
pub(in crate::sqlite) fn settle(
    db: &Connection,
    agent: i64,
    changes: &Changes,
    stages: &mut Stages<'_>,
) -> Outcome<(u32, u32)> {
    let (mut gone, mut untaken, mut missing) = (0, 0, Vec::new());
    let failed = u32::from(changes.blame);
    for settlement in &changes.settle {
        let seq = int(settlement.seq);
        if settlement.fate == Fate::Waiting {
            // How long is rested stands with the agent. Here it would let later words overtake these.
            let sql = "UPDATE waiting SET taken = 0, attempts = attempts + ? \
                       WHERE agent = ? AND seq = ? AND taken = 1";
            untaken += run(db, sql, params![failed, agent, seq])?;
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
            state.step = attempts.map(|attempts| attempts + failed);
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

/// The receipt of the newest step of an open cycle, in a row of its own; with the last commit the run has all.
pub(in crate::sqlite) fn steps(db: &Connection, agent: i64, changes: &Changes) -> Outcome<()> {
    let Some(open) = &changes.open else {
        return run(db, "DELETE FROM step WHERE agent = ?", [agent]).map(drop);
    };
    let Some(receipt) = open.steps.last().filter(|_| writes_receipt(changes.kind)) else { return Ok(()) };
    let sql = "INSERT INTO step (agent, cycle, step, receipt) VALUES (?, ?, ?, ?) \
               ON CONFLICT (agent, cycle, step) DO UPDATE SET receipt = excluded.receipt";
    run(db, sql, params![agent, bytes(open.id.0), receipt.step, to_json(receipt)?]).map(drop)
}

fn writes_receipt(kind: CommitKind) -> bool {
    matches!(kind, CommitKind::Decide | CommitKind::Settle)
}

/// New call rows. One that is open keeps what its answer descends from, should it come after the cycle.
pub(in crate::sqlite) fn calls(db: &Connection, agent: i64, changes: &Changes) -> Outcome<()> {
    let sql = "INSERT INTO call (agent, cycle, step, idx, id, tool, effect, tool_version, awaited, \
               state, arguments, outcome, root, hop) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    for call in &changes.calls {
        let cause = changes.open.as_ref().filter(|_| call.outcome.is_none());
        let outcome = call.outcome.as_ref().map(to_json).transpose()?;
        let row = params![
            agent,
            bytes(call.cycle.0),
            call.step,
            call.index,
            call.id.0,
            call.tool,
            call.effect.as_str(),
            call.tool_version,
            call.awaited,
            call.state.as_str(),
            call.arguments,
            outcome,
            cause.map(|open| key(&open.root.0)),
            cause.map(|open| open.hop),
        ];
        run(db, sql, row)?;
    }
    Ok(())
}

/// Steps forward of call rows. An outcome is never overwritten: whoever was first has answered. What its
/// cycle answers was awaited, what it detaches is awaited no more.
pub(in crate::sqlite) fn call_changes(db: &Connection, agent: i64, changes: &[CallChange]) -> Outcome<()> {
    let sql = "UPDATE call SET state = ?1, outcome = coalesce(?2, outcome), \
               awaited = CASE ?1 WHEN 'done' THEN 1 WHEN 'detached' THEN 0 ELSE awaited END \
               WHERE id = ?3 AND agent = ?4 AND state <> 'done'";
    for change in changes {
        let outcome = change.outcome.as_ref().map(to_json).transpose()?;
        run(db, sql, params![change.state.as_str(), outcome, change.id.0, agent])?;
    }
    Ok(())
}

/// Keeps what the model was sent besides its entries. Once the cycle is over, that of old requests goes.
pub(in crate::sqlite) fn layers(db: &Connection, agent: i64, changes: &Changes) -> Outcome<()> {
    let over = changes.open.is_none() && changes.kind != CommitKind::View;
    if changes.layers.is_empty() && !over {
        return Ok(());
    }
    let sql = "SELECT coalesce(max(request), 0) FROM layer WHERE agent = ?";
    let newest: i64 = db.prepare_cached(sql)?.query_row([agent], |row| row.get(0))?;
    let request = newest + i64::from(!changes.layers.is_empty());
    let sql = "INSERT INTO layer (agent, request, idx, cycle, after, text) VALUES (?, ?, ?, ?, ?, ?)";
    for (idx, layer) in changes.layers.iter().enumerate() {
        let (idx, cycle) = (int(idx as u64), bytes(changes.cycle.0));
        run(db, sql, params![agent, request, idx, cycle, int(layer.after), &*layer.text])?;
    }
    if over {
        let sql = "DELETE FROM layer WHERE agent = ? AND request <= ?";
        run(db, sql, params![agent, request - int(limits::LAYERS_KEPT)])?;
    }
    Ok(())
}

/// A new view row.
pub(in crate::sqlite) fn view(db: &Connection, agent: i64, n: u64, view: &View) -> Outcome<()> {
    let sql = "INSERT INTO view (agent, rev, commit_n, tail, reasoning_from, native_from, ranges, summary) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    let (tail, reasoning_from, native_from) =
        (int(view.tail), int(view.reasoning_from), int(view.native_from));
    let ranges = to_json(&view.ranges)?;
    let row = params![agent, int(view.rev), int(n), tail, reasoning_from, native_from, ranges, view.summary];
    run(db, sql, row).map(drop)
}

/// The receipt.
pub(in crate::sqlite) fn receipt(db: &Connection, agent: i64, receipt: &Run) -> Outcome<()> {
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
pub(in crate::sqlite) fn audit(
    db: &Connection,
    agent: i64,
    n: u64,
    epoch: u64,
    changes: &Changes,
) -> Outcome<()> {
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

#[cfg(test)]
mod tests {
    use agent::id::CycleId;
    use agent::life::Layer;
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::sqlite::engine::schema;
    use crate::sqlite::ports::store::wake;

    #[test]
    fn what_was_sent_besides_the_log_is_kept_of_the_newest_requests_only_once_its_cycle_is_over() {
        let db = schema::open_memory().unwrap();
        let kept = |cycle| wake::layers(&db, 1, CycleId(Uuid::from_u128(cycle))).unwrap().len() as u64;
        let commit = |kind, cycle, texts: &[&str]| {
            let mut changes =
                Changes::new(kind, CycleId(Uuid::from_u128(cycle)), 0, 0, Timestamp::UNIX_EPOCH);
            changes.layers = texts.iter().map(|text| Layer { after: 1, text: (*text).into() }).collect();
            layers(&db, 1, &changes).unwrap();
        };
        // A commit without an open cycle closes it, but for a view.
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
