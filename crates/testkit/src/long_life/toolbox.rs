//! The tools of a life, which only read: each returns the text with the number that the call names. Must not know who calls.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::call::{Effect, Outcome};
use agent::changes::Inward;
use agent::limits;
use agent::port::{BoxFuture, Done, Tool, ToolContext, ToolError, ToolSpec, Toolbox};
use serde_json::{Value, json};

use super::LongLife;

/// Another toolbox and the tools of a life.
pub(super) struct LifeToolbox {
    inner: Arc<dyn Toolbox>,
    own: Vec<Arc<dyn Tool>>,
}

impl LifeToolbox {
    pub(super) fn new(inner: Arc<dyn Toolbox>, life: &Arc<LongLife>) -> Self {
        let tool = |(name, description): &(&str, &str)| -> Arc<dyn Tool> {
            Arc::new(LifeTool { spec: spec(name, description), life: Arc::clone(life) })
        };
        Self { own: life.tools.iter().map(tool).collect(), inner }
    }
}

impl Toolbox for LifeToolbox {
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.inner.tool(name).or_else(|| self.own.iter().find(|tool| tool.spec().name == name).cloned())
    }

    fn names(&self) -> Vec<String> {
        let own = self.own.iter().map(|tool| tool.spec().name.clone());
        self.inner.names().into_iter().chain(own).collect()
    }

    /// The agent of a life names no tools and has them all.
    fn is_prebuilt(&self, name: &str) -> bool {
        self.inner.is_prebuilt(name) || self.own.iter().any(|tool| tool.spec().name == name)
    }
}

struct LifeTool {
    spec: ToolSpec,
    life: Arc<LongLife>,
}

fn spec(name: &str, description: &str) -> ToolSpec {
    let properties =
        json!({"n": {"type": "integer"}, "path": {"type": "string"}, "with": {"type": "string"}});
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        schema: Arc::new(json!({"type": "object", "properties": properties, "required": ["n"]})),
        effect: Effect::ReadOnly,
        visible: false,
        timeout: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
        asynchronous: false,
        version: "1".to_owned(),
        labels: agent::tool::ToolLabels::default(),
        worker: None,
        foreign: false,
        counted: OnceLock::new(),
    }
}

impl Tool for LifeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &str) -> Result<Value, String> {
        serde_json::from_str(arguments).map_err(|error| format!("wanted JSON: {error}"))
    }

    fn call<'a>(&'a self, arguments: Value, _: ToolContext<'a>) -> BoxFuture<'a, Result<Done, ToolError>> {
        let n = arguments.get("n").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let text = n.and_then(|n| self.life.outcomes.get(n));
        let done = text.map(|text| Done { outcome: Outcome::ok(text.clone()), inward: Inward::default() });
        Box::pin(std::future::ready(done.ok_or_else(|| ToolError::new("wanted the number of a text in `n`"))))
    }
}
