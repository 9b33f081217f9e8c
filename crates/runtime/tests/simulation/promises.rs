//! Checks the promises P1 to P6 against everything stored, once a world is idle.
//!
//! Must not change anything, nor know what failed on the way.

use std::collections::{BTreeMap, BTreeSet};

use agent::entry::{Entry, EntryKind};
use agent::event::{EventData, EventState};
use agent::id::{AgentId, CallId, EventId};
use agent::limits;
use agent::port::{Accept, InboxFilter, InboxRow, MessageFilter, PageRequest, Reader, RunFilter};
use agent::run::Run;
use agent::space::Message;
use storage::sqlite::Sqlite;

use crate::disk::now;
use crate::random_model::{DEADLY, FOUL};
use crate::world::World;

/// Checks the world and records every violation.
pub(crate) fn check(world: &World) {
    let sqlite = world.disk.sqlite();
    for flaw in now(Box::pin(sqlite.verify())).unwrap().flaws {
        world.env.violation(format!("P2: {flaw:?}"));
    }
    let messages: Vec<Message> =
        world.spaces.iter().flat_map(|(space, _)| messages(&sqlite, *space)).collect();
    accepted(world, &sqlite);
    posted_once(world, &messages);
    let mut calls = BTreeSet::new();
    for agent in &world.agents {
        let entries = entries(&sqlite, *agent);
        for entry in &entries {
            let text = entry.message.countable();
            world
                .env
                .print_if_loud(|| format!("{agent} {} {:?} {}: {text}", entry.seq, entry.kind, entry.cycle));
        }
        for row in inbox(&sqlite, *agent) {
            let (seq, id, at) = (row.seq, &row.event.id.0, row.event.at);
            world.env.print_if_loud(|| {
                format!("{agent} event {seq} {id} at {at}: {:?} {}", row.state, row.preview)
            });
        }
        calls.extend(entries.iter().flat_map(|entry| entry.message.calls().map(|(id, _, _)| id.clone())));
        processed_once(world, &sqlite, *agent, &entries);
        in_order(world, *agent, &entries, &messages);
        bounded(world, &sqlite, *agent);
        only_poison_dies(world, &sqlite, *agent);
        slots(world, &sqlite, *agent);
        let card = now(Reader::agent(&sqlite, *agent)).unwrap().unwrap();
        world.env.check(card.damage.is_none(), || format!("{agent} was quarantined: {:?}", card.damage));
    }
    effects(world, &calls);
    roots(world, &messages);
}

/// P1: every acknowledged request is stored, for each agent it was due to.
fn accepted(world: &World, sqlite: &Sqlite) {
    for request in world.requests.iter().filter(|request| request.answered == Some(true)) {
        let id = match &request.what {
            Accept::Message(message) => {
                let there = now(sqlite.message(message.id)).unwrap().is_some();
                world
                    .env
                    .check(there, || format!("P1: {} was acknowledged and is not stored", request.token));
                message.id.to_string()
            }
            Accept::Event(_, event) => event.id.0.clone(),
        };
        // A removed member need not get it.
        let space = match &request.what {
            Accept::Message(message) => Some(message.space),
            Accept::Event(..) => None,
        };
        let owed = request
            .due_to
            .iter()
            .filter(|agent| !space.is_some_and(|space| world.revoked.contains(&(space, **agent))));
        for agent in owed {
            let row = now(sqlite.event(*agent, EventId(id.clone()))).unwrap();
            world.env.check(row.is_some(), || format!("P1: {agent} never got {}", request.token));
        }
    }
}

/// P4: a message that an agent sends in a step is posted once.
fn posted_once(world: &World, messages: &[Message]) {
    let mut said = BTreeMap::new();
    for token in messages.iter().flat_map(|message| tokens(&message.text)) {
        *said.entry(token).or_insert(0) += 1;
    }
    for (token, times) in said {
        world.env.check(times == 1, || format!("P4: {token} was posted {times} times"));
    }
    let mut calls = BTreeSet::new();
    for call in messages.iter().filter_map(|message| message.call.as_ref()) {
        world.env.check(calls.insert(call), || format!("P4: the call {} posted twice", call.0));
    }
}

/// P2: an event is shown once if it was processed, and otherwise not at all.
fn processed_once(world: &World, sqlite: &Sqlite, agent: AgentId, entries: &[Entry]) {
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
        world.env.check(right, || {
            format!(
                "P2: event {} ({token}) of {agent} is {}, and was shown {times} times",
                row.seq,
                row.state.as_str()
            )
        });
    }
}

/// P6: an event that no model can answer, or that kills the process, is never processed; no other event is blamed for
/// the death of a process.
fn only_poison_dies(world: &World, sqlite: &Sqlite, agent: AgentId) {
    for row in inbox(sqlite, agent) {
        let data = format!("{:?}", row.event.data);
        let poison = data.contains(DEADLY) || data.contains(FOUL);
        let right = match &row.state {
            EventState::Processed { .. } => !poison,
            EventState::Dead { reason } => poison || !reason.contains("the process died"),
            _ => true,
        };
        world.env.check(right, || format!("P6: {data} of {agent} is {:?}", row.state));
    }
}

/// P2: a person's messages in a space are processed in the order in which they were posted.
fn in_order(world: &World, agent: AgentId, entries: &[Entry], messages: &[Message]) {
    let position = |token: &String| {
        let message = messages.iter().find(|message| message.text.starts_with(token.as_str()))?;
        let again = world.env.again.lock().unwrap().contains(&message.id.to_string());
        (!again).then_some(((message.space, message.sender), message.seq))
    };
    let mut last = BTreeMap::new();
    let seen = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection));
    for token in seen.flat_map(|entry| tokens(&entry.message.text())).filter(|token| token.starts_with("<m"))
    {
        let Some((whose, seq)) = position(&token) else { continue };
        let before = last.insert(whose, seq).unwrap_or(0);
        world.env.check(before < seq, || {
            format!("P2: {agent} was shown message {seq} ({token}) after message {before} of the same sender")
        });
    }
}

/// P4: every effect was decided, and an unsafe one happened once.
fn effects(world: &World, decided: &BTreeSet<CallId>) {
    for (call, effect) in world.env.effects.lock().unwrap().iter() {
        world
            .env
            .check(decided.contains(call), || format!("P4: {} had an effect and was never decided", call.0));
        world.env.check(effect.repeatable || effect.begun == 1, || {
            format!("P4: the unsafe call {} had its effect {} times", call.0, effect.begun)
        });
    }
}

/// P6: no cycle exceeds its limits.
fn bounded(world: &World, sqlite: &Sqlite, agent: AgentId) {
    for run in runs(sqlite, agent) {
        let steps = run.steps.len();
        world.env.check(steps <= 20, || format!("P6: cycle {} took {steps} steps", run.id));
        for sent in run.steps.iter().filter_map(|step| step.sent.as_ref()) {
            world
                .env
                .check(sent.broken.is_none(), || format!("P5: cycle {} broke its prefix: {sent:?}", run.id));
        }
        let interrupts: u32 = run.steps.iter().map(|step| step.interrupts).sum();
        world.env.check(interrupts <= limits::INTERRUPTS_PER_CYCLE, || {
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
                .env
                .check(fired.insert((plan, slot)), || format!("P2: the slot {slot} of {plan} fired twice"));
        }
    }
}

/// P6: agents that answer each other come to an end.
fn roots(world: &World, messages: &[Message]) {
    let mut posted: BTreeMap<&str, u64> = BTreeMap::new();
    for message in messages.iter().filter(|message| !world.people.contains(&message.sender)) {
        *posted.entry(&message.root.0).or_default() += 1;
    }
    for (root, count) in posted {
        world.env.check(count <= 100, || format!("P6: agents posted {count} messages for the root {root}"));
    }
}

/// All tokens in a text: whatever is between angle brackets.
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

fn pages<T>(mut request: impl FnMut(PageRequest) -> agent::port::Page<T>) -> Vec<T> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = request(PageRequest { cursor, limit: limits::PAGE_MAX });
        all.extend(page.items);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return all,
        }
    }
}

fn inbox(sqlite: &Sqlite, agent: AgentId) -> Vec<InboxRow> {
    pages(|page| now(sqlite.inbox(agent, InboxFilter::default(), page)).unwrap())
}

fn runs(sqlite: &Sqlite, agent: AgentId) -> Vec<Run> {
    pages(|page| now(Reader::runs(sqlite, agent, RunFilter::default(), page)).unwrap())
}

fn entries(sqlite: &Sqlite, agent: AgentId) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map_or(0, |entry| entry.seq);
        let some = now(sqlite.entries(agent, after, limits::PAGE_MAX)).unwrap().items;
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
        let some = now(Reader::messages(sqlite, space, MessageFilter::after(after), limits::PAGE_MAX))
            .unwrap()
            .items;
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}

/// The number of cycles that ran.
pub(crate) fn cycles(world: &World) -> u64 {
    let sqlite = world.disk.sqlite();
    world.agents.iter().map(|agent| runs(&sqlite, *agent).len() as u64).sum()
}
