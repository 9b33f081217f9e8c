//! Limits of hooks.

/// Hooks of a server.
pub const HOOKS_MAX: usize = 200;
/// Agents that get the events of one hook.
pub const HOOK_AGENTS_MAX: usize = 16;
/// Secrets of one hook that are valid at the same time.
pub const HOOK_SECRETS_MAX: usize = 4;
/// Longest template, and longest rule for what is urgent.
pub const HOOK_TEMPLATE_MAX_BYTES: usize = 16 * 1024;
/// Longest text that a trusted hook's template may take as a plain field: names are shorter, and little free text fits.
pub const HOOK_FIELD_MAX_CHARS: usize = 200;
/// All texts that a trusted hook's template may take of one delivery.
pub const HOOK_FIELDS_MAX_CHARS: usize = 2_000;
/// How old, or how far ahead, the signed time of a delivery may be.
pub const HOOK_WINDOW_MS: u64 = 5 * 60 * 1000;
/// How long a secret of a hook is kept in memory: a changed one counts after that.
pub const HOOK_SECRET_AGE_MS: u64 = 10_000;
/// How long who only asks whether a secret is there waits for it.
pub const HOOK_SECRET_WAIT_MS: u64 = 2_000;
/// Hooks whose secrets are looked for at once, when all are listed.
pub const HOOKS_LISTED_AT_ONCE: usize = 16;
/// Signatures of one delivery that are looked at.
pub const HOOK_SIGNATURES_MAX: usize = 16;
/// Deliveries of one hook in flight.
pub const HOOK_DELIVERIES_MAX: usize = 256;
/// Deliveries of all hooks in flight.
pub const HOOKS_DELIVERIES_MAX: usize = 512;
/// Bodies of the deliveries of one hook in flight.
pub const HOOK_BODIES_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Bodies of the deliveries of all hooks in flight.
pub const HOOKS_BODIES_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Time to receive the body of a delivery, which nobody has verified.
pub const HOOK_BODY_MS: u64 = 5_000;
/// Deliveries of one hook that are listed, of each outcome.
pub const HOOK_LOG_MAX: usize = 200;
/// Least time between two refused deliveries of one hook that are listed: strangers can send any number.
pub const HOOK_REFUSED_LOG_MS: u64 = 1_000;
/// Longest reason of a refused delivery that is listed.
pub const HOOK_DETAIL_MAX_CHARS: usize = 500;
