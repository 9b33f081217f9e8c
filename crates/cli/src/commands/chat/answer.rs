//! Answers to calls that wait for people, in place: of exactly the card that was shown.

use agent::approval::AskKind;
use api::{ApprovalJson, CallAnswerJson, PageJson};
use client::{Client, segment, target::Target};
use serde_json::Value;

use super::cards::{Card, Reply};
use crate::errors::{Failure, Result};

/// The calls that wait in the space of the chat, the oldest first.
pub(crate) async fn waiting(client: &Client, target: &Target) -> Result<Vec<ApprovalJson>> {
    let path = format!("/v1/approvals?space={}&limit=50", target.space.id);
    let mut page: PageJson<ApprovalJson> = client.get_as(&path).await?;
    page.items.reverse();
    Ok(page.items)
}

/// Answers the call of a card; returns what became of it. If that is over, or another call now, nothing is answered.
pub(crate) async fn take(client: &Client, target: &Target, card: Card, reply: Reply) -> Result<String> {
    let sender = target.sender.clone().filter(|_| target.admin);
    let body = CallAnswerJson { hash: Some(card.hash), sender, ..body_of(card.kind, reply)? };
    let answered = client.post(&format!("/v1/approvals/{}/answer", segment(&card.call.0)), &body, None).await;
    let answered: ApprovalJson = client::typed("approval", answered.map_err(nothing_answered)?)?;
    Ok(format!("({} of {}: {})", answered.tool, answered.agent_handle, answered.state.as_str()))
}

fn nothing_answered(error: client::ClientError) -> Failure {
    let failure = Failure::from(error);
    Failure { message: format!("nothing was answered: {}", failure.message), ..failure }
}

fn body_of(kind: AskKind, reply: Reply) -> Result<CallAnswerJson> {
    let verdict = |word: &str| Some(word.to_owned());
    Ok(match reply {
        Reply::Approve => CallAnswerJson { verdict: verdict("approve"), ..CallAnswerJson::default() },
        Reply::Refuse(reason) => CallAnswerJson {
            verdict: verdict("refuse"),
            reason: Some(reason).filter(|reason| !reason.is_empty()),
            ..CallAnswerJson::default()
        },
        Reply::Answer(text) => {
            let answer = match kind {
                AskKind::Form => serde_json::from_str(&text)
                    .map_err(|wrong| Failure::usage(format!("a form is answered in JSON: {wrong}")))?,
                _ => Value::String(text),
            };
            CallAnswerJson { answer: Some(answer), ..CallAnswerJson::default() }
        }
    })
}
