//! Prints the result of a scenario: whether it passed, the nearest match of a failed expectation, the
//! transcript.

use std::sync::Arc;
use std::time::Duration;

use scenario::play::PlayResult;
use scenario::scene::Scenario;
use scenario::transcript::{Line, LineContent, LineKind};
use scenario::verdict::Unmet;
use serde_json::{Value, json};

use super::files::File;
use crate::commands::show;
use crate::output::{Screen, Style, columns, shortened, wrap};

/// Columns of a line if the terminal's width is unknown.
const DEFAULT_COLUMNS: usize = 160;
/// Maximum number of columns of what was wanted and got; the transcript shows the rest.
const TEXT_COLUMNS: usize = 400;
/// Maximum number of transcript lines that are printed; with `--json` all of them.
const LINES: usize = 200;

/// All runs of one scenario.
pub(super) struct Played {
    pub(super) file: String,
    pub(super) scenario: Arc<Scenario>,
    pub(super) outcomes: Vec<PlayResult>,
}

impl Played {
    pub(super) fn passed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.passed()).count()
    }
}

/// `✓` or `✗`, or words if the terminal cannot show them.
fn mark(screen: &Screen, good: bool) -> String {
    match (good, screen.utf8) {
        (true, true) => screen.paint(Style::Green, "✓"),
        (true, false) => screen.paint(Style::Green, "ok  "),
        (false, true) => screen.paint(Style::Red, "✗"),
        (false, false) => screen.paint(Style::Red, "FAIL"),
    }
}

fn heading(screen: &Screen, good: bool, file: &str, rest: &str) {
    let file = screen.paint(Style::Bold, &screen.clean_line(file));
    screen.wrapped(&format!("{} {file}  {}", mark(screen, good), screen.clean_line(rest)), 4);
}

/// Prints one checked file.
pub(super) fn checked(screen: &Screen, file: &File) {
    match &file.scenario {
        Ok(scenario) => {
            if !screen.quiet {
                heading(screen, true, &file.path, &scenario.name);
            }
        }
        Err(flaws) => {
            heading(screen, false, &file.path, "");
            for flaw in flaws {
                screen.wrapped(&format!("    {}", screen.clean_line(&flaw.located(&file.path))), 8);
                if let Some(hint) = &flaw.hint {
                    screen.wrapped(&format!("      hint: {}", screen.clean_line(hint)), 12);
                }
            }
        }
    }
}

/// Prints one scenario with all its runs.
pub(super) fn played(screen: &Screen, played: &Played, transcripts: bool) {
    let passed = played.passed();
    let runs = played.outcomes.len();
    let good = passed == runs;
    if !good || !screen.quiet {
        let share = if runs > 1 { format!("{passed}/{runs}  ") } else { String::new() };
        heading(screen, good, &played.file, &format!("{share}{}", played.scenario.name));
    }
    let mut transcript_shown = false;
    for (index, outcome) in played.outcomes.iter().enumerate() {
        let failed = !outcome.passed();
        if failed && runs > 1 {
            screen.line(&format!("    run {} of {runs}:", index + 1));
        }
        if failed {
            failures(screen, &played.file, outcome);
        }
        // One transcript of a scenario is enough to see the cause.
        if transcripts || (failed && !transcript_shown) {
            transcript_shown |= failed;
            transcript(screen, outcome);
        }
    }
}

/// Prints every run of every agent as a waterfall, on the scenario's clock.
pub(super) fn runs(screen: &Screen, played: &Played) {
    for outcome in &played.outcomes {
        for (agent, runs) in &outcome.runs {
            for run in runs {
                screen.line("");
                let title = format!("{} cycle {}", screen.clean_line(agent), run.ordinal);
                screen.line(&screen.paint(Style::Bold, &title));
                show::waterfall(screen, &run.clone().into());
            }
        }
    }
}

fn failures(screen: &Screen, file: &str, outcome: &PlayResult) {
    if let Some(why) = &outcome.broken_off {
        screen.wrapped(&format!("    aborted: {}", screen.clean_line(why)), 8);
    }
    for unmet in &outcome.unmet {
        let sentence = screen.paint(Style::Yellow, &screen.clean_line(&unmet.sentence));
        screen.wrapped(&format!("    {}:{}: {sentence}", screen.clean_line(file), unmet.line), 8);
        for line in difference(screen, unmet) {
            screen.line(&format!("      {line}"));
        }
    }
}

/// Wanted and got, below each other; for texts, a mark at the first difference.
fn difference(screen: &Screen, unmet: &Unmet) -> Vec<String> {
    let room = screen.width.unwrap_or(DEFAULT_COLUMNS).saturating_sub(16).max(20);
    let labelled = |name: &str, text: &str| {
        let text = format!("{name:<9}{}", shortened(&screen.clean_line(text), TEXT_COLUMNS));
        // Six columns precede each line.
        wrap(&text, screen.width.map(|width| width.saturating_sub(6)), 9)
    };
    let mut lines = labelled("wanted", &unmet.wanted);
    lines.extend(labelled("got", &unmet.got));
    if let (Some(wanted), Some(nearest)) = (&unmet.example, &unmet.nearest) {
        let (wanted, nearest) = (screen.clean_line(wanted), screen.clean_line(nearest));
        let same = wanted.chars().zip(nearest.chars()).take_while(|(a, b)| a == b).count();
        // Long texts are shown from shortly before the first difference.
        let from = if same + 10 > room { same.saturating_sub(10) } else { 0 };
        let window = |text: &str| {
            let shown: String = text.chars().skip(from).collect();
            shortened(&if from > 0 { format!("...{shown}") } else { shown }, room)
        };
        let before: String = wanted.chars().skip(from).take(same - from).collect();
        let indent = columns(&before) + if from > 0 { 3 } else { 0 };
        lines.push(format!("- wanted {}", screen.paint(Style::Red, &window(&wanted))));
        lines.push(format!("+ said   {}", screen.paint(Style::Green, &window(&nearest))));
        lines.push(format!("         {}^", " ".repeat(indent)));
    }
    lines
}

fn transcript(screen: &Screen, outcome: &PlayResult) {
    let cycles = if outcome.cycles == 1 { "cycle" } else { "cycles" };
    let seconds = outcome.took.as_secs_f64();
    let head = format!("    what happened ({seconds:.1} s, {} {cycles})", outcome.cycles);
    screen.line(&screen.paint(Style::Dim, &head));
    let widest = |of: fn(&Line) -> Option<&String>| {
        let names = outcome.transcript.iter().filter_map(of);
        names.map(|name| columns(&screen.clean_line(name))).max().unwrap_or(0)
    };
    let (who, space) = (widest(|line| line.who.as_ref()), widest(|line| line.space.as_ref()));
    for line in outcome.transcript.iter().take(LINES) {
        let pad = |name: &Option<String>, width: usize| {
            let name = screen.clean_line(name.as_deref().unwrap_or_default());
            let fill = width.saturating_sub(columns(&name));
            format!("{name}{}", " ".repeat(fill))
        };
        let time = format!("{:.1} s", line.at.as_secs_f64());
        let front = format!("{time:>11}  {}  {}  ", pad(&line.space, space), pad(&line.who, who));
        let (words, style) = line_text(&line.what);
        let words = screen.clean_line(&words);
        let room = screen.width.unwrap_or(DEFAULT_COLUMNS).saturating_sub(columns(&front)).max(20);
        let words = shortened(&words, room);
        let words = style.map_or_else(|| words.clone(), |style| screen.paint(style, &words));
        screen.line(format!("{front}{words}").trim_end());
    }
    let more = outcome.transcript.len().saturating_sub(LINES);
    if more > 0 {
        screen.line(&format!("    and {more} more lines (--json prints all)"));
    }
}

fn line_text(what: &LineContent) -> (String, Option<Style>) {
    let LineContent { kind, tool, text } = what;
    let (tool, text) = (tool.as_deref().unwrap_or_default(), text.as_deref());
    let words = text.unwrap_or_default();
    match kind {
        LineKind::Said => (words.to_owned(), Some(Style::Cyan)),
        LineKind::Thought => (format!("({words})"), Some(Style::Dim)),
        LineKind::Called => (format!("-> {tool} {words}"), None),
        LineKind::Failed => (format!("<- {tool} failed: {words}"), Some(Style::Red)),
        LineKind::Cycle => (format!("[{words}]"), Some(Style::Dim)),
        LineKind::Skipped if text.is_some() => (format!("[skipped: {words}]"), Some(Style::Dim)),
        LineKind::Skipped => ("[skipped]".to_owned(), Some(Style::Dim)),
        LineKind::Happened => (words.to_owned(), Some(Style::Yellow)),
    }
}

/// Prints the last line: the number of scenarios and how many passed.
pub(super) fn summary(screen: &Screen, all: &[Played], at_least: u8, took: Duration) {
    let runs: usize = all.iter().map(|played| played.outcomes.len()).sum();
    let passed: usize = all.iter().map(Played::passed).sum();
    let outcomes = all.iter().flat_map(|played| &played.outcomes);
    let tokens = outcomes.filter_map(|outcome| outcome.tokens).fold(0, u64::saturating_add);
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let scenarios = plural(all.len(), "scenario");
    let seconds = took.as_secs_f64();
    let line = if runs > all.len() {
        let percent = passed * 100 / runs.max(1);
        let wanted = if at_least < 100 { format!(", wanted {at_least}%") } else { String::new() };
        let runs = plural(runs, "run");
        format!("{scenarios}, {runs}: {passed} passed, {percent}%{wanted} ({seconds:.1} s, {tokens} tokens)")
    } else {
        let failed = runs - passed;
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        format!("{scenarios}: {passed} passed{failed} ({seconds:.1} s)")
    };
    screen.line(&line);
}

/// The result as JSON.
pub(super) fn to_json(played: &Played, transcripts: bool) -> Value {
    let runs: Vec<Value> = played.outcomes.iter().map(|outcome| run_to_json(outcome, transcripts)).collect();
    let file = &played.file;
    let name = &played.scenario.name;
    let passed = played.passed();
    json!({"file": file, "scenario": name, "passed": passed, "ok": passed == runs.len(), "runs": runs})
}

fn run_to_json(outcome: &PlayResult, transcripts: bool) -> Value {
    let mut run = json!(outcome);
    run["ok"] = outcome.passed().into();
    if let Some(run) = run.as_object_mut().filter(|_| !transcripts && outcome.passed()) {
        run.remove("transcript");
    }
    run
}
