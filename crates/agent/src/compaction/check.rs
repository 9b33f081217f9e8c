//! Whether a model's summary can be used, and what is kept of the previous one whatever the model wrote.

use std::sync::Arc;

use crate::entry::{Entry, EntryKind};
use crate::limits;
use crate::port::{Reply, ReplyPart, StopReason};
use crate::quote;

use super::{digest, unanswered};

/// Why a summary is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It has no text, or is a call.
    #[error("wanted the summary as text, got {0}")]
    NoText(&'static str),
    /// It was cut by the output limit.
    #[error("the output limit cut it")]
    Cut,
    /// It is too long.
    #[error("wanted at most {wanted} bytes, got {got}")]
    TooLong {
        /// The limit.
        wanted: usize,
        /// Its size.
        got: usize,
    },
    /// It is written in another script than the conversation.
    #[error("the conversation is in {wanted} letters, it is in {got} letters")]
    OtherScript {
        /// The script of the conversation.
        wanted: &'static str,
        /// Its script.
        got: &'static str,
    },
}

/// Sections whose bullets stay until they are marked as done, with the word by which their titles are found.
const KEPT: [Section; 2] = [COMMITMENTS, PREFERENCES];

/// A section: its title, and the word by which that is found.
pub(super) type Section = (&'static str, &'static str);

/// What is to be done.
pub(super) const COMMITMENTS: Section = ("## Open commitments", "commitments");
/// What people want, and what they forbid.
pub(super) const PREFERENCES: Section = ("## Preferences of people", "preferences");

/// The text of a usable reply in at most `bytes` bytes, with the open commitments and preferences of the previous summary that
/// it lacks.
pub fn accepted(
    reply: &Reply,
    previous: Option<&str>,
    gone: &[Arc<Entry>],
    bytes: usize,
) -> Result<String, Refused> {
    if reply.parts.iter().any(|part| matches!(part, ReplyPart::Call { .. })) {
        return Err(Refused::NoText("a call"));
    }
    if reply.stop != StopReason::End {
        return Err(Refused::Cut);
    }
    let text: String =
        reply.parts.iter().map(|part| if let ReplyPart::Text(text) = part { text } else { "" }).collect();
    let text = text.trim();
    if text.is_empty() {
        return Err(Refused::NoText("nothing"));
    }
    if text.len() > bytes {
        return Err(Refused::TooLong { wanted: bytes, got: text.len() });
    }
    let conversation: String = gone.iter().flat_map(words_of).collect();
    if let (Some(wanted), Some(got)) = (script(&conversation), script(&body(text)))
        && wanted != got
    {
        return Err(Refused::OtherScript { wanted, got });
    }
    let previous = unanswered::added(previous, gone).unwrap_or_default();
    Ok(with_kept(&harmless(text), &previous, bytes / 4))
}

/// The text up to the section of that title. What follows may be in it, too: what it quotes may have headings of its own.
pub(super) fn before(text: &str, title: &str) -> String {
    text.lines().take_while(|line| !line.starts_with(title)).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// The summary with more bullets in that section, the newest last.
pub(super) fn with_more(summary: &str, (title, word): Section, more: &[&str]) -> String {
    let end = |lines: &[&str], at: usize| {
        let next = lines[at + 1..].iter().position(|line| is_heading(line) || line.trim().is_empty());
        next.map_or(lines.len(), |next| at + 1 + next)
    };
    let mut lines: Vec<&str> = summary.lines().collect();
    match lines.iter().position(|line| is_title(line, word)) {
        Some(at) => drop(lines.splice(end(&lines, at)..end(&lines, at), more.iter().copied())),
        // Before the lines of cycles, which are the last section.
        None => drop(lines.splice(0..0, [title].into_iter().chain(more.iter().copied()).chain([""]))),
    }
    lines.join("\n").trim_end().to_owned()
}

/// What was said in an entry, without the words of the runtime around it.
fn words_of(entry: &Arc<Entry>) -> Vec<String> {
    if entry.kind == EntryKind::Assistant {
        return digest::said(entry).collect();
    }
    let quoted = |event: String| event.split_once(": \"").map(|(_, text)| text.to_owned());
    digest::events(&entry.message.text()).into_iter().filter_map(quoted).collect()
}

/// The text without the titles of sections, which are always English.
fn body(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

/// The text without hidden characters and without lines that look like the runtime's own, such as `[INBOX …`: what others
/// wrote must not get into the prompt as such a line by way of the summariser.
fn harmless(text: &str) -> String {
    let is_event = |line: &str| line.split_once(". [").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
    let line = |line: &str| match line.trim_start() {
        start if start.starts_with('[') || is_event(start) => format!("> {line}"),
        _ => line.to_owned(),
    };
    quote::escape_hidden(text).lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Appends the bullets of the kept sections of `previous` that the summary neither has nor marks as done: the newest, in at
/// most `bytes` bytes for each section.
pub(super) fn with_kept(summary: &str, previous: &str, bytes: usize) -> String {
    let mut out = summary.to_owned();
    for (title, word) in KEPT {
        let lost: Vec<&str> = bullets(previous, word)
            .into_iter()
            .filter(|bullet| {
                !bullet.contains("[done]") && !summary.lines().any(|line| is_same(item(line), item(bullet)))
            })
            .collect();
        let mut room = bytes;
        let fits = |bullet: &&&str| match room.checked_sub(bullet.len() + 1) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        };
        let count = lost.iter().rev().take(limits::KEPT_BULLETS_MAX).take_while(fits).count();
        let lost = &lost[lost.len() - count..];
        if lost.is_empty() {
            continue;
        }
        let section = out.lines().position(|line| is_title(line, word));
        let mut lines: Vec<&str> = out.lines().collect();
        match section {
            Some(at) => drop(lines.splice(at + 1..=at, lost.iter().copied())),
            // The section of strangers is the last one.
            None => drop(lines.splice(0..0, [title].into_iter().chain(lost.iter().copied()).chain([""]))),
        }
        out = lines.join("\n");
    }
    out
}

fn is_title(line: &str, word: &str) -> bool {
    is_heading(line) && line.to_lowercase().contains(word)
}

/// The bullets of the section, each a line.
fn bullets<'a>(summary: &'a str, word: &str) -> Vec<&'a str> {
    let section = summary.lines().skip_while(|line| !is_title(line, word)).skip(1);
    let section = section.take_while(|line| !is_heading(line));
    let short = |line: &&str| line.len() <= limits::KEPT_BULLET_BYTES;
    section.filter(|line| item(line).len() < line.trim().len()).filter(short).collect()
}

/// Models write titles in bold letters, too. A line that only begins in bold letters is none.
fn is_heading(line: &str) -> bool {
    let bold = |line: &str| line.starts_with("**") && line.trim_end_matches([' ', ':']).ends_with("**");
    line.starts_with('#') || bold(line)
}

/// The text of a bullet or of a numbered line; another line as it is.
fn item(line: &str) -> &str {
    let line = line.trim();
    let text = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or_else(|| {
        let (number, text) = line.split_once(". ")?;
        number.parse::<u8>().ok().map(|_| text)
    });
    text.unwrap_or(line).trim()
}

/// Whether the line is the bullet, with nothing behind it but a mark or a remark: `[done]`, `(on Friday)`, `, as promised`.
fn is_same(line: &str, bullet: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let (line, bullet) = (words(line), words(bullet));
    const ENDS: [char; 5] = ['.', ',', ';', ':', '!'];
    let Some(rest) = line.strip_prefix(bullet.trim_end_matches(ENDS)) else { return false };
    let behind = rest.trim_start_matches(ENDS);
    let ended = behind.len() < rest.len() || behind.trim_start().starts_with(|c: char| !c.is_alphanumeric());
    // Without a space, `call Mira's lawyer` and `call Mira-Anne` are other commitments than `call Mira`.
    behind.is_empty() || (behind.starts_with(' ') && ended)
}

/// The script of most letters of the text; `None` if it has too few letters or is mixed.
fn script(text: &str) -> Option<&'static str> {
    const NAMES: [&str; 6] = ["Latin", "Cyrillic", "Arabic", "Hebrew", "East Asian", "other"];
    let mut counts = [0usize; NAMES.len()];
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        let class = match c {
            'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' => 0,
            '\u{400}'..='\u{52f}' => 1,
            '\u{600}'..='\u{6ff}' | '\u{750}'..='\u{77f}' => 2,
            '\u{590}'..='\u{5ff}' => 3,
            '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' => 4,
            _ => 5,
        };
        counts[class] += 1;
    }
    let all: usize = counts.iter().sum();
    let (most, count) = counts.iter().enumerate().max_by_key(|(_, count)| **count)?;
    (all >= 40 && count * 100 >= all * 60).then_some(NAMES[most])
}
