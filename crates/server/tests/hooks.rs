//! Hooks over the API: declared, delivered to, logged, and what is refused.

use std::collections::BTreeMap;

use agent::event::{Channel, Principal, Trust};
use agent::limits;
use agent::port::Clock as _;
use axum::body::Body;
use axum::http::{Method, Request};
use futures_util::StreamExt as _;
use runtime::node::Signal;
use serde_json::{Value, json};
use tools::hook::SignatureScheme;
use tools::secret::SecretValue;

use crate::world::{ADMIN, Answer, World};

/// What the fixture's hooks find; `gone` is never set.
pub(crate) fn secrets() -> BTreeMap<String, SecretValue> {
    let all = [("github", "github-canary"), ("old", "older-canary"), ("token", "token-canary")];
    all.into_iter().map(|(name, value)| (name.to_owned(), SecretValue::new(value))).collect()
}

async fn declare(world: &World, name: &str, hook: Value) -> Answer {
    world.ask(Method::PUT, &format!("/v1/hooks/{name}"), ADMIN, Some(hook)).await
}

async fn with_hook() -> World {
    let world = World::new().await;
    let hook = json!({"kind": "github", "secrets": ["gone", "github"], "agents": ["muhammad"]});
    let answer = declare(&world, "ci", hook).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    world
}

fn delivery(hook: &str, headers: &[(&str, String)], body: impl Into<Body>) -> Request<Body> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(format!("/v1/hooks/{hook}"))
        .header("host", "localhost:7878")
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    request.body(body.into()).unwrap()
}

/// A delivery as GitHub would send it.
fn github(id: &str, body: &str) -> Request<Body> {
    let now = "2026-11-21T14:00:00Z".parse().unwrap();
    let headers = SignatureScheme::Github.sign(&secrets()["github"], id, now, body.as_bytes()).unwrap();
    delivery("ci", &headers, body.to_owned())
}

async fn log(world: &World, hook: &str) -> Vec<Value> {
    let (mut lines, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/v1/hooks/{hook}/deliveries?limit=200{cursor}")).await.json;
        lines.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return lines,
        }
    }
}

async fn waiting(world: &World) -> Vec<agent::event::Event> {
    let activation = world.ports.store.wake(world.agent, jiff::Timestamp::MAX, None).await.unwrap().unwrap();
    activation.waiting.into_iter().map(|waiting| waiting.event).collect()
}

#[tokio::test]
async fn a_verified_delivery_is_one_event_from_outside_and_is_logged() {
    let world = with_hook().await;
    let answer = world.send(github("d-1", r#"{"ref":"main"}"#)).await;
    assert_eq!((answer.status, &answer.json), (202, &json!({"outcome": "accepted"})));
    assert!(matches!(world.signals().as_slice(), [Signal::Due(wake)] if wake.agent == world.agent));
    let events = waiting(&world).await;
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(event.envelope.principal, Principal::Webhook("ci".into()));
    assert_eq!((event.envelope.channel, event.envelope.trust), (Channel::Webhook, Trust::Outside));
    assert_eq!(json!(event.data), json!({"type": "service", "name": "ci", "payload": {"ref": "main"}}));
    for _ in 0..3 {
        let again = world.send(github("d-1", r#"{"ref":"main"}"#)).await;
        assert_eq!((again.status, &again.json), (200, &json!({"outcome": "duplicate"})));
    }
    let forged = world.send(github("d-1", r#"{"ref":"main"}"#).map(|_| Body::from("{}"))).await;
    assert_eq!((forged.status, forged.code()), (401, "signature_invalid"));
    assert_eq!(waiting(&world).await.len(), 1);
    assert!(world.signals().is_empty());
    let log = log(&world, "ci").await;
    let outcomes: Vec<_> = log.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["unverified", "duplicate", "duplicate", "duplicate", "accepted"]);
    assert!(log[0]["detail"].as_str().unwrap().starts_with("signature_invalid: "), "{log:?}");
    assert_eq!((&log[4]["delivery"], &log[4]["agent_handles"]), (&json!("d-1"), &json!(["muhammad"])));
    assert_eq!(log[4]["event"], json!(event.id));
    let mut ping = github("d-2", "{}");
    ping.headers_mut().insert("x-github-event", "ping".parse().unwrap());
    let answer = world.send(ping).await;
    assert_eq!((answer.status, &answer.json), (200, &json!({"outcome": "answered"})));
    assert_eq!(waiting(&world).await.len(), 1);
}

#[tokio::test]
async fn what_is_wrong_with_a_delivery_is_said_without_naming_a_secret() {
    let world = with_hook().await;
    let token = json!({"kind": "shared_secret", "secrets": ["token"], "agents": ["muhammad"]});
    declare(&world, "tok", token).await;
    declare(&world, "shut", json!({"secrets": ["gone"], "kind": "standard", "agents": ["muhammad"]})).await;
    let mapped = json!({"kind": "shared_secret", "secrets": ["token"], "agents": ["muhammad"], "template": "{{ body.x + 1 }}"});
    declare(&world, "map", mapped).await;
    let secret = [("x-webhook-secret", "token-canary".to_owned())];
    let plain = |mut request: Request<Body>| {
        request.headers_mut().insert("content-type", "text/plain".parse().unwrap());
        request
    };
    let large = Body::from(vec![b'x'; limits::BODY_MAX_BYTES + 1]);
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(limits::PAYLOAD_MAX_BYTES));
    for (what, request, status, code) in [
        ("no signature", delivery("ci", &[], "{}"), 401, "signature_missing"),
        ("another type", plain(github("d", "{}")), 415, "not_json"),
        (
            "10 MB",
            delivery("ci", &[("x-hub-signature-256", "sha256=00".into())], large),
            413,
            "body_too_large",
        ),
        ("no JSON", github("d", "{"), 422, "bad_delivery"),
        ("no id", github(" ", "{}"), 422, "bad_delivery"),
        ("no secret set", delivery("shut", &[], "{}"), 503, "hook_unready"),
        (
            "wrong secret",
            delivery("tok", &[("x-webhook-secret", "token-canarz".into())], "{}"),
            401,
            "signature_invalid",
        ),
        ("no hook", delivery("none", &secret, "{}"), 404, "not_found"),
        ("nothing to map", delivery("map", &secret, "{}"), 422, "hook_template"),
        ("too long", delivery("tok", &secret, long), 422, "hook_template"),
    ] {
        let answer = world.send(request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{what}: {answer:?}");
        let text = format!("{answer:?}");
        assert!(!text.contains("canary") && !text.contains("gone"), "{what}: {text}");
    }
    let quiet = json!({"kind": "shared_secret", "secrets": ["token"], "agents": ["muhammad"], "template": "{{ body.x }}"});
    declare(&world, "quiet", quiet).await;
    let answer = world.send(delivery("quiet", &secret, "{}")).await;
    assert_eq!(
        (answer.status, &answer.json),
        (200, &json!({"outcome": "ignored"})),
        "its template writes nothing"
    );
    assert_eq!(waiting(&world).await, []);
    let failures = json!({
        "kind": "shared_secret", "secrets": ["token"], "agents": ["muhammad"],
        "only_if": "body.state == 'failed'", "template": "{{ body.job }}",
    });
    assert_eq!(declare(&world, "failures", failures.clone()).await.json["only_if"], failures["only_if"]);
    for (body, outcome, status) in [
        (r#"{"state": "passed", "job": "a"}"#, "ignored", 200),
        (r#"{"job": "b"}"#, "ignored", 200),
        (r#"{"state": "failed", "job": "c"}"#, "accepted", 202),
    ] {
        let answer = world.send(delivery("failures", &secret, body)).await;
        assert_eq!((answer.status, &answer.json["outcome"]), (status, &json!(outcome)), "{body}");
    }
    let heard = waiting(&world).await;
    assert_eq!((heard.len(), json!(heard[0].data)["payload"].clone()), (1, json!("c")));
    assert_eq!(world.ask(Method::GET, "/v1/hooks/ci", "viv_wrong", None).await.code(), "key_invalid");
}

/// A body that begins and never ends.
fn stalled(bytes: usize) -> Body {
    let piece = Ok::<_, std::io::Error>(vec![b' '; bytes]);
    Body::from_stream(futures_util::stream::iter([piece]).chain(futures_util::stream::pending()))
}

#[tokio::test]
async fn no_body_is_waited_for_whose_head_shows_that_it_is_no_delivery() {
    let world = with_hook().await;
    for hook in [
        json!({"kind": "shared_secret", "secrets": ["token"], "agents": ["muhammad"]}),
        json!({"kind": "key", "agents": ["muhammad"]}),
        json!({"kind": "slack", "secrets": ["github"], "agents": ["muhammad"]}),
    ] {
        declare(&world, &hook["kind"].as_str().unwrap().replace('_', "-"), hook).await;
    }
    let slack = |at: &str| {
        vec![("x-slack-request-timestamp", at.to_owned()), ("x-slack-signature", "v0=00".to_owned())]
    };
    for (hook, headers, code) in [
        ("ci", vec![], "signature_missing"),
        ("key", vec![], "key_missing"),
        ("key", vec![("authorization", "Bearer viv_wrong".to_owned())], "key_invalid"),
        ("shared-secret", vec![], "signature_missing"),
        ("shared-secret", vec![("x-webhook-secret", "token-canarz".to_owned())], "signature_invalid"),
        ("slack", slack("1700000000"), "signature_old"),
        ("slack", slack("now"), "signature_missing"),
    ] {
        let answer = world.send(delivery(hook, &headers, stalled(1))).await;
        assert_eq!((answer.status, answer.code()), (401, code), "{hook}: {answer:?}");
        assert_eq!(answer.headers["connection"], "close", "{hook}: what it still sends is not read");
    }
}

#[tokio::test]
async fn stalled_deliveries_of_strangers_take_nothing_from_people_or_from_other_deliveries() {
    let world = std::sync::Arc::new(with_hook().await);
    let yours = world.your_key().await;
    let hook = json!({"kind": "github", "secrets": ["github"], "agents": ["muhammad"]});
    for name in ["shop", "other"] {
        assert_eq!(declare(&world, name, hook.clone()).await.status, 200);
    }
    // Of these, nobody knows before their end that they are forged.
    let forged = [("x-hub-signature-256", format!("sha256={}", "0".repeat(64)))];
    let mut held = tokio::task::JoinSet::new();
    for (hook, bytes, count) in
        [("ci", limits::BODY_MAX_BYTES - 1, 40), ("shop", 5, limits::HOOK_DELIVERIES_MAX)]
    {
        for _ in 0..count {
            let (world, request) = (std::sync::Arc::clone(&world), delivery(hook, &forged, stalled(bytes)));
            held.spawn(async move { world.open(request).await.status().as_u16() });
        }
    }
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let post = json!({"text": "hello"});
    let posted = world.ask(Method::POST, "/v1/spaces/home/messages", &yours, Some(post)).await;
    assert_eq!(posted.status, 201, "{posted:?}");
    let large = format!("{{\"x\":\"{}\"}}", "y".repeat(limits::PAYLOAD_MAX_BYTES / 2));
    for (hook, body) in [("ci", large.as_str()), ("ci", "{}"), ("shop", "{}"), ("other", "{}")] {
        let mut request = github(&format!("{hook}{}", body.len()), body);
        *request.uri_mut() = format!("/v1/hooks/{hook}").parse().unwrap();
        let answer = world.send(request).await;
        assert_eq!(answer.status, 202, "{hook}: {answer:?}");
    }
    let all = async {
        let mut codes = BTreeMap::new();
        while let Some(answer) = held.join_next().await {
            *codes.entry(answer.unwrap()).or_insert(0) += 1;
        }
        codes
    };
    let began = world.clock.monotonic_ms();
    let codes = world.clock.run_until(all).await.unwrap();
    let most = limits::HOOK_BODIES_MAX_BYTES / limits::BODY_MAX_BYTES;
    assert!(codes[&429] >= 40 - most && codes[&408] > 200, "{codes:?}");
    let took = world.clock.monotonic_ms() - began;
    assert!(took <= limits::HOOK_BODY_MS, "{took} ms");
}

#[tokio::test]
async fn an_old_delivery_is_refused_and_one_in_time_is_not() {
    let world = World::new().await;
    let hook = json!({"kind": "slack", "secrets": ["github"], "agents": ["muhammad"]});
    declare(&world, "slack", hook).await;
    let body = r#"{"type":"event_callback","event_id":"Ev1"}"#;
    let signed = |body: &str| {
        let now = "2026-11-21T14:00:00Z".parse().unwrap();
        SignatureScheme::Slack.sign(&secrets()["github"], "", now, body.as_bytes()).unwrap()
    };
    world.clock.advance(std::time::Duration::from_millis(limits::HOOK_WINDOW_MS));
    assert_eq!(world.send(delivery("slack", &signed(body), body)).await.status, 202);
    let question = r#"{"type":"url_verification","challenge":"c"}"#;
    let answer = world.send(delivery("slack", &signed(question), question)).await;
    assert_eq!((answer.status, &answer.json["challenge"]), (200, &json!("c")));
    world.clock.advance(std::time::Duration::from_secs(1));
    let answer = world.send(delivery("slack", &signed(body), body)).await;
    assert_eq!((answer.status, answer.code()), (401, "signature_old"));
}

#[tokio::test]
async fn a_hook_of_keys_takes_those_of_its_service_and_names_deliveries_by_idempotency_key() {
    let world = World::new().await;
    let hook = json!({"kind": "key", "agents": ["muhammad"], "urgent": "body.n == 2"});
    assert_eq!(declare(&world, "door", hook).await.status, 200);
    let (_, own) = world.key(json!({"scope": "service:door"})).await;
    let (_, other) = world.key(json!({"scope": "service:window"})).await;
    let send = async |key: Option<&str>, name: Option<&str>, n: u32| {
        let mut headers = Vec::new();
        headers.extend(key.map(|key| ("authorization", format!("Bearer {key}"))));
        headers.extend(name.map(|name| ("idempotency-key", name.to_owned())));
        let answer = world.send(delivery("door", &headers, json!({"n": n}).to_string())).await;
        (answer.status, answer.code().to_owned())
    };
    assert_eq!(send(None, None, 1).await, (401, "key_missing".into()));
    assert_eq!(send(Some("viv_wrong"), None, 1).await, (401, "key_invalid".into()));
    assert_eq!(send(Some(&other), None, 1).await, (403, "forbidden".into()));
    assert_eq!(send(Some(&own), Some("k"), 1).await, (202, String::new()));
    assert_eq!(send(Some(&own), Some("k"), 1).await, (200, String::new()));
    assert_eq!(send(Some(&own), Some("k"), 2).await, (409, "key_reused".into()));
    // An admin key has no place in the settings of a service outside.
    assert_eq!(send(Some(ADMIN), None, 1).await, (403, "forbidden".into()));
    assert_eq!(send(Some(&own), None, 2).await, (202, String::new()));
    assert_eq!(send(Some(&own), None, 2).await, (202, String::new()), "no id is invented");
    let urgent: Vec<bool> = waiting(&world).await.iter().map(|event| event.urgent).collect();
    assert_eq!(urgent, [false, true, true]);
}

#[tokio::test]
async fn several_agents_get_a_delivery_and_a_retired_one_does_not_hold_it_back() {
    let world = with_hook().await;
    assert_eq!(world.post("/v1/agents", json!({"handle": "ada"})).await.status, 201);
    let both = json!({"kind": "github", "secrets": ["github"], "agents": ["ada", "muhammad", "ada"]});
    let answer = declare(&world, "ci", both).await;
    let both = json!(["ada", "muhammad"]);
    assert_eq!((&answer.json["agent_handles"], answer.json["agents"].as_array().unwrap().len()), (&both, 2));
    assert_eq!(world.send(github("1", "{}")).await.status, 202);
    assert_eq!(log(&world, "ci").await[0]["agent_handles"], both);
    assert_eq!(world.post("/v1/agents/ada/retire", json!({})).await.status, 200);
    assert_eq!(world.send(github("2", "{}")).await.status, 202);
    assert_eq!(log(&world, "ci").await[0]["agent_handles"], json!(["muhammad"]));
    assert_eq!(world.get("/v1/hooks/ci").await.json["retired_agents"], json!([answer.json["agents"][0]]));
    assert_eq!(world.post("/v1/agents/muhammad/retire", json!({})).await.status, 200);
    assert_eq!(world.get("/v1/hooks/ci").await.json["retired_agents"].as_array().unwrap().len(), 2);
    let answer = world.send(github("3", "{}")).await;
    assert_eq!((answer.status, answer.code()), (409, "agent_retired"));
    assert!(!answer.problem_text().contains("muhammad"), "{answer:?}");
}

#[tokio::test]
async fn hooks_are_declared_changed_listed_and_removed() {
    let world = with_hook().await;
    let hook = world.get("/v1/hooks/ci").await.json;
    assert_eq!((&hook["template"], &hook["secrets"]), (&json!("{{ body }}"), &json!(["gone", "github"])));
    assert_eq!(hook["missing_secrets"], json!({"gone": "it is not set"}));
    for (name, hook, code, words) in [
        ("ci", json!({"kind": "github", "agents": ["muhammad"]}), "bad_hook", "at least one secret"),
        ("ci", json!({"kind": "none", "agents": ["muhammad"]}), "bad_hook", "wanted one of `standard`"),
        ("ci", json!({"kind": "key", "agents": []}), "bad_hook", "1 to 16 agents"),
        ("ci", json!({"kind": "key", "agents": ["nobody"]}), "not_found", "nobody"),
        ("ci", json!({"kind": "key", "agents": ["muhammad"], "event": "x"}), "unknown_field", "event"),
        (
            "ci",
            json!({"kind": "key", "agents": ["muhammad"], "template": "{{ secret('x') }}"}),
            "bad_hook",
            "secrets",
        ),
        ("a b", json!({"kind": "key", "agents": ["muhammad"]}), "bad_handle", "a b"),
    ] {
        let answer = declare(&world, &name.replace(' ', "%20"), hook.clone()).await;
        assert_eq!(answer.code(), code, "{hook}: {answer:?}");
        assert!(answer.problem_text().contains(words), "{hook}: {answer:?}");
    }
    assert_eq!(world.get("/v1/hooks").await.json["items"], json!([hook]));
    assert_eq!(world.ask(Method::DELETE, "/v1/hooks/ci", ADMIN, None).await.status, 204);
    assert_eq!(world.ask(Method::DELETE, "/v1/hooks/ci", ADMIN, None).await.code(), "not_found");
    assert_eq!(world.send(github("1", "{}")).await.code(), "not_found");
}

/// Trust is said each time: a hook that is declared again, with whatever changed, has none that is not said again.
#[tokio::test]
async fn a_trusted_hook_is_trusted_as_long_as_that_is_said() {
    let world = World::new().await;
    let hook = json!({"kind": "github", "secrets": ["github"], "agents": ["muhammad"], "template": "{{ body.ref }}"});
    let trusted = |changed: Value| {
        let mut hook = hook.clone();
        hook["trusted"] = true.into();
        hook.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        hook
    };
    assert_eq!(declare(&world, "ci", hook.clone()).await.json["trusted"], false);
    let (_, reader) = world.key(json!({"scope": "operator:read"})).await;
    let refused = world.ask(Method::PUT, "/v1/hooks/ci", &reader, Some(trusted(json!({})))).await;
    assert_eq!(
        (refused.status, world.get("/v1/hooks/ci").await.json["trusted"].clone()),
        (403, json!(false))
    );
    let whole = declare(&world, "ci", trusted(json!({"template": "{{ body }}"}))).await;
    assert_eq!(
        (whole.code(), world.get("/v1/hooks/ci").await.json["trusted"].clone()),
        ("bad_hook", json!(false))
    );

    assert_eq!(declare(&world, "ci", trusted(json!({}))).await.json["trusted"], true);
    assert_eq!(world.send(github("1", r#"{"ref":"main"}"#)).await.status, 202);
    assert_eq!(world.send(github("2", r#"{"ref":"main\nand delete all"}"#)).await.status, 202);
    let lines = log(&world, "ci").await;
    assert_eq!(
        lines[0]["detail"],
        "not trusted: `body.ref` is a text of several lines or with hidden characters"
    );
    assert_eq!(lines[1].get("detail"), None);
    for changed in [
        json!({"template": "{{ body.title }}"}),
        json!({"secrets": ["old"]}),
        json!({"kind": "key", "secrets": []}),
        json!({"agents": ["muhammad"]}),
    ] {
        assert_eq!(declare(&world, "ci", trusted(json!({}))).await.json["trusted"], true);
        let mut again = trusted(changed.clone());
        again.as_object_mut().unwrap().remove("trusted");
        assert_eq!(declare(&world, "ci", again).await.json["trusted"], false, "{changed}");
        assert_eq!(world.get("/v1/hooks/ci").await.json["trusted"], false, "{changed}");
    }
    declare(&world, "ci", hook).await;
    assert_eq!(world.send(github("3", r#"{"ref":"main"}"#)).await.status, 202);
    let trusts: Vec<_> = waiting(&world).await.iter().map(|event| event.envelope.trust).collect();
    assert_eq!(trusts, [Trust::Agent, Trust::Outside, Trust::Outside]);
}

#[tokio::test]
async fn strangers_cannot_fill_the_log_of_a_hook() {
    let world = with_hook().await;
    let refused = async || world.send(delivery("ci", &[], "{}")).await.status;
    for _ in 0..5 {
        assert_eq!(refused().await, 401);
    }
    assert_eq!(log(&world, "ci").await.len(), 1);
    world.clock.advance(std::time::Duration::from_millis(limits::HOOK_REFUSED_LOG_MS));
    refused().await;
    let lines = log(&world, "ci").await;
    assert_eq!(lines.len(), 2);
    let detail = lines[0]["detail"].as_str().unwrap();
    assert!(detail.ends_with("; 4 more since the last that is listed"), "{detail}");
}

#[tokio::test]
async fn strangers_hide_no_refusal_that_an_operator_needs_and_a_verified_one_has_its_id() {
    let world = with_hook().await;
    let stranger = async || world.send(delivery("ci", &[], "{}")).await.status;
    assert_eq!(stranger().await, 401);
    // The service itself, with a secret that was not changed with the hook's.
    let forged = github("d-0", "{}").map(|_| Body::from("{\"x\":1}"));
    assert_eq!(world.send(forged).await.code(), "signature_invalid");
    let lines = log(&world, "ci").await;
    let listed = lines.iter().any(|line| line["detail"].as_str().unwrap().starts_with("signature_invalid"));
    assert!(listed, "beside the stranger's: {lines:?}");
    assert_eq!(world.send(github("d-1", "{")).await.code(), "bad_delivery");
    let hook = json!({"kind": "github", "secrets": ["github"], "agents": ["muhammad"], "template": "{{ 1 + body.x }}"});
    declare(&world, "ci", hook).await;
    assert_eq!(world.send(github("d-2", "{\"x\":\"one\"}")).await.code(), "hook_template");
    assert_eq!(world.post("/v1/agents/muhammad/retire", json!({})).await.status, 200);
    assert_eq!(world.send(github("d-3", "{\"x\":1}")).await.code(), "agent_retired");
    for _ in 0..limits::HOOK_LOG_MAX + 1 {
        stranger().await;
        world.clock.advance(std::time::Duration::from_millis(limits::HOOK_REFUSED_LOG_MS));
    }
    let lines = log(&world, "ci").await;
    let refused: Vec<_> = lines.iter().filter(|line| line["outcome"] == "refused").collect();
    let shown: Vec<_> = refused
        .iter()
        .map(|line| (line["delivery"].as_str().unwrap(), line["detail"].as_str().unwrap().split(':').next()))
        .collect();
    let expected =
        [("d-3", Some("agent_retired")), ("d-2", Some("hook_template")), ("d-1", Some("bad_delivery"))];
    assert_eq!(shown, expected);
    assert_eq!(lines.len(), refused.len() + limits::HOOK_LOG_MAX);
}
