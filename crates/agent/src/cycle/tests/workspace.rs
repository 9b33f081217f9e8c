//! What of the workspace a cycle is shown, and when.

use std::sync::Arc;

use serde_json::json;

use super::awareness::shown;
use super::*;
use crate::layer::{Layer, LayerKind};
use crate::memory::{Importance, Memory};

fn memory(key: &str, value: &str) -> Memory {
    Memory {
        key: key.into(),
        value: value.into(),
        importance: Importance::Normal,
        pinned: false,
        updated_at: at(0),
        used_at: at(0),
        trust: Trust::Operator,
    }
}

/// Others write that memory; the first ones stay, so that a change takes little of the whole workspace.
fn remember(cycle: &mut Cycle, value: &str) {
    let memories = &mut Arc::make_mut(&mut cycle.outside.facts).memories;
    memories.retain(|memory| memory.key != "tea");
    memories.push(memory("tea", value));
}

/// Memories that fill a workspace.
fn many() -> Vec<Memory> {
    (0..40).map(|n| memory(&format!("k{n}"), "something that is long enough to fill a line")).collect()
}

fn with_many(config: &serde_json::Value, waiting: Vec<Waiting>) -> Cycle {
    let mut again = activation(waiting);
    again.config = Arc::new(AgentConfig::from_json(config).unwrap());
    again.facts.memories = many();
    begin_with(again)
}

/// The layers of the prompt that show the whole workspace, and those that show what has changed.
fn workspaces(prompt: &Prompt) -> (Vec<String>, Vec<String>) {
    let layers = shown(prompt).into_iter().filter_map(|text| Some(text.strip_prefix("layer: ")?.to_owned()));
    let of =
        |head: &str, texts: &[String]| texts.iter().filter(|text| text.starts_with(head)).cloned().collect();
    let layers: Vec<String> = layers.collect();
    (of("[WORKSPACE — facts", &layers), of("[WORKSPACE — what has changed", &layers))
}

#[test]
fn what_others_change_during_a_cycle_is_shown_at_the_end_and_its_own_changes_are_not() {
    let mut cycle = with_many(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    remember(&mut cycle, "at 5");
    let (_, next) = reply_with(&mut cycle, vec![call("note")]);
    let Next::Think(first) = next else { panic!("wanted the next step, got {next:?}") };
    let update = "layer: [WORKSPACE — what has changed: these lines replace those with the same name or id]\n\nYour memories:\n- \"tea\": \"at 5\"";
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

/// An activation for a new event, after a cycle of two entries that has left these layers.
fn after_a_cycle(placement: &str, layers: Vec<Layer>, memories: Vec<Memory>) -> Cycle {
    let config = AgentConfig::from_json(&json!({"workspace": {"placement": placement}})).unwrap();
    let mut again = activation(vec![service(9, 0)]);
    again.config = Arc::new(config);
    again.facts.memories = memories;
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
    again.layers = layers;
    begin_with(again)
}

/// The layers that its first decision stores, and its first request.
fn first_step(cycle: &mut Cycle) -> (Vec<Layer>, Prompt) {
    let (_, next) = drive(cycle);
    let Next::Think(prompt) = next else { panic!("wanted the first step, got {next:?}") };
    let (commits, _) = reply_with(cycle, vec![text("well")]);
    (commits[0].layers.clone(), prompt)
}

#[test]
fn a_workspace_that_stays_is_sent_in_place_and_later_cycles_add_the_lines_that_have_changed() {
    let (stored, fresh) = first_step(&mut after_a_cycle("fresh", Vec::new(), many()));
    assert_eq!(shown(&fresh).len(), 4, "two entries, the inbox, the workspace: {:?}", shown(&fresh));
    assert_eq!((stored.len(), stored[0].kind, stored[0].view), (1, LayerKind::Whole, 0));
    let before = vec![Layer { after: 1, ..stored[0].clone() }];
    let (stored, same) = first_step(&mut after_a_cycle("append", before.clone(), many()));
    let texts = shown(&same);
    assert_eq!(
        (texts.len(), &texts[1]),
        (4, &format!("layer: {}", before[0].text)),
        "in its place: {texts:?}"
    );
    assert!(texts[3].starts_with("inbox: ") && stored.is_empty(), "nothing has changed: {texts:?}");
    let mut changed = many();
    (changed[3].value, changed[5].pinned) = ("other".into(), true);
    changed.pop();
    let mut cycle = after_a_cycle("append", before.clone(), changed.clone());
    let (stored, prompt) = first_step(&mut cycle);
    let texts = shown(&prompt);
    let lines = "- \"k3\": \"other\"\n- \"k5\" (pinned): \"something that is long enough to fill a line\"\n- no longer: \"k39\"";
    assert_eq!(
        texts[4],
        format!(
            "layer: [WORKSPACE — what has changed: these lines replace those with the same name or id]\n\nYour memories:\n{lines}"
        )
    );
    assert_eq!(
        (stored.len(), stored[0].kind, stored[0].after),
        (1, LayerKind::Update, 3),
        "only what is new"
    );
    assert_eq!(cycle.missing_pins(&prompt), Vec::<String>::new());
    // What was shown by then is known from the records alone.
    let update = Layer { after: 1, ..stored[0].clone() };
    let (stored, _) = first_step(&mut after_a_cycle("append", vec![before[0].clone(), update], changed));
    assert!(stored.is_empty(), "{stored:?}");
}

#[test]
fn changes_without_room_begin_the_view_anew_with_one_fresh_copy() {
    let (stored, _) = first_step(&mut after_a_cycle("fresh", Vec::new(), many()));
    let before = vec![Layer { after: 1, ..stored[0].clone() }];
    let mut changed = many();
    changed.iter_mut().take(20).for_each(|memory| memory.value = format!("another {}", memory.value));
    let mut cycle = after_a_cycle("append", before, changed.clone());
    let (_, next) = drive(&mut cycle);
    let Next::Think(prompt) = next else { panic!("{next:?}") };
    let (wholes, updates) = workspaces(&prompt);
    assert_eq!((wholes.len(), updates.len(), prompt.view), (1, 0, 1));
    assert!(wholes[0].contains("another something"));
    let (commits, _) = reply_with(&mut cycle, vec![call("note")]);
    let view = commits[0].view.clone().expect("the decision stores the view");
    assert_eq!((view.rev, view.tail, view.reasoning_from), (1, 1, 3));
    assert_eq!((commits[0].layers[0].view, commits[0].layers[0].kind), (1, LayerKind::Whole));
    // In the middle of a cycle the view is a commit of its own.
    changed.iter_mut().take(20).for_each(|memory| memory.value = format!("once more {}", memory.value));
    cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
    Arc::make_mut(&mut cycle.outside.facts).memories = changed;
    let (commits, next) = drive(&mut cycle);
    let Next::Think(prompt) = next else { panic!("{next:?}") };
    assert_eq!(kinds(&commits), [CommitKind::Decide, CommitKind::View]);
    let (wholes, updates) = workspaces(&prompt);
    assert_eq!((wholes.len(), updates.len(), prompt.view), (1, 0, 2));
    assert!(wholes[0].contains("once more another"));
    let (commits, _) = reply_with(&mut cycle, vec![call("note")]);
    assert_eq!((commits[0].layers.len(), commits[0].layers[0].view), (1, 2));
}

#[test]
fn a_view_that_changes_within_a_cycle_shows_the_whole_workspace_with_what_the_agent_pinned() {
    for own in [true, false] {
        let mut cycle = with_many(&json!({}), vec![service(1, 0)]);
        drive(&mut cycle);
        let note = |_: &CallRow| {
            let change = crate::changes::MemoryChange::Delete { key: "tea".into() };
            let memories = if own { vec![change] } else { Vec::new() };
            Ok(Done { outcome: Outcome::ok("done"), inward: Inward { memories, ..Inward::default() } })
        };
        cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
        remember(&mut cycle, "at 6");
        Arc::make_mut(&mut cycle.outside.facts).memories.last_mut().unwrap().pinned = true;
        let (_, next) = drive_as(&mut cycle, &[], note);
        let Next::Think(second) = next else { panic!("{next:?}") };
        assert_eq!(cycle.missing_pins(&second), Vec::<String>::new(), "a pin is shown, whoever set it");
        reply_with(&mut cycle, vec![call("note")]);
        let seq = |kind| cycle.log.window.iter().rev().find(|entry| entry.kind == kind).unwrap().seq;
        let (tail, inbox) = (seq(EntryKind::Assistant), seq(EntryKind::Inbox));
        let (rev, layers_from, ranges) = (1, 1, vec![(inbox, inbox)]);
        let view = View { rev, layers_from, ranges, tail, ..cycle.log.view.clone() };
        cycle.log.replace(view);
        cycle.replied(Ok(reply(vec![call("note")])), at(2_000));
        let (_, next) = drive_as(&mut cycle, &[], note);
        let Next::Think(third) = next else { panic!("{next:?}") };
        let (wholes, updates) = workspaces(&third);
        assert_eq!((wholes.len(), updates.len()), (1, 0), "{wholes:?}");
        assert!(wholes[0].contains("\"tea\" (pinned): \"at 6\"") && wholes[0].contains("\"k0\""));
        assert_eq!(cycle.missing_pins(&third), Vec::<String>::new());
    }
}
