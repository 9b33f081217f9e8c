//! What machine and driver say to each other: what is to be done next, and what came of it.

use std::sync::Arc;

use jiff::Timestamp;

use crate::call::CallRow;
use crate::changes::Changes;
use crate::id::CycleId;
use crate::life::IdleReason;
use crate::port::{ModelInfo, Reply};
use crate::prompt::Prompt;
use crate::run::Ending;
use crate::tool::ToolSpec;

/// What the driver is to do next.
#[derive(Debug)]
pub enum Next {
    /// Submit this opening; [`super::Cycle::meanwhile`] gives what may be asked before it is done. Tell the
    /// commit's outcome first.
    Open(Box<Changes>),
    /// Build this request without sending it, and say so.
    Encode(Prompt),
    /// Ask the model.
    Think(Prompt),
    /// Run these inward calls in order, each seeing what those before it want changed.
    Inward(Vec<CallRow>),
    /// Glance at the store, and tell what it says.
    Look,
    /// Commit.
    Commit(Box<Changes>),
    /// Start these calls, in parallel where their effect allows.
    Outward(Vec<CallRow>),
    /// Wait for the next outcome of the started calls (or for a signal).
    Await,
    /// The activation is over.
    Finished(ActivationEnd),
}

/// How an activation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum ActivationEnd {
    /// Nothing was due after all; nothing was written.
    Idle,
    /// A cycle ended.
    Ended {
        /// Which.
        cycle: CycleId,
        /// How.
        ending: Ending,
        /// Why, where the ending does not say it all.
        reason: Option<String>,
    },
    /// The activation was given up for now: before anything was processed, or parked in the middle.
    Parked {
        /// Which cycle.
        cycle: CycleId,
        /// Not due before this time.
        until: Option<Timestamp>,
        /// What kept it back, where something failed.
        rest: Option<IdleReason>,
        /// Why, in words for operators.
        reason: String,
    },
    /// Another process runs this agent.
    Lost,
}

/// A complete generation, with what only the driver can know of it.
#[derive(Clone, Debug)]
pub struct ModelReply {
    /// The reply.
    pub reply: Reply,
    /// For each call of the reply, in order: whether its arguments fit the tool's schema (the error
    /// is for the model). Ignored for tools that the agent has not.
    pub verdicts: Vec<Result<(), String>>,
    /// When the model was asked, the attempt that it answered.
    pub asked_at: Timestamp,
    /// Time of the model call in milliseconds.
    pub model_ms: u64,
    /// Time to the first piece of the reply.
    pub first_ms: Option<u64>,
    /// Attempts it took.
    pub attempts: u32,
}

/// What the driver hands to an activation in addition to what it read from the store.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The tools of the agent, in a stable order.
    pub tools: Arc<[ToolSpec]>,
    /// The agent's own model.
    pub model: ModelInfo,
    /// The other models that its config names, as it names them.
    pub others: Vec<(String, ModelInfo)>,
    /// Id for the cycle, should one open.
    pub fresh: CycleId,
    /// Whether the activation before this one ended by a panic of this process.
    pub panicked: bool,
}

/// What an activation is about, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occasion<'a> {
    /// The agent's handle.
    pub name: &'a str,
    /// Which of its cycles it is, or would be.
    pub ordinal: u64,
    /// Events that it took.
    pub events: usize,
    /// Tokens of the window as it woke.
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
