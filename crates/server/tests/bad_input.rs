//! Bad input: each row is a request and the error that it gets.

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};

use crate::world::{ADMIN, World};

#[tokio::test]
async fn every_bad_body_gets_one_clear_error() {
    let world = World::new().await;
    let check = async |path: &str, body: Value, status: u16, code: &str, words: &str| {
        let answer = world.post(path, body.clone()).await;
        let shown = body.to_string();
        let shown: String = shown.chars().take(100).collect();
        assert_eq!((answer.status, answer.code()), (status, code), "{path} {shown}: {answer:?}");
        assert!(
            answer.problem_text().contains(words),
            "{path} {shown}: `{}` lacks `{words}`",
            answer.problem_text()
        );
    };
    let (messages, agents, spaces) = ("/v1/spaces/home/messages", "/v1/agents", "/v1/spaces");
    check(messages, json!({"text": 1, "sender": "you"}), 422, "wrong_type", "`text`: invalid type").await;
    check(messages, json!({"text": "a", "mentions": [1]}), 422, "wrong_type", "`mentions[0]`").await;
    check(messages, json!({"sender": "you"}), 422, "wrong_type", "missing field `text`").await;
    check(messages, json!([]), 422, "wrong_type", "wanted a JSON object, got an array").await;
    let fields = json!(["arr", null, null, ["you"]]);
    check(spaces, fields, 422, "wrong_type", "wanted a JSON object, got an array").await;
    check("/v1/agents/muhammad/cancel", json!([null]), 422, "wrong_type", "got an array").await;
    check(messages, json!({"txet": "a"}), 422, "unknown_field", "did you mean `text`?").await;
    check(messages, json!({"text": "a", "trust": "operator"}), 422, "unknown_field", "`trust`").await;
    check(messages, json!({"text": "a", "id": "7"}), 422, "wrong_type", "`id`").await;
    check(messages, json!({"text": "a"}), 422, "sender_required", "`sender`").await;
    check(messages, json!({"text": " \n", "sender": "you"}), 422, "bad_value", "`text`").await;
    check(messages, json!({"text": "x".repeat(65_537), "sender": "you"}), 422, "bad_value", "65536").await;
    check(messages, json!({"text": "a", "sender": "nobody"}), 404, "not_found", "`nobody`").await;
    check(messages, json!({"text": "a", "sender": "muhammad"}), 422, "not_human", "`muhammad`").await;
    check(messages, json!({"text": "a", "sender": "you", "mentions": ["x"]}), 422, "bad_mention", "`x`")
        .await;
    let derived = "0192d3e4-0000-8000-8000-000000000000";
    check(messages, json!({"text": "a", "sender": "you", "id": derived}), 422, "bad_id", "version 4 or 7")
        .await;
    check("/v1/spaces/none/messages", json!({"text": "a"}), 404, "not_found", "`none`").await;

    check(agents, json!({"handle": "Two Words"}), 422, "bad_handle", "`Two Words`").await;
    check(agents, json!({"handle": "you"}), 409, "handle_taken", "`you`").await;
    check(
        agents,
        json!({"handle": "a", "config": {"instruction": "x"}}),
        422,
        "bad_config",
        "`instructions`",
    )
    .await;
    check(
        agents,
        json!({"handle": "a", "config": {"limits": {"max_steps": 0}}}),
        422,
        "bad_config",
        "1 to 1000",
    )
    .await;
    check(agents, json!({"handle": "a", "config": {"tools": "x"}}), 422, "bad_config", "").await;
    check(agents, json!({"handle": "a", "config": {"model": "x/y"}}), 422, "no_such_model", "`x/y`").await;
    check(agents, json!({"handle": "a", "config": {"tools": ["fier"]}}), 422, "no_such_tool", "`fire`").await;
    let many = json!({"handle": "a", "config": {"tools": ["*"], "model": "narrow"}});
    check(agents, many, 422, "bad_config", "at most 2 tools for the model `narrow`").await;
    check(agents, json!({"handle": "a", "display_name": "x".repeat(201)}), 422, "bad_value", "200").await;
    check("/v1/agents/nobody/suspend", json!({}), 404, "not_found", "agent").await;
    check("/v1/agents/you/suspend", json!({}), 404, "not_found", "agent").await;
    check("/v1/agents/muhammad/cancel", json!({}), 409, "no_open_cycle", "`muhammad`").await;
    check("/v1/agents/muhammad/cancel", json!({"cycle": 1}), 422, "wrong_type", "`cycle`").await;
    check("/v1/agents/muhammad/cancel", json!({"cicle": 1}), 422, "unknown_field", "`cycle`").await;

    let events = "/v1/agents/muhammad/events";
    check(events, json!({"service": ""}), 422, "bad_value", "`service`").await;
    check(events, json!({"service": "a\u{1b}"}), 422, "bad_value", "`service`").await;
    let large = json!({"service": "a", "payload": "x".repeat(300_000)});
    check(events, large, 422, "bad_value", "`payload`").await;

    check(spaces, json!({"handle": "home"}), 409, "handle_taken", "`home`").await;
    check(spaces, json!({"handle": "x", "members": ["nobody"]}), 404, "not_found", "`nobody`").await;
    check("/v1/spaces/home/members", json!({"entity": "nobody"}), 404, "not_found", "`nobody`").await;
    let keys = "/v1/keys";
    check(keys, json!({}), 422, "wrong_type", "missing field `scope`").await;
    check(keys, json!({"scope": "root"}), 422, "bad_value", "`worker:TOOL`, got `root`").await;
    check(keys, json!({"scope": "person"}), 422, "bad_value", "`entity` is missing").await;
    check(keys, json!({"scope": "person", "entity": "muhammad"}), 422, "not_human", "people").await;
    check(keys, json!({"scope": "person", "entity": "nobody"}), 404, "not_found", "`nobody`").await;
    check(keys, json!({"scope": "admin", "entity": "you"}), 422, "bad_value", "only for").await;
    check(keys, json!({"scope": "service:"}), 422, "bad_value", "`scope`").await;
    check(keys, json!({"scope": "service:a\n"}), 422, "bad_value", "`scope`").await;
    check(keys, json!({"scope": "admin", "label": "cli"}), 422, "bad_value", "`cli`").await;
    check(keys, json!({"scope": "admin", "label": "x".repeat(4097)}), 422, "bad_value", "4096").await;
    let past = json!({"scope": "admin", "expires_at": "2026-11-21T14:00:00Z"});
    check(keys, past, 422, "bad_value", "in the future").await;
    let rotate = "/v1/keys/0192d3e4-0000-7000-8000-000000000009/rotate";
    check(rotate, json!({}), 404, "not_found", "key").await;
    check(rotate, json!({"overlap_seconds": 2_592_001}), 422, "bad_value", "2592000").await;
    check(rotate, json!({"overlap_seconds": -1}), 422, "wrong_type", "`overlap_seconds`").await;
    check("/v1/entities", json!({"handle": "YOU"}), 409, "handle_taken", "an entity called `you`").await;
}

#[tokio::test]
async fn a_config_with_an_unknown_model_or_tool_is_rejected_with_its_key() {
    let world = World::new().await;
    let check = async |config: Value, code: &str, words: &str| {
        let answer = world.post("/v1/agents", json!({"handle": "a", "config": config})).await;
        assert_eq!((answer.status, answer.code()), (422, code), "{config}: {answer:?}");
        assert!(
            answer.problem_text().contains(words),
            "{config}: `{}` lacks `{words}`",
            answer.problem_text()
        );
    };
    let gates = json!({"gates": [{"from": 0, "to": 0, "active_tools": ["fier"]}]});
    check(gates, "no_such_tool", "`gates`: there is no tool `fier`").await;
    let routing = json!({"routing": [{"from": 1, "model": "x/y"}]});
    check(routing, "no_such_model", "`routing` names `x/y`").await;
    check(json!({"fallback": ["x/y"]}), "no_such_model", "`fallback` names `x/y`").await;
    check(json!({"approvers": ["nobody"]}), "bad_config", "`approvers`: `nobody` is nobody").await;
    check(json!({"approvers": ["role: "]}), "bad_config", "`role:` and a role, got an empty text").await;
    check(json!({"approvers": ["@muhammad"]}), "bad_config", "`@muhammad` is an agent").await;
    check(json!({"approvers": vec!["you"; 17]}), "bad_config", "at most 16 people").await;
    let mute = json!({"gates": [{"from": 0, "active_tools": ["fire"]}]});
    check(mute, "bad_config", "no step allows `send_message`").await;
}

#[tokio::test]
async fn an_unknown_query_parameter_is_rejected_and_nothing_is_changed() {
    let world = World::new().await;
    let rejected = world.post("/v1/agents/muhammad/retire?purge=true", json!({})).await;
    assert_eq!((rejected.status, rejected.code()), (422, "unknown_field"), "{rejected:?}");
    assert!(
        rejected.problem_text().contains("`purge`") && rejected.problem_text().contains("not supported"),
        "{rejected:?}"
    );
    let agent = world.get("/v1/agents/muhammad").await;
    assert_eq!(agent.json["standing"], "active", "{agent:?}");
    for path in ["/v1/agents/muhammad", "/v1/health", "/v1/whoami", "/v1/spaces/home/stream"] {
        let rejected = world.get(&format!("{path}?limit=1")).await;
        assert_eq!((rejected.status, rejected.code()), (422, "unknown_field"), "{path}: {rejected:?}");
    }
    assert_eq!(world.get("/v1/agents/muhammad?").await.status, 200, "an empty query is accepted");
}

#[tokio::test]
async fn every_bad_request_gets_one_clear_error() {
    let world = World::new().await;
    let check = async |request: axum::http::request::Builder, body: Body, status: u16, code: &str| {
        let request = request.header("host", "localhost").header("authorization", format!("Bearer {ADMIN}"));
        let request = request.body(body).unwrap();
        let line = format!("{} {}", request.method(), request.uri());
        let answer = world.send(request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{line}: {answer:?}");
        answer
    };
    let get = |path: &str| Request::builder().uri(path);
    let post = |path: &str| Request::post(path).header("content-type", "application/json");
    let messages = "/v1/spaces/home/messages";

    check(post(messages), Body::from("{\"text\": "), 400, "bad_json").await;
    check(post(messages), Body::empty(), 400, "bad_json").await;
    check(post(messages), Body::from(&b"{\"text\": \"\xff\"}"[..]), 400, "not_utf8").await;
    check(post(messages), Body::from("[".repeat(100_000)), 400, "too_deep").await;
    let deep = format!("{{\"text\":\"a\",\"data\":{}1{}}}", "[".repeat(64), "]".repeat(64));
    check(post(messages), Body::from(deep), 400, "too_deep").await;
    check(post(messages), Body::from(" ".repeat(1024 * 1024 + 1)), 413, "body_too_large").await;
    let drip = futures_util::stream::iter((0..100).map(|_| Ok::<_, std::io::Error>(vec![b' '; 65_536])));
    check(post(messages), Body::from_stream(drip), 413, "body_too_large").await;
    let broken = futures_util::stream::iter([Err::<Vec<u8>, _>(std::io::Error::other("gone"))]);
    check(post(messages), Body::from_stream(broken), 400, "bad_json").await;
    check(Request::post(messages), Body::from("{}"), 415, "not_json").await;
    check(Request::post(messages).header("content-type", "text/plain"), Body::from("{}"), 415, "not_json")
        .await;
    check(post(messages).header("idempotency-key", ""), Body::from("{}"), 400, "bad_header").await;
    check(post(messages).header("idempotency-key", "x".repeat(201)), Body::from("{}"), 400, "bad_header")
        .await;

    check(get("/v2/agents"), Body::empty(), 404, "no_route").await;
    check(get("/v1/agents/"), Body::empty(), 404, "no_route").await;
    let rejected = check(Request::delete("/v1/agents"), Body::empty(), 405, "method_not_allowed").await;
    assert!(rejected.headers["allow"].to_str().unwrap().contains("POST"));
    check(get("/v1/agents/%ff"), Body::empty(), 400, "not_utf8").await;
    check(get("/v1/spaces/%ff"), Body::empty(), 400, "not_utf8").await;
    check(get("/v1/runs/7"), Body::empty(), 404, "not_found").await;
    check(get("/v1/messages/7"), Body::empty(), 404, "not_found").await;
    check(get("/v1/agents/muhammad/events/7"), Body::empty(), 404, "not_found").await;
    for query in ["limit=0", "limit=201", "limit=x", "limit=-1"] {
        check(get(&format!("/v1/agents?{query}")), Body::empty(), 400, "bad_query").await;
    }
    check(get("/v1/agents?limt=1"), Body::empty(), 422, "unknown_field").await;
    check(get("/v1/entities?kind=robot"), Body::empty(), 400, "bad_query").await;
    check(get("/v1/agents/muhammad/events?state=lost"), Body::empty(), 400, "bad_query").await;
    check(get(&format!("{messages}?after=x")), Body::empty(), 400, "bad_query").await;
    check(get("/v1/spaces/home/stream").header("last-event-id", "x"), Body::empty(), 400, "bad_header").await;
    check(get("/v1/health").header("x-large", "x".repeat(17_000)), Body::empty(), 431, "headers_too_large")
        .await;
    let many = (0..70).fold(get("/v1/health"), |request, i| request.header(format!("x-{i}"), "1"));
    check(many, Body::empty(), 431, "headers_too_large").await;
}

#[tokio::test]
async fn a_panic_in_a_handler_is_a_500_and_the_next_request_is_served() {
    let world = World::new().await;
    let answer = world.post("/v1/agents", json!({"handle": "a", "config": {"model": "bug"}})).await;
    assert_eq!((answer.status, answer.code()), (500, "internal"));
    assert!(!answer.problem_text().contains("bug"), "{}", answer.problem_text());
    assert_eq!(world.get("/v1/health").await.status, 200);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_gets_an_error() {
    let world = World::new().await;
    let never = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let request = Request::post("/v1/agents")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {ADMIN}"));
    let request = request.body(Body::from_stream(never)).unwrap();
    let answer = world.clock.run_until(world.send(request)).await.unwrap();
    assert_eq!((answer.status, answer.code()), (408, "body_slow"));
    assert_eq!(answer.headers["connection"], "close", "the rest of the body is not read");
}

#[tokio::test]
async fn a_cursor_is_checked_and_bound_to_its_list() {
    let world = World::new().await;
    for n in 0..3 {
        assert_eq!(world.post("/v1/entities", json!({"handle": format!("p{n}")})).await.status, 201);
    }
    let first = world.get("/v1/entities?limit=1").await;
    let next = first.json["next"].as_str().unwrap().to_owned();
    assert!(!next.contains("muhammad"), "{next}");
    assert_eq!(world.get(&format!("/v1/entities?limit=1&cursor={next}")).await.status, 200);
    let lists = [
        "/v1/entities?kind=human",
        "/v1/agents?limit=1",
        "/v1/spaces?limit=1",
        "/v1/keys?limit=1",
        "/v1/agents/muhammad/events?limit=1",
        "/v1/agents/muhammad/runs?limit=1",
        "/v1/agents/muhammad/consciousness?limit=1",
        "/v1/spaces/home/messages?limit=1",
    ];
    for list in lists {
        for cursor in [&*next, "x", "7", ""] {
            let refused = world.get(&format!("{list}&cursor={cursor}")).await;
            assert_eq!((refused.status, refused.code()), (400, "bad_query"), "{list} {cursor}: {refused:?}");
            assert!(refused.problem_text().contains("of an earlier page of this list"), "{refused:?}");
        }
    }
}

#[tokio::test]
async fn a_rejected_request_writes_nothing() {
    let world = World::new().await;
    let before = world.get("/v1/ready").await.json["totals"].clone();
    world.post("/v1/spaces", json!({"handle": "x", "members": ["you", "nobody"]})).await;
    world.post("/v1/agents", json!({"handle": "x", "config": {"zzz": 1}})).await;
    world.post("/v1/spaces/home/messages", json!({"text": "a", "sender": "you", "mentions": ["x"]})).await;
    assert_eq!(world.get("/v1/ready").await.json["totals"], before);
    assert_eq!(world.ask(Method::GET, "/v1/spaces/x", ADMIN, None).await.status, 404);
}

#[tokio::test]
async fn names_with_hidden_characters_and_handles_like_options_are_refused() {
    let world = World::new().await;
    for scope in ["service:\u{202e}evil", "service:a\u{200b}b", "service:a\u{7}"] {
        let refused = world.post("/v1/keys", json!({"scope": scope})).await;
        assert_eq!((refused.status, refused.code()), (422, "bad_value"), "{scope:?}: {refused:?}");
    }
    for path in ["/v1/agents", "/v1/entities", "/v1/spaces"] {
        let refused = world.post(path, json!({"handle": "-x"})).await;
        assert_eq!((refused.status, refused.code()), (422, "bad_handle"), "{path}: {refused:?}");
        assert_eq!(
            world.post(path, json!({"handle": format!("x-{}", path.len())})).await.status,
            201,
            "{path}"
        );
    }
}
