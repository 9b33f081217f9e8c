//! Limits on what another server may send.

/// Largest event of a stream, in bytes. A model's own tool may send a whole page in one event.
pub const EVENT_MAX_BYTES: usize = 8 * 1024 * 1024;
