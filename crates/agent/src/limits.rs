//! All limits of the system in one place (invariant 9). Names that end in `_MS` are durations in milliseconds; names
//! that end in `_BYTES` are sizes in bytes.

mod alerts;
mod approvals;
mod hooks;
mod mcp;
mod plans;
mod schemas;
mod targets;
mod workers;

pub use alerts::*;
pub use approvals::*;
pub use hooks::*;
pub use mcp::*;
pub use plans::*;
pub use schemas::*;
pub use targets::*;
pub use workers::*;

/// Longest handle of an entity or a space, in characters.
pub const HANDLE_MAX: usize = 40;
/// Longest display name, in bytes.
pub const DISPLAY_NAME_MAX_BYTES: usize = 200;
/// Longest text of one message.
pub const MESSAGE_MAX_BYTES: usize = 64 * 1024;
/// Largest `data` that a client stores with one message.
pub const DATA_MAX_BYTES: usize = 64 * 1024;
/// Largest payload of a service event.
pub const PAYLOAD_MAX_BYTES: usize = 256 * 1024;
/// Longest event id or idempotency key.
pub const KEY_MAX_BYTES: usize = 200;
/// Longest instructions of an agent.
pub const INSTRUCTIONS_MAX_BYTES: usize = 256 * 1024;
/// Members of one space.
pub const SPACE_MEMBERS_MAX: usize = 256;
/// Mentions of one message.
pub const MENTIONS_MAX: usize = 64;

/// Events one activation takes (default of `limits.events_per_cycle`).
pub const EVENTS_PER_CYCLE: u32 = 100;
/// Events that may wait for one agent (default of `limits.inbox_max`).
pub const INBOX_MAX: u32 = 10_000;
/// An event's text above this is shown as head and tail.
pub const EVENT_SHOWN_MAX_BYTES: usize = 8 * 1024;
/// Lines of an inbox preview.
pub const PREVIEW_LINES: usize = 5;
/// Characters of text in a line of a preview.
pub const PREVIEW_CHARS: usize = 50;

/// Events that one `peek_inbox` shows at most.
pub const PEEK_MAX: u32 = 10;
/// Events that one `done` names as dealt with.
pub const ADDRESSED_MAX: usize = 256;
/// Urgent events, with the earlier events of their senders, that one query returns.
pub const URGENT_MAX: u32 = 100;
/// An event that arrives when this many events already wait is indexed by its sender.
pub const DEEP_FROM: u32 = 256;
/// How many of the oldest waiting events a query for urgent ones scans for events that are not in the index. If more
/// events wait, the others are all in the index.
pub const URGENT_LOOK_MAX: u32 = 4 * DEEP_FROM;
/// Bytes of texts and payloads of waiting events that one activation reads; also the bound for each of the two lists of
/// one glance. It has room for whole batches of messages and for a few of the largest payloads.
pub const WAITING_READ_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Generations of one cycle that new events may abort; after that they are shown at the next step.
pub const INTERRUPTS_PER_CYCLE: u32 = 3;

/// Step records that are stored with an open cycle; earlier ones have rows of their own.
pub const STEP_RECORDS_KEPT_MAX: usize = 4;
/// Steps of one cycle (default of `limits.max_steps`).
pub const MAX_STEPS: u32 = 20;
/// Tokens of one cycle as they are paid (default of `limits.token_budget`): as many steps as a cycle may have, in an ordinary
/// window.
pub const TOKEN_BUDGET: u64 = MAX_STEPS as u64 * 128_000;
/// What a cached token costs in percent of another one, where the price is not known.
pub const CACHED_PRICE_PERCENT: u64 = 10;
/// Active time of one cycle (default of `limits.wall_clock`).
pub const WALL_CLOCK_MS: u64 = 15 * 60 * 1000;
/// Steps in a row whose calls all failed (default of `limits.consecutive_mistake_limit`).
pub const MISTAKE_LIMIT: u32 = 3;
/// Attempts after which an event that fails because of its content is set aside (default of `limits.max_attempts`).
pub const MAX_ATTEMPTS: u32 = 5;
/// Failures of an event's content after which it is tried alone.
pub const ALONE_AFTER_ATTEMPTS: u32 = 2;
/// Deaths of the process after which an event is tried alone; after the first death the batch is halved.
pub const ALONE_AFTER_DEATHS: u32 = 2;
/// Deaths of the process after which an event or a cycle is set aside; for most of these the event was tried alone. One
/// more death may be uncounted: the first, if the opening was not on disk yet.
pub const DEATHS_MAX: u32 = 19;
/// Retries of a model call within one activation (default of `limits.model_retries`).
pub const MODEL_RETRIES: u32 = 3;
/// Exchanges of an agent's `examples`.
pub const EXAMPLES_MAX: usize = 32;

/// Bytes of them together.
pub const EXAMPLES_MAX_BYTES: usize = 32 * 1024;

/// Nudges of `require_tool` per cycle.
pub const NUDGES_MAX: u32 = 2;
/// Nudges of `reply: auto` per cycle; after them the text of a reply without calls is posted.
pub const REPLY_NUDGES_MAX: u32 = 1;
/// Text of one reply that was not posted, as its run keeps it; of a longer one only the beginning. The log has it all.
pub const UNSENT_TEXT_MAX_BYTES: usize = 1_024;
/// Calls of one step; further calls are refused.
pub const CALLS_PER_STEP: usize = 32;
/// Text of one reply, reasoning included; a longer reply is unusable.
pub const REPLY_TEXT_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Calls of one reply; a reply with more is unusable.
pub const REPLY_CALLS_MAX: usize = 1_024;
/// White space in a row that is shown as it is to people who approve; more of it is written as escapes.
pub const BLANK_SHOWN_MAX_CHARS: usize = 32;
/// Tool name in a model's call; a longer name matches no tool, and only its beginning is stored.
pub const CALLED_NAME_MAX_BYTES: usize = 128;
/// Arguments of one call; longer ones are refused and not stored.
pub const ARGUMENTS_MAX_BYTES: usize = 1024 * 1024;
/// Input or output of a visible call shown in its space in full; longer ones are cut to head and tail.
pub const TOOL_SHOWN_MAX_BYTES: usize = 16 * 1024;
/// Outcome stored in full up to this size.
pub const OUTCOME_STORED_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Outcomes of one step together. Of one that finds no room only the beginning and the end are stored.
pub const STEP_OUTCOMES_MAX_BYTES: usize = 2 * OUTCOME_STORED_MAX_BYTES;
/// Outcomes of one cycle together.
pub const CYCLE_OUTCOMES_MAX_BYTES: usize = 4 * OUTCOME_STORED_MAX_BYTES;
/// What is stored of an outcome in any case: as much as a model is shown, with room for the note that the rest is left out.
pub const OUTCOME_KEPT_MIN_BYTES: usize = OUTCOME_SHOWN_MAX_BYTES - 1024;
/// Outcome of a call that its cycle did not wait for, stored in full up to this size.
pub const LATE_OUTCOME_MAX_BYTES: usize = BODY_MAX_BYTES;
/// Values in JSON of a server: a small text of many tiny values would take much memory.
pub const JSON_VALUES_MAX: usize = 500_000;
/// Outcome shown to the model in full up to this size; a longer one is cut to head and tail.
pub const OUTCOME_SHOWN_MAX_BYTES: usize = 16 * 1024;
/// Repeated commits of one decision after `Refused`.
pub const REFUSALS_MAX: u32 = 8;
/// Agent-to-agent messages per causal root (default of `hop_limit`).
pub const HOP_LIMIT: u32 = 8;
/// How long an event is held before it is released automatically.
pub const HELD_MS: u64 = 10 * 60 * 1000;
/// Held events that one command releases; the next sweep releases more.
pub const RELEASE_MAX: u32 = 50;
/// Agent-to-agent messages per causal root up to which held events are released automatically, as a multiple of
/// `hop_limit`. Later ones wait for a person, so that a conversation of two agents ends.
pub const HELD_RELEASES: u32 = 2;

/// Memories of one agent.
pub const MEMORIES_MAX: usize = 500;
/// Longest key of a memory.
pub const MEMORY_KEY_MAX_BYTES: usize = 120;
/// Longest value of a memory.
pub const MEMORY_VALUE_MAX_BYTES: usize = 8 * 1024;
/// Pinned memories of one agent.
pub const PINNED_MEMORIES_MAX: usize = 64;
/// Pinned memories of one agent together, as its workspace shows them: they are shown however small the window is.
pub const PINNED_MEMORIES_MAX_BYTES: usize = 4 * 1024;
/// Goals of one agent, including finished ones and sub-goals.
pub const GOALS_MAX: usize = 100;
/// Goals that one call sets.
pub const GOALS_PER_CALL: usize = 20;
/// Levels of goals; a top-level goal is level 1.
pub const GOAL_LEVELS_MAX: usize = 5;
/// Longest description of a goal.
pub const GOAL_DESCRIPTION_MAX_BYTES: usize = 1024;
/// Highest priority of a goal; the lowest is 1.
pub const GOAL_PRIORITY_MAX: i32 = 10;
/// Default priority of a goal.
pub const GOAL_PRIORITY_DEFAULT: i32 = 5;
/// Messages that `enter_space` returns.
pub const ENTER_HISTORY: u32 = 20;
/// Messages that `read_messages` returns at most.
pub const READ_MESSAGES_MAX: u32 = 200;
/// Runs that `get_my_runs` returns at most.
pub const RUNS_SHOWN_MAX: u32 = 50;
/// Longest query of `recall`.
pub const RECALL_QUERY_MAX_BYTES: usize = 4 * 1024;
/// Different words of a query that are searched; further ones are ignored.
pub const RECALL_WORDS_MAX: usize = 24;
/// Excerpts that `recall` returns at most.
pub const RECALL_MAX: u32 = 50;
/// Excerpts that `recall` returns by default.
pub const RECALL_DEFAULT: u32 = 8;
/// Texts that one query ranks.
pub const RECALL_CANDIDATES: usize = 2_000;
/// A word in more than this percentage of the texts is common: beside rarer words it finds nothing by itself.
pub const RECALL_COMMON_PERCENT: u64 = 2;
/// A word in no more texts than this is never common.
pub const RECALL_COMMON_MIN: u64 = 100;
/// Spaces of an agent whose messages a query searches: those with the newest messages.
pub const RECALL_SPACES: u32 = 32;
/// Best texts of a query that are read again to choose the excerpts.
pub const RECALL_READ: usize = 64;
/// An excerpt that shares more than this percentage of its words with a better one is a repetition: it comes last.
pub const RECALL_ALIKE_PERCENT: usize = 90;
/// Length of an excerpt.
pub const EXCERPT_BYTES: usize = 480;
/// Text of one entry that is indexed, from its beginning.
pub const INDEXED_MAX_BYTES: usize = 64 * 1024;
/// Longest word that is indexed; of a longer one only the beginning.
pub const INDEXED_WORD_MAX_CHARS: usize = 40;
/// Rows of the index's queue, or records of one agent, that are read at once.
pub const INDEX_BATCH: u32 = 512;
/// How long changes are gathered before they are indexed.
pub const INDEX_GATHER_MS: u64 = 250;
/// Indexed rows of the queue that are kept, so that an index that lost its last writes in a crash catches up.
pub const INDEX_QUEUE_KEPT: u64 = 4_096;
/// Rows that wait for an index that cannot be written; beyond them it is built from the store again.
pub const INDEX_QUEUE_MAX: u64 = 262_144;
/// Concurrent searches of the index.
pub const READERS_INDEX: usize = 4;
/// An index that is behind for longer than this is reported to operators.
pub const INDEX_LAG_REPORTED_MS: u64 = 10_000;
/// How long the check of the store's file may take that follows a start: one of a larger store is not finished.
pub const STORE_CHECK_MS: u64 = 60_000;
/// Entries of one cycle that are read at once.
pub const CYCLE_ENTRIES_MAX: u32 = 1_000;
/// List of names (spaces, members, keys) in a tool's reply or error.
pub const LISTED_MAX_BYTES: usize = 4 * 1024;

/// Spaces of one agent that its workspace and tools list; others are found by id or handle.
pub const SPACES_SHOWN_MAX: usize = 64;
/// Newest spaces of an agent among which those with the latest messages are searched.
pub const SPACES_LOOK: usize = 256;
/// Maximum to which the spaces of an agent are counted.
pub const SPACES_COUNTED_MAX: usize = 1_000;
/// Members of each space that are listed.
pub const MEMBERS_SHOWN_MAX: usize = 32;
/// The rendered workspace.
pub const WORKSPACE_MAX_BYTES: usize = 24 * 1024;
/// The workspace gets at most this part of the model's window: an eighth.
pub const WORKSPACE_SHARE: u64 = 8;
/// What has changed in the workspace since a request shows it whole takes at most this part of it: a quarter.
pub const WORKSPACE_TAIL_SHARE: u64 = 4;
/// Tokens of changes that have room in any case: the prefix of a small workspace is worth more than it.
pub const WORKSPACE_TAIL_MIN_TOKENS: u64 = 200;
/// Bytes reserved in a part of the workspace for the remark on what is left out.
pub const WORKSPACE_REMARK_BYTES: usize = 40;
/// Minutes after which a cycle is shown the time again.
pub const CLOCK_STALE_MINUTES: i64 = 10;
/// The same for a cycle that was parked.
pub const CLOCK_STALE_PARKED_MINUTES: i64 = 1;
/// Runs of an agent from which its trend is computed.
pub const TREND_RUNS: u32 = 20;
/// Model requests of one agent for which the store keeps the layers that were sent in addition to the log.
pub const LAYERS_KEPT: u64 = 1_000;
/// Earlier messages of the spaces of its events that an activation reads, which the agent was not shown.
pub const RECENT_MESSAGES_MAX: usize = 10;
/// Spaces from which they come: those of the newest events.
pub const RECENT_SPACES_MAX: usize = 4;
/// How far before an event they are searched in its space, in messages.
pub const RECENT_LOOK: u64 = 64;
/// All of them as the workspace shows them; the oldest are left out first.
pub const RECENT_MAX_BYTES: usize = 4 * 1024;
/// Text of one of them; of a longer one only the beginning.
pub const RECENT_TEXT_MAX_BYTES: usize = 1024;
/// The beginning of a long text that is shown however small the window is.
pub const RECENT_TEXT_MIN_BYTES: usize = 80;
/// Context window assumed for a hosted model that states none, in tokens.
pub const WINDOW_HOSTED: u32 = 128_000;
/// Context window assumed for a local model that states none, in tokens: the least that servers use by themselves. Those that cut
/// what does not fit cut the beginning, and say nothing.
pub const WINDOW_LOCAL: u32 = 4_096;
/// Tokens of the history that are shown in any window, so that there is room for one exchange.
pub const EXCHANGE_MIN_TOKENS: u64 = 512;
/// Percentage of the budget above which the view is cut.
pub const VIEW_TRIGGER_PERCENT: u64 = 80;
/// Percentage of the budget that a cut view may fill.
pub const VIEW_TARGET_PERCENT: u64 = 50;
/// Number of entries above which the view is cut, whatever their size.
pub const VIEW_ENTRIES_MAX: usize = 400;

/// Percentage of the budget above which the view is cut between two cycles, so that no later step has to.
pub const VIEW_IDLE_PERCENT: u64 = 70;
/// Bytes of a summary, and its share of the budget, as one part in so many.
pub const SUMMARY_MAX_BYTES: usize = 12 * 1024;
/// See [`SUMMARY_MAX_BYTES`].
pub const SUMMARY_SHARE: u64 = 6;
/// Bytes of what a cycle read, of what the agent said or did in it, and of what a step did, in a digest.
pub const DIGEST_LINE_BYTES: usize = 160;
/// Steps that a digest lists of a part of a cycle in which the agent only called tools: the newest.
pub const DIGEST_STEPS_MAX: usize = 8;
/// Tokens of the instructions in a request for a summary, from above.
pub const SUMMARY_RULES_TOKENS: u64 = 700;
/// A model is not asked for a summary of less, in tokens of what is left out: it would cost more than it keeps.
pub const SUMMARY_ASKED_MIN_TOKENS: u64 = 1_000;
/// In a small window it is asked for a summary of this percentage of the budget, though that is less.
pub const SUMMARY_ASKED_MIN_PERCENT: u64 = 10;
/// Requests for one summary that a model may answer unusably before the digest is used.
pub const SUMMARY_ATTEMPTS: u32 = 2;
/// Compactions in a row for which a model is asked although its answers could not be used.
pub const SUMMARY_UNUSABLE_ROUNDS: u32 = 3;
/// After them it is asked again in each compaction of this number, in case that it has got better.
pub const SUMMARY_ASKED_EVERY: u32 = 8;
/// Commitments, and preferences, that stay in a summary whatever the model wrote.
pub const KEPT_BULLETS_MAX: usize = 24;
/// A longer one does not stay by rule.
pub const KEPT_BULLET_BYTES: usize = 300;

/// Connecting to a model (default of `model_timeouts.connect`).
pub const MODEL_CONNECT_MS: u64 = 10_000;
/// Time to the first byte of a model's reply (default of `model_timeouts.first_byte`).
pub const MODEL_FIRST_BYTE_MS: u64 = 120_000;
/// Silence between two bytes (default of `model_timeouts.idle`).
pub const MODEL_IDLE_MS: u64 = 60_000;
/// A whole generation (default of `model_timeouts.total`).
pub const MODEL_TOTAL_MS: u64 = 600_000;
/// How often one activation halves a request that the vendor refuses as too long.
pub const TOO_LONG_CUTS: u32 = 3;
/// Consecutive failed activations after which the request is blamed for an ambiguous error: one that a provider returns
/// both in an outage and for a request that it cannot process.
pub const AMBIGUOUS_MAX: u32 = 8;
/// Consecutive refused activations after which the request is blamed even if the model has never answered at all: about
/// a day.
pub const NEVER_ANSWERED_MAX: u32 = 288;
/// Newest runs of an agent that are searched for an earlier answer of a model.
pub const RUNS_SEEN: u32 = 10;
/// Provider breakers that one node keeps.
pub const BREAKERS_MAX: usize = 1_024;
/// Least time for which other agents wait while one agent probes whether a provider is back.
pub const BREAKER_PROBE_MS: u64 = 5_000;
/// Delay between the retries of agents that an open breaker turned away.
pub const BREAKER_SPREAD_MS: u64 = 200;
/// Maximum of that delay in total.
pub const BREAKER_SPREAD_MAX_MS: u64 = 30_000;
/// Retries of a store that is busy, per commit.
pub const STORE_RETRIES: u32 = 8;
/// Attempts more that a failing request gets before the next model under `fallback` is called.
pub const RETRIES_BEFORE_FALLBACK: u32 = 1;
/// First pause between two attempts; it doubles each time.
pub const BACKOFF_BASE_MS: u64 = 1_000;
/// Longest pause between two attempts within one activation.
pub const BACKOFF_MAX_MS: u64 = 30_000;
/// Longest pause of an agent that backs off.
pub const PARK_MAX_MS: u64 = 5 * 60 * 1000;
/// Longest `retry-after` that is accepted.
pub const RETRY_AFTER_MAX_MS: u64 = 60 * 60 * 1000;
/// If the wall clock was set back by no more than this, the change is ignored.
pub const CLOCK_NOISE_MS: i64 = 1_000;
/// Time-out of a tool call (default).
pub const TOOL_TIMEOUT_MS: u64 = 30_000;

/// Detached calls of one agent; more are refused, or abandoned when they time out.
pub const DETACHED_PER_AGENT: usize = 32;
/// Detached calls of one node; further asynchronous calls wait for their turn.
pub const DETACHED_PER_NODE: usize = 1_024;
/// Detached calls of one node that wait for workers and people; a sweep takes up further ones when there is room.
pub const DETACHED_OUTSIDE_PER_NODE: usize = 16_384;
/// How long a call may run on after its time-out before it is abandoned.
pub const LATE_MS: u64 = 15 * 60 * 1000;
/// Detached calls without a process that one sweep recovers.
pub const DETACHED_BATCH: u32 = 32;
/// Server starts that run a detached call again before it is abandoned.
pub const DETACHED_ATTEMPTS: u32 = 3;
/// Models whose tokens are calibrated; of more, the others begin anew.
pub const CALIBRATED_MODELS_MAX: usize = 1_024;
/// Outcomes of calls that must not be repeated which one node keeps while the store does not take them. Fewer can
/// exist: each agent that is awake runs one such call at a time, and none begins while the store refuses commits.
pub const UNSTORED_OUTCOMES_MAX: usize = 4_096;
/// Texts of these outcomes; beyond it only the beginning and the end of a text are kept.
pub const UNSTORED_OUTCOMES_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Text of an outcome in an event; the call's row has the full text.
pub const RESULT_MAX_BYTES: usize = 16 * 1024;

/// Concurrent requests to one provider (default of the setting `requests_per_provider`).
pub const REQUESTS_PER_PROVIDER: usize = AWAKE_MAX / 2;
/// Agents that may be awake at once on one node (default of the setting `awake_max`).
pub const AWAKE_MAX: usize = 256;
/// Memory of the warm agents of one node.
pub const WARM_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Size of a warm agent's history from which its encoded fragments are kept. For a shorter history, the memory of the
/// fragments and of the head of its requests costs more than encoding them again.
pub const WARM_FRAGMENTS_MIN_BYTES: usize = 16 * 1024;
/// Memory of fragments in addition to the history: the system layer and the tools, both plain and encoded.
pub const WARM_HEAD_BYTES: usize = 24 * 1024;
/// Signals that wait for the keeper; more are dropped, and the sweep finds the due agents.
pub const SIGNALS_MAX: usize = 65_536;
/// First pause of an agent whose activation failed unexpectedly or whose decision was refused; it doubles each
/// time in a row.
pub const FAULT_PAUSE_MS: u64 = 1_000;
/// The longest of these pauses.
pub const FAULT_PAUSE_MAX_MS: u64 = 60_000;
/// While the store refuses commits: time until one agent tries again for all.
pub const STORE_PROBE_MS: u64 = 1_000;
/// Agents that one query for due work returns.
pub const DUE_BATCH: u32 = 256;
/// Such queries that follow when one agent becomes idle.
pub const DUE_PAGES: u32 = 8;
/// Interval of the sweep, which finds due work even if every signal was lost.
pub const SWEEP_MS: u64 = 5_000;
/// Least time between two queries for agents that become due by time.
pub const SWEEP_LEAST_MS: u64 = 50;
/// Time that a graceful stop allows for the steps in progress.
pub const DRAIN_MS: u64 = 10_000;
/// Characters of a call's arguments that are shown to watchers.
pub const ARGUMENTS_SHOWN_CHARS: usize = 160;
/// Idle agents for which a node keeps the description of why they are idle; for others only the class is shown.
pub const IDLE_REASONS_MAX: usize = 4_096;
/// Characters of that description.
pub const IDLE_REASON_CHARS: usize = 500;
/// Agents that an operator may let retry a provider before its pause is over; more wait as before.
pub const BREAKER_GRANTS_MAX: usize = 1_024;
/// Agents that one query for recent activity may name.
pub const RECENT_AGENTS_MAX: usize = 32;
/// Updates by which a slow listener may lag before it loses some.
pub const BUS_BUFFER: usize = 1_024;
/// The part of [`DRAIN_MS`] that a generation or a tool in progress may use before it is aborted cleanly.
pub const STEP_GRACE_MS: u64 = 7_000;
/// Agents suspected of one crash that may be awake at once; those suspected of two crashes run one at a time.
pub const SUSPECTS_AT_ONCE: usize = 16;
/// How long a suspected agent keeps other suspects waiting. After that they may start even if it is still running: the
/// danger is a crash, not slowness.
pub const SUSPECT_MS: u64 = 10_000;
/// Rows of one page of any list.
pub const PAGE_MAX: u32 = 200;
/// Default number of rows of one page.
pub const PAGE_DEFAULT: u32 = 50;
/// Rows of one page together; a larger row is a page of its own.
pub const PAGE_MAX_BYTES: usize = 1024 * 1024;
/// Rows that one page looks at to find those that a filter wants.
pub const PAGE_LOOK_MAX: u64 = 10_000;

/// Body of one HTTP request.
pub const BODY_MAX_BYTES: usize = 1024 * 1024;
/// Nesting of a JSON body.
pub const JSON_DEPTH_MAX: usize = 64;
/// Duration of one request, except streams.
pub const REQUEST_MS: u64 = 30_000;
/// Concurrent reads for activations.
pub const READERS_ACTIVATIONS: usize = 4;
/// Concurrent reads for the API; activations do not wait for them.
pub const READERS_API: usize = 4;
/// Those of them that are kept for administrators.
pub const READERS_RESERVED: usize = 1;
/// Reads of one API key at once; more wait, and keys that wait take turns.
pub const READS_PER_KEY: usize = 2;
/// Configs that are cached in parsed form, in bytes of their JSON.
pub const CONFIGS_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Commands that wait for the writer; more are refused as `overloaded`.
pub const WRITER_QUEUE: usize = 8_192;
/// Commands that one transaction of the writer takes.
pub const GROUP_MAX: usize = 512;
/// Size to which the write-ahead log's file is kept, so that no commit waits for the file to grow.
pub const LOG_KEPT_BYTES: u64 = 4 * 1024 * 1024;
/// How long the answer to a suspension waits for the model request that it aborts.
pub const SUSPEND_WAIT_MS: u64 = 2_000;
/// How long the store must be without writes before a longer log file is truncated.
pub const LOG_QUIET_MS: u64 = 10_000;

/// All headers of one request, names and values together.
pub const HEADERS_MAX_BYTES: usize = 16 * 1024;
/// Number of headers of one request.
pub const HEADERS_MAX: usize = 64;
/// Time to receive the head of a request, from the first byte of the connection.
pub const HEAD_MS: u64 = 10_000;
/// Time to receive the body of a request.
pub const BODY_MS: u64 = 15_000;
/// Open connections of one node, fewer if the operating system allows fewer open files; more wait to be accepted. One
/// address can have three quarters of them; addresses of one IPv6 network (/64) count as one.
pub const CONNECTIONS_MAX: usize = 4_096;
/// Those of them that are kept for administrators and health checks; one address can have three quarters of these, too.
pub const CONNECTIONS_RESERVED: usize = 128;
/// Time to receive the head of a request on one of these.
pub const CROWDED_HEAD_MS: u64 = 1_000;
/// Open files that connections leave for the store, models and tools.
pub const FILES_RESERVED: usize = 256;
/// Connections without which a server does not start: administrators need some beside the streams of others.
pub const CONNECTIONS_MIN: usize = 64;
/// Requests in flight of one API key.
pub const REQUESTS_PER_KEY: usize = 256;
/// Open streams of one API key.
pub const STREAMS_PER_KEY: usize = 1_024;
/// Open streams of all keys that are not an administrator's.
pub const STREAMS_MAX: usize = 3 * STREAMS_PER_KEY;
/// Bodies of the requests in flight of one API key.
pub const BODIES_PER_KEY_BYTES: usize = 16 * 1024 * 1024;
/// Bodies of all requests in flight that need a key.
pub const BODIES_MAX_BYTES: usize = 64 * 1024 * 1024;
/// The part of it that only administrators may use.
pub const BODIES_RESERVED_BYTES: usize = 16 * 1024 * 1024;
/// Description of a space, or label of an API key.
pub const DESCRIPTION_MAX_BYTES: usize = 4 * 1024;
/// API keys that are cached as valid.
pub const KEY_CACHE_MAX: usize = 256;
/// How long they are cached: a revoked key is refused after that.
pub const KEY_CACHE_MS: u64 = 1_000;
/// How exactly the last use of an API key is known: it is written at most this often for each key.
pub const KEY_USED_MS: u64 = 60_000;
/// How long an `Idempotency-Key` is kept: 30 days.
pub const REQUEST_KEY_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// Idempotency keys that are too old and forgotten with each new one.
pub const REQUEST_KEYS_FORGOTTEN: u32 = 4;
/// Longest time for which a rotated key stays valid beside its successor: 30 days.
pub const KEY_OVERLAP_MAX_S: u64 = 30 * 24 * 60 * 60;
/// How long it stays valid if the request does not say: one day.
pub const KEY_OVERLAP_S: u64 = 24 * 60 * 60;
/// Updates buffered for one client of a stream.
pub const STREAM_BUFFER: usize = 256;
/// The same in bytes. An empty buffer takes any update, whatever its size.
pub const STREAM_BUFFER_BYTES: usize = 128 * 1024;
/// Encoded updates that the clients of one topic share when they catch up.
pub const STREAM_SHARED_BYTES: usize = 1024 * 1024;
/// Clients that are written to in one turn before other tasks may run.
pub const STREAM_TURN: usize = 64;
/// Listeners of one topic above which drafts are sent in batches.
pub const STREAM_CROWD: usize = 100;
/// How long such a batch is collected.
pub const STREAM_GATHER_MS: u64 = 25;
/// Durable changes that are replayed to a client that reconnects; if there are more, it gets a `gap`.
pub const STREAM_REPLAY_MAX: u64 = 1_000;
/// Rows read at once to catch up.
pub const STREAM_REPLAY_PAGE: u32 = 50;
/// Interval of pings on a silent stream. A client that took nothing from one to the next while updates wait is told the end.
pub const STREAM_PING_MS: u64 = 15_000;
/// Time for a client that does not read to receive the final update before its connection is closed.
pub const STREAM_FAREWELL_MS: u64 = 5_000;
/// Pairs of sender and space whose message order is verified at once.
pub const SENDERS_VERIFIED_MAX: usize = 65_536;
/// Flaws of a store that are listed individually; more are only counted.
pub const FLAWS_MAX: usize = 1_000;
/// Longest line in an import file of an agent.
pub const IMPORT_LINE_MAX_BYTES: usize = 128 * 1024 * 1024;

/// To find the addresses of another server's name, and the same again to connect to it.
pub const CONNECT_MS: u64 = 10_000;
/// From then to the head of its answer, where the caller sets no other limit.
pub const ANSWER_HEAD_MS: u64 = 60_000;
/// Silence between two pieces of its answer's body.
pub const ANSWER_IDLE_MS: u64 = 60_000;
/// A whole exchange with another server, where the caller sets no other limit.
pub const EXCHANGE_MS: u64 = 5 * 60 * 1000;
/// Headers of an answer, names and values together.
pub const ANSWER_HEAD_MAX_BYTES: usize = 64 * 1024;
/// Redirects that are followed.
pub const REDIRECTS_MAX: u32 = 5;
/// Addresses of one name that are tried.
pub const ADDRESSES_TRIED: usize = 8;
/// Path of a URL that an error shows.
pub const URL_SHOWN_CHARS: usize = 200;

/// Address of a page that an agent reads, and of a link in it.
pub const PAGE_URL_MAX_BYTES: usize = 4 * 1024;
/// HTML of one page; reading stops there.
pub const PAGE_HTML_MAX_BYTES: usize = 2 * 1024 * 1024;
/// Text of one page: what is stored of an outcome, with room for a note that it was cut.
pub const PAGE_TEXT_MAX_BYTES: usize = OUTCOME_STORED_MAX_BYTES - 4 * 1024;
/// Text of one page in bytes for each byte of its HTML: addresses of links are written whole.
pub const PAGE_TEXT_GROWTH_MAX: usize = 4;
/// Text that a page of any size may have.
pub const PAGE_TEXT_MIN_BYTES: usize = 64 * 1024;
/// To receive a whole page; shorter than [`TOOL_TIMEOUT_MS`], so that the agent reads why it failed.
pub const PAGE_MS: u64 = 20_000;
/// Silence between two pieces of a page.
pub const PAGE_IDLE_MS: u64 = 10_000;
/// Pages of a server's agents that are received at once.
pub const PAGES_AT_ONCE: u32 = 8;

/// Declaration of one tool, as a file.
pub const DECLARATION_MAX_BYTES: usize = 256 * 1024;
/// Description of a declared tool.
pub const TOOL_DESCRIPTION_MAX_BYTES: usize = 8 * 1024;
/// Schema of a declared tool's arguments.
pub const TOOL_SCHEMA_MAX_BYTES: usize = 64 * 1024;
/// Shortest time-out of a declared tool.
pub const TOOL_TIMEOUT_MIN_MS: u64 = 100;
/// Longest time-out of an asynchronous tool: a day. A cycle waits for no other tool longer than [`LATE_MS`].
pub const TOOL_TIMEOUT_MAX_MS: u64 = 24 * 60 * 60 * 1000;
/// Calls of one declared tool at once (default of `concurrency`).
pub const TOOL_CONCURRENCY: u32 = 8;
/// Largest `concurrency` of a tool.
pub const TOOL_CONCURRENCY_MAX: u32 = 256;
/// Largest number of calls in a `rate`.
pub const TOOL_RATE_MAX: u32 = 10_000;
/// How long a call waits for another call of its tool to end.
pub const TOOL_TURN_MS: u64 = 10_000;
/// Declared tools of a server.
pub const TOOLS_MAX: usize = 1_000;
/// Agents whose left-out tools were written to the log; of more agents nothing is.
pub const LEFT_OUT_REPORTS_MAX: usize = 10_000;
/// Work of one template, in instructions; 64 bytes that it builds on the way count as one.
pub const TEMPLATE_FUEL: u64 = 200_000;
/// Spaces by which JSON in a template is indented.
pub const TEMPLATE_INDENT_MAX: usize = 16;
/// What one template may write.
pub const TEMPLATE_OUTPUT_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Shortest secret: a shorter one could not be found again in what a server says without finding harmless text.
pub const SECRET_MIN_BYTES: usize = 6;
/// Text of a failed answer that its error quotes.
pub const FAILURE_SHOWN_BYTES: usize = 2 * 1024;
/// OpenAPI document from which tools are declared; the largest that are common have 14 MB.
pub const OPENAPI_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Operations that one import declares.
pub const OPENAPI_OPERATIONS_MAX: usize = 256;
/// Nesting to which the schemas of an operation are copied; less if they would be too large.
pub const OPENAPI_DEPTH_MAX: usize = 12;
/// References that follow each other.
pub const OPENAPI_REFS_MAX: usize = 32;
/// Parts of the schemas of one operation that are copied; more would not fit into [`TOOL_SCHEMA_MAX_BYTES`].
pub const OPENAPI_PARTS_MAX: usize = 4_096;
/// Description of a parameter, from its beginning.
pub const OPENAPI_DESCRIPTION_CHARS: usize = 300;
