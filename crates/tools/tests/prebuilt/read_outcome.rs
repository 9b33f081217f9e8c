//! `read_outcome`.

use agent::call::{CallRow, CallState, Effect, Outcome, Runner};
use agent::id::CallId;
use agent::limits;
use serde_json::json;

use crate::world::{CYCLE, World};

fn with(outcome: Option<Outcome>) -> World {
    let mut world = World::new();
    world.store.calls = vec![CallRow {
        id: CallId("c1".into()),
        cycle: CYCLE,
        step: 0,
        index: 0,
        tool: "fetch".into(),
        arguments: "{}".into(),
        effect: Effect::ReadOnly,
        tool_version: "1".into(),
        runner: Runner::Node,
        claim: None,
        approval: None,
        by_rule: None,
        awaited: true,
        state: CallState::Done,
        outcome,
        trust: agent::event::Trust::Member,
    }];
    world
}

#[tokio::test]
async fn the_lines_of_a_large_outcome_can_be_read_to_its_end_without_any_being_left_out() {
    let text: Vec<String> = (1..=5_000).map(|n| format!("line {n}: \u{e9}{}", "x".repeat(n % 40))).collect();
    let mut world = with(Some(Outcome::ok(text.join("\n"))));
    let (mut from, mut read) = (1, Vec::new());
    while from <= text.len() {
        let done =
            world.ask("read_outcome", json!({"call": "c1", "from": from, "lines": 900})).await.unwrap();
        let shown = done.outcome.shown();
        assert!(shown.len() <= limits::OUTCOME_SHOWN_MAX_BYTES && !shown.contains("left out"), "{from}");
        let lines: Vec<String> = shown.lines().skip(1).map(str::to_owned).collect();
        assert!(
            shown.starts_with(&format!("[lines {from} to {} of 5000]", from + lines.len() - 1)),
            "{shown}"
        );
        from += lines.len();
        read.extend(lines);
    }
    assert_eq!(read, text);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_read_in_parts() {
    let text = "\u{e9}".repeat(100_000);
    let mut world = with(Some(Outcome::ok(text.clone())));
    let done = world.ask("read_outcome", json!({"call": "c1", "from": 200, "lines": 1})).await.unwrap();
    assert_eq!(done.outcome.text, format!("[lines 200 to 200 of 200]\n{}", &text[..1_000]));
}

#[tokio::test]
async fn what_cannot_be_read_says_why() {
    let mut world = with(Some(Outcome::ok("one\ntwo")));
    let refused = world.refusal("read_outcome", json!({"call": "c2"})).await;
    assert_eq!(refused, "you have made no call with the id `c2`");
    let refused = world.refusal("read_outcome", json!({"call": "c1", "from": 3})).await;
    assert_eq!(refused, "the outcome has 2 lines; there is no line 3");
    for bad in [json!({"call": "c1", "from": 0}), json!({"call": "c1", "lines": 100_000}), json!({})] {
        world.refusal("read_outcome", bad).await;
    }
    let refused = with(None).refusal("read_outcome", json!({"call": "c1"})).await;
    assert_eq!(refused, "`c1` has no outcome yet");
    let refused = with(Some(Outcome::ok(""))).refusal("read_outcome", json!({"call": "c1"})).await;
    assert_eq!(refused, "the outcome has 0 lines; there is no line 1");
}
