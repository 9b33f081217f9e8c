//! Reads scripts: rules with a condition and steps.

use serde_json::Value;

use super::cast::Cast;
use super::value::Reader;
use super::{listed, section};
use crate::bounds;
use crate::flaw::{meant, shown};
use crate::scene::{Act, Actor, Condition, Rule};
use crate::yaml::{Is, YamlKey, YamlNode};

/// The keys for actions of a scripted agent.
const ACTS: &[&str] = &["think", "wait", "say", "say in SPACE", "call TOOL", "miscall", "skip", "done"];

impl Reader<'_> {
    /// Reads the scripts of all agents, after all spaces are known.
    pub(super) fn scripts(&mut self, agents: Option<&YamlNode>, actors: &mut [Actor], cast: &Cast) {
        let Some(YamlNode { is: Is::Map(pairs), .. }) = agents else { return };
        for (key, value) in pairs {
            let Is::Map(keys) = &value.is else { continue };
            let Some(actor) = actors.iter_mut().find(|actor| actor.name == key.text.to_lowercase()) else {
                continue;
            };
            if let Some(node) = section(keys, "script") {
                actor.script = Some(self.script(node, cast));
            }
        }
    }

    fn script(&mut self, node: &YamlNode, cast: &Cast) -> Vec<Rule> {
        // A single rule needs no list.
        if matches!(node.is, Is::Map(_) | Is::Scalar { .. }) {
            return vec![self.rule(node, cast)];
        }
        let rules = self.list(node, "a list of rules", bounds::LINES_MAX);
        if rules.is_empty() {
            self.wrong(node.place, "a script needs a rule, such as `- say: hello`");
        }
        rules.iter().map(|rule| self.rule(rule, cast)).collect()
    }

    fn rule(&mut self, node: &YamlNode, cast: &Cast) -> Rule {
        let mut rule = Rule::default();
        let Is::Map(pairs) = &node.is else {
            rule.steps.push(self.step(node, cast));
            return rule;
        };
        if let Some(when) = section(pairs, "when") {
            rule.when = self.condition(when);
        }
        let acts: Vec<&(YamlKey, YamlNode)> =
            pairs.iter().filter(|(key, _)| !matches!(key.text.as_str(), "when" | "steps")).collect();
        match section(pairs, "steps") {
            Some(steps) => {
                if let Some((key, _)) = acts.first() {
                    let message = format!("`{}` belongs in one of the `steps`", shown(&key.text));
                    self.wrong(key.place, message);
                }
                for step in self.list(steps, "a list of steps", bounds::LINES_MAX) {
                    let step = self.step(step, cast);
                    rule.steps.push(step);
                }
            }
            None if acts.is_empty() => {
                self.wrong(node.place, format!("a rule needs something to do: {}", listed(ACTS)));
            }
            None => rule.steps.push(acts.iter().filter_map(|(k, v)| self.act(k, v, cast)).collect()),
        }
        rule
    }

    fn condition(&mut self, node: &YamlNode) -> Condition {
        let mut condition = Condition::default();
        let Is::Map(pairs) = &node.is else {
            condition.inbox = self.texts(node, "texts that the inbox must contain");
            return condition;
        };
        for (key, value) in pairs {
            match key.text.as_str() {
                "inbox" => condition.inbox = self.texts(value, "texts that the inbox must contain"),
                "shown" => condition.shown = self.texts(value, "texts that it must be shown meanwhile"),
                "knows" => condition.knows = self.texts(value, "texts that the agent must have seen"),
                "cycle" => {
                    let number = value.words().and_then(|words| words.parse::<u64>().ok());
                    match number.filter(|number| *number > 0) {
                        Some(number) => condition.cycle = Some(number),
                        None => {
                            let message =
                                format!("wanted the number of a cycle from 1 on, got {}", value.kind());
                            self.wrong(value.place, message);
                        }
                    }
                }
                _ => self.unknown(key, &["inbox", "shown", "knows", "cycle"]),
            }
        }
        condition
    }

    /// The actions of one step: a mapping, or a word such as `skip`.
    fn step(&mut self, node: &YamlNode, cast: &Cast) -> Vec<Act> {
        match &node.is {
            Is::Map(pairs) => pairs.iter().filter_map(|(key, value)| self.act(key, value, cast)).collect(),
            Is::Scalar { written, .. } => {
                let key = YamlKey { place: node.place, text: written.clone() };
                let nothing = YamlNode { place: node.place, is: Is::Nothing };
                self.act(&key, &nothing, cast).into_iter().collect()
            }
            // A list allows the same key twice in a step, such as two messages to one space.
            Is::List(items) => items.iter().flat_map(|item| self.step(item, cast)).collect(),
            Is::Nothing => {
                self.wrong(node.place, format!("wanted a step with {}, got nothing", listed(ACTS)));
                Vec::new()
            }
        }
    }

    fn act(&mut self, key: &YamlKey, value: &YamlNode, cast: &Cast) -> Option<Act> {
        let words: Vec<&str> = key.text.split_whitespace().collect();
        match words.as_slice() {
            ["think"] => self.text(value, "its private text").map(Act::Think),
            ["wait"] => self.time(value).map(Act::Wait),
            ["say"] => {
                let text = self.text(value, "the text of the message")?;
                Some(Act::Say { space: None, text })
            }
            ["say", "in", space] => {
                let space = self.known(key.place, "space", space, &cast.spaces);
                let text = self.text(value, "the text of the message")?;
                Some(Act::Say { space: Some(space?), text })
            }
            ["call", tool] => {
                let tool = self.tool(key.place, tool)?;
                Some(Act::Call { tool, arguments: arguments(Some(value)) })
            }
            ["miscall"] => self.miscall(value),
            ["skip"] => Some(Act::Skip(self.remark(value))),
            ["done"] => Some(Act::Done(self.remark(value))),
            _ => {
                let hint = meant(&key.text, ACTS.iter().copied());
                let message = format!("`{}` is not a known action{hint}", shown(&key.text));
                self.wrong(key.place, message);
                None
            }
        }
    }

    /// A call of a tool that there is not. Its name is whatever a model wrote.
    fn miscall(&mut self, node: &YamlNode) -> Option<Act> {
        let pairs =
            self.map(node, "the call of a tool that there is not, such as `{tool: sing, arguments: {}}`");
        let known = ["tool", "arguments"];
        let others: Vec<&YamlKey> =
            pairs.iter().map(|(key, _)| key).filter(|key| !known.contains(&key.text.as_str())).collect();
        others.iter().for_each(|key| self.unknown(key, &known));
        match section(pairs, "tool").and_then(|tool| tool.words()) {
            Some(tool) if self.tools.iter().any(|there| there == tool) => {
                let tool = shown(tool);
                self.wrong(node.place, format!("there is a tool `{tool}`: `call {tool}` calls it"));
                None
            }
            Some(tool) => {
                let arguments = arguments(section(pairs, "arguments"));
                Some(Act::Miscall { tool: tool.to_owned(), arguments })
            }
            None if pairs.is_empty() => None,
            None => {
                self.wrong(node.place, "`tool` is missing: the name that the agent calls");
                None
            }
        }
    }

    fn remark(&mut self, value: &YamlNode) -> Option<String> {
        if matches!(value.is, Is::Nothing) { None } else { self.text(value, "a short text") }
    }
}

/// The arguments of a call; none are an empty object.
fn arguments(node: Option<&YamlNode>) -> Value {
    match node {
        None | Some(YamlNode { is: Is::Nothing, .. }) => Value::Object(serde_json::Map::new()),
        Some(value) => value.json(),
    }
}
