//! A tool of a server as agents have it: by the description that an operator approved.

use std::fmt;
use std::sync::{Arc, OnceLock};

use agent::call::{Effect, Outcome};
use agent::changes::Inward;
use agent::port::{BoxFuture, Done, Tool, ToolContext, ToolError, ToolSpec};
use agent::quote::{visible, visible_json};
use serde_json::Value;

use super::answer;
use super::description::{McpDescription, wire_name};
use super::server::McpServer;
use crate::arguments::Checker;
use crate::declare::{Declaration, McpDeclaration, ToolKind, ToolLabel, check_schema, hash_of};
use crate::turn::Turns;

/// A tool of an MCP server.
pub struct McpTool {
    server: Arc<McpServer>,
    approved: McpDescription,
    spec: ToolSpec,
    checker: Checker,
    /// If the settings bound this tool by itself.
    turns: Option<Turns>,
}

impl McpTool {
    /// Builds the tool; nothing is started yet. The error says what is wrong with the description.
    pub fn new(server: Arc<McpServer>, approved: McpDescription) -> Result<Self, String> {
        let name = wire_name(server.name(), &approved.name);
        let checker = check_schema(&name, &approved.schema)?;
        let config = server.config();
        let own = config.tool.get(&approved.name).cloned().unwrap_or_default();
        let usual = if approved.reads_resources { Effect::ReadOnly } else { config.effect };
        let spec = ToolSpec {
            name,
            description: visible(&approved.description),
            schema: Arc::new(visible_json(&approved.schema)),
            effect: own.effect.unwrap_or(usual),
            visible: false,
            timeout: own.timeout.unwrap_or(config.timeout),
            asynchronous: false,
            version: version(&server, &approved),
            labels: config.labels(&approved.name),
            worker: None,
            foreign: config.labels(&approved.name).has(ToolLabel::Outside),
            counted: OnceLock::new(),
        };
        let turns = own.concurrency.map(|count| Turns::new(count, None));
        Ok(Self { server, approved, spec, checker, turns })
    }

    /// The declaration by which it is kept: under the name that models know.
    pub fn declaration(&self) -> Declaration {
        Declaration {
            name: self.spec.name.clone(),
            kind: ToolKind::Mcp,
            description: self.approved.description.clone(),
            input: self.approved.schema.clone(),
            mcp: Some(McpDeclaration {
                server: self.server.name().to_owned(),
                approved: self.approved.clone(),
            }),
            ..Declaration::default()
        }
    }

    /// What it was built from.
    pub fn approved(&self) -> &McpDescription {
        &self.approved
    }

    async fn run(&self, arguments: &Value, context: &ToolContext<'_>) -> Result<Outcome, ToolError> {
        let _place = match &self.turns {
            Some(turns) => Some(turns.take(&self.spec.name, context.now).await.map_err(ToolError::new)?),
            None => None,
        };
        if self.approved.reads_resources {
            let uri = arguments["uri"].as_str().unwrap_or_default();
            return match self.server.read(uri, self.spec.timeout, context.now, context.gate).await {
                Ok((result, mask)) => Ok(Outcome::ok(answer::resource(result, &mask).await)),
                Err(failure) => failure.outcome(self.spec.effect),
            };
        }
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        match self.server.call(&self.approved, &arguments, self.spec.timeout, context).await {
            Ok((result, mask)) => Ok(answer::outcome(result, &mask).await),
            Err(failure) => failure.outcome(self.spec.effect),
        }
    }
}

/// The version that approvals and rules bind: where the call goes, what the server may do, and what it says of the tool.
fn version(server: &McpServer, approved: &McpDescription) -> String {
    hash_of(&(server.name(), server.config(), approved))
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &str) -> Result<Value, String> {
        self.checker.check(arguments)
    }

    fn call<'a>(
        &'a self,
        arguments: Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<Done, ToolError>> {
        Box::pin(async move {
            let outcome = self.run(&arguments, &context).await?;
            Ok(Done { outcome, inward: Inward::default() })
        })
    }
}

impl fmt::Debug for McpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpTool").field(&self.spec.name).finish()
    }
}
