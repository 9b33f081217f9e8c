//! Declarations of tools: one value with the same names in a file (`tools/*.toml`), in the API and on the command line.
//!
//! Reading reports every mistake with its file and key, and guesses nothing. This module opens no files, and it must not
//! know how a declared tool is run.

mod check;
mod read;
pub(crate) mod terms;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::call::Effect;
use agent::limits;
use agent::names::one_of;
use agent::port::ToolSpec;
use agent::quote::{visible, visible_json};
pub use agent::tool::{ToolLabel, ToolLabels};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::mcp::McpDescription;
use crate::template;

pub(crate) use self::check::{body_slot, check, check_schema};
pub(crate) use self::read::line_of;
pub use self::read::{read_files, read_json, read_toml};
pub use self::terms::{Rate, RateUnit};

/// What runs a declared tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// A request to an HTTP server.
    Http,
    /// A tool of an MCP server, as an operator approved it.
    Mcp,
    /// A program outside that claims the calls.
    Worker,
}

impl FromStr for ToolKind {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "http" => Ok(Self::Http),
            "mcp" => Ok(Self::Mcp),
            "worker" => Ok(Self::Worker),
            _ => Err(()),
        }
    }
}

impl<'de> Deserialize<'de> for ToolKind {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        one_of(reader, &["http", "mcp", "worker"])
    }
}

/// A tool as an operator declares it. `Default` is an incomplete declaration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Declaration {
    /// `[a-zA-Z0-9_-]{1,64}`, and no prebuilt tool's name.
    pub name: String,
    /// What runs it.
    pub kind: ToolKind,
    /// Description for the model: what it does, what it returns, what not to do.
    pub description: String,
    /// JSON Schema of its arguments, an object; also read from a string that contains JSON.
    #[serde(deserialize_with = "terms::schema")]
    pub input: Value,
    /// What repeating a call would do.
    #[serde(deserialize_with = "terms::effect")]
    pub effect: Effect,
    /// Whether its calls are shown in a space.
    pub visible: bool,
    /// Whether the cycle does not wait for it.
    #[serde(rename = "async")]
    pub asynchronous: bool,
    /// How long a cycle waits for a call, such as `30s`.
    #[serde(with = "terms::span")]
    pub timeout: Duration,
    /// Calls at once.
    pub concurrency: u32,
    /// Calls in a span of time, such as `10/min`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// What it does with what an agent knows; all of it if the declaration does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeSet<ToolLabel>>,
    /// The request of a tool of kind `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpDeclaration>,
    /// The programs that run a tool of kind `worker`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerDeclaration>,
    /// The tool of kind `mcp`. What it may do is in the settings of its server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpDeclaration>,
}

/// The programs that run a tool of kind `worker`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerDeclaration {
    /// A program that claims calls must name the same version.
    pub version: String,
}

impl Default for WorkerDeclaration {
    fn default() -> Self {
        Self { version: "1".to_owned() }
    }
}

/// A tool of an MCP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpDeclaration {
    /// The server's name in the settings.
    pub server: String,
    /// What a model is told about the tool.
    pub approved: McpDescription,
}

/// The request of an HTTP tool. Texts are templates over the arguments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpDeclaration {
    /// `GET`, `POST`, …
    pub method: String,
    /// The URL. Its scheme, host and port are constant; an argument in it stays one part of it.
    pub url: String,
    /// Parameters added to the URL's query. One whose template is a single absent argument is left out; a list is written
    /// once for each item, and of an object each field with brackets.
    pub query: BTreeMap<String, String>,
    /// Headers. One whose template is a single absent argument is left out.
    pub headers: BTreeMap<String, String>,
    /// The body as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body as JSON. A text that is a single expression becomes its value; a field of an absent argument is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// The body as a form, an object. What is nested has brackets; a field of an absent argument is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<Value>,
    /// JSON pointer to the part of the answer that the model reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Targets inside that it may reach: host names, `host:port`, nets.
    pub allow: Vec<String>,
}

impl Default for Declaration {
    fn default() -> Self {
        Self {
            name: String::new(),
            kind: ToolKind::Http,
            description: String::new(),
            input: json!({"type": "object", "properties": {}, "additionalProperties": false}),
            effect: Effect::Unsafe,
            visible: false,
            asynchronous: false,
            timeout: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
            concurrency: limits::TOOL_CONCURRENCY,
            rate: None,
            labels: None,
            http: None,
            worker: None,
            mcp: None,
        }
    }
}

impl Declaration {
    /// What the tool does with what an agent knows.
    pub fn labels(&self) -> ToolLabels {
        self.labels.as_ref().map_or_else(ToolLabels::all, |labels| labels.iter().copied().collect())
    }

    /// The version that approvals and rules bind: a hash of the whole declaration, defaults included. A key that it does
    /// not have yet will be part of it without anybody thinking of it. The value of a secret is not, its name is.
    pub fn version(&self) -> String {
        hash_of(self)
    }

    /// The tool as models see it. `worker` is the version of the workers that run it, if any do.
    pub(crate) fn spec(&self, worker: Option<String>) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            description: visible(self.description.trim()),
            schema: Arc::new(visible_json(&self.input)),
            effect: self.effect,
            visible: self.visible,
            timeout: self.timeout,
            asynchronous: self.asynchronous,
            version: self.version(),
            labels: self.labels(),
            worker,
            foreign: false,
            counted: OnceLock::new(),
        }
    }
}

/// Lower-case hex of SHA-256 over the value as JSON; the order of keys does not matter.
pub(crate) fn hash_of(value: &impl Serialize) -> String {
    let json = serde_json::to_value(value).expect("declarations and descriptions are written as JSON");
    let digest = Sha256::digest(sorted(&json).to_string().as_bytes());
    agent::id::hex(&digest)
}

impl HttpDeclaration {
    /// The names of the secrets that it uses.
    pub fn secrets(&self) -> BTreeSet<String> {
        let structured = self.json.iter().chain(&self.form);
        let mut texts: Vec<&str> = Vec::new();
        texts.extend(self.query.values().chain(self.headers.values()).chain(&self.body).map(String::as_str));
        let mut named: BTreeSet<String> = texts.into_iter().flat_map(template::written).collect();
        let mut visit = |_: String, text: &str| named.extend(template::written(text));
        structured.for_each(|value| check::each_text(value, "", &mut visit));
        named
    }
}

/// The value with the keys of its objects in order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<&String, Value> =
                map.iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(ordered.into_iter().map(|(key, value)| (key.clone(), value)).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// One mistake in a declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DeclarationMistake {
    /// The file, if the declaration has one.
    pub file: Option<String>,
    /// The key with its path, such as `http.url`; `None` for the whole declaration.
    pub key: Option<String>,
    /// What was wanted, what stood in the way, what to do.
    pub why: String,
}

impl fmt::Display for DeclarationMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "`{key}`: ")?;
        }
        f.write_str(&self.why)
    }
}
