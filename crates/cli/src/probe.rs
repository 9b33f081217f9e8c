//! Explains in one message why a model does not answer. Must not know what the answer is used for.

use std::time::Duration;

use agent::port::ModelError;
use models::wire::failure::is_page;

use crate::errors::{Exit, Failure};

/// How long to wait for the first byte of a model's reply.
pub(crate) const WAIT: Duration = Duration::from_secs(30);

/// Explains why `name` at `url` gave no reply: one message for each kind of failure.
pub(crate) fn explain(name: &str, url: &str, error: &ModelError, waited: Duration) -> Failure {
    match error {
        page if is_page(page) => {
            let what = page.to_string();
            // The error class before the colon is for engineers only.
            let what = what.rsplit_once(": ").map_or(what.as_str(), |(_, what)| what);
            let message = format!("`{url}` answers, but not as a model server would ({what})");
            Failure::new(Exit::Failed, "not_a_model_server", message)
                .hint("check `--base-url`: the address usually ends in `/v1`")
        }
        ModelError::Network(why) => {
            Failure::new(Exit::Unreachable, "model_unreachable", format!("cannot reach `{name}`: {why}"))
                .hint("is its server running, and is the address right? name another with --base-url")
        }
        ModelError::TimedOut(_) => {
            let seconds = waited.as_secs();
            let message = format!("`{url}` accepted the request and sent nothing within {seconds} s");
            Failure::new(Exit::TimedOut, "model_timed_out", message)
                .hint("wait longer with --timeout, or check that a model server listens there")
        }
        ModelError::Auth(why) => Failure::new(
            Exit::Failed,
            "model_refused",
            format!("`{url}` refused the key for `{name}`: {why}"),
        )
        .hint("`viv models` shows which keys are found here"),
        ModelError::NoModel(why) => {
            Failure::new(Exit::Failed, "model_not_found", format!("there is no `{name}` at `{url}`: {why}"))
                .hint("the address usually ends in `/v1`; `viv models` lists the models of a provider")
        }
        ModelError::Garbage(why) => Failure::new(
            Exit::Failed,
            "not_a_model_server",
            format!("the server at `{url}` is not a model server: {why}"),
        )
        .hint("the address usually ends in `/v1`; name another with --base-url"),
        ModelError::Failed { message, .. } => {
            Failure::new(Exit::Failed, "model_failed", format!("the server at `{url}` failed: {message}"))
                .hint("is it a model server? the address usually ends in `/v1`; name another with --base-url")
        }
        ModelError::Unsupported(why) => Failure::new(
            Exit::Failed,
            "model_unsupported",
            format!("`{name}` at `{url}` does not support what agents need: {why}"),
        )
        .hint("set up its server for streams and tools, or use another model; `viv models try` shows what works"),
        ModelError::Invalid(why) | ModelError::TooLong(why) => Failure::new(
            Exit::Failed,
            "model_refused",
            format!("`{url}` refused a plain request to `{name}`: {why}"),
        )
        .hint("check the model's name and `--base-url`"),
        other => Failure::new(
            Exit::Failed,
            "model_busy",
            format!("`{name}` at `{url}` cannot answer now: {other}"),
        )
        .hint("try again in a minute"),
    }
}
