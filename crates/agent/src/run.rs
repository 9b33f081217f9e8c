//! Runs: the record of each cycle: why the agent woke, what the cycle cost, how it ended. Read-only; not a unit of
//! scheduling.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::call::OutcomeStatus;
use crate::event::Trust;
use crate::id::{AgentId, CycleId};

names! {
    /// How a cycle ended.
    pub enum Ending {
        /// The agent had nothing more to do.
        Completed,
        /// None of the events concerned the agent; the log is unchanged.
        Skipped,
        /// A limit of the cycle was reached.
        Exhausted,
        /// It was canceled.
        Canceled,
        /// It could not continue.
        Failed,
    }
}

/// Tokens as the provider reports them. `None` if it reported nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent, cached ones included.
    pub input: Option<u64>,
    /// Of these, read from the provider's cache.
    pub cached: Option<u64>,
    /// Tokens generated, reasoning included.
    pub output: Option<u64>,
    /// Of these, reasoning.
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Whether nothing is known.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Adds another usage. A number remains unknown only if both are unknown.
    pub fn add(&mut self, other: &Self) {
        fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
            match (a, b) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
            }
        }
        self.input = sum(self.input, other.input);
        self.cached = sum(self.cached, other.cached);
        self.output = sum(self.output, other.output);
        self.reasoning = sum(self.reasoning, other.reasoning);
    }
}

/// The record of one call in a run. Times are unknown if the call never ran, or ran in a process that died.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The tool.
    pub tool: String,
    /// When it began, in milliseconds after the cycle opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    /// How long it ran, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// How it ended; `None` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<OutcomeStatus>,
    /// Which repairs were made to its name or arguments before it was run; the log keeps what the model wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired: Option<String>,
    /// Number of texts that a search of the archive found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<usize>,
    /// How it waited for a person; `None` if nobody was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<PersonWait>,
}

/// How a call waited for a person before it ran, or for the answer that it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonWait {
    /// When somebody was asked, in milliseconds after the cycle opened.
    pub asked_ms: u64,
    /// How long it took until somebody answered, in milliseconds; `None` if nobody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// Who answered: the handle of a person, or words for somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whose answer counts apart from operators, by the agent's config when it was asked; none: all people of the space.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
}

/// What a request was: enough to explain what the provider's cache did with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentRequest {
    /// A hash of everything that was sent. Each request of a cycle extends the one before.
    pub prefix: String,
    /// The revision of the view of the history.
    pub view: u64,
    /// Its tokens by the estimate.
    pub tokens: u64,
    /// The lowest trust of all that it showed; `None` in rows of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// The first thing in which it differs from the request before, if it does not extend it although the view is the
    /// same: then the provider's cache was of no use, which is a fault of this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// The record of one step in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Which step.
    pub step: u32,
    /// Names of the tools it called.
    pub tools: Vec<String>,
    /// Tokens of its model request.
    pub usage: Usage,
    /// Time from the request to the end of the reply, in milliseconds.
    pub model_ms: u64,
    /// Number of attempts.
    pub attempts: u32,
    /// Number of events shown to it in addition to the cycle's own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub injected: u32,
    /// How long the oldest of the events first shown at this step had waited, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// Number of its generations that were aborted because of new events.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interrupts: u32,
    /// Tokens of aborted generations; estimated, because providers do not report them.
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    pub aborted: Usage,
    /// Tokens of complete replies that were discarded, as the provider reported them.
    #[serde(default, skip_serializing_if = "Usage::is_none")]
    pub discarded: Usage,
    /// Number of log entries that were no longer sent from this step on, because there was no room.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u32,
    /// How often the view was halved for it, because the vendor refused the request as too long.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u32,
    /// Whether the transcript was rebuilt for it, because the vendor refused the request as invalid.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rebuilt: bool,
    /// The model that answered, if it was not the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When the last attempt was sent, in milliseconds after the cycle opened. `None` in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    /// Time from that request to the first piece of the reply, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<u64>,
    /// Its calls, in order. Runs of earlier versions have only `tools`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallRecord>,
    /// The beginning of the text that the model wrote outside its calls and that was not posted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent: Option<String>,
    /// The request that was answered. `None` in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<SentRequest>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl StepRecord {
    /// Tokens generated per second, between the first piece of the reply and its end.
    pub fn tokens_per_second(&self) -> Option<f64> {
        rate(self.usage.output?, self.model_ms.checked_sub(self.first_ms?)?)
    }
}

impl Run {
    /// Estimated usage of all aborted generations. It is not part of `usage`, but of the cost of the cycle.
    pub fn estimated(&self) -> Usage {
        let mut all = Usage::default();
        self.steps.iter().for_each(|step| all.add(&step.aborted));
        all
    }

    /// Tokens generated per second, over all steps for which tokens and times are known.
    pub fn tokens_per_second(&self) -> Option<f64> {
        let known = self
            .steps
            .iter()
            .filter_map(|step| Some((step.usage.output?, step.model_ms.checked_sub(step.first_ms?)?)));
        let (tokens, ms) = known
            .fold((0u64, 0u64), |sum, step| (sum.0.saturating_add(step.0), sum.1.saturating_add(step.1)));
        rate(tokens, ms)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate, shown with a digit or two")]
fn rate(tokens: u64, ms: u64) -> Option<f64> {
    (tokens > 0 && ms > 0).then(|| tokens as f64 * 1_000.0 / ms as f64)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A summary of what a cycle took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Number of steps.
    pub steps: u32,
    /// From its opening to its end, in milliseconds.
    pub ms: u64,
    /// Tokens of its model requests.
    pub usage: Usage,
    /// Cost in micro-dollars; `None` if a price or a usage is unknown.
    pub cost_micros: Option<u64>,
}

impl Spent {
    /// The summary of a run.
    pub fn of(run: &Run) -> Self {
        let ms = run.ended_at.as_millisecond().saturating_sub(run.opened_at.as_millisecond());
        Self {
            steps: u32::try_from(run.steps.len()).unwrap_or(u32::MAX),
            ms: u64::try_from(ms).unwrap_or(0),
            usage: run.usage,
            cost_micros: run.cost_micros,
        }
    }
}

/// What an agent's last runs cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trend {
    /// Number of runs that were looked at.
    pub runs: usize,
    /// By how many tokens a request is larger than the one of the run before, on average of the runs with the same view.
    pub growth: Option<u64>,
    /// Share of the sent tokens that the provider read from its cache, in percent; `None` if it reports neither.
    pub cached_percent: Option<u64>,
    /// Searches of the archive that found something.
    pub recall_hits: usize,
    /// Searches of the archive that found nothing.
    pub recall_misses: usize,
}

impl Trend {
    /// The trend of these runs of one agent, the newest first.
    pub fn of(runs: &[Run]) -> Self {
        let sent = |run: &Run| run.steps.iter().rev().find_map(|step| step.sent.clone());
        let growth = runs.windows(2).filter_map(|pair| {
            let (after, before) = (sent(&pair[0])?, sent(&pair[1])?);
            (after.view == before.view).then(|| after.tokens.saturating_sub(before.tokens))
        });
        let growth: Vec<u64> = growth.collect();
        let mut usage = Usage::default();
        runs.iter().for_each(|run| usage.add(&run.usage));
        let calls = runs.iter().flat_map(|run| &run.steps).flat_map(|step| &step.calls);
        let (misses, hits): (Vec<usize>, Vec<usize>) =
            calls.filter_map(|call| call.found).partition(|n| *n == 0);
        let share = |cached: u64, input: u64| cached.saturating_mul(100).checked_div(input);
        Self {
            runs: runs.len(),
            growth: growth.iter().sum::<u64>().checked_div(growth.len() as u64),
            cached_percent: usage.cached.zip(usage.input).and_then(|(cached, input)| share(cached, input)),
            recall_hits: hits.len(),
            recall_misses: misses.len(),
        }
    }
}

/// The run of one cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The cycle.
    pub id: CycleId,
    /// The agent.
    pub agent: AgentId,
    /// Number of this cycle among the agent's cycles that processed events, from 1.
    pub ordinal: u64,
    /// Why the agent woke, for example `2 events: space_message from Husam in "Family", …`.
    pub woke_for: String,
    /// Number of events it processed.
    pub events: u32,
    /// When it opened.
    pub opened_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The records of its steps.
    pub steps: Vec<StepRecord>,
    /// Tokens of all model requests, as the provider reported them.
    pub usage: Usage,
    /// Cost in micro-dollars; `None` if a price or a usage is unknown.
    pub cost_micros: Option<u64>,
    /// The model, as `provider/name`.
    pub model: String,
    /// Revision of the config under which it ran.
    pub config_rev: u64,
    /// How it ended.
    pub ending: Ending,
    /// Details of why it ended, if the ending alone does not say it.
    pub reason: Option<String>,
    /// The summary that the agent gave to `done`.
    pub summary: Option<String>,
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn run(view: u64, tokens: u64, usage: (u64, u64), found: &[usize]) -> Run {
        let at = Timestamp::UNIX_EPOCH;
        let call = |found: &usize| CallRecord { found: Some(*found), ..CallRecord::default() };
        let sent = Some(SentRequest { view, tokens, ..SentRequest::default() });
        let steps =
            vec![StepRecord { sent, calls: found.iter().map(call).collect(), ..StepRecord::default() }];
        Run {
            id: CycleId(Uuid::nil()),
            agent: AgentId(Uuid::nil()),
            ordinal: 1,
            woke_for: String::new(),
            events: 1,
            opened_at: at,
            ended_at: at,
            steps,
            usage: Usage { input: Some(usage.0), cached: Some(usage.1), ..Usage::default() },
            cost_micros: None,
            model: "m".into(),
            config_rev: 1,
            ending: Ending::Completed,
            reason: None,
            summary: None,
        }
    }

    #[test]
    fn a_trend_compares_runs_of_one_view_and_counts_searches() {
        // The newest first: the history was compacted between the second and the third.
        let runs = [
            run(2, 1_500, (100, 90), &[3, 0]),
            run(2, 1_400, (100, 70), &[1]),
            run(1, 9_000, (200, 40), &[]),
            run(1, 8_700, (0, 0), &[0]),
        ];
        let trend = Trend::of(&runs);
        assert_eq!((trend.runs, trend.growth, trend.cached_percent), (4, Some(200), Some(50)));
        assert_eq!((trend.recall_hits, trend.recall_misses), (2, 2));
        assert_eq!(Trend::of(&[]), Trend::default());
    }
}
