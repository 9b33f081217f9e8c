//! Reads hooks, what is delivered to them, and the plans that operators set: what agents act on without a message.

use agent::id::PlanId;
use agent::plan::{PlanSource, PlanTerms};
use serde::Deserialize as _;
use serde_json::Value;

use super::cast::Cast;
use super::value::Reader;
use crate::bounds;
use crate::flaw::{FilePosition, shown};
use crate::scene::{SceneHook, StoryAction};
use crate::simulate;
use crate::yaml::{Is, YamlKey, YamlNode};

const PLAN_KEYS: &[&str] =
    &["name", "instruction", "at", "after", "every", "from", "cron", "zone", "missed", "max_lateness"];

impl Reader<'_> {
    pub(super) fn hooks(&mut self, node: &YamlNode, cast: &mut Cast) -> Vec<SceneHook> {
        let mut hooks = Vec::new();
        for (key, value) in self.map(node, "a mapping from names of hooks to agents") {
            let Some(name) = self.handle(key.place, &key.text) else { continue };
            if hooks.len() == bounds::CAST_MAX {
                self.wrong(key.place, format!("wanted at most {} hooks", bounds::CAST_MAX));
                break;
            }
            cast.hooks.push(name.clone());
            hooks.push(self.hook(name, key, value, cast));
        }
        hooks
    }

    /// A hook: who gets its events, or a mapping.
    fn hook(&mut self, name: String, key: &YamlKey, node: &YamlNode, cast: &Cast) -> SceneHook {
        let mut hook = SceneHook { name, ..SceneHook::default() };
        let Is::Map(pairs) = &node.is else {
            hook.to = self.receivers(node, cast);
            return hook;
        };
        for (key, value) in pairs {
            match key.text.as_str() {
                "to" => hook.to = self.receivers(value, cast),
                "template" => hook.template = self.text(value, "a template such as `{{ body.title }}`"),
                "only_if" => hook.only_if = self.text(value, "an expression such as `body.level == 'high'`"),
                "urgent" => hook.urgent = self.text(value, "an expression such as `body.level == 'high'`"),
                "trusted" => match value.json().as_bool() {
                    Some(trusted) => hook.trusted = trusted,
                    None => self.wrong(value.place, "wanted `true` or `false`"),
                },
                _ => self.unknown(key, &["to", "template", "only_if", "urgent", "trusted"]),
            }
        }
        if !pairs.iter().any(|(key, _)| key.text == "to") {
            self.wrong(key.place, "`to` is missing: name the agents that get what is delivered");
        }
        for why in self.known_hooks.check(&hook.declaration()).err().unwrap_or_default() {
            self.wrong(place_named(&why, node), why);
        }
        hook
    }

    fn receivers(&mut self, node: &YamlNode, cast: &Cast) -> Vec<String> {
        let names = self.texts(node, "an agent or a list of agents such as `[ada, bob]`");
        if names.is_empty() && matches!(node.is, Is::List(_)) {
            self.wrong(node.place, "wanted at least one agent, got none");
        }
        let found = names.iter().filter_map(|name| self.known(node.place, "agent", name, &cast.agents));
        found.collect()
    }

    pub(super) fn delivers(
        &mut self,
        key: &YamlKey,
        hook: &str,
        body: &YamlNode,
        id: Option<&str>,
        cast: &Cast,
    ) -> Option<StoryAction> {
        let hook = self.known(key.place, "hook", hook, &cast.hooks)?;
        if matches!(body.is, Is::Nothing) {
            let message = format!("wanted what is delivered after `{}:`, got nothing", shown(&key.text));
            self.wrong(key.place, message);
            return None;
        }
        Some(StoryAction::Delivers { hook, body: body.json(), id: id.map(str::to_owned) })
    }

    pub(super) fn plans(&mut self, agent: String, node: &YamlNode) -> Option<StoryAction> {
        let pairs = self.map(node, "a plan such as `{name: health, instruction: Look., every: 1h}`");
        let unknown: Vec<&YamlKey> =
            pairs.iter().map(|(key, _)| key).filter(|key| !PLAN_KEYS.contains(&key.text.as_str())).collect();
        unknown.iter().for_each(|key| self.unknown(key, PLAN_KEYS));
        if pairs.is_empty() || !unknown.is_empty() {
            return None;
        }
        let terms = self.terms(node, &node.json())?;
        Some(StoryAction::Plans { agent, terms })
    }

    /// A plan that is due without having been set: its name, and what the agent reads.
    pub(super) fn due(&mut self, agent: String, node: &YamlNode) -> Option<StoryAction> {
        let pairs = self.map(node, "a plan that is due, such as `{name: health, instruction: Look.}`");
        let known = ["name", "instruction"];
        let unknown: Vec<&YamlKey> =
            pairs.iter().map(|(key, _)| key).filter(|key| !known.contains(&key.text.as_str())).collect();
        unknown.iter().for_each(|key| self.unknown(key, &known));
        if pairs.is_empty() || !unknown.is_empty() {
            return None;
        }
        let mut once = node.json();
        // When it would be due does not matter.
        once["after"] = "1h".into();
        let PlanTerms { name, instruction, .. } = self.terms(node, &once)?;
        Some(StoryAction::Due { agent, name: name?, instruction: instruction? })
    }

    /// The terms of a plan that can be set.
    fn terms(&mut self, node: &YamlNode, terms: &Value) -> Option<PlanTerms> {
        let checked = PlanTerms::deserialize(terms).map_err(|error| error.to_string());
        let checked = checked.and_then(|terms| {
            let id = PlanId(uuid::Uuid::nil());
            let plan = terms.plan(id, None, PlanSource::Operator, simulate::start());
            plan.map(|_| terms).map_err(|why| why.to_string())
        });
        checked.map_err(|why| self.wrong(place_named(&why, node), why)).ok()
    }
}

/// The position of the key that a message names first; without one, that of the whole value.
fn place_named(message: &str, node: &YamlNode) -> FilePosition {
    let key = message.split('`').nth(1).unwrap_or_default();
    node.place_of(key).unwrap_or(node.place)
}
