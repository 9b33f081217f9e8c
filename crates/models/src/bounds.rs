//! Bounds of what a vendor may send us. They belong to the wires alone, so they stand beside them;
//! everything that the rules know stands in `agent::limits`.

/// One event of a stream. Server tools deliver whole pages in one.
pub const EVENT_MAX_BYTES: usize = 8 * 1024 * 1024;
/// One whole generation, as received.
pub const REPLY_MAX_BYTES: usize = 64 * 1024 * 1024;
/// What is waited for behind a vendor's word for why it stopped: usage, and the closing mark. Some servers
/// send none and keep the connection open.
pub const FINISH_GRACE_MS: u64 = 2_000;
/// What is read of an error's body.
pub const ERROR_BODY_MAX_BYTES: usize = 64 * 1024;
/// What is shown of a vendor's words.
pub const ERROR_SHOWN_MAX_CHARS: usize = 600;
/// What is read of a local server's answer to a probe.
pub const PROBE_MAX_BYTES: usize = 1024 * 1024;
/// A probe of a local server.
pub const PROBE_MS: u64 = 300;
/// What is read of a provider's list of models.
pub const LISTING_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Models of one list that are looked at.
pub const LISTING_MODELS_MAX: usize = 2_000;
/// Tokens of one answer of the conformance check; reasoning counts as well.
pub const CONFORMANCE_OUTPUT: u32 = 1_024;
/// Tries that the conformance check gives a model to make one call.
pub const CONFORMANCE_TRIES: u32 = 2;
/// HTTP clients kept, one for each connect time-out in use.
pub const CLIENTS_MAX: usize = 8;
/// Models kept by name.
pub const MODELS_MAX: usize = 256;
/// Steps in the path of a piece of a call's arguments.
pub const ARGUMENT_PATH_MAX: usize = 64;
