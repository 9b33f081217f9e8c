//! Targets, and what waits to be sent to them. Rows are added by the commits in which something happens.

use std::sync::Arc;

use agent::alert::Alert;
use agent::id::{AgentId, SpaceId};
use agent::limits;
use agent::port::{
    AfterFailure, BoxFuture, Denial, FailedAttempt, FailureNoted, NewsKind, NewsOf, StoreError, StoredTarget,
    TargetBook, TargetDelivery, TargetState,
};
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::ports::{Caller, Sqlite};
use crate::sqlite::tables::alerts;
use crate::sqlite::tables::facts::{touch, touch_space};
use crate::sqlite::tables::outgoing::bit;
use crate::sqlite::tables::rows::{
    agent_row, all, first, from_json, int, ms, run, space_row, time_at, time_or_none, to_json, u32_at,
    u64_at, u64_or_none, uuid_or_none,
};

/// The columns of [`target_at`]; `t` is the target and `o` its first delivery that waits.
const TARGET: &str =
    "t.name, t.url, t.secrets, t.allow, t.kinds, s.uuid, e.uuid, t.off, t.at, t.only_if, t.body";
const TARGET_COLUMNS: usize = 11;
const FIRST: &str = "FROM target t LEFT JOIN space s ON s.id = t.space LEFT JOIN entity e ON e.id = t.agent \
    LEFT JOIN outgoing o ON o.n = (SELECT min(n) FROM outgoing WHERE target = t.id AND dead = 0)";
/// The columns of [`delivery_at`].
const DELIVERY: &str = "o.id, o.body, o.at, o.attempts, o.why";

fn target_at(row: &Row<'_>) -> Outcome<StoredTarget> {
    let kinds: i64 = row.get(4)?;
    let of = match (uuid_or_none(row, 5)?, uuid_or_none(row, 6)?) {
        (Some(space), None) => NewsOf::Space(SpaceId(space)),
        (None, Some(agent)) => NewsOf::Agent(AgentId(agent)),
        _ => return Err(damaged("a target is of no space and no agent")),
    };
    let body: Option<String> = row.get(10)?;
    Ok(StoredTarget {
        name: row.get(0)?,
        url: row.get(1)?,
        secrets: from_json(&row.get::<_, String>(2)?, "the secrets of a target")?,
        allow: from_json(&row.get::<_, String>(3)?, "what a target may reach")?,
        on: NewsKind::ALL.into_iter().filter(|kind| kinds & bit(*kind) != 0).collect(),
        of,
        only_if: row.get(9)?,
        body: body.map(|body| from_json(&body, "the body of a target")).transpose()?,
        off: row.get(7)?,
        at: time_at(row, 8)?,
    })
}

fn delivery_at(row: &Row<'_>, at: usize) -> Outcome<TargetDelivery> {
    Ok(TargetDelivery {
        id: row.get(at)?,
        body: row.get(at + 1)?,
        at: time_at(row, at + 2)?,
        attempts: u32_at(row, at + 3)?,
        why: row.get(at + 4)?,
    })
}

fn targets(db: &Connection) -> Outcome<Vec<TargetState>> {
    let count = |dead| format!("(SELECT count(*) FROM outgoing WHERE target = t.id AND dead = {dead})");
    let (waiting, dead) = (count(0), count(1));
    let sql = format!(
        "SELECT {TARGET}, {waiting}, {dead}, o.why, o.next_at, o.attempts, t.failed_at, t.arrived_at \
         {FIRST} ORDER BY t.name"
    );
    all(db, &sql, [], |row| {
        Ok(TargetState {
            target: target_at(row)?,
            waiting: u64_at(row, TARGET_COLUMNS)?,
            dead: u64_at(row, TARGET_COLUMNS + 1)?,
            why: row.get(TARGET_COLUMNS + 2)?,
            next_at: time_or_none(row, TARGET_COLUMNS + 3)?,
            attempts: u64_or_none(row, TARGET_COLUMNS + 4)?.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            failed_at: time_or_none(row, TARGET_COLUMNS + 5)?,
            arrived_at: time_or_none(row, TARGET_COLUMNS + 6)?,
        })
    })
}

fn put(db: &Connection, target: &StoredTarget) -> Outcome<()> {
    let gone = |what, name: String| Denial::NotFound { what, name };
    let (space, agent) = match target.of {
        NewsOf::Space(id) => (Some(space_row(db, id)?.ok_or_else(|| gone("space", id.to_string()))?), None),
        NewsOf::Agent(id) => (None, Some(agent_row(db, id.0)?.ok_or_else(|| gone("agent", id.to_string()))?)),
    };
    touch_of(db, &target.name)?;
    let kinds: i64 = target.on.iter().map(|kind| bit(*kind)).sum();
    let sql = "INSERT INTO target (name, url, secrets, allow, kinds, space, agent, off, at, only_if, body) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
               ON CONFLICT (name) DO UPDATE SET url = excluded.url, secrets = excluded.secrets, allow = excluded.allow, \
               kinds = excluded.kinds, space = excluded.space, agent = excluded.agent, off = excluded.off, at = excluded.at, \
               only_if = excluded.only_if, body = excluded.body, failed_at = NULL";
    let (secrets, allow) = (to_json(&target.secrets)?, to_json(&target.allow)?);
    let StoredTarget { name, url, off, at, only_if, body, .. } = target;
    let body = body.as_ref().map(to_json).transpose()?;
    run(db, sql, params![name, url, secrets, allow, kinds, space, agent, off, ms(*at), only_if, body])?;
    touch_of(db, name)?;
    // Only the first one that waits was ever tried, perhaps at another address.
    let sql = "UPDATE outgoing SET next_at = 0, attempts = 0, why = NULL WHERE n = (SELECT min(n) FROM outgoing WHERE dead = 0 \
               AND target = (SELECT id FROM target WHERE name = ?))";
    run(db, sql, [name]).map(drop)
}

/// Whether a server outside is told is one of the facts of the agents of whose messages the target is told.
fn touch_of(db: &Connection, name: &str) -> Outcome<()> {
    let sql = "SELECT space, agent FROM target WHERE name = ?";
    let of =
        first(db, sql, [name], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?)))?;
    match of {
        Some((Some(space), _)) => touch_space(db, space),
        Some((None, Some(agent))) => touch(db, agent),
        Some((None, None)) | None => Ok(()),
    }
}

fn delete(db: &Connection, name: &str) -> Outcome<bool> {
    touch_of(db, name)?;
    run(db, "DELETE FROM outgoing WHERE target = (SELECT id FROM target WHERE name = ?)", [name])?;
    Ok(run(db, "DELETE FROM target WHERE name = ?", [name])? > 0)
}

fn due(db: &Connection, now: Timestamp, limit: usize) -> Outcome<Vec<(StoredTarget, TargetDelivery)>> {
    let sql = format!(
        "SELECT {TARGET}, {DELIVERY} {FIRST} WHERE t.off IS NULL AND o.next_at <= ? ORDER BY o.next_at, o.n LIMIT ?"
    );
    all(db, &sql, params![ms(now), int(limit as u64)], |row| {
        Ok((target_at(row)?, delivery_at(row, TARGET_COLUMNS)?))
    })
}

fn arrived(db: &Connection, id: &str, at: Timestamp) -> Outcome<bool> {
    let sql = "DELETE FROM outgoing WHERE id = ? AND dead = 0 RETURNING target";
    let Some(target) = first(db, sql, [id], |row| Ok(row.get::<_, i64>(0)?))? else { return Ok(false) };
    let sql = "SELECT failed_at IS NOT NULL FROM target WHERE id = ?";
    let was_failing = first(db, sql, [target], |row| Ok(row.get(0)?))?.unwrap_or(false);
    run(db, "UPDATE target SET failed_at = NULL, arrived_at = ? WHERE id = ?", params![ms(at), target])?;
    Ok(was_failing)
}

fn failed(db: &Connection, tried: &StoredTarget, id: &str, failed: &FailedAttempt) -> Outcome<FailureNoted> {
    let FailedAttempt { why, then, at } = failed;
    let sql = "UPDATE outgoing SET attempts = attempts + 1, why = ?, next_at = coalesce(?, next_at), dead = ? \
               WHERE id = ? AND dead = 0 AND target = (SELECT id FROM target WHERE name = ? AND url = ? AND at = ?) \
               RETURNING target";
    let (next, dead) = match then {
        AfterFailure::Retry(at) => (Some(ms(*at)), false),
        AfterFailure::Dead => (None, true),
        AfterFailure::Off => (None, false),
    };
    let given = params![why, next, dead, id, tried.name, tried.url, ms(tried.at)];
    let target: Option<i64> = first(db, sql, given, |row| Ok(row.get(0)?))?;
    let Some(target) = target else { return Ok(FailureNoted::Nothing) };
    let sql = "UPDATE target SET failed_at = ? WHERE id = ? AND failed_at IS NULL";
    let began = run(db, sql, params![ms(*at), target])? > 0;
    match then {
        AfterFailure::Retry(_) => {}
        AfterFailure::Off => {
            run(db, "UPDATE target SET off = ? WHERE id = ?", params![why, target])?;
            touch_of(db, &tried.name)?;
        }
        AfterFailure::Dead => {
            let sql = "DELETE FROM outgoing WHERE target = ?1 AND dead = 1 AND n <= (SELECT n FROM outgoing \
                       WHERE target = ?1 AND dead = 1 ORDER BY n DESC LIMIT 1 OFFSET ?2)";
            run(db, sql, params![target, int(limits::TARGET_DEAD_MAX as u64)])?;
        }
    }
    if let Some(alert) = Alert::of_target(&tried.name, tried.of.agent(), then, began, why, *at) {
        alerts::put(db, &alert)?;
    }
    Ok(if began { FailureNoted::Began } else { FailureNoted::Continued })
}

fn retry(db: &Connection, name: &str, id: Option<&str>, now: Timestamp) -> Outcome<u64> {
    let sql = "UPDATE outgoing SET dead = 0, attempts = 0, next_at = 0, at = ? \
               WHERE dead = 1 AND target = (SELECT id FROM target WHERE name = ?) AND (?3 IS NULL OR id = ?3)";
    Ok(run(db, sql, params![ms(now), name, id])? as u64)
}

impl TargetBook for Sqlite {
    fn targets(&self) -> BoxFuture<'_, Result<Vec<TargetState>, StoreError>> {
        let found = self.read(Caller::Api, |db, _| targets(db));
        Box::pin(async move { Ok(found.await?) })
    }

    fn put_target(&self, target: StoredTarget) -> BoxFuture<'_, Result<(), StoreError>> {
        let done = self.write(move |db, _| put(db, &target));
        Box::pin(async move { Ok(done.await?) })
    }

    fn delete_target(&self, name: String) -> BoxFuture<'_, Result<bool, StoreError>> {
        let done = self.write(move |db, _| delete(db, &name));
        Box::pin(async move { Ok(done.await?) })
    }

    fn deliveries_due(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(StoredTarget, TargetDelivery)>, StoreError>> {
        let found = self.read_inline(Caller::Agents, move |db, _| due(db, now, limit));
        Box::pin(async move { Ok(found.await?) })
    }

    fn next_delivery_at(&self, now: Timestamp) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        let sql = format!("SELECT min(o.next_at) {FIRST} WHERE t.off IS NULL AND o.next_at > ?");
        let found = self
            .read_inline(Caller::Agents, move |db, _| first(db, &sql, [ms(now)], |row| time_or_none(row, 0)));
        Box::pin(async move { Ok(found.await?.flatten()) })
    }

    fn committed(&self) -> BoxFuture<'_, ()> {
        let committed = Arc::clone(&self.inner.session.committed);
        Box::pin(async move { committed.notified().await })
    }

    fn delivery_arrived(&self, id: String, at: Timestamp) -> BoxFuture<'_, Result<bool, StoreError>> {
        let done = self.write(move |db, _| arrived(db, &id, at));
        Box::pin(async move { Ok(done.await?) })
    }

    fn delivery_failed(
        &self,
        tried: StoredTarget,
        id: String,
        attempt: FailedAttempt,
    ) -> BoxFuture<'_, Result<FailureNoted, StoreError>> {
        let done = self.write(move |db, _| failed(db, &tried, &id, &attempt));
        Box::pin(async move { Ok(done.await?) })
    }

    fn dead_deliveries(&self, name: String) -> BoxFuture<'_, Result<Vec<TargetDelivery>, StoreError>> {
        let sql = format!(
            "SELECT {DELIVERY} FROM outgoing o JOIN target t ON t.id = o.target WHERE t.name = ? AND o.dead = 1 ORDER BY o.n"
        );
        let found = self.read(Caller::Api, move |db, _| all(db, &sql, [&name], |row| delivery_at(row, 0)));
        Box::pin(async move { Ok(found.await?) })
    }

    fn retry_deliveries(
        &self,
        name: String,
        id: Option<String>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        let done = self.write(move |db, _| retry(db, &name, id.as_deref(), now));
        Box::pin(async move { Ok(done.await?) })
    }
}
