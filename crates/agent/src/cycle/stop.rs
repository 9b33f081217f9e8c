//! When a cycle ends: by its decision, or at a limit.

use super::decide::{Decision, text_field};
use super::text_reply::TextReply;
use super::{Cycle, names};
use crate::call::{CallRow, Outcome};
use crate::life::{Finishing, OpenCycle};
use crate::port::StopReason;
use crate::run::Ending;

/// The notice to an agent whose reply was cut by the output limit.
pub(super) const CUT: &str = "[NOTICE] The output limit cut your reply. Go on, more briefly.";

impl Cycle {
    /// The ending that the decision brings, whatever the outcomes of its outward calls are.
    pub(super) fn ending_of(&self, decision: &Decision, open: &OpenCycle) -> Option<Finishing> {
        let completed = |summary, reason: Option<&str>| {
            let reason = reason.map(str::to_owned);
            Some(Finishing { ending: Ending::Completed, summary, reason })
        };
        let ending_call = decision.calls.iter().find(|call| {
            let row = &call.row;
            let valid = !row.outcome.as_ref().is_some_and(Outcome::failed);
            valid && (row.tool == names::DONE || row.tool == names::SKIP)
        });
        if let Some(call) = ending_call {
            return completed(text_field(&call.row.arguments, "summary"), None);
        }
        let stop = &self.pinned.config.stop;
        let failed = |row: &CallRow| row.outcome.as_ref().is_some_and(Outcome::failed);
        let wanted = |row: &CallRow| stop.on_tools.contains(&row.tool) && !failed(row);
        if let Some(call) = decision.calls.iter().find(|call| wanted(&call.row)) {
            return completed(None, Some(&format!("`{}` was called", call.row.tool)));
        }
        if decision.model_reply.reply.stop == StopReason::Length {
            return self.open.continued.then(|| exhausted("the output limit cut the reply twice"));
        }
        if let StopReason::Refused(why) = &decision.model_reply.reply.stop
            && decision.calls.is_empty()
        {
            return completed(None, Some(&format!("the model refused to go on: {why}")));
        }
        match &decision.text_reply {
            Some(TextReply::Posted(_)) => return completed(None, None),
            Some(TextReply::Private(why)) => return completed(None, why.as_deref()),
            Some(TextReply::Nudged(_)) | None => {}
        }
        if stop.all_addressed && all_addressed(open) {
            return completed(None, Some("all addressed"));
        }
        None
    }

    /// The ending by a limit that is reached; `open.step` is the next step.
    pub(super) fn exhausted(&self, open: &OpenCycle) -> Option<Finishing> {
        let bounds = &self.pinned.config.limits;
        if open.step >= bounds.max_steps {
            let steps = if bounds.max_steps == 1 { "step" } else { "steps" };
            return Some(exhausted(&format!("the limit of {} {steps} was reached", bounds.max_steps)));
        }
        if open.tokens > bounds.token_budget {
            return Some(exhausted(&format!("the budget of {} tokens was spent", bounds.token_budget)));
        }
        if open.awake_ms > bounds.wall_clock {
            return Some(exhausted(&format!("the limit of {} ms awake was reached", bounds.wall_clock)));
        }
        if open.mistakes >= bounds.consecutive_mistake_limit {
            return Some(exhausted(&match open.mistakes {
                1 => "the calls of a step failed".to_owned(),
                many => format!("the calls of {many} steps in a row failed"),
            }));
        }
        None
    }

    /// The notice to an agent whose step made no call and did not end the cycle, or was cut.
    pub(super) fn nudge<'a>(&self, decision: &'a Decision) -> Option<&'a str> {
        if decision.model_reply.reply.stop == StopReason::Length && !self.open.continued {
            return Some(CUT);
        }
        match &decision.text_reply {
            Some(TextReply::Nudged(notice)) => Some(notice),
            _ => None,
        }
    }
}

fn exhausted(reason: &str) -> Finishing {
    Finishing { ending: Ending::Exhausted, summary: None, reason: Some(reason.to_owned()) }
}

fn all_addressed(open: &OpenCycle) -> bool {
    let mut spaces = open.requesters.iter().filter_map(|requester| requester.space).peekable();
    spaces.peek().is_some() && spaces.all(|space| open.addressed.contains(&space))
}
