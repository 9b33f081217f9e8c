//! From a reply to its decision: calls get their ids and are checked, inward ones run, and one commit writes
//! everything that the decision read and does.

use std::sync::Arc;

use jiff::Timestamp;

use super::asking::{ApprovalNeed, Source};
use super::exposure::placed_message;
use super::reply_check::{native, stored_arguments, stored_name, unusable};
use super::text_reply::TextReply;
use super::{Acting, ActivationEnd, After, At, Cycle, ModelReply, Next, Span, State, Step, names};
use crate::call::{CallRow, CallState, Effect, Outcome, OutcomeStatus, Runner};
use crate::changes::{Changes, CommitKind, EventRef, Inward, Refusal};
use crate::config::nearest;
use crate::entry::{Entry, EntryKind};
use crate::event::{Cause, Trust};
use crate::guard::WayOut;
use crate::id::{CallId, ContentRef, EventId, SpaceId};
use crate::life::{Finishing, OpenCycle, Waste};
use crate::limits;
use crate::message::{ModelMessage, Part, Role};
use crate::port::{Done, ModelError, ReplyPart, StopReason, ToolError};
use crate::repair::{RepairedCall, repair};
use crate::space::NewMessage;
use crate::tool::ToolSpec;

/// Maximum number of failed calls that the error of a refused `done` names.
const NAMED_CALLS_MAX: usize = 5;

/// One call of the current step.
#[derive(Clone, Debug)]
pub(super) struct PlannedCall {
    pub(super) row: CallRow,
    pub(super) inward: Inward,
    /// What was repaired in it.
    pub(super) repaired: Option<String>,
}

/// A decision that is not committed.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) model_reply: ModelReply,
    pub(super) calls: Vec<PlannedCall>,
    /// When inward calls ran.
    pub(super) spans: Vec<(CallId, Span)>,
    /// What becomes of its text, if it is text without a call.
    pub(super) text_reply: Option<TextReply>,
    /// Why the store refused to post that text.
    pub(super) text_refused: Option<String>,
    refusals: u32,
}

impl Decision {
    pub(super) fn inward_rows(&self) -> Vec<CallRow> {
        self.calls.iter().filter(|call| runs_inward(call)).map(|call| call.row.clone()).collect()
    }
}

impl Cycle {
    pub(super) fn decide(&mut self, mut step: Box<Step>, model_reply: ModelReply, now: Timestamp) -> State {
        if let Some(error) = unusable(&model_reply.reply, self.open.decided) {
            self.charge_discarded(&step, &model_reply.reply.usage);
            return self.failed(step, &error, now);
        }
        let calls = self.plan(&step, &model_reply, now);
        if let Some(reason) = skip_of(&calls).filter(|_| !self.open.decided && self.open.step == 0) {
            return self.skip(&mut step, reason, model_reply.reply.usage, now);
        }
        let inward = calls.iter().any(runs_inward);
        let (spans, text_reply, text_refused) = (Vec::new(), None, None);
        let decision =
            Box::new(Decision { model_reply, calls, spans, text_reply, text_refused, refusals: 0 });
        if inward { State::Inward(step, decision) } else { State::Deciding(step, decision) }
    }

    /// Gives each call its id and refuses those that cannot be run.
    fn plan(&self, step: &Step, model_reply: &ModelReply, now: Timestamp) -> Vec<PlannedCall> {
        // If the reply was cut, its last call may be incomplete.
        let cut = match model_reply.reply.stop {
            StopReason::End => None,
            StopReason::Length => Some("the output limit cut this call short; it was not executed"),
            StopReason::Refused(_) => Some("the vendor stopped the reply in this call; it was not executed"),
        };
        let parts = &model_reply.reply.parts;
        let mut verdicts = model_reply.verdicts.iter();
        let (mut planned, mut detached) = (Vec::new(), self.outside.detached);
        let (exposure, source) = (self.exposure(step), Source { step, reply: parts });
        let mut active = self.life.active_space;
        for (position, part) in parts.iter().enumerate() {
            let ReplyPart::Call { name, arguments } = part else { continue };
            let known = |name: &str| self.pinned.setup.tools.iter().any(|tool| tool.name == name);
            let RepairedCall { name, mut arguments, repaired } = repair(stored_name(name), arguments, known);
            let verdict = verdicts.next().cloned().unwrap_or(Ok(()));
            let index = planned.len();
            let spec = self.pinned.setup.tools.iter().find(|tool| tool.name == name);
            let mut need = ApprovalNeed::None;
            let refusal = if let Some(cut) = cut.filter(|_| position + 1 == parts.len()) {
                Some(cut.to_owned())
            } else if index >= limits::CALLS_PER_STEP {
                Some(format!("at most {} calls in one step; call again", limits::CALLS_PER_STEP))
            } else if arguments.len() > limits::ARGUMENTS_MAX_BYTES {
                Some(format!("the arguments must be at most {} bytes", limits::ARGUMENTS_MAX_BYTES))
            } else {
                match spec {
                    None => Some(self.unknown_tool(name)),
                    Some(spec) => step.gated(name).or(verdict.err()).or_else(|| {
                        let way_out = self.way_out(step, spec, &arguments, active);
                        if way_out == WayOut::Space
                            && exposure.is_tainted()
                            && let Some(placed) = self.placed(&arguments, active)
                        {
                            arguments = placed.into();
                        }
                        let found = self.approval_need(spec, &arguments, (exposure, way_out), source, now);
                        let found = found.and_then(|found| placed_message(found, way_out, &arguments));
                        found.map(|found| need = found).err()
                    }),
                }
            };
            let (asked, by_rule) = need.parts();
            let deferred = asked.as_ref().is_some_and(|asked| asked.deferred);
            let runs_detached = refusal.is_none() && (deferred || spec.is_some_and(runs_detached));
            let refusal = refusal.or_else(|| if runs_detached { too_many_detached(detached) } else { None });
            detached += usize::from(runs_detached);
            if refusal.is_none() && name == names::ENTER_SPACE {
                active = self.entered(&arguments);
            }
            let outcome = refusal.map(|why| Outcome::of_runtime(OutcomeStatus::Error, why));
            // What a person or a rule lets an inward tool do outside is done after the decision, and may be done again.
            let outward = asked.is_some() || by_rule.is_some();
            let effect = match spec.map_or(Effect::ReadOnly, |spec| spec.effect) {
                Effect::Inward if outward => Effect::Idempotent,
                effect => effect,
            };
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            planned.push(PlannedCall {
                row: CallRow {
                    id: CallId::derive(self.pinned.agent, self.open.id, self.open.step, index),
                    cycle: self.open.id,
                    step: self.open.step,
                    index,
                    tool: name.to_owned(),
                    arguments: stored_arguments(&arguments).to_owned(),
                    effect,
                    tool_version: spec.map(|spec| spec.version.clone()).unwrap_or_default(),
                    runner: match spec {
                        Some(spec) if spec.worker.is_some() => Runner::Worker,
                        Some(spec) if spec.name == names::ASK_PERSON => Runner::Person,
                        Some(_) | None => Runner::Node,
                    },
                    claim: None,
                    approval: asked.filter(|_| outcome.is_none()).map(|asked| asked.approval),
                    by_rule: by_rule.filter(|_| outcome.is_none()),
                    awaited: !runs_detached || outcome.is_some(),
                    state: if outcome.is_some() { CallState::Done } else { CallState::Planned },
                    outcome,
                    trust: exposure.trust,
                },
                inward: Inward::default(),
                repaired,
            });
        }
        planned
    }

    fn unknown_tool(&self, name: &str) -> String {
        let known = self.pinned.setup.tools.iter().map(|tool| tool.name.as_str());
        match nearest(name, known.clone()) {
            Some(near) => format!("there is no tool `{name}`; did you mean `{near}`?"),
            None => format!("there is no tool `{name}`; there are: {}", known.collect::<Vec<_>>().join(", ")),
        }
    }

    pub(super) fn take_results(
        &self,
        step: &Step,
        decision: &mut Decision,
        results: Vec<Result<Done, ToolError>>,
    ) {
        let mut results = results.into_iter();
        let mut sent = self.open.sent.clone();
        for call in decision.calls.iter_mut().filter(|call| runs_inward(call)) {
            let result = results.next().unwrap_or_else(|| Err(ToolError::new("the tool returned no result")));
            let (outcome, inward) = match result {
                Ok(done) => (done.outcome, done.inward),
                Err(error) => {
                    (Outcome { detail: error.operator, ..Outcome::error(error.model) }, Inward::default())
                }
            };
            let unapproved = self.unapproved(step, &inward.messages).filter(|_| !outcome.failed());
            let outcome = unapproved.map_or(outcome, |why| Outcome::of_runtime(OutcomeStatus::Error, why));
            let posted_before = inward.messages.iter().any(|message| sent.contains(&message_hash(message)));
            let outcome =
                if posted_before && !outcome.failed() { Outcome::error(ALREADY_POSTED) } else { outcome };
            call.inward = if outcome.failed() { Inward::default() } else { inward };
            sent.extend(call.inward.messages.iter().map(message_hash));
            call.row.outcome = Some(outcome);
            call.row.state = CallState::Done;
        }
    }

    pub(super) fn next_deciding(
        &mut self,
        step: Box<Step>,
        mut decision: Box<Decision>,
        now: Timestamp,
    ) -> Next {
        if self.outside.cancel {
            self.charge_discarded(&step, &decision.model_reply.reply.usage);
            return self.next_canceled(At::Step(step), now);
        }
        refuse_done(&mut decision.calls);
        let (changes, end) = self.decision_changes(&step, &mut decision, now);
        self.commit(changes, After::Decided(step, decision, end))
    }

    /// The entries that the decision appends, in order: those that the step was shown, the assistant's, the
    /// outcomes if all are known, a nudge.
    fn entries_of(&self, step: &Step, decision: &Decision, now: Timestamp) -> Vec<Entry> {
        let mut entries: Vec<Entry> = step.entries.iter().map(|entry| (**entry).clone()).collect();
        let trust = self.exposure(step).trust;
        let push = |entries: &mut Vec<Entry>, kind, message, trust| {
            let ahead = entries.len() as u64 + 1;
            entries.push(self.entry(ahead, kind, message, trust, now));
        };
        if !decision.model_reply.reply.parts.is_empty() {
            push(&mut entries, EntryKind::Assistant, assistant(decision, &self.log.window), trust);
        }
        let rows: Vec<&CallRow> = decision.calls.iter().map(|call| &call.row).collect();
        // Nothing may come between calls and their outcomes: if some are open, a nudge follows their outcomes.
        if rows.iter().any(|row| row.outcome.is_none()) {
            return entries;
        }
        if !rows.is_empty() {
            push(&mut entries, EntryKind::Outcomes, outcomes(&rows), lowest_trust(&rows));
        }
        if let Some(nudge) = self.nudge(decision) {
            push(&mut entries, EntryKind::Notice, ModelMessage::user(nudge), trust);
        }
        entries
    }

    fn decision_changes(
        &self,
        step: &Step,
        decision: &mut Decision,
        now: Timestamp,
    ) -> (Changes, Option<ActivationEnd>) {
        let mut changes = self.changes(CommitKind::Decide, now);
        let mut open = self.open.clone();
        self.process_shown(step, &mut changes, &mut open);
        decision.text_reply = self.text_reply(step, decision, &open, now);
        let decision = &*decision;
        if !open.decided && self.life.notice.is_some() {
            // A notice is shown once.
            changes.notice = Some(None);
        }
        open.decided = true;
        changes.view = self.log.narrowed_view();
        changes.entries = self.entries_of(step, decision, now);
        changes.calls = decision.calls.iter().map(|call| call.row.clone()).collect();
        for call in &decision.calls {
            open.address(call.inward.messages.iter().map(|message| message.space));
            open.sent.extend(call.inward.messages.iter().map(message_hash));
            changes.inward.extend(call.inward.clone());
        }
        if let Some(TextReply::Posted(message)) = &decision.text_reply {
            open.address([message.space]);
            changes.inward.messages.push((**message).clone());
        }
        changes.inward.active_space = changes.inward.active_space.or(self.life.entered);
        let Inward { plans, memories, goals, .. } = &changes.inward;
        if !(plans.is_empty() && memories.is_empty() && goals.is_empty()) {
            let trust = self.exposure(step).trust;
            changes.cause = Cause { root: open.root.clone(), hop: open.hop, trust };
        }
        changes.shows = self.shown(step, decision, now);
        open.peek = changes.inward.peek;
        changes.addressed = addressed_by(decision, &open.listed);
        self.count_up(step, decision, &changes.entries, &mut open);
        if self.life.failures > 0 {
            changes.failures = Some(0);
        }
        let ending = self.ending_of(decision, &open);
        if changes.calls.iter().any(|row| row.outcome.is_none()) {
            (open.attempts, open.deaths) = (0, 0);
            open.finishing = ending;
            changes.open = Some(open);
            return (changes, None);
        }
        let outcomes =
            changes.calls.iter().filter_map(|row| Some((row.tool.as_str(), row.outcome.as_ref()?)));
        finish_step(&mut open, outcomes);
        let ending = ending.or_else(|| self.exhausted(&open));
        let end = self.continue_or_close(&mut changes, open, ending, now);
        (changes, end)
    }

    /// Adds the step's tokens, usage and record.
    fn count_up(&self, step: &Step, decision: &Decision, entries: &[Entry], open: &mut OpenCycle) {
        let usage = decision.model_reply.reply.usage;
        let wrote = entries.iter().filter(|entry| entry.kind == EntryKind::Assistant);
        let generated = wrote.map(|entry| u64::from(entry.tokens)).sum();
        open.tokens = open.tokens.saturating_add(self.paid(step, &usage, generated));
        open.usage.add(&usage);
        open.steps.push(self.step_record(step, decision));
        open.vain = Waste::default();
        open.continued = decision.model_reply.reply.stop == StopReason::Length;
        if matches!(decision.text_reply, Some(TextReply::Nudged(_))) {
            open.nudges += 1;
        }
    }

    pub(super) fn continue_or_close(
        &self,
        changes: &mut Changes,
        open: OpenCycle,
        ending: Option<Finishing>,
        now: Timestamp,
    ) -> Option<ActivationEnd> {
        match ending {
            Some(finishing) => Some(self.finish(changes, &open, finishing, now)),
            None => {
                changes.open = Some(open);
                None
            }
        }
    }

    /// The decision is committed.
    pub(super) fn decided(
        &mut self,
        decision: &Decision,
        changes: Changes,
        end: Option<ActivationEnd>,
        now: Timestamp,
    ) -> State {
        if let Some(end) = end {
            return self.finish_or_cut(end, now);
        }
        self.outside.note_own(&changes.inward);
        if changes.calls.iter().all(|row| row.state == CallState::Done) {
            return State::Ready(Step::next(&self.open));
        }
        State::Acting(Acting { spans: decision.spans.clone(), ..Acting::of(changes.calls) })
    }

    /// The store refused the decision and wrote nothing: the refused calls get errors, and it is committed again.
    pub(super) fn refused(
        &mut self,
        step: Box<Step>,
        mut decision: Box<Decision>,
        refusals: &[Refusal],
        now: Timestamp,
    ) -> State {
        decision.refusals += 1;
        let too_often = decision.refusals > limits::REFUSALS_MAX;
        let mut any_refused = false;
        let source = Source { step: &step, reply: &decision.model_reply.reply.parts };
        any_refused |= self.ask_after_all(source, &mut decision.calls, refusals, now);
        for call in decision.calls.iter_mut().filter(|call| call.row.effect == Effect::Inward) {
            let refusal = refusals.iter().find(|refusal| refusal.call == call.row.id);
            if let Some(reason) = refusal.map(|refusal| refusal.reason.clone()) {
                any_refused = true;
                call.row.outcome = Some(Outcome::error(reason));
                call.inward = Inward::default();
            } else if too_often && !call.inward.is_empty() {
                call.row.outcome = Some(Outcome::error("refused too often; nothing was done"));
                call.inward = Inward::default();
            }
        }
        if let Some(TextReply::Posted(message)) = &decision.text_reply {
            let refusal = refusals.iter().find(|refusal| refusal.call.0 == message.id.to_string());
            decision.text_refused = refusal.map(|refusal| refusal.reason.clone());
            any_refused |= decision.text_refused.is_some();
        }
        if !any_refused && !too_often {
            let reason = ModelError::Invalid("the store refused a decision without naming a call".into());
            self.charge_discarded(&step, &decision.model_reply.reply.usage);
            return self.failed(step, &reason, now);
        }
        State::Deciding(step, decision)
    }
}

/// The error of a message that this cycle has already posted.
const ALREADY_POSTED: &str = "you have already posted exactly this message in this space in this cycle; it was \
                              delivered, and it was not posted again. Post something else, or call done if nothing \
                              is left to do";

/// A hash of a message's space and text.
fn message_hash(message: &NewMessage) -> String {
    hash_of_message(message.space, &message.text)
}

pub(super) fn hash_of_message(space: SpaceId, text: &str) -> String {
    ContentRef::of(format!("{space} {text}").as_bytes()).0[..16].to_owned()
}

fn too_many_detached(detached: usize) -> Option<String> {
    let most = limits::DETACHED_PER_AGENT;
    let why =
        format!("not started: {most} of your calls are pending already. Wait for the result of one of them");
    (detached >= most).then_some(why)
}

/// Ends a settled step and counts mistakes. Canceled and held-back calls neither count as mistakes nor reset the
/// count. A refused `done` is always a mistake.
pub(super) fn finish_step<'a>(open: &mut OpenCycle, outcomes: impl Iterator<Item = (&'a str, &'a Outcome)>) {
    let counted = outcomes.filter(|(_, outcome)| outcome.status != OutcomeStatus::Canceled);
    let counted: Vec<(&str, &Outcome)> = counted.collect();
    let refused_done = counted.iter().any(|(tool, outcome)| *tool == names::DONE && outcome.failed());
    let tried = !open.steps.last().is_none_or(|step| step.tools.is_empty());
    if refused_done || (!counted.is_empty() && counted.iter().all(|(_, outcome)| outcome.failed())) {
        open.mistakes += 1;
    } else if !(counted.is_empty() && tried) {
        open.mistakes = 0;
    }
    open.step += 1;
    (open.attempts, open.deaths) = (0, 0);
}

/// Refuses a `done` if another call of its step failed: the reply to the person may be what failed.
fn refuse_done(calls: &mut [PlannedCall]) {
    let outcomes = calls.iter().map(|call| (call.row.tool.as_str(), call.row.outcome.as_ref()));
    let Some(refusal) = done_refusal(outcomes) else { return };
    let done = |call: &&mut PlannedCall| call.row.tool == names::DONE && call.row.outcome.is_some();
    for call in calls.iter_mut().filter(done) {
        if !call.row.outcome.as_ref().is_some_and(Outcome::failed) {
            call.row.outcome = Some(refusal.clone());
            call.inward = Inward::default();
        }
    }
}

/// The error of a `done` if other calls of its step failed.
pub(super) fn done_refusal<'a>(
    outcomes: impl Iterator<Item = (&'a str, Option<&'a Outcome>)>,
) -> Option<Outcome> {
    let ends = |tool: &str| tool == names::DONE || tool == names::SKIP;
    let failed = outcomes.filter(|(tool, outcome)| !ends(tool) && outcome.is_some_and(Outcome::failed));
    let mut failed: Vec<String> = failed.map(|(tool, _)| format!("`{tool}`")).collect();
    failed.dedup();
    failed.truncate(NAMED_CALLS_MAX);
    let text = format!(
        "not ended: {} in the same step failed. Read why, then try again, or call done again.",
        failed.join(", ")
    );
    (!failed.is_empty()).then(|| Outcome::error(text))
}

/// Whether calls of that tool are not awaited.
fn runs_detached(spec: &ToolSpec) -> bool {
    spec.asynchronous && spec.effect != Effect::Inward
}

fn runs_inward(call: &PlannedCall) -> bool {
    call.row.effect == Effect::Inward && call.row.outcome.is_none()
}

/// The reason of a `skip` that is the only call. A `skip` with invalid arguments is valid.
fn skip_of(calls: &[PlannedCall]) -> Option<Option<String>> {
    match calls {
        [only] if only.row.tool == names::SKIP => Some(text_field(&only.row.arguments, "reason")),
        _ => None,
    }
}

/// Events that the decision's `done` names, by number or id.
fn addressed_by(decision: &Decision, listed: &[u64]) -> Vec<EventRef> {
    let valid_done = decision
        .calls
        .iter()
        .map(|call| &call.row)
        .filter(|row| row.tool == names::DONE && !row.outcome.as_ref().is_some_and(Outcome::failed));
    let named = valid_done.filter_map(|row| {
        let arguments: serde_json::Value = serde_json::from_str(&row.arguments).ok()?;
        arguments.get("addressed")?.as_array().cloned()
    });
    let by_number = |number: u64| {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        listed.get(at).copied().map(EventRef::Seq)
    };
    let event = |name: serde_json::Value| match name.as_str() {
        None => by_number(name.as_u64()?),
        Some(text) => match text.trim().parse() {
            Ok(number) => by_number(number),
            Err(_) => Some(EventRef::Id(EventId(text.trim().to_owned()))),
        },
    };
    named.flatten().take(limits::ADDRESSED_MAX).filter_map(event).collect()
}

/// A string field of raw arguments.
pub(super) fn text_field(arguments: &str, field: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(arguments).ok()?;
    Some(value.get(field)?.as_str()?.to_owned())
}

fn assistant(decision: &Decision, window: &[Arc<Entry>]) -> ModelMessage {
    let mut ids = decision.calls.iter().map(|call| call.row.id.clone());
    let parts = decision
        .model_reply
        .reply
        .parts
        .iter()
        .filter_map(|part| {
            Some(match part {
                ReplyPart::Text(text) => Part::Text { text: text.clone() },
                ReplyPart::Reasoning(text) => Part::Reasoning { text: text.clone() },
                ReplyPart::Call { name, arguments } => {
                    let arguments = stored_arguments(arguments).to_owned();
                    Part::ToolCall { id: ids.next()?, name: stored_name(name).to_owned(), arguments }
                }
            })
        })
        .collect();
    let native = native(&decision.model_reply.reply, window);
    ModelMessage { role: Role::Assistant, parts, native }
}

/// The lowest trust of these outcomes.
pub(super) fn lowest_trust(rows: &[&CallRow]) -> Trust {
    rows.iter().map(|row| row.trust_of_outcome()).min().unwrap_or_default()
}

/// The single outcomes entry of a step, in call order.
pub(super) fn outcomes(rows: &[&CallRow]) -> ModelMessage {
    let parts = rows
        .iter()
        .map(|row| {
            let mut outcome = row.outcome.clone().unwrap_or_else(|| Outcome::error("no outcome"));
            if let Some(remark) = row.remark().filter(|_| outcome.status != OutcomeStatus::Pending) {
                outcome.text = format!("{remark}\n{}", outcome.text);
            }
            Part::ToolResult {
                id: row.id.clone(),
                name: row.tool.clone(),
                text: match row.effect {
                    Effect::Inward => outcome.shown(),
                    _ => outcome.shown_of(&row.id),
                },
                error: outcome.failed(),
            }
        })
        .collect();
    ModelMessage { role: Role::Tool, parts, native: None }
}
