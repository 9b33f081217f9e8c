//! Promises about alerts: what operators should know of is kept, whoever watched.

use agent::alert::{Alert, AlertKind, Raised};
use agent::event::EventState;
use agent::id::EventId;
use agent::limits;
use agent::port::{AfterFailure, AlertFilter, PageRequest};

use super::Backend;
use super::targets::{fail, of_space};
use super::world::{World, at, service, world};

async fn page(w: &World, filter: AlertFilter, limit: u32) -> Vec<Alert> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = w.b.reader.alerts(filter.clone(), PageRequest { cursor, limit }).await.unwrap();
        assert!(page.items.len() <= limit as usize);
        assert!(page.items.is_sorted_by(|one, other| one.0 > other.0), "newest first");
        all.extend(page.items.into_iter().map(|(_, alert)| alert));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return all,
        }
    }
}

async fn all(w: &World) -> Vec<Alert> {
    page(w, AlertFilter::default(), 2).await
}

fn raised(alert: AlertKind, text: &str) -> Raised {
    Raised { alert, text: text.into() }
}

/// An alert is written with the commit that has it, once, and survives a restart.
pub async fn alerts_are_kept_with_the_commit_in_which_they_happen(b: Backend) {
    let w = world(b).await;
    w.event(w.ada, service("poison")).await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision.alerts = vec![raised(AlertKind::PinMissing, "no pin"), raised(AlertKind::WindowCut, "cut")];
    let cycle = decision.cycle;
    driver.commit(&w, decision.clone()).await;
    w.b.store.commit(driver.lease, decision).await.unwrap();
    let b = w.b.reopened().await.crashed();
    let first = PageRequest { cursor: None, limit: 10 };
    let kept = b.reader.alerts(AlertFilter::default(), first).await.unwrap().items;
    let seen: Vec<_> = kept.iter().map(|(_, alert)| (alert.alert, alert.text.as_str())).collect();
    assert_eq!(seen, [(AlertKind::WindowCut, "cut"), (AlertKind::PinMissing, "no pin")], "once");
    assert!(kept.iter().all(|(_, alert)| (alert.agent, alert.cycle) == (Some(w.ada), Some(cycle))));
}

/// An event that failed for good, an agent that is quarantined, and a target that fails, gives up or is off are alerts.
pub async fn what_ends_for_good_is_an_alert(b: Backend) {
    let w = world(b).await;
    w.event(w.ada, service("poison")).await;
    let mut driver = w.open(w.ada).await;
    let mut end = driver.closing();
    let dead = EventState::Dead { reason: "it broke the model".into() };
    (end.settle, end.run, end.blame) = (driver.settlements(&dead), None, true);
    driver.commit(&w, end).await;
    w.b.store.quarantine(w.bob, "a record is torn".into()).await.unwrap();
    w.b.target_book.put_target(of_space("a", w.family)).await.unwrap();
    for text in ["1", "2"] {
        w.post(w.family, text).await;
    }
    let due = async || w.b.target_book.deliveries_due(at(60_000), 1).await.unwrap().remove(0).1;
    let again = || AfterFailure::Retry(at(20));
    fail(&w, "a", &due().await.id, again()).await;
    fail(&w, "a", &due().await.id, again()).await;
    fail(&w, "a", &due().await.id, AfterFailure::Dead).await;
    fail(&w, "a", &due().await.id, again()).await;
    assert!(w.b.target_book.delivery_arrived(due().await.id, at(70)).await.unwrap(), "it works again");
    w.post(w.family, "3").await;
    assert!(!w.b.target_book.delivery_arrived(due().await.id, at(71)).await.unwrap(), "it worked before");
    let state = w.b.target_book.targets().await.unwrap().remove(0);
    assert_eq!((state.failed_at, state.arrived_at), (None, Some(at(71))));
    w.post(w.family, "4").await;
    fail(&w, "a", &due().await.id, again()).await;
    let state = w.b.target_book.targets().await.unwrap().remove(0);
    assert_eq!((state.failed_at.is_some(), state.attempts), (true, 1));
    fail(&w, "a", &due().await.id, AfterFailure::Off).await;
    let kept = all(&w).await;
    let kinds: Vec<_> = kept.iter().map(|alert| alert.alert).collect();
    use AlertKind::{AgentDamaged, DeliveryDead, EventDead, TargetFailing, TargetOff};
    assert_eq!(
        kinds,
        [TargetOff, TargetFailing, DeliveryDead, TargetFailing, AgentDamaged, EventDead],
        "a further failure is none"
    );
    assert!(
        kept[..4].iter().all(|alert| alert.target.as_deref() == Some("a") && alert.text.contains("down"))
    );
    assert_eq!((kept[4].agent, kept[4].text.as_str()), (Some(w.bob), "a record is torn"));
    let dead = &kept[5];
    assert_eq!((dead.agent, dead.event.clone()), (Some(w.ada), Some(EventId("poison".into()))));
    assert!(dead.text.contains("it broke the model"), "{}", dead.text);
}

/// Of each agent the newest ones are kept, so that one agent pushes out none of another.
pub async fn of_each_agent_the_newest_alerts_are_kept(b: Backend) {
    let w = world(b).await;
    let mut of_bob = w.open(w.bob).await;
    let mut decision = of_bob.decision();
    decision.alerts = vec![raised(AlertKind::HistoryLarge, "bob")];
    of_bob.commit(&w, decision).await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    let texts = (0..limits::ALERTS_KEPT + 3).map(|n| n.to_string());
    decision.alerts = texts.map(|text| raised(AlertKind::WorkspaceFull, &text)).collect();
    decision.alerts.push(raised(AlertKind::PrefixBroken, &"x".repeat(limits::ALERT_TEXT_MAX_CHARS + 1)));
    driver.commit(&w, decision).await;
    let of = |agent| AlertFilter { agent: Some(agent), ..AlertFilter::default() };
    let of_ada = page(&w, of(w.ada), 7).await;
    assert_eq!((of_ada.len(), of_ada[0].text.len()), (limits::ALERTS_KEPT, limits::ALERT_TEXT_MAX_CHARS));
    assert_eq!(of_ada.last().unwrap().text, "4");
    assert_eq!(page(&w, of(w.bob), 7).await[0].text, "bob");
    assert_eq!(all(&w).await.len(), limits::ALERTS_KEPT + 1);
    let kind = AlertFilter { alert: Some(AlertKind::PrefixBroken), ..AlertFilter::default() };
    assert_eq!(page(&w, kind, 7).await.len(), 1);
    let since = |ms| AlertFilter { since: Some(at(ms)), ..AlertFilter::default() };
    assert_eq!(page(&w, since(0), 7).await.len(), limits::ALERTS_KEPT + 1);
    assert_eq!(page(&w, since(i64::from(u32::MAX)), 7).await, []);
}
