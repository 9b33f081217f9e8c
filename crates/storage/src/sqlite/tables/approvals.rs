//! Rows of calls that wait for people, and of rules that approve in advance. `agent::approval` decides.

use agent::approval::{Answerer, Approval, ApprovalRule, Remember};
use agent::call::{CallRow, Outcome as CallOutcome, OutcomeStatus};
use agent::event::{Principal, Trust};
use agent::id::{AgentId, CallId, EntityId, MessageId, SpaceId};
use agent::limits;
use agent::space::NewMessage;
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use super::calls::{CALL, call_at, cause_at};
use super::rows::{all, bytes, first, ms, run, time_at, to_json, uuid_at};
use super::show;
use crate::sqlite::engine::fault::Outcome;

/// A call that waits, or has waited, for a person, with its agent's rowid.
pub(crate) struct Asked {
    pub(crate) agent_row: i64,
    pub(crate) agent: AgentId,
    pub(crate) row: CallRow,
}

/// Columns of [`asked_at`], of a `call c`, before those of [`CALL`].
pub(crate) const ASKED: &str = "c.agent, (SELECT e.uuid FROM entity e WHERE e.id = c.agent)";

/// Reads a row of [`ASKED`] and then the columns of a call.
pub(crate) fn asked_at(row: &Row<'_>) -> Outcome<Asked> {
    Ok(Asked { agent_row: row.get(0)?, agent: AgentId(uuid_at(row, 1)?), row: call_at(row, 2)? })
}

/// The call, if it waits or has waited for a person.
pub(crate) fn asked(db: &Connection, call: &CallId) -> Outcome<Option<Asked>> {
    let sql = format!("SELECT {ASKED}, {CALL} FROM call c WHERE c.id = ? AND c.approval IS NOT NULL");
    first(db, &sql, [&call.0], asked_at)
}

/// Writes what is known of a call now, and its arguments.
pub(crate) fn write(db: &Connection, row: &CallRow, next_at: Option<Timestamp>) -> Outcome<()> {
    let approval = row.approval.as_ref().map(to_json).transpose()?;
    let sql = "UPDATE call SET arguments = ?, approval = ?, ask_at = ? WHERE id = ?";
    run(db, sql, params![row.arguments, approval, next_at.map(ms), row.id.0]).map(drop)
}

/// The handle of whoever answers, if they are one of those who may.
pub(crate) fn answerer(db: &Connection, approval: &Approval, by: Answerer) -> Outcome<Option<String>> {
    match by {
        Answerer::Operator => Ok(Some("an operator".to_owned())),
        // No handle has spaces, so nobody can be called that.
        Answerer::Link => Ok(Some("somebody with the link".to_owned())),
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
pub(crate) fn reminder(
    db: &Connection,
    asked: &Asked,
    space: SpaceId,
    now: Timestamp,
) -> Outcome<NewMessage> {
    let sql = "SELECT root, hop FROM call WHERE id = ?";
    let (root, hop) = first(db, sql, [&asked.row.id.0], |row| cause_at(row, 0))?.unwrap_or_default();
    let text = asked.row.approval.as_ref().map(|approval| agent::approval::reminder(&asked.row, approval));
    Ok(NewMessage {
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
    })
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
        show::update(db, &call)?;
    }
    Ok(())
}

/// The rules that hold, of one agent or of all.
pub(crate) fn rules(db: &Connection, agent: Option<i64>, now: Timestamp) -> Outcome<Vec<ApprovalRule>> {
    const COLUMNS: &str = "SELECT e.uuid, r.tool, r.until, r.tainted, r.by, r.at FROM approval_rule r \
                           JOIN entity e ON e.id = r.agent";
    let limit = limits::PAGE_MAX;
    let sql = match agent {
        Some(agent) => {
            format!("{COLUMNS} WHERE r.until > ? AND r.agent = {agent} ORDER BY r.tool LIMIT {limit}")
        }
        None => format!("{COLUMNS} WHERE r.until > ? ORDER BY r.agent, r.tool LIMIT {limit}"),
    };
    all(db, &sql, [ms(now)], rule_at)
}

fn rule_at(row: &Row<'_>) -> Outcome<ApprovalRule> {
    Ok(ApprovalRule {
        agent: AgentId(uuid_at(row, 0)?),
        tool: row.get(1)?,
        until: time_at(row, 2)?,
        tainted: row.get(3)?,
        by: row.get(4)?,
        at: time_at(row, 5)?,
    })
}

/// Keeps a rule in place of an earlier one, and forgets those that are over. `false` if the agent has too many.
pub(crate) fn put_rule(
    db: &Connection,
    agent: i64,
    tool: &str,
    remember: Remember,
    by: &str,
    at: Timestamp,
) -> Outcome<bool> {
    run(db, "DELETE FROM approval_rule WHERE agent = ? AND until <= ?", params![agent, ms(at)])?;
    let count = "SELECT count(*) FROM approval_rule WHERE agent = ? AND tool <> ?";
    let others = first(db, count, params![agent, tool], |row| Ok(row.get::<_, i64>(0)?))?.unwrap_or(0);
    if usize::try_from(others).unwrap_or(usize::MAX) >= limits::APPROVAL_RULES_MAX {
        return Ok(false);
    }
    let sql = "INSERT OR REPLACE INTO approval_rule (agent, tool, until, tainted, by, at) VALUES (?, ?, ?, ?, ?, ?)";
    run(db, sql, params![agent, tool, ms(remember.until), remember.tainted, by, ms(at)])?;
    Ok(true)
}

pub(crate) fn forget_rule(db: &Connection, agent: i64, tool: &str) -> Outcome<Option<ApprovalRule>> {
    let sql = "SELECT e.uuid, r.tool, r.until, r.tainted, r.by, r.at FROM approval_rule r \
               JOIN entity e ON e.id = r.agent WHERE r.agent = ? AND r.tool = ?";
    let found = first(db, sql, params![agent, tool], rule_at)?;
    run(db, "DELETE FROM approval_rule WHERE agent = ? AND tool = ?", params![agent, tool])?;
    Ok(found)
}
