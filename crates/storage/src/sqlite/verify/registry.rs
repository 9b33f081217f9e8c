//! Checks what belongs to no single agent: the schema, spaces and their messages, keys, and rows of agents
//! that do not exist.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::walk::{FILE, Walk, gap_before};
use crate::sqlite::engine::fault::{Outcome, damaged};
use crate::sqlite::engine::schema::open_memory;
use crate::sqlite::tables::messages::{MESSAGE, message_at};
use crate::sqlite::tables::rows::{SPACE, space_at, u64_at};
use crate::sqlite::tables::sums;

/// Tables in which each row belongs to an agent.
const OF_AGENTS: [&str; 16] = [
    "approval_rule",
    "call",
    "commits",
    "config_rev",
    "entry",
    "event",
    "goal",
    "inbox_head",
    "layer",
    "life",
    "memory",
    "plan",
    "run",
    "step",
    "view",
    "waiting",
];
/// Rows that refer to missing rows: the table, what is wrong, and a query for such rows.
const DANGLING: [(&str, &str, &str); 5] = [
    (
        "agent",
        "it has no entity that is an agent",
        "SELECT a.id FROM agent a LEFT JOIN entity e ON e.id = a.id WHERE e.kind IS NOT 1",
    ),
    (
        "entity",
        "it is an agent, but has no `agent` row",
        "SELECT e.uuid FROM entity e WHERE e.kind = 1 AND NOT EXISTS (SELECT 1 FROM agent a WHERE a.id = e.id)",
    ),
    (
        "member",
        "its space or entity does not exist",
        "SELECT m.space || '/' || m.entity FROM member m LEFT JOIN space s ON s.id = m.space \
         LEFT JOIN entity e ON e.id = m.entity WHERE s.id IS NULL OR e.id IS NULL",
    ),
    (
        "message",
        "its space does not exist",
        "SELECT m.uuid FROM message m WHERE m.space NOT IN (SELECT id FROM space)",
    ),
    (
        "credential",
        "its entity does not exist",
        "SELECT c.id FROM credential c LEFT JOIN entity e ON e.id = c.entity \
         WHERE c.scope = 2 AND e.id IS NULL",
    ),
];

pub(super) fn check(walk: &mut Walk<'_>) -> Outcome<()> {
    tables(walk)?;
    for (table, what, sql) in DANGLING {
        walk.each(table, sql, [], |_, _| Err(damaged(what)));
    }
    for table in OF_AGENTS {
        let sql = format!("SELECT DISTINCT agent FROM {table} WHERE agent NOT IN (SELECT id FROM agent)");
        walk.each(table, &sql, [], |_, row| {
            Err(damaged(format!("rows of agent {}, which does not exist", row.get::<_, i64>(0)?)))
        });
    }
    let sql = format!("SELECT s.id, {SPACE} FROM space s");
    walk.each("space", &sql, [], |walk, row| {
        let space = space_at(row, 1)?;
        let (head, rev) = (space.head_seq, space.rev);
        messages(walk, row.get(0)?, &space.name, head, rev);
        Ok(())
    });
    Ok(())
}

/// Checks that the schema is exactly the one that this version creates.
fn tables(walk: &mut Walk<'_>) -> Outcome<()> {
    let fresh = open_memory().map_err(|error| damaged(error.to_string()))?;
    let (wanted, found) = (shape(&fresh)?, shape(walk.db)?);
    for (name, sql) in &wanted {
        match found.get(name) {
            None => walk.flaw(FILE, name, "it is missing"),
            Some(other) => walk.require(other == sql, FILE, name, || {
                "its definition differs from that of this version".into()
            }),
        }
    }
    for name in found.keys().filter(|name| !wanted.contains_key(*name)) {
        walk.flaw(FILE, name, "it does not belong there");
    }
    Ok(())
}

fn shape(db: &Connection) -> Outcome<BTreeMap<String, Option<String>>> {
    // The engine's own tables and indexes; what runs by itself is never its own, whatever it is called.
    let sql = "SELECT type || ' ' || name, sql FROM sqlite_schema
        WHERE type IN ('trigger', 'view') OR name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut ask = db.prepare(sql)?;
    Ok(ask.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?)
}

fn messages(walk: &mut Walk<'_>, space: i64, name: &str, head: u64, newest: u64) {
    let mut last = 0;
    let sql = format!("{MESSAGE} WHERE m.space = ? ORDER BY m.seq");
    walk.each("message", &sql, [space], |walk, row| {
        let gap = gap_before(&mut last, u64_at(row, 9)?, "message");
        walk.require(gap.is_none(), "message", format!("{name}/{last}"), || {
            format!("{}, or its sender is", gap.unwrap_or_default())
        });
        let message = message_at(row)?;
        if !sums::message_is_intact(row, 0)? {
            return Err(damaged(format!("message {} of `{name}`: its checksum does not match", message.seq)));
        }
        walk.require(message.rev <= newest, "message", message.id, || {
            format!("its revision {} is above the space's {newest}", message.rev)
        });
        Ok(())
    });
    walk.require(last == head, "space", name, || {
        format!("it counts {head} messages, the last one is {last}")
    });
    let sql = "SELECT rev FROM message WHERE space = ? GROUP BY rev HAVING count(*) > 1";
    walk.each("message", sql, [space], |_, row| {
        Err(damaged(format!("revision {} of `{name}` belongs to several", row.get::<_, i64>(0)?)))
    });
}
