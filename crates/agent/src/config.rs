//! The agent's config: every key, its type, default and bound (SYSTEM.md §13). Revisions are
//! append-only and pinned at a cycle's opening, so an edit is live at the next cycle.
//!
//! Only keys that do something are known; an unknown one is an error that names the nearest.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;

/// What an agent is and how it lives. All keys are optional but `name`, which is the entity's
/// handle and is kept there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// One sentence for people and other agents.
    pub description: String,
    /// Who the agent is and what it does, for the model. At most 256 KiB.
    pub instructions: String,
    /// Which model thinks, as `provider/model` or a name that the server knows; `null` is the
    /// server's default.
    pub model: Option<String>,
    /// Names of the tools it may use; `null` is all prebuilt ones.
    pub tools: Option<Vec<String>>,
    /// What it notices in the middle of a cycle.
    pub awareness: Awareness,
    /// Bounds of its cycles.
    pub limits: Limits,
    /// Time-outs of its model calls.
    pub model_timeouts: ModelTimeouts,
    /// When a cycle ends besides the natural end.
    pub stop: Stop,
    /// Milliseconds to wait for more before waking, 0 to 60 000.
    pub debounce: u64,
    /// Which agents' messages wake it.
    pub wake_on: WakeOn,
    /// Agent-to-agent messages per causal root before they are held, 1 to 1 000.
    pub hop_limit: u32,
    /// Retired at its first rest.
    pub ephemeral: bool,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            description: String::new(),
            instructions: String::new(),
            model: None,
            tools: None,
            awareness: Awareness::default(),
            limits: Limits::default(),
            model_timeouts: ModelTimeouts::default(),
            stop: Stop::default(),
            debounce: 0,
            wake_on: WakeOn::default(),
            hop_limit: limits::HOP_LIMIT,
            ephemeral: false,
        }
    }
}

/// What an agent notices in the middle of a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awareness {
    /// Nothing: what comes waits for the next cycle.
    #[default]
    None,
}

/// Which agents' messages wake an agent. People's always do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeOn {
    /// All of them.
    #[default]
    All,
    /// Only those that name it; the others are settled as skipped.
    Mention,
}

/// Bounds of a cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Steps of one cycle, 1 to 1 000.
    pub max_steps: u32,
    /// Tokens of one cycle: its entries once each and all that is generated; from 1 000.
    pub token_budget: u64,
    /// Wall clock of one cycle in milliseconds, from 1 000.
    pub wall_clock: u64,
    /// Steps in a row whose calls all failed, 1 to 100.
    pub consecutive_mistake_limit: u32,
    /// Attempts that content may fail before it is given up, 1 to 100.
    pub max_attempts: u32,
    /// Retries of a model call within one waking, 0 to 20.
    pub model_retries: u32,
    /// Events that one waking takes, 1 to 1 000.
    pub events_per_cycle: u32,
    /// Events that may wait, 10 to 1 000 000.
    pub inbox_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_steps: limits::MAX_STEPS,
            token_budget: limits::TOKEN_BUDGET,
            wall_clock: limits::WALL_CLOCK_MS,
            consecutive_mistake_limit: limits::MISTAKE_LIMIT,
            max_attempts: limits::MAX_ATTEMPTS,
            model_retries: limits::MODEL_RETRIES,
            events_per_cycle: limits::EVENTS_PER_CYCLE,
            inbox_max: limits::INBOX_MAX,
        }
    }
}

/// Time-outs of a model call, in milliseconds, 1 to 3 600 000 each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelTimeouts {
    /// Until the connection stands.
    pub connect: u64,
    /// Until the first byte of the answer.
    pub first_byte: u64,
    /// Silence between two bytes.
    pub idle: u64,
    /// The whole generation.
    pub total: u64,
}

impl Default for ModelTimeouts {
    fn default() -> Self {
        Self {
            connect: limits::MODEL_CONNECT_MS,
            first_byte: limits::MODEL_FIRST_BYTE_MS,
            idle: limits::MODEL_IDLE_MS,
            total: limits::MODEL_TOTAL_MS,
        }
    }
}

/// When a cycle ends besides the natural end (no calls) and `done`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stop {
    /// A message was sent to every space that an event came from.
    pub all_addressed: bool,
    /// One of these tools was called.
    pub on_tools: Vec<String>,
    /// A bare text does not end the cycle: a nudge follows, at most twice.
    pub require_tool: bool,
}

/// Why a value is not an agent's config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConfig {
    /// A key that means nothing.
    #[error("unknown key `{key}`{}", nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownKey {
        /// The key with its path, such as `limits.max_step`.
        key: String,
        /// The known key that is most like it.
        nearest: Option<String>,
    },
    /// A value of the wrong type.
    #[error("{0}")]
    WrongType(String),
    /// A value outside its bound.
    #[error("`{key}` must be {wanted}, got {got}")]
    OutOfBounds {
        /// The key with its path.
        key: &'static str,
        /// The bound in words.
        wanted: String,
        /// What was given.
        got: String,
    },
}

impl AgentConfig {
    /// Reads a config from JSON; missing keys take their defaults.
    pub fn from_json(value: &Value) -> Result<Self, BadConfig> {
        let known = Self::default().to_json();
        check_keys(value, &known, "")?;
        let config: Self =
            serde_json::from_value(value.clone()).map_err(|error| wrong_type(value, &error))?;
        config.check()?;
        Ok(config)
    }

    /// `self` with the keys of `patch` over it. Objects merge, everything else replaces.
    pub fn amended(&self, patch: &Value) -> Result<Self, BadConfig> {
        let mut merged = self.to_json();
        check_keys(patch, &merged, "")?;
        merge(&mut merged, patch);
        Self::from_json(&merged)
    }

    /// The config with every key.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    fn check(&self) -> Result<(), BadConfig> {
        let l = &self.limits;
        let t = &self.model_timeouts;
        within("limits.max_steps", l.max_steps.into(), 1, 1_000)?;
        within("limits.token_budget", l.token_budget, 1_000, u64::MAX)?;
        within("limits.wall_clock", l.wall_clock, 1_000, u64::MAX)?;
        within("limits.consecutive_mistake_limit", l.consecutive_mistake_limit.into(), 1, 100)?;
        within("limits.max_attempts", l.max_attempts.into(), 1, 100)?;
        within("limits.model_retries", l.model_retries.into(), 0, 20)?;
        within("limits.events_per_cycle", l.events_per_cycle.into(), 1, 1_000)?;
        within("limits.inbox_max", l.inbox_max.into(), 10, 1_000_000)?;
        within("model_timeouts.connect", t.connect, 1, 3_600_000)?;
        within("model_timeouts.first_byte", t.first_byte, 1, 3_600_000)?;
        within("model_timeouts.idle", t.idle, 1, 3_600_000)?;
        within("model_timeouts.total", t.total, 1, 3_600_000)?;
        within("debounce", self.debounce, 0, 60_000)?;
        within("hop_limit", self.hop_limit.into(), 1, 1_000)?;
        if self.instructions.len() > limits::INSTRUCTIONS_MAX_BYTES {
            return Err(BadConfig::OutOfBounds {
                key: "instructions",
                wanted: format!("at most {} bytes", limits::INSTRUCTIONS_MAX_BYTES),
                got: format!("{} bytes", self.instructions.len()),
            });
        }
        Ok(())
    }
}

/// Names the first key whose value alone is no config, and says in words what was wanted of it.
fn wrong_type(value: &Value, error: &serde_json::Error) -> BadConfig {
    let alone =
        |key: &str, value: &Value| Value::Object([(key.to_owned(), value.clone())].into_iter().collect());
    for (key, value) in value.as_object().into_iter().flatten() {
        let Err(error) = serde_json::from_value::<AgentConfig>(alone(key, value)) else { continue };
        for (below, value) in value.as_object().into_iter().flatten() {
            let nested = alone(key, &alone(below, value));
            if let Err(error) = serde_json::from_value::<AgentConfig>(nested) {
                return BadConfig::WrongType(format!("`{key}.{below}`: {}", in_words(&error)));
            }
        }
        return BadConfig::WrongType(format!("`{key}`: {}", in_words(&error)));
    }
    BadConfig::WrongType(in_words(error))
}

/// The decoder's words without the names of our types.
fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (got, wanted) = text.split_once(", expected ").unwrap_or((&text, ""));
    let got = got.replace("invalid type: ", "got ").replace("invalid value: ", "got ");
    match wanted {
        "" => got,
        "u32" | "u64" => format!("wanted a whole number from 0 on, {got}"),
        "a string" | "a boolean" | "a sequence" => {
            format!("wanted {}, {got}", wanted.replace("sequence", "list"))
        }
        other if other.starts_with("struct") => format!("wanted an object, {got}"),
        other => format!("wanted {other}, {got}"),
    }
}

fn within(key: &'static str, got: u64, min: u64, max: u64) -> Result<(), BadConfig> {
    if (min..=max).contains(&got) {
        return Ok(());
    }
    let wanted = if max == u64::MAX { format!("at least {min}") } else { format!("{min} to {max}") };
    Err(BadConfig::OutOfBounds { key, wanted, got: got.to_string() })
}

fn check_keys(given: &Value, known: &Value, path: &str) -> Result<(), BadConfig> {
    let (Value::Object(given), Value::Object(known)) = (given, known) else {
        if path.is_empty() && !given.is_object() {
            return Err(BadConfig::WrongType("wanted an object with the keys of an agent's config".into()));
        }
        return Ok(());
    };
    for (key, value) in given {
        let here = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match known.get(key) {
            Some(below) => check_keys(value, below, &here)?,
            None => {
                let nearest = nearest(key, known.keys().map(String::as_str));
                let nearest =
                    nearest.map(|n| if path.is_empty() { n.to_owned() } else { format!("{path}.{n}") });
                return Err(BadConfig::UnknownKey { key: here, nearest });
            }
        }
    }
    Ok(())
}

fn merge(base: &mut Value, patch: &Value) {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, patch) => *base = patch.clone(),
    }
}

/// The candidate most like `word`, if any is alike at all (edit distance at most a third of it).
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (word.chars().count() / 3).max(2);
    candidates
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= bound)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replace = before + usize::from(x != *y);
            before = row[j + 1];
            row[j + 1] = replace.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(input: Value, expected: &str) {
        assert_eq!(AgentConfig::from_json(&input).unwrap_err().to_string(), expected);
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        check(json!({"instruction": "x"}), "unknown key `instruction`; did you mean `instructions`?");
        check(
            json!({"limits": {"max_step": 3}}),
            "unknown key `limits.max_step`; did you mean `limits.max_steps`?",
        );
        check(json!({"zzzzzz": 1}), "unknown key `zzzzzz`");
    }

    #[test]
    fn a_value_outside_its_bound_names_the_bound() {
        check(json!({"limits": {"max_steps": 0}}), "`limits.max_steps` must be 1 to 1000, got 0");
        check(json!([1]), "wanted an object with the keys of an agent's config");
        check(
            json!({"limits": {"max_steps": "5"}}),
            "`limits.max_steps`: wanted a whole number from 0 on, got string \"5\"",
        );
        check(
            json!({"limits": {"max_steps": -1}}),
            "`limits.max_steps`: wanted a whole number from 0 on, got integer `-1`",
        );
        check(json!({"ephemeral": 1}), "`ephemeral`: wanted a boolean, got integer `1`");
        check(json!({"limits": 7}), "`limits`: wanted an object, got integer `7`");
        check(json!({"awareness": "inject"}), "`awareness`: wanted `none`, unknown variant `inject`");
    }

    #[test]
    fn an_amendment_keeps_what_it_does_not_name() {
        let base = AgentConfig { instructions: "be kind".into(), ..AgentConfig::default() };
        let amended = base.amended(&json!({"limits": {"max_steps": 3}})).unwrap();
        assert_eq!(amended.instructions, "be kind");
        assert_eq!(amended.limits.max_steps, 3);
        assert_eq!(amended.limits.token_budget, limits::TOKEN_BUDGET);
    }
}
