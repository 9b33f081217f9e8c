//! The JSON of an agent's context: what its model would be sent, by layers.

use agent::cycle;
use agent::id::AgentId;
use agent::port::ModelInfo;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The context of an agent: what its model would be sent now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Context)]
pub struct ContextJson {
    /// Id of the agent.
    pub agent: AgentId,
    /// Model of the agent, as `provider/model`.
    pub model: String,
    /// Largest number of tokens that the model takes, sent and generated together.
    pub context_window: u64,
    /// Layers in the order in which they are sent, then the tokens reserved for the reply and the free ones.
    pub layers: Vec<ContextLayer>,
    /// Number of entries in the layer `window`.
    pub entries: usize,
    /// Number of events in the layer `inbox`: those that the agent would process next.
    pub events: usize,
    /// Size of the `window` in tokens above which its oldest cycles are cut off.
    pub cut_above: u64,
    /// Size of the `window` in tokens after such a cut.
    pub cut_to: u64,
}

/// A layer of the context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ContextLayer)]
pub struct ContextLayer {
    /// Name of the layer: `system`, `tools`, `summary`, `window`, `inbox`, `workspace`, `output` or `free`.
    pub name: String,
    /// Estimated size in tokens.
    pub tokens: u64,
}

impl ContextJson {
    /// The layers of a context; `counts` are the tokens of system, tools, summary, inbox and workspace.
    pub fn of(agent: AgentId, model: &ModelInfo, context: &cycle::ContextPreview, counts: &[u32]) -> Self {
        let counted = |place: usize| counts.get(place).copied().map_or(0, u64::from);
        let window = context.window.iter().map(|entry| u64::from(entry.tokens)).sum();
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
        let layers = layers.into_iter().map(|(name, tokens)| ContextLayer { name: name.to_owned(), tokens });
        Self {
            agent,
            model: model.name.clone(),
            context_window,
            layers: layers.collect(),
            entries: context.window.len(),
            events: context.events,
            cut_above: context.cut_above,
            cut_to: context.cut_to,
        }
    }
}
