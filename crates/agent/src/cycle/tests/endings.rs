//! What ends a cycle and what does not: time between activations, calls that were held back, a `done` in a step
//! that failed; and what is recorded in the run.

use super::awareness::{configured, drive_seeing, urgent};
use super::decide::finish_step;
use super::*;
use crate::message::Part;
use crate::port::Price;

fn reported(changes: &Changes) -> Vec<(String, bool)> {
    let parts = changes.entries.iter().flat_map(|entry| &entry.message.parts);
    let results = parts.filter_map(|part| match part {
        Part::ToolResult { text, error, .. } => Some((text.clone(), *error)),
        _ => None,
    });
    results.collect()
}

#[test]
fn time_between_the_activations_of_a_cycle_does_not_count() {
    let hours = |n: i64| at(n * 3_600_000);
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (mut commits, _) = reply_with(&mut cycle, vec![call("note")]);
    cycle.set_awake_ms(399_000);
    cycle.replied(Err(ModelError::Network("down".into())), at(400_000));
    let Next::Commit(park) = cycle.next(at(400_000)) else { panic!("wanted to park") };
    assert_eq!(park.open.as_ref().unwrap().awake_ms, 399_000);
    commits.push(*park);
    let mut again = after_crash(&commits, 9);
    again.clean = true;
    let (tools, model) = (cycle.pinned.setup.tools.clone(), cycle.pinned.setup.model.clone());
    let window = commits.iter().flat_map(|c| c.entries.iter().cloned().map(Arc::new)).collect();
    let setup = Setup {
        tools,
        model,
        others: Vec::new(),
        new_cycle: CycleId(Uuid::from_u128(51)),
        unstored: Vec::new(),
    };
    let mut cycle = Cycle::begin(again, window, setup, hours(8));
    let step = |cycle: &mut Cycle, seconds: u64| {
        let now = hours(8) + Duration::from_secs(seconds);
        cycle.set_awake_ms(seconds * 1_000);
        cycle.replied(Ok(reply(vec![call("note")])), now);
        loop {
            match cycle.next(now) {
                Next::Commit(_) => cycle.committed(done(Glance::default()), now),
                Next::Inward(_) => {
                    let done = Done { outcome: Outcome::ok("done"), inward: Inward::default() };
                    cycle.acted(vec![Ok(done)]);
                }
                next => return next,
            }
        }
    };
    // The opening, and the view that begins anew because the time is news in so small a workspace.
    while let Next::Commit(_) = cycle.next(hours(8)) {
        cycle.committed(done(Glance::default()), hours(8));
    }
    assert!(matches!(cycle.next(hours(8)), Next::Think(_)));
    assert!(matches!(step(&mut cycle, 60), Next::Think(_)), "eight hours of parked time do not count");
    let next = step(&mut cycle, 600);
    assert_eq!(ended(&next), (Ending::Exhausted, Some("the limit of 900000 ms awake was reached")));
}

#[test]
fn calls_that_were_held_back_do_not_count_as_mistakes() {
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    for n in 2..=5 {
        cycle.replied(Ok(reply(vec![call("fire")])), at(2_000));
        let next = loop {
            match cycle.next(at(2_000)) {
                Next::Commit(changes) if changes.kind == CommitKind::Start => {
                    cycle.committed(CommitOutcome::Barred, at(2_000));
                    break drive_seeing(&mut cycle, &[urgent(n)]).1;
                }
                Next::Commit(_) => cycle.committed(done(Glance::default()), at(2_000)),
                other => panic!("{other:?}"),
            }
        };
        assert!(matches!(next, Next::Think(_)), "after {} corrections: {next:?}", n - 1);
    }
    // They do not reset the count either.
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    reply_with(&mut cycle, vec![call("nope")]);
    reply_with(&mut cycle, vec![call("nope")]);
    assert_eq!(cycle.open.mistakes, 2);
    let canceled =
        Outcome { status: OutcomeStatus::Canceled, text: "held".into(), detail: None, trust: None };
    let mut open = cycle.open.clone();
    finish_step(&mut open, std::iter::once(("fire", &canceled)));
    assert_eq!(open.mistakes, 2);
}

/// Drives the machine with calls of `note` that fail.
fn failing(cycle: &mut Cycle, parts: Vec<ReplyPart>) -> (Vec<Changes>, Next) {
    cycle.replied(Ok(reply(parts)), at(2_000));
    drive_as(cycle, &[], |row| match row.tool.as_str() {
        "note" => Err(ToolError::new("no such space")),
        _ => succeeds(row),
    })
}

#[test]
fn a_done_next_to_a_failed_call_is_refused_until_there_are_too_many_mistakes() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let parts = || vec![call("peek"), call("note"), call(names::DONE)];
    let (commits, next) = failing(&mut cycle, parts());
    assert!(matches!(next, Next::Think(_)), "the person got no answer: {next:?}");
    let read = reported(&commits[0]);
    assert!(read[2].1 && read[2].0.starts_with("not ended: `note` in the same step"), "{read:?}");
    failing(&mut cycle, parts());
    let (_, next) = failing(&mut cycle, parts());
    assert_eq!(ended(&next), (Ending::Exhausted, Some("the calls of 3 steps in a row failed")));
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let (_, next) = failing(&mut cycle, vec![call("note"), call(names::SKIP)]);
    assert_eq!(ended(&next).0, Ending::Completed, "a skip ends the cycle anyway");
}

#[test]
fn a_done_next_to_a_failed_outward_call_is_refused() {
    for (outcome, ends) in [(Outcome::error("refused"), false), (Outcome::ok("seen"), true)] {
        let mut cycle = begin(vec![service(1, 0)]);
        drive(&mut cycle);
        let (decided, next) = reply_with(&mut cycle, vec![call("look"), call(names::DONE)]);
        let Next::Outward(rows) = next else { panic!("wanted the call, got {next:?}") };
        assert!(decided[0].open.as_ref().unwrap().finishing.is_some());
        cycle.settled(rows[0].id.clone(), outcome);
        let (commits, next) = drive(&mut cycle);
        assert_eq!(matches!(next, Next::Finished(_)), ends, "{next:?}");
        let read = reported(&commits[0]);
        assert_eq!(read[1].0.starts_with("not ended: `look`"), !ends, "{read:?}");
    }
}

#[test]
fn the_run_includes_the_tokens_of_an_aborted_generation() {
    let mut cycle = configured(&json!({"awareness": "interrupt"}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.outdated(news(vec![urgent(2)]), Some(40));
    drive(&mut cycle);
    let mut model_reply = reply(vec![text("well")]);
    model_reply.reply.usage = Usage { input: Some(1_000), output: Some(5), ..Usage::default() };
    cycle.replied(Ok(model_reply), at(2_000));
    let (commits, _) = drive_seeing(&mut cycle, &[]);
    let run = commits[0].run.as_ref().unwrap();
    let aborted = run.steps[0].aborted;
    assert!(aborted.input.is_some_and(|input| input > 0) && aborted.output == Some(40), "{aborted:?}");
    assert_eq!((run.usage.input, run.usage.output), (Some(1_000), Some(5)), "as the provider reports");
    assert_eq!(run.estimated(), aborted);
}

#[test]
fn the_run_includes_wasted_tokens_even_if_the_cycle_was_parked_in_between() {
    let spent = |input| Usage { input: Some(input), output: Some(5), ..Usage::default() };
    let model_reply = |parts, input| ModelReply {
        reply: Reply { usage: spent(input), ..reply(parts).reply },
        ..reply(vec![])
    };
    let mut cycle = configured(&json!({"awareness": "interrupt"}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle.replied(Ok(model_reply(vec![call("note")], 100)), at(2_000));
    let (mut commits, _) = drive(&mut cycle);
    cycle.outdated(news(vec![urgent(2)]), Some(40));
    drive_seeing(&mut cycle, &[urgent(2)]);
    cycle.replied(Ok(model_reply(vec![call("look"); limits::REPLY_CALLS_MAX + 1], 200)), at(2_000));
    let (parked, next) = drive(&mut cycle);
    assert!(matches!(next, Next::Finished(ActivationEnd::Parked { .. })), "{next:?}");
    commits.extend(parked);
    let mut again = begin_with(after_crash(&commits, 9));
    drive(&mut again);
    again.replied(Ok(model_reply(vec![text("well")], 400)), at(2_000));
    let (commits, next) = drive(&mut again);
    assert_eq!(ended(&next).0, Ending::Completed);
    let run = commits.last().unwrap().run.as_ref().unwrap();
    let mut reported = Usage::default();
    for step in &run.steps {
        reported.add(&step.usage);
        reported.add(&step.discarded);
    }
    assert_eq!((run.usage, run.usage.input), (reported, Some(700)), "as the provider reports");
    assert_eq!((run.steps[1].discarded, run.estimated().output), (spent(200), Some(40)));
}

#[test]
fn the_cost_of_a_skip_includes_aborted_generations() {
    let mut cycle = configured(&json!({"awareness": "interrupt"}), vec![service(1, 0)]);
    cycle.pinned.setup.model.price = Some(Price { input: 3_000_000, cached: 0, output: 5_000_000 });
    drive(&mut cycle);
    cycle.outdated(news(vec![urgent(2)]), Some(10));
    drive(&mut cycle);
    let aborted = cycle.open.estimated;
    assert!(!aborted.is_none());
    let spent = Usage { input: Some(100), output: Some(10), ..Usage::default() };
    cycle.replied(
        Ok(ModelReply { reply: Reply { usage: spent, ..reply(vec![call("skip")]).reply }, ..reply(vec![]) }),
        at(2_000),
    );
    let (commits, next) = drive(&mut cycle);
    assert_eq!(ended(&next).0, Ending::Skipped);
    let tokens = (aborted.input.unwrap() + 100, aborted.output.unwrap() + 10);
    let skip = commits.last().unwrap();
    assert_eq!((skip.usage.input.unwrap(), skip.usage.output.unwrap()), tokens);
    assert_eq!(skip.cost_micros, Some(3 * tokens.0 + 5 * tokens.1));
}

#[test]
fn a_usage_near_the_largest_number_does_not_overflow() {
    let mut cycle = begin(vec![service(1, 0)]);
    drive(&mut cycle);
    let mut model_reply = reply(vec![call("note"), call("look")]);
    model_reply.reply.usage = Usage { input: Some(u64::MAX), output: Some(u64::MAX), ..Usage::default() };
    cycle.replied(Ok(model_reply), at(2_000));
    let (_, next) = drive(&mut cycle);
    let Next::Outward(rows) = next else { panic!("wanted the call, got {next:?}") };
    cycle.settled(rows[0].id.clone(), Outcome::ok("seen"));
    let (commits, next) = drive(&mut cycle);
    assert_eq!(ended(&next).0, Ending::Exhausted);
    assert_eq!(commits.last().unwrap().run.as_ref().unwrap().usage.input, Some(u64::MAX));
}

/// A reply whose provider reports this usage.
fn reported_reply(parts: Vec<ReplyPart>, input: u64, cached: u64, output: u64) -> ModelReply {
    let mut reply = reply(parts);
    reply.reply.usage =
        Usage { input: Some(input), cached: Some(cached), output: Some(output), reasoning: None };
    reply
}

#[test]
fn a_cycle_ends_when_what_was_paid_is_above_its_token_budget() {
    let ends_after = |usage: (u64, u64, u64)| {
        let mut cycle = configured(&json!({"limits": {"token_budget": 10_000}}), vec![service(1, 0)]);
        drive(&mut cycle);
        for step in 1..=20 {
            let (input, cached, output) = usage;
            cycle.replied(Ok(reported_reply(vec![call("note")], input, cached, output)), at(2_000));
            let (_, next) = drive(&mut cycle);
            if matches!(next, Next::Finished(_)) {
                let by_steps = (Ending::Exhausted, Some("the limit of 20 steps was reached"));
                if ended(&next) == by_steps {
                    return 21;
                }
                assert_eq!(ended(&next), (Ending::Exhausted, Some("the budget of 10000 tokens was spent")));
                return step;
            }
        }
        21
    };
    // Each step is paid, a cached token at a tenth.
    assert_eq!(ends_after((3_000, 0, 100)), 4);
    assert_eq!(ends_after((3_000, 3_000, 100)), 21, "20 steps of 400");
    assert_eq!(ends_after((3_000, 2_000, 800)), 6, "2 000 each");
    // Without a report it is estimated.
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    reply_with(&mut cycle, vec![call("note")]);
    assert!(cycle.open.tokens > 100, "{}", cycle.open.tokens);
    let price = Price { input: 4, cached: 1, output: 8 };
    cycle.pinned.setup.model.price = Some(price);
    let usage = Usage { input: Some(1_000), cached: Some(800), output: Some(50), reasoning: None };
    assert_eq!(cycle.paid(&Step::default(), &usage, 0), 200 + 200 + 50);
}

#[test]
fn a_cycle_ends_when_all_events_are_addressed_or_a_named_tool_was_called() {
    let message = |seq: u64, space: u128| {
        let mut waiting = service(seq, 0);
        let space = SpaceId(Uuid::from_u128(space));
        waiting.event.kind = EventKind::SpaceMessage;
        waiting.event.envelope.principal = Principal::Entity(EntityId(Uuid::from_u128(7)));
        waiting.event.data = EventData::Message {
            space,
            seq,
            message: crate::id::MessageId(Uuid::from_u128(u128::from(seq))),
        };
        waiting
    };
    let posts = |space: u128| {
        move |row: &CallRow| {
            let message = crate::space::NewMessage {
                id: crate::id::MessageId::of_call(&row.id),
                space: SpaceId(Uuid::from_u128(space)),
                sender: EntityId(Uuid::from_u128(1)),
                text: format!("for {space}"),
                mentions: Vec::new(),
                urgent: false,
                at: at(0),
                cycle: None,
                call: Some(row.id.clone()),
                data: None,
                principal: Principal::Entity(EntityId(Uuid::from_u128(1))),
                trust: Trust::Agent,
                root: RootId("r".into()),
                hop: 1,
            };
            Ok(Done {
                outcome: Outcome::ok("delivered"),
                inward: Inward { messages: vec![message], ..Inward::default() },
            })
        }
    };
    let mut cycle = configured(&json!({"stop": {"all_addressed": true}}), vec![message(1, 8), message(2, 9)]);
    drive(&mut cycle);
    for space in [8, 8] {
        cycle.replied(Ok(reply(vec![call(names::SEND_MESSAGE)])), at(2_000));
        let (_, next) = drive_as(&mut cycle, &[], posts(space));
        assert!(matches!(next, Next::Think(_)), "space 9 has no answer: {next:?}");
    }
    assert_eq!(cycle.open.addressed.len(), 1, "each space once");
    cycle.replied(Ok(reply(vec![call(names::SEND_MESSAGE)])), at(2_000));
    let (_, next) = drive_as(&mut cycle, &[], posts(9));
    assert_eq!(ended(&next), (Ending::Completed, Some("all addressed")));

    let mut cycle = configured(&json!({"stop": {"on_tools": ["note"]}}), vec![service(1, 0)]);
    drive(&mut cycle);
    let (_, next) = failing(&mut cycle, vec![call("note")]);
    assert!(matches!(next, Next::Think(_)), "a call that failed ends nothing: {next:?}");
    let (_, next) = reply_with(&mut cycle, vec![call("note")]);
    assert_eq!(ended(&next), (Ending::Completed, Some("`note` was called")));
}

#[test]
fn the_space_whose_messages_woke_the_agent_is_the_active_one() {
    let message = |seq: u64, space: u128| {
        let mut waiting = service(seq, 0);
        let (space, id) =
            (SpaceId(Uuid::from_u128(space)), crate::id::MessageId(Uuid::from_u128(u128::from(seq))));
        waiting.event.data = EventData::Message { space, seq, message: id };
        waiting
    };
    let space = |n: u128| Some(SpaceId(Uuid::from_u128(n)));
    for (waiting, before, expected, stored) in [
        (vec![message(1, 8), message(2, 8)], None, space(8), space(8)),
        (vec![message(1, 8), service(2, 0)], space(9), space(8), space(8)),
        (vec![message(1, 8)], space(8), space(8), None),
        (vec![message(1, 8), message(2, 9)], space(9), space(9), None),
        (vec![message(1, 8), message(2, 9)], None, None, None),
        (vec![service(1, 0)], space(9), space(9), None),
    ] {
        let mut again = activation(waiting);
        again.life.active_space = before;
        let mut cycle = begin_with(again);
        drive(&mut cycle);
        assert_eq!(cycle.active_space(), expected);
        let (commits, _) = reply_with(&mut cycle, vec![call("note")]);
        assert_eq!(commits[0].inward.active_space, stored, "the first decision stores it");
        assert_eq!(cycle.active_space(), expected);
    }
}

#[test]
fn a_node_stop_gives_unprocessed_events_back_and_parks_open_cycles() {
    let mut cycle = begin(vec![service(1, 0)]);
    cycle.stop("the node stops");
    drive(&mut cycle);
    // The generation in flight may finish its step.
    let (commits, next) = reply_with(&mut cycle, vec![call("note")]);
    assert_eq!(kinds(&commits), [CommitKind::Decide, CommitKind::Park]);
    assert!(commits[1].open.is_some());
    assert!(matches!(next, Next::Finished(ActivationEnd::Parked { .. })));

    let mut unclean = activation(vec![service(1, 0)]);
    unclean.clean = false;
    let mut cycle = begin_with(unclean);
    cycle.stop("the node stops");
    let (commits, _) = drive(&mut cycle);
    assert_eq!(kinds(&commits), [CommitKind::Open, CommitKind::Close]);
    assert!(!commits[1].blame && commits[1].settle[0].state == EventState::Waiting);
}
