//! Posting messages: access, senders, and idempotency.

use axum::body::Body;
use axum::http::{Method, Request};
use runtime::node::Signal;
use serde_json::{Value, json};

use crate::world::{ADMIN, Answer, World};

const MESSAGES: &str = "/v1/spaces/home/messages";

async fn post_with_key(world: &World, path: &str, key: &str, body: &Value) -> Answer {
    let request = Request::post(path)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {ADMIN}"))
        .header("content-type", "application/json")
        .header("idempotency-key", key);
    world.send(request.body(Body::from(body.to_string())).unwrap()).await
}

#[tokio::test]
async fn a_retired_agent_cannot_be_mentioned_by_request() {
    let world = World::new().await;
    assert_eq!(world.post("/v1/agents/muhammad/retire", json!({})).await.status, 200);
    let body = json!({"text": "hello", "sender": "you", "mentions": ["muhammad"]});
    let refused = world.post("/v1/spaces/home/messages", body).await;
    assert_eq!((refused.status, refused.code()), (422, "bad_mention"), "{refused:?}");
    assert_eq!(refused.json["detail"], "`mentions[0]`: no member is called `muhammad`");
    let posted = world.get("/v1/spaces/home/messages").await;
    assert_eq!(posted.json["items"], json!([]), "{posted:?}");
}

#[tokio::test]
async fn a_message_is_stored_with_its_senders_name_and_wakes_the_agent() {
    let world = World::new().await;
    let body =
        json!({"text": "Hello @muhammad", "sender": "you", "mentions": ["Muhammad"], "data": {"a": 1}});
    let posted = world.post(MESSAGES, body).await;
    assert_eq!(posted.status, 201, "{posted:?}");
    let message = &posted.json;
    assert_eq!(message["seq"], 1);
    assert_eq!((&message["sender_display_name"], &message["sender_kind"]), (&json!("You"), &json!("human")));
    assert_eq!(message["sender_handle"], "you");
    assert_eq!(message["mentions"], json!([world.agent]));
    assert_eq!(message["root"], message["id"]);
    assert_eq!((&message["hop"], &message["data"]), (&json!(0), &json!({"a": 1})));
    let signals = world.signals();
    assert!(matches!(signals[..], [Signal::Due(wakeup)] if wakeup.agent == world.agent), "{signals:?}");

    let location = posted.headers["location"].to_str().unwrap();
    assert_eq!(world.get(location).await.json, *message);
    assert_eq!(world.get(MESSAGES).await.json["items"], json!([message]));
    let inbox = world.get("/v1/agents/muhammad/events?state=waiting").await;
    let event = &inbox.json["items"][0];
    assert_eq!((&event["kind"], &event["state"]), (&json!("mention"), &json!("waiting")));
    assert_eq!(event["envelope"]["trust"], "member");
    assert_eq!(event["envelope"]["principal"], json!({"kind": "entity", "id": world.you}));
}

#[tokio::test]
async fn a_message_sent_again_with_the_same_id_is_posted_once() {
    let world = World::new().await;
    let body = json!({"text": "hi", "sender": "you", "id": "0192d3e4-0000-4000-8000-000000000001"});
    let first = world.post(MESSAGES, body.clone()).await;
    assert_eq!(first.status, 201);
    world.signals();
    for _ in 0..4 {
        let again = world.post(MESSAGES, body.clone()).await;
        assert_eq!((again.status, &again.json), (200, &first.json));
    }
    assert_eq!(world.signals(), []);
    let other = json!({"text": "ho", "sender": "you", "id": "0192d3e4-0000-4000-8000-000000000001"});
    let taken = world.post(MESSAGES, other).await;
    assert_eq!((taken.status, taken.code()), (409, "id_taken"));
    assert_eq!(world.get("/v1/spaces/home").await.json["head_seq"], 1);
}

/// The local key of a server is another one after each start.
#[tokio::test]
async fn an_idempotency_key_is_recognized_under_another_key_of_the_same_principal() {
    let world = World::new().await;
    let key = world.another_admin_key().await;
    let body = json!({"text": "once", "sender": "you"});
    let event = json!({"service": "deploys", "payload": {"ok": true}});
    let send = |path: &str, key: &str, body: &Value| {
        let request = Request::post(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json")
            .header("idempotency-key", format!("k-{}", path.len()));
        world.send(request.body(Body::from(body.to_string())).unwrap())
    };
    for (path, body) in [(MESSAGES, &body), ("/v1/agents/muhammad/events", &event)] {
        let first = send(path, ADMIN, body).await;
        let again = send(path, &key, body).await;
        assert_eq!((first.status, again.status), (201, 200), "{first:?} {again:?}");
    }
    // A person's keys are another principal's.
    let yours = world.your_key().await;
    let mine = send(MESSAGES, &yours, &json!({"text": "once"})).await;
    assert_eq!(mine.status, 201, "{mine:?}");
}

#[tokio::test]
async fn an_idempotency_key_belongs_to_one_body() {
    let world = World::new().await;
    let body = json!({"text": "hi", "sender": "you"});
    let first = post_with_key(&world, MESSAGES, "k 1", &body).await;
    assert_eq!(first.status, 201);
    let again = post_with_key(&world, MESSAGES, "k 1", &body).await;
    assert_eq!((again.status, &again.json), (200, &first.json));
    // Another path is another request, also if it names the same space.
    let by_id = format!("/v1/spaces/{}/messages", world.home);
    let other = post_with_key(&world, &by_id, "k 1", &body).await;
    assert_eq!((other.status, other.code()), (409, "key_reused"));
    let other = post_with_key(&world, MESSAGES, "k 1", &json!({"text": "ho", "sender": "you"})).await;
    assert_eq!((other.status, other.code()), (409, "key_reused"));
    let elsewhere =
        post_with_key(&world, "/v1/agents/muhammad/events", "k 1", &json!({"service": "a"})).await;
    assert_eq!((elsewhere.status, elsewhere.code()), (409, "key_reused"));
    assert_eq!(post_with_key(&world, MESSAGES, "k 2", &body).await.json["seq"], 2);
}

#[tokio::test]
async fn an_event_sent_again_with_the_same_key_is_accepted_once_and_can_be_read() {
    let world = World::new().await;
    let (path, body) = ("/v1/agents/muhammad/events", json!({"service": "jira", "payload": {"issue": 7}}));
    let first = post_with_key(&world, path, "a/b", &body).await;
    assert_eq!((first.status, &first.json["duplicate"]), (201, &json!(false)), "{first:?}");
    assert_eq!(world.signals().len(), 1);
    let again = post_with_key(&world, path, "a/b", &body).await;
    assert_eq!((again.status, &again.json["duplicate"]), (200, &json!(true)));
    assert_eq!(again.json["id"], first.json["id"]);
    assert_eq!(world.signals(), []);
    let event = world.get(first.headers["location"].to_str().unwrap()).await;
    assert_eq!((event.status, &event.json["id"]), (200, &first.json["id"]));
    assert_eq!(event.json["data"], json!({"type": "service", "name": "jira", "payload": {"issue": 7}}));
    assert_eq!(event.json["envelope"]["trust"], "operator");
    assert_eq!(event.json["envelope"]["channel"], "api");

    let unkeyed = world.post(path, body).await;
    assert_eq!(unkeyed.status, 201);
    let id = unkeyed.json["id"].as_str().unwrap();
    assert!(id.parse::<uuid::Uuid>().is_ok(), "{id}");
}

#[tokio::test]
async fn an_idempotency_key_cannot_produce_a_reserved_event_id() {
    let world = World::new().await;
    let path = "/v1/agents/muhammad/events";
    let sent = post_with_key(&world, path, "plan:1:2026-11-21T14:00:00Z", &json!({"service": "a"})).await;
    assert!(sent.json["id"].as_str().unwrap().starts_with("api:"), "{sent:?}");
}

#[tokio::test]
async fn an_entitys_key_posts_as_its_own_entity_and_only_in_its_own_spaces() {
    let world = World::new().await;
    let key = world.your_key().await;
    let post = async |path: &str, body: Value| world.ask(Method::POST, path, &key, Some(body)).await;
    let posted = post(MESSAGES, json!({"text": "hi"})).await;
    assert_eq!((posted.status, &posted.json["sender"]), (201, &json!(world.you)), "{posted:?}");
    let named = post(MESSAGES, json!({"text": "hi", "sender": "you"})).await;
    assert_eq!((named.status, named.code()), (422, "sender_refused"));
    world.post("/v1/spaces", json!({"handle": "other", "members": ["muhammad"]})).await;
    let elsewhere = post("/v1/spaces/other/messages", json!({"text": "hi"})).await;
    assert_eq!((elsewhere.status, elsewhere.code()), (404, "not_found"));
    let hidden = world.post("/v1/entities", json!({"handle": "ahmad"})).await.json["id"].clone();
    world.post("/v1/spaces/other/members", json!({"entity": hidden})).await;
    let theirs = world.post("/v1/spaces/other/messages", json!({"text": "psst", "sender": "ahmad"})).await;
    let path = theirs.headers["location"].to_str().unwrap();
    assert_eq!(world.ask(Method::GET, path, &key, None).await.status, 404);
    assert_eq!(world.get(path).await.status, 200);
    let own = world.ask(Method::GET, "/v1/spaces", &key, None).await;
    assert_eq!(own.json["items"].as_array().unwrap().len(), 1);
    assert_eq!(world.get("/v1/spaces").await.json["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn wake_on_of_a_space_can_be_set_changed_and_read() {
    let world = World::new().await;
    assert_eq!(world.get("/v1/spaces/home").await.json["wake_on"], "all");
    let created = world.post("/v1/spaces", json!({"handle": "quiet", "wake_on": "mention"})).await;
    assert_eq!((created.status, &created.json["wake_on"]), (201, &json!("mention")));
    let patch = |body| world.ask(Method::PATCH, "/v1/spaces/home", ADMIN, Some(body));
    let changed = patch(json!({"wake_on": "mention", "description": "calm"})).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let expected = json!(["mention", "calm", "Home", changed.json["rev"]]);
    let read = world.get("/v1/spaces/home").await.json;
    assert_eq!(json!([read["wake_on"], read["description"], read["display_name"], read["rev"]]), expected);
    let facts = world.get("/v1/agents/muhammad/facts").await.json;
    assert_eq!(facts["spaces"][0]["wake_on"], "mention");
    for (body, word) in [
        (json!({"wake_on": "never"}), "mention"),
        (json!({"wake_on": null, "wakeon": "all"}), "wakeon"),
        (json!({"wake_on": true}), "wake_on"),
        (json!({"display_name": "x".repeat(201)}), "display_name"),
    ] {
        let rejected = patch(body.clone()).await;
        assert!(rejected.status == 400 || rejected.status == 422, "{body}: {rejected:?}");
        assert!(rejected.problem_text().contains(word), "{body}: {rejected:?}");
    }
    assert_eq!(world.get("/v1/spaces/home").await.json, read);
    assert_eq!(world.ask(Method::PATCH, "/v1/spaces/nowhere", ADMIN, Some(json!({}))).await.status, 404);
}

#[tokio::test]
async fn a_non_member_cannot_post_and_a_closed_space_takes_no_messages() {
    let world = World::new().await;
    world.post("/v1/entities", json!({"handle": "ahmad"})).await;
    let stranger = world.post(MESSAGES, json!({"text": "hi", "sender": "ahmad"})).await;
    assert_eq!((stranger.status, stranger.code()), (403, "not_member"));
    assert_eq!(stranger.json["detail"], "`ahmad` is not a member of `home`");
    assert_eq!(world.post("/v1/spaces/home/close", json!({})).await.json["closed"], true);
    let closed = world.post(MESSAGES, json!({"text": "hi", "sender": "you"})).await;
    assert_eq!((closed.status, closed.code()), (409, "space_closed"));
    assert_eq!(closed.json["detail"], "the space `home` is closed", "names, not ids");
    assert_eq!(world.signals(), []);
    assert_eq!(world.post("/v1/spaces/home/reopen", json!({})).await.json["closed"], false);
    assert_eq!(world.post(MESSAGES, json!({"text": "hi", "sender": "you"})).await.status, 201);
}

#[tokio::test]
async fn messages_are_paged_in_both_directions() {
    let world = World::new().await;
    for i in 1..=5 {
        world.post(MESSAGES, json!({"text": format!("{i}"), "sender": "you"})).await;
    }
    let page = async |query: &str| {
        let answer = world.get(&format!("{MESSAGES}?{query}")).await;
        let items = answer.json["items"].as_array().unwrap().clone();
        let seqs: Vec<u64> = items.iter().map(|item| item["seq"].as_u64().unwrap()).collect();
        (seqs, answer.json["next"].as_str().unwrap_or_default().to_owned())
    };
    let (newest, next) = page("limit=2").await;
    assert_eq!(newest, [4, 5]);
    let (older, next) = page(&format!("limit=2&cursor={next}")).await;
    assert_eq!(older, [2, 3]);
    assert_eq!(page(&format!("limit=2&cursor={next}")).await, (vec![1], String::new()));
    assert_eq!(page("limit=2&before=4").await.0, [2, 3]);
    let (first, next) = page("limit=3&after=0").await;
    assert_eq!(first, [1, 2, 3]);
    assert_eq!(page(&format!("after=0&limit=3&cursor={next}")).await, (vec![4, 5], String::new()));
    assert_eq!(page("limit=5").await.1, "", "the last page is full");
    assert_eq!(page("sender=you&limit=1").await.0, [5]);
    assert_eq!(page("sender=muhammad").await, (vec![], String::new()));
    assert_eq!(page("kind=tool").await.0, [0; 0]);
    assert_eq!(page("since=2030-01-01T00:00:00Z").await.0, [0; 0]);
}

#[tokio::test]
async fn an_id_that_is_sent_again_with_other_content_is_refused() {
    let world = World::new().await;
    let first = json!({"text": "hi", "sender": "you", "id": "0192d3e4-0000-7000-8000-000000000001"});
    assert_eq!(world.post(MESSAGES, first.clone()).await.status, 201);
    assert_eq!(world.post(MESSAGES, first.clone()).await.status, 200);
    for (key, value) in
        [("urgent", json!(true)), ("data", json!({"a": 1})), ("mentions", json!(["muhammad"]))]
    {
        let mut changed = first.clone();
        changed[key] = value;
        let refused = world.post(MESSAGES, changed).await;
        assert_eq!((refused.status, refused.code()), (409, "id_taken"), "{key}: {refused:?}");
    }
}

#[tokio::test]
async fn data_of_a_message_is_bounded() {
    let world = World::new().await;
    let message = |bytes: usize| json!({"text": "hi", "sender": "you", "data": "x".repeat(bytes - 2)});
    assert_eq!(world.post(MESSAGES, message(64 * 1024)).await.status, 201);
    let refused = world.post(MESSAGES, message(64 * 1024 + 1)).await;
    assert_eq!((refused.status, refused.code()), (422, "bad_value"));
    assert!(refused.problem_text().contains("`data` must be at most 65536 bytes"), "{refused:?}");
}
