//! What of the workspace a cycle is shown, and when.

use std::sync::Arc;

use serde_json::json;

use super::awareness::{configured, shown};
use super::*;
use crate::life::Layer;
use crate::memory::{Importance, Memory};

fn remember(cycle: &mut Cycle, value: &str) {
    Arc::make_mut(&mut cycle.outside.facts).memories = vec![Memory {
        key: "tea".into(),
        value: value.into(),
        importance: Importance::Normal,
        pinned: false,
        updated_at: at(0),
        used_at: at(0),
        trust: Trust::Operator,
    }];
}

#[test]
fn what_others_change_during_a_cycle_is_shown_at_the_end_and_its_own_changes_are_not() {
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    remember(&mut cycle, "at 5");
    let (_, next) = reply_with(&mut cycle, vec![call("note")]);
    let Next::Think(first) = next else { panic!("wanted the next step, got {next:?}") };
    let update = "layer: [WORKSPACE — what has changed]\n\nYour memories:\n- \"tea\": \"at 5\"";
    assert_eq!(shown(&first).last().unwrap(), update);
    // The agent changes it itself: the outcome of its call says so.
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    remember(&mut cycle, "at 6");
    let note = |_: &CallRow| {
        let change = crate::changes::MemoryChange::Delete { key: "tea".into() };
        Ok(Done {
            outcome: Outcome::ok("done"),
            inward: Inward { memories: vec![change], ..Inward::default() },
        })
    };
    let (_, next) = drive_as(&mut cycle, &[], note);
    let Next::Think(second) = next else { panic!("wanted the next step, got {next:?}") };
    assert_eq!(second.parts().first_difference(&first.parts()), None);
    assert!(shown(&second).last().unwrap().starts_with("outcomes: "), "{:?}", shown(&second).last());
    let (_, next) = reply_with(&mut cycle, vec![call("note")]);
    let Next::Think(third) = next else { panic!("wanted the next step, got {next:?}") };
    assert!(shown(&third).last().unwrap().starts_with("outcomes: "), "it still knows");
    // Others change it, and back: both are news.
    for value in ["at 7", "at 6"] {
        cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
        remember(&mut cycle, value);
        let (_, next) = drive(&mut cycle);
        let Next::Think(prompt) = next else { panic!("wanted the next step, got {next:?}") };
        assert!(shown(&prompt).last().unwrap().contains(value), "{:?}", shown(&prompt).last());
    }
}

/// An activation for a new event, after a cycle of two entries whose workspace said `shown`.
fn after_a_cycle(placement: &str, shown: &str) -> Cycle {
    let config = AgentConfig::from_json(&json!({"workspace": {"placement": placement}})).unwrap();
    let mut again = activation(vec![service(9, 0)]);
    again.config = Arc::new(config);
    let entry = |seq, kind, role| {
        let parts = vec![crate::message::Part::Text { text: "x".into() }];
        let message = crate::message::ModelMessage { role, parts, native: None };
        let cycle = CycleId(Uuid::from_u128(7));
        Arc::new(Entry { seq, cycle, step: 0, kind, message, tokens: 1, at: at(0), trust: Trust::Member })
    };
    again.window = Window::Loaded(vec![
        entry(1, EntryKind::Inbox, crate::message::Role::User),
        entry(2, EntryKind::Assistant, crate::message::Role::Assistant),
    ]);
    again.life.head_seq = 2;
    if placement == "append" {
        again.layers = vec![Layer::new(1, shown.into())];
    }
    begin_with(again)
}

#[test]
fn a_workspace_that_stays_is_sent_in_place_and_later_cycles_add_what_has_changed() {
    let whole =
        |prompt: &Prompt| shown(prompt).into_iter().find(|text| text.contains("facts of this moment"));
    let (_, next) = drive(&mut after_a_cycle("fresh", ""));
    let Next::Think(fresh) = next else { panic!("wanted the first step, got {next:?}") };
    let said = whole(&fresh).unwrap().replace("layer: ", "").replace("Now: 2026", "Now: 2025");
    assert_eq!(shown(&fresh).len(), 4, "two entries, the inbox, the workspace: {:?}", shown(&fresh));
    let mut cycle = after_a_cycle("append", &said);
    let (_, next) = drive(&mut cycle);
    let Next::Think(stays) = next else { panic!("wanted the first step, got {next:?}") };
    let texts = shown(&stays);
    assert_eq!((texts.len(), &texts[1]), (5, &format!("layer: {said}")), "in its place: {texts:?}");
    assert!(texts[4].starts_with("layer: [WORKSPACE — what has changed]\n\nNow: 2026-"), "{texts:?}");
    assert!(!texts[4].contains("Your spaces"), "{texts:?}");
    // Only what is new is stored.
    let (commits, _) = reply_with(&mut cycle, vec![text("well")]);
    assert_eq!(commits[0].layers.len(), 1);
}

#[test]
fn what_the_agent_pinned_is_shown_again_when_the_outcome_that_said_so_is_left_out() {
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    let note = |_: &CallRow| {
        let change = crate::changes::MemoryChange::Delete { key: "tea".into() };
        Ok(Done {
            outcome: Outcome::ok("done"),
            inward: Inward { memories: vec![change], ..Inward::default() },
        })
    };
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    remember(&mut cycle, "at 6");
    Arc::make_mut(&mut cycle.outside.facts).memories[0].pinned = true;
    let (_, next) = drive_as(&mut cycle, &[], note);
    let Next::Think(second) = next else { panic!("{next:?}") };
    assert!(!shown(&second).iter().any(|text| text.contains("at 6")), "it knows what it changed");
    reply_with(&mut cycle, vec![call("note")]);
    let seq = |kind| cycle.log.window.iter().rev().find(|entry| entry.kind == kind).unwrap().seq;
    let (tail, inbox) = (seq(EntryKind::Assistant), seq(EntryKind::Inbox));
    let view = View { rev: 1, ranges: vec![(inbox, inbox)], tail, ..cycle.log.view.clone() };
    cycle.log.replace(view);
    let (_, next) = reply_with(&mut cycle, vec![call("note")]);
    let Next::Think(third) = next else { panic!("{next:?}") };
    assert!(shown(&third).iter().any(|text| text.contains("at 6")), "{:?}", shown(&third));
}
