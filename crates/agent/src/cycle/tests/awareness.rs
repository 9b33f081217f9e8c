//! What a cycle notices while it runs, and what is decided before each step.

use serde_json::{Value, json};

use super::*;
use crate::changes::PlanChange;
use crate::event::Cause;
use crate::id::PlanId;
use crate::plan::{Plan, Schedule};
use crate::prompt::Item;

pub(super) fn configured(config: &Value, waiting: Vec<Waiting>) -> Cycle {
    let config = Arc::new(AgentConfig::from_json(config).unwrap());
    begin_with(Activation { config, ..activation(waiting) })
}

pub(super) fn urgent(seq: u64) -> Waiting {
    let mut waiting = service(seq, 0);
    waiting.event.urgent = true;
    waiting
}

/// Drives as [`drive`] does, while these events wait.
pub(super) fn drive_seeing(cycle: &mut Cycle, waits: &[Waiting]) -> (Vec<Changes>, Next) {
    let peeks = |row: &CallRow| Inward { peek: u32::from(row.tool == "peek"), ..Inward::default() };
    drive_as(cycle, waits, |row| Ok(Done { outcome: Outcome::ok("done"), inward: peeks(row) }))
}

pub(super) fn shown(prompt: &Prompt) -> Vec<String> {
    prompt
        .items
        .iter()
        .map(|item| match item {
            Item::Entry(entry) => format!("{}: {}", entry.kind.as_str(), entry.message.text()),
            Item::Layer(text) => format!("layer: {text}"),
        })
        .collect()
}

#[test]
fn an_injected_event_is_processed_by_the_decision_of_the_step_that_shows_it() {
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let (first, next) = drive_seeing(&mut cycle, &[urgent(2)]);
    assert_eq!(first[0].settle.iter().map(|s| s.seq).collect::<Vec<_>>(), [1]);
    let Next::Think(prompt) = next else { panic!("wanted the next step, got {next:?}") };
    let last = shown(&prompt).pop().unwrap();
    assert!(last.starts_with("injection: [MID-CYCLE UPDATE — 1 new event]"), "{last}");
    cycle.replied(Ok(reply(vec![text("seen")])), at(2_000));
    let (second, next) = drive_seeing(&mut cycle, &[]);
    assert_eq!(ended(&next).0, Ending::Completed);
    assert!(
        matches!(second[0].settle[0], ref s if s.seq == 2 && matches!(s.state, EventState::Processed { step: 1, .. }))
    );
    let kinds: Vec<_> = second[0].entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Injection, EntryKind::Assistant]);
    let run = second[0].run.as_ref().unwrap();
    assert_eq!((run.events, run.steps[0].injected, run.steps[1].injected), (2, 0, 1));
}

#[test]
fn done_names_events_by_the_numbers_under_which_they_were_listed() {
    let mut cycle = configured(&json!({}), vec![service(11, 0), service(12, 0)]);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let (_, next) = drive_seeing(&mut cycle, &[urgent(20)]);
    let Next::Think(prompt) = next else { panic!("wanted the next step, got {next:?}") };
    assert!(shown(&prompt).pop().unwrap().contains("\n3. [service"), "the numbers continue");
    let arguments = r#"{"addressed": [1, "3", 99, 0, "an-id"]}"#;
    let done = ReplyPart::Call { name: names::DONE.into(), arguments: arguments.into() };
    cycle.replied(Ok(reply(vec![done])), at(2_000));
    let (commits, _) = drive_seeing(&mut cycle, &[]);
    use crate::changes::EventRef;
    let id = EventId("an-id".into());
    assert_eq!(commits[0].addressed, [EventRef::Seq(11), EventRef::Seq(20), EventRef::Id(id)]);
}

#[test]
fn events_that_a_failed_step_showed_still_wait() {
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    drive_seeing(&mut cycle, &[urgent(2)]);
    cycle.replied(Err(ModelError::Network("gone".into())), at(2_000));
    let (commits, _) = drive_seeing(&mut cycle, &[urgent(2)]);
    assert_eq!(kinds(&commits), [CommitKind::Park]);
    assert!(commits[0].settle.is_empty() && commits[0].entries.is_empty());
}

#[test]
fn a_preview_is_shown_and_not_kept_in_the_log() {
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let (_, next) = drive_seeing(&mut cycle, &[service(2, 0)]);
    let Next::Think(prompt) = next else { panic!("wanted the next step, got {next:?}") };
    assert!(shown(&prompt).pop().unwrap().starts_with("layer: [INBOX PREVIEW — 1 new event(s) waiting]"));
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let (commits, next) = drive_seeing(&mut cycle, &[service(2, 0)]);
    let kinds: Vec<_> = commits[0].entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Assistant, EntryKind::Outcomes]);
    assert!(commits[0].settle.is_empty() && commits[0].layers.len() == 1, "stored as a layer");
    let Next::Think(later) = next else { panic!("wanted the next step, got {next:?}") };
    let (before, after) = (shown(&prompt), shown(&later));
    assert_eq!(after[..before.len()], before, "each request extends the one before");
    assert_eq!(after.iter().filter(|item| item.contains("PREVIEW")).count(), 1, "nothing new arrived");
}

#[test]
fn an_interruption_restarts_the_step_with_the_new_event_three_times_at_most() {
    let mut cycle = configured(&json!({"awareness": "interrupt"}), vec![service(1, 0)]);
    let (_, next) = drive(&mut cycle);
    let Next::Think(mut before) = next else { panic!("wanted a prompt, got {next:?}") };
    for n in 2..=4 {
        let came = news(vec![urgent(n)]);
        assert!(cycle.outdated_by(&came));
        cycle.outdated(came, Some(100));
        let (commits, Next::Think(prompt)) = drive(&mut cycle) else { panic!() };
        assert!(commits.is_empty(), "an interruption writes nothing");
        let (old, new) = (shown(&before), shown(&prompt));
        assert_eq!(new[..old.len()], old, "each request extends the one before");
        assert!(new.last().unwrap().contains("MID-CYCLE UPDATE"));
        before = prompt;
    }
    assert!(!cycle.outdated_by(&news(vec![urgent(5)])), "after three it is only injected");
    let late = ModelReply { asked_at: at(60_000), ..reply(vec![text("well")]) };
    cycle.replied(Ok(late), at(60_005));
    let (commits, _) = drive_seeing(&mut cycle, &[]);
    assert_eq!(commits[0].settle.iter().map(|s| s.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let run = commits[0].run.as_ref().unwrap();
    assert!(
        run.steps[0].waited_ms.is_some_and(|ms| ms <= 2_000),
        "until the first request: {:?}",
        run.steps[0]
    );
    assert_eq!((run.steps[0].interrupts, run.steps[0].injected), (3, 3));
}

#[test]
fn only_a_new_urgent_event_in_interrupt_mode_aborts_a_generation() {
    let mut cycle = configured(&json!({"awareness": "preview+inject"}), vec![service(1, 0)]);
    drive(&mut cycle);
    assert!(!cycle.outdated_by(&news(vec![urgent(2)])));
    let mut cycle = configured(&json!({"awareness": "interrupt"}), vec![service(1, 0)]);
    drive(&mut cycle);
    assert!(!cycle.outdated_by(&news(vec![service(2, 0)])), "it is not urgent");
    cycle.outdated(news(vec![urgent(2)]), None);
    drive(&mut cycle);
    assert!(!cycle.outdated_by(&news(vec![urgent(2)])), "it is shown already");
}

#[test]
fn a_skip_also_settles_the_events_that_were_added() {
    let mut cycle = configured(&json!({"awareness": "interrupt"}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.outdated(news(vec![urgent(2)]), None);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call(names::SKIP)])), at(2_000));
    let (commits, next) = drive_seeing(&mut cycle, &[]);
    assert_eq!(ended(&next).0, Ending::Skipped);
    assert_eq!(commits[0].settle.len(), 2);
    assert!(commits[0].entries.is_empty());
}

#[test]
fn a_peeked_event_is_shown_and_processed_by_the_next_step() {
    let mut cycle = configured(&json!({"awareness": "none"}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call("peek")])), at(2_000));
    let (commits, next) = drive_seeing(&mut cycle, &[service(2, 0), service(3, 0)]);
    assert_eq!(commits[0].open.as_ref().unwrap().peek, 1);
    let Next::Think(prompt) = next else { panic!("wanted the next step, got {next:?}") };
    assert!(shown(&prompt).pop().unwrap().contains(r#"{"n":2}"#));
    cycle.replied(Ok(reply(vec![text("ok")])), at(2_000));
    let (commits, _) = drive_seeing(&mut cycle, &[service(3, 0)]);
    assert_eq!(commits[0].settle.iter().map(|s| s.seq).collect::<Vec<_>>(), [2]);
}

#[test]
fn an_unsafe_call_is_held_back_for_an_urgent_event_of_its_requester() {
    let mut cycle = configured(&json!({"awareness": "none"}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call("fire"), call("fire"), call(names::DONE)])), at(2_000));
    let mut barred = 0;
    let (commits, next) = loop {
        match cycle.next(at(2_000)) {
            Next::Commit(changes) if changes.kind == CommitKind::Start => {
                assert!(changes.barrier);
                barred += 1;
                cycle.committed(CommitOutcome::Barred, at(2_000));
                break drive_seeing(&mut cycle, &[urgent(2)]);
            }
            Next::Commit(_) => cycle.committed(done(Glance::default()), at(2_000)),
            Next::Inward(rows) => {
                cycle.acted(rows.iter().map(succeeds).collect());
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(barred, 1);
    let statuses: Vec<_> =
        commits[0].call_changes.iter().map(|change| change.outcome.as_ref().unwrap().status).collect();
    assert_eq!(statuses, [OutcomeStatus::Canceled, OutcomeStatus::Canceled], "neither of them started");
    let Next::Think(prompt) = next else {
        panic!("wanted another decision in spite of `done`, got {next:?}")
    };
    assert!(shown(&prompt).pop().unwrap().contains("MID-CYCLE UPDATE"), "shown with any awareness");
}

#[test]
fn a_gate_refuses_calls_and_does_not_change_the_tool_list() {
    let config = json!({"gates": [{"to": 0, "active_tools": ["look"]}]});
    let mut cycle = configured(&config, vec![service(1, 0)]);
    let (_, next) = drive(&mut cycle);
    let Next::Think(prompt) = next else { panic!("wanted a prompt, got {next:?}") };
    assert_eq!(prompt.tools.len(), 13);
    assert!(shown(&prompt).pop().unwrap().contains("[PHASE] step 0: you may call look, skip and done only."));
    let (commits, next) = reply_with(&mut cycle, vec![call("note")]);
    let outcome = commits[0].calls[0].outcome.as_ref().unwrap();
    assert_eq!(outcome.text, "`note` may not be called now (step 0); you may call look, skip and done");
    let Next::Think(prompt) = next else { panic!("wanted the next step, got {next:?}") };
    assert!(shown(&prompt).pop().unwrap().contains("From now on you may call all of your tools"));
    let (commits, _) = reply_with(&mut cycle, vec![call("note")]);
    assert_eq!(commits[0].calls[0].outcome.as_ref().unwrap().status, OutcomeStatus::Ok);
}

#[test]
fn a_fallback_answers_if_a_provider_cannot_and_the_run_names_it() {
    let config = json!({"fallback": ["other/one"]});
    let mut cycle = configured(&config, vec![service(1, 0)]);
    drive(&mut cycle);
    assert_eq!(cycle.model(), None);
    cycle.replied(Err(ModelError::Auth("no".into())), at(2_000));
    let Next::Think(_) = cycle.next(at(2_000)) else { panic!("wanted a call of the fallback") };
    assert_eq!(cycle.model(), Some("other/one"));
    let (commits, _) = reply_with(&mut cycle, vec![text("here")]);
    let run = commits[0].run.as_ref().unwrap();
    assert_eq!((run.model.as_str(), run.steps[0].model.is_some()), ("scripted", true));
    let mut cycle = configured(&config, vec![service(1, 0)]);
    drive(&mut cycle);
    for _ in 0..2 {
        cycle.replied(Err(ModelError::Auth("no".into())), at(2_000));
        if let Next::Commit(changes) = cycle.next(at(2_000)) {
            assert_eq!(changes.kind, CommitKind::Close, "all models failed: the event waits");
        }
    }
}

#[test]
fn triage_skips_an_event_without_a_model_call() {
    let mut waiting = service(1, 0);
    waiting.event.kind = EventKind::SpaceMessage;
    waiting.event.envelope.trust = Trust::Agent;
    let space = SpaceId(Uuid::from_u128(9));
    let message = crate::id::MessageId(Uuid::from_u128(1));
    waiting.event.data = EventData::Message { space, seq: 1, message };
    let mut read = activation(vec![waiting]);
    read.config = Arc::new(AgentConfig::from_json(&json!({"triage": "rules"})).unwrap());
    read.facts = Facts { spaces: vec![space_of_three(space)], ..Facts::default() };
    let mut cycle = begin_with(read);
    let (commits, next) = drive(&mut cycle);
    assert_eq!(kinds(&commits), [CommitKind::Open, CommitKind::Close]);
    assert_eq!(ended(&next), (Ending::Skipped, Some("triage: not addressed to this agent")));
    assert!(commits.iter().all(|changes| changes.entries.is_empty()));
}

#[test]
fn a_message_that_mentions_only_another_member_is_not_addressed_to_this_agent() {
    let ending = |mentions: Vec<EntityId>, cites: Option<EventId>| {
        let mut waiting = service(1, 0);
        waiting.event.kind = EventKind::SpaceMessage;
        let (space, message) = (SpaceId(Uuid::from_u128(9)), crate::id::MessageId(Uuid::from_u128(1)));
        waiting.event.data = EventData::Message { space, seq: 1, message };
        waiting.event.cites = cites;
        waiting.message = Some(crate::event::NamedMessage {
            id: message,
            space,
            space_handle: "team".into(),
            seq: 1,
            sender: EntityId(Uuid::from_u128(3)),
            sender_name: "You".into(),
            sender_handle: "you".into(),
            sender_kind: EntityKind::Human,
            text: "hello you".into(),
            mentions,
            at: at(0),
            trust: Trust::Member,
        });
        let mut read = activation(vec![waiting]);
        read.config = Arc::new(AgentConfig::from_json(&json!({"triage": "rules"})).unwrap());
        read.facts = Facts { spaces: vec![space_of_three(space)], ..Facts::default() };
        let mut cycle = begin_with(read);
        match drive(&mut cycle).1 {
            Next::Finished(ActivationEnd::Ended { ending, .. }) => Some(ending),
            _ => None,
        }
    };
    let me = activation(vec![]).entity.id;
    let other = EntityId(Uuid::from_u128(if me.0.as_u128() == 2 { 1 } else { 2 }));
    assert_eq!(ending(vec![other], None), Some(Ending::Skipped));
    assert_eq!(ending(vec![], None), None, "without mentions it is addressed to all");
    assert_eq!(ending(vec![me], None), None);
    assert_eq!(ending(vec![EntityId(Uuid::from_u128(77))], None), None, "the mentioned one is not a member");
    assert_eq!(ending(vec![other], Some(EventId("e1".into()))), None, "an operator sent it again");
}

pub(super) fn space_of_three(id: SpaceId) -> crate::life::SpaceFacts {
    let member = |n: u128| crate::entity::Member {
        entity: Entity { id: EntityId(Uuid::from_u128(n)), ..activation(vec![]).entity },
        role: String::new(),
        since: at(0),
    };
    let space = crate::entity::Space {
        id,
        name: "team".into(),
        display_name: "Team".into(),
        description: String::new(),
        head_seq: 1,
        rev: 1,
        closed: false,
        wake_on: crate::config::WakeOn::All,
        created_at: at(0),
    };
    crate::life::SpaceFacts {
        space,
        members: vec![member(1), member(2), member(3)],
        more_members: 0,
        told: false,
    }
}

#[test]
fn a_persons_injected_event_becomes_the_cause_of_a_cycle_that_agents_started() {
    let mut first = service(1, 0);
    first.event.envelope.trust = Trust::Agent;
    let mut cycle = configured(&json!({}), vec![first]);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    drive_seeing(&mut cycle, &[urgent(2)]);
    assert_eq!(cycle.cause().0.0, "e2");
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let (commits, _) = drive_seeing(&mut cycle, &[]);
    let open = commits[0].open.as_ref().unwrap();
    assert_eq!((open.root.0.as_str(), open.by_agents), ("e2", false));
    assert_eq!(cycle.cause().0.0, "e2");
}

#[test]
fn calls_that_may_be_repeated_start_without_the_barrier() {
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    let (commits, next) = reply_with(&mut cycle, vec![call("look")]);
    assert_eq!(kinds(&commits), [CommitKind::Decide]);
    assert!(matches!(next, Next::Outward(rows) if rows[0].effect == Effect::ReadOnly));
}

#[test]
fn a_plan_gets_the_cause_of_its_cycle_and_the_lowest_trust_that_the_cycle_read() {
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let mut news = urgent(2);
    news.event.envelope.trust = Trust::Outside;
    drive_seeing(&mut cycle, &[news]);
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    let plan = |_: &CallRow| {
        let id = PlanId(Uuid::from_u128(7));
        let schedule = Schedule::At { at: at(9_000) };
        let next_at = Some(at(9_000));
        let plan = Plan { next_at, ..Plan::new(id, "look", "out", schedule) };
        let inward = Inward { plans: vec![PlanChange::Set(plan)], ..Inward::default() };
        Ok(Done { outcome: Outcome::ok("planned"), inward })
    };
    let (commits, _) = drive_as(&mut cycle, &[], plan);
    let open = commits[0].open.as_ref().unwrap();
    let cause = Cause { root: open.root.clone(), hop: open.hop, trust: Trust::Outside };
    assert_eq!((&commits[0].cause, open.trust), (&cause, Trust::Outside));
    assert!(!cause.root.0.is_empty());
}
