//! Limits of targets, which are told what happens.

/// Targets of a server.
pub const TARGETS_MAX: usize = 200;
/// Longest address of a target.
pub const TARGET_URL_MAX_BYTES: usize = 2 * 1024;
/// Longest rule of a target for what is sent, and longest template of what is.
pub const TARGET_TEMPLATE_MAX_BYTES: usize = 16 * 1024;
/// Secrets of a target.
pub const TARGET_SECRETS_MAX: usize = 4;
/// Targets inside that one target may allow.
pub const TARGET_ALLOW_MAX: usize = 16;
/// Deliveries that may wait for one target; with more it is switched off.
pub const TARGET_QUEUE_MAX: usize = 10_000;
/// Dead deliveries of one target that are kept; older ones are forgotten.
pub const TARGET_DEAD_MAX: usize = 1_000;
/// Targets that are sent to at once although their last attempt failed. Others are sent to at once, each one delivery.
pub const TARGETS_FAILING_AT_ONCE: usize = 16;
/// Least time between two looks for deliveries that are due, where no attempt ended.
pub const TARGET_TICK_MS: u64 = 1_000;
/// Longest time between two looks.
pub const TARGET_LOOK_MS: u64 = 30_000;
/// Pause after the first failed attempt; it doubles each time.
pub const TARGET_PAUSE_MS: u64 = 5_000;
/// The longest of these pauses.
pub const TARGET_PAUSE_MAX_MS: u64 = 60 * 60 * 1000;
/// The longest pause that a target can ask for (`Retry-After`): a day.
pub const TARGET_RETRY_AFTER_MAX_MS: u64 = 24 * 60 * 60 * 1000;
/// Age of a delivery from which a failed attempt is its last: three days.
pub const TARGET_GIVE_UP_MS: u64 = 3 * 24 * 60 * 60 * 1000;
/// To connect to a target.
pub const TARGET_CONNECT_MS: u64 = 5_000;
/// One attempt as a whole.
pub const TARGET_MS: u64 = 15_000;
/// Text of a message that a delivery has.
pub const TARGET_TEXT_MAX_BYTES: usize = 64 * 1024;
/// Longest reason of a failed attempt that is kept.
pub const TARGET_WHY_MAX_CHARS: usize = 300;
