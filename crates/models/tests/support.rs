//! A small conversation for tests: entries, layers, prompts, and the entries that the runtime adds for a reply.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::call::Effect;
use agent::config::ModelTimeouts;
use agent::entry::{Entry, EntryKind};
use agent::id::{AgentId, CallId, CycleId};
use agent::message::{ModelMessage, Part, Role};
use agent::port::{Memo, Model, ModelError, ModelRequest, Models as _, Piece, Reply, ReplyPart, ToolSpec};
use agent::prompt::{Item, Prompt, ToolChoice};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use models::client::{Address, Clients, VendorModel};
use models::model_book::{KeyRing, ModelBook, ModelConfig};
use models::wire::Wire;
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) fn cycle(n: u128) -> CycleId {
    CycleId(Uuid::from_u128(n))
}

pub(crate) fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("Does `{name}`."),
        schema: Arc::new(json!({"type": "object", "properties": {"text": {"type": "string"}}})),
        effect: Effect::Inward,
        visible: false,
        timeout: Duration::from_secs(1),
        asynchronous: false,
        version: "1".into(),
        labels: agent::tool::ToolLabels::default(),
        worker: None,
        foreign: false,
        counted: OnceLock::new(),
    }
}

/// One agent's view, as models receive it.
pub(crate) struct Conversation {
    pub(crate) prompt: Prompt,
    pub(crate) memo: Memo,
    pub(crate) seq: u64,
    pub(crate) step: u32,
}

impl Conversation {
    pub(crate) fn new() -> Self {
        let prompt = Prompt {
            system: Arc::from("You are a living agent."),
            tools: vec![tool("send_message"), tool("done")].into(),
            items: Vec::new(),
            choice: ToolChoice::Auto,
            cycle: cycle(1),
            reasoning_from: 1,
            tokens: 0,
            view: 0,
        };
        Self { prompt, memo: Memo::default(), seq: 0, step: 0 }
    }

    /// Begins a new activation: removes the layers of the one before.
    pub(crate) fn begin_cycle(&mut self, n: u128, inbox: &str, workspace: &str) {
        self.prompt.items.retain(|item| matches!(item, Item::Entry(_)));
        self.prompt.cycle = cycle(n);
        self.step = 0;
        self.entry(EntryKind::Inbox, ModelMessage::user(inbox));
        self.layer(workspace);
    }

    pub(crate) fn layer(&mut self, text: &str) {
        self.prompt.items.push(Item::Layer(Arc::from(text)));
    }

    pub(crate) fn entry(&mut self, kind: EntryKind, message: ModelMessage) {
        self.seq += 1;
        let (cycle, at) = (self.prompt.cycle, Timestamp::UNIX_EPOCH);
        let entry = Entry {
            seq: self.seq,
            cycle,
            step: self.step,
            kind,
            message,
            tokens: 1,
            at,
            trust: agent::event::Trust::Member,
        };
        self.prompt.items.push(Item::Entry(Arc::new(entry)));
    }

    pub(crate) fn user(&mut self, text: &str) {
        self.entry(EntryKind::Injection, ModelMessage::user(text));
    }

    /// Adds what the runtime adds for a reply: the assistant entry, and an outcome for each call.
    pub(crate) fn add_reply(&mut self, reply: &Reply) {
        let mut parts = Vec::new();
        let mut outcomes = Vec::new();
        for part in &reply.parts {
            parts.push(match part {
                ReplyPart::Text(text) => Part::Text { text: text.clone() },
                ReplyPart::Reasoning(text) => Part::Reasoning { text: text.clone() },
                ReplyPart::Call { name, arguments } => {
                    let agent = AgentId(Uuid::from_u128(7));
                    let index = u32::try_from(outcomes.len()).unwrap();
                    let id = CallId::derive(agent, self.prompt.cycle, self.step, index);
                    let text = json!({"ok": true, "n": self.step}).to_string();
                    outcomes.push(Part::ToolResult {
                        id: id.clone(),
                        name: name.clone(),
                        text,
                        error: false,
                    });
                    Part::ToolCall { id, name: name.clone(), arguments: arguments.clone() }
                }
            });
        }
        let native = reply.native.clone();
        self.entry(EntryKind::Assistant, ModelMessage { role: Role::Assistant, parts, native });
        if !outcomes.is_empty() {
            let message = ModelMessage { role: Role::Tool, parts: outcomes, native: None };
            self.entry(EntryKind::Outcomes, message);
        }
        self.step += 1;
    }

    /// A step of another model: text and calls without a native block.
    pub(crate) fn foreign_step(&mut self, text: &str, calls: &[(&str, &str)]) {
        let mut parts = vec![ReplyPart::Text(text.into())];
        parts.extend(calls.iter().map(|(name, arguments)| ReplyPart::Call {
            name: (*name).into(),
            arguments: (*arguments).into(),
        }));
        self.add_reply(&reply(parts));
    }

    pub(crate) async fn ask(&mut self, vendor_model: &dyn Model) -> Result<(Vec<Piece>, Reply), ModelError> {
        let timeouts = ModelTimeouts::default();
        let request = ModelRequest { prompt: &self.prompt, memo: &mut self.memo, timeouts: &timeouts };
        collect(vendor_model.stream(request)).await
    }

    /// Asks the model and adds its reply.
    pub(crate) async fn step(&mut self, vendor_model: &dyn Model) -> Reply {
        let (pieces, reply) = self.ask(vendor_model).await.unwrap();
        assert_streamed(&pieces, &reply);
        self.add_reply(&reply);
        reply
    }
}

pub(crate) fn reply(parts: Vec<ReplyPart>) -> Reply {
    let stop = agent::port::StopReason::End;
    Reply { parts, native: None, usage: agent::run::Usage::default(), stop }
}

pub(crate) async fn collect(
    mut stream: agent::port::BoxStream<'static, Result<Piece, ModelError>>,
) -> Result<(Vec<Piece>, Reply), ModelError> {
    let mut pieces = Vec::new();
    let mut reply = None;
    while let Some(piece) = stream.next().await {
        match piece? {
            Piece::Done(done) => reply = Some(done),
            piece => {
                assert!(reply.is_none(), "{piece:?} after the end");
                pieces.push(piece);
            }
        }
    }
    Ok((pieces, reply.expect("a stream ends with a reply or an error")))
}

/// Asserts that the streamed pieces add up to the reply.
pub(crate) fn assert_streamed(pieces: &[Piece], reply: &Reply) {
    let mut parts: Vec<(agent::port::PartKind, String)> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Start { part, kind } => {
                assert_eq!(*part as usize, parts.len(), "parts count from 0");
                parts.push((kind.clone(), String::new()));
            }
            Piece::Delta { part, text } => parts[*part as usize].1.push_str(text),
            Piece::Alive => {}
            Piece::Done(_) => panic!("two ends"),
        }
    }
    use agent::port::PartKind::{Reasoning, Text, ToolCall};
    let streamed: Vec<ReplyPart> = parts
        .into_iter()
        .filter(|(kind, text)| matches!(kind, ToolCall { .. }) || !text.is_empty())
        .map(|(kind, text)| match kind {
            Text => ReplyPart::Text(text),
            Reasoning => ReplyPart::Reasoning(text),
            ToolCall { name } => ReplyPart::Call { name, arguments: text },
        })
        .collect();
    assert_eq!(streamed, reply.parts);
}

pub(crate) struct NoClock;

impl agent::port::Clock for NoClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
    fn sleep(&self, _: Duration) -> agent::port::BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A model as the server creates it, with a canary as its key.
pub(crate) fn vendor_model(config: ModelConfig) -> Arc<dyn Model> {
    let keys = KeyRing::gather(|_| Some("sk-canary-0123456789".into()), &[], "secrets.toml");
    ModelBook::new(config, keys, Arc::new(NoClock)).model(None).unwrap()
}

pub(crate) fn model_at(name: &str, url: &str) -> Arc<dyn Model> {
    vendor_model(ModelConfig { base_url: Some(url.into()), ..ModelConfig::named(name) })
}

/// A model with this wire.
pub(crate) fn model_with_wire(wire: impl Wire + 'static, url: &str) -> VendorModel {
    let info = agent::port::ModelInfo {
        name: "test/model".into(),
        provider: "test".into(),
        context_window: 100_000,
        max_output: 1_000,
        reasoning_replay: wire.replay(),
        ..agent::port::ModelInfo::default()
    };
    let address = Address { base_url: url.into(), key: None, headers: BTreeMap::new() };
    VendorModel::new(info, Arc::new(wire), address, Arc::new(Clients::default()))
}

pub(crate) fn json_of(vendor_model: &VendorModel, conversation: &mut Conversation) -> Value {
    serde_json::from_slice(&vendor_model.encode(&conversation.prompt, &mut conversation.memo).body.concat())
        .unwrap()
}
