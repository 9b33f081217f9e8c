//! A model has one streaming method. It yields deltas and at the end a complete reply, or an error. The variants of
//! the error follow from what the caller does next.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use super::BoxStream;
use crate::config::ModelTimeouts;
use crate::message::Native;
use crate::prompt::Prompt;
use crate::run::Usage;

/// Which old reasoning a model needs in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningReplay {
    /// No reasoning.
    None,
    /// The reasoning of the current cycle.
    #[default]
    Cycle,
    /// All reasoning in the window.
    All,
}

/// Prices in micro-dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Tokens sent.
    pub input: u64,
    /// Tokens sent that the vendor reads from its cache.
    pub cached: u64,
    /// Tokens generated.
    pub output: u64,
}

impl Price {
    /// The cost in micro-dollars; `None` if the provider did not report its tokens.
    pub fn cost(self, usage: &Usage) -> Option<u64> {
        let (input, output) = (usage.input?, usage.output?);
        let cached = usage.cached.unwrap_or(0).min(input);
        let sum = (input - cached)
            .saturating_mul(self.input)
            .saturating_add(cached.saturating_mul(self.cached))
            .saturating_add(output.saturating_mul(self.output));
        Some(sum / 1_000_000)
    }
}

/// Facts about a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelInfo {
    /// Its name as `provider/model`, as runs and people see it.
    pub name: String,
    /// The group of models that fail together: all models behind one server and one key. Reveals nothing of the
    /// key.
    pub provider: String,
    /// The maximum of tokens sent and generated together.
    pub context_window: u32,
    /// Tokens reserved for the reply.
    pub max_output: u32,
    /// Which old reasoning it needs.
    pub reasoning_replay: ReasoningReplay,
    /// Whether `tool_choice: required` may be used.
    pub forced_tool_choice: bool,
    /// The most tools that one request may offer it; `None` if its vendor states no bound.
    pub max_tools: Option<u32>,
    /// Its price, if known.
    pub price: Option<Price>,
    /// Whether it is scripted; it is then shown as the demo model.
    pub demo: bool,
}

/// The kind of a part that starts to stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Plain text.
    Text,
    /// Readable reasoning.
    Reasoning,
    /// A tool call. Its deltas are pieces of the argument string.
    ToolCall {
        /// The tool's name as the model writes it.
        name: String,
    },
}

/// One piece of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Bytes without content arrived (a ping, an unknown block); the idle time-out starts again.
    Alive,
    /// A part starts. `part` counts all parts of the reply from 0, calls included.
    Start {
        /// Which part.
        part: u32,
        /// Its kind.
        kind: PartKind,
    },
    /// Text is appended to a part.
    Delta {
        /// Which part.
        part: u32,
        /// The appended text.
        text: String,
    },
    /// The reply is complete. Nothing follows.
    Done(Reply),
}

/// One part of a complete reply, in order. The runtime gives the calls their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyPart {
    /// Plain text.
    Text(String),
    /// Readable reasoning.
    Reasoning(String),
    /// A call.
    Call {
        /// The tool's name.
        name: String,
        /// The raw argument string, exactly as generated (empty if the model gave none).
        arguments: String,
    },
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It finished, or it waits for its calls.
    End,
    /// The output limit cut the reply; the last call may be incomplete.
    Length,
    /// The vendor refused to continue.
    Refused(String),
}

/// A complete generation.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Its parts, without empty ones.
    pub parts: Vec<ReplyPart>,
    /// The vendor's own block, for byte-exact replay. Its `call_ids` are in the order of the calls.
    pub native: Option<Native>,
    /// Tokens, as reported.
    pub usage: Usage,
    /// Why it ended.
    pub stop: StopReason,
}

/// Which time-out was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// Connecting.
    Connect,
    /// The first byte.
    FirstByte,
    /// Silence between two bytes.
    Idle,
    /// The whole generation.
    Total,
}

impl TimeoutKind {
    /// Its name for texts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::FirstByte => "first byte",
            Self::Idle => "idle",
            Self::Total => "total",
        }
    }
}

/// Why there is no reply. The texts are for operators and contain no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Too many requests.
    #[error("rate limited: {message}")]
    RateLimited {
        /// The vendor's message.
        message: String,
        /// How long to wait, if the vendor said.
        retry_after: Option<Duration>,
    },
    /// The vendor is overloaded.
    #[error("overloaded: {message}")]
    Overloaded {
        /// The vendor's message.
        message: String,
        /// How long to wait, if the vendor said.
        retry_after: Option<Duration>,
    },
    /// The server failed, but not because of overload.
    #[error("the server failed: {message}")]
    Failed {
        /// The response.
        message: String,
        /// How long to wait, if the vendor said.
        retry_after: Option<Duration>,
    },
    /// There was no connection, or it broke.
    #[error("network: {0}")]
    Network(String),
    /// A time-out was exceeded.
    #[error("{} time-out", .0.as_str())]
    TimedOut(TimeoutKind),
    /// The stream ended early; none of it is used.
    #[error("the stream was cut: {0}")]
    Cut(String),
    /// The key is missing, wrong or not allowed.
    #[error("auth: {0}")]
    Auth(String),
    /// The model or the server address does not exist.
    #[error("no such model: {0}")]
    NoModel(String),
    /// The request is too long for the model.
    #[error("context too long: {0}")]
    TooLong(String),
    /// The vendor rejects the request as invalid.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// The model or its server does not support what every request needs: tools, a schema, a stream.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// The response is not a usable reply.
    #[error("garbage: {0}")]
    Garbage(String),
    /// The model was not called, because its provider currently fails for every agent.
    #[error("{message}")]
    NotCalled {
        /// The provider's last error.
        message: String,
        /// How long to wait.
        retry_after: Duration,
    },
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The surroundings: no attempt is counted, and the agent parks.
    Surroundings,
    /// The content: an attempt is counted towards `max_attempts`.
    Content,
}

impl ModelError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::RateLimited { .. }
            | Self::Overloaded { .. }
            | Self::Failed { .. }
            | Self::Network(_)
            | Self::TimedOut(_)
            | Self::Cut(_)
            | Self::Auth(_)
            | Self::NoModel(_)
            | Self::Unsupported(_)
            | Self::NotCalled { .. } => Fault::Surroundings,
            Self::TooLong(_) | Self::Invalid(_) | Self::Garbage(_) => Fault::Content,
        }
    }

    /// Whether a server fails like this both in an outage and on a single bad request. Only the number of such
    /// failures in a row tells which it is.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Failed { retry_after: None, .. } | Self::Cut(_))
    }

    /// Whether the same request may succeed in a moment.
    pub fn retryable(&self) -> bool {
        matches!(
            self,
            Self::RateLimited { .. }
                | Self::Overloaded { .. }
                | Self::Failed { .. }
                | Self::Network(_)
                | Self::TimedOut(_)
                | Self::Cut(_)
                | Self::Garbage(_)
        )
    }

    /// Its class, for telemetry.
    pub fn class(&self) -> &'static str {
        match self {
            Self::RateLimited { .. } => "rate_limited",
            Self::Overloaded { .. } => "overloaded",
            Self::Failed { .. } => "failed",
            Self::Network(_) => "network",
            Self::TimedOut(_) => "timed_out",
            Self::Cut(_) => "cut",
            Self::Auth(_) => "auth",
            Self::NoModel(_) => "no_model",
            Self::TooLong(_) => "too_long",
            Self::Invalid(_) => "invalid",
            Self::Unsupported(_) => "unsupported",
            Self::Garbage(_) => "garbage",
            Self::NotCalled { .. } => "unasked",
        }
    }

    /// How long to wait before the next call, if the vendor said.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. }
            | Self::Overloaded { retry_after, .. }
            | Self::Failed { retry_after, .. } => *retry_after,
            Self::NotCalled { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }
}

/// Encoded fragments that a model keeps for one agent in memory; opaque to all others. An empty memo is always
/// valid.
#[derive(Default)]
pub struct Memo(pub Option<Box<dyn Any + Send>>);

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Memo(..)" } else { "Memo(empty)" })
    }
}

/// A request to a model.
pub struct ModelRequest<'a> {
    /// The prompt to answer.
    pub prompt: &'a Prompt,
    /// Encoded fragments of earlier requests of the same agent.
    pub memo: &'a mut Memo,
    /// Time-outs. The model enforces only `connect`; the runtime enforces the others.
    pub timeouts: &'a ModelTimeouts,
}

/// A model.
pub trait Model: Send + Sync {
    /// Facts about the model.
    fn info(&self) -> &ModelInfo;
    /// Starts a generation. Dropping the stream drops the connection. The request is built and its memo filled
    /// before this returns; only the stream waits.
    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>>;
}

/// All models that a server knows.
pub trait Models: Send + Sync {
    /// The model with that name; `None` is the server's default.
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError>;
}

/// A function that finds models is all that is needed.
impl<F: Fn(Option<&str>) -> Result<Arc<dyn Model>, ModelError> + Send + Sync> Models for F {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        self(name)
    }
}
