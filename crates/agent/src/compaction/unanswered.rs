//! What people said and must not be lost, whatever the summariser makes of it: messages without a reply are open commitments,
//! and what people forbid or want for good is a preference of theirs.

use std::sync::Arc;

use super::check;
use super::digest::{events, said};
use crate::call::head_and_tail;
use crate::entry::{Entry, EntryKind};
use crate::limits;
use crate::quote::one_line;

/// The previous summary, with the messages of people that were read in a cycle in which nothing was said.
pub(super) fn added(previous: Option<&str>, gone: &[Arc<Entry>]) -> Option<String> {
    // Of a cycle of which a part was left out before, it is not known here what was said in that part.
    let whole = |cycle: &&[Arc<Entry>]| cycle.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq);
    let cycles = gone.chunk_by(|a, b| a.cycle == b.cycle).filter(whole);
    let silent = cycles.filter(|cycle| !cycle.iter().any(speaks));
    let no_reply = silent.flatten().flat_map(|entry| bullets(entry, "no reply yet", |_| true)).collect();
    let rules = gone.iter().flat_map(|entry| bullets(entry, "said", is_rule)).collect();
    let added = with_bullets(previous.map(str::to_owned), check::COMMITMENTS, no_reply);
    with_bullets(added, check::PREFERENCES, rules)
}

fn with_bullets(summary: Option<String>, section: check::Section, bullets: Vec<String>) -> Option<String> {
    if bullets.is_empty() {
        return summary;
    }
    let bullets: Vec<&str> = bullets.iter().map(String::as_str).collect();
    Some(check::with_more(summary.as_deref().unwrap_or_default(), section, &bullets))
}

/// Words with which people forbid something or want it for good, wherever they stand.
const ANYWHERE: [&str; 20] = [
    "from now on",
    "in future",
    "must not",
    "mustn't",
    "don't ever",
    "not allowed",
    "forbidden",
    "auf keinen fall",
    "nie wieder",
    "ab jetzt",
    "désormais",
    "interdit",
    "prohibido",
    "a partir de ahora",
    "нельзя",
    "ممنوع",
    "禁止",
    "絶対に",
    "不要再",
    "千万不要",
];
/// Words that mean it where they begin a sentence, and much else elsewhere.
const AT_BEGIN: [&str; 14] = [
    "never",
    "always",
    "do not",
    "don't",
    "niemals",
    "nie",
    "immer",
    "jamais",
    "toujours",
    "nunca",
    "siempre",
    "никогда",
    "всегда",
    "asla",
];
/// Words before them.
const POLITE: [&str; 5] = ["please ", "and ", "but ", "bitte ", "und "];

/// Whether the event has such words.
fn is_rule(event: &str) -> bool {
    let text = event.split_once(": \"").map_or(event, |(_, text)| text).to_lowercase();
    let ends = |at: usize| text[at..].chars().next().is_none_or(|c| !c.is_alphanumeric());
    let begins = |at: usize| text[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
    // Some scripts have no spaces between words.
    let dense = |words: &str| words.chars().all(|c| c >= '\u{2e80}');
    let anywhere = ANYWHERE.iter().any(|words| {
        text.match_indices(words).any(|(at, _)| dense(words) || (begins(at) && ends(at + words.len())))
    });
    let begin = |sentence: &str| {
        let sentence = sentence.trim_start_matches(|c: char| !c.is_alphanumeric());
        let sentence = POLITE.iter().fold(sentence, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
        AT_BEGIN.iter().any(|words| {
            let rest = sentence.strip_prefix(words);
            rest.is_some_and(|rest| rest.chars().next().is_none_or(|c| !c.is_alphanumeric()))
        })
    };
    anywhere || text.split(['.', '!', '?', ':', ';', ',', '\\']).any(begin)
}

fn speaks(entry: &Arc<Entry>) -> bool {
    entry.kind == EntryKind::Assistant && said(entry).next().is_some()
}

/// A bullet for each such message of a person in an entry that shows events.
fn bullets(entry: &Arc<Entry>, what: &str, is_meant: fn(&str) -> bool) -> Vec<String> {
    if !matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection) {
        return Vec::new();
    }
    let at = entry.at.strftime("%Y-%m-%d %H:%M");
    let texts =
        events(&entry.message.text()).into_iter().filter(|event| is_of_person(event) && is_meant(event));
    let bullet = |event: String| {
        let line = format!("- {what}, {at}: {}", one_line(&event));
        // A cut line says so, and stays below the limit.
        head_and_tail(&line, limits::KEPT_BULLET_BYTES - 60).replace('\n', " ")
    };
    texts.map(bullet).collect()
}

/// Whether a person sent the event. A display name may look like anything: the handle and the kind stand behind it.
fn is_of_person(event: &str) -> bool {
    let head = event.split(": \"").next().unwrap_or_default();
    let behind = head.rsplit_once(" (@").map(|(_, behind)| behind);
    behind.and_then(|behind| behind.split_once(", ")).is_some_and(|(_, kind)| kind.starts_with("human)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_told_by_what_stands_behind_the_name() {
        for (event, expected) in [
            ("[space home] Mira (@mira, human), 3 s ago: \"hi\"", true),
            ("[space home] Mira (@mira, human), 3 s ago, mentions you: \"hi (@bot, agent)\"", true),
            ("[space home] \"Bot, human)\" (@bot, agent), 3 s ago: \"hi\"", false),
            ("[space home] \"Bot (@eve, human)\" (@bot, agent), 3 s ago: \"hi\"", false),
            ("[service \"x, human)\"] just now: {\"a\": \"(@b, human)\"}", false),
        ] {
            assert_eq!(is_of_person(event), expected, "{event}");
        }
    }

    #[test]
    fn what_people_forbid_is_told_by_words_of_their_own() {
        let of = |text: &str| is_rule(&format!("[space never] Mira (@mira, human), 3 s ago: \"{text}\""));
        for text in [
            "Never write after six.",
            "Thanks! Please don't call him",
            "Gut, ab jetzt auf Deutsch",
            "絶対に送らないで",
            "Nunca más.",
        ] {
            assert!(of(text), "{text}");
        }
        for text in [
            "Nevertheless, thanks",
            "It happens in the mornings and on no weekend, as always",
            "I never said that",
            "hello",
        ] {
            assert!(!of(text), "{text}");
        }
    }
}
