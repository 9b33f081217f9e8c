//! Limits of approvals and questions to people.

/// How long a cycle waits for a person at most, if its agent's config says nothing else. Then it goes on, and the answer becomes
/// an event; it goes on earlier if another event wants it.
pub const PAUSE_MS: u64 = 15 * 60 * 1000;
/// Longest time that a config may let a cycle wait: a week.
pub const PAUSE_MAX_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// How long an answer is waited for in all, if the question says nothing else: a week.
pub const APPROVAL_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// Least time for an answer.
pub const APPROVAL_MIN_MS: u64 = 60_000;
/// Longest time for an answer.
pub const APPROVAL_MAX_MS: u64 = 90 * 24 * 60 * 60 * 1000;
/// When people are reminded once, if the answer has more time than twice this; else after half of its time.
pub const APPROVAL_REMIND_MS: u64 = 4 * 60 * 60 * 1000;
/// Reminders and expiries that one command writes; the next sweep writes more.
pub const APPROVALS_LAPSED_MAX: u32 = 50;
/// Arguments that a person is asked to approve, as they are shown: nobody approves what cannot be shown whole.
pub const APPROVAL_ARGUMENTS_MAX_BYTES: usize = 16 * 1024;
/// Text of a question, or of a person's reason or answer.
pub const APPROVAL_TEXT_MAX_BYTES: usize = 8 * 1024;
/// Answer to a form, as JSON.
pub const APPROVAL_FORM_MAX_BYTES: usize = 64 * 1024;
/// Schema of a form, as JSON.
pub const APPROVAL_SCHEMA_MAX_BYTES: usize = 16 * 1024;
/// Options of a choice.
pub const APPROVAL_OPTIONS_MAX: usize = 20;
/// One option of a choice.
pub const APPROVAL_OPTION_MAX_BYTES: usize = 200;
/// People whom one question names.
pub const APPROVAL_PEOPLE_MAX: usize = 16;
/// How far ahead a rule may end that gives approvals in advance: a year.
pub const APPROVAL_RULE_MAX_MS: u64 = 366 * 24 * 60 * 60 * 1000;
/// Rules of one agent.
pub const APPROVAL_RULES_MAX: usize = 100;
/// Whoever caused a call, as people are shown it: each by name, the first ones.
pub const APPROVAL_REQUESTERS_MAX: usize = 8;
/// What a model wrote beside a call, as operators are shown it.
pub const APPROVAL_SAID_MAX_BYTES: usize = 2 * 1024;
/// Open questions of one space among which a message may find the one that it answers.
pub const QUESTIONS_OF_SPACE_MAX: u32 = 32;
