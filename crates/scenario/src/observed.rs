//! What happened in a world, read once at the end: messages, replies of models, calls, memories.

use agent::entry::Entry;
use agent::event::EventState;
use agent::id::{AgentId, EntityId, SpaceId};
use agent::limits::PAGE_MAX;
use agent::memory::Memory;
use agent::port::{InboxFilter, InboxRow, MessageFilter, PageRequest, RunFilter};
use agent::run::Run;
use agent::space::Message;

use crate::bounds;
use crate::world::{Stopped, World, stopped};

/// Handles and their ids.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) actors: Vec<(String, EntityId)>,
    pub(crate) agents: Vec<(String, AgentId)>,
    pub(crate) spaces: Vec<(String, SpaceId)>,
}

impl Names {
    pub(crate) fn actor(&self, id: EntityId) -> String {
        let found = self.actors.iter().find(|(_, known)| *known == id);
        found.map_or_else(|| id.to_string(), |(name, _)| name.clone())
    }
}

/// Everything that was observed.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) spaces: Vec<SpaceLog>,
    pub(crate) agents: Vec<AgentLog>,
    /// How often each tool of the scenario ran.
    pub(crate) runs: Vec<(String, u64)>,
}

/// The messages of a space, oldest first.
#[derive(Debug)]
pub(crate) struct SpaceLog {
    pub(crate) name: String,
    /// The sender's handle, and the message.
    pub(crate) messages: Vec<(String, Message)>,
}

/// What was observed of an agent.
#[derive(Debug)]
pub(crate) struct AgentLog {
    pub(crate) name: String,
    /// Oldest first.
    pub(crate) runs: Vec<Run>,
    pub(crate) entries: Vec<Entry>,
    /// Oldest first.
    pub(crate) inbox: Vec<InboxRow>,
    pub(crate) memories: Vec<Memory>,
    pub(crate) skips: u64,
    /// Input and output tokens; `None` if no model reported any.
    pub(crate) tokens: Option<u64>,
}

impl Observed {
    pub(crate) async fn gather(world: &World, names: &Names) -> Result<Self, Stopped> {
        let mut spaces = Vec::with_capacity(names.spaces.len());
        for (name, id) in &names.spaces {
            let messages = messages(world, *id).await?;
            let messages = messages.into_iter().map(|message| (names.actor(message.sender), message));
            spaces.push(SpaceLog { name: name.clone(), messages: messages.collect() });
        }
        let mut agents = Vec::with_capacity(names.agents.len());
        for (name, id) in &names.agents {
            agents.push(agent(world, name, *id).await?);
        }
        Ok(Self { spaces, agents, runs: world.own_tools().runs() })
    }

    pub(crate) fn agent(&self, name: &str) -> Option<&AgentLog> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    pub(crate) fn space(&self, name: &str) -> Option<&SpaceLog> {
        self.spaces.iter().find(|space| space.name == name)
    }
}

impl AgentLog {
    /// Its calls, in order: the tool and the raw arguments.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().flat_map(|entry| entry.message.calls()).map(|(_, tool, args)| (tool, args))
    }

    /// The state of an event.
    pub(crate) fn state(&self, event: &str) -> Option<&EventState> {
        self.inbox.iter().find(|row| row.event.id.0 == event).map(|row| &row.state)
    }
}

async fn messages(world: &World, space: SpaceId) -> Result<Vec<Message>, Stopped> {
    let mut all: Vec<Message> = Vec::new();
    for _ in 0..bounds::PAGES_MAX {
        let after = all.last().map_or(0, |message| message.seq);
        let filter = MessageFilter::after(after);
        let page = world.reader().messages(space, filter, PAGE_MAX).await.map_err(stopped)?;
        all.extend(page.items);
        if page.next.is_none() {
            break;
        }
    }
    Ok(all)
}

async fn agent(world: &World, name: &str, id: AgentId) -> Result<AgentLog, Stopped> {
    let reader = world.reader();
    let mut entries: Vec<Entry> = Vec::new();
    for _ in 0..bounds::PAGES_MAX {
        let after = entries.last().map_or(0, |entry| entry.seq);
        let page = reader.entries(id, after, PAGE_MAX).await.map_err(stopped)?;
        entries.extend(page.items);
        if page.next.is_none() {
            break;
        }
    }
    let mut runs = Vec::new();
    let mut cursor = None;
    for _ in 0..bounds::PAGES_MAX {
        let page = reader
            .runs(id, RunFilter::default(), PageRequest { cursor, limit: PAGE_MAX })
            .await
            .map_err(stopped)?;
        runs.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let mut inbox = Vec::new();
    let mut cursor = None;
    for _ in 0..bounds::PAGES_MAX {
        let page = PageRequest { cursor, limit: PAGE_MAX };
        let page = reader.inbox(id, InboxFilter::default(), page).await.map_err(stopped)?;
        inbox.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    runs.reverse();
    inbox.reverse();
    let memories = reader.facts(id).await.map_err(stopped)?.map(|facts| facts.memories);
    let card = reader.agent(id).await.map_err(stopped)?;
    let (skips, usage) = card.map(|card| (card.skips, card.usage)).unwrap_or_default();
    let tokens = match (usage.input, usage.output) {
        (None, None) => None,
        (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
    };
    let memories = memories.unwrap_or_default();
    Ok(AgentLog { name: name.to_owned(), runs, entries, inbox, memories, skips, tokens })
}
