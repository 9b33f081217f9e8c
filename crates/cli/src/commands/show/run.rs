//! `viv runs show`: one run as a waterfall. Times count from the start of its cycle.

use agent::call::OutcomeStatus;
use agent::id::CycleId;
use agent::message::Part;
use agent::run::{CallRecord, StepRecord};
use api::{LogEntry, OpenCycleJson, PageJson, RunDetail, RunJson, SentContextJson, SentItem, UsageJson};
use jiff::Timestamp;

use super::{calls as open, section};
use crate::bars::{Piece, Scale};
use crate::commands::runs::{self, Named};
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, Style, ago, columns, counted, shortened, span, wrap};
use crate::written_by;
use client::{Client, ClientError, ErrorClass, agent_path, segment, target, typed};

/// Maximum number of columns of a row's name.
const NAME: usize = 22;
/// Columns of a duration.
const TOOK: usize = 9;
/// Columns of the mark of a call that failed.
const MARK: usize = 8;
/// Minimum number of columns of a bar and of a name, however narrow the terminal is.
const BAR: usize = 8;

const RUN_OR_AGENT: &str = "`viv ps` lists agents; `viv runs show AGENT` shows its newest run";

pub(crate) async fn run(client: &Client, screen: &Screen, wanted: Option<&str>) -> Result<()> {
    let id = match named(client, wanted).await? {
        Named::Run(id) => id.to_string(),
        Named::Open(open) => return show_open(client, screen, &open).await,
    };
    let path = format!("/v1/runs/{}", segment(&id));
    let answer = client.get(&path).await?;
    if screen.json {
        screen.json_line(&answer);
        return Ok(());
    }
    let RunDetail { run, messages } = typed(&path, answer)?;
    screen.pairs(&summary(screen, &run));
    waterfall(screen, &run.steps, length(&run));
    let lines = messages.iter().flat_map(|message| {
        let note = "(plain text of the model, posted because it called no tool)";
        let note = message.from_text.then_some(note);
        let text = written_by::shown(screen, message.kind, &message.text);
        text.lines().chain(note).map(str::to_owned).collect::<Vec<_>>()
    });
    section(screen, "messages", lines.collect());
    section(screen, "calls", calls_of(client, &run).await);
    section(screen, "text that was not sent (only operators see it)", unsent(&run));
    section(screen, "requests that did not extend the one before (a fault of the server)", broken(&run));
    section(screen, "late results", open::late(client, screen, &run).await?);
    section(screen, "open calls of its agent", open::lines(client, screen, run.agent).await?);
    Ok(())
}

/// The run or open cycle of that id or prefix, else the newest of that agent.
async fn named(client: &Client, wanted: Option<&str>) -> Result<Named> {
    // An open cycle is no run yet, even by its whole id.
    if let Some(prefix) = wanted.filter(|prefix| runs::is_prefix(prefix))
        && let Some(found) = runs::with_prefix(client, prefix).await?
    {
        return Ok(found);
    }
    if let Some(id) = wanted.and_then(|id| id.parse::<CycleId>().ok())
        && is_run(client, &id.to_string()).await?
    {
        return Ok(Named::Run(id));
    }
    newest_of(client, wanted).await
}

/// A cycle that has not ended: what it has done so far, and what it waits for.
async fn show_open(client: &Client, screen: &Screen, cycle: &OpenCycleJson) -> Result<()> {
    if screen.json {
        screen.json_line(&serde_json::json!(cycle));
        return Ok(());
    }
    let line = |text: &str| screen.clean_line(text);
    let pairs = [
        ("run", format!("{} (cycle {}, still open)", cycle.id, cycle.ordinal)),
        ("woke for", line(&cycle.woke_for)),
        ("state", cycle.state.as_str().to_owned()),
        ("why", cycle.why.as_deref().map_or_else(|| "-".to_owned(), line)),
        ("took", format!("{} so far", span(runs::so_far(cycle)))),
        ("model", cycle.model.as_deref().map_or_else(|| "unknown".to_owned(), line)),
        ("tokens", tokens(&cycle.usage)),
    ];
    screen.pairs(&pairs);
    waterfall(screen, &cycle.steps, runs::so_far(cycle));
    let waits = runs::waits(&cycle.steps).map(|(tool, asked)| {
        let waited = runs::so_far(cycle).saturating_sub(asked.asked_ms);
        line(&format!("{tool}: for {}, since {}", runs::whom(asked), span(waited)))
    });
    section(screen, "waits for a person (`viv approvals`)", waits.collect());
    section(screen, "open calls of its agent", open::lines(client, screen, cycle.agent).await?);
    screen.note(&format!(
        "`viv watch {0}` follows it, `viv show context {0}` has what its model is sent",
        cycle.agent_handle
    ));
    Ok(())
}

/// Columns of the arguments of a call, and of its outcome.
const SHOWN_COLUMNS: usize = 300;
/// Tools whose effect is shown anyway: as a message, or as the end of the run.
const SHOWN_ELSEWHERE: [&str; 3] = ["send_message", "done", "skip"];

/// The calls with their arguments and outcomes, by step. Without the history, which a vast one may leave out, there are none.
async fn calls_of(client: &Client, run: &RunJson) -> Vec<String> {
    let path = format!("/v1/runs/{}/context", run.id);
    let Ok(SentContextJson { items, .. }) = client.get_as(&path).await else { return Vec::new() };
    let entries: Vec<LogEntry> = items
        .into_iter()
        .filter_map(|item| match item {
            SentItem::Entry(entry) => (entry.cycle == run.id).then_some(entry),
            SentItem::Text { .. } => None,
        })
        .collect();
    let parts =
        || entries.iter().flat_map(|entry| entry.message.parts.iter().map(move |part| (entry.step, part)));
    let line = |(step, part): (u32, &Part)| {
        let Part::ToolCall { id, name, arguments } = part else { return None };
        let outcome = parts().find_map(|(_, part)| match part {
            Part::ToolResult { id: of, text, error, .. } if of == id => Some((text, *error)),
            _ => None,
        });
        let (how, text) = match &outcome {
            Some((_, false)) if SHOWN_ELSEWHERE.contains(&name.as_str()) => return None,
            Some((text, true)) => (" -> failed: ", text.as_str()),
            Some((text, false)) => (" -> ", text.as_str()),
            None => ("", ""),
        };
        let shown = |text: &str| shortened(&text.replace('\n', " "), SHOWN_COLUMNS);
        Some(format!("step {step}: {name} {}{how}{}", shown(arguments), shown(text)))
    };
    parts().filter_map(line).collect()
}

/// The text that the model wrote outside its calls and that nobody was sent, by step.
fn unsent(run: &RunJson) -> Vec<String> {
    let texts = run.steps.iter().filter_map(|step| Some((step.step, step.unsent.as_deref()?)));
    let lines = texts.flat_map(|(step, text)| {
        text.lines().enumerate().map(move |(at, line)| match at {
            0 => format!("step {step}: {line}"),
            _ => line.to_owned(),
        })
    });
    lines.collect()
}

/// The first difference of each request that the provider's cache could not serve, by step.
fn broken(run: &RunJson) -> Vec<String> {
    let first =
        |step: &StepRecord| Some(format!("step {}: {}", step.step, step.sent.as_ref()?.broken.as_ref()?));
    run.steps.iter().filter_map(first).collect()
}

fn summary(screen: &Screen, run: &RunJson) -> Vec<(&'static str, String)> {
    let line = |text: &str| screen.clean_line(text);
    let ending = match &run.reason {
        Some(reason) => format!("{} ({})", run.ending.as_str(), line(reason)),
        None => run.ending.as_str().to_owned(),
    };
    let waited = run.steps.first().and_then(|step| step.waited_ms);
    let waited = waited.map(|ms| format!(", model called {} after arrival", span(ms))).unwrap_or_default();
    let mut pairs = vec![
        ("run", format!("{} (cycle {})", run.id, run.ordinal)),
        ("woke for", line(&run.woke_for) + &waited),
        ("ending", ending),
        ("took", format!("{}, {}", span(length(run)), ago(run.ended_at, Timestamp::now()))),
        ("model", line(&run.model)),
        ("tokens", tokens(&run.usage)),
        ("cost", cost(run.cost_micros)),
    ];
    if run.estimated != UsageJson::default() {
        let aborted = format!("about {} more, of generations that were aborted", tokens(&run.estimated));
        pairs.insert(pairs.len() - 1, ("estimated", aborted));
    }
    let trust = run.steps.iter().filter_map(|step| step.sent.as_ref()?.trust).min();
    pairs.extend(trust.map(|trust| ("trust", format!("{} (the lowest that it read)", trust.as_str()))));
    if let Some(summary) = &run.summary {
        pairs.push(("summary", line(summary)));
    }
    pairs
}

fn length(run: &RunJson) -> u64 {
    u64::try_from(run.ended_at.as_millisecond() - run.opened_at.as_millisecond()).unwrap_or(0)
}

/// `120 in (100 cached), 20 out (5 reasoning)`.
pub(super) fn tokens(usage: &UsageJson) -> String {
    let part = |all: Option<u64>, of: Option<u64>, way: &str, what: &str| {
        let all = all.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        match of.filter(|of| *of > 0) {
            Some(of) => format!("{all} {way} ({of} {what})"),
            None => format!("{all} {way}"),
        }
    };
    if usage.input.is_none() && usage.output.is_none() {
        return "unknown".to_owned();
    }
    let sent = part(usage.input, usage.cached, "in", "cached");
    let generated = part(usage.output, usage.reasoning, "out", "reasoning");
    format!("{sent}, {generated}")
}

fn cost(micros: Option<u64>) -> String {
    match micros {
        Some(micros) => format!("${}.{:06}", micros / 1_000_000, micros % 1_000_000),
        None => "unknown".to_owned(),
    }
}

struct Bar {
    name: String,
    took: String,
    pieces: Vec<Piece>,
    mark: &'static str,
}

/// The steps of a run with their times and tokens.
pub(in crate::commands) fn waterfall(screen: &Screen, records: &[StepRecord], total: u64) {
    if records.is_empty() {
        return;
    }
    let mut steps = Vec::new();
    let mut end = 0;
    for step in records {
        let bars = bars_of(screen, step, (end, total));
        end = bars.iter().flat_map(|bar| &bar.pieces).map(|piece| piece.to).fold(end, u64::max);
        steps.push((heading(screen, step), bars));
    }
    let names = (screen.room() / 4).clamp(BAR, NAME);
    let before = names + 1 + TOOK + 2;
    // Without room for bars, the durations must do.
    let drawn = screen.room() >= before + BAR;
    let cells = screen.room().saturating_sub(before + 1 + MARK).max(BAR);
    let scale = Scale { total: total.max(end), cells };
    screen.line("");
    if drawn {
        screen.line(&screen.paint(Style::Dim, &format!("{}{}", " ".repeat(before), scale.times(screen))));
    }
    for (heading, bars) in &steps {
        screen.wrapped(heading, 8);
        for Bar { name, took, pieces, mark } in bars {
            let name = shortened(name, names);
            let blank = " ".repeat(names - columns(&name));
            let bar = if drawn { scale.bar(screen, pieces) } else { String::new() };
            let mark = screen.paint(Style::Red, mark);
            screen.line(format!("{name}{blank} {took:>TOOK$}  {bar} {mark}").trim_end());
        }
    }
    if !drawn {
        return;
    }
    let [wait, model, tool, asked] = glyphs(screen);
    let mut legend = format!("{wait} until the first piece of the reply  {model} generating  {tool} tool");
    if records.iter().flat_map(|step| &step.calls).any(|call| call.asked.is_some()) {
        legend.push_str(&format!("  {asked} waiting for a person"));
    }
    for line in wrap(&legend, screen.width, 0) {
        screen.line(&screen.paint(Style::Dim, &line));
    }
}

fn glyphs(screen: &Screen) -> [char; 4] {
    screen.pick(['░', '█', '▒', '┄'], ['.', '#', '=', '-'])
}

/// The bars of one step: the model's, those of its calls, and those of waiting for people. A step without a start begins at
/// `now`; what has not ended lasts until `end`.
fn bars_of(screen: &Screen, step: &StepRecord, (now, end): (u64, u64)) -> Vec<Bar> {
    let [wait, model, tool, asking] = glyphs(screen);
    let piece = |from, to, glyph, style| Piece { from, to, glyph, style };
    let from = step.started_ms.unwrap_or(now);
    let to = from.saturating_add(step.model_ms);
    let first = step.first_ms.map_or(from, |first| from.saturating_add(first).min(to));
    let mut pieces = vec![piece(first, to, model, Style::Cyan)];
    if first > from {
        pieces.insert(0, piece(from, first, wait, Style::Dim));
    }
    let mut bars = vec![Bar { name: "  think".to_owned(), took: span(step.model_ms), pieces, mark: "" }];
    for call in &step.calls {
        if let Some(asked) = &call.asked {
            let until = asked.waited_ms.map_or(end, |waited| asked.asked_ms.saturating_add(waited));
            let whom = asked.by.clone().unwrap_or_else(|| runs::whom(asked));
            bars.push(Bar {
                name: format!("  wait for {}", screen.clean_line(&whom)),
                took: span(until.saturating_sub(asked.asked_ms)),
                pieces: vec![piece(asked.asked_ms, until, asking, Style::Dim)],
                mark: if asked.waited_ms.is_none() && call.status.is_none() { "open" } else { "" },
            });
        }
        let from = call.started_ms.unwrap_or(to);
        let until = from.saturating_add(call.took_ms.unwrap_or(0));
        let mark = mark(call);
        let style = if mark.is_empty() { Style::Yellow } else { Style::Red };
        let ran = call.started_ms.is_some() || step.started_ms.is_none();
        let pieces = ran.then(|| piece(from, until, tool, style)).into_iter().collect();
        let took = call.took_ms.map(span).unwrap_or_default();
        bars.push(Bar { name: format!("  {}", screen.clean_line(&call.tool)), took, pieces, mark });
    }
    bars
}

/// What a step used, and what happened during it: additional events, restarts, repaired calls, and the model that
/// replied.
fn heading(screen: &Screen, step: &StepRecord) -> String {
    let times = |n: u32| if n == 1 { "once".to_owned() } else { format!("{n} times") };
    let used = match step.usage.input.or(step.usage.output) {
        Some(_) => tokens(&step.usage.into()),
        None => "tokens unknown".to_owned(),
    };
    let mut parts = vec![format!("step {}: {used}", step.step)];
    parts.extend(step.tokens_per_second().map(|speed| format!("{speed:.0} tokens/s")));
    if step.attempts > 1 {
        parts.push(format!("{} attempts", step.attempts));
    }
    if step.injected > 0 {
        parts.push(format!("{} shown meanwhile", counted(step.injected, "event")));
    }
    if step.interrupts > 0 {
        let discarded = match step.aborted.is_none() {
            true => String::new(),
            false => format!(" (about {} discarded)", tokens(&step.aborted.into())),
        };
        parts.push(format!("restarted {}{discarded}", times(step.interrupts)));
    }
    if !step.discarded.is_none() {
        parts.push(format!("{} for a discarded reply", tokens(&step.discarded.into())));
    }
    if step.cut > 0 {
        parts.push(format!("history cut to half {} (too long)", times(step.cut)));
    }
    if step.left_out > 0 {
        let entries = if step.left_out == 1 { "entry" } else { "entries" };
        parts.push(format!("{} {entries} of the log left out (no space)", step.left_out));
    }
    if step.rebuilt {
        parts.push("history rebuilt (refused as invalid)".to_owned());
    }
    let repaired = step.calls.iter().filter_map(|call| Some((&call.tool, call.repaired.as_ref()?)));
    parts.extend(repaired.map(|(tool, what)| format!("{tool} repaired ({what})")));
    parts.extend(step.model.as_ref().map(|model| format!("by {model}")));
    if step.tools.is_empty() {
        parts.push("no calls".to_owned());
    }
    screen.clean_line(&parts.join(", "))
}

fn mark(call: &CallRecord) -> &'static str {
    match call.status {
        Some(OutcomeStatus::Ok) => "",
        Some(OutcomeStatus::Error) => "failed",
        Some(status) => status.as_str(),
        None => "open",
    }
}

/// Whether an id is a run's; it may also be an agent's.
async fn is_run(client: &Client, id: &str) -> Result<bool> {
    match client.get(&format!("/v1/runs/{}", segment(id))).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.class == ErrorClass::NotFound => {
            match client.get(&format!("/v1/agents/{}", segment(id))).await {
                Ok(_) => Ok(false),
                Err(_) => Err(failure.hint(RUN_OR_AGENT).into()),
            }
        }
        Err(failure) => Err(failure.into()),
    }
}

async fn newest_of(client: &Client, wanted: Option<&str>) -> Result<Named> {
    let agent = target::agent(client, wanted).await.map_err(|error| match (error.class, wanted) {
        (ErrorClass::NotFound, Some(wanted)) => {
            let message = format!("no run or agent is called `{wanted}`");
            ClientError { message, ..error }.hint(RUN_OR_AGENT)
        }
        _ => error,
    })?;
    if let Some(open) = runs::open_of(client, agent.id).await? {
        return Ok(Named::Open(Box::new(open)));
    }
    let newest: PageJson<RunJson> = client.get_as(&agent_path(agent.id, "/runs?limit=1")).await?;
    newest.items.first().map(|run| Named::Run(run.id)).ok_or_else(|| {
        let name = &agent.handle;
        let (why, hint) = match (agent.cycle, &agent.why) {
            (None, None) => (String::new(), "send it a message with `viv say`".to_owned()),
            (None, Some(why)) => (format!(": {why}"), format!("`viv agents show {name}` shows its state")),
            (Some(_), why) => {
                let why = why.as_ref().map(|why| format!(", and makes no progress: {why}"));
                let hint = format!("a run is written when its cycle ends; `viv watch {name}` follows it");
                (format!(": its first cycle is open{}", why.unwrap_or_default()), hint)
            }
        };
        Failure::new(Exit::NotFound, "not_found", format!("`{name}` has no run yet{why}")).hint(hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::run::Usage as Spent;

    #[test]
    fn an_unknown_cost_is_not_zero() {
        assert_eq!(cost(None), "unknown");
        assert_eq!(cost(Some(1_234_567)), "$1.234567");
    }

    #[test]
    fn tokens_show_the_cached_and_the_reasoning_part() {
        let usage = Spent { input: Some(120), cached: Some(100), output: Some(20), reasoning: Some(0) };
        assert_eq!(tokens(&usage.into()), "120 in (100 cached), 20 out");
        assert_eq!(tokens(&Spent::default().into()), "unknown");
    }

    #[test]
    fn omissions_and_discarded_replies_are_shown_in_the_steps_heading() {
        let aborted = Spent { input: Some(900), output: Some(40), ..Spent::default() };
        let discarded = Spent { input: Some(800), output: Some(7), ..Spent::default() };
        let step =
            StepRecord { interrupts: 1, aborted, discarded, left_out: 3, cut: 1, ..Default::default() };
        let text = heading(&Screen::plain(Some(80), false), &step);
        let spent = "step 0: tokens unknown, restarted once (about 900 in, 40 out discarded), \
                     800 in, 7 out for a discarded reply, ";
        assert!(text.starts_with(spent), "{text}");
        assert!(text.contains(", 3 entries of the log left out (no space), "), "{text}");
        let call = |tool: &str, repaired: Option<&str>| CallRecord {
            tool: tool.into(),
            repaired: repaired.map(str::to_owned),
            ..Default::default()
        };
        let calls = vec![call("done", None), call("send_message", Some("trailing comma"))];
        let step = StepRecord { calls, tools: vec!["done".into()], ..Default::default() };
        let text = heading(&Screen::plain(Some(80), false), &step);
        assert_eq!(text, "step 0: tokens unknown, send_message repaired (trailing comma)");
    }

    #[test]
    fn text_that_was_not_sent_is_listed_by_step() {
        let step = |step, unsent: Option<&str>| StepRecord {
            step,
            unsent: unsent.map(str::to_owned),
            ..Default::default()
        };
        let steps = vec![step(0, Some("Hello!\nHow are you?")), step(1, None), step(2, Some("Bye."))];
        let run = serde_json::json!({
            "id": uuid::Uuid::nil(), "agent": uuid::Uuid::nil(), "ordinal": 1, "woke_for": "", "events": 1,
            "opened_at": "2026-11-21T14:00:00Z", "ended_at": "2026-11-21T14:00:01Z", "steps": steps,
            "usage": {}, "cost_micros": null, "model": "m", "config_rev": 1, "ending": "completed",
            "reason": null, "summary": null,
        });
        let run: RunJson = serde_json::from_value(run).unwrap();
        assert_eq!(unsent(&run), ["step 0: Hello!", "How are you?", "step 2: Bye."]);
    }

    #[test]
    fn a_step_without_a_start_is_drawn_after_the_one_before() {
        let screen = Screen::plain(Some(80), false);
        let step = StepRecord { tools: vec!["done".into()], model_ms: 50, attempts: 2, ..Default::default() };
        let bars = bars_of(&screen, &step, (100, 200));
        let piece = bars[0].pieces[0];
        assert_eq!((piece.from, piece.to, bars[0].took.as_str()), (100, 150, "50 ms"));
        assert!(heading(&screen, &step).contains("2 attempts"));
    }
}
