//! Tests of the machine without a runtime: each test acts as the driver and checks the commits.

mod added_events;
mod approvals;
mod awareness;
mod blame;
mod canceling;
mod detached;
mod endings;
mod guard;
mod lives;
mod refusals;
mod reply_checks;
mod summaries;
mod text_reply;
mod trust;
mod workspace;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::call::{CallRow, CallState, Effect, Outcome, OutcomeStatus};
use crate::changes::{Glance, Inward, Refusal, Tried};
use crate::config::AgentConfig;
use crate::entity::{Entity, EntityKind};
use crate::entry::{Entry, EntryKind, View};
use crate::event::{Channel, Envelope, Event, EventData, EventKind, EventState, Principal, Trust, Waiting};
use crate::id::{AgentId, CallId, EntityId, EventId};
use crate::life::{Activation, Life, Standing, Window};
use crate::port::{ModelInfo, Reply, ReplyPart, StopReason};
use crate::run::{Ending, SentRequest, Usage};
use crate::tool::{ToolLabel, ToolLabels, ToolSpec};

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_795_000_000_000 + ms).unwrap()
}

pub(super) fn service(seq: u64, attempts: u32) -> Waiting {
    Waiting {
        seq,
        attempts,
        deaths: 0,
        event: Event {
            id: EventId(format!("e{seq}")),
            kind: EventKind::Service,
            urgent: false,
            at: at(0),
            envelope: Envelope {
                principal: Principal::Credential("c".into()),
                channel: Channel::Api,
                trust: Trust::Operator,
                root: RootId(format!("e{seq}")),
                hop: 0,
            },
            data: EventData::Service { name: "jira".into(), payload: json!({"n": seq}) },
            cites: None,
        },
        message: None,
    }
}

/// A cycle that was opened over these events and has processed nothing.
pub(super) fn left_open(taken: &[u64]) -> OpenCycle {
    OpenCycle { taken: taken.to_vec(), ..OpenCycle::new(CycleId(Uuid::from_u128(40)), 1, at(0)) }
}

fn tool(name: &str, effect: Effect) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: String::new(),
        schema: Arc::new(json!({"type": "object"})),
        effect,
        visible: false,
        timeout: Duration::from_secs(1),
        asynchronous: false,
        version: "1".into(),
        labels: ToolLabels::default(),
        worker: None,
        foreign: false,
        counted: OnceLock::new(),
    }
}

fn activation(waiting: Vec<Waiting>) -> Activation {
    let id = Uuid::from_u128(1);
    Activation {
        life: Life {
            agent: AgentId(id),
            epoch: 3,
            commit_n: 7,
            head_seq: 0,
            cycles: 0,
            standing: Standing::Active,
            active_space: None,
            failures: 0,
            notice: None,
            open: None,
            not_before: None,
        },
        entity: Entity {
            id: EntityId(id),
            kind: EntityKind::Agent,
            name: "ada".into(),
            display_name: "Ada".into(),
            external_id: None,
            created_at: at(0),
        },
        config_rev: 1,
        config: Arc::new(AgentConfig::default()),
        view: View::whole(),
        window: Window::Loaded(Vec::new()),
        calls: Vec::new(),
        rules: Vec::new(),
        waiting,
        recent: Vec::new(),
        died: false,
        panicked: None,
        facts: Facts::default(),
        layers: Vec::new(),
        clean: true,
        cancel: None,
    }
}

fn labelled(name: &str, label: ToolLabel) -> ToolSpec {
    ToolSpec { labels: [label].into_iter().collect(), ..tool(name, Effect::ReadOnly) }
}

fn begin_with(activation: Activation) -> Cycle {
    begin_at(activation, at(1_000))
}

fn begin_at(activation: Activation, now: Timestamp) -> Cycle {
    let tools = vec![
        tool(names::SKIP, Effect::Inward),
        tool(names::DONE, Effect::Inward),
        tool(names::SEND_MESSAGE, Effect::Inward),
        tool("note", Effect::Inward),
        tool("peek", Effect::Inward),
        tool("look", Effect::ReadOnly),
        tool("fire", Effect::Unsafe),
        ToolSpec { asynchronous: true, ..tool("order", Effect::ReadOnly) },
        ToolSpec { asynchronous: true, ..tool("ship", Effect::Unsafe) },
        labelled("crm", ToolLabel::Private),
        labelled("mail", ToolLabel::Exfiltrates),
        labelled(names::FETCH_PAGE, ToolLabel::Exfiltrates),
        tool(names::ENTER_SPACE, Effect::Inward),
    ];
    let model = ModelInfo {
        name: "scripted".into(),
        provider: "scripted".into(),
        context_window: 100_000,
        max_output: 1_000,
        ..ModelInfo::default()
    };
    let window = match &activation.window {
        Window::Loaded(window) => window.clone(),
        Window::Unchanged => Vec::new(),
    };
    let (others, new_cycle) = (Vec::new(), CycleId(Uuid::from_u128(50)));
    Cycle::begin(
        activation,
        window,
        Setup { tools: tools.into(), model, others, new_cycle, unstored: Vec::new() },
        now,
    )
}

fn begin(waiting: Vec<Waiting>) -> Cycle {
    begin_with(activation(waiting))
}

fn reply(parts: Vec<ReplyPart>) -> ModelReply {
    let verdicts = parts.iter().filter(|p| matches!(p, ReplyPart::Call { .. })).map(|_| Ok(())).collect();
    let reply = Reply { parts, native: None, usage: Usage::default(), stop: StopReason::End };
    ModelReply {
        reply,
        verdicts,
        asked_at: at(1_995),
        model_ms: 5,
        first_ms: Some(2),
        attempts: 1,
        sent: SentRequest::default(),
    }
}

fn call(name: &str) -> ReplyPart {
    ReplyPart::Call { name: name.into(), arguments: "{}".into() }
}

fn text(text: &str) -> ReplyPart {
    ReplyPart::Text(text.into())
}

/// The news if these events wait.
fn news(waiting: Vec<Waiting>) -> News {
    let urgent: Vec<Waiting> = waiting.iter().filter(|w| w.event.urgent).cloned().collect();
    let glance = Glance {
        waiting: u32::try_from(waiting.len()).unwrap(),
        newest: waiting.iter().map(|waiting| waiting.seq).max().unwrap_or(0),
        urgent: !urgent.is_empty(),
        ..Glance::default()
    };
    News { glance, oldest: waiting, urgent, ..News::default() }
}

/// A successful commit.
fn done(glance: Glance) -> CommitOutcome {
    CommitOutcome::Committed { n: 0, glance }
}

/// Requests the cancel of the cycle.
fn cancel(cycle: &mut Cycle) {
    let glance = Glance { cancel: true, ..Glance::default() };
    cycle.looked(Some(News { glance, ..News::default() }));
}

fn succeeds(_: &CallRow) -> Result<Done, ToolError> {
    Ok(Done { outcome: Outcome::ok("done"), inward: Inward::default() })
}

/// Drives the machine until it calls the model, finishes or waits. Commits succeed; each reports what of `waits` is left.
fn drive_as(
    cycle: &mut Cycle,
    waits: &[Waiting],
    inward: impl Fn(&CallRow) -> Result<Done, ToolError>,
) -> (Vec<Changes>, Next) {
    let mut commits: Vec<Changes> = Vec::new();
    loop {
        let settled: Vec<u64> = commits.iter().flat_map(|c| &c.settle).map(|s| s.seq).collect();
        let left = || news(waits.iter().filter(|w| !settled.contains(&w.seq)).cloned().collect());
        match cycle.next(at(2_000)) {
            Next::Open(changes) => {
                commits.push(*changes);
                let prompt = cycle.prompt_while_opening(at(2_000)).expect("a prompt to send while opening");
                cycle.committed(done(left().glance), at(2_000));
                return (commits, Next::Think(prompt));
            }
            Next::Commit(changes) => {
                let gone: Vec<u64> = changes.settle.iter().map(|s| s.seq).collect();
                let left = news(left().oldest.into_iter().filter(|w| !gone.contains(&w.seq)).collect());
                commits.push(*changes);
                cycle.committed(done(left.glance), at(2_000));
            }
            Next::Look => cycle.looked(Some(left())),
            Next::Encode(_) => cycle.encoded(at(2_000)),
            Next::Inward(rows) => cycle.acted(rows.iter().map(&inward).collect()),
            other => return (commits, other),
        }
    }
}

fn drive(cycle: &mut Cycle) -> (Vec<Changes>, Next) {
    drive_as(cycle, &[], succeeds)
}

fn reply_with(cycle: &mut Cycle, parts: Vec<ReplyPart>) -> (Vec<Changes>, Next) {
    cycle.replied(Ok(reply(parts)), at(2_000));
    drive(cycle)
}

fn kinds(commits: &[Changes]) -> Vec<CommitKind> {
    commits.iter().map(|changes| changes.kind).collect()
}

fn ended(next: &Next) -> (Ending, Option<&str>) {
    match next {
        Next::Finished(ActivationEnd::Ended { ending, reason, .. }) => (*ending, reason.as_deref()),
        other => panic!("wanted an ending, got {other:?}"),
    }
}

#[test]
fn a_text_without_calls_is_processed_and_closed_in_one_commit() {
    let mut cycle = begin(vec![service(1, 0), service(2, 0)]);
    let (open, _) = drive(&mut cycle);
    assert_eq!(kinds(&open), [CommitKind::Open]);
    assert!(open[0].entries.is_empty() && open[0].settle.is_empty(), "opening appends and settles nothing");
    assert_eq!(cycle.lease().epoch, 4);
    let (commits, next) = reply_with(&mut cycle, vec![text("nothing to do")]);
    assert_eq!(kinds(&commits), [CommitKind::Decide]);
    assert_eq!(ended(&next), (Ending::Completed, None));
    let decide = &commits[0];
    assert_eq!(
        decide.entries.iter().map(|e| (e.seq, e.kind)).collect::<Vec<_>>(),
        [(1, EntryKind::Inbox), (2, EntryKind::Assistant)]
    );
    assert!(decide.settle.iter().all(|s| matches!(s.state, EventState::Processed { step: 0, .. })));
    assert_eq!(decide.settle.len(), 2);
    assert!(decide.open.is_none() && decide.run.as_ref().is_some_and(|run| run.events == 2));
}

#[test]
fn skip_as_the_only_call_of_step_0_appends_nothing_to_the_log() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let skip = ReplyPart::Call { name: names::SKIP.into(), arguments: r#"{"reason":"not mine"}"#.into() };
    let (commits, next) = reply_with(&mut cycle, vec![text("hm"), skip]);
    assert_eq!(ended(&next), (Ending::Skipped, Some("not mine")));
    assert_eq!(kinds(&commits), [CommitKind::Close]);
    let close = &commits[0];
    assert!(close.entries.is_empty() && close.run.is_none() && close.calls.is_empty());
    assert!(
        matches!(&close.settle[0].state, EventState::Skipped { reason: Some(r), cycle: Some(_) } if r == "not mine")
    );
}

#[test]
fn skip_beside_another_call_means_done() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, next) = reply_with(&mut cycle, vec![call("note"), call(names::SKIP)]);
    assert_eq!(ended(&next), (Ending::Completed, None));
    assert_eq!(commits[0].calls.len(), 2);
}

#[test]
fn inward_calls_are_decided_and_settled_in_one_commit() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, next) = reply_with(&mut cycle, vec![call("note"), call("note")]);
    assert_eq!(kinds(&commits), [CommitKind::Decide]);
    assert!(commits[0].calls.iter().all(|row| row.state == CallState::Done));
    assert_eq!(commits[0].entries[2].kind, EntryKind::Outcomes);
    let Next::Think(prompt) = next else { panic!("wanted the next step, got {next:?}") };
    assert_eq!(prompt.items.len(), 4, "inbox, workspace, assistant, outcomes");
}

#[test]
fn a_refused_call_becomes_an_error_that_the_model_reads() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call("note"), call("note")])), at(2_000));
    let Next::Inward(rows) = cycle.next(at(2_000)) else { panic!() };
    cycle.acted(rows.iter().map(succeeds).collect());
    let Next::Commit(_) = cycle.next(at(2_000)) else { panic!() };
    let refusal = Refusal { call: rows[1].id.clone(), reason: "you are not a member any more".into() };
    cycle.committed(CommitOutcome::Refused(vec![refusal]), at(2_000));
    let (commits, _) = drive(&mut cycle);
    assert_eq!(kinds(&commits), [CommitKind::Decide]);
    let outcome = commits[0].calls[1].outcome.as_ref().unwrap();
    assert_eq!(
        (outcome.status, outcome.text.as_str()),
        (OutcomeStatus::Error, "you are not a member any more")
    );
    assert_eq!(commits[0].calls[0].outcome.as_ref().unwrap().status, OutcomeStatus::Ok);
}

#[test]
fn outward_calls_start_after_the_decision_and_unsafe_ones_are_committed_as_started() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, next) = reply_with(&mut cycle, vec![call("fire"), call("look")]);
    assert_eq!(kinds(&commits), [CommitKind::Decide, CommitKind::Start]);
    assert_eq!(commits[1].call_changes.len(), 1);
    let Next::Outward(rows) = next else { panic!("wanted the calls, got {next:?}") };
    cycle.timed(rows[1].id.clone(), Span { at: at(2_500), ms: 40 });
    cycle.settled(rows[1].id.clone(), Outcome::ok("seen"));
    let (commits, next) = drive(&mut cycle);
    assert_eq!(kinds(&commits), [CommitKind::Settle]);
    let record = commits[0].open.as_ref().unwrap().steps[0].clone();
    assert_eq!((record.started_ms, record.first_ms), (Some(995), Some(2)));
    assert_eq!((record.calls[0].started_ms, record.calls[0].status), (None, None));
    let look = &record.calls[1];
    assert_eq!(
        (look.started_ms, look.took_ms, look.status),
        (Some(1_500), Some(40), Some(OutcomeStatus::Ok))
    );
    assert!(commits[0].entries.is_empty() && matches!(next, Next::Await));
    cycle.settled(rows[0].id.clone(), Outcome::ok("fired"));
    let (commits, next) = drive(&mut cycle);
    assert_eq!(commits[0].entries.len(), 1);
    let results: Vec<_> = commits[0].entries[0].message.parts.iter().collect();
    assert!(matches!(results[0], crate::message::Part::ToolResult { name, .. } if name == "fire"));
    assert!(matches!(next, Next::Think(_)));
}

/// The activation after a crash that followed these commits.
fn after_crash(commits: &[Changes], n: u64) -> Activation {
    let mut again = activation(vec![]);
    let mut window = Vec::new();
    for changes in commits {
        window.extend(changes.entries.iter().cloned().map(Arc::new));
        again.calls.extend(changes.calls.iter().cloned());
        for change in &changes.call_changes {
            let row = again.calls.iter_mut().find(|row| row.id == change.id).unwrap();
            row.state = change.state;
            row.outcome.clone_from(&change.outcome);
        }
        again.layers.extend(changes.layers.iter().cloned());
        again.life.open.clone_from(&changes.open);
    }
    again.life.epoch = 4;
    again.life.commit_n = n;
    again.life.head_seq = window.len() as u64;
    again.window = Window::Loaded(window);
    again.clean = false;
    again
}

#[test]
fn after_a_crash_a_started_unsafe_call_is_unknown_and_a_read_only_one_runs_again() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, _) = reply_with(&mut cycle, vec![call("fire"), call("look")]);
    let mut again = begin_with(after_crash(&commits, 9));
    let (opened, next) = drive(&mut again);
    assert_eq!(kinds(&opened), [CommitKind::Open, CommitKind::Settle]);
    assert_eq!(opened[1].call_changes[0].outcome.as_ref().unwrap().status, OutcomeStatus::Unknown);
    let Next::Outward(rows) = next else { panic!("wanted the read-only call, got {next:?}") };
    assert_eq!(rows.iter().map(|row| row.tool.as_str()).collect::<Vec<_>>(), ["look"]);
}

#[test]
fn unsafe_calls_start_one_by_one_so_a_crash_leaves_at_most_one_unknown() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (mut all, next) = reply_with(&mut cycle, vec![call("fire"), call("fire")]);
    assert_eq!(kinds(&all), [CommitKind::Decide, CommitKind::Start]);
    let Next::Outward(first) = next else { panic!("wanted the first call, got {next:?}") };
    assert_eq!(first.iter().map(|row| row.index).collect::<Vec<_>>(), [0]);
    cycle.settled(first[0].id.clone(), Outcome::ok("fired"));
    let (commits, next) = drive(&mut cycle);
    assert_eq!(kinds(&commits), [CommitKind::Settle, CommitKind::Start]);
    assert!(matches!(next, Next::Outward(rows) if rows[0].index == 1));
    all.extend(commits);
    let mut again = begin_with(after_crash(&all, 11));
    let (opened, next) = drive(&mut again);
    assert_eq!(kinds(&opened), [CommitKind::Open, CommitKind::Settle]);
    let results: Vec<_> = opened[1].entries[0].message.parts.iter().collect();
    assert!(
        matches!(results[0], crate::message::Part::ToolResult { error: false, .. }),
        "its outcome is known"
    );
    assert!(
        matches!(results[1], crate::message::Part::ToolResult { error: true, .. }),
        "its outcome is unknown"
    );
    assert!(matches!(next, Next::Think(_)));
}

#[test]
fn after_a_crash_before_its_start_an_unsafe_call_still_runs() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, _) = reply_with(&mut cycle, vec![call("fire")]);
    let mut again = begin_with(after_crash(&commits[..1], 9));
    let (opened, next) = drive(&mut again);
    assert_eq!(kinds(&opened), [CommitKind::Open, CommitKind::Start]);
    assert!(matches!(next, Next::Outward(rows) if rows.len() == 1));
}

#[test]
fn a_cycle_posts_the_same_text_only_once_in_a_space() {
    let space = SpaceId(Uuid::from_u128(9));
    let posts = |row: &CallRow| {
        let message = crate::space::NewMessage {
            id: crate::id::MessageId::of_call(&row.id),
            space,
            sender: EntityId(Uuid::from_u128(1)),
            text: if row.tool == "note" { "hello" } else { "other" }.into(),
            mentions: Vec::new(),
            urgent: false,
            at: at(0),
            cycle: None,
            call: Some(row.id.clone()),
            data: None,
            principal: Principal::Own,
            trust: Trust::Agent,
            root: RootId("r".into()),
            hop: 1,
        };
        let inward = Inward { messages: vec![message], ..Inward::default() };
        Ok(Done { outcome: Outcome::ok("posted"), inward })
    };
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let mut results = Vec::new();
    for parts in [vec![call("note"), call("peek"), call("note")], vec![call("note"), call("peek")]] {
        cycle.replied(Ok(reply(parts)), at(2_000));
        let (commits, _) = drive_as(&mut cycle, &[], posts);
        let outcomes = commits[0].calls.iter().map(|row| row.outcome.as_ref().unwrap().failed());
        results.push((outcomes.collect::<Vec<_>>(), commits[0].inward.messages.len()));
    }
    assert_eq!(results, [(vec![false, false, true], 2), (vec![true, true], 0)]);
}

#[test]
fn the_last_allowed_step_is_executed_and_the_agent_gets_a_notice() {
    let mut config = AgentConfig::default();
    config.limits.max_steps = 2;
    let mut activation = activation(vec![service(1, 0)]);
    activation.config = Arc::new(config);
    let mut cycle = begin_with(activation);
    drive(&mut cycle);
    reply_with(&mut cycle, vec![call("note")]);
    let (commits, next) = reply_with(&mut cycle, vec![call("note")]);
    assert_eq!(ended(&next), (Ending::Exhausted, Some("the limit of 2 steps was reached")));
    assert_eq!(commits[0].entries.last().unwrap().kind, EntryKind::Outcomes);
    assert!(commits[0].notice.as_ref().unwrap().as_ref().unwrap().contains("cut off"));
}

#[test]
fn three_steps_with_only_failed_calls_exhaust_the_cycle() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    reply_with(&mut cycle, vec![call("nope")]);
    reply_with(&mut cycle, vec![call("nope")]);
    let (commits, next) = reply_with(&mut cycle, vec![call("noot")]);
    assert_eq!(ended(&next).0, Ending::Exhausted);
    let outcome = commits[0].calls[0].outcome.as_ref().unwrap();
    assert_eq!(outcome.text, "there is no tool `noot`; did you mean `note`?");
}

#[test]
fn a_call_cut_short_is_not_executed_and_the_reply_is_continued_once() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    for last in [false, true] {
        let mut model_reply = reply(vec![call("fire")]);
        model_reply.reply.stop = StopReason::Length;
        cycle.replied(Ok(model_reply), at(2_000));
        let (commits, next) = drive(&mut cycle);
        assert_eq!(commits[0].calls[0].outcome.as_ref().unwrap().status, OutcomeStatus::Error);
        match next {
            Next::Think(_) if !last => {}
            Next::Finished(ActivationEnd::Ended { ending: Ending::Exhausted, .. }) if last => {}
            other => panic!("unexpected {other:?}"),
        }
    }
}

#[test]
fn a_required_call_is_requested_at_most_twice() {
    let mut config = AgentConfig::default();
    config.stop.require_tool = true;
    let mut activation = activation(vec![service(1, 0)]);
    activation.config = Arc::new(config);
    let mut cycle = begin_with(activation);
    drive(&mut cycle);
    for _ in 0..2 {
        let (commits, next) = reply_with(&mut cycle, vec![text("hello")]);
        assert_eq!(commits[0].entries.last().unwrap().kind, EntryKind::Notice);
        assert!(matches!(next, Next::Think(_)));
    }
    let (_, next) = reply_with(&mut cycle, vec![text("hello")]);
    assert_eq!(ended(&next).0, Ending::Completed);
}

#[test]
fn within_a_cycle_every_prompt_extends_the_one_before() {
    let mut cycle = begin(vec![service(1, 0)]);
    let mut before: Vec<String> = Vec::new();
    let (_, mut next) = drive(&mut cycle);
    for _ in 0..3 {
        let Next::Think(prompt) = &next else { panic!("wanted a prompt, got {next:?}") };
        let now: Vec<String> = prompt
            .items
            .iter()
            .map(|item| match item {
                Item::Entry(entry) => entry.message.countable(),
                Item::Layer(text) => text.to_string(),
            })
            .collect();
        assert_eq!(now[..before.len()], before);
        before = now;
        next = reply_with(&mut cycle, vec![text("t"), call("note")]).1;
    }
}

#[test]
fn a_context_preview_is_what_would_be_sent_and_changes_nothing() {
    let asleep = begin(vec![]).context(at(2_000));
    assert_eq!((asleep.inbox.is_none(), asleep.events, asleep.layers.len()), (true, 0, 1));
    let activation = begin(vec![service(1, 0), service(2, 0)]);
    let awake = activation.context(at(2_000));
    assert_eq!((awake.events, awake.prompt.items.len()), (2, 2), "inbox, workspace");
    assert!(awake.cut_to < awake.cut_above && awake.cut_above < 100_000);
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, _) = reply_with(&mut cycle, vec![call("look")]);
    let open = begin_with(after_crash(&commits, 9)).context(at(3_000));
    assert_eq!((open.inbox.is_none(), open.window.len(), open.layers.len()), (true, 2, 1));
}
