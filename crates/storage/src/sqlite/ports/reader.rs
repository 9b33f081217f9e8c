//! Paged queries of console and CLI about people, spaces and messages. Those about agents are in
//! `reader/agents`. Cursors are opaque to clients and name the last row of the page.

pub(crate) mod agents;
mod alerts;
mod figures;
pub(crate) mod page;
mod recent;

use std::sync::Arc;

use agent::alert::Alert;
use agent::call::CallRow;
use agent::entity::{Entity, EntityKind, Member, Space};
use agent::entry::{Entry, View};
use agent::id::{AgentId, CallId, CycleId, EntityId, EventId, MessageId, PlanId, SpaceId};
use agent::life::{Facts, IdleUntil, OpenCycle, Standing};
use agent::limits;
use agent::memory::Memory;
use agent::plan::Plan;
use agent::port::{
    AgentCard, AlertFilter, BoxFuture, CommitRow, CredentialRow, InboxFilter, InboxRow, MessageFilter, Page,
    PageRequest, Reader, RecentItem, RunFilter, ShownLog, StoreError, StoreFigures, Totals,
};
use agent::run::Run;
use agent::space::{Message, MessageKind};
use jiff::Timestamp;
use rusqlite::{Connection, params};
use uuid::Uuid;

use self::page::{bounds, paged};
use self::recent::recent;
use crate::sqlite::engine::fault::{Outcome, name_agent};
use crate::sqlite::ports::quarantine::Access;
use crate::sqlite::ports::{Caller, Sqlite};
use crate::sqlite::tables::credentials::{CREDENTIALS, credential_row};
use crate::sqlite::tables::entries::{ENTRY, entry_at, layers, shown, view, view_until};
use crate::sqlite::tables::facts::{MEMORY, facts, members, memory_at};
use crate::sqlite::tables::life::open_at;
use crate::sqlite::tables::messages::{MESSAGE, message_at, message_by, space_head};
use crate::sqlite::tables::plans::{plan, plans};
use crate::sqlite::tables::rows::{
    ENTITY, SPACE, agent_row, all, bytes, entity_at, entity_row, first, id_or_name, int, kind_code, ms,
    page_of, row_bytes, space_at, space_row,
};
use crate::sqlite::tables::session::Session;
use crate::sqlite::tables::totals::totals;
use crate::sqlite::tables::{calls, runs};

/// Keys are sorted by their ids, which begin with the time of creation.
fn credentials(db: &Connection, page: &PageRequest) -> Outcome<Page<CredentialRow>> {
    let bounds = bounds(page.limit);
    let before = page.cursor.as_deref().and_then(|cursor| cursor.parse::<Uuid>().ok()).unwrap_or(Uuid::max());
    let sql = format!("{CREDENTIALS} WHERE c.id < ? ORDER BY c.id DESC LIMIT ?");
    let found = page_of(db, &sql, params![bytes(before), bounds.0 + 1], bounds, row_bytes, credential_row)?;
    Ok(paged(found, |row| row.credential.id.to_string()))
}

fn entities(db: &Connection, kind: Option<EntityKind>, page: &PageRequest) -> Outcome<Page<Entity>> {
    let bounds = bounds(page.limit);
    let after = page.cursor.as_deref().unwrap_or("");
    let sql = format!(
        "SELECT {ENTITY} FROM entity e WHERE e.name > ?1 AND (?2 IS NULL OR e.kind = ?2) ORDER BY e.name LIMIT ?3"
    );
    let given = params![after, kind.map(kind_code), bounds.0 + 1];
    let found = page_of(db, &sql, given, bounds, row_bytes, |row| entity_at(row, 0))?;
    Ok(paged(found, |entity| entity.name.clone()))
}

/// Finds an entity by id if the text is one, else by handle in any case.
fn entity(db: &Connection, text: &str) -> Outcome<Option<Entity>> {
    let (column, value) = id_or_name(text, "e.uuid", "e.name");
    let sql = format!("SELECT {ENTITY} FROM entity e WHERE {column} = ?");
    first(db, &sql, [value], |row| entity_at(row, 0))
}

/// Up to this number, all spaces of a member are read and sorted. A member of more spaces is in a large part of
/// all spaces: then all spaces are scanned by name until the page is full.
const SORTED_MAX: usize = 1_000;

fn spaces(
    db: &Connection,
    member: Option<EntityId>,
    closed: Option<bool>,
    page: &PageRequest,
) -> Outcome<Page<Space>> {
    let bounds = bounds(page.limit);
    let after = page.cursor.as_deref().unwrap_or("");
    let member = match member {
        Some(member) => Some(entity_row(db, member.0)?.unwrap_or(0)),
        None => None,
    };
    let of = match member {
        None => "space s WHERE ?2 IS NULL",
        Some(row) if is_in_few(db, row)? => {
            "member m CROSS JOIN space s ON s.id = m.space WHERE m.entity = ?2"
        }
        Some(_) => "space s WHERE EXISTS (SELECT 1 FROM member m WHERE m.space = s.id AND m.entity = ?2)",
    };
    let sql = format!(
        "SELECT {SPACE} FROM {of} AND s.name > ?1 AND (?4 IS NULL OR s.closed = ?4) ORDER BY s.name LIMIT ?3"
    );
    let given = params![after, member, bounds.0 + 1, closed];
    let found = page_of(db, &sql, given, bounds, row_bytes, |row| space_at(row, 0))?;
    Ok(paged(found, |space| space.name.clone()))
}

fn is_in_few(db: &Connection, entity: i64) -> Outcome<bool> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM member WHERE entity = ? LIMIT ?)";
    let bound = int(SORTED_MAX as u64) + 1;
    let count: i64 = db.prepare_cached(sql)?.query_row(params![entity, bound], |row| row.get(0))?;
    Ok(count < bound)
}

fn space(db: &Connection, text: &str) -> Outcome<Option<Space>> {
    let (column, value) = id_or_name(text, "s.uuid", "s.name");
    let sql = format!("SELECT {SPACE} FROM space s WHERE {column} = ?");
    first(db, &sql, [value], |row| space_at(row, 0))
}

fn messages(db: &Connection, space: SpaceId, filter: &MessageFilter, limit: u32) -> Outcome<Page<Message>> {
    let Some(head) = space_head(db, space)? else { return Ok(Page { items: Vec::new(), next: None }) };
    let filtered = filter.sender.is_some() || filter.kind.is_some() || filter.since.is_some();
    let (bounds, forward) = (bounds(limit), filter.after.is_some());
    let before = filter.before.unwrap_or(u64::MAX).min(head.head_seq + 1);
    let (after, most) = (filter.after.unwrap_or(0), limits::PAGE_LOOK_MAX + 1);
    let (floor, ceiling) = match (filtered, forward) {
        (false, _) => (after, before),
        (true, true) => (after, before.min(after.saturating_add(most))),
        (true, false) => (after.max(before.saturating_sub(most)), before),
    };
    let order = if forward { "ASC" } else { "DESC" };
    let sql = format!(
        "{MESSAGE} WHERE m.space = ?1 AND m.seq > ?2 AND m.seq < ?3 AND (?4 IS NULL OR e.uuid = ?4) \
         AND (?5 IS NULL OR m.kind = ?5) AND (?6 IS NULL OR m.at >= ?6) ORDER BY m.seq {order} LIMIT ?7"
    );
    let sender = filter.sender.map(|sender| bytes(sender.0));
    let kind = filter.kind.map(|kind| i64::from(kind == MessageKind::Tool));
    let given = params![head.id, int(floor), int(ceiling), sender, kind, filter.since.map(ms), bounds.0 + 1];
    let (mut items, more) = page_of(db, &sql, given, bounds, row_bytes, message_at)?;
    let next = match items.last() {
        Some(last) if more => Some(last.seq),
        _ if forward && ceiling < before => Some(ceiling - 1),
        _ if !forward && floor > after => Some(floor + 1),
        _ => None,
    };
    if !forward {
        items.reverse();
    }
    Ok(Page { items, next: next.map(|seq| seq.to_string()) })
}

fn messages_since_rev(
    db: &Connection,
    space: SpaceId,
    rev: u64,
    bounds: (u32, usize),
) -> Outcome<Page<Message>> {
    let Some(row) = space_row(db, space)? else { return Ok(Page { items: Vec::new(), next: None }) };
    let sql = format!("{MESSAGE} WHERE m.space = ? AND m.rev > ? ORDER BY m.rev LIMIT ?");
    let found = page_of(db, &sql, params![row, int(rev), bounds.0 + 1], bounds, row_bytes, message_at)?;
    Ok(paged(found, |message| message.rev.to_string()))
}

fn posted_in(db: &Connection, cycle: CycleId) -> Outcome<Vec<Message>> {
    // In the order in which they were posted: within a space by seq, across spaces by call.
    let sql = format!(
        "{MESSAGE} LEFT JOIN call c ON c.id = m.call WHERE m.cycle = ? ORDER BY c.step, c.idx, m.seq"
    );
    all(db, &sql, [bytes(cycle.0)], message_at)
}

impl Sqlite {
    fn query_many<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Session) -> Outcome<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let done = self.read(Caller::Api, work);
        Box::pin(async move { Ok(done.await?) })
    }

    fn query_one<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Session) -> Outcome<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let done = self.read_inline(Caller::Api, work);
        Box::pin(async move { Ok(done.await?) })
    }
}

impl Reader for Sqlite {
    fn totals(&self) -> BoxFuture<'_, Result<Totals, StoreError>> {
        Box::pin(async move {
            let unindexed_since = self.unindexed_since().await?;
            let counted = self.query_many(|db, session| totals(db, &session.counted)).await?;
            Ok(Totals { unindexed_since, damage: self.damage(), ..counted })
        })
    }

    fn figures(&self) -> BoxFuture<'_, Result<StoreFigures, StoreError>> {
        Box::pin(async move {
            let totals = self.totals().await?;
            self.query_many(|db, _| figures::figures(db, totals)).await
        })
    }

    fn agents(
        &self,
        standing: Option<Standing>,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<AgentCard>, StoreError>> {
        Box::pin(async move {
            Ok(self
                .for_several(Access::Read(Caller::Api), move |db, session| {
                    agents::agents(db, &session.configs, standing, &page)
                })
                .await?)
        })
    }

    fn agent(&self, agent: AgentId) -> BoxFuture<'_, Result<Option<AgentCard>, StoreError>> {
        Box::pin(async move {
            Ok(self
                .for_several(Access::Read(Caller::Api), move |db, session| {
                    agents::agent(db, &session.configs, agent)
                })
                .await?)
        })
    }

    fn facts(&self, agent: AgentId) -> BoxFuture<'_, Result<Option<Facts>, StoreError>> {
        self.query_many(move |db, _| agent_row(db, agent.0)?.map(|row| facts(db, row)).transpose())
    }

    fn memories(&self, agent: AgentId, page: PageRequest) -> BoxFuture<'_, Result<Page<Memory>, StoreError>> {
        self.query_many(move |db, _| {
            let Some(row) = agent_row(db, agent.0)? else {
                return Ok(Page { items: Vec::new(), next: None });
            };
            let (bounds, after) = (bounds(page.limit), page.cursor.unwrap_or_default());
            let given = params![row, after, bounds.0 + 1];
            let sql = format!(
                "SELECT {MEMORY} FROM memory m WHERE agent = ? AND to_commit IS NULL AND key > ? ORDER BY key LIMIT ?"
            );
            let found = page_of(db, &sql, given, bounds, row_bytes, memory_at)?;
            Ok(paged(found, |memory| memory.key.clone()))
        })
    }

    fn plans(&self, agent: AgentId) -> BoxFuture<'_, Result<Vec<Plan>, StoreError>> {
        self.query_many(move |db, _| match agent_row(db, agent.0)? {
            Some(row) => plans(db, row),
            None => Ok(Vec::new()),
        })
    }

    fn plan(&self, agent: AgentId, id: PlanId) -> BoxFuture<'_, Result<Option<Plan>, StoreError>> {
        self.query_many(move |db, _| match agent_row(db, agent.0)? {
            Some(row) => plan(db, row, id),
            None => Ok(None),
        })
    }

    fn credentials(&self, page: PageRequest) -> BoxFuture<'_, Result<Page<CredentialRow>, StoreError>> {
        self.query_many(move |db, _| credentials(db, &page))
    }

    fn entities(
        &self,
        kind: Option<EntityKind>,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<Entity>, StoreError>> {
        self.query_many(move |db, _| entities(db, kind, &page))
    }

    fn entity(&self, id_or_name: String) -> BoxFuture<'_, Result<Option<Entity>, StoreError>> {
        self.query_one(move |db, _| entity(db, &id_or_name))
    }

    fn spaces(
        &self,
        member: Option<EntityId>,
        closed: Option<bool>,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<Space>, StoreError>> {
        self.query_many(move |db, _| spaces(db, member, closed, &page))
    }

    fn space(&self, id_or_name: String) -> BoxFuture<'_, Result<Option<Space>, StoreError>> {
        self.query_one(move |db, _| space(db, &id_or_name))
    }

    fn members(&self, space: SpaceId) -> BoxFuture<'_, Result<Vec<Member>, StoreError>> {
        self.query_one(move |db, _| space_row(db, space)?.map_or(Ok(Vec::new()), |row| members(db, row)))
    }

    fn share_a_space(&self, one: EntityId, other: EntityId) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.query_one(move |db, _| {
            let sql = "SELECT 1 FROM entity e JOIN member m ON m.entity = e.id JOIN entity o ON o.uuid = ?2 \
                       JOIN member n ON n.space = m.space AND n.entity = o.id WHERE e.uuid = ?1 LIMIT 1";
            Ok(db.prepare_cached(sql)?.exists(params![bytes(one.0), bytes(other.0)])?)
        })
    }

    fn idle_agents(
        &self,
        space: SpaceId,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Vec<(AgentId, IdleUntil)>, StoreError>> {
        Box::pin(async move {
            Ok(self
                .for_several(Access::Read(Caller::Api), move |db, _| agents::idle_members(db, space, now))
                .await?)
        })
    }

    fn messages(
        &self,
        space: SpaceId,
        filter: MessageFilter,
        limit: u32,
    ) -> BoxFuture<'_, Result<Page<Message>, StoreError>> {
        self.query_many(move |db, _| messages(db, space, &filter, limit))
    }

    fn messages_since_rev(
        &self,
        space: SpaceId,
        rev: u64,
        limit: u32,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Page<Message>, StoreError>> {
        self.query_many(move |db, _| messages_since_rev(db, space, rev, (limit, max_bytes)))
    }

    fn recent(
        &self,
        agents: Option<Vec<AgentId>>,
        since: Option<Timestamp>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<RecentItem>, StoreError>> {
        let limit = limit.clamp(1, limits::PAGE_MAX);
        self.query_many(move |db, _| recent(db, agents.as_deref(), since, limit))
    }

    fn message(&self, message: MessageId) -> BoxFuture<'_, Result<Option<Message>, StoreError>> {
        self.query_many(move |db, _| message_by(db, message))
    }

    fn messages_of_cycle(&self, cycle: CycleId) -> BoxFuture<'_, Result<Vec<Message>, StoreError>> {
        self.query_many(move |db, _| posted_in(db, cycle))
    }

    fn alerts(
        &self,
        filter: AlertFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<(u64, Alert)>, StoreError>> {
        self.query_many(move |db, _| alerts::alerts(db, &filter, &page))
    }

    fn inbox(
        &self,
        agent: AgentId,
        filter: InboxFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<InboxRow>, StoreError>> {
        self.query_many(move |db, _| agents::inbox(db, agent, &filter, &page))
    }

    fn event(&self, agent: AgentId, event: EventId) -> BoxFuture<'_, Result<Option<InboxRow>, StoreError>> {
        self.query_many(move |db, _| agents::event(db, agent, &event))
    }

    fn call(&self, agent: AgentId, call: CallId) -> BoxFuture<'_, Result<Option<CallRow>, StoreError>> {
        self.query_many(move |db, _| match agent_row(db, agent.0)? {
            Some(row) => calls::of_agent(db, row, &call),
            None => Ok(None),
        })
    }

    fn open_calls(&self, agent: AgentId) -> BoxFuture<'_, Result<Vec<CallRow>, StoreError>> {
        self.query_many(move |db, _| calls::open(db, agent))
    }

    fn open_cycle(&self, agent: AgentId) -> BoxFuture<'_, Result<Option<OpenCycle>, StoreError>> {
        self.query_many(move |db, _| {
            let Some(row) = agent_row(db, agent.0)? else { return Ok(None) };
            let sql = "SELECT open FROM life WHERE agent = ?";
            let Some(mut open) = first(db, sql, [row], |row| open_at(row, 0))?.flatten() else {
                return Ok(None);
            };
            open.steps = [runs::steps(db, row, open.id)?, open.steps].concat();
            Ok(Some(open))
        })
    }

    fn runs(
        &self,
        agent: AgentId,
        filter: RunFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<Run>, StoreError>> {
        self.query_many(move |db, _| agents::runs(db, agent, &filter, &page))
    }

    fn run(&self, cycle: CycleId) -> BoxFuture<'_, Result<Option<Run>, StoreError>> {
        self.query_many(move |db, _| runs::run_of(db, cycle))
    }

    fn entries(
        &self,
        agent: AgentId,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'_, Result<Page<Entry>, StoreError>> {
        self.query_many(move |db, _| {
            let Some(row) = agent_row(db, agent.0)? else {
                return Ok(Page { items: Vec::new(), next: None });
            };
            let bounds = bounds(limit);
            let sql = format!("{ENTRY} WHERE agent = ? AND seq > ? ORDER BY seq LIMIT ?");
            let given = params![row, int(after), bounds.0 + 1];
            let found = page_of(db, &sql, given, bounds, row_bytes, entry_at).map_err(name_agent(agent))?;
            Ok(paged(found, |entry| entry.seq.to_string()))
        })
    }

    fn shown(
        &self,
        agent: AgentId,
        view: u64,
        last: u64,
    ) -> BoxFuture<'_, Result<Option<ShownLog>, StoreError>> {
        self.query_many(move |db, _| {
            let Some(row) = agent_row(db, agent.0)? else { return Ok(None) };
            let (rev, view) = (view, view_until(db, row, view)?);
            if view.rev != rev {
                return Ok(None);
            }
            let entries = shown(db, row, &view, last).map_err(name_agent(agent))?;
            let entries = entries.into_iter().map(Arc::unwrap_or_clone).collect();
            let layers = layers(db, row, &view, last, None)?;
            Ok(Some(ShownLog { view, entries, layers }))
        })
    }

    fn view(&self, agent: AgentId) -> BoxFuture<'_, Result<Option<View>, StoreError>> {
        self.query_many(move |db, _| agent_row(db, agent.0)?.map(|row| view(db, row)).transpose())
    }

    fn commits(
        &self,
        agent: AgentId,
        after: u64,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<CommitRow>, StoreError>> {
        self.query_many(move |db, _| runs::commits(db, agent, after, limit))
    }
}
