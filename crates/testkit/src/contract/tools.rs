//! Promises about declared tools, and about what an agent's calls have used.

use agent::changes::CommitKind;
use agent::port::StoredTool;
use agent::tool::{ToolLabel, ToolLabels};
use serde_json::{Value, json};

use super::Backend;
use super::world::{at, world};

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

/// What the calls of a life have used adds up until a commit forgets it.
pub async fn what_calls_have_used_adds_up_until_it_is_forgotten(b: Backend) {
    let w = world(b).await;
    let used = |label| ToolLabels::from_iter([label]);
    for (label, sum) in [(ToolLabel::Private, 1), (ToolLabel::Outside, 5), (ToolLabel::Outside, 5)] {
        w.post(w.family, "go on").await;
        let mut driver = w.open(w.ada).await;
        let mut decision = driver.decision();
        decision.used = used(label);
        driver.commit(&w, decision).await;
        let close = driver.closing();
        driver.commit(&w, close).await;
        assert_eq!(w.wake(w.ada).await.life.used, ToolLabels::from_bits(sum));
    }
    let activation = w.wake(w.ada).await;
    let clearing = agent::guard::clear(&activation, at(9));
    assert_eq!(clearing.changes.kind, CommitKind::View);
    let lease = agent::life::Lease { agent: w.ada, epoch: activation.life.epoch };
    w.b.store.commit(lease, clearing.changes).await.unwrap();
    let after = w.wake(w.ada).await;
    assert_eq!(after.life.used, ToolLabels::default());
    assert_eq!(after.life.epoch, activation.life.epoch);
}
