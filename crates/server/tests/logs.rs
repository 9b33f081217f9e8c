//! The line in the log for each request: what it says, and what it never says.

use std::sync::{Arc, Mutex};

use axum::http::Method;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::world::{ADMIN, World};

/// Collects the fields of every event of the server, as text.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<String>>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl Subscriber for Collected {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("server")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = format!("{} ", event.metadata().level());
        event.record(&mut Line(&mut line));
        self.0.lock().unwrap().push(line);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_request_is_logged_by_its_route_and_its_id_without_what_the_path_contains() {
    let collected = Collected::default();
    let _guard = tracing::subscriber::set_default(collected.clone());
    let world = World::new().await;
    let path = "/v1/agents/muhammad/memories/ssn-123";
    let set = world.ask(Method::PUT, path, ADMIN, Some(json!({"value": "swordfish"}))).await;
    assert_eq!(set.status, 200, "{set:?}");
    let missing = world.get("/v1/ssn-123?secret=swordfish").await;
    assert_eq!(missing.code(), "no_route");
    let lines = collected.0.lock().unwrap().clone();
    let all = lines.join("\n");
    for secret in ["ssn-123", "swordfish"] {
        assert!(!all.contains(secret), "{all}");
    }
    let id = set.headers["x-request-id"].to_str().unwrap();
    let line = lines.iter().find(|line| line.contains(id)).expect("the request has a line");
    assert!(line.contains("PUT") && line.contains("/v1/agents/{agent}/memories/{key}"), "{line}");
}

#[tokio::test]
async fn a_worker_that_asks_in_vain_is_no_line_of_the_usual_log() {
    let collected = Collected::default();
    let _guard = tracing::subscriber::set_default(collected.clone());
    let world = World::new().await;
    let claim = |tool: &str| json!({"tools": [{"name": tool}], "wait_ms": 0});
    let answers = [
        world.post("/v1/workers/claim", claim("resize")).await.status,
        world.post("/v1/workers/claim", claim("look")).await.status,
    ];
    assert!(answers[0] == 204 && answers[1] >= 400, "{answers:?}");
    let lines = collected.0.lock().unwrap().clone();
    let lines: Vec<&String> = lines.iter().filter(|line| line.contains("/v1/workers/claim")).collect();
    assert!(lines.len() == 2 && lines[0].starts_with("DEBUG ") && lines[1].starts_with("INFO "), "{lines:?}");
}

#[tokio::test]
async fn an_answer_by_link_is_logged_without_the_link() {
    let collected = Collected::default();
    let _guard = tracing::subscriber::set_default(collected.clone());
    let world = World::new().await;
    let id = crate::approvals::asked(&world, |asked| asked).await;
    let path = crate::links::link(&world, &id).await;
    assert_eq!(crate::links::open(&world, &path).await.status, 200);
    assert_eq!(crate::links::answer(&world, &path, "verdict=refuse&reason=swordfish").await.status, 200);
    let all = collected.0.lock().unwrap().join("\n");
    assert!(all.contains("/v1/approvals/{call}/answer/{token}"), "{all}");
    for secret in [path.rsplit('/').next().unwrap(), "swordfish"] {
        assert!(!all.contains(secret), "{all}");
    }
}

#[tokio::test]
async fn an_idempotency_key_is_in_no_event_id_and_in_no_root() {
    let world = World::new().await;
    let send = async |key: &str| {
        let request = axum::http::Request::post("/v1/agents/muhammad/events")
            .header("host", "localhost")
            .header("authorization", format!("Bearer {ADMIN}"))
            .header("content-type", "application/json")
            .header("idempotency-key", key);
        world.send(request.body(r#"{"service": "bell"}"#.into()).unwrap()).await
    };
    let (one, again, other) = (send("swordfish").await, send("swordfish").await, send("trout").await);
    assert_eq!((one.status, again.status, other.status), (201, 200, 201));
    assert_eq!(one.json["id"], again.json["id"]);
    assert_ne!(one.json["id"], other.json["id"]);
    let inbox = world.get("/v1/agents/muhammad/events").await.json;
    assert_eq!(inbox["items"][1]["envelope"]["root"], one.json["id"]);
    assert!(!inbox.to_string().contains("swordfish"), "{inbox}");
}
