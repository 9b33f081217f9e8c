//! A model: one streaming method. Deltas out, at the end a complete reply, or an error whose
//! variants are chosen by what the caller does next.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use super::BoxStream;
use crate::config::ModelTimeouts;
use crate::message::Native;
use crate::prompt::Prompt;
use crate::run::Usage;

/// What a model demands of old reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningReplay {
    /// None is sent back.
    None,
    /// That of the current cycle.
    #[default]
    Cycle,
    /// All that the window holds.
    All,
}

/// Prices in micro-dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// Sent.
    pub input: u64,
    /// Sent and read from the cache.
    pub cached: u64,
    /// Generated.
    pub output: u64,
}

/// What is known of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    /// As `provider/model`; what runs and people are shown.
    pub name: String,
    /// What fails together with it: the same for all models behind one server and one key. Shows
    /// nothing of the key.
    pub provider: String,
    /// Its own bound on tokens sent and generated together.
    pub context_window: u32,
    /// Tokens reserved for the reply.
    pub max_output: u32,
    /// What it demands of old reasoning.
    pub reasoning_replay: ReasoningReplay,
    /// Whether `tool_choice: required` may be used.
    pub forced_tool_choice: bool,
    /// Its price, where known.
    pub price: Option<Price>,
    /// Scripted: shown as the demo model wherever it appears.
    pub demo: bool,
}

/// The kind of a part that begins to stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Plain text.
    Text,
    /// Readable reasoning.
    Reasoning,
    /// A call of the tool of that name; its deltas are pieces of the argument string.
    ToolCall {
        /// As the model writes it.
        name: String,
    },
}

/// One piece of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Bytes came that show nothing (a ping, an unknown block): the idle time-out begins anew.
    Alive,
    /// A part begins. `part` counts from 0 within the reply; calls count among the parts.
    Start {
        /// Which part.
        part: u32,
        /// What it is.
        kind: PartKind,
    },
    /// Text is appended to a part that has begun.
    Delta {
        /// Which part.
        part: u32,
        /// What is appended.
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
        /// The raw argument string, exactly as generated (empty where the model gave none).
        arguments: String,
    },
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It was done, or it waits for its calls.
    End,
    /// The output limit cut it; the last call may be incomplete.
    Length,
    /// The vendor refused to go on.
    Refused(String),
}

/// A complete generation.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Its parts; those that are empty are left out.
    pub parts: Vec<ReplyPart>,
    /// The vendor's own block, for byte-exact replay. Its `call_ids` follow the order of the calls.
    pub native: Option<Native>,
    /// Tokens as reported.
    pub usage: Usage,
    /// Why it ended.
    pub stop: StopReason,
}

/// Which time-out ran out.
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
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::FirstByte => "first byte",
            Self::Idle => "idle",
            Self::Total => "total",
        }
    }
}

/// Why there is no reply. Texts are for operators and hold no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Too many requests.
    #[error("rate limited: {message}")]
    RateLimited {
        /// The vendor's words.
        message: String,
        /// When to come back, if it said.
        retry_after: Option<Duration>,
    },
    /// The vendor cannot just now.
    #[error("overloaded: {message}")]
    Overloaded {
        /// The vendor's words.
        message: String,
        /// When to come back, if it said.
        retry_after: Option<Duration>,
    },
    /// The server failed, and not because it has too much to do.
    #[error("the server failed: {message}")]
    Failed {
        /// What came back.
        message: String,
        /// When to come back, if it said.
        retry_after: Option<Duration>,
    },
    /// No connection, or it broke.
    #[error("network: {0}")]
    Network(String),
    /// A time-out ran out.
    #[error("{} time-out", .0.as_str())]
    TimedOut(TimeoutKind),
    /// The stream ended without its end: nothing of it counts.
    #[error("the stream was cut: {0}")]
    Cut(String),
    /// The key is missing, wrong or may not.
    #[error("auth: {0}")]
    Auth(String),
    /// No such model or server address.
    #[error("no such model: {0}")]
    NoModel(String),
    /// The request is too long for the model.
    #[error("context too long: {0}")]
    TooLong(String),
    /// The vendor rejects the request as such.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// The model or its server does not take what every request asks for: tools, a schema, a stream.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// What came back is no reply.
    #[error("garbage: {0}")]
    Garbage(String),
    /// Its provider fails for everybody just now: it was not asked.
    #[error("{message}")]
    Unasked {
        /// What the provider failed with.
        message: String,
        /// When to come back.
        retry_after: Duration,
    },
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The surroundings': counts nothing, the agent parks.
    Surroundings,
    /// The content's: counts towards `max_attempts`.
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
            | Self::Unasked { .. } => Fault::Surroundings,
            Self::TooLong(_) | Self::Invalid(_) | Self::Garbage(_) => Fault::Content,
        }
    }

    /// Whether a server fails so in an outage and at a single request that it cannot digest alike, so that
    /// only how often it does so tells which it is.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Failed { retry_after: None, .. } | Self::Cut(_))
    }

    /// Whether the very same request may succeed in a moment.
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

    /// Its class in one word, for telemetry.
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
            Self::Unasked { .. } => "unasked",
        }
    }

    /// When the vendor wants us back.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. }
            | Self::Overloaded { retry_after, .. }
            | Self::Failed { retry_after, .. } => *retry_after,
            Self::Unasked { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }
}

/// Encoded fragments that a model keeps for one warm agent; opaque to everyone else. An empty memo
/// is always valid.
#[derive(Default)]
pub struct Memo(pub Option<Box<dyn Any + Send>>);

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Memo(..)" } else { "Memo(empty)" })
    }
}

/// A request to a model.
pub struct ModelRequest<'a> {
    /// What to answer.
    pub prompt: &'a Prompt,
    /// Encoded fragments of earlier requests of the same agent.
    pub memo: &'a mut Memo,
    /// Only `connect` is the model's to keep; the runtime keeps the others.
    pub timeouts: &'a ModelTimeouts,
}

/// A model.
pub trait Model: Send + Sync {
    /// What is known of it.
    fn info(&self) -> &ModelInfo;
    /// Generates. Dropping the stream drops the connection. The request is built and its memo
    /// filled before this returns; the stream does the waiting.
    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>>;
}

/// All models that a server knows.
pub trait Models: Send + Sync {
    /// The model of that name; the server's default for `None`.
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError>;
}
