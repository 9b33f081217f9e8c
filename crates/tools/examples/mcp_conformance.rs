//! The client of MCP's conformance program, which starts it with the URL of a server: it lists the tools and calls each
//! once. `scripts/mcp-conformance.sh` runs both.

use std::error::Error;
use std::sync::Arc;

use agent::call::CallRow;
use agent::changes::Inward;
use agent::entry::Entry;
use agent::event::{NamedMessage, Trust};
use agent::id::{AgentId, CallId, CycleId, RootId, SpaceId};
use agent::life::{Facts, SpaceFacts};
use agent::port::{
    BoxFuture, CycleRef, Lookup, NoGate, Recall, RecallError, RecallQuery, Recalled, StoreError, Tool,
    ToolContext,
};
use agent::run::Run;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tools::child::Holder;
use tools::connector::Connector;
use tools::mcp::{McpHost, McpServer};
use tools::secret::{SecretValue, Secrets};
use uuid::Uuid;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().next_back().unwrap_or_default();
    let config = serde_json::from_value(json!({"url": url, "allow": ["127.0.0.1", "::1"]}))?;
    let secrets: Arc<dyn Secrets> = Arc::new(std::collections::BTreeMap::<String, SecretValue>::new());
    let host = Arc::new(McpHost::new(Holder::default(), std::env::temp_dir(), Vec::new()));
    let server = McpServer::new("conformance", config, Arc::new(Connector::default()), secrets, host);
    let server = Arc::new(server.map_err(|mistakes| format!("{mistakes:?}"))?);
    let approved = server.list().await?.tools;
    for tool in server.tools(&approved).0 {
        call(&*tool).await?;
    }
    server.stop();
    Ok(())
}

#[allow(clippy::print_stderr, reason = "an example prints")]
async fn call(tool: &dyn Tool) -> Result<(), Box<dyn Error>> {
    let fields = tool.spec().schema["properties"].as_object().into_iter().flatten();
    let arguments: Map<String, Value> = fields.map(|(name, schema)| (name.clone(), value(schema))).collect();
    let arguments = tool.check(&Value::Object(arguments).to_string())?;
    let (call, root) = (CallId("conformance".to_owned()), RootId(String::new()));
    let (facts, pending) = (Facts::default(), Inward::default());
    let context = ToolContext {
        agent: AgentId(Uuid::nil()),
        cycle: CycleId(Uuid::nil()),
        call: &call,
        now: Timestamp::now(),
        active_space: None,
        root: &root,
        hop: 0,
        trust: Trust::Operator,
        facts: &facts,
        pending: &pending,
        lookup: &Nothing,
        gate: &NoGate,
    };
    let outcome = tool.call(arguments, context).await?.outcome;
    eprintln!("{}: {} {}", tool.spec().name, outcome.status.as_str(), outcome.text);
    Ok(())
}

/// Some value of the schema's type.
fn value(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(3),
        Some("boolean") => json!(true),
        _ => json!("text"),
    }
}

/// A store without anything.
struct Nothing;

impl Recall for Nothing {
    fn recall(&self, _: AgentId, _: RecallQuery) -> BoxFuture<'_, Result<Recalled, RecallError>> {
        Box::pin(async { Ok(Recalled::default()) })
    }

    fn cycle(&self, _: AgentId, _: CycleRef) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

impl Lookup for Nothing {
    fn messages(
        &self,
        _: AgentId,
        _: SpaceId,
        _: Option<u64>,
        _: u32,
    ) -> BoxFuture<'_, Result<Option<(Vec<NamedMessage>, u64)>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    fn space(&self, _: AgentId, _: String) -> BoxFuture<'_, Result<Option<SpaceFacts>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    fn call(&self, _: AgentId, _: CallId) -> BoxFuture<'_, Result<Option<CallRow>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    fn runs(&self, _: AgentId, _: u32) -> BoxFuture<'_, Result<Vec<Run>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
