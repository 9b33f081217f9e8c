//! Rows of calls that wait for people. `agent::approval` decides.

use agent::approval::{Answerer, Approval, Withdrawn};
use agent::approver::has_approver;
use agent::call::{CallRow, Outcome as CallOutcome, OutcomeStatus};
use agent::entity::EntityKind;
use agent::event::{Principal, Trust};
use agent::id::{AgentId, CallId, EntityId, MessageId, SpaceId};
use agent::limits;
use agent::space::NewMessage;
use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::calls::{self, AgentCall};
use super::rows::{all, bytes, first, kind_at, ms, run, to_json, uuid_at};
use super::show;
use crate::sqlite::engine::fault::{Outcome, damaged_agent};

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

/// The handle of whoever answers, if they are one of those who may: who approves a call is decided by its agent's config of now.
pub(crate) fn answerer(
    db: &Connection,
    agent: i64,
    approval: &Approval,
    by: Answerer,
) -> Outcome<Option<String>> {
    let person = match by {
        Answerer::Operator => return Ok(Some("an operator".to_owned())),
        // No handle has spaces, so nobody can be called that.
        Answerer::Link => return Ok(Some("somebody with the link".to_owned())),
        Answerer::Person(person) => person,
    };
    let approvers = if approval.question { Vec::new() } else { approvers(db, agent)? };
    if !approvers.is_empty() {
        let sql = "SELECT e.name, (SELECT m.role FROM member m JOIN space s ON s.id = m.space \
                   WHERE m.entity = e.id AND s.uuid = ?) FROM entity e WHERE e.uuid = ? AND e.kind = 0";
        let space = approval.space.map(|space| bytes(space.0));
        let found = first(db, sql, params![space, bytes(person.0)], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
        })?;
        let named = found.filter(|(name, role)| has_approver(&approvers, name, role.as_deref()));
        return Ok(named.map(|(name, _)| name));
    }
    let named = approval.people.is_empty() || approval.people.contains(&person);
    match approval.space.filter(|_| named) {
        Some(space) => member(db, space, person),
        None => Ok(None),
    }
}

/// Whom the agent's config names as those who may approve its calls.
fn approvers(db: &Connection, agent: i64) -> Outcome<Vec<String>> {
    let sql = "SELECT value FROM agent a JOIN config_rev f ON f.agent = a.id AND f.rev = a.config_rev, \
               json_each(f.config, '$.approvers') WHERE a.id = ?";
    all(db, sql, [agent], |row| Ok(row.get(0)?))
}

/// The handle of a person who is a member of the space. Agents are no people.
fn member(db: &Connection, space: SpaceId, person: EntityId) -> Outcome<Option<String>> {
    let sql = "SELECT e.name FROM entity e JOIN member m ON m.entity = e.id JOIN space s ON s.id = m.space \
               WHERE e.uuid = ? AND e.kind = 0 AND s.uuid = ?";
    first(db, sql, params![bytes(person.0), bytes(space.0)], |row| Ok(row.get(0)?))
}

/// Questions that wait in a space, found by index over what waits there; not those of quarantined agents.
pub(crate) const QUESTIONS: &str = "SELECT c.id, (SELECT e.uuid FROM entity e WHERE e.id = c.agent) FROM call c \
    JOIN agent a ON a.id = c.agent AND a.damage IS NULL WHERE c.ask_at IS NOT NULL AND c.approval ->> '$.space' = ?1 \
    AND c.approval ->> '$.question' = 1 LIMIT ?2";

/// Reads them; none if there are more than a message can choose from.
pub(crate) fn questions_in(db: &Connection, space: SpaceId) -> Outcome<Vec<AgentCall>> {
    let most = limits::QUESTIONS_OF_SPACE_MAX;
    let found = all(db, QUESTIONS, params![space.to_string(), most + 1], |row| {
        Ok((CallId(row.get(0)?), AgentId(uuid_at(row, 1)?)))
    })?;
    let mut open = Vec::new();
    for (call, agent) in found.iter().filter(|_| found.len() <= most as usize) {
        open.extend(asked(db, call).map_err(damaged_agent(*agent))?);
    }
    Ok(open)
}

/// Whether the sender of a message is a person, and whether no other person is a member of its space.
pub(crate) fn speaker(
    db: &Connection,
    space: SpaceId,
    sender: EntityId,
) -> Outcome<Option<(EntityKind, bool)>> {
    let sql = "SELECT e.kind, NOT EXISTS (SELECT 1 FROM member m JOIN space s ON s.id = m.space \
               JOIN entity o ON o.id = m.entity WHERE s.uuid = ? AND o.kind = 0 AND o.id <> e.id) \
               FROM entity e WHERE e.uuid = ?";
    first(db, sql, params![bytes(space.0), bytes(sender.0)], |row| Ok((kind_at(row, 0)?, row.get(1)?)))
}

/// Notes that nobody answers any more what waits in a space, or only what that agent wants there. The next sweep ends it.
pub(crate) fn withdraw(db: &Connection, space: SpaceId, agent: Option<i64>, why: Withdrawn) -> Outcome<()> {
    let sql = "UPDATE call SET ask_at = 0, approval = json_set(approval, '$.withdrawn', ?1) WHERE ask_at IS NOT NULL \
               AND approval ->> '$.space' = ?2 AND (?3 IS NULL OR agent = ?3)";
    run(db, sql, params![why.as_str(), space.to_string(), agent]).map(drop)
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
    let outcome = CallOutcome::of_runtime(OutcomeStatus::Canceled, text);
    let sql = "UPDATE call SET state = 'done', outcome = ?, ask_at = NULL, \
               approval = json_set(approval, '$.state', 'canceled') \
               WHERE agent = ? AND state = 'detached' AND ask_at IS NOT NULL RETURNING id";
    let ended = all(db, sql, params![to_json(&outcome)?, agent], |row| Ok(CallId(row.get(0)?)))?;
    for call in ended {
        show::update_by_id(db, &call)?;
    }
    Ok(())
}
