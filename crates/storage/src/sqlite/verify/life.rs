//! An agent's life: its row and what it points to, the audit of its commits, receipts, configs, and the
//! notes that it keeps.

use agent::changes::CommitKind;
use agent::config::Urgency;
use agent::id::CycleId;
use agent::life::{GoalStatus, OpenCycle, Requester, Schedule, Standing};
use agent::run::StepReceipt;
use rusqlite::types::Value;

use super::{Walk, follows, ledger, log, words};
use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::ports::reader::lives::{RUN, run_at};
use crate::sqlite::ports::store::wake::{self, open_at};
use crate::sqlite::tables::rows::{
    config_of, first, from_json, reason_or_none, standing_at, time_at, time_or_none, trust_at, u32_at,
    u64_at, uuid_at, uuid_or_none, wake_on_at,
};

/// The rows of a life, as far as others are held against them.
pub(super) struct Row {
    pub(super) agent: i64,
    pub(super) active: bool,
    pub(super) epoch: u64,
    pub(super) commit_n: u64,
    pub(super) head_seq: u64,
    pub(super) cycles: u64,
    pub(super) open: Option<OpenCycle>,
    pub(super) inbox_seq: u64,
    pub(super) waiting: u64,
    pub(super) taken: u64,
    pub(super) held: u64,
    pub(super) due: bool,
    pub(super) canceled: bool,
    config_rev: u64,
}

impl Row {
    /// Whether that cycle is open.
    pub(super) fn is_open(&self, cycle: CycleId) -> bool {
        self.open.as_ref().is_some_and(|open| open.id == cycle)
    }

    /// Whether the open cycle has taken the event.
    pub(super) fn has_taken(&self, seq: u64) -> bool {
        self.open.as_ref().is_some_and(|open| open.taken.contains(&seq))
    }
}

pub(super) fn check(walk: &mut Walk<'_>, agent: i64) {
    let life = match read(walk, agent) {
        Ok(Some(life)) => life,
        Ok(None) => return walk.flaw("life", agent, "the agent has no life, or no inbox"),
        Err(fault) => return walk.flaw("life", agent, words(fault)),
    };
    let shown = log::check(walk, &life);
    log::views(walk, &life);
    ledger::check(walk, &life, &shown);
    configs(walk, &life);
    commits(walk, &life);
    runs(walk, &life);
    steps(walk, &life);
    notes(walk, &life);
    if let Some(open) = &life.open {
        layers(walk, &life, open);
    }
}

/// What is noted once more beside the config and the open cycle, for those who ask without reading these.
fn copies(walk: &mut Walk<'_>, agent: i64) {
    let sql = "SELECT a.id, a.urgency, l.requesters, h.due_at, h.hold_until, a.wake_on, a.hop_limit, a.inbox_max, \
               a.debounce, h.rest_reason, l.skips, l.unpriced, e.created_at FROM agent a JOIN entity e ON e.id = a.id \
               JOIN life l ON l.agent = a.id JOIN inbox_head h ON h.agent = a.id WHERE a.id = ?";
    walk.each("agent", sql, [agent], |_, row| {
        if let Some(text) = row.get::<_, Option<String>>(1)? {
            from_json::<Urgency>(&text, "an urgency")?;
        }
        if let Some(text) = row.get::<_, Option<String>>(2)? {
            from_json::<Vec<Requester>>(&text, "requesters")?;
        }
        time_or_none(row, 3)?;
        time_or_none(row, 4)?;
        wake_on_at(row, 5)?;
        u32_at(row, 6)?;
        u32_at(row, 7)?;
        u32_at(row, 8)?;
        reason_or_none(row, 9)?;
        u64_at(row, 10)?;
        u64_at(row, 11)?;
        time_at(row, 12).map(drop)
    });
}

fn read(walk: &mut Walk<'_>, agent: i64) -> Outcome<Option<Row>> {
    copies(walk, agent);
    let sql = "SELECT a.standing, a.config_rev, l.epoch, l.commit_n, l.head_seq, l.cycles, l.open_cycle, l.open, \
               l.active_space, s.id, h.head_seq, h.waiting, h.taken, h.held, h.due_at, h.cancel FROM agent a \
               JOIN life l ON l.agent = a.id JOIN inbox_head h ON h.agent = a.id \
               LEFT JOIN space s ON s.id = l.active_space WHERE a.id = ?";
    first(walk.db, sql, [agent], |row| {
        let open = open_at(row, 7)?;
        walk.hold(uuid_or_none(row, 6)? == open.as_ref().map(|open| open.id.0), "life", "open", || {
            "its open cycle is noted twice, and not as the same".into()
        });
        let space: Option<i64> = row.get(8)?;
        walk.hold(space == row.get(9)?, "life", "active_space", || "its space is not there".into());
        Ok(Row {
            agent,
            active: standing_at(row, 0)? == Standing::Active,
            config_rev: u64_at(row, 1)?,
            epoch: u64_at(row, 2)?,
            commit_n: u64_at(row, 3)?,
            head_seq: u64_at(row, 4)?,
            cycles: u64_at(row, 5)?,
            open,
            inbox_seq: u64_at(row, 10)?,
            waiting: u64_at(row, 11)?,
            taken: u64_at(row, 12)?,
            held: u64_at(row, 13)?,
            due: row.get::<_, Option<i64>>(14)?.is_some(),
            canceled: uuid_or_none(row, 15)?.is_some(),
        })
    })
}

fn configs(walk: &mut Walk<'_>, life: &Row) {
    let mut last = 0;
    let db = walk.db;
    walk.each(
        "config_rev",
        "SELECT rev FROM config_rev WHERE agent = ? ORDER BY rev",
        [life.agent],
        |walk, row| {
            let rev = u64_at(row, 0)?;
            let gap = follows(&mut last, rev, "revision");
            walk.hold(gap.is_none(), "config_rev", rev, || gap.unwrap_or_default());
            config_of(db, life.agent, rev).map(drop)
        },
    );
    walk.hold(last == life.config_rev, "config_rev", last, || {
        format!("it is the newest, but the agent has {}", life.config_rev)
    });
    let pinned = life.open.as_ref().map_or(1, |open| open.config_rev);
    walk.hold((1..=last).contains(&pinned), "life", "open", || {
        format!("its cycle is of config revision {pinned}, which is not there")
    });
}

/// The audit: numbered without gaps, under epochs that each opening raises by one and nothing else does.
fn commits(walk: &mut Walk<'_>, life: &Row) {
    let (mut last, mut epoch) = (0, 0);
    let sql = "SELECT n, epoch, kind FROM commits WHERE agent = ? ORDER BY n";
    walk.each("commits", sql, [life.agent], |walk, row| {
        let (n, of) = (u64_at(row, 0)?, u64_at(row, 1)?);
        let gap = follows(&mut last, n, "commit");
        walk.hold(gap.is_none(), "commits", n, || gap.unwrap_or_default());
        let kind: String = row.get(2)?;
        let kind =
            CommitKind::parse(&kind).ok_or_else(|| damaged(format!("`{kind}` is no kind of commit")))?;
        let wanted = epoch + u64::from(kind == CommitKind::Open);
        epoch = of;
        if of != wanted {
            return Err(damaged(format!("it is of epoch {of}, wanted {wanted}")));
        }
        Ok(())
    });
    walk.hold(last == life.commit_n, "commits", last, || {
        format!("it is the last one, but the life counts {}", life.commit_n)
    });
    walk.hold(epoch == life.epoch, "life", "epoch", || {
        format!("it is {}, the last commit's is {epoch}", life.epoch)
    });
}

fn runs(walk: &mut Walk<'_>, life: &Row) {
    let mut last = 0;
    let sql = format!("{RUN} WHERE r.agent = ? ORDER BY r.ordinal");
    walk.each("run", &sql, [life.agent], |walk, row| {
        let ordinal = u64_at(row, 2)?;
        let gap = follows(&mut last, ordinal, "run");
        walk.hold(gap.is_none(), "run", ordinal, || gap.unwrap_or_default());
        let run = run_at(row)?;
        walk.hold((1..=life.config_rev).contains(&run.config_rev), "run", ordinal, || {
            format!("it is of config revision {}, which is not there", run.config_rev)
        });
        Ok(())
    });
    walk.hold(last == life.cycles, "run", last, || {
        format!("it is the last one, but the life counts {}", life.cycles)
    });
}

/// Receipts of steps: of the open cycle, and of none that is still to come.
fn steps(walk: &mut Walk<'_>, life: &Row) {
    let sql = "SELECT step, cycle, receipt FROM step WHERE agent = ? ORDER BY cycle, step";
    walk.each("step", sql, [life.agent], |walk, row| {
        let (step, cycle) = (u32_at(row, 0)?, CycleId(uuid_at(row, 1)?));
        let open = life.open.as_ref().filter(|open| open.id == cycle);
        walk.hold(open.is_some_and(|open| step <= open.step), "step", step, || {
            "it is of no cycle that is open, or of a step that is still to come".into()
        });
        from_json::<StepReceipt>(&row.get::<_, String>(2)?, "a receipt").map(drop)
    });
}

/// Rows that are valid from one commit up to another: one at a time, and none from the future.
fn notes(walk: &mut Walk<'_>, life: &Row) {
    for (table, key) in [("memory", "key"), ("goal", "id"), ("plan", "id")] {
        let mut before: Option<(Value, Option<u64>)> = None;
        let sql = format!(
            "SELECT {key}, from_commit, to_commit FROM {table} WHERE agent = ? ORDER BY {key}, from_commit"
        );
        walk.each(table, &sql, [life.agent], |walk, row| {
            let (name, from): (Value, u64) = (row.get(0)?, u64_at(row, 1)?);
            let to = row.get::<_, Option<i64>>(2)?.map(|to| u64::try_from(to).unwrap_or(0));
            let older = before.replace((name.clone(), to)).filter(|(older, _)| *older == name);
            let shown = super::name_of(row);
            walk.hold(older.is_none_or(|(_, to)| to.is_some_and(|to| to <= from)), table, &shown, || {
                "several of its versions are valid at once".into()
            });
            walk.hold(from.max(to.unwrap_or(0)) <= life.commit_n, table, &shown, || {
                "it is of a commit that is still to come".into()
            });
            Ok(())
        });
    }
    walk.each("memory", "SELECT key, at FROM memory WHERE agent = ?", [life.agent], |_, row| {
        time_at(row, 1).map(drop)
    });
    walk.each("goal", "SELECT id, status FROM goal WHERE agent = ?", [life.agent], |_, row| {
        let status: String = row.get(1)?;
        GoalStatus::parse(&status)
            .map(drop)
            .ok_or_else(|| damaged(format!("`{status}` is no status of a goal")))
    });
    let sql = "SELECT id, schedule, hop, trust, to_commit IS NULL AND next_at IS NOT NULL, fire_at IS NOT NULL \
               FROM plan WHERE agent = ?";
    walk.each("plan", sql, [life.agent], |walk, row| {
        u32_at(row, 2)?;
        trust_at(row, 3)?;
        let (current, looked_at): (bool, bool) = (row.get(4)?, row.get(5)?);
        walk.hold(!current || life.active == looked_at, "plan", super::name_of(row), || {
            "it is not looked at as its agent's standing says".into()
        });
        from_json::<Schedule>(&row.get::<_, String>(1)?, "its schedule").map(drop)
    });
}

/// What the open cycle was sent besides its entries.
fn layers(walk: &mut Walk<'_>, life: &Row, open: &OpenCycle) {
    if let Err(fault) = wake::layers(walk.db, life.agent, open.id) {
        walk.flaw("life", "open", words(fault));
    }
}
