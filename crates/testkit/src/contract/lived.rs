//! A small house with something of everything in it, as a store that was processed in holds it: for tests
//! of what is done with stores as a whole. It is processed by hand, but could have been processed by a model.

use agent::call::{CallState, Outcome};
use agent::changes::{CallChange, CommitKind, GoalChange, Idle, MemoryChange, PlanChange};
use agent::entry::{Entry, EntryKind, View};
use agent::event::EventState;
use agent::id::{GoalId, PlanId};
use agent::life::{Goal, GoalStatus, IdleReason, Layer, OpenCycle, Plan, Schedule};
use agent::message::{ModelMessage, Part, Role};
use agent::port::{Credential, CredentialKind, NewCredential};
use agent::run::StepRecord;

use super::Backend;
use super::world::{Living, World, at, fresh, service, world};

/// Three entities, two spaces, messages and events in every state; one agent with cycles that ended,
/// notes and a view, one in the middle of a cycle whose call has begun.
pub async fn lived(b: Backend) -> Backend {
    let w = world(b).await;
    speaks_and_rests(&w).await;
    skips_and_dies(&w).await;
    w.say(w.family, "and this waits").await;
    w.event(w.ada, service("waits")).await;
    waits_for_a_call(&w).await;
    let credential = Credential {
        id: agent::id::CredentialId(fresh()),
        kind: CredentialKind::Admin,
        label: "admin".into(),
    };
    let secret_hash = "ab".repeat(32);
    w.b.registry
        .add_credential(NewCredential { credential, secret_hash, at: at(0), replace_label: false })
        .await
        .unwrap();
    w.b
}

/// The same server with a life for Ada that these choices make up: cycles with calls, notes and words, skips,
/// dead events, things given back and taken back; what services sent may wait in the end, or a call be begun.
pub async fn by_chance(b: Backend, choices: &[u8]) -> Backend {
    let w = world(b).await;
    for (n, choice) in choices.iter().enumerate() {
        w.event(w.ada, service(&format!("chance-{n}"))).await;
        let value = format!("{choice} “{}”\n", "é🙂\u{1}\\".repeat(usize::from(choice % 5)));
        match choice % 8 {
            0 => {}
            1 => ends(&w, &EventState::Skipped { reason: (choice % 3 > 0).then_some(value) }).await,
            2 => ends(&w, &EventState::Dead { reason: value }).await,
            3 => ends(&w, &EventState::Waiting).await,
            4 => w.b.registry.cancel_event(w.ada, agent::id::EventId(format!("chance-{n}"))).await.unwrap(),
            5 => {
                w.say(w.family, &value).await;
                remembers(&w, MemoryChange::Delete { key: "chance".into() }).await;
            }
            _ => remembers(&w, MemoryChange::Set { key: "chance".into(), value }).await,
        }
    }
    if choices.last().is_some_and(|last| last % 2 == 1) {
        w.event(w.ada, service("the last")).await;
        begins_a_call(&w, w.ada).await;
    }
    w.b
}

/// A cycle of one step that keeps something, asks two things, and ends.
async fn remembers(w: &World, change: MemoryChange) {
    let mut living = w.open(w.ada).await;
    let mut decision = living.decision();
    decision.calls = vec![living.call(0), living.call(1)];
    decision.entries[1] = asks(&living, 2, &decision.calls);
    decision.inward.memories = vec![change];
    decision.open = Some(OpenCycle { decided: true, ..living.open.clone() });
    let rows = decision.calls.clone();
    living.done(w, decision).await;
    let mut settle = living.changes(CommitKind::Settle);
    settle.entries = vec![answers(&living, &rows)];
    settle.open = Some(OpenCycle { step: 1, ..living.open.clone() });
    living.done(w, settle).await;
    let mut last = living.changes(CommitKind::Decide);
    last.entries = vec![living.entry(1, EntryKind::Assistant, "Noted.")];
    living.done(w, last).await;
    let closing = living.closing();
    living.done(w, closing).await;
}

/// Two steps: one that speaks and asks, one that ends; and what it keeps from it.
async fn speaks_and_rests(w: &World) {
    w.say(w.family, "What is the weather?").await;
    w.event(w.ada, service("deploy-1")).await;
    let mut living = w.open(w.ada).await;
    let mut decision = living.decision();
    decision.calls = vec![living.call(0), living.outward(1, true)];
    decision.entries[1] = asks(&living, 2, &decision.calls);
    decision.inward.messages = vec![living.says(0, w.family, "I look.")];
    decision.inward.memories =
        vec![MemoryChange::Set { key: "husam".into(), value: "asks of weather".into() }];
    decision.inward.goals = vec![GoalChange::Set(goal())];
    decision.inward.plans = vec![PlanChange::Set(plan())];
    decision.inward.active_space = Some(w.family);
    let layer = Layer { after: living.head + 1, text: "the workspace".into() };
    decision.layers = vec![layer];
    let mut open = decision.open.clone().unwrap();
    open.step = 0;
    decision.open = Some(open);
    let rows = decision.calls.clone();
    living.done(w, decision).await;
    let mut settle = living.changes(CommitKind::Settle);
    let outcome = Outcome::ok("rain");
    settle.call_changes =
        vec![CallChange { id: rows[1].id.clone(), state: CallState::Done, outcome: Some(outcome) }];
    settle.entries = vec![answers(&living, &rows)];
    settle.open = Some(OpenCycle { step: 1, ..living.open.clone() });
    living.done(w, settle).await;
    let mut last = living.changes(CommitKind::Decide);
    last.entries = vec![living.entry(1, EntryKind::Assistant, "It rains.")];
    last.inward.memories = vec![MemoryChange::Set { key: "husam".into(), value: "likes rain".into() }];
    living.done(w, last).await;
    let closing = living.closing();
    living.done(w, closing).await;
    let mut view = living.changes(CommitKind::View);
    view.open = None;
    view.view = Some(View { rev: 1, ranges: vec![(1, 1)], tail: 2, ..View::whole() });
    living.done(w, view).await;
}

/// One event skipped, one dead, one given back, one taken back.
async fn skips_and_dies(w: &World) {
    let fates = [
        EventState::Skipped { reason: Some("not mine".into()) },
        EventState::Dead { reason: "it broke the model".into() },
        EventState::Waiting,
    ];
    for (n, state) in fates.into_iter().enumerate() {
        w.event(w.ada, service(&format!("other-{n}"))).await;
        ends(w, &state).await;
    }
    w.event(w.ada, service("taken-back")).await;
    w.b.registry.cancel_event(w.ada, agent::id::EventId("taken-back".into())).await.unwrap();
}

/// A cycle without a decision, which ends so for all that was taken.
async fn ends(w: &World, state: &EventState) {
    let mut living = w.open(w.ada).await;
    let mut close = living.changes(CommitKind::Close);
    close.open = None;
    close.settle = living.settled(state);
    let reason = (*state == EventState::Waiting).then_some(IdleReason::Backoff);
    close.idle = Some(Idle { not_before: reason.map(|_| at(900)), reason });
    living.done(w, close).await;
}

async fn waits_for_a_call(w: &World) {
    w.say(w.team, "@bob fetch it").await;
    begins_a_call(w, w.bob).await;
}

/// A decision whose call has begun and is not answered.
async fn begins_a_call(w: &World, agent: agent::id::AgentId) {
    let mut living = w.open(agent).await;
    let mut decision = living.decision();
    decision.calls = vec![living.outward(0, true)];
    decision.entries[1] = asks(&living, 2, &decision.calls);
    let record = StepRecord { tools: vec!["fetch".into()], model_ms: 40, ..StepRecord::default() };
    decision.open = Some(OpenCycle { decided: true, steps: vec![record], ..living.open.clone() });
    let id = decision.calls[0].id.clone();
    living.done(w, decision).await;
    let mut start = living.changes(CommitKind::Start);
    start.call_changes = vec![CallChange { id, state: CallState::Started, outcome: None }];
    living.done(w, start).await;
}

fn asks(living: &Living, ahead: u64, calls: &[agent::call::CallRow]) -> Entry {
    let call = |row: &agent::call::CallRow| Part::ToolCall {
        id: row.id.clone(),
        name: row.tool.clone(),
        arguments: row.arguments.clone(),
    };
    let message =
        ModelMessage { role: Role::Assistant, parts: calls.iter().map(call).collect(), native: None };
    Entry { message, ..living.entry(ahead, EntryKind::Assistant, "") }
}

fn answers(living: &Living, calls: &[agent::call::CallRow]) -> Entry {
    let result = |row: &agent::call::CallRow| Part::ToolResult {
        id: row.id.clone(),
        name: row.tool.clone(),
        text: "rain".into(),
        error: false,
    };
    let message = ModelMessage { role: Role::Tool, parts: calls.iter().map(result).collect(), native: None };
    Entry { message, ..living.entry(1, EntryKind::Outcomes, "") }
}

fn goal() -> Goal {
    Goal {
        id: GoalId(fresh()),
        parent: None,
        description: "know the weather".into(),
        priority: 5,
        status: GoalStatus::Active,
    }
}

fn plan() -> Plan {
    Plan {
        id: PlanId(fresh()),
        name: "look out".into(),
        instruction: "tell the weather".into(),
        schedule: Schedule::At { at: at(86_400_000) },
        next_at: Some(at(86_400_000)),
    }
}
