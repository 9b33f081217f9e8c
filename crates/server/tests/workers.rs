//! Workers over the API: claims, renewals and answers, and what is refused.

use agent::call::Runner;
use agent::id::{CallId, ClaimId};
use agent::limits;
use agent::port::Claimed;
use axum::http::Method;
use runtime::node::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::TcpStream;

use crate::calls::open_call;
use crate::sockets::{Served, connect, line_with, served};
use crate::world::{ADMIN, Answer, World};

async fn post(world: &World, route: &str, key: &str, body: Value) -> Answer {
    world.ask(Method::POST, &format!("/v1/workers/{route}"), key, Some(body)).await
}

fn wanted(tool: &str) -> Value {
    json!({"tools": [{"name": tool}], "wait_ms": 0})
}

async fn worker_key(world: &World, tools: &str) -> String {
    world.key(json!({"scope": format!("worker:{tools}")})).await.1
}

/// A call that a worker has claimed.
async fn claimed(world: &World) -> (CallId, ClaimId) {
    let (call, claim) = (open_call(world, "resize", Runner::Worker).await, ClaimId(world.ports.ids.uuid()));
    assert_eq!(world.ports.calls.claim(call.clone(), claim, true).await.unwrap(), Claimed::Given(1));
    (call, claim)
}

#[tokio::test]
async fn a_key_of_a_worker_may_run_its_tools_and_nothing_else() {
    let world = World::new().await;
    for (tools, allowed) in [("resize", true), ("re*", true), ("*", true), ("rotate", false)] {
        let key = worker_key(&world, tools).await;
        let answer = post(&world, "claim", &key, wanted("resize")).await;
        assert_eq!((answer.status, tools), (if allowed { 204 } else { 403 }, tools));
        assert_eq!(world.ask(Method::GET, "/v1/agents", &key, None).await.code(), "forbidden");
        assert_eq!(
            world.ask(Method::GET, "/v1/whoami", &key, None).await.json["scope"],
            format!("worker:{tools}")
        );
    }
    for scope in ["service:jira", "operator:read"] {
        let key = world.key(json!({"scope": scope})).await.1;
        assert_eq!(post(&world, "claim", &key, wanted("resize")).await.code(), "forbidden", "{scope}");
    }
    for scope in ["worker:", "worker", "worker:a b", "worker:../x"] {
        assert_eq!(world.post("/v1/keys", json!({"scope": scope})).await.code(), "bad_value", "{scope}");
    }
    let (call, claim) = claimed(&world).await;
    let stranger = worker_key(&world, "rotate").await;
    for route in ["renew", "finish"] {
        let body = json!({"call": call, "claim": claim});
        let body =
            if route == "finish" { json!({"call": call, "claim": claim, "output": "x"}) } else { body };
        let answer = post(&world, route, &stranger, body).await;
        assert_eq!(answer.code(), "not_found", "it does not learn that the call exists");
    }
}

#[tokio::test]
async fn a_claim_that_asks_for_what_no_worker_runs_says_so() {
    let world = World::new().await;
    let many: Vec<Value> =
        (0..=limits::WORKER_TOOLS_PER_CLAIM).map(|n| json!({"name": format!("t{n}")})).collect();
    for (body, code, words) in [
        (json!({"tools": [{"name": "nothing"}]}), "not_found", "nothing"),
        (json!({"tools": [{"name": "look"}]}), "bad_tool", "run by the server"),
        (json!({"tools": [{"name": "resize", "version": "2"}]}), "worker_version", "version `1`"),
        (json!({"tools": []}), "bad_value", "1 to 32"),
        (json!({"tools": many}), "bad_value", "1 to 32"),
        (json!({"tools": [{"name": "resize"}], "wait_ms": 25_001}), "bad_value", "at most 25000"),
        (json!({"tools": [{"name": "resize"}], "wait": 1}), "unknown_field", "wait"),
    ] {
        let answer = post(&world, "claim", ADMIN, body.clone()).await;
        assert_eq!(answer.code(), code, "{body}: {answer:?}");
        assert!(answer.problem_text().contains(words), "{body}: {answer:?}");
    }
}

#[tokio::test]
async fn an_answer_is_the_outcome_and_may_be_sent_twice() {
    let world = World::new().await;
    let key = worker_key(&world, "resize").await;
    let (call, claim) = claimed(&world).await;
    world.signals();
    let renewed = post(&world, "renew", &key, json!({"call": call, "claim": claim})).await;
    assert_eq!(renewed.json, json!({"lease_ms": limits::WORKER_LEASE_MS}));
    let both = json!({"call": call, "claim": claim, "output": 1, "error": "x"});
    for body in [both, json!({"call": call, "claim": claim})] {
        assert_eq!(post(&world, "finish", &key, body).await.code(), "bad_value");
    }
    let of_another = json!({"call": call, "claim": ClaimId(world.ports.ids.uuid()), "output": "x"});
    assert_eq!(post(&world, "finish", &key, of_another).await.code(), "claim_lost");
    let answer = json!({"call": call, "claim": claim, "output": {"width": 10}});
    assert_eq!(post(&world, "finish", &key, answer.clone()).await.json, json!({"taken": true}));
    assert!(world.signals().contains(&Signal::Answered(call.clone())));
    assert_eq!(post(&world, "finish", &key, answer).await.json, json!({"taken": false}));
    let renewed = post(&world, "renew", &key, json!({"call": call, "claim": claim})).await;
    assert_eq!(renewed.code(), "claim_lost");
    let row = world.ports.calls.worker_call(call).await.unwrap().unwrap().row;
    let outcome = row.outcome.unwrap();
    assert_eq!((outcome.text.as_str(), outcome.failed()), (r#"{"width":10}"#, false));
}

#[tokio::test]
async fn every_json_value_is_an_output_and_a_failure_is_a_text() {
    for (answer, text, failed) in [
        (json!({"output": null}), "done; it has no output", false),
        (json!({"output": ""}), "", false),
        (json!({"output": [1, 2]}), "[1,2]", false),
        (json!({"output": 0}), "0", false),
        (json!({"error": "no such image"}), "no such image", true),
    ] {
        let world = World::new().await;
        let (call, claim) = claimed(&world).await;
        let mut body = answer.clone();
        body["call"] = json!(call);
        body["claim"] = json!(claim);
        assert_eq!(post(&world, "finish", ADMIN, body).await.json, json!({"taken": true}), "{answer}");
        let outcome = world.ports.calls.worker_call(call).await.unwrap().unwrap().row.outcome.unwrap();
        assert_eq!((outcome.text.as_str(), outcome.failed()), (text, failed), "{answer}");
    }
}

#[tokio::test]
async fn the_claims_of_one_key_that_wait_are_bounded_and_end_when_the_server_stops() {
    let world = World::new().await;
    let key = worker_key(&world, "resize").await;
    let waiting = json!({"tools": [{"name": "resize"}]});
    let claims = (0..limits::WORKER_CLAIMS_PER_KEY).map(|_| post(&world, "claim", &key, waiting.clone()));
    let claims = futures_util::future::join_all(claims);
    tokio::pin!(claims);
    assert!(futures_util::poll!(&mut claims).is_pending());
    // Their keys are read before they wait.
    while world.get("/v1/tools/resize").await.json["workers"]["waiting_workers"]
        != json!(limits::WORKER_CLAIMS_PER_KEY)
    {
        assert!(futures_util::poll!(&mut claims).is_pending());
    }
    assert_eq!(post(&world, "claim", &key, waiting.clone()).await.code(), "too_many_requests");
    assert_eq!(post(&world, "claim", ADMIN, wanted("resize")).await.status, 204, "another key");
    world.shutdown.cancel();
    assert!(claims.await.iter().all(|answer| answer.code() == "closing"));
    assert_eq!(world.ports.workers.counts("resize"), Default::default());
}

/// A claim of `resize` on a socket.
async fn claim_on_socket(served: &Served, wait_ms: u64) -> BufReader<TcpStream> {
    let body = json!({"tools": [{"name": "resize"}], "wait_ms": wait_ms}).to_string();
    let head = format!(
        "POST /v1/workers/claim HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    connect(served, &head).await
}

async fn waiting_workers(served: &Served, number: usize) {
    while served.world.ports.workers.counts("resize").waiting_workers != number {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_claim_that_waits_on_a_socket_answers_there_and_ends_with_its_client() {
    let served = served().await;
    let mut at_once = claim_on_socket(&served, 0).await;
    line_with(&mut at_once, "HTTP/1.1 204").await;
    let gone = claim_on_socket(&served, 25_000).await;
    waiting_workers(&served, 1).await;
    drop(gone);
    waiting_workers(&served, 0).await;
    let mut waits = claim_on_socket(&served, 25_000).await;
    waiting_workers(&served, 1).await;
    served.shutdown.cancel();
    let mut answer = String::new();
    waits.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    for part in
        ["HTTP/1.1 503 ", "connection: close", "x-request-id: ", "content-type: application/problem+json"]
    {
        assert!(head.contains(part), "{part}: {head}");
    }
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    assert_eq!(serde_json::from_str::<Value>(body).unwrap()["code"], "closing");
    assert_eq!(served.world.ports.workers.counts("resize"), Default::default());
}
