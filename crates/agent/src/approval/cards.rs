//! What people are shown of a call that waits for them: its card, what the card becomes, the reminder. Text of others in them is
//! quoted.

use serde_json::Value;

use super::{Approval, ApprovalState, AskKind, how_to_answer, wanted_answer};
use crate::call::{CallRow, Outcome};
use crate::quote;

/// Characters of a tool's version that people are shown: enough to tell two apart. What binds an answer is the hash.
const VERSION_SHOWN: usize = 12;

/// The version of a tool, as people are shown it.
pub fn short_version(version: &str) -> &str {
    version.get(..VERSION_SHOWN).unwrap_or(version)
}

/// The card of a call that waits for a person: what would run, exactly, why somebody is asked, and what to answer.
pub fn card(row: &CallRow, approval: &Approval) -> String {
    let why = inside(&approval.why);
    let (id, how) = (&row.id, how_to_answer(approval.kind));
    let requested = requested_by(approval).map(|by| format!("\n{by}")).unwrap_or_default();
    if approval.question {
        let wanted = inside(&wanted_answer(approval));
        let here = match approval.kind {
            AskKind::Form => "",
            AskKind::Approval | AskKind::Choice | AskKind::Text => ", also as a message here",
        };
        return format!("[question] {why}{requested}\n{wanted}{here}\n(viv approvals answer {id} {how})");
    }
    let arguments = inside(&quote::visible_arguments(&row.arguments));
    let (tool, version) = (&row.tool, short_version(&row.tool_version));
    let only = match approval.approvers.is_empty() {
        true => String::new(),
        false => format!("\nmay be answered by: {}", quote::visible_line(&approval.approvers.join(", "))),
    };
    format!(
        "[approval wanted] {tool} (version {version})\narguments: {arguments}{requested}\nwhy: {why}{only}\n\
         (viv approvals answer {id} {how})"
    )
}

/// The card of a call that waits for nobody any more: what was asked, who answered and how, and what came of it.
pub fn card_end(row: &CallRow, approval: &Approval) -> String {
    let by =
        approval.by.as_ref().map(|by| format!(" by {}", quote::visible_line(&by.name))).unwrap_or_default();
    let state = approval.state.as_str();
    let head = if approval.question {
        format!("[question {state}{by}] {}", inside(&approval.why))
    } else {
        format!("[approval {state}{by}] {} (version {})", row.tool, short_version(&row.tool_version))
    };
    let mut lines: Vec<String> = [head].into_iter().chain(requested_by(approval)).collect();
    if !approval.question {
        lines.push(format!("arguments: {}", inside(&quote::visible_arguments(&row.arguments))));
    }
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

/// Who caused the call, as a line of a card.
fn requested_by(approval: &Approval) -> Option<String> {
    let names: Vec<&str> = approval.requested_by.iter().map(|by| by.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("requested by: {}", inside(&names.join(", "))))
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
