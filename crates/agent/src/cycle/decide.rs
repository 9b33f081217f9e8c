//! From a reply to its decision: calls are given their ids and checked, inward ones run, entries are
//! counted, and everything that the decision saw and does is one commit.

use std::sync::Arc;

use jiff::Timestamp;

use super::bad::{called, kept, native, unusable};
use super::{After, Cycle, Decision, Next, Planned, Rested, State, Thought, names};
use crate::call::{CallRow, CallState, Effect, Outcome, OutcomeStatus};
use crate::changes::{Changes, CommitKind, Inward, Named, Refusal};
use crate::config::nearest;
use crate::entry::{Entry, EntryKind, View};
use crate::id::{CallId, ContentRef, EventId};
use crate::life::{Finishing, OpenCycle};
use crate::limits;
use crate::message::{ModelMessage, Part, Role};
use crate::port::{Done, ModelError, ReplyPart, StopReason, ToolError, ToolSpec};
use crate::repair::{Meant, meant};

/// Failed calls that a `done` in vain is told of by name.
const NAMED_MAX: usize = 5;

impl Cycle {
    pub(super) fn decide(&mut self, thought: Thought, now: Timestamp) {
        if let Some(error) = unusable(&thought.reply) {
            return self.failed(&error, now);
        }
        let calls = self.plan(&thought);
        if let Some(reason) = skip_of(&calls).filter(|_| !self.open.lived && self.open.step == 0) {
            self.state = self.skip(reason, thought.reply.usage, now);
            return;
        }
        let inward = calls.iter().any(runs_inward);
        let decision =
            Box::new(Decision { thought, calls, refusals: 0, entries: Vec::new(), counted: false });
        self.state = if inward { State::Inward(decision) } else { State::Deciding(decision) };
    }

    /// Gives each call its id and finds out at once which cannot be run.
    fn plan(&self, thought: &Thought) -> Vec<Planned> {
        // Whatever broke the reply off: what stands last may be the beginning of something else.
        let cut = match thought.reply.stop {
            StopReason::End => None,
            StopReason::Length => Some("the output limit cut this call short; it was not executed"),
            StopReason::Refused(_) => Some("the vendor broke this call off; it was not executed"),
        };
        let parts = &thought.reply.parts;
        let mut verdicts = thought.verdicts.iter();
        let (mut planned, mut detached) = (Vec::new(), self.detached);
        for (place, part) in parts.iter().enumerate() {
            let ReplyPart::Call { name, arguments } = part else { continue };
            let known = |name: &str| self.setup.tools.iter().any(|tool| tool.name == name);
            let Meant { name, arguments, repaired } = meant(called(name), arguments, known);
            let verdict = verdicts.next().cloned().unwrap_or(Ok(()));
            let index = planned.len();
            let spec = self.setup.tools.iter().find(|tool| tool.name == name);
            let refusal = if let Some(cut) = cut.filter(|_| place + 1 == parts.len()) {
                Some(cut.to_owned())
            } else if index >= limits::CALLS_PER_STEP {
                Some(format!("at most {} calls in one step; call again", limits::CALLS_PER_STEP))
            } else if arguments.len() > limits::ARGUMENTS_MAX_BYTES {
                Some(format!("arguments of at most {} bytes are accepted", limits::ARGUMENTS_MAX_BYTES))
            } else {
                spec.map_or_else(|| Some(self.unknown_tool(name)), |_| self.gated(name).or(verdict.err()))
            };
            let goes_on = refusal.is_none() && spec.is_some_and(goes_on);
            let refusal = refusal.or_else(|| if goes_on { self.too_many(detached) } else { None });
            detached += usize::from(goes_on);
            let outcome = refusal.map(Outcome::error);
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            planned.push(Planned {
                row: CallRow {
                    id: CallId::derive(self.agent, self.open.id, self.open.step, index),
                    cycle: self.open.id,
                    step: self.open.step,
                    index,
                    tool: name.to_owned(),
                    arguments: kept(&arguments).to_owned(),
                    effect: spec.map_or(Effect::ReadOnly, |spec| spec.effect),
                    tool_version: spec.map(|spec| spec.version.clone()).unwrap_or_default(),
                    schema_hash: spec.map(|spec| schema_hash(&spec.schema)).unwrap_or_default(),
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

    fn too_many(&self, detached: usize) -> Option<String> {
        let most = limits::DETACHED_PER_AGENT;
        let why =
            format!("{most} of your calls are pending already; not begun. Wait for an answer of theirs");
        (detached >= most).then_some(why)
    }

    fn unknown_tool(&self, name: &str) -> String {
        let known = self.setup.tools.iter().map(|tool| tool.name.as_str());
        match nearest(name, known.clone()) {
            Some(near) => format!("there is no tool `{name}`; did you mean `{near}`?"),
            None => format!("there is no tool `{name}`; there are: {}", known.collect::<Vec<_>>().join(", ")),
        }
    }

    pub(super) fn next_inward(&mut self, decision: Box<Decision>) -> Next {
        let rows =
            decision.calls.iter().filter(|call| runs_inward(call)).map(|call| call.row.clone()).collect();
        self.state = State::Inward(decision);
        Next::Inward(rows)
    }

    pub(super) fn take_results(&self, decision: &mut Decision, results: Vec<Result<Done, ToolError>>) {
        let mut results = results.into_iter();
        for call in decision.calls.iter_mut().filter(|call| runs_inward(call)) {
            let result = results.next().unwrap_or_else(|| Err(ToolError::new("the tool gave no answer")));
            let (outcome, inward) = match result {
                Ok(done) => (done.outcome, done.inward),
                Err(error) => {
                    (Outcome { detail: error.operator, ..Outcome::error(error.model) }, Inward::default())
                }
            };
            call.inward = if outcome.failed() { Inward::default() } else { inward };
            call.row.outcome = Some(outcome);
            call.row.state = CallState::Done;
        }
    }

    pub(super) fn next_deciding(&mut self, mut decision: Box<Decision>, now: Timestamp) -> Next {
        if self.cancel {
            return self.next_canceled(now);
        }
        if !decision.counted {
            hold_done(&mut decision.calls);
            decision.entries = self.entries_of(&decision, now);
            let texts = decision.entries.iter().map(|entry| entry.message.countable()).collect();
            self.state = State::Deciding(decision);
            return Next::Count(texts);
        }
        let (changes, rested) = self.decision_changes(&decision, now);
        self.commit(changes, After::Decided(decision, rested))
    }

    /// The entries that the decision appends, in order: the inbox entry if it is the first, the
    /// assistant's, the outcomes where all of them are known, a nudge.
    fn entries_of(&self, decision: &Decision, now: Timestamp) -> Vec<Entry> {
        let mut seq = self.head_seq;
        let mut entries = Vec::new();
        let mut push = |kind, message| {
            seq += 1;
            let (cycle, step) = (self.open.id, self.open.step);
            entries.push(Entry { seq, cycle, step, kind, message, tokens: 0, at: now });
        };
        for shown in self.shown_entries() {
            push(shown.kind, shown.message.clone());
        }
        push(EntryKind::Assistant, assistant(decision, &self.window));
        let rows: Vec<&CallRow> = decision.calls.iter().map(|call| &call.row).collect();
        if !rows.is_empty() && rows.iter().all(|row| row.outcome.is_some()) {
            push(EntryKind::Outcomes, outcomes(&rows));
        }
        // Nothing may stand between calls and their outcomes: where some are open, it comes behind those.
        let open = rows.iter().any(|row| row.outcome.is_none());
        if let Some(nudge) = self.nudge(decision).filter(|_| !open) {
            push(EntryKind::Notice, ModelMessage::user(nudge));
        }
        entries
    }

    fn decision_changes(&self, decision: &Decision, now: Timestamp) -> (Changes, Option<Rested>) {
        let mut changes = self.changes(CommitKind::Decide, now);
        let mut open = self.open.clone();
        self.live_shown(&mut changes, &mut open);
        if !open.lived {
            self.begin_to_live(&mut changes, &mut open);
        }
        changes.view = self.uncut.as_ref().map(|(old, _)| View { rev: old.rev + 1, ..self.view.clone() });
        changes.entries.clone_from(&decision.entries);
        changes.calls = decision.calls.iter().map(|call| call.row.clone()).collect();
        for call in &decision.calls {
            open.addressed.extend(call.inward.says.iter().map(|say| say.space));
            changes.inward.extend(call.inward.clone());
        }
        changes.shows = self.shown(decision, now);
        open.peek = changes.inward.peek;
        changes.addressed = addressed_by(decision, &open.listed);
        self.count_up(decision, &mut open);
        if self.failures > 0 {
            changes.failures = Some(0);
        }
        open.attempts = 1;
        let ending = self.ending_of(decision, &open);
        if changes.calls.iter().any(|row| row.outcome.is_none()) {
            open.finishing = ending;
            changes.open = Some(open);
            return (changes, None);
        }
        let outcomes =
            changes.calls.iter().filter_map(|row| Some((row.tool.as_str(), row.outcome.as_ref()?)));
        self.step_over(&mut open, outcomes);
        let ending = ending.or_else(|| self.exhausted(&open));
        let rested = self.go_on_or_close(&mut changes, open, ending, now);
        (changes, rested)
    }

    /// Step 0: the cycle has begun; what was told once is told.
    fn begin_to_live(&self, changes: &mut Changes, open: &mut OpenCycle) {
        open.lived = true;
        if self.notice.is_some() {
            changes.notice = Some(None);
        }
        if self.batch_cap.is_some() && !self.suspects_left {
            changes.batch_cap = Some(None);
        }
    }

    /// Tokens, usage and the step's receipt.
    fn count_up(&self, decision: &Decision, open: &mut OpenCycle) {
        let usage = decision.thought.reply.usage;
        for entry in &decision.entries {
            let generated = if entry.kind == EntryKind::Assistant { usage.output.unwrap_or(0) } else { 0 };
            open.tokens = open.tokens.saturating_add(u64::from(entry.tokens).max(generated));
        }
        open.usage.add(&usage);
        open.steps.push(self.step_receipt(decision));
        match decision.thought.reply.stop {
            StopReason::Length => open.continued = true,
            _ => open.continued = false,
        }
        if self.nudge_wanted(decision) {
            open.nudges += 1;
        }
    }

    /// The step is settled: on to the next. What was taken back or held back is nobody's mistake, and no
    /// sign of better judgement either; a `done` in vain is one, whatever else the step did.
    pub(super) fn step_over<'a>(
        &self,
        open: &mut OpenCycle,
        outcomes: impl Iterator<Item = (&'a str, &'a Outcome)>,
    ) {
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
        open.attempts = 1;
    }

    pub(super) fn go_on_or_close(
        &self,
        changes: &mut Changes,
        open: OpenCycle,
        ending: Option<Finishing>,
        now: Timestamp,
    ) -> Option<Rested> {
        match ending {
            Some(finishing) => Some(self.finish(changes, &open, finishing, now)),
            None => {
                changes.open = Some(open);
                None
            }
        }
    }

    pub(super) fn after_decision(&mut self, rested: Option<Rested>, now: Timestamp) -> State {
        self.spans.clear();
        self.forget_shown();
        if let Some(rested) = rested {
            return self.rest_or_cut(rested, now);
        }
        if self.calls.iter().all(|row| row.state == CallState::Done) {
            self.calls.clear();
            State::Ready
        } else {
            self.running.clear();
            State::Acting
        }
    }

    /// Nothing was written: the named calls become errors and the decision is committed again.
    pub(super) fn refused(&mut self, after: After, refusals: &[Refusal], now: Timestamp) {
        let After::Decided(mut decision, _) = after else {
            // Only decisions carry what can be refused; anything else is a store that broke its
            // promise, and the safe answer is to let go.
            self.state = State::Rest(Rested::Lost);
            return;
        };
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
            return self.failed(&reason, now);
        }
        decision.counted = false;
        self.state = State::Deciding(decision);
    }
}

/// A step whose other calls failed does not end the cycle: whoever was to be answered was not.
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

fn schema_hash(schema: &serde_json::Value) -> String {
    ContentRef::of(schema.to_string().as_bytes()).0[..16].to_owned()
}

fn assistant(decision: &Decision, window: &[Arc<Entry>]) -> ModelMessage {
    let mut ids = decision.calls.iter().map(|call| call.row.id.clone());
    let parts = decision
        .thought
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
    let native = native(&decision.thought.reply, window);
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
