//! The models of a life: one replies what the life says, the other writes the summaries. Both record every request.
//!
//! This module must not know what a request costs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::port::{
    BoxStream, Model, ModelError, ModelInfo, ModelRequest, Models, Piece, ReasoningReplay, Reply, ReplyPart,
    StopReason,
};
use agent::prompt::Prompt;
use agent::run::Usage;
use futures_util::stream;

use super::facts::PlantedFact;
use super::{LongLife, measure};

/// The names of the models. They have their own providers' caches.
const AGENT: &str = "long-life/agent";
pub(super) const SUMMARIZER: &str = "long-life/summarizer";
/// Tokens that are reserved for a reply.
const MAX_OUTPUT: u32 = 1_024;
/// What becomes of facts in a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptedSummarizer {
    /// All are kept.
    Keeps,
    /// A third is left out.
    ForgetsAThird,
    /// A third gets values that nobody said.
    Invents,
}

/// A request as it was sent.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// Whether a summary was asked for.
    pub for_summary: bool,
    /// What was sent.
    pub prompt: Prompt,
}

/// Both models.
pub(super) struct LifeModels {
    agent: Arc<LifeModel>,
    summarizer: Arc<LifeModel>,
}

struct LifeModel {
    info: ModelInfo,
    life: Arc<LongLife>,
    /// Set in the model that writes summaries.
    summarizer: Option<ScriptedSummarizer>,
    requests: RecordedRequests,
}

/// All requests so far, to both models.
pub(super) type RecordedRequests = Arc<Mutex<Vec<RecordedRequest>>>;

impl LifeModels {
    pub(super) fn new(
        life: &Arc<LongLife>,
        window: u32,
        summarizer: ScriptedSummarizer,
        requests: &RecordedRequests,
    ) -> Self {
        let model = |name: &str, summarizer| {
            let info = ModelInfo {
                name: name.to_owned(),
                provider: name.to_owned(),
                context_window: window,
                max_output: MAX_OUTPUT,
                reasoning_replay: ReasoningReplay::None,
                forced_tool_choice: true,
                ..ModelInfo::default()
            };
            let (life, requests) = (Arc::clone(life), Arc::clone(requests));
            Arc::new(LifeModel { info, life, summarizer, requests })
        };
        Self { agent: model(AGENT, None), summarizer: model(SUMMARIZER, Some(summarizer)) }
    }
}

impl Models for LifeModels {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        let model = if name == Some(SUMMARIZER) { &self.summarizer } else { &self.agent };
        Ok(Arc::clone(model) as Arc<dyn Model>)
    }
}

impl Model for LifeModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        let parts = match self.summarizer {
            Some(summarizer) => vec![ReplyPart::Text(summary(&self.life, summarizer, request.prompt))],
            None => self.next_reply(request.prompt),
        };
        let usage = Usage {
            input: Some(measure::tokens(request.prompt)),
            cached: None,
            output: None,
            reasoning: None,
        };
        let recorded =
            RecordedRequest { for_summary: self.summarizer.is_some(), prompt: request.prompt.clone() };
        lock(&self.requests).push(recorded);
        let reply = Reply { parts, native: None, usage, stop: StopReason::End };
        Box::pin(stream::iter([Ok(Piece::Done(reply))]))
    }
}

impl LifeModel {
    /// The life's reply for this step. Steps are counted by the requests, because a step may be left out of the window.
    fn next_reply(&self, prompt: &Prompt) -> Vec<ReplyPart> {
        let requests = lock(&self.requests);
        let mut cycles: Vec<_> = requests.iter().filter(|r| !r.for_summary).map(|r| r.prompt.cycle).collect();
        let step = cycles.iter().filter(|cycle| **cycle == prompt.cycle).count();
        cycles.dedup();
        cycles.retain(|cycle| *cycle != prompt.cycle);
        let reply = self.life.replies.get(cycles.len()).and_then(|steps| steps.get(step));
        reply.cloned().unwrap_or_else(|| vec![ReplyPart::Text("There is nothing left to do.".to_owned())])
    }
}

pub(super) fn lock(requests: &Mutex<Vec<RecordedRequest>>) -> MutexGuard<'_, Vec<RecordedRequest>> {
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The facts that the summarizer finds in what it is shown, the earlier summary included.
fn summary(life: &LongLife, summarizer: ScriptedSummarizer, prompt: &Prompt) -> String {
    let shown: String = prompt.items.iter().map(measure::text).collect();
    let noted = |(n, fact): (usize, &PlantedFact)| {
        if !shown.contains(&fact.value) && !shown.contains(&fact.invented) {
            return None;
        }
        // A third, and a third of those that are asked for in other words, which is every third fact.
        let is_wrong = (n + n / 3) % 3 == 1;
        match summarizer {
            ScriptedSummarizer::ForgetsAThird if is_wrong => None,
            ScriptedSummarizer::Invents if is_wrong => Some(format!("- {}\n", fact.invented_statement())),
            _ => Some(format!("- {}\n", fact.statement)),
        }
    };
    let facts: String = life.facts.iter().enumerate().filter_map(noted).collect();
    format!("## Facts\n{facts}## State\n- The work of these cycles is done, and nothing is open.")
}
