//! Checks whether a model server is good enough for agents: asks it, through the [`Model`] port, for
//! each thing that an agent needs, and reports the answers and their consequences.
//!
//! The checks are the same for every wire format and vendor. A model answers differently each time, so
//! a finding reports only what happened in this trial.

mod ask;
mod judge;

use std::sync::Arc;
use std::time::Duration;

use agent::config::ModelTimeouts;
use agent::port::{Clock, Memo, Model, ModelError, ModelRequest, Reply, TimeoutKind, ToolSpec};
use agent::prompt::Prompt;
use agent::run::Usage;
use futures_util::StreamExt as _;

use crate::bounds::CONFORMANCE_TRIES;
use crate::catalog::{Provider, WireFormat};
use crate::model_book::ToolMode;
use ask::{Collected, Question};

/// Asks the model to say hello, and returns at the first piece of its answer: whether it answers at all. Waits at
/// most `wait` for it.
pub async fn answers(model: &dyn Model, wait: Duration) -> Result<(), ModelError> {
    let prompt = Question::Hello.prompt(ToolMode::Native);
    let (mut memo, timeouts) = (Memo::default(), ModelTimeouts::default());
    let mut stream = model.stream(ModelRequest { prompt: &prompt, memo: &mut memo, timeouts: &timeouts });
    match tokio::time::timeout(wait, stream.next()).await {
        Ok(Some(piece)) => piece.map(drop),
        Ok(None) => Err(ModelError::Cut("the stream ended without any output".to_owned())),
        Err(_) => Err(ModelError::TimedOut(TimeoutKind::FirstByte)),
    }
}

/// One thing that an agent needs from its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Text is streamed while it is generated.
    Stream,
    /// The model calls the right tool once, with arguments that fit its schema.
    Call,
    /// The model makes two calls in one reply.
    Parallel,
    /// The server reports token counts.
    Usage,
    /// The server stops generating when the client disconnects.
    Cancel,
    /// Greeted as an agent is, with an agent's own system text and tools, the model answers.
    Greeting,
}

impl Check {
    /// All checks, in the order in which they run.
    pub const ALL: [Self; 6] =
        [Self::Stream, Self::Call, Self::Parallel, Self::Usage, Self::Cancel, Self::Greeting];

    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Call => "tool_call",
            Self::Parallel => "parallel_calls",
            Self::Usage => "usage",
            Self::Cancel => "cancel",
            Self::Greeting => "greeting",
        }
    }

    /// The label shown to people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Stream => "streams",
            Self::Call => "calls a tool",
            Self::Parallel => "two calls at once",
            Self::Usage => "reports usage",
            Self::Cancel => "can be canceled",
            Self::Greeting => "answers people",
        }
    }

    /// Whether agents cannot work without it.
    pub fn is_needed(self) -> bool {
        matches!(self, Self::Stream | Self::Call)
    }

    /// The consequence of a failed check.
    fn consequence(self) -> &'static str {
        match self {
            Self::Stream => "watchers see a reply late",
            Self::Call => "agents act by calls alone",
            Self::Parallel => "agents take a step for each call",
            Self::Usage => "token budgets are estimated, costs stay unknown",
            Self::Cancel => "a canceled cycle keeps the server busy",
            Self::Greeting => "give its agents fewer tools, and examples in their instructions",
        }
    }
}

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It failed.
    No,
    /// It was not run.
    Untried,
    /// It passed in part.
    Partly,
    /// It passed.
    Ok,
}

impl Verdict {
    /// The name used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Untried => "untried",
            Self::Partly => "partly",
            Self::Ok => "ok",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// Its verdict.
    pub verdict: Verdict,
    /// What happened, in short. May quote the model.
    pub why: String,
    /// The error, if the server gave no reply.
    pub error: Option<ModelError>,
    /// How long it took.
    pub ms: u64,
}

impl Finding {
    /// What happened, and its consequence if the check did not pass.
    pub fn describe(&self) -> String {
        match self.verdict {
            Verdict::Ok | Verdict::Untried => self.why.clone(),
            Verdict::Partly | Verdict::No => format!("{}; {}", self.why, self.check.consequence()),
        }
    }

    /// A finding of a check that was not run.
    pub fn untried(check: Check, why: &str) -> Self {
        Self { check, verdict: Verdict::Untried, why: format!("not tried: {why}"), error: None, ms: 0 }
    }

    /// Whether the server accepted the request and sent nothing in time.
    pub fn is_silence(&self) -> bool {
        matches!(self.error, Some(ModelError::TimedOut(TimeoutKind::FirstByte)))
    }

    /// The error, if it means that all further checks of this server would fail too.
    pub fn fatal_error(&self) -> Option<&ModelError> {
        self.error.as_ref().filter(|error| {
            self.check == Check::Stream
                && match error {
                    ModelError::Network(_)
                    | ModelError::TimedOut(_)
                    | ModelError::Auth(_)
                    | ModelError::NoModel(_)
                    | ModelError::RateLimited { .. }
                    | ModelError::Overloaded { .. }
                    | ModelError::Failed { .. }
                    | ModelError::NotCalled { .. }
                    | ModelError::Garbage(_) => true,
                    ModelError::Cut(_)
                    | ModelError::TooLong(_)
                    | ModelError::Invalid(_)
                    | ModelError::Unsupported(_) => false,
                }
        })
    }
}

/// How fast the server was, as far as it could be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speed {
    /// Milliseconds from the request to the first piece of text.
    pub first_ms: Option<u64>,
    /// Tokens per second after that.
    pub tokens_per_second: Option<f64>,
}

/// The checks of one model in one tool mode.
pub struct Trial {
    model: Arc<dyn Model>,
    mode: ToolMode,
    clock: Arc<dyn Clock>,
    wait: Duration,
    speed: Speed,
    reported: Vec<Usage>,
    /// The text of the last answer, even if it did not end.
    last_text: String,
    /// Whether a request timed out.
    timed_out: bool,
    /// The system text and the tools of an agent.
    agent: Option<(Arc<str>, Arc<[ToolSpec]>)>,
}

impl Trial {
    /// A trial that has asked nothing yet. Each request waits at most `wait` for the end of its answer.
    pub fn new(model: Arc<dyn Model>, mode: ToolMode, clock: Arc<dyn Clock>, wait: Duration) -> Self {
        let (speed, reported, last_text) = (Speed::default(), Vec::new(), String::new());
        Self { model, mode, clock, wait, speed, reported, last_text, timed_out: false, agent: None }
    }

    /// Lets [`Check::Greeting`] ask with this agent's system text and tools.
    #[must_use]
    pub fn of_agent(self, system: &str, tools: Arc<[ToolSpec]>) -> Self {
        Self { agent: Some((system.into(), tools)), ..self }
    }

    /// How long a request waits for the first piece of an answer.
    pub fn first_wait(&self) -> Duration {
        ask::first_wait(self.wait)
    }

    /// The speed measured so far.
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// Runs one check. [`Check::Usage`] sends no request: it judges the usage reported so far. After a
    /// request timed out no more are sent, since each would take as long.
    pub async fn run(&mut self, check: Check) -> Finding {
        if self.timed_out && (check != Check::Usage || self.reported.is_empty()) {
            return Finding::untried(check, "a check before it ran out of time");
        }
        if check == Check::Greeting && self.agent.is_none() {
            return Finding::untried(check, "no agent was given");
        }
        let start = self.clock.monotonic_ms();
        let judged = match check {
            Check::Stream => self.stream().await,
            Check::Call => self.call().await,
            Check::Parallel => self.parallel().await,
            Check::Usage => Ok(judge::usage(&self.reported)),
            Check::Cancel => self.cancel().await,
            Check::Greeting => self.greeting().await,
        };
        let ms = self.clock.monotonic_ms().saturating_sub(start);
        match judged {
            Ok((verdict, why)) => Finding { check, verdict, why, error: None, ms },
            Err(error) => {
                self.timed_out |= matches!(error, ModelError::TimedOut(_));
                let why = self.describe_error(&error);
                Finding { check, verdict: Verdict::No, why, error: Some(error), ms }
            }
        }
    }

    async fn stream(&mut self) -> Result<(Verdict, String), ModelError> {
        let answer = self.ask(Question::Count).await?;
        self.speed = answer.speed();
        Ok(judge::stream(&answer))
    }

    /// Allows a second try: small models fail sometimes, and agents try again too.
    async fn call(&mut self) -> Result<(Verdict, String), ModelError> {
        let mut judged = (Verdict::No, String::new());
        for attempt in 1..=CONFORMANCE_TRIES {
            let answer = self.ask(Question::OneCall).await?;
            let (verdict, why) = judge::one_call(&answer.reply);
            match (attempt, verdict) {
                (1, Verdict::Ok) => return Ok((verdict, why)),
                (_, Verdict::Ok) => return Ok((Verdict::Partly, format!("{why}, at the second try"))),
                _ if verdict >= judged.0 => judged = (verdict, why),
                _ => {}
            }
        }
        Ok(judged)
    }

    async fn parallel(&mut self) -> Result<(Verdict, String), ModelError> {
        if self.mode == ToolMode::JsonSchema {
            return Ok((Verdict::No, "a reply holds one call in this mode".to_owned()));
        }
        let answer = self.ask(Question::TwoCalls).await?;
        Ok(judge::two_calls(&answer.reply))
    }

    /// Disconnects during a long answer. A server that continues it is too busy for the next request.
    async fn cancel(&mut self) -> Result<(Verdict, String), ModelError> {
        ask::read_first_piece(&*self.model, &*self.clock, self.wait, &Question::Story.prompt(self.mode))
            .await?;
        let before = self.speed.first_ms.unwrap_or(0);
        let next = self.ask(Question::Hello).await?;
        Ok(judge::cancel(next.first_ms(), before))
    }

    async fn greeting(&mut self) -> Result<(Verdict, String), ModelError> {
        let (system, tools) = self.agent.clone().unwrap_or_else(|| (Arc::from(""), Arc::from([])));
        let answer = self.send(ask::greeting(system, tools)).await?;
        Ok(judge::greeting(&answer.reply))
    }

    async fn ask(&mut self, question: Question) -> Result<Collected, ModelError> {
        self.send(question.prompt(self.mode)).await
    }

    async fn send(&mut self, prompt: Prompt) -> Result<Collected, ModelError> {
        let answer =
            ask::read_answer(&*self.model, &*self.clock, self.wait, &prompt, &mut self.last_text).await?;
        self.reported.push(answer.reply.usage);
        Ok(answer)
    }

    fn describe_error(&self, error: &ModelError) -> String {
        match error {
            ModelError::TimedOut(TimeoutKind::Total) if !self.last_text.trim().is_empty() => {
                let so_far = judge::cut(self.last_text.trim());
                format!("no end within {} s; so far: `{so_far}`", self.wait.as_secs())
            }
            ModelError::TimedOut(TimeoutKind::FirstByte) => {
                format!("no answer within {} s", self.first_wait().as_secs())
            }
            ModelError::TimedOut(_) => format!("no whole answer within {} s", self.wait.as_secs()),
            other => other.to_string(),
        }
    }
}

/// The findings of one tool mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The tool mode.
    pub mode: ToolMode,
    /// In the order in which the checks ran.
    pub findings: Vec<Finding>,
}

impl Column {
    /// The worst verdict of the checks that agents need.
    pub fn verdict(&self) -> Verdict {
        let needed = self.findings.iter().filter(|finding| finding.check.is_needed());
        needed.map(|finding| finding.verdict).min().unwrap_or(Verdict::No)
    }

    /// The finding behind the worst verdict, if it is not `Ok`.
    fn obstacle(&self) -> Option<&Finding> {
        let needed = self.findings.iter().filter(|finding| finding.check.is_needed());
        needed.filter(|finding| finding.verdict < Verdict::Ok).min_by_key(|finding| finding.verdict)
    }
}

/// How to use the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The tool mode to use; `None` if none is good enough.
    pub mode: Option<ToolMode>,
    /// The advice as a sentence.
    pub text: String,
}

/// The best mode: the first that passes all needed checks, else the first that passes them in part.
pub fn advice(columns: &[Column]) -> Advice {
    let first = |wanted: Verdict| columns.iter().find(|column| column.verdict() == wanted);
    let flag = |mode: ToolMode| format!("`--tool-mode {}`", mode.as_str());
    let obstacle = |column: &Column| column.obstacle().map(|finding| finding.why.clone()).unwrap_or_default();
    let Some(best) = first(Verdict::Ok).or_else(|| first(Verdict::Partly)) else {
        let each = columns.iter().map(|column| format!("{}: {}", column.mode.as_str(), obstacle(column)));
        let text = format!("not good enough: {}", each.collect::<Vec<_>>().join("; "));
        return Advice { mode: None, text };
    };
    let text = match (best.verdict(), best.mode) {
        (Verdict::Ok, ToolMode::Native) => "good enough as it is".to_owned(),
        (Verdict::Ok, mode) => format!("use {}", flag(mode)),
        (_, mode) => format!("use {}, but expect mistakes: {}", flag(mode), obstacle(best)),
    };
    Advice { mode: Some(best.mode), text }
}

/// The tool modes that can be used at this address, the default first.
pub fn tool_modes(provider: &Provider, base_url: &str) -> &'static [ToolMode] {
    match provider.wire_format_at(base_url) {
        WireFormat::OpenAiChat(_) => &[ToolMode::Native, ToolMode::JsonSchema],
        WireFormat::Anthropic | WireFormat::OpenAiResponses | WireFormat::Gemini => &[ToolMode::Native],
    }
}

/// The calls of a reply: name and raw arguments.
fn calls(reply: &Reply) -> impl Iterator<Item = (&str, &str)> {
    reply.parts.iter().filter_map(|part| match part {
        agent::port::ReplyPart::Call { name, arguments } => Some((name.as_str(), arguments.as_str())),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(mode: ToolMode, stream: Verdict, call: Verdict) -> Column {
        let finding = |check: Check, verdict| Finding {
            check,
            verdict,
            why: format!("{} went {}", check.as_str(), verdict.as_str()),
            error: None,
            ms: 1,
        };
        let findings = vec![
            finding(Check::Stream, stream),
            finding(Check::Call, call),
            finding(Check::Usage, Verdict::No),
        ];
        Column { mode, findings }
    }

    #[test]
    fn the_best_mode_is_the_first_that_passes_all_needed_checks() {
        use ToolMode::{JsonSchema, Native};
        use Verdict::{No, Ok, Partly};
        for (native, json, mode, text) in [
            ((Ok, Ok), (Ok, Ok), Some(Native), "good enough as it is"),
            ((Ok, No), (Ok, Ok), Some(JsonSchema), "use `--tool-mode json_schema`"),
            ((Partly, Ok), (Ok, Ok), Some(JsonSchema), "use `--tool-mode json_schema`"),
            ((Ok, Partly), (Ok, No), Some(Native), "but expect mistakes: tool_call went partly"),
            ((Ok, No), (No, Ok), None, "native: tool_call went no; json_schema: stream went no"),
        ] {
            let columns = [column(Native, native.0, native.1), column(JsonSchema, json.0, json.1)];
            let advice = advice(&columns);
            assert_eq!(advice.mode, mode);
            assert!(advice.text.contains(text), "{}", advice.text);
        }
        assert_eq!(advice(&[]).mode, None);
    }

    #[test]
    fn only_a_server_that_gives_no_first_reply_needs_no_further_checks() {
        let finding = |check, error: ModelError| Finding {
            check,
            verdict: Verdict::No,
            why: String::new(),
            error: Some(error),
            ms: 0,
        };
        assert!(finding(Check::Stream, ModelError::Network("x".into())).fatal_error().is_some());
        assert!(finding(Check::Call, ModelError::Network("x".into())).fatal_error().is_none());
        assert!(finding(Check::Stream, ModelError::Invalid("x".into())).fatal_error().is_none());
    }
}
