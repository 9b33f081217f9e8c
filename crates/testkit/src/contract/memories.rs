//! Promises about memories, their order and pins, and about the trust of what is written.

use agent::call::CallRow;
use agent::changes::{CommitKind, CommitOutcome, MemoryChange};
use agent::entry::{Entry, EntryKind};
use agent::event::{Cause, Trust};
use agent::limits;
use agent::memory::{Importance, Memory};
use agent::port::{CycleRef, Denial, RegistryError};
use agent::tool::names;

use super::Backend;
use super::world::{World, at, world};

fn set(key: &str, importance: Option<Importance>, pinned: Option<bool>) -> MemoryChange {
    MemoryChange::Set { key: key.into(), value: format!("about {key}"), importance, pinned, trust: None }
}

async fn memories(w: &World) -> Vec<Memory> {
    w.b.reader.facts(w.ada).await.unwrap().unwrap().memories
}

fn keys(memories: &[Memory]) -> String {
    memories.iter().map(|memory| memory.key.as_str()).collect::<Vec<_>>().join(" ")
}

/// A use is written without a new version; a memory that is gone stays gone.
pub async fn memories_come_in_the_order_of_pin_importance_and_last_use(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision.inward.memories = vec![
        set("low", Some(Importance::Low), None),
        set("normal", None, None),
        set("high", Some(Importance::High), None),
        set("pinned", Some(Importance::Low), Some(true)),
    ];
    driver.commit(&w, decision).await;
    assert_eq!(keys(&memories(&w).await), "pinned high normal low");
    let mut later = driver.changes(CommitKind::Decide);
    later.at = at(2_000);
    later.inward.memories = vec![set("newer", None, Some(false)), MemoryChange::set("high", "changed")];
    driver.commit(&w, later).await;
    assert_eq!(keys(&memories(&w).await), "pinned high newer normal low", "its importance stays");
    let before = w.facts(driver.lease).await.rev;
    let mut found = driver.changes(CommitKind::Decide);
    found.at = at(3_000);
    found.inward.memories = ["normal", "gone"].map(|key| MemoryChange::Used { key: key.into() }).to_vec();
    driver.commit(&w, found).await;
    let now = w.facts(driver.lease).await;
    assert_eq!(keys(&now.memories), "pinned high normal newer low");
    assert!(now.rev > before, "the order is part of the facts");
    let normal = &now.memories[2];
    assert_eq!((normal.updated_at, normal.used_at), (at(1_000), at(3_000)));
    // Deleted and set again, it is a new memory.
    let mut anew = driver.changes(CommitKind::Decide);
    let delete = MemoryChange::Delete { key: "pinned".into() };
    anew.inward.memories = vec![delete, MemoryChange::set("pinned", "anew")];
    driver.commit(&w, anew).await;
    let memories = memories(&w).await;
    let anew = memories.iter().find(|memory| memory.key == "pinned").unwrap();
    assert_eq!((anew.importance, anew.pinned), (Importance::Normal, false));
}

/// The limit is in the message; memories that are not pinned are still accepted.
pub async fn an_operator_pins_as_many_memories_as_always_have_room(b: Backend) {
    let w = world(b).await;
    let change = |change| w.b.registry.change_memory(w.ada, change, at(5));
    for n in 0..limits::PINNED_MEMORIES_MAX {
        let memory = change(set(&format!("k{n}"), None, Some(true))).await.unwrap().unwrap();
        assert!(memory.pinned && memory.trust == Trust::Operator);
    }
    let refused = change(set("one more", None, Some(true))).await;
    let Err(RegistryError::Denied(denial @ Denial::PinnedFull { .. })) = refused else {
        panic!("{refused:?}")
    };
    assert!(denial.to_string().contains("at most 64 pinned notes, these would make 65"), "{denial}");
    change(set("one more", None, None)).await.unwrap();
    let long = MemoryChange::set("k0", "v".repeat(limits::PINNED_MEMORIES_MAX_BYTES));
    let refused = change(long.clone()).await;
    assert!(
        matches!(refused, Err(RegistryError::Denied(Denial::PinnedFull { .. }))),
        "it is pinned: {refused:?}"
    );
    assert!(!change(set("k0", None, Some(false))).await.unwrap().unwrap().pinned);
    change(long).await.unwrap();
    change(set("one more", None, Some(true))).await.unwrap();
    assert_eq!(change(MemoryChange::Delete { key: "k1".into() }).await.unwrap(), None);
}

/// The call is refused with the limit, and nothing is written. Other notes are still accepted.
pub async fn an_agent_and_an_operator_together_pin_no_more_than_always_has_room(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    for n in 0..limits::PINNED_MEMORIES_MAX {
        w.b.registry.change_memory(w.ada, set(&format!("k{n}"), None, Some(true)), at(5)).await.unwrap();
    }
    let mut decision = driver.decision();
    decision.calls = vec![driver.call(0), CallRow { tool: names::SET_MEMORIES.into(), ..driver.call(1) }];
    decision.inward.memories = vec![set("one more", None, Some(true))];
    let CommitOutcome::Refused(refusals) = w.commit(driver.lease, decision.clone()).await else {
        panic!("wanted a refusal")
    };
    assert_eq!((refusals.len(), &refusals[0].call), (1, &driver.call(1).id));
    let reason = &refusals[0].reason;
    assert!(reason.contains("wanted at most 64 pinned notes, these would make 65"), "{reason}");
    assert_eq!(memories(&w).await.len(), limits::PINNED_MEMORIES_MAX);
    decision.inward.memories = vec![set("one more", None, None), set("k0", None, Some(false))];
    driver.commit(&w, decision).await;
    assert_eq!(memories(&w).await.len(), limits::PINNED_MEMORIES_MAX + 1);
}

/// What an operator writes has the highest, what an agent writes that of its cycle.
pub async fn entries_and_memories_keep_their_trust(b: Backend) {
    let w = world(b).await;
    w.b.registry.change_memory(w.ada, MemoryChange::set("k", "by an operator"), at(5)).await.unwrap();
    assert_eq!(memories(&w).await[0].trust, Trust::Operator);
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    let entry = |ahead, kind, trust| Entry { trust, ..driver.entry(ahead, kind, "text") };
    let all = [Trust::Operator, Trust::Outside, Trust::Agent, Trust::Member];
    decision.entries = (1..).zip(all).map(|(ahead, trust)| entry(ahead, EntryKind::Notice, trust)).collect();
    decision.inward.memories = vec![MemoryChange::set("k", "by the agent")];
    decision.cause = Cause { trust: Trust::Agent, ..Cause::default() };
    driver.commit(&w, decision).await;
    let written = w.b.lookup.cycle(w.ada, CycleRef::Id(driver.open.id)).await.unwrap();
    assert_eq!(written.iter().map(|entry| entry.trust).collect::<Vec<_>>(), all);
    assert_eq!(memories(&w).await[0].trust, Trust::Agent);
}

/// A copy is worth what was copied, and nobody makes a text worth more than themselves.
pub async fn a_copied_memory_keeps_its_trust(b: Backend) {
    let w = world(b).await;
    let copy = |key: &str, trust| match MemoryChange::set(key, "as it was") {
        MemoryChange::Set { key, value, importance, pinned, .. } => {
            MemoryChange::Set { key, value, importance, pinned, trust: Some(trust) }
        }
        other => other,
    };
    let all = [Trust::Outside, Trust::Agent, Trust::Member, Trust::Operator];
    for (n, trust) in all.into_iter().enumerate() {
        let change = w.b.registry.change_memory(w.ada, copy(&format!("k{n}"), trust), at(5)).await;
        assert_eq!(change.unwrap().unwrap().trust, trust);
    }
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision.inward.memories = vec![copy("k0", Trust::Operator)];
    decision.cause = Cause { trust: Trust::Agent, ..Cause::default() };
    driver.commit(&w, decision).await;
    let now = memories(&w).await;
    let k0 = now.iter().find(|memory| memory.key == "k0").unwrap();
    assert_eq!(k0.trust, Trust::Agent, "an agent cannot vouch for itself");
}
