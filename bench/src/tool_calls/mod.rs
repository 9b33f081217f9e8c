//! What tools that reach the world cost beside the work that they ask for, and what many of them cost an agent that uses one.

pub(crate) mod claim;
pub(crate) mod http;
pub(crate) mod many;

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::port::Tool;
use anyhow::{Result, anyhow};
use serde_json::Value;
use tools::connector::Connector;
use tools::declare::read_json;
use tools::http::HttpTool;
use tools::secret::{SecretValue, Secrets};

/// The tool of a declaration.
fn declared(declaration: &Value) -> Result<Arc<dyn Tool>> {
    let read = read_json(declaration, &[]).map_err(|wrong| anyhow!("the declaration is wrong: {wrong:?}"))?;
    let secrets: Arc<dyn Secrets> = Arc::new(BTreeMap::<String, SecretValue>::new());
    let tool = HttpTool::new(read, Arc::new(Connector::default()), secrets);
    Ok(Arc::new(tool.map_err(|wrong| anyhow!("the tool cannot be built: {wrong:?}"))?))
}
