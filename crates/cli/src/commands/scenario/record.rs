//! `viv scenario record`: writes what an agent of a running server did as a scenario: the messages and
//! events that it received, its model's replies, and the messages that it posted.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::config::AgentConfig;
use agent::event::{EventData, EventState};
use agent::id::{CycleId, EntityId, MessageId, SpaceId};
use agent::port::Toolbox;
use api::{Agent, FactsJson, LogEntry, LoggedEvent, MessageJson, RunDetail, RunJson};
use scenario::file;
use scenario::flaw::FilePosition;
use scenario::scene::{Actor, Room, Scenario, StoryAction, StoryEvent, When};
use scenario::write::written;
use serde_json::{Value, json};

use super::{replies, runner};
use crate::args::RecordArgs;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;
use crate::progress::Progress;
use crate::target;
use client::{Client, agent_path, segment, typed};

/// Maximum number of inbox rows that are read.
const INBOX_MAX: usize = 10_000;
/// Maximum number of consciousness entries that are read.
const ENTRIES_MAX: usize = 10_000;
/// Time limit of the trial run of a recording.
const TRIAL: Duration = Duration::from_secs(30);

/// Records a scenario.
pub(crate) async fn run(client: Client, screen: Screen, args: RecordArgs) -> Result<Exit> {
    let progress = Progress::start(&screen, "reading what happened");
    let agent = target::agent(&client, args.agent.as_deref()).await?;
    let runs = runs(&client, &agent, &args).await?;
    let recording = Recording::gather(&client, &agent, &runs).await?;
    let (scenario, left_out) = recording.scenario(&agent, &runs)?;
    let text = written(&scenario);
    let trial_failure = trial_failure(&text).await?;
    drop(progress);
    if let Some(path) = &args.output {
        write_new(path, &text)?;
    }
    let file = args.output.as_ref().map(|path| path.display().to_string());
    if screen.json {
        screen.json_line(&json!({
            "agent": agent.name, "file": file, "cycles": runs.len(), "passes": trial_failure.is_none(),
            "left_out": left_out, "text": text,
        }));
    } else if let Some(file) = &file {
        let cycles = if runs.len() == 1 { "1 cycle".to_owned() } else { format!("{} cycles", runs.len()) };
        screen.line(&screen.clean_line(&format!("wrote {cycles} of `{}` to {file}", agent.name)));
        screen.line(&screen.clean_line(&format!("run it with: viv scenario run {file}")));
    } else {
        screen.line(screen.clean(&text).trim_end());
    }
    for left_out in &left_out {
        screen.note(&screen.clean_line(&format!("note: left out {left_out}")));
    }
    if let Some(trial_failure) = trial_failure {
        screen.note(&screen.clean_line(&format!("note: a trial run does not pass yet: {trial_failure}")));
    }
    Ok(Exit::Answered)
}

/// The runs to record, oldest first.
async fn runs(client: &Client, agent: &Agent, args: &RecordArgs) -> Result<Vec<RunJson>> {
    let mut runs: Vec<RunJson> = match &args.run {
        Some(id) => {
            let detail: RunDetail = client.get_as(&format!("/v1/runs/{}", segment(id))).await?;
            vec![detail.run]
        }
        None => {
            let max = usize::try_from(args.cycles).unwrap_or(usize::MAX);
            typed("runs", Value::Array(client.list(&agent_path(agent.id, "/runs"), max).await?))?
        }
    };
    runs.reverse();
    if let Some(run) = runs.iter().find(|run| run.agent != agent.id) {
        let message = format!("the run `{}` is not one of `{}`", run.id, agent.name);
        return Err(Failure::new(Exit::NotFound, "not_found", message).hint("name its agent"));
    }
    if runs.is_empty() {
        let message = format!("`{}` has run no cycle yet", agent.name);
        return Err(Failure::new(Exit::NotFound, "not_found", message)
            .hint("send it a message with `viv say`, then record"));
    }
    Ok(runs)
}

/// Everything that a recording is made from.
struct Recording {
    spaces: Vec<(SpaceId, String)>,
    rooms: Vec<Room>,
    /// Handles of all members and senders.
    entities: HashMap<EntityId, String>,
    /// The events that each cycle processed, in order.
    processed: HashMap<CycleId, Vec<LoggedEvent>>,
    /// The messages that these events refer to.
    messages: HashMap<MessageId, MessageJson>,
    entries: Vec<LogEntry>,
    posted: Vec<MessageJson>,
}

impl Recording {
    async fn gather(client: &Client, agent: &Agent, runs: &[RunJson]) -> Result<Self> {
        let path = agent_path(agent.id, "/facts");
        let facts: FactsJson = client.get_as(&path).await?;
        let mut recording = Self {
            spaces: facts.spaces.iter().map(|space| (space.id, space.name.clone())).collect(),
            rooms: Vec::new(),
            entities: HashMap::from([(agent.id.entity(), agent.name.clone())]),
            processed: HashMap::new(),
            messages: HashMap::new(),
            entries: entries(client, agent, runs).await?,
            posted: Vec::new(),
        };
        for space in &facts.spaces {
            let members = space.members.iter().map(|member| member.entity.name.clone()).collect();
            recording.rooms.push(Room { name: space.name.clone(), members, wake_on: space.wake_on });
            let named = space.members.iter().map(|member| (member.entity.id, member.entity.name.clone()));
            recording.entities.extend(named);
        }
        let rows = client.list(&agent_path(agent.id, "/inbox?state=processed"), INBOX_MAX).await?;
        let mut events: Vec<LoggedEvent> = typed("inbox", Value::Array(rows))?;
        events.sort_by_key(|event| event.seq);
        for event in events {
            let EventState::Processed { cycle, .. } = &event.state else { continue };
            if runs.iter().any(|run| run.id == *cycle) {
                recording.fetch(client, &event).await?;
                recording.processed.entry(*cycle).or_default().push(event);
            }
        }
        for run in runs {
            let detail: RunDetail = client.get_as(&format!("/v1/runs/{}", run.id)).await?;
            recording.posted.extend(detail.messages);
        }
        Ok(recording)
    }

    /// Fetches the message that an event refers to, and its sender.
    async fn fetch(&mut self, client: &Client, event: &LoggedEvent) -> Result<()> {
        let EventData::Message { message, .. } = &event.data else { return Ok(()) };
        let found: MessageJson = client.get_as(&format!("/v1/messages/{message}")).await?;
        if !self.entities.contains_key(&found.sender) {
            let path = format!("/v1/entities/{}", found.sender);
            let entity: api::EntityJson = client.get_as(&path).await?;
            self.entities.insert(entity.id, entity.name);
        }
        self.messages.insert(*message, found);
        Ok(())
    }

    /// The scenario, and which events of these cycles it cannot express.
    fn scenario(&self, agent: &Agent, runs: &[RunJson]) -> Result<(Scenario, Vec<String>)> {
        let mut config = agent.config.clone();
        if let Some(keys) = config.as_object_mut() {
            // The model is chosen when the scenario is run.
            keys.remove("model");
        }
        let config = AgentConfig::from_json(&config).map_err(|error| {
            Failure::new(Exit::Failed, "unknown_answer", format!("cannot read the config: {error}"))
                .hint("is the server a different version than this `viv`?")
        })?;
        let mut rooms = self.rooms.clone();
        let (story, left_out) = self.story(agent, runs, &mut rooms);
        if story.is_empty() {
            return Err(Failure::new(
                Exit::Refused,
                "nothing_to_record",
                "these cycles contain nothing that can be recorded",
            )
            .hint("messages and events of services can be recorded; plans and late results cannot yet"));
        }
        let mut people: Vec<String> = rooms.iter().flat_map(|room| room.members.clone()).collect();
        people.sort();
        people.dedup();
        people.retain(|name| *name != agent.name);
        let names = replies::NameTable {
            agent,
            spaces: &self.spaces,
            entities: &self.entities,
            posted: &self.posted,
        };
        let script = replies::script(&names, runs, &self.entries);
        let expect = replies::expectations(&names, runs);
        let actor =
            Actor { name: agent.name.clone(), config, script: Some(script), place: FilePosition::default() };
        let cycles = if runs.len() == 1 { "a cycle".to_owned() } else { format!("{} cycles", runs.len()) };
        let from = runs.first().map(|run| run.opened_at.to_string()).unwrap_or_default();
        let scenario = Scenario {
            name: format!("What {} did in {cycles}", agent.display_name),
            about: format!(
                "Recorded; the first cycle began at {from}. The script contains its model's replies.\n"
            ),
            people,
            agents: vec![actor],
            spaces: rooms,
            story,
            expect,
        };
        Ok((scenario, left_out))
    }

    /// What happened, in order, and the events that no sentence of a story can express.
    fn story(&self, agent: &Agent, runs: &[RunJson], rooms: &mut [Room]) -> (Vec<StoryEvent>, Vec<String>) {
        let (mut story, mut left_out) = (Vec::new(), Vec::new());
        for run in runs {
            let mut first = true;
            for event in self.processed.get(&run.id).into_iter().flatten() {
                let Some(what) = self.what(agent, event, rooms) else {
                    let kind = event.kind.as_str();
                    let cycle = run.ordinal;
                    left_out.push(format!("the event {} of cycle {cycle}, a `{kind}`", event.seq));
                    continue;
                };
                let when = if first { When::Quiet } else { When::After(Duration::ZERO) };
                first = false;
                story.push(StoryEvent { when, what: vec![what], times: 1, place: FilePosition::default() });
            }
        }
        (story, left_out)
    }

    fn what(&self, agent: &Agent, event: &LoggedEvent, rooms: &mut [Room]) -> Option<StoryAction> {
        match &event.data {
            EventData::Message { space, message, .. } => {
                let message = self.messages.get(message)?;
                let space = self.spaces.iter().find(|(id, _)| id == space).map(|(_, name)| name.clone())?;
                let who = self.entities.get(&message.sender)?.clone();
                // A sender who has left since was a member then.
                let room = rooms.iter_mut().find(|room| room.name == space)?;
                if !room.members.contains(&who) {
                    room.members.push(who.clone());
                }
                Some(StoryAction::Says { who, space, text: message.text.clone(), id: None })
            }
            EventData::Service { name, payload } => {
                let service = name.split_whitespace().collect::<Vec<_>>().join("-");
                let payload = payload.clone();
                Some(StoryAction::Calls { service, agent: agent.name.clone(), payload, id: None })
            }
            _ => None,
        }
    }
}

/// The entries of these runs.
async fn entries(client: &Client, agent: &Agent, runs: &[RunJson]) -> Result<Vec<LogEntry>> {
    let path = agent_path(agent.id, "/consciousness");
    let read = client.list(&path, ENTRIES_MAX).await?;
    let mut entries: Vec<LogEntry> = typed(&path, Value::Array(read))?;
    entries.retain(|entry| runs.iter().any(|run| run.id == entry.cycle));
    Ok(entries)
}

/// Why the recorded text does not pass; `None` if it does.
async fn trial_failure(text: &str) -> Result<Option<String>> {
    let scenario = match file::read(text.as_bytes(), &tools::prebuilt().names()) {
        Ok(scenario) => scenario,
        Err(flaws) => return Ok(flaws.first().map(|flaw| format!("line {}: {flaw}", flaw.place.line))),
    };
    let outcome = runner::simulated(Arc::new(scenario), TRIAL).await?;
    let unmet = outcome.unmet.first().map(|unmet| format!("{}: got {}", unmet.sentence, unmet.got));
    Ok(outcome.broken_off.or(unmet))
}

/// Writes a file that must not exist yet.
fn write_new(path: &Path, text: &str) -> Result<()> {
    let wrong = |error: std::io::Error| {
        let message = format!("cannot write `{}`: {error}", path.display());
        let exists = error.kind() == std::io::ErrorKind::AlreadyExists;
        let hint = if exists { "name another file, or move it away" } else { "may this user write there?" };
        Failure::new(if exists { Exit::Refused } else { Exit::Failed }, "unwritable", message).hint(hint)
    };
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(wrong)?;
    file.write_all(text.as_bytes()).map_err(wrong)
}
