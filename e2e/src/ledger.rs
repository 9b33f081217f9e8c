//! The record of everything that the harness sent, and of the server's promises.

use serde_json::Value;
use uuid::Uuid;

use crate::client::HttpAnswer;

/// The recipient of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentTo {
    /// A message in the space with this handle.
    Space(String),
    /// An event of a service for the agent with this handle.
    Agent(String),
    /// A plan of the agent with this handle, which fires once.
    Plans(String),
}

/// A promise of the server: a 2xx response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Whether the status was 201; 200 means that the item was known.
    pub fresh: bool,
    /// The id of the message, event or plan.
    pub id: String,
    /// The position of a message in its space.
    pub seq: Option<u64>,
}

/// An item that was sent, possibly several times.
#[derive(Clone, Debug)]
pub struct LedgerItem {
    /// A text that only this item contains.
    pub token: String,
    /// The recipient.
    pub to: SentTo,
    /// The request body, the same every time.
    pub body: Value,
    /// The `Idempotency-Key`, the same every time.
    pub key: Option<String>,
    /// The message id that the client chose, if it chose one.
    pub id: Option<Uuid>,
    /// All 2xx responses, in order.
    pub promises: Vec<Promise>,
    /// Responses that should never occur.
    pub rejected: Vec<String>,
}

impl LedgerItem {
    /// The URL path.
    pub fn path(&self) -> String {
        match &self.to {
            SentTo::Space(space) => format!("/v1/spaces/{space}/messages"),
            SentTo::Agent(agent) => format!("/v1/agents/{agent}/events"),
            SentTo::Plans(agent) => format!("/v1/agents/{agent}/plans"),
        }
    }

    /// Records a response; returns whether it was a promise.
    pub fn record(&mut self, answer: HttpAnswer) -> bool {
        let promise = |fresh, value: &Value| {
            let id = value["id"].as_str().unwrap_or_default().to_owned();
            Promise { fresh, id, seq: value["seq"].as_u64() }
        };
        match answer {
            HttpAnswer::Created(value) => self.promises.push(promise(true, &value)),
            HttpAnswer::Existing(value) => self.promises.push(promise(false, &value)),
            HttpAnswer::Rejected(why) => {
                self.rejected.push(why);
                return false;
            }
            HttpAnswer::RetryLater => return false,
        }
        true
    }

    /// The id of the item, once the server has accepted it.
    pub fn promised_id(&self) -> Option<&str> {
        self.promises.first().map(|promise| promise.id.as_str())
    }
}

/// All items that were sent.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The items, in the order of their creation.
    pub items: Vec<LedgerItem>,
}

impl Ledger {
    /// Indexes of items without a response so far.
    pub fn unanswered(&self) -> Vec<usize> {
        let open = |item: &LedgerItem| item.promises.is_empty() && item.rejected.is_empty();
        let open = self.items.iter().enumerate().filter(|(_, item)| open(item));
        open.map(|(index, _)| index).collect()
    }

    /// Number of items with a promise.
    pub fn accepted(&self) -> usize {
        self.items.iter().filter(|item| !item.promises.is_empty()).count()
    }

    /// Number of responses that recognized a repeated item.
    pub fn known(&self) -> usize {
        self.items.iter().flat_map(|item| &item.promises).filter(|promise| !promise.fresh).count()
    }
}
