//! What happened to the agents of files.

use std::collections::BTreeSet;

use agent::config::KEYS;
use agent::port::AgentCard;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::agent_file::AgentFile;

/// What happened to the agents.
#[derive(Debug, Default, Serialize)]
pub struct ReconcileReport {
    /// Agents that were created.
    pub created: Vec<Created>,
    /// Agents that were changed to match their file.
    pub changed: Vec<Changed>,
    /// Names of agents that were as their file says.
    pub unchanged: Vec<String>,
    /// Agents that were left as they are although their file, or its absence, says otherwise.
    pub left: Vec<Left>,
    /// Agents that were retired, with the files that are gone.
    #[serde(serialize_with = "retired_to_json")]
    pub retired: Vec<(String, String)>,
}

/// An agent that was created.
#[derive(Debug, Serialize)]
pub struct Created {
    /// Its handle.
    pub name: String,
    /// Its file, as shown to people.
    pub file: String,
    /// Its spaces.
    pub spaces: Vec<String>,
    /// The agent without a file that was probably meant.
    pub was: Option<String>,
}

/// An agent that was changed.
#[derive(Debug, Serialize)]
pub struct Changed {
    /// Its handle.
    pub name: String,
    /// Its file, as shown to people.
    pub file: String,
    /// It was changed over the API since its file was applied.
    pub amended: bool,
    /// Each changed key, with its value before and after.
    #[serde(serialize_with = "changes_to_json")]
    pub changes: Vec<(&'static str, Value, Value)>,
    /// Spaces that it joined.
    pub joined: Vec<String>,
    /// Spaces that it left.
    pub departed: Vec<String>,
}

/// An agent that was left as it is.
#[derive(Debug, Serialize)]
pub struct Left {
    /// Its handle.
    pub name: String,
    /// Its file, as shown to people.
    pub file: String,
    /// Why.
    pub why: String,
}

impl ReconcileReport {
    pub(super) fn create(&mut self, file: &AgentFile) {
        let AgentFile { name, file, spaces, .. } = file.clone();
        self.created.push(Created { name, file, spaces, was: None });
    }

    /// Whether the agent was just created.
    pub(super) fn has_created(&self, name: &str) -> bool {
        self.created.iter().any(|one| one.name == name)
    }

    /// Notes that a created agent may be one that lost its file.
    pub(super) fn guess(&mut self, name: &str, was: String) {
        if let Some(one) = self.created.iter_mut().find(|one| one.name == name) {
            one.was = Some(was);
        }
    }

    pub(super) fn leave(&mut self, name: &str, file: &str, why: &str) {
        self.left.push(Left { name: name.to_owned(), file: file.to_owned(), why: why.to_owned() });
    }

    pub(super) fn retire(&mut self, name: &str, file: &str) {
        self.retired.push((name.to_owned(), file.to_owned()));
    }

    /// Notes each key that differs.
    pub(super) fn compare(&mut self, file: &AgentFile, card: &AgentCard, amended: bool) {
        let old = card.config.to_json();
        let new = file.config.to_json();
        let pair = |name, old: Value, new: Value| (old != new).then_some((name, old, new));
        let display = pair("display_name", json!(card.entity.display_name), json!(file.display_name));
        let of_config = KEYS.iter().filter_map(|key| {
            let value = |config| key.of(config).cloned().unwrap_or_default();
            pair(key.name, value(&old), value(&new))
        });
        let changes: Vec<_> = display.into_iter().chain(of_config).collect();
        if changes.is_empty() {
            self.unchanged.push(file.name.clone());
        } else {
            self.changed.push(Changed {
                name: file.name.clone(),
                file: file.file.clone(),
                amended,
                changes,
                joined: Vec::new(),
                departed: Vec::new(),
            });
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
        self.changed.push(Changed {
            name: file.name.clone(),
            file: file.file.clone(),
            amended: false,
            changes: Vec::new(),
            joined,
            departed,
        });
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

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        json!(self)
    }
}

fn retired_to_json<S: Serializer>(retired: &[(String, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(retired.iter().map(|(name, file)| json!({"name": name, "file": file})))
}

fn changes_to_json<S: Serializer>(
    changes: &[(&'static str, Value, Value)],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(changes.iter().map(|(key, old, new)| json!({"key": key, "old": old, "new": new})))
}
