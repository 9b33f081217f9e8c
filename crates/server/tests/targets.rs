//! Targets over the API: added, changed, listed and removed, and what is refused.

use agent::port::{AfterFailure, FailedAttempt, FailureNoted};
use axum::http::Method;
use serde_json::{Value, json};

use crate::world::{ADMIN, Answer, World};

async fn put(world: &World, name: &str, target: Value) -> Answer {
    world.ask(Method::PUT, &format!("/v1/targets/{name}"), ADMIN, Some(target)).await
}

fn board() -> Value {
    json!({"url": "https://example.com/in", "secrets": ["news"], "on": ["message"], "space": "home"})
}

#[tokio::test]
async fn a_target_is_added_told_and_listed_with_what_waits_for_it() {
    let world = World::new().await;
    let answer = put(&world, "Board", board()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let shown = ["name", "space_handle", "waiting", "dead"].map(|key| answer.json[key].clone());
    assert_eq!(shown, [json!("board"), json!("home"), json!(0), json!(0)]);
    assert_eq!(answer.json["missing_secrets"], json!({"news": "it is not set"}));
    let sent = world.post("/v1/spaces/home/messages", json!({"text": "hello", "sender": "you"})).await;
    assert_eq!(sent.status, 201);
    assert_eq!(world.get("/v1/targets/board").await.json["waiting"], 1);
    let book = &world.ports.target_book;
    let (board, waiting) = book.deliveries_due(world.ports.clock.now(), 5).await.unwrap().remove(0);
    let body: Value = serde_json::from_str(&waiting.body).unwrap();
    assert_eq!((&body["data"]["text"], &body["data"]["sender_handle"]), (&json!("hello"), &json!("you")));
    let failed = |then| FailedAttempt { why: "it answered 500".to_owned(), then, at: waiting.at };
    let again = failed(AfterFailure::Retry(waiting.at));
    let began = book.delivery_failed(board.clone(), waiting.id.clone(), again).await.unwrap();
    assert_eq!(began, FailureNoted::Began);
    let shown = world.get("/v1/targets/board").await.json;
    assert_eq!((&shown["attempts"], &shown["failed_at"]), (&json!(1), &json!(waiting.at)));
    book.delivery_failed(board, waiting.id.clone(), failed(AfterFailure::Dead)).await.unwrap();
    let dead = world.get("/v1/targets/board/dead").await.json["items"].clone();
    assert_eq!((&dead[0]["id"], &dead[0]["why"]), (&json!(waiting.id), &json!("it answered 500")));
    let retry = json!({"id": waiting.id});
    assert_eq!(world.post("/v1/targets/board/retry", retry).await.json, json!({"retried": 1}));
    assert_eq!(world.post("/v1/targets/board/retry", json!({})).await.json, json!({"retried": 0}));
    let listed = world.get("/v1/targets").await.json["items"].clone();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["waiting"]), (1, &json!(1)));
    assert_eq!(world.ask(Method::DELETE, "/v1/targets/board", ADMIN, None).await.status, 204);
    assert_eq!(world.ask(Method::DELETE, "/v1/targets/board", ADMIN, None).await.code(), "not_found");
    assert_eq!(world.post("/v1/targets/board/retry", json!({})).await.code(), "not_found");
}

#[tokio::test]
async fn a_target_that_cannot_be_is_refused_with_the_reason() {
    let world = World::new().await;
    let with = |key: &str, value: Value| {
        let mut target = board();
        target[key] = value;
        target
    };
    for (target, code, words) in [
        (with("agent", json!("muhammad")), "bad_target", "either `space` or `agent`"),
        (with("space", json!(null)), "bad_target", "either `space` or `agent`"),
        (with("space", json!("nowhere")), "not_found", "nowhere"),
        (
            with("on", json!([])),
            "bad_target",
            "known are `message`, `cycle.ended`, `alert`, `approval.wanted`",
        ),
        (with("on", json!(["mesage"])), "bad_target", "there is no `mesage`"),
        (with("on", json!(["cycle.ended"])), "bad_target", "a space has no `cycle.ended`"),
        (with("url", json!("file:///etc/passwd")), "bad_target", "`url`"),
        (with("allow", json!(["a b"])), "bad_target", "`allow`"),
        (with("secrets", json!(["a b"])), "bad_target", "`secrets`"),
        (with("to", json!("x")), "unknown_field", "to"),
        (with("only_if", json!("dat.urgent")), "bad_target", "`only_if`"),
        (with("body", json!({"text": "{{ data.text"})), "bad_target", "`body`: in `text`"),
    ] {
        let answer = put(&world, "board", target.clone()).await;
        assert_eq!(answer.code(), code, "{target}: {answer:?}");
        assert!(answer.problem_text().contains(words), "{target}: {answer:?}");
    }
    let mut written = with("only_if", json!("data.urgent"));
    written["body"] = json!({"text": "{{ data.text }}", "n": 1});
    let kept = put(&world, "written", written.clone()).await.json;
    assert_eq!((&kept["only_if"], &kept["body"]), (&written["only_if"], &written["body"]));
    assert_eq!(world.get("/v1/targets/written").await.json, kept);
    let of_agent = json!({"url": "https://a.example", "secrets": ["s"], "on": ["alert", "message", "alert"], "agent": "muhammad"});
    assert_eq!(put(&world, "ops", of_agent).await.json["on"], json!(["message", "alert"]));
    world.post("/v1/agents/muhammad/retire", json!({})).await;
    let of_retired =
        json!({"url": "https://a.example", "secrets": ["s"], "on": ["alert"], "agent": "muhammad"});
    let answer = put(&world, "ops", of_retired).await;
    assert_eq!((answer.status, answer.code()), (409, "agent_retired"), "{answer:?}");
    assert_eq!(put(&world, "a%20b", board()).await.code(), "bad_handle");
}
