//! Failures elsewhere do not keep an agent waiting: a store that refuses commits, a crash of a busy server, a
//! provider that does not answer.

pub(crate) mod after_crash;
pub(crate) mod silent_provider;
pub(crate) mod store_failure;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use agent::port::{
    BoxStream, Clock, Model, ModelError, ModelInfo, ModelRequest, Models, Piece, ReasoningReplay,
};
use anyhow::{Context, Result};
use models::scripted::Script;

/// Longest wait for an expected request.
const PATIENCE: Duration = Duration::from_secs(60);
/// The name of the model that answers quickly. The default model answers slowly or never.
const HEALTHY: &str = "healthy";

/// A request to a model.
struct SeenRequest {
    /// The system layer of its prompt.
    system: String,
    at: Instant,
}

/// Models that report when they are asked, and answer after a delay or never.
struct Paced {
    clock: Arc<dyn Clock>,
    /// The delay of the default model; `None` if it never answers.
    delay: Option<Duration>,
    asked: Sender<SeenRequest>,
}

struct PacedModel {
    info: ModelInfo,
    delay: Option<Script>,
    asked: Sender<SeenRequest>,
}

/// Creates models with a clock.
type BuildModels = Box<dyn FnOnce(Arc<dyn Clock>) -> Arc<dyn Models>>;

/// Models whose default model has this delay, or never answers; and the requests to them.
fn paced(delay: Option<Duration>) -> (BuildModels, Receiver<SeenRequest>) {
    let (asked, requests) = channel();
    (Box::new(move |clock| Arc::new(Paced { clock, delay, asked })), requests)
}

impl Models for Paced {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        let name = name.unwrap_or("own");
        let delay = if name == HEALTHY { Some(Duration::from_millis(20)) } else { self.delay };
        let answer = |delay| Script::new().pause(&self.clock, delay).text("That is all for now.");
        let info = ModelInfo {
            name: name.to_owned(),
            provider: name.to_owned(),
            context_window: 1_000_000,
            max_output: 4_096,
            reasoning_replay: ReasoningReplay::None,
            demo: true,
            ..ModelInfo::default()
        };
        Ok(Arc::new(PacedModel { info, delay: delay.map(answer), asked: self.asked.clone() }))
    }
}

impl Model for PacedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        // The receiver is dropped at the end of the measurement.
        let _ =
            self.asked.send(SeenRequest { system: request.prompt.system.to_string(), at: Instant::now() });
        self.delay.clone().unwrap_or_else(|| Script::new().hang()).play()
    }
}

/// When the model of the agent with this name was asked next. Requests of other agents are skipped.
fn next_request_of(requests: &Receiver<SeenRequest>, name: &str) -> Result<Instant> {
    let handle = format!("@{name}");
    let end = Instant::now() + PATIENCE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let asked =
            requests.recv_timeout(left).with_context(|| format!("the model of {name} was not asked"))?;
        if asked.system.contains(&handle) {
            return Ok(asked.at);
        }
    }
}
