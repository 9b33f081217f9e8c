//! The JSON of tools.

use std::collections::BTreeMap;

use agent::call::{Effect, OutcomeStatus};
use agent::port::ToolSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{ToolWorkersJson, names};

/// A tool that agents can have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Tool)]
pub struct ToolJson {
    /// Name, by which agents list it.
    pub name: String,
    /// What it does, as a model reads it.
    pub description: String,
    /// JSON Schema of its arguments.
    #[schema(value_type = Object)]
    pub input: Value,
    /// What repeating a call would do.
    #[schema(value_type = names::Effect)]
    pub effect: Effect,
    /// Whether its calls are shown in a space.
    pub visible: bool,
    /// Whether a cycle does not wait for it.
    #[serde(rename = "async")]
    pub asynchronous: bool,
    /// How long a cycle waits for a call, in milliseconds.
    pub timeout_ms: u64,
    /// What it does with what an agent knows: `private`, `exfiltrates`, `outside`.
    pub labels: Vec<String>,
    /// Hash of its whole declaration, which approvals and rules are for; a prebuilt tool has a version number.
    pub version: String,
    /// Calls and waiting workers of a tool that workers run; left out for any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<ToolWorkersJson>,
    /// Whether every server has it.
    pub prebuilt: bool,
    /// File that declares it; left out if it is prebuilt or was declared through the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The declaration; left out for a prebuilt tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub declaration: Option<Value>,
    /// Secrets that it names and that cannot be used, each with the reason; only of a tool that is asked for by itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing_secrets: BTreeMap<String, String>,
}

impl ToolJson {
    /// The JSON of a tool that nobody declared.
    pub fn prebuilt(spec: &ToolSpec) -> Self {
        Self {
            name: spec.name.clone(),
            description: spec.description.clone(),
            input: (*spec.schema).clone(),
            effect: spec.effect,
            visible: spec.visible,
            asynchronous: spec.asynchronous,
            timeout_ms: u64::try_from(spec.timeout.as_millis()).unwrap_or(u64::MAX),
            labels: spec.labels.iter().map(|label| label.as_str().to_owned()).collect(),
            version: spec.version.clone(),
            workers: None,
            prebuilt: true,
            file: None,
            declaration: None,
            missing_secrets: BTreeMap::new(),
        }
    }
}

/// Arguments to try a tool with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolTrial {
    /// Arguments, as a model would write them.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub arguments: Value,
}

/// The result of trying a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolTried {
    /// How it ended.
    #[schema(value_type = names::OutcomeStatus)]
    pub status: OutcomeStatus,
    /// What an agent would read.
    pub text: String,
    /// What only an operator reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How long it took.
    pub took_ms: u64,
}

/// What clearing an agent's guard left out of what its model reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GuardCleared)]
pub struct GuardClearedJson {
    /// Entries of the log that are no longer shown.
    pub entries: u64,
    /// Goals that were written after strangers' text was read. They are deleted.
    pub goals: Vec<String>,
    /// Names of plans that were set after strangers' text was read. They are deleted.
    #[serde(default)]
    pub plans: Vec<String>,
    /// Keys of memories that were written after strangers' text was read. They are still shown.
    pub memories: Vec<String>,
    /// Whether a summary that was written after strangers' text was read is still shown, without what it says of them.
    #[serde(default)]
    pub summary: bool,
}

/// An MCP server in the settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = McpServer)]
pub struct McpServerJson {
    /// Its name in the settings.
    pub name: String,
    /// Names of its tools that were approved.
    pub tools: Vec<String>,
}

/// What an MCP server offers now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = McpOffer)]
pub struct McpOfferJson {
    /// Its name in the settings.
    pub name: String,
    /// Whether it is kept from files and processes of the machine that do not concern it.
    pub walled: bool,
    /// Its tools.
    pub tools: Vec<McpToolJson>,
    /// Tools that cannot be used, each with the reason.
    pub left_out: Vec<McpLeftOut>,
}

/// What an operator approves: all that an MCP server offers, as it was shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct McpApproval {
    /// Hash of each tool, by name.
    pub tools: BTreeMap<String, String>,
}

/// A tool of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = McpTool)]
pub struct McpToolJson {
    /// Name, by which agents list it.
    pub name: String,
    /// What it does, as the server describes it now.
    pub description: String,
    /// JSON Schema of its arguments.
    #[schema(value_type = Object)]
    pub input: Value,
    /// Hash of what a model reads of it.
    pub hash: String,
    /// `approved`; `changed` if it was approved with another description or other arguments; `new`.
    pub state: String,
}

/// A tool that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct McpLeftOut {
    /// Name, as the server gives it.
    pub name: String,
    /// Why.
    pub why: String,
}
