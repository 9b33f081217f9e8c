//! Checks of what the API promised: every accepted item exists once, at its position, and is an event for every agent
//! that it concerns.

use std::collections::{BTreeMap, BTreeSet};

use super::Breaches;
use crate::history::{AgentTrace, History, HistoryMessage, Timeline};
use crate::inbox;
use crate::ledger::{Ledger, LedgerItem, SentTo};

/// All messages by id, each with its space.
pub(super) type AllMessages<'a> = BTreeMap<&'a str, (&'a HistoryMessage, &'a Timeline)>;

pub(super) fn messages(history: &History) -> AllMessages<'_> {
    let all =
        history.spaces.iter().flat_map(|space| space.messages.iter().map(move |message| (message, space)));
    all.map(|(message, space)| (message.id.as_str(), (message, space))).collect()
}

/// All responses to an item agree, and only one says that it is new.
pub(super) fn responses(ledger: &Ledger, breaches: &mut Breaches) {
    for item in &ledger.items {
        let token = &item.token;
        for why in &item.rejected {
            breaches.add(format!("{token}: rejected with {why}"));
        }
        let Some(first) = item.promises.first() else {
            breaches.expect(!item.rejected.is_empty(), || format!("{token}: never answered"));
            continue;
        };
        let chosen = item.id.map(|id| id.to_string());
        breaches.expect(chosen.is_none_or(|chosen| chosen == first.id), || {
            format!("{token}: sent as {:?}, accepted as {}", item.id, first.id)
        });
        for other in &item.promises {
            breaches.expect((&other.id, other.seq) == (&first.id, first.seq), || {
                format!("{token}: answered as {first:?} and as {other:?}")
            });
        }
        let fresh = item.promises.iter().filter(|promise| promise.fresh).count();
        if fresh > 1 {
            breaches.doubled(format!("{token}: accepted as new {fresh} times, as {}", first.id));
        }
    }
}

/// The messages of a space have no gaps and no duplicates, and are exactly those that people sent and agents posted.
pub(super) fn timelines(ledger: &Ledger, history: &History, breaches: &mut Breaches) {
    let mut ids = BTreeSet::new();
    for space in &history.spaces {
        let name = &space.name;
        let mut seqs: Vec<u64> =
            space.messages.iter().map(|message| message.seq).chain(space.cards.iter().copied()).collect();
        seqs.sort_unstable();
        let last = seqs.last().copied().unwrap_or(0);
        breaches.gapless(&format!("space {name}: seq"), seqs);
        breaches.expect(space.head == last, || {
            format!("space {name}: its `head_seq` is {}, its last message {last}", space.head)
        });
        let mut posted: BTreeMap<String, Vec<&HistoryMessage>> = BTreeMap::new();
        for message in &space.messages {
            if !ids.insert(&message.id) {
                breaches.doubled(format!("space {name}: message {} exists twice", message.id));
            }
            if message.call.is_none() {
                let token = inbox::tokens(&message.text).into_iter().next().unwrap_or_default();
                posted.entry(token).or_default().push(message);
            }
        }
        for item in ledger.items.iter().filter(|item| item.to == SentTo::Space(name.clone())) {
            if item.promises.is_empty() {
                continue;
            }
            check_message(item, name, &posted.remove(&item.token).unwrap_or_default(), breaches);
        }
        for (token, messages) in posted {
            let ids: Vec<_> = messages.iter().map(|message| &message.id).collect();
            breaches.add(format!("space {name}: {token} as {ids:?} was never accepted"));
        }
    }
}

fn check_message(item: &LedgerItem, space: &str, found: &[&HistoryMessage], breaches: &mut Breaches) {
    let token = &item.token;
    let promise = &item.promises[0];
    match found {
        [] => breaches.lost(format!("{token}: accepted as {} and lost from space {space}", promise.id)),
        [message] => {
            let right = message.id == promise.id
                && Some(message.seq) == promise.seq
                && Some(message.text.as_str()) == item.body["text"].as_str();
            breaches
                .expect(right, || format!("{token}: promised as {promise:?}, is in {space} as {message:?}"));
        }
        twins => {
            let ids: Vec<_> = twins.iter().map(|message| &message.id).collect();
            breaches.doubled(format!("{token}: posted {} times in space {space}, as {ids:?}", twins.len()));
        }
    }
}

/// The messages of agents are exactly those of their decisions: one message for each call.
pub(super) fn replies(history: &History, breaches: &mut Breaches) {
    let mut posted: BTreeMap<&str, Vec<(&HistoryMessage, &Timeline)>> = BTreeMap::new();
    for space in &history.spaces {
        for message in &space.messages {
            if let Some(call) = &message.call {
                posted.entry(call).or_default().push((message, space));
            }
        }
    }
    for agent in &history.agents {
        let name = &agent.name;
        for (call, arguments) in agent.done("send_message") {
            let found = posted.remove(call).unwrap_or_default();
            let [(message, space)] = found.as_slice() else {
                let posted = format!("{name}: call {call} was decided once and posted {} times", found.len());
                if found.is_empty() {
                    breaches.lost(posted)
                } else {
                    breaches.doubled(posted)
                }
                continue;
            };
            let named = arguments["space"].as_str().unwrap_or_default();
            let right = message.sender == agent.id
                && Some(message.text.as_str()) == arguments["text"].as_str()
                && (space.id == named || space.name == named);
            breaches.expect(right, || format!("{name}: call {call} decided {arguments}, posted {message:?}"));
        }
    }
    for (call, messages) in posted {
        let ids: Vec<_> = messages.iter().map(|(message, _)| &message.id).collect();
        breaches.add(format!("messages {ids:?} of call {call} are in no log"));
    }
}

/// An agent's inbox has one event for everything that concerns the agent, and each is processed or skipped. Late results
/// are checked with the calls.
pub(super) fn events(agent: &AgentTrace, ledger: &Ledger, history: &History, breaches: &mut Breaches) {
    let name = &agent.name;
    let mut seqs: Vec<u64> = agent.events.iter().map(|event| event.seq).collect();
    seqs.reverse();
    breaches.gapless(&format!("{name}: inbox"), seqs);
    let spaces = history.spaces.iter().filter(|space| space.agents.contains(name));
    let posted = spaces.flat_map(|space| &space.messages).filter(|message| message.sender != agent.id);
    let to = [SentTo::Agent(name.clone()), SentTo::Plans(name.clone())];
    let sent = ledger.items.iter().filter(|item| to.contains(&item.to));
    let mut wanted: BTreeSet<&str> =
        posted.map(|message| message.id.as_str()).chain(sent.filter_map(LedgerItem::promised_id)).collect();
    let mut known = BTreeSet::new();
    for event in &agent.events {
        let id = event.plan.as_deref().unwrap_or(&event.id);
        if !known.insert(id) {
            breaches.doubled(format!("{name}: event {id} exists twice"));
        } else if event.result.is_none() && !wanted.remove(id) {
            breaches.add(format!("{name}: event {id} refers to nothing that was accepted for this agent"));
        }
        if !matches!(event.state.as_str(), "processed" | "skipped") {
            breaches
                .lost(format!("{name}: event {id} at {} is {} and not processed", event.seq, event.state));
        }
    }
    for id in wanted {
        breaches.lost(format!("{name}: event {id} is lost"));
    }
}
