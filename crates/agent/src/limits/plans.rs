//! Limits of plans.

/// Plans that one command fires; the next one follows and fires more.
pub const PLANS_FIRED_MAX: u32 = 20;
/// Least time between two such commands.
pub const FIRING_LEAST_MS: u64 = 5;
/// Slots that one event of a plan lists.
pub const PLAN_SLOTS_MAX: usize = 100;
/// How long a plan is postponed if its agent's inbox is full.
pub const PLAN_POSTPONED_MS: i64 = 60_000;
/// Plans of one agent that it or an operator has set; as many again are in its config.
pub const PLANS_MAX: usize = 100;
/// Plans that one call sets.
pub const PLANS_PER_CALL: usize = 20;
/// Longest name of a plan.
pub const PLAN_NAME_MAX_BYTES: usize = 120;
/// Longest instruction of a plan.
pub const PLAN_INSTRUCTION_MAX_BYTES: usize = 4 * 1024;
/// Longest time, span or expression in a plan, as text.
pub const PLAN_WHEN_MAX_BYTES: usize = 120;
/// Least time between two slots of a plan.
pub const PLAN_INTERVAL_MIN_MS: u64 = 60_000;
/// Longest span in a plan, and how far ahead its next slot may be: ten years.
pub const PLAN_AHEAD_MAX_MS: u64 = 3_653 * 24 * 60 * 60 * 1000;
/// A plan that skips what it missed fires for a slot at most this late, unless it says otherwise.
pub const PLAN_SKIPS_AFTER_MS: u64 = 60_000;
/// If the rules of a zone have moved a slot to at most this much later, its plan fires then.
pub const PLAN_SHIFT_MAX_MS: u64 = 2 * 60 * 60 * 1000;
/// Next times of a plan that are listed at once.
pub const PLAN_TIMES_MAX: usize = 1_000;
