//! What watchers see while a model generates: `send_message` text appears in its space as its
//! arguments grow, the input of a visible tool where the agent stands, everything else on the agent's
//! own stream.
//!
//! A draft's place is certain before its first character is shown: `space` came first, or the text
//! goes to the active space (where an `enter_space` earlier in the same generation counts as done). A call
//! that is refused whatever its arguments are is shown nowhere.

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

/// Where one generation is shown.
pub(crate) struct DraftStream {
    agent: AgentId,
    cycle: CycleId,
    step: u32,
    facts: Arc<Facts>,
    /// Names of the tools that may be called in this step.
    callable: Vec<String>,
    /// Names of the visible tools.
    visible: Vec<String>,
    active: Option<SpaceId>,
    live: Arc<Live>,
    parts: HashMap<u32, Shown>,
    calls: u32,
    /// Bytes generated so far, of whatever kind.
    bytes: u64,
}

enum Shown {
    Thought { reasoning: bool },
    Entering { partial: Partial, space: String },
    Speaking(Box<Speaking>),
    Working(Box<Working>),
    Other,
}

struct Speaking {
    message: MessageId,
    partial: Partial,
    space: String,
    named: bool,
    place: Option<SpaceId>,
    /// Bytes shown so far.
    shown: usize,
}

/// The input of a visible call.
struct Working {
    message: MessageId,
    tool: String,
    place: SpaceId,
    /// Bytes shown so far.
    shown: usize,
}

impl DraftStream {
    /// The stage of the step in progress.
    pub(crate) fn of(cycle: &Cycle, agent: AgentId, live: &Arc<Live>) -> Self {
        Self {
            agent,
            cycle: cycle.id(),
            step: cycle.step(),
            facts: Arc::new(cycle.facts().clone()),
            callable: cycle.callable_tools(),
            visible: cycle.visible_tools(),
            active: cycle.active_space(),
            live: Arc::clone(live),
            parts: HashMap::new(),
            calls: 0,
            bytes: 0,
        }
    }

    /// Shows a piece.
    pub(crate) fn show(&mut self, piece: &Piece) {
        match piece {
            Piece::Start { part, kind } => self.begin(*part, kind),
            Piece::Delta { part, text } => {
                self.bytes += text.len() as u64;
                self.delta(*part, text);
            }
            Piece::Alive | Piece::Done(_) => {}
        }
    }

    /// About how many tokens were generated; what a provider reports comes only at the end.
    pub(crate) fn generated_tokens(&self) -> u64 {
        agent::tokens::about(self.bytes)
    }

    /// The generation is void: what was shown of it is withdrawn.
    pub(crate) fn void(&mut self) {
        self.parts.clear();
        self.calls = 0;
        self.bytes = 0;
        self.live.reset_drafts(self.agent);
    }

    fn begin(&mut self, part: u32, kind: &PartKind) {
        let shown = match kind {
            PartKind::Text => Shown::Thought { reasoning: false },
            PartKind::Reasoning => Shown::Thought { reasoning: true },
            PartKind::ToolCall { name } => {
                let call = CallId::derive(self.agent, self.cycle, self.step, self.calls);
                self.calls += 1;
                match name.as_str() {
                    refused if self.refuses(refused) => Shown::Other,
                    names::SEND_MESSAGE => Shown::Speaking(Box::new(Speaking {
                        message: MessageId::of_call(&call),
                        partial: Partial::default(),
                        space: String::new(),
                        named: false,
                        place: None,
                        shown: 0,
                    })),
                    names::ENTER_SPACE => {
                        Shown::Entering { partial: Partial::default(), space: String::new() }
                    }
                    tool => self.working(tool, &call),
                }
            }
        };
        self.parts.insert(part, shown);
    }

    /// Whether the call that begins is certain to be refused.
    fn refuses(&self, tool: &str) -> bool {
        self.calls as usize > limits::CALLS_PER_STEP || !self.callable.iter().any(|name| name == tool)
    }

    /// A visible call is shown where the agent stands.
    fn working(&self, tool: &str, call: &CallId) -> Shown {
        let visible = self.visible.iter().any(|name| name == tool);
        let Some(place) = self.facts.here(self.active).filter(|_| visible) else { return Shown::Other };
        let (message, tool) = (MessageId::of_call(call), tool.to_owned());
        // Shown from the first moment, whatever its arguments are.
        self.live.draft_input(self.agent, place, message, &tool, "");
        Shown::Working(Box::new(Working { message, tool, place, shown: 0 }))
    }

    fn delta(&mut self, part: u32, text: &str) {
        match self.parts.get_mut(&part) {
            Some(Shown::Thought { reasoning }) => {
                let topic = Topic::Agent(self.agent);
                if self.live.bus().watched(topic) {
                    let (agent, cycle, step) = (self.agent, self.cycle, self.step);
                    let (reasoning, delta) = (*reasoning, text.to_owned());
                    let update = Update::Thought { agent, cycle, step, reasoning, delta };
                    self.live.bus().publish(&[topic], Arc::new(update));
                }
            }
            Some(Shown::Entering { partial, space }) => {
                for fragment in partial.feed(text).into_iter().filter(|f| f.field == "space") {
                    space.push_str(&fragment.text);
                    if fragment.end {
                        let found = self.facts.find_space(space).map(|facts| facts.space.id);
                        self.active = found.or(self.active);
                    }
                }
            }
            Some(Shown::Speaking(speaking)) => {
                for fragment in speaking.partial.feed(text) {
                    speaking.read(&fragment.field, &fragment.text, fragment.end, &self.facts);
                    if fragment.field == "text" && !fragment.text.is_empty() {
                        let place =
                            if speaking.named { speaking.place } else { self.facts.here(self.active) };
                        // A longer text is not said, so its rest is not shown.
                        speaking.shown += fragment.text.len();
                        if let Some(place) = place.filter(|_| speaking.shown <= limits::MESSAGE_MAX_BYTES) {
                            self.live.draft(self.agent, place, speaking.message, &fragment.text);
                        }
                    }
                }
            }
            Some(Shown::Working(working)) => {
                working.shown += text.len();
                if working.shown <= limits::TOOL_SHOWN_MAX_BYTES {
                    let Working { message, tool, place, .. } = &**working;
                    self.live.draft_input(self.agent, *place, *message, tool, text);
                }
            }
            Some(Shown::Other) | None => {}
        }
    }
}

impl Speaking {
    fn read(&mut self, field: &str, text: &str, end: bool, facts: &Facts) {
        if field != "space" {
            return;
        }
        self.space.push_str(text);
        self.named = !self.space.is_empty();
        if end {
            self.place = facts.find_space(&self.space).map(|facts| facts.space.id);
        }
    }
}
