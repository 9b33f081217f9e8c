//! All keys of `vivarium.toml` as one table. It is used to read the file, the environment and the command
//! line, by `viv config`, and to generate the documentation.

use net::proxy::{self, ProxyChoice};
use serde_json::{Map, Value, json};
use server::PublicUrl;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The name in the file; `model.name` is `name` under `[model]`.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The default, written as in the environment; empty if there is none.
    pub(crate) default: &'static str,
    pub(crate) env: Option<&'static str>,
    pub(crate) flag: Option<&'static str>,
    /// The description, one sentence.
    pub(crate) doc: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// A path; in the file it is relative to the file's folder.
    Path,
    Flag,
    /// An address that may carry a secret.
    PublicUrl,
    /// A proxy, whose address may carry a password.
    Proxy,
    /// Several texts; separated by commas in the environment.
    Names,
    /// A whole number of at least this.
    Whole(u64),
    Temperature,
    OneOf(&'static [&'static str]),
    /// A level such as `low`, or a number of tokens.
    Reasoning,
    Headers,
    KeyRef,
    /// Dollars per million tokens.
    Price,
}

/// All keys, in the order in which they are shown.
pub(crate) const KEYS: [Key; 25] = [
    key("listen", Kind::Text, "Address to listen on; port 0 picks a free port.")
        .or("127.0.0.1:7878")
        .set_by("VIV_LISTEN", "--listen"),
    key(
        "allow_remote",
        Kind::Flag,
        "Allow a listen address that other machines can reach (plain HTTP: put TLS in front of it).",
    )
    .or("false")
    .set_by("VIV_ALLOW_REMOTE", "--allow-remote"),
    key("hosts", Kind::Names, "Other host names that clients may use for this server.")
        .set_by("VIV_HOSTS", "--host"),
    key(
        "public_url",
        Kind::PublicUrl,
        "Address under which people outside reach this server; with it, calls that wait for people can be answered by a link.",
    )
    .env("VIV_PUBLIC_URL"),
    key("data_dir", Kind::Path, "Data directory; clients find the server's address and key there.")
        .or(".viv")
        .set_by("VIV_DATA_DIR", "--data-dir"),
    key("agents_dir", Kind::Path, "Folder of agent files.").or("agents").set_by("VIV_AGENTS_DIR", "--agents"),
    key("tools_dir", Kind::Path, "Folder of tool files.").or("tools").set_by("VIV_TOOLS_DIR", "--tools"),
    key(
        "secret_command",
        Kind::Text,
        "Program that prints a tool's secret, whose name replaces `{name}`: `pass show viv/{name}`; asked last.",
    )
    .env("VIV_SECRET_COMMAND"),
    key(
        "log",
        Kind::Text,
        "Filter of the server's log; `info` adds a line for each request and each cycle, without content.",
    )
    .or("warn")
    .env("VIV_LOG"),
    key(
        "log_format",
        Kind::OneOf(&["text", "json"]),
        "How the server's log is written: for people, or one JSON object per line.",
    )
    .or("text")
    .env("VIV_LOG_FORMAT"),
    key(
        "awake_max",
        Kind::Whole(1),
        "Maximum number of agents awake at once; other due agents wait in a queue.",
    )
    .or("256")
    .env("VIV_AWAKE_MAX"),
    key(
        "requests_per_provider",
        Kind::Whole(1),
        "Maximum number of concurrent requests to one model provider; a waiting agent does not block others.",
    )
    .or("128")
    .env("VIV_REQUESTS_PER_PROVIDER"),
    key(
        "ca_file",
        Kind::Path,
        "PEM file of certificate authorities that servers of models, tools, MCP and targets may use, besides those of this machine.",
    )
    .env("VIV_CA_FILE"),
    key(
        "proxy",
        Kind::Proxy,
        "Proxy to models' servers: `environment` takes those of `HTTPS_PROXY` and `HTTP_PROXY`, `none` takes none; `NO_PROXY` names who is reached directly.",
    )
    .or(proxy::ENVIRONMENT)
    .env("VIV_PROXY"),
    key(
        NAME,
        Kind::Text,
        "The default model, `demo` or `provider/model`; without one, a model that is found.",
    )
    .set_by("VIV_MODEL", "--model"),
    key("model.base_url", Kind::Text, "Address of the model's API, instead of the provider's own.")
        .set_by("VIV_BASE_URL", "--base-url"),
    key(
        "model.tool_mode",
        Kind::OneOf(&["native", "json_schema"]),
        "How tools are offered: native tool calls, or a JSON schema of the reply for small local models.",
    )
    .set_by("VIV_TOOL_MODE", "--tool-mode"),
    key(
        "model.context_window",
        Kind::Whole(1_024),
        "The model's context window in tokens, instead of the known one.",
    )
    .set_by("VIV_CONTEXT_WINDOW", "--context-window"),
    key("model.max_output", Kind::Whole(1), "Tokens kept free for a reply, at most half of the window; by default at most a quarter."),
    key(
        "model.max_tools",
        Kind::Whole(1),
        "The most tools that one request may offer the model, instead of its vendor's bound.",
    ),
    key("model.temperature", Kind::Temperature, "Sampling temperature."),
    key(
        "model.reasoning",
        Kind::Reasoning,
        "How much the model reasons: a level of the provider, or a number of tokens.",
    ),
    key("model.headers", Kind::Headers, "Additional headers of every request; never printed."),
    key("model.key_ref", Kind::KeyRef, "Where its key is, instead of under the provider's default name."),
    key(
        "model.price",
        Kind::Price,
        "Dollars per million tokens, { input = 2.0, cached = 0.2, output = 10.0 }, instead of the catalog's.",
    ),
];

const fn key(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { name, kind, default: "", env: None, flag: None, doc }
}

/// The name of the default model: the key that the other keys of `[model]` belong to.
pub(crate) const NAME: &str = "model.name";
/// The table of single models: the keys of `[model]` except `name`, under each model's name.
pub(crate) const MODELS: &str = "models";
/// The table of MCP servers.
pub(crate) const MCP: &str = "mcp";
pub(crate) const MODEL: &str = "model";

pub(crate) fn known(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Names of the keys under `[model]`; those under `[models."…"]` are the same except `name`.
pub(crate) fn of_model() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter_map(Key::of_model)
}

/// Names that are allowed at the top level of the file.
pub(crate) fn top_level() -> Vec<&'static str> {
    KEYS.iter().map(|key| key.name).filter(|name| !name.contains('.')).chain([MODEL, MODELS]).collect()
}

impl Key {
    const fn or(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    const fn env(self, env: &'static str) -> Self {
        Self { env: Some(env), ..self }
    }

    const fn set_by(self, env: &'static str, flag: &'static str) -> Self {
        Self { env: Some(env), flag: Some(flag), ..self }
    }

    /// The name under `[model]`; `None` for other keys.
    pub(crate) fn of_model(&self) -> Option<&'static str> {
        self.name.strip_prefix("model.")
    }

    pub(crate) fn default_value(&self) -> Value {
        match self.kind {
            Kind::Names => json!([]),
            _ if self.default.is_empty() => Value::Null,
            kind => kind.parse(self.default).unwrap_or(Value::Null),
        }
    }
}

impl Kind {
    /// A description for people, which follows `wanted`.
    pub(crate) fn description(self) -> String {
        let fixed = match self {
            Self::Whole(min) => return format!("whole number from {min}"),
            Self::OneOf(values) => return values.join(" or "),
            Self::Text => "text",
            Self::Path => "path",
            Self::Flag => "true or false",
            Self::PublicUrl => {
                "https:// address with a port up to 65535 or none, without user and query (http:// only of this machine)"
            }
            Self::Proxy => {
                "`environment`, `none` or the address of an HTTP proxy such as http://proxy.example:3128"
            }
            Self::Names => "list of texts",
            Self::Temperature => "number from 0 to 2",
            Self::Reasoning => "level such as \"low\", or number of tokens",
            Self::Headers => "table of texts, such as { x-team = \"ops\" }",
            Self::KeyRef => "name of a variable or of an entry in secrets.toml, such as MY_KEY",
            Self::Price => "numbers for `input`, `cached` and `output`",
        };
        fixed.to_owned()
    }

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
            Self::PublicUrl => value.as_str().is_some_and(|text| PublicUrl::parse(text).is_some()),
            Self::Proxy => value.as_str().is_some_and(|text| ProxyChoice::parse(text).is_ok()),
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
        match self {
            _ if fits => Ok(value),
            // The wrong value may be the secret itself.
            Self::KeyRef | Self::Headers | Self::Proxy => Err(format!("wanted {}", self.description())),
            _ => Err(format!("wanted {}, got {value}", self.description())),
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
            (Kind::PublicUrl, "http://viv.example"),
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
