//! People, spaces, members and the server itself.

use axum::http::Method;
use serde_json::json;

use crate::world::{ADMIN, World};

#[tokio::test]
async fn a_person_can_be_created_read_by_id_or_handle_and_given_a_key() {
    let world = World::new().await;
    let body = json!({"handle": "Ahmad", "display_name": "Ahmad B.", "external_id": "u-7"});
    let created = world.post("/v1/entities", body).await;
    assert_eq!((created.status, &created.json["handle"]), (201, &json!("ahmad")), "{created:?}");
    let by_id = world.get(created.headers["location"].to_str().unwrap()).await;
    assert_eq!(by_id.json, created.json);
    assert_eq!(world.get("/v1/entities/AHMAD").await.json, created.json);
    let key = json!({"scope": "person", "entity": "ahmad", "label": "phone"});
    let (_, secret) = world.key(key).await;
    assert!(secret.starts_with("viv_"), "{secret}");
    let whoami = world.ask(Method::GET, "/v1/whoami", &secret, None).await;
    assert_eq!((&whoami.json["scope"], &whoami.json["entity"]), (&json!("person"), &created.json));
    assert_eq!(world.get("/v1/whoami").await.json, json!({"scope": "admin"}));
    let people = world.get("/v1/entities?kind=human").await;
    let names: Vec<_> =
        people.json["items"].as_array().unwrap().iter().map(|e| e["handle"].clone()).collect();
    assert_eq!(names, ["ahmad", "you"]);
}

#[tokio::test]
async fn lists_are_paged_by_cursor() {
    let world = World::new().await;
    let mut names = Vec::new();
    let mut path = "/v1/entities?limit=1".to_owned();
    loop {
        let page = world.get(&path).await;
        names.extend(page.json["items"].as_array().unwrap().iter().map(|e| e["handle"].clone()));
        let Some(next) = page.json["next"].as_str() else { break };
        path = format!("/v1/entities?limit=1&cursor={next}");
    }
    assert_eq!(names, ["muhammad", "you"]);
}

#[tokio::test]
async fn members_can_be_added_and_removed() {
    let world = World::new().await;
    world.post("/v1/entities", json!({"handle": "ahmad"})).await;
    let added = world.post("/v1/spaces/home/members", json!({"entity": "ahmad", "role": "owner"})).await;
    assert_eq!((added.status, &added.json["role"]), (200, &json!("owner")), "{added:?}");
    let members = world.get("/v1/spaces/home/members").await;
    assert_eq!(members.json["items"].as_array().unwrap().len(), 3);
    let path = "/v1/spaces/home/members/ahmad";
    let gone = world.ask(Method::DELETE, path, ADMIN, None).await;
    assert_eq!(gone.status, 204);
    let again = world.ask(Method::DELETE, path, ADMIN, None).await;
    assert_eq!((again.status, again.code()), (404, "not_found"), "{again:?}");
}

#[tokio::test]
async fn health_and_readiness_need_no_key() {
    let world = World::new().await;
    let health = world.ask(Method::GET, "/v1/health", "", None).await;
    assert_eq!((health.status, &health.json["status"]), (200, &json!("ok")));
    let ready = world.ask(Method::GET, "/v1/ready", "", None).await;
    assert_eq!(ready.json["model"]["demo"], true, "{ready:?}");
    assert_eq!(ready.json["totals"], json!(null), "without a key nobody learns how much is stored");
    let yours = world.your_key().await;
    assert_eq!(world.ask(Method::GET, "/v1/ready", &yours, None).await.json["totals"], json!(null));
    let totals = &world.get("/v1/ready").await.json["totals"];
    assert_eq!((&totals["agents"], &totals["unindexed_since"]), (&json!(1), &json!(null)));
    assert_eq!(ready.headers["x-content-type-options"], "nosniff");
}
