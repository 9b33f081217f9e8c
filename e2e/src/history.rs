//! The whole history as the API returns it, reduced to what the checks need.

use std::collections::BTreeMap;

use agent::event::EventData;
use agent::message::Part;
use agent::run::Ending;
use agent::space::MessageKind;
use api::{Agent, FactsJson, LogEntry, LoggedEvent, MessageJson, PageJson, RunJson, SpaceJson};
use serde::de::DeserializeOwned;

use crate::Result;
use crate::client::HttpClient;
use crate::follow::{self, SeenUpdates};
use crate::world::{AGENTS, SPACES};

/// Number of commits to replay; less than the server's limit.
const REPLAY: u64 = 900;

/// The history of a world.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All spaces.
    pub spaces: Vec<Timeline>,
    /// All agents.
    pub agents: Vec<AgentTrace>,
}

/// A space.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Id.
    pub id: String,
    /// Handle.
    pub name: String,
    /// The space's `head_seq`.
    pub head: u64,
    /// The handles of its agents.
    pub agents: Vec<String>,
    /// Its messages, in order, without cards.
    pub messages: Vec<HistoryMessage>,
    /// Positions of the cards of calls that waited for a person.
    pub cards: Vec<u64>,
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryMessage {
    /// Id.
    pub id: String,
    /// Position in the space.
    pub seq: u64,
    /// The sender's id.
    pub sender: String,
    /// The text.
    pub text: String,
    /// The call that posted it; `None` for messages of people.
    pub call: Option<String>,
    /// Whether it is the card of a call.
    pub card: bool,
}

/// The history of an agent.
#[derive(Clone, Debug, Default)]
pub struct AgentTrace {
    /// Id.
    pub id: String,
    /// Handle.
    pub name: String,
    /// The events of its inbox, newest first.
    pub events: Vec<InboxEvent>,
    /// Its consciousness.
    pub log: Vec<HistoryEntry>,
    /// Its runs, newest first.
    pub runs: Vec<RunRecord>,
    /// Its memories.
    pub notes: BTreeMap<String, String>,
    /// The agent's `commit_n`.
    pub commit_n: u64,
    /// Its last commits, replayed from the store.
    pub replayed: SeenUpdates,
}

/// An event of an inbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InboxEvent {
    /// Id.
    pub id: String,
    /// Position in the inbox.
    pub seq: u64,
    /// Its state.
    pub state: String,
    /// The cycle that processed it.
    pub cycle: Option<String>,
    /// The message that it refers to.
    pub message: Option<String>,
    /// The payload of a service's event, or the instruction of a plan.
    pub payload: Option<String>,
    /// The plan that fired.
    pub plan: Option<String>,
    /// The late result of a call.
    pub result: Option<LateResult>,
}

/// A result that came when no cycle waited for it any more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LateResult {
    /// The call.
    pub call: String,
    /// Whether it failed.
    pub failed: bool,
    /// What the agent reads.
    pub text: String,
}

/// An entry of a consciousness.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryEntry {
    /// Position in the log.
    pub seq: u64,
    /// The cycle.
    pub cycle: String,
    /// Kind: `inbox`, `assistant`, `outcomes`, ….
    pub kind: String,
    /// Text.
    pub text: String,
    /// The calls: id, tool, arguments.
    pub calls: Vec<(String, String, String)>,
    /// The outcomes: the call's id, and whether it failed.
    pub outcomes: Vec<(String, bool)>,
    /// The text of each outcome, in the same order.
    pub texts: Vec<String>,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunRecord {
    /// The cycle.
    pub cycle: String,
    /// Its ordinal.
    pub ordinal: u64,
    /// Number of events that it processed.
    pub events: u64,
    /// How it ended, with the reason unless it is `completed`.
    pub ending: String,
}

/// Reads the history of a world.
pub async fn read(client: &HttpClient) -> Result<History> {
    let mut history = History::default();
    for world_space in SPACES {
        let space: SpaceJson = client.get(&format!("/v1/spaces/{}", world_space.name)).await?;
        let agents = world_space.agents.iter().map(|name| (*name).to_owned()).collect();
        let found = messages(client, world_space.name).await?;
        let (cards, messages): (Vec<_>, Vec<_>) = found.into_iter().partition(|message| message.card);
        let cards = cards.iter().map(|card| card.seq).collect();
        let SpaceJson { id, handle: name, head_seq: head, .. } = space;
        history.spaces.push(Timeline { id: id.to_string(), name, head, agents, messages, cards });
    }
    for name in AGENTS {
        history.agents.push(agent(client, name).await?);
    }
    Ok(history)
}

/// Reads the history of an agent.
pub async fn agent(client: &HttpClient, name: &str) -> Result<AgentTrace> {
    let card: Agent = client.get(&format!("/v1/agents/{name}")).await?;
    let events: Vec<LoggedEvent> = pages(client, &format!("/v1/agents/{name}/events")).await?;
    let runs: Vec<RunJson> = pages(client, &format!("/v1/agents/{name}/runs")).await?;
    let facts: FactsJson = client.get(&format!("/v1/agents/{name}/facts")).await?;
    let after = card.commit_n.saturating_sub(REPLAY);
    Ok(AgentTrace {
        id: card.id.to_string(),
        name: name.to_owned(),
        events: events.into_iter().map(inbox_event).collect(),
        log: log(client, name).await?,
        runs: runs.into_iter().map(run_record).collect(),
        notes: facts.memories.into_iter().map(|memory| (memory.key, memory.value)).collect(),
        commit_n: card.commit_n,
        replayed: follow::replay(client, name, after, card.commit_n).await,
    })
}

/// Reads the messages of a space.
pub async fn messages(client: &HttpClient, space: &str) -> Result<Vec<HistoryMessage>> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let path = format!("/v1/spaces/{space}/messages?limit=200&after={after}");
        let page: PageJson<MessageJson> = client.get(&path).await?;
        let Some(last) = page.items.last() else { return Ok(found) };
        after = last.seq;
        found.extend(page.items.into_iter().map(|message| {
            let MessageJson { id, seq, sender, text, call, kind, .. } = message;
            HistoryMessage {
                id: id.to_string(),
                seq,
                sender: sender.to_string(),
                text,
                call: call.map(|call| call.0),
                card: kind == MessageKind::Tool,
            }
        }));
    }
}

async fn log(client: &HttpClient, agent: &str) -> Result<Vec<HistoryEntry>> {
    let entries: Vec<LogEntry> = pages(client, &format!("/v1/agents/{agent}/consciousness")).await?;
    Ok(entries.into_iter().map(entry).collect())
}

pub(crate) async fn pages<T: DeserializeOwned>(client: &HttpClient, path: &str) -> Result<Vec<T>> {
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

fn inbox_event(event: LoggedEvent) -> InboxEvent {
    let state = event.state;
    let cycle = event.cycle.filter(|_| state == "processed").map(|cycle| cycle.to_string());
    let (mut message, mut payload, mut plan, mut result) = (None, None, None, None);
    match event.data {
        EventData::Message { message: id, .. } => message = Some(id.to_string()),
        EventData::Service { payload: sent, .. } => payload = Some(sent.to_string()),
        EventData::Plan { plan: id, instruction, .. } => {
            (plan, payload) = (Some(id.to_string()), Some(instruction));
        }
        EventData::ToolResult { call, text, error, .. } => {
            result = Some(LateResult { call: call.0, failed: error, text });
        }
        _ => {}
    }
    InboxEvent { id: event.id.0, seq: event.seq, state, cycle, message, payload, plan, result }
}

fn entry(entry: LogEntry) -> HistoryEntry {
    let LogEntry { seq, cycle, kind, message, .. } = entry;
    let calls =
        message.calls().map(|(id, name, arguments)| (id.0.clone(), name.to_owned(), arguments.to_owned()));
    let results = message.parts.iter().filter_map(|part| match part {
        Part::ToolResult { id, error, text, .. } => Some(((id.0.clone(), *error), text.clone())),
        _ => None,
    });
    let (outcomes, texts) = results.unzip();
    HistoryEntry {
        seq,
        cycle: cycle.to_string(),
        kind: kind.as_str().to_owned(),
        calls: calls.collect(),
        outcomes,
        texts,
        text: message.text(),
    }
}

fn run_record(run: RunJson) -> RunRecord {
    let ending = match run.ending {
        Ending::Completed => "completed".to_owned(),
        other => format!("{}: {}", other.as_str(), run.reason.unwrap_or_default()),
    };
    RunRecord { cycle: run.id.to_string(), ordinal: run.ordinal, events: run.events.into(), ending }
}
