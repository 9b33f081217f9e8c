//! `skip` and `done` return a reply and change nothing: the cycle machine ends the cycle.

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn skip_and_done_change_nothing() {
    let mut world = World::new();
    for (tool, arguments) in
        [("skip", ""), ("skip", r#"{"reason":"not mine"}"#), ("done", ""), ("done", r#"{"summary":null}"#)]
    {
        let done = world.call(tool, arguments).await.unwrap();
        assert_eq!(done.outcome.text, r#"{"success":true}"#);
        assert!(done.inward.is_empty());
    }
}

#[tokio::test]
async fn done_takes_numbers_and_ids_of_events() {
    let reply = World::new().reply("done", json!({"addressed": [1, "2", "0192-id"], "summary": "x"})).await;
    assert_eq!(reply, json!({"success": true, "addressed": [1, "2", "0192-id"]}));
    let error = World::new().refusal("done", json!({"addressed": [true]})).await;
    assert!(error.contains("at `/addressed/0`: wanted "), "{error}");
}
