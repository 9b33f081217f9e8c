//! Hooks as they were declared, their deliveries, and the log of these.

use agent::event::Event;
use agent::id::{AgentId, EntityId, EventId};
use agent::limits;
use agent::port::{
    Accepted, BoxFuture, Denial, HookAccepted, HookBook, HookDelivery, HookOutcome, KnownRequest,
    NewHookDelivery, StoreError, StoredHook,
};
use rusqlite::{Connection, Row, params};

use crate::sqlite::engine::fault::{Fault, Outcome, name_agent};
use crate::sqlite::ports::quarantine::Access;
use crate::sqlite::ports::store::accept::{self, event_subject};
use crate::sqlite::ports::{Caller, Sqlite};
use crate::sqlite::tables::requests;
use crate::sqlite::tables::rows::{
    all, code_of, first, from_code, from_json, ids_from, int, ms, packed, run, time_at, to_json,
};
use crate::sqlite::tables::session::Session;

const HOOK: &str = "SELECT name, declaration, agents, at FROM hook";

fn hook_at(row: &Row<'_>) -> Outcome<StoredHook> {
    Ok(StoredHook {
        name: row.get(0)?,
        declaration: from_json(&row.get::<_, String>(1)?, "a hook")?,
        agents: agents_from(row.get(2)?),
        at: time_at(row, 3)?,
    })
}

fn agents_from(packed: Option<Vec<u8>>) -> Vec<AgentId> {
    ids_from(packed).into_iter().map(EntityId::agent).collect()
}

fn agents_packed(agents: &[AgentId]) -> Option<Vec<u8>> {
    packed(&agents.iter().map(|agent| agent.entity()).collect::<Vec<_>>())
}

fn put(db: &Connection, hook: &StoredHook) -> Outcome<()> {
    let sql = "INSERT INTO hook (name, declaration, agents, at) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET \
               declaration = excluded.declaration, agents = excluded.agents, at = excluded.at";
    let agents = agents_packed(&hook.agents).unwrap_or_default();
    run(db, sql, params![hook.name, to_json(&hook.declaration)?, agents, ms(hook.at)]).map(drop)
}

fn delete(db: &Connection, name: &str) -> Outcome<bool> {
    run(db, "DELETE FROM hook_delivery WHERE hook = ?", [name])?;
    Ok(run(db, "DELETE FROM hook WHERE name = ?", [name])? > 0)
}

/// Gives the event to each agent. One that is retired or gone does not keep it from the others.
fn deliver(db: &Connection, session: &Session, new: &NewHookDelivery) -> Outcome<HookAccepted> {
    match new.request.as_ref().map(|key| requests::known(db, key)).transpose()? {
        Some(KnownRequest::Conflict) => return Ok(HookAccepted::Conflict),
        Some(KnownRequest::Repeated(_) | KnownRequest::Answered(_)) => {
            return logged(db, new, Vec::new(), HookAccepted::Duplicate);
        }
        None | Some(KnownRequest::New) => {}
    }
    let (mut agents, mut wake, mut known, mut denied) = (Vec::new(), Vec::new(), false, None);
    for agent in &new.agents {
        match accept::one(db, session, *agent, &new.event).map_err(name_agent(*agent)) {
            Ok(Accepted::Fresh { wake: woken, .. }) => {
                agents.push(*agent);
                wake.extend(woken);
            }
            Ok(_) => known = true,
            Err(Fault::Denied(denial @ (Denial::Retired(_) | Denial::NotFound { .. }))) => {
                denied = Some(denial);
            }
            Err(fault) => return Err(fault),
        }
    }
    let result = match (agents.is_empty(), known, denied) {
        (false, ..) => HookAccepted::Fresh { agents: agents.clone(), wake },
        (true, true, _) => HookAccepted::Duplicate,
        (true, false, Some(denial)) => return Err(denial.into()),
        (true, false, None) => return Err(Denial::NotFound { what: "agent", name: new.hook.clone() }.into()),
    };
    if let Some(key) = &new.request {
        requests::note(db, key, event_subject(&new.event.id))?;
    }
    let result = logged(db, new, agents, result)?;
    failpoint::hit!("accept.before_commit");
    Ok(result)
}

fn logged(
    db: &Connection,
    new: &NewHookDelivery,
    agents: Vec<AgentId>,
    result: HookAccepted,
) -> Outcome<HookAccepted> {
    let NewHookDelivery { hook, delivery, event: Event { id, at, .. }, detail, .. } = new;
    let outcome = match &result {
        HookAccepted::Fresh { .. } => HookOutcome::Accepted,
        _ => HookOutcome::Duplicate,
    };
    let (delivery, event) = (delivery.clone(), Some(id.clone()));
    let detail = detail.clone().filter(|_| outcome == HookOutcome::Accepted);
    note(db, hook, &HookDelivery { at: *at, delivery, outcome, detail, event, agents })?;
    Ok(result)
}

/// Adds a line to the log, and removes the oldest one of its outcome if there are too many.
fn note(db: &Connection, hook: &str, line: &HookDelivery) -> Outcome<()> {
    let HookDelivery { at, delivery, outcome, detail, event, agents } = line;
    let outcome = code_of(&HookOutcome::ALL, outcome);
    let sql = "INSERT INTO hook_delivery (hook, at, delivery, outcome, detail, event, agents) VALUES (?, ?, ?, ?, ?, ?, ?)";
    let event = event.as_ref().map(|event| &event.0);
    run(db, sql, params![hook, ms(*at), delivery, outcome, detail, event, agents_packed(agents)])?;
    let sql = "DELETE FROM hook_delivery WHERE hook = ?1 AND outcome = ?2 AND n <= (SELECT n FROM hook_delivery \
               WHERE hook = ?1 AND outcome = ?2 ORDER BY n DESC LIMIT 1 OFFSET ?3)";
    run(db, sql, params![hook, outcome, int(limits::HOOK_LOG_MAX as u64)]).map(drop)
}

fn line_at(row: &Row<'_>) -> Outcome<HookDelivery> {
    Ok(HookDelivery {
        at: time_at(row, 0)?,
        delivery: row.get(1)?,
        outcome: from_code(&HookOutcome::ALL, row.get(2)?, "the outcome of a delivery")?,
        detail: row.get(3)?,
        event: row.get::<_, Option<String>>(4)?.map(EventId),
        agents: agents_from(row.get(5)?),
    })
}

impl HookBook for Sqlite {
    fn hooks(&self) -> BoxFuture<'_, Result<Vec<StoredHook>, StoreError>> {
        let found = self.read(Caller::Api, |db, _| all(db, &format!("{HOOK} ORDER BY name"), [], hook_at));
        Box::pin(async move { Ok(found.await?) })
    }

    fn hook(&self, name: String) -> BoxFuture<'_, Result<Option<StoredHook>, StoreError>> {
        let found = self.read_inline(Caller::Api, move |db, _| {
            first(db, &format!("{HOOK} WHERE name = ?"), [&name], hook_at)
        });
        Box::pin(async move { Ok(found.await?) })
    }

    fn put_hook(&self, hook: StoredHook) -> BoxFuture<'_, Result<(), StoreError>> {
        let done = self.write(move |db, _| put(db, &hook));
        Box::pin(async move { Ok(done.await?) })
    }

    fn delete_hook(&self, name: String) -> BoxFuture<'_, Result<bool, StoreError>> {
        let done = self.write(move |db, _| delete(db, &name));
        Box::pin(async move { Ok(done.await?) })
    }

    fn deliver(&self, new: NewHookDelivery) -> BoxFuture<'_, Result<HookAccepted, StoreError>> {
        let done = self.for_several(Access::Write, move |db, session| deliver(db, session, &new));
        Box::pin(async move {
            match done.await {
                Err(Fault::Denied(denial)) => Ok(HookAccepted::Denied(denial)),
                other => Ok(other?),
            }
        })
    }

    fn note_delivery(&self, hook: String, delivery: HookDelivery) -> BoxFuture<'_, Result<(), StoreError>> {
        let done = self.write(move |db, _| note(db, &hook, &delivery));
        Box::pin(async move { Ok(done.await?) })
    }

    fn deliveries(&self, hook: String) -> BoxFuture<'_, Result<Vec<HookDelivery>, StoreError>> {
        let sql = "SELECT at, delivery, outcome, detail, event, agents FROM hook_delivery WHERE hook = ? ORDER BY n DESC";
        let found = self.read(Caller::Api, move |db, _| all(db, sql, [&hook], line_at));
        Box::pin(async move { Ok(found.await?) })
    }
}
