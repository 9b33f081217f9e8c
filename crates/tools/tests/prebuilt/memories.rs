//! `set_memories` and `delete_memories`: all-or-nothing calls, limits, the keys in the reply.

use agent::changes::MemoryChange;
use agent::limits;
use agent::memory::Importance;
use serde_json::{Value, json};

use crate::world::World;

fn notes(pairs: &[(&str, &str)]) -> Value {
    let notes: Vec<_> = pairs.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    json!({ "memories": notes })
}

fn set(key: &str, value: &str) -> MemoryChange {
    MemoryChange::set(key, value)
}

fn delete(key: &str) -> MemoryChange {
    MemoryChange::Delete { key: key.into() }
}

#[tokio::test]
async fn memories_are_set_in_order_and_the_reply_lists_their_keys() {
    let mut world = World::new().with_memories(&["a", "b"]);
    let reply = world.reply("set_memories", notes(&[("b", "2"), (" c ", "3"), ("b", "4")])).await;
    assert_eq!(reply, json!({"success": true, "set": ["b", "c"], "total": 3}));
    assert_eq!(world.pending.memories, [set("b", "2"), set("c", "3"), set("b", "4")]);
}

#[tokio::test]
async fn the_limit_counts_stored_and_pending_memories() {
    let keys: Vec<_> = (0..limits::MEMORIES_MAX).map(|n| format!("k{n}")).collect();
    let mut world = World::new().with_memories(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(world.ask("set_memories", notes(&[("k7", "again")])).await.is_ok());
    let error = world.refusal("set_memories", notes(&[("k8", "x"), ("new", "x")])).await;
    assert!(error.contains("at most 500 notes in all, these would make 501"), "{error}");
    assert_eq!(world.pending.memories.len(), 1, "a refused call changes nothing");
    world.ask("delete_memories", json!({"keys": ["k0"]})).await.unwrap();
    assert_eq!(world.reply("set_memories", notes(&[("new", "x")])).await["total"], 500);
    let error = world.refusal("set_memories", notes(&[("newer", "x")])).await;
    assert!(error.contains("501"), "pending memories count: {error}");
}

#[tokio::test]
async fn keys_and_values_are_limited_and_a_refused_call_sets_nothing() {
    let (long_key, long_value) = ("k".repeat(121), "v".repeat(8 * 1024 + 1));
    let huge = "v".repeat(1000 * 1000);
    let mut world = World::new();
    for (key, value, wanted) in [
        ("  ", "x", "wanted a key with something in it"),
        (long_key.as_str(), "x", "wanted a key of at most 120 bytes, got 121"),
        ("ok", long_value.as_str(), "wanted a value of at most 8192 bytes, got 8193 under `ok`"),
        ("ok", huge.as_str(), "wanted a value of at most 8192 bytes, got 1000000 under `ok`"),
        ("a\nb", "x", "wanted a key on one line, without control characters, got `a\\nb`"),
    ] {
        let error = world.refusal("set_memories", notes(&[("fine", "x"), (key, value)])).await;
        assert!(error.starts_with("nothing was set: ") && error.contains(wanted), "{error}");
    }
    assert!(world.refusal("set_memories", notes(&[])).await.contains("wanted at least 1 items, got 0"));
    let error = world.refusal("set_memories", json!({"memories": [{"key": "a", "text": "b"}]})).await;
    assert!(error.contains("at `/memories/0`: wanted no others, got `text`"), "{error}");
    assert!(world.pending.is_empty());
}

#[tokio::test]
async fn a_note_may_have_an_importance_and_a_pin_within_limits() {
    let mut world = World::new().with_memories(&["a"]);
    let note = |key: &str, more: Value| {
        let mut note = json!({"key": key, "value": "v"});
        note.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        note
    };
    let pinned = |from: usize, to: usize| {
        let notes = (from..to).map(|n| note(&format!("k{n}"), json!({"pinned": true})));
        json!({"memories": notes.collect::<Vec<_>>()})
    };
    let high = note("a", json!({"importance": "high", "pinned": false}));
    world.reply("set_memories", json!({"memories": [high]})).await;
    let wanted = MemoryChange::Set {
        key: "a".into(),
        value: "v".into(),
        importance: Some(Importance::High),
        pinned: Some(false),
        trust: None,
    };
    assert_eq!(world.pending.memories, [wanted]);
    let unknown = json!({"memories": [note("a", json!({"importance": "urgent"}))]});
    let error = world.refusal("set_memories", unknown).await;
    assert!(error.contains("`/memories/0/importance`") && error.contains("urgent"), "{error}");
    world.reply("set_memories", pinned(0, 63)).await;
    let error = world.refusal("set_memories", pinned(63, 65)).await;
    assert!(error.contains("at most 64 pinned notes, these would make 65; unpin"), "{error}");
    world.reply("set_memories", pinned(63, 64)).await;
    let long = json!({"memories": [note("k0", json!({"value": "v".repeat(4_000)}))]});
    let error = world.refusal("set_memories", long).await;
    assert!(error.contains("pinned notes of at most 4096 bytes in all"), "k0 stays pinned: {error}");
}

#[tokio::test]
async fn a_reply_with_many_long_keys_is_shortened() {
    let long: Vec<_> = (0..400).map(|n| format!("{n:0>120}")).collect();
    let pairs: Vec<_> = long.iter().map(|key| (key.as_str(), "v")).collect();
    let done = World::new().ask("set_memories", notes(&pairs)).await.unwrap();
    assert!(done.outcome.text.len() < 5_000 && done.outcome.text.contains(r#""set_more":"#));
    assert_eq!(done.inward.memories.len(), 400);
}

#[tokio::test]
async fn the_reply_lists_deleted_keys_and_unknown_keys() {
    let mut world = World::new().with_memories(&["a", "b"]);
    world.ask("set_memories", notes(&[("fresh", "x")])).await.unwrap();
    let keys = json!({"keys": ["a", "nope", "fresh", "a", "nope"]});
    let reply = world.reply("delete_memories", keys).await;
    let wanted = json!({"success": true, "deleted": ["a", "fresh"], "not_found": ["nope"], "total": 1});
    assert_eq!(reply, wanted);
    assert_eq!(world.pending.memories, [set("fresh", "x"), delete("a"), delete("fresh")]);
}

#[tokio::test]
async fn the_error_for_unknown_keys_lists_the_existing_ones() {
    let mut world = World::new().with_memories(&["about:husam", "b"]);
    let error = world.refusal("delete_memories", json!({"keys": ["husam"]})).await;
    assert_eq!(error, "no note of yours has the key `husam`; your keys: `about:husam`, `b`");
    let error = World::new().refusal("delete_memories", json!({"keys": ["husam"]})).await;
    assert!(error.ends_with("you keep no notes"), "{error}");
    assert!(world.pending.is_empty());
}
