//! The requests that `top` sends in the background: the list of agents repeatedly, and what keys request.
//! One list at a time, in pages, so that a thousand agents cost a few requests every few seconds.

use std::sync::Arc;
use std::time::Duration;

use agent::id::AgentId;
use agent::life::Standing;
use api::{Agent, CancelRequest};
use tokio::sync::{Notify, mpsc};

use super::overview::{Overview, Request};
use crate::errors::{Failure, Result};
use client::{Client, agent_path, typed};
use client::{Past, PastItem};

/// Maximum number of agents that are shown.
const AGENTS: usize = 5_000;
/// Agents per page: the server's limit.
const PAGE: usize = 200;
/// Pause between two lists; longer for each further page.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_PER_PAGE: Duration = Duration::from_millis(500);
/// Pause between two attempts if no server answers.
const PAUSE_DOWN: Duration = Duration::from_secs(1);
const PAUSE_DOWN_MAX: Duration = Duration::from_secs(5);
/// Maximum number of recent items that are read of an opened agent.
const ITEMS_MAX: u32 = 40;
/// Maximum number of requests and answers that wait.
const QUEUE: usize = 64;

/// The answer to a request.
pub(crate) enum TopAnswer {
    /// The current list.
    Agents(Vec<Agent>),
    /// No server answers, and why.
    Down(String),
    /// The server refuses: the key is not an admin key, or another server answers.
    Refused(Failure),
    /// An agent's recent items.
    Past(AgentId, Vec<PastItem>),
    /// The result of a request, as a message.
    Message(String),
    /// An agent was suspended or resumed, with a message. The next list comes later than the next key may.
    Standing(AgentId, Standing, &'static str),
}

/// The list of all agents that are not retired, without their configs.
pub(crate) async fn agents(client: &Client) -> client::Result<Vec<Agent>> {
    let path = "/v1/agents?brief=true";
    let mut rows = client.list(path, AGENTS).await?;
    rows.retain(|row| row["standing"] != "retired");
    typed(path, rows.into())
}

/// The background tasks: requests go in, answers come out.
pub(crate) struct Requests {
    pub(crate) sender: mpsc::Sender<Request>,
    pub(crate) answers: mpsc::Receiver<TopAnswer>,
}

impl Requests {
    /// Starts the tasks.
    pub(crate) fn begin(client: Arc<Client>) -> Self {
        let (sender, received) = mpsc::channel(QUEUE);
        let (answer, answers) = mpsc::channel(QUEUE);
        let again = Arc::new(Notify::new());
        tokio::spawn(list(Arc::clone(&client), answer.clone(), Arc::clone(&again)));
        tokio::spawn(run_requests(client, received, answer, again));
        Self { sender, answers }
    }

    /// Sends a request, or shows that too many are pending.
    pub(crate) fn send(&self, overview: &mut Overview, ask: Request) {
        let asked = self.sender.try_send(ask);
        if asked.is_err() {
            overview.message = Some("too many requests; try again in a moment".to_owned());
        }
    }
}

async fn list(client: Arc<Client>, answer: mpsc::Sender<TopAnswer>, again: Arc<Notify>) {
    let mut down = PAUSE_DOWN;
    loop {
        let (result, pause) = match agents(&client).await {
            Ok(agents) => {
                down = PAUSE_DOWN;
                let pages = u32::try_from(agents.len() / PAGE).unwrap_or(u32::MAX);
                (TopAnswer::Agents(agents), PAUSE + PAUSE_PER_PAGE.saturating_mul(pages))
            }
            Err(failure) if failure.is_temporary() => {
                client.refresh();
                let pause = down;
                down = (down * 2).min(PAUSE_DOWN_MAX);
                (TopAnswer::Down(failure.message), pause)
            }
            Err(failure) => (TopAnswer::Refused(failure.into()), PAUSE_DOWN_MAX),
        };
        if answer.send(result).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = again.notified() => {}
            () = answer.closed() => return,
        }
    }
}

async fn run_requests(
    client: Arc<Client>,
    mut received: mpsc::Receiver<Request>,
    answer: mpsc::Sender<TopAnswer>,
    again: Arc<Notify>,
) {
    while let Some(ask) = received.recv().await {
        let result = match perform(&client, &ask).await {
            Ok(result) => result,
            Err(failure) if failure.code == "no_open_cycle" => {
                TopAnswer::Message("the cycle has already ended".to_owned())
            }
            Err(failure) => TopAnswer::Message(failure.message),
        };
        if !matches!(ask, Request::Open(_)) {
            again.notify_one();
        }
        if answer.send(result).await.is_err() {
            return;
        }
    }
}

async fn perform(client: &Client, ask: &Request) -> Result<TopAnswer> {
    match ask {
        Request::Cancel(agent, cycle) => {
            client.post(&agent_path(*agent, "/cancel"), &CancelRequest { cycle: *cycle }, None).await?;
            Ok(TopAnswer::Message("canceled; it ends in a moment".to_owned()))
        }
        Request::Suspend(agent) => {
            client.post_empty(&agent_path(*agent, "/suspend")).await?;
            Ok(TopAnswer::Standing(*agent, Standing::Suspended, "suspended; s resumes it"))
        }
        Request::Resume(agent) => {
            client.post_empty(&agent_path(*agent, "/resume")).await?;
            Ok(TopAnswer::Standing(*agent, Standing::Active, "resumed"))
        }
        Request::Open(agent) => {
            let path = format!("/v1/recent?agents={agent}&limit={ITEMS_MAX}");
            let recent: Past = client.get_as(&path).await?;
            Ok(TopAnswer::Past(*agent, recent.items))
        }
    }
}
