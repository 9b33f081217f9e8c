//! People, spaces, members and the server itself.

use axum::http::Method;
use serde_json::{Value, json};

use crate::world::{ADMIN, World};

#[tokio::test]
async fn a_person_can_be_created_read_by_id_or_handle_and_given_a_key() {
    let world = World::new().await;
    let body = json!({"name": "Ahmad", "display_name": "Ahmad B.", "external_id": "u-7"});
    let created = world.post("/v1/entities", body).await;
    assert_eq!((created.status, &created.json["name"]), (201, &json!("ahmad")), "{created:?}");
    let by_id = world.get(created.headers["location"].to_str().unwrap()).await;
    assert_eq!(by_id.json, created.json);
    assert_eq!(world.get("/v1/entities/AHMAD").await.json, created.json);
    let key = world.post("/v1/entities/ahmad/keys", json!({"label": "phone"})).await;
    let secret = key.json["key"].as_str().unwrap();
    assert!(secret.starts_with("viv_"), "{key:?}");
    let whoami = world.ask(Method::GET, "/v1/whoami", secret, None).await;
    assert_eq!((&whoami.json["kind"], &whoami.json["entity"]), (&json!("entity"), &created.json));
    assert_eq!(world.get("/v1/whoami").await.json, json!({"kind": "admin"}));
    let people = world.get("/v1/entities?kind=human").await;
    let names: Vec<_> = people.json["items"].as_array().unwrap().iter().map(|e| e["name"].clone()).collect();
    assert_eq!(names, ["ahmad", "you"]);
}

#[tokio::test]
async fn lists_are_paged_by_cursor() {
    let world = World::new().await;
    let mut names = Vec::new();
    let mut path = "/v1/entities?limit=1".to_owned();
    loop {
        let page = world.get(&path).await;
        names.extend(page.json["items"].as_array().unwrap().iter().map(|e| e["name"].clone()));
        let Some(next) = page.json["next"].as_str() else { break };
        path = format!("/v1/entities?limit=1&cursor={next}");
    }
    assert_eq!(names, ["muhammad", "you"]);
}

#[tokio::test]
async fn members_can_be_added_and_removed() {
    let world = World::new().await;
    world.post("/v1/entities", json!({"name": "ahmad"})).await;
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
    assert_eq!(world.get("/v1/ready").await.json["totals"]["agents"], 1);
    assert_eq!(ready.headers["x-content-type-options"], "nosniff");
}

#[tokio::test]
async fn keys_are_listed_without_their_secrets_and_a_revoked_one_stops_working_at_once() {
    let world = World::new().await;
    let yours = world.your_key().await;
    let listed = world.get("/v1/keys").await;
    assert!(!listed.json.to_string().contains(&yours), "{listed:?}");
    let items = listed.json["items"].as_array().unwrap();
    let of_you = items.iter().find(|key| key["entity"] == json!(world.you)).unwrap();
    assert_eq!((&of_you["kind"], &of_you["revoked_at"]), (&json!("entity"), &Value::Null));
    assert!(items.iter().any(|key| key["kind"] == "admin"), "{items:?}");

    assert_eq!(world.ask(Method::GET, "/v1/whoami", &yours, None).await.status, 200);
    let path = format!("/v1/keys/{}", of_you["id"].as_str().unwrap());
    assert_eq!(
        world.ask(Method::DELETE, &path, &yours, None).await.status,
        403,
        "a person cannot revoke keys"
    );
    let revoked = world.ask(Method::DELETE, &path, ADMIN, None).await;
    assert_eq!((revoked.status, revoked.json["revoked_at"].is_string()), (200, true), "{revoked:?}");
    let again = world.ask(Method::DELETE, &path, ADMIN, None).await;
    assert_eq!((again.status, &again.json), (200, &revoked.json));
    assert_eq!(world.ask(Method::GET, "/v1/whoami", &yours, None).await.code(), "key_invalid");
    let page = world.get("/v1/keys?limit=1").await.json;
    let next = page["next"].as_str().unwrap();
    assert_eq!(
        world.get(&format!("/v1/keys?cursor={next}")).await.json["items"].as_array().unwrap().len(),
        1
    );
    assert_eq!(world.get("/v1/keys?cursor=x").await.code(), "bad_query");
    for unknown in ["/v1/keys/nonsense", "/v1/keys/0192d3e4-0000-7000-8000-000000000009"] {
        assert_eq!(world.ask(Method::DELETE, unknown, ADMIN, None).await.code(), "not_found");
    }
}
