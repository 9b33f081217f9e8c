//! When a cycle ends: by its decision, or at a bound.

use super::decide::{Decision, text_field};
use super::{Cycle, Step, names};
use crate::call::{CallRow, Outcome};
use crate::life::{Finishing, OpenCycle};
use crate::limits;
use crate::port::StopReason;
use crate::run::Ending;

/// What an agent reads whose reply was cut by its length.
pub(super) const CUT: &str = "[NOTICE] The output limit cut your reply. Go on, more briefly.";

impl Cycle {
    /// The ending that the decision itself brings, whatever its outward calls give.
    pub(super) fn ending_of(&self, step: &Step, decision: &Decision, open: &OpenCycle) -> Option<Finishing> {
        let rested = |summary, reason: Option<&str>| {
            let reason = reason.map(str::to_owned);
            Some(Finishing { ending: Ending::Completed, summary, reason })
        };
        let ended = decision.calls.iter().find(|call| {
            let row = &call.row;
            let valid = !row.outcome.as_ref().is_some_and(Outcome::failed);
            valid && (row.tool == names::DONE || row.tool == names::SKIP)
        });
        if let Some(call) = ended {
            return rested(text_field(&call.row.arguments, "summary"), None);
        }
        let stop = &self.who.config.stop;
        let failed = |row: &CallRow| row.outcome.as_ref().is_some_and(Outcome::failed);
        let wanted = |row: &CallRow| stop.on_tools.contains(&row.tool) && !failed(row);
        if let Some(call) = decision.calls.iter().find(|call| wanted(&call.row)) {
            return rested(None, Some(&format!("`{}` was called", call.row.tool)));
        }
        if decision.model_reply.reply.stop == StopReason::Length {
            return self.open.continued.then(|| exhausted("the output limit cut the reply twice"));
        }
        if decision.calls.is_empty() && !self.nudge_wanted(step, decision) {
            if let StopReason::Refused(why) = &decision.model_reply.reply.stop {
                return rested(None, Some(&format!("the model refused to go on: {why}")));
            }
            return rested(None, None);
        }
        if stop.all_addressed && all_addressed(open) {
            return rested(None, Some("all addressed"));
        }
        None
    }

    /// A bound of the cycle that is reached; `open` stands at the step to come.
    pub(super) fn exhausted(&self, open: &OpenCycle) -> Option<Finishing> {
        let bounds = &self.who.config.limits;
        if open.step >= bounds.max_steps {
            return Some(exhausted(&format!("the limit of {} steps was reached", bounds.max_steps)));
        }
        if open.tokens > bounds.token_budget {
            return Some(exhausted(&format!("the budget of {} tokens was spent", bounds.token_budget)));
        }
        if open.awake_ms > bounds.wall_clock {
            return Some(exhausted(&format!("the limit of {} ms awake was reached", bounds.wall_clock)));
        }
        if open.mistakes >= bounds.consecutive_mistake_limit {
            return Some(exhausted(&format!("the calls of {} steps in a row failed", open.mistakes)));
        }
        None
    }

    /// What the runtime says to an agent that stopped without having ended.
    pub(super) fn nudge(&self, step: &Step, decision: &Decision) -> Option<&'static str> {
        if decision.model_reply.reply.stop == StopReason::Length && !self.open.continued {
            return Some(CUT);
        }
        self.nudge_wanted(step, decision).then_some(
            "[NOTICE] Text outside tool calls reaches nobody. Call send_message to post it, or done to end.",
        )
    }

    /// `require_tool`: a bare text does not end the cycle, twice at most.
    pub(super) fn nudge_wanted(&self, step: &Step, decision: &Decision) -> bool {
        self.must_call(step)
            && decision.calls.is_empty()
            && decision.model_reply.reply.stop == StopReason::End
            && self.open.nudges < limits::NUDGES_MAX
    }
}

fn exhausted(reason: &str) -> Finishing {
    Finishing { ending: Ending::Exhausted, summary: None, reason: Some(reason.to_owned()) }
}

fn all_addressed(open: &OpenCycle) -> bool {
    let mut spaces = open.requesters.iter().filter_map(|requester| requester.space).peekable();
    spaces.peek().is_some() && spaces.all(|space| open.addressed.contains(&space))
}
