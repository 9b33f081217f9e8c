//! Promises about targets and what they are told.

use agent::changes::CommitKind;
use agent::id::SpaceId;
use agent::limits;
use agent::port::{
    AfterFailure, FailedAttempt, FailureNoted, NewsKind, NewsOf, StoredTarget, TargetDelivery,
};
use futures_util::FutureExt as _;
use jiff::Timestamp;
use serde_json::Value;

use super::Backend;
use super::approvals::{asked, plain};
use super::world::{World, at, message_from, world};

fn target(name: &str, of: NewsOf, on: &[NewsKind]) -> StoredTarget {
    StoredTarget {
        name: name.into(),
        url: "https://example.com/in?key=1".into(),
        secrets: vec!["s".into()],
        allow: vec!["127.0.0.1:80".into()],
        on: on.to_vec(),
        of,
        only_if: Some("data.urgent".into()),
        body: Some(serde_json::json!({"text": "{{ data.text }}"})),
        off: None,
        at: at(5),
    }
}

pub(super) fn of_space(name: &str, space: SpaceId) -> StoredTarget {
    target(name, NewsOf::Space(space), &[NewsKind::Message])
}

async fn due(w: &World, ms: i64) -> Vec<(String, TargetDelivery)> {
    let due = w.b.target_book.deliveries_due(at(ms), 10).await.unwrap();
    due.into_iter().map(|(target, delivery)| (target.name, delivery)).collect()
}

fn down(then: AfterFailure) -> FailedAttempt {
    FailedAttempt { why: "down".into(), then, at: at(15) }
}

/// An attempt at that target as it is now fails.
pub(super) async fn fail(w: &World, name: &str, id: &str, then: AfterFailure) {
    let all = w.b.target_book.targets().await.unwrap();
    let target = all.into_iter().map(|state| state.target).find(|target| target.name == name).unwrap();
    let noted = w.b.target_book.delivery_failed(target, id.into(), down(then)).await.unwrap();
    assert_ne!(noted, FailureNoted::Nothing);
}

/// Everything that is due at the end of time, delivered one after the other: what each body says.
async fn all(w: &World) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let due = w.b.target_book.deliveries_due(Timestamp::MAX, 1).await.unwrap();
        let Some((_, delivery)) = due.into_iter().next() else { return all };
        all.push(serde_json::from_str(&delivery.body).unwrap());
        w.b.target_book.delivery_arrived(delivery.id, at(16)).await.unwrap();
    }
}

/// Whether a server outside is told what an agent posts is a fact of that agent, and a change of it a change of its facts:
/// of a space, of the agent wherever it posts, only of messages, and only while it is on.
pub async fn whether_a_server_outside_is_told_is_a_fact_of_the_agents_that_post_there(b: Backend) {
    let w = world(b).await;
    let facts = async || {
        let facts = w.wake(w.ada).await.facts;
        let spaces: Vec<bool> = facts.spaces.iter().map(|space| space.told).collect();
        (facts.rev, facts.told, spaces)
    };
    let looked_up =
        async || w.b.lookup.space(w.ada, w.family.to_string()).await.unwrap().is_some_and(|space| space.told);
    let put = async |target: StoredTarget| w.b.target_book.put_target(target).await.unwrap();
    let (first, told, spaces) = facts().await;
    assert!(!told && spaces.iter().all(|told| !told) && !looked_up().await);
    put(of_space("home", w.family)).await;
    let (second, told, spaces) = facts().await;
    assert!(second > first && !told && looked_up().await);
    assert_eq!(spaces.iter().filter(|told| **told).count(), 1);
    put(StoredTarget { off: Some("gone".into()), ..of_space("home", w.family) }).await;
    let (third, _, spaces) = facts().await;
    assert!(third > second && spaces.iter().all(|told| !told) && !looked_up().await, "it is off");
    put(of_space("home", w.family)).await;
    // The same target is of another agent now.
    put(target("home", NewsOf::Agent(w.ada), &NewsKind::ALL)).await;
    let (fourth, told, spaces) = facts().await;
    assert!(fourth > third && told && spaces.iter().all(|told| !told));
    put(target("home", NewsOf::Agent(w.ada), &[NewsKind::CycleEnded, NewsKind::ApprovalWanted])).await;
    assert!(!facts().await.1, "it is told no messages");
    put(target("home", NewsOf::Agent(w.bob), &NewsKind::ALL)).await;
    assert!(!facts().await.1, "of another agent");
    put(of_space("home", w.family)).await;
    let (before, ..) = facts().await;
    assert!(w.b.target_book.delete_target("home".into()).await.unwrap());
    let (after, told, spaces) = facts().await;
    assert!(after > before && !told && spaces.iter().all(|told| !told));
}

/// Targets and what waits for them survive a restart; a removed one takes its deliveries with it.
pub async fn targets_and_what_waits_for_them_survive_a_restart(b: Backend) {
    let w = world(b).await;
    let of_ada = target("ada", NewsOf::Agent(w.ada), &NewsKind::ALL);
    for one in [of_space("home", w.family), of_ada.clone()] {
        w.b.target_book.put_target(one).await.unwrap();
    }
    w.post(w.family, "hello").await;
    let b = w.b.reopened().await.crashed();
    let states = b.target_book.targets().await.unwrap();
    let seen: Vec<_> = states.iter().map(|state| (state.target.clone(), state.waiting, state.dead)).collect();
    assert_eq!(seen, [(of_ada, 0, 0), (of_space("home", w.family), 1, 0)]);
    let due = b.target_book.deliveries_due(at(60_000), 10).await.unwrap();
    let body: Value = serde_json::from_str(&due[0].1.body).unwrap();
    assert_eq!((due.len(), &body["type"], &body["data"]["text"]), (1, &"message".into(), &"hello".into()));
    assert!(b.target_book.delete_target("home".into()).await.unwrap());
    assert!(!b.target_book.delete_target("home".into()).await.unwrap());
    assert_eq!(b.target_book.deliveries_due(at(60_000), 10).await.unwrap(), []);
}

/// What a target is told is written with what happens: a message with its post, a run with its close, or not at all.
pub async fn a_target_is_told_what_it_asked_for_and_nothing_else(b: Backend) {
    let w = world(b).await;
    let messages = target("messages", NewsOf::Agent(w.ada), &[NewsKind::Message]);
    let cycles = target("cycles", NewsOf::Agent(w.ada), &[NewsKind::CycleEnded]);
    for one in [of_space("team", w.team), messages, cycles, of_space("family", w.family)] {
        w.b.target_book.put_target(one).await.unwrap();
    }
    w.post(w.family, "one").await;
    let stranger = message_from(w.bob.entity(), w.family, "not a member");
    w.accept(stranger).await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    let close = driver.closing();
    assert_eq!(close.kind, CommitKind::Close);
    driver.commit(&w, close).await;
    let told: Vec<(String, String)> = all(&w)
        .await
        .iter()
        .map(|body| {
            let data = &body["data"];
            let what = data["text"].as_str().or(data["ending"].as_str()).unwrap();
            (body["type"].as_str().unwrap().to_owned(), what.to_owned())
        })
        .collect();
    let expected = [("message", "one"), ("cycle.ended", "completed")];
    assert_eq!(told, expected.map(|(kind, what)| (kind.to_owned(), what.to_owned())));
}

/// A call that waits for a person is news of its agent and of the space with its card, once. What the agent wrote in it is no
/// part of the news: nobody has approved that it leaves.
pub async fn a_target_is_told_which_call_waits_for_a_person(b: Backend) {
    let w = world(b).await;
    let on = [NewsKind::ApprovalWanted];
    for (name, of) in [
        ("agent", NewsOf::Agent(w.ada)),
        ("space", NewsOf::Space(w.family)),
        ("other", NewsOf::Space(w.team)),
    ] {
        w.b.target_book.put_target(target(name, of, &on)).await.unwrap();
    }
    let (_, call) = asked(&w, plain).await;
    let told = all(&w).await;
    assert_eq!(told.len(), 2);
    for body in told {
        let data = &body["data"];
        assert_eq!((&body["type"], &data["call"]), (&"approval.wanted".into(), &call.0.clone().into()));
        assert_eq!((&data["agent_handle"], &data["space_handle"]), (&"ada".into(), &"family".into()));
        assert!(data.get("arguments").is_none() && data.get("hash").is_none(), "{data}");
    }
}

/// To one target deliveries go in order, one at a time; one that waits holds back no other target.
pub async fn deliveries_keep_their_order_and_hold_back_no_other_target(b: Backend) {
    let w = world(b).await;
    for name in ["a", "b"] {
        w.b.target_book.put_target(of_space(name, w.family)).await.unwrap();
    }
    for text in ["1", "2", "3"] {
        w.post(w.family, text).await;
    }
    let text = |delivery: &TargetDelivery| {
        let body: Value = serde_json::from_str(&delivery.body).unwrap();
        body["data"]["text"].as_str().unwrap().to_owned()
    };
    let first = due(&w, 20).await;
    assert_eq!(first.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let (id, body) = (first[0].1.id.clone(), first[0].1.body.clone());
    let book = &w.b.target_book;
    fail(&w, "a", &id, AfterFailure::Retry(at(1_000))).await;
    let now = due(&w, 20).await;
    assert_eq!(now.iter().map(|(name, d)| (name.as_str(), text(d))).collect::<Vec<_>>(), [("b", "1".into())]);
    book.delivery_arrived(now[0].1.id.clone(), at(16)).await.unwrap();
    assert_eq!(text(&due(&w, 20).await[0].1), "2");
    let later = due(&w, 1_000).await;
    let again = later.iter().find(|(name, _)| name == "a").unwrap();
    assert_eq!((&again.1.id, &again.1.body, again.1.attempts), (&id, &body, 1));
    assert_eq!(again.1.why.as_deref(), Some("down"));
    let ids: Vec<_> = later.iter().map(|(_, delivery)| delivery.id.clone()).collect();
    assert_ne!(ids[0], ids[1], "each target has ids of its own");
}

/// Who sends learns when the next delivery is due, and that something was committed.
pub async fn it_is_known_when_the_next_delivery_is_due_and_that_there_may_be_one(b: Backend) {
    let w = world(b).await;
    let book = &w.b.target_book;
    for name in ["a", "b", "off"] {
        book.put_target(of_space(name, w.family)).await.unwrap();
    }
    book.committed().await;
    assert!(book.committed().now_or_never().is_none(), "it ended for all that was committed before");
    w.post(w.family, "1").await;
    book.committed().await;
    assert_eq!(book.next_delivery_at(at(20)).await.unwrap(), None, "all are due");
    for (name, delivery) in due(&w, 20).await {
        let then = match name.as_str() {
            "a" => AfterFailure::Retry(at(2_000)),
            "b" => AfterFailure::Retry(at(1_000)),
            _ => AfterFailure::Off,
        };
        fail(&w, &name, &delivery.id, then).await;
    }
    assert_eq!(book.next_delivery_at(at(20)).await.unwrap(), Some(at(1_000)));
    assert_eq!(book.next_delivery_at(at(1_000)).await.unwrap(), Some(at(2_000)));
    assert_eq!(book.next_delivery_at(at(2_000)).await.unwrap(), None);
}

/// A delivery that is given up lets the next one through, is listed, and goes first again when it is retried.
pub async fn a_dead_delivery_is_listed_and_retried_in_its_place(b: Backend) {
    let w = world(b).await;
    w.b.target_book.put_target(of_space("a", w.family)).await.unwrap();
    w.post(w.family, "1").await;
    w.post(w.family, "2").await;
    let book = &w.b.target_book;
    let first = due(&w, 20).await.remove(0).1;
    fail(&w, "a", &first.id, AfterFailure::Dead).await;
    book.delivery_arrived(first.id.clone(), at(16)).await.unwrap();
    let second = due(&w, 20).await.remove(0).1;
    assert_ne!(second.id, first.id);
    let dead = book.dead_deliveries("a".into()).await.unwrap();
    assert_eq!(
        (dead.len(), &dead[0].id, dead[0].attempts),
        (1, &first.id, 1),
        "an old result changes nothing"
    );
    assert_eq!(book.retry_deliveries("a".into(), Some("other".into()), at(30)).await.unwrap(), 0);
    assert_eq!(book.retry_deliveries("a".into(), None, at(30)).await.unwrap(), 1);
    let again = due(&w, 30).await.remove(0).1;
    assert_eq!((again.id, again.body, again.attempts, again.at), (first.id, first.body, 0, at(30)));
    assert_eq!(book.dead_deliveries("a".into()).await.unwrap(), []);
}

/// A target that is off is told nothing more and keeps what waits, until it is put again.
pub async fn a_target_that_is_off_keeps_what_waits_until_it_is_on_again(b: Backend) {
    let w = world(b).await;
    w.b.target_book.put_target(of_space("a", w.family)).await.unwrap();
    w.post(w.family, "1").await;
    let first = due(&w, 20).await.remove(0).1;
    fail(&w, "a", &first.id, AfterFailure::Off).await;
    w.post(w.family, "2").await;
    assert_eq!(due(&w, 60_000).await, []);
    let state = w.b.target_book.targets().await.unwrap().remove(0);
    assert_eq!((state.target.off.as_deref(), state.waiting), (Some("down"), 1));
    w.b.target_book.put_target(of_space("a", w.family)).await.unwrap();
    assert_eq!(due(&w, 20).await[0].1.id, first.id);
    assert_eq!(w.b.target_book.targets().await.unwrap()[0].target.off, None);
}

/// What an attempt at an address says that the target no longer has changes nothing.
pub async fn a_late_answer_of_the_old_address_neither_stops_nor_delays_the_new_one(b: Backend) {
    let w = world(b).await;
    let book = &w.b.target_book;
    let old = of_space("a", w.family);
    book.put_target(old.clone()).await.unwrap();
    w.post(w.family, "1").await;
    let first = due(&w, 20).await.remove(0).1;
    fail(&w, "a", &first.id, AfterFailure::Retry(at(9_000))).await;
    let new = StoredTarget { url: "https://example.com/new".into(), ..old.clone() };
    for now in [new, StoredTarget { at: at(6), ..old.clone() }] {
        book.put_target(now.clone()).await.unwrap();
        for then in [AfterFailure::Off, AfterFailure::Dead, AfterFailure::Retry(at(60_000))] {
            let noted = book.delivery_failed(old.clone(), first.id.clone(), down(then)).await.unwrap();
            assert_eq!(noted, FailureNoted::Nothing);
        }
        let due = book.deliveries_due(at(20), 10).await.unwrap();
        assert_eq!((&due[0].0, &due[0].1.id, due[0].1.attempts), (&now, &first.id, 0));
        assert_eq!(book.targets().await.unwrap()[0].why, None);
    }
}

/// A target for which too many deliveries wait is switched off, with the reason.
pub async fn a_target_with_too_many_deliveries_is_switched_off(b: Backend) {
    let w = world(b).await;
    w.b.target_book.put_target(of_space("a", w.family)).await.unwrap();
    for n in 0..=limits::TARGET_QUEUE_MAX {
        w.post(w.family, &n.to_string()).await;
    }
    let state = w.b.target_book.targets().await.unwrap().remove(0);
    assert_eq!(state.waiting, limits::TARGET_QUEUE_MAX as u64);
    assert!(state.target.off.unwrap().contains("10000 deliveries wait"));
}
