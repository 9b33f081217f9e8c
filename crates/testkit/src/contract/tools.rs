//! Promises about declared tools.

use agent::port::StoredTool;
use serde_json::{Value, json};

use super::Backend;
use super::world::at;

fn tool(name: &str, declaration: Value, file: Option<&str>) -> StoredTool {
    StoredTool { name: name.into(), declaration, file: file.map(str::to_owned), at: at(5) }
}

/// A change is all or nothing, of two of one name the later stays, and all survive a restart.
pub async fn declared_tools_are_kept_by_name_and_survive_a_restart(b: Backend) {
    assert_eq!(b.tool_book.tools().await.unwrap(), []);
    let first = tool("b", json!({"name": "b", "n": 1}), Some("tools/b.toml"));
    b.tool_book
        .change_tools(vec![first, tool("a", json!({"deep": [{"x": null}]}), None)], vec![])
        .await
        .unwrap();
    let changed = tool("b", json!({"name": "b", "n": 2}), None);
    b.tool_book
        .change_tools(vec![changed.clone(), tool("c", json!({}), None)], vec!["a".into()])
        .await
        .unwrap();
    b.tool_book.change_tools(vec![], vec!["never".into()]).await.unwrap();
    let b = b.reopened().await;
    assert_eq!(b.tool_book.tools().await.unwrap(), [changed, tool("c", json!({}), None)]);
    let b = b.crashed();
    assert_eq!(b.tool_book.tools().await.unwrap().len(), 2);
}
