//! The settings of one MCP server, as `[mcp.NAME]` in a settings file holds them. Must not know how a server is reached.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use agent::call::Effect;
use agent::limits;
use agent::tool::{ToolLabel, ToolLabels, is_named};
use serde::{Deserialize, Deserializer, Serialize};

use crate::declare::terms::{effect, span};
use crate::template;

/// How one MCP server is reached, and what its tools may do. `Default` names no server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerConfig {
    /// The program and its arguments, for a server that is a process on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The address, for a server that is reached by streamable HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Variables of the process beside `PATH`, `HOME` and `LANG`; a value may contain `{{ secret("name") }}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Files and folders that the process may change beside its home; behind a wall it may change no others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// Headers of every request; a value may contain `{{ secret("name") }}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Targets inside that `url` may reach: host names, `host:port`, nets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Which of its tools there are, by name or with `*` for any characters; all if it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// What its tools do with what an agent knows; everything if it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeSet<ToolLabel>>,
    /// What repeating a call would do. What the server itself says about that is not used.
    #[serde(deserialize_with = "effect")]
    pub effect: Effect,
    /// How long a cycle waits for a call, such as `30s`.
    #[serde(with = "span")]
    pub timeout: Duration,
    /// Calls at once.
    pub concurrency: u32,
    /// Single tools that differ, by the name that the server gives them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool: BTreeMap<String, McpToolConfig>,
}

/// How one tool differs from the others of its server: `[mcp.NAME.tool.TOOL]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpToolConfig {
    /// What it does with what an agent knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeSet<ToolLabel>>,
    /// What repeating a call would do.
    #[serde(deserialize_with = "own_effect", skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// How long a cycle waits for a call.
    #[serde(with = "optional_span", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Calls of this tool at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

impl Default for McpServerConfig {
    fn default() -> Self {
        Self {
            command: None,
            url: None,
            env: BTreeMap::new(),
            write: Vec::new(),
            headers: BTreeMap::new(),
            allow: Vec::new(),
            tools: None,
            labels: None,
            effect: Effect::Unsafe,
            timeout: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
            concurrency: limits::TOOL_CONCURRENCY,
            tool: BTreeMap::new(),
        }
    }
}

impl McpServerConfig {
    /// Whether the server's tool of this name may be used.
    pub fn allows(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| is_named(pattern, tool)))
    }

    /// What the tool does with what an agent knows.
    pub fn labels(&self, tool: &str) -> ToolLabels {
        let own = self.tool.get(tool).and_then(|tool| tool.labels.as_ref());
        let named = own.or(self.labels.as_ref());
        named.map_or_else(ToolLabels::all, |labels| labels.iter().copied().collect())
    }

    /// The names of the secrets that it uses.
    pub fn secrets(&self) -> BTreeSet<String> {
        self.env.values().chain(self.headers.values()).flat_map(|text| template::written(text)).collect()
    }
}

/// The effect of a tool that has one of its own.
fn own_effect<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Effect>, D::Error> {
    effect(reader).map(Some)
}

mod optional_span {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::span;

    #[derive(Deserialize)]
    struct Span(#[serde(with = "span")] Duration);

    pub(super) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match span {
            Some(span) => span::serialize(span, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Span>::deserialize(reader)?.map(|Span(span)| span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_a_file_holds_them() {
        let text = r#"
            command = ["npx", "-y", "server"]
            env = { TOKEN = "{{ secret('tracker.token') }}" }
            tools = ["read_*"]
            timeout = "90s"
            [tool.read_file]
            effect = "read_only"
            timeout = "5s"
            labels = ["private"]
        "#;
        let config: McpServerConfig = toml::from_str(text).unwrap();
        assert_eq!(config.effect, Effect::Unsafe);
        assert_eq!(config.tool["read_file"].timeout, Some(Duration::from_secs(5)));
        assert_eq!(config.secrets(), BTreeSet::from(["tracker.token".to_owned()]));
        assert!(config.labels("read_file").iter().eq([ToolLabel::Private]));
        assert_eq!(config.labels("read_dir"), ToolLabels::all());
        assert!(config.allows("read_dir") && !config.allows("write_file"));
        assert_eq!(toml::from_str::<McpServerConfig>(&toml::to_string(&config).unwrap()).unwrap(), config);
        assert!(toml::from_str::<McpServerConfig>("comand = [\"x\"]").is_err());
    }
}
