//! From a reply to its decision: calls are given their ids and checked, inward ones run, and everything
//! that the decision saw and does is one commit.

use std::sync::Arc;

use jiff::Timestamp;

use super::bad::{called, kept, native, unusable};
use super::{Acting, ActivationEnd, After, At, Cycle, ModelReply, Next, Span, State, Step, names};
use crate::call::{CallRow, CallState, Effect, Outcome, OutcomeStatus};
use crate::changes::{Changes, CommitKind, Inward, Named, Refusal};
use crate::config::nearest;
use crate::entry::{Entry, EntryKind};
use crate::event::Cause;
use crate::id::{CallId, ContentRef, EventId};
use crate::life::{Finishing, InVain, OpenCycle};
use crate::limits;
use crate::message::{ModelMessage, Part, Role};
use crate::port::{Done, ModelError, ReplyPart, StopReason, ToolError};
use crate::repair::{Meant, meant};
use crate::space::NewMessage;
use crate::tool::ToolSpec;

/// Failed calls that a `done` in vain is told of by name.
const NAMED_MAX: usize = 5;

/// One call of the present step.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) row: CallRow,
    pub(super) inward: Inward,
    /// What was repaired of it.
    pub(super) repaired: Option<String>,
}

/// A decision on its way to its commit.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) model_reply: ModelReply,
    pub(super) calls: Vec<Planned>,
    /// When inward calls ran.
    pub(super) spans: Vec<(CallId, Span)>,
    refusals: u32,
}

impl Decision {
    pub(super) fn inward_rows(&self) -> Vec<CallRow> {
        self.calls.iter().filter(|call| runs_inward(call)).map(|call| call.row.clone()).collect()
    }
}

impl Cycle {
    pub(super) fn decide(&mut self, mut step: Box<Step>, model_reply: ModelReply, now: Timestamp) -> State {
        if let Some(error) = unusable(&model_reply.reply) {
            self.discard(&model_reply.reply.usage);
            return self.failed(step, &error, now);
        }
        let calls = self.plan(&step, &model_reply);
        if let Some(reason) = skip_of(&calls).filter(|_| !self.open.decided && self.open.step == 0) {
            return self.skip(&mut step, reason, model_reply.reply.usage, now);
        }
        let inward = calls.iter().any(runs_inward);
        let decision = Box::new(Decision { model_reply, calls, spans: Vec::new(), refusals: 0 });
        if inward { State::Inward(step, decision) } else { State::Deciding(step, decision) }
    }

    /// Gives each call its id and finds out at once which cannot be run.
    fn plan(&self, step: &Step, model_reply: &ModelReply) -> Vec<Planned> {
        // Whatever broke the reply off: what stands last may be the beginning of something else.
        let cut = match model_reply.reply.stop {
            StopReason::End => None,
            StopReason::Length => Some("the output limit cut this call short; it was not executed"),
            StopReason::Refused(_) => Some("the vendor broke this call off; it was not executed"),
        };
        let parts = &model_reply.reply.parts;
        let mut verdicts = model_reply.verdicts.iter();
        let (mut planned, mut detached) = (Vec::new(), self.outside.detached);
        for (place, part) in parts.iter().enumerate() {
            let ReplyPart::Call { name, arguments } = part else { continue };
            let known = |name: &str| self.who.setup.tools.iter().any(|tool| tool.name == name);
            let Meant { name, arguments, repaired } = meant(called(name), arguments, known);
            let verdict = verdicts.next().cloned().unwrap_or(Ok(()));
            let index = planned.len();
            let spec = self.who.setup.tools.iter().find(|tool| tool.name == name);
            let refusal = if let Some(cut) = cut.filter(|_| place + 1 == parts.len()) {
                Some(cut.to_owned())
            } else if index >= limits::CALLS_PER_STEP {
                Some(format!("at most {} calls in one step; call again", limits::CALLS_PER_STEP))
            } else if arguments.len() > limits::ARGUMENTS_MAX_BYTES {
                Some(format!("arguments of at most {} bytes are accepted", limits::ARGUMENTS_MAX_BYTES))
            } else {
                spec.map_or_else(|| Some(self.unknown_tool(name)), |_| step.gated(name).or(verdict.err()))
            };
            let goes_on = refusal.is_none() && spec.is_some_and(goes_on);
            let refusal = refusal.or_else(|| if goes_on { too_many(detached) } else { None });
            detached += usize::from(goes_on);
            let outcome = refusal.map(Outcome::error);
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            planned.push(Planned {
                row: CallRow {
                    id: CallId::derive(self.who.agent, self.open.id, self.open.step, index),
                    cycle: self.open.id,
                    step: self.open.step,
                    index,
                    tool: name.to_owned(),
                    arguments: kept(&arguments).to_owned(),
                    effect: spec.map_or(Effect::ReadOnly, |spec| spec.effect),
                    tool_version: spec.map(|spec| spec.version.clone()).unwrap_or_default(),
                    awaited: !goes_on || outcome.is_some(),
                    state: if outcome.is_some() { CallState::Done } else { CallState::Planned },
                    outcome,
                },
                inward: Inward::default(),
                repaired,
            });
        }
        planned
    }

    fn unknown_tool(&self, name: &str) -> String {
        let known = self.who.setup.tools.iter().map(|tool| tool.name.as_str());
        match nearest(name, known.clone()) {
            Some(near) => format!("there is no tool `{name}`; did you mean `{near}`?"),
            None => format!("there is no tool `{name}`; there are: {}", known.collect::<Vec<_>>().join(", ")),
        }
    }

    pub(super) fn take_results(&self, decision: &mut Decision, results: Vec<Result<Done, ToolError>>) {
        let mut results = results.into_iter();
        let mut said = self.open.sent.clone();
        for call in decision.calls.iter_mut().filter(|call| runs_inward(call)) {
            let result = results.next().unwrap_or_else(|| Err(ToolError::new("the tool gave no answer")));
            let (outcome, inward) = match result {
                Ok(done) => (done.outcome, done.inward),
                Err(error) => {
                    (Outcome { detail: error.operator, ..Outcome::error(error.model) }, Inward::default())
                }
            };
            let again = inward.messages.iter().any(|say| said.contains(&message_hash(say)));
            let outcome = if again && !outcome.failed() { Outcome::error(SAID_BEFORE) } else { outcome };
            call.inward = if outcome.failed() { Inward::default() } else { inward };
            said.extend(call.inward.messages.iter().map(message_hash));
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
            self.discard(&decision.model_reply.reply.usage);
            return self.next_canceled(At::Step(step), now);
        }
        hold_done(&mut decision.calls);
        let (changes, rested) = self.decision_changes(&step, &decision, now);
        self.commit(changes, After::Decided(step, decision, rested))
    }

    /// The entries that the decision appends, in order: the inbox entry if it is the first, the
    /// assistant's, the outcomes where all of them are known, a nudge.
    fn entries_of(&self, step: &Step, decision: &Decision, now: Timestamp) -> Vec<Entry> {
        let mut entries: Vec<Entry> = step.entries.iter().map(|entry| (**entry).clone()).collect();
        let push = |entries: &mut Vec<Entry>, kind, message| {
            let ahead = entries.len() as u64 + 1;
            entries.push(self.entry(ahead, kind, message, now));
        };
        push(&mut entries, EntryKind::Assistant, assistant(decision, &self.log.window));
        let rows: Vec<&CallRow> = decision.calls.iter().map(|call| &call.row).collect();
        // Nothing may stand between calls and their outcomes: where some are open, a nudge comes behind those.
        if rows.iter().any(|row| row.outcome.is_none()) {
            return entries;
        }
        if !rows.is_empty() {
            push(&mut entries, EntryKind::Outcomes, outcomes(&rows));
        }
        if let Some(nudge) = self.nudge(step, decision) {
            push(&mut entries, EntryKind::Notice, ModelMessage::user(nudge));
        }
        entries
    }

    fn decision_changes(
        &self,
        step: &Step,
        decision: &Decision,
        now: Timestamp,
    ) -> (Changes, Option<ActivationEnd>) {
        let mut changes = self.changes(CommitKind::Decide, now);
        let mut open = self.open.clone();
        self.live_shown(step, &mut changes, &mut open);
        if !open.decided && self.row.notice.is_some() {
            // What was told once is told.
            changes.notice = Some(None);
        }
        open.decided = true;
        changes.view = self.log.adopted();
        changes.entries = self.entries_of(step, decision, now);
        changes.calls = decision.calls.iter().map(|call| call.row.clone()).collect();
        for call in &decision.calls {
            open.addressed.extend(call.inward.messages.iter().map(|say| say.space));
            open.sent.extend(call.inward.messages.iter().map(message_hash));
            changes.inward.extend(call.inward.clone());
        }
        if !changes.inward.plans.is_empty() {
            changes.cause = Cause { root: open.root.clone(), hop: open.hop, trust: open.trust };
        }
        changes.shows = self.shown(step, decision, now);
        open.peek = changes.inward.peek;
        changes.addressed = addressed_by(decision, &open.listed);
        self.count_up(step, decision, &changes.entries, &mut open);
        if self.row.failures > 0 {
            changes.failures = Some(0);
        }
        let ending = self.ending_of(step, decision, &open);
        if changes.calls.iter().any(|row| row.outcome.is_none()) {
            (open.attempts, open.deaths) = (0, 0);
            open.finishing = ending;
            changes.open = Some(open);
            return (changes, None);
        }
        let outcomes =
            changes.calls.iter().filter_map(|row| Some((row.tool.as_str(), row.outcome.as_ref()?)));
        step_over(&mut open, outcomes);
        let ending = ending.or_else(|| self.exhausted(&open));
        let rested = self.go_on_or_close(&mut changes, open, ending, now);
        (changes, rested)
    }

    /// Tokens, usage and the step's run.
    fn count_up(&self, step: &Step, decision: &Decision, entries: &[Entry], open: &mut OpenCycle) {
        let usage = decision.model_reply.reply.usage;
        for entry in entries {
            let generated = if entry.kind == EntryKind::Assistant { usage.output.unwrap_or(0) } else { 0 };
            open.tokens = open.tokens.saturating_add(u64::from(entry.tokens).max(generated));
        }
        open.usage.add(&usage);
        open.steps.push(self.step_record(step, decision));
        open.vain = InVain::default();
        open.continued = decision.model_reply.reply.stop == StopReason::Length;
        if self.nudge_wanted(step, decision) {
            open.nudges += 1;
        }
    }

    pub(super) fn go_on_or_close(
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
        rested: Option<ActivationEnd>,
        now: Timestamp,
    ) -> State {
        if let Some(rested) = rested {
            return self.rest_or_cut(rested, now);
        }
        if changes.calls.iter().all(|row| row.state == CallState::Done) {
            return State::Ready(Step::next(&self.open));
        }
        State::Acting(Acting { spans: decision.spans.clone(), ..Acting::of(changes.calls) })
    }

    /// Nothing was written: the named calls become errors and the decision is committed again.
    pub(super) fn refused(
        &mut self,
        step: Box<Step>,
        mut decision: Box<Decision>,
        refusals: &[Refusal],
        now: Timestamp,
    ) -> State {
        decision.refusals += 1;
        let hopeless = decision.refusals > limits::REFUSALS_MAX;
        let mut any = false;
        for call in decision.calls.iter_mut().filter(|call| call.row.effect == Effect::Inward) {
            let refusal = refusals.iter().find(|refusal| refusal.call == call.row.id);
            if let Some(reason) = refusal.map(|refusal| refusal.reason.clone()) {
                any = true;
                call.row.outcome = Some(Outcome::error(reason));
                call.inward = Inward::default();
            } else if hopeless && !call.inward.is_empty() {
                call.row.outcome = Some(Outcome::error("refused too often; nothing of it was done"));
                call.inward = Inward::default();
            }
        }
        if !any && !hopeless {
            let reason = ModelError::Invalid("the store refused a decision without naming a call".into());
            self.discard(&decision.model_reply.reply.usage);
            return self.failed(step, &reason, now);
        }
        State::Deciding(step, decision)
    }
}

/// What a model is told that says the same again.
const SAID_BEFORE: &str = "you have said exactly this in this space already, in this cycle, and it was delivered; it was \
                           not said again. Say something else, or call done if nothing is left to do";

/// A message of a cycle by its space and text.
fn message_hash(say: &NewMessage) -> String {
    ContentRef::of(format!("{} {}", say.space, say.text).as_bytes()).0[..16].to_owned()
}

fn too_many(detached: usize) -> Option<String> {
    let most = limits::DETACHED_PER_AGENT;
    let why = format!("{most} of your calls are pending already; not begun. Wait for an answer of theirs");
    (detached >= most).then_some(why)
}

/// The step is settled: on to the next. What was taken back or held back is nobody's mistake, and no
/// sign of better judgement either; a `done` in vain is one, whatever else the step did.
pub(super) fn step_over<'a>(open: &mut OpenCycle, outcomes: impl Iterator<Item = (&'a str, &'a Outcome)>) {
    let told = outcomes.filter(|(_, outcome)| outcome.status != OutcomeStatus::Canceled);
    let told: Vec<(&str, &Outcome)> = told.collect();
    let in_vain = told.iter().any(|(tool, outcome)| *tool == names::DONE && outcome.failed());
    let tried = !open.steps.last().is_none_or(|step| step.tools.is_empty());
    if in_vain || (!told.is_empty() && told.iter().all(|(_, outcome)| outcome.failed())) {
        open.mistakes += 1;
    } else if !(told.is_empty() && tried) {
        open.mistakes = 0;
    }
    open.step += 1;
    (open.attempts, open.deaths) = (0, 0);
}

/// A step whose other calls failed does not end the cycle: the person to be answered was not.
fn hold_done(calls: &mut [Planned]) {
    let outcomes = calls.iter().map(|call| (call.row.tool.as_str(), call.row.outcome.as_ref()));
    let Some(refusal) = not_done(outcomes) else { return };
    let done = |call: &&mut Planned| call.row.tool == names::DONE && call.row.outcome.is_some();
    for call in calls.iter_mut().filter(done) {
        if !call.row.outcome.as_ref().is_some_and(Outcome::failed) {
            call.row.outcome = Some(refusal.clone());
            call.inward = Inward::default();
        }
    }
}

/// What a `done` is told where other calls of its step failed.
pub(super) fn not_done<'a>(
    outcomes: impl Iterator<Item = (&'a str, Option<&'a Outcome>)>,
) -> Option<Outcome> {
    let ends = |tool: &str| tool == names::DONE || tool == names::SKIP;
    let failed = outcomes.filter(|(tool, outcome)| !ends(tool) && outcome.is_some_and(Outcome::failed));
    let mut failed: Vec<String> = failed.map(|(tool, _)| format!("`{tool}`")).collect();
    failed.dedup();
    failed.truncate(NAMED_MAX);
    let text = format!(
        "not ended: {} in the same step did not do what you asked. See why; then try again, or call done once more.",
        failed.join(", ")
    );
    (!failed.is_empty()).then(|| Outcome::error(text))
}

/// Whether nobody waits for a call of that tool.
fn goes_on(spec: &ToolSpec) -> bool {
    spec.asynchronous && spec.effect != Effect::Inward
}

fn runs_inward(call: &Planned) -> bool {
    call.row.effect == Effect::Inward && call.row.outcome.is_none()
}

/// The reason of a `skip` that is the only call. Invalid arguments do not keep anyone from skipping.
fn skip_of(calls: &[Planned]) -> Option<Option<String>> {
    match calls {
        [only] if only.row.tool == names::SKIP => Some(text_field(&only.row.arguments, "reason")),
        _ => None,
    }
}

/// Events that the decision's `done` names, by number or id.
fn addressed_by(decision: &Decision, listed: &[u64]) -> Vec<Named> {
    let ended = decision
        .calls
        .iter()
        .map(|call| &call.row)
        .filter(|row| row.tool == names::DONE && !row.outcome.as_ref().is_some_and(Outcome::failed));
    let named = ended.filter_map(|row| {
        let arguments: serde_json::Value = serde_json::from_str(&row.arguments).ok()?;
        arguments.get("addressed")?.as_array().cloned()
    });
    let by_number = |number: u64| {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        listed.get(at).copied().map(Named::Seq)
    };
    let one = |name: serde_json::Value| match name.as_str() {
        None => by_number(name.as_u64()?),
        Some(text) => match text.trim().parse() {
            Ok(number) => by_number(number),
            Err(_) => Some(Named::Id(EventId(text.trim().to_owned()))),
        },
    };
    named.flatten().take(limits::ADDRESSED_MAX).filter_map(one).collect()
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
                    let arguments = kept(arguments).to_owned();
                    Part::ToolCall { id: ids.next()?, name: called(name).to_owned(), arguments }
                }
            })
        })
        .collect();
    let native = native(&decision.model_reply.reply, window);
    ModelMessage { role: Role::Assistant, parts, native }
}

/// The single outcomes entry of a step, in call order.
pub(super) fn outcomes(rows: &[&CallRow]) -> ModelMessage {
    let parts = rows
        .iter()
        .map(|row| {
            let outcome = row.outcome.clone().unwrap_or_else(|| Outcome::error("no outcome"));
            Part::ToolResult {
                id: row.id.clone(),
                name: row.tool.clone(),
                text: outcome.shown(),
                error: outcome.failed(),
            }
        })
        .collect();
    ModelMessage { role: Role::Tool, parts, native: None }
}
