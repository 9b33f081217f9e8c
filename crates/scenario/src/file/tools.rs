//! Reads the tools of a scenario.

use agent::call::Effect;
use agent::config::nearest;
use agent::tool::{ToolLabel, ToolLabels};
use serde_json::Value;

use super::value::Reader;
use crate::bounds;
use crate::flaw::shown;
use crate::scene::{SceneOutcome, SceneTool};
use crate::yaml::{Is, YamlKey, YamlNode};

/// The effects of a tool that reaches outside.
const EFFECTS: [&str; 3] = ["read_only", "idempotent", "unsafe"];

fn near(word: &str, names: &[&str]) -> String {
    let near = nearest(word, names.iter().copied());
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

impl Reader<'_> {
    pub(super) fn own_tools(&mut self, node: &YamlNode) -> Vec<SceneTool> {
        let mut own: Vec<SceneTool> = Vec::new();
        for (key, value) in self.map(node, "a mapping from names of tools to what they do") {
            if own.len() == bounds::CAST_MAX {
                self.wrong(key.place, format!("wanted at most {} tools", bounds::CAST_MAX));
                break;
            }
            let name = &key.text;
            let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
            if !(1..=64).contains(&name.len()) || !name.bytes().all(is_plain) {
                let wanted = "wanted a name of 1 to 64 characters from a-z, A-Z, 0-9, `_` and `-`";
                self.wrong(key.place, format!("{wanted}, got `{}`", shown(name)));
            } else if self.tools.contains(name) {
                let message = format!("every server has a tool `{name}`: give this one another name");
                self.wrong(key.place, message);
            } else {
                self.tools.push(name.clone());
                own.push(self.own_tool(key, value));
            }
        }
        own
    }

    fn own_tool(&mut self, key: &YamlKey, node: &YamlNode) -> SceneTool {
        let mut tool = SceneTool { name: key.text.clone(), ..SceneTool::default() };
        for (key, value) in self.map(node, "what the tool does, such as `{effect: read_only, outcome: ok}`") {
            match key.text.as_str() {
                "effect" => {
                    let effect = value.words().and_then(|word| word.parse::<Effect>().ok());
                    match effect.filter(|effect| *effect != Effect::Inward) {
                        Some(effect) => tool.effect = effect,
                        None => {
                            let wanted = "wanted `read_only`, `idempotent` or `unsafe`";
                            let hint = near(value.words().unwrap_or_default(), &EFFECTS);
                            self.wrong(value.place, format!("{wanted}, got {}{hint}", value.kind()));
                        }
                    }
                }
                "labels" => tool.labels = self.labels(value),
                "description" => tool.description = self.text(value, "a text").unwrap_or_default(),
                "input" => match value.json() {
                    schema @ Value::Object(_) => tool.input = Some(schema),
                    _ => self.wrong(value.place, format!("wanted a JSON Schema, got {}", value.kind())),
                },
                "outcome" => {
                    let each = match &value.is {
                        Is::List(items) => items.as_slice(),
                        _ => std::slice::from_ref(value),
                    };
                    tool.outcomes = each.iter().filter_map(|one| self.outcome(one)).collect();
                }
                _ => self.unknown(key, &["effect", "labels", "description", "input", "outcome"]),
            }
        }
        if matches!(&node.is, Is::Map(pairs) if !pairs.iter().any(|(key, _)| key.text == "outcome")) {
            self.wrong(key.place, "`outcome` is missing: say what the tool returns");
        }
        tool
    }

    /// A text, or `{error: TEXT}` for a call that fails.
    fn outcome(&mut self, node: &YamlNode) -> Option<SceneOutcome> {
        let wanted = "what the tool returns: a text, `{error: TEXT}`, or a list with one for each call";
        let (node, failed) = match &node.is {
            Is::Map(pairs)
                if let [(key, value)] = pairs.as_slice()
                    && key.text == "error" =>
            {
                (value, true)
            }
            _ => (node, false),
        };
        Some(SceneOutcome { text: self.text(node, wanted)?, failed })
    }

    fn labels(&mut self, node: &YamlNode) -> ToolLabels {
        let names = self.texts(node, "a list of labels");
        let labels = names.iter().filter_map(|name| {
            let label = name.parse::<ToolLabel>().ok();
            if label.is_none() {
                let wanted = "wanted `private`, `exfiltrates` or `outside`";
                let hint = near(name, ToolLabel::NAMES);
                self.wrong(node.place, format!("{wanted}, got `{}`{hint}", shown(name)));
            }
            label
        });
        labels.collect()
    }
}
