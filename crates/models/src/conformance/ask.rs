//! The requests of the checks, and when the pieces of the answers arrived.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::call::Effect;
use agent::config::ModelTimeouts;
use agent::id::{CycleId, hashed_uuid};
use agent::limits;
use agent::port::{
    BoxStream, Clock, Memo, Model, ModelError, ModelRequest, Piece, Reply, TimeoutKind, ToolSpec,
};
use agent::prompt::{Item, Prompt, ToolChoice};
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use serde_json::json;

use super::Speed;
use crate::model_book::ToolMode;

/// The name of the offered tool.
pub(super) const TOOL: &str = "get_weather";
/// The values of its field `unit`.
pub(super) const UNITS: [&str; 2] = ["celsius", "fahrenheit"];
/// Bytes of an answer that are kept for quoting.
const TEXT_MAX_BYTES: usize = 1_024;
/// How long a request waits for the first piece of an answer, if the whole answer may take longer.
const FIRST_WAIT: Duration = Duration::from_secs(30);
/// The speed of a generation shorter than this is not measured.
const SPEED_MIN_MS: u64 = 20;

/// A request to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Asks for a text of some length.
    Count,
    /// Asks for one call.
    OneCall,
    /// Asks for two calls.
    TwoCalls,
    /// Asks for a text that takes long to generate.
    Story,
    /// Asks for a greeting.
    Hello,
}

impl Question {
    fn text(self) -> &'static str {
        match self {
            Self::Count => "Count from one to twenty in words, separated by commas. Write nothing else.",
            Self::OneCall => {
                "What is the weather in Paris, in celsius? Call the tool get_weather to find out."
            }
            Self::TwoCalls => {
                "What is the weather in Paris and in Rome, both in celsius? Call the tool get_weather twice in \
                 this one reply, once for each city."
            }
            Self::Story => "Write a story of a thousand words about a lighthouse.",
            Self::Hello => "Say hello, and nothing else.",
        }
    }

    /// The question as a prompt. A question for text offers no tool in native mode. In
    /// `JsonSchema` mode it offers one, because there a text has the form of that mode too.
    pub(super) fn prompt(self, mode: ToolMode) -> Prompt {
        let calls = matches!(self, Self::OneCall | Self::TwoCalls);
        let tools = if calls || mode == ToolMode::JsonSchema { vec![weather()] } else { Vec::new() };
        Prompt {
            system: Arc::from("You are a helpful assistant. Do exactly what you are asked."),
            tools: tools.into(),
            items: vec![Item::Layer(Arc::from(self.text()))],
            choice: if calls { ToolChoice::Auto } else { ToolChoice::None },
            cycle: CycleId(hashed_uuid(&["conformance"])),
            reasoning_from: 0,
            tokens: 0,
            view: 0,
        }
    }
}

/// A greeting as an agent reads it, with that agent's system text and tools.
pub(super) fn greeting(system: Arc<str>, tools: Arc<[ToolSpec]>) -> Prompt {
    let inbox = "[INBOX — 1 new event, now 2026-01-01T09:00:00Z]\n\n1. [space home] Owner (@owner, human), just now: \
                 \"Hello! How are you?\"\n\n[WORKSPACE — facts of this moment, not part of your history]\n\nYour spaces:\n\
                 - home\n  members: you, \"Owner\" (@owner, human)";
    Prompt {
        system,
        tools,
        items: vec![Item::Layer(Arc::from(inbox))],
        choice: ToolChoice::Auto,
        ..Question::Hello.prompt(ToolMode::Native)
    }
}

fn weather() -> ToolSpec {
    ToolSpec {
        name: TOOL.to_owned(),
        description: "Returns the weather in a city.".to_owned(),
        schema: Arc::new(json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city, such as `Berlin`."},
                "unit": {"type": "string", "enum": UNITS, "description": "The unit of the temperature."},
            },
            "required": ["city", "unit"],
            "additionalProperties": false,
        })),
        effect: Effect::ReadOnly,
        visible: false,
        timeout: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
        asynchronous: false,
        version: "1".to_owned(),
        labels: agent::tool::ToolLabels::default(),
        worker: None,
        foreign: false,
        counted: OnceLock::new(),
    }
}

/// A complete answer, and when its pieces arrived.
pub(super) struct Collected {
    /// The reply.
    pub(super) reply: Reply,
    /// When each piece of text, reasoning or arguments arrived, in milliseconds after the request.
    pub(super) pieces: Vec<u64>,
    /// When it ended.
    pub(super) end_ms: u64,
}

impl Collected {
    /// When the first piece arrived; the end if there was none.
    pub(super) fn first_ms(&self) -> u64 {
        self.pieces.first().copied().unwrap_or(self.end_ms)
    }

    pub(super) fn speed(&self) -> Speed {
        let first_ms = self.pieces.first().copied();
        let lasted = first_ms.map(|first| self.end_ms.saturating_sub(first)).filter(|ms| *ms >= SPEED_MIN_MS);
        let tokens = self.reply.usage.output.and_then(|tokens| u32::try_from(tokens).ok());
        let tokens_per_second = match (tokens, lasted.and_then(|ms| u32::try_from(ms).ok())) {
            (Some(tokens), Some(ms)) if tokens > 0 => Some(f64::from(tokens) * 1000.0 / f64::from(ms)),
            _ => None,
        };
        Speed { first_ms, tokens_per_second }
    }
}

/// Sends the request and reads the answer to its end. `so_far` is the text received, even after an error.
pub(super) async fn read_answer(
    model: &dyn Model,
    clock: &dyn Clock,
    wait: Duration,
    prompt: &Prompt,
    so_far: &mut String,
) -> Result<Collected, ModelError> {
    so_far.clear();
    let mut call = TrialRequest::start(model, clock, wait, prompt);
    let mut pieces = Vec::new();
    loop {
        match call.next().await? {
            Piece::Done(reply) => return Ok(Collected { reply, pieces, end_ms: call.elapsed() }),
            Piece::Delta { text, .. } => {
                pieces.push(call.elapsed());
                if so_far.len() < TEXT_MAX_BYTES {
                    so_far.push_str(&text);
                }
            }
            Piece::Start { .. } | Piece::Alive => {}
        }
    }
}

/// Sends the request and disconnects after the first piece of the answer.
pub(super) async fn read_first_piece(
    model: &dyn Model,
    clock: &dyn Clock,
    wait: Duration,
    prompt: &Prompt,
) -> Result<(), ModelError> {
    let mut call = TrialRequest::start(model, clock, wait, prompt);
    loop {
        if matches!(call.next().await?, Piece::Done(_) | Piece::Delta { .. }) {
            return Ok(());
        }
    }
}

/// How long to wait for the first piece of an answer that may take `whole`. It is enough for a slow
/// machine that first loads its model and reads a short prompt.
pub(super) fn first_wait(whole: Duration) -> Duration {
    whole.min(FIRST_WAIT).max(whole / 2)
}

/// A running request with its time-outs. Dropping it closes the connection.
struct TrialRequest<'a> {
    stream: BoxStream<'static, Result<Piece, ModelError>>,
    deadline: agent::port::BoxFuture<'static, ()>,
    clock: &'a dyn Clock,
    wait: Duration,
    start: u64,
    begun: bool,
}

impl<'a> TrialRequest<'a> {
    fn start(model: &dyn Model, clock: &'a dyn Clock, wait: Duration, prompt: &Prompt) -> Self {
        let start = clock.monotonic_ms();
        let most = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let timeouts =
            ModelTimeouts { connect: limits::MODEL_CONNECT_MS.min(most), ..ModelTimeouts::default() };
        let mut memo = Memo::default();
        let stream = model.stream(ModelRequest { prompt, memo: &mut memo, timeouts: &timeouts });
        Self { stream, deadline: clock.sleep(first_wait(wait)), clock, wait, start, begun: false }
    }

    fn elapsed(&self) -> u64 {
        self.clock.monotonic_ms().saturating_sub(self.start)
    }

    async fn next(&mut self) -> Result<Piece, ModelError> {
        match select(self.stream.next(), &mut self.deadline).await {
            Either::Left((Some(piece), _)) => {
                if !self.begun {
                    self.begun = true;
                    let elapsed = Duration::from_millis(self.elapsed());
                    self.deadline = self.clock.sleep(self.wait.saturating_sub(elapsed));
                }
                piece
            }
            Either::Left((None, _)) => Err(ModelError::Cut("the stream ended without a reply".to_owned())),
            Either::Right(_) if self.begun => Err(ModelError::TimedOut(TimeoutKind::Total)),
            Either::Right(_) => Err(ModelError::TimedOut(TimeoutKind::FirstByte)),
        }
    }
}
