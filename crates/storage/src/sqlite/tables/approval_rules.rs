//! Rows of rules that approve calls in advance. `agent::approval` decides which call a rule is for; which rules are in force
//! is decided here, since that depends on who is a member of what.

use agent::approval::ApprovalRule;
use agent::call::{CallRow, Outcome as CallOutcome};
use agent::changes::{Changes, Refusal};
use agent::id::{AgentId, EntityId, SpaceId};
use agent::limits;
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use super::rows::{all, bytes, first, ms, page_of, row_bytes, run, time_at, uuid_at, uuid_or_none};
use crate::sqlite::engine::fault::Outcome;

const COLUMNS: &str = "e.uuid, r.tool, r.version, nullif(r.space, x'') AS space, r.until, r.tainted, r.by, \
                       nullif(r.person, x'') AS person, r.at";

/// Whether whoever gave the rule `r` might approve such a call now: an operator, a person whom `approvers` in the agent's
/// config `f` names by handle or by the role in the rule's space, or without such a list a person of the rule's space.
const MAY_APPROVE: &str = "(r.person = x'' OR EXISTS (SELECT 1 FROM entity p WHERE p.uuid = r.person AND p.kind = 0 AND \
    CASE WHEN coalesce(json_array_length(f.config, '$.approvers'), 0) = 0 \
    THEN EXISTS (SELECT 1 FROM member m JOIN space s ON s.id = m.space WHERE m.entity = p.id AND s.uuid = r.space) \
    ELSE EXISTS (SELECT 1 FROM json_each(f.config, '$.approvers') \
    WHERE ltrim(trim(value), '@') = p.name COLLATE NOCASE OR (substr(trim(value), 1, 5) = 'role:' AND EXISTS \
    (SELECT 1 FROM member m JOIN space s ON s.id = m.space WHERE m.entity = p.id AND s.uuid = r.space \
    AND m.role = trim(substr(trim(value), 6)) COLLATE NOCASE))) END))";

/// All rules of an agent that are in force: those whose time is not over, and whose giver might approve such a call now.
pub(crate) fn in_force(db: &Connection, agent: i64, now: Timestamp) -> Outcome<Vec<ApprovalRule>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM approval_rule r JOIN entity e ON e.id = r.agent JOIN agent a ON a.id = r.agent \
         JOIN config_rev f ON f.agent = a.id AND f.rev = a.config_rev \
         WHERE r.agent = ? AND r.until > ? AND {MAY_APPROVE} ORDER BY r.tool, r.space, r.person"
    );
    all(db, &sql, params![agent, ms(now)], rule_at)
}

/// Rules whose time is not over, of one agent or of all, of one person or of everybody, in the order in which they were given;
/// each with its number, after the one with the number `after`. Also whether there are more.
pub(crate) fn list(
    db: &Connection,
    (agent, person): (Option<i64>, Option<EntityId>),
    now: Timestamp,
    after: i64,
    bounds: (u32, usize),
) -> Outcome<(Vec<(ApprovalRule, i64)>, bool)> {
    let sql = format!(
        "SELECT {COLUMNS}, r.rowid AS n FROM approval_rule r JOIN entity e ON e.id = r.agent \
         WHERE r.rowid > ?1 AND r.until > ?2 AND (?3 IS NULL OR r.agent = ?3) AND (?4 IS NULL OR r.person = ?4) \
         ORDER BY r.rowid LIMIT ?5"
    );
    let given = params![after, ms(now), agent, person.map(|person| bytes(person.0)), bounds.0 + 1];
    page_of(db, &sql, given, bounds, row_bytes, |row| Ok((rule_at(row)?, row.get("n")?)))
}

fn rule_at(row: &Row<'_>) -> Outcome<ApprovalRule> {
    Ok(ApprovalRule {
        agent: AgentId(uuid_at(row, 0)?),
        tool: row.get(1)?,
        version: row.get(2)?,
        space: uuid_or_none(row, 3)?.map(SpaceId),
        until: time_at(row, 4)?,
        tainted: row.get(5)?,
        by: row.get(6)?,
        person: uuid_or_none(row, 7)?.map(EntityId),
        at: time_at(row, 8)?,
    })
}

/// Keeps a rule in place of an earlier one of the same person for the same calls, and forgets those that are over. `false` if
/// the agent has too many.
pub(crate) fn put(db: &Connection, agent: i64, rule: &ApprovalRule) -> Outcome<bool> {
    let space = rule.space.map_or(Vec::new(), |space| bytes(space.0).to_vec());
    let person = rule.person.map_or(Vec::new(), |person| bytes(person.0).to_vec());
    run(db, "DELETE FROM approval_rule WHERE agent = ? AND until <= ?", params![agent, ms(rule.at)])?;
    let count =
        "SELECT count(*) FROM approval_rule WHERE agent = ? AND NOT (tool = ? AND space = ? AND person = ?)";
    let others = first(db, count, params![agent, rule.tool, space, person], |row| Ok(row.get::<_, i64>(0)?))?;
    if usize::try_from(others.unwrap_or(0)).unwrap_or(usize::MAX) >= limits::APPROVAL_RULES_MAX {
        return Ok(false);
    }
    let sql = "INSERT OR REPLACE INTO approval_rule (agent, tool, version, space, until, tainted, by, person, at) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let until = ms(rule.until);
    let row =
        params![agent, rule.tool, rule.version, space, until, rule.tainted, rule.by, person, ms(rule.at)];
    run(db, sql, row)?;
    Ok(true)
}

/// Deletes the rules for a tool, or only those that this person gave.
pub(crate) fn forget(
    db: &Connection,
    agent: i64,
    tool: &str,
    person: Option<EntityId>,
) -> Outcome<Vec<ApprovalRule>> {
    const WHICH: &str = "agent = ?1 AND tool = ?2 AND (?3 IS NULL OR person = ?3)";
    let which = params![agent, tool, person.map(|person| bytes(person.0))];
    let gone = format!(
        "SELECT {COLUMNS} FROM approval_rule r JOIN entity e ON e.id = r.agent \
         WHERE r.rowid IN (SELECT rowid FROM approval_rule WHERE {WHICH}) ORDER BY r.rowid"
    );
    let found = all(db, &gone, which, rule_at)?;
    run(db, &format!("DELETE FROM approval_rule WHERE {WHICH}"), which)?;
    Ok(found)
}

/// Calls that a decision would let run by a rule, though none holds any more.
pub(crate) fn ruled_out(db: &Connection, agent: i64, changes: &Changes) -> Outcome<Vec<Refusal>> {
    let ruled = |row: &&CallRow| row.by_rule.is_some() && row.outcome.is_none();
    if !changes.calls.iter().any(|row| ruled(&row)) {
        return Ok(Vec::new());
    }
    let rules = in_force(db, agent, changes.at)?;
    let out = changes.calls.iter().filter(ruled).filter(|row| !row.is_ruled_in(&rules, changes.at));
    Ok(out.map(|row| Refusal { call: row.id.clone(), reason: CallOutcome::rule_over().text }).collect())
}
