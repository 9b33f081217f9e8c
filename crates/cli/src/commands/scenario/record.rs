//! `viv scenario record`: writes what an agent of a running server did as a scenario: the messages and
//! events that it received, its model's replies, and the messages that it posted.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use agent::config::AgentConfig;
use agent::entry::EntryKind;
use agent::event::{EventData, EventState};
use agent::id::MessageId;
use agent::port::Toolbox;
use agent::space::MessageKind;
use api::{Agent, EntityJson, FactsJson, LoggedEvent, MessageJson, RunDetail, RunJson, SpaceOfAgent};
use scenario::file;
use scenario::record::{RecordedCycle, RecordedEvent, RecordedMessage, Recording};
use scenario::scene::Room;
use scenario::write::written;
use serde_json::json;

use super::runner;
use crate::args::RecordArgs;
use crate::commands::show::read_all;
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, counted, new_file, unwritable};
use crate::progress::Progress;
use client::{Client, agent_path, segment, target};

const INBOX_MAX: usize = 10_000;
const ENTRIES_MAX: usize = 10_000;
/// Time limit of the trial run of a recording.
const TRIAL: Duration = Duration::from_secs(30);

pub(crate) async fn run(client: Client, screen: Screen, args: RecordArgs) -> Result<Exit> {
    let progress = Progress::start(&screen, "reading what happened");
    let agent = target::agent(&client, args.agent.as_deref()).await?;
    let runs = runs(&client, &agent, &args).await?;
    let (scenario, left_out) = gather(&client, &agent, &runs).await?.scenario();
    if scenario.story.is_empty() {
        let message = "these cycles contain nothing that can be recorded";
        return Err(Failure::new(Exit::Refused, "nothing_to_record", message)
            .hint("messages and events of services can be recorded; plans and late results cannot yet"));
    }
    let text = written(&scenario);
    let trial_failure = trial_failure(&text).await?;
    drop(progress);
    if let Some(path) = &args.output {
        new_file(path)?.write_all(text.as_bytes()).map_err(|error| unwritable(path, &error))?;
    }
    let file = args.output.as_ref().map(|path| path.display().to_string());
    if screen.json {
        screen.json_line(&json!({
            "agent": agent.name, "file": file, "cycles": runs.len(), "passes": trial_failure.is_none(),
            "left_out": left_out, "text": text,
        }));
    } else if let Some(file) = &file {
        let cycles = counted(runs.len(), "cycle");
        screen.text(&format!("wrote {cycles} of `{}` to {file}", agent.name));
        screen.text(&format!("run it with: viv scenario run {file}"));
    } else {
        screen.line(screen.clean(&text).trim_end());
    }
    for left_out in &left_out {
        screen.note(&format!("note: left out {left_out}"));
    }
    if let Some(trial_failure) = trial_failure {
        screen.note(&format!("note: a trial run does not pass yet: {trial_failure}"));
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
            client.list_as(&agent_path(agent.id, "/runs"), max).await?
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

async fn gather(client: &Client, agent: &Agent, runs: &[RunJson]) -> Result<Recording> {
    let mut config = agent.config.clone();
    if let Some(keys) = config.as_object_mut() {
        keys.remove("model");
    }
    let config = AgentConfig::from_json(&config).map_err(|error| {
        Failure::new(Exit::Failed, "unknown_answer", format!("cannot read the config: {error}"))
            .hint("is the server a different version than this `viv`?")
    })?;
    let facts: FactsJson = client.get_as(&agent_path(agent.id, "/facts")).await?;
    let mut recording = Recording {
        agent: agent.name.clone(),
        display_name: agent.display_name.clone(),
        config,
        rooms: Vec::new(),
        messages: HashMap::new(),
        handles: HashMap::from([(agent.id.to_string(), agent.name.clone())]),
        cycles: Vec::new(),
    };
    for SpaceOfAgent { id, name, members, wake_on, .. } in facts.spaces {
        let members = members.into_iter().map(|member| member.entity);
        let members: Vec<(String, String)> = members.map(|one| (one.id.to_string(), one.name)).collect();
        let names = members.iter().map(|(_, name)| name.clone()).collect();
        recording.rooms.push((id, Room { name: name.clone(), members: names, wake_on }));
        recording.handles.extend(members.into_iter().chain([(id.to_string(), name)]));
    }
    let mut entries = read_all(client, agent.id, ENTRIES_MAX).await?;
    entries.retain(|entry| entry.kind == EntryKind::Assistant);
    let path = agent_path(agent.id, "/inbox?state=processed");
    let mut inbox: Vec<LoggedEvent> = client.list_as(&path, INBOX_MAX).await?;
    inbox.sort_by_key(|event| event.seq);
    for run in runs {
        let mut events = Vec::new();
        let of_run = |event: &LoggedEvent| matches!(event.state, EventState::Processed { cycle, .. } if cycle == run.id);
        for LoggedEvent { seq, kind, data, .. } in inbox.extract_if(.., |event| of_run(event)) {
            if let EventData::Message { message: id, .. } = data {
                let message = message(client, id, &mut recording.handles).await?;
                recording.messages.insert(id, message);
            }
            events.push(RecordedEvent { seq, kind, data });
        }
        let detail: RunDetail = client.get_as(&format!("/v1/runs/{}", run.id)).await?;
        let texts = detail.messages.into_iter().filter(|message| message.kind == MessageKind::Text);
        recording.cycles.push(RecordedCycle {
            ordinal: run.ordinal,
            opened_at: run.opened_at,
            ending: run.ending,
            steps: run.steps.len(),
            processed: run.events,
            events,
            replies: entries
                .extract_if(.., |entry| entry.cycle == run.id)
                .map(|entry| entry.message)
                .collect(),
            posted: texts.map(|message| recorded(message, agent.name.clone())).collect(),
        });
    }
    Ok(recording)
}

/// A message that an event refers to, and the handle of its sender, who may have left the space since.
async fn message(
    client: &Client,
    id: MessageId,
    handles: &mut HashMap<String, String>,
) -> Result<RecordedMessage> {
    let message: MessageJson = client.get_as(&format!("/v1/messages/{id}")).await?;
    let id = message.sender.to_string();
    let sender = match handles.get(&id) {
        Some(known) => known.clone(),
        None => client.get_as::<EntityJson>(&format!("/v1/entities/{id}")).await?.name,
    };
    handles.insert(id, sender.clone());
    Ok(recorded(message, sender))
}

fn recorded(message: MessageJson, sender: String) -> RecordedMessage {
    let MessageJson { space, text, call, .. } = message;
    RecordedMessage { sender, space, text, call }
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
