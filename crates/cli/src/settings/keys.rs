//! All keys of `vivarium.toml` as one table. It is used to read the file, the environment and the command
//! line, by `viv config`, and to generate the documentation.

use serde_json::{Map, Value, json};

/// One setting of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The name in the file; `model.name` is `name` under `[model]`.
    pub(crate) name: &'static str,
    /// The type of its values.
    pub(crate) kind: Kind,
    /// The default, written as in the environment; empty if there is none.
    pub(crate) default: &'static str,
    /// The environment variable that sets it.
    pub(crate) env: Option<&'static str>,
    /// The flag that sets it.
    pub(crate) flag: Option<&'static str>,
    /// The description, one sentence.
    pub(crate) doc: &'static str,
}

/// The type of a key's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text.
    Text,
    /// A path; in the file it is relative to the file's folder.
    Path,
    /// `true` or `false`.
    Flag,
    /// Several texts; separated by commas in the environment.
    Names,
    /// A whole number of at least this.
    Whole(u64),
    /// A number from 0 to 2.
    Temperature,
    /// One of these values.
    OneOf(&'static [&'static str]),
    /// A level such as `low`, or a number of tokens.
    Reasoning,
    /// Names and values.
    Headers,
    /// The name of a secret.
    KeyRef,
    /// Dollars per million tokens.
    Price,
}

const fn key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    env: Option<&'static str>,
    flag: Option<&'static str>,
    doc: &'static str,
) -> Key {
    Key { name, kind, default, env, flag, doc }
}

/// All keys, in the order in which they are shown.
pub(crate) const KEYS: [Key; 20] = [
    key(
        "listen",
        Kind::Text,
        "127.0.0.1:7878",
        Some("VIV_LISTEN"),
        Some("--listen"),
        "Address to listen on; port 0 picks a free port.",
    ),
    key(
        "allow_remote",
        Kind::Flag,
        "false",
        Some("VIV_ALLOW_REMOTE"),
        Some("--allow-remote"),
        "Allow a listen address that other machines can reach (plain HTTP: put TLS in front of it).",
    ),
    key(
        "hosts",
        Kind::Names,
        "",
        Some("VIV_HOSTS"),
        Some("--host"),
        "Other host names that clients may use for this server.",
    ),
    key(
        "data_dir",
        Kind::Path,
        ".viv",
        Some("VIV_DATA_DIR"),
        Some("--data-dir"),
        "Data directory; clients find the server's address and key there.",
    ),
    key(
        "agents_dir",
        Kind::Path,
        "agents",
        Some("VIV_AGENTS_DIR"),
        Some("--agents"),
        "Folder of agent files.",
    ),
    key(
        "log",
        Kind::Text,
        "warn",
        Some("VIV_LOG"),
        None,
        "Filter of the server's log; `info` adds a line for each request and each cycle, without content.",
    ),
    key(
        "log_format",
        Kind::OneOf(&["text", "json"]),
        "text",
        Some("VIV_LOG_FORMAT"),
        None,
        "How the server's log is written: for people, or one JSON object per line.",
    ),
    key(
        "awake_max",
        Kind::Whole(1),
        "256",
        Some("VIV_AWAKE_MAX"),
        None,
        "Maximum number of agents awake at once; other due agents wait in a queue.",
    ),
    key(
        "requests_per_provider",
        Kind::Whole(1),
        "128",
        Some("VIV_REQUESTS_PER_PROVIDER"),
        None,
        "Maximum number of concurrent requests to one model provider; a waiting agent does not block others.",
    ),
    key(
        "ca_file",
        Kind::Path,
        "",
        Some("VIV_CA_FILE"),
        None,
        "PEM file of certificate authorities that models' servers may use, besides those of this machine.",
    ),
    key(
        "model.name",
        Kind::Text,
        "",
        Some("VIV_MODEL"),
        Some("--model"),
        "The default model, `demo` or `provider/model`; without one, a model that is found.",
    ),
    key(
        "model.base_url",
        Kind::Text,
        "",
        Some("VIV_BASE_URL"),
        Some("--base-url"),
        "Address of the model's API, instead of the provider's own.",
    ),
    key(
        "model.tool_mode",
        Kind::OneOf(&["native", "json_schema"]),
        "",
        Some("VIV_TOOL_MODE"),
        Some("--tool-mode"),
        "How tools are offered: native tool calls, or a JSON schema of the reply for small local models.",
    ),
    key(
        "model.context_window",
        Kind::Whole(1_024),
        "",
        Some("VIV_CONTEXT_WINDOW"),
        Some("--context-window"),
        "The model's context window in tokens, instead of the known one.",
    ),
    key("model.max_output", Kind::Whole(1), "", None, None, "Tokens kept free for a reply."),
    key("model.temperature", Kind::Temperature, "", None, None, "Sampling temperature, 0 to 2."),
    key(
        "model.reasoning",
        Kind::Reasoning,
        "",
        None,
        None,
        "How much the model reasons: a level of the provider such as \"low\", or a number of tokens.",
    ),
    key(
        "model.headers",
        Kind::Headers,
        "",
        None,
        None,
        "Additional headers of every request; never printed.",
    ),
    key(
        "model.key_ref",
        Kind::KeyRef,
        "",
        None,
        None,
        "Name of its key in the environment or in secrets.toml, instead of the provider's default name.",
    ),
    key(
        "model.price",
        Kind::Price,
        "",
        None,
        None,
        "Dollars per million tokens, { input = 2.0, cached = 0.2, output = 10.0 }, instead of the catalog's.",
    ),
];

/// The table of single models: the keys of `[model]` except `name`, under each model's name.
pub(crate) const MODELS: &str = "models";
/// The table of the default model.
pub(crate) const MODEL: &str = "model";

/// The key with this name.
pub(crate) fn known(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Names of the keys under `[model]`; those under `[models."…"]` are the same except `name`.
pub(crate) fn of_model() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter_map(|key| key.name.strip_prefix("model."))
}

/// Names that are allowed at the top level of the file.
pub(crate) fn top_level() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name).filter(|name| !name.contains('.')).chain([MODEL, MODELS])
}

impl Key {
    /// The default; `null` if there is none.
    pub(crate) fn default_value(&self) -> Value {
        match self.kind {
            Kind::Names => json!([]),
            _ if self.default.is_empty() => Value::Null,
            kind => kind.parse(self.default).unwrap_or(Value::Null),
        }
    }
}

impl Kind {
    /// A description for people.
    pub(crate) fn description(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Path => "path".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Names => "list of texts".to_owned(),
            Self::Whole(min) => format!("whole number from {min}"),
            Self::Temperature => "number from 0 to 2".to_owned(),
            Self::OneOf(values) => values.join(" or "),
            Self::Reasoning => "text or whole number".to_owned(),
            Self::Headers => "table of texts".to_owned(),
            Self::KeyRef => "name of a secret".to_owned(),
            Self::Price => "table of numbers".to_owned(),
        }
    }

    /// Parses a value from the environment.
    pub(crate) fn parse(self, text: &str) -> Result<Value, String> {
        let number = || text.parse::<u64>().map(Value::from);
        let value = match self {
            Self::Flag => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => json!(true),
                "false" | "0" | "no" | "off" => json!(false),
                _ => json!(text),
            },
            Self::Names => {
                json!(text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect::<Vec<_>>())
            }
            Self::Whole(_) | Self::Reasoning => number().unwrap_or_else(|_| json!(text)),
            _ => json!(text),
        };
        self.check(value)
    }

    /// Returns the value if it has this type, else what was wanted and given.
    pub(crate) fn check(self, value: Value) -> Result<Value, String> {
        let fits = match self {
            Self::Text | Self::Path => value.as_str().is_some_and(|text| !text.trim().is_empty()),
            Self::Flag => value.is_boolean(),
            Self::Names => value.as_array().is_some_and(|all| all.iter().all(Value::is_string)),
            Self::Whole(min) => value.as_u64().is_some_and(|n| (min..=u64::from(u32::MAX)).contains(&n)),
            Self::Temperature => value.as_f64().is_some_and(|n| (0.0..=2.0).contains(&n)),
            Self::OneOf(values) => value.as_str().is_some_and(|word| values.contains(&word)),
            Self::Reasoning => {
                value.as_str().is_some_and(|word| !word.trim().is_empty())
                    || value.as_u64().is_some_and(|n| (1..=u64::from(u32::MAX)).contains(&n))
            }
            Self::Headers => value.as_object().is_some_and(|all| all.values().all(Value::is_string)),
            Self::KeyRef => value.as_str().is_some_and(is_name),
            Self::Price => value.as_object().is_some_and(is_price),
        };
        if fits { Ok(value) } else { Err(self.refusal(&value)) }
    }

    fn refusal(self, value: &Value) -> String {
        let wanted = match self {
            Self::Text | Self::Path => "a text that is not empty".to_owned(),
            Self::OneOf(values) => format!("`{}`", values.join("` or `")),
            Self::Reasoning => "a level such as \"low\", or a number of tokens".to_owned(),
            Self::Headers => "a table of texts, such as { x-team = \"ops\" }".to_owned(),
            Self::KeyRef => {
                "the name of a variable or of an entry in secrets.toml, such as MY_KEY".to_owned()
            }
            Self::Price => {
                "numbers for `input`, `cached` and `output`, in dollars per million tokens".to_owned()
            }
            Self::Flag => self.description(),
            other => format!("a {}", other.description()),
        };
        match self {
            // The wrong value may be the secret itself.
            Self::KeyRef | Self::Headers => format!("wanted {wanted}"),
            _ => format!("wanted {wanted}, got {value}"),
        }
    }
}

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_price(price: &Map<String, Value>) -> bool {
    let names = ["input", "cached", "output"];
    let fits = |value: &Value| value.as_f64().is_some_and(|n| (0.0..=1e6).contains(&n));
    price.keys().all(|name| names.contains(&name.as_str()))
        && names.iter().all(|name| price.get(*name).is_some_and(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_default_is_valid_for_its_type() {
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            assert!(key.kind.parse(key.default).is_ok(), "{}", key.name);
        }
    }

    #[test]
    fn environment_values_are_parsed_by_type() {
        assert_eq!(Kind::Flag.parse("1"), Ok(json!(true)));
        assert_eq!(Kind::Names.parse("a, b,"), Ok(json!(["a", "b"])));
        assert_eq!(Kind::Whole(1_024).parse("8192"), Ok(json!(8192)));
        for (kind, bad) in [
            (Kind::Flag, "maybe"),
            (Kind::Whole(1_024), "10"),
            (Kind::Whole(1), "many"),
            (Kind::OneOf(&["a", "b"]), "c"),
            (Kind::Text, "  "),
            (Kind::KeyRef, "sk-canary"),
        ] {
            let why = kind.parse(bad).unwrap_err();
            assert!(why.starts_with("wanted ") && !why.contains("canary"), "{why}");
        }
    }

    #[test]
    fn a_price_needs_all_three_numbers() {
        assert!(Kind::Price.check(json!({"input": 1, "cached": 0.1, "output": 2.5})).is_ok());
        assert!(Kind::Price.check(json!({"input": 1, "output": 2.5})).is_err());
        assert!(Kind::Price.check(json!({"input": 1, "cached": -1, "output": 2.5})).is_err());
    }
}
