//! Promises about what operators do with single events: cancel them, send them again, drop them.

use agent::changes::CommitKind;
use agent::event::{EventProgress, EventState, Trust};
use agent::id::{EventId, RootId};
use agent::life::Standing;
use agent::port::{DeadEvents, Denial, InboxFilter, RegistryError, RequestKey, SentAgain, Wakeup};

use super::Backend;
use super::world::{World, at, everything, message_from, service, world};

fn denied<T: std::fmt::Debug>(result: Result<T, RegistryError>) -> Denial {
    match result {
        Err(RegistryError::Denied(denial)) => denial,
        other => panic!("wanted a denial, got {other:?}"),
    }
}

fn id(text: &str) -> EventId {
    EventId(text.into())
}

impl World {
    /// Closes a cycle with all of Ada's waiting events and gives each event this state.
    async fn close_with(&self, state: EventState) {
        let mut driver = self.open(self.ada).await;
        let mut end = driver.closing();
        (end.settle, end.run) = (driver.settlements(&state), None);
        end.blame = matches!(state, EventState::Dead { .. });
        driver.commit(self, end).await;
    }

    async fn send_again(
        &self,
        event: &str,
        anew: &str,
        key: Option<RequestKey>,
    ) -> Result<SentAgain, RegistryError> {
        self.b.registry.send_again(self.ada, id(event), id(anew), key, at(900)).await
    }

    pub(super) async fn waiting_count(&self) -> u32 {
        self.b.reader.agent(self.ada).await.unwrap().unwrap().waiting
    }
}

fn dead() -> EventState {
    EventState::Dead { reason: "it broke the model".into() }
}

/// It waits as if it had just arrived, but keeps its number.
pub async fn a_dead_event_is_sent_again_with_its_attempts_reset(b: Backend) {
    let w = world(b).await;
    w.event(w.ada, service("poison")).await;
    w.close_with(dead()).await;
    assert_eq!((w.due(9_000).await, w.waiting_count().await), (vec![], 0));
    let row = w.b.reader.event(w.ada, id("poison")).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempts), (dead(), 1), "the attempts are still shown");
    let sent = w.send_again("poison", "unused", None).await.unwrap();
    assert_eq!(sent, SentAgain::Waits(Some(Wakeup { agent: w.ada, at: at(900), urgent: false })));
    assert_eq!((w.due(900).await, w.waiting_count().await), (vec![w.ada], 1));
    let activation = w.b.store.wake(w.ada, at(900), None).await.unwrap().unwrap();
    assert_eq!((activation.waiting[0].seq, activation.waiting[0].attempts), (1, 0));
    assert_eq!(activation.waiting[0].event, service("poison"));
    assert_eq!(w.state(w.ada, "poison").await, "waiting");
    assert_eq!(w.b.reader.totals().await.unwrap().dead, 0);
    let twice = denied(w.send_again("poison", "unused", None).await);
    let wanted = "dead, held, processed or skipped";
    assert_eq!(twice, Denial::EventState { event: id("poison"), state: "waiting", wanted });
    let nothing = denied(w.send_again("nothing", "unused", None).await);
    assert_eq!(nothing, Denial::NotFound { what: "event", name: "nothing".into() });
}

/// The first event is unchanged. The second has its content and origin, and a new id.
pub async fn a_processed_or_skipped_event_is_sent_again_as_a_new_event_that_cites_it(b: Backend) {
    let w = world(b).await;
    let said = message_from(w.husam, w.family, "hello");
    let name = said.id.to_string();
    w.accept(said).await;
    w.close_with(EventState::Skipped { reason: None, cycle: None }).await;
    let sent = w.send_again(&name, "anew", None).await.unwrap();
    assert_eq!(sent, SentAgain::AsNew(id("anew"), Some(Wakeup { agent: w.ada, at: at(900), urgent: false })));
    assert_eq!(w.state(w.ada, &name).await, "skipped");
    let waiting = w.b.store.wake(w.ada, at(900), None).await.unwrap().unwrap().waiting;
    assert_eq!(waiting[0].event.cites, Some(id(&name)));
    assert_eq!((waiting[0].text(), waiting[0].event.at), ("hello", at(900)));
    let old = w.b.reader.event(w.ada, id(&name)).await.unwrap().unwrap();
    assert_eq!((&waiting[0].event.envelope, &waiting[0].event.data), (&old.event.envelope, &old.event.data));
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    assert!(matches!(w.send_again("anew", "third", None).await.unwrap(), SentAgain::AsNew(..)));
    assert_eq!(w.b.reader.event(w.ada, id("third")).await.unwrap().unwrap().event.cites, Some(id("anew")));
}

/// With the reason of the one that arrived last, until an operator retries or drops them.
pub async fn an_agent_lists_how_many_of_its_events_are_dead_and_why(b: Backend) {
    let w = world(b).await;
    let listed = async || w.b.reader.agent(w.ada).await.unwrap().unwrap().dead;
    assert_eq!(listed().await, None);
    w.event(w.ada, service("first")).await;
    w.event(w.ada, service("second")).await;
    let mut driver = w.open(w.ada).await;
    let mut end = driver.closing();
    let because = |reason: &str| EventState::Dead { reason: reason.into() };
    end.settle = driver.settlements(&because("the newer reason"));
    end.settle[0].state = because("the older reason");
    end.run = None;
    let (_, reported) = driver.commit(&w, end).await;
    let reasons: Vec<_> = reported.progress.into_iter().map(|moved| (moved.progress, moved.reason)).collect();
    let dead = |reason: &str| (EventProgress::Dead, Some(reason.to_owned()));
    assert_eq!(reasons, [dead("the older reason"), dead("the newer reason")]);
    let both = DeadEvents { count: 2, last: id("second"), reason: "the newer reason".into() };
    assert_eq!(listed().await, Some(both));
    w.b.registry.drop_event(w.ada, id("second")).await.unwrap();
    let one = DeadEvents { count: 1, last: id("first"), reason: "the older reason".into() };
    assert_eq!(listed().await, Some(one));
    w.send_again("first", "unused", None).await.unwrap();
    assert_eq!(listed().await, None);
}

/// Even if the state of the event has changed meanwhile.
pub async fn a_request_key_sends_an_event_again_once(b: Backend) {
    let w = world(b).await;
    let key = |body: &str| {
        Some(RequestKey { principal: "admin".into(), key: "k-1".into(), body_hash: body.into(), at: at(0) })
    };
    w.event(w.ada, service("poison")).await;
    w.close_with(dead()).await;
    assert!(matches!(w.send_again("poison", "anew", key("a")).await.unwrap(), SentAgain::Waits(_)));
    w.close_with(EventState::Skipped { reason: None, cycle: None }).await;
    let before = w.send_again("poison", "anew", key("a")).await.unwrap();
    assert_eq!((before, w.waiting_count().await), (SentAgain::Repeated(id("poison")), 0));
    assert_eq!(w.send_again("other", "anew", key("b")).await.unwrap(), SentAgain::Conflict);
    let other = key("c").map(|key| RequestKey { key: "k-2".into(), ..key });
    assert!(matches!(w.send_again("poison", "anew", other.clone()).await.unwrap(), SentAgain::AsNew(..)));
    let before = w.send_again("poison", "anew", other).await.unwrap();
    assert_eq!((before, w.waiting_count().await), (SentAgain::Repeated(id("anew")), 1));
}

/// Its row keeps the state forever, and its id is still recognized.
pub async fn a_dropped_event_keeps_its_row_and_is_never_accepted_again(b: Backend) {
    let w = world(b).await;
    w.event(w.ada, service("poison")).await;
    let waits = denied(w.b.registry.drop_event(w.ada, id("poison")).await);
    assert_eq!(waits, Denial::EventState { event: id("poison"), state: "waiting", wanted: "dead" });
    w.close_with(dead()).await;
    w.b.registry.drop_event(w.ada, id("poison")).await.unwrap();
    assert_eq!(w.state(w.ada, "poison").await, "dropped");
    assert!(matches!(
        denied(w.send_again("poison", "anew", None).await),
        Denial::EventState { state: "dropped", .. }
    ));
    assert_eq!(w.event(w.ada, service("poison")).await, agent::port::Accepted::Duplicate { message: None });
    assert_eq!(w.due(9_000).await, []);
}

/// Once a cycle has taken the event, only the cycle can be canceled.
pub async fn a_waiting_event_can_be_canceled_and_a_taken_one_cannot(b: Backend) {
    let w = world(b).await;
    w.event(w.ada, service("a")).await;
    w.event(w.ada, service("b")).await;
    w.b.registry.cancel_event(w.ada, id("a")).await.unwrap();
    assert_eq!((w.state(w.ada, "a").await, w.waiting_count().await), ("canceled", 1));
    assert_eq!(w.due(1_000).await, [w.ada], "the other one still waits");
    let gone = denied(w.b.registry.cancel_event(w.ada, id("a")).await);
    let wanted = "waiting or held";
    assert_eq!(gone, Denial::EventState { event: id("a"), state: "canceled", wanted });
    let driver = w.open(w.ada).await;
    let taken = denied(w.b.registry.cancel_event(w.ada, id("b")).await);
    assert_eq!(taken, Denial::EventTaken { event: id("b"), cycle: driver.open.id });
    w.event(w.ada, service("c")).await;
    w.b.registry.cancel_event(w.ada, id("c")).await.unwrap();
    assert_eq!(w.due(1_000).await, [w.ada], "an open cycle is due by itself");
    let activation = w.wake(w.ada).await;
    assert_eq!(activation.waiting.iter().map(|w| w.event.id.0.as_str()).collect::<Vec<_>>(), ["b"]);
    w.event(w.bob, service("alone")).await;
    w.b.registry.cancel_event(w.bob, id("alone")).await.unwrap();
    assert_eq!(w.due(1_000).await, [w.ada], "nothing waits for Bob");
    // An opening that still lists the canceled event is based on an outdated inbox.
    w.event(w.bob, service("late")).await;
    let activation = w.wake(w.bob).await;
    w.b.registry.cancel_event(w.bob, id("late")).await.unwrap();
    let driver = super::world::CycleDriver::about_to_open(w.bob, &activation);
    let open = driver.changes(CommitKind::Open);
    assert_eq!(w.commit(driver.lease, open).await, agent::changes::CommitOutcome::Lost);
}

/// Except for the events of an open cycle, which are canceled with the cycle.
pub async fn waiting_events_of_a_retiring_agent_are_canceled(b: Backend) {
    let w = world(b).await;
    w.event(w.ada, service("taken")).await;
    let mut driver = w.open(w.ada).await;
    w.event(w.ada, service("waiting")).await;
    for n in 1..=9 {
        let mut message = message_from(w.bob.entity(), w.team, &format!("reply {n}"));
        (message.root, message.hop, message.trust) = (RootId("one root".into()), n, Trust::Agent);
        w.accept(message).await;
    }
    w.b.registry.set_standing(w.ada, Standing::Retired, at(50)).await.unwrap();
    let reported = EventState::Canceled { reason: Some("the agent is retired".into()) };
    let rows = async || w.b.reader.inbox(w.ada, InboxFilter::default(), everything()).await.unwrap().items;
    let canceled: Vec<bool> = rows().await.iter().rev().map(|row| row.state == reported).collect();
    assert_eq!(canceled, [&[false][..], &[true; 10]].concat());
    let card = w.b.reader.agent(w.ada).await.unwrap().unwrap();
    assert_eq!((card.waiting, card.held), (1, 0));
    let mut end = driver.canceled();
    end.settle = driver.settlements(&EventState::Canceled { reason: None });
    driver.commit(&w, end).await;
    assert_eq!((w.waiting_count().await, w.due(99_000).await), (0, vec![]));
    assert!(rows().await.iter().all(|row| matches!(row.state, EventState::Canceled { .. })));
}

/// An event waits, is taken by a cycle, is shown at a step, and is then addressed or only read.
pub async fn the_progress_of_an_event_is_reported_at_each_step(b: Backend) {
    let w = world(b).await;
    let (asked, aside) =
        (message_from(w.husam, w.team, "what now?"), message_from(w.husam, w.family, "by the way"));
    let (first, second) = (id(&asked.id.to_string()), id(&aside.id.to_string()));
    w.accept(asked).await;
    w.accept(aside).await;
    let row = async |event: &EventId| w.b.reader.event(w.ada, event.clone()).await.unwrap().unwrap();
    assert_eq!((row(&first).await.progress, row(&first).await.cycle), (EventProgress::Waiting, None));
    let activation = w.wake(w.ada).await;
    let mut driver = super::world::CycleDriver::about_to_open(w.ada, &activation);
    let opening = driver.changes(CommitKind::Open);
    let reported =
        |notifications: agent::changes::Notifications| -> Vec<(EventId, EventProgress, Option<u32>)> {
            notifications
                .progress
                .into_iter()
                .map(|moved| (moved.event, moved.progress, moved.step))
                .collect()
        };
    let both = |progress, step| vec![(first.clone(), progress, step), (second.clone(), progress, step)];
    assert_eq!(reported(driver.commit(&w, opening).await.1), both(EventProgress::Taken, None));
    let cycle = driver.open.id;
    assert_eq!((row(&first).await.progress, row(&first).await.cycle), (EventProgress::Taken, Some(cycle)));
    assert_eq!(
        (row(&first).await.ordinal, row(&first).await.step),
        (Some(1), Some(0)),
        "the number that its run will have"
    );
    let decision = driver.decision();
    assert_eq!(reported(driver.commit(&w, decision).await.1), both(EventProgress::Shown, Some(0)));
    let shown = row(&first).await;
    assert_eq!((shown.progress, shown.cycle, shown.ordinal), (EventProgress::Shown, Some(cycle), Some(1)));
    let mut answer = driver.changes(CommitKind::Decide);
    answer.inward.messages = vec![driver.message(0, w.team, "this")];
    answer.calls = vec![driver.call(0)];
    let addressed = vec![(first.clone(), EventProgress::Addressed, Some(0))];
    assert_eq!(reported(driver.commit(&w, answer).await.1), addressed);
    assert_eq!(
        (row(&first).await.progress, row(&second).await.progress),
        (EventProgress::Addressed, EventProgress::Shown)
    );
    let closing = driver.closing();
    assert_eq!(
        reported(driver.commit(&w, closing).await.1),
        [(second.clone(), EventProgress::Read, Some(0))]
    );
    assert_eq!(
        (row(&first).await.progress, row(&second).await.progress),
        (EventProgress::Addressed, EventProgress::Read)
    );
    // A message that was posted before the agent saw an event does not answer it.
    w.post(w.team, "and then?").await;
    let mut driver = w.open(w.ada).await;
    let mut early = driver.changes(CommitKind::Decide);
    early.inward.messages = vec![driver.message(0, w.team, "still about the first")];
    early.calls = vec![driver.call(0)];
    early.open = Some(agent::life::OpenCycle { decided: true, step: 1, ..driver.open.clone() });
    driver.commit(&w, early).await;
    let mut later = driver.changes(CommitKind::Decide);
    later.settle = driver.settlements(&EventState::Processed { cycle: driver.open.id, step: 1 });
    later.open.as_mut().unwrap().listed.clone_from(&driver.open.taken);
    driver.commit(&w, later).await;
    let rows = w.b.reader.inbox(w.ada, InboxFilter::default(), everything()).await.unwrap().items;
    assert_eq!((rows[0].progress, rows[0].ordinal), (EventProgress::Shown, Some(2)));
    // Events that the agent marks as handled become addressed, but only those of its own cycle.
    let mut named = driver.changes(CommitKind::Settle);
    named.addressed = [rows[0].seq, rows[1].seq, 999].map(agent::changes::EventRef::Seq).to_vec();
    driver.commit(&w, named).await;
    let rows = w.b.reader.inbox(w.ada, InboxFilter::default(), everything()).await.unwrap().items;
    assert_eq!((rows[0].progress, rows[1].progress), (EventProgress::Addressed, EventProgress::Read));
}
