//! Goals that operators set, change and end.

use axum::http::Method;
use serde_json::{Value, json};

use crate::world::{ADMIN, World};

const PATH: &str = "/v1/agents/muhammad/goals";

async fn listed(world: &World) -> Vec<Value> {
    world.get(PATH).await.json["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn an_operator_sets_lists_changes_and_ends_goals() {
    let world = World::new().await;
    let set = world.post(PATH, json!({"description": " Keep the build green. ", "priority": 8})).await;
    assert_eq!(set.status, 201, "{set:?}");
    let id = set.json["id"].as_str().unwrap().to_owned();
    let wanted = json!({"id": id, "parent": null, "description": "Keep the build green.", "priority": 8,
        "status": "active", "trust": "operator"});
    assert_eq!(set.json, wanted);
    let below = world.post(PATH, json!({"description": "Fix the linter.", "parent": id})).await;
    assert_eq!((below.status, &below.json["priority"]), (201, &json!(5)), "{below:?}");
    assert_eq!(listed(&world).await, [set.json.clone(), below.json.clone()], "the most important first");
    let facts = world.get("/v1/agents/muhammad/facts").await.json;
    assert_eq!(facts["goals"].as_array().unwrap().len(), 2, "the agent sees them");
    let of = |id: &str| format!("{PATH}/{id}");
    let change = async |id: &str, body: Value| world.ask(Method::PATCH, &of(id), ADMIN, Some(body)).await;
    let ended = change(&id, json!({"status": "completed"})).await;
    assert_eq!((ended.status, &ended.json["status"]), (200, &json!("completed")), "{ended:?}");
    let moved = change(&id, json!({"priority": 1, "description": "Green, always."})).await;
    assert_eq!((&moved.json["priority"], &moved.json["description"]), (&json!(1), &json!("Green, always.")));
    assert_eq!(moved.json["status"], "completed", "what is left out stays");
    assert_eq!(world.ask(Method::DELETE, &of(&id), ADMIN, None).await.status, 204);
    assert_eq!(listed(&world).await, [] as [Value; 0], "with its sub-goals");
    let gone = world.ask(Method::DELETE, &of(&id), ADMIN, None).await;
    assert_eq!((gone.status, gone.code()), (404, "not_found"));
}

#[tokio::test]
async fn a_goal_that_cannot_be_is_refused_with_the_reason() {
    let world = World::new().await;
    let nowhere = "01920000-0000-7000-8000-000000000009";
    for (body, status, code, why) in [
        (json!({"description": " "}), 422, "bad_value", "`description`"),
        (json!({"description": "x".repeat(1_025)}), 422, "bad_value", "at most 1024 bytes"),
        (json!({"description": "x", "priority": 11}), 422, "bad_value", "wanted 1 to 10, got 11"),
        (json!({"description": "x", "parent": nowhere}), 404, "not_found", "goal"),
        (json!({"description": "x", "colour": "red"}), 422, "unknown_field", "colour"),
    ] {
        let refused = world.post(PATH, body).await;
        assert_eq!((refused.status, refused.code()), (status, code), "{refused:?}");
        assert!(refused.problem_text().contains(why), "{refused:?}");
    }
    let nothing = world.ask(Method::PATCH, &format!("{PATH}/{nowhere}"), ADMIN, Some(json!({}))).await;
    assert_eq!((nothing.status, nothing.code()), (422, "bad_value"), "{nothing:?}");
    let mut parent = Value::Null;
    for level in 1..=6 {
        let deeper = world.post(PATH, json!({"description": "deeper", "parent": parent})).await;
        let wanted = if level <= 5 { 201 } else { 409 };
        assert_eq!(deeper.status, wanted, "level {level}: {deeper:?}");
        parent = deeper.json["id"].clone();
        if level == 6 {
            assert_eq!(deeper.code(), "bad_goals");
        }
    }
    world.post("/v1/agents/muhammad/retire", json!({})).await;
    let retired = world.post(PATH, json!({"description": "x"})).await;
    assert_eq!((retired.status, retired.code()), (409, "agent_retired"));
}
