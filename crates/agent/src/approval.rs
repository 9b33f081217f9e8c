//! What waits for a person: calls that somebody must approve, and questions that agents ask.
//!
//! The rules behind [`crate::port::Calls::answer`], the same for every store. An approval is of one call exactly: its tool,
//! the version of that, and the arguments, all in one hash. Only the first answer counts. Agents answer nothing.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::call::{CallRow, Outcome, OutcomeStatus};
use crate::event::Trust;
use crate::id::{AgentId, ContentRef, EntityId, SpaceId};
use crate::limits;
use crate::plan::span_text;
use crate::quote;

/// What a person is asked for.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AskKind {
    /// Yes or no.
    #[default]
    Approval,
    /// One of some options.
    Choice,
    /// A value that fits a JSON Schema.
    Form,
    /// A text.
    Text,
}

impl AskKind {
    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What became of it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody has answered.
    Wanted,
    /// The call may run.
    Granted,
    /// A question was answered.
    Answered,
    /// The call may not run, or nobody wants to answer the question.
    Refused,
    /// Nobody answered in time.
    Expired,
    /// The call was canceled before anybody answered.
    Canceled,
}

impl ApprovalState {
    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answerer {
    /// Somebody with an operator's key.
    Operator,
    /// A person.
    Person(EntityId),
    /// Somebody who had a link to the call.
    Link,
}

/// Who answered, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredBy {
    /// Who.
    pub who: Answerer,
    /// The handle of a person, or words for somebody else.
    pub name: String,
    /// When.
    pub at: Timestamp,
}

/// What is known of a call that waits, or has waited, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// What is asked for.
    pub kind: AskKind,
    /// Whether the agent asks this itself; otherwise the call runs once it is approved.
    pub question: bool,
    /// Why somebody is asked, or what.
    pub why: String,
    /// The options of a choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The JSON Schema of a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Hash of tool, version and arguments.
    pub hash: String,
    /// Whether the agent had read strangers' text when it made the call.
    pub tainted: bool,
    /// Bits of the labels that count as used once the call is approved.
    #[serde(default)]
    pub labels: u8,
    /// Where the card is, and whose people may answer; `None`: only operators may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<SpaceId>,
    /// The only people who may answer, apart from operators; none: all people of the space.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub people: Vec<EntityId>,
    /// The `approvers` of the agent's config when it was asked, as the card shows them. Those of the answer's time decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When its cycle goes on without an answer.
    pub detach_at: Timestamp,
    /// When people are reminded.
    pub remind_at: Timestamp,
    /// When it is too late.
    pub expires_at: Timestamp,
    /// What became of it.
    pub state: ApprovalState,
    /// Whether people were reminded.
    #[serde(default)]
    pub reminded: bool,
    /// Whether its cycle went on before the call began.
    #[serde(default)]
    pub late: bool,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnsweredBy>,
    /// What that person said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The agent's arguments, if that person changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_arguments: Option<String>,
}

/// How long something is waited for, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long the cycle waits.
    pub pause_ms: u64,
    /// How long an answer may take in all.
    pub expires_ms: u64,
}

impl Approval {
    /// Something that is wanted from now on.
    pub fn wanted(kind: AskKind, why: String, hash: String, patience: Patience, now: Timestamp) -> Self {
        let Patience { pause_ms, expires_ms } = patience;
        Self {
            kind,
            question: false,
            why,
            options: Vec::new(),
            schema: None,
            hash,
            tainted: false,
            labels: 0,
            space: None,
            people: Vec::new(),
            approvers: Vec::new(),
            asked_at: now,
            detach_at: later(now, pause_ms),
            remind_at: later(now, limits::APPROVAL_REMIND_MS.min(expires_ms / 2)),
            expires_at: later(now, expires_ms),
            state: ApprovalState::Wanted,
            reminded: false,
            late: false,
            by: None,
            reason: None,
            asked_arguments: None,
        }
    }

    /// Whether nobody has answered yet.
    pub fn is_wanted(&self) -> bool {
        self.state == ApprovalState::Wanted
    }

    /// Whether the cycle does not wait for it any longer. If the clock was set back behind the question, nobody knows how long
    /// it has waited.
    pub fn is_pause_over(&self, now: Timestamp) -> bool {
        now >= self.detach_at || now < self.asked_at
    }

    /// When the store has something to do about it: remind people, or let it expire. `None` once it is over.
    pub fn next_at(&self) -> Option<Timestamp> {
        let next = if self.reminded { self.expires_at } else { self.remind_at.min(self.expires_at) };
        self.is_wanted().then_some(next)
    }

    /// The hash of what people were shown of the call, also after one of them has changed its arguments.
    pub fn shown_hash(&self, row: &CallRow) -> String {
        match &self.asked_arguments {
            Some(asked) => hash_of(&row.tool, &row.tool_version, asked),
            None => self.hash.clone(),
        }
    }

    /// What the model reads in front of the outcome of a call whose arguments a person has changed.
    pub fn remark(&self, arguments: &str) -> Option<String> {
        let (by, _) = (self.by.as_ref()?, self.asked_arguments.as_ref()?);
        Some(format!(
            "[{} changed the arguments before approving this call; it was run with {}]",
            quote::visible_line(&by.name),
            quote::visible_arguments(arguments)
        ))
    }
}

/// What an approval is of: a tool, its version and the exact arguments.
pub fn hash_of(tool: &str, version: &str, arguments: &str) -> String {
    ContentRef::of(json!([tool, version, arguments]).to_string().as_bytes()).0
}

/// What a person says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonVerdict {
    /// The call may run, or yes.
    Approve {
        /// Other arguments than the agent's; they fit the tool's schema.
        arguments: Option<String>,
        /// Further calls of that tool by that agent need no approval before this time.
        remember: Option<Remember>,
    },
    /// The call may not run, or no answer is given.
    Refuse,
    /// The answer to a question; it fits what was asked.
    Answer(Value),
}

/// An approval in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remember {
    /// Until when.
    pub until: Timestamp,
    /// Whether it also counts while the agent has read strangers' text.
    pub tainted: bool,
}

/// A rule: calls of that tool by that agent need no approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRule {
    /// The agent.
    pub agent: AgentId,
    /// The tool, by its exact name.
    pub tool: String,
    /// The version of the tool for which it was given: of another one nobody has approved anything.
    pub version: String,
    /// The space whose calls it is for, if a person gave it: `None` are calls without a space. An operator's is for all.
    pub space: Option<SpaceId>,
    /// Until when.
    pub until: Timestamp,
    /// Whether it also counts while the agent has read strangers' text.
    pub tainted: bool,
    /// Who gave it, in words.
    pub by: String,
    /// The person who gave it; `None`: an operator.
    pub person: Option<EntityId>,
    /// When.
    pub at: Timestamp,
}

impl ApprovalRule {
    /// Whether a call of that tool needs no approval.
    pub fn covers(&self, tool: &str, version: &str, call: &ByRule, now: Timestamp) -> bool {
        let same = self.tool == tool && self.version == version;
        let here = self.space == call.space || self.person.is_none() && self.space.is_none();
        same && here && now < self.until && (self.tainted || !call.tainted)
    }
}

/// What a rule must be for, to spare a call that runs by one its approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByRule {
    /// Whether the agent had read strangers' text: then only a rule counts that was given for that.
    pub tainted: bool,
    /// Where people would have been asked.
    pub space: Option<SpaceId>,
}

/// The rule that an answer to that call has given. A person speaks for the space that was asked, and an operator for all.
pub fn rule_of(agent: AgentId, row: &CallRow, remember: Remember) -> Option<ApprovalRule> {
    let approval = row.approval.as_ref()?;
    let by = approval.by.as_ref()?;
    let person = match by.who {
        Answerer::Person(person) => Some(person),
        Answerer::Operator => None,
        Answerer::Link => return None,
    };
    Some(ApprovalRule {
        agent,
        tool: row.tool.clone(),
        version: row.tool_version.clone(),
        space: approval.space.filter(|_| person.is_some()),
        until: remember.until,
        tainted: remember.tainted,
        by: by.name.clone(),
        person,
        at: by.at,
    })
}

/// Why an answer is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerRefused {
    /// The call waits for nobody.
    #[error("the call waits for no answer")]
    NotAsked,
    /// Somebody was faster.
    #[error("it was answered already: {state} by {by} at {at}")]
    Already {
        /// What became of it.
        state: &'static str,
        /// Who answered.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// It is too late.
    #[error("it is over: {0}")]
    Over(&'static str),
    /// The agent's config does not name the tool any more.
    #[error("the agent does not have the tool `{0}` any more")]
    ToolGone(String),
    /// The call is not the one that was shown.
    #[error("the call is not the one that was shown: its tool or its arguments are others now")]
    Changed,
    /// That person may not answer it.
    #[error("only {0} may answer it")]
    NotYours(&'static str),
    /// The answer is of another kind than the question.
    #[error("{0}")]
    Unfit(String),
    /// The agent is retired.
    #[error("the agent is retired")]
    Retired,
}

/// A row after an answer, with what else the store writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredRow {
    /// The row. It has an outcome unless the call is approved and runs now.
    pub row: CallRow,
    /// The rule to keep.
    pub rule: Option<Remember>,
}

/// Applies an answer to a row that is read under the store's lock. `may` is whether that person is one of those who may
/// answer, `seen` the hash that the person was shown, if it is known.
pub fn answered(
    mut row: CallRow,
    verdict: &PersonVerdict,
    reason: Option<&str>,
    by: AnsweredBy,
    may: bool,
    seen: Option<&str>,
) -> Result<AnsweredRow, AnswerRefused> {
    let mut approval = row.approval.take().ok_or(AnswerRefused::NotAsked)?;
    over(&approval, by.at)?;
    if !may {
        let named = match (approval.question, approval.people.is_empty()) {
            (false, _) => "people whom the agent's config names now, or else people of the space,",
            (true, true) => "people of the space",
            (true, false) => "the people it names",
        };
        return Err(AnswerRefused::NotYours(named));
    }
    if seen.is_some_and(|seen| seen != approval.hash) {
        return Err(AnswerRefused::Changed);
    }
    let mut rule = None;
    let trust = if by.who == Answerer::Operator { Trust::Operator } else { Trust::Member };
    let outcome = match verdict {
        PersonVerdict::Approve { arguments, remember } if !approval.question => {
            if let Some(edited) = arguments.as_ref().filter(|edited| **edited != row.arguments) {
                approval.asked_arguments = Some(std::mem::replace(&mut row.arguments, edited.clone()));
                approval.hash = hash_of(&row.tool, &row.tool_version, &row.arguments);
            }
            approval.state = ApprovalState::Granted;
            rule = *remember;
            None
        }
        PersonVerdict::Approve { arguments: None, remember: None } if approval.kind == AskKind::Approval => {
            approval.state = ApprovalState::Answered;
            Some(Outcome::ok(json!({"answer": "approved", "by": by.name}).to_string()))
        }
        PersonVerdict::Answer(answer) if approval.question && approval.kind != AskKind::Approval => {
            approval.state = ApprovalState::Answered;
            Some(Outcome::ok(json!({"answer": answer, "by": by.name}).to_string()))
        }
        PersonVerdict::Refuse => {
            approval.state = ApprovalState::Refused;
            Some(Outcome { status: OutcomeStatus::Canceled, ..Outcome::ok(refused(&approval, &by, reason)) })
        }
        PersonVerdict::Approve { .. } | PersonVerdict::Answer(_) => {
            return Err(AnswerRefused::Unfit(wanted_answer(&approval)));
        }
    };
    row.outcome = outcome.map(|outcome| Outcome { trust: Some(trust), ..outcome }).or(row.outcome);
    approval.reason = reason.map(str::to_owned);
    approval.by = Some(by);
    row.approval = Some(approval);
    Ok(AnsweredRow { row, rule })
}

fn over(approval: &Approval, now: Timestamp) -> Result<(), AnswerRefused> {
    match (approval.state, &approval.by) {
        (ApprovalState::Wanted, _) if now >= approval.expires_at => {
            Err(AnswerRefused::Over("nobody answered in time"))
        }
        (ApprovalState::Wanted, _) => Ok(()),
        (state, Some(by)) => {
            Err(AnswerRefused::Already { state: state.as_str(), by: by.name.clone(), at: by.at })
        }
        (ApprovalState::Expired, None) => Err(AnswerRefused::Over("nobody answered in time")),
        (_, None) => Err(AnswerRefused::Over("the call was canceled")),
    }
}

fn refused(approval: &Approval, by: &AnsweredBy, reason: Option<&str>) -> String {
    let who = quote::visible_line(&by.name);
    let why = reason.map(|reason| format!(" The reason: {}.", quote::quoted(reason))).unwrap_or_default();
    if approval.question {
        return format!("{who} gives no answer.{why} Do not ask the same again.");
    }
    format!(
        "refused by {who}, and not run; nothing of it was done.{why} Do not call it again unless you are asked to."
    )
}

/// The outcome of something that nobody answered in time.
pub fn expired(approval: &Approval) -> Outcome {
    let within = approval.expires_at.duration_since(approval.asked_at).as_millis();
    let within = span_text(u64::try_from(within).unwrap_or(0));
    let text = if approval.question {
        format!(
            "nobody answered within {within}. Go on without the answer, or ask again if it still matters."
        )
    } else {
        format!("nobody approved it within {within}, so it was not run; nothing of it was done.")
    };
    Outcome { status: OutcomeStatus::Canceled, trust: Some(Trust::Operator), ..Outcome::ok(text) }
}

/// What an answer must be, in words.
pub fn wanted_answer(approval: &Approval) -> String {
    match (approval.kind, approval.question) {
        (AskKind::Approval, _) => "wanted `approve` or `refuse`".to_owned(),
        (AskKind::Choice, _) => {
            let options: Vec<String> = approval.options.iter().map(|option| quote::quoted(option)).collect();
            format!("wanted one of {}, or `refuse`", options.join(", "))
        }
        (AskKind::Form, _) => "wanted a value that fits the question's `schema`, or `refuse`".to_owned(),
        (AskKind::Text, _) => "wanted a text, or `refuse`".to_owned(),
    }
}

/// Whether the answer fits the question. `fits` checks a value against a JSON Schema.
pub fn check_answer(
    approval: &Approval,
    answer: &Value,
    fits: impl Fn(&Value, &Value) -> Result<(), String>,
) -> Result<(), String> {
    match (approval.kind, answer) {
        (AskKind::Choice, Value::String(chosen)) if approval.options.contains(chosen) => Ok(()),
        (AskKind::Text, Value::String(text)) if text.trim().is_empty() => {
            Err("wanted a text, got an empty one".to_owned())
        }
        (AskKind::Text, Value::String(text)) if text.len() > limits::APPROVAL_TEXT_MAX_BYTES => Err(format!(
            "wanted a text of at most {} bytes, got {}",
            limits::APPROVAL_TEXT_MAX_BYTES,
            text.len()
        )),
        (AskKind::Text, Value::String(_)) => Ok(()),
        (AskKind::Form, _) => {
            let bytes = answer.to_string().len();
            if bytes > limits::APPROVAL_FORM_MAX_BYTES {
                let most = limits::APPROVAL_FORM_MAX_BYTES;
                return Err(format!("wanted at most {most} bytes of JSON, got {bytes}"));
            }
            approval.schema.as_ref().map_or(Ok(()), |schema| fits(schema, answer))
        }
        (AskKind::Approval | AskKind::Choice | AskKind::Text, _) => Err(wanted_answer(approval)),
    }
}

/// The arguments of `viv approvals answer CALL` that answer a question of this kind.
pub fn how_to_answer(kind: AskKind) -> &'static str {
    match kind {
        AskKind::Approval => "approve, or refuse",
        AskKind::Choice | AskKind::Text => "--text TEXT, or refuse",
        AskKind::Form => "--form JSON, or refuse",
    }
}

/// The card of a call that waits for a person: what would run, exactly, why somebody is asked, and what to answer.
pub fn card(row: &CallRow, approval: &Approval) -> String {
    let why = inside(&approval.why);
    let (id, how) = (&row.id, how_to_answer(approval.kind));
    if approval.question {
        let wanted = inside(&wanted_answer(approval));
        return format!("[question] {why}\n{wanted}\n(viv approvals answer {id} {how})");
    }
    let arguments = inside(&quote::visible_arguments(&row.arguments));
    let (tool, version) = (&row.tool, &row.tool_version);
    let only = match approval.approvers.is_empty() {
        true => String::new(),
        false => format!("\nmay be answered by: {}", quote::visible_line(&approval.approvers.join(", "))),
    };
    format!(
        "[approval wanted] {tool} (version {version})\narguments: {arguments}\nwhy: {why}{only}\n\
         (viv approvals answer {id} {how})"
    )
}

/// The card of a call that waits for nobody any more: what was asked, who answered and how, and what came of it.
pub fn card_end(row: &CallRow, approval: &Approval) -> String {
    let by =
        approval.by.as_ref().map(|by| format!(" by {}", quote::visible_line(&by.name))).unwrap_or_default();
    let state = approval.state.as_str();
    let mut lines = if approval.question {
        vec![format!("[question {state}{by}] {}", inside(&approval.why))]
    } else {
        let head = format!("[approval {state}{by}] {} (version {})", row.tool, row.tool_version);
        vec![head, format!("arguments: {}", inside(&quote::visible_arguments(&row.arguments)))]
    };
    let asked = approval.asked_arguments.iter().map(|asked| inside(&quote::visible_arguments(asked)));
    lines.extend(asked.map(|asked| format!("asked for: {asked}")));
    lines.extend(approval.reason.iter().map(|reason| format!("reason: {}", inside(reason))));
    match (&row.outcome, approval.state) {
        (Some(outcome), ApprovalState::Answered) => lines.extend(given(outcome)),
        (Some(outcome), ApprovalState::Granted) => {
            lines.push(format!("outcome: {}", <&str>::from(outcome.status)));
        }
        (None, ApprovalState::Granted) => lines.push("outcome: none yet".to_owned()),
        (Some(_) | None, _) => {}
    }
    lines.join("\n")
}

/// The answer in the outcome of a question.
fn given(outcome: &Outcome) -> Option<String> {
    let outcome: Value = serde_json::from_str(&outcome.text).ok()?;
    Some(format!("answer: {}", quote::visible_line(&outcome["answer"].to_string())))
}

/// Text of others in a card: what is hidden as escapes, and further lines marked, so that none looks like one of the card.
fn inside(text: &str) -> String {
    quote::visible(text).replace('\n', "\n| ")
}

/// What people are reminded of.
pub fn reminder(row: &CallRow, approval: &Approval) -> String {
    let what = if approval.question { "a question" } else { row.tool.as_str() };
    format!("[reminder] {what} still waits for an answer (viv approvals show {})", row.id)
}

fn later(now: Timestamp, ms: u64) -> Timestamp {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX / 2);
    now.checked_add(SignedDuration::from_millis(ms)).unwrap_or(now)
}

mod question;

pub use question::PersonQuestion;
