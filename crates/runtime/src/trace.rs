//! Spans of a cycle, its steps, model calls and tools, by the semantic conventions for generative AI.
//! Numbers, names and ids only: never text of messages or replies, nor arguments of tools.
//!
//! All spans have the target [`TARGET`], so that a subscriber can filter them together.

use agent::call::{CallRow, OutcomeStatus};
use agent::cycle::{Cycle, ModelReply};
use agent::id::AgentId;
use agent::port::{ModelError, ModelInfo, ReplyPart, StopReason};
use agent::run::Run;
use tracing::Span;
use tracing::field::Empty;

/// The target of all spans.
pub const TARGET: &str = "telemetry";

/// The open spans of an activation.
pub(crate) struct Trace {
    cycle: Span,
    step: Option<(u32, Span)>,
}

impl Trace {
    /// An activation begins.
    pub(crate) fn of(agent: AgentId, of: &Cycle) -> Self {
        Self { cycle: cycle_span(agent, of), step: None }
    }

    /// The span of the step in progress; begins it if it is new.
    pub(crate) fn step(&mut self, step: u32) -> Span {
        if self.step.as_ref().is_none_or(|(open, _)| *open != step) {
            self.step = Some((step, step_span(&self.cycle, step)));
        }
        self.step.as_ref().map_or_else(Span::none, |(_, span)| span.clone())
    }

    /// The cycle's run is written.
    pub(crate) fn ended(&self, run: &Run) {
        record_run(&self.cycle, run);
    }
}

/// The span of one activation of a cycle; `Span::none()` if nothing was due.
fn cycle_span(agent: AgentId, cycle: &Cycle) -> Span {
    let Some(info) = cycle.info() else { return Span::none() };
    tracing::info_span!(
        target: TARGET,
        "invoke_agent",
        otel.name = format!("agent-{agent}-cycle-{}", info.ordinal),
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.id = %agent,
        gen_ai.agent.name = info.name,
        gen_ai.conversation.id = %cycle.id(),
        viv.inbox.size = info.events,
        viv.window.tokens = info.window_tokens,
        viv.queue_wait_ms = info.waited_ms,
        viv.ending = Empty,
        viv.steps = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        ms_to_first_chunk = Empty,
        avg_completion_tokens_per_second = Empty,
    )
}

fn record_run(span: &Span, run: &Run) {
    span.record("viv.ending", run.ending.as_str());
    span.record("viv.steps", run.steps.len());
    span.record("gen_ai.usage.input_tokens", run.usage.input);
    span.record("gen_ai.usage.output_tokens", run.usage.output);
    span.record("ms_to_first_chunk", run.steps.first().and_then(|step| step.first_ms));
    span.record("avg_completion_tokens_per_second", run.tokens_per_second());
}

/// One step: its model call and its tools.
fn step_span(cycle: &Span, step: u32) -> Span {
    if cycle.is_none() {
        return Span::none();
    }
    tracing::info_span!(target: TARGET, parent: cycle, "step", otel.name = format!("step {step}"), viv.step = step)
}

/// One attempt to call a model.
pub(crate) fn chat(step: &Span, model: &ModelInfo, attempt: u32) -> Span {
    let (provider, name) = model.name.split_once('/').unwrap_or(("", &model.name));
    tracing::info_span!(
        target: TARGET,
        parent: step,
        "chat",
        otel.name = format!("chat {name}"),
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = name,
        viv.attempt = attempt,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.response.finish_reasons = Empty,
        ms_to_first_chunk = Empty,
        error.r#type = Empty,
    )
}

/// Records the reply to an attempt.
pub(crate) fn answered(span: &Span, model_reply: &ModelReply) {
    let usage = &model_reply.reply.usage;
    span.record("gen_ai.usage.input_tokens", usage.input);
    span.record("gen_ai.usage.output_tokens", usage.output);
    span.record("ms_to_first_chunk", model_reply.first_ms);
    let calls = model_reply.reply.parts.iter().any(|part| matches!(part, ReplyPart::Call { .. }));
    let reason = match model_reply.reply.stop {
        StopReason::End if calls => "tool_calls",
        StopReason::End => "stop",
        StopReason::Length => "length",
        StopReason::Refused(_) => "content_filter",
    };
    span.record("gen_ai.response.finish_reasons", reason);
}

/// Records the class of a failure only: a vendor's error text may quote the prompt.
pub(crate) fn failed(span: &Span, error: &ModelError) {
    span.record("error.type", error.class());
}

/// One call of a tool.
pub(crate) fn tool(step: &Span, row: &CallRow) -> Span {
    tracing::info_span!(
        target: TARGET,
        parent: step,
        "execute_tool",
        otel.name = format!("execute_tool {}", row.tool),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = row.tool,
        gen_ai.tool.call.id = %row.id,
        viv.tool.effect = row.effect.as_str(),
        viv.tool.status = Empty,
    )
}

/// Records how a call ended.
pub(crate) fn tool_done(span: &Span, status: OutcomeStatus) {
    span.record("viv.tool.status", status.as_str());
}
