//! What the doors promised: everything accepted is there, once, in its place, and addressed to all
//! that it concerns.

use std::collections::{BTreeMap, BTreeSet};

use super::Found;
use crate::history::{History, ProcessedEvent, Timeline, Wording};
use crate::inbox;
use crate::ledger::{Ledger, LedgerItem, SentTo};

/// A message, its space and whether an agent said it, by its id.
pub(super) type AllWords<'a> = BTreeMap<&'a str, (&'a Wording, &'a Timeline)>;

pub(super) fn words(history: &History) -> AllWords<'_> {
    let all = history.spaces.iter().flat_map(|space| space.messages.iter().map(move |words| (words, space)));
    all.map(|(words, space)| (words.id.as_str(), (words, space))).collect()
}

/// Every answer to one item says the same, and only one says that it is new.
pub(super) fn answers(ledger: &Ledger, found: &mut Found) {
    for item in &ledger.items {
        let token = &item.token;
        for why in &item.refused {
            found.add(format!("{token}: refused with {why}"));
        }
        let Some(first) = item.promises.first() else {
            found.expect(!item.refused.is_empty(), || format!("{token}: never answered"));
            continue;
        };
        let chosen = item.id.map(|id| id.to_string());
        found.expect(chosen.is_none_or(|chosen| chosen == first.id), || {
            format!("{token}: sent as {:?}, accepted as {}", item.id, first.id)
        });
        for other in &item.promises {
            found.expect((&other.id, other.seq) == (&first.id, first.seq), || {
                format!("{token}: answered as {first:?} and as {other:?}")
            });
        }
        let fresh = item.promises.iter().filter(|promise| promise.fresh).count();
        if fresh > 1 {
            found.doubled(format!("{token}: accepted as new {fresh} times, as {}", first.id));
        }
    }
}

/// Every space's messages: gapless, no twins, exactly what people sent and agents said.
pub(super) fn timelines(ledger: &Ledger, history: &History, found: &mut Found) {
    let mut ids = BTreeSet::new();
    for space in &history.spaces {
        let name = &space.name;
        found.gapless(&format!("space {name}: seq"), space.messages.iter().map(|words| words.seq));
        let last = space.messages.last().map_or(0, |words| words.seq);
        found.expect(space.head == last, || {
            format!("space {name}: its head is {}, its last message {last}", space.head)
        });
        let mut said: BTreeMap<String, Vec<&Wording>> = BTreeMap::new();
        for words in &space.messages {
            if !ids.insert(&words.id) {
                found.doubled(format!("space {name}: message {} is there twice", words.id));
            }
            if words.call.is_none() {
                let token = inbox::tokens(&words.text).into_iter().next().unwrap_or_default();
                said.entry(token).or_default().push(words);
            }
        }
        for item in ledger.items.iter().filter(|item| item.door == SentTo::Space(name.clone())) {
            if item.promises.is_empty() {
                continue;
            }
            spoken(item, name, &said.remove(&item.token).unwrap_or_default(), found);
        }
        for (token, words) in said {
            let ids: Vec<_> = words.iter().map(|words| &words.id).collect();
            found.add(format!("space {name}: {token} as {ids:?} was never accepted"));
        }
    }
}

fn spoken(item: &LedgerItem, space: &str, there: &[&Wording], found: &mut Found) {
    let token = &item.token;
    let promise = &item.promises[0];
    match there {
        [] => found.lost(format!("{token}: accepted as {} and lost from space {space}", promise.id)),
        [words] => {
            let right = words.id == promise.id
                && Some(words.seq) == promise.seq
                && Some(words.text.as_str()) == item.body["text"].as_str();
            found.expect(right, || {
                format!("{token}: promised as {promise:?}, stands in {space} as {words:?}")
            });
        }
        twins => {
            let ids: Vec<_> = twins.iter().map(|words| &words.id).collect();
            found.doubled(format!("{token}: said {} times in space {space}, as {ids:?}", twins.len()));
        }
    }
}

/// What agents said in spaces is exactly what their decisions say: each call one message.
pub(super) fn replies(history: &History, found: &mut Found) {
    let mut said: BTreeMap<&str, Vec<(&Wording, &Timeline)>> = BTreeMap::new();
    for space in &history.spaces {
        for words in &space.messages {
            if let Some(call) = &words.call {
                said.entry(call).or_default().push((words, space));
            }
        }
    }
    for agent in &history.agents {
        let name = &agent.name;
        for (call, arguments) in agent.done("send_message") {
            let there = said.remove(call).unwrap_or_default();
            let [(words, space)] = there.as_slice() else {
                let said = format!("{name}: call {call} was decided once and said {} times", there.len());
                if there.is_empty() {
                    found.lost(said)
                } else {
                    found.doubled(said)
                }
                continue;
            };
            let named = arguments["space"].as_str().unwrap_or_default();
            let right = words.sender == agent.id
                && Some(words.text.as_str()) == arguments["text"].as_str()
                && (space.id == named || space.name == named);
            found.expect(right, || format!("{name}: call {call} decided {arguments}, said {words:?}"));
        }
    }
    for (call, words) in said {
        let ids: Vec<_> = words.iter().map(|(words, _)| &words.id).collect();
        found.add(format!("messages {ids:?} of call {call} stand in no log"));
    }
}

/// An agent's ledger: one event for everything that concerns it, each lived or skipped.
pub(super) fn events(agent: &ProcessedEvent, ledger: &Ledger, history: &History, found: &mut Found) {
    let name = &agent.name;
    let mut seqs: Vec<u64> = agent.events.iter().map(|event| event.seq).collect();
    seqs.reverse();
    found.gapless(&format!("{name}: inbox"), seqs);
    let spaces = history.spaces.iter().filter(|space| space.agents.contains(name));
    let said = spaces.flat_map(|space| &space.messages).filter(|words| words.sender != agent.id);
    let sent = ledger.items.iter().filter(|item| item.door == SentTo::Agent(name.clone()));
    let mut wanted: BTreeSet<&str> =
        said.map(|words| words.id.as_str()).chain(sent.filter_map(LedgerItem::promised_id)).collect();
    let mut known = BTreeSet::new();
    for event in &agent.events {
        let id = event.id.as_str();
        if !known.insert(id) {
            found.doubled(format!("{name}: event {id} is there twice"));
        } else if !wanted.remove(id) {
            found.add(format!("{name}: event {id} concerns nothing that was accepted for it"));
        }
        if !matches!(event.state.as_str(), "processed" | "skipped") {
            found.lost(format!("{name}: event {id} at {} is {} and nobody lives it", event.seq, event.state));
        }
    }
    for id in wanted {
        found.lost(format!("{name}: event {id} is lost"));
    }
}
