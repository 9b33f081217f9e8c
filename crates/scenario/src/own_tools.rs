//! The tools of a scenario: they only count how often they run, and give the outcomes that the file names. They belong to the
//! world outside: the counts survive the server. This module must not know how a tool is called.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::call::Outcome;
use agent::changes::Inward;
use agent::limits;
use agent::port::{
    BoxFuture, DeclaredTool, Done, OfferedTools, StoredTool, Tool, ToolContext, ToolError, ToolSpec, Toolbox,
};
use serde_json::{Value, json};

use crate::scene::{SceneOutcome, SceneTool};

/// The tools of a world: those of every server, and its own.
#[derive(Clone)]
pub(crate) struct WorldTools {
    inner: Arc<dyn Toolbox>,
    own: Arc<OnceLock<Vec<Arc<OwnTool>>>>,
}

impl WorldTools {
    /// Without own tools yet.
    pub(crate) fn around(inner: Arc<dyn Toolbox>) -> Self {
        Self { inner, own: Arc::default() }
    }

    /// Gives the world its own tools, once.
    pub(crate) fn add(&self, tools: &[SceneTool]) {
        let own = |tool| Arc::new(OwnTool::of(tool, Arc::clone(&self.inner)));
        self.own.get_or_init(|| tools.iter().map(own).collect());
    }

    /// How often each own tool has run.
    pub(crate) fn runs(&self) -> Vec<(String, u64)> {
        let ran = |tool: &Arc<OwnTool>| (tool.spec.name.clone(), tool.runs.load(Ordering::SeqCst) as u64);
        self.own().iter().map(ran).collect()
    }

    fn own(&self) -> &[Arc<OwnTool>] {
        self.own.get().map_or(&[], Vec::as_slice)
    }
}

impl Toolbox for WorldTools {
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let own = self.own().iter().find(|tool| tool.spec.name == name);
        own.map(|tool| Arc::clone(tool) as Arc<dyn Tool>).or_else(|| self.inner.tool(name))
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.inner.names();
        names.extend(self.own().iter().map(|tool| tool.spec.name.clone()));
        names
    }

    fn is_prebuilt(&self, name: &str) -> bool {
        self.inner.is_prebuilt(name)
    }

    fn check(&self, declaration: &Value) -> Result<DeclaredTool, Vec<String>> {
        self.inner.check(declaration)
    }

    fn read_file(&self, text: &str) -> Result<DeclaredTool, Vec<String>> {
        self.inner.read_file(text)
    }

    fn fits(&self, schema: &Value, value: &Value) -> Result<(), String> {
        self.inner.fits(schema, value)
    }

    fn servers(&self) -> Vec<String> {
        self.inner.servers()
    }

    fn offered<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<OfferedTools, String>> {
        self.inner.offered(server)
    }

    fn declare(&self, declarations: &[StoredTool]) -> Vec<(String, String)> {
        self.inner.declare(declarations)
    }
}

/// One tool.
struct OwnTool {
    spec: ToolSpec,
    outcomes: Vec<SceneOutcome>,
    runs: AtomicUsize,
    /// Checks arguments by its schema.
    inner: Arc<dyn Toolbox>,
}

impl OwnTool {
    fn of(tool: &SceneTool, inner: Arc<dyn Toolbox>) -> Self {
        let schema = tool.input.clone().unwrap_or_else(|| json!({"type": "object"}));
        let spec = ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            schema: Arc::new(schema),
            effect: tool.effect,
            visible: false,
            timeout: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
            asynchronous: false,
            version: "1".to_owned(),
            labels: tool.labels,
            worker: None,
            foreign: false,
            counted: OnceLock::new(),
        };
        Self { spec, outcomes: tool.outcomes.clone(), runs: AtomicUsize::new(0), inner }
    }
}

impl Tool for OwnTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &str) -> Result<Value, String> {
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        match serde_json::from_str(text) {
            Ok(value @ Value::Object(_)) => self.inner.fits(&self.spec.schema, &value).map(|()| value),
            Ok(_) => Err("wanted a JSON object".to_owned()),
            Err(error) => Err(format!("wanted a JSON object: {error}")),
        }
    }

    /// The outcome of its next run; after the last one always that.
    fn call<'a>(
        &'a self,
        _arguments: Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<Done, ToolError>> {
        Box::pin(async move {
            context.gate.may_begin().await?;
            let run = self.runs.fetch_add(1, Ordering::SeqCst);
            let outcome = self.outcomes.get(run).or(self.outcomes.last()).cloned().unwrap_or_default();
            let SceneOutcome { text, failed } = outcome;
            let outcome = if failed { Outcome::error(text) } else { Outcome::ok(text) };
            Ok(Done { outcome, inward: Inward::default() })
        })
    }
}
