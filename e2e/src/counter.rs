//! Stands for the outside world: a server on loopback that counts the effects of tools by the ticket in the arguments of
//! each call. It survives every kill of the binary, and its counts are never undone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::counted::{BY_WORKER, KILL_SERVER};
use crate::{HarnessError, Result};

/// What happened for each ticket, in order.
pub type Effects = BTreeMap<String, Vec<CountedEffect>>;

/// The longest time before an effect happens, and the longest time from the effect to the response.
const TAKES_MS: u64 = 6;

/// An effect that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedEffect {
    /// The tool.
    pub tool: String,
    /// The `Idempotency-Key`, if the call had one.
    pub key: Option<String>,
    /// How often workers had claimed the call by then; 0 if the server ran it.
    pub claims: u32,
    /// Whether a person had approved the call by then.
    pub approved: bool,
}

/// The tickets of the calls that a person has approved.
#[derive(Clone, Debug, Default)]
pub struct ApprovedTickets(Arc<Mutex<BTreeSet<String>>>);

impl ApprovedTickets {
    /// Notes a ticket, before its approval is sent.
    pub fn note(&self, ticket: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(ticket);
    }

    fn has(&self, ticket: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(ticket)
    }
}

#[derive(Clone, Debug, Default)]
struct CounterState {
    effects: Arc<watch::Sender<Effects>>,
    approved: ApprovedTickets,
}

#[derive(Debug, Deserialize)]
struct ReportedEffect {
    tool: String,
    ticket: String,
    #[serde(default)]
    claims: u32,
}

/// A running counter. Dropping it stops it.
#[derive(Debug)]
pub struct Counter {
    url: String,
    state: CounterState,
    task: JoinHandle<()>,
}

impl Counter {
    /// Starts a counter on a free loopback port.
    pub async fn start() -> Result<Self> {
        let error_of =
            |error: std::io::Error| HarnessError::new(format!("no loopback port for the counter: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(error_of)?;
        let url = format!("http://{}/effects", listener.local_addr().map_err(error_of)?);
        let state = CounterState::default();
        let router = Router::new().route("/effects", post(count)).with_state(state.clone());
        let task = tokio::spawn(async move {
            // Runs as long as the counter; an earlier error appears as refused connections.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, state, task })
    }

    /// The URL to which effects are reported.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The effects so far.
    pub fn effects(&self) -> Effects {
        self.state.effects.borrow().clone()
    }

    /// Where approvals are noted.
    pub fn approved(&self) -> &ApprovedTickets {
        &self.state.approved
    }

    /// Waits until so many more effects happened, or until the timeout. Returns whether they did.
    pub async fn wait_for_effects(&self, more: usize, timeout: Duration) -> bool {
        self.wait_for(total, more, timeout).await
    }

    /// The same for effects of workers.
    pub async fn wait_for_effects_by_workers(&self, more: usize, timeout: Duration) -> bool {
        let by_workers = |effects: &Effects| {
            let all = effects.values().flatten();
            all.filter(|effect| effect.tool.ends_with(BY_WORKER)).count()
        };
        self.wait_for(by_workers, more, timeout).await
    }

    async fn wait_for(&self, counted: impl Fn(&Effects) -> usize, more: usize, timeout: Duration) -> bool {
        let mut effects = self.state.effects.subscribe();
        let goal = counted(&effects.borrow()) + more;
        let reached = effects.wait_for(|effects| counted(effects) >= goal);
        tokio::time::timeout(timeout, reached).await.is_ok()
    }
}

/// The number of effects, including repeats.
pub fn total(effects: &Effects) -> usize {
    effects.values().map(Vec::len).sum()
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn count(
    State(CounterState { effects, approved }): State<CounterState>,
    headers: HeaderMap,
    Json(ReportedEffect { tool, ticket, claims }): Json<ReportedEffect>,
) -> StatusCode {
    // The delays give kills a chance to hit before and after the effect; they are derived from the ticket.
    let takes = ticket.bytes().map(u64::from).sum::<u64>();
    tokio::time::sleep(Duration::from_millis(takes % TAKES_MS)).await;
    let key = headers.get("idempotency-key").map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
    let answered = tool != KILL_SERVER;
    let effect = CountedEffect { approved: approved.has(&ticket), tool, key, claims };
    effects.send_modify(|effects| effects.entry(ticket).or_default().push(effect));
    if !answered {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(Duration::from_millis(takes / 7 % TAKES_MS)).await;
    StatusCode::OK
}
