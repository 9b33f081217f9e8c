//! `viv scenario record`: writes what an agent of a running server did as a scenario: the messages and
//! events that it received, its model's replies, and the messages that it posted.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use agent::approval::ApprovalState;
use agent::config::AgentConfig;
use agent::entry::EntryKind;
use agent::event::{Channel, EventData, Trust};
use agent::id::{CallId, MessageId};
use agent::message::{ModelMessage, Part};
use agent::port::Toolbox;
use agent::space::MessageKind;
use agent::tool::{ToolLabel, is_named};
use api::{
    Agent, ApprovalJson, EntityJson, FactsJson, LoggedEvent, MessageJson, RunDetail, RunJson, SpaceOfAgent,
    ToolJson,
};
use runtime::clock::SystemClock;
use scenario::file;
use scenario::record::{RecordedAnswer, RecordedCycle, RecordedEvent, RecordedMessage, Recording};
use scenario::scene::{PersonReply, Room, SceneOutcome, SceneTool};
use serde_json::{Value, json};

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
    let Some((scenario, left_out, text)) = gather(&client, &agent, &runs).await?.fitting() else {
        let message = "this cycle is too large for a scenario";
        return Err(Failure::new(Exit::Refused, "too_large", message)
            .hint("name a smaller one with --run; `viv runs` lists them"));
    };
    if scenario.story.is_empty() {
        let message = "these cycles contain nothing that can be recorded";
        return Err(Failure::new(Exit::Refused, "nothing_to_record", message)
            .hint("messages, deliveries, events of services, plans and answers of people can be recorded; heartbeats and late results of \
                   slow tools cannot yet"));
    }
    let trial_failure = trial_failure(&text).await?;
    drop(progress);
    if let Some(path) = &args.output {
        new_file(path)?.write_all(text.as_bytes()).map_err(|error| unwritable(path, &error))?;
    }
    let cycles = scenario.agents.iter().flat_map(|actor| &actor.script).map(Vec::len).sum::<usize>();
    let file = args.output.as_ref().map(|path| path.display().to_string());
    if screen.json {
        screen.json_line(&json!({
            "agent": agent.handle, "file": file, "cycles": cycles, "passes": trial_failure.is_none(),
            "left_out": left_out, "text": text,
        }));
    } else if let Some(file) = &file {
        let cycles = counted(cycles, "cycle");
        screen.text(&format!("wrote {cycles} of `{}` to {file}", agent.handle));
        if trial_failure.is_none() {
            screen.text(&format!("run it with: viv scenario run {file}"));
        }
    } else {
        screen.line(screen.clean(&text).trim_end());
    }
    for left_out in &left_out {
        screen.note(&format!("note: left out {left_out}"));
    }
    if let Some(trial_failure) = trial_failure {
        screen.note(&format!("note: a trial run does not pass yet: {trial_failure}"));
        return Ok(Exit::Failed);
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
        let message = format!("the run `{}` is not one of `{}`", run.id, agent.handle);
        return Err(Failure::new(Exit::NotFound, "not_found", message).hint("name its agent"));
    }
    if runs.is_empty() {
        let message = format!("`{}` has run no cycle yet", agent.handle);
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
    let prebuilt = tools::prebuilt().names();
    let tools = own_tools(client, &config, &prebuilt).await?;
    let facts: FactsJson = client.get_as(&agent_path(agent.id, "/facts")).await?;
    let mut recording = Recording {
        agent: agent.handle.clone(),
        display_name: agent.display_name.clone(),
        config,
        rooms: Vec::new(),
        prebuilt: prebuilt.clone(),
        tools,
        messages: HashMap::new(),
        handles: HashMap::from([(agent.id.to_string(), agent.handle.clone())]),
        cycles: Vec::new(),
    };
    for SpaceOfAgent { id, handle: name, members, wake_on, .. } in facts.spaces {
        let members = members.into_iter().map(|member| member.entity);
        let members: Vec<(String, String)> = members.map(|one| (one.id.to_string(), one.handle)).collect();
        let names = members.iter().map(|(_, name)| name.clone()).collect();
        recording.rooms.push((id, Room { name: name.clone(), members: names, wake_on }));
        recording.handles.extend(members.into_iter().chain([(id.to_string(), name)]));
    }
    let mut entries = read_all(client, agent.id, ENTRIES_MAX).await?;
    let results = entries.extract_if(.., |entry| entry.kind == EntryKind::Outcomes);
    let mut results: HashMap<CallId, SceneOutcome> =
        results.flat_map(|entry| results_of(entry.message)).collect();
    entries.retain(|entry| entry.kind == EntryKind::Assistant);
    let mut answers = answers(client, agent).await?;
    let path = agent_path(agent.id, "/events?state=processed");
    let mut inbox: Vec<LoggedEvent> = client.list_as(&path, INBOX_MAX).await?;
    inbox.sort_by_key(|event| event.seq);
    // What came of calls that their cycle did not wait for.
    let late: HashMap<CallId, SceneOutcome> = inbox.iter().filter_map(late_result).collect();
    for run in runs {
        let mut events = Vec::new();
        let of_run = |event: &LoggedEvent| event.state == "processed" && event.cycle == Some(run.id);
        for LoggedEvent { seq, kind, data, envelope, urgent, .. } in
            inbox.extract_if(.., |event| of_run(event))
        {
            if let EventData::Message { message: id, .. } = data {
                let message = message(client, id, &mut recording.handles).await?;
                recording.messages.insert(id, message);
            }
            // One that is trusted counts as what a service of the operator says.
            let of_hook = envelope.channel == Channel::Webhook && envelope.trust == Trust::Outside;
            events.push(RecordedEvent { seq, kind, data, of_hook, urgent });
        }
        let detail: RunDetail = client.get_as(&format!("/v1/runs/{}", run.id)).await?;
        let replies: Vec<ModelMessage> =
            entries.extract_if(.., |entry| entry.cycle == run.id).map(|entry| entry.message).collect();
        let calls: Vec<CallId> =
            replies.iter().flat_map(ModelMessage::calls).map(|(id, ..)| id.clone()).collect();
        let texts = detail.messages.into_iter().filter(|message| message.kind == MessageKind::Text);
        recording.cycles.push(RecordedCycle {
            ordinal: run.ordinal,
            opened_at: run.opened_at,
            ending: run.ending,
            steps: run.steps.len(),
            processed: run.events,
            events,
            replies,
            outcomes: outcomes(run, &prebuilt, (&mut results, &late), &answers),
            answers: answers.extract_if(.., |answer| calls.contains(&answer.call)).collect(),
            posted: texts.map(|message| recorded(message, agent.handle.clone())).collect(),
        });
    }
    Ok(recording)
}

/// The tools of the agent that not every server has. A scenario's own tools have their names.
async fn own_tools(client: &Client, config: &AgentConfig, prebuilt: &[String]) -> Result<Vec<SceneTool>> {
    let items: Vec<ToolJson> = client.all_as("/v1/tools").await?;
    let wanted: Vec<&str> = config.named_tools().into_iter().map(|(_, tool)| tool).collect();
    let own = |tool: &ToolJson| {
        !prebuilt.contains(&tool.name) && wanted.iter().any(|wanted| is_named(wanted, &tool.name))
    };
    let scene = |tool: ToolJson| SceneTool {
        name: tool.name,
        effect: tool.effect,
        labels: tool.labels.iter().filter_map(|label| label.parse::<ToolLabel>().ok()).collect(),
        description: tool.description,
        input: Some(tool.input),
        outcomes: Vec::new(),
    };
    let mut tools: Vec<SceneTool> = items.into_iter().filter(own).map(scene).collect();
    for gone in wanted
        .iter()
        .filter(|name| !name.contains(['*', ':']) && !prebuilt.iter().any(|known| known == *name))
    {
        if !tools.iter().any(|tool| tool.name == **gone) {
            tools.push(SceneTool { name: (**gone).to_owned(), ..SceneTool::default() });
        }
    }
    Ok(tools)
}

/// What calls returned, as the agent read it.
fn results_of(message: ModelMessage) -> impl Iterator<Item = (CallId, SceneOutcome)> {
    message.parts.into_iter().filter_map(|part| match part {
        Part::ToolResult { id, text, error: failed, .. } => Some((id, SceneOutcome { text, failed })),
        _ => None,
    })
}

fn late_result(event: &LoggedEvent) -> Option<(CallId, SceneOutcome)> {
    let EventData::ToolResult { call, text, error, .. } = &event.data else { return None };
    Some((call.clone(), SceneOutcome { text: text.clone(), failed: *error }))
}

/// The outcomes of those calls of a run that ran outside the server: in its steps, or later when somebody allowed it.
fn outcomes(
    run: &RunJson,
    prebuilt: &[String],
    (results, late): (&mut HashMap<CallId, SceneOutcome>, &HashMap<CallId, SceneOutcome>),
    answers: &[RecordedAnswer],
) -> Vec<(String, SceneOutcome)> {
    let is_granted = |id: &CallId| {
        answers.iter().any(|answer| answer.call == *id && matches!(answer.reply, PersonReply::Approves))
    };
    let mut outcomes = Vec::new();
    for step in &run.steps {
        for (index, call) in (0..).zip(&step.calls) {
            let id = CallId::derive(run.agent, run.id, step.step, index);
            let outcome = results.remove(&id);
            let ran = call.started_ms.is_some() || (late.contains_key(&id) && is_granted(&id));
            let outcome =
                late.get(&id).cloned().or(outcome).filter(|_| ran && !prebuilt.contains(&call.tool));
            outcomes.extend(outcome.map(|outcome| (call.tool.clone(), outcome)));
        }
    }
    outcomes
}

/// What people answered to calls of the agent, in order.
async fn answers(client: &Client, agent: &Agent) -> Result<Vec<RecordedAnswer>> {
    let path = format!("/v1/approvals?all=true&agent={}", agent.id);
    let mut all: Vec<ApprovalJson> = client.list_as(&path, INBOX_MAX).await?;
    all.sort_by_key(|asked| asked.answered_at);
    let people: Vec<EntityJson> = client.list_as("/v1/entities?kind=human", INBOX_MAX).await?;
    let answer = |asked: ApprovalJson| {
        let by = asked.by?;
        let who = people.iter().find(|person| person.handle == by).map(|person| person.handle.clone());
        let reply = match asked.state {
            ApprovalState::Granted => PersonReply::Approves,
            ApprovalState::Refused => PersonReply::Refuses(asked.reason.unwrap_or_else(|| "no".to_owned())),
            // It is the outcome of the question that says what was answered.
            ApprovalState::Answered => PersonReply::Says(answer_in(asked.outcome.as_deref()?)?),
            _ => return None,
        };
        let tool = (!matches!(reply, PersonReply::Says(_))).then_some(asked.tool);
        Some(RecordedAnswer { call: asked.call, who, tool, reply })
    };
    Ok(all.into_iter().filter_map(answer).collect())
}

fn answer_in(outcome: &str) -> Option<Value> {
    serde_json::from_str::<Value>(outcome).ok()?.get("answer").cloned()
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
        None => client.get_as::<EntityJson>(&format!("/v1/entities/{id}")).await?.handle,
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
    let (no_files, hooks) =
        (|_: &str, _: &[String]| Err(Vec::new()), runner::hooks(Arc::new(SystemClock::new())));
    let scenario = match file::read_with(text.as_bytes(), &tools::prebuilt().names(), &no_files, &*hooks) {
        Ok(scenario) => scenario,
        Err(flaws) => return Ok(flaws.first().map(|flaw| format!("line {}: {flaw}", flaw.place.line))),
    };
    let outcome = runner::simulated(Arc::new(scenario), TRIAL).await?;
    let unmet = outcome.unmet.first().map(|unmet| format!("{}: got {}", unmet.sentence, unmet.got));
    Ok(outcome.broken_off.or(unmet))
}
