//! Explains in one message why a model does not answer. Must not know what the answer is used for.

use std::time::Duration;

use agent::port::ModelError;
use models::wire::failure::is_page;

use crate::errors::{Exit, Failure};

/// How long to wait for the first byte of a model's reply.
pub(crate) const WAIT: Duration = Duration::from_secs(30);

/// Explains why `name` at `url` gave no reply: one message for each kind of failure.
pub(crate) fn explain(name: &str, url: &str, error: &ModelError, waited: Duration) -> Failure {
    let (exit, code, message, hint) = match error {
        page if is_page(page) => {
            let what = page.to_string();
            // The error class before the colon is for engineers only.
            let what = what.rsplit_once(": ").map_or(what.as_str(), |(_, what)| what);
            let message = format!("`{url}` answers, but not as a model server would ({what})");
            let hint = "check `--base-url`: the address usually ends in `/v1`";
            (Exit::Failed, "not_a_model_server", message, hint)
        }
        ModelError::Network(why) => {
            let hint = "is its server running, and is the address right? name another with --base-url";
            (Exit::Unreachable, "model_unreachable", format!("cannot reach `{name}`: {why}"), hint)
        }
        ModelError::TimedOut(_) => {
            let seconds = waited.as_secs();
            let message = format!("`{url}` accepted the request and sent nothing within {seconds} s");
            let hint = "wait longer with --timeout, or check that a model server listens there";
            (Exit::TimedOut, "model_timed_out", message, hint)
        }
        ModelError::Auth(why) => {
            let message = format!("`{url}` refused the key for `{name}`: {why}");
            (Exit::Failed, "model_refused", message, "`viv models` shows which keys are found here")
        }
        ModelError::NoModel(why) => {
            let hint = "the address usually ends in `/v1`; `viv models` lists the models of a provider";
            (Exit::Failed, "model_not_found", format!("there is no `{name}` at `{url}`: {why}"), hint)
        }
        ModelError::Garbage(why) => {
            let message = format!("the server at `{url}` is not a model server: {why}");
            let hint = "the address usually ends in `/v1`; name another with --base-url";
            (Exit::Failed, "not_a_model_server", message, hint)
        }
        ModelError::Failed { message, .. } => {
            let hint =
                "is it a model server? the address usually ends in `/v1`; name another with --base-url";
            (Exit::Failed, "model_failed", format!("the server at `{url}` failed: {message}"), hint)
        }
        ModelError::Unsupported(why) => {
            let message = format!("`{name}` at `{url}` does not support what agents need: {why}");
            let hint = "set up its server for streams and tools, or use another model; \
                        `viv models try` shows what works";
            (Exit::Failed, "model_unsupported", message, hint)
        }
        ModelError::Invalid(why) | ModelError::TooLong(why) => {
            let message = format!("`{url}` refused a plain request to `{name}`: {why}");
            (Exit::Failed, "model_refused", message, "check the model's name and `--base-url`")
        }
        other => {
            let message = format!("`{name}` at `{url}` cannot answer now: {other}");
            (Exit::Failed, "model_busy", message, "try again in a minute")
        }
    };
    Failure::new(exit, code, message).hint(hint)
}
