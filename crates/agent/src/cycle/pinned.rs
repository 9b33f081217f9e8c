//! Values that are fixed for one activation, and the life row that the next commit will find.

use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

use super::{Outside, Overfull, Setup};
use crate::approval::ApprovalRule;
use crate::config::{AgentConfig, Example, SummaryBy};
use crate::entity::Entity;
use crate::entry::{Entry, EntryKind};
use crate::event::Trust;
use crate::id::{AgentId, CycleId, SpaceId};
use crate::inbox;
use crate::limits;
use crate::message::{ModelMessage, Part, Role};
use crate::port::ModelInfo;
use crate::tokens;
use crate::view::Budget;
use crate::workspace::{self, Moment};

/// Fixed for an activation.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) agent: AgentId,
    pub(super) entity: Entity,
    pub(super) config: Arc<AgentConfig>,
    pub(super) setup: Setup,
    pub(super) system: Arc<str>,
    /// The exchanges that are shown before the history.
    pub(super) examples: Vec<Arc<Entry>>,
    /// Tokens of system, examples and tools.
    pub(super) fixed_tokens: u64,
    /// Milliseconds that the open cycle's earlier activations were awake.
    pub(super) awake_before: u64,
    /// Its calls that need no approval for a time.
    pub(super) rules: Vec<ApprovalRule>,
}

/// The life row that the next commit will find, without the open cycle.
#[derive(Debug)]
pub(super) struct LifeState {
    pub(super) epoch: u64,
    pub(super) commit_n: u64,
    pub(super) cycles: u64,
    pub(super) failures: u32,
    pub(super) notice: Option<String>,
    pub(super) active_space: Option<SpaceId>,
    /// The active space if this activation has changed it: its first decision stores it.
    pub(super) entered: Option<SpaceId>,
}

impl Pinned {
    pub(super) fn new(
        agent: AgentId,
        entity: Entity,
        config: Arc<AgentConfig>,
        setup: Setup,
        awake_before: u64,
        rules: Vec<ApprovalRule>,
    ) -> Self {
        let system = workspace::system(&entity, &config, &setup.tools);
        let examples = examples(&config.examples);
        let tools: u64 = setup.tools.iter().map(|tool| u64::from(tool.tokens())).sum();
        let shown: u64 = examples.iter().map(|entry| u64::from(entry.tokens)).sum();
        let fixed_tokens = u64::from(tokens::estimate(&system)) + shown + tools;
        Self {
            agent,
            entity,
            config,
            setup,
            system: system.into(),
            examples,
            fixed_tokens,
            awake_before,
            rules,
        }
    }

    /// What the workspace shows in this moment: in a small window less of it.
    pub(super) fn moment<'a>(
        &'a self,
        outside: &'a Outside,
        active: Option<SpaceId>,
        now: Timestamp,
    ) -> Moment<'a> {
        let (Outside { facts, recent, .. }, room) = (outside, self.workspace_room());
        Moment { me: &self.entity, facts, recent, active, parts: &self.config.workspace.show, room, now }
    }

    /// How many bytes the workspace may have.
    pub(super) fn workspace_room(&self) -> usize {
        let share = u64::from(self.setup.model.context_window) / limits::WORKSPACE_SHARE;
        tokens::bytes_within(share).min(limits::WORKSPACE_MAX_BYTES)
    }

    /// The model that the config names; `None` is the agent's own.
    pub(super) fn model(&self, model: Option<&str>) -> &ModelInfo {
        let other = model.and_then(|model| self.setup.others.iter().find(|(name, _)| name == model));
        other.map_or(&self.setup.model, |(_, info)| info)
    }

    /// Room for entries with that model, next to `shown` tokens that are sent but not in the log.
    pub(super) fn budget(&self, model: Option<&str>, shown: u64) -> Budget {
        let model = self.model(model);
        let budget = Budget::of(model.context_window, model.max_output, self.fixed_tokens, shown);
        let history = &self.config.history;
        let summary = if history.summary == SummaryBy::Off { 0 } else { budget.summary };
        Budget { entries: history.max_entries as usize, summary, ..budget }
    }

    /// That model's window, if what is sent in addition to the entries leaves no room for one exchange in it.
    pub(super) fn overfull(&self, model: Option<&str>, layers: u64) -> Option<Overfull> {
        let ModelInfo { name, context_window, max_output, .. } = self.model(model);
        let (window, output) = (u64::from(*context_window), u64::from(*max_output));
        let full = window.saturating_sub(output + self.fixed_tokens + layers) < limits::EXCHANGE_MIN_TOKENS;
        full.then(|| Overfull { model: name.clone(), window, output, fixed: self.fixed_tokens, layers })
    }

    pub(super) fn batch_bytes(&self, model: Option<&str>) -> usize {
        batch_bytes(self.model(model))
    }
}

/// The exchanges as entries, which are older than every entry of the log.
fn examples(examples: &[Example]) -> Vec<Arc<Entry>> {
    let entry = |kind, message: ModelMessage| {
        let (seq, step, tokens) = (0, 0, tokens::estimate(&message.countable()));
        Arc::new(Entry {
            seq,
            cycle: CycleId(Uuid::nil()),
            step,
            kind,
            message,
            tokens,
            at: Timestamp::UNIX_EPOCH,
            // The operator wrote them.
            trust: Trust::Operator,
        })
    };
    let exchange = |example: &Example| {
        let reply = vec![Part::Text { text: example.reply.clone() }];
        [
            entry(EntryKind::Inbox, ModelMessage::user(inbox::format_example(&example.message))),
            entry(EntryKind::Assistant, ModelMessage { role: Role::Assistant, parts: reply, native: None }),
        ]
    };
    examples.iter().flat_map(exchange).collect()
}

/// How many bytes of events that model may be shown at once: a quarter of its window.
pub(super) fn batch_bytes(model: &ModelInfo) -> usize {
    tokens::bytes_within(Budget::of(model.context_window, model.max_output, 0, 0).tokens / 4)
}
