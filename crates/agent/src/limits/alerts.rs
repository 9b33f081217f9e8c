//! Limits of alerts and metrics, which tell operators what they should know of.

/// Alerts that are kept of one agent, and of the server; older ones are forgotten.
pub const ALERTS_KEPT: usize = 200;
/// Longest text of an alert that is kept.
pub const ALERT_TEXT_MAX_CHARS: usize = 2_000;
/// How long after it an alert is recent, so that overviews name it: a day.
pub const ALERT_RECENT_MS: u64 = 24 * 60 * 60 * 1000;
/// Models that metrics tell apart; those that are used first after a start.
pub const METRIC_MODELS_MAX: usize = 64;
