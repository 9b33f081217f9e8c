//! What the bound on agents' messages keeps back, and what lets it go.

use agent::event::{EventData, EventKind, Trust};
use agent::id::{EventId, RootId};
use agent::limits::{HELD_MAX, HELD_MS, RANGE_SHOWN_MAX};
use agent::port::{Accepted, Denial, RegistryError, SentAgain, Waken};
use agent::space::NewMessage;

use super::Backend;
use super::world::{World, at, everything, saying, space, world};

impl World {
    /// What Bob says as the nth message of one chain.
    fn nth(&self, n: u32) -> NewMessage {
        let mut message = saying(self.bob.entity(), self.team, &format!("reply {n}"));
        (message.root, message.hop, message.trust) = (RootId("one root".into()), n, Trust::Agent);
        message
    }

    /// Bob goes on up to the nth message; the ids of those after the eighth, which are held.
    async fn chain(&self, to: u32) -> Vec<String> {
        let mut held = Vec::new();
        for n in 1..=to {
            let message = self.nth(n);
            if n > 8 {
                held.push(message.id.to_string());
            }
            self.accept(message).await;
        }
        held
    }

    /// How many events wait for Ada and how many are held.
    async fn counts(&self) -> (u32, u32) {
        let card = self.b.reader.agent(self.ada).await.unwrap().unwrap();
        (card.waiting, card.held)
    }
}

fn after_the_wait() -> i64 {
    10 + HELD_MS.cast_signed()
}

/// One event for all of a space, which shows them and nothing that stands between them; each keeps
/// its row.
pub async fn a_persons_word_lets_go_what_was_held_there_as_one_event(b: Backend) {
    let w = world(b).await;
    let mut held = w.chain(10).await;
    w.accept(saying(w.ada.entity(), w.team, "her own words")).await;
    let last = w.nth(11);
    held.push(last.id.to_string());
    w.accept(last).await;
    assert_eq!(w.counts().await, (8, 3));
    w.say(w.family, "elsewhere").await;
    assert_eq!(w.counts().await, (9, 3), "a word in another space lets nothing go here");
    w.say(w.team, "and I?").await;
    assert_eq!(w.counts().await, (11, 0));
    let waiting = w.wake(w.ada).await.waiting;
    let range = &waiting[9];
    assert!(matches!(range.event.data, EventData::SaidRange { from: 9, to: 12, .. }), "{range:?}");
    let said: Vec<&str> = range.said.iter().map(|said| said.text.as_str()).collect();
    assert_eq!(said, ["reply 9", "reply 10", "reply 11"]);
    let envelope = &range.event.envelope;
    assert_eq!(
        (&envelope.root, envelope.hop, envelope.trust),
        (&RootId("one root".into()), 11, Trust::Agent)
    );
    assert_eq!(waiting[10].said[0].text, "and I?");
    assert_eq!(w.b.reader.inbox(w.ada, Some("held".into()), everything()).await.unwrap().items, []);
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    for id in &held {
        assert_eq!(w.state(w.ada, id).await, "lived");
    }
}

/// Ten minutes after the first of them, found by index; nothing is due before.
pub async fn time_lets_go_what_was_held_and_wakes_whom_it_was_held_from(b: Backend) {
    let w = world(b).await;
    let held = w.chain(10).await;
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    let closing = living.closing();
    living.done(&w, closing).await;
    assert_eq!(w.due(after_the_wait()).await, []);
    assert_eq!(w.b.store.next_due(at(1_000)).await.unwrap(), Some(at(after_the_wait())));
    assert_eq!(w.b.store.fire_due(at(after_the_wait() - 1), 10).await.unwrap(), []);
    let woken = w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap();
    assert_eq!(woken, [Waken { agent: w.ada, at: at(after_the_wait()), urgent: false }]);
    assert_eq!((w.counts().await, w.due(after_the_wait()).await), ((1, 0), vec![w.ada]));
    assert_eq!(w.state(w.ada, &held[0]).await, "waiting");
    assert_eq!(w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap(), []);
}

/// It needs nobody to stand for it.
pub async fn a_single_held_event_is_let_go_as_itself(b: Backend) {
    let w = world(b).await;
    let held = w.chain(8).await;
    assert!(held.is_empty());
    let mut ninth = w.nth(9);
    ninth.text = "@ada, and you?".into();
    let id = ninth.id.to_string();
    w.accept(ninth).await;
    w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap();
    let waking = w.b.store.wake(w.ada, at(after_the_wait()), None).await.unwrap().unwrap();
    let released = waking.waiting.last().unwrap();
    assert_eq!((released.event.id.0.as_str(), released.event.kind), (id.as_str(), EventKind::Mention));
    assert_eq!((released.seq, w.counts().await), (9, (9, 0)));
}

/// Else two agents would go on for ever, a little slower. A person's word still lets them go.
pub async fn time_alone_lets_go_only_so_much_of_one_root(b: Backend) {
    let w = world(b).await;
    w.chain(16).await;
    w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap();
    assert_eq!(w.counts().await, (9, 0));
    let mut late = w.nth(17);
    late.at = at(after_the_wait());
    let id = late.id.to_string();
    assert!(matches!(w.accept(late).await, Accepted::Fresh { wake, .. } if wake.is_empty()));
    assert_eq!(w.b.store.fire_due(at(10 * after_the_wait()), 10).await.unwrap(), []);
    assert_eq!((w.state(w.ada, &id).await, w.counts().await), ("held", (9, 1)));
    w.say(w.team, "go on").await;
    assert_eq!((w.state(w.ada, &id).await, w.counts().await), ("waiting", (11, 0)));
}

/// It is let go when the first of them would have been, shows them all, and each keeps its row.
pub async fn beyond_a_bound_what_is_held_of_a_space_is_held_as_one(b: Backend) {
    let w = world(b).await;
    let elsewhere = space(&w.b, "elsewhere", &[w.ada.entity(), w.bob.entity()]).await;
    let other = w.chain(9).await.remove(0);
    for n in 10..13 {
        let there = NewMessage { space: elsewhere, ..w.nth(n) };
        w.accept(there).await;
    }
    let most = 8 + HELD_MAX - 3;
    let mut held: Vec<String> = Vec::new();
    for n in 10..=most + 1 {
        let message = w.nth(n);
        held.push(message.id.to_string());
        w.accept(message).await;
        assert!(w.counts().await.1 <= HELD_MAX, "after the {n}th");
    }
    assert_eq!(w.counts().await, (8, 2), "one of each space");
    assert_eq!((w.state(w.ada, &other).await, w.state(w.ada, &held[0]).await), ("held", "held"));
    let taken_back = w.b.registry.cancel_event(w.ada, EventId(other.clone())).await;
    assert!(matches!(taken_back, Err(RegistryError::Denied(Denial::EventCollapsed { .. }))));
    let late = w.nth(most + 2);
    held.push(late.id.to_string());
    w.accept(late).await;
    assert_eq!(w.counts().await, (8, 3));
    let woken = w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap();
    assert_eq!(woken.len(), 2, "each space by itself");
    assert_eq!(w.counts().await, (10, 0));
    let waiting = w.b.store.wake(w.ada, at(after_the_wait()), None).await.unwrap().unwrap().waiting;
    let shown: Vec<(usize, &str)> = waiting[8..]
        .iter()
        .map(|waiting| (waiting.said.len(), waiting.said.last().unwrap().text.as_str()))
        .collect();
    let last = format!("reply {}", most + 2);
    assert!(
        shown.contains(&(3, "reply 12")) && shown.contains(&(RANGE_SHOWN_MAX, last.as_str())),
        "{shown:?}"
    );
    for id in held.iter().chain([&other]) {
        assert_eq!(w.state(w.ada, id).await, "waiting");
    }
    assert_eq!(w.b.store.fire_due(at(10 * after_the_wait()), 10).await.unwrap(), []);
}

/// Operators have a word there too.
pub async fn a_held_event_is_taken_back_or_let_go_by_hand(b: Backend) {
    let w = world(b).await;
    let held = w.chain(11).await;
    w.b.registry.cancel_event(w.ada, EventId(held[0].clone())).await.unwrap();
    assert_eq!((w.state(w.ada, &held[0]).await, w.counts().await), ("canceled", (8, 2)));
    let unused = EventId("unused".into());
    let sent = w.b.registry.send_again(w.ada, EventId(held[2].clone()), unused, None, at(500)).await.unwrap();
    assert_eq!(sent, SentAgain::Waits(Some(Waken { agent: w.ada, at: at(500), urgent: false })));
    assert_eq!((w.state(w.ada, &held[1]).await, w.counts().await), ("waiting", (9, 0)));
    assert_eq!(w.b.store.fire_due(at(after_the_wait()), 10).await.unwrap(), []);
    assert_eq!(w.state(w.ada, &held[0]).await, "canceled");
}
