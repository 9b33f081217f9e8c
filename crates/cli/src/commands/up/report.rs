//! Prints what happened to the agents of files.

use std::time::Duration;

use project::reconcile::{News, ReconcileReport};
use serde_json::Value;
use similar::{Change, ChangeTag, TextDiff};

use crate::output::{Screen, Style, columns, shortened};

/// Maximum number of changed instruction lines that are shown.
const DIFF_LINES: usize = 8;
/// Maximum time for a comparison; after it the difference is correct, but not the shortest.
const DIFF_TIME: Duration = Duration::from_millis(100);
/// Characters that are shown before the first difference in a long line.
const CONTEXT: usize = 20;
/// Columns of a value in a difference if the terminal's width is unknown.
const COLUMNS: usize = 100;

/// Prints everything.
pub(super) fn print(report: &ReconcileReport, screen: &Screen) {
    print_changes(report, screen);
    if !report.unchanged.is_empty() {
        let names = screen.clean_line(&report.unchanged.join(", "));
        screen.line(&format!("{}  {names}", screen.paint(Style::Dim, "unchanged")));
    }
}

/// Prints what changed.
pub(super) fn print_changes(report: &ReconcileReport, screen: &Screen) {
    let news = report.news();
    let widest = news.iter().map(|one| one.name.len()).max().unwrap_or(0);
    for one in &news {
        headline(screen, one, widest);
        one.changes.iter().for_each(|change| difference(screen, &change.key, &change.old, &change.new));
        for detail in &one.details {
            screen.wrapped(&format!("    {}", screen.clean_line(detail)), 6);
        }
    }
}

fn headline(screen: &Screen, one: &News<'_>, widest: usize) {
    let (verb, name) = (one.verb, one.name);
    let style = match verb {
        "created" => Style::Green,
        "retired" => Style::Red,
        _ => Style::Yellow,
    };
    let head = format!("{}  {}", screen.paint(style, &format!("{verb:9}")), screen.paint(Style::Bold, name));
    let rest = screen.clean_line(&one.what);
    let begun = 9 + 2 + widest + 2;
    let room = screen.width.map_or(usize::MAX, |width| width.saturating_sub(begun));
    if columns(&rest) <= room {
        screen.line(&format!("{head}{}  {rest}", " ".repeat(widest - name.len())));
    } else {
        screen.line(&head);
        screen.wrapped(&format!("    {rest}"), 4);
    }
}

fn difference(screen: &Screen, key: &str, old: &Value, new: &Value) {
    let max = screen.width.unwrap_or(COLUMNS).saturating_sub(8).max(16);
    if let ("instructions", Some(old), Some(new)) = (key, old.as_str(), new.as_str()) {
        screen.line("    instructions:");
        let lines = changed_lines(old, new);
        for (i, (added, text)) in lines.iter().take(DIFF_LINES).enumerate() {
            let (style, lead) = if *added { (Style::Green, "+ ") } else { (Style::Red, "- ") };
            let other = if *added { i.checked_sub(1) } else { Some(i + 1) };
            let other = other.and_then(|i| lines.get(i)).filter(|(side, _)| side != added);
            let text = screen.clean_line(&from_difference(text, other.map_or("", |(_, text)| *text), max));
            let line = shortened(&format!("{lead}{text}"), max);
            screen.line(&format!("      {}", screen.paint(style, &line)));
        }
        if lines.len() > DIFF_LINES {
            screen.line(&format!("      and {} more lines", lines.len() - DIFF_LINES));
        }
        return;
    }
    let line = screen.clean_line(&format!("{key}: {old} -> {new}"));
    screen.line(&format!("    {}", shortened(&line, max)));
}

/// A long line, shortened to start a little before its first difference from the other.
fn from_difference(text: &str, other: &str, max: usize) -> String {
    let same = text.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let skipped = same.saturating_sub(CONTEXT);
    if columns(text) <= max || skipped == 0 {
        return text.to_owned();
    }
    format!("...{}", text.chars().skip(skipped).collect::<String>())
}

/// The lines that are in only one of the texts, in order; `true` marks those of the new one.
fn changed_lines<'a>(old: &'a str, new: &'a str) -> Vec<(bool, &'a str)> {
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let changes = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
    let line =
        |change: Change<&'a str>| (change.tag() == ChangeTag::Insert, change.value().trim_end_matches('\n'));
    changes.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: &[&str]) {
        let lines = changed_lines(old, new);
        let lines: Vec<String> =
            lines.iter().map(|(added, line)| format!("{}{line}", if *added { '+' } else { '-' })).collect();
        assert_eq!(lines, expected, "{old:?} {new:?}");
    }

    #[test]
    fn a_long_line_is_shown_from_its_first_difference() {
        let (old, new) = (format!("{}old words", "x".repeat(200)), format!("{}new words", "x".repeat(200)));
        assert_eq!(from_difference(&old, &new, 60), format!("...{}old words", "x".repeat(20)));
        assert_eq!(from_difference("short old", "short new", 60), "short old");
    }

    #[test]
    fn only_lines_that_differ_are_shown() {
        check("a\nb\nc", "a\nb\nc", &[]);
        check("a\nb\nc", "a\nx\nc", &["-b", "+x"]);
        check("a\nb\nc\nd", "a\nc\nx\nd", &["-b", "+x"]);
        check("", "a", &["+a"]);
        check("a\nb", "", &["-a", "-b"]);
        check("a\nb\nc\nd\ne", "x\nb\nc\nd\ny", &["-a", "+x", "-e", "+y"]);
    }
}
