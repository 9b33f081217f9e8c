//! What watchers see while a model generates. The text of `send_message` appears in its space as the arguments
//! arrive, the input of a visible tool in the active space, and everything else on the agent's own stream.
//!
//! A draft's space is certain before its first character is shown: `space` came before the text, or the agent has only one.
//! Otherwise the text is held back until `space` comes or the arguments end; without it the text goes to the active space (an
//! `enter_space` earlier in the same generation counts). A call that is certain to be refused is never shown.

use std::collections::HashMap;
use std::sync::Arc;

use agent::cycle::Cycle;
use agent::id::{AgentId, CallId, CycleId, MessageId, SpaceId};
use agent::life::Facts;
use agent::limits;
use agent::partial::Partial;
use agent::port::{PartKind, Piece};
use agent::tool::names;
use agent::update::{Topic, Update};

use crate::live::Live;

/// The drafts of one generation.
pub(crate) struct DraftStream {
    agent: AgentId,
    cycle: CycleId,
    step: u32,
    facts: Arc<Facts>,
    /// Tools that may be called in this step.
    callable: Vec<String>,
    /// Visible tools.
    visible: Vec<String>,
    active: Option<SpaceId>,
    live: Arc<Live>,
    parts: HashMap<u32, PartDraft>,
    calls: u32,
    /// Bytes generated so far, of all kinds.
    bytes: u64,
    /// Whether a request was sent whose generation is not discarded.
    sent: bool,
    hidden: bool,
}

enum PartDraft {
    Text { reasoning: bool },
    EnterSpace { partial: Partial, space: String },
    Message(Box<MessageDraft>),
    ToolInput(Box<ToolInputDraft>),
    Other,
}

struct MessageDraft {
    message: MessageId,
    partial: Partial,
    /// The argument `space`, as far as it has arrived.
    space: String,
    /// Whether that argument was given, to its end.
    named: bool,
    /// The space it names, once it is complete.
    target: Option<SpaceId>,
    /// The text so far, while it is not known where it goes.
    held: String,
    /// Bytes shown so far.
    shown: usize,
}

/// The input of a visible call.
struct ToolInputDraft {
    message: MessageId,
    tool: String,
    space: SpaceId,
    /// Bytes shown so far.
    shown: usize,
}

impl DraftStream {
    /// The stream of the step in progress.
    pub(crate) fn of(cycle: &Cycle, agent: AgentId, live: &Arc<Live>) -> Self {
        Self {
            agent,
            cycle: cycle.id(),
            step: cycle.step(),
            facts: Arc::clone(cycle.facts()),
            callable: cycle.callable_tools(),
            visible: cycle.visible_tools(),
            active: cycle.active_space(),
            live: Arc::clone(live),
            parts: HashMap::new(),
            calls: 0,
            bytes: 0,
            sent: false,
            hidden: false,
        }
    }

    /// A stream that shows nothing to watchers.
    pub(crate) fn hidden(cycle: &Cycle, agent: AgentId, live: &Arc<Live>) -> Self {
        Self { hidden: true, ..Self::of(cycle, agent, live) }
    }

    /// Shows a piece.
    pub(crate) fn show(&mut self, piece: &Piece) {
        match piece {
            Piece::Start { .. } if self.hidden => {}
            Piece::Start { part, kind } => self.begin(*part, kind),
            Piece::Delta { part, text } => {
                self.bytes += text.len() as u64;
                self.delta(*part, text);
            }
            Piece::Alive | Piece::Done(_) => {}
        }
    }

    /// An estimate of the tokens generated; a provider reports the number only at the end.
    pub(crate) fn generated_tokens(&self) -> u64 {
        agent::tokens::about(self.bytes)
    }

    /// The request of the generation is sent.
    pub(crate) fn begin_generation(&mut self) {
        self.sent = true;
    }

    /// The same; `None` if no request is running.
    pub(crate) fn running_tokens(&self) -> Option<u64> {
        self.sent.then(|| self.generated_tokens())
    }

    /// The generation is discarded: its drafts are withdrawn.
    pub(crate) fn withdraw(&mut self) {
        self.parts.clear();
        self.calls = 0;
        (self.bytes, self.sent) = (0, false);
        self.live.reset_drafts(self.agent);
    }

    fn begin(&mut self, part: u32, kind: &PartKind) {
        let draft = match kind {
            PartKind::Text => PartDraft::Text { reasoning: false },
            PartKind::Reasoning => PartDraft::Text { reasoning: true },
            PartKind::ToolCall { name } => {
                let call = CallId::derive(self.agent, self.cycle, self.step, self.calls);
                self.calls += 1;
                match name.as_str() {
                    refused if self.refuses(refused) => PartDraft::Other,
                    names::SEND_MESSAGE => PartDraft::Message(Box::new(MessageDraft {
                        message: MessageId::of_call(&call),
                        partial: Partial::default(),
                        space: String::new(),
                        named: false,
                        target: None,
                        held: String::new(),
                        shown: 0,
                    })),
                    names::ENTER_SPACE => {
                        PartDraft::EnterSpace { partial: Partial::default(), space: String::new() }
                    }
                    tool => self.tool_input(tool, &call),
                }
            }
        };
        self.parts.insert(part, draft);
    }

    /// Whether the call that begins is certain to be refused.
    fn refuses(&self, tool: &str) -> bool {
        self.calls as usize > limits::CALLS_PER_STEP || !self.callable.iter().any(|name| name == tool)
    }

    /// A visible call is shown in the active space.
    fn tool_input(&self, tool: &str, call: &CallId) -> PartDraft {
        let visible = self.visible.iter().any(|name| name == tool);
        let Some(space) = self.facts.default_space(self.active).filter(|_| visible) else {
            return PartDraft::Other;
        };
        let (message, tool) = (MessageId::of_card(call), tool.to_owned());
        // PartDraft at once, before its arguments arrive.
        self.live.draft_input(self.agent, space, message, &tool, "");
        PartDraft::ToolInput(Box::new(ToolInputDraft { message, tool, space, shown: 0 }))
    }

    fn delta(&mut self, part: u32, text: &str) {
        match self.parts.get_mut(&part) {
            Some(PartDraft::Text { reasoning }) => {
                let topic = Topic::Agent(self.agent);
                if self.live.bus().watched(topic) {
                    let (agent, cycle, step) = (self.agent, self.cycle, self.step);
                    let (reasoning, delta) = (*reasoning, text.to_owned());
                    let update = Update::Thought { agent, cycle, step, reasoning, delta };
                    self.live.bus().publish(&[topic], Arc::new(update));
                }
            }
            Some(PartDraft::EnterSpace { partial, space }) => {
                for fragment in partial.feed(text).into_iter().filter(|f| f.field == "space") {
                    space.push_str(&fragment.text);
                    if fragment.end {
                        let found = self.facts.find_space(space).map(|facts| facts.space.id);
                        self.active = found.or(self.active);
                    }
                }
            }
            Some(PartDraft::Message(draft)) => {
                let only = self.facts.spaces.len() + self.facts.more_spaces == 1;
                for fragment in draft.partial.feed(text) {
                    draft.read_space(&fragment.field, &fragment.text, fragment.end, &self.facts);
                    if fragment.field == "text" {
                        draft.held.push_str(&fragment.text);
                    }
                }
                let ended = draft.partial.is_at_end();
                let space = if draft.named { draft.target } else { self.facts.default_space(self.active) };
                if (draft.named || only || ended) && !draft.held.is_empty() {
                    let text = std::mem::take(&mut draft.held);
                    // A text above the limit is refused, so the part above it is not shown.
                    draft.shown += text.len();
                    if let Some(space) = space.filter(|_| draft.shown <= limits::MESSAGE_MAX_BYTES) {
                        self.live.draft(self.agent, space, draft.message, &text);
                    }
                }
            }
            Some(PartDraft::ToolInput(draft)) => {
                draft.shown += text.len();
                if draft.shown <= limits::TOOL_SHOWN_MAX_BYTES {
                    let ToolInputDraft { message, tool, space, .. } = &**draft;
                    self.live.draft_input(self.agent, *space, *message, tool, text);
                }
            }
            Some(PartDraft::Other) | None => {}
        }
    }
}

impl MessageDraft {
    fn read_space(&mut self, field: &str, text: &str, end: bool, facts: &Facts) {
        if field != "space" {
            return;
        }
        self.space.push_str(text);
        if end {
            self.named = !self.space.is_empty();
            self.target = facts.find_space(&self.space).map(|facts| facts.space.id);
        }
    }
}
