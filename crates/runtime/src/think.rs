//! One model call: with its own time-outs, streamed to watchers, retried by class of failure, and dropped as soon
//! as the cycle is canceled or news makes it obsolete.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use agent::alert::AlertKind;
use agent::changes::News;
use agent::config::AgentConfig;
use agent::cycle::{Cycle, ModelReply};
use agent::life::Lease;
use agent::limits;
use agent::port::{
    Memo, Model, ModelError, ModelRequest, Piece, Reply, ReplyPart, StoreError, TimeoutKind, Toolset,
};
use agent::prompt::Prompt;
use agent::repair::repair;
use agent::run::SentRequest;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::Ports;
use crate::breaker::{Breakers, Pass};
use crate::calibration::Calibration;
use crate::commit::raise;
use crate::draft_stream::DraftStream;
use crate::failure;
use crate::live::DelayKind;
use crate::node::{Node, PendingRequest};
use crate::permits::{Permit, Permits};
use crate::trace;

/// How a model call ended.
pub(crate) enum ModelCallEnd {
    /// A reply, or why there is none.
    Replied(Result<ModelReply, ModelError>),
    /// The generation was dropped after about that many tokens; `None` if none was running.
    Interrupted(Interrupt, Option<u64>),
}

/// Why a generation was dropped.
pub(crate) enum Interrupt {
    /// The cycle was canceled.
    Canceled(News),
    /// Something urgent arrived.
    News(News),
    /// The node is stopping, and the model took longer than the grace period.
    Stopping,
    /// The agent was suspended before the model answered.
    Suspended,
}

/// Everything that a model call needs in addition to the prompt.
pub(crate) struct ModelCall<'a> {
    pub(crate) ports: &'a Ports,
    pub(crate) breakers: &'a Breakers,
    pub(crate) calibration: &'a Calibration,
    pub(crate) permits: &'a Arc<Permits>,
    pub(crate) node: &'a Node,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) config: &'a AgentConfig,
    /// Attempts after the first one.
    pub(crate) retries: u32,
    pub(crate) tools: &'a Toolset,
    pub(crate) cycle: &'a Cycle,
    pub(crate) lease: Lease,
    pub(crate) recheck: &'a Notify,
    pub(crate) stopping: &'a CancellationToken,
    /// The step's span: the parent of the attempts.
    pub(crate) step: Span,
}

impl ModelCall<'_> {
    /// Calls the model until there is a reply, the retries are used up, or the cycle is canceled.
    pub(crate) async fn ask(
        &self,
        prompt: &Prompt,
        memo: &mut Memo,
        draft: &mut DraftStream,
    ) -> ModelCallEnd {
        let clock = &self.ports.clock;
        failpoint::poison!(format!("{prompt:?}"));
        let mut pass = match self.breakers.enter(&self.model.info().provider, self.lease.agent) {
            Ok(pass) => pass,
            Err(refused) => return ModelCallEnd::Replied(Err(refused)),
        };
        let mut attempt = 1;
        loop {
            let permit = match self.unless_interrupted(self.permit(), 0, false).await {
                Ok(permit) => permit,
                Err(interrupt) => return ModelCallEnd::Interrupted(interrupt, None),
            };
            let Some(pending) = self.node.begin(self.lease.agent) else {
                return ModelCallEnd::Interrupted(Interrupt::Suspended, None);
            };
            let (asked_at, began) = (clock.now(), clock.monotonic_ms());
            let span = trace::chat(&self.step, self.model.info(), attempt);
            let error = {
                let generation = self.generate(prompt, memo, draft, &mut pass, pending);
                let generation = generation.instrument(span.clone());
                match self.unless_interrupted(generation, limits::STEP_GRACE_MS, true).await {
                    Err(interrupt) => {
                        let tokens = draft.generated_tokens();
                        draft.withdraw();
                        return ModelCallEnd::Interrupted(interrupt, Some(tokens));
                    }
                    Ok(Ok((reply, first_ms))) => {
                        self.ports.live.counters().answered(self.model.info(), &reply.usage);
                        let model = &self.model.info().name;
                        if let Some(window) =
                            self.calibration.observe(model, prompt.tokens, reply.usage.input)
                        {
                            self.warn_of_cut(model, window);
                        }
                        let verdicts = verdicts(&reply, self.tools);
                        let model_ms = clock.monotonic_ms().saturating_sub(began);
                        let model_reply = ModelReply {
                            reply,
                            verdicts,
                            asked_at,
                            model_ms,
                            first_ms,
                            attempts: attempt,
                            sent: SentRequest::default(),
                        };
                        trace::answered(&span, &model_reply);
                        return ModelCallEnd::Replied(Ok(model_reply));
                    }
                    Ok(Err(error)) => error,
                }
            };
            drop(permit);
            trace::failed(&span, &error);
            self.ports.live.counters().failed(self.model.info(), error.class());
            draft.withdraw();
            let again = failure::retry_model(&error, attempt, self.retries, &*self.ports.ids);
            let pause = match pass.failed(&error, again) {
                Ok(pause) => pause,
                Err(error) => return ModelCallEnd::Replied(Err(error)),
            };
            tracing::info!(agent = self.ports.live.name(self.lease.agent), attempt, pause_ms = pause.as_millis(), %error, "the model is called again");
            let reason = format!("the model is called again in {} ms: {error}", pause.as_millis());
            self.ports.live.delayed(self.lease.agent, DelayKind::Retrying, reason);
            if let Err(interrupt) = self.unless_interrupted(clock.sleep(pause), 0, false).await {
                return ModelCallEnd::Interrupted(interrupt, None);
            }
            attempt += 1;
        }
    }

    /// The model's server reads only the end of what it is sent: the agent has answered without its system text and its oldest
    /// entries. From the next activation on, requests are as small as that.
    fn warn_of_cut(&self, model: &str, window: u64) {
        let (agent, cycle) = (self.lease.agent, self.cycle.id());
        let text = format!(
            "`{model}` counted {window} tokens in requests of different sizes: its server cuts what is longer, from the beginning. \
             {window} is taken as its window from now on. Set `context_window` of the model to it, or give the server a larger one"
        );
        tracing::warn!(agent = self.ports.live.name(agent), %cycle, "{text}");
        raise(&self.ports.live, agent, cycle, AlertKind::WindowCut, text);
    }

    /// What happened since the cycle last looked.
    pub(crate) async fn glance(&self) -> Result<Option<News>, StoreError> {
        self.ports.store.glance(self.lease, self.cycle.facts().known_rev()).await
    }

    /// The permit for one request; waits until one is free.
    async fn permit(&self) -> Permit {
        let (provider, agent) = (self.model.info().provider.as_str(), self.lease.agent);
        let permit = self.permits.enter(provider, agent);
        tokio::pin!(permit);
        if let Some(permit) = permit.as_mut().now_or_never() {
            return permit;
        }
        let reason = format!("waiting for a free request slot at {provider}");
        self.ports.live.delayed(agent, DelayKind::Requests, reason);
        permit.await
    }

    /// One generation under its time-outs (the model itself bounds connecting), and the milliseconds to its first
    /// piece.
    async fn generate(
        &self,
        prompt: &Prompt,
        memo: &mut Memo,
        draft: &mut DraftStream,
        pass: &mut Pass<'_>,
        pending: PendingRequest,
    ) -> Result<(Reply, Option<u64>), ModelError> {
        let mut pending = Some(pending);
        let (clock, timeouts) = (&self.ports.clock, &self.config.model_timeouts);
        let began = clock.monotonic_ms();
        let mut first = None;
        draft.begin_generation();
        let mut stream = self.model.stream(ModelRequest { prompt, memo, timeouts });
        let mut total = clock.sleep(Duration::from_millis(timeouts.total));
        let mut silence = clock.sleep(Duration::from_millis(timeouts.first_byte));
        let mut wait = TimeoutKind::FirstByte;
        let mut reset_at = clock.monotonic_ms();
        loop {
            let piece = tokio::select! {
                biased;
                piece = stream.next() => piece,
                () = &mut silence => return Err(ModelError::TimedOut(wait)),
                () = &mut total => return Err(ModelError::TimedOut(TimeoutKind::Total)),
            };
            pending.take();
            match piece {
                None => return Err(ModelError::Cut("the stream ended without an end marker".into())),
                Some(Err(error)) => return Err(error),
                Some(Ok(Piece::Done(reply))) => {
                    failpoint::hit!("stream.done");
                    pass.served();
                    return Ok((reply, first));
                }
                // A keep-alive shows nothing.
                Some(Ok(Piece::Alive)) => draft.show(&Piece::Alive),
                Some(Ok(piece)) => {
                    if first.is_none() {
                        failpoint::hit!("stream.first_byte");
                        first = Some(clock.monotonic_ms().saturating_sub(began));
                        pass.served();
                    } else {
                        failpoint::hit!("stream.middle");
                    }
                    draft.show(&piece);
                }
            }
            // Resetting the timer at each token would be expensive: it is reset now and then, and waits that much
            // longer.
            let now = clock.monotonic_ms();
            let slack = (timeouts.idle / 8).clamp(1, 1_000);
            if wait == TimeoutKind::FirstByte || now.saturating_sub(reset_at) >= slack {
                wait = TimeoutKind::Idle;
                reset_at = now;
                silence = clock.sleep(Duration::from_millis(timeouts.idle + slack));
            }
        }
    }

    /// Runs `work`. Drops it when the cycle is canceled, when the agent is suspended (if `work` `asks` the model:
    /// only before the first piece of its answer), and `grace_ms` after the node began to stop.
    async fn unless_interrupted<T>(
        &self,
        work: impl Future<Output = T>,
        grace_ms: u64,
        asks: bool,
    ) -> Result<T, Interrupt> {
        let clock = &self.ports.clock;
        let stopped = async {
            self.stopping.cancelled().await;
            clock.sleep(Duration::from_millis(grace_ms)).await;
        };
        tokio::pin!(work, stopped);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                () = &mut stopped => return Err(Interrupt::Stopping),
                () = self.recheck.notified() => {
                    if self.node.must_drop_request(self.lease.agent, asks) {
                        return Err(Interrupt::Suspended);
                    }
                    // Before the opening is committed there is no lease to glance with: its commit tells what happened.
                    let news = self.glance().await.ok().flatten();
                    match news {
                        Some(news) if news.glance.cancel => return Err(Interrupt::Canceled(news)),
                        Some(news) if self.cycle.outdated_by(&news) => {
                            return Err(Interrupt::News(news));
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

/// For each call of the reply, after repair, whether its arguments are valid.
fn verdicts(reply: &Reply, tools: &Toolset) -> Vec<Result<(), String>> {
    let calls = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Call { name, arguments } => Some((name, arguments)),
        _ => None,
    });
    calls
        .map(|(name, arguments)| {
            let call = repair(name, arguments, |name| tools.tool(name).is_some());
            tools.tool(call.name).map_or(Ok(()), |tool| tool.check(&call.arguments).map(|_| ()))
        })
        .collect()
}
