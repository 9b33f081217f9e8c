//! `recall` and `read_cycle`: what the model reads of its archive.

use agent::call::Outcome;
use agent::changes::MemoryChange;
use agent::entry::{Entry, EntryKind};
use agent::event::Trust;
use agent::id::{CallId, CycleId};
use agent::limits;
use agent::message::{ModelMessage, Part, Role};
use agent::port::{Excerpt, RecallKind, RecallQuery};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{CYCLE, World, now};

fn excerpt(text: &str) -> Excerpt {
    Excerpt {
        at: now(),
        kind: RecallKind::Inbox,
        cycle: Some(CYCLE),
        key: None,
        space: None,
        space_handle: Some("family".into()),
        trust: Some(Trust::Member),
        text: text.into(),
    }
}

fn entry(seq: u64, kind: EntryKind, role: Role, parts: Vec<Part>) -> Entry {
    let message = ModelMessage { role, parts, native: None };
    Entry { seq, cycle: CYCLE, step: 0, kind, message, tokens: 1, at: now(), trust: Trust::Member }
}

#[tokio::test]
async fn an_excerpt_shows_time_kind_cycle_space_and_trust() {
    let mut world = World::new();
    let memory = Excerpt {
        kind: RecallKind::Memory,
        cycle: None,
        key: Some("boiler".into()),
        space_handle: None,
        ..excerpt("boiler: old")
    };
    world.store.found = vec![excerpt("the boiler leaks"), memory];
    let reply = world.reply("recall", json!({"query": "boiler"})).await;
    let wanted = json!({"found": [
        {"at": "2026-11-21T14:03:05Z", "kind": "inbox", "cycle": CYCLE, "space": "family", "trust": "member",
         "text": "the boiler leaks"},
        {"at": "2026-11-21T14:03:05Z", "kind": "memory", "key": "boiler", "trust": "member", "text": "boiler: old"},
    ]});
    assert_eq!(reply, wanted);
    // A memory that is found is used; what others wrote is trusted as little as the least of them.
    assert_eq!(world.pending.memories, [MemoryChange::Used { key: "boiler".into() }]);
    let done = world.ask("recall", json!({"query": "boiler"})).await.unwrap();
    assert_eq!(done.outcome.trust, Some(Trust::Member));
    world.store.building = true;
    let reply = world.reply("recall", json!({"query": "boiler"})).await;
    assert!(reply["note"].as_str().unwrap().contains("older texts may be missing"));
    assert_eq!(reply["searched"], Value::Null);
    world.store.newest_spaces_only = true;
    let reply = world.reply("recall", json!({"query": "boiler"})).await;
    assert!(reply["searched"].as_str().unwrap().contains("32 most recently active spaces"), "{reply}");
}

#[tokio::test]
async fn a_search_passes_on_its_limits_and_refuses_what_is_no_time() {
    let mut world = World::new();
    let args = json!({"query": "tea", "from": "2026-11-21", "to": "2026-11-22", "space": "family", "kind": "memory"});
    assert_eq!(world.reply("recall", args).await, json!({"found": []}));
    let wanted = RecallQuery {
        text: "tea".into(),
        from: Some("2026-11-21T00:00:00Z".parse().unwrap()),
        to: Some("2026-11-23T00:00:00Z".parse().unwrap()),
        space: Some("family".into()),
        kind: Some(RecallKind::Memory),
        asking: Some(CYCLE),
        limit: limits::RECALL_DEFAULT,
    };
    assert_eq!(*world.store.sought.lock().unwrap(), Some(wanted));
    let error = world.refusal("recall", json!({"query": "tea", "from": "yesterday"})).await;
    assert!(error.contains("wanted a date such as 2026-11-21"), "{error}");
    let error = world.refusal("recall", json!({"query": "x".repeat(1_000_000)})).await;
    assert!(error.contains("too long"), "{error}");
    let attic = json!({"query": "tea", "space": "attic"});
    let error = world.refusal("recall", attic.clone()).await;
    assert!(error.ends_with("got `attic`; you can search: none; leave out `space`"), "{error}");
    world.store.searchable = vec!["family".into(), "team".into()];
    let error = world.refusal("recall", attic).await;
    assert!(error.ends_with("you can search: `family`, `team`"), "{error}");
    for bad in [json!({"query": ""}), json!({}), json!({"query": "x", "kind": "dream"})] {
        world.refusal("recall", bad).await;
    }
}

#[tokio::test]
async fn a_cycle_is_read_without_its_reasoning() {
    let mut world = World::new();
    let (id, name) = (CallId("c".into()), "fetch".to_owned());
    let call = Part::ToolCall { id: id.clone(), name: name.clone(), arguments: r#"{"url":"x"}"#.into() };
    let thought = Part::Reasoning { text: "secret".into() };
    let result = Part::ToolResult { id, name, text: Outcome::ok("200").text, error: false };
    world.store.entries = vec![
        entry(1, EntryKind::Inbox, Role::User, vec![Part::Text { text: "hello".into() }]),
        entry(2, EntryKind::Assistant, Role::Assistant, vec![thought, call]),
        entry(3, EntryKind::Outcomes, Role::Tool, vec![result]),
    ];
    let reply = world.reply("read_cycle", json!({"cycle": CYCLE})).await;
    let texts: Vec<_> = reply["entries"].as_array().unwrap().iter().map(|entry| &entry["text"]).collect();
    assert_eq!(texts, ["hello", "fetch {\"url\":\"x\"}", "fetch: 200"]);
    for named in ["7", " 7 "] {
        assert_eq!(world.reply("read_cycle", json!({"cycle": named})).await, reply, "by its number");
    }
    world.store.entries[2].trust = Trust::Outside;
    let read = world.ask("read_cycle", json!({"cycle": CYCLE})).await.unwrap();
    assert_eq!(read.outcome.trust, Some(Trust::Outside));
    for unknown in [CycleId(Uuid::from_u128(9)).to_string(), "nothing".into(), "8".into(), "-7".into()] {
        let error = world.refusal("read_cycle", json!({"cycle": unknown})).await;
        assert!(error.contains("no such cycle"), "{error}");
    }
}

#[tokio::test]
async fn long_archives_fit_into_an_outcome() {
    let mut world = World::new();
    world.store.found = vec![excerpt(&"\"".repeat(5_000)); 50];
    world.store.entries = (1..=500)
        .map(|seq| entry(seq, EntryKind::Inbox, Role::User, vec![Part::Text { text: "e".repeat(50_000) }]))
        .collect();
    let found = world.ask("recall", json!({"query": "x"})).await.unwrap();
    assert_eq!(found.outcome.shown(), found.outcome.text);
    let read = world.ask("read_cycle", json!({"cycle": CYCLE})).await.unwrap();
    assert_eq!(read.outcome.shown(), read.outcome.text);
    let reply: Value = serde_json::from_str(&read.outcome.text).unwrap();
    assert!(reply["left_out"].as_u64().unwrap() > 400);
}
