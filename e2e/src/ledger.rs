//! What the harness sent, and what it was promised for it.

use serde_json::Value;
use uuid::Uuid;

use crate::client::HttpAnswer;

/// Where something was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentTo {
    /// Said in the space with this handle.
    Space(String),
    /// Sent to the agent with this handle, as a service.
    Agent(String),
}

/// One promise: a 2xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// 201, else 200: it was known.
    pub fresh: bool,
    /// The message's or the event's id.
    pub id: String,
    /// A message's place in its space.
    pub seq: Option<u64>,
}

/// One thing that was sent, maybe several times.
#[derive(Clone, Debug)]
pub struct LedgerItem {
    /// What its text contains and no other's.
    pub token: String,
    /// Where it went.
    pub door: SentTo,
    /// The body, the same every time.
    pub body: Value,
    /// The `Idempotency-Key`, the same every time.
    pub key: Option<String>,
    /// The id that was chosen for it.
    pub id: Option<Uuid>,
    /// Every 2xx, in order.
    pub promises: Vec<Promise>,
    /// Every answer that it should never get.
    pub refused: Vec<String>,
}

impl LedgerItem {
    /// The path of its route.
    pub fn path(&self) -> String {
        match &self.door {
            SentTo::Space(space) => format!("/v1/spaces/{space}/messages"),
            SentTo::Agent(agent) => format!("/v1/agents/{agent}/events"),
        }
    }

    /// Writes an answer down. Whether it was a promise.
    pub fn heard(&mut self, answer: HttpAnswer) -> bool {
        let promise = |fresh, value: &Value| {
            let id = value["id"].as_str().or(value["event_id"].as_str()).unwrap_or_default().to_owned();
            Promise { fresh, id, seq: value["seq"].as_u64() }
        };
        match answer {
            HttpAnswer::Fresh(value) => self.promises.push(promise(true, &value)),
            HttpAnswer::Known(value) => self.promises.push(promise(false, &value)),
            HttpAnswer::Refused(why) => {
                self.refused.push(why);
                return false;
            }
            HttpAnswer::Later => return false,
        }
        true
    }

    /// Its id, once something was promised.
    pub fn promised_id(&self) -> Option<&str> {
        self.promises.first().map(|promise| promise.id.as_str())
    }
}

/// Everything that was sent.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// In the order in which they were made.
    pub items: Vec<LedgerItem>,
}

impl Ledger {
    /// Places of those that were promised nothing yet.
    pub fn unanswered(&self) -> Vec<usize> {
        let open = |item: &LedgerItem| item.promises.is_empty() && item.refused.is_empty();
        let open = self.items.iter().enumerate().filter(|(_, item)| open(item));
        open.map(|(place, _)| place).collect()
    }

    /// Items with a promise.
    pub fn accepted(&self) -> usize {
        self.items.iter().filter(|item| !item.promises.is_empty()).count()
    }

    /// Answers that said: known.
    pub fn known(&self) -> usize {
        self.items.iter().flat_map(|item| &item.promises).filter(|promise| !promise.fresh).count()
    }
}
