//! Limits of workers: programs outside that run calls.

/// How long a worker keeps a call without renewing its claim.
pub const WORKER_LEASE_MS: u64 = 30_000;
/// How often it is looked whether the server stood still while a worker has a call.
pub const WORKER_LOOK_MS: u64 = 5_000;
/// From when such a time is not the worker's: it could not renew its claim.
pub const WORKER_STILL_MS: u64 = 500;
/// Claims of one call that can be repeated, before it is given up.
pub const WORKER_CLAIMS_PER_CALL: u32 = 5;
/// Tools of one claim.
pub const WORKER_TOOLS_PER_CLAIM: usize = 32;
/// Longest wait of a claim for a call, and its default; shorter than [`super::REQUEST_MS`].
pub const WORKER_PATIENCE_MS: u64 = 25_000;
/// Claims of one key that wait at once; the rest of [`super::REQUESTS_PER_KEY`] is for renewals and answers.
pub const WORKER_CLAIMS_PER_KEY: usize = 128;
/// Longest version of a worker tool.
pub const WORKER_VERSION_MAX_BYTES: usize = 64;
/// How long a call is not offered after its agent could not begin it.
pub const WORKER_REFUSED_MS: u64 = 1_000;
