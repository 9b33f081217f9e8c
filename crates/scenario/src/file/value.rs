//! Single values of a file: texts, handles, times, counts. A wrong value becomes a flaw, and reading continues.

use std::time::Duration;

use agent::entity;
use agent::port::Hooks;

use super::AgentFiles;
use crate::bounds;
use crate::flaw::{FileFlaw, FilePosition, Flaws, meant, shown};
use crate::scene::{Amount, TextPattern};
use crate::yaml::{Is, YamlKey, YamlNode};

/// The inputs of reading a file, and the flaws found so far.
pub(super) struct Reader<'a> {
    pub(super) flaws: Flaws,
    /// The names of all tools, with those of the scenario.
    pub(super) tools: Vec<String>,
    /// Reads agent files.
    pub(super) agent_files: &'a AgentFiles<'a>,
    /// Checks the declarations of hooks.
    pub(super) known_hooks: &'a dyn Hooks,
}

impl Reader<'_> {
    pub(super) fn wrong(&mut self, place: FilePosition, message: impl Into<String>) {
        self.flaws.add(FileFlaw::new(place, message));
    }

    /// The pairs of a mapping; empty, with a flaw, if it is not one.
    pub(super) fn map<'n>(&mut self, node: &'n YamlNode, what: &str) -> &'n [(YamlKey, YamlNode)] {
        match &node.is {
            Is::Map(pairs) => pairs,
            _ => {
                self.wrong(node.place, format!("wanted {what}, got {}", node.kind()));
                &[]
            }
        }
    }

    /// The items of a list with at most `most` items.
    pub(super) fn list<'n>(&mut self, node: &'n YamlNode, what: &str, most: usize) -> &'n [YamlNode] {
        let Is::List(items) = &node.is else {
            self.wrong(node.place, format!("wanted {what}, got {}", node.kind()));
            return &[];
        };
        if items.len() > most {
            self.wrong(node.place, format!("wanted a list of at most {most}, got {}", items.len()));
            return &[];
        }
        items
    }

    /// A text that is not blank.
    pub(super) fn text(&mut self, node: &YamlNode, what: &str) -> Option<String> {
        match node.words() {
            Some(words) if !words.trim().is_empty() => Some(words.to_owned()),
            Some(_) => {
                self.wrong(node.place, format!("wanted {what}, got a blank text"));
                None
            }
            None => {
                self.wrong(node.place, format!("wanted {what}, got {}", node.kind()));
                None
            }
        }
    }

    /// One text or a list of them.
    pub(super) fn texts(&mut self, node: &YamlNode, what: &str) -> Vec<String> {
        match &node.is {
            Is::List(items) => items.iter().filter_map(|item| self.text(item, what)).collect(),
            _ => self.text(node, what).into_iter().collect(),
        }
    }

    /// A handle in its stored form.
    pub(super) fn handle(&mut self, place: FilePosition, text: &str) -> Option<String> {
        match entity::handle(text) {
            Ok(handle) => Some(handle),
            Err(bad) => {
                self.wrong(place, bad.to_string());
                None
            }
        }
    }

    /// One of the known names.
    pub(super) fn known(
        &mut self,
        place: FilePosition,
        what: &str,
        name: &str,
        there: &[String],
    ) -> Option<String> {
        let lower = name.to_lowercase();
        if there.contains(&lower) {
            return Some(lower);
        }
        let hint = meant(&lower, there.iter().map(String::as_str));
        self.wrong(place, format!("there is no {what} `{}` in this scenario{hint}", shown(name)));
        None
    }

    /// The name of an existing tool.
    pub(super) fn tool(&mut self, place: FilePosition, name: &str) -> Option<String> {
        if self.tools.iter().any(|tool| tool == name) {
            return Some(name.to_owned());
        }
        let hint = meant(name, self.tools.iter().map(String::as_str));
        self.wrong(place, format!("there is no tool `{}`{hint}", shown(name)));
        None
    }

    /// Reports an unknown key.
    pub(super) fn unknown(&mut self, key: &YamlKey, keys: &[&str]) {
        let hint = meant(&key.text, keys.iter().copied());
        self.wrong(key.place, format!("unknown key `{}`{hint}", shown(&key.text)));
    }

    /// A time such as `300ms`, `2s`, `1.5m`, `1h`, `2d`.
    pub(super) fn time(&mut self, node: &YamlNode) -> Option<Duration> {
        let wanted = "a time such as `300ms`, `2s`, `5m`, `1h` or `2d`";
        let words = self.text(node, wanted)?;
        match time(words.trim()) {
            Ok(time) => Some(time),
            Err(why) => {
                self.wrong(node.place, format!("wanted {wanted}, got `{}`{why}", shown(&words)));
                None
            }
        }
    }

    /// A number, `at most N` or `at least N`.
    pub(super) fn count(&mut self, node: &YamlNode) -> Option<Amount> {
        let wanted = "a number, `at most N` or `at least N`";
        let words = self.text(node, wanted)?;
        let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
        let count = match words.trim() {
            text if text.starts_with("at most ") => number(&text[8..]).map(Amount::AtMost),
            text if text.starts_with("at least ") => number(&text[9..]).map(Amount::AtLeast),
            text => number(text).map(Amount::Exactly),
        };
        if count.is_none() {
            self.wrong(node.place, format!("wanted {wanted}, got `{}`", shown(&words)));
        }
        count
    }

    /// A pattern of texts and their number: texts that must be contained, or a mapping.
    pub(super) fn words(&mut self, node: &YamlNode, times: &mut Amount) -> TextPattern {
        let mut words = TextPattern::default();
        let Is::Map(pairs) = &node.is else {
            words.all = self.texts(node, "a text, a list of texts or a mapping");
            return words;
        };
        for (key, value) in pairs {
            match key.text.as_str() {
                "contains" => words.all = self.texts(value, "a text or a list of texts"),
                "any" => words.any = self.texts(value, "a text or a list of texts"),
                "equals" => words.equals = self.text(value, "a text"),
                "times" => {
                    if let Some(count) = self.count(value) {
                        *times = count;
                    }
                }
                _ => self.unknown(key, &["contains", "any", "equals", "times"]),
            }
        }
        words
    }
}

/// A time as in a file, in the largest unit that gives a whole number.
pub(crate) fn shown_time(time: Duration) -> String {
    let ms = time.as_millis();
    let fitting = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")]
        .into_iter()
        .find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
    match fitting {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None if ms == 0 => "0s".to_owned(),
        None => format!("{ms}ms"),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = number.trim().parse().map_err(|_| String::new())?;
    let seconds = match unit {
        "ms" => number / 1_000.0,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3_600.0,
        "d" => number * 86_400.0,
        "" if number == 0.0 => 0.0,
        "" => return Err(": a unit is missing".into()),
        _ => return Err(format!(": `{unit}` is not a unit")),
    };
    if seconds.is_sign_negative() && seconds != 0.0 {
        return Err(": time does not run backwards".into());
    }
    let most = bounds::TIME_MAX;
    if !seconds.is_finite() || seconds > most.as_secs_f64() {
        return Err(format!(": at most {} d are allowed", most.as_secs() / 86_400));
    }
    // Rounded to whole milliseconds, the unit of every clock here.
    Ok(Duration::from_millis((seconds * 1_000.0).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_a_limit() {
        let check = |text: &str, ms: u64| assert_eq!(time(text), Ok(Duration::from_millis(ms)), "{text}");
        check("300ms", 300);
        check("2s", 2_000);
        check("1.5m", 90_000);
        check("2 min", 120_000);
        check("1h", 3_600_000);
        check("1.5 d", 129_600_000);
        check("30d", 2_592_000_000);
        check("0", 0);
        let refused = |text: &str, why: &str| assert_eq!(time(text).unwrap_err(), why, "{text}");
        refused("-1s", ": time does not run backwards");
        refused("2", ": a unit is missing");
        refused("2 weeks", ": `weeks` is not a unit");
        refused("721h", ": at most 30 d are allowed");
        refused("31d", ": at most 30 d are allowed");
        refused("soon", "");
        refused("NaNs", "");
    }

    #[test]
    fn a_time_is_shown_in_the_largest_unit_that_fits() {
        for text in ["0s", "300ms", "1500ms", "90s", "5m", "36h", "2d"] {
            assert_eq!(shown_time(time(text).unwrap()), text);
        }
    }
}
