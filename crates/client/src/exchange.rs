//! Sends a message and waits for its outcome: one implementation for `say` and for `chat` without a
//! terminal. Updates are only hints; the event's state in the store decides.

use std::sync::Arc;
use std::time::Duration;

use agent::event::EventProgress;
use agent::id::{AgentId, CycleId, MessageId, SpaceId};
use agent::life::{IdleReason, Standing};
use agent::run::Ending;
use agent::space::MessageKind;
use agent::update::{AgentState, Update};
use api::{Agent, ApprovalJson, LoggedEvent, MessageJson, NewMessageJson, PageJson, RunDetail};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::{ClientError, ErrorClass, Result};
use crate::http::{Client, agent_path};
use crate::stream::{self, StreamEvent};

/// How often the state is requested while no update arrives: updates may be lost, states cannot.
const POLL: Duration = Duration::from_secs(2);
/// How long to resend a message to a server that does not answer.
pub(crate) const RESEND: Duration = Duration::from_secs(10);

/// A new message id: a UUID v7 created here, so that resending the message is harmless.
pub fn fresh_id() -> Result<MessageId> {
    let mut random = [0u8; 10];
    getrandom::fill(&mut random).map_err(|error| {
        let message = format!("the system provides no randomness: {error}");
        ClientError::new(ErrorClass::Failed, "no_randomness", message)
    })?;
    let millis = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
    Ok(MessageId(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()))
}

/// Refuses to address an agent that is retired: nobody would read it.
///
/// # Errors
/// Code `agent_retired`, or `not_found` if there is no such agent.
pub async fn refuse_retired(client: &Client, agent: &str) -> Result<()> {
    let found = client.agent(agent).await?;
    if found.standing != Standing::Retired {
        return Ok(());
    }
    let message = format!("the agent `{}` is retired", found.handle);
    Err(ClientError::new(ErrorClass::Refused, "agent_retired", message))
}

/// Posts a message. If the server is restarting, retries for a while under the same id. `sender` is a handle or id,
/// needed with an admin key only.
pub async fn post(
    client: &Client,
    space: SpaceId,
    sender: Option<&str>,
    id: MessageId,
    text: &str,
) -> Result<Value> {
    let end = Instant::now() + RESEND;
    let mut pause = Duration::from_millis(100);
    loop {
        match post_once(client, space, sender, id, text).await {
            Err(error) if error.is_temporary() && Instant::now() < end => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
                client.refresh();
            }
            other => return other,
        }
    }
}

pub(crate) async fn post_once(
    client: &Client,
    space: SpaceId,
    sender: Option<&str>,
    id: MessageId,
    text: &str,
) -> Result<Value> {
    let body = NewMessageJson {
        text: text.to_owned(),
        sender: sender.map(str::to_owned),
        id: Some(id.0),
        ..NewMessageJson::default()
    };
    client.post(&format!("/v1/spaces/{space}/messages"), &body, Some(&id.to_string())).await
}

/// A message posted in reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PostedReply {
    /// The message.
    pub id: MessageId,
    /// Its text.
    pub text: String,
}

/// The outcome of a message that was waited for. Scripts rely on the names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exchange {
    /// The message that was sent.
    pub message_id: MessageId,
    /// The cycle that processed it, which has a run; `None` if none did: it was skipped, canceled or is dead.
    pub cycle_id: Option<CycleId>,
    /// How the cycle ended.
    pub ending: Ending,
    /// The messages it posted in the same space.
    pub replies: Vec<PostedReply>,
    /// The last reply's text.
    pub reply: Option<String>,
    /// Why it ended this way; left out if nothing says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The model that answered, for people.
    #[serde(skip)]
    pub model: Option<String>,
}

/// The outcome of an event that no cycle processed; `None` while it may still be processed. The cycle that tried it, if
/// any, has no run.
fn without_run(message: MessageId, progress: EventProgress, reason: Option<String>) -> Option<Exchange> {
    let (ending, reason) = match progress {
        EventProgress::Waiting
        | EventProgress::Taken
        | EventProgress::Held
        | EventProgress::Shown
        | EventProgress::Addressed
        | EventProgress::Read => return None,
        EventProgress::Skipped => (Ending::Skipped, reason),
        EventProgress::Canceled => (Ending::Canceled, reason),
        EventProgress::Dead => (Ending::Failed, reason),
        EventProgress::Dropped => (Ending::Canceled, Some("removed by an operator".to_owned())),
    };
    Some(Exchange {
        message_id: message,
        cycle_id: None,
        ending,
        replies: Vec::new(),
        reply: None,
        reason,
        model: None,
    })
}

/// What a message that was waited for came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Waited {
    /// The cycle that processed it ended, or none will.
    Ended(Exchange),
    /// Its agent is paused until a person answers these calls, the newest first.
    ForPerson(Vec<ApprovalJson>),
}

/// A watch on one agent, started before a message is posted.
pub struct AgentWatch {
    client: Arc<Client>,
    agent: AgentId,
    name: String,
    updates: mpsc::Receiver<StreamEvent>,
    /// Why the agent is idle, from the last update.
    idle_reason: Option<String>,
}

impl AgentWatch {
    /// Starts to watch.
    ///
    /// # Errors
    /// Code `agent_retired` if it never runs again.
    pub async fn begin(client: Arc<Client>, agent: AgentId, name: &str) -> Result<Self> {
        refuse_retired(&client, &agent.to_string()).await?;
        let updates = stream::listen(Arc::clone(&client), agent_path(agent, "/stream")).await?;
        Ok(Self { client, agent, name: name.to_owned(), updates, idle_reason: None })
    }

    /// Waits until the cycle that processed the message ends.
    pub async fn wait(&mut self, message: MessageId, space: SpaceId, limit: Duration) -> Result<Exchange> {
        match tokio::time::timeout(limit, self.until(message, space, false)).await {
            Ok(Ok(Waited::Ended(exchange))) => Ok(exchange),
            Ok(Err(error)) => Err(error),
            Ok(Ok(Waited::ForPerson(_))) | Err(_) => Err(self.timed_out(message, limit).await),
        }
    }

    /// As [`AgentWatch::wait`], but returns at once if the agent waits for a person.
    pub async fn wait_unless_paused(
        &mut self,
        message: MessageId,
        space: SpaceId,
        limit: Duration,
    ) -> Result<Waited> {
        match tokio::time::timeout(limit, self.until(message, space, true)).await {
            Ok(waited) => waited,
            Err(_) => Err(self.timed_out(message, limit).await),
        }
    }

    async fn until(&mut self, message: MessageId, space: SpaceId, or_paused: bool) -> Result<Waited> {
        let mut ask = tokio::time::interval(POLL);
        loop {
            let check = tokio::select! {
                received = self.updates.recv() => self.handle(received)?,
                _ = ask.tick() => true,
            };
            if check {
                match self.state(message, space).await {
                    Ok(Some(exchange)) => return Ok(Waited::Ended(exchange)),
                    Ok(None) if or_paused => {
                        let calls = self.asked().await?;
                        if !calls.is_empty() {
                            return Ok(Waited::ForPerson(calls));
                        }
                    }
                    Ok(None) => {}
                    // The server is restarting; accepted events are not lost.
                    Err(error) if error.is_temporary() => self.client.refresh(),
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Handles one item of the stream; returns whether to request the event's state.
    fn handle(&mut self, received: Option<StreamEvent>) -> Result<bool> {
        match received {
            Some(StreamEvent::Update(update)) => {
                let mut changed = matches!(*update, Update::CycleEnded { .. });
                if let Update::State { state, reason, .. } = *update {
                    changed |= state == AgentState::Paused;
                    self.idle_reason = reason;
                }
                Ok(changed)
            }
            Some(StreamEvent::Snapshot(_)) => Ok(true),
            Some(StreamEvent::Lost | StreamEvent::Gap(_) | StreamEvent::Closed(_)) => Ok(false),
            Some(StreamEvent::Refused(error)) => Err(error),
            None => {
                Err(ClientError::new(ErrorClass::Unreachable, "unreachable", "the stream of updates ended"))
            }
        }
    }

    async fn state(&self, message: MessageId, space: SpaceId) -> Result<Option<Exchange>> {
        let event: LoggedEvent =
            self.client.get_as(&agent_path(self.agent, &format!("/events/{message}"))).await?;
        let cycle = match (event.progress, event.cycle) {
            (EventProgress::Shown | EventProgress::Addressed | EventProgress::Read, Some(cycle)) => cycle,
            (other, _) => return Ok(without_run(message, other, event.reason)),
        };
        let run: RunDetail = match self.client.get_as(&format!("/v1/runs/{cycle}")).await {
            Ok(run) => run,
            // A run is written at the end of its cycle.
            Err(error) if error.class == ErrorClass::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let texts = run.messages.into_iter();
        let texts = texts.filter(|message| message.space == space && message.kind == MessageKind::Text);
        let replies: Vec<_> = texts.map(|MessageJson { id, text, .. }| PostedReply { id, text }).collect();
        Ok(Some(Exchange {
            message_id: message,
            cycle_id: Some(cycle),
            ending: run.run.ending,
            reply: replies.last().map(|reply| reply.text.clone()),
            replies,
            reason: run.run.reason,
            model: Some(run.run.model),
        }))
    }

    /// The calls for which the agent is paused; none if it is not, or if the server cannot be asked just now.
    async fn asked(&self) -> Result<Vec<ApprovalJson>> {
        let asked = async {
            let agent: Agent = self.client.get_as(&agent_path(self.agent, "")).await?;
            // One for which something waits is about to go on.
            if agent.state != AgentState::Paused || agent.waiting > 0 {
                return Ok(Vec::new());
            }
            let path = format!("/v1/approvals?agent={}", self.agent);
            let page: PageJson<ApprovalJson> = self.client.get_as(&path).await?;
            Ok(page.items)
        };
        match asked.await {
            Err(error @ ClientError { .. }) if error.is_temporary() => Ok(Vec::new()),
            asked => asked,
        }
    }

    async fn timed_out(&self, message: MessageId, limit: Duration) -> ClientError {
        let agent: Option<Agent> = self.client.get_as(&agent_path(self.agent, "")).await.ok();
        let rest =
            agent.as_ref().and_then(|agent| idle_text(agent, self.idle_reason.as_deref(), Timestamp::now()));
        let details = rest.as_ref().or(self.idle_reason.as_ref());
        let details = details.map(|why| format!(" ({why})")).unwrap_or_default();
        let text = format!(
            "`{}` did not finish within {} s{details}; the message `{message}` is accepted and will be processed",
            self.name,
            limit.as_secs()
        );
        let hint = match rest {
            _ if agent.as_ref().is_some_and(|agent| agent.standing == Standing::Suspended) => {
                format!("`viv agents resume {}` makes it run again", self.name)
            }
            _ if agent.is_some_and(|agent| agent.state == AgentState::Paused) => {
                format!("`viv approvals --agent {}` shows what it waits for", self.name)
            }
            Some(_) => {
                format!("see `viv agents show {}`; `viv agents resume {0}` makes it retry at once", self.name)
            }
            None => format!("see `viv events list {}`, or wait longer with --timeout", self.name),
        };
        ClientError::new(ErrorClass::TimedOut, "timed_out", text).hint(hint)
    }
}

/// Why an agent with work is idle, in the provider's or store's own message if there is one.
pub fn why_it_is_idle(agent: &Agent) -> Option<String> {
    let class = agent.reason.clone()?;
    let reason = serde_json::from_value::<IdleReason>(Value::String(class)).ok()?;
    Some(agent.why.clone().unwrap_or_else(|| reason.description().to_owned()))
}

/// That the agent is idle, why, and until when; `last_update` is the reason in the last update.
fn idle_text(agent: &Agent, last_update: Option<&str>, now: Timestamp) -> Option<String> {
    if agent.state == AgentState::Paused {
        return Some("it waits for a person".to_owned());
    }
    let class = agent.reason.as_deref().filter(|_| agent.state == AgentState::Sleeping)?;
    if class == "suspended" {
        return Some("it is suspended".to_owned());
    }
    let known = why_it_is_idle(agent);
    let why = agent.why.as_deref().or(last_update).or(known.as_deref()).unwrap_or(class);
    let until =
        agent.not_before.filter(|at| *at > now).map(|at| format!(" until {at:.0}")).unwrap_or_default();
    let how = if class == "debounce" { "it gathers what arrives" } else { "it is backing off" };
    Some(format!("{how}{until}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_died_before_a_cycle_names_no_cycle_and_says_why() {
        let id = MessageId(uuid::Uuid::from_u128(1));
        let dead = without_run(id, EventProgress::Dead, Some("it broke the model".into())).unwrap();
        let json = serde_json::to_value(&dead).unwrap();
        assert_eq!(json["cycle_id"], Value::Null);
        assert_eq!((&json["ending"], &json["reason"]), (&"failed".into(), &"it broke the model".into()));
        assert_eq!(without_run(id, EventProgress::Waiting, None), None);
    }
}
