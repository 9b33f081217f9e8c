//! Serves tools: claims calls, runs them, keeps them while they run, and answers. Must not know what a tool does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agent::id::ClaimId;
use api::{
    ClaimAnswer, ClaimAnswered, ClaimLease, ClaimRenewal, ClaimedCallJson, WorkerClaim, WorkerToolJson,
};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::{ClientError, ErrorClass, Result};
use crate::exchange::fresh_id;
use crate::http::{Client, typed};

/// How long one claim waits for a call. A worker that is to stop waits for that, too.
const WAIT_MS: u64 = 5_000;
/// Longest text of an error.
const ERROR_CHARACTERS: usize = 16_000;
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long an answer is sent again while no server takes it: as long as a server waits for it.
const ANSWERING: Duration = Duration::from_secs(15 * 60);
/// A claim is renewed this often within its time.
const RENEWALS: u32 = 3;

type Running = Pin<Box<dyn Future<Output = std::result::Result<Value, String>> + Send>>;
type Run = Arc<dyn Fn(ClaimedCallJson) -> Running + Send + Sync>;

/// A program that serves tools of kind `worker`.
pub struct Worker {
    client: Arc<Client>,
    tools: Vec<(WorkerToolJson, Run)>,
    at_once: usize,
}

impl Worker {
    /// A worker that serves nothing yet. The key's scope is `worker:TOOL`, or an admin key.
    pub fn new(client: Client) -> Self {
        Self { client: Arc::new(client), tools: Vec::new(), at_once: 1 }
    }

    /// Serves a tool that is declared with this version. What `run` returns is what the agent reads: a text or any other
    /// JSON, or why it failed.
    #[must_use]
    pub fn tool<F, Fut>(mut self, name: &str, version: &str, run: F) -> Self
    where
        F: Fn(ClaimedCallJson) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = std::result::Result<Value, String>> + Send + 'static,
    {
        let tool = WorkerToolJson { name: name.to_owned(), version: version.to_owned() };
        self.tools.push((tool, Arc::new(move |call| Box::pin(run(call)))));
        self
    }

    /// Runs as many calls at once; one if this is not said.
    #[must_use]
    pub fn at_once(mut self, calls: usize) -> Self {
        self.at_once = calls.max(1);
        self
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// What the server refuses: the key, a tool that is not declared, or one that is declared with another version. A server
    /// that does not answer is waited for, and so is a tool that was declared before.
    pub async fn run(self) -> Result<()> {
        self.run_until(std::future::pending()).await
    }

    /// Serves until `stop`. Then it claims no more, and ends when the calls that it has are answered.
    ///
    /// # Errors
    /// As [`Worker::run`].
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<()> {
        let (stopping, stopped) = watch::channel(false);
        let worker = Arc::new(self);
        let mut loops = JoinSet::new();
        for _ in 0..worker.at_once {
            loops.spawn(serve(Arc::clone(&worker), stopped.clone()));
        }
        tokio::pin!(stop);
        let mut first_error = Ok(());
        loop {
            let ended = tokio::select! {
                ended = loops.join_next() => ended,
                () = &mut stop, if !*stopping.borrow() => {
                    stopping.send_replace(true);
                    continue;
                }
            };
            match ended {
                None => return first_error,
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => {
                    stopping.send_replace(true);
                    first_error = first_error.and(Err(error));
                }
                Some(Err(error)) => {
                    let why = format!("a task of the worker crashed: {error}");
                    return Err(ClientError::new(ErrorClass::Failed, "worker", why));
                }
            }
        }
    }

    /// Claims under this id; asking again after a lost answer gives the same call.
    async fn claim(&self, claim: ClaimId) -> Result<Option<ClaimedCallJson>> {
        let tools = self.tools.iter().map(|(tool, _)| tool.clone()).collect();
        let claim = WorkerClaim { tools, wait_ms: Some(WAIT_MS), claim: Some(claim) };
        let answer = self.client.post("/v1/workers/claim", &claim, None).await?;
        if answer.is_null() { Ok(None) } else { typed("/v1/workers/claim", answer).map(Some) }
    }

    /// Runs the call while its claim is renewed. It goes on if the claim is lost: then the agent was told that nobody knows,
    /// and its answer says more.
    async fn run_call(&self, call: &ClaimedCallJson) -> std::result::Result<Value, String> {
        let Some((_, run)) = self.tools.iter().find(|(tool, _)| tool.name == call.tool) else {
            return Err(format!("this worker does not serve `{}`; nothing was done", call.tool));
        };
        // A task of its own: a panic is the outcome of this call only.
        let mut running = tokio::spawn(run(call.clone()));
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = self.keep(call) => running.await,
        };
        ended.unwrap_or_else(|_| Err("the worker crashed; unknown whether it happened".to_owned()))
    }

    /// Renews the claim until it is lost.
    async fn keep(&self, call: &ClaimedCallJson) {
        let renewal = ClaimRenewal { call: call.call.clone(), claim: call.claim };
        let mut lease = Duration::from_millis(call.lease_ms);
        let mut pause = lease / RENEWALS;
        loop {
            tokio::time::sleep(pause).await;
            let renewed = self.client.post("/v1/workers/renew", &renewal, None).await;
            match renewed.and_then(|answer| typed::<ClaimLease>("/v1/workers/renew", answer)) {
                Ok(ClaimLease { lease_ms }) => lease = Duration::from_millis(lease_ms),
                Err(error) if is_over(&error) => return,
                // The call goes on: its answer counts unless another worker has it by then.
                Err(_) => self.client.refresh(),
            }
            pause = lease / RENEWALS;
        }
    }

    /// Sends the answer until it arrives, or is worth nothing.
    async fn answer(&self, call: &ClaimedCallJson, result: std::result::Result<Value, String>) -> Result<()> {
        let (output, error) = match result {
            Ok(output) => (Some(output), None),
            Err(why) => (None, Some(why.chars().take(ERROR_CHARACTERS).collect())),
        };
        let mut answer = ClaimAnswer { call: call.call.clone(), claim: call.claim, output, error };
        let (began, mut pause) = (Instant::now(), PAUSE_FIRST);
        loop {
            let sent = self.client.post("/v1/workers/finish", &answer, None).await;
            let error = match sent.and_then(|json| typed::<ClaimAnswered>("/v1/workers/finish", json)) {
                Ok(_) => return Ok(()),
                Err(error) if is_over(&error) => return Ok(()),
                Err(error) => error,
            };
            if began.elapsed() > ANSWERING {
                return Err(error);
            }
            if !may_pass(&error) {
                // Such as an output that is too large: then the agent reads that.
                if answer.output.take().is_none() {
                    return Ok(());
                }
                answer.error = Some(format!("it ran, but its output was refused: {}", error.message));
                continue;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            self.client.refresh();
        }
    }
}

/// One call after the other.
async fn serve(worker: Arc<Worker>, mut stopped: watch::Receiver<bool>) -> Result<()> {
    let mut pause = PAUSE_FIRST;
    let mut claim = fresh_claim()?;
    let mut served = false;
    while !*stopped.borrow() {
        // Not given up when the worker is to stop: the call may be on its way.
        let claimed = worker.claim(claim).await;
        if claimed.is_ok() {
            (claim, served) = (fresh_claim()?, true);
        }
        match claimed {
            Ok(None) => pause = PAUSE_FIRST,
            Ok(Some(call)) => {
                pause = PAUSE_FIRST;
                let result = worker.run_call(&call).await;
                worker.answer(&call, result).await?;
            }
            Err(error) if may_pass(&error) || (served && error.class == ErrorClass::NotFound) => {
                tokio::select! {
                    _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(PAUSE_MAX);
                worker.client.refresh();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn fresh_claim() -> Result<ClaimId> {
    Ok(ClaimId(fresh_id()?.0))
}

/// Whether the same request may succeed later.
fn may_pass(error: &ClientError) -> bool {
    error.is_temporary() || error.code == "too_many_requests"
}

/// Whether the call is not this worker's any more.
fn is_over(error: &ClientError) -> bool {
    error.code == "claim_lost" || error.class == ErrorClass::NotFound
}
