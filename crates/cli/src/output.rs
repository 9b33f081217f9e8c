//! Output for people and scripts: plain lines, tables, JSON. Text written by others is cleaned before it
//! reaches a terminal. Decoration falls back to ASCII, so it works on any terminal.

use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;

use agent::quote::visible;
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::charset::{in_ascii, is_terminal_control, push_ascii, supports_utf8};
use crate::errors::{Exit, Failure, Result};

pub(crate) use crate::charset::terminal_safe_json;

const VALUE_COLUMNS: usize = 60;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// JSON instead of text.
    pub(crate) json: bool,
    /// Only results: no notes, no progress.
    pub(crate) quiet: bool,
    /// Whether colours may be used.
    pub(crate) colour: bool,
    /// Columns of the terminal; `None` if the output is not a terminal.
    pub(crate) width: Option<usize>,
    /// Whether the terminal supports UTF-8.
    pub(crate) utf8: bool,
    /// Whether rows on the terminal can be drawn anew.
    pub(crate) live: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Bold,
    Dim,
    Green,
    Yellow,
    Red,
    Cyan,
}

impl Screen {
    /// Detects the properties of standard output and the environment.
    pub(crate) fn detect(json: bool, quiet: bool) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let term = std::env::var_os("TERM");
        let dumb = term.as_ref().is_some_and(|term| term == "dumb");
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            json,
            quiet,
            colour: terminal && !dumb && !no_colour,
            width: terminal.then(|| width_of(std::io::stdout())),
            utf8: supports_utf8(["LC_ALL", "LC_CTYPE", "LANG"].map(|name| std::env::var(name).ok())),
            live: terminal && !json && !dumb && term.is_some(),
        }
    }

    #[cfg(test)]
    pub(crate) fn plain(width: Option<usize>, utf8: bool) -> Self {
        Self { json: false, quiet: false, colour: false, width, utf8, live: false }
    }

    pub(crate) fn line(&self, text: &str) {
        print(&self.for_terminal(text));
    }

    /// Prints one line that may have foreign text.
    pub(crate) fn text(&self, text: &str) {
        print(&self.clean_line(text));
    }

    /// Prints one JSON value as one line to standard output. JSON is always UTF-8.
    pub(crate) fn json_line(&self, value: &Value) {
        print(&terminal_safe_json(value));
    }

    /// Prints a list as JSON: every list has this form, as in the API.
    pub(crate) fn json_list(&self, items: impl Serialize) {
        self.json_line(&json!({"items": items, "next": null}));
    }

    /// Prints the rows of the server's list: as JSON, else as a table, else the words for an empty one. Cells may have
    /// foreign text.
    pub(crate) fn rows<T: DeserializeOwned>(
        &self,
        rows: Vec<Value>,
        empty: &str,
        head: &[&str],
        cells: impl Fn(&T) -> Vec<String>,
    ) -> Result<()> {
        if self.json {
            self.json_list(rows);
            return Ok(());
        }
        let rows: Vec<T> = client::typed("list", Value::Array(rows))?;
        if rows.is_empty() {
            self.text(empty);
            return Ok(());
        }
        let clean = |row| cells(row).iter().map(|cell| self.clean_line(cell)).collect();
        self.table(head, &rows.iter().map(clean).collect::<Vec<_>>());
        Ok(())
    }

    /// Prints which value of a resource a command changed, shortened.
    pub(crate) fn change(&self, key: &str, old: &Value, new: &Value) {
        let text = |value: &Value| shortened(&self.clean_line(&value.to_string()), VALUE_COLUMNS);
        let (old, new) = (text(old), text(new));
        self.line(&match old == new {
            true => format!("  {key}: {new} (unchanged)"),
            false => format!("  {key}: {old} -> {}", self.paint(Style::Bold, &new)),
        });
    }

    /// Prints what a command did: the answer as JSON, else one line, which may have foreign text.
    pub(crate) fn result(&self, answer: &Value, line: &str) {
        match self.json {
            true => self.json_line(answer),
            false => self.text(line),
        }
    }

    /// Prints one line to standard error: a note for people, which is not part of the result and may have foreign text.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet && !self.json {
            print_error(&self.clean_line(text));
        }
    }

    /// Prints what is wrong although it stops nothing, which may be foreign text.
    pub(crate) fn warning(&self, text: &str) {
        self.wrapped(&format!("{}  {}", self.paint(Style::Yellow, "warning  "), self.clean_line(text)), 4);
    }

    /// Prints a failure to standard error, as text or JSON.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            print_error(&terminal_safe_json(&failure.to_json()));
        } else {
            let width = std::io::stderr().is_terminal().then(|| width_of(std::io::stderr()));
            print_error(&folded(&self.clean(&failure.to_string()), width));
        }
    }

    /// Prints a question to standard error, without a line end.
    pub(crate) fn ask(&self, text: &str) {
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "{}", self.clean_line(text));
        let _ = out.flush();
    }

    /// Prints a page to standard error, also with `--quiet`.
    pub(crate) fn failure_page(&self, text: &str) {
        print_error(&self.for_terminal(text));
    }

    /// Our own or a library's text, in characters that the terminal supports.
    fn for_terminal<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.utf8 { Cow::Borrowed(text) } else { in_ascii(text) }
    }

    /// Columns available for the layout: the terminal's, else 80.
    pub(crate) fn room(&self) -> usize {
        self.width.unwrap_or(80)
    }

    /// One of two decorations: the second if the terminal supports only ASCII.
    pub(crate) fn pick<T>(&self, utf8: T, ascii: T) -> T {
        if self.utf8 { utf8 } else { ascii }
    }

    /// Prints text in lines that fit the terminal, all but the first indented; as one line if there is no
    /// terminal.
    pub(crate) fn wrapped(&self, text: &str, indent: usize) {
        for line in wrap(text, self.width, indent) {
            self.line(&line);
        }
    }

    /// Prints a help page in lines that fit the terminal; columns are kept if they leave enough space.
    pub(crate) fn page(&self, page: &str) {
        for line in page.lines() {
            let indent = self.width.map_or(0, |width| hanging(line, width));
            self.wrapped(line, indent);
        }
    }

    /// The text in a style, if colours may be used.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Green => "32",
            Style::Yellow => "33",
            Style::Red => "31",
            Style::Cyan => "1;36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Foreign text of several lines: line feeds are kept, characters that control a terminal are shown as
    /// escapes.
    pub(crate) fn clean(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            self.clean_char(c, &mut out);
        }
        out
    }

    /// Foreign text in one line. A hint that has a line of its own is told from what is before it.
    pub(crate) fn clean_line(&self, text: &str) -> String {
        self.clean(text).replace("\nhint: ", "; ").replace('\n', " ")
    }

    fn clean_char(&self, c: char, out: &mut String) {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            // Usually half of a line end; alone it would overwrite the line.
            '\r' => {}
            '\u{0}'..='\u{1f}' => {
                out.push('^');
                out.push(char::from(b'@' + c as u8));
            }
            '\u{7f}' => out.push_str("^?"),
            c if is_terminal_control(c) => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c if !self.utf8 && !c.is_ascii() => push_ascii(c, out),
            c => out.push(c),
        }
    }

    /// Prints rows under headings; as records below each other if the terminal is too narrow.
    pub(crate) fn table(&self, head: &[&str], rows: &[Vec<String>]) {
        for line in lay_out(head, rows, self.width) {
            self.line(&line);
        }
    }

    /// Prints what the server answered about one thing: as JSON, else as pairs, whose values may have foreign text.
    pub(crate) fn object(&self, answer: &Value, pairs: Vec<(&'static str, String)>) {
        if self.json {
            self.json_line(answer);
            return;
        }
        let clean = |(name, text): (&'static str, String)| (name, self.clean_line(&text));
        self.pairs(&pairs.into_iter().map(clean).collect::<Vec<_>>());
    }

    /// Prints `name  value` pairs in two columns.
    pub(crate) fn pairs(&self, pairs: &[(&str, String)]) {
        let widest = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in pairs {
            let room = self.width.map(|width| width.saturating_sub(widest + 2));
            if room.is_some_and(|room| room < FOLD_FROM) {
                self.line(&self.paint(Style::Dim, name));
                self.wrapped(&format!("  {value}"), 2);
                continue;
            }
            for (i, line) in wrap(value, room, 0).iter().enumerate() {
                let name = if i == 0 { name } else { "" };
                let name = self.paint(Style::Dim, &format!("{name:widest$}"));
                self.line(&format!("{name}  {line}"));
            }
        }
    }
}

/// The first error of writing to standard output.
static UNWRITTEN: OnceLock<std::io::Error> = OnceLock::new();

/// Prints one line to standard output. An error makes the command fail at its end.
/// A value as lines of JSON in which people see everything: nothing of it is invisible.
pub(crate) fn json_lines(value: &Value) -> impl Iterator<Item = String> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let line = |line: &str| {
        let (indent, rest) = line.split_at(line.len() - line.trim_start_matches(' ').len());
        format!("{indent}{}", visible(rest))
    };
    text.lines().map(line).collect::<Vec<_>>().into_iter()
}

fn print(text: &str) {
    if let Err(error) = writeln!(std::io::stdout().lock(), "{text}") {
        let _ = UNWRITTEN.set(error);
    }
}

/// Whether the reader of standard output closed it (`| head`), or it cannot be written.
pub(crate) fn is_gone() -> bool {
    let out = std::io::stdout();
    let mut out = [PollFd::new(&out, PollFlags::empty())];
    let closed = poll(&mut out, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
    closed || UNWRITTEN.get().is_some()
}

/// The failure of a command whose output could not be written, if so. That its reader is gone is no failure.
pub(crate) fn unwritten() -> Option<Failure> {
    let error = UNWRITTEN.get().filter(|error| error.kind() != ErrorKind::BrokenPipe)?;
    let message = format!("cannot write to standard output: {error}");
    Some(Failure::new(Exit::Failed, "cannot_write", message).hint("is there space on the disk?"))
}

/// Creates a file for a result, readable by its owner only. An existing one is never overwritten.
pub(crate) fn new_file(path: &Path) -> Result<File> {
    let created = File::options().write(true).create_new(true).mode(0o600).open(path);
    created.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let message = format!("`{}` already exists and is not overwritten", path.display());
            Failure::new(Exit::Refused, "would_overwrite", message).hint("name another file")
        }
        _ => unwritable(path, &error),
    })
}

pub(crate) fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, "file_unusable", format!("cannot write `{}`: {error}", path.display()))
        .hint("may this user write there, and is there space on the disk?")
}

/// Prints one line to standard error. A failure to write is ignored: there is nowhere to report it.
fn print_error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Every line folded at that width; continuation lines are indented.
fn folded(text: &str, width: Option<usize>) -> String {
    let rows = text.lines().flat_map(|line| {
        let begun = line.len() - line.trim_start().len();
        wrap(line, width, begun + 2)
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// Below this width text is not folded: every word would be on its own line.
const FOLD_FROM: usize = 16;

/// Text in lines of at most `width` columns, broken between words; all but the first are indented.
pub(crate) fn wrap(text: &str, width: Option<usize>, indent: usize) -> Vec<String> {
    let Some(width) = width.filter(|width| *width >= FOLD_FROM) else {
        return vec![text.to_owned()];
    };
    let indent = indent.min(width - FOLD_FROM);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_inclusive(' ') {
        if columns(&line) + columns(word.trim_end()) > width && line.len() > indent {
            lines.push(line.trim_end().to_owned());
            line = " ".repeat(indent);
        }
        line.push_str(word);
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// Indent of the continuation lines of a help line: where its last column begins if that leaves half of the
/// width, else a little more than the line itself.
fn hanging(line: &str, width: usize) -> usize {
    let lead = line.len() - line.trim_start_matches(' ').len();
    let gap = line.trim_end().rfind("  ").filter(|at| *at >= lead).map_or(0, |at| columns(&line[..at + 2]));
    if (1..=width / 2).contains(&gap) { gap } else { lead + 2 }
}

/// Columns of a terminal; 80 if unknown.
pub(crate) fn width_of(terminal: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal);
    size.map(|size| usize::from(size.ws_col)).ok().filter(|columns| *columns > 0).unwrap_or(80)
}

/// Columns that a text takes; colour codes take none.
pub(crate) fn columns(text: &str) -> usize {
    let mut parts = text.split("\x1b[");
    let begin = parts.next().map_or(0, UnicodeWidthStr::width);
    begin + parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest).width()).sum::<usize>()
}

/// The most columns that a character takes: an emoji variation selector makes the character before it
/// wider.
pub(crate) fn char_columns(c: char) -> usize {
    if c == '\u{fe0f}' { 1 } else { c.width().unwrap_or(0) }
}

/// The beginning of a text, in at most `max` columns.
pub(crate) fn shortened(text: &str, max: usize) -> String {
    if columns(text) <= max {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += char_columns(c);
        if used + 3 > max {
            break;
        }
        out.push(c);
    }
    out + &"..."[..max.min(3)]
}

fn lay_out(head: &[&str], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let widths: Vec<usize> = (0..head.len())
        .map(|i| rows.iter().map(|row| columns(&row[i])).chain([head[i].len()]).max().unwrap_or(0))
        .collect();
    let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
    if let Some(width) = width.filter(|width| total > *width) {
        return records(head, rows, width);
    }
    let line = |cells: Vec<&str>| {
        let mut out = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            out.push_str(cell);
            out.push_str(&" ".repeat(width - columns(cell) + 2));
        }
        out.trim_end().to_owned()
    };
    std::iter::once(line(head.to_vec()))
        .chain(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())))
        .collect()
}

fn records(head: &[&str], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows {
        for (i, (name, cell)) in head.iter().zip(row).enumerate().filter(|(_, (_, cell))| !cell.is_empty()) {
            let lead = if i == 0 { "" } else { "  " };
            lines.extend(wrap(&format!("{lead}{}: {cell}", name.to_lowercase()), Some(width), 4));
        }
    }
    lines
}

/// How long ago, in the largest unit that is at least one.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_second() - at.as_second()).max(0);
    match seconds {
        0..=59 => format!("{seconds} s ago"),
        60..=3_599 => format!("{} min ago", seconds / 60),
        3_600..=86_399 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// A duration, in two or three digits and a unit.
pub(crate) fn span(ms: u64) -> String {
    match ms {
        0..=999 => format!("{ms} ms"),
        1_000..=59_999 => format!("{}.{:02} s", ms / 1_000, ms % 1_000 / 10),
        60_000..=3_599_999 => format!("{} min {:02} s", ms / 60_000, ms / 1_000 % 60),
        _ => format!("{} h {:02} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// `1 event` or `3 events`.
pub(crate) fn counted(n: impl TryInto<u64>, what: &str) -> String {
    match n.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// A count, in thousands or millions if it is long.
pub(crate) fn short_count(n: u64) -> String {
    match n {
        0..=9_999 => n.to_string(),
        10_000..=9_999_999 => format!("{}k", n / 1_000),
        _ => format!("{}M", n / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(utf8: bool) -> Screen {
        Screen::plain(None, utf8)
    }

    #[test]
    fn long_lines_are_folded_between_words_without_loss() {
        let text = "  read: the quick brown fox jumps over the dog";
        assert_eq!(wrap(text, Some(24), 4), ["  read: the quick brown", "    fox jumps over the", "    dog"]);
        assert_eq!(wrap(text, None, 4), [text]);
        let long = "x".repeat(60);
        assert_eq!(wrap(&long, Some(20), 2), [long]);
        assert_eq!(wrap("", Some(20), 2), [""]);
    }

    #[test]
    fn colour_codes_count_as_zero_columns() {
        let screen = Screen { colour: true, ..Screen::plain(Some(24), true) };
        let text = format!("{} the quick brown fox", screen.paint(Style::Green, "ok"));
        assert_eq!(wrap(&text, Some(24), 2), ["\x1b[32mok\x1b[0m the quick brown fox"]);
        assert_eq!((columns(&text), columns("漢字"), columns("")), (22, 4, 0));
    }

    #[test]
    fn each_line_of_a_failure_is_folded_with_an_indent() {
        let text =
            "error: the agent files have 2 problems\n  agents/a.md:2: unknown key `modle`\nhint: short";
        let rows = "error: the agent files\n  have 2 problems\n  agents/a.md:2: unknown\n    key `modle`\nhint: short";
        assert_eq!(folded(text, Some(24)), rows);
        assert_eq!(folded(text, None), text);
    }

    #[test]
    fn foreign_text_cannot_control_the_terminal() {
        let check = |input: &str, expected: &str| assert_eq!(screen(true).clean(input), expected);
        check("\x1b[2J\x1b]0;owned\x07", "^[[2J^[]0;owned^G");
        check("a\r\nb\rc", "a\nbc");
        check("\u{9b}31m \u{202e}txt", "\\u{9b}31m \\u{202e}txt");
        check("tab\there \x7f", "tab    here ^?");
        check("straße 漢字", "straße 漢字");
        assert_eq!(screen(true).clean_line("two\nlines"), "two lines");
    }

    #[test]
    fn a_terminal_without_utf8_gets_ascii() {
        assert_eq!(screen(false).clean("Grüße, Łódź, naïve"), "Grusse, Lodz, naive");
        let typeset = "“I’d say…” – she, ‘no’ — 3−1\u{a0}→ 日";
        let plain = "\"I'd say...\" - she, 'no' - 3-1 -> Ri";
        assert_eq!(screen(false).clean(typeset), plain);
        assert_eq!(screen(false).for_terminal(&format!("\x1b[1m{typeset}")), format!("\x1b[1m{plain}"));
        assert_eq!(screen(true).for_terminal(typeset), typeset);
        let utf8 = |all: &str, lang: &str| supports_utf8([Some(all.into()), None, Some(lang.into())]);
        assert!(utf8("", "en_US.UTF-8") && !utf8("C", "en_US.UTF-8") && !utf8("", "de_DE.ISO-8859-1"));
        assert!(supports_utf8([None, None, None]));
    }

    #[test]
    fn a_table_too_wide_for_the_terminal_becomes_records() {
        let rows = vec![vec!["ada".to_owned(), "sleeping".to_owned(), String::new()]];
        let head = ["NAME", "STATE", "REASON"];
        assert_eq!(lay_out(&head, &rows, Some(40)), ["NAME  STATE     REASON", "ada   sleeping"]);
        assert_eq!(lay_out(&head, &rows, Some(10)), ["name: ada", "  state: sleeping"]);
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(shortened("漢字漢字", 7), "漢字...");
        assert_eq!(shortened("short", 7), "short");
    }

    #[test]
    fn times_and_counts_are_short() {
        let now = Timestamp::from_second(100_000).unwrap();
        let check = |before: i64, expected: &str| {
            assert_eq!(ago(Timestamp::from_second(100_000 - before).unwrap(), now), expected);
        };
        check(5, "5 s ago");
        check(61, "1 min ago");
        check(7_200, "2 h ago");
        check(-5, "0 s ago");
        assert_eq!((span(999).as_str(), span(1_239).as_str()), ("999 ms", "1.23 s"));
        assert_eq!((span(61_000).as_str(), span(7_260_000).as_str()), ("1 min 01 s", "2 h 01 min"));
        assert_eq!((short_count(9_999).as_str(), short_count(12_345).as_str()), ("9999", "12k"));
    }
}
