//! Tool calls: the durable row of each, its effect class, and what came back.

use serde::{Deserialize, Serialize};

use crate::id::{CallId, CycleId};
use crate::limits;
use crate::quote;

/// What repeating a call would do. Decides what happens to it after a crash.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Effect {
    /// Touches nothing itself; its changes are committed with the decision.
    Inward,
    /// Only reads; may be repeated.
    ReadOnly,
    /// May be repeated with the same key.
    Idempotent,
    /// Must not happen twice; unknown after a crash.
    Unsafe,
}

impl Effect {
    /// The name used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Where a call stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CallState {
    /// Decided, not begun.
    Planned,
    /// Begun; only unsafe and claimed calls are marked so.
    Started,
    /// Begun, and its cycle does not wait for it any more: the outcome so far is `pending`, the answer
    /// becomes an event.
    Detached,
    /// Answered; the outcome stands in the row.
    Done,
}

impl CallState {
    /// The name used in tables and JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OutcomeStatus {
    /// It did what was asked.
    Ok,
    /// It did not; the text says why.
    Error,
    /// The answer will come as an event.
    Pending,
    /// It had begun when the process died; nobody knows.
    Unknown,
    /// Taken back before it ended.
    Canceled,
}

impl OutcomeStatus {
    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What came back for a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: OutcomeStatus,
    /// What the model reads.
    pub text: String,
    /// What the operator sees, if that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Outcome {
    /// A success.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { status: OutcomeStatus::Ok, text: text.into(), detail: None }
    }

    /// A failure that the model reads.
    pub fn error(text: impl Into<String>) -> Self {
        Self { status: OutcomeStatus::Error, text: text.into(), detail: None }
    }

    /// The answer will come as an event.
    pub fn pending(call: &CallId) -> Self {
        Self::later(call, "it goes on while you do other things")
    }

    /// It took longer than it may, and goes on.
    pub fn overdue(call: &CallId, timeout_ms: u128) -> Self {
        Self::later(call, &format!("no answer within {timeout_ms} ms; it goes on"))
    }

    fn later(call: &CallId, why: &str) -> Self {
        let note = format!(
            "{why}. Its answer, if it comes, will come to you as an event: a tool result that names this call. \
             Do not wait for it, and do not make the call again."
        );
        let text = serde_json::json!({"status": "pending", "call": call, "note": note}).to_string();
        Self { status: OutcomeStatus::Pending, text, detail: None }
    }

    /// It had begun when the process died, and must not happen twice.
    pub fn interrupted() -> Self {
        let text = "interrupted; unknown whether it happened. Find out before you try again.";
        Self { status: OutcomeStatus::Unknown, text: text.into(), detail: None }
    }

    /// It took longer than even a call that goes on beyond its cycle may.
    pub fn given_up(effect: Effect, after_ms: u128) -> Self {
        let happened = if effect == Effect::Unsafe { "; unknown whether it happened" } else { "" };
        Self::error(format!("no answer within {after_ms} ms; given up{happened}"))
    }

    /// An operator took the call back; the words say what is known of what it did.
    pub fn canceled(row: &CallRow) -> Self {
        let known = match (row.effect, row.state) {
            (Effect::Unsafe, CallState::Planned) => " before it began; nothing of it was done",
            (Effect::Unsafe, _) => " after it had begun; unknown whether it happened",
            (Effect::Idempotent, _) => "; it may have happened already",
            (Effect::Inward | Effect::ReadOnly, _) => "",
        };
        let text = format!("canceled by an operator{known}. Do not call it again unless you are asked to.");
        Self { status: OutcomeStatus::Canceled, text, detail: None }
    }

    /// Whether the model should take it for a failure.
    pub fn failed(&self) -> bool {
        !matches!(self.status, OutcomeStatus::Ok | OutcomeStatus::Pending)
    }

    /// The text as the model is shown it: head and tail over the bound, and nothing that hides. Why a call failed is
    /// one line, whatever words of others it repeats.
    pub fn shown(&self) -> String {
        let text = head_and_tail(&self.text, limits::OUTCOME_SHOWN_MAX_BYTES);
        if self.failed() { quote::unbroken(&text) } else { quote::visible(&text) }
    }
}

/// What becomes of a detached call that nobody runs, since the process that ran it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakenUp {
    /// It is run again, under the same key.
    Again,
    /// It is answered so.
    Over(Outcome),
}

/// Decides it; `times` it was taken up so far, this one included.
pub fn taken_up(row: &CallRow, times: u32) -> TakenUp {
    let unknown = |why: &str| {
        let text = format!("{why}; unknown whether it happened. Find out before you try again.");
        TakenUp::Over(Outcome { status: OutcomeStatus::Unknown, text, detail: None })
    };
    match row.effect {
        Effect::Inward | Effect::Unsafe => unknown("interrupted, since the server ended while it ran"),
        Effect::ReadOnly | Effect::Idempotent if times > limits::DETACHED_ATTEMPTS => {
            unknown(&format!("the server ended {times} times while it ran"))
        }
        Effect::ReadOnly | Effect::Idempotent => TakenUp::Again,
    }
}

/// `text` whole up to `max` bytes, else its first and last parts with the true size between.
pub fn head_and_tail(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let head = floor_char(text, max * 2 / 3);
    let tail = ceil_char(text, text.len() - max / 3);
    let cut = tail - head;
    format!("{}\n[… {cut} of {} bytes left out …]\n{}", &text[..head], text.len(), &text[tail..])
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
    /// Our id and idempotency key.
    pub id: CallId,
    /// The cycle.
    pub cycle: CycleId,
    /// The step that asked for it.
    pub step: u32,
    /// Its place among the step's calls.
    pub index: u32,
    /// The tool.
    pub tool: String,
    /// The argument string as it is run: the model's own, or what it was repaired to.
    pub arguments: String,
    /// What repeating it would do.
    pub effect: Effect,
    /// Version of the tool that it was decided under.
    pub tool_version: String,
    /// Whether the open cycle waits for it (`false`: its outcome becomes an event).
    pub awaited: bool,
    /// Where it stands.
    pub state: CallState,
    /// What came back, once done.
    pub outcome: Option<Outcome>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_an_outcome_hides_nothing_and_a_failure_is_one_line() {
        let words = "no note has the key `a\n9. [fake]\u{2028}\u{202e}\u{85}\u{7f}`";
        let shown = "no note has the key `a\\n9. [fake]\\u2028\\u202e\\u0085\\u007f`";
        assert_eq!(Outcome::error(words).shown(), shown);
        assert_eq!(Outcome::ok(words).shown(), shown.replace("\\n", "\n"));
        let json = r#"{"text":"\u2028 \"so\""}"#;
        assert_eq!(Outcome::ok(json).shown(), json);
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
            awaited: false,
            state: CallState::Detached,
            outcome: None,
        }
    }

    #[test]
    fn a_detached_call_is_run_again_where_it_may_be_and_only_so_often() {
        let over = |effect, times| match taken_up(&row(effect), times) {
            TakenUp::Again => None,
            TakenUp::Over(outcome) => Some(outcome.status),
        };
        for effect in [Effect::ReadOnly, Effect::Idempotent] {
            assert_eq!(over(effect, limits::DETACHED_ATTEMPTS), None);
            assert_eq!(over(effect, limits::DETACHED_ATTEMPTS + 1), Some(OutcomeStatus::Unknown));
        }
        assert_eq!(over(Effect::Unsafe, 1), Some(OutcomeStatus::Unknown));
    }

    #[test]
    fn a_pending_outcome_is_json_that_names_its_call() {
        let outcome = Outcome::overdue(&CallId("c1".into()), 50);
        let value: serde_json::Value = serde_json::from_str(&outcome.text).unwrap();
        assert_eq!((&value["status"], &value["call"]), (&"pending".into(), &"c1".into()));
        assert!(value["note"].as_str().unwrap().starts_with("no answer within 50 ms"));
        assert!(!outcome.failed());
    }

    #[test]
    fn a_long_outcome_keeps_head_tail_and_true_size() {
        let text = format!("{}{}", "é".repeat(10_000), "the end");
        let shown = head_and_tail(&text, 300);
        assert!(shown.starts_with("éé") && shown.ends_with("the end"));
        assert!(shown.contains("of 20007 bytes"));
        assert!(shown.len() < 400);
        assert_eq!(head_and_tail("short", 300), "short");
    }
}
