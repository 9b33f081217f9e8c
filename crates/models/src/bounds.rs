//! Limits on what a vendor may send. Only this crate uses them; limits that the agent rules also use
//! are in `agent::limits`.

/// Largest generation, in bytes as received.
pub const REPLY_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Calls, blocks or items of one reply while it arrives: they are compared with each other. More than the agent rules accept, since
/// those tell the model.
pub const REPLY_PARTS_MAX: usize = 8 * 1024;
/// Unknown fields of one call, block or message.
pub const UNKNOWN_FIELDS_MAX: usize = 1_024;
/// Largest reply that is kept in the vendor's form and sent back as it came. Of a larger one text and calls are kept.
pub const NATIVE_MAX_BYTES: usize = 4 * 1024 * 1024;
/// How long to wait after the stop reason for usage and the closing mark. Some servers send neither and
/// keep the connection open.
pub const FINISH_GRACE_MS: u64 = 2_000;
/// Bytes that are read of an error's body.
pub const ERROR_BODY_MAX_BYTES: usize = 64 * 1024;
/// Characters that are shown of a vendor's error message.
pub const ERROR_SHOWN_MAX_CHARS: usize = 600;
/// Bytes that are read of a local server's answer to a probe.
pub const PROBE_MAX_BYTES: usize = 1024 * 1024;
/// Time-out of a probe of a local server.
pub const PROBE_MS: u64 = 300;
/// Bytes that are read of a provider's list of models.
pub const LISTING_MAX_BYTES: usize = 8 * 1024 * 1024;
/// Models that are read of one list.
pub const LISTING_MODELS_MAX: usize = 2_000;
/// Output tokens of one answer in the conformance check, reasoning included.
pub const CONFORMANCE_OUTPUT: u32 = 1_024;
/// How often the conformance check lets a model try to make one call.
pub const CONFORMANCE_TRIES: u32 = 2;
/// HTTP clients that are kept, one for each connect time-out in use.
pub const CLIENTS_MAX: usize = 8;
/// Models that are kept by name.
pub const MODELS_MAX: usize = 256;
/// Most steps in the path of a piece of a call's arguments.
pub const ARGUMENT_PATH_MAX: usize = 64;
