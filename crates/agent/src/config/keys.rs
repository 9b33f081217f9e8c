//! The table of all config keys of an agent. It is used to check bounds, to generate the documentation and to
//! show configs. A test keeps it equal to the type.

use std::fmt;

use serde_json::Value;

use super::{AgentConfig, Awareness, Placement, ReplyMode, SummaryBy, WakeOn};
use crate::guard::GuardMode;
use crate::limits;

/// One key of an agent's config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigKey {
    /// Its name with its path, such as `limits.max_steps`.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: ValueKind,
    /// Which values are accepted.
    pub bound: Bound,
    /// When a change takes effect.
    pub takes_effect: TakesEffect,
    /// Its description, one sentence.
    pub doc: &'static str,
}

/// The kind of a key's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A text.
    Text,
    /// A text, or `null`.
    MaybeText,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Whole,
    /// A list of names.
    Names,
    /// A list of names, or `null`.
    MaybeNames,
    /// Gates by range of steps, or the name of a preset.
    Gates,
    /// Rules that choose a model.
    Routes,
    /// Exchanges of a message and a reply.
    Examples,
    /// Plans.
    Plans,
    /// [`HeartbeatTerms`](crate::plan::HeartbeatTerms), or null.
    Heartbeat,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// Which values of a kind are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// All.
    None,
    /// From the first to the second, inclusive; [`u64::MAX`] means no upper bound.
    Range(u64, u64),
    /// A text of at most so many bytes.
    Bytes(usize),
}

/// When a changed key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakesEffect {
    /// In the next cycle. An open cycle keeps the revision that it was opened with.
    NextCycle,
    /// For all events that are accepted, and all calls that are approved, from now on.
    AtOnce,
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::MaybeText => "text or null",
            Self::Flag => "true or false",
            Self::Whole => "whole number",
            Self::Names => "list of names",
            Self::MaybeNames => "list of names or null",
            Self::Gates => "`observe-think-respond` or list of gates",
            Self::Routes => "list of rules",
            Self::Examples => "list of exchanges",
            Self::Plans => "list of plans",
            Self::Heartbeat => "`every`, `from`, `to`, `zone`, or null",
            Self::OneOf(words) => return f.write_str(&words.join(" or ")),
        })
    }
}

impl Bound {
    /// Whether a number, or a number of bytes, is accepted.
    pub fn accepts(self, given: u64) -> bool {
        match self {
            Self::None => true,
            Self::Range(least, most) => (least..=most).contains(&given),
            Self::Bytes(most) => given <= most as u64,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Range(least, u64::MAX) => write!(f, "at least {least}"),
            Self::Range(least, most) => write!(f, "{least} to {most}"),
            Self::Bytes(most) => write!(f, "at most {most} bytes"),
        }
    }
}

impl fmt::Display for TakesEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NextCycle => "next cycle",
            Self::AtOnce => "at once",
        })
    }
}

impl ConfigKey {
    /// Its default value.
    pub fn default(&self) -> Value {
        self.of(&AgentConfig::default().to_json()).cloned().unwrap_or(Value::Null)
    }

    /// Its value in a config in the form of [`AgentConfig::to_json`].
    pub fn of<'a>(&self, config: &'a Value) -> Option<&'a Value> {
        self.name.split('.').try_fold(config, |value, part| value.get(part))
    }
}

const fn key(
    name: &'static str,
    kind: ValueKind,
    bound: Bound,
    takes_effect: TakesEffect,
    doc: &'static str,
) -> ConfigKey {
    ConfigKey { name, kind, bound, takes_effect, doc }
}

use Bound::{Bytes, Range};
use TakesEffect::{AtOnce, NextCycle};
use ValueKind::{
    Examples, Flag, Gates, Heartbeat, MaybeNames, MaybeText, Names, OneOf, Plans, Routes, Text, Whole,
};

const MILLISECONDS: Bound = Range(1, 3_600_000);

/// All keys, in the order in which they are shown.
pub const KEYS: [ConfigKey; 46] = [
    key("description", Text, Bound::None, NextCycle, "One sentence for people and other agents."),
    key(
        "instructions",
        Text,
        Bytes(limits::INSTRUCTIONS_MAX_BYTES),
        NextCycle,
        "Who the agent is and what it does, for the model; the body of an agent file.",
    ),
    key(
        "examples",
        Examples,
        Bound::None,
        NextCycle,
        "Up to 32 exchanges (`message`, `reply`) that the model is shown before its history; needs `reply: text`.",
    ),
    key(
        "model",
        MaybeText,
        Bound::None,
        NextCycle,
        "The agent's model, as `provider/model`; `null` is the server's default.",
    ),
    key(
        "fallback",
        Names,
        Bound::None,
        NextCycle,
        "Models to call, in this order, when the provider of the one before cannot serve.",
    ),
    key(
        "routing",
        Routes,
        Bound::None,
        NextCycle,
        "Other models for some steps: `from`, `to`, `above_tokens`, `up_to_tokens`, `model`; the first matching rule applies.",
    ),
    key(
        "tools",
        MaybeNames,
        Bound::None,
        NextCycle,
        "Tools that the agent may use; `null` means only the prebuilt ones.",
    ),
    key(
        "awareness",
        OneOf(&Awareness::NAMES),
        Bound::None,
        NextCycle,
        "What the agent notices during a cycle.",
    ),
    key("urgency.all", Flag, Bound::None, AtOnce, "Every event is urgent."),
    key("urgency.mentions", Flag, Bound::None, AtOnce, "A person's message that names the agent is urgent."),
    key(
        "urgency.senders",
        Names,
        Bound::None,
        AtOnce,
        "Events of these senders are urgent: handles of members, names of services.",
    ),
    key(
        "urgency.patterns",
        Names,
        Bound::None,
        AtOnce,
        "An event of a person or a service is urgent if its text contains one of these: any case, `*` matches anything.",
    ),
    key(
        "gates",
        Gates,
        Bound::None,
        NextCycle,
        "Which tools may be called in which steps: `from`, `to`, `active_tools`, `tool_choice`; `skip` and `done` are always allowed.",
    ),
    key(
        "barrier",
        Flag,
        Bound::None,
        NextCycle,
        "A call that cannot be repeated is held back if its requester has sent an urgent event in the meantime.",
    ),
    key(
        "guard",
        OneOf(GuardMode::NAMES),
        Bound::None,
        NextCycle,
        "While strangers' text is in what the model reads: with `ask` a person must approve every call by which something can leave; `strict` refuses such calls, and those that cannot be undone; `off` does nothing.",
    ),
    key(
        "approve",
        Names,
        Bound::None,
        NextCycle,
        "Outward tools, by name or pattern, whose calls run only after a person has approved them.",
    ),
    key(
        "approvers",
        Names,
        Bound::None,
        AtOnce,
        "The only people who may approve its calls, apart from operators: by handle, from whatever space, or as `role:NAME` those who have that role in the space of the call; at most 16. Without it: all people of the space.",
    ),
    key(
        "triage",
        OneOf(&["off", "rules"]),
        Bound::None,
        NextCycle,
        "With `rules`, events that are not addressed to the agent are skipped without a model call.",
    ),
    key(
        "workspace.show",
        Names,
        Bound::None,
        NextCycle,
        "What the model is shown beside the inbox: any of `clock`, `spaces`, `goals`, `memories`, `plans`, `calls`, `messages`.",
    ),
    key(
        "workspace.placement",
        OneOf(Placement::NAMES),
        Bound::None,
        NextCycle,
        "With `append` the workspace stays where it was sent until the history is compacted, and later cycles are shown what has changed; with `fresh` it vanishes, and each cycle is shown the whole.",
    ),
    key(
        "history.max_entries",
        Whole,
        Range(2, 400),
        NextCycle,
        "Entries of its history that the model is shown; beyond it, the oldest cycles are left out until half of it remains.",
    ),
    key(
        "history.summary",
        OneOf(SummaryBy::NAMES),
        Bound::None,
        NextCycle,
        "Who writes the summary of what is left out: a `model` (where it fails, as `digest`), `digest`: a line per cycle by rule, or nobody.",
    ),
    key(
        "history.summary_model",
        MaybeText,
        Bound::None,
        NextCycle,
        "The model that writes it; `null` is the agent's own.",
    ),
    key("limits.max_steps", Whole, Range(1, 1_000), NextCycle, "Steps of one cycle."),
    key(
        "limits.token_budget",
        Whole,
        Range(1_000, u64::MAX),
        NextCycle,
        "Tokens of one cycle as they are paid: the sum over its steps of what is sent and generated, cached tokens at their share of the price.",
    ),
    key(
        "limits.wall_clock",
        Whole,
        Range(1_000, u64::MAX),
        NextCycle,
        "Milliseconds that one cycle may be awake; parked time does not count.",
    ),
    key(
        "limits.consecutive_mistake_limit",
        Whole,
        Range(1, 100),
        NextCycle,
        "Consecutive steps whose calls all failed, after which a cycle ends.",
    ),
    key(
        "limits.max_attempts",
        Whole,
        Range(1, 100),
        NextCycle,
        "Failed attempts after which an event is dead; after its first decision, the cycle fails instead.",
    ),
    key(
        "limits.model_retries",
        Whole,
        Range(0, 20),
        NextCycle,
        "Retries of a model call within one activation.",
    ),
    key(
        "limits.events_per_cycle",
        Whole,
        Range(1, 1_000),
        NextCycle,
        "Events that one activation takes; a cycle may be shown as many again while it runs.",
    ),
    key(
        "limits.inbox_max",
        Whole,
        Range(10, 1_000_000),
        AtOnce,
        "Maximum of waiting events; beyond it, events of services are refused, and messages in spaces are still accepted.",
    ),
    key(
        "limits.pause",
        Whole,
        Range(0, limits::PAUSE_MAX_MS),
        NextCycle,
        "Milliseconds that a cycle waits for a person's answer at most. Then, or as soon as another event wants the agent, it goes on, and the answer becomes an event.",
    ),
    key(
        "model_timeouts.connect",
        Whole,
        MILLISECONDS,
        NextCycle,
        "Milliseconds until the connection is established.",
    ),
    key(
        "model_timeouts.first_byte",
        Whole,
        MILLISECONDS,
        NextCycle,
        "Milliseconds until the first byte of the answer.",
    ),
    key("model_timeouts.idle", Whole, MILLISECONDS, NextCycle, "Milliseconds of silence between two bytes."),
    key("model_timeouts.total", Whole, MILLISECONDS, NextCycle, "Milliseconds for the whole generation."),
    key(
        "reply",
        OneOf(ReplyMode::NAMES),
        Bound::None,
        NextCycle,
        "What becomes of text without a call. `auto`: if the agent owes one person an answer, a notice explains once how to post; the second such text is posted. `tool`: it is private. `text`: it is posted at once, for models too small to call tools.",
    ),
    key(
        "stop.all_addressed",
        Flag,
        Bound::None,
        NextCycle,
        "A cycle ends when a message was posted to every space that an event came from.",
    ),
    key("stop.on_tools", Names, Bound::None, NextCycle, "A cycle ends when one of these tools was called."),
    key(
        "stop.require_tool",
        Flag,
        Bound::None,
        NextCycle,
        "A reply without calls does not end a cycle: the model is asked to call a tool, at most twice.",
    ),
    key(
        "debounce",
        Whole,
        Range(0, 60_000),
        AtOnce,
        "Milliseconds to wait for more events before an activation.",
    ),
    key(
        "wake_on",
        OneOf(WakeOn::NAMES),
        Bound::None,
        AtOnce,
        "`all`: every agent's message wakes it; `mention`: only one that names it. Messages of people always do.",
    ),
    key(
        "hop_limit",
        Whole,
        Range(1, 1_000),
        AtOnce,
        "Messages between agents that may descend from one root before further ones to this agent are held.",
    ),
    key(
        "plans",
        Plans,
        Bound::None,
        AtOnce,
        "Up to 100 plans that wake the agent: `name`, `instruction`, and one of `at`, `every` (with `from`) and `cron` (with `zone`); also `missed`, `max_lateness`.",
    ),
    key(
        "heartbeat",
        Heartbeat,
        Bound::None,
        AtOnce,
        "Wakes the agent at intervals, if it has open goals or something around it has changed: `every`; also `from` and `to`, times of the day in `zone`.",
    ),
    key("ephemeral", Flag, Bound::None, NextCycle, "Whether the agent is retired after its first cycle."),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(value: &Value, path: &str, out: &mut Vec<String>) {
        match value {
            Value::Object(below) => {
                for (key, value) in below {
                    let here = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    leaves(value, &here, out);
                }
            }
            _ => out.push(path.to_owned()),
        }
    }

    #[test]
    fn the_table_has_exactly_the_keys_of_the_type_in_its_order() {
        let mut known = Vec::new();
        leaves(&AgentConfig::default().to_json(), "", &mut known);
        assert_eq!(known, KEYS.map(|key| key.name));
    }

    #[test]
    fn each_default_is_of_its_kind_and_within_its_bound() {
        for key in KEYS {
            let default = key.default();
            let fits = match key.kind {
                Text => default.is_string(),
                MaybeText | MaybeNames | Heartbeat => default.is_null(),
                Flag => default.is_boolean(),
                Whole => default.as_u64().is_some_and(|given| key.bound.accepts(given)),
                Names | Gates | Routes | Examples | Plans => default.is_array(),
                OneOf(words) => default.as_str().is_some_and(|word| words.contains(&word)),
            };
            assert!(fits, "`{}` is {} and by default {default}", key.name, key.kind);
        }
    }

    #[test]
    fn each_choice_is_accepted_by_the_type() {
        for key in KEYS {
            let OneOf(words) = key.kind else { continue };
            for word in words {
                let path = key.name.rsplit('.');
                let config = path.fold(Value::from(*word), |below, part| serde_json::json!({ part: below }));
                assert!(AgentConfig::from_json(&config).is_ok(), "{config}");
            }
        }
    }

    #[test]
    fn bounds_are_shown_in_plain_words() {
        let read = [Bound::None, Range(1, 5), Range(7, u64::MAX), Bytes(9)].map(|bound| bound.to_string());
        assert_eq!(read, ["", "1 to 5", "at least 7", "at most 9 bytes"]);
    }
}
