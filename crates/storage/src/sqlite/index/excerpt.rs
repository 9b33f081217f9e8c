//! The part of a text that shows the words of a query best. Knows nothing of where the text comes from.

use std::collections::HashSet;

use agent::limits;

use crate::sqlite::index::words::{Word, words};

/// How well a text matches, and its best part.
pub(crate) struct Best {
    /// The sought words that the text has.
    pub(crate) found: usize,
    /// The most sought words that stand together in one part.
    pub(crate) together: usize,
    /// That part.
    pub(crate) part: String,
}

/// The best part of a text for a query; `None` if it has none of the words.
pub(crate) fn best(text: &str, sought: &[String]) -> Option<Best> {
    let is_sought = |word: &Word| sought.iter().any(|sought| matches(sought, &word.word));
    let hits: Vec<Word> = words(text).into_iter().filter(is_sought).collect();
    let different = |hits: &[Word]| hits.iter().map(|hit| hit.word.as_str()).collect::<HashSet<_>>().len();
    let (mut begin, mut end, mut most) = (0, 0, 0);
    let mut from = 0;
    for to in 0..hits.len() {
        while hits[to].to - hits[from].from > limits::EXCERPT_BYTES / 2 && from < to {
            from += 1;
        }
        let together = different(&hits[from..=to]);
        if together > most {
            (begin, end, most) = (hits[from].from, hits[to].to, together);
        }
    }
    (most > 0).then(|| Best { found: different(&hits), together: most, part: around(text, begin, end) })
}

/// Whether a word is the sought one; a single character of a dense script is sought as the beginning of a word.
pub(crate) fn matches(sought: &str, word: &str) -> bool {
    sought == word || (is_prefix(sought) && word.starts_with(sought))
}

/// Whether a sought word also stands for those that begin with it.
pub(crate) fn is_prefix(sought: &str) -> bool {
    let mut characters = sought.chars();
    characters.next().is_some_and(|c| c >= '\u{3000}') && characters.next().is_none()
}

/// The text around these bytes, cut between words and on one line.
fn around(text: &str, begin: usize, end: usize) -> String {
    let margin = limits::EXCERPT_BYTES.saturating_sub(end - begin) / 2;
    let mut from = begin.saturating_sub(margin);
    let mut to = (end + margin).min(text.len());
    while !text.is_char_boundary(from) {
        from += 1;
    }
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    if from > 0 {
        from = text[from..begin].find(char::is_whitespace).map_or(from, |space| from + space);
    }
    if to < text.len() {
        to = text[end..to].rfind(char::is_whitespace).map_or(to, |space| end + space);
    }
    let part = text[from..to].split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, after) = (if from > 0 { "… " } else { "" }, if to < text.len() { " …" } else { "" });
    format!("{before}{part}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sought(query: &str) -> Vec<String> {
        query.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_part_is_where_most_of_the_words_stand_together() {
        let text = format!("bill one {} the bill of Husam is due {}", "x ".repeat(600), "y ".repeat(600));
        let best = best(&text, &sought("bill husam due")).unwrap();
        assert_eq!((best.found, best.together), (3, 3));
        assert!(best.part.contains("the bill of Husam is due"), "{}", best.part);
        assert!(best.part.starts_with("… ") && best.part.ends_with(" …"));
        assert!(best.part.len() <= limits::EXCERPT_BYTES + 16, "{}", best.part.len());
    }

    #[test]
    fn a_text_without_the_words_has_no_part() {
        assert!(best("nothing here", &sought("bill")).is_none());
        assert!(best("", &sought("bill")).is_none());
        assert_eq!(best("die 東京都", &sought("都")).unwrap().part, "die 東京都");
        let long = "ß".repeat(10_000);
        assert!(best(&format!("{long}bill{long} bill"), &sought("bill")).is_some());
    }
}
