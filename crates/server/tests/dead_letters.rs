//! Single events of an inbox: cancel, retry, drop.

use agent::changes::{Changes, CommitKind, Settlement};
use agent::event::EventState;
use agent::id::CycleId;
use agent::life::Lease;
use axum::body::Body;
use axum::http::{Method, Request};
use runtime::node::Signal;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{ADMIN, Answer, World, open_cycle};

const EVENTS: &str = "/v1/agents/muhammad/events";

fn cycle() -> CycleId {
    CycleId(Uuid::from_u128(5))
}

/// Sends an event; returns its id.
async fn send_event(world: &World) -> String {
    let sent = world.post(EVENTS, json!({"service": "jira", "payload": {"issue": 7}})).await;
    sent.json["id"].as_str().unwrap().to_owned()
}

/// Opens a cycle with the first event, and closes the cycle with that state for the event.
async fn close_cycle(world: &World, state: EventState) {
    open_cycle(world, cycle(), &[1]).await;
    let mut end = Changes::new(CommitKind::Close, cycle(), 0, 1, world.ports.clock.now());
    end.settle = vec![Settlement { seq: 1, state }];
    world.ports.store.commit(Lease { agent: world.agent, epoch: 1 }, end).await.unwrap();
}

async fn event_action(world: &World, event: &str, verb: &str) -> Answer {
    world.ask(Method::POST, &format!("{EVENTS}/{event}/{verb}"), ADMIN, None).await
}

#[tokio::test]
async fn a_dead_event_is_listed_with_its_reason_and_can_be_retried() {
    let world = World::new().await;
    let event = send_event(&world).await;
    close_cycle(&world, EventState::Dead { reason: "it broke the model".into() }).await;
    let dead = world.get("/v1/agents/muhammad/events?state=dead").await;
    let dead = &dead.json["items"][0];
    assert_eq!((&dead["state"], &dead["reason"]), (&json!("dead"), &json!("it broke the model")));
    let agent = world.get("/v1/agents/muhammad").await;
    assert_eq!(
        agent.json["dead_events"],
        json!({"count": 1, "last_event": event, "reason": "it broke the model"})
    );
    world.signals();
    let again = event_action(&world, &event, "retry").await;
    assert_eq!((again.status, &again.json), (200, &json!({"id": event, "duplicate": false})));
    assert!(matches!(world.signals()[..], [Signal::Due(due)] if due.agent == world.agent));
    let gone = event_action(&world, &event, "drop").await;
    assert_eq!((gone.status, gone.code()), (409, "event_state"), "{gone:?}");
    assert_eq!(event_action(&world, &event, "cancel").await.json["state"], "canceled");
    assert_eq!(event_action(&world, &event, "retry").await.code(), "event_state");
    for verb in ["retry", "drop", "cancel"] {
        assert_eq!(event_action(&world, "nothing", verb).await.status, 404, "{verb}");
    }
}

#[tokio::test]
async fn a_dropped_event_stays_listed() {
    let world = World::new().await;
    let event = send_event(&world).await;
    close_cycle(&world, EventState::Dead { reason: "it broke the model".into() }).await;
    let dropped = event_action(&world, &event, "drop").await;
    assert_eq!((dropped.status, &dropped.json["state"]), (200, &json!("dropped")), "{dropped:?}");
    let listed = world.get("/v1/agents/muhammad/events?state=dropped").await;
    assert_eq!(listed.json["items"][0]["id"], json!(event));
}

#[tokio::test]
async fn retrying_a_skipped_event_sends_one_new_event_per_idempotency_key() {
    let world = World::new().await;
    let event = send_event(&world).await;
    close_cycle(&world, EventState::Skipped { reason: None, cycle: None }).await;
    let retry = async |event: &str| {
        let request = Request::post(format!("{EVENTS}/{event}/retry")).header("host", "localhost");
        let request =
            request.header("authorization", format!("Bearer {ADMIN}")).header("idempotency-key", "k");
        world.send(request.body(Body::empty()).unwrap()).await
    };
    let first = retry(&event).await;
    assert_eq!((first.status, &first.json["duplicate"]), (201, &Value::Bool(false)), "{first:?}");
    let fresh = world.get(first.headers["location"].to_str().unwrap()).await;
    assert_eq!((&fresh.json["cites"], &fresh.json["state"]), (&json!(event), &json!("waiting")));
    let second = retry(&event).await;
    assert_eq!((second.status, &second.json["duplicate"]), (200, &Value::Bool(true)), "{second:?}");
    assert_eq!(second.json["id"], first.json["id"]);
    assert_eq!(retry("another").await.code(), "key_reused");
}

#[tokio::test]
async fn canceling_an_event_that_the_open_cycle_took_reports_that_cycle() {
    let world = World::new().await;
    let event = send_event(&world).await;
    open_cycle(&world, cycle(), &[1]).await;
    let taken = event_action(&world, &event, "cancel").await;
    assert_eq!((taken.status, taken.code()), (409, "event_taken"), "{taken:?}");
    assert!(taken.problem_text().contains(&cycle().to_string()), "{taken:?}");
}
