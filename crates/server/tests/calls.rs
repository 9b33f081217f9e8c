//! Tool calls of an agent: list the open ones, cancel one.

use agent::call::{CallRow, CallState, Effect, Runner};
use agent::changes::{Changes, CommitKind};
use agent::entry::EntryKind;
use agent::id::{CallId, CycleId, MessageId};
use agent::life::{Lease, OpenCycle};
use agent::port::Delivered;
use agent::update::{Topic, Update};
use axum::http::Method;
use runtime::node::Signal;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{ADMIN, World, open_cycle};

const CALLS: &str = "/v1/agents/muhammad/calls";

/// Opens a cycle with a call of a visible tool; returns the call's id.
pub(crate) async fn open_call(world: &World, tool: &str, runner: Runner) -> CallId {
    open_row(world, tool, runner, |row| row).await
}

/// The same with another row.
pub(crate) async fn open_row(
    world: &World,
    tool: &str,
    runner: Runner,
    change: impl FnOnce(CallRow) -> CallRow,
) -> CallId {
    let cycle = CycleId(Uuid::from_u128(5));
    let sent = json!({"service": "jira", "payload": {"issue": 7}});
    world.post("/v1/agents/muhammad/events", sent).await;
    open_cycle(world, cycle, &[1]).await;
    let now = world.ports.clock.now();
    let activation = world.ports.store.wake(world.agent, now, None).await.unwrap().unwrap();
    let open = OpenCycle { decided: true, ..activation.life.open.unwrap() };
    let mut decide = Changes::new(CommitKind::Decide, cycle, 0, 1, now);
    let id = CallId::derive(world.agent, cycle, 0, 0);
    let row = CallRow {
        id: id.clone(),
        cycle,
        step: 0,
        index: 0,
        tool: tool.into(),
        arguments: r#"{"target":"all"}"#.into(),
        effect: Effect::Unsafe,
        tool_version: "1".into(),
        runner,
        claim: None,
        approval: None,
        by_rule: None,
        awaited: true,
        state: CallState::Planned,
        outcome: None,
        trust: agent::event::Trust::Member,
    };
    let row = change(row);
    decide.entries = vec![agent::entry::Entry {
        seq: 1,
        cycle,
        step: 0,
        kind: EntryKind::Assistant,
        message: agent::message::ModelMessage::user("thought"),
        tokens: 1,
        at: now,
        trust: agent::event::Trust::Member,
    }];
    decide.shows = vec![agent::space::NewMessage {
        id: MessageId::of_card(&id),
        space: world.home,
        sender: world.agent.entity(),
        text: agent::space::tool_text(&row),
        mentions: Vec::new(),
        urgent: false,
        at: now,
        cycle: Some(cycle),
        call: Some(id.clone()),
        data: Some(agent::space::tool_data(&row)),
        principal: agent::event::Principal::Own,
        trust: agent::event::Trust::Agent,
        root: open.root.clone(),
        hop: open.hop,
    }];
    decide.calls = vec![row];
    decide.open = Some(open);
    let lease = Lease { agent: world.agent, epoch: 1 };
    let done = world.ports.store.commit(lease, decide).await.unwrap();
    assert!(matches!(done.0, agent::changes::CommitOutcome::Committed { .. }), "{done:?}");
    id
}

#[tokio::test]
async fn an_open_call_is_listed_and_canceled_and_streams_get_its_changed_message() {
    let world = World::new().await;
    assert_eq!(world.get(CALLS).await.json, json!({"items": [], "next": null}));
    let id = open_call(&world, "build", Runner::Node).await;
    let open = world.get(CALLS).await.json["items"].clone();
    assert_eq!((&open[0]["id"], &open[0]["state"]), (&json!(id), &json!("planned")));
    let mut listener = world.ports.live.bus().subscribe(Topic::Space(world.home));
    world.signals();
    let path = format!("{CALLS}/{id}/cancel");
    let canceled = world.ask(Method::POST, &path, ADMIN, None).await;
    assert_eq!((canceled.status, &canceled.json["status"]), (200, &json!("canceled")));
    assert!(canceled.json["outcome"].as_str().unwrap().contains("before it began"), "{canceled:?}");
    assert!(world.signals().contains(&Signal::Recheck(world.agent)), "the agent is signaled at once");
    let Some(Delivered::Update(update)) = listener.next().await else { panic!("wanted an update") };
    let Update::Message { message } = &**update else { panic!("wanted a message, got {update:?}") };
    let data: &Value = message.data.as_ref().unwrap();
    assert_eq!((&data["state"], &data["status"]), (&json!("error"), &json!("canceled")));
    assert_eq!(world.get(CALLS).await.json["items"], json!([]));
    let again = world.ask(Method::POST, &path, ADMIN, None).await;
    assert_eq!((again.status, again.code()), (409, "call_over"));
    let nothing = world.ask(Method::POST, &format!("{CALLS}/c0/cancel"), ADMIN, None).await;
    assert_eq!((nothing.status, nothing.code()), (404, "not_found"));
}
