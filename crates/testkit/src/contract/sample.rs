//! Sample stores that contain some of everything, for tests of operations on whole stores. The cycles are
//! written by these functions, but look as if a model had run them.

use agent::call::{CallState, Outcome};
use agent::changes::{CallChange, CommitKind, GoalChange, Idle, MemoryChange, PlanChange};
use agent::entry::{Entry, EntryKind, View};
use agent::event::EventState;
use agent::id::{GoalId, PlanId};
use agent::layer::{Layer, LayerKind};
use agent::life::{Goal, GoalStatus, IdleReason, OpenCycle};
use agent::message::{ModelMessage, Part, Role};
use agent::plan::{Plan, Schedule};
use agent::port::{Credential, NewCredential, Scope};
use agent::run::StepRecord;

use super::Backend;
use super::world::{CycleDriver, World, at, fresh, service, world};

/// Three entities, two spaces, messages, and events in many states. One agent has ended cycles, memories and
/// a view; the other one is in the middle of a cycle with a started call.
pub async fn full(b: Backend) -> Backend {
    let w = world(b).await;
    post_and_finish(&w).await;
    settle_without_decision(&w).await;
    w.post(w.family, "and this waits").await;
    w.event(w.ada, service("waits")).await;
    start_call_of_bob(&w).await;
    let credential = Credential::new(agent::id::CredentialId(fresh()), Scope::Admin, "admin");
    let secret_hash = "ab".repeat(32);
    let new = NewCredential { credential, secret_hash, at: at(0), replace_label: false };
    w.b.registry.add_credential(new, None).await.unwrap();
    w.b
}

/// The same entities and spaces, with a history of Ada that the choices determine: cycles with calls, memories
/// and messages; skips; dead, returned and canceled events. At the end events may wait, or a call has started.
pub async fn random(b: Backend, choices: &[u8]) -> Backend {
    let w = world(b).await;
    for (n, choice) in choices.iter().enumerate() {
        w.event(w.ada, service(&format!("chance-{n}"))).await;
        let value = format!("{choice} “{}”\n", "é🙂\u{1}\\".repeat(usize::from(choice % 5)));
        match choice % 8 {
            0 => {}
            1 => {
                close_with(
                    &w,
                    &EventState::Skipped { reason: (choice % 3 > 0).then_some(value), cycle: None },
                )
                .await
            }
            2 => close_with(&w, &EventState::Dead { reason: value }).await,
            3 => close_with(&w, &EventState::Waiting).await,
            4 => w.b.registry.cancel_event(w.ada, agent::id::EventId(format!("chance-{n}"))).await.unwrap(),
            5 => {
                w.post(w.family, &value).await;
                remember(&w, MemoryChange::Delete { key: "chance".into() }).await;
            }
            _ => remember(&w, MemoryChange::set("chance", value)).await,
        }
    }
    if choices.last().is_some_and(|last| last % 2 == 1) {
        w.event(w.ada, service("the last")).await;
        start_call(&w, w.ada).await;
    }
    w.b
}

/// A cycle with one step that changes a memory and makes two calls, and then ends.
async fn remember(w: &World, change: MemoryChange) {
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision.calls = vec![driver.call(0), driver.call(1)];
    decision.entries[1] = call_entry(&driver, 2, &decision.calls);
    decision.inward.memories = vec![change];
    decision.open = Some(OpenCycle { decided: true, ..driver.open.clone() });
    let rows = decision.calls.clone();
    driver.commit(w, decision).await;
    let mut settle = driver.changes(CommitKind::Settle);
    settle.entries = vec![outcome_entry(&driver, &rows)];
    settle.open = Some(OpenCycle { step: 1, ..driver.open.clone() });
    driver.commit(w, settle).await;
    let mut last = driver.changes(CommitKind::Decide);
    last.entries = vec![driver.entry(1, EntryKind::Assistant, "Noted.")];
    driver.commit(w, last).await;
    let closing = driver.closing();
    driver.commit(w, closing).await;
}

/// A cycle of two steps: one posts and makes calls, one ends it. It writes memories, a goal, a plan and a view.
async fn post_and_finish(w: &World) {
    w.post(w.family, "What is the weather?").await;
    w.event(w.ada, service("deploy-1")).await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision.calls = vec![driver.call(0), driver.outward(1, true)];
    decision.entries[1] = call_entry(&driver, 2, &decision.calls);
    decision.inward.messages = vec![driver.message(0, w.family, "I look.")];
    decision.inward.memories = vec![MemoryChange::set("husam", "asks of weather")];
    decision.inward.goals = vec![GoalChange::Set(goal())];
    decision.inward.plans = vec![PlanChange::Set(plan())];
    decision.inward.active_space = Some(w.family);
    let layer = Layer::new(LayerKind::Whole, 0, driver.head + 1, "the workspace".into());
    decision.layers = vec![layer];
    let mut open = decision.open.clone().unwrap();
    open.step = 0;
    decision.open = Some(open);
    let rows = decision.calls.clone();
    driver.commit(w, decision).await;
    let mut settle = driver.changes(CommitKind::Settle);
    let outcome = Outcome::ok("rain");
    settle.call_changes =
        vec![CallChange { id: rows[1].id.clone(), state: CallState::Done, outcome: Some(outcome) }];
    settle.entries = vec![outcome_entry(&driver, &rows)];
    settle.open = Some(OpenCycle { step: 1, ..driver.open.clone() });
    driver.commit(w, settle).await;
    let mut last = driver.changes(CommitKind::Decide);
    last.entries = vec![driver.entry(1, EntryKind::Assistant, "It rains.")];
    last.inward.memories = vec![MemoryChange::set("husam", "likes rain")];
    driver.commit(w, last).await;
    let closing = driver.closing();
    driver.commit(w, closing).await;
    let mut view = driver.changes(CommitKind::View);
    view.open = None;
    view.view = Some(View { rev: 1, ranges: vec![(1, 1)], tail: 2, ..View::whole() });
    driver.commit(w, view).await;
}

/// One skipped, one dead, one returned and one canceled event.
async fn settle_without_decision(w: &World) {
    let states = [
        EventState::Skipped { reason: Some("not mine".into()), cycle: None },
        EventState::Dead { reason: "it broke the model".into() },
        EventState::Waiting,
    ];
    for (n, state) in states.into_iter().enumerate() {
        w.event(w.ada, service(&format!("other-{n}"))).await;
        close_with(w, &state).await;
    }
    w.event(w.ada, service("taken-back")).await;
    w.b.registry.cancel_event(w.ada, agent::id::EventId("taken-back".into())).await.unwrap();
}

/// A cycle without a decision that gives all its events this state.
async fn close_with(w: &World, state: &EventState) {
    let mut driver = w.open(w.ada).await;
    let mut close = driver.changes(CommitKind::Close);
    close.open = None;
    close.settle = driver.settlements(state);
    let reason = (*state == EventState::Waiting).then_some(IdleReason::Backoff);
    close.idle = Some(Idle { not_before: reason.map(|_| at(900)), reason });
    driver.commit(w, close).await;
}

async fn start_call_of_bob(w: &World) {
    w.post(w.team, "@bob fetch it").await;
    start_call(w, w.bob).await;
}

/// A decision with a call that has started and is not answered.
async fn start_call(w: &World, agent: agent::id::AgentId) {
    let mut driver = w.open(agent).await;
    let mut decision = driver.decision();
    decision.calls = vec![driver.outward(0, true)];
    decision.entries[1] = call_entry(&driver, 2, &decision.calls);
    let record = StepRecord { tools: vec!["fetch".into()], model_ms: 40, ..StepRecord::default() };
    decision.open = Some(OpenCycle { decided: true, steps: vec![record], ..driver.open.clone() });
    let id = decision.calls[0].id.clone();
    driver.commit(w, decision).await;
    let mut start = driver.changes(CommitKind::Start);
    start.call_changes = vec![CallChange { id, state: CallState::Started, outcome: None }];
    driver.commit(w, start).await;
}

fn call_entry(driver: &CycleDriver, ahead: u64, calls: &[agent::call::CallRow]) -> Entry {
    let call = |row: &agent::call::CallRow| Part::ToolCall {
        id: row.id.clone(),
        name: row.tool.clone(),
        arguments: row.arguments.clone(),
    };
    let message =
        ModelMessage { role: Role::Assistant, parts: calls.iter().map(call).collect(), native: None };
    Entry { message, ..driver.entry(ahead, EntryKind::Assistant, "") }
}

fn outcome_entry(driver: &CycleDriver, calls: &[agent::call::CallRow]) -> Entry {
    let result = |row: &agent::call::CallRow| Part::ToolResult {
        id: row.id.clone(),
        name: row.tool.clone(),
        text: "rain".into(),
        error: false,
    };
    let message = ModelMessage { role: Role::Tool, parts: calls.iter().map(result).collect(), native: None };
    Entry { message, ..driver.entry(1, EntryKind::Outcomes, "") }
}

fn goal() -> Goal {
    Goal {
        id: GoalId(fresh()),
        parent: None,
        description: "know the weather".into(),
        priority: 5,
        status: GoalStatus::Active,
        trust: Default::default(),
    }
}

fn plan() -> Plan {
    Plan {
        next_at: Some(at(86_400_000)),
        ..Plan::new(PlanId(fresh()), "look out", "tell the weather", Schedule::At { at: at(86_400_000) })
    }
}
