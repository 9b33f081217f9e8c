//! Sends targets what they are told: to each one delivery at a time, in order, again and again until it arrives or is given
//! up. A target that is down or slow holds back no other one. Must not know how a delivery is signed or sent.

use std::collections::HashSet;
use std::time::Duration;

use agent::alert::Alert;
use agent::limits;
use agent::news::{after_failure, asked_call, with_link};
use agent::port::{
    AfterFailure, FailedAttempt, FailureNoted, SendFailure, StoreError, StoredTarget, TargetDelivery,
};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Ports;
use crate::counters::Attempt;

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

/// How an attempt ended: its target, whether that had failed before, and whether the result was written.
type Ended = (String, bool, Result<(), StoreError>);

/// The attempts that are being made.
#[derive(Default)]
struct Attempts {
    running: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// Targets with an attempt.
    busy: HashSet<String>,
    /// Those of them whose last attempt failed.
    failing: usize,
}

async fn run(ports: Ports, stopping: CancellationToken) {
    let mut attempts = Attempts::default();
    loop {
        let wait = match attempts.begin(&ports).await {
            Ok(wait) => wait,
            Err(error) => {
                tracing::debug!(%error, "what is due for targets cannot be read now");
                Duration::from_millis(limits::TARGET_TICK_MS)
            }
        };
        let committed = async {
            // A busy store commits all the time.
            ports.clock.sleep(Duration::from_millis(limits::TARGET_TICK_MS)).await;
            ports.target_book.committed().await;
        };
        tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            Some(ended) = attempts.running.next() => {
                attempts.end(ended);
                // Many end at once when many do not answer.
                while let Some(Some(ended)) = attempts.running.next().now_or_never() {
                    attempts.end(ended);
                }
            }
            () = committed => {}
            () = ports.clock.sleep(wait) => {}
        }
    }
}

impl Attempts {
    /// Begins an attempt for each target that is due and has none. Those that failed have a few places among themselves:
    /// many that do not answer hold nothing that one that answers needs. Returns how long nothing else is due.
    async fn begin(&mut self, ports: &Ports) -> Result<Duration, StoreError> {
        let now = ports.clock.now();
        // Those with an attempt are due, too, until its result is written.
        let due = ports.target_book.deliveries_due(now, limits::TARGETS_MAX + self.busy.len()).await?;
        for (target, delivery) in due {
            let failed = delivery.attempts > 0;
            let has_place = !failed || self.failing < limits::TARGETS_FAILING_AT_ONCE;
            if has_place && self.busy.insert(target.name.clone()) {
                self.failing += usize::from(failed);
                self.running.push(Box::pin(attempt(ports.clone(), target, delivery)));
            }
        }
        let next = ports.target_book.next_delivery_at(now).await?;
        let until = next.map_or(u64::MAX, |at| at.duration_since(now).as_millis().max(0) as u64);
        Ok(Duration::from_millis(until.min(limits::TARGET_LOOK_MS)))
    }

    fn end(&mut self, (target, failed, written): Ended) {
        self.busy.remove(&target);
        self.failing -= usize::from(failed);
        // The delivery stays as it was, and is tried again.
        if let Err(error) = written {
            tracing::debug!(%error, "the result of a delivery was not written");
        }
    }
}

async fn attempt(ports: Ports, target: StoredTarget, mut delivery: TargetDelivery) -> Ended {
    let name = target.name.clone();
    let send = async {
        let linked = linked(&ports, &delivery.body).await;
        if let Some(body) = linked.map_err(|error| SendFailure::Failed(error.to_string()))? {
            delivery.body = body;
        }
        ports.courier.send(&target, &delivery, ports.clock.now()).await
    };
    let timeout = ports.clock.sleep(Duration::from_millis(limits::TARGET_MS));
    let sent = tokio::select! {
        biased;
        sent = send => sent,
        () = timeout => Err(SendFailure::Failed(format!("it did not answer within {} s", limits::TARGET_MS / 1000))),
    };
    let now = ports.clock.now();
    let counters = ports.live.counters();
    let written = match sent {
        Ok(()) => ports.target_book.delivery_arrived(delivery.id, now).await.map(|works_again| {
            counters.attempt(Attempt::Arrived);
            if works_again {
                // As loud as the failure that it ends.
                tracing::warn!("the target `{name}` takes deliveries again");
            }
        }),
        Err(failure) => {
            let then = after_failure(&failure, delivery.at, delivery.attempts, now);
            // It stands in one line of the log and of tables.
            let why = failure.to_string().replace("\nhint: ", "; ");
            let why: String = why.chars().take(limits::TARGET_WHY_MAX_CHARS).collect();
            let failed = FailedAttempt { why: why.clone(), then: then.clone(), at: now };
            let noted = ports.target_book.delivery_failed(target, delivery.id, failed).await;
            log_failure(&name, &why, &then, noted.as_ref().copied().unwrap_or(FailureNoted::Nothing));
            let gave_up = then == AfterFailure::Dead;
            counters.attempt(if gave_up { Attempt::GaveUp } else { Attempt::Failed });
            let alert = match &noted {
                Ok(FailureNoted::Nothing) | Err(_) => None,
                Ok(noted) => Alert::of_target(&name, None, &then, *noted == FailureNoted::Began, &why, now),
            };
            alert.iter().for_each(|alert| counters.alert(alert.alert));
            noted.map(drop)
        }
    };
    (name, delivery.attempts > 0, written)
}

/// The body with a link to the call that waits, if it tells of one. The link vouches for what the agent wrote, so it is made of the
/// call and not of what the target is told.
async fn linked(ports: &Ports, body: &str) -> Result<Option<String>, StoreError> {
    let (Some(links), Some(call)) = (&ports.links, asked_call(body)) else { return Ok(None) };
    let Some(found) = ports.approvals.asked(call).await? else { return Ok(None) };
    let Some(asked) = &found.row.approval else { return Ok(None) };
    Ok(with_link(body, links.link(&found.row.id, &asked.shown_hash(&found.row), asked.expires_at)))
}

/// The log has a line where the state of a target changes, and for each delivery that is given up: not for each attempt.
fn log_failure(name: &str, why: &str, then: &AfterFailure, noted: FailureNoted) {
    match (then, noted) {
        (_, FailureNoted::Nothing) => {
            tracing::debug!("a delivery to the target `{name}` failed, which changes nothing: {why}");
        }
        (AfterFailure::Off, _) => tracing::warn!("nothing is sent to the target `{name}` any more: {why}"),
        (AfterFailure::Dead, _) => tracing::warn!("a delivery to the target `{name}` was given up: {why}"),
        (AfterFailure::Retry(at), FailureNoted::Began) => {
            tracing::warn!(
                "deliveries to the target `{name}` fail, and are tried again, the next time at {at:.0}: {why}"
            );
        }
        (AfterFailure::Retry(at), FailureNoted::Continued) => {
            tracing::debug!("a delivery to the target `{name}` failed, and is tried again at {at:.0}: {why}");
        }
    }
}
