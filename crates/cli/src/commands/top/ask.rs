//! What `top` asks of the server, beside the screen: the list again and again, and what keys wish.
//! One list at a time, in pages, so that a thousand agents cost a few requests every few seconds.

use std::sync::Arc;
use std::time::Duration;

use agent::id::AgentId;
use server::api::{Agent, CancelRequest};
use tokio::sync::{Notify, mpsc};

use super::overview::{Ask, Overview};
use crate::api::{Past, Recent};
use crate::client::{Client, typed};
use crate::errors::{Failure, Result};
use crate::target::agent_path;

/// Agents that are shown at most.
const AGENTS: usize = 5_000;
/// Agents of one page: the server's bound.
const PAGE: usize = 200;
/// Between two lists; longer for each further page.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_PER_PAGE: Duration = Duration::from_millis(500);
/// Between two attempts where no server answers.
const PAUSE_DOWN: Duration = Duration::from_secs(1);
const PAUSE_DOWN_MOST: Duration = Duration::from_secs(5);
/// Things read of an opened agent.
const OPENED: u32 = 40;
/// Wishes and answers that wait.
const QUEUE: usize = 64;

/// What came of it.
pub(crate) enum TopAnswer {
    /// The list as it is now.
    Agents(Vec<Agent>),
    /// No server answers; why, in words.
    Down(String),
    /// It will not: the key is not an admin's, or the server is another.
    Refused(Failure),
    /// What an agent did last.
    Past(AgentId, Vec<Past>),
    /// A wish was done, or not; in words.
    Said(String),
}

/// The list of all agents, without their configs.
pub(crate) async fn agents(client: &Client) -> Result<Vec<Agent>> {
    let path = "/v1/agents?brief=true";
    typed(path, client.list(path, AGENTS).await?.into())
}

/// The tasks that ask: wishes go in, answers come out.
pub(crate) struct Asking {
    pub(crate) wishes: mpsc::Sender<Ask>,
    pub(crate) answers: mpsc::Receiver<TopAnswer>,
}

impl Asking {
    /// Begins to ask.
    pub(crate) fn begin(client: Arc<Client>) -> Self {
        let (wishes, wished) = mpsc::channel(QUEUE);
        let (answer, answers) = mpsc::channel(QUEUE);
        let again = Arc::new(Notify::new());
        tokio::spawn(list(Arc::clone(&client), answer.clone(), Arc::clone(&again)));
        tokio::spawn(fulfil(client, wished, answer, again));
        Self { wishes, answers }
    }

    /// Asks, or says that too much is being asked.
    pub(crate) fn ask(&self, overview: &mut Overview, ask: Ask) {
        let asked = self.wishes.try_send(ask);
        if asked.is_err() {
            overview.said = Some("too much is being asked; try again in a moment".to_owned());
        }
    }
}

async fn list(client: Arc<Client>, answer: mpsc::Sender<TopAnswer>, again: Arc<Notify>) {
    let mut down = PAUSE_DOWN;
    loop {
        let (told, pause) = match agents(&client).await {
            Ok(agents) => {
                down = PAUSE_DOWN;
                let pages = u32::try_from(agents.len() / PAGE).unwrap_or(u32::MAX);
                (TopAnswer::Agents(agents), PAUSE + PAUSE_PER_PAGE.saturating_mul(pages))
            }
            Err(failure) if passing(&failure) => {
                client.refresh();
                let pause = down;
                down = (down * 2).min(PAUSE_DOWN_MOST);
                (TopAnswer::Down(failure.message), pause)
            }
            Err(failure) => (TopAnswer::Refused(failure), PAUSE_DOWN_MOST),
        };
        if answer.send(told).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = again.notified() => {}
            () = answer.closed() => return,
        }
    }
}

/// Whether it may be gone in a moment: no answer, or the key of the server before this one.
fn passing(failure: &Failure) -> bool {
    failure.exit == crate::errors::Exit::Unreachable || failure.code == "key_invalid"
}

async fn fulfil(
    client: Arc<Client>,
    mut wished: mpsc::Receiver<Ask>,
    answer: mpsc::Sender<TopAnswer>,
    again: Arc<Notify>,
) {
    while let Some(ask) = wished.recv().await {
        let told = match wish(&client, &ask).await {
            Ok(told) => told,
            Err(failure) if failure.code == "no_open_cycle" => {
                TopAnswer::Said("it ended by itself".to_owned())
            }
            Err(failure) => TopAnswer::Said(failure.message),
        };
        if !matches!(ask, Ask::Open(_)) {
            again.notify_one();
        }
        if answer.send(told).await.is_err() {
            return;
        }
    }
}

async fn wish(client: &Client, ask: &Ask) -> Result<TopAnswer> {
    match ask {
        Ask::Cancel(agent, cycle) => {
            client.post(&agent_path(*agent, "/cancel"), &CancelRequest { cycle: *cycle }, None).await?;
            Ok(TopAnswer::Said("canceled; it ends in a moment".to_owned()))
        }
        Ask::Suspend(agent) => {
            client.post_bare(&agent_path(*agent, "/suspend")).await?;
            Ok(TopAnswer::Said("suspended; s resumes it".to_owned()))
        }
        Ask::Resume(agent) => {
            client.post_bare(&agent_path(*agent, "/resume")).await?;
            Ok(TopAnswer::Said("resumed".to_owned()))
        }
        Ask::Open(agent) => {
            let path = format!("/v1/recent?agents={agent}&limit={OPENED}");
            let recent: Recent = client.get_as(&path).await?;
            Ok(TopAnswer::Past(*agent, recent.items))
        }
    }
}
