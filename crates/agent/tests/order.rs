//! What one person says is read in the order in which it was said, whatever breaks in, however little room
//! there is, and whoever else speaks; and a call that was held back comes to what it was held back for.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept is a failed test")]

use std::collections::BTreeSet;

use agent::config::AgentConfig;
use agent::entry::View;
use agent::event::{Channel, Envelope, Event, EventData, EventKind, Principal, Trust, Waiting};
use agent::id::{EntityId, EventId, MessageId, RootId, SpaceId};
use agent::inbox::{speakers, take};
use agent::life::{Glimpse, Requester};
use agent::limits::{PEEK_MAX, URGENT_MAX};
use agent::prepare::{Prepared, Situation, Unread, is_news, prepare};
use agent::view::Budget;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

/// Who speaks in which space, and whether it is urgent.
type Spoken = (u128, u128, bool);

fn word(seq: u64, (by, space, urgent): Spoken) -> Waiting {
    let (space, message) = (SpaceId(Uuid::from_u128(space)), MessageId(Uuid::from_u128(u128::from(seq))));
    Waiting {
        seq,
        attempts: 0,
        deaths: 0,
        event: Event {
            id: EventId(message.to_string()),
            kind: EventKind::SpaceMessage,
            urgent,
            at: Timestamp::UNIX_EPOCH,
            envelope: Envelope {
                principal: Principal::Entity(EntityId(Uuid::from_u128(by))),
                channel: Channel::Space,
                trust: Trust::Member,
                root: RootId(String::new()),
                hop: 0,
            },
            data: EventData::Message { space, seq, message },
            cites: None,
        },
        message: None,
    }
}

fn requester(by: u128) -> Requester {
    Requester { principal: Principal::Entity(EntityId(Uuid::from_u128(by))), space: None }
}

/// What a store tells of these: the oldest, and the urgent ones with what their senders said before.
fn look(waiting: &[Waiting], requesters: &[Requester]) -> Unread {
    let by = |waiting: &&Waiting| waiting.event.envelope.principal.clone();
    let urgent = waiting.iter().rev().filter(|waiting| waiting.event.urgent).take(URGENT_MAX as usize);
    let mut brought: Vec<Waiting> = Vec::new();
    for (speaker, last) in speakers(urgent.map(|word| (word.seq, &word.event.envelope.principal)), requesters)
    {
        let words = waiting.iter().filter(|word| by(word) == *speaker && word.seq <= last);
        let room = URGENT_MAX as usize - brought.len();
        brought.extend(words.take(room).cloned());
    }
    brought.sort_by_key(|waiting| waiting.seq);
    let oldest = waiting.iter().take(PEEK_MAX as usize).cloned().collect();
    Unread { count: u32::try_from(waiting.len()).unwrap(), oldest, urgent: brought }
}

/// What stands between a cycle and what waits.
#[derive(Clone, Debug)]
struct Place {
    room: u32,
    max_bytes: usize,
    decided: bool,
    held_back: bool,
    interrupted: bool,
    suspect: bool,
    peek: u32,
    awareness: &'static str,
    asker: u128,
}

fn place() -> impl Strategy<Value = Place> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    let modes = vec!["none", "preview", "inject", "preview+inject", "interrupt"];
    (
        0u32..12,
        prop::sample::select(vec![0usize, 300, 2_000, 100_000]),
        flags,
        0u32..12,
        prop::sample::select(modes),
        0u128..4,
    )
        .prop_map(
            |(room, max_bytes, (decided, held_back, interrupted, suspect), peek, awareness, asker)| Place {
                room,
                max_bytes,
                decided,
                held_back,
                interrupted,
                suspect,
                peek,
                awareness,
                asker,
            },
        )
}

fn prepared(place: &Place, waits: &Unread, in_hand: &[u64]) -> Prepared {
    let config = AgentConfig::from_json(&json!({"awareness": place.awareness})).unwrap();
    let (view, requesters) = (View::whole(), [requester(place.asker)]);
    prepare(&Situation {
        config: &config,
        step: 1,
        decided: place.decided,
        held_back: place.held_back,
        interrupted: place.interrupted,
        suspect: place.suspect,
        peek: place.peek,
        previewed: Glimpse::default(),
        fallback: None,
        waits,
        in_hand,
        requesters: &requesters,
        room: place.room,
        max_bytes: place.max_bytes,
        view: &view,
        window: &[],
        cycle: None,
        last_model: None,
        budget: &|_| Budget { tokens: 100_000 },
        now: Timestamp::UNIX_EPOCH,
    })
}

fn backlog() -> impl Strategy<Value = Vec<Waiting>> {
    let one = (0u128..4, 0u128..3, prop::bool::weighted(0.15));
    let words = prop_oneof![
        4 => prop::collection::vec(one.clone(), 0..30),
        1 => prop::collection::vec(one, 100..260),
    ];
    words.prop_map(|words| (1..).zip(words).map(|(seq, spoken)| word(seq, spoken)).collect())
}

/// No word is read before an earlier one of the same speaker.
fn in_order(all: &[Waiting], read: &BTreeSet<u64>) {
    for later in all.iter().filter(|word| read.contains(&word.seq)) {
        let by = &later.event.envelope.principal;
        let mut before =
            all.iter().filter(|word| word.seq < later.seq && word.event.envelope.principal == *by);
        assert!(before.all(|word| read.contains(&word.seq)), "{} before an earlier one", later.seq);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_breaks_in_is_of_each_sender_what_was_said_first(all in backlog(), place in place(), taken in 0u32..8) {
        // What the cycle took is the oldest of what waited, as every activation takes it.
        let batch = take(&all, taken.max(1), None, usize::MAX).filter(|_| taken > 0);
        let in_hand: Vec<u64> = batch.iter().flat_map(|batch| &batch.events).map(|word| word.seq).collect();
        let waits = look(&all[in_hand.len()..], &[requester(place.asker)]);
        let prepared = prepared(&place, &waits, &in_hand);
        let shown: Vec<u64> = prepared.inject.iter().map(|word| word.seq).collect();
        prop_assert!(shown.is_sorted() && shown.len() <= place.room.max(1) as usize);
        in_order(&all, &shown.iter().chain(&in_hand).copied().collect());
        // A call is held back, and a generation given up, for something that is shown then.
        let asks = place.decided || (place.interrupted && place.awareness == "interrupt");
        let held = place.held_back && asks && all.len() > in_hand.len();
        let may = place.decided && !place.suspect && place.room > 0 && place.max_bytes > 0;
        let injects = ["inject", "preview+inject", "interrupt"].contains(&place.awareness);
        let news = may && injects && is_news(&waits, &in_hand);
        prop_assert!(!shown.is_empty() || !(held || news));
    }

    #[test]
    fn a_call_that_is_held_back_comes_to_the_word_that_it_was_held_back_for(all in backlog(), place in place()) {
        let place = Place { held_back: true, decided: true, ..place };
        let asker = requester(place.asker).principal;
        let (mut left, mut read) = (all.clone(), BTreeSet::new());
        // As long as something urgent of whoever asked waits, each step shows some more of what waits.
        while left.iter().any(|word| word.event.urgent && word.event.envelope.principal == asker) {
            let prepared = prepared(&place, &look(&left, &[requester(place.asker)]), &[]);
            prop_assert!(!prepared.inject.is_empty());
            read.extend(prepared.inject.iter().map(|word| word.seq));
            in_order(&all, &read);
            left.retain(|word| !read.contains(&word.seq));
        }
    }
}
