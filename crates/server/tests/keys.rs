//! Keys: their scopes, expiry, last use, rotation and revocation.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};

use crate::world::{ADMIN, Answer, World};

#[tokio::test]
async fn keys_are_listed_without_their_secrets_and_a_revoked_one_stops_working_at_once() {
    let world = World::new().await;
    let yours = world.your_key().await;
    let listed = world.get("/v1/keys").await;
    assert!(!listed.json.to_string().contains(&yours), "{listed:?}");
    let items = listed.json["items"].as_array().unwrap();
    let of_you = items.iter().find(|key| key["entity"] == json!(world.you)).unwrap();
    assert_eq!((&of_you["scope"], &of_you["revoked_at"]), (&json!("person"), &Value::Null));
    assert!(items.iter().any(|key| key["scope"] == "admin"), "{items:?}");

    assert_eq!(world.ask(Method::GET, "/v1/whoami", &yours, None).await.status, 200);
    let path = format!("/v1/keys/{}", of_you["id"].as_str().unwrap());
    assert_eq!(
        world.ask(Method::DELETE, &path, &yours, None).await.status,
        403,
        "a person cannot revoke keys"
    );
    let revoked = world.ask(Method::DELETE, &path, ADMIN, None).await;
    assert_eq!(revoked.status, 204, "{revoked:?}");
    let shown = async || {
        let keys = world.get("/v1/keys").await.json["items"].clone();
        keys.as_array().unwrap().iter().find(|key| key["id"] == of_you["id"]).unwrap()["revoked_at"].clone()
    };
    let at = shown().await;
    assert!(at.is_string(), "{at}");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.ask(Method::DELETE, &path, ADMIN, None).await.status, 204);
    assert_eq!(shown().await, at);
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

/// Creates a key with an `Idempotency-Key`.
async fn create(world: &World, path: &str, idempotency: &str, body: Value) -> Answer {
    let request = Request::post(path)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {ADMIN}"))
        .header("content-type", "application/json")
        .header("idempotency-key", idempotency);
    world.send(request.body(Body::from(body.to_string())).unwrap()).await
}

#[tokio::test]
async fn a_repeated_request_for_a_key_returns_the_key_without_its_secret() {
    let world = World::new().await;
    let new = json!({"scope": "operator:read", "label": "dashboard"});
    let first = create(&world, "/v1/keys", "a", new.clone()).await;
    assert!((first.status, first.json["secret"].is_string()) == (201, true), "{first:?}");
    let again = create(&world, "/v1/keys", "a", new).await;
    assert_eq!((again.status, &again.json["id"]), (200, &first.json["id"]), "{again:?}");
    assert_eq!(again.json.get("secret"), None);
    let other = create(&world, "/v1/keys", "a", json!({"scope": "admin"})).await;
    assert_eq!((other.status, other.code()), (409, "key_reused"));
    let path = format!("/v1/keys/{}/rotate", first.json["id"].as_str().unwrap());
    let rotated = create(&world, &path, "b", json!({})).await;
    assert!((rotated.status, rotated.json["secret"].is_string()) == (201, true), "{rotated:?}");
    let again = create(&world, &path, "b", json!({})).await;
    assert_eq!((again.status, &again.json["id"], again.json.get("secret")), (200, &rotated.json["id"], None));
    assert_eq!(world.get("/v1/keys").await.json["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_rotated_key_works_until_the_overlap_is_over_and_then_says_that_it_expired() {
    let world = World::new().await;
    let (id, old) = world.key(json!({"scope": "service:github", "label": "hook"})).await;
    let whoami = async |key: &str| world.ask(Method::GET, "/v1/whoami", key, None).await;
    assert_eq!(whoami(&old).await.json, json!({"scope": "service:github"}));
    let rotated = world.post(&format!("/v1/keys/{id}/rotate"), json!({"overlap_seconds": 60})).await;
    let new = rotated.json["secret"].as_str().unwrap().to_owned();
    assert_eq!((&rotated.json["scope"], &rotated.json["label"]), (&json!("service:github"), &json!("hook")));
    world.clock.advance(Duration::from_secs(59));
    assert_eq!((whoami(&old).await.status, whoami(&new).await.status), (200, 200));
    world.clock.advance(Duration::from_secs(1));
    let expired = whoami(&old).await;
    assert_eq!((expired.status, expired.code()), (401, "key_expired"));
    assert!(expired.problem_text().contains("2026-11-21T14:01:00Z"), "{expired:?}");
    assert_eq!(whoami(&new).await.status, 200);
    let late = world.post(&format!("/v1/keys/{id}/rotate"), json!({})).await;
    assert_eq!((late.status, late.code()), (409, "key_over"));
}

#[tokio::test]
async fn the_last_use_of_a_key_is_written_at_most_once_a_minute() {
    let world = World::new().await;
    let (id, key) = world.key(json!({"scope": "operator:read"})).await;
    let used = async || {
        let keys = world.get("/v1/keys").await.json;
        keys["items"].as_array().unwrap().iter().find(|key| key["id"] == json!(id)).unwrap()["used_at"]
            .clone()
    };
    let use_it = async || assert_eq!(world.ask(Method::GET, "/v1/whoami", &key, None).await.status, 200);
    assert_eq!(used().await, Value::Null);
    use_it().await;
    // The request does not wait for the write.
    while used().await.is_null() {
        tokio::task::yield_now().await;
    }
    let first = used().await;
    assert_eq!(first, "2026-11-21T14:00:00Z");
    world.clock.advance(Duration::from_secs(59));
    use_it().await;
    world.clock.advance(Duration::from_secs(1));
    use_it().await;
    while used().await == first {
        tokio::task::yield_now().await;
    }
    assert_eq!(used().await, "2026-11-21T14:01:00Z");
}
