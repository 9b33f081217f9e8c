//! Agents: create, change, suspend, resume, retire; their derived state.

use agent::changes::{Changes, CommitKind};
use agent::config::AgentConfig;
use agent::event::Principal;
use agent::id::{AgentId, CycleId};
use agent::life::{Lease, Requester};
use agent::limits;
use agent::port::NewAgent;
use agent::run::{Ending, Run, Usage};
use agent::update::AgentState;
use axum::http::Method;
use runtime::node::Signal;
use runtime::waits::Wait;
use serde_json::json;
use uuid::Uuid;

use crate::world::{ADMIN, World, open_cycle_for};

#[tokio::test]
async fn an_agent_is_created_with_defaults_and_a_change_is_merged() {
    let world = World::new().await;
    let body = json!({"handle": "helper", "config": {"instructions": "be kind", "tools": ["fire"]}});
    let created = world.post("/v1/agents", body).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!((&created.json["state"], &created.json["config_rev"]), (&json!("sleeping"), &json!(1)));
    assert_eq!(created.json["model"], "demo");
    assert_eq!(created.json["config"]["limits"]["max_steps"], 20);
    let patch = json!({"display_name": "Helper", "config": {"limits": {"max_steps": 3}}});
    let amended = world.ask(Method::PATCH, "/v1/agents/helper", ADMIN, Some(patch)).await;
    assert_eq!((amended.status, &amended.json["config_rev"]), (200, &json!(2)), "{amended:?}");
    assert_eq!(amended.json["config"]["instructions"], "be kind");
    assert_eq!(amended.json["config"]["limits"]["max_steps"], 3);
    assert_eq!(amended.json["display_name"], "Helper");
    let bad = json!({"config": {"tools": ["nothing_like_it"]}});
    let rejected = world.ask(Method::PATCH, "/v1/agents/helper", ADMIN, Some(bad)).await;
    assert_eq!((rejected.status, rejected.code()), (422, "no_such_tool"));
    assert_eq!(world.get("/v1/agents/helper").await.json, amended.json);
    assert_eq!(world.get("/v1/agents").await.json["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn tools_above_the_bound_of_the_model_are_named() {
    let world = World::new().await;
    // The tools were fewer when the config was checked.
    let config = AgentConfig::from_json(&json!({"tools": ["*", "fail"], "model": "narrow"})).unwrap();
    let id = AgentId(world.ports.ids.uuid());
    let new = NewAgent::new(id, "many", config, world.ports.clock.now());
    world.ports.registry.create_agent(new).await.unwrap();
    let agent = world.get("/v1/agents/many").await.json;
    assert_eq!(agent["tools_left_out"], json!(["put", "fire", "panics", "resize"]));
    assert_eq!(world.get("/v1/agents/muhammad").await.json.get("tools_left_out"), None);
}

#[tokio::test]
async fn suspending_and_retiring_change_the_agents_state_and_signal_the_node() {
    let world = World::new().await;
    let suspended = world.post("/v1/agents/muhammad/suspend", json!({})).await;
    assert_eq!(
        (&suspended.json["state"], &suspended.json["reason"]),
        (&json!("sleeping"), &json!("suspended"))
    );
    assert_eq!(world.signals(), [Signal::Recheck(world.agent)]);
    let resumed = world.post("/v1/agents/muhammad/resume", json!({})).await;
    assert_eq!((&resumed.json["standing"], resumed.json.get("reason")), (&json!("active"), None));
    let retired = world.post("/v1/agents/muhammad/retire", json!({})).await;
    assert_eq!(retired.json["state"], "retired");
    let dead = world.post("/v1/agents/muhammad/resume", json!({})).await;
    assert_eq!((dead.status, dead.code()), (409, "agent_retired"), "{dead:?}");
    let event = world.post("/v1/agents/muhammad/events", json!({"service": "a"})).await;
    assert_eq!((event.status, event.code()), (409, "agent_retired"), "{event:?}");
    assert_eq!(event.json["detail"], "the agent `muhammad` is retired");
    let patch = json!({"config": {"debounce": 5}});
    let changed = world.ask(Method::PATCH, "/v1/agents/muhammad", ADMIN, Some(patch)).await;
    assert_eq!((changed.status, changed.code()), (409, "agent_retired"), "{changed:?}");
    assert_eq!(changed.json["detail"], "the agent `muhammad` is retired");
}

#[tokio::test]
async fn an_agent_that_waits_on_this_node_has_a_reason_and_a_time() {
    let world = World::new().await;
    let (live, now) = (&world.ports.live, world.ports.clock.now());
    let until = now.checked_add(jiff::SignedDuration::from_secs(60)).unwrap();
    let card = async || world.get("/v1/agents/muhammad").await.json;
    for (wait, reason, until) in [
        (Wait::Slot(256), "place", None),
        (Wait::Requests("anthropic".into(), 128), "requests", None),
        (Wait::Crash, "crash", None),
        (Wait::Store("no room".into(), Some(until)), "store", Some(until)),
        (Wait::Panicked(until), "broke", Some(until)),
    ] {
        live.begin_wait(world.agent, wait.clone());
        let card = card().await;
        assert_eq!((&card["reason"], &card["why"]), (&json!(reason), &json!(wait.describe())));
        assert_eq!(card.get("not_before"), until.map(|until| json!(until)).as_ref());
    }
    live.end_wait(world.agent);
    assert_eq!(card().await.get("reason"), None);
}

#[tokio::test]
async fn a_brief_list_leaves_out_configs() {
    let world = World::new().await;
    let whole = world.get("/v1/agents").await.json["items"][0].clone();
    let brief = world.get("/v1/agents?brief=true").await.json["items"][0].clone();
    assert_eq!(brief["id"], whole["id"]);
    assert!(whole["config"].is_object() && brief.get("config").is_none(), "{brief}");
    assert_eq!((&brief["cost_micros"], &brief["unpriced"]), (&json!(null), &json!(0)));
    assert!(brief.get("last_run").is_none() && brief.get("next_plan_at").is_none(), "{brief}");
    let wrong = world.get("/v1/agents?brief=perhaps").await;
    assert_eq!((wrong.status, wrong.code()), (400, "bad_query"), "{wrong:?}");
}

#[tokio::test]
async fn the_recent_history_can_be_limited_by_number_agents_and_time() {
    let world = World::new().await;
    for text in ["one", "two", "three"] {
        world.post_unpublished(text).await;
    }
    let texts = |answer: &crate::world::Answer| -> Vec<String> {
        let items = answer.json["items"].as_array().unwrap();
        items.iter().map(|item| item["text"].as_str().unwrap().to_owned()).collect()
    };
    let last = world.get("/v1/recent?limit=2").await;
    assert_eq!(texts(&last), ["two", "three"], "{last:?}");
    assert_eq!(
        (&last.json["items"][0]["type"], &last.json["items"][0]["sender_display_name"]),
        (&json!("message"), &json!("You"))
    );
    assert_eq!(texts(&world.get("/v1/recent?agents=muhammad").await), ["one", "two", "three"]);
    assert_eq!(texts(&world.get("/v1/recent?since=2999-01-01T00:00:00Z").await), [""; 0]);
    for (query, status, code) in [
        ("agents=nobody", 404, "not_found"),
        ("agents=,", 400, "bad_query"),
        ("since=yesterday", 400, "bad_query"),
        ("limit=0", 400, "bad_query"),
    ] {
        let rejected = world.get(&format!("/v1/recent?{query}")).await;
        assert_eq!((rejected.status, rejected.code()), (status, code), "{query}: {rejected:?}");
    }
}

#[tokio::test]
async fn an_agent_that_runs_has_its_live_state_and_cycle() {
    let world = World::new().await;
    let cycle = CycleId(Uuid::from_u128(5));
    world.ports.live.enter(world.agent, cycle, AgentState::Thinking, &[world.home]);
    let agent = world.get("/v1/agents/muhammad").await;
    assert_eq!((&agent.json["state"], &agent.json["cycle"]), (&json!("thinking"), &json!(cycle)));
}

#[tokio::test]
async fn consciousness_facts_and_runs_can_be_read() {
    let world = World::new().await;
    let context = world.get("/v1/agents/muhammad/consciousness").await;
    assert_eq!(context.json, json!({"items": [], "next": null}));
    let facts = world.get("/v1/agents/muhammad/facts").await;
    assert_eq!(facts.json["spaces"][0]["handle"], "home", "{facts:?}");
    assert_eq!(facts.json["spaces"][0]["members"].as_array().unwrap().len(), 2);
    assert_eq!(world.get("/v1/agents/muhammad/runs").await.json, json!({"items": [], "next": null}));
    let nobody = world.get("/v1/runs/0192d3e4-0000-7000-8000-000000000000").await;
    assert_eq!((nobody.status, nobody.code()), (404, "not_found"));
}

#[tokio::test]
async fn an_archive_is_searched_and_what_cannot_be_asked_is_refused() {
    let world = World::new().await;
    let body = json!({"text": "the boiler leaks", "sender": "you"});
    assert_eq!(world.post("/v1/spaces/home/messages", body).await.status, 201);
    let found = world.get("/v1/agents/muhammad/recall?query=BOILER&space=home&kind=message").await;
    assert_eq!((found.status, found.json["items"].as_array().unwrap().len()), (200, 1), "{found:?}");
    let first = &found.json["items"][0];
    assert_eq!((&first["text"], &first["trust"]), (&json!("@you: the boiler leaks"), &json!("member")));
    let strange = "/v1/agents/muhammad/recall?query=%22%20OR%20%2A%07%3A%20NEAR%28";
    let nothing = json!({"items": [], "next": null, "building": false, "newest_spaces_only": false});
    assert_eq!(world.get(strange).await.json, nothing);
    let too_many = format!("?query=x&limit={}", limits::RECALL_MAX + 1);
    for bad in ["", "?query=x&kind=dream", "?query=x&limit=0", &too_many] {
        let refused = world.get(&format!("/v1/agents/muhammad/recall{bad}")).await;
        assert_eq!(refused.status, 400, "{bad}: {refused:?}");
    }
    for bad in ["x".repeat(5_000), "%00".into(), String::new(), "%20".into(), "x&from=yesterday".into()] {
        let refused = world.get(&format!("/v1/agents/muhammad/recall?query={bad}")).await;
        assert_eq!((refused.status, refused.code()), (422, "bad_value"), "{refused:?}");
    }
    let by_date = "/v1/agents/muhammad/recall?query=boiler&from=2026-11-01T10:00&to=";
    let found = world.get(&format!("{by_date}2026-11-21")).await;
    assert_eq!((found.status, found.json["items"].as_array().unwrap().len()), (200, 1), "{found:?}");
    assert_eq!(world.get(&format!("{by_date}2026-11-20")).await.json["items"], json!([]));
    assert_eq!(world.get("/v1/agents/nobody/recall?query=x").await.status, 404);
    let refused = world.get("/v1/agents/muhammad/recall?query=x&space=attic").await;
    assert_eq!((refused.status, refused.code()), (404, "not_found"), "{refused:?}");
    assert_eq!(refused.json["detail"], "no space that the agent can search is called `attic`");
    assert_eq!(refused.json["hint"], "it can search `home`");
    let again = json!({"text": "the boiler leaks again", "sender": "you"});
    assert_eq!(world.post("/v1/spaces/home/messages", again).await.status, 201);
    for (limit, count) in [(1, 1), (limits::RECALL_MAX, 2)] {
        let found = world.get(&format!("/v1/agents/muhammad/recall?query=boiler&limit={limit}")).await;
        assert_eq!(found.json["items"].as_array().unwrap().len(), count, "{found:?}");
    }
}

#[tokio::test]
async fn the_context_is_listed_by_layers_and_reading_it_wakes_no_agent() {
    let world = World::new().await;
    let before = world.get("/v1/agents/muhammad/context").await;
    assert_eq!((before.status, &before.json["events"], &before.json["entries"]), (200, &json!(0), &json!(0)));
    let body = json!({"text": "hello there", "sender": "you"});
    let posted = world.post("/v1/spaces/home/messages", body).await;
    assert_eq!(posted.status, 201, "{posted:?}");
    world.signals();
    let context = world.get("/v1/agents/muhammad/context").await.json;
    let names: Vec<&str> =
        context["layers"].as_array().unwrap().iter().map(|l| l["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["system", "tools", "summary", "window", "inbox", "workspace", "output", "free"]);
    let sum: u64 = context["layers"].as_array().unwrap().iter().map(|l| l["tokens"].as_u64().unwrap()).sum();
    assert_eq!(json!(sum), context["context_window"]);
    assert_eq!(context["events"], 1);
    assert!(context["layers"][4]["tokens"].as_u64() > before.json["layers"][4]["tokens"].as_u64());
    assert!(world.signals().is_empty());
    assert_eq!(world.get("/v1/agents/muhammad").await.json["waiting"], 1);
    assert_eq!(world.get("/v1/agents/nobody/context").await.status, 404);
}

#[tokio::test]
async fn an_entity_can_cancel_only_a_cycle_that_processes_its_own_events() {
    let world = World::new().await;
    let key = world.your_key().await;
    let cancel = async |agent: &str, body: serde_json::Value| {
        world.ask(Method::POST, &format!("/v1/agents/{agent}/cancel"), &key, Some(body)).await
    };
    let none = cancel("muhammad", json!({})).await;
    assert_eq!((none.status, none.code()), (409, "no_open_cycle"), "{none:?}");
    let stranger = cancel("nobody", json!({})).await;
    assert_eq!(
        (stranger.status, stranger.code()),
        (403, "forbidden"),
        "must not show whether the agent exists"
    );
    let asked = |who| Requester { principal: Principal::Entity(who), space: None };
    let cycle = CycleId(Uuid::from_u128(5));
    open_cycle_for(&world, cycle, &[], vec![asked(world.agent.entity())]).await;
    let others = cancel("muhammad", json!({"cycle": cycle})).await;
    assert_eq!((others.status, others.code()), (403, "forbidden"), "{others:?}");
    assert_eq!(world.signals(), []);

    let world = World::new().await;
    let key = world.your_key().await;
    let you = world.get("/v1/entities/you").await.json["id"].as_str().unwrap().parse().unwrap();
    open_cycle_for(&world, cycle, &[], vec![asked(you)]).await;
    let cancel = async |body: serde_json::Value| {
        world.ask(Method::POST, "/v1/agents/muhammad/cancel", &key, Some(body)).await
    };
    let another = cancel(json!({"cycle": Uuid::from_u128(6)})).await;
    assert_eq!((another.status, another.code()), (409, "no_open_cycle"), "{another:?}");
    let own = cancel(json!({})).await;
    assert_eq!((own.status, &own.json["cycle"]), (200, &json!(cycle)), "{own:?}");
    assert_eq!(world.signals(), [Signal::Recheck(world.agent)]);
}

#[tokio::test]
async fn memories_are_set_listed_and_deleted() {
    let world = World::new().await;
    let path = |key: &str| format!("/v1/agents/muhammad/memories/{key}");
    let set = async |key: &str, body| world.ask(Method::PUT, &path(key), ADMIN, Some(body)).await;
    let written = set("tea%20%2F%20coffee", json!({"value": "tea"})).await;
    assert_eq!((written.status, &written.json["key"]), (200, &json!("tea / coffee")), "{written:?}");
    assert_eq!(set("city", json!({"value": "Rome"})).await.status, 200);
    let page = world.get("/v1/agents/muhammad/memories?limit=1").await.json;
    assert_eq!(page["items"][0]["value"], "Rome");
    let next = page["next"].as_str().unwrap();
    let last = world.get(&format!("/v1/agents/muhammad/memories?limit=1&cursor={next}")).await.json;
    assert_eq!((&last["items"][0], &last["next"]), (&written.json, &json!(null)));
    for (key, body) in [
        ("%20", json!({"value": "x"})),
        (&"k".repeat(121), json!({"value": "x"})),
        ("k", json!({"value": "x".repeat(8 * 1024 + 1)})),
        ("k", json!({"value": "a\u{0}b"})),
        ("k", json!({"value": "x".repeat(1_000_000)})),
        ("two%0Alines", json!({"value": "x"})),
        ("bell%07", json!({"value": "x"})),
    ] {
        let bad = set(key, body).await;
        assert_eq!((bad.status, bad.code()), (422, "bad_value"), "{bad:?}");
    }
    for body in [json!({"value": "x", "importance": "urgent"}), json!({"value": "x", "pinned": "yes"})] {
        let bad = set("k", body).await;
        assert_eq!((bad.status, bad.code()), (422, "wrong_type"), "{bad:?}");
    }
    for (status, code) in [(204, ""), (404, "not_found")] {
        let gone = world.ask(Method::DELETE, &path("city"), ADMIN, None).await;
        assert_eq!(gone.status, status);
        assert!(code.is_empty() || gone.code() == code, "{gone:?}");
    }
    assert_eq!(world.get("/v1/agents/muhammad/memories").await.json["items"].as_array().unwrap().len(), 1);
    assert_eq!(world.post("/v1/agents/muhammad/retire", json!({})).await.status, 200);
    let retired = set("k", json!({"value": "x"})).await;
    assert_eq!((retired.status, retired.code()), (409, "agent_retired"), "{retired:?}");
}

#[tokio::test]
async fn a_memory_keeps_its_importance_and_its_pin_until_others_are_given_and_pins_are_limited() {
    let world = World::new().await;
    let set = async |key: &str, body| {
        world.ask(Method::PUT, &format!("/v1/agents/muhammad/memories/{key}"), ADMIN, Some(body)).await
    };
    let of = |answer: &crate::world::Answer| {
        let json = &answer.json;
        (json["importance"].clone(), json["pinned"].clone(), json["trust"].clone())
    };
    let new = set("city", json!({"value": "Rome"})).await;
    assert_eq!(of(&new), (json!("normal"), json!(false), json!("operator")), "{new:?}");
    assert_eq!(new.json["used_at"], new.json["updated_at"]);
    set("city", json!({"value": "Rome", "importance": "high", "pinned": true})).await;
    let kept = set("city", json!({"value": "Oslo"})).await;
    assert_eq!(of(&kept), (json!("high"), json!(true), json!("operator")), "{kept:?}");
    // Without a value only what is given changes.
    let marked = set("city", json!({"pinned": false})).await;
    let unpinned =
        kept.json.as_object().unwrap().clone().into_iter().map(|(key, value)| match key.as_str() {
            "pinned" => (key, json!(false)),
            _ => (key, value),
        });
    assert_eq!(marked.json, serde_json::Value::Object(unpinned.collect()));
    assert_eq!(set("city", json!({"importance": "low", "pinned": true})).await.json["value"], "Oslo");
    let nothing = set("city", json!({})).await;
    assert_eq!((nothing.status, nothing.code()), (422, "bad_value"), "{nothing:?}");
    assert_eq!(set("town", json!({"pinned": true})).await.status, 404);
    for n in 1..64 {
        assert_eq!(set(&format!("k{n}"), json!({"value": "v", "pinned": true})).await.status, 200);
    }
    let full = set("k64", json!({"value": "v", "pinned": true})).await;
    assert_eq!((full.status, full.code()), (409, "pinned_memories_full"), "{full:?}");
    let detail = full.json["detail"].as_str().unwrap();
    assert!(
        detail.contains("`muhammad`") && detail.contains("would make 65; unpin others first"),
        "{detail}"
    );
    assert_eq!(set("city", json!({"value": "Oslo", "pinned": false})).await.status, 200);
    assert_eq!(set("k64", json!({"value": "v", "pinned": true})).await.status, 200);
}

#[tokio::test]
async fn a_run_names_its_agent_wherever_it_is_shown() {
    let world = World::new().await;
    let (cycle, at) = (CycleId(Uuid::from_u128(5)), world.ports.clock.now());
    open_cycle_for(&world, cycle, &[], Vec::new()).await;
    let mut end = Changes::new(CommitKind::Close, cycle, 0, 1, at);
    end.run = Some(Run {
        id: cycle,
        agent: world.agent,
        ordinal: 1,
        woke_for: "1 event".to_owned(),
        events: 1,
        opened_at: at,
        ended_at: at,
        steps: Vec::new(),
        usage: Usage::default(),
        cost_micros: None,
        model: "demo".to_owned(),
        config_rev: 1,
        ending: Ending::Completed,
        reason: None,
        summary: None,
    });
    world.ports.store.commit(Lease { agent: world.agent, epoch: 1 }, end).await.unwrap();
    let run = world.get(&format!("/v1/runs/{cycle}")).await.json;
    let listed = world.get("/v1/agents/muhammad/runs").await.json["items"][0].clone();
    let recent = world.get("/v1/recent").await.json["items"][0].clone();
    for shown in [run, listed, recent] {
        assert_eq!((&shown["id"], &shown["agent_handle"]), (&json!(cycle), &json!("muhammad")), "{shown}");
    }
}
