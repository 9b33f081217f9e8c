//! Promises about hooks and their deliveries.

use agent::config::AgentConfig;
use agent::event::{Event, Trust};
use agent::id::{AgentId, EventId};
use agent::life::Standing;
use agent::limits;
use agent::port::{Denial, HookAccepted, HookDelivery, HookOutcome, NewHookDelivery, RequestKey, StoredHook};
use serde_json::{Value, json};

use super::Backend;
use super::world::{agent, at, world, world_with};

fn hook(name: &str, declaration: Value, agents: Vec<AgentId>) -> StoredHook {
    StoredHook { name: name.into(), declaration, agents, at: at(5) }
}

fn delivery(id: &str, agents: &[AgentId]) -> NewHookDelivery {
    let said = (json!({"ring": id}), Trust::Agent);
    let event = Event::of_hook(EventId(format!("hook:{id}")), "bell", said, false, at(6));
    NewHookDelivery {
        hook: "bell".into(),
        delivery: Some(id.into()),
        agents: agents.to_vec(),
        event,
        request: None,
        detail: Some("why".into()),
    }
}

fn refused(n: i64) -> HookDelivery {
    HookDelivery {
        at: at(n),
        delivery: None,
        outcome: HookOutcome::Refused,
        detail: Some("no signature".into()),
        event: None,
        agents: Vec::new(),
    }
}

/// Hooks and the log of their deliveries survive a restart; of two of one name the later stays.
pub async fn hooks_and_their_log_are_kept_and_survive_a_restart(b: Backend) {
    assert_eq!(b.hook_book.hooks().await.unwrap(), []);
    let w = world(b).await;
    let (ada, bob) = (w.ada, w.bob);
    let bell = hook("bell", json!({"n": 2}), vec![bob, ada]);
    for one in [hook("bell", json!({"n": 1}), vec![ada]), hook("z", json!({}), vec![ada]), bell.clone()] {
        w.b.hook_book.put_hook(one).await.unwrap();
    }
    w.b.hook_book.deliver(delivery("1", &[ada, bob])).await.unwrap();
    let b = w.b.reopened().await.crashed();
    assert_eq!(b.hook_book.hooks().await.unwrap(), [bell.clone(), hook("z", json!({}), vec![ada])]);
    assert_eq!(b.hook_book.hook("bell".into()).await.unwrap(), Some(bell));
    let log = b.hook_book.deliveries("bell".into()).await.unwrap();
    assert_eq!((log.len(), log[0].agents.as_slice()), (1, &[ada, bob][..]));
    assert!(b.hook_book.delete_hook("bell".into()).await.unwrap());
    assert!(!b.hook_book.delete_hook("bell".into()).await.unwrap());
    assert_eq!(b.hook_book.hook("bell".into()).await.unwrap(), None);
    assert_eq!(b.hook_book.deliveries("bell".into()).await.unwrap(), []);
    // What it delivered stays known, also for a hook of the same name.
    let again = b.hook_book.deliver(delivery("1", &[ada, bob])).await.unwrap();
    assert_eq!(again, HookAccepted::Duplicate);
}

/// A delivery is one event of each agent, however often it comes; an agent that has none yet gets it.
pub async fn a_delivery_is_one_event_of_each_agent(b: Backend) {
    let w = world(b).await;
    let fresh = w.b.hook_book.deliver(delivery("1", &[w.ada])).await.unwrap();
    let HookAccepted::Fresh { agents, wake } = fresh else { panic!("{fresh:?}") };
    assert_eq!((agents, wake.len()), (vec![w.ada], 1));
    assert_eq!(w.b.hook_book.deliver(delivery("1", &[w.ada])).await.unwrap(), HookAccepted::Duplicate);
    let second = w.b.hook_book.deliver(delivery("1", &[w.ada, w.bob])).await.unwrap();
    assert!(matches!(&second, HookAccepted::Fresh { agents, .. } if *agents == [w.bob]), "{second:?}");
    for agent in [w.ada, w.bob] {
        let waiting = w.wake(agent).await.waiting;
        assert_eq!(waiting.len(), 1);
        assert_eq!(waiting[0].event, delivery("1", &[]).event);
    }
    let log = w.b.hook_book.deliveries("bell".into()).await.unwrap();
    let outcomes: Vec<_> = log.iter().map(|line| (line.outcome, line.agents.len())).collect();
    let expected = [(HookOutcome::Accepted, 1), (HookOutcome::Duplicate, 0), (HookOutcome::Accepted, 1)];
    assert_eq!(outcomes, expected);
    let details: Vec<_> = log.iter().map(|line| line.detail.as_deref()).collect();
    assert_eq!(details, [Some("why"), None, Some("why")], "of those that became events");
}

/// An idempotency key is bound to its body.
pub async fn a_delivery_that_its_sender_names_is_bound_to_its_body(b: Backend) {
    let w = world(b).await;
    let keyed = |id: &str, body: &str| NewHookDelivery {
        request: Some(RequestKey {
            principal: "hook:bell".into(),
            key: "k".into(),
            body_hash: body.into(),
            at: at(0),
        }),
        ..delivery(id, &[w.ada])
    };
    let fresh = w.b.hook_book.deliver(keyed("k", "x")).await.unwrap();
    assert!(matches!(fresh, HookAccepted::Fresh { .. }));
    assert_eq!(w.b.hook_book.deliver(keyed("k", "x")).await.unwrap(), HookAccepted::Duplicate);
    assert_eq!(w.b.hook_book.deliver(keyed("k", "y")).await.unwrap(), HookAccepted::Conflict);
}

/// A retired agent does not keep a delivery from the others, a full inbox keeps it from everybody.
pub async fn a_delivery_passes_by_retired_agents_and_waits_for_room(b: Backend) {
    let config = AgentConfig::from_json(&json!({"limits": {"inbox_max": 10}})).unwrap();
    let w = world_with(b, config).await;
    let cid = agent(&w.b, "cid", AgentConfig::default()).await;
    w.b.registry.set_standing(w.bob, Standing::Retired, at(5)).await.unwrap();
    let denied = w.b.hook_book.deliver(delivery("0", &[w.bob])).await.unwrap();
    assert_eq!(denied, HookAccepted::Denied(Denial::Retired(w.bob)));
    for n in 0..10 {
        let fresh = w.b.hook_book.deliver(delivery(&n.to_string(), &[w.bob, w.ada])).await.unwrap();
        assert!(matches!(&fresh, HookAccepted::Fresh { agents, .. } if *agents == [w.ada]), "{fresh:?}");
    }
    let denied = w.b.hook_book.deliver(delivery("10", &[cid, w.ada])).await.unwrap();
    assert_eq!(denied, HookAccepted::Denied(Denial::InboxFull(w.ada)));
    assert_eq!((w.wake(cid).await.waiting.len(), w.wake(w.ada).await.waiting.len()), (0, 10));
    assert_eq!(w.b.hook_book.deliveries("bell".into()).await.unwrap().len(), 10);
}

/// The log keeps the last deliveries of each outcome: refused ones do not push out accepted ones.
pub async fn the_log_of_a_hook_is_bounded_for_each_outcome(b: Backend) {
    let w = world(b).await;
    w.b.hook_book.deliver(delivery("1", &[w.ada])).await.unwrap();
    for n in 0..limits::HOOK_LOG_MAX as i64 + 3 {
        w.b.hook_book.note_delivery("bell".into(), refused(n)).await.unwrap();
    }
    w.b.hook_book.note_delivery("other".into(), refused(1)).await.unwrap();
    let log = w.b.hook_book.deliveries("bell".into()).await.unwrap();
    assert_eq!(log.len(), limits::HOOK_LOG_MAX + 1);
    assert_eq!(log[0], refused(limits::HOOK_LOG_MAX as i64 + 2));
    assert_eq!(log[limits::HOOK_LOG_MAX - 1], refused(3));
    assert_eq!(log[limits::HOOK_LOG_MAX].outcome, HookOutcome::Accepted);
}
