//! Saying something and waiting for what comes of it: one waiter, shared by `say` and by `chat`
//! where input is no terminal. Updates are hints; the event's state in the store is the truth.

use std::sync::Arc;
use std::time::Duration;

use agent::event::EventState;
use agent::id::{AgentId, CycleId, MessageId, SpaceId};
use agent::life::IdleReason;
use agent::run::Ending;
use agent::update::{AgentState, Update};
use jiff::Timestamp;
use serde_json::Value;
use server::api::{Agent, LoggedEvent, NewMessageJson, RunDetail};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::api::{self, Exchange};
use crate::client::Client;
use crate::errors::{Exit, Failure, Result};
use crate::sse::{self, StreamEvent};
use crate::target::{Target, agent_path};

/// How often the store is asked if no update came: updates may be lost, states not.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// How long the update that names a cycle is waited for once its end is known.
const STRAGGLER: Duration = Duration::from_millis(500);
/// How long a message is offered again to a server that does not answer.
const OFFER: Duration = Duration::from_secs(10);

/// A fresh id for a message: a UUID v7 made here, so that offering the message again is harmless.
pub(crate) fn fresh_id() -> Result<MessageId> {
    let mut random = [0u8; 10];
    getrandom::fill(&mut random).map_err(|error| {
        Failure::new(Exit::Failed, "no_randomness", format!("the system gives no randomness: {error}"))
    })?;
    let millis = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
    Ok(MessageId(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()))
}

/// Says it. A server that just restarts is asked again for a while, under the same id.
pub(crate) async fn post(client: &Client, place: &Target, id: MessageId, text: &str) -> Result<Value> {
    let body = NewMessageJson {
        text: text.to_owned(),
        sender: place.sender.clone(),
        id: Some(id.0),
        ..NewMessageJson::default()
    };
    let path = format!("/v1/spaces/{}/messages", place.space.id);
    let key = id.to_string();
    let end = Instant::now() + OFFER;
    let mut pause = Duration::from_millis(100);
    loop {
        match client.post(&path, &body, Some(&key)).await {
            Err(failure) if passing(&failure) && Instant::now() < end => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
                client.refresh();
            }
            other => return other,
        }
    }
}

/// Whether it may be gone in a moment: no answer, or the key of the server before this one.
fn passing(failure: &Failure) -> bool {
    failure.exit == Exit::Unreachable || failure.code == "key_invalid"
}

/// A watch on one agent, begun before anything is said.
pub(crate) struct AgentWatch {
    client: Arc<Client>,
    agent: AgentId,
    name: String,
    updates: mpsc::Receiver<StreamEvent>,
    /// The cycle that ended last: one that processed nothing leaves no run to ask for.
    ended: Option<(CycleId, Ending)>,
    /// What keeps the agent from living, as last heard.
    kept_back: Option<String>,
}

impl AgentWatch {
    /// Begins to watch.
    pub(crate) async fn begin(client: Arc<Client>, agent: AgentId, name: &str) -> Result<Self> {
        let updates = sse::listen(Arc::clone(&client), agent_path(agent, "/stream")).await?;
        Ok(Self { client, agent, name: name.to_owned(), updates, ended: None, kept_back: None })
    }

    /// Waits until the cycle that processed the message ends.
    pub(crate) async fn wait(
        &mut self,
        message: MessageId,
        space: SpaceId,
        most: Duration,
    ) -> Result<Exchange> {
        match tokio::time::timeout(most, self.until_processed(message, space)).await {
            Ok(exchange) => exchange,
            Err(_) => Err(self.too_late(message, most).await),
        }
    }

    async fn until_processed(&mut self, message: MessageId, space: SpaceId) -> Result<Exchange> {
        let mut ask = tokio::time::interval(ASK_AGAIN);
        loop {
            let look = tokio::select! {
                heard = self.updates.recv() => self.hear(heard)?,
                _ = ask.tick() => true,
            };
            if look {
                match self.state(message, space).await {
                    Ok(Some(exchange)) if exchange.cycle_id.is_none() => {
                        return Ok(self.name_cycle(exchange).await);
                    }
                    Ok(Some(exchange)) => return Ok(exchange),
                    Ok(None) => {}
                    // The server restarts; what was accepted is not lost.
                    Err(failure) if passing(&failure) => self.client.refresh(),
                    Err(failure) => return Err(failure),
                }
            }
        }
    }

    /// Names the cycle of an event that left no run, from the update that tells of its end; that may
    /// come a moment after the state is known, or be lost.
    async fn name_cycle(&mut self, mut exchange: Exchange) -> Exchange {
        let _ = tokio::time::timeout(STRAGGLER, async {
            while self.ended.is_none_or(|(_, ending)| ending != exchange.ending) {
                let heard = self.updates.recv().await;
                if heard.is_none() || self.hear(heard).is_err() {
                    return;
                }
            }
        })
        .await;
        exchange.cycle_id =
            self.ended.filter(|(_, ending)| *ending == exchange.ending).map(|(cycle, _)| cycle);
        exchange
    }

    /// Whether what was heard is a reason to look at the ledger.
    fn hear(&mut self, heard: Option<StreamEvent>) -> Result<bool> {
        match heard {
            Some(StreamEvent::Update(update)) => match *update {
                Update::CycleEnded { cycle, ending, .. } => {
                    self.ended = Some((cycle, ending));
                    Ok(true)
                }
                Update::State { reason, .. } => {
                    self.kept_back = reason;
                    Ok(false)
                }
                _ => Ok(false),
            },
            Some(StreamEvent::Snapshot(_)) => Ok(true),
            Some(StreamEvent::Lost | StreamEvent::Gap(_) | StreamEvent::Closed(_)) => Ok(false),
            Some(StreamEvent::Refused(failure)) => Err(failure),
            None => Err(Failure::new(Exit::Unreachable, "unreachable", "the stream of updates ended")),
        }
    }

    async fn state(&self, message: MessageId, space: SpaceId) -> Result<Option<Exchange>> {
        let event: LoggedEvent =
            self.client.get_as(&agent_path(self.agent, &format!("/events/{message}"))).await?;
        let settled = |ending, reason| {
            let exchange = Exchange {
                message_id: message,
                cycle_id: None,
                ending,
                replies: Vec::new(),
                reply: None,
                reason,
                model: None,
            };
            Ok(Some(exchange))
        };
        match event.state {
            EventState::Waiting | EventState::Held => Ok(None),
            EventState::Skipped { reason } => settled(Ending::Skipped, reason),
            EventState::Canceled { reason } => settled(Ending::Canceled, reason),
            EventState::Dead { reason } => settled(Ending::Failed, Some(reason)),
            EventState::Dropped => settled(Ending::Canceled, Some("removed by an operator".to_owned())),
            EventState::Processed { cycle, .. } => self.record(message, space, cycle).await,
        }
    }

    /// What the cycle came to; none while it goes on, since a run is written at its end.
    async fn record(&self, message: MessageId, space: SpaceId, cycle: CycleId) -> Result<Option<Exchange>> {
        let run: RunDetail = match self.client.get_as(&format!("/v1/runs/{cycle}")).await {
            Ok(run) => run,
            Err(failure) if failure.exit == Exit::NotFound => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let replies = api::replies(&run, space);
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

    async fn too_late(&self, message: MessageId, most: Duration) -> Failure {
        let card: Option<Agent> = self.client.get_as(&agent_path(self.agent, "")).await.ok();
        let rest = card.as_ref().and_then(|card| rest_of(card, self.kept_back.as_deref(), Timestamp::now()));
        let because = match (&rest, &self.kept_back) {
            (Some(rest), _) => format!(" ({rest})"),
            (None, Some(why)) => format!(" ({why})"),
            (None, None) => String::new(),
        };
        let text = format!(
            "`{}` did not finish within {} s{because}; the message `{message}` is accepted and will be processed",
            self.name,
            most.as_secs()
        );
        let hint = match rest {
            Some(_) => {
                format!("see `viv show agent {}`; `viv agents resume {0}` has it try at once", self.name)
            }
            None => format!("see `viv show inbox {}`, or wait longer with --timeout", self.name),
        };
        Failure::new(Exit::TimedOut, "timed_out", text).hint(hint)
    }
}

/// Why an agent with work is idle, in the provider's or store's own words if they are known.
pub(crate) fn why_it_is_idle(agent: &Agent) -> Option<String> {
    let class = agent.reason.clone()?;
    let reason = serde_json::from_value::<IdleReason>(Value::String(class)).ok()?;
    Some(agent.why.clone().unwrap_or_else(|| reason.in_words().to_owned()))
}

/// That the agent is idle, why, and until when; `heard` is what the last update said of it.
fn rest_of(card: &Agent, heard: Option<&str>, now: Timestamp) -> Option<String> {
    let class = card.reason.as_deref().filter(|_| card.state == AgentState::Sleeping)?;
    let known = why_it_is_idle(card);
    let why = card.why.as_deref().or(heard).or(known.as_deref()).unwrap_or(class);
    let until =
        card.not_before.filter(|at| *at > now).map(|at| format!(" until {at:.0}")).unwrap_or_default();
    Some(format!("it backs off{until}: {why}"))
}
