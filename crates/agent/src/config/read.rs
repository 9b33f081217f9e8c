//! Reads a config from JSON. Every mistake is reported with its key, and nothing is guessed.

use serde_json::{Map, Value};

use super::{AgentConfig, Bound, Example, Gates, KEYS, ReplyMode, SummaryBy, ValueKind, WantedChoice};
use crate::approver::Approver;
use crate::limits;
use crate::plan::{HeartbeatTerms, PlanTerms};
use crate::tool::{is_named, names};

/// Why a value is not an agent's config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConfig {
    /// A key that does not exist.
    #[error("unknown key `{key}`{}", nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownKey {
        /// The key with its path, such as `limits.max_step`.
        key: String,
        /// The known key that is most like it.
        nearest: Option<String>,
    },
    /// A value of the wrong type.
    #[error("{}{why}", key.as_ref().map(|key| format!("`{key}`: ")).unwrap_or_default())]
    WrongType {
        /// The key with its path; `None` for the whole value.
        key: Option<String>,
        /// What was expected and what was given.
        why: String,
    },
    /// A value outside its bound.
    #[error("`{key}` must be {wanted}, got {got}")]
    OutOfBounds {
        /// The key with its path.
        key: &'static str,
        /// The bound, as text.
        wanted: String,
        /// What was given.
        got: String,
    },
    /// Values that are valid alone, but with which a cycle could not end as configured.
    #[error("`{key}` could never end a cycle: {why}")]
    NeverEnds {
        /// The key with its path.
        key: &'static str,
        /// Why, and what to do.
        why: String,
    },
}

impl BadConfig {
    /// The key of the mistake, with its path.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::UnknownKey { key, .. } => Some(key),
            Self::WrongType { key, .. } => key.as_deref(),
            Self::OutOfBounds { key, .. } | Self::NeverEnds { key, .. } => Some(key),
        }
    }
}

impl AgentConfig {
    /// Reads a config from JSON; missing keys take their defaults.
    pub fn from_json(value: &Value) -> Result<Self, BadConfig> {
        Self::read(value).map_err(|mut problems| problems.swap_remove(0))
    }

    /// The same, with all mistakes instead of the first one. The list is never empty.
    pub fn read(value: &Value) -> Result<Self, Vec<BadConfig>> {
        let mut problems = Vec::new();
        check_keys(value, &Self::default().to_json(), "", &mut problems);
        // Leave out the keys that are already wrong, so that the rest is checked as well.
        let mut rest = without(value, &problems);
        let mut read = serde_json::from_value::<Self>(rest.clone());
        if let Err(error) = &read {
            wrong_types(&rest, error, &mut problems);
            rest = without(&rest, &problems);
            read = serde_json::from_value(rest);
        }
        match read {
            Ok(config) => {
                config.check(&mut problems);
                if problems.is_empty() { Ok(config) } else { Err(problems) }
            }
            Err(_) => Err(problems),
        }
    }

    /// `self` with the keys of `patch` applied. Objects are merged, other values are replaced.
    pub fn amended(&self, patch: &Value) -> Result<Self, BadConfig> {
        let mut merged = self.to_json();
        let mut problems = Vec::new();
        check_keys(patch, &merged, "", &mut problems);
        if !problems.is_empty() {
            return Err(problems.swap_remove(0));
        }
        merge(&mut merged, patch, "");
        Self::from_json(&merged)
    }

    /// The config with every key.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    fn check(&self, problems: &mut Vec<BadConfig>) {
        let all = self.to_json();
        for key in &KEYS {
            let Some(value) = key.of(&all) else { continue };
            let given = match key.bound {
                Bound::None => continue,
                Bound::Range(..) => value.as_u64().unwrap_or(0),
                Bound::Bytes(_) => value.as_str().map_or(0, str::len) as u64,
            };
            if !key.bound.accepts(given) {
                let got = if matches!(key.bound, Bound::Bytes(_)) {
                    format!("{given} bytes")
                } else {
                    given.to_string()
                };
                problems.push(BadConfig::OutOfBounds { key: key.name, wanted: key.bound.to_string(), got });
            }
        }
        self.check_examples(problems);
        self.check_plans(problems);
        self.check_policies(problems);
        self.check_approvers(problems);
        self.check_endings(problems);
    }

    fn check_examples(&self, problems: &mut Vec<BadConfig>) {
        let mut wrong = |why: String| {
            problems.push(BadConfig::WrongType { key: Some("examples".to_owned()), why });
        };
        if !self.examples.is_empty() && self.reply != ReplyMode::Text {
            wrong("they are replies in plain text, which only `reply: text` posts; set it too".to_owned());
        }
        if self.examples.len() > limits::EXAMPLES_MAX {
            wrong(format!("at most {} are shown, got {}", limits::EXAMPLES_MAX, self.examples.len()));
        }
        let bytes = |example: &Example| example.message.len() + example.reply.len();
        let bytes: usize = self.examples.iter().map(bytes).sum();
        if bytes > limits::EXAMPLES_MAX_BYTES {
            wrong(format!("they may have {} bytes together, got {bytes}", limits::EXAMPLES_MAX_BYTES));
        }
        let is_empty = |text: &str| text.trim().is_empty();
        if self.examples.iter().any(|example| is_empty(&example.message) || is_empty(&example.reply)) {
            wrong("each needs a `message` and a `reply`".to_owned());
        }
    }

    fn check_plans(&self, problems: &mut Vec<BadConfig>) {
        if let Some(Err(why)) = self.heartbeat.as_ref().map(HeartbeatTerms::check) {
            problems.push(BadConfig::WrongType { key: Some("heartbeat".to_owned()), why: why.to_string() });
        }
        let mut wrong = |why: String| {
            problems.push(BadConfig::WrongType { key: Some("plans".to_owned()), why });
        };
        if self.plans.len() > limits::PLANS_MAX {
            wrong(format!("at most {} are set, got {}", limits::PLANS_MAX, self.plans.len()));
        }
        let name = |plan: &PlanTerms| plan.name.as_deref().unwrap_or_default().trim().to_owned();
        let mut names = Vec::new();
        for (position, plan) in self.plans.iter().enumerate() {
            let name = name(plan);
            if let Err(why) = plan.check() {
                wrong(format!("plan {}: {why}", position + 1));
            } else if names.contains(&name) {
                wrong(format!("two plans have the name `{name}`; give one another name"));
            }
            names.push(name);
        }
    }

    fn check_approvers(&self, problems: &mut Vec<BadConfig>) {
        let most = limits::APPROVAL_PEOPLE_MAX;
        let why = if self.approvers.len() > most {
            format!("at most {most} people, got {}", self.approvers.len())
        } else if self.approvers.iter().any(|entry| Approver::of(entry).is_empty()) {
            "wanted handles of people, or `role:` and a role, got an empty text".to_owned()
        } else {
            return;
        };
        problems.push(BadConfig::WrongType { key: Some("approvers".to_owned()), why });
    }

    /// Gates and routes must be valid ranges. Each step may be in one gate at most, and each tool of a gate must be
    /// among the agent's tools.
    fn check_policies(&self, problems: &mut Vec<BadConfig>) {
        let mut wrong = |key: &str, why: String| {
            problems.push(BadConfig::WrongType { key: Some(key.to_owned()), why });
        };
        if self.history.summary_model.is_some() && self.history.summary != SummaryBy::Model {
            let why =
                "nobody asks it unless `history.summary` is `model`; leave it out, or set that".to_owned();
            wrong("history.summary_model", why);
        }
        for route in &self.routing {
            if route.to.is_some_and(|to| to < route.from) {
                wrong("routing", format!("a rule cannot end before its first step, {}", route.from));
            }
            if route.model.trim().is_empty() {
                wrong("routing", "each rule needs a `model`".to_owned());
            }
        }
        if self.never_allows_messages() {
            let why = format!(
                "no step allows `{SEND_MESSAGE}`, so the agent could never answer; allow it in a gate, or remove it \
                 from `tools`"
            );
            wrong("gates", why);
        }
        let Gates::List(gates) = &self.gates else { return };
        for (position, gate) in gates.iter().enumerate() {
            if gate.to.is_some_and(|to| to < gate.from) {
                wrong("gates", format!("a gate cannot end before its first step, {}", gate.from));
            }
            let ends = |gate: &super::Gate| gate.to.unwrap_or(u32::MAX);
            if let Some(other) =
                gates[..position].iter().find(|other| other.from <= ends(gate) && gate.from <= ends(other))
            {
                wrong(
                    "gates",
                    format!("two gates cover the same step: {} and {}", other.steps(), gate.steps()),
                );
            }
            for tool in gate.active_tools.iter().flatten() {
                if self.tools.as_ref().is_some_and(|tools| !tools.iter().any(|known| is_named(known, tool))) {
                    wrong("gates", format!("`{tool}` is not among the agent's `tools`; add it there"));
                }
            }
        }
    }

    /// A cycle must be able to end in the ways that the config names.
    fn check_endings(&self, problems: &mut Vec<BadConfig>) {
        let has = |tool: &str| {
            self.tools.as_ref().is_none_or(|tools| tools.iter().any(|known| is_named(known, tool)))
        };
        let mut report = |key, why: String| problems.push(BadConfig::NeverEnds { key, why });
        if self.stop.all_addressed && !self.last_step_allows(SEND_MESSAGE) {
            let why = "its last gate does not allow `send_message`; allow it there, or add `done`";
            if !has(names::DONE) {
                report("gates", why.to_owned());
            }
        }
        if self.last_step_requires_a_call() && !has(names::DONE) && !has(names::SKIP) {
            let why = "its last gate requires a call in every step, and no tool that ends a cycle is among `tools`; \
                       add `done`";
            report("gates", why.to_owned());
        }
        let Some(_) = &self.tools else { return };
        if let Some(tool) = self.stop.on_tools.iter().find(|tool| !has(tool)) {
            report("stop.on_tools", format!("`{tool}` is not among the agent's `tools`; add it there"));
        }
        if self.stop.all_addressed && !has(SEND_MESSAGE) {
            report(
                "stop.all_addressed",
                format!("`{SEND_MESSAGE}` is not among the agent's `tools`; add it there"),
            );
        }
        let ends = has(names::DONE) || has(names::SKIP);
        if self.stop.require_tool && !ends && !self.stop.all_addressed && self.stop.on_tools.is_empty() {
            let why = "it requires a call, and no tool that ends a cycle is among `tools`; add `done`";
            report("stop.require_tool", why.to_owned());
        }
    }
}

impl AgentConfig {
    /// Whether the agent has `send_message`, but its gates allow it in no step. The allowed tools change only where
    /// a gate begins or has ended, so only these steps are checked.
    fn never_allows_messages(&self) -> bool {
        let has = self.tools.as_ref().is_none_or(|tools| tools.iter().any(|known| known == SEND_MESSAGE));
        let forbids = |step: &u32| self.gates.at(*step).is_some_and(|gate| !gate.allows(SEND_MESSAGE));
        let changes: Vec<u32> = match &self.gates {
            Gates::List(gates) => {
                let ends = gates.iter().filter_map(|gate| gate.to?.checked_add(1));
                gates.iter().map(|gate| gate.from).chain(ends).chain([0]).collect()
            }
            Gates::ObserveThinkRespond => (0..=Gates::PRESET_LAST).collect(),
        };
        // A limit of 0 steps is reported as another mistake.
        has && self.limits.max_steps > 0
            && changes.iter().filter(|step| **step < self.limits.max_steps).all(forbids)
    }

    /// Whether the last possible step of a cycle may call the tool.
    fn last_step_allows(&self, tool: &str) -> bool {
        self.gates.at(self.limits.max_steps.saturating_sub(1)).is_none_or(|gate| gate.allows(tool))
    }

    /// Whether the last possible step of a cycle must call a tool.
    fn last_step_requires_a_call(&self) -> bool {
        self.gates
            .at(self.limits.max_steps.saturating_sub(1))
            .is_some_and(|gate| gate.tool_choice == WantedChoice::Required)
    }
}

/// The tool that posts a message.
const SEND_MESSAGE: &str = "send_message";

/// The value without the keys that are wrong.
fn without(value: &Value, problems: &[BadConfig]) -> Value {
    let mut rest = value.clone();
    for path in problems.iter().filter_map(BadConfig::key) {
        let (above, last) = path.rsplit_once('.').unwrap_or(("", path));
        let mut parent = Some(&mut rest);
        for part in above.split('.').filter(|part| !part.is_empty()) {
            parent = parent.and_then(|parent| parent.get_mut(part));
        }
        if let Some(Value::Object(parent)) = parent {
            parent.remove(last);
        }
    }
    rest
}

/// Reports every key whose value has the wrong type, with the expected type.
fn wrong_types(value: &Value, error: &serde_json::Error, problems: &mut Vec<BadConfig>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let Err(error) = serde_json::from_value::<AgentConfig>(single_key(key, value)) else { continue };
        let mut below = Vec::new();
        for (inner, value) in value.as_object().into_iter().flatten() {
            if let Err(error) =
                serde_json::from_value::<AgentConfig>(single_key(key, &single_key(inner, value)))
            {
                below.push(wrong_type(Some(format!("{key}.{inner}")), value, &error));
            }
        }
        if below.is_empty() {
            below.push(wrong_type(Some(key.clone()), value, &error));
        }
        problems.append(&mut below);
    }
    if problems.is_empty() {
        problems.push(BadConfig::WrongType { key: None, why: decoded(error) });
    }
}

fn single_key(key: &str, value: &Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value.clone())]))
}

/// What was wanted and what was given, without the names of our types.
fn wrong_type(key: Option<String>, value: &Value, error: &serde_json::Error) -> BadConfig {
    let name = key.as_deref().unwrap_or_default();
    let kind = KEYS.iter().find(|known| known.name == name);
    let below = KEYS.iter().find_map(|known| known.name.strip_prefix(name)?.strip_prefix('.'));
    let wanted = match kind.map(|known| (known.kind, known.bound)) {
        Some((ValueKind::Whole, Bound::Range(least, u64::MAX))) => {
            format!("a whole number of at least {least}")
        }
        Some((ValueKind::Whole, bound)) => format!("a whole number from {bound}"),
        Some((ValueKind::OneOf(words), _)) => one_of(words),
        Some((ValueKind::Text | ValueKind::MaybeText, _)) => "a text".to_owned(),
        Some((ValueKind::Flag, _)) => ValueKind::Flag.to_string(),
        Some((kind @ (ValueKind::Names | ValueKind::MaybeNames), _)) if !value.is_array() => {
            format!("a {kind}")
        }
        None if below.is_some() && !value.is_object() => {
            format!("keys below it such as `{}`", below.unwrap_or_default())
        }
        // The mistake is inside of the value.
        _ => return BadConfig::WrongType { key, why: decoded(error) },
    };
    let hint = match (kind.map(|known| known.kind), value.as_str()) {
        (Some(ValueKind::OneOf(words)), Some(text)) => nearest(text, words.iter().copied()),
        _ => None,
    };
    let hint = hint.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
    BadConfig::WrongType { key, why: format!("wanted {wanted}, got {}{hint}", shown(value)) }
}

fn one_of(words: &[&str]) -> String {
    match words {
        [one, other] => format!("`{one}` or `{other}`"),
        all => format!("one of `{}`", all.join("`, `")),
    }
}

/// A value as it was given, shortened.
fn shown(value: &Value) -> String {
    const MAX: usize = 60;
    let text = value.to_string();
    match value {
        Value::Null => "nothing".to_owned(),
        _ if text.chars().count() > MAX => format!("{}...", text.chars().take(MAX).collect::<String>()),
        _ => text,
    }
}

/// The decoder's error without the names of our types.
fn decoded(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (got, wanted) = text.split_once(", expected ").unwrap_or((&text, ""));
    let known = ["invalid type: ", "invalid value: "];
    let got = known.iter().fold(got.to_owned(), |got, prefix| got.replace(prefix, "got "));
    let got = got.replace("got null", "got nothing").replace("got integer `", "got `");
    match wanted {
        "" => got,
        // The number is whole and not negative, so it is too large.
        "u32" if got.starts_with("got `") && !got.contains('-') => {
            format!("wanted a whole number of at most {}, {got}", u32::MAX)
        }
        "u32" | "u64" => format!("wanted a whole number from 0 on, {got}"),
        "a string" => format!("wanted a text, {got}"),
        "a boolean" => format!("wanted true or false, {got}"),
        "a sequence" => format!("wanted a list, {got}"),
        other if other.starts_with("struct") => format!("wanted keys with values, {got}"),
        other => format!("wanted {other}, {got}"),
    }
}

fn check_keys(given: &Value, known: &Value, path: &str, problems: &mut Vec<BadConfig>) {
    let (Value::Object(given), Value::Object(known)) = (given, known) else {
        if path.is_empty() && !given.is_object() {
            let why = "wanted an object with the keys of an agent's config".to_owned();
            problems.push(BadConfig::WrongType { key: None, why });
        }
        return;
    };
    for (key, value) in given {
        let here = below(path, key);
        match known.get(key) {
            Some(_) if is_whole(&here) => {}
            Some(below) => check_keys(value, below, &here, problems),
            None => {
                // The right word in the wrong place says more than a similar one.
                let leaf = |known: &&super::ConfigKey| {
                    known.name.rsplit_once('.').is_some_and(|(_, leaf)| leaf == key)
                };
                let similar = || {
                    let near = nearest(key, known.keys().map(String::as_str))?;
                    Some(if path.is_empty() { near.to_owned() } else { format!("{path}.{near}") })
                };
                let nearest = KEYS.iter().find(leaf).map(|known| known.name.to_owned()).or_else(similar);
                problems.push(BadConfig::UnknownKey { key: here, nearest });
            }
        }
    }
}

fn merge(base: &mut Value, patch: &Value, path: &str) {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) if path.is_empty() || !is_whole(path) => {
            for (key, value) in patch {
                merge(base.entry(key.clone()).or_insert(Value::Null), value, &below(path, key));
            }
        }
        (base, patch) => *base = patch.clone(),
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Whether the value of this key is one thing, which is replaced as a whole: the config has no keys below it.
fn is_whole(path: &str) -> bool {
    !KEYS.iter().any(|known| known.name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The candidate most similar to `word`, if its edit distance is at most a third of the word's length (at least 2).
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

    use crate::limits;

    fn check(input: Value, expected: &str) {
        assert_eq!(AgentConfig::from_json(&input).unwrap_err().to_string(), expected);
    }

    #[test]
    fn examples_need_both_texts_a_bound_and_plain_replies() {
        let example = |message: &str| json!({"message": message, "reply": "Yes."});
        let read = |reply: &str, examples: Vec<Value>| {
            let read = AgentConfig::from_json(&json!({"reply": reply, "examples": examples}));
            read.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(read("text", vec![example("Really?")]), "");
        assert_eq!(read("auto", vec![]), "");
        let wanted = [
            (
                read("auto", vec![example("Really?")]),
                "`examples`: they are replies in plain text, which only",
            ),
            (read("text", vec![example(" ")]), "`examples`: each needs a `message` and a `reply`"),
            (read("text", vec![example("?"); 33]), "`examples`: at most 32 are shown, got 33"),
            (
                read("text", vec![example(&"x".repeat(40_000))]),
                "`examples`: they may have 32768 bytes together",
            ),
            (read("text", vec![json!({"message": "?"})]), "`examples`: missing field `reply`"),
        ];
        for (got, wanted) in wanted {
            assert!(got.starts_with(wanted), "{got}");
        }
        let unknown =
            AgentConfig::from_json(&json!({"workspace": {"show": ["clock", "weather"]}})).unwrap_err();
        assert!(unknown.to_string().starts_with("`workspace.show`: "), "{unknown}");
    }

    #[test]
    fn a_heartbeat_is_replaced_as_a_whole() {
        let config = |heartbeat: Value| AgentConfig::from_json(&json!({"heartbeat": heartbeat})).unwrap();
        let all_day = json!({"every": "30m"});
        let by_day = json!({"every": "30m", "from": "09:00", "to": "18:00", "zone": "Europe/Berlin"});
        for (before, after) in [(&all_day, &by_day), (&by_day, &all_day)] {
            let amended = config(before.clone()).amended(&json!({"heartbeat": after})).unwrap();
            assert_eq!(amended, config(after.clone()), "from {before}");
        }
        let wrong =
            AgentConfig::from_json(&json!({"heartbeat": {"every": "1h", "till": "18:00"}})).unwrap_err();
        assert!(wrong.to_string().starts_with("`heartbeat.till`: wanted one of `every`"), "{wrong}");
    }

    #[test]
    fn an_unknown_key_is_reported_with_the_nearest_one() {
        check(json!({"instruction": "x"}), "unknown key `instruction`; did you mean `instructions`?");
        check(
            json!({"limits": {"max_step": 3}}),
            "unknown key `limits.max_step`; did you mean `limits.max_steps`?",
        );
        check(json!({"max_steps": 5}), "unknown key `max_steps`; did you mean `limits.max_steps`?");
        check(json!({"zzzzzz": 1}), "unknown key `zzzzzz`");
    }

    #[test]
    fn a_wrong_value_is_reported_with_what_was_expected() {
        check(json!({"limits": {"max_steps": 0}}), "`limits.max_steps` must be 1 to 1000, got 0");
        check(json!([1]), "wanted an object with the keys of an agent's config");
        for (given, shown) in [
            (json!("5"), "\"5\""),
            (json!(-1), "-1"),
            (json!(4_294_967_296_u64), "4294967296"),
            (json!(null), "nothing"),
        ] {
            let why = format!("`limits.max_steps`: wanted a whole number from 1 to 1000, got {shown}");
            check(json!({"limits": {"max_steps": given}}), &why);
        }
        check(
            json!({"limits": {"wall_clock": "long"}}),
            "`limits.wall_clock`: wanted a whole number of at least 1000, got \"long\"",
        );
        check(
            json!({"gates": [{"to": 4_294_967_296_u64}]}),
            "`gates`: wanted a whole number of at most 4294967295, got `4294967296`",
        );
        check(json!({"ephemeral": "yes"}), "`ephemeral`: wanted true or false, got \"yes\"");
        check(json!({"limits": 7}), "`limits`: wanted keys below it such as `max_steps`, got 7");
        check(json!({"limits": null}), "`limits`: wanted keys below it such as `max_steps`, got nothing");
        check(json!({"instructions": 5}), "`instructions`: wanted a text, got 5");
        check(json!({"tools": "done"}), "`tools`: wanted a list of names or null, got \"done\"");
        check(json!({"tools": [5]}), "`tools`: wanted a text, got `5`");
        check(
            json!({"wake_on": "mentions"}),
            "`wake_on`: wanted `all` or `mention`, got \"mentions\"; did you mean `mention`?",
        );
        check(
            json!({"awareness": "all"}),
            "`awareness`: wanted one of `none`, `preview`, `inject`, `preview+inject`, `interrupt`, got \"all\"",
        );
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let all = |input: Value| {
            let problems = AgentConfig::read(&input).unwrap_err();
            problems.iter().map(|problem| problem.key().unwrap_or("-").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(all(json!({"modle": 1, "limits": {"a": 1, "b": 2}})), ["modle", "limits.a", "limits.b"]);
        assert_eq!(
            all(json!({"model": 1, "limits": {"max_steps": "x", "inbox_max": -1}, "hop_limit": 3})),
            ["model", "limits.max_steps", "limits.inbox_max"]
        );
        assert_eq!(all(json!({"debounce": 60_001, "hop_limit": 0})), ["debounce", "hop_limit"]);
        assert_eq!(
            all(json!({"awareness": "sometimes", "modle": 1, "stop": 3, "limits": {"max_steps": 0, "a": 1}})),
            ["modle", "limits.a", "awareness", "stop", "limits.max_steps"]
        );
    }

    #[test]
    fn gates_that_never_allow_a_message_are_refused() {
        let why = "`gates`: no step allows `send_message`, so the agent could never answer; allow it in a \
                   gate, or remove it from `tools`";
        check(json!({"gates": [{"from": 0, "active_tools": ["read_messages"]}]}), why);
        check(json!({"gates": [{"from": 0, "tool_choice": "none"}]}), why);
        check(json!({"gates": "observe-think-respond", "limits": {"max_steps": 2}}), why);
        let later = json!([{"from": 0, "to": 4, "active_tools": ["read_messages"]}]);
        check(json!({"gates": later.clone(), "limits": {"max_steps": 5}}), why);
        for good in [
            json!({"gates": later}),
            json!({"gates": "observe-think-respond"}),
            json!({"gates": [{"from": 0, "active_tools": ["done"]}], "tools": ["done"]}),
        ] {
            assert_eq!(AgentConfig::from_json(&good).map(|_| ()), Ok(()), "{good}");
        }
    }

    #[test]
    fn a_config_with_which_no_cycle_could_end_is_refused() {
        check(
            json!({"tools": ["send_message"], "stop": {"require_tool": true}}),
            "`stop.require_tool` could never end a cycle: it requires a call, and no tool that ends \
             a cycle is among `tools`; add `done`",
        );
        check(
            json!({"tools": ["done"], "stop": {"on_tools": ["set_memories"]}}),
            "`stop.on_tools` could never end a cycle: `set_memories` is not among the agent's `tools`; add \
             it there",
        );
        check(
            json!({"tools": ["done"], "stop": {"all_addressed": true}}),
            "`stop.all_addressed` could never end a cycle: `send_message` is not among the agent's `tools`; \
             add it there",
        );
        check(
            json!({"tools": ["send_message"], "gates": [{"from": 2, "tool_choice": "required"}]}),
            "`gates` could never end a cycle: its last gate requires a call in every step, and no tool that ends \
             a cycle is among `tools`; add `done`",
        );
        check(
            json!({"tools": ["send_message"], "gates": [{"from": 0, "to": 999, "tool_choice": "required"}]}),
            "`gates` could never end a cycle: its last gate requires a call in every step, and no tool that ends \
             a cycle is among `tools`; add `done`",
        );
        for fine in [
            json!({"tools": ["send_message"], "gates": [{"to": 3, "tool_choice": "required"}]}),
            json!({"tools": ["done"], "gates": [{"tool_choice": "required"}]}),
            json!({"gates": "observe-think-respond"}),
            json!({"tools": []}),
            json!({"stop": {"require_tool": true}}),
            json!({"tools": ["skip"], "stop": {"require_tool": true}}),
            json!({"tools": ["send_message"], "stop": {"require_tool": true, "all_addressed": true}}),
        ] {
            assert!(AgentConfig::from_json(&fine).is_ok(), "{fine}");
        }
    }

    #[test]
    fn plans_that_cannot_be_right_are_refused_with_their_position() {
        let daily =
            json!({"name": "daily", "instruction": "look", "cron": "0 9 * * *", "zone": "Europe/Berlin"});
        let past = json!({"name": "past", "instruction": "look", "at": "2020-01-01T00:00:00Z"});
        assert!(AgentConfig::from_json(&json!({"plans": [daily, past]})).is_ok());
        let after = json!({"name": "soon", "instruction": "look", "after": "5m"});
        check(
            json!({"plans": [daily, after]}),
            "`plans`: plan 2: `after` counts from now, and a config is read again and again; use `at`, `every` or `cron`",
        );
        check(
            json!({"plans": [daily, daily]}),
            "`plans`: two plans have the name `daily`; give one another name",
        );
        check(
            json!({"plans": [{"name": "x", "instruction": "y", "every": "1s"}]}),
            "`plans`: plan 1: `every`: wanted at least 1m, got `1s`",
        );
        let refused = AgentConfig::from_json(&json!({"plans": [{"name": "x", "when": "now"}]})).unwrap_err();
        assert!(refused.to_string().ends_with("unknown field `when`"), "{refused}");
        let many: Vec<_> =
            (0..101).map(|n| json!({"name": n.to_string(), "instruction": "x", "every": "1h"})).collect();
        check(json!({"plans": many}), "`plans`: at most 100 are set, got 101");
    }

    #[test]
    fn gates_are_valid_ranges_of_known_tools_and_do_not_overlap() {
        check(
            json!({"gates": [{"from": 0, "to": 3}, {"from": 2}]}),
            "`gates`: two gates cover the same step: steps 0 to 3 and from step 2 on",
        );
        check(
            json!({"gates": [{"from": 3, "to": 1}]}),
            "`gates`: a gate cannot end before its first step, 3",
        );
        check(
            json!({"tools": ["done"], "gates": [{"active_tools": ["look"]}]}),
            "`gates`: `look` is not among the agent's `tools`; add it there",
        );
        check(
            json!({"gates": "think"}),
            "`gates`: wanted `observe-think-respond` or a list of gates, got \"think\"",
        );
        check(json!({"routing": [{"from": 1}]}), "`routing`: each rule needs a `model`");
        check(
            json!({"history": {"summary": "digest", "summary_model": "a/b"}}),
            "`history.summary_model`: nobody asks it unless `history.summary` is `model`; leave it out, or set that",
        );
    }

    #[test]
    fn a_patch_keeps_the_keys_that_it_does_not_name() {
        let base = AgentConfig { instructions: "be kind".into(), ..AgentConfig::default() };
        let amended = base.amended(&json!({"limits": {"max_steps": 3}})).unwrap();
        assert_eq!(amended.instructions, "be kind");
        assert_eq!(amended.limits.max_steps, 3);
        assert_eq!(amended.limits.token_budget, limits::TOKEN_BUDGET);
    }
}
