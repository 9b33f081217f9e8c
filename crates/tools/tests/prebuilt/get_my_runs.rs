//! `get_my_runs`: the agent's own runs, newest first.

use agent::event::Trust;
use agent::id::{AgentId, CycleId};
use agent::limits;
use agent::run::{Ending, Run, StepRecord, Usage};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{SCOUT, World, now};

fn run(agent: AgentId, ordinal: u64) -> Run {
    let usage = Usage { input: Some(100), output: Some(7), ..Usage::default() };
    let step = StepRecord {
        step: 0,
        tools: vec!["done".into()],
        usage,
        model_ms: 5,
        attempts: 1,
        ..StepRecord::default()
    };
    Run {
        id: CycleId(Uuid::from_u128(u128::from(ordinal))),
        agent,
        ordinal,
        woke_for: "1 event: space_message from Husam".into(),
        events: 1,
        opened_at: now(),
        ended_at: now(),
        steps: vec![step],
        usage,
        cost_micros: None,
        model: "demo/one".into(),
        config_rev: 1,
        ending: Ending::Completed,
        reason: None,
        summary: Some("Answered Husam.".into()),
    }
}

#[tokio::test]
async fn a_run_shows_its_times_reason_ending_and_tokens() {
    let mut world = World::new();
    world.store.runs = vec![run(SCOUT, 4)];
    let done = world.ask("get_my_runs", json!({})).await.unwrap();
    assert!(done.inward.is_empty());
    let wanted = json!({"runs": [{
        "id": "00000000-0000-0000-0000-000000000004",
        "run": 4,
        "woke_at": "2026-11-21T14:03:05Z",
        "ended_at": "2026-11-21T14:03:05Z",
        "woke_for": "1 event: space_message from Husam",
        "events": 1,
        "ending": "completed",
        "reason": null,
        "steps": 1,
        "tokens": {"input": 100, "output": 7},
        "summary": "Answered Husam.",
    }]});
    assert_eq!(serde_json::from_str::<Value>(&done.outcome.text).unwrap(), wanted);
    assert_eq!(done.outcome.trust, Some(Trust::Outside), "nobody knows what its model had read");
}

#[tokio::test]
async fn runs_are_listed_newest_first_without_those_of_other_agents() {
    let mut world = World::new();
    let other = AgentId(Uuid::from_u128(0xA2));
    world.store.runs = vec![run(SCOUT, 1), run(other, 9), run(SCOUT, 2), run(SCOUT, 3)];
    let reply = world.reply("get_my_runs", json!({"limit": 2})).await;
    let ordinals: Vec<_> = reply["runs"].as_array().unwrap().iter().map(|run| &run["run"]).collect();
    assert_eq!(ordinals, [3, 2]);
    let error = world.refusal("get_my_runs", json!({"limit": 51})).await;
    assert!(error.contains("wanted at most 50, got `51`"), "{error}");
}

#[tokio::test]
async fn long_texts_of_runs_are_cut_and_omitted_runs_are_counted() {
    let mut world = World::new();
    world.store.runs = (1..=u64::from(limits::RUNS_SHOWN_MAX))
        .map(|ordinal| Run { summary: Some("s".repeat(50_000)), ..run(SCOUT, ordinal) })
        .collect();
    let done = world.ask("get_my_runs", json!({"limit": 50})).await.unwrap();
    assert_eq!(done.outcome.shown(), done.outcome.text);
    let reply: Value = serde_json::from_str(&done.outcome.text).unwrap();
    let shown = reply["runs"].as_array().unwrap().len();
    assert!(shown > 5 && reply["left_out"] == json!(50 - shown), "got {shown} and {}", reply["left_out"]);
}
