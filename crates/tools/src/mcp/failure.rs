//! Why a call of a server failed, by what is known of its effect.

use agent::call::{Effect, Outcome, head_and_tail};
use agent::limits;
use agent::port::ToolError;

use crate::http;

/// What is known of a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing was sent.
    NotSent,
    /// The server no longer knew the connection and did nothing; another one may do.
    Expired,
    /// It may have happened, but no answer came.
    Lost,
    /// As [`Known::Lost`], and the server does not even say that it lives.
    Hung,
    /// The server answered.
    Answered,
}

impl Known {
    /// The same of a call, if the question before it failed.
    pub(super) fn before_call(self) -> Self {
        if matches!(self, Self::Lost | Self::Hung) { Self::NotSent } else { self }
    }
}

/// Why a call failed. Its texts hold no secrets.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) known: Known,
    pub(super) text: String,
    /// What the operator reads in addition.
    pub(super) operator: Option<String>,
}

impl Failure {
    pub(super) fn new(known: Known, text: impl Into<String>) -> Self {
        Self { known, text: head_and_tail(&text.into(), limits::FAILURE_SHOWN_BYTES), operator: None }
    }

    pub(super) fn not_sent(text: impl Into<String>) -> Self {
        Self::new(Known::NotSent, text)
    }

    /// With what a process wrote to its standard error.
    pub(super) fn with_errors(mut self, errors: String) -> Self {
        self.operator = Some(errors.trim().to_owned()).filter(|errors| !errors.is_empty());
        self
    }

    /// What the model reads: an error, or an unknown outcome if the effect must not happen twice and may have happened.
    pub(super) fn outcome(self, effect: Effect) -> Result<Outcome, ToolError> {
        if effect == Effect::Unsafe && matches!(self.known, Known::Lost | Known::Hung) {
            let operator = self.operator.map(|errors| format!("{}\n{errors}", self.text));
            return Ok(Outcome { detail: operator, ..http::unknown(&self.text) });
        }
        Err(self.into())
    }
}

impl From<Failure> for ToolError {
    fn from(failure: Failure) -> Self {
        Self { model: failure.text, operator: failure.operator }
    }
}
