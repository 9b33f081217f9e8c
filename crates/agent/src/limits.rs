//! Every bound of the system, in one place (invariant 9). Durations are in milliseconds where the
//! name ends in `_MS`, sizes in bytes where it ends in `_BYTES`.

/// Longest handle of an entity or a space, in characters.
pub const HANDLE_MAX: usize = 40;
/// Longest display name, in bytes.
pub const DISPLAY_NAME_MAX_BYTES: usize = 200;
/// Longest text of one message.
pub const MESSAGE_MAX_BYTES: usize = 64 * 1024;
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
/// Urgent events, with what their senders said before, that one look brings.
pub const URGENT_MAX: u32 = 100;
/// An event that arrives behind this many waiting ones is found by its sender through an index.
pub const DEEP_FROM: u32 = 256;
/// Waiting events, from the oldest on, among which a look for urgent ones searches for those that are not found by
/// the index. Once so many wait, all are.
pub const URGENT_LOOK_MAX: u32 = 4 * DEEP_FROM;
/// What waits, in bytes of texts and payloads, that one activation reads, and one look of each of its two lists. It is
/// room for whole batches of messages, and for a few of the largest payloads.
pub const WAITING_READ_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Generations of one cycle that news may abort; after that it is shown at the next step.
pub const INTERRUPTS_PER_CYCLE: u32 = 3;

/// Runs of steps that are kept with an open cycle; those before them have rows of their own.
pub const STEP_RECORDS_KEPT_MAX: usize = 4;
/// Steps of one cycle (default of `limits.max_steps`).
pub const MAX_STEPS: u32 = 20;
/// Tokens of one cycle (default of `limits.token_budget`).
pub const TOKEN_BUDGET: u64 = 50_000;
/// Time awake of one cycle (default of `limits.wall_clock`).
pub const WALL_CLOCK_MS: u64 = 15 * 60 * 1000;
/// Steps in a row whose calls all failed (default of `limits.consecutive_mistake_limit`).
pub const MISTAKE_LIMIT: u32 = 3;
/// Attempts that content may fail (default of `limits.max_attempts`).
pub const MAX_ATTEMPTS: u32 = 5;
/// Failures of its content after which an event is tried alone.
pub const ALONE_AFTER_ATTEMPTS: u32 = 2;
/// Deaths of the process after which an event is tried alone; after the first the batch is halved.
pub const ALONE_AFTER_DEATHS: u32 = 2;
/// Deaths of the process, the last ones alone, after which an event or a cycle is given up. One more may have
/// gone uncounted: the first, while its opening was not on disk yet.
pub const DEATHS_MAX: u32 = 19;
/// Retries of a model call within one activation (default of `limits.model_retries`).
pub const MODEL_RETRIES: u32 = 3;
/// Nudges of `require_tool` per cycle.
pub const NUDGES_MAX: u32 = 2;
/// Calls of one step; what is above is refused.
pub const CALLS_PER_STEP: usize = 32;
/// Words of one reply, reasoning included; one with more is garbage.
pub const REPLY_WORDS_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Calls of one reply; one with more is garbage.
pub const REPLY_CALLS_MAX: usize = 1_024;
/// The name of a tool as a model calls it; what is longer names no tool, and its beginning is kept.
pub const CALLED_NAME_MAX_BYTES: usize = 128;
/// Arguments of one call; what is above is refused and not kept.
pub const ARGUMENTS_MAX_BYTES: usize = 1024 * 1024;
/// Input or output of a visible call as its space is shown it, head and tail above it.
pub const TOOL_SHOWN_MAX_BYTES: usize = 16 * 1024;
/// Outcome stored whole up to this size.
pub const OUTCOME_STORED_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Outcome shown to the model up to this size, head and tail above it.
pub const OUTCOME_SHOWN_MAX_BYTES: usize = 16 * 1024;
/// Commits again after `Refused`, per decision.
pub const REFUSALS_MAX: u32 = 8;
/// Agent-to-agent messages per causal root (default of `hop_limit`).
pub const HOP_LIMIT: u32 = 8;
/// How long a held event waits before time alone lets it go.
pub const HELD_MS: u64 = 10 * 60 * 1000;
/// Plans that one command fires; the next sweep, at once, fires more.
pub const PLANS_FIRED_MAX: u32 = 20;
/// Slots that one event of a plan lists.
pub const PLAN_SLOTS_MAX: usize = 100;
/// How long a plan waits that finds its agent's inbox full.
pub const PLAN_POSTPONED_MS: i64 = 60_000;
/// Held events that one command lets go; the next sweep lets go of more.
pub const RELEASE_MAX: u32 = 50;
/// Agent-to-agent messages per causal root up to which time alone lets held ones go, as a multiple of
/// `hop_limit`: what is beyond that waits for a person, so that two agents end some time.
pub const HELD_RELEASES: u32 = 2;

/// Memories of one agent.
pub const MEMORIES_MAX: usize = 500;
/// Longest key of a memory.
pub const MEMORY_KEY_MAX_BYTES: usize = 120;
/// Longest value of a memory.
pub const MEMORY_VALUE_MAX_BYTES: usize = 8 * 1024;
/// Goals of one agent, finished ones and sub-goals included.
pub const GOALS_MAX: usize = 100;
/// Goals that one call sets.
pub const GOALS_PER_CALL: usize = 20;
/// Levels of goals: a goal, its sub-goals, theirs, and so on.
pub const GOAL_LEVELS_MAX: usize = 5;
/// Longest description of a goal.
pub const GOAL_DESCRIPTION_MAX_BYTES: usize = 1024;
/// Highest priority of a goal; the lowest is 1.
pub const GOAL_PRIORITY_MAX: i32 = 10;
/// Priority of a goal where none is given.
pub const GOAL_PRIORITY_DEFAULT: i32 = 5;
/// Messages that `enter_space` returns.
pub const ENTER_HISTORY: u32 = 20;
/// Messages that `read_messages` returns at most.
pub const READ_MESSAGES_MAX: u32 = 200;
/// Runs that `get_my_runs` returns at most.
pub const RUNS_SHOWN_MAX: u32 = 50;
/// A list of names (spaces, members, keys) in a tool's reply or error.
pub const LISTED_MAX_BYTES: usize = 4 * 1024;

/// Spaces of one agent that its workspace and its tools know; others are found by id or handle.
pub const SPACES_SHOWN_MAX: usize = 64;
/// Its newest spaces, among which those are sought in which something was said last.
pub const SPACES_LOOK: usize = 256;
/// Its spaces that are counted.
pub const SPACES_COUNTED_MAX: usize = 1_000;
/// Members of each that are known.
pub const MEMBERS_SHOWN_MAX: usize = 32;
/// The workspace, rendered.
pub const WORKSPACE_MAX_BYTES: usize = 24 * 1024;
/// Requests of one agent for which the store keeps what models were sent beside the log.
pub const LAYERS_KEPT: u64 = 1_000;
/// Context window assumed for a hosted model that states none, in tokens.
pub const WINDOW_HOSTED: u32 = 128_000;
/// Context window assumed for a local model that states none, in tokens.
pub const WINDOW_LOCAL: u32 = 8_192;
/// Part of the budget above which the view is cut, in percent.
pub const VIEW_TRIGGER_PERCENT: u64 = 80;
/// Part of the budget that a cut view may fill, in percent.
pub const VIEW_TARGET_PERCENT: u64 = 50;
/// Entries above which the view is cut whatever their size.
pub const VIEW_ENTRIES_MAX: usize = 400;

/// Connecting to a model (default of `model_timeouts.connect`).
pub const MODEL_CONNECT_MS: u64 = 10_000;
/// First byte of a model's answer (default of `model_timeouts.first_byte`).
pub const MODEL_FIRST_BYTE_MS: u64 = 120_000;
/// Silence between two bytes (default of `model_timeouts.idle`).
pub const MODEL_IDLE_MS: u64 = 60_000;
/// A whole generation (default of `model_timeouts.total`).
pub const MODEL_TOTAL_MS: u64 = 600_000;
/// Times that one activation cuts what it sends to half, where a vendor finds it too long.
pub const TOO_LONG_CUTS: u32 = 3;
/// Activations in a row that failed, the last with what a server does in an outage and at a request it cannot
/// digest alike, from which on the request is blamed.
pub const AMBIGUOUS_MAX: u32 = 8;
/// Activations in a row that a model refused which has never answered anything, after which what it was sent is
/// blamed all the same: about a day.
pub const NEVER_ANSWERED_MAX: u32 = 288;
/// The newest runs of an agent in which is looked whether a model has answered before.
pub const RUNS_SEEN: u32 = 10;
/// Providers whose breakers one node keeps.
pub const BREAKERS_MAX: usize = 1_024;
/// How long at least others wait while one agent asks for all whether a provider is back.
pub const BREAKER_PROBE_MS: u64 = 5_000;
/// How much later than the one before each agent that is turned away may come back.
pub const BREAKER_SPREAD_MS: u64 = 200;
/// The most of that.
pub const BREAKER_SPREAD_MAX_MS: u64 = 30_000;
/// Retries of a store that is busy, per commit.
pub const STORE_RETRIES: u32 = 8;
/// First pause between two attempts; doubled each time.
pub const BACKOFF_BASE_MS: u64 = 1_000;
/// Longest pause between two attempts within one activation.
pub const BACKOFF_MAX_MS: u64 = 30_000;
/// Longest pause of an agent whose surroundings fail.
pub const PARK_MAX_MS: u64 = 5 * 60 * 1000;
/// Longest `retry-after` that is believed.
pub const RETRY_AFTER_MAX_MS: u64 = 60 * 60 * 1000;
/// A wall clock that was set back by no more is taken for one that was not.
pub const CLOCK_NOISE_MS: i64 = 1_000;
/// A tool call (default).
pub const TOOL_TIMEOUT_MS: u64 = 30_000;

/// Calls of one agent that go on beyond their cycles; more are refused, or given up when they time out.
pub const DETACHED_PER_AGENT: usize = 32;
/// The same on one node: asynchronous calls beyond it wait for their turn.
pub const DETACHED_PER_NODE: usize = 1_024;
/// How long a call may go on after it timed out, until it is given up.
pub const LATE_MS: u64 = 15 * 60 * 1000;
/// Detached calls that one look for those that nobody runs takes up.
pub const DETACHED_BATCH: u32 = 32;
/// Starts of the server that run a detached call again before it is given up.
pub const DETACHED_ATTEMPTS: u32 = 3;
/// What an event tells of an outcome; the call's row has all of it.
pub const RESULT_MAX_BYTES: usize = 16 * 1024;

/// Requests that may be under way at one provider (default of the setting `requests_per_provider`).
pub const REQUESTS_PER_PROVIDER: usize = AWAKE_MAX / 2;
/// Agents that may be awake at once on one node (default of the setting `awake_max`).
pub const AWAKE_MAX: usize = 256;
/// Memory of warm agents on one node.
pub const WARM_MAX_BYTES: usize = 64 * 1024 * 1024;
/// A warm agent's history from which on its encoded fragments are kept: those of a shorter one, and the head
/// of its requests, weigh more than encoding them again costs.
pub const WARM_FRAGMENTS_MIN_BYTES: usize = 16 * 1024;
/// What fragments weigh beside the history: the system layer and the tools, as they are and encoded.
pub const WARM_HEAD_BYTES: usize = 24 * 1024;
/// Signals that wait for the keeper; more are dropped, the sweep finds what they meant.
pub const SIGNALS_MAX: usize = 65_536;
/// First pause of an agent whose activation broke, or was refused what it had thought; doubled each time in a row.
pub const FAULT_PAUSE_MS: u64 = 1_000;
/// The longest of these pauses.
pub const FAULT_PAUSE_MAX_MS: u64 = 60_000;
/// While the store refuses commits, how long all wait until one of them tries again.
pub const STORE_PROBE_MS: u64 = 1_000;
/// Agents that one look for due work returns.
pub const DUE_BATCH: u32 = 256;
/// Such looks that one agent which comes to rest causes.
pub const DUE_PAGES: u32 = 8;
/// The sweep that finds due work where every signal was lost.
pub const SWEEP_MS: u64 = 5_000;
/// Least time between two such looks for a time that has come.
pub const SWEEP_LEAST_MS: u64 = 50;
/// Time that a graceful stop gives to the steps in progress.
pub const DRAIN_MS: u64 = 10_000;
/// Characters of a call's arguments that watchers are shown.
pub const ARGUMENTS_SHOWN_CHARS: usize = 160;
/// IdleUntil agents of which a node remembers in words why they rest; of more the class is told.
pub const IDLE_REASONS_MAX: usize = 4_096;
/// Characters of those words.
pub const IDLE_REASON_CHARS: usize = 500;
/// Agents that may ask a provider before its pause is over, since an operator said so; more wait as before.
pub const BREAKER_GRANTS_MAX: usize = 1_024;
/// Agents that one question about the recent past may name.
pub const RECENT_AGENTS_MAX: usize = 32;
/// Updates that one slow listener may lag behind before it loses some.
pub const BUS_BUFFER: usize = 1_024;
/// Of [`DRAIN_MS`], what a generation or a tool in progress may use before it is given up in good order.
pub const STEP_GRACE_MS: u64 = 7_000;
/// Agents that may have been the cause of one crash and are awake at once; of two crashes, one at a time.
pub const SUSPECTS_AT_ONCE: usize = 16;
/// How long an agent that may have been the cause of a crash keeps other suspects waiting: what is
/// feared is the death of the process, not slowness.
pub const SUSPECT_MS: u64 = 10_000;
/// Rows of one page of any list.
pub const PAGE_MAX: u32 = 200;
/// Rows of one page where the client names no number.
pub const PAGE_DEFAULT: u32 = 50;

/// Body of one request.
pub const BODY_MAX_BYTES: usize = 1024 * 1024;
/// Nesting of a JSON body.
pub const JSON_DEPTH_MAX: usize = 64;
/// One request, streams excepted.
pub const REQUEST_MS: u64 = 30_000;
/// Questions of the living that are read at once.
pub const READERS_LIVING: usize = 4;
/// Queries of the API that are read at once: activations do not wait for them.
pub const READERS_API: usize = 4;
/// Configs that are kept parsed, in bytes of their JSON.
pub const CONFIGS_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Commands that wait for the writer; more are refused as `overloaded`.
pub const WRITER_QUEUE: usize = 8_192;
/// Commands that one transaction of the writer takes.
pub const GROUP_MAX: usize = 512;
/// Size up to which the write-ahead log's file stays as it is, so that no commit waits for it to be made longer.
pub const LOG_KEPT_BYTES: u64 = 4 * 1024 * 1024;
/// How long the answer to a suspension waits for a request that is dropped because of it.
pub const SUSPEND_WAIT_MS: u64 = 2_000;
/// How long nothing is written before a longer one is cut.
pub const LOG_QUIET_MS: u64 = 10_000;

/// Headers of one request, names and values together.
pub const HEADERS_MAX_BYTES: usize = 16 * 1024;
/// Headers of one request.
pub const HEADERS_MAX: usize = 64;
/// The head of a request, from the first byte of the connection on.
pub const HEAD_MS: u64 = 10_000;
/// Connections of one node; more wait to be accepted.
pub const CONNECTIONS_MAX: usize = 4_096;
/// Free text about a space or a label of a key.
pub const DESCRIPTION_MAX_BYTES: usize = 4 * 1024;
/// Keys that the API remembers as valid.
pub const KEY_CACHE_MAX: usize = 256;
/// How long they remember it: a revoked key opens nothing after that.
pub const KEY_CACHE_MS: u64 = 1_000;
/// Updates that wait for one client of a stream.
pub const STREAM_BUFFER: usize = 256;
/// The same in bytes.
pub const STREAM_BUFFER_BYTES: usize = 1024 * 1024;
/// Clients that are written to in one go, before others may run.
pub const STREAM_TURN: usize = 64;
/// Listeners of one topic above which each is sent drafts in batches.
pub const STREAM_CROWD: usize = 100;
/// How long such a batch is gathered.
pub const STREAM_GATHER_MS: u64 = 25;
/// Durable changes that are replayed to a client that was away; beyond that it gets a `gap`.
pub const STREAM_REPLAY_MAX: u64 = 1_000;
/// Rows read at once to catch up.
pub const STREAM_REPLAY_PAGE: u32 = 50;
/// Sign of life of a silent stream; also how long a client may not read while something waits.
pub const STREAM_PING_MS: u64 = 15_000;
/// Time that a client which did not read has to take the farewell before the connection is cut.
pub const STREAM_FAREWELL_MS: u64 = 5_000;
/// Speakers, each in each of their spaces, whose order is judged at once.
pub const SPEAKERS_JUDGED_MAX: usize = 65_536;
/// Flaws of a store that are listed one by one; more are counted.
pub const FLAWS_MAX: usize = 1_000;
/// Longest line of an agent that is imported.
pub const IMPORT_LINE_MAX_BYTES: usize = 128 * 1024 * 1024;
