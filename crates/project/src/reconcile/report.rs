//! What happened to the agents of files.

use std::collections::BTreeSet;
use std::time::Duration;

use agent::config::KEYS;
use agent::port::AgentCard;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use similar::{Change, ChangeTag, TextDiff};

use crate::agent_file::{AgentFile, FileProblem};

/// Maximum time for a comparison; after it the difference is correct, but not the shortest.
const DIFF_TIME: Duration = Duration::from_millis(100);
/// Why an agent whose file is gone is left as it is.
pub(super) const GONE: &str = "its file is gone; it continues (to retire it: `viv up --prune`)";
/// Why an agent that was retired by command stays so.
pub(super) const RETIRED: &str = "it is retired; a new agent of that name is created when the file changes";

/// What happened to the agents.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ReconcileReport {
    /// Agents that were created.
    pub created: Vec<Created>,
    /// Agents that were changed to match their file.
    pub changed: Vec<Changed>,
    /// Names of agents that were as their file says.
    pub unchanged: Vec<String>,
    /// Agents that were left as they are although their file, or its absence, says otherwise.
    pub left: Vec<Left>,
    /// Agents that were retired because their files are gone.
    pub retired: Vec<Retired>,
    /// What is wrong with files although it stops nothing.
    pub warnings: Vec<FileProblem>,
}

/// An agent that was created.
#[derive(Debug, Serialize, Deserialize)]
pub struct Created {
    /// Its handle.
    #[serde(rename = "handle")]
    pub name: String,
    /// Its file, as shown to people.
    pub file: String,
    /// Its spaces.
    pub spaces: Vec<String>,
    /// The agent without a file that was probably meant.
    pub was: Option<String>,
}

/// An agent that was changed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Changed {
    /// Its handle.
    #[serde(rename = "handle")]
    pub name: String,
    /// Its file, as shown to people.
    pub file: String,
    /// It was changed over the API since its file was applied.
    pub amended: bool,
    /// The changed keys.
    pub changes: Vec<ChangedKey>,
    /// Spaces that it joined.
    pub joined: Vec<String>,
    /// Spaces that it left.
    pub departed: Vec<String>,
}

/// A key whose value changed.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChangedKey {
    /// The key with its path.
    pub key: String,
    /// The value before.
    pub old: Value,
    /// The value now.
    pub new: Value,
}

impl ChangedKey {
    /// Of changed instructions, the lines that are in only one of the texts, in order; `true` marks those of the new
    /// one.
    pub fn lines(&self) -> Option<Vec<(bool, &str)>> {
        let (old, new) = (self.old.as_str()?, self.new.as_str()?);
        (self.key == "instructions").then(|| changed_lines(old, new))
    }
}

fn changed_lines<'a>(old: &'a str, new: &'a str) -> Vec<(bool, &'a str)> {
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let changes = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
    let line =
        |change: Change<&'a str>| (change.tag() == ChangeTag::Insert, change.value().trim_end_matches('\n'));
    changes.map(line).collect()
}

/// An agent that was retired because its file is gone.
#[derive(Debug, Serialize, Deserialize)]
pub struct Retired {
    /// Its handle.
    #[serde(rename = "handle")]
    pub name: String,
    /// The file that is gone, as shown to people.
    pub file: String,
}

/// An agent that was left as it is.
#[derive(Debug, Serialize, Deserialize)]
pub struct Left {
    /// Its handle.
    #[serde(rename = "handle")]
    pub name: String,
    /// Its file, as shown to people.
    pub file: String,
    /// Why.
    pub why: String,
}

impl Left {
    /// What there is to say, as long as it is so, of a file that is gone: it may have been renamed, and then there are two agents.
    pub(super) fn gone(&self) -> Option<FileProblem> {
        let name = &self.name;
        let what = format!(
            "this file is gone, and its agent `{name}` goes on: `viv agents retire {name}` ends it; a file with another name is \
             another agent, unless `name: {name}` is in it"
        );
        let problem = FileProblem::new(&self.file, None, what);
        (self.why == GONE).then_some(FileProblem { warning: true, ..problem })
    }
}

impl ReconcileReport {
    pub(super) fn leave(&mut self, name: &str, file: &str, why: &str) {
        self.left.push(Left { name: name.to_owned(), file: file.to_owned(), why: why.to_owned() });
    }

    /// Notes each key that differs.
    pub(super) fn compare(&mut self, file: &AgentFile, card: &AgentCard, amended: bool) {
        let old = card.config.to_json();
        let new = file.config.to_json();
        let pair = |key: &str, old: Value, new: Value| {
            (old != new).then(|| ChangedKey { key: key.to_owned(), old, new })
        };
        let display = pair("display_name", json!(card.entity.display_name), json!(file.display_name));
        let of_config = KEYS.iter().filter_map(|key| {
            let value = |config| key.of(config).cloned().unwrap_or_default();
            pair(key.name, value(&old), value(&new))
        });
        let changes: Vec<_> = display.into_iter().chain(of_config).collect();
        if changes.is_empty() {
            self.unchanged.push(file.name.clone());
        } else {
            let AgentFile { name, file, .. } = file.clone();
            self.changed.push(Changed { name, file, amended, changes, ..Changed::default() });
        }
    }

    /// Notes the spaces that an agent joined and left.
    pub(super) fn spaces_changed(&mut self, file: &AgentFile, joined: Vec<String>, departed: Vec<String>) {
        if joined.is_empty() && departed.is_empty() {
            return;
        }
        self.unchanged.retain(|name| *name != file.name);
        if let Some(changed) = self.changed.iter_mut().find(|changed| changed.name == file.name) {
            (changed.joined, changed.departed) = (joined, departed);
            return;
        }
        let AgentFile { name, file, .. } = file.clone();
        self.changed.push(Changed { name, file, joined, departed, ..Changed::default() });
    }

    /// Whether the agent was left because it is retired.
    pub fn left_retired(&self, name: &str) -> bool {
        self.left.iter().any(|left| left.name == name && left.why == RETIRED)
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.changed.is_empty() && self.left.is_empty() && self.retired.is_empty()
    }

    /// Removes left agents that were reported before; returns all left agents.
    pub fn drop_reported(&mut self, reported: &BTreeSet<String>) -> BTreeSet<String> {
        let all = self.left.iter().map(|left| left.name.clone()).collect();
        self.left.retain(|left| !reported.contains(&left.name));
        all
    }

    /// What happened, agent by agent, in words.
    pub fn news(&self) -> Vec<AgentNews<'_>> {
        let created = self.created.iter().map(|one| {
            let spaces = if one.spaces.is_empty() { "no space".to_owned() } else { listed(&one.spaces) };
            let hint = one.was.as_ref().map(|was| {
                format!("hint: is this `{was}` renamed? `name: {was}` in {} keeps its history", one.file)
            });
            let what = format!("{}, in {spaces}", one.file);
            let details = hint.into_iter().collect();
            AgentNews { verb: "created", name: &one.name, what, changes: &[], details }
        });
        let changed = self.changed.iter().map(|one| {
            let amended = if one.amended { ", which overrides changes made over the API" } else { "" };
            let moves = [("joined", &one.joined), ("departed from", &one.departed)].into_iter();
            let moves = moves.filter(|(_, spaces)| !spaces.is_empty());
            let details = moves.map(|(verb, spaces)| format!("{verb} {}", listed(spaces))).collect();
            let what = format!("{}{amended}", one.file);
            AgentNews { verb: "changed", name: &one.name, what, changes: &one.changes, details }
        });
        let plain = |verb, name, what| AgentNews { verb, name, what, changes: &[], details: Vec::new() };
        let left = self.left.iter().map(|one| plain("left", &one.name, format!("{}: {}", one.file, one.why)));
        let retired =
            self.retired.iter().map(|one| plain("retired", &one.name, format!("{} is gone", one.file)));
        created.chain(changed).chain(left).chain(retired).collect()
    }
}

/// What happened to one agent, in words.
#[derive(Debug)]
pub struct AgentNews<'a> {
    /// `created`, `changed`, `left` or `retired`.
    pub verb: &'static str,
    /// The agent's handle.
    pub name: &'a str,
    /// Its file, and what there is to say about it.
    pub what: String,
    /// The changed keys.
    pub changes: &'a [ChangedKey],
    /// More about it, one line each.
    pub details: Vec<String>,
}

impl std::fmt::Display for AgentNews<'_> {
    /// In one line, without the values, which may be long or private.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} agent `{}`: {}", self.verb, self.name, self.what)?;
        if !self.changes.is_empty() {
            let keys: Vec<&str> = self.changes.iter().map(|one| one.key.as_str()).collect();
            write!(f, " ({})", keys.join(", "))?;
        }
        self.details.iter().try_for_each(|detail| write!(f, "; {detail}"))
    }
}

fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
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
    fn only_lines_that_differ_are_shown() {
        check("a\nb\nc", "a\nb\nc", &[]);
        check("a\nb\nc", "a\nx\nc", &["-b", "+x"]);
        check("a\nb\nc\nd", "a\nc\nx\nd", &["-b", "+x"]);
        check("", "a", &["+a"]);
        check("a\nb", "", &["-a", "-b"]);
        check("a\nb\nc\nd\ne", "x\nb\nc\nd\ny", &["-a", "+x", "-e", "+y"]);
    }

    #[test]
    fn news_of_an_agent_fit_one_line_without_the_values() {
        let key = |key: &str| ChangedKey { key: key.to_owned(), old: json!("secret"), new: json!("other") };
        let changed = Changed {
            name: "ada".to_owned(),
            file: "agents/ada.md".to_owned(),
            amended: true,
            changes: vec![key("description"), key("model")],
            joined: vec!["home".to_owned()],
            departed: Vec::new(),
        };
        let report = ReconcileReport { changed: vec![changed], ..ReconcileReport::default() };
        let expected = "changed agent `ada`: agents/ada.md, which overrides changes made over the API (description, \
                        model); joined `home`";
        assert_eq!(report.news()[0].to_string(), expected);
        let read = ReconcileReport::deserialize(json!(report)).unwrap();
        assert_eq!(json!(read), json!(report), "the parent of `viv up -d` reads what its server reports");
    }
}
