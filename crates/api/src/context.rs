//! The JSON of an agent's context: what its model would be sent, by layers.

use agent::compaction;
use agent::cycle;
use agent::entry::Compaction;
use agent::id::AgentId;
use agent::port::{ModelInfo, ShownLog};
use agent::run::Trend;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::agents::{LogEntry, RunJson};

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
    /// Position of the first of these entries; `null` if there is none.
    #[serde(default)]
    pub first_entry: Option<u64>,
    /// Number of entries of the history that are not in the layer `window`.
    #[serde(default)]
    pub older_entries: u64,
    /// The summary of what was left out; `null` if nothing was.
    #[serde(default)]
    pub summary: Option<String>,
    /// Number of events in the layer `inbox`: those that the agent would process next.
    pub events: usize,
    /// Size of the `window` in tokens above which its oldest cycles are cut off.
    pub cut_above: u64,
    /// Size of the `window` in tokens after such a cut.
    pub cut_to: u64,
    /// What the last runs cost.
    #[serde(default)]
    pub trend: TrendJson,
    /// The newest compaction of the history; `null` before the first.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub compaction: Option<Compaction>,
}

/// What the last runs of an agent cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Trend)]
pub struct TrendJson {
    /// Number of runs that were looked at, at most 20.
    pub runs: usize,
    /// By how many tokens a request is larger than the one of the run before, on average; `null` if it is unknown.
    pub growth: Option<u64>,
    /// Share of the sent tokens that the provider read from its cache, in percent; `null` if it reports none.
    pub cached_percent: Option<u64>,
    /// Searches of the archive by the agent that found something.
    #[serde(default)]
    pub recall_hits: usize,
    /// Searches of the archive by the agent that found nothing.
    #[serde(default)]
    pub recall_misses: usize,
}

copied!(trend: Trend => TrendJson { ..trend => { runs, growth, cached_percent, recall_hits, recall_misses } });

/// What a cycle's last request showed, in addition to the system text and the tools, and what was decided then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SentContext)]
pub struct SentContextJson {
    /// The run of the cycle. Each of its steps has `sent`: the hash, the view and the size of its request.
    pub run: RunJson,
    /// The summary of what was left out; `null` if nothing was.
    pub summary: Option<String>,
    /// Entries of the history and texts between them, in the order in which they were sent. Texts are kept for the last
    /// 1,000 requests of an agent.
    pub items: Vec<SentItem>,
}

/// An entry of the history, or a text that was shown and is not part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum SentItem {
    /// An entry.
    Entry(LogEntry),
    /// A text, such as the workspace.
    Text {
        /// The text.
        text: String,
        /// Estimated size in tokens.
        tokens: u32,
    },
}

impl SentContextJson {
    /// What was sent in the run.
    pub fn of(run: RunJson, shown: ShownLog) -> Self {
        let ShownLog { view, entries, layers } = shown;
        let mut items = Vec::with_capacity(entries.len() + layers.len());
        for entry in entries {
            let seq = entry.seq;
            let after = layers.iter().filter(|layer| layer.after == seq);
            let texts =
                after.map(|layer| SentItem::Text { text: layer.text.to_string(), tokens: layer.tokens });
            items.push(SentItem::Entry(LogEntry::of(entry, true)));
            items.extend(texts);
        }
        Self { run, summary: compaction::shown(&view), items }
    }
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
    pub fn of(
        agent: AgentId,
        model: &ModelInfo,
        context: &cycle::ContextPreview,
        counts: &[u32],
        (trend, compaction): (Trend, Option<Compaction>),
    ) -> Self {
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
            first_entry: context.window.first().map(|entry| entry.seq),
            older_entries: context.head_seq.saturating_sub(context.window.len() as u64),
            summary: context.summary.clone(),
            events: context.events,
            cut_above: context.cut_above,
            cut_to: context.cut_to,
            trend: trend.into(),
            compaction,
        }
    }
}
