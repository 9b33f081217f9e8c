//! Whether a model server is good enough for agents: asks it, through the ordinary port, for each
//! thing that an agent needs, and says what came and what follows from it.
//!
//! Knows no wire and no vendor: whatever answers behind the port is held to the same checks. What a
//! model says differs from time to time, so a finding tells what happened this once.

mod ask;
mod judge;

use std::sync::Arc;
use std::time::Duration;

use agent::port::{Clock, Model, ModelError, Reply, TimeoutKind};
use agent::run::Usage;

use crate::bounds::CONFORMANCE_TRIES;
use crate::catalog::{Provider, WireFormat};
use crate::model_book::ToolMode;
use ask::{Collected, Question};

/// One thing that an agent needs of its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// A text comes piece by piece, while it is generated.
    Stream,
    /// One call of the right tool, with arguments that fit its schema.
    Call,
    /// Two calls in one reply.
    Parallel,
    /// Tokens are counted.
    Usage,
    /// A generation that nobody waits for any more ends.
    Cancel,
}

impl Check {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 5] = [Self::Stream, Self::Call, Self::Parallel, Self::Usage, Self::Cancel];

    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Call => "tool_call",
            Self::Parallel => "parallel_calls",
            Self::Usage => "usage",
            Self::Cancel => "cancel",
        }
    }

    /// In words, for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Stream => "streams",
            Self::Call => "calls a tool",
            Self::Parallel => "two calls at once",
            Self::Usage => "reports usage",
            Self::Cancel => "can be canceled",
        }
    }

    /// Whether agents cannot live without it.
    pub fn is_needed(self) -> bool {
        matches!(self, Self::Stream | Self::Call)
    }

    /// What follows where it is not met.
    fn otherwise(self) -> &'static str {
        match self {
            Self::Stream => "watchers see a reply late",
            Self::Call => "agents act by calls alone",
            Self::Parallel => "agents take a step for each call",
            Self::Usage => "token budgets are estimated, costs stay unknown",
            Self::Cancel => "a canceled cycle keeps the server busy",
        }
    }
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Not at all.
    No,
    /// Nobody knows: it was not asked for.
    Untried,
    /// With something missing.
    Partly,
    /// As it should.
    Ok,
}

impl Verdict {
    /// The word for it, in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Untried => "untried",
            Self::Partly => "partly",
            Self::Ok => "ok",
        }
    }
}

/// What came of one check.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Of which.
    pub check: Check,
    /// How it went.
    pub verdict: Verdict,
    /// What happened, in a few words. May quote the model.
    pub why: String,
    /// The failure, where the server gave no reply at all.
    pub error: Option<ModelError>,
    /// How long it took.
    pub ms: u64,
}

impl Finding {
    /// What happened, and what follows where that is not as it should be.
    pub fn describe(&self) -> String {
        match self.verdict {
            Verdict::Ok | Verdict::Untried => self.why.clone(),
            Verdict::Partly | Verdict::No => format!("{}; {}", self.why, self.check.otherwise()),
        }
    }

    /// One that was not made.
    pub fn untried(check: Check, why: &str) -> Self {
        Self { check, verdict: Verdict::Untried, why: format!("not tried: {why}"), error: None, ms: 0 }
    }

    /// Whether the server took the question and said nothing at all in time.
    pub fn is_silence(&self) -> bool {
        matches!(self.error, Some(ModelError::TimedOut(TimeoutKind::FirstByte)))
    }

    /// The failure, where it says that there is no use in asking this server anything else.
    pub fn hopeless(&self) -> Option<&ModelError> {
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
                    | ModelError::Unasked { .. }
                    | ModelError::Garbage(_) => true,
                    ModelError::Cut(_)
                    | ModelError::TooLong(_)
                    | ModelError::Invalid(_)
                    | ModelError::Unsupported(_) => false,
                }
        })
    }
}

/// How fast the server was, where that could be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speed {
    /// From the question to the first piece of text, in milliseconds.
    pub first_ms: Option<u64>,
    /// Tokens generated per second from there on.
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
    /// The text of the last answer, also where it did not come to its end.
    said: String,
    /// Whether a question ran out of its time.
    timed_out: bool,
}

impl Trial {
    /// Nothing is asked yet. No question waits longer than `wait` for the end of its answer.
    pub fn new(model: Arc<dyn Model>, mode: ToolMode, clock: Arc<dyn Clock>, wait: Duration) -> Self {
        let (speed, reported, said) = (Speed::default(), Vec::new(), String::new());
        Self { model, mode, clock, wait, speed, reported, said, timed_out: false }
    }

    /// How long it is waited for the first sign of an answer.
    pub fn first_wait(&self) -> Duration {
        ask::first_wait(self.wait)
    }

    /// How fast it was so far.
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// Makes one check. [`Check::Usage`] judges what was reported so far, and asks nothing. Behind a
    /// question that ran out of its time nothing more is asked: each would take as long.
    pub async fn run(&mut self, check: Check) -> Finding {
        if self.timed_out && (check != Check::Usage || self.reported.is_empty()) {
            return Finding::untried(check, "a check before it ran out of time");
        }
        let start = self.clock.monotonic_ms();
        let judged = match check {
            Check::Stream => self.stream().await,
            Check::Call => self.call().await,
            Check::Parallel => self.parallel().await,
            Check::Usage => Ok(judge::usage(&self.reported)),
            Check::Cancel => self.cancel().await,
        };
        let ms = self.clock.monotonic_ms().saturating_sub(start);
        match judged {
            Ok((verdict, why)) => Finding { check, verdict, why, error: None, ms },
            Err(error) => {
                self.timed_out |= matches!(error, ModelError::TimedOut(_));
                let why = self.in_words(&error);
                Finding { check, verdict: Verdict::No, why, error: Some(error), ms }
            }
        }
    }

    async fn stream(&mut self) -> Result<(Verdict, String), ModelError> {
        let heard = self.ask(Question::Count).await?;
        self.speed = heard.speed();
        Ok(judge::stream(&heard))
    }

    /// A second try is allowed: small models miss now and then, and agents try again as well.
    async fn call(&mut self) -> Result<(Verdict, String), ModelError> {
        let mut judged = (Verdict::No, String::new());
        for attempt in 1..=CONFORMANCE_TRIES {
            let heard = self.ask(Question::OneCall).await?;
            let (verdict, why) = judge::one_call(&heard.reply);
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
        let heard = self.ask(Question::TwoCalls).await?;
        Ok(judge::two_calls(&heard.reply))
    }

    /// Hangs up on a long answer; a server that goes on with it has no time for the next question.
    async fn cancel(&mut self) -> Result<(Verdict, String), ModelError> {
        ask::begin(&*self.model, &*self.clock, self.wait, &Question::Story.prompt(self.mode)).await?;
        let before = self.speed.first_ms.unwrap_or(0);
        let next = self.ask(Question::Hello).await?;
        Ok(judge::cancel(next.first_ms(), before))
    }

    async fn ask(&mut self, question: Question) -> Result<Collected, ModelError> {
        let prompt = question.prompt(self.mode);
        let heard = ask::listen(&*self.model, &*self.clock, self.wait, &prompt, &mut self.said).await?;
        self.reported.push(heard.reply.usage);
        Ok(heard)
    }

    fn in_words(&self, error: &ModelError) -> String {
        match error {
            ModelError::TimedOut(TimeoutKind::Total) if !self.said.trim().is_empty() => {
                let so_far = judge::cut(self.said.trim());
                format!("no end within {} s; so far: `{so_far}`", self.wait.as_secs())
            }
            ModelError::TimedOut(TimeoutKind::FirstByte) => {
                format!("no word within {} s", self.first_wait().as_secs())
            }
            ModelError::TimedOut(_) => format!("no whole answer within {} s", self.wait.as_secs()),
            other => other.to_string(),
        }
    }
}

/// All findings of one tool mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Which.
    pub mode: ToolMode,
    /// In the order in which they were made.
    pub findings: Vec<Finding>,
}

impl Column {
    /// The worst of what agents cannot live without.
    pub fn verdict(&self) -> Verdict {
        let needed = self.findings.iter().filter(|finding| finding.check.is_needed());
        needed.map(|finding| finding.verdict).min().unwrap_or(Verdict::No)
    }

    /// What stands in the way of the worst of it.
    fn obstacle(&self) -> Option<&Finding> {
        let needed = self.findings.iter().filter(|finding| finding.check.is_needed());
        needed.filter(|finding| finding.verdict < Verdict::Ok).min_by_key(|finding| finding.verdict)
    }
}

/// What to do with the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The mode to use it in; `None` where it is not good enough in any.
    pub mode: Option<ToolMode>,
    /// In a sentence.
    pub text: String,
}

/// The best mode: the first that does all that is needed, else the first that does it partly.
pub fn advice(columns: &[Column]) -> Advice {
    let first = |wanted: Verdict| columns.iter().find(|column| column.verdict() == wanted);
    let flag = |mode: ToolMode| format!("`--tool-mode {}`", mode.as_str());
    let said = |column: &Column| column.obstacle().map(|finding| finding.why.clone()).unwrap_or_default();
    let Some(best) = first(Verdict::Ok).or_else(|| first(Verdict::Partly)) else {
        let each = columns.iter().map(|column| format!("{}: {}", column.mode.as_str(), said(column)));
        let text = format!("not good enough: {}", each.collect::<Vec<_>>().join("; "));
        return Advice { mode: None, text };
    };
    let text = match (best.verdict(), best.mode) {
        (Verdict::Ok, ToolMode::Native) => "good enough as it is".to_owned(),
        (Verdict::Ok, mode) => format!("use {}", flag(mode)),
        (_, mode) => format!("use {}, but expect mistakes: {}", flag(mode), said(best)),
    };
    Advice { mode: Some(best.mode), text }
}

/// The ways to offer tools that are known at this address, the usual one first.
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
    fn the_best_mode_is_the_first_that_does_all_that_is_needed() {
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
    fn only_a_server_that_gives_no_first_reply_is_hopeless() {
        let finding = |check, error: ModelError| Finding {
            check,
            verdict: Verdict::No,
            why: String::new(),
            error: Some(error),
            ms: 0,
        };
        assert!(finding(Check::Stream, ModelError::Network("x".into())).hopeless().is_some());
        assert!(finding(Check::Call, ModelError::Network("x".into())).hopeless().is_none());
        assert!(finding(Check::Stream, ModelError::Invalid("x".into())).hopeless().is_none());
    }
}
