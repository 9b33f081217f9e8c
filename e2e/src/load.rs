//! The load of one life: producers that send as fast as they are answered, until nobody answers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use serde_json::json;

use crate::client::Client;
use crate::dice::Dice;
use crate::inbox;
use crate::ledger::{Ledger, LedgerItem, SentTo};
use crate::world::{AGENTS, SPACES, WorldSpace};

/// Producers at once.
const PRODUCERS: u64 = 16;
/// New items of one producer in one life: keeps what must be processed in the end within minutes.
const EACH_MOST: u64 = 8;
/// Items of earlier lives that each life sends once more.
const OLD_ONES: u64 = 5;

/// What all producers share.
#[derive(Debug, Default)]
pub struct Load {
    ledger: Mutex<Ledger>,
    numbers: AtomicU64,
}

/// Which life it is, and of which seed.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The seed of the whole run.
    pub seed: u64,
    /// 0 for the first life.
    pub life: u64,
}

impl Load {
    /// What was sent and promised so far.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is unanswered, some old items again, then new ones. Ends when the server does, or
    /// when each producer has sent its share.
    pub async fn run(self: Arc<Self>, client: Client, turn: Turn) {
        let backlog = Arc::new(Mutex::new(self.backlog(turn)));
        let producers = (0..PRODUCERS).map(|producer| {
            let (load, client, backlog) = (Arc::clone(&self), client.clone(), Arc::clone(&backlog));
            tokio::spawn(async move { load.produce(&client, &backlog, turn, producer).await })
        });
        join_all(producers).await;
    }

    /// Sends what is unanswered until all of it is answered.
    pub async fn settle(&self, client: &Client) {
        while let Some(place) = { self.ledger().unanswered().first().copied() } {
            if !self.send(client, place).await {
                return;
            }
        }
    }

    /// A person says in that space that there is nothing to do.
    pub async fn speak(&self, client: &Client, place: &WorldSpace, seed: u64) {
        let number = self.number();
        let item = words(number, "SKIP", place, &mut Dice::of(seed, &[number, 55]));
        let place = self.note(item);
        self.send(client, place).await;
    }

    fn backlog(&self, turn: Turn) -> VecDeque<usize> {
        let ledger = self.ledger();
        let mut backlog = VecDeque::from(ledger.unanswered());
        let mut dice = Dice::of(turn.seed, &[turn.life, 77]);
        if !ledger.items.is_empty() {
            let last = ledger.items.len() as u64 - 1;
            backlog.extend((0..OLD_ONES).map(|_| dice.between(0, last) as usize));
        }
        backlog
    }

    async fn produce(&self, client: &Client, backlog: &Mutex<VecDeque<usize>>, turn: Turn, producer: u64) {
        let mut dice = Dice::of(turn.seed, &[turn.life, producer]);
        let mut made = 0;
        loop {
            let old = backlog.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            if old.is_none() && made == EACH_MOST {
                return;
            }
            let place = old.unwrap_or_else(|| {
                made += 1;
                self.make(&mut dice, turn)
            });
            // Most are sent once, some up to five times: at once, or behind each other.
            let times = if dice.one_in(4) { dice.between(2, 5) } else { 1 };
            let alive = if dice.one_in(2) {
                join_all((0..times).map(|_| self.send(client, place))).await.contains(&true)
            } else {
                let mut alive = true;
                for _ in 0..times {
                    alive = alive && self.send(client, place).await;
                }
                alive
            };
            if !alive {
                return;
            }
        }
    }

    /// A new item, its place in the ledger.
    fn make(&self, dice: &mut Dice, turn: Turn) -> usize {
        let number = self.number();
        self.note(if dice.one_in(12) { service(number, dice) } else { said(number, dice, turn) })
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn note(&self, item: LedgerItem) -> usize {
        let mut ledger = self.ledger();
        ledger.items.push(item);
        ledger.items.len() - 1
    }

    /// Sends an item once. Whether the server lives.
    async fn send(&self, client: &Client, place: usize) -> bool {
        let item = self.ledger().items[place].clone();
        let Some(answer) = client.post(&item.path(), &item.body, item.key.as_deref()).await else {
            return false;
        };
        self.ledger().items[place].heard(answer);
        true
    }
}

fn said(number: u64, dice: &mut Dice, turn: Turn) -> LedgerItem {
    let place = dice.pick(&SPACES);
    // Nobody's business are all of a space's messages in a life or none: else they would hardly
    // ever be a whole inbox.
    let name = place.name.bytes().map(u64::from).sum();
    let word = if Dice::of(turn.seed, &[turn.life, name]).one_in(4) { "SKIP" } else { "note" };
    words(number, word, place, dice)
}

/// Somebody's words in that space.
fn words(number: u64, word: &str, place: &WorldSpace, dice: &mut Dice) -> LedgerItem {
    let WorldSpace { name, people, agents } = place;
    let token = inbox::token(number);
    let filler = "x".repeat(dice.between(0, 200) as usize);
    let mention = if dice.one_in(6) { format!(" @{}", dice.pick(agents)) } else { String::new() };
    let mut body =
        json!({"text": format!("{word} {token}{mention} {filler}").trim_end(), "sender": dice.pick(people)});
    if dice.one_in(10) {
        body["urgent"] = json!(true);
    }
    // Named by the client, by a key, or by both.
    let (with_id, with_key) = *dice.pick(&[(true, false), (true, false), (true, true), (false, true)]);
    let id = with_id.then(|| dice.uuid());
    if let Some(id) = id {
        body["id"] = json!(id);
    }
    let key = with_key.then(|| format!("key-{number}"));
    LedgerItem {
        token,
        door: SentTo::Space((*name).to_owned()),
        body,
        key,
        id,
        promises: Vec::new(),
        refused: Vec::new(),
    }
}

fn service(number: u64, dice: &mut Dice) -> LedgerItem {
    let token = inbox::token(number);
    let agent = *dice.pick(&AGENTS);
    let spaces: Vec<&str> =
        SPACES.iter().filter(|place| place.agents.contains(&agent)).map(|place| place.name).collect();
    let payload = json!({"token": token, "space": dice.pick(&spaces)});
    let body = json!({"service": "kill", "payload": payload});
    let key = Some(format!("key-{number}"));
    LedgerItem {
        token,
        door: SentTo::Agent(agent.to_owned()),
        body,
        key,
        id: None,
        promises: Vec::new(),
        refused: Vec::new(),
    }
}
