//! `Idempotency-Key`: the same request sent again has no second effect, whatever it does.

use std::time::Duration;

use agent::changes::{Changes, CommitKind};
use agent::life::Lease;
use agent::port::Clock;
use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::world::{ADMIN, Answer, World};

async fn post_as(world: &World, bearer: &str, path: &str, key: &str, body: &Value) -> Answer {
    let request = Request::post(path)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {bearer}"))
        .header("content-type", "application/json")
        .header("idempotency-key", key);
    world.send(request.body(Body::from(body.to_string())).unwrap()).await
}

async fn post(world: &World, path: &str, key: &str, body: &Value) -> Answer {
    post_as(world, ADMIN, path, key, body).await
}

#[tokio::test]
async fn what_is_created_is_created_once_and_returned_again() {
    let world = World::new().await;
    for (n, path) in ["/v1/entities", "/v1/agents", "/v1/spaces"].into_iter().enumerate() {
        let (key, body) = (format!("create-{n}"), json!({"handle": format!("new-{n}")}));
        let first = post(&world, path, &key, &body).await;
        assert_eq!(first.status, 201, "{path}: {first:?}");
        let again = post(&world, path, &key, &body).await;
        assert_eq!((again.status, &again.json["id"]), (200, &first.json["id"]), "{path}: {again:?}");
        let other = post(&world, path, &key, &json!({"handle": "something-else"})).await;
        assert_eq!((other.status, other.code()), (409, "key_reused"), "{path}: {other:?}");
        let elsewhere = post(&world, "/v1/entities", &key, &json!({"handle": "another"})).await;
        assert_eq!((elsewhere.status, elsewhere.code()), (409, "key_reused"), "{path}: {elsewhere:?}");
        let without = post(&world, path, &format!("{key}-new"), &body).await;
        assert_eq!((without.status, without.code()), (409, "handle_taken"), "{path}: {without:?}");
    }
}

#[tokio::test]
async fn a_request_that_was_cut_off_before_it_created_anything_can_be_sent_again() {
    let world = World::new().await;
    let taken = post(&world, "/v1/entities", "k", &json!({"handle": "muhammad"})).await;
    assert_eq!(taken.code(), "handle_taken", "{taken:?}");
    // The key is noted before anything is created: the next attempt continues with the same id.
    let again = post(&world, "/v1/entities", "k", &json!({"handle": "muhammad"})).await;
    assert_eq!((again.status, again.code()), (409, "handle_taken"), "{again:?}");
}

#[tokio::test]
async fn a_change_is_made_once() {
    let world = World::new().await;
    let agent = "/v1/agents/muhammad";
    let suspended = post(&world, &format!("{agent}/suspend"), "s", &json!({})).await;
    assert_eq!(suspended.json["standing"], "suspended", "{suspended:?}");
    assert_eq!(world.post(&format!("{agent}/resume"), json!({})).await.json["standing"], "active");
    let again = post(&world, &format!("{agent}/suspend"), "s", &json!({})).await;
    assert_eq!((again.status, &again.json["standing"]), (200, &json!("active")), "it is not suspended again");
    let other = post(&world, &format!("{agent}/retire"), "s", &json!({})).await;
    assert_eq!((other.status, other.code()), (409, "key_reused"));

    world.post("/v1/entities", json!({"handle": "zainab"})).await;
    let members = "/v1/spaces/home/members";
    let add = json!({"entity": "zainab", "role": "guest"});
    assert_eq!(post(&world, members, "m", &add).await.json["role"], "guest");
    assert_eq!(world.post(members, json!({"entity": "zainab", "role": "host"})).await.json["role"], "host");
    assert_eq!(post(&world, members, "m", &add).await.json["role"], "host", "the role is not changed back");

    let event = json!({"service": "bell"});
    let sent = post(&world, &format!("{agent}/events"), "e", &event).await;
    let cancel = format!("{agent}/events/{}/cancel", sent.json["id"].as_str().unwrap());
    for _ in 0..2 {
        let canceled = post(&world, &cancel, "c", &json!({})).await;
        assert_eq!((canceled.status, &canceled.json["state"]), (200, &json!("canceled")));
    }
    assert_eq!(world.post(&cancel, json!({})).await.code(), "event_state");

    for _ in 0..2 {
        let closed = post(&world, "/v1/spaces/home/close", "x", &json!({})).await;
        assert_eq!((closed.status, &closed.json["closed"]), (200, &json!(true)));
    }
}

#[tokio::test]
async fn a_repeated_cancel_names_the_cycle_that_was_canceled() {
    let world = World::new().await;
    let cycle = agent::id::CycleId(uuid::Uuid::from_u128(5));
    crate::world::open_cycle(&world, cycle, &[]).await;
    for _ in 0..2 {
        let canceled = post(&world, "/v1/agents/muhammad/cancel", "c", &json!({})).await;
        assert_eq!((canceled.status, &canceled.json["cycle"]), (200, &json!(cycle)), "{canceled:?}");
    }
    let end = Changes::new(CommitKind::Close, cycle, 0, 1, world.ports.clock.now());
    world.ports.store.commit(Lease { agent: world.agent, epoch: 1 }, end).await.unwrap();
    let next = agent::id::CycleId(uuid::Uuid::from_u128(6));
    crate::world::open_next_cycle(&world, next).await;
    let again = post(&world, "/v1/agents/muhammad/cancel", "c", &json!({})).await;
    assert_eq!((again.status, &again.json["cycle"]), (200, &json!(cycle)), "{again:?}");
    let activation =
        world.ports.store.wake(world.agent, world.ports.clock.now(), None).await.unwrap().unwrap();
    assert_ne!(activation.cancel, Some(next), "the next cycle runs on");
    let other = post(&world, "/v1/agents/muhammad/cancel", "c", &json!({"cycle": cycle})).await;
    assert_eq!((other.status, other.code()), (409, "key_reused"));
}

#[tokio::test]
async fn of_different_requests_with_one_key_at_once_one_takes_effect() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::on_disk(dir.path()).await;
    let (agent, none) = ("/v1/agents/muhammad", json!({}));
    for round in 0..10 {
        let key = format!("both-{round}");
        let (suspend, resume) = (format!("{agent}/suspend"), format!("{agent}/resume"));
        let (one, other) =
            tokio::join!(post(&world, &suspend, &key, &none), post(&world, &resume, &key, &none));
        let mut got = [(one.status, one.code()), (other.status, other.code())];
        got.sort_unstable();
        assert_eq!(got, [(200, ""), (409, "key_reused")], "round {round}");
        let same = format!("same-{round}");
        let (one, other) =
            tokio::join!(post(&world, &suspend, &same, &none), post(&world, &suspend, &same, &none));
        assert_eq!((one.status, other.status), (200, 200), "round {round}: {one:?} {other:?}");
    }
    world.post(&format!("{agent}/resume"), json!({})).await;
    let cycle = agent::id::CycleId(uuid::Uuid::from_u128(5));
    crate::world::open_cycle(&world, cycle, &[]).await;
    let (cancel, named) = (format!("{agent}/cancel"), json!({"cycle": cycle}));
    let (one, other) = tokio::join!(post(&world, &cancel, "c", &none), post(&world, &cancel, "c", &named));
    let mut got = [(one.status, one.code()), (other.status, other.code())];
    got.sort_unstable();
    assert_eq!(got, [(200, ""), (409, "key_reused")]);
}

#[tokio::test]
async fn a_request_that_was_refused_keeps_its_key_and_can_be_sent_again() {
    let world = World::new().await;
    let cancel = "/v1/agents/muhammad/cancel";
    let wrong = json!({"cycle": uuid::Uuid::from_u128(9)});
    for _ in 0..2 {
        let refused = post(&world, cancel, "c", &wrong).await;
        assert_eq!((refused.status, refused.code()), (409, "no_open_cycle"), "it canceled nothing");
    }
    post(&world, "/v1/agents/muhammad/retire", "r", &json!({})).await;
    for _ in 0..2 {
        let refused = post(&world, "/v1/agents/muhammad/suspend", "s", &json!({})).await;
        assert_eq!((refused.status, refused.code()), (409, "agent_retired"));
    }
    let other = post(&world, "/v1/spaces/home/close", "s", &json!({})).await;
    assert_eq!((other.status, other.code()), (409, "key_reused"));
}

#[tokio::test]
async fn two_keys_in_one_request_are_refused() {
    let world = World::new().await;
    let request = Request::post("/v1/entities")
        .header("host", "localhost")
        .header("authorization", format!("Bearer {ADMIN}"))
        .header("content-type", "application/json")
        .header("idempotency-key", "a")
        .header("idempotency-key", "b");
    let refused = world.send(request.body(Body::from(r#"{"handle": "nur"}"#)).unwrap()).await;
    assert_eq!((refused.status, refused.code()), (400, "bad_header"), "{refused:?}");
}

#[tokio::test]
async fn a_new_key_is_found_again_after_its_time() {
    let world = World::new().await;
    let ends = world.clock.now() + Duration::from_secs(60);
    let new = json!({"scope": "operator:read", "label": "ci", "expires_at": ends});
    let made = post(&world, "/v1/keys", "k", &new).await;
    assert_eq!(made.status, 201, "{made:?}");
    let rotate = format!("/v1/keys/{}/rotate", made.json["id"].as_str().unwrap());
    let rotated = post(&world, &rotate, "r", &json!({"expires_at": ends})).await;
    assert_eq!(rotated.status, 201, "{rotated:?}");
    world.clock.advance(Duration::from_secs(120));
    for (path, key, body, first) in
        [("/v1/keys", "k", new.clone(), &made), (&*rotate, "r", json!({"expires_at": ends}), &rotated)]
    {
        let again = post(&world, path, key, &body).await;
        assert_eq!((again.status, &again.json["id"]), (200, &first.json["id"]), "{path}: {again:?}");
        assert!(again.json.get("secret").is_none_or(Value::is_null), "{again:?}");
    }
    let fresh = post(&world, "/v1/keys", "other", &new).await;
    assert_eq!((fresh.status, fresh.code()), (422, "bad_value"));
}

#[tokio::test]
async fn keys_of_people_and_of_administrators_are_apart() {
    let world = World::new().await;
    let yours = world.your_key().await;
    let messages = "/v1/spaces/home/messages";
    let mine = post_as(&world, &yours, messages, "k", &json!({"text": "hi"})).await;
    assert_eq!(mine.status, 201, "{mine:?}");
    let theirs = post(&world, messages, "k", &json!({"text": "hi", "sender": "you"})).await;
    assert_eq!(theirs.status, 201, "{theirs:?}");
    assert_eq!(post_as(&world, &yours, messages, "k", &json!({"text": "hi"})).await.status, 200);
}
