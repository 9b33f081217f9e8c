//! The interface between machine and driver: what to do next, and its result.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::alert::AlertKind;
use crate::call::{CallRow, Outcome};
use crate::changes::Changes;
use crate::id::{CallId, CycleId};
use crate::life::IdleReason;
use crate::limits;
use crate::port::{ModelError, ModelInfo, Reply};
use crate::prompt::Prompt;
use crate::run::{Ending, SentRequest};
use crate::tool::ToolSpec;

/// What the driver must do next.
#[derive(Debug)]
pub enum Next {
    /// Submit this opening. [`super::Cycle::prompt_while_opening`] returns the prompt that may be sent before it is
    /// committed. Report the commit's outcome before the reply.
    Open(Box<Changes>),
    /// Build this request without sending it, then call [`super::Cycle::encoded`].
    Encode(Prompt),
    /// Call the model.
    Think(Prompt),
    /// Ask a model for a summary and report the end with [`super::Cycle::summarized`].
    Summarize(Box<SummaryRequest>),
    /// Run these inward calls in order. Each sees the pending changes of those before it.
    Inward(Vec<CallRow>),
    /// Glance at the store and report the news.
    Look,
    /// Commit.
    Commit(Box<Changes>),
    /// Start these calls, in parallel if their effect allows it.
    Outward(Vec<CallRow>),
    /// Wait for the next outcome of the started calls, or for a signal.
    Await,
    /// The activation has ended.
    Finished(ActivationEnd),
}

/// A window in which what is sent in addition to the entries leaves no room for one exchange. All figures are estimated
/// tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overfull {
    /// The model.
    pub model: String,
    /// Its window.
    pub window: u64,
    /// What its reply may have.
    pub output: u64,
    /// System text, tools and examples.
    pub fixed: u64,
    /// Workspace and summary.
    pub layers: u64,
}

impl fmt::Display for Overfull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, window, output, fixed, layers } = self;
        write!(
            f,
            "the window of `{model}` has no room for the history: of its {window} tokens (as estimated) {output} are kept \
             for the reply, {fixed} are system text, tools and examples, and {layers} workspace and summary. At most {} \
             tokens of the history are sent all the same, and the provider may refuse the request. Use a model with a larger \
             window, shorter `instructions` and `examples`, fewer `tools`, or less in `workspace.show`",
            limits::EXCHANGE_MIN_TOKENS
        )
    }
}

/// What of a request has outgrown its room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crowded {
    /// What is sent in addition to the history leaves no room for it.
    Window(Overfull),
    /// The history fills more of its room than a view may, although it was cut. In estimated tokens.
    History {
        /// The model.
        model: String,
        /// How many it has.
        tokens: u64,
        /// How many have room.
        room: u64,
    },
    /// The agent's memories, goals and plans have no room together in the workspace. In bytes.
    Notes {
        /// How many it has.
        bytes: usize,
        /// How many have room.
        room: usize,
    },
}

impl Crowded {
    /// What operators are warned of.
    pub fn alert(&self) -> AlertKind {
        match self {
            Self::Window(_) => AlertKind::WindowOverfull,
            Self::History { .. } => AlertKind::HistoryLarge,
            Self::Notes { .. } => AlertKind::WorkspaceFull,
        }
    }
}

impl fmt::Display for Crowded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(overfull) => overfull.fmt(f),
            Self::History { model, tokens, room } => write!(
                f,
                "the history has {tokens} of the {room} tokens (as estimated) that the window of `{model}` has for it, although it \
                 was cut: the cycle in progress is that long, and each request sends it. Use a model with a larger window, tools \
                 that return less, or a lower `limits.steps_per_cycle`"
            ),
            Self::Notes { bytes, room } => write!(
                f,
                "memories, goals and plans have {bytes} bytes, and the workspace may have {room}: what has no room is left out, or \
                 named by key. Delete what nobody needs, show less in `workspace.show`, or use a model with a larger window"
            ),
        }
    }
}

/// How an activation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum ActivationEnd {
    /// There was nothing to do; nothing was written.
    Idle,
    /// A cycle ended.
    Ended {
        /// Which.
        cycle: CycleId,
        /// How.
        ending: Ending,
        /// Why, if the ending alone does not explain it.
        reason: Option<String>,
    },
    /// The activation stopped early: it gave its events back, or parked its cycle.
    Parked {
        /// Which cycle.
        cycle: CycleId,
        /// The agent is not due before this time.
        until: Option<Timestamp>,
        /// Why the agent is idle until then, if something failed.
        idle_reason: Option<IdleReason>,
        /// Why, for operators.
        reason: String,
    },
    /// Another process runs this agent.
    Lost,
}

/// A request for a summary of the history.
#[derive(Clone, Debug)]
pub struct SummaryRequest {
    /// The request.
    pub prompt: Prompt,
    /// The model, as the config names it; `None` is the agent's own.
    pub model: Option<String>,
    /// Whether it is dropped when the agent has new work: between two cycles.
    pub may_wait: bool,
}

/// How a request for a summary ended.
#[derive(Clone, Debug)]
pub enum SummaryEnd {
    /// A reply, or why there is none.
    Replied(Box<Result<ModelReply, ModelError>>),
    /// It was dropped after an estimated number of generated tokens; `None` if it was not sent.
    Dropped(Option<u64>),
}

/// A complete generation, with what only the driver knows about it.
#[derive(Clone, Debug)]
pub struct ModelReply {
    /// The reply.
    pub reply: Reply,
    /// For each call of the reply, in order: whether its arguments fit the tool's schema (the error is for the
    /// model). Ignored for tools that the agent does not have.
    pub verdicts: Vec<Result<(), String>>,
    /// When the model was called, for the attempt that succeeded.
    pub asked_at: Timestamp,
    /// Time of the model call in milliseconds.
    pub model_ms: u64,
    /// Time to the first piece of the reply, in milliseconds.
    pub first_ms: Option<u64>,
    /// Number of attempts.
    pub attempts: u32,
    /// What was sent.
    pub sent: SentRequest,
}

/// What the driver gives to an activation in addition to what it read from the store.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The tools of the agent, in a stable order.
    pub tools: Arc<[ToolSpec]>,
    /// The agent's own model.
    pub model: ModelInfo,
    /// The other models that its config names, as it names them.
    pub others: Vec<(String, ModelInfo)>,
    /// Id of a new cycle, if one opens.
    pub new_cycle: CycleId,
    /// How calls ended whose outcomes the store could not take.
    pub unstored: Vec<(CallId, Outcome)>,
}

/// Figures of an activation, for tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivationInfo<'a> {
    /// The agent's handle.
    pub name: &'a str,
    /// The ordinal that its cycle has, or would have.
    pub ordinal: u64,
    /// Events that it took.
    pub events: usize,
    /// Tokens of the window at the start.
    pub window_tokens: u64,
    /// How long the oldest of these events had waited, in milliseconds.
    pub waited_ms: Option<u64>,
}

/// When a call ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it began.
    pub at: Timestamp,
    /// How long it took, in milliseconds.
    pub ms: u64,
}
