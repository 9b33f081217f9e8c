//! Sends targets what they are told: to each one delivery at a time, in order, again and again until it arrives or is given
//! up. A target that is down or slow holds back no other one. Must not know how a delivery is signed or sent.

use std::collections::HashSet;
use std::time::Duration;

use agent::limits;
use agent::news::{after_failure, with_link};
use agent::port::{AfterFailure, SendFailure, StoreError, StoredTarget, TargetDelivery};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Ports;

/// The task that sends; one per node.
pub struct Sender {
    task: JoinHandle<()>,
    stopping: CancellationToken,
}

impl Sender {
    /// Starts to send.
    pub fn start(ports: Ports) -> Self {
        let stopping = CancellationToken::new();
        let task = tokio::spawn(run(ports, stopping.clone()));
        Self { task, stopping }
    }

    /// Stops. An attempt in progress is dropped; if it arrived nevertheless, it arrives again with the same id.
    pub async fn stop(self) {
        self.stopping.cancel();
        let _ = self.task.await;
    }
}

/// An attempt, and the target that it belongs to.
type Attempt = BoxFuture<'static, (String, Result<(), StoreError>)>;

async fn run(ports: Ports, stopping: CancellationToken) {
    let mut attempts: FuturesUnordered<Attempt> = FuturesUnordered::new();
    let mut busy: HashSet<String> = HashSet::new();
    loop {
        if let Err(error) = begin(&ports, &mut attempts, &mut busy).await {
            tracing::debug!(%error, "what is due for targets cannot be read now");
        }
        let tick = ports.clock.sleep(Duration::from_millis(limits::TARGET_TICK_MS));
        tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            Some((target, written)) = attempts.next() => {
                busy.remove(&target);
                // The delivery stays as it was, and is tried again.
                if let Err(error) = written {
                    tracing::debug!(%error, "the result of a delivery was not written");
                }
            }
            () = tick => {}
        }
    }
}

/// Begins an attempt for each target that is due and has none, as many as may be made at once.
async fn begin(
    ports: &Ports,
    attempts: &mut FuturesUnordered<Attempt>,
    busy: &mut HashSet<String>,
) -> Result<(), StoreError> {
    let most = limits::TARGETS_AT_ONCE;
    if busy.len() >= most {
        return Ok(());
    }
    // Those with an attempt are due, too, until its result is written.
    let due = ports.target_book.deliveries_due(ports.clock.now(), most + busy.len()).await?;
    for (target, delivery) in due {
        if busy.len() < most && busy.insert(target.name.clone()) {
            attempts.push(Box::pin(attempt(ports.clone(), target, delivery)));
        }
    }
    Ok(())
}

async fn attempt(
    ports: Ports,
    target: StoredTarget,
    mut delivery: TargetDelivery,
) -> (String, Result<(), StoreError>) {
    let name = target.name.clone();
    if let Some(links) = &ports.links
        && let Some(body) = with_link(&delivery.body, |call, hash, end| links.link(call, hash, end))
    {
        delivery.body = body;
    }
    let timeout = ports.clock.sleep(Duration::from_millis(limits::TARGET_MS));
    let sent = tokio::select! {
        biased;
        sent = ports.courier.send(&target, &delivery, ports.clock.now()) => sent,
        () = timeout => Err(SendFailure::Failed(format!("it did not answer within {} s", limits::TARGET_MS / 1000))),
    };
    let written = match sent {
        Ok(()) => ports.target_book.delivery_arrived(delivery.id).await,
        Err(failure) => {
            let then = after_failure(&failure, delivery.at, delivery.attempts, ports.clock.now());
            let why: String = failure.to_string().chars().take(limits::TARGET_WHY_MAX_CHARS).collect();
            match then {
                AfterFailure::Off => tracing::warn!("nothing is sent to the target `{name}` any more: {why}"),
                AfterFailure::Dead => tracing::warn!("a delivery to the target `{name}` was given up: {why}"),
                AfterFailure::Retry(_) => tracing::debug!("a delivery to the target `{name}` failed: {why}"),
            }
            ports.target_book.delivery_failed(delivery.id, why, then).await
        }
    };
    (name, written)
}
