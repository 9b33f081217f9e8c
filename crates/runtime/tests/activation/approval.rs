//! What an MCP server offers is approved as it was shown, or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agent::port::{BoxFuture, DeclaredTool, OfferedTools, Tool, Toolbox};
use models::scripted::Script;
use runtime::ApproveError;
use serde_json::json;

use crate::fixture::Fixture;

/// One MCP server, which describes its tool in another way each time that it is asked.
struct Fickle {
    inner: Arc<dyn Toolbox>,
    asked: AtomicU32,
}

impl Toolbox for Fickle {
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.inner.tool(name)
    }

    fn names(&self) -> Vec<String> {
        self.inner.names()
    }

    fn is_prebuilt(&self, name: &str) -> bool {
        self.inner.is_prebuilt(name)
    }

    fn offered<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<OfferedTools, String>> {
        let n = self.asked.fetch_add(1, Ordering::SeqCst);
        let tool = DeclaredTool {
            name: "fickle__tool".into(),
            declaration: json!({"n": n}),
            hash: n.to_string(),
            secrets: Vec::new(),
            server: Some(server.into()),
        };
        Box::pin(async move { Ok(OfferedTools { tools: vec![tool], ..OfferedTools::default() }) })
    }
}

#[tokio::test]
async fn what_was_not_shown_is_not_approved() {
    let fixture = Fixture::new(|_| Script::new());
    let mut ports = fixture.world.ports().clone();
    ports.toolbox = Arc::new(Fickle { inner: Arc::clone(&ports.toolbox), asked: AtomicU32::new(0) });
    let shown = |n: u32| BTreeMap::from([("fickle__tool".to_owned(), n.to_string())]);
    assert_eq!(ports.toolbox.offered("fickle").await.unwrap().tools[0].hash, "0");
    let refused = runtime::approve_tools(&ports, "fickle", &shown(0)).await;
    assert!(matches!(refused, Err(ApproveError::Changed)), "{refused:?}");
    let none = runtime::approve_tools(&ports, "fickle", &BTreeMap::new()).await;
    assert!(matches!(none, Err(ApproveError::Changed)), "a tool that was not shown at all: {none:?}");
    assert_eq!(ports.tool_book.tools().await.unwrap(), []);
    runtime::approve_tools(&ports, "fickle", &shown(3)).await.unwrap();
    let stored = ports.tool_book.tools().await.unwrap();
    assert_eq!((stored.len(), &stored[0].declaration), (1, &json!({"n": 3})));
}
