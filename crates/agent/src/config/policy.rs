//! The config values that decide before each step: which events are urgent, which tools may be called when, and
//! which model answers. `prepare` applies them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tool::names;

/// What an agent notices during a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Awareness {
    /// Nothing: new events wait for the next cycle.
    #[serde(rename = "none")]
    None,
    /// A preview of waiting events, not kept in the log.
    #[serde(rename = "preview")]
    Preview,
    /// Urgent events in full. The step that shows them processes them.
    #[serde(rename = "inject")]
    Inject,
    /// Both.
    #[default]
    #[serde(rename = "preview+inject")]
    PreviewInject,
    /// Both, and an urgent event aborts the generation in flight.
    #[serde(rename = "interrupt")]
    Interrupt,
}

impl Awareness {
    /// The names of all modes in a config.
    pub const NAMES: [&'static str; 5] = ["none", "preview", "inject", "preview+inject", "interrupt"];

    /// Whether a preview of waiting events is shown.
    pub fn previews(self) -> bool {
        matches!(self, Self::Preview | Self::PreviewInject | Self::Interrupt)
    }

    /// Whether urgent events are shown in full.
    pub fn injects(self) -> bool {
        matches!(self, Self::Inject | Self::PreviewInject | Self::Interrupt)
    }
}

/// Which events are urgent, in addition to those that the sender marks and to the default: a person's message to
/// an agent whose open cycle the same person started in the same space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Urgency {
    /// Every event is urgent.
    pub all: bool,
    /// A person's message that names the agent is urgent.
    pub mentions: bool,
    /// Events of these senders are urgent: handles of members, names of services.
    pub senders: Vec<String>,
    /// An event of a person or a service is urgent if its text contains one of these: any case, `*` matches
    /// anything.
    pub patterns: Vec<String>,
}

impl Urgency {
    /// Whether `text` contains one of the patterns.
    pub fn matches(&self, text: &str) -> bool {
        if self.patterns.is_empty() {
            return false;
        }
        let text = text.to_lowercase();
        self.patterns.iter().any(|pattern| occurs(&pattern.to_lowercase(), &text))
    }

    /// Whether `senders` contains the sender.
    pub fn names(&self, sender: &str) -> bool {
        self.senders.iter().any(|named| named.trim_start_matches('@').eq_ignore_ascii_case(sender))
    }
}

/// Whether `text` contains the pieces of `pattern` between its stars, in order.
fn occurs(pattern: &str, text: &str) -> bool {
    let mut rest = text;
    for piece in pattern.split('*').filter(|piece| !piece.is_empty()) {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    !pattern.is_empty()
}

/// Whether tools may, must or must not be called in the steps of a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WantedChoice {
    /// Tools may be called.
    #[default]
    Auto,
    /// A tool must be called: forced if the vendor allows it, otherwise requested in the prompt.
    Required,
    /// Only tools that end the cycle may be called.
    None,
}

/// Which tools may be called in a range of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gate {
    /// First step, from 0.
    pub from: u32,
    /// Last step; `None` means without end.
    pub to: Option<u32>,
    /// Tools that may be called; `None` is all. `skip` and `done` are always allowed.
    pub active_tools: Option<Vec<String>>,
    /// Whether tools may, must or must not be called.
    pub tool_choice: WantedChoice,
}

impl Gate {
    /// Whether it covers the step.
    pub fn covers(&self, step: u32) -> bool {
        step >= self.from && self.to.is_none_or(|to| step <= to)
    }

    /// Whether the tool may be called in its steps.
    pub fn allows(&self, tool: &str) -> bool {
        let ends = tool == names::SKIP || tool == names::DONE;
        let active = self.active_tools.as_ref().is_none_or(|active| active.iter().any(|name| name == tool));
        ends || (active && self.tool_choice != WantedChoice::None)
    }

    /// Its steps in words.
    pub fn steps(&self) -> String {
        match self.to {
            Some(to) if to == self.from => format!("step {to}"),
            Some(to) => format!("steps {} to {to}", self.from),
            None => format!("from step {} on", self.from),
        }
    }
}

/// Gates by range of steps, or a preset of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gates {
    /// Gates whose ranges do not overlap.
    List(Vec<Gate>),
    /// The agent first reads, then may use all tools, then answers.
    ObserveThinkRespond,
}

impl Gates {
    /// The name of the one preset.
    pub const PRESET: &'static str = "observe-think-respond";

    /// The step from which on the preset does not change.
    pub(super) const PRESET_LAST: u32 = 7;

    /// The gate that covers the step.
    pub fn at(&self, step: u32) -> Option<Gate> {
        match self {
            Self::List(gates) => gates.iter().find(|gate| gate.covers(step)).cloned(),
            Self::ObserveThinkRespond => preset().into_iter().find(|gate| gate.covers(step)),
        }
    }
}

impl Default for Gates {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

fn preset() -> [Gate; 3] {
    let gate = |from, to, tools: Option<&[&str]>| Gate {
        from,
        to,
        active_tools: tools.map(|tools| tools.iter().map(|&tool| tool.to_owned()).collect()),
        tool_choice: WantedChoice::Auto,
    };
    [
        gate(0, Some(1), Some(&["enter_space", "read_messages", "get_my_runs"])),
        gate(2, Some(6), None),
        gate(Gates::PRESET_LAST, None, Some(&["send_message", "enter_space", "set_memories", "set_goals"])),
    ]
}

impl Serialize for Gates {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::List(gates) => gates.serialize(to),
            Self::ObserveThinkRespond => to.serialize_str(Self::PRESET),
        }
    }
}

impl<'de> Deserialize<'de> for Gates {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(from)?;
        match &value {
            serde_json::Value::String(name) if name == Self::PRESET => Ok(Self::ObserveThinkRespond),
            serde_json::Value::Array(_) => {
                serde_json::from_value(value).map(Self::List).map_err(D::Error::custom)
            }
            other => {
                Err(D::Error::custom(format!("got {other}, expected `{}` or a list of gates", Self::PRESET)))
            }
        }
    }
}

/// Another model for some steps. The first matching rule applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Route {
    /// First step, from 0.
    pub from: u32,
    /// Last step; `None` means without end.
    pub to: Option<u32>,
    /// Only if the window has more tokens than this.
    pub above_tokens: Option<u64>,
    /// Only if the window has at most this many tokens.
    pub up_to_tokens: Option<u64>,
    /// The model for these steps.
    pub model: String,
}

impl Route {
    /// Whether the rule matches a step with a window of so many tokens.
    pub fn fits(&self, step: u32, tokens: u64) -> bool {
        step >= self.from
            && self.to.is_none_or(|to| step <= to)
            && self.above_tokens.is_none_or(|above| tokens > above)
            && self.up_to_tokens.is_none_or(|most| tokens <= most)
    }
}

/// What is decided about an activation without a model call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Triage {
    /// Nothing: the agent itself decides.
    #[default]
    Off,
    /// Events that are not addressed to the agent are skipped without a model call.
    Rules,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_anywhere_in_any_case_and_a_star_matches_anything() {
        let check = |pattern: &str, text: &str, expected: bool| {
            let urgency = Urgency { patterns: vec![pattern.into()], ..Urgency::default() };
            assert_eq!(urgency.matches(text), expected, "`{pattern}` in `{text}`");
        };
        check("stop", "Please STOP now", true);
        check("prod*down", "prod db is down", true);
        check("prod*down", "down, prod", false);
        check("", "anything", false);
        check("*", "anything", true);
        check("**", "", true);
        check("*stop*", "do stop", true);
    }

    #[test]
    fn skip_and_done_are_allowed_under_any_gate() {
        let gate =
            Gate { active_tools: Some(Vec::new()), tool_choice: WantedChoice::None, ..Gate::default() };
        assert!(gate.allows("skip") && gate.allows("done") && !gate.allows("send_message"));
    }

    #[test]
    fn the_preset_reads_then_allows_all_then_answers() {
        let may = |step, tool| Gates::ObserveThinkRespond.at(step).unwrap().allows(tool);
        assert!(may(1, "read_messages") && !may(1, "send_message"));
        assert!(may(2, "send_message") && may(6, "set_plans"));
        assert!(may(7, "send_message") && !may(40, "set_plans"));
    }
}
