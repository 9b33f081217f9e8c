//! Rows of calls that wait for people, and of rules that approve in advance. `agent::approval` decides.

use agent::approval::{Answerer, Approval, ApprovalRule};
use agent::call::{CallRow, Outcome as CallOutcome, OutcomeStatus};
use agent::changes::{Changes, Refusal};
use agent::event::{Principal, Trust};
use agent::id::{AgentId, CallId, EntityId, MessageId, SpaceId};
use agent::limits;
use agent::space::NewMessage;
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use super::calls::{self, AgentCall};
use super::rows::{all, bytes, first, ms, run, time_at, to_json, uuid_at, uuid_or_none};
use super::show;
use crate::sqlite::engine::fault::Outcome;

/// The call, if it waits or has waited for a person.
pub(crate) fn asked(db: &Connection, call: &CallId) -> Outcome<Option<AgentCall>> {
    Ok(calls::with_agent(db, call)?.filter(|call| call.row.approval.is_some()))
}

/// Writes that a person was reminded of a call, which waits until `next_at`.
pub(crate) fn reminded(db: &Connection, row: &CallRow, next_at: Timestamp) -> Outcome<()> {
    let approval = row.approval.as_ref().map(to_json).transpose()?;
    run(db, "UPDATE call SET approval = ?, ask_at = ? WHERE id = ?", params![approval, ms(next_at), row.id.0])
        .map(drop)
}

/// Writes that a person has approved a call, and with which arguments.
pub(crate) fn granted(db: &Connection, row: &CallRow) -> Outcome<()> {
    let approval = row.approval.as_ref().map(to_json).transpose()?;
    let sql =
        "UPDATE call SET arguments = ?, approval = ?, ask_at = NULL, outside = outside | 2 WHERE id = ?";
    run(db, sql, params![row.arguments, approval, row.id.0]).map(drop)
}

/// The handle of whoever answers, if they are one of those who may.
pub(crate) fn answerer(db: &Connection, approval: &Approval, by: Answerer) -> Outcome<Option<String>> {
    match by {
        Answerer::Operator => Ok(Some("an operator".to_owned())),
        // No handle has spaces, so nobody can be called that.
        Answerer::Link => Ok(Some("somebody with the link".to_owned())),
        Answerer::Person(person) if !approval.approvers.is_empty() => {
            let sql = "SELECT name FROM entity WHERE uuid = ? AND kind = 0";
            let name = first(db, sql, [bytes(person.0)], |row| Ok(row.get::<_, String>(0)?))?;
            Ok(name.filter(|name| approval.has_approver(name)))
        }
        Answerer::Person(person) => {
            let named = approval.people.is_empty() || approval.people.contains(&person);
            match approval.space.filter(|_| named) {
                Some(space) => member(db, space, person),
                None => Ok(None),
            }
        }
    }
}

/// The handle of a person who is a member of the space. Agents are no people.
fn member(db: &Connection, space: SpaceId, person: EntityId) -> Outcome<Option<String>> {
    let sql = "SELECT e.name FROM entity e JOIN member m ON m.entity = e.id JOIN space s ON s.id = m.space \
               WHERE e.uuid = ? AND e.kind = 0 AND s.uuid = ?";
    first(db, sql, params![bytes(person.0), bytes(space.0)], |row| Ok(row.get(0)?))
}

/// The handle of an entity.
pub(crate) fn handle_of(db: &Connection, entity: EntityId) -> Outcome<Option<String>> {
    first(db, "SELECT name FROM entity WHERE uuid = ?", [bytes(entity.0)], |row| Ok(row.get(0)?))
}

/// The ids of the spaces of a member, as a JSON list.
pub(crate) fn spaces_of(db: &Connection, member: EntityId) -> Outcome<String> {
    let sql = "SELECT s.uuid FROM member m JOIN entity e ON e.id = m.entity JOIN space s ON s.id = m.space \
               WHERE e.uuid = ?";
    let spaces = all(db, sql, [bytes(member.0)], |row| Ok(SpaceId(uuid_at(row, 0)?)))?;
    to_json(&spaces)
}

/// Calls about which something is to be done, found by index; not those of quarantined agents.
pub(crate) const LAPSED: &str = "SELECT c.id FROM call c JOIN agent a ON a.id = c.agent AND a.damage IS NULL \
    WHERE c.ask_at <= ? ORDER BY c.ask_at LIMIT ?";

pub(crate) fn lapsed(db: &Connection, now: Timestamp, limit: u32) -> Outcome<Vec<CallId>> {
    let limit = limit.min(limits::APPROVALS_LAPSED_MAX);
    all(db, LAPSED, params![ms(now), limit], |row| Ok(CallId(row.get(0)?)))
}

/// When the next one is due.
pub(crate) const NEXT_LAPSE: &str = "SELECT min(ask_at) FROM call WHERE ask_at IS NOT NULL";

/// The message that reminds people of a call in its space.
pub(crate) fn reminder(asked: &AgentCall, space: SpaceId, now: Timestamp) -> NewMessage {
    let (root, hop) = asked.cause.clone();
    let text = asked.row.approval.as_ref().map(|approval| agent::approval::reminder(&asked.row, approval));
    NewMessage {
        id: MessageId::of_reminder(&asked.row.id),
        space,
        sender: asked.agent.entity(),
        text: text.unwrap_or_default(),
        mentions: Vec::new(),
        urgent: false,
        at: now,
        cycle: Some(asked.row.cycle),
        call: Some(asked.row.id.clone()),
        data: Some(serde_json::json!({"reminder": true, "call": asked.row.id, "tool": asked.row.tool})),
        principal: Principal::Own,
        trust: Trust::Agent,
        root,
        hop,
    }
}

/// Ends all that waits for people and whose cycle went on, of an agent that is retired.
pub(crate) fn end_all(db: &Connection, agent: i64) -> Outcome<()> {
    let text = "canceled, since the agent was retired before a person answered; nothing of it was done";
    let outcome = CallOutcome { status: OutcomeStatus::Canceled, ..CallOutcome::ok(text) };
    let sql = "UPDATE call SET state = 'done', outcome = ?, ask_at = NULL, \
               approval = json_set(approval, '$.state', 'canceled') \
               WHERE agent = ? AND state = 'detached' AND ask_at IS NOT NULL RETURNING id";
    let ended = all(db, sql, params![to_json(&outcome)?, agent], |row| Ok(CallId(row.get(0)?)))?;
    for call in ended {
        show::update_by_id(db, &call)?;
    }
    Ok(())
}

const RULES: &str = "SELECT e.uuid, r.tool, r.version, nullif(r.space, x''), r.until, r.tainted, r.by, r.person, r.at \
                     FROM approval_rule r JOIN entity e ON e.id = r.agent";

/// The rules that hold, of one agent or of all.
pub(crate) fn rules(db: &Connection, agent: Option<i64>, now: Timestamp) -> Outcome<Vec<ApprovalRule>> {
    let limit = limits::PAGE_MAX;
    let sql = match agent {
        Some(agent) => {
            format!("{RULES} WHERE r.until > ? AND r.agent = {agent} ORDER BY r.tool, r.space LIMIT {limit}")
        }
        None => format!("{RULES} WHERE r.until > ? ORDER BY r.agent, r.tool, r.space LIMIT {limit}"),
    };
    all(db, &sql, [ms(now)], rule_at)
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

/// Keeps a rule in place of an earlier one for the same calls, and forgets those that are over. `false` if the agent has too many.
pub(crate) fn put_rule(db: &Connection, agent: i64, rule: &ApprovalRule) -> Outcome<bool> {
    let space = rule.space.map_or(Vec::new(), |space| bytes(space.0).to_vec());
    run(db, "DELETE FROM approval_rule WHERE agent = ? AND until <= ?", params![agent, ms(rule.at)])?;
    let count = "SELECT count(*) FROM approval_rule WHERE agent = ? AND NOT (tool = ? AND space = ?)";
    let others = first(db, count, params![agent, rule.tool, space], |row| Ok(row.get::<_, i64>(0)?))?;
    if usize::try_from(others.unwrap_or(0)).unwrap_or(usize::MAX) >= limits::APPROVAL_RULES_MAX {
        return Ok(false);
    }
    let sql = "INSERT OR REPLACE INTO approval_rule (agent, tool, version, space, until, tainted, by, person, at) \
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let person = rule.person.map(|person| bytes(person.0));
    let until = ms(rule.until);
    let row =
        params![agent, rule.tool, rule.version, space, until, rule.tainted, rule.by, person, ms(rule.at)];
    run(db, sql, row)?;
    Ok(true)
}

/// Deletes the rules for a tool, or only those that this person gave.
pub(crate) fn forget_rules(
    db: &Connection,
    agent: i64,
    tool: &str,
    person: Option<EntityId>,
) -> Outcome<Vec<ApprovalRule>> {
    const WHICH: &str = "agent = ?1 AND tool = ?2 AND (?3 IS NULL OR person = ?3)";
    let which = params![agent, tool, person.map(|person| bytes(person.0))];
    let found =
        all(db, &format!("{RULES} WHERE r.{}", WHICH.replace("person =", "r.person =")), which, rule_at)?;
    run(db, &format!("DELETE FROM approval_rule WHERE {WHICH}"), which)?;
    Ok(found)
}

/// Calls that a decision would let run by a rule, though none holds any more.
pub(crate) fn ruled_out(db: &Connection, agent: i64, changes: &Changes) -> Outcome<Vec<Refusal>> {
    let ruled = |row: &&CallRow| row.by_rule.is_some() && row.outcome.is_none();
    if !changes.calls.iter().any(|row| ruled(&row)) {
        return Ok(Vec::new());
    }
    let rules = rules(db, Some(agent), changes.at)?;
    let out = changes.calls.iter().filter(ruled).filter(|row| !row.is_ruled_in(&rules, changes.at));
    Ok(out.map(|row| Refusal { call: row.id.clone(), reason: CallOutcome::rule_over().text }).collect())
}
