//! Tool calls: the durable row of each, its effect class, and its outcome.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::approval::{Approval, ApprovalRule, ByRule};
use crate::event::Trust;
use crate::id::{CallId, ClaimId, CycleId};
use crate::limits;
use crate::quote;

names! {
    /// What repeating a call would do. It decides how the call is handled after a crash.
    pub enum Effect {
        /// Changes only the agent's own data, in the same commit as the decision.
        Inward,
        /// Only reads; may be repeated.
        ReadOnly,
        /// May be repeated with the same key.
        Idempotent,
        /// Must not happen twice. After a crash it is unknown whether it happened.
        Unsafe,
    }
}

names! {
    /// The state of a call.
    pub enum CallState {
        /// Decided, not started.
        Planned,
        /// Started. Only unsafe and claimed calls get this state.
        Started,
        /// Started, and its cycle no longer waits for it: the outcome so far is `pending`, the result becomes an
        /// event.
        Detached,
        /// Finished; the row has the outcome.
        Done,
    }
}

names! {
    /// Who runs a call.
    pub enum Runner {
        /// The server.
        Node,
        /// A worker: a program outside that claims the call.
        Worker,
        /// A person, who answers it.
        Person,
    }
}

names! {
    /// How a call ended.
    pub enum OutcomeStatus {
        /// The call succeeded.
        Ok,
        /// The call failed; the text says why.
        Error,
        /// The result will arrive as an event.
        Pending,
        /// The process died after the call had started: it is unknown whether the call happened.
        Unknown,
        /// Canceled before it ended.
        Canceled,
    }
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: OutcomeStatus,
    /// What the model reads.
    pub text: String,
    /// What the operator sees, if it differs from `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The lowest trust of the texts of others that it quotes, if the tool knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
}

impl Outcome {
    /// A success.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { status: OutcomeStatus::Ok, text: text.into(), detail: None, trust: None }
    }

    /// What the runtime itself says about a call: it quotes nobody, and the outcome adds nothing to what was read.
    pub fn of_runtime(status: OutcomeStatus, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), detail: None, trust: Some(Trust::Operator) }
    }

    /// A failure that the model reads.
    pub fn error(text: impl Into<String>) -> Self {
        Self { status: OutcomeStatus::Error, text: text.into(), detail: None, trust: None }
    }

    /// The call runs on; its result will arrive as an event.
    pub fn pending(call: &CallId) -> Self {
        Self::later(call, "it goes on while you do other things")
    }

    /// Nobody has answered the call, and its cycle goes on: because it has waited long enough, or because others need the agent.
    /// `whom`: who may answer.
    pub fn unanswered(call: &CallId, whom: &str) -> Self {
        Self::later(call, &format!("it waits for a person to answer ({whom})"))
    }

    /// The call exceeded its time-out and runs on.
    pub fn overdue(call: &CallId, timeout_ms: u128) -> Self {
        Self::later(call, &format!("no answer within {timeout_ms} ms; it goes on"))
    }

    fn later(call: &CallId, why: &str) -> Self {
        let note = format!(
            "{why}. Its answer, if it comes, will come to you as an event: a tool result that names this call. \
             Do not wait for it, and do not make the call again."
        );
        let text = serde_json::json!({"status": "pending", "call": call, "note": note}).to_string();
        Self::of_runtime(OutcomeStatus::Pending, text)
    }

    /// Its requester sent an urgent event before the call began.
    pub fn held_back() -> Self {
        let text = "not started: an urgent event from the requester of this work arrived first and is shown to you \
                    next. Nothing was done; decide again.";
        Self::of_runtime(OutcomeStatus::Canceled, text)
    }

    /// The rule by which it needed no approval does not hold any more, and it had not begun.
    pub fn rule_over() -> Self {
        let text = "not run: the rule by which it needed no approval does not hold any more. Nothing of it was done. \
                    Call it again if it is still wanted: then a person is asked.";
        Self::of_runtime(OutcomeStatus::Canceled, text)
    }

    /// The process died after the call had started, and the call must not happen twice.
    pub fn interrupted() -> Self {
        let text = "interrupted; unknown whether it happened. Find out before you try again.";
        Self::of_runtime(OutcomeStatus::Unknown, text)
    }

    /// The worker that has the call did not answer in time, or stopped renewing its claim.
    pub fn abandoned() -> Self {
        let text = "the worker that has it did not answer in time; unknown whether it happened. Find out before you try again.";
        Self::of_runtime(OutcomeStatus::Unknown, text)
    }

    /// No worker took the call.
    pub fn not_claimed(after_ms: u128) -> Self {
        let text = format!("no worker took it within {after_ms} ms; nothing of it was done");
        Self::of_runtime(OutcomeStatus::Error, text)
    }

    /// The call exceeded even the time allowed to a detached call.
    pub fn given_up(effect: Effect, runner: Runner, after_ms: u128) -> Self {
        let by_worker = runner == Runner::Worker;
        let happened =
            if by_worker || effect == Effect::Unsafe { "; unknown whether it happened" } else { "" };
        // What a worker says after all is still worth an event.
        let status = if by_worker { OutcomeStatus::Unknown } else { OutcomeStatus::Error };
        Self::of_runtime(status, format!("no answer within {after_ms} ms; given up{happened}"))
    }

    /// An operator canceled the call. The text says what is known about whether it happened.
    pub fn canceled(row: &CallRow) -> Self {
        let waits = row.approval.as_ref().is_some_and(|approval| approval.is_wanted());
        let known = match (row.effect, row.state) {
            _ if waits => " before a person answered; nothing of it was done",
            (Effect::Unsafe, CallState::Planned | CallState::Detached)
                if row.runner == Runner::Worker && row.claim.is_none() =>
            {
                " before a worker took it; nothing of it was done"
            }
            (Effect::Unsafe, CallState::Planned) => " before it began; nothing of it was done",
            (Effect::Unsafe, _) => " after it had begun; unknown whether it happened",
            (Effect::Idempotent, _) => "; it may have happened already",
            (Effect::Inward | Effect::ReadOnly, _) => "",
        };
        let text = format!("canceled by an operator{known}. Do not call it again unless you are asked to.");
        Self::of_runtime(OutcomeStatus::Canceled, text)
    }

    /// As much of it as there is room for in its cycle, but at least what a model is shown.
    #[must_use]
    pub fn within(self, room: usize) -> Self {
        let room = room.clamp(limits::OUTCOME_KEPT_MIN_BYTES, limits::OUTCOME_STORED_MAX_BYTES);
        if self.text.len() <= room {
            return self;
        }
        let why = "; all outcomes of a step, and of a cycle, are stored only up to a limit";
        Self { text: shortened(&self.text, room, why), ..self }
    }

    /// Whether the model should treat it as a failure.
    pub fn failed(&self) -> bool {
        !matches!(self.status, OutcomeStatus::Ok | OutcomeStatus::Pending)
    }

    /// The text as the model sees it: shortened to head and tail if too long, with invisible characters escaped. An
    /// error is put on one line, because it may quote text written by others.
    pub fn shown(&self) -> String {
        self.shown_with("")
    }

    /// Like [`Outcome::shown`], for a call whose whole outcome the model can read.
    pub fn shown_of(&self, call: &CallId) -> String {
        self.shown_with(&format!("; read_outcome shows them, call: {call}"))
    }

    fn shown_with(&self, how_to_read: &str) -> String {
        let text = shortened(&self.text, limits::OUTCOME_SHOWN_MAX_BYTES, how_to_read);
        if self.failed() { quote::one_line(&text) } else { quote::escape_hidden(&text) }
    }
}

/// What to do with a detached call whose process is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Run it again under the same key.
    RunAgain,
    /// Finish it with this outcome.
    Finish(Outcome),
}

/// Decides what to do with it. `times` is how often the call was recovered so far, this time included.
pub fn recover(row: &CallRow, times: u32) -> Recovery {
    let unknown = |why: &str| {
        let text = format!("{why}; unknown whether it happened. Find out before you try again.");
        Recovery::Finish(Outcome::of_runtime(OutcomeStatus::Unknown, text))
    };
    // It waited for a person when its cycle went on, and this is its first run.
    if times == 1 && row.approval.as_ref().is_some_and(|approval| approval.late) {
        return Recovery::RunAgain;
    }
    match row.effect {
        Effect::Inward | Effect::Unsafe => unknown("interrupted, since the server ended while it ran"),
        Effect::ReadOnly | Effect::Idempotent if times > limits::DETACHED_ATTEMPTS => {
            unknown(&format!("the server ended {times} times while it ran"))
        }
        Effect::ReadOnly | Effect::Idempotent => Recovery::RunAgain,
    }
}

/// `text` in full up to `max` bytes, else its beginning and end with the number of omitted bytes between them.
pub fn head_and_tail(text: &str, max: usize) -> String {
    shortened(text, max, "")
}

fn shortened(text: &str, max: usize, note: &str) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let head = floor_char(text, max * 2 / 3);
    let tail = ceil_char(text, text.len() - max / 3);
    let cut = tail - head;
    format!("{}\n[… {cut} of {} bytes left out{note} …]\n{}", &text[..head], text.len(), &text[tail..])
}

fn floor_char(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil_char(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// The durable row of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRow {
    /// Our id, which is also the idempotency key.
    pub id: CallId,
    /// The cycle.
    pub cycle: CycleId,
    /// The step that made the call.
    pub step: u32,
    /// Its position among the step's calls.
    pub index: u32,
    /// The tool.
    pub tool: String,
    /// The argument string the tool is run with: as the model wrote it, or repaired.
    pub arguments: String,
    /// What repeating it would do.
    pub effect: Effect,
    /// Version of the tool at the time of the decision.
    pub tool_version: String,
    /// Who runs it; no one else ever does.
    pub runner: Runner,
    /// The newest claim, once a worker has claimed it.
    pub claim: Option<ClaimId>,
    /// What is known of it if it waits, or has waited, for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<Approval>>,
    /// What its rule must be for, if it runs without an approval because of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_rule: Option<ByRule>,
    /// Whether the open cycle waits for it. If `false`, its outcome becomes an event.
    pub awaited: bool,
    /// Its state.
    pub state: CallState,
    /// The result, once the call is done.
    pub outcome: Option<Outcome>,
    /// The lowest trust of what the model had read when it made the call: its arguments may repeat that. [`Trust::Outside`] in
    /// rows of earlier versions.
    #[serde(default)]
    pub trust: Trust,
}

impl CallRow {
    /// Whether it may not run before a person has answered.
    pub fn waits_for_person(&self) -> bool {
        self.approval.as_ref().is_some_and(|approval| approval.is_wanted())
    }

    /// Whether it may begin, as far as rules are concerned: it needs none, or one of these holds.
    pub fn is_ruled_in(&self, rules: &[ApprovalRule], now: Timestamp) -> bool {
        let covers = |call| rules.iter().any(|rule| rule.covers(&self.tool, &self.tool_version, call, now));
        self.by_rule.as_ref().is_none_or(covers)
    }

    /// What the model reads in front of its outcome.
    pub fn remark(&self) -> Option<String> {
        self.approval.as_ref()?.remark(&self.arguments)
    }

    /// The trust of its outcome. What a call brings in from outside is from outside; whatever else it says may repeat its
    /// arguments, so that it is worth no more than what the model had read.
    pub fn trust_of_outcome(&self) -> Trust {
        match (self.outcome.as_ref().map(|outcome| outcome.trust), self.effect) {
            (None, _) | (Some(None), Effect::Inward) => self.trust,
            (Some(None), Effect::ReadOnly | Effect::Idempotent | Effect::Unsafe) => Trust::Outside,
            (Some(Some(quoted)), _) => quoted.min(self.trust),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_outcome_has_no_invisible_characters_and_an_error_is_one_line() {
        let raw = "no note has the key `a\n9. [fake]\u{2028}\u{202e}\u{85}\u{7f}`";
        let shown = "no note has the key `a\\n9. [fake]\\u2028\\u202e\\u0085\\u007f`";
        assert_eq!(Outcome::error(raw).shown(), shown);
        assert_eq!(Outcome::ok(raw).shown(), shown.replace("\\n", "\n"));
        let json = r#"{"text":"\u2028 \"so\""}"#;
        assert_eq!(Outcome::ok(json).shown(), json);
    }

    #[test]
    fn an_outcome_has_the_trust_of_what_it_quotes_and_what_comes_from_outside_has_none() {
        let trust =
            |effect, outcome: Outcome| CallRow { outcome: Some(outcome), ..row(effect) }.trust_of_outcome();
        let quotes = Outcome { trust: Some(Trust::Agent), ..Outcome::ok("hi") };
        assert_eq!(trust(Effect::Inward, quotes), Trust::Agent);
        assert_eq!(trust(Effect::Inward, Outcome::ok("done")), Trust::Member, "that of its cycle");
        for outcome in [Outcome::ok("a page"), Outcome::error("404")] {
            assert_eq!(trust(Effect::ReadOnly, outcome), Trust::Outside);
        }
        let recovered = |effect| match recover(&row(effect), limits::DETACHED_ATTEMPTS + 1) {
            Recovery::Finish(outcome) => outcome,
            Recovery::RunAgain => panic!("wanted it to be given up"),
        };
        for outcome in [
            Outcome::pending(&CallId("c1".into())),
            Outcome::canceled(&row(Effect::Unsafe)),
            Outcome::interrupted(),
            Outcome::abandoned(),
            Outcome::not_claimed(1),
            Outcome::held_back(),
            Outcome::rule_over(),
            Outcome::given_up(Effect::Unsafe, Runner::Worker, 1),
            Outcome::given_up(Effect::ReadOnly, Runner::Node, 1),
            recovered(Effect::Unsafe),
            recovered(Effect::ReadOnly),
        ] {
            assert_eq!(trust(Effect::Unsafe, outcome), Trust::Member, "our own words");
        }
        assert_eq!(row(Effect::Unsafe).trust_of_outcome(), Trust::Member);
    }

    fn row(effect: Effect) -> CallRow {
        CallRow {
            id: CallId("c1".into()),
            cycle: CycleId(uuid::Uuid::nil()),
            step: 0,
            index: 0,
            tool: "t".into(),
            arguments: "{}".into(),
            effect,
            tool_version: "1".into(),
            runner: Runner::Node,
            claim: None,
            approval: None,
            by_rule: None,
            awaited: false,
            state: CallState::Detached,
            outcome: None,
            trust: Trust::Member,
        }
    }

    #[test]
    fn a_repeatable_detached_call_is_run_again_after_a_restart_up_to_a_limit() {
        let status = |effect, times| match recover(&row(effect), times) {
            Recovery::RunAgain => None,
            Recovery::Finish(outcome) => Some(outcome.status),
        };
        for effect in [Effect::ReadOnly, Effect::Idempotent] {
            assert_eq!(status(effect, limits::DETACHED_ATTEMPTS), None);
            assert_eq!(status(effect, limits::DETACHED_ATTEMPTS + 1), Some(OutcomeStatus::Unknown));
        }
        assert_eq!(status(Effect::Unsafe, 1), Some(OutcomeStatus::Unknown));
    }

    #[test]
    fn a_pending_outcome_is_json_with_the_id_of_its_call() {
        let outcome = Outcome::overdue(&CallId("c1".into()), 50);
        let value: serde_json::Value = serde_json::from_str(&outcome.text).unwrap();
        assert_eq!((&value["status"], &value["call"]), (&"pending".into(), &"c1".into()));
        assert!(value["note"].as_str().unwrap().starts_with("no answer within 50 ms"));
        assert!(!outcome.failed());
    }

    #[test]
    fn a_long_outcome_is_cut_to_head_and_tail_and_gives_its_full_size() {
        let text = format!("{}{}", "é".repeat(10_000), "the end");
        let shown = head_and_tail(&text, 300);
        assert!(shown.starts_with("éé") && shown.ends_with("the end"));
        assert!(shown.contains("of 20007 bytes"));
        assert!(shown.len() < 400);
        assert_eq!(head_and_tail("short", 300), "short");
    }
}
