//! What an agent's model would be sent, by layers.

use agent::cycle;
use agent::id::AgentId;
use agent::port::ModelInfo;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an agent's model would be sent now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Mind)]
pub struct MindJson {
    /// Whose.
    #[schema(value_type = Uuid)]
    pub agent: AgentId,
    /// The model, as `provider/model`.
    pub model: String,
    /// Its bound on tokens sent and generated together.
    pub context_window: u64,
    /// The layers in the order they are sent, then what is reserved for the reply and what is free.
    pub layers: Vec<MindLayer>,
    /// Entries in the `window`.
    pub entries: usize,
    /// Events in the `inbox`: those that it would live next.
    pub events: usize,
    /// Tokens of the `window` above which its oldest cycles are no longer sent.
    pub cut_above: u64,
    /// Tokens that are left of it then.
    pub cut_to: u64,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MindLayer {
    /// Which: `system`, `tools`, `summary`, `window`, `inbox`, `workspace`, `output` or `free`.
    pub name: String,
    /// Its size under the reference estimator.
    pub tokens: u64,
}

impl MindJson {
    /// The layers of a mind; `counts` are the tokens of system, tools, summary, inbox and workspace.
    pub(crate) fn of(
        agent: AgentId,
        model: &ModelInfo,
        mind: &cycle::ContextPreview,
        counts: &[u32],
    ) -> Self {
        let counted = |place: usize| counts.get(place).copied().map_or(0, u64::from);
        let window = mind.window.iter().map(|entry| u64::from(entry.tokens)).sum();
        let mut layers = vec![
            ("system", counted(0)),
            ("tools", counted(1)),
            ("summary", counted(2)),
            ("window", window),
            ("inbox", counted(3)),
            ("workspace", counted(4)),
            ("output", u64::from(model.max_output)),
        ];
        let context_window = u64::from(model.context_window);
        let used = layers.iter().map(|(_, tokens)| tokens).sum();
        layers.push(("free", context_window.saturating_sub(used)));
        let layers = layers.into_iter().map(|(name, tokens)| MindLayer { name: name.to_owned(), tokens });
        Self {
            agent,
            model: model.name.clone(),
            context_window,
            layers: layers.collect(),
            entries: mind.window.len(),
            events: mind.events,
            cut_above: mind.cut_above,
            cut_to: mind.cut_to,
        }
    }
}
