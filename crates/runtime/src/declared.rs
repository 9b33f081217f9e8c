//! Declared tools: kept in the store, used from the next activation on. Must not know what a declaration means.

use agent::limits;
use agent::port::{StoreError, StoredTool};

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
    ports.tool_book.change_tools(put, gone).await?;
    use_stored(ports).await?;
    Ok(())
}

/// Uses the tools that the store keeps. Tools that this version cannot use are logged; their agents do not have them.
pub async fn use_tools(ports: &Ports) -> Result<(), StoreError> {
    let _one_at_a_time = ports.declaring.lock().await;
    use_stored(ports).await
}

async fn use_stored(ports: &Ports) -> Result<(), StoreError> {
    let stored: Vec<StoredTool> = ports.tool_book.tools().await?;
    for (name, why) in ports.toolbox.declare(&stored) {
        tracing::warn!("the declared tool `{name}` cannot be used: {why}");
    }
    Ok(())
}
