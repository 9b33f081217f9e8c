//! What operators may do with single events: take them back, send them again, give them up.

use agent::changes::CommitKind;
use agent::event::{EventProgress, EventState, Trust};
use agent::id::{CredentialId, EventId, RootId};
use agent::life::Standing;
use agent::port::{Denial, RegistryError, RequestKey, SentAgain, Wakeup};

use super::Backend;
use super::world::{World, at, everything, saying, service, world};

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
    /// Ends a cycle over all that waits of Ada, with that fate for each event.
    async fn ends(&self, state: EventState) {
        let mut living = self.open(self.ada).await;
        let mut end = living.closing();
        (end.settle, end.run) = (living.settled(&state), None);
        end.blame = matches!(state, EventState::Dead { .. });
        living.done(self, end).await;
    }

    async fn again(
        &self,
        event: &str,
        anew: &str,
        key: Option<RequestKey>,
    ) -> Result<SentAgain, RegistryError> {
        self.b.registry.send_again(self.ada, id(event), id(anew), key, at(900)).await
    }

    pub(super) async fn waiting(&self) -> u32 {
        self.b.reader.agent(self.ada).await.unwrap().unwrap().waiting
    }
}

fn dead() -> EventState {
    EventState::Dead { reason: "it broke the model".into() }
}

/// It waits as if it had just come, in its old place.
pub async fn a_dead_event_is_sent_again_and_its_attempts_begin_anew(b: Backend) {
    let w = world(b).await;
    w.event(w.ada, service("poison")).await;
    w.ends(dead()).await;
    assert_eq!((w.due(9_000).await, w.waiting().await), (vec![], 0));
    let row = w.b.reader.event(w.ada, id("poison")).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempts), (dead(), 1), "how often it was tried is still told");
    let sent = w.again("poison", "unused", None).await.unwrap();
    assert_eq!(sent, SentAgain::Waits(Some(Wakeup { agent: w.ada, at: at(900), urgent: false })));
    assert_eq!((w.due(900).await, w.waiting().await), (vec![w.ada], 1));
    let activation = w.b.store.wake(w.ada, at(900), None).await.unwrap().unwrap();
    assert_eq!((activation.waiting[0].seq, activation.waiting[0].attempts), (1, 0));
    assert_eq!(activation.waiting[0].event, service("poison"));
    assert_eq!(w.state(w.ada, "poison").await, "waiting");
    assert_eq!(w.b.reader.totals().await.unwrap().dead, 0);
    let twice = denied(w.again("poison", "unused", None).await);
    let wanted = "dead, held, processed or skipped";
    assert_eq!(twice, Denial::EventState { event: id("poison"), state: "waiting", wanted });
    let nothing = denied(w.again("nothing", "unused", None).await);
    assert_eq!(nothing, Denial::NotFound { what: "event", name: "nothing".into() });
}

/// The first stays as it was; the second has its content, its origin and a name of its own.
pub async fn a_lived_or_skipped_event_is_sent_again_as_one_that_cites_it(b: Backend) {
    let w = world(b).await;
    let said = saying(w.husam, w.family, "hello");
    let name = said.id.to_string();
    w.accept(said).await;
    w.ends(EventState::Skipped { reason: None }).await;
    let sent = w.again(&name, "anew", None).await.unwrap();
    assert_eq!(sent, SentAgain::Anew(id("anew"), Some(Wakeup { agent: w.ada, at: at(900), urgent: false })));
    assert_eq!(w.state(w.ada, &name).await, "skipped");
    let waiting = w.b.store.wake(w.ada, at(900), None).await.unwrap().unwrap().waiting;
    assert_eq!(waiting[0].event.cites, Some(id(&name)));
    assert_eq!((waiting[0].words(), waiting[0].event.at), ("hello", at(900)));
    let old = w.b.reader.event(w.ada, id(&name)).await.unwrap().unwrap();
    assert_eq!((&waiting[0].event.envelope, &waiting[0].event.data), (&old.event.envelope, &old.event.data));
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    assert!(matches!(w.again("anew", "third", None).await.unwrap(), SentAgain::Anew(..)));
    assert_eq!(w.b.reader.event(w.ada, id("third")).await.unwrap().unwrap().event.cites, Some(id("anew")));
}

/// Whatever became of the event meanwhile.
pub async fn a_request_key_sends_an_event_again_once(b: Backend) {
    let w = world(b).await;
    let key = |body: &str| {
        let credential = CredentialId(uuid::Uuid::from_u128(9));
        Some(RequestKey { credential, key: "k-1".into(), body_hash: body.into() })
    };
    w.event(w.ada, service("poison")).await;
    w.ends(dead()).await;
    assert!(matches!(w.again("poison", "anew", key("a")).await.unwrap(), SentAgain::Waits(_)));
    w.ends(EventState::Skipped { reason: None }).await;
    let before = w.again("poison", "anew", key("a")).await.unwrap();
    assert_eq!((before, w.waiting().await), (SentAgain::Before(id("poison")), 0));
    assert_eq!(w.again("other", "anew", key("b")).await.unwrap(), SentAgain::Conflict);
    let other = key("c").map(|key| RequestKey { key: "k-2".into(), ..key });
    assert!(matches!(w.again("poison", "anew", other.clone()).await.unwrap(), SentAgain::Anew(..)));
    let before = w.again("poison", "anew", other).await.unwrap();
    assert_eq!((before, w.waiting().await), (SentAgain::Before(id("anew")), 1));
}

/// Its row says so for ever, and its id is still known.
pub async fn a_dropped_event_keeps_its_row_and_never_comes_back(b: Backend) {
    let w = world(b).await;
    w.event(w.ada, service("poison")).await;
    let waits = denied(w.b.registry.drop_event(w.ada, id("poison")).await);
    assert_eq!(waits, Denial::EventState { event: id("poison"), state: "waiting", wanted: "dead" });
    w.ends(dead()).await;
    w.b.registry.drop_event(w.ada, id("poison")).await.unwrap();
    assert_eq!(w.state(w.ada, "poison").await, "dropped");
    assert!(matches!(
        denied(w.again("poison", "anew", None).await),
        Denial::EventState { state: "dropped", .. }
    ));
    assert_eq!(w.event(w.ada, service("poison")).await, agent::port::Accepted::Duplicate { message: None });
    assert_eq!(w.due(9_000).await, []);
}

/// Until a cycle takes it; then the cycle is what can be canceled.
pub async fn a_waiting_event_is_taken_back_and_a_taken_one_is_not(b: Backend) {
    let w = world(b).await;
    w.event(w.ada, service("a")).await;
    w.event(w.ada, service("b")).await;
    w.b.registry.cancel_event(w.ada, id("a")).await.unwrap();
    assert_eq!((w.state(w.ada, "a").await, w.waiting().await), ("canceled", 1));
    assert_eq!(w.due(1_000).await, [w.ada], "the other one still waits");
    let gone = denied(w.b.registry.cancel_event(w.ada, id("a")).await);
    let wanted = "waiting or held";
    assert_eq!(gone, Denial::EventState { event: id("a"), state: "canceled", wanted });
    let living = w.open(w.ada).await;
    let taken = denied(w.b.registry.cancel_event(w.ada, id("b")).await);
    assert_eq!(taken, Denial::EventTaken { event: id("b"), cycle: living.open.id });
    w.event(w.ada, service("c")).await;
    w.b.registry.cancel_event(w.ada, id("c")).await.unwrap();
    assert_eq!(w.due(1_000).await, [w.ada], "an open cycle is due by itself");
    let activation = w.wake(w.ada).await;
    assert_eq!(activation.waiting.iter().map(|w| w.event.id.0.as_str()).collect::<Vec<_>>(), ["b"]);
    w.event(w.bob, service("alone")).await;
    w.b.registry.cancel_event(w.bob, id("alone")).await.unwrap();
    assert_eq!(w.due(1_000).await, [w.ada], "nothing waits for the other one");
    // Whoever read it while it waited opens on an outdated inbox.
    w.event(w.bob, service("late")).await;
    let activation = w.wake(w.bob).await;
    w.b.registry.cancel_event(w.bob, id("late")).await.unwrap();
    let living = super::world::Living::about_to_open(w.bob, &activation);
    let open = living.changes(CommitKind::Open);
    assert_eq!(w.commit(living.lease, open).await, agent::changes::CommitOutcome::Lost);
}

/// With its agent, but for what an open cycle has taken: that goes with the cycle.
pub async fn what_waits_for_an_agent_that_retires_is_taken_back(b: Backend) {
    let w = world(b).await;
    w.event(w.ada, service("in hand")).await;
    let mut living = w.open(w.ada).await;
    w.event(w.ada, service("behind it")).await;
    for n in 1..=9 {
        let mut message = saying(w.bob.entity(), w.team, &format!("reply {n}"));
        (message.root, message.hop, message.trust) = (RootId("one root".into()), n, Trust::Agent);
        w.accept(message).await;
    }
    w.b.registry.set_standing(w.ada, Standing::Retired, at(50)).await.unwrap();
    let told = EventState::Canceled { reason: Some("the agent is retired".into()) };
    let rows = async || w.b.reader.inbox(w.ada, None, everything()).await.unwrap().items;
    let taken_back: Vec<bool> = rows().await.iter().rev().map(|row| row.state == told).collect();
    assert_eq!(taken_back, [&[false][..], &[true; 10]].concat());
    let card = w.b.reader.agent(w.ada).await.unwrap().unwrap();
    assert_eq!((card.waiting, card.held), (1, 0));
    let mut end = living.canceled();
    end.settle = living.settled(&EventState::Canceled { reason: None });
    living.done(&w, end).await;
    assert_eq!((w.waiting().await, w.due(99_000).await), (0, vec![]));
    assert!(rows().await.iter().all(|row| matches!(row.state, EventState::Canceled { .. })));
}

/// From waiting to the answer: taken by a cycle, shown at a step, addressed or only read.
pub async fn how_far_an_event_has_come_is_told_at_each_step(b: Backend) {
    let w = world(b).await;
    let (asked, aside) = (saying(w.husam, w.team, "what now?"), saying(w.husam, w.family, "by the way"));
    let (first, second) = (id(&asked.id.to_string()), id(&aside.id.to_string()));
    w.accept(asked).await;
    w.accept(aside).await;
    let row = async |event: &EventId| w.b.reader.event(w.ada, event.clone()).await.unwrap().unwrap();
    assert_eq!((row(&first).await.progress, row(&first).await.cycle), (EventProgress::Waiting, None));
    let activation = w.wake(w.ada).await;
    let mut living = super::world::Living::about_to_open(w.ada, &activation);
    let opening = living.changes(CommitKind::Open);
    let told = |echo: agent::changes::Notifications| -> Vec<(EventId, EventProgress, Option<u32>)> {
        echo.stages.into_iter().map(|staged| (staged.event, staged.progress, staged.step)).collect()
    };
    let both = |progress, step| vec![(first.clone(), progress, step), (second.clone(), progress, step)];
    assert_eq!(told(living.done(&w, opening).await.1), both(EventProgress::Taken, None));
    let cycle = living.open.id;
    assert_eq!((row(&first).await.progress, row(&first).await.cycle), (EventProgress::Taken, Some(cycle)));
    assert_eq!(
        (row(&first).await.ordinal, row(&first).await.step),
        (Some(1), Some(0)),
        "as its run will have it"
    );
    let decision = living.decision();
    assert_eq!(told(living.done(&w, decision).await.1), both(EventProgress::Shown, Some(0)));
    let shown = row(&first).await;
    assert_eq!((shown.progress, shown.cycle, shown.ordinal), (EventProgress::Shown, Some(cycle), Some(1)));
    let mut answer = living.changes(CommitKind::Decide);
    answer.inward.messages = vec![living.says(0, w.team, "this")];
    answer.calls = vec![living.call(0)];
    let addressed = vec![(first.clone(), EventProgress::Addressed, Some(0))];
    assert_eq!(told(living.done(&w, answer).await.1), addressed);
    assert_eq!(
        (row(&first).await.progress, row(&second).await.progress),
        (EventProgress::Addressed, EventProgress::Shown)
    );
    let closing = living.closing();
    assert_eq!(told(living.done(&w, closing).await.1), [(second.clone(), EventProgress::Read, Some(0))]);
    assert_eq!(
        (row(&first).await.progress, row(&second).await.progress),
        (EventProgress::Addressed, EventProgress::Read)
    );
    // What was said before an event was seen does not answer it.
    w.say(w.team, "and then?").await;
    let mut living = w.open(w.ada).await;
    let mut early = living.changes(CommitKind::Decide);
    early.inward.messages = vec![living.says(0, w.team, "still about the first")];
    early.calls = vec![living.call(0)];
    early.open = Some(agent::life::OpenCycle { decided: true, step: 1, ..living.open.clone() });
    living.done(&w, early).await;
    let mut later = living.changes(CommitKind::Decide);
    later.settle = living.settled(&EventState::Processed { cycle: living.open.id, step: 1 });
    later.open.as_mut().unwrap().listed.clone_from(&living.open.taken);
    living.done(&w, later).await;
    let rows = w.b.reader.inbox(w.ada, None, everything()).await.unwrap().items;
    assert_eq!((rows[0].progress, rows[0].ordinal), (EventProgress::Shown, Some(2)));
    // What its agent names as dealt with is addressed, wherever it came from, and nothing of another cycle.
    let mut named = living.changes(CommitKind::Settle);
    named.addressed = [rows[0].seq, rows[1].seq, 999].map(agent::changes::Named::Seq).to_vec();
    living.done(&w, named).await;
    let rows = w.b.reader.inbox(w.ada, None, everything()).await.unwrap().items;
    assert_eq!((rows[0].progress, rows[1].progress), (EventProgress::Addressed, EventProgress::Read));
}
