//! The promises P1 to P6, held against everything that is there once a world has come to rest.
//!
//! This module must not change anything, and must not know what went wrong on the way.

use std::collections::{BTreeMap, BTreeSet};

use agent::entry::{Entry, EntryKind};
use agent::event::{EventData, EventState};
use agent::id::{AgentId, CallId, EventId};
use agent::limits;
use agent::port::{Accept, InboxRow, PageRequest, Reader};
use agent::run::Run;
use agent::space::Message;
use storage::sqlite::Sqlite;

use crate::disk::now;
use crate::mind::{DEADLY, FOUL};
use crate::world::World;

/// Judges the world as it is; what is wrong is noted.
pub(crate) fn judge(world: &World) {
    let sqlite = world.disk.sqlite();
    for flaw in now(Box::pin(sqlite.verify())).unwrap().flaws {
        world.nature.wrong(format!("P2: {flaw:?}"));
    }
    let messages: Vec<Message> =
        world.spaces.iter().flat_map(|(space, _)| messages(&sqlite, *space)).collect();
    accepted(world, &sqlite);
    said_once(world, &messages);
    let mut calls = BTreeSet::new();
    for agent in &world.agents {
        let entries = entries(&sqlite, *agent);
        for entry in &entries {
            let text = entry.message.countable();
            world.nature.tell(|| format!("{agent} {} {:?} {}: {text}", entry.seq, entry.kind, entry.cycle));
        }
        for row in inbox(&sqlite, *agent) {
            let (seq, id, at) = (row.seq, &row.event.id.0, row.event.at);
            world
                .nature
                .tell(|| format!("{agent} event {seq} {id} at {at}: {:?} {}", row.state, row.preview));
        }
        calls.extend(entries.iter().flat_map(|entry| entry.message.calls().map(|(id, _, _)| id.clone())));
        lived_once(world, &sqlite, *agent, &entries);
        in_order(world, *agent, &entries, &messages);
        bounded(world, &sqlite, *agent);
        only_poison_dies(world, &sqlite, *agent);
        slots(world, &sqlite, *agent);
        let card = now(Reader::agent(&sqlite, *agent)).unwrap().unwrap();
        world.nature.hold(card.damage.is_none(), || format!("{agent} was set apart: {:?}", card.damage));
    }
    effects(world, &calls);
    roots(world, &messages);
}

/// P1: what was acknowledged is there, with all that it was due to.
fn accepted(world: &World, sqlite: &Sqlite) {
    for ask in world.asks.iter().filter(|ask| ask.answered == Some(true)) {
        let id = match &ask.what {
            Accept::Message(message) => {
                let there = now(sqlite.message(message.id)).unwrap().is_some();
                world.nature.hold(there, || format!("P1: {} was acknowledged and is not there", ask.token));
                message.id.to_string()
            }
            Accept::Event(_, event) => event.id.0.clone(),
        };
        // Whoever was sent away may have missed it, and was not owed it.
        let space = match &ask.what {
            Accept::Message(message) => Some(message.space),
            Accept::Event(..) => None,
        };
        let owed = ask
            .due_to
            .iter()
            .filter(|agent| !space.is_some_and(|space| world.revoked.contains(&(space, **agent))));
        for agent in owed {
            let row = now(sqlite.event(*agent, EventId(id.clone()))).unwrap();
            world.nature.hold(row.is_some(), || format!("P1: {agent} never got {}", ask.token));
        }
    }
}

/// P4: what an agent says in a step is said once.
fn said_once(world: &World, messages: &[Message]) {
    let mut said = BTreeMap::new();
    for token in messages.iter().flat_map(|message| tokens(&message.text)) {
        *said.entry(token).or_insert(0) += 1;
    }
    for (token, times) in said {
        world.nature.hold(times == 1, || format!("P4: {token} was said {times} times"));
    }
    let mut calls = BTreeSet::new();
    for call in messages.iter().filter_map(|message| message.call.as_ref()) {
        world.nature.hold(calls.insert(call), || format!("P4: the call {} spoke twice", call.0));
    }
}

/// P2: every event is shown where it was processed, once, and nowhere else.
fn lived_once(world: &World, sqlite: &Sqlite, agent: AgentId, entries: &[Entry]) {
    let mut shown: BTreeMap<String, u64> = BTreeMap::new();
    let seen = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection));
    for token in seen.flat_map(|entry| tokens(&entry.message.text())) {
        *shown.entry(token).or_default() += 1;
    }
    for row in inbox(sqlite, agent) {
        let Some(token) = token_of(&row) else { continue };
        let times = shown.get(&token).copied().unwrap_or(0);
        let right = match row.state {
            EventState::Processed { .. } => times == 1,
            EventState::Canceled { .. } => times <= 1,
            _ => times == 0,
        };
        world.nature.hold(right, || {
            format!(
                "P2: {agent} is {} {token} of event {}, and was shown it {times} times",
                row.state.as_str(),
                row.seq
            )
        });
    }
}

/// P6: what no model can answer, and what kills, is never lived; no death of a process is laid on anything else.
fn only_poison_dies(world: &World, sqlite: &Sqlite, agent: AgentId) {
    for row in inbox(sqlite, agent) {
        let data = format!("{:?}", row.event.data);
        let poison = data.contains(DEADLY) || data.contains(FOUL);
        let right = match &row.state {
            EventState::Processed { .. } => !poison,
            EventState::Dead { reason } => poison || !reason.contains("the process died"),
            _ => true,
        };
        world.nature.hold(right, || format!("P6: {data} of {agent} is {:?}", row.state));
    }
}

/// P2: what a person says in a space is processed in the order in which it was said.
fn in_order(world: &World, agent: AgentId, entries: &[Entry], messages: &[Message]) {
    let place = |token: &String| {
        let message = messages.iter().find(|message| message.text.starts_with(token.as_str()))?;
        let again = world.nature.again.lock().unwrap().contains(&message.id.to_string());
        (!again).then_some(((message.space, message.sender), message.seq))
    };
    let mut last = BTreeMap::new();
    let seen = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection));
    for token in seen.flat_map(|entry| tokens(&entry.message.text())).filter(|token| token.starts_with("<m"))
    {
        let Some((whose, seq)) = place(&token) else { continue };
        let before = last.insert(whose, seq).unwrap_or(0);
        world.nature.hold(before < seq, || {
            format!(
                "P2: {agent} was shown message {seq} ({token}) behind message {before} of the same sender"
            )
        });
    }
}

/// P4: an effect has its decision, and one that cannot be repeated is not.
fn effects(world: &World, decided: &BTreeSet<CallId>) {
    for (call, effect) in world.nature.effects.lock().unwrap().iter() {
        world
            .nature
            .hold(decided.contains(call), || format!("P4: {} had an effect and was never decided", call.0));
        world.nature.hold(effect.repeatable || effect.begun == 1, || {
            format!("P4: the unsafe call {} had its effect {} times", call.0, effect.begun)
        });
    }
}

/// P6: no cycle goes beyond its bounds.
fn bounded(world: &World, sqlite: &Sqlite, agent: AgentId) {
    for run in runs(sqlite, agent) {
        let steps = run.steps.len();
        world.nature.hold(steps <= 20, || format!("P6: cycle {} took {steps} steps", run.id));
        let interrupts: u32 = run.steps.iter().map(|step| step.interrupts).sum();
        world.nature.hold(interrupts <= limits::INTERRUPTS_PER_CYCLE, || {
            format!("P6: cycle {} was interrupted {interrupts} times", run.id)
        });
    }
}

/// A slot of a plan fires once, whatever the clock does.
fn slots(world: &World, sqlite: &Sqlite, agent: AgentId) {
    let mut fired = BTreeSet::new();
    for row in inbox(sqlite, agent) {
        let EventData::Plan { plan, slots, .. } = row.event.data else { continue };
        for slot in slots {
            world
                .nature
                .hold(fired.insert((plan, slot)), || format!("P2: the slot {slot} of {plan} fired twice"));
        }
    }
}

/// P6: agents that answer each other come to an end.
fn roots(world: &World, messages: &[Message]) {
    let mut spoken: BTreeMap<&str, u64> = BTreeMap::new();
    for message in messages.iter().filter(|message| !world.people.contains(&message.sender)) {
        *spoken.entry(&message.root.0).or_default() += 1;
    }
    for (root, count) in spoken {
        world.nature.hold(count <= 100, || format!("P6: agents said {count} things for the root {root}"));
    }
}

/// Everything between angle brackets.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let pieces = text.split('<').skip(1);
    let token = |piece: &str| piece.split_once('>').map(|(token, _)| format!("<{token}>"));
    pieces.filter_map(token).filter(|token| !token.contains(' ')).collect()
}

fn token_of(row: &InboxRow) -> Option<String> {
    match &row.event.data {
        EventData::Service { payload, .. } => payload["n"].as_str().map(str::to_owned),
        EventData::Message { .. } => tokens(&row.preview).into_iter().next(),
        _ => None,
    }
}

fn pages<T>(mut ask: impl FnMut(PageRequest) -> agent::port::Page<T>) -> Vec<T> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = ask(PageRequest { cursor, limit: limits::PAGE_MAX });
        all.extend(page.items);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return all,
        }
    }
}

fn inbox(sqlite: &Sqlite, agent: AgentId) -> Vec<InboxRow> {
    pages(|page| now(sqlite.inbox(agent, None, page)).unwrap())
}

fn runs(sqlite: &Sqlite, agent: AgentId) -> Vec<Run> {
    pages(|page| now(Reader::runs(sqlite, agent, page)).unwrap())
}

fn entries(sqlite: &Sqlite, agent: AgentId) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map_or(0, |entry| entry.seq);
        let some = now(sqlite.entries(agent, after, limits::PAGE_MAX)).unwrap();
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}

fn messages(sqlite: &Sqlite, space: agent::id::SpaceId) -> Vec<Message> {
    let mut all: Vec<Message> = Vec::new();
    loop {
        let after = all.last().map_or(0, |message| message.seq);
        let some = now(Reader::messages(sqlite, space, Some(after), None, limits::PAGE_MAX)).unwrap();
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}

/// Cycles that ran, for the figures.
pub(crate) fn cycles(world: &World) -> u64 {
    let sqlite = world.disk.sqlite();
    world.agents.iter().map(|agent| runs(&sqlite, *agent).len() as u64).sum()
}
