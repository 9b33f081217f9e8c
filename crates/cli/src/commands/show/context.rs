//! `viv agents context`: what an agent's model would be sent now, as summary and entries and in layers; with `--all`, the
//! whole consciousness; with `--at`, what was sent in a run.

use agent::id::{AgentId, CycleId};
use agent::message::Part;
use agent::run::{SentRequest, StepRecord};
use api::{ContextJson, LogEntry, RunJson, SentContextJson, SentItem, TrendJson};
use serde_json::{Value, json};

use super::section;
use crate::args::ContextArgs;
use crate::bars::{Piece, Scale};
use crate::errors::{Failure, Result};
use crate::output::{Screen, Style, counted, wrap};
use crate::progress::Progress;
use client::{Client, agent_path, target, typed};

/// Which entries are printed.
#[derive(Clone, Copy, PartialEq)]
enum Entries {
    /// None.
    None,
    /// Those that the model would be sent.
    Sent,
    /// All of the history.
    All,
}

/// `viv agents context`.
pub(crate) async fn run(client: &Client, screen: &Screen, args: ContextArgs) -> Result<()> {
    let ContextArgs { agent, layers, all, at } = args;
    match (at, layers, all) {
        (Some(run), ..) => sent(client, screen, agent.as_deref(), run).await,
        (None, true, _) => context(client, screen, agent.as_deref(), Entries::None).await,
        (None, false, true) => context(client, screen, agent.as_deref(), Entries::All).await,
        (None, false, false) => context(client, screen, agent.as_deref(), Entries::Sent).await,
    }
}

async fn context(client: &Client, screen: &Screen, wanted: Option<&str>, which: Entries) -> Result<()> {
    let reading = Progress::start(screen, "reading");
    let agent = target::agent(client, wanted).await?;
    let path = agent_path(agent.id, "/context");
    // Without a known model the window is unknown, but the consciousness can still be shown.
    let (answer, context, why) = match client.get(&path).await {
        Ok(answer) => (answer.clone(), Some(typed::<ContextJson>(&path, answer)?), None),
        Err(failure) if failure.code == "no_such_model" => (Value::Null, None, Some(failure.message)),
        Err(failure) => return Err(failure.into()),
    };
    let log = match which {
        Entries::None if !screen.json => None,
        Entries::All => Some(read_all(client, agent.id, usize::MAX).await?),
        Entries::None | Entries::Sent => Some(read_sent(client, agent.id, context.as_ref()).await?),
    };
    drop(reading);
    if screen.json {
        let log = log.map_or_else(|| json!({}), |log| to_json(agent.id, &log, &answer));
        screen.json_line(&log);
        return Ok(());
    }
    if let Some(log) = log {
        let (count, tokens) = (log.len(), tokens_of(&log));
        text(screen, "summary", context.as_ref().and_then(|context| context.summary.as_deref()));
        let mut cycle = None;
        log.iter().for_each(|entry| print_entry(screen, &mut cycle, entry));
        let older = context.as_ref().map_or(0, |context| context.older_entries);
        let older = match older {
            _ if which == Entries::All => String::new(),
            0 => String::new(),
            older => format!(", {older} older ones not sent (`viv agents context {} --all`)", agent.handle),
        };
        screen.wrapped(&format!("{count} entries, {tokens} tokens{older}"), 2);
    }
    match (why, context) {
        (Some(why), _) => screen.note(&format!("({why})")),
        (None, Some(context)) => bars(screen, &context),
        (None, None) => {}
    }
    Ok(())
}

/// Prints what was sent in a run, which must be one of the agent's if one is named.
async fn sent(client: &Client, screen: &Screen, wanted: Option<&str>, run: CycleId) -> Result<()> {
    let path = format!("/v1/runs/{run}/context");
    let answer = client.get(&path).await?;
    let context: SentContextJson = typed(&path, answer.clone())?;
    if let Some(wanted) = wanted {
        let agent = target::agent(client, Some(wanted)).await?;
        if agent.id != context.run.agent {
            let other = &context.run.agent_handle;
            let failure = Failure::usage(format!("run `{run}` is one of `{other}`, not of `{wanted}`"));
            return Err(failure.hint(format!("`viv agents context {other} --at {run}`")));
        }
    }
    if screen.json {
        screen.json_line(&answer);
        return Ok(());
    }
    let SentContextJson { run, summary, items } = context;
    text(screen, "summary", summary.as_deref());
    let mut cycle = None;
    for item in items {
        match item {
            SentItem::Entry(entry) => print_entry(screen, &mut cycle, &entry),
            SentItem::Text { text: shown, tokens } => {
                text(screen, &format!("text that is not kept ({tokens} tokens)"), Some(&shown));
            }
        }
    }
    section(screen, "requests", run.steps.iter().filter_map(|step| request_line(&run, step)).collect());
    Ok(())
}

/// The whole consciousness of an agent, up to `most` entries.
pub(in crate::commands) async fn read_all(
    client: &Client,
    agent: AgentId,
    most: usize,
) -> Result<Vec<LogEntry>> {
    Ok(client.list_as(&agent_path(agent, "/consciousness"), most).await?)
}

/// The entries that the model would be sent.
async fn read_sent(client: &Client, agent: AgentId, context: Option<&ContextJson>) -> Result<Vec<LogEntry>> {
    let after = context.and_then(|context| context.first_entry).map_or(0, |first| first.saturating_sub(1));
    let path = agent_path(agent, &format!("/consciousness?after={after}"));
    let mut log: Vec<LogEntry> = client.list_as(&path, usize::MAX).await?;
    log.retain(|entry| entry.in_view);
    Ok(log)
}

/// The JSON that scripts rely on: the log and the layers.
fn to_json(agent: AgentId, log: &[LogEntry], layers: &Value) -> Value {
    let mut json = json!({"agent": agent, "entries": log, "total_tokens": tokens_of(log)});
    for key in
        ["model", "context_window", "layers", "events", "cut_above", "cut_to", "summary", "older_entries"]
    {
        json[key] = layers[key].clone();
    }
    json
}

fn tokens_of(log: &[LogEntry]) -> u64 {
    log.iter().map(|entry| u64::from(entry.tokens)).sum()
}

/// Prints an entry, under a heading if it is the first one of its `cycle`.
fn print_entry(screen: &Screen, cycle: &mut Option<CycleId>, entry: &LogEntry) {
    if cycle.replace(entry.cycle) != Some(entry.cycle) {
        let heading = format!("cycle {}", entry.cycle);
        let rows = wrap(&heading, screen.width, 2);
        rows.iter().for_each(|row| screen.line(&screen.paint(Style::Bold, row)));
    }
    let out = if entry.in_view { "" } else { ", not in view" };
    let LogEntry { seq, step, tokens, .. } = entry;
    let head = format!("#{seq} step {step} {} ({tokens} tokens{out})", entry.kind.as_str());
    let parts: Vec<String> = entry.message.parts.iter().map(part_text).collect();
    text(screen, &head, Some(&parts.join("\n")));
}

/// Prints a text under its heading; nothing if there is none.
fn text(screen: &Screen, heading: &str, text: Option<&str>) {
    let Some(text) = text else { return };
    let rows = wrap(&format!("  {heading}"), screen.width, 4);
    rows.iter().for_each(|row| screen.line(&screen.paint(Style::Dim, row)));
    for line in screen.clean(text).lines() {
        screen.wrapped(&format!("    {line}"), 6);
    }
}

/// ``step 0: `lab/large`, about 12040 tokens; usage 11800 in (11200 cached), 90 out; view 3, hash 0f3a…``.
fn request_line(run: &RunJson, step: &StepRecord) -> Option<String> {
    let sent = step.sent.as_ref()?;
    let model = step.model.as_deref().unwrap_or(&run.model);
    let usage = super::run::tokens(&step.usage.into());
    let SentRequest { prefix, view, tokens, .. } = sent;
    let line = format!(
        "step {}: `{model}`, about {tokens} tokens; usage {usage}; view {view}, hash {prefix}",
        step.step
    );
    Some(line)
}

fn part_text(part: &Part) -> String {
    match part {
        Part::Text { text } => text.clone(),
        Part::Reasoning { text } => format!("(reasoning) {text}"),
        Part::ToolCall { name, arguments, .. } => format!("-> {name} {arguments}"),
        Part::ToolResult { name, text, error, .. } => {
            format!("<- {name}{} {text}", if *error { " failed:" } else { "" })
        }
        Part::Image { media_type, .. } => format!("(image, {media_type})"),
        Part::File { name, media_type, .. } => format!("(file `{name}`, {media_type})"),
    }
}

/// Draws each layer as a bar, one after the other, so that together they fill the window.
fn bars(screen: &Screen, context: &ContextJson) {
    let heading = format!(
        "what the model `{}` would be sent, in a window of {} tokens",
        context.model, context.context_window
    );
    screen.line("");
    screen.wrapped(&screen.clean_line(&heading), 2);
    let used: u64 = context.layers.iter().map(|layer| layer.tokens).sum();
    let total = used.max(context.context_window).max(1);
    // Name, tokens and share precede the bar.
    let cells = screen.room().saturating_sub(9 + 1 + 9 + 1 + 4 + 2).max(8);
    let scale = Scale { total, cells };
    let mut at: u64 = 0;
    for layer in &context.layers {
        let from = at;
        let to = at.saturating_add(layer.tokens);
        at = to;
        let (glyph, style) = match layer.name.as_str() {
            "free" => (screen.pick('·', '.'), Style::Dim),
            "output" => (screen.pick('░', '-'), Style::Dim),
            _ => (screen.pick('█', '#'), Style::Cyan),
        };
        let pieces = [Piece { from, to, glyph, style }];
        let bar =
            if layer.tokens == 0 || screen.room() < 34 { String::new() } else { scale.bar(screen, &pieces) };
        let percent = layer.tokens.saturating_mul(100) / total;
        let share = match percent {
            0 if layer.tokens > 0 => "<1%".to_owned(),
            percent => format!("{percent}%"),
        };
        let name = screen.clean_line(&layer.name);
        match screen.room() < 24 {
            true => screen.line(&format!("{name:9} {:>9}", layer.tokens)),
            false => screen.line(format!("{name:9} {:>9} {share:>4}  {bar}", layer.tokens).trim_end()),
        }
    }
    let mut notes = vec![format!(
        "entries in the window: {}; above {} tokens it is cut to {}",
        context.entries, context.cut_above, context.cut_to
    )];
    if context.events > 0 {
        let events = counted(context.events, "event");
        notes.push(format!("the inbox holds {events}, to be processed next"));
    }
    notes.extend(costs(context));
    if used > context.context_window {
        notes.push("this is more than the window holds: shorten instructions or tools".to_owned());
    }
    for note in notes {
        screen.wrapped(&note, 2);
    }
}

/// What the last runs cost, and what the last compaction saved.
fn costs(context: &ContextJson) -> Option<String> {
    let TrendJson { runs, growth, cached_percent, recall_hits, recall_misses } = context.trend;
    let growth = growth.map(|growth| format!("a request grows by {growth} tokens per run"));
    let cached =
        cached_percent.map(|percent| format!("{percent}% of the input came from the provider's cache"));
    let last = context.compaction.as_ref().map(|last| {
        let (before, after) = (last.tokens_before, last.tokens_after);
        let by = last.method.as_str();
        format!("compaction {} ({by}) made {after} tokens of {before}", last.round)
    });
    let searches = recall_hits + recall_misses;
    let searches = (searches > 0).then(|| {
        format!(
            "it searched its archive {} and found nothing in {recall_misses} of them",
            counted(searches, "time")
        )
    });
    let known: Vec<String> = growth.into_iter().chain(cached).chain(searches).collect();
    let known =
        (!known.is_empty()).then(|| format!("in the last {}: {}", counted(runs, "run"), known.join(", ")));
    let lines: Vec<String> = known.into_iter().chain(last).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}
