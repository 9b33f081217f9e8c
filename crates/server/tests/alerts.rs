//! Alerts over the API: listed newest first, with the agent's handle, and filtered.

use agent::alert::{AlertKind, Raised};
use agent::changes::{Changes, CommitKind};
use agent::id::CycleId;
use agent::life::Lease;
use serde_json::json;
use uuid::Uuid;

use crate::world::{World, open_cycle};

#[tokio::test]
async fn alerts_are_listed_after_they_happened() {
    let world = World::new().await;
    assert_eq!(world.get("/v1/alerts").await.json, json!({"items": [], "next": null}));
    let cycle = CycleId(Uuid::from_u128(5));
    world.post("/v1/agents/muhammad/events", json!({"service": "jira"})).await;
    open_cycle(&world, cycle, &[1]).await;
    let mut end = Changes::new(CommitKind::Close, cycle, 0, 1, world.ports.clock.now());
    end.alerts = [AlertKind::WindowCut, AlertKind::PinMissing]
        .map(|alert| Raised { alert, text: format!("about {}", alert.as_str()) })
        .to_vec();
    world.ports.store.commit(Lease { agent: world.agent, epoch: 1 }, end).await.unwrap();
    world.ports.store.quarantine(world.agent, "torn".into()).await.unwrap();
    let all = world.get("/v1/alerts").await.json["items"].clone();
    let kinds: Vec<_> = all.as_array().unwrap().iter().map(|one| one["alert"].clone()).collect();
    assert_eq!(kinds, [json!("agent_damaged"), json!("pin_missing"), json!("window_cut")]);
    let shown = ["agent", "agent_handle", "cycle", "text"].map(|field| all[1][field].clone());
    assert_eq!(shown, [json!(world.agent), json!("muhammad"), json!(cycle), json!("about pin_missing")]);
    let first = world.get("/v1/alerts?limit=1&agent=muhammad").await.json;
    let next = first["next"].as_str().unwrap();
    let second = world.get(&format!("/v1/alerts?limit=1&agent=muhammad&cursor={next}")).await.json;
    assert_eq!((&first["items"][0], &second["items"][0]), (&all[0], &all[1]));
    let one = world.get("/v1/alerts?alert=window_cut").await.json;
    assert_eq!(one["items"], json!([all[2]]));
    assert_eq!(world.get("/v1/alerts?since=2199-01-01T00:00:00Z").await.json["items"], json!([]));
    for (query, code) in
        [("alert=boredom", "bad_query"), ("agent=nobody", "not_found"), ("of=ada", "unknown_field")]
    {
        assert_eq!(world.get(&format!("/v1/alerts?{query}")).await.code(), code, "{query}");
    }
}
