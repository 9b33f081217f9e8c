//! What befalls somebody else keeps nobody waiting: a store that refuses, a crash of a busy house, a
//! provider that says nothing.

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

/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_secs(60);
/// The model of whoever names none says nothing; this one answers.
const HEALTHY: &str = "healthy";

/// That somebody's model was asked.
struct Asked {
    /// What the model was told that its agent is.
    system: String,
    at: Instant,
}

/// Models that tell when they are asked, and answer after a while, or never.
struct Paced {
    clock: Arc<dyn Clock>,
    /// How long the model of whoever names none takes; `None` for ever.
    thought: Option<Duration>,
    asked: Sender<Asked>,
}

struct PacedModel {
    info: ModelInfo,
    thought: Option<Script>,
    asked: Sender<Asked>,
}

/// Makes models on a clock.
type Maker = Box<dyn FnOnce(Arc<dyn Clock>) -> Arc<dyn Models>>;

/// Models of which the one that nobody names takes that long, or for ever, and who asked them when.
fn paced(thought: Option<Duration>) -> (Maker, Receiver<Asked>) {
    let (asked, hears) = channel();
    (Box::new(move |clock| Arc::new(Paced { clock, thought, asked })), hears)
}

impl Models for Paced {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        let name = name.unwrap_or("own");
        let thought = if name == HEALTHY { Some(Duration::from_millis(20)) } else { self.thought };
        let answer = |thought| Script::new().pause(&self.clock, thought).text("That is all for now.");
        let info = ModelInfo {
            name: name.to_owned(),
            provider: name.to_owned(),
            context_window: 1_000_000,
            max_output: 4_096,
            reasoning_replay: ReasoningReplay::None,
            forced_tool_choice: false,
            price: None,
            demo: true,
        };
        Ok(Arc::new(PacedModel { info, thought: thought.map(answer), asked: self.asked.clone() }))
    }
}

impl Model for PacedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        // Nobody listens any more once the measuring is over.
        let _ = self.asked.send(Asked { system: request.prompt.system.to_string(), at: Instant::now() });
        self.thought.clone().unwrap_or_else(|| Script::new().hang()).play()
    }
}

/// When the model of the agent of that name was asked next, others left aside.
fn asked_by(hears: &Receiver<Asked>, name: &str) -> Result<Instant> {
    let handle = format!("@{name}");
    let end = Instant::now() + PATIENCE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let asked = hears.recv_timeout(left).with_context(|| format!("the model of {name} was not asked"))?;
        if asked.system.contains(&handle) {
            return Ok(asked.at);
        }
    }
}
