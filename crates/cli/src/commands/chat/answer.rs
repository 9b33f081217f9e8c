//! Answers to calls that wait for people, in place: of the only one that is asked in the space of the chat.

use agent::approval::AskKind;
use api::{ApprovalJson, CallAnswerJson, PageJson};
use client::{Client, segment, target::Target};
use serde_json::Value;

use crate::errors::{Exit, Failure, Result};

/// What a person says.
pub(crate) enum Reply {
    Approve,
    Refuse(String),
    Answer(String),
}

/// Answers the call that waits in the space of the chat; returns what became of it. If several do, the person might mean
/// another one than the newest.
pub(crate) async fn take(client: &Client, target: &Target, reply: Reply) -> Result<String> {
    let path = format!("/v1/approvals?space={}&limit=50", target.space.id);
    let page: PageJson<ApprovalJson> = client.get_as(&path).await?;
    let wanted = |one: &&ApprovalJson| match reply {
        Reply::Approve => one.kind == AskKind::Approval,
        Reply::Refuse(_) => true,
        Reply::Answer(_) => one.kind != AskKind::Approval,
    };
    let missing =
        || Failure::new(Exit::NotFound, "not_found", "nothing waits for such an answer here".to_owned());
    let mut found = page.items.iter().filter(wanted);
    let one = found.next().ok_or_else(missing)?;
    if found.next().is_some() {
        let hint =
            format!("viv approvals list --space {}, then viv approvals answer CALL", target.space.name);
        return Err(Failure::usage("several calls wait here; answer one by its id".to_owned()).hint(hint));
    }
    // The hash of what the card has shown: another call is not answered.
    let (hash, sender) = (Some(one.hash.clone()), target.sender.clone().filter(|_| target.admin));
    let body = CallAnswerJson { hash, sender, ..body_of(one, reply)? };
    let answered = client.post(&format!("/v1/calls/{}/answer", segment(&one.call.0)), &body, None).await?;
    let answered: ApprovalJson = client::typed("approval", answered)?;
    Ok(format!("({} of {}: {})", answered.tool, answered.agent_name, answered.state.as_str()))
}

fn body_of(one: &ApprovalJson, reply: Reply) -> Result<CallAnswerJson> {
    let verdict = |word: &str| Some(word.to_owned());
    Ok(match reply {
        Reply::Approve => CallAnswerJson { verdict: verdict("approve"), ..CallAnswerJson::default() },
        Reply::Refuse(reason) => CallAnswerJson {
            verdict: verdict("refuse"),
            reason: Some(reason).filter(|reason| !reason.is_empty()),
            ..CallAnswerJson::default()
        },
        Reply::Answer(text) => {
            let answer = match one.kind {
                AskKind::Form => serde_json::from_str(&text)
                    .map_err(|wrong| Failure::usage(format!("a form is answered in JSON: {wrong}")))?,
                _ => Value::String(text),
            };
            CallAnswerJson { answer: Some(answer), ..CallAnswerJson::default() }
        }
    })
}
