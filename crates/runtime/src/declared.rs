//! Declared tools: kept in the store, used from the next activation on. Must not know what a declaration means.

use std::collections::BTreeMap;

use agent::limits;
use agent::port::{OfferedTools, StoreError, StoredTool};

use crate::Ports;

/// Why declared tools could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum DeclareError {
    /// There would be too many.
    #[error("wanted at most {max} declared tools, and there would be {wanted}\nhint: remove some first", max = limits::TOOLS_MAX)]
    TooMany {
        /// How many there would be.
        wanted: usize,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Keeps these tools, forgets those with the names `gone`, and uses what is declared then.
pub async fn change_tools(
    ports: &Ports,
    put: Vec<StoredTool>,
    gone: Vec<String>,
) -> Result<(), DeclareError> {
    let _one_at_a_time = ports.declaring.lock().await;
    let before = ports.tool_book.tools().await?;
    let kept = before.iter().map(|tool| &tool.name).filter(|name| !gone.contains(name));
    let mut names: Vec<&String> = kept.chain(put.iter().map(|tool| &tool.name)).collect();
    names.sort();
    names.dedup();
    if names.len() > limits::TOOLS_MAX && names.len() > before.len() {
        return Err(DeclareError::TooMany { wanted: names.len() });
    }
    // A start changes nothing as a rule, and must not need room on the disk for that.
    if !(put.is_empty() && gone.is_empty()) {
        ports.tool_book.change_tools(put, gone).await?;
    }
    use_stored(ports).await?;
    Ok(())
}

/// Uses the tools that the store keeps. Tools that this version cannot use are logged; their agents do not have them.
pub async fn use_tools(ports: &Ports) -> Result<(), StoreError> {
    let _one_at_a_time = ports.declaring.lock().await;
    use_stored(ports).await
}

/// Reads the MCP servers in the settings again, and uses their approved tools.
pub async fn reload_servers(ports: &Ports) -> Result<(), ApproveError> {
    let _one_at_a_time = ports.declaring.lock().await;
    ports.toolbox.reload_servers().map_err(ApproveError::Server)?;
    use_stored(ports).await.map_err(|error| ApproveError::Declare(error.into()))
}

/// Keeps what an MCP server offers in place of what it offered before, if it still is what an operator was shown: the hash
/// of each tool, by name.
pub async fn approve_tools(
    ports: &Ports,
    server: &str,
    shown: &BTreeMap<String, String>,
) -> Result<OfferedTools, ApproveError> {
    let offered = ports.toolbox.offered(server).await.map_err(ApproveError::Server)?;
    if !offered
        .tools
        .iter()
        .map(|tool| (&tool.name, &tool.hash))
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .eq(shown)
    {
        return Err(ApproveError::Changed);
    }
    let is_of_server = |tool: &StoredTool| {
        ports.toolbox.check(&tool.declaration).is_ok_and(|tool| tool.server.as_deref() == Some(server))
    };
    let is_offered = |tool: &StoredTool| offered.tools.iter().any(|new| new.name == tool.name);
    let stored = ports.tool_book.tools().await.map_err(DeclareError::Store)?;
    let gone = stored.into_iter().filter(|tool| is_of_server(tool) && !is_offered(tool));
    let gone = gone.map(|tool| tool.name).collect();
    let at = ports.clock.now();
    let put = offered.tools.iter().map(|tool| StoredTool {
        name: tool.name.clone(),
        declaration: tool.declaration.clone(),
        file: None,
        at,
    });
    change_tools(ports, put.collect(), gone).await?;
    Ok(offered)
}

/// Why what an MCP server offers could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum ApproveError {
    /// The server cannot be asked.
    #[error("{0}")]
    Server(String),
    /// It offers something else than was shown.
    #[error("the server offers something else than what was shown; nothing was approved")]
    Changed,
    /// The tools cannot be kept.
    #[error(transparent)]
    Declare(#[from] DeclareError),
}

async fn use_stored(ports: &Ports) -> Result<(), StoreError> {
    let stored: Vec<StoredTool> = ports.tool_book.tools().await?;
    for (name, why) in ports.toolbox.declare(&stored) {
        tracing::warn!("the declared tool `{name}` cannot be used: {why}");
    }
    Ok(())
}
