//! What is asked, and how the answer came.

use std::sync::Arc;
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

/// The tool that is offered.
pub(super) const TOOL: &str = "get_weather";
/// What its field `unit` may hold.
pub(super) const UNITS: [&str; 2] = ["celsius", "fahrenheit"];
/// More of an answer is not kept for quoting.
const SAID_MAX_BYTES: usize = 1_024;
/// What it is waited for the first sign of an answer, where the whole may take longer.
const FIRST_WAIT: Duration = Duration::from_secs(30);
/// A generation shorter than this says nothing about speed.
const SPEED_MIN_MS: u64 = 20;

/// What is asked of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// For a text of some length.
    Count,
    /// For one call.
    OneCall,
    /// For two calls.
    TwoCalls,
    /// For a text that takes long.
    Story,
    /// For a word.
    Hello,
}

impl Question {
    fn words(self) -> &'static str {
        match self {
            Self::Count => "Count from one to twenty in words, separated by commas. Write nothing else.",
            Self::OneCall => {
                "What is the weather in Paris, in celsius? TrialRequest the tool get_weather to find out."
            }
            Self::TwoCalls => {
                "What is the weather in Paris and in Rome, both in celsius? TrialRequest the tool get_weather twice in \
                 this one reply, once for each city."
            }
            Self::Story => "Write a story of a thousand words about a lighthouse.",
            Self::Hello => "Say hello, and nothing else.",
        }
    }

    /// The question as a prompt. Where a text is wanted no tool is offered, unless the mode is about
    /// how tools are offered: then the text travels in its form too.
    pub(super) fn prompt(self, mode: ToolMode) -> Prompt {
        let calls = matches!(self, Self::OneCall | Self::TwoCalls);
        let tools = if calls || mode == ToolMode::JsonSchema { vec![weather()] } else { Vec::new() };
        Prompt {
            system: Arc::from("You are a helpful assistant. Do exactly what you are asked."),
            tools: tools.into(),
            items: vec![Item::Layer(Arc::from(self.words()))],
            choice: if calls { ToolChoice::Auto } else { ToolChoice::None },
            cycle: CycleId(hashed_uuid(&["conformance"])),
            reasoning_from: 0,
        }
    }
}

fn weather() -> ToolSpec {
    ToolSpec {
        name: TOOL.to_owned(),
        description: "Tells the weather in a city.".to_owned(),
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
    }
}

/// A whole answer, and when its pieces came.
pub(super) struct Collected {
    /// What was said.
    pub(super) reply: Reply,
    /// When each piece of text, reasoning or arguments came, in milliseconds from the question.
    pub(super) pieces: Vec<u64>,
    /// When it ended.
    pub(super) end_ms: u64,
}

impl Collected {
    /// When it began; its end where nothing was said.
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

/// Asks and listens to the end. `said` is the text so far, also where there is no end.
pub(super) async fn listen(
    model: &dyn Model,
    clock: &dyn Clock,
    wait: Duration,
    prompt: &Prompt,
    said: &mut String,
) -> Result<Collected, ModelError> {
    said.clear();
    let mut call = TrialRequest::start(model, clock, wait, prompt);
    let mut pieces = Vec::new();
    loop {
        match call.next().await? {
            Piece::Done(reply) => return Ok(Collected { reply, pieces, end_ms: call.elapsed() }),
            Piece::Delta { text, .. } => {
                pieces.push(call.elapsed());
                if said.len() < SAID_MAX_BYTES {
                    said.push_str(&text);
                }
            }
            Piece::Start { .. } | Piece::Alive => {}
        }
    }
}

/// Asks, and hangs up when something was said.
pub(super) async fn begin(
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

/// How long it is waited for the first sign of an answer, where the whole may take `whole`. A slow
/// machine reads a short question within this, cold as it is; a server that is none never answers.
pub(super) fn first_wait(whole: Duration) -> Duration {
    whole.min(FIRST_WAIT).max(whole / 2)
}

/// One request on its way, under its time-outs. Dropping it hangs up.
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
                    let gone = Duration::from_millis(self.elapsed());
                    self.deadline = self.clock.sleep(self.wait.saturating_sub(gone));
                }
                piece
            }
            Either::Left((None, _)) => Err(ModelError::Cut("the stream ended without a reply".to_owned())),
            Either::Right(_) if self.begun => Err(ModelError::TimedOut(TimeoutKind::Total)),
            Either::Right(_) => Err(ModelError::TimedOut(TimeoutKind::FirstByte)),
        }
    }
}
