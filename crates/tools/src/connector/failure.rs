//! Why an exchange failed, by what the caller may do next. Must not quote a query, a header or a body.

use std::time::Duration;

use super::response::Before;

/// The phase in which time ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangePhase {
    /// Finding the addresses of the name.
    Resolve,
    /// Connecting and agreeing on encryption.
    Connect,
    /// Sending the request and waiting for the head of the answer.
    Head,
    /// Waiting for the next piece of the answer's body.
    Idle,
    /// The whole exchange.
    Total,
}

impl ExchangePhase {
    fn wanted(self) -> &'static str {
        match self {
            Self::Resolve => "address for the name",
            Self::Connect => "connection",
            Self::Head => "beginning of an answer",
            Self::Idle => "further part of the answer",
            Self::Total => "whole answer",
        }
    }
}

/// Why an exchange failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The request is wrong in itself, or its target is not allowed. Nothing was sent; a repetition fails again.
    #[error("{0}")]
    Refused(String),
    /// There is no such name, no connection or no trust. Nothing was sent; a repetition may succeed.
    #[error("{0}")]
    Unreachable(String),
    /// The server named another address, to which the request is not sent.
    #[error("{0}")]
    Redirected(String),
    /// Time ran out.
    #[error("`{host}` gave no {} within {} ms", .phase.wanted(), .after.as_millis())]
    TimedOut {
        /// The host.
        host: String,
        /// What was waited for.
        phase: ExchangePhase,
        /// The limit.
        after: Duration,
    },
    /// A server said that what was asked is done, but what it named to read about it was not read.
    #[error("{0}")]
    SeeOther(String),
    /// The connection broke or the answer is unusable, after the request was sent.
    #[error("{0}")]
    Broken(String),
}

impl ConnectError {
    /// The same error, where a redirect has led to it.
    pub(super) fn after(self, before: Before) -> Self {
        match before {
            Before::Nothing => self,
            Before::Sent => Self::Redirected(self.to_string()),
            Before::Done => Self::SeeOther(self.to_string()),
        }
    }

    /// Whether the server may have received the request, so that its effect may have happened.
    pub fn may_have_arrived(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Unreachable(_) => false,
            Self::Redirected(_) | Self::SeeOther(_) | Self::Broken(_) => true,
            Self::TimedOut { phase, .. } => !matches!(phase, ExchangePhase::Resolve | ExchangePhase::Connect),
        }
    }
}
