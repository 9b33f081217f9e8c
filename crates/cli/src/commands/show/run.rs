//! `viv show run`: one run as a waterfall. Times count from the start of its cycle.

use std::fmt::Write as _;

use agent::call::OutcomeStatus;
use agent::id::CycleId;
use agent::run::{CallRecord, StepRecord};
use api::{RunDetail, RunJson, UsageJson};
use jiff::Timestamp;

use super::{calls as open, section};
use crate::bars::{Piece, Scale};
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, Style, ago, columns, shortened, span};
use crate::target;
use client::ErrorClass;
use client::{Client, agent_path, segment, typed};

/// Maximum number of columns of a row's name.
const NAME: usize = 22;
/// Narrower terminals get short names and marks.
const NARROW: usize = 60;
/// Minimum number of columns of a bar, however narrow the terminal is.
const BAR: usize = 8;

/// Shows a run.
pub(super) async fn run(client: &Client, screen: &Screen, wanted: Option<&str>) -> Result<()> {
    let id = match wanted {
        Some(id) if id.parse::<CycleId>().is_ok() && is_run(client, id).await? => id.to_owned(),
        wanted => newest_run(client, wanted).await?,
    };
    let path = format!("/v1/runs/{}", segment(&id));
    let answer = client.get(&path).await?;
    if screen.json {
        screen.json_line(&answer);
        return Ok(());
    }
    let RunDetail { run, messages } = typed(&path, answer)?;
    screen.pairs(&summary(screen, &run));
    waterfall(screen, &run);
    let lines = messages.iter().flat_map(|message| {
        let note = "(plain text of the model, posted because it called no tool)";
        let note = message.from_text.then_some(note);
        message.text.lines().chain(note).map(str::to_owned)
    });
    section(screen, "messages", lines.collect());
    section(screen, "text that was not sent (only operators see it)", unsent(&run));
    section(screen, "late results", open::late(client, screen, &run).await?);
    section(screen, "open calls of its agent", open::lines(client, screen, run.agent).await?);
    Ok(())
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

fn summary(screen: &Screen, run: &RunJson) -> Vec<(&'static str, String)> {
    let line = |text: &str| screen.clean_line(text);
    let ending = match &run.reason {
        Some(reason) => format!("{} ({})", run.ending.as_str(), line(reason)),
        None => run.ending.as_str().to_owned(),
    };
    let mut pairs = vec![
        ("run", format!("{} (cycle {})", run.id, run.ordinal)),
        ("woke for", woke_for(&line(&run.woke_for), run)),
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
    if let Some(summary) = &run.summary {
        pairs.push(("summary", line(summary)));
    }
    pairs
}

/// Why the agent woke, and how long its first event had waited until the model was called.
fn woke_for(why: &str, run: &RunJson) -> String {
    match run.steps.first().and_then(|step| step.waited_ms) {
        Some(waited) => format!("{why}, model called {} after arrival", span(waited)),
        None => why.to_owned(),
    }
}

fn length(run: &RunJson) -> u64 {
    u64::try_from(run.ended_at.as_millisecond() - run.opened_at.as_millisecond()).unwrap_or(0)
}

/// `120 in (100 cached), 20 out (5 reasoning)`.
fn tokens(usage: &UsageJson) -> String {
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

/// A line of the waterfall: the heading of a step, or a row with a bar.
#[derive(Debug)]
enum WaterfallRow {
    Step(String),
    Bar { name: String, took: String, mark: &'static str, pieces: Vec<Piece> },
}

/// The characters of the bars.
struct Glyphs {
    wait: char,
    model: char,
    tool: char,
}

/// The steps of a run with their times and tokens.
pub(in crate::commands) fn waterfall(screen: &Screen, run: &RunJson) {
    if run.steps.is_empty() {
        return;
    }
    let glyphs =
        Glyphs {
            wait: screen.pick('░', '.'), model: screen.pick('█', '#'), tool: screen.pick('▒', '=')
        };
    let mut rows = Vec::new();
    let mut now = 0;
    for step in &run.steps {
        now = rows_of(screen, &glyphs, step, now, &mut rows);
    }
    let scale_of = |cells| Scale { total: length(run).max(now), cells };
    let widths = Widths::of(screen.room(), &rows);
    let scale = scale_of(widths.bar);
    screen.line("");
    screen
        .line(&screen.paint(Style::Dim, &format!("{}{}", " ".repeat(widths.before()), scale.times(screen))));
    for row in &rows {
        match row {
            WaterfallRow::Step(heading) => screen.wrapped(heading, 8),
            WaterfallRow::Bar { name, took, mark, pieces } => {
                screen.line(&widths.line(screen, name, took, mark, &scale.bar(screen, pieces)));
            }
        }
    }
    let Glyphs { wait, model, tool } = glyphs;
    let failed = rows.iter().any(|row| matches!(row, WaterfallRow::Bar { mark: "!", .. }));
    let mut legend = format!("{wait} until the first piece of the reply  {model} generating  {tool} tool");
    if failed {
        legend.push_str("  ! failed or unfinished");
    }
    for line in crate::output::wrap(&legend, screen.width, 0) {
        screen.line(&screen.paint(Style::Dim, &line));
    }
}

/// Adds the rows of one step; returns where it ends.
fn rows_of(
    screen: &Screen,
    glyphs: &Glyphs,
    step: &StepRecord,
    now: u64,
    rows: &mut Vec<WaterfallRow>,
) -> u64 {
    let mut heading = match step.usage.input.or(step.usage.output) {
        Some(_) => format!("step {}: {}", step.step, tokens(&step.usage.into())),
        None => format!("step {}: tokens unknown", step.step),
    };
    if let Some(speed) = step.tokens_per_second() {
        let _ = write!(heading, ", {speed:.0} tokens/s");
    }
    if step.attempts > 1 {
        let _ = write!(heading, ", {} attempts", step.attempts);
    }
    heading.push_str(&meanwhile(screen, step));
    if step.tools.is_empty() {
        heading.push_str(", no calls");
    }
    rows.push(WaterfallRow::Step(heading));
    let from = step.started_ms.unwrap_or(now);
    let to = from.saturating_add(step.model_ms);
    let first = step.first_ms.map_or(from, |first| from.saturating_add(first).min(to));
    let piece = |from, to, glyph, style| Piece { from, to, glyph, style };
    let mut pieces = Vec::new();
    if first > from {
        pieces.push(piece(from, first, glyphs.wait, Style::Dim));
    }
    pieces.push(piece(first, to, glyphs.model, Style::Cyan));
    rows.push(WaterfallRow::Bar { name: "  think".to_owned(), took: span(step.model_ms), mark: "", pieces });
    let mut end = to;
    for call in &step.calls {
        let from = call.started_ms.unwrap_or(to);
        let until = from.saturating_add(call.took_ms.unwrap_or(0));
        let mark = mark(call, screen.room() < NARROW);
        let style = if mark.is_empty() { Style::Yellow } else { Style::Red };
        let ran = call.started_ms.is_some() || step.started_ms.is_none();
        let pieces = if ran { vec![piece(from, until, glyphs.tool, style)] } else { Vec::new() };
        let took = call.took_ms.map(span).unwrap_or_default();
        rows.push(WaterfallRow::Bar {
            name: format!("  {}", screen.clean_line(&call.tool)),
            took,
            mark,
            pieces,
        });
        end = end.max(until);
    }
    end
}

/// What happened during the step: additional events, restarts, repaired calls, and the model that replied.
fn meanwhile(screen: &Screen, step: &StepRecord) -> String {
    let mut text = String::new();
    let events = if step.injected == 1 { "event" } else { "events" };
    if step.injected > 0 {
        let _ = write!(text, ", {} {events} shown meanwhile", step.injected);
    }
    if step.interrupts > 0 {
        let times =
            if step.interrupts == 1 { "once".to_owned() } else { format!("{} times", step.interrupts) };
        let _ = write!(text, ", restarted {times}");
        if !step.aborted.is_none() {
            let _ = write!(text, " (about {} discarded)", tokens(&step.aborted.into()));
        }
    }
    if !step.discarded.is_none() {
        let _ = write!(text, ", {} for a discarded reply", tokens(&step.discarded.into()));
    }
    if step.cut > 0 {
        let times = if step.cut == 1 { "once".to_owned() } else { format!("{} times", step.cut) };
        let _ = write!(text, ", history cut to half {times} (too long)");
    }
    if step.left_out > 0 {
        let entries = if step.left_out == 1 { "entry" } else { "entries" };
        let _ = write!(text, ", {} {entries} of the log left out (no space)", step.left_out);
    }
    if step.rebuilt {
        text.push_str(", history rebuilt (refused as invalid)");
    }
    for call in &step.calls {
        if let Some(what) = &call.repaired {
            let _ =
                write!(text, ", {} repaired ({})", screen.clean_line(&call.tool), screen.clean_line(what));
        }
    }
    if let Some(model) = &step.model {
        let _ = write!(text, ", by {}", screen.clean_line(model));
    }
    text
}

/// The mark of a call that did not simply succeed.
fn mark(call: &CallRecord, narrow: bool) -> &'static str {
    match call.status {
        Some(OutcomeStatus::Ok) => "",
        _ if narrow => "!",
        Some(OutcomeStatus::Error) => "failed",
        Some(OutcomeStatus::Pending) => "pending",
        Some(OutcomeStatus::Unknown) => "unknown",
        Some(OutcomeStatus::Canceled) => "canceled",
        None => "open",
    }
}

/// Columns of the parts of a row.
struct Widths {
    name: usize,
    took: usize,
    mark: usize,
    bar: usize,
}

impl Widths {
    fn of(room: usize, rows: &[WaterfallRow]) -> Self {
        let max = |part: fn(&WaterfallRow) -> usize| rows.iter().map(part).max().unwrap_or(0);
        let name = max(|row| if let WaterfallRow::Bar { name, .. } = row { columns(name) } else { 0 });
        let took = max(|row| if let WaterfallRow::Bar { took, .. } = row { columns(took) } else { 0 });
        let mark = max(|row| if let WaterfallRow::Bar { mark, .. } = row { mark.len() } else { 0 });
        let mark = if mark == 0 { 0 } else { mark + 1 };
        let most_name = if room < NARROW { NAME / 2 + 4 } else { NAME };
        let name = name.min(most_name).min(room.saturating_sub(took + mark + BAR + 3)).max(8);
        let bar = room.saturating_sub(name + took + mark + 3).max(BAR);
        Self { name, took, mark, bar }
    }

    /// Columns before the bar.
    fn before(&self) -> usize {
        self.name + 1 + self.took + self.mark + 2
    }

    fn line(&self, screen: &Screen, name: &str, took: &str, mark: &str, bar: &str) -> String {
        let name = shortened(name, self.name);
        let blank = " ".repeat(self.name - columns(&name));
        let width = self.mark.saturating_sub(1);
        let mark = match self.mark {
            0 => String::new(),
            _ => format!(" {}", screen.paint(Style::Red, &format!("{mark:width$}"))),
        };
        let took = format!("{took:>width$}", width = self.took);
        format!("{name}{blank} {took}{mark}  {bar}").trim_end().to_owned()
    }
}

/// Whether an id is a run's; it may also be an agent's.
async fn is_run(client: &Client, id: &str) -> Result<bool> {
    match client.get(&format!("/v1/runs/{}", segment(id))).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.class == ErrorClass::NotFound => {
            match client.get(&format!("/v1/agents/{}", segment(id))).await {
                Ok(_) => Ok(false),
                Err(_) => Err(failure
                    .hint("`viv ps` lists agents; `viv show run AGENT` shows its newest run")
                    .into()),
            }
        }
        Err(failure) => Err(failure.into()),
    }
}

async fn newest_run(client: &Client, wanted: Option<&str>) -> Result<String> {
    let agent = target::agent(client, wanted).await?;
    let page = client.get(&agent_path(agent.id, "/runs?limit=1")).await?;
    page["items"][0]["id"].as_str().map(str::to_owned).ok_or_else(|| {
        Failure::new(Exit::NotFound, "not_found", format!("`{}` has no run yet", agent.name))
            .hint("send it a message with `viv say`")
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
        let text = meanwhile(&Screen::plain(Some(80), false), &step);
        let spent =
            ", restarted once (about 900 in, 40 out discarded), 800 in, 7 out for a discarded reply, ";
        assert!(text.starts_with(spent), "{text}");
        assert!(text.ends_with(", 3 entries of the log left out (no space)"), "{text}");
        let call = |tool: &str, repaired: Option<&str>| CallRecord {
            tool: tool.into(),
            repaired: repaired.map(str::to_owned),
            ..Default::default()
        };
        let calls = vec![call("done", None), call("send_message", Some("trailing comma"))];
        let text = meanwhile(&Screen::plain(Some(80), false), &StepRecord { calls, ..Default::default() });
        assert_eq!(text, ", send_message repaired (trailing comma)");
        assert_eq!(meanwhile(&Screen::plain(Some(80), false), &StepRecord::default()), "");
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
        let (screen, mut rows) = (Screen::plain(Some(80), false), Vec::new());
        let glyphs = Glyphs { wait: '.', model: '#', tool: '=' };
        let step = StepRecord { tools: vec!["done".into()], model_ms: 50, attempts: 2, ..Default::default() };
        let end = rows_of(&screen, &glyphs, &step, 100, &mut rows);
        assert_eq!(end, 150);
        let WaterfallRow::Bar { pieces, took, .. } = &rows[1] else { panic!("no bar") };
        assert_eq!((pieces[0].from, pieces[0].to, took.as_str()), (100, 150, "50 ms"));
        assert!(matches!(&rows[0], WaterfallRow::Step(heading) if heading.contains("2 attempts")));
    }
}
