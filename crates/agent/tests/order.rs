//! Messages of one person are read in the order in which they were sent, whatever interrupts, however little room there
//! is, and who else sends messages. After a call was held back, the message that held it back is shown.
#![allow(clippy::unwrap_used, reason = "a broken promise is a failed test")]

use std::collections::BTreeSet;

use agent::config::AgentConfig;
use agent::entry::View;
use agent::event::{Channel, Envelope, Event, EventData, EventKind, Principal, Trust, Waiting};
use agent::id::{EntityId, EventId, MessageId, RootId, SpaceId};
use agent::inbox::{take, urgent_senders};
use agent::life::{Previewed, Requester};
use agent::limits::{PEEK_MAX, URGENT_MAX};
use agent::prepare::{Prepared, Situation, Unread, is_news, prepare};
use agent::view::Budget;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

/// Sender, space, and whether the message is urgent.
type Sent = (u128, u128, bool);

fn message(seq: u64, (by, space, urgent): Sent) -> Waiting {
    let (space, id) = (SpaceId(Uuid::from_u128(space)), MessageId(Uuid::from_u128(u128::from(seq))));
    Waiting {
        seq,
        attempts: 0,
        deaths: 0,
        event: Event {
            id: EventId(id.to_string()),
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
            data: EventData::Message { space, seq, message: id },
            cites: None,
        },
        message: None,
    }
}

fn requester(by: u128) -> Requester {
    Requester { principal: Principal::Entity(EntityId(Uuid::from_u128(by))), space: None }
}

/// What a store returns of these events: the oldest, and the urgent ones with the earlier ones of their senders.
fn unread(waiting: &[Waiting], requesters: &[Requester]) -> Unread {
    let by = |waiting: &&Waiting| waiting.event.envelope.principal.clone();
    let urgent = waiting.iter().rev().filter(|waiting| waiting.event.urgent).take(URGENT_MAX as usize);
    let mut found: Vec<Waiting> = Vec::new();
    let urgent = urgent.map(|event| (event.seq, &event.event.envelope.principal));
    for (sender, last) in urgent_senders(urgent, requesters) {
        let sent = waiting.iter().filter(|event| by(event) == *sender && event.seq <= last);
        let room = URGENT_MAX as usize - found.len();
        found.extend(sent.take(room).cloned());
    }
    found.sort_by_key(|waiting| waiting.seq);
    let oldest = waiting.iter().take(PEEK_MAX as usize).cloned().collect();
    Unread { count: u32::try_from(waiting.len()).unwrap(), oldest, urgent: found }
}

/// The state of a cycle that decides which waiting events it is shown.
#[derive(Clone, Debug)]
struct CycleState {
    room: u32,
    max_bytes: usize,
    decided: bool,
    held_back: bool,
    interrupted: bool,
    suspect: bool,
    peek: u32,
    awareness: &'static str,
    requester: u128,
}

fn cycle_state() -> impl Strategy<Value = CycleState> {
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
            |(room, max_bytes, (decided, held_back, interrupted, suspect), peek, awareness, requester)| {
                CycleState {
                    room,
                    max_bytes,
                    decided,
                    held_back,
                    interrupted,
                    suspect,
                    peek,
                    awareness,
                    requester,
                }
            },
        )
}

fn prepared(state: &CycleState, waits: &Unread, in_progress: &[u64]) -> Prepared {
    let config = AgentConfig::from_json(&json!({"awareness": state.awareness})).unwrap();
    let (view, requesters) = (View::whole(), [requester(state.requester)]);
    prepare(&Situation {
        config: &config,
        step: 1,
        decided: state.decided,
        held_back: state.held_back,
        interrupted: state.interrupted,
        suspect: state.suspect,
        peek: state.peek,
        previewed: Previewed::default(),
        fallback: None,
        waits,
        in_progress,
        requesters: &requesters,
        room: state.room,
        max_bytes: state.max_bytes,
        anew: false,
        view: &view,
        window: &[],
        cycle: None,
        last_model: None,
        budget: &|_| Budget { tokens: 100_000, entries: 400, summary: 0 },
        now: Timestamp::UNIX_EPOCH,
    })
}

fn backlog() -> impl Strategy<Value = Vec<Waiting>> {
    let one = (0u128..4, 0u128..3, prop::bool::weighted(0.15));
    let sent = prop_oneof![
        4 => prop::collection::vec(one.clone(), 0..30),
        1 => prop::collection::vec(one, 100..260),
    ];
    sent.prop_map(|all| (1..).zip(all).map(|(seq, sent)| message(seq, sent)).collect())
}

/// Asserts that no message is read before an earlier one of the same sender.
fn assert_in_order(all: &[Waiting], read: &BTreeSet<u64>) {
    for later in all.iter().filter(|event| read.contains(&event.seq)) {
        let by = &later.event.envelope.principal;
        let mut before =
            all.iter().filter(|event| event.seq < later.seq && event.event.envelope.principal == *by);
        assert!(before.all(|event| read.contains(&event.seq)), "{} before an earlier one", later.seq);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn injected_events_are_the_earliest_of_each_sender(all in backlog(), state in cycle_state(), taken in 0u32..8) {
        // Every activation takes the oldest waiting events.
        let batch = take(&all, taken.max(1), None, usize::MAX).filter(|_| taken > 0);
        let in_progress: Vec<u64> = batch.iter().flat_map(|batch| &batch.events).map(|event| event.seq).collect();
        let waits = unread(&all[in_progress.len()..], &[requester(state.requester)]);
        let prepared = prepared(&state, &waits, &in_progress);
        let shown: Vec<u64> = prepared.inject.iter().map(|event| event.seq).collect();
        prop_assert!(shown.is_sorted() && shown.len() <= state.room.max(1) as usize);
        assert_in_order(&all, &shown.iter().chain(&in_progress).copied().collect());
        // If a call was held back or a generation was aborted for an event, something is shown now.
        let asks = state.decided || (state.interrupted && state.awareness == "interrupt");
        let held = state.held_back && asks && all.len() > in_progress.len();
        let may = state.decided && !state.suspect && state.room > 0 && state.max_bytes > 0;
        let injects = ["inject", "preview+inject", "interrupt"].contains(&state.awareness);
        let news = may && injects && is_news(&waits, &in_progress);
        prop_assert!(!shown.is_empty() || !(held || news));
    }

    #[test]
    fn a_held_back_call_ends_up_with_the_message_that_held_it_back_shown(all in backlog(), state in cycle_state()) {
        let state = CycleState { held_back: true, decided: true, ..state };
        let sender = requester(state.requester).principal;
        let (mut left, mut read) = (all.clone(), BTreeSet::new());
        // While an urgent event of the requester waits, each step shows some more of the waiting events.
        while left.iter().any(|event| event.event.urgent && event.event.envelope.principal == sender) {
            let prepared = prepared(&state, &unread(&left, &[requester(state.requester)]), &[]);
            prop_assert!(!prepared.inject.is_empty());
            read.extend(prepared.inject.iter().map(|event| event.seq));
            assert_in_order(&all, &read);
            left.retain(|event| !read.contains(&event.seq));
        }
    }
}
