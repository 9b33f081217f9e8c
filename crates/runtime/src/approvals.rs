//! Answers of people: checked against the call that they are for, and then given to the store, where only the first one
//! counts. Must not know how an answer arrives.

use agent::approval::{self, AnswerRefused, Approval, PersonVerdict, Remember};
use agent::call::{CallRow, CallState};
use agent::config::AgentConfig;
use agent::guard::GuardMode;
use agent::limits;
use agent::port::{AskedCall, PersonAnswer, PersonAnswered, StoreError, has_tool};
use agent::quote;
use jiff::{SignedDuration, Timestamp};

use crate::Ports;
use crate::node::Node;

/// Why an answer is not taken. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// There is no such call.
    #[error("no call has the id `{0}`")]
    Unknown(agent::id::CallId),
    /// The answer is not one to this call, or comes too late.
    #[error(transparent)]
    Refused(#[from] AnswerRefused),
    /// The answer does not fit.
    #[error("{0}")]
    Unfit(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Takes an answer to a call, and lets its agent go on. `asked` is the call as it was read just before.
pub async fn answer(
    ports: &Ports,
    node: &Node,
    asked: &AskedCall,
    answer: PersonAnswer,
) -> Result<AskedCall, AnswerError> {
    let id = answer.id.clone();
    let AskedCall { agent, row } = asked;
    let agent = *agent;
    if let Some(wanted) = row.approval.as_deref().filter(|wanted| wanted.is_wanted()) {
        // The guard's mind can have changed since the call was made, and which tools the agent has.
        let card = match !wanted.question && matches!(answer.verdict, PersonVerdict::Approve { .. }) {
            true => ports.reader.agent(agent).await?,
            false => None,
        };
        let config = card.as_ref().map(|card| &*card.config);
        check(ports, row, wanted, config, &answer)?;
    }
    let (asked, notifications) = match ports.approvals.answer(answer).await? {
        PersonAnswered::Taken(asked, notifications) => (*asked, notifications),
        PersonAnswered::Refused(why) => return Err(why.into()),
        PersonAnswered::Unknown => return Err(AnswerError::Unknown(id)),
    };
    failpoint::hit!("answer.committed");
    if asked.row.state == CallState::Done {
        node.answered(agent, id, notifications);
    } else {
        node.granted(agent, notifications);
    }
    // The keeper goes first: its agent waits, and the caller has its answer soon enough.
    tokio::task::yield_now().await;
    Ok(asked)
}

/// What only a running server can check: the tool as it is now, its schema, the schema of a form.
fn check(
    ports: &Ports,
    row: &CallRow,
    wanted: &Approval,
    config: Option<&AgentConfig>,
    answer: &PersonAnswer,
) -> Result<(), AnswerError> {
    let most = limits::APPROVAL_TEXT_MAX_BYTES;
    if answer.reason.as_ref().is_some_and(|reason| reason.len() > most) {
        return Err(AnswerError::Unfit(format!("wanted a reason of at most {most} bytes")));
    }
    match &answer.verdict {
        PersonVerdict::Refuse => Ok(()),
        PersonVerdict::Answer(given) => {
            let fits = |schema: &_, value: &_| ports.toolbox.fits(schema, value);
            if !wanted.question {
                return Err(AnswerError::Unfit(approval::wanted_answer(wanted)));
            }
            approval::check_answer(wanted, given, fits).map_err(AnswerError::Unfit)
        }
        PersonVerdict::Approve { arguments, remember } if !wanted.question => {
            let tool = ports.toolbox.tool(&row.tool);
            let same = tool.filter(|tool| tool.spec().version == row.tool_version);
            let tool = same.ok_or(AnswerRefused::Changed)?;
            if config.is_some_and(|config| !has_tool(&*ports.toolbox, config, &row.tool)) {
                return Err(AnswerRefused::ToolGone(row.tool.clone()).into());
            }
            if wanted.tainted && config.is_some_and(|config| config.guard == GuardMode::Strict) {
                let why = "the agent's guard is `strict` now, which refuses this call; refuse it, or change the guard";
                return Err(AnswerError::Unfit(why.to_owned()));
            }
            if let Some(arguments) = arguments {
                let most = limits::APPROVAL_ARGUMENTS_MAX_BYTES;
                if quote::visible_arguments(arguments).len() > most {
                    return Err(AnswerError::Unfit(format!("wanted arguments of at most {most} bytes")));
                }
                tool.check(arguments).map_err(AnswerError::Unfit)?;
            }
            remember.map_or(Ok(()), |remember| check_rule(remember, answer.at))
        }
        PersonVerdict::Approve { .. } => Ok(()),
    }
}

fn check_rule(remember: Remember, now: Timestamp) -> Result<(), AnswerError> {
    let longest = SignedDuration::from_millis(limits::APPROVAL_RULE_MAX_MS.cast_signed());
    let last = now.checked_add(longest).unwrap_or(now);
    if remember.until > now && remember.until <= last {
        return Ok(());
    }
    Err(AnswerError::Unfit("`remember_until`: wanted a time in the future, within a year".to_owned()))
}
