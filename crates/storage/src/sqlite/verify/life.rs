//! Checks everything that belongs to one agent: its rows and what they refer to, the audit of its commits, runs,
//! configs and notes.

use agent::changes::CommitKind;
use agent::id::CycleId;
use agent::life::{GoalStatus, OpenCycle};
use agent::run::StepRecord;
use rusqlite::types::Value;

use super::row::{Row, read};
use super::walk::{Walk, describe, gap_before, name_of};
use super::{ledger, log};
use crate::sqlite::engine::fault::damaged;
use crate::sqlite::tables::configs::config_of;
use crate::sqlite::tables::entries;
use crate::sqlite::tables::facts::{MEMORY, memory_at};
use crate::sqlite::tables::plans::{PLAN, plan_at};
use crate::sqlite::tables::rows::{from_json, u32_at, u64_at, uuid_at};
use crate::sqlite::tables::runs::{RUN, run_at};

pub(super) fn check(walk: &mut Walk<'_>, agent: i64) {
    let life = match read(walk, agent) {
        Ok(Some(life)) => life,
        Ok(None) => return walk.flaw("life", agent, "the agent has no `life` or no `inbox_head` row"),
        Err(fault) => return walk.flaw("life", agent, describe(fault)),
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

fn configs(walk: &mut Walk<'_>, life: &Row) {
    let mut last = 0;
    let db = walk.db;
    walk.each(
        "config_rev",
        "SELECT rev FROM config_rev WHERE agent = ? ORDER BY rev",
        [life.agent],
        |walk, row| {
            let rev = u64_at(row, 0)?;
            let gap = gap_before(&mut last, rev, "revision");
            walk.require(gap.is_none(), "config_rev", rev, || gap.unwrap_or_default());
            config_of(db, life.agent, rev).map(drop)
        },
    );
    walk.require(last == life.config_rev, "config_rev", last, || {
        format!("it is the newest, but the agent has {}", life.config_rev)
    });
    let pinned = life.open.as_ref().map_or(1, |open| open.config_rev);
    walk.require((1..=last).contains(&pinned), "life", "open", || {
        format!("its cycle uses config revision {pinned}, which does not exist")
    });
}

/// Checks the audit: numbers without gaps, and an epoch that only the opening of a cycle raises, by one.
fn commits(walk: &mut Walk<'_>, life: &Row) {
    let (mut last, mut epoch) = (0, 0);
    let sql = "SELECT n, epoch, kind FROM commits WHERE agent = ? ORDER BY n";
    walk.each("commits", sql, [life.agent], |walk, row| {
        let (n, of) = (u64_at(row, 0)?, u64_at(row, 1)?);
        let gap = gap_before(&mut last, n, "commit");
        walk.require(gap.is_none(), "commits", n, || gap.unwrap_or_default());
        let kind: String = row.get(2)?;
        let kind =
            CommitKind::try_from(&*kind).map_err(|_| damaged(format!("`{kind}` is no kind of commit")))?;
        let wanted = epoch + u64::from(kind == CommitKind::Open);
        epoch = of;
        if of != wanted {
            return Err(damaged(format!("its epoch is {of}, wanted {wanted}")));
        }
        Ok(())
    });
    walk.require(last == life.commit_n, "commits", last, || {
        format!("it is the last one, but `life` counts {}", life.commit_n)
    });
    walk.require(epoch == life.epoch, "life", "epoch", || {
        format!("it is {}, the last commit's is {epoch}", life.epoch)
    });
}

fn runs(walk: &mut Walk<'_>, life: &Row) {
    let mut last = 0;
    let sql = format!("{RUN} WHERE r.agent = ? ORDER BY r.ordinal");
    walk.each("run", &sql, [life.agent], |walk, row| {
        let ordinal = u64_at(row, 2)?;
        let gap = gap_before(&mut last, ordinal, "run");
        walk.require(gap.is_none(), "run", ordinal, || gap.unwrap_or_default());
        let run = run_at(row)?;
        walk.require((1..=life.config_rev).contains(&run.config_rev), "run", ordinal, || {
            format!("it uses config revision {}, which does not exist", run.config_rev)
        });
        Ok(())
    });
    walk.require(last == life.cycles, "run", last, || {
        format!("it is the last one, but `life` counts {}", life.cycles)
    });
}

/// Checks the step records: of steps of the open cycle that have begun.
fn steps(walk: &mut Walk<'_>, life: &Row) {
    let sql = "SELECT step, cycle, record FROM step WHERE agent = ? ORDER BY cycle, step";
    walk.each("step", sql, [life.agent], |walk, row| {
        let (step, cycle) = (u32_at(row, 0)?, CycleId(uuid_at(row, 1)?));
        let open = life.open.as_ref().filter(|open| open.id == cycle);
        walk.require(open.is_some_and(|open| step <= open.step), "step", step, || {
            "its cycle is not open, or its step has not begun".into()
        });
        from_json::<StepRecord>(&row.get::<_, String>(2)?, "a record").map(drop)
    });
}

/// Checks memories, goals and plans: at most one version is valid at a time, and none is of a future commit.
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
            let shown = name_of(row);
            walk.require(older.is_none_or(|(_, to)| to.is_some_and(|to| to <= from)), table, &shown, || {
                "several of its versions are valid at once".into()
            });
            walk.require(from.max(to.unwrap_or(0)) <= life.commit_n, table, &shown, || {
                "it is of a commit that does not exist yet".into()
            });
            Ok(())
        });
    }
    let sql = format!("SELECT {MEMORY} FROM memory m WHERE agent = ?");
    walk.each("memory", &sql, [life.agent], |_, row| memory_at(row).map(drop));
    walk.each("goal", "SELECT id, status FROM goal WHERE agent = ?", [life.agent], |_, row| {
        let status: String = row.get(1)?;
        GoalStatus::try_from(&*status)
            .ok()
            .map(drop)
            .ok_or_else(|| damaged(format!("`{status}` is no status of a goal")))
    });
    let sql = format!(
        "SELECT {PLAN}, hop, to_commit IS NULL AND next_at IS NOT NULL, fire_at IS NOT NULL \
         FROM plan p WHERE agent = ?"
    );
    walk.each("plan", &sql, [life.agent], |walk, row| {
        u32_at(row, 9)?;
        let (current, looked_at): (bool, bool) = (row.get(10)?, row.get(11)?);
        walk.require(!current || life.active == looked_at, "plan", name_of(row), || {
            "its `fire_at` does not fit its agent's standing".into()
        });
        plan_at(row, 0).map(drop)
    });
}

/// Checks the layers of the open cycle.
fn layers(walk: &mut Walk<'_>, life: &Row, open: &OpenCycle) {
    let of_view = |view| entries::layers(walk.db, life.agent, &view, u64::MAX, Some(open.id));
    if let Err(fault) = entries::view(walk.db, life.agent).and_then(of_view) {
        walk.flaw("life", "open", describe(fault));
    }
}
