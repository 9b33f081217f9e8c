//! Whose doing a failure is that looks the same in an outage and at one request which a server cannot
//! digest: the same model is asked for nothing, with the same system layer and tools. If it answers, the
//! request is to blame; if not, the surroundings are, and nothing counts.
//!
//! Must not know what the request was about: none of what was lived is sent.

use std::time::Duration;

use agent::limits;
use agent::port::{Memo, ModelRequest, Piece};
use agent::prompt::{Item, Prompt, ToolChoice};
use agent::run::Usage;
use futures_util::StreamExt;

use crate::think::Asking;

/// All that is asked.
const QUESTION: &str =
    "[CHECK] Nothing happened; this is a check of the connection. Call no tool. Answer: ok";

/// Whether the model answers a request that asks for nothing: a whole reply, in time. What that used is
/// the agent's, whose request it is about.
pub(crate) async fn trial(asking: &Asking<'_>, failed: &Prompt) -> Option<Usage> {
    let prompt =
        Prompt { items: vec![Item::Layer(QUESTION.into())], choice: ToolChoice::Auto, ..failed.clone() };
    let timeouts = &asking.config.model_timeouts;
    let mut memo = Memo::default();
    let mut stream = asking.model.stream(ModelRequest { prompt: &prompt, memo: &mut memo, timeouts });
    let answered = async {
        while let Some(piece) = stream.next().await {
            match piece {
                Ok(Piece::Done(reply)) => return Some(reply.usage),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
        None
    };
    let bound = asking.ports.clock.sleep(Duration::from_millis(limits::TRIAL_MS.min(timeouts.total)));
    let answered = tokio::select! {
        biased;
        answered = answered => answered,
        () = bound => None,
    };
    let model = asking.model.info().name.as_str();
    tracing::info!(agent = %asking.lease.agent, model, answered = answered.is_some(), "asked for nothing, after a failure");
    answered
}
