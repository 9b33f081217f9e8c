//! The whole history as the doors tell it, in the few words that the checks need.

use std::collections::BTreeMap;

use agent::event::{EventData, EventState};
use agent::message::Part;
use agent::run::Ending;
use serde::de::DeserializeOwned;
use server::api::{
    Agent, Consciousness, FactsJson, LogEntry, LoggedEvent, MessageJson, PageJson, RunJson, SpaceJson,
};

use crate::Result;
use crate::client::Client;
use crate::follow::{self, SeenUpdates};
use crate::world::{AGENTS, SPACES};

/// Commits that a server replays at most.
const REPLAY: u64 = 900;

/// Everything that is there.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Every space.
    pub spaces: Vec<Timeline>,
    /// Every agent.
    pub agents: Vec<ProcessedEvent>,
}

/// One space.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Identity.
    pub id: String,
    /// Handle.
    pub name: String,
    /// The last seq, as the space says.
    pub head: u64,
    /// Handles of its agents.
    pub agents: Vec<String>,
    /// Its messages, as they come.
    pub messages: Vec<Wording>,
}

/// One message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wording {
    /// Identity.
    pub id: String,
    /// Place in the space.
    pub seq: u64,
    /// The sender's id.
    pub sender: String,
    /// The text.
    pub text: String,
    /// The call that said it; people's have none.
    pub call: Option<String>,
}

/// One agent.
#[derive(Clone, Debug, Default)]
pub struct ProcessedEvent {
    /// Identity.
    pub id: String,
    /// Handle.
    pub name: String,
    /// Its ledger, newest first.
    pub events: Vec<Happened>,
    /// Its log.
    pub log: Vec<HistoryEntry>,
    /// Its runs, newest first.
    pub runs: Vec<Record>,
    /// Its notes.
    pub notes: BTreeMap<String, String>,
    /// Commits of its life, as the agent says.
    pub commit_n: u64,
    /// Its last commits, replayed from the store.
    pub replayed: SeenUpdates,
}

/// One event of a ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Happened {
    /// Identity.
    pub id: String,
    /// Place in the inbox.
    pub seq: u64,
    /// Its state.
    pub state: String,
    /// The cycle that lived it.
    pub cycle: Option<String>,
    /// The message that it refers to, else nothing.
    pub message: Option<String>,
    /// What a service sent, else nothing.
    pub payload: Option<String>,
}

/// One entry of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryEntry {
    /// Place in the log.
    pub seq: u64,
    /// The cycle.
    pub cycle: String,
    /// `inbox`, `assistant`, `outcomes`, ….
    pub kind: String,
    /// Its text.
    pub text: String,
    /// Calls: id, tool, arguments.
    pub calls: Vec<(String, String, String)>,
    /// Outcomes: the call's id, whether it failed.
    pub outcomes: Vec<(String, bool)>,
    /// What the model reads of each outcome, in the same order.
    pub words: Vec<String>,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The cycle.
    pub cycle: String,
    /// Its number.
    pub ordinal: u64,
    /// Events that it lived.
    pub events: u64,
    /// How it ended; with the reason where it is not `completed`.
    pub ending: String,
}

/// Reads it all.
pub async fn read(client: &Client) -> Result<History> {
    let mut history = History::default();
    for place in SPACES {
        let space: SpaceJson = client.get(&format!("/v1/spaces/{}", place.name)).await?;
        let agents = place.agents.iter().map(|name| (*name).to_owned()).collect();
        let messages = messages(client, place.name).await?;
        let SpaceJson { id, name, head_seq: head, .. } = space;
        history.spaces.push(Timeline { id: id.to_string(), name, head, agents, messages });
    }
    for name in AGENTS {
        history.agents.push(lived(client, name).await?);
    }
    Ok(history)
}

/// Reads one agent.
pub async fn lived(client: &Client, name: &str) -> Result<ProcessedEvent> {
    let agent: Agent = client.get(&format!("/v1/agents/{name}")).await?;
    let events: Vec<LoggedEvent> = pages(client, &format!("/v1/agents/{name}/inbox")).await?;
    let runs: Vec<RunJson> = pages(client, &format!("/v1/agents/{name}/runs")).await?;
    let facts: FactsJson = client.get(&format!("/v1/agents/{name}/facts")).await?;
    let after = agent.commit_n.saturating_sub(REPLAY);
    Ok(ProcessedEvent {
        id: agent.id.to_string(),
        name: name.to_owned(),
        events: events.into_iter().map(happened).collect(),
        log: log(client, name).await?,
        runs: runs.into_iter().map(record).collect(),
        notes: facts.memories.into_iter().map(|memory| (memory.key, memory.value)).collect(),
        commit_n: agent.commit_n,
        replayed: follow::replay(client, name, after, agent.commit_n).await,
    })
}

/// Reads the messages of one space.
pub async fn messages(client: &Client, space: &str) -> Result<Vec<Wording>> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let path = format!("/v1/spaces/{space}/messages?limit=200&after={after}");
        let page: PageJson<MessageJson> = client.get(&path).await?;
        let Some(last) = page.items.last() else { return Ok(found) };
        after = last.seq;
        found.extend(page.items.into_iter().map(|message| {
            let MessageJson { id, seq, sender, text, call, .. } = message;
            Wording {
                id: id.to_string(),
                seq,
                sender: sender.to_string(),
                text,
                call: call.map(|call| call.0),
            }
        }));
    }
}

async fn log(client: &Client, agent: &str) -> Result<Vec<HistoryEntry>> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let path = format!("/v1/agents/{agent}/consciousness?limit=200&after={after}");
        let part: Consciousness = client.get(&path).await?;
        let Some(last) = part.entries.last() else { return Ok(found) };
        after = last.seq;
        found.extend(part.entries.into_iter().map(entry));
    }
}

async fn pages<T: DeserializeOwned>(client: &Client, path: &str) -> Result<Vec<T>> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page: PageJson<T> = client.get(&format!("{path}?limit=200{cursor}")).await?;
        found.extend(page.items);
        match page.next {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(found),
        }
    }
}

fn happened(event: LoggedEvent) -> Happened {
    let state = event.state.as_str().to_owned();
    let cycle = match event.state {
        EventState::Processed { cycle, .. } => Some(cycle.to_string()),
        _ => None,
    };
    let (message, payload) = match event.data {
        EventData::Message { message, .. } => (Some(message.to_string()), None),
        EventData::Service { payload, .. } => (None, Some(payload.to_string())),
        _ => (None, None),
    };
    Happened { id: event.id.0, seq: event.seq, state, cycle, message, payload }
}

fn entry(entry: LogEntry) -> HistoryEntry {
    let LogEntry { seq, cycle, kind, message, .. } = entry;
    let calls =
        message.calls().map(|(id, name, arguments)| (id.0.clone(), name.to_owned(), arguments.to_owned()));
    let results = message.parts.iter().filter_map(|part| match part {
        Part::ToolResult { id, error, text, .. } => Some(((id.0.clone(), *error), text.clone())),
        _ => None,
    });
    let (outcomes, words) = results.unzip();
    HistoryEntry {
        seq,
        cycle: cycle.to_string(),
        kind: kind.as_str().to_owned(),
        calls: calls.collect(),
        outcomes,
        words,
        text: message.text(),
    }
}

fn record(run: RunJson) -> Record {
    let ending = match run.ending {
        Ending::Completed => "completed".to_owned(),
        other => format!("{}: {}", other.as_str(), run.reason.unwrap_or_default()),
    };
    Record { cycle: run.id.to_string(), ordinal: run.ordinal, events: run.events.into(), ending }
}
