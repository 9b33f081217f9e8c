//! Values that are fixed for one activation, and the life row that the next commit will find.

use std::sync::Arc;

use super::Setup;
use crate::config::AgentConfig;
use crate::entity::Entity;
use crate::id::{AgentId, SpaceId};
use crate::port::ModelInfo;
use crate::quote;
use crate::tokens;
use crate::tool::ToolSpec;
use crate::view::Budget;
use crate::workspace;

/// Fixed for an activation.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) agent: AgentId,
    pub(super) entity: Entity,
    pub(super) config: Arc<AgentConfig>,
    pub(super) setup: Setup,
    pub(super) system: Arc<str>,
    /// Tokens of system and tools, estimated from above.
    pub(super) fixed_tokens: u64,
    /// Milliseconds that the open cycle's earlier activations were awake.
    pub(super) awake_before: u64,
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
}

impl Pinned {
    pub(super) fn new(
        agent: AgentId,
        entity: Entity,
        config: Arc<AgentConfig>,
        setup: Setup,
        awake_before: u64,
    ) -> Self {
        let system = workspace::system(&entity, &config.instructions, &config.description, &setup.tools);
        // Plain lengths, because every activation computes this.
        let plain = |text: &str| text.len() + 2;
        let size =
            |tool: &ToolSpec| tool.name.len() + tool.description.len() + quote::size_of(&tool.schema, plain);
        let fixed_tokens = tokens::at_most(system.len() + setup.tools.iter().map(size).sum::<usize>());
        Self { agent, entity, config, setup, system: system.into(), fixed_tokens, awake_before }
    }

    /// The model that the config names; `None` is the agent's own.
    pub(super) fn model(&self, model: Option<&str>) -> &ModelInfo {
        let other = model.and_then(|model| self.setup.others.iter().find(|(name, _)| name == model));
        other.map_or(&self.setup.model, |(_, info)| info)
    }

    /// Room for entries with that model, next to `shown` bytes that are sent but not in the log.
    pub(super) fn budget(&self, model: Option<&str>, shown: usize) -> Budget {
        let model = self.model(model);
        Budget::of(model.context_window, model.max_output, self.fixed_tokens, tokens::at_most(shown))
    }

    pub(super) fn batch_bytes(&self, model: Option<&str>) -> usize {
        batch_bytes(self.model(model))
    }
}

/// How many bytes of events that model may be shown at once: a quarter of its window.
pub(super) fn batch_bytes(model: &ModelInfo) -> usize {
    tokens::bytes_within(Budget::of(model.context_window, model.max_output, 0, 0).tokens / 4)
}
