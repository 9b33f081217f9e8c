//! Reads people, agents with their configs, and spaces with their members.

use agent::config::{AgentConfig, BadConfig, WakeOn};
use agent::tool::is_named;
use serde_json::{Map, Value};

use super::value::Reader;
use crate::bounds;
use crate::flaw::{FileFlaw, meant, shown};
use crate::scene::{Actor, Room};
use crate::yaml::{Is, YamlNode};

/// All names that a scenario defines.
#[derive(Debug, Default)]
pub(super) struct Cast {
    pub(super) agents: Vec<String>,
    /// People and agents.
    pub(super) actors: Vec<String>,
    pub(super) spaces: Vec<String>,
    pub(super) hooks: Vec<String>,
    /// Tools of the scenario.
    pub(super) tools: Vec<String>,
    /// Names of messages and events in the story.
    pub(super) ids: Vec<String>,
}

impl Cast {
    pub(super) fn of(people: &[String]) -> Self {
        Self { actors: people.to_vec(), ..Self::default() }
    }
}

/// Keys of an agent that do not belong to its config.
const OWN_KEYS: &[&str] = &["script", "file"];

impl Reader<'_> {
    pub(super) fn people(&mut self, node: &YamlNode) -> Vec<String> {
        self.names(node, "a list of people such as `[husam, ahmad]`")
    }

    fn names(&mut self, node: &YamlNode, what: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for item in self.list(node, what, bounds::CAST_MAX) {
            let Some(text) = self.text(item, "a handle") else { continue };
            let Some(name) = self.handle(item.place, &text) else { continue };
            if names.contains(&name) {
                self.wrong(item.place, format!("`{name}` is listed twice"));
            } else {
                names.push(name);
            }
        }
        names
    }

    pub(super) fn agents(&mut self, node: &YamlNode, cast: &mut Cast) -> Vec<Actor> {
        let mut agents = Vec::new();
        for (key, value) in self.map(node, "a mapping from handles to configs") {
            let Some(name) = self.handle(key.place, &key.text) else { continue };
            if cast.actors.contains(&name) {
                let message =
                    format!("the handle `{name}` is used twice: people and agents need different handles");
                self.wrong(key.place, message);
                continue;
            }
            if agents.len() == bounds::CAST_MAX {
                self.wrong(key.place, format!("wanted at most {} agents", bounds::CAST_MAX));
                break;
            }
            cast.agents.push(name.clone());
            cast.actors.push(name.clone());
            let config = self.config(value);
            agents.push(Actor { name, config, script: None, place: key.place });
        }
        agents
    }

    fn config(&mut self, node: &YamlNode) -> AgentConfig {
        if matches!(node.is, Is::Nothing) {
            return AgentConfig::default();
        }
        let pairs = self.map(node, "a mapping with the keys of an agent's config and `script`");
        let mut config = match pairs.iter().find(|(key, _)| key.text == "file") {
            Some((_, file)) => self.file_keys(file),
            None => Map::new(),
        };
        let own_keys = pairs.iter().filter(|(key, _)| !OWN_KEYS.contains(&key.text.as_str()));
        for (key, value) in own_keys {
            override_with(config.entry(key.text.clone()).or_insert(Value::Null), value.json());
        }
        for (key, value) in pairs {
            for item in tool_names(&key.text, value) {
                // A pattern may match nothing yet.
                let named = item.words().filter(|name| !name.contains('*'));
                if let Some(name) = named.filter(|name| !self.tools.iter().any(|tool| is_named(name, tool))) {
                    self.tool(item.place, name);
                }
            }
        }
        AgentConfig::read(&Value::Object(config)).unwrap_or_else(|bad| {
            bad.iter().for_each(|bad| self.flaws.add(bad_config(bad, node)));
            AgentConfig::default()
        })
    }

    /// The keys of an agent file. Flaws of that file are reported where the scenario names it.
    fn file_keys(&mut self, node: &YamlNode) -> Map<String, Value> {
        let Some(path) = self.text(node, "the path of an agent file") else { return Map::new() };
        (self.agent_files)(&path, &self.tools).unwrap_or_else(|problems| {
            for problem in problems {
                self.wrong(node.place, problem);
            }
            Map::new()
        })
    }

    pub(super) fn spaces(&mut self, node: &YamlNode, cast: &mut Cast) -> Vec<Room> {
        let mut spaces: Vec<Room> = Vec::new();
        for (key, value) in self.map(node, "a mapping from handles to lists of members") {
            let Some(name) = self.handle(key.place, &key.text) else { continue };
            if cast.spaces.contains(&name) {
                self.wrong(key.place, format!("the handle `{name}` is used for two spaces"));
                continue;
            }
            if spaces.len() == bounds::CAST_MAX {
                self.wrong(key.place, format!("wanted at most {} spaces", bounds::CAST_MAX));
                break;
            }
            cast.spaces.push(name.clone());
            spaces.push(self.space(name, value, cast));
        }
        spaces
    }

    /// A space: a list of members, or a mapping.
    fn space(&mut self, name: String, node: &YamlNode, cast: &Cast) -> Room {
        let mut room = Room { name, ..Room::default() };
        let Is::Map(pairs) = &node.is else {
            room.members = self.members(node, cast);
            return room;
        };
        for (key, value) in pairs {
            match key.text.as_str() {
                "members" => room.members = self.members(value, cast),
                "wake_on" => {
                    let wanted = "`all` or `mention`";
                    let Some(words) = self.text(value, wanted) else { continue };
                    match WakeOn::try_from(&*words).ok() {
                        Some(rule) => room.wake_on = rule,
                        None => self.wrong(value.place, format!("wanted {wanted}, got `{}`", shown(&words))),
                    }
                }
                _ => self.unknown(key, &["members", "wake_on"]),
            }
        }
        room
    }

    fn members(&mut self, node: &YamlNode, cast: &Cast) -> Vec<String> {
        let mut members: Vec<String> = Vec::new();
        for item in self.list(node, "a list of members such as `[husam, ada]`", 2 * bounds::CAST_MAX) {
            let Some(text) = self.text(item, "a handle") else { continue };
            let Some(member) = self.known(item.place, "person or agent", &text, &cast.actors) else {
                continue;
            };
            if members.contains(&member) {
                self.wrong(item.place, format!("`{member}` is listed twice"));
            } else {
                members.push(member);
            }
        }
        members
    }
}

/// The names of tools in the value of a config key.
fn tool_names<'n>(key: &str, value: &'n YamlNode) -> Vec<&'n YamlNode> {
    let items = |node: &'n YamlNode| match &node.is {
        Is::List(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    let below = |node: &'n YamlNode, wanted: &str| match &node.is {
        Is::Map(pairs) => {
            let found = pairs.iter().filter(|(key, _)| key.text == wanted);
            found.flat_map(|(_, value)| items(value)).collect()
        }
        _ => Vec::new(),
    };
    match key {
        "tools" | "approve" => items(value),
        "stop" => below(value, "on_tools"),
        "gates" => items(value).into_iter().flat_map(|gate| below(gate, "active_tools")).collect(),
        _ => Vec::new(),
    }
}

/// Overrides a value by another. Two mappings are merged key by key.
fn override_with(under: &mut Value, above: Value) {
    match (under, above) {
        (Value::Object(under), Value::Object(above)) => {
            for (key, value) in above {
                override_with(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, above) => *under = above,
    }
}

/// A flaw at the position of the bad config key.
fn bad_config(bad: &BadConfig, node: &YamlNode) -> FileFlaw {
    let text = bad.to_string();
    let path = bad.key().unwrap_or("");
    let place = node.place_of(path).unwrap_or(node.place);
    match bad {
        BadConfig::UnknownKey { key, nearest } if !key.contains('.') => {
            let own = nearest.is_none().then(|| meant(key, OWN_KEYS.iter().copied()));
            let own = own.filter(|hint| hint.contains("did you mean")).unwrap_or_default();
            FileFlaw::new(place, format!("{}{own}", shown(&text)))
        }
        _ => FileFlaw::new(place, text),
    }
}
