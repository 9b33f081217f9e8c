//! How many tokens a model counts where the estimate counts one, learned from the usage that its provider reports. The
//! machine plans in tokens of the estimate, so a model's window is given to it in these.
//!
//! One factor per model and process. Nothing is stored for it: the runs of an agent hold the sizes of its last requests by
//! both counts, so a process learns from them what the one before had learned. Otherwise it begins at 1: the estimate is 0 to
//! 20 % above the usual tokenizers.
//!
//! Some servers cut what does not fit into their window, from the beginning, and say nothing: then the reported size stays the
//! same while the requests grow. That size is the window, and says nothing about the factor. Must not know what is in a request.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent::limits;
use agent::port::ModelInfo;
use agent::run::{Run, StepRecord};

/// Requests below this size say little: what a vendor adds to each request weighs too much.
const TOKENS_MIN: u64 = 500;
/// A factor of 1, and the bounds of a factor whatever a provider reports.
const ONE: u64 = 1_000;
const FACTOR_MIN: u64 = 700;
const FACTOR_MAX: u64 = 4_000;
/// By how much larger a request must be, in percent, whose reported size is exactly that of a smaller one, before the size is
/// taken for the window; and the least size that is.
const GROWN_PERCENT: u64 = 10;
const CUT_MIN: u64 = 1_024;
/// The share of a difference that the factor takes over, upwards and downwards. Too many tokens make a vendor refuse the
/// request, too few only leave room unused: so it rises faster than it falls.
const RISE: u64 = 4;
const FALL: u64 = 16;
/// Activations that look for a model in the runs of their agents, so that one without runs costs no read in each.
const LOOKS_MAX: u32 = 64;

/// The factors of all models.
#[derive(Default)]
pub(crate) struct Calibration {
    factors: Mutex<HashMap<String, Factor>>,
}

struct Factor {
    thousandths: u64,
    /// The last reported size, and the smallest estimate that it was reported for.
    last: Option<(u64, u64)>,
    /// The size at which the server cuts requests.
    cut: Option<u64>,
    /// How often it was to be learned from runs; [`LOOKS_MAX`] once it is.
    looks: u32,
}

impl Default for Factor {
    fn default() -> Self {
        Self { thousandths: ONE, last: None, cut: None, looks: 0 }
    }
}

impl Calibration {
    /// A request of that many `estimated` tokens had as many as the provider `reported`. Returns the window if this shows for the
    /// first time that the provider cuts its requests.
    pub(crate) fn observe(&self, model: &str, estimated: u64, reported: Option<u64>) -> Option<u64> {
        let mut factors = self.lock();
        let factor = factor_of(&mut factors, model);
        let known = factor.cut;
        factor.observe(estimated, reported?);
        factor.cut.filter(|_| factor.cut != known)
    }

    /// Whether the next activation with this model should [`learn`](Self::learn) from the runs of its agent.
    pub(crate) fn should_learn(&self, model: &str) -> bool {
        let mut factors = self.lock();
        let factor = factor_of(&mut factors, model);
        factor.looks += u32::from(factor.looks < LOOKS_MAX);
        factor.looks < LOOKS_MAX
    }

    /// Learns the factor of the model from the requests of these runs, the newest first, if it was sent any.
    pub(crate) fn learn(&self, model: &str, runs: &[Run]) {
        let of_model = |run: &Run, step: &StepRecord| step.model.as_ref().unwrap_or(&run.model) == model;
        let steps =
            runs.iter().rev().flat_map(|run| run.steps.iter().filter(move |step| of_model(run, step)));
        let mut sent =
            steps.filter_map(|step| Some((step.sent.as_ref()?.tokens, step.usage.input))).peekable();
        if sent.peek().is_none() {
            return;
        }
        let mut factor = Factor { looks: LOOKS_MAX, ..Factor::default() };
        let reported: Vec<_> =
            sent.filter_map(|(estimated, reported)| Some((estimated, reported?))).collect();
        if let Some(first) = reported.iter().find_map(|(estimated, reported)| seen(*estimated, *reported)) {
            factor.thousandths = first;
        }
        reported.into_iter().for_each(|(estimated, reported)| factor.observe(estimated, reported));
        // The server may have a larger window by now: only what is seen from here on says that it cuts.
        *factor_of(&mut self.lock(), model) = Factor { last: None, cut: None, ..factor };
    }

    /// The model with its window in tokens of the estimate.
    pub(crate) fn in_estimate(&self, info: &ModelInfo) -> ModelInfo {
        let (factor, cut) =
            self.lock().get(&info.name).map_or((ONE, None), |factor| (factor.thousandths, factor.cut));
        let scaled = |tokens: u64| u32::try_from(tokens * ONE / factor).unwrap_or(u32::MAX);
        let window = cut.unwrap_or(u64::MAX).min(u64::from(info.context_window));
        ModelInfo {
            context_window: scaled(window),
            // A window that turned out smaller has no room for the reply that was planned.
            max_output: scaled(u64::from(info.max_output).min(cut.map_or(u64::MAX, |cut| cut / 4))),
            ..info.clone()
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Factor>> {
        self.factors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Factor {
    fn observe(&mut self, estimated: u64, reported: u64) {
        let Some(seen) = seen(estimated, reported) else { return };
        let least = match self.last {
            Some((size, least)) if size == reported => least.min(estimated),
            _ => estimated,
        };
        self.last = Some((reported, least));
        let has_grown = estimated.saturating_mul(100) >= least.saturating_mul(100 + GROWN_PERCENT);
        if has_grown && reported >= CUT_MIN {
            self.cut = Some(reported);
        }
        if self.cut != Some(reported) {
            self.thousandths = moved(self.thousandths, seen);
        }
    }
}

/// The factor of a model; if there are too many, in place of another one's. Any agent's config can name models.
fn factor_of<'a>(factors: &'a mut HashMap<String, Factor>, model: &str) -> &'a mut Factor {
    if factors.len() >= limits::CALIBRATED_MODELS_MAX
        && !factors.contains_key(model)
        && let Some(other) = factors.keys().next().cloned()
    {
        factors.remove(&other);
    }
    factors.entry(model.to_owned()).or_default()
}

/// The factor of one request; `None` if it says nothing.
fn seen(estimated: u64, reported: u64) -> Option<u64> {
    if reported == 0 || estimated < TOKENS_MIN {
        return None;
    }
    Some((reported.saturating_mul(ONE) / estimated).clamp(FACTOR_MIN, FACTOR_MAX))
}

/// The factor after one more request.
fn moved(factor: u64, seen: u64) -> u64 {
    let factor = factor + seen.saturating_sub(factor).div_ceil(RISE);
    factor - factor.saturating_sub(seen).div_ceil(FALL)
}

#[cfg(test)]
mod tests {
    use agent::id::{AgentId, CycleId};
    use agent::port::ReasoningReplay;
    use agent::run::{Ending, SentRequest, Usage};
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn however_many_models_are_named_a_bounded_number_is_kept() {
        let calibration = Calibration::default();
        for n in 0..limits::CALIBRATED_MODELS_MAX {
            calibration.observe(&format!("seen-{n}"), 1_000, Some(2_000));
            assert!(calibration.should_learn(&format!("asked-{n}")));
            calibration.learn(&format!("learned-{n}"), &[]);
        }
        assert_eq!(calibration.lock().len(), limits::CALIBRATED_MODELS_MAX);
    }

    fn window(calibration: &Calibration) -> u32 {
        let info = ModelInfo {
            name: "m".into(),
            provider: "p".into(),
            context_window: 100_000,
            max_output: 1_000,
            reasoning_replay: ReasoningReplay::None,
            ..ModelInfo::default()
        };
        calibration.in_estimate(&info).context_window
    }

    #[test]
    fn the_window_converges_to_what_the_provider_counts_and_shrinks_faster_than_it_grows() {
        let calibration = Calibration::default();
        assert_eq!(window(&calibration), 100_000);
        let after = |reported: u64, times: usize| {
            (0..times).for_each(|_| assert_eq!(calibration.observe("m", 1_000, Some(reported)), None));
            window(&calibration)
        };
        let shrunk = after(2_000, 16);
        assert!((50_000..52_000).contains(&shrunk), "{shrunk}");
        let grown = after(1_000, 16);
        assert!((52_000..80_000).contains(&grown), "{grown}");
        let converged = after(1_000, 100);
        assert_eq!(converged, 100_000);
    }

    #[test]
    fn a_new_process_learns_the_factor_from_the_runs_of_the_one_before() {
        let step = |model: Option<&str>, tokens, input| StepRecord {
            model: model.map(str::to_owned),
            usage: Usage { input, ..Usage::default() },
            sent: Some(SentRequest { tokens, ..SentRequest::default() }),
            ..StepRecord::default()
        };
        let run = |steps: Vec<StepRecord>| Run {
            id: CycleId(Uuid::nil()),
            agent: AgentId(Uuid::nil()),
            ordinal: 1,
            woke_for: String::new(),
            events: 1,
            opened_at: Timestamp::UNIX_EPOCH,
            ended_at: Timestamp::UNIX_EPOCH,
            steps,
            usage: Usage::default(),
            cost_micros: None,
            model: "m".into(),
            config_rev: 1,
            ending: Ending::Completed,
            reason: None,
            summary: None,
        };
        let of_other = run(vec![step(Some("other"), 1_000, Some(4_000))]);
        let unreported = run(vec![step(None, 1_000, None), step(None, 10, Some(900))]);
        let newest = run(vec![step(None, 1_000, Some(810)), step(None, 2_000, Some(1_600))]);
        let calibration = Calibration::default();
        for _ in 0..3 {
            assert!(calibration.should_learn("m"), "nothing is known of it");
            calibration.learn("m", &[]);
            calibration.learn("m", std::slice::from_ref(&of_other));
        }
        assert_eq!(window(&calibration), 100_000);
        calibration.learn("m", &[newest, of_other, unreported]);
        assert!((123_000..125_000).contains(&window(&calibration)), "{}", window(&calibration));
        assert!(!calibration.should_learn("m"));
        // One that is never called is not looked for in every activation.
        assert_eq!((0..1_000).filter(|_| calibration.should_learn("unused")).count(), 63);
    }

    /// As a server does whose window is 4 096 although more was assumed.
    #[test]
    fn a_reported_size_that_stays_while_the_requests_grow_is_the_window_and_no_factor() {
        let calibration = Calibration::default();
        let sizes =
            [(2_000, 1_900), (4_200, 4_096), (4_400, 4_096), (4_700, 4_096), (9_000, 4_096), (60_000, 4_096)];
        let found: Vec<Option<u64>> = sizes
            .iter()
            .map(|(estimated, reported)| calibration.observe("m", *estimated, Some(*reported)))
            .collect();
        // Said once, where the request has grown enough.
        assert_eq!(found, [None, None, None, Some(4_096), None, None]);
        // About 4 096 at the factor of what was not cut.
        assert!((4_096..4_400).contains(&window(&calibration)), "{}", window(&calibration));
        // A smaller window replaces it; what is not cut teaches the factor again.
        assert_eq!(calibration.observe("m", 3_000, Some(2_048)), None);
        assert_eq!(calibration.observe("m", 3_300, Some(2_048)), Some(2_048));
        assert!(window(&calibration) < 2_600, "{}", window(&calibration));
        // Equal requests of many agents, and small ones, show nothing.
        let calibration = Calibration::default();
        for (estimated, reported) in
            [(5_000, 4_800), (5_000, 4_800), (5_300, 4_800), (900, 800), (1_000, 800)]
        {
            assert_eq!(calibration.observe("m", estimated, Some(reported)), None);
        }
    }

    #[test]
    fn nonsense_of_a_provider_moves_the_window_within_bounds() {
        let calibration = Calibration::default();
        calibration.observe("m", 10, Some(9_000));
        calibration.observe("m", 1_000, None);
        calibration.observe("m", 1_000, Some(0));
        calibration.observe("other", 1_000, Some(u64::MAX));
        assert_eq!(window(&calibration), 100_000);
        (0..100).for_each(|_| _ = calibration.observe("m", 1_000, Some(u64::MAX)));
        assert_eq!(window(&calibration), 25_000);
        (0..1_000).for_each(|_| _ = calibration.observe("m", u64::MAX, Some(1)));
        assert_eq!(window(&calibration), 142_857);
    }
}
