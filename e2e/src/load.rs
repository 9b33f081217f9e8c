//! The load on one process: producers that send as fast as they get responses, until there are none.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::client::HttpClient;
use crate::inbox;
use crate::ledger::{Ledger, LedgerItem, SentTo};
use crate::random::Rng;
use crate::world::{AGENTS, SPACES, WorldSpace};

/// Number of concurrent producers.
const PRODUCERS: u64 = 16;
/// New items per producer and round: bounds the time that processing takes at the end.
const NEW_PER_PRODUCER: u64 = 8;
/// Items of earlier rounds that each round sends again.
const REPEATED_ITEMS: u64 = 5;

/// The state that all producers share.
#[derive(Debug, Default)]
pub struct Load {
    ledger: Mutex<Ledger>,
    numbers: AtomicU64,
}

/// A round of a world.
#[derive(Clone, Copy, Debug)]
pub struct KillRound {
    /// The seed of the whole run.
    pub seed: u64,
    /// The number of the round, from 0.
    pub number: u64,
}

impl Load {
    /// The record of sent items and promises.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends items without a response, then some old items again, then new ones. Ends when the server dies or when each
    /// producer has sent its share.
    pub async fn run(self: Arc<Self>, client: HttpClient, round: KillRound) {
        let backlog = Arc::new(Mutex::new(self.backlog(round)));
        let producers = (0..PRODUCERS).map(|producer| {
            let (load, client, backlog) = (Arc::clone(&self), client.clone(), Arc::clone(&backlog));
            tokio::spawn(async move { load.produce(&client, &backlog, round, producer).await })
        });
        join_all(producers).await;
    }

    /// Sends items without a response until all have one.
    pub async fn settle(&self, client: &HttpClient) {
        while let Some(index) = { self.ledger().unanswered().first().copied() } {
            if !self.send(client, index).await {
                return;
            }
        }
    }

    /// Posts a message of a person in that space that agents skip.
    pub async fn post_skip(&self, client: &HttpClient, space: &WorldSpace, seed: u64) {
        let number = self.number();
        let item = message_item(number, "SKIP", space, &mut Rng::derive(seed, &[number, 55]));
        let index = self.add(item);
        self.send(client, index).await;
    }

    fn backlog(&self, round: KillRound) -> VecDeque<usize> {
        let ledger = self.ledger();
        let mut backlog = VecDeque::from(ledger.unanswered());
        let mut rng = Rng::derive(round.seed, &[round.number, 77]);
        if !ledger.items.is_empty() {
            let last = ledger.items.len() as u64 - 1;
            backlog.extend((0..REPEATED_ITEMS).map(|_| rng.between(0, last) as usize));
        }
        backlog
    }

    async fn produce(
        &self,
        client: &HttpClient,
        backlog: &Mutex<VecDeque<usize>>,
        round: KillRound,
        producer: u64,
    ) {
        let mut rng = Rng::derive(round.seed, &[round.number, producer]);
        let mut created = 0;
        loop {
            let old = backlog.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            if old.is_none() && created == NEW_PER_PRODUCER {
                return;
            }
            let index = old.unwrap_or_else(|| {
                created += 1;
                self.new_item(&mut rng, round)
            });
            // Most are sent once, some up to five times, concurrently or one after the other.
            let times = if rng.one_in(4) { rng.between(2, 5) } else { 1 };
            let responded = if rng.one_in(2) {
                join_all((0..times).map(|_| self.send(client, index))).await.contains(&true)
            } else {
                let mut responded = true;
                for _ in 0..times {
                    responded = responded && self.send(client, index).await;
                }
                responded
            };
            if !responded {
                return;
            }
        }
    }

    /// Creates an item; returns its index in the ledger.
    fn new_item(&self, rng: &mut Rng, round: KillRound) -> usize {
        let number = self.number();
        let item = match rng.between(1, 12) {
            1 => service_item(number, rng),
            2 => plan_item(number, rng),
            _ => random_message(number, rng, round),
        };
        self.add(item)
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn add(&self, item: LedgerItem) -> usize {
        let mut ledger = self.ledger();
        ledger.items.push(item);
        ledger.items.len() - 1
    }

    /// Sends an item once; returns whether the server responded.
    async fn send(&self, client: &HttpClient, index: usize) -> bool {
        let item = self.ledger().items[index].clone();
        let Some(answer) = client.post(&item.path(), &item.body, item.key.as_deref()).await else {
            return false;
        };
        self.ledger().items[index].record(answer);
        true
    }
}

fn random_message(number: u64, rng: &mut Rng, round: KillRound) -> LedgerItem {
    let space = rng.pick(&SPACES);
    // In one round either all or none of a space's messages are to be skipped: otherwise an inbox would hardly ever
    // contain only such messages.
    let name = space.name.bytes().map(u64::from).sum();
    let word = if Rng::derive(round.seed, &[round.number, name]).one_in(4) { "SKIP" } else { "note" };
    message_item(number, word, space, rng)
}

/// A message of a random person in that space.
fn message_item(number: u64, word: &str, space: &WorldSpace, rng: &mut Rng) -> LedgerItem {
    let WorldSpace { name, people, agents } = space;
    let token = inbox::token(number);
    let filler = "x".repeat(rng.between(0, 200) as usize);
    let mention = if rng.one_in(6) { format!(" @{}", rng.pick(agents)) } else { String::new() };
    let mut body =
        json!({"text": format!("{word} {token}{mention} {filler}").trim_end(), "sender": rng.pick(people)});
    if rng.one_in(10) {
        body["urgent"] = json!(true);
    }
    // Identified by a client-chosen id, by an idempotency key, or by both.
    let (with_id, with_key) = *rng.pick(&[(true, false), (true, false), (true, true), (false, true)]);
    let id = with_id.then(|| rng.uuid());
    if let Some(id) = id {
        body["id"] = json!(id);
    }
    let key = with_key.then(|| format!("key-{number}"));
    LedgerItem {
        token,
        to: SentTo::Space((*name).to_owned()),
        body,
        key,
        id,
        promises: Vec::new(),
        rejected: Vec::new(),
    }
}

fn service_item(number: u64, rng: &mut Rng) -> LedgerItem {
    let (token, agent, payload) = payload(number, rng);
    let body = json!({"service": "kill", "payload": payload});
    keyed(number, token, SentTo::Agent(agent), body)
}

/// A plan that fires once, soon: in this process, or in a later one that finds it overdue.
fn plan_item(number: u64, rng: &mut Rng) -> LedgerItem {
    let (token, agent, payload) = payload(number, rng);
    let after = format!("{}s", rng.between(1, 3));
    // A plan of a known name would replace it.
    let name = format!("kill {number}");
    let body = json!({"name": name, "instruction": payload.to_string(), "after": after});
    keyed(number, token, SentTo::Plans(agent), body)
}

/// A token, an agent, and a payload that asks it to reply in one of its spaces.
fn payload(number: u64, rng: &mut Rng) -> (String, String, Value) {
    let token = inbox::token(number);
    let agent = *rng.pick(&AGENTS);
    let spaces: Vec<&str> =
        SPACES.iter().filter(|space| space.agents.contains(&agent)).map(|space| space.name).collect();
    let payload = json!({"token": token, "space": rng.pick(&spaces)});
    (token, agent.to_owned(), payload)
}

fn keyed(number: u64, token: String, to: SentTo, body: Value) -> LedgerItem {
    let key = Some(format!("key-{number}"));
    LedgerItem { token, to, body, key, id: None, promises: Vec::new(), rejected: Vec::new() }
}
