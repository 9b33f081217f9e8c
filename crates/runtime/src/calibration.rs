//! How many tokens a model counts where the estimate counts one, learned from the usage that its provider reports. The
//! machine plans in tokens of the estimate, so a model's window is given to it in these.
//!
//! One factor per model and process. It begins at 1: the estimate is 0 to 20 % above the usual tokenizers. Must not know
//! what is in a request.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent::port::ModelInfo;

/// Requests below this size say little: what a vendor adds to each request weighs too much.
const TOKENS_MIN: u64 = 500;
/// A factor of 1, and the bounds of a factor whatever a provider reports.
const ONE: u64 = 1_000;
const FACTOR_MIN: u64 = 700;
const FACTOR_MAX: u64 = 4_000;
/// The share of a difference that the factor takes over, upwards and downwards. Too many tokens make a vendor refuse the
/// request, too few only leave room unused: so it rises faster than it falls.
const RISE: u64 = 4;
const FALL: u64 = 16;

/// The factors of all models, in thousandths.
#[derive(Default)]
pub(crate) struct Calibration {
    factors: Mutex<HashMap<String, u64>>,
}

impl Calibration {
    /// A request of that many `estimated` tokens had as many as the provider `reported`.
    pub(crate) fn observe(&self, model: &str, estimated: u64, reported: Option<u64>) {
        let Some(reported) = reported.filter(|reported| *reported > 0 && estimated >= TOKENS_MIN) else {
            return;
        };
        let seen = (reported.saturating_mul(ONE) / estimated).clamp(FACTOR_MIN, FACTOR_MAX);
        let mut factors = self.lock();
        let factor = factors.entry(model.to_owned()).or_insert(ONE);
        *factor += seen.saturating_sub(*factor).div_ceil(RISE);
        *factor -= factor.saturating_sub(seen).div_ceil(FALL);
    }

    /// The model with its window in tokens of the estimate.
    pub(crate) fn in_estimate(&self, info: &ModelInfo) -> ModelInfo {
        let factor = self.lock().get(&info.name).copied().unwrap_or(ONE);
        let scaled = |tokens: u32| u32::try_from(u64::from(tokens) * ONE / factor).unwrap_or(u32::MAX);
        ModelInfo {
            context_window: scaled(info.context_window),
            max_output: scaled(info.max_output),
            ..info.clone()
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.factors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use agent::port::ReasoningReplay;

    use super::*;

    fn window(calibration: &Calibration) -> u32 {
        let info = ModelInfo {
            name: "m".into(),
            provider: "p".into(),
            context_window: 100_000,
            max_output: 1_000,
            reasoning_replay: ReasoningReplay::None,
            forced_tool_choice: false,
            price: None,
            demo: false,
        };
        calibration.in_estimate(&info).context_window
    }

    #[test]
    fn the_window_converges_to_what_the_provider_counts_and_shrinks_faster_than_it_grows() {
        let calibration = Calibration::default();
        assert_eq!(window(&calibration), 100_000);
        let after = |reported: u64, times: usize| {
            (0..times).for_each(|_| calibration.observe("m", 1_000, Some(reported)));
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
    fn nonsense_of_a_provider_moves_the_window_within_bounds() {
        let calibration = Calibration::default();
        calibration.observe("m", 10, Some(9_000));
        calibration.observe("m", 1_000, None);
        calibration.observe("m", 1_000, Some(0));
        calibration.observe("other", 1_000, Some(u64::MAX));
        assert_eq!(window(&calibration), 100_000);
        (0..100).for_each(|_| calibration.observe("m", 1_000, Some(u64::MAX)));
        assert_eq!(window(&calibration), 25_000);
        (0..1_000).for_each(|_| calibration.observe("m", u64::MAX, Some(1)));
        assert_eq!(window(&calibration), 142_857);
    }
}
