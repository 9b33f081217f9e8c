//! Prints the result of a scenario: whether it passed, the nearest match of a failed expectation, the
//! transcript.

use std::time::Duration;

use agent::run::Spent;
use scenario::play::PlayResult;
use scenario::report::{Played, around_difference};
use scenario::transcript::{Line, LineKind};
use scenario::verdict::Unmet;

use super::files::File;
use crate::commands::show;
use crate::output::{Screen, Style, columns, counted, shortened, wrap};

/// Columns of a line if the terminal's width is unknown.
const DEFAULT_COLUMNS: usize = 160;
/// Maximum number of columns of what was wanted and got; the transcript shows the rest.
const TEXT_COLUMNS: usize = 400;
/// Maximum number of transcript lines that are printed; with `--json` all of them.
const LINES: usize = 200;

/// `✓` or `✗`, or words if the terminal cannot show them.
fn mark(screen: &Screen, good: bool) -> String {
    match good {
        true => screen.paint(Style::Green, screen.pick("✓", "ok  ")),
        false => screen.paint(Style::Red, screen.pick("✗", "FAIL")),
    }
}

fn heading(screen: &Screen, good: bool, file: &str, rest: &str) {
    let file = screen.paint(Style::Bold, &screen.clean_line(file));
    screen.wrapped(&format!("{} {file}  {}", mark(screen, good), screen.clean_line(rest)), 4);
}

pub(super) fn checked(screen: &Screen, file: &File) {
    match &file.scenario {
        Ok(scenario) => {
            if !screen.quiet {
                heading(screen, true, &file.path, &scenario.name);
            }
        }
        Err(flaws) => {
            heading(screen, false, &file.path, &counted(flaws.len(), "flaw"));
            for flaw in flaws {
                screen.wrapped(&format!("    {}", screen.clean_line(&flaw.located(&file.path))), 8);
                if let Some(hint) = &flaw.hint {
                    screen.wrapped(&format!("      hint: {}", screen.clean_line(hint)), 12);
                }
            }
        }
    }
}

pub(super) fn played(screen: &Screen, played: &Played, transcripts: bool) {
    let (passed, runs, good) = (played.passed(), played.outcomes.len(), played.is_good());
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
                show::waterfall(screen, &run.steps, Spent::of(run).ms);
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
        let ([wanted, nearest], same) = around_difference([&wanted, &nearest], room);
        let indent = columns(&wanted[..same]);
        lines.push(format!("- wanted {}", screen.paint(Style::Red, &shortened(&wanted, room))));
        lines.push(format!("+ said   {}", screen.paint(Style::Green, &shortened(&nearest, room))));
        lines.push(format!("         {}^", " ".repeat(indent)));
    }
    lines
}

fn transcript(screen: &Screen, outcome: &PlayResult) {
    let (took, cycles) = (clock_text(outcome.took), counted(outcome.cycles, "cycle"));
    let head = format!("    what happened ({took}, {cycles})");
    screen.line(&screen.paint(Style::Dim, &head));
    // These are handles: plain ASCII.
    let widest = |of: fn(&Line) -> Option<&String>| {
        outcome.transcript.iter().filter_map(of).map(String::len).max().unwrap_or(0)
    };
    // The last time is the longest.
    let times = clock_text(outcome.took).len().max(11);
    let (who, space) = (widest(|line| line.who.as_ref()), widest(|line| line.space.as_ref()));
    for line in outcome.transcript.iter().take(LINES) {
        let time = clock_text(line.at);
        let (in_space, by) = (line.space.as_deref().unwrap_or(""), line.who.as_deref().unwrap_or(""));
        let front = format!("{time:>times$}  {in_space:space$}  {by:who$}  ");
        let words = screen.clean_line(&line.what.to_string());
        let room = screen.width.unwrap_or(DEFAULT_COLUMNS).saturating_sub(columns(&front)).max(20);
        let words = shortened(&words, room);
        let words = style(line.what.kind).map_or_else(|| words.clone(), |style| screen.paint(style, &words));
        screen.line(format!("{front}{words}").trim_end());
    }
    let more = outcome.transcript.len().saturating_sub(LINES);
    if more > 0 {
        screen.line(&format!("    and {more} more lines (--json prints all)"));
    }
}

/// A time since the beginning: `4.2 s`, from a minute on as on a clock: `1:30.0`, `2:01:30.0`, `3d 2:01:30.0`.
fn clock_text(time: Duration) -> String {
    let tenths = (time.as_millis() + 50) / 100;
    let (minutes, seconds) = (tenths / 600, format!("{}.{}", tenths / 10 % 60, tenths % 10));
    let (hours, days) = (minutes / 60, minutes / 1440);
    match (minutes, hours, days) {
        (0, ..) => format!("{seconds} s"),
        (_, 0, _) => format!("{minutes}:{seconds:0>4}"),
        (_, _, 0) => format!("{hours}:{:02}:{seconds:0>4}", minutes % 60),
        _ => format!("{days}d {}:{:02}:{seconds:0>4}", hours % 24, minutes % 60),
    }
}

fn style(kind: LineKind) -> Option<Style> {
    match kind {
        LineKind::Said => Some(Style::Cyan),
        LineKind::Thought | LineKind::Cycle | LineKind::Skipped => Some(Style::Dim),
        LineKind::Called | LineKind::Returned => None,
        LineKind::Failed => Some(Style::Red),
        LineKind::Happened => Some(Style::Yellow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_from_a_minute_on_are_shown_as_on_a_clock() {
        let shown = [0, 49, 59_900, 60_000, 7_320_100, 82_800_200, 2_592_000_000]
            .map(|ms| clock_text(Duration::from_millis(ms)));
        assert_eq!(shown, ["0.0 s", "0.0 s", "59.9 s", "1:00.0", "2:02:00.1", "23:00:00.2", "30d 0:00:00.0"]);
    }
}
