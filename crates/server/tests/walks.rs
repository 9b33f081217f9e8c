//! Walks over all routes of the OpenAPI document, which is built from the route table: what holds for every route of a kind. A
//! new route is walked by itself, or fails here because nothing says how it is used.

use agent::changes::{Changes, CommitKind, Settlement};
use agent::event::EventState;
use agent::id::CycleId;
use agent::life::{Lease, OpenCycle};
use agent::port::{AfterFailure, FailedAttempt, RequestKey};
use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::approvals::asked;
use crate::world::{ADMIN, Answer, World};

const NO_BODY: Value = Value::Null;

/// Every operation of the document.
fn operations(world: &World) -> Vec<(Method, String, Value)> {
    let mut all = Vec::new();
    for (path, item) in world.document()["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            all.push((method.to_uppercase().parse().unwrap(), path.clone(), operation.clone()));
        }
    }
    all
}

fn has_parameter(operation: &Value, name: &str) -> bool {
    let mut parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters.any(|parameter| parameter["name"] == name)
}

/// A world with something of everything.
struct Populated {
    world: World,
    call: String,
    event: String,
    dead: String,
    plan: String,
    goal: String,
    key: String,
}

async fn made(world: &World, path: &str, body: Value) -> Value {
    let answer = world.post(path, body).await;
    assert!(matches!(answer.status, 200 | 201), "{path}: {answer:?}");
    answer.json
}

async fn populated() -> Populated {
    let world = World::new().await;
    let text = |json: &Value, field: &str| json[field].as_str().unwrap().to_owned();
    for n in 0..3 {
        made(&world, "/v1/entities", json!({"handle": format!("person-{n}")})).await;
        made(&world, "/v1/agents", json!({"handle": format!("agent-{n}")})).await;
        made(&world, "/v1/spaces", json!({"handle": format!("space-{n}"), "members": ["you"]})).await;
        let member = json!({"entity": format!("person-{n}")});
        made(&world, "/v1/spaces/home/members", member).await;
        made(&world, "/v1/spaces/home/messages", json!({"text": "hello", "sender": "you"})).await;
        let memory = json!({"value": format!("note {n}")});
        let path = format!("/v1/agents/muhammad/memories/key-{n}");
        assert_eq!(world.ask(Method::PUT, &path, ADMIN, Some(memory)).await.status, 200);
        let hook = json!({"kind": "shared_secret", "secrets": ["token"], "agents": ["muhammad"]});
        let path = format!("/v1/hooks/hook-{n}");
        assert_eq!(world.ask(Method::PUT, &path, ADMIN, Some(hook)).await.status, 200);
        let target =
            json!({"url": "https://example.com/in", "secrets": ["news"], "on": ["message"], "space": "home"});
        let path = format!("/v1/targets/target-{n}");
        assert_eq!(world.ask(Method::PUT, &path, ADMIN, Some(target)).await.status, 200);
        world.send(request(Method::POST, "/v1/hooks/hook-0", "viv_none", None, &json!({}))).await;
        world.clock.advance(std::time::Duration::from_secs(2));
    }
    let event = made(&world, "/v1/agents/muhammad/events", json!({"service": "bell"})).await;
    let plan = json!({"name": "walk", "instruction": "Walk.", "every": "5m"});
    for name in ["walk", "run", "sit"] {
        made(&world, "/v1/agents/muhammad/plans", json!({"name": name, "instruction": "Go.", "every": "5m"}))
            .await;
    }
    let plan = made(&world, "/v1/agents/muhammad/plans", plan).await;
    for text in ["one", "two"] {
        made(&world, "/v1/agents/muhammad/goals", json!({"description": text})).await;
    }
    let goal = made(&world, "/v1/agents/muhammad/goals", json!({"description": "three"})).await;
    let key = made(&world, "/v1/keys", json!({"scope": "service:bell"})).await;
    made(&world, "/v1/keys", json!({"scope": "operator:read"})).await;
    let book = &world.ports.target_book;
    made(&world, "/v1/spaces/home/messages", json!({"text": "news", "sender": "you"})).await;
    let (target, waiting) = book.deliveries_due(world.ports.clock.now(), 5).await.unwrap().remove(0);
    let dead = waiting.id.clone();
    for then in [AfterFailure::Retry(waiting.at), AfterFailure::Dead] {
        let failed = FailedAttempt { why: "no".to_owned(), then, at: world.ports.clock.now() };
        book.delivery_failed(target.clone(), dead.clone(), failed).await.unwrap();
    }
    let call = asked(&world, |asked| asked).await.to_string();
    let (event, plan, key) = (text(&event, "id"), text(&plan, "id"), text(&key, "id"));
    let goal = text(&goal, "id");
    Populated { world, call, event, dead, plan, goal, key }
}

fn request(method: Method, path: &str, bearer: &str, key: Option<&str>, body: &Value) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    request = request.header("authorization", format!("Bearer {bearer}"));
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    if body.is_null() {
        return request.body(Body::empty()).unwrap();
    }
    request.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap()
}

/// How a route that changes something is used so that it does: its path, and its body.
async fn used(all: &Populated, route: &str) -> Option<(String, Value)> {
    let Populated { world, call, event, plan, goal, key, .. } = all;
    let agent = "/v1/agents/muhammad";
    let hook = json!({"kind": "shared_secret", "secrets": ["token"], "agents": ["muhammad"]});
    let target =
        json!({"url": "https://example.com/x", "secrets": ["news"], "on": ["message"], "space": "home"});
    let (path, body) = match route {
        "POST /v1/agents" | "POST /v1/entities" | "POST /v1/spaces" => {
            (route[5..].to_owned(), json!({"handle": "fresh"}))
        }
        "PATCH /v1/agents/{agent}" => (agent.to_owned(), json!({"display_name": "Other"})),
        "POST /v1/agents/{agent}/suspend" => (format!("{agent}/suspend"), NO_BODY),
        "POST /v1/agents/{agent}/resume" => (format!("{agent}/resume"), NO_BODY),
        "POST /v1/agents/{agent}/retire" => ("/v1/agents/agent-1/retire".to_owned(), NO_BODY),
        "POST /v1/agents/{agent}/cancel" => (format!("{agent}/cancel"), NO_BODY),
        "POST /v1/agents/{agent}/guard/clear" => ("/v1/agents/agent-0/guard/clear".to_owned(), NO_BODY),
        "PUT /v1/agents/{agent}/memories/{key}" => {
            (format!("{agent}/memories/key-0"), json!({"value": "other"}))
        }
        "DELETE /v1/agents/{agent}/memories/{key}" => (format!("{agent}/memories/key-0"), NO_BODY),
        "POST /v1/agents/{agent}/goals" => {
            (format!("{agent}/goals"), json!({"description": "new", "parent": goal}))
        }
        "PATCH /v1/agents/{agent}/goals/{goal}" => {
            (format!("{agent}/goals/{goal}"), json!({"status": "completed"}))
        }
        "DELETE /v1/agents/{agent}/goals/{goal}" => (format!("{agent}/goals/{goal}"), NO_BODY),
        "POST /v1/agents/{agent}/plans" => {
            (format!("{agent}/plans"), json!({"name": "new", "instruction": "Go.", "after": "5m"}))
        }
        "POST /v1/agents/{agent}/plans/{plan}/fire" => (format!("{agent}/plans/{plan}/fire"), NO_BODY),
        "DELETE /v1/agents/{agent}/plans/{plan}" => (format!("{agent}/plans/{plan}"), NO_BODY),
        "POST /v1/agents/{agent}/calls/{call}/cancel" => (format!("{agent}/calls/{call}/cancel"), NO_BODY),
        "POST /v1/agents/{agent}/events" => (format!("{agent}/events"), json!({"service": "bell"})),
        "POST /v1/agents/{agent}/events/{event}/cancel" => {
            (format!("{agent}/events/{event}/cancel"), NO_BODY)
        }
        "POST /v1/agents/{agent}/events/{event}/drop" => {
            (format!("/v1/agents/agent-2/events/{}/drop", dead_event(world).await), NO_BODY)
        }
        "POST /v1/agents/{agent}/events/{event}/retry" => {
            (format!("/v1/agents/agent-2/events/{}/retry", dead_event(world).await), NO_BODY)
        }
        "POST /v1/approvals/{call}/answer" => {
            (format!("/v1/approvals/{call}/answer"), json!({"verdict": "refuse"}))
        }
        "DELETE /v1/approval-rules/{agent}/{tool}" => {
            let body = json!({"verdict": "approve", "remember_until": "2026-11-22T14:00:00Z"});
            made(world, &format!("/v1/approvals/{call}/answer"), body).await;
            ("/v1/approval-rules/muhammad/fire".to_owned(), NO_BODY)
        }
        "POST /v1/keys" => ("/v1/keys".to_owned(), json!({"scope": "admin", "label": "ci"})),
        "POST /v1/keys/{key}/rotate" => (format!("/v1/keys/{key}/rotate"), NO_BODY),
        "DELETE /v1/keys/{key}" => (format!("/v1/keys/{key}"), NO_BODY),
        "PATCH /v1/spaces/{space}" => ("/v1/spaces/home".to_owned(), json!({"description": "here"})),
        "POST /v1/spaces/{space}/close" => ("/v1/spaces/home/close".to_owned(), NO_BODY),
        "POST /v1/spaces/{space}/reopen" => ("/v1/spaces/home/reopen".to_owned(), NO_BODY),
        "POST /v1/spaces/{space}/members" => {
            ("/v1/spaces/space-0/members".to_owned(), json!({"entity": "agent-0"}))
        }
        "DELETE /v1/spaces/{space}/members/{entity}" => {
            ("/v1/spaces/home/members/person-0".to_owned(), NO_BODY)
        }
        "POST /v1/spaces/{space}/messages" => {
            ("/v1/spaces/home/messages".to_owned(), json!({"text": "once", "sender": "you"}))
        }
        "PUT /v1/hooks/{hook}" => ("/v1/hooks/new".to_owned(), hook),
        "DELETE /v1/hooks/{hook}" => ("/v1/hooks/hook-0".to_owned(), NO_BODY),
        "PUT /v1/targets/{target}" => ("/v1/targets/new".to_owned(), target),
        "DELETE /v1/targets/{target}" => ("/v1/targets/target-0".to_owned(), NO_BODY),
        "POST /v1/targets/{target}/retry" => {
            ("/v1/targets/target-0/retry".to_owned(), json!({"id": all.dead}))
        }
        "POST /v1/tools/{tool}/try" => ("/v1/tools/fire/try".to_owned(), json!({"arguments": {"note": "x"}})),
        // The fixture takes no declarations and has no MCP server: these are refused, which is walked, too.
        "PUT /v1/tools/{tool}"
        | "DELETE /v1/tools/{tool}"
        | "POST /v1/mcp"
        | "POST /v1/mcp/{server}/approve" => return None,
        unknown => panic!("nothing says how `{unknown}` is used: add it here"),
    };
    Some((path, body))
}

/// An event of `agent-2` that failed too often.
async fn dead_event(world: &World) -> String {
    let id = world.get("/v1/agents/agent-2").await.json["id"].as_str().unwrap().to_owned();
    let event = made(world, "/v1/agents/agent-2/events", json!({"service": "bell"})).await;
    let (agent, cycle) = (id.parse().unwrap(), CycleId(uuid::Uuid::from_u128(8)));
    let now = world.ports.clock.now();
    let mut open = Changes::new(CommitKind::Open, cycle, 0, 0, now);
    open.open = Some(OpenCycle { taken: vec![1], ..OpenCycle::new(cycle, 1, now) });
    let mut close = Changes::new(CommitKind::Close, cycle, 0, 1, now);
    close.settle = vec![Settlement { seq: 1, state: EventState::Dead { reason: "no".into() } }];
    for changes in [open, close] {
        world.ports.store.commit(Lease { agent, epoch: 1 }, changes).await.unwrap();
    }
    event["id"].as_str().unwrap().to_owned()
}

/// The key of a request as the store keeps it.
fn kept_key(world: &World, method: &Method, path: &str, key: &str, body: &Value) -> RequestKey {
    let hash = Sha256::digest(format!("{method} {path}\0{body}"));
    let (principal, key) = ("admin".to_owned(), key.to_owned());
    RequestKey { principal, key, body_hash: agent::id::hex(&hash), at: world.ports.clock.now() }
}

/// Everything that the lists show, and how often the tools ran.
async fn everything(world: &World) -> Value {
    let mut all = serde_json::Map::new();
    for (method, path, operation) in operations(world) {
        if method == Method::GET && has_parameter(&operation, "cursor") {
            let path = filled(&path);
            let query = if path == "/v1/approvals" { "?limit=200&all=true" } else { "?limit=200" };
            all.insert(path.clone(), world.get(&format!("{path}{query}")).await.json);
        }
    }
    let mut keys = all.remove("/v1/keys").unwrap();
    for key in keys["items"].as_array_mut().unwrap() {
        // Sending a request uses a key.
        key["used_at"] = Value::Null;
    }
    all.insert("keys".to_owned(), keys);
    all.insert("fired".to_owned(), world.counters.effects("fire").into());
    Value::Object(all)
}

/// The path of a list, with what exists.
fn filled(path: &str) -> String {
    path.replace("{agent}", "muhammad")
        .replace("{space}", "home")
        .replace("{hook}", "hook-0")
        .replace("{target}", "target-0")
}

fn changing(world: &World) -> Vec<(Method, String)> {
    let all = operations(world).into_iter();
    let changing = all.filter(|(method, path, operation)| {
        let is = *method != Method::GET && has_parameter(operation, "idempotency-key");
        let says_why =
            operation["description"].as_str().unwrap_or_default().contains("It takes no `Idempotency-Key`: ");
        assert!(
            *method == Method::GET || is || says_why,
            "{method} {path} takes no key and does not say why"
        );
        is && !says_why
    });
    changing.map(|(method, path, _)| (method, path)).collect()
}

async fn send(world: &World, method: &Method, path: &str, key: &str, body: &Value) -> Answer {
    world.send(request(method.clone(), path, ADMIN, Some(key), body)).await
}

#[tokio::test]
async fn every_route_that_changes_something_does_it_once_for_each_key() {
    let routes = changing(&World::new().await);
    assert!(routes.len() > 35, "{routes:?}");
    for (method, route) in routes {
        let all = populated().await;
        let world = &all.world;
        let what = format!("{method} {route}");
        let other = json!({"handle": "another"});
        if let Some((path, body)) = used(&all, &what).await {
            let first = send(world, &method, &path, "once", &body).await;
            assert!((200..300).contains(&first.status), "{what}: {first:?}");
            let after = everything(world).await;
            let again = send(world, &method, &path, "once", &body).await;
            assert!((200..300).contains(&again.status), "{what}: {again:?}");
            let same = |answer: &Answer| {
                let mut json = answer.json.clone();
                if let Some(fields) = json.as_object_mut() {
                    // A secret is shown once, and a repeat may say that it is one.
                    fields.retain(|name, _| name != "secret" && name != "duplicate");
                }
                json
            };
            assert_eq!(same(&again), same(&first), "{what}: the same answer");
            assert_eq!(everything(world).await, after, "{what}: done once");
            let reused = send(world, &Method::POST, "/v1/entities", "once", &other).await;
            assert_eq!((reused.status, reused.code()), (409, "key_reused"), "{what}: {reused:?}");
            if !body.is_null() {
                let mut changed = body.clone();
                changed["zzz"] = json!(1);
                let reused = send(world, &method, &path, "once", &changed).await;
                assert_eq!((reused.status, reused.code()), (409, "key_reused"), "{what}: {reused:?}");
            }
        }
        // A refused request keeps its key, whatever it was refused for.
        let operation = &world.document()["paths"][&route][method.as_str().to_lowercase()];
        let fill = |part| match part {
            // Whoever is not in the space has no access: then nothing of the request is looked at.
            "{space}" if operation["x-access"] == "member" => "home",
            part if part.starts_with('{') => "nowhere",
            part => part,
        };
        let nowhere: Vec<&str> = route.split('/').map(fill).collect();
        for (n, body) in [NO_BODY, json!({"zzz": 1}), json!([])].iter().enumerate() {
            let (path, key) = (nowhere.join("/"), format!("refused-{n}"));
            let refused = send(world, &method, &path, &key, body).await;
            // Deleting what is not there is no mistake for some.
            if refused.status >= 400 {
                let again = send(world, &method, &path, &key, body).await;
                assert_eq!(
                    (again.status, again.code()),
                    (refused.status, refused.code()),
                    "{what}: {again:?}"
                );
                let reused = send(world, &Method::POST, "/v1/entities", &key, &other).await;
                assert_eq!((reused.status, reused.code()), (409, "key_reused"), "{what} {body}: {refused:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_key_is_new_again_after_thirty_days() {
    let world = World::new().await;
    let messages = "/v1/spaces/home/messages";
    let body = json!({"text": "hello", "sender": "you"});
    let days = |n: u64| std::time::Duration::from_secs(n * 24 * 60 * 60);
    let first = send(&world, &Method::POST, messages, "k", &body).await;
    let event = json!({"service": "bell"});
    let events = "/v1/agents/muhammad/events";
    let sent = send(&world, &Method::POST, events, "e", &event).await;
    send(&world, &Method::POST, events, "e2", &event).await;
    world.clock.advance(days(29));
    let again = send(&world, &Method::POST, messages, "k", &body).await;
    assert_eq!((again.status, &again.json["id"]), (200, &first.json["id"]));
    world.clock.advance(days(2));
    let anew = send(&world, &Method::POST, messages, "k", &json!({"text": "other", "sender": "you"})).await;
    assert_eq!(anew.status, 201, "{anew:?}");
    // That an event was accepted is known for as long as the store exists.
    let again = send(&world, &Method::POST, events, "e", &event).await;
    assert_eq!((again.status, &again.json["duplicate"]), (200, &json!(true)), "{sent:?}");
    let anew = send(&world, &Method::POST, events, "e2", &json!({"service": "gong"})).await;
    assert_eq!(anew.status, 201, "another event is not taken for the first one: {anew:?}");
}

#[tokio::test]
async fn a_repeat_is_answered_although_it_would_be_refused_now() {
    let world = World::new().await;
    made(&world, "/v1/entities", json!({"handle": "zainab"})).await;
    made(&world, "/v1/spaces/home/members", json!({"entity": "zainab"})).await;
    let messages = "/v1/spaces/home/messages";
    let body = json!({"text": "hello", "sender": "you", "mentions": ["zainab"]});
    let first = send(&world, &Method::POST, messages, "k", &body).await;
    assert_eq!(first.status, 201, "{first:?}");
    world.ask(Method::DELETE, "/v1/spaces/home/members/zainab", ADMIN, None).await;
    let again = send(&world, &Method::POST, messages, "k", &body).await;
    assert_eq!((again.status, &again.json["id"]), (200, &first.json["id"]), "{again:?}");
}

#[tokio::test]
async fn a_trial_that_was_cut_off_is_not_run_again() {
    let world = World::new().await;
    let body = json!({"arguments": {"note": "x"}});
    let path = "/v1/tools/fire/try";
    let first = send(&world, &Method::POST, path, "k", &body).await;
    assert_eq!((first.status, world.counters.effects("fire")), (200, 1));
    let refused = send(&world, &Method::POST, path, "wrong", &json!({"arguments": {"note": 1}})).await;
    assert_eq!((refused.status, refused.code()), (422, "bad_value"));
    // As a process leaves it that dies while the tool runs.
    let known = kept_key(&world, &Method::POST, path, "cut", &body);
    world.ports.registry.note_request(known, uuid::Uuid::max()).await.unwrap();
    let again = send(&world, &Method::POST, path, "cut", &body).await;
    assert_eq!((again.status, again.code()), (409, "outcome_unknown"), "{again:?}");
    assert_eq!(world.counters.effects("fire"), 1);
}

#[tokio::test]
async fn every_list_shows_each_item_once_whatever_the_size_of_a_page() {
    let all = populated().await;
    let world = &all.world;
    let mut few = Vec::new();
    let mut lists = 0;
    for (method, path, operation) in operations(world) {
        if method != Method::GET || !has_parameter(&operation, "limit") {
            continue;
        }
        let path = filled(&path);
        if !has_parameter(&operation, "cursor") {
            let query = if path.ends_with("/recall") { "?limit=1&query=note" } else { "?limit=1" };
            let newest = world.get(&format!("{path}{query}")).await;
            assert_eq!(newest.json["items"].as_array().map(Vec::len), Some(1), "{path}: {newest:?}");
            continue;
        }
        lists += 1;
        let whole = world.get(&format!("{path}?limit=200")).await;
        assert_eq!((whole.status, &whole.json["next"]), (200, &Value::Null), "{path}: {whole:?}");
        let whole = whole.json["items"].as_array().unwrap().clone();
        for size in [1, 2] {
            let (mut read, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = world.get(&format!("{path}?limit={size}{cursor}")).await;
                assert_eq!(page.status, 200, "{path}: {page:?}");
                let items = page.json["items"].as_array().unwrap();
                assert!(items.len() <= size, "{path}: {items:?}");
                read.extend(items.iter().cloned());
                match page.json["next"].as_str() {
                    Some(next) if read.len() <= whole.len() => cursor = format!("&cursor={next}"),
                    _ => break,
                }
            }
            let sorted = |items: &[Value]| {
                let mut items: Vec<String> = items.iter().map(ToString::to_string).collect();
                items.sort();
                items
            };
            // Pages of messages are ordered from old to new, and the newest page comes first.
            assert_eq!(sorted(&read), sorted(&whole), "{path} by {size}");
        }
        let wrong = world.get(&format!("{path}?cursor=17")).await;
        assert_eq!((wrong.status, wrong.code()), (400, "bad_query"), "{path}: a cursor is not ignored");
        if whole.len() < 3 {
            few.push(path);
        }
    }
    // Of these the fixture has fewer; that they are pages is checked when they are added.
    let known = [
        "/v1/agents/muhammad/calls",
        "/v1/agents/muhammad/consciousness",
        "/v1/agents/muhammad/runs",
        "/v1/alerts",
        "/v1/approval-rules",
        "/v1/approvals",
        "/v1/mcp",
        "/v1/targets/target-0/dead",
    ];
    assert_eq!(few, known);
    assert!(lists >= 20, "{lists}");
}

#[tokio::test]
async fn handles_have_no_case_in_any_path() {
    for (method, route, _) in operations(&World::new().await) {
        let named = ["{agent}", "{space}", "{entity}", "{hook}", "{target}"];
        if !named.iter().any(|name| route.contains(name)) || route.ends_with("/stream") {
            continue;
        }
        let (lower, upper) = (populated().await, populated().await);
        let what = format!("{method} {route}");
        let takes_key = changing(&lower.world).contains(&(method.clone(), route.clone()));
        let (path, body) = match (takes_key, method == Method::GET) {
            (true, _) => used(&lower, &what).await.unwrap(),
            (false, true) => {
                let path = filled(&route).replace("{entity}", "you").replace("{call}", &lower.call);
                let path = path.replace("{event}", &lower.event).replace("{plan}", &lower.plan);
                (if path.ends_with("/recall") { format!("{path}?query=x") } else { path }, NO_BODY)
            }
            (false, false) => (filled(&route), json!({})),
        };
        if takes_key {
            used(&upper, &what).await.unwrap();
        }
        let shout = |text: &str| {
            let mut text = text.to_owned();
            for handle in
                ["muhammad", "agent-", "home", "space-", "person-", "/you", "hook-", "target-", "s/new"]
            {
                text = text.replace(
                    handle,
                    &handle.to_uppercase().replace("/YOU", "/You").replace("S/NEW", "s/New"),
                );
            }
            text
        };
        let plain =
            lower.world.ask(method.clone(), &path, ADMIN, Some(body.clone()).filter(|b| !b.is_null())).await;
        let loud =
            upper.world.ask(method.clone(), &shout(&path), ADMIN, Some(body).filter(|b| !b.is_null())).await;
        assert_ne!(shout(&path), path, "{what}");
        assert!(plain.status < 300 || plain.code() == "signature_missing", "{what} {path}: {plain:?}");
        assert_eq!((loud.status, loud.code()), (plain.status, plain.code()), "{what}: {loud:?}");
    }
}

/// What is not for a person, and what does not exist: of each kind the same.
#[tokio::test]
async fn a_persons_key_learns_nothing_of_what_is_not_theirs() {
    let world = World::new().await;
    made(&world, "/v1/entities", json!({"handle": "zoe"})).await;
    made(&world, "/v1/agents", json!({"handle": "spy"})).await;
    let space = made(&world, "/v1/spaces", json!({"handle": "den", "members": ["zoe", "spy"]})).await;
    let hidden: agent::id::SpaceId = space["id"].as_str().unwrap().parse().unwrap();
    let message = made(&world, "/v1/spaces/den/messages", json!({"text": "psst", "sender": "zoe"})).await;
    let call = asked(&world, |asked| agent::approval::Approval { space: Some(hidden), ..asked }).await;
    let id = async |path: &str| world.get(path).await.json["id"].as_str().unwrap().to_owned();
    let (spy, zoe) = (id("/v1/agents/spy").await, id("/v1/entities/zoe").await);
    let nothing = "0192d3e4-0000-7000-8000-000000000000".to_owned();
    let text = |json: &Value| json["id"].as_str().unwrap().to_owned();
    // What exists, and the same in form that does not.
    let pairs: Vec<(&str, String, String)> = vec![
        ("agent", "spy".into(), "nix".into()),
        ("agent", "SPY".into(), "NIX".into()),
        ("agent", spy, nothing.clone()),
        ("space", "den".into(), "nix".into()),
        ("space", text(&space), nothing.clone()),
        ("entity", "zoe".into(), "nix".into()),
        ("entity", zoe.clone(), nothing.clone()),
        ("sender", "zoe".into(), "nix".into()),
        ("sender", "spy".into(), "nix".into()),
        ("sender", zoe, nothing.clone()),
        ("message", text(&message), nothing.clone()),
        ("call", call.to_string(), "c-nothing".into()),
    ];
    let yours = world.your_key().await;
    let bodies = [
        None,
        Some("{".to_owned()),
        Some("[]".to_owned()),
        Some(json!({"zzz": 1}).to_string()),
        Some(json!({"verdict": "approve"}).to_string()),
        Some(json!({"verdict": "maybe", "sender": "zoe"}).to_string()),
        Some(json!({"text": "hi"}).to_string()),
        Some(json!({"text": ""}).to_string()),
        Some(json!({"cycle": nothing}).to_string()),
    ];
    let mut walked = 0;
    for (method, route, operation) in operations(&world) {
        if !matches!(operation["x-access"].as_str().unwrap(), "person" | "member") {
            continue;
        }
        for (name, there, missing) in &pairs {
            let in_path = route.contains(&format!("{{{name}}}"));
            if !in_path && !has_parameter(&operation, name) {
                continue;
            }
            let path_of = |value: &str| {
                let path = if in_path {
                    route.replace(&format!("{{{name}}}"), value)
                } else {
                    format!("{route}?{name}={value}")
                };
                filled(&path).replace("{tool}", "fire").replace("{entity}", "you").replace("{call}", "c-none")
            };
            for (n, body) in
                bodies.iter().enumerate().take(if method == Method::GET { 1 } else { bodies.len() })
            {
                for key in [false, true] {
                    let ask = async |value: &str| {
                        let mut request = Request::builder()
                            .method(method.clone())
                            .uri(path_of(value))
                            .header("host", "localhost")
                            .header("authorization", format!("Bearer {yours}"))
                            .header("content-type", "application/json");
                        if key {
                            request = request
                                .header("idempotency-key", format!("{name}-{value}-{n}-{method}-{walked}"));
                        }
                        let body = body.clone().map_or_else(Body::empty, Body::from);
                        let answer = world.send(request.body(body).unwrap()).await;
                        (
                            answer.status,
                            answer.json.to_string().replace(value, "?").replace(&value.to_lowercase(), "?"),
                        )
                    };
                    let (real, none) = (ask(there).await, ask(missing).await);
                    assert_eq!(real, none, "{method} {} with {body:?}, key: {key}", path_of(there));
                    walked += 1;
                }
            }
        }
    }
    assert!(walked > 100, "{walked}");
}
