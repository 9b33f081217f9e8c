//! Metrics: for whoever may read as an operator, in a form that Prometheus reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent::alert::AlertKind;
use agent::id::CycleId;
use agent::run::Ending;
use agent::update::{Topic, Update};
use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use uuid::Uuid;

use crate::world::{ADMIN, Answer, World};

async fn scrape(world: &World, key: &str, accept: &str) -> Answer {
    let request = Request::get("/metrics").header("host", "localhost").header("accept", accept);
    world.send(request.header("authorization", format!("Bearer {key}")).body(Body::empty()).unwrap()).await
}

/// Every line is a number of a family that is declared before it, once, and named as the field names things.
fn check(text: &str, open: bool) {
    let (mut families, mut samples, mut current) = (BTreeSet::new(), BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (family, kind) = declared.split_once(' ').unwrap();
            assert!(family.starts_with("viv_") && families.insert(family.to_owned()), "{line}");
            assert_eq!(family.ends_with("_total"), kind == "counter" && !open, "{line}");
            current = family.to_owned();
        } else if !line.starts_with("# HELP viv_") && line != "# EOF" {
            let (sample, number) = line.rsplit_once(' ').unwrap();
            assert!(number.parse::<f64>().is_ok() && samples.insert(sample.to_owned()), "{line}");
            let name = sample.split('{').next().unwrap();
            assert!(name == current || name == format!("{current}_total"), "{line} in {current}");
        }
    }
    assert!(families.len() > 20, "{families:?}");
}

#[tokio::test]
async fn metrics_count_what_the_server_has_and_does() {
    let world = World::new().await;
    world.post("/v1/agents/muhammad/events", json!({"service": "bell"})).await;
    let target =
        json!({"url": "https://example.com/in", "secrets": ["news"], "on": ["message"], "space": "home"});
    world.ask(axum::http::Method::PUT, "/v1/targets/board", ADMIN, Some(target)).await;
    world.post("/v1/spaces/home/messages", json!({"text": "hello", "sender": "you"})).await;
    let (agent, cycle) = (world.agent, CycleId(Uuid::from_u128(5)));
    let publish = |update| world.ports.live.bus().publish(&[Topic::Agent(agent)], Arc::new(update));
    publish(Update::Alert { agent, cycle, alert: AlertKind::WindowCut, text: "cut".into() });
    publish(Update::CycleEnded { agent, cycle, ending: Ending::Completed, reason: None, spent: None });
    let answer = scrape(&world, ADMIN, "*/*").await;
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = answer.text;
    check(&text, false);
    for line in [
        "viv_agents{state=\"retired\"} 0",
        "viv_agents{state=\"suspended\"} 0",
        "viv_inbox_events{state=\"dead\"} 0",
        "viv_cycles_total{ending=\"completed\"} 1",
        "viv_alerts_total{alert=\"window_cut\"} 1",
        "viv_alerts_total{alert=\"event_dead\"} 0",
        "viv_target_deliveries_waiting{target=\"board\"} 1",
        "viv_target_failing{target=\"board\"} 0",
        "viv_messages_total 1",
        "viv_approvals_waiting 0",
        "viv_store_damaged 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let open = scrape(&world, ADMIN, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5").await;
    assert_eq!(open.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    check(&open.text, true);
    assert!(open.text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn metrics_are_for_operators() {
    let world = World::new().await;
    let key = async |scope: &str| {
        let made = world.post("/v1/keys", json!({"scope": scope})).await;
        made.json["secret"].as_str().unwrap().to_owned()
    };
    assert_eq!(scrape(&world, &key("operator:read").await, "*/*").await.status, 200);
    assert_eq!(scrape(&world, &key("service:bell").await, "*/*").await.code(), "forbidden");
    assert_eq!(scrape(&world, "viv_none", "*/*").await.status, 401);
}
