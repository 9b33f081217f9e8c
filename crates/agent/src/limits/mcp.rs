//! Limits of MCP servers.

use super::OUTCOME_STORED_MAX_BYTES;

/// Name of an MCP server in the settings.
pub const MCP_NAME_MAX_CHARS: usize = 32;
/// Starting an MCP server and agreeing on the protocol; one that is downloaded first takes long.
pub const MCP_START_MS: u64 = 60_000;
/// Reading the list of its tools or resources, all pages.
pub const MCP_LIST_MS: u64 = 30_000;
/// A server that is asked whether it lives, because a call takes longer than its time-out.
pub const MCP_PING_MS: u64 = 10_000;
/// Age of the list of its tools, by which calls are checked, from which it is read again.
pub const MCP_LIST_AGE_MS: u64 = 5 * 60 * 1000;
/// Handing one message to its process, which may be busy.
pub const MCP_WRITE_MS: u64 = 10_000;
/// One message of an MCP server.
pub const MCP_MESSAGE_MAX_BYTES: usize = OUTCOME_STORED_MAX_BYTES;
/// All that an MCP server may send in answer to one HTTP request.
pub const MCP_STREAM_MAX_BYTES: usize = MCP_MESSAGE_MAX_BYTES + 4 * 1024 * 1024;
/// Messages of an MCP server that answer nothing, within [`MCP_FLOOD_MS`]; one that sends more is stopped.
pub const MCP_FLOOD_MESSAGES: u32 = 10_000;
/// The same in bytes, for a server that is a process.
pub const MCP_FLOOD_BYTES: usize = 4 * MCP_MESSAGE_MAX_BYTES;
/// See [`MCP_FLOOD_MESSAGES`].
pub const MCP_FLOOD_MS: u64 = 10_000;
/// Requests of an MCP server that are being answered; more are ignored.
pub const MCP_ANSWERS_MAX: usize = 32;
/// Tools, or resources, of one MCP server.
pub const MCP_LISTED_MAX: usize = 1_000;
/// Pages of such a list.
pub const MCP_PAGES_MAX: usize = 100;
/// Failures of an MCP server in a row after which calls wait for the longest pause before it is tried again.
pub const MCP_FAILURES_MAX: u32 = 5;
/// Pause after the second failure in a row; it doubles each time. The first one has none.
pub const MCP_PAUSE_MS: u64 = 1_000;
/// Shortest pause before a stream is opened again that a server may ask for.
pub const MCP_RETRY_MIN_MS: u64 = 100;
/// The longest of these pauses.
pub const MCP_PAUSE_MAX_MS: u64 = 60_000;
/// Standard error of one MCP process that is logged; the rest is only read.
pub const MCP_STDERR_MAX_BYTES: usize = 1024 * 1024;
/// One line of it; of a longer one only the beginning.
pub const MCP_STDERR_LINE_BYTES: usize = 4 * 1024;
