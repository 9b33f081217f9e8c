//! Failures elsewhere do not keep an agent waiting: a store that refuses commits, a crash of a busy server, a
//! provider that does not answer.

pub(crate) mod after_crash;
pub(crate) mod silent_provider;
pub(crate) mod store_failure;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use agent::port::{Clock, ModelInfo, Models, ReasoningReplay};
use anyhow::{Context, Result};
use models::scripted::{Script, authored};

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

/// Creates models with a clock.
type BuildModels = Box<dyn FnOnce(Arc<dyn Clock>) -> Arc<dyn Models>>;

/// Models whose default model has this delay, or never answers; and the requests to them.
fn paced(delay: Option<Duration>) -> (BuildModels, Receiver<SeenRequest>) {
    let (asked, requests) = channel();
    let build = move |clock: Arc<dyn Clock>| -> Arc<dyn Models> {
        Arc::new(move |name: Option<&str>| {
            let name = name.unwrap_or("own");
            let delay = if name == HEALTHY { Some(Duration::from_millis(20)) } else { delay };
            let answer = |delay| Script::new().pause(&clock, delay).text("That is all for now.");
            let answer = delay.map_or_else(|| Script::new().hang(), answer);
            let info = ModelInfo {
                name: name.to_owned(),
                provider: name.to_owned(),
                context_window: 1_000_000,
                max_output: 4_096,
                reasoning_replay: ReasoningReplay::None,
                demo: true,
                ..ModelInfo::default()
            };
            let asked = asked.clone();
            Ok(authored(info, move |prompt| {
                // The receiver is dropped at the end of the measurement.
                let _ = asked.send(SeenRequest { system: prompt.system.to_string(), at: Instant::now() });
                answer.clone()
            }))
        })
    };
    (Box::new(build), requests)
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
