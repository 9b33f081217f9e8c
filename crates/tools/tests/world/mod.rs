//! A world with one agent, `scout`. It is a member of the spaces `family` and `support`, but not of `secret`.

use std::sync::Mutex;

use agent::call::CallRow;
use agent::changes::Inward;
use agent::entity::{Entity, EntityKind, Member, Space};
use agent::entry::Entry;
use agent::event::{NamedMessage, Trust};
use agent::id::{AgentId, CallId, CycleId, EntityId, RootId, SpaceId};
use agent::life::{Facts, SpaceFacts};
use agent::memory::{Importance, Memory};
use agent::port::{
    BoxFuture, CallGate, CycleRef, Done, Excerpt, Lookup, NoGate, Recall, RecallError, RecallQuery, Recalled,
    StoreError, ToolContext, ToolError, Toolbox,
};
use agent::run::Run;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) const SCOUT: AgentId = AgentId(Uuid::from_u128(0xA1));
pub(crate) const HUSAM: EntityId = EntityId(Uuid::from_u128(0xE1));
pub(crate) const MUHAMMAD: EntityId = EntityId(Uuid::from_u128(0xE2));
pub(crate) const FAMILY: SpaceId = SpaceId(Uuid::from_u128(0xF1));
pub(crate) const SUPPORT: SpaceId = SpaceId(Uuid::from_u128(0xF2));
pub(crate) const SECRET: SpaceId = SpaceId(Uuid::from_u128(0xF3));
pub(crate) const CYCLE: CycleId = CycleId(Uuid::from_u128(0xC1));

pub(crate) fn now() -> Timestamp {
    "2026-11-21T14:03:05Z".parse().expect("a timestamp")
}

/// The agent's facts, the store, and the changes of the calls in this step so far.
pub(crate) struct World {
    pub(crate) facts: Facts,
    pub(crate) store: Stored,
    pub(crate) active: Option<SpaceId>,
    pub(crate) pending: Inward,
    calls: u32,
}

/// A store that follows the contract of [`Lookup`]: it checks the membership and returns nothing of
/// another agent.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) member_of: Vec<SpaceId>,
    pub(crate) messages: Vec<NamedMessage>,
    pub(crate) runs: Vec<Run>,
    pub(crate) calls: Vec<CallRow>,
    /// Spaces of the agent that its facts lack, or have without all members.
    pub(crate) unlisted: Vec<SpaceFacts>,
    pub(crate) broken: bool,
    /// What every search finds.
    pub(crate) found: Vec<Excerpt>,
    /// Whether the index is still being built.
    pub(crate) building: bool,
    /// Whether only some spaces are searched.
    pub(crate) newest_spaces_only: bool,
    /// The spaces that can be searched, if a search names the attic.
    pub(crate) searchable: Vec<String>,
    /// The last search.
    pub(crate) sought: Mutex<Option<RecallQuery>>,
    /// The entries of all cycles.
    pub(crate) entries: Vec<Entry>,
}

impl World {
    pub(crate) fn new() -> Self {
        let spaces = vec![
            space(FAMILY, "family", "Family", &[scout(), husam(), muhammad()]),
            space(SUPPORT, "support", "Support \"24/7\"", &[scout(), husam()]),
        ];
        Self {
            facts: Facts { spaces, ..Facts::default() },
            store: Stored { member_of: vec![FAMILY, SUPPORT], ..Stored::default() },
            active: None,
            pending: Inward::default(),
            calls: 0,
        }
    }

    /// Adds messages of Husam to the space: `m1`, `m2`, ….
    pub(crate) fn with_messages(mut self, space: SpaceId, count: u64) -> Self {
        for seq in 1..=count {
            let text = format!("m{seq}");
            self.store.messages.push(stored_message(space, seq, HUSAM, &text));
        }
        self
    }

    /// Adds memories under these keys.
    pub(crate) fn with_memories(mut self, keys: &[&str]) -> Self {
        let note = |key: &&str| Memory {
            key: (*key).into(),
            value: "v".into(),
            importance: Importance::Normal,
            pinned: false,
            updated_at: now(),
            used_at: now(),
            trust: Trust::Operator,
        };
        self.facts.memories = keys.iter().map(note).collect();
        self
    }

    /// Calls a tool as the runtime does: checks the arguments, and adds the changes to the pending ones.
    pub(crate) async fn call(&mut self, tool: &str, arguments: &str) -> Result<Done, String> {
        let tool = tools::prebuilt().tool(tool).expect("the tool is prebuilt");
        let arguments = tool.check(arguments)?;
        let call = CallId::derive(SCOUT, CYCLE, 0, self.calls);
        self.calls += 1;
        let root = RootId("root-1".into());
        let context = ToolContext {
            agent: SCOUT,
            cycle: CYCLE,
            call: &call,
            now: now(),
            active_space: self.pending.active_space.or(self.active),
            root: &root,
            hop: 3,
            trust: Trust::Agent,
            facts: &self.facts,
            pending: &self.pending,
            lookup: &self.store,
            gate: &NoGate,
        };
        let done = tool.call(arguments, context).await.map_err(|error| error.model)?;
        self.pending.extend(done.inward.clone());
        Ok(done)
    }

    /// Calls a tool with arguments as a value.
    pub(crate) async fn ask(&mut self, tool: &str, arguments: Value) -> Result<Done, String> {
        self.call(tool, &arguments.to_string()).await
    }

    /// Calls a tool and returns its reply.
    pub(crate) async fn reply(&mut self, tool: &str, arguments: Value) -> Value {
        let done = self.ask(tool, arguments).await.expect("the call succeeds");
        serde_json::from_str(&done.outcome.text).expect("a reply is JSON")
    }

    /// Calls a tool and returns its error.
    pub(crate) async fn refusal(&mut self, tool: &str, arguments: Value) -> String {
        self.ask(tool, arguments).await.expect_err("the call is refused")
    }
}

impl Recall for Stored {
    fn recall(&self, agent: AgentId, query: RecallQuery) -> BoxFuture<'_, Result<Recalled, RecallError>> {
        let named = query.space.clone().filter(|space| space == "attic");
        *self.sought.lock().expect("no test panics with it") = Some(query);
        let excerpts = if agent == SCOUT { self.found.clone() } else { Vec::new() };
        Box::pin(async move {
            if let Some(named) = named {
                let searchable = self.searchable.clone();
                return Err(RecallError::NoSuchSpace { named, searchable });
            }
            let newest_spaces_only = self.newest_spaces_only;
            Ok(Recalled { excerpts, building: self.building, newest_spaces_only })
        })
    }

    fn cycle(&self, agent: AgentId, cycle: CycleRef) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        let of = |entry: &&Entry| {
            agent == SCOUT && [CycleRef::Id(entry.cycle), CycleRef::Number(7)].contains(&cycle)
        };
        let found = self.entries.iter().filter(of).cloned().collect();
        Box::pin(async move { Ok(found) })
    }
}

impl Lookup for Stored {
    fn messages(
        &self,
        agent: AgentId,
        space: SpaceId,
        before: Option<u64>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Option<(Vec<NamedMessage>, u64)>, StoreError>> {
        Box::pin(async move {
            if self.broken {
                return Err(StoreError::Busy("the disk is slow".into()));
            }
            if agent != SCOUT || !self.member_of.contains(&space) {
                return Ok(None);
            }
            let all: Vec<_> =
                self.messages.iter().filter(|message| message.space == space).cloned().collect();
            let total = all.len() as u64;
            let older: Vec<_> =
                all.into_iter().filter(|message| before.is_none_or(|b| message.seq < b)).collect();
            let from = older.len().saturating_sub(limit as usize);
            Ok(Some((older[from..].to_vec(), total)))
        })
    }

    fn space(&self, agent: AgentId, text: String) -> BoxFuture<'_, Result<Option<SpaceFacts>, StoreError>> {
        let meant = |facts: &&SpaceFacts| facts.space.name == text || facts.space.id.to_string() == text;
        let found = self.unlisted.iter().filter(|_| agent == SCOUT).find(meant).cloned();
        Box::pin(async move { Ok(found) })
    }

    fn call(&self, agent: AgentId, call: CallId) -> BoxFuture<'_, Result<Option<CallRow>, StoreError>> {
        let found = self.calls.iter().filter(|_| agent == SCOUT).find(|row| row.id == call).cloned();
        Box::pin(async move { Ok(found) })
    }

    fn runs(&self, agent: AgentId, limit: u32) -> BoxFuture<'_, Result<Vec<Run>, StoreError>> {
        let mut own: Vec<_> = self.runs.iter().filter(|run| run.agent == agent).cloned().collect();
        own.sort_by_key(|run| std::cmp::Reverse(run.ordinal));
        own.truncate(limit as usize);
        Box::pin(async move { Ok(own) })
    }
}

pub(crate) fn stored_message(space: SpaceId, seq: u64, sender: EntityId, text: &str) -> NamedMessage {
    NamedMessage {
        id: agent::id::MessageId(Uuid::from_u128(0x1000 + u128::from(seq))),
        space,
        space_handle: "ignored".into(),
        seq,
        sender,
        sender_name: if sender == HUSAM { "Husam".into() } else { "Scout".into() },
        sender_handle: if sender == HUSAM { "husam".into() } else { "scout".into() },
        sender_kind: if sender == HUSAM { EntityKind::Human } else { EntityKind::Agent },
        text: text.into(),
        mentions: Vec::new(),
        at: now(),
        trust: if sender == HUSAM { Trust::Member } else { Trust::Agent },
    }
}

pub(crate) fn space(id: SpaceId, name: &str, display_name: &str, members: &[Entity]) -> SpaceFacts {
    let space = Space {
        id,
        name: name.into(),
        display_name: display_name.into(),
        description: String::new(),
        head_seq: 0,
        rev: 0,
        closed: false,
        wake_on: agent::config::WakeOn::All,
        created_at: now(),
    };
    let member = |entity: &Entity| Member { entity: entity.clone(), role: String::new(), since: now() };
    SpaceFacts { space, members: members.iter().map(member).collect(), more_members: 0, told: false }
}

pub(crate) fn entity(id: EntityId, kind: EntityKind, name: &str, display_name: &str) -> Entity {
    Entity {
        id,
        kind,
        name: name.into(),
        display_name: display_name.into(),
        external_id: None,
        created_at: now(),
    }
}

pub(crate) fn scout() -> Entity {
    entity(SCOUT.entity(), EntityKind::Agent, "scout", "Scout")
}

pub(crate) fn husam() -> Entity {
    entity(HUSAM, EntityKind::Human, "husam", "Husam")
}

fn muhammad() -> Entity {
    entity(MUHAMMAD, EntityKind::Human, "muhammad", "Muhammad A.")
}

/// Texts of a reply's messages, in order.
pub(crate) fn texts(reply: &Value) -> Vec<&str> {
    let lines = reply["messages"].as_array().expect("the reply lists messages");
    lines.iter().filter_map(|line| line["text"].as_str()).collect()
}

/// A space argument.
pub(crate) fn to(space: &str) -> Value {
    json!({ "space": space })
}

/// A gate that lets nothing through. It counts how often it is asked.
#[derive(Default)]
pub(crate) struct ShutGate(pub(crate) std::sync::atomic::AtomicUsize);

impl CallGate for ShutGate {
    fn may_begin(&self) -> BoxFuture<'_, Result<(), ToolError>> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Box::pin(std::future::ready(Err(ToolError::new("kept"))))
    }
}
