//! Applies the outcome of a commit: updates the machine's copy of the life row and chooses the next state.

use jiff::Timestamp;

use super::{ActivationEnd, After, At, Cycle, State, Step};
use crate::changes::{Changes, CommitKind, CommitOutcome};

impl Cycle {
    pub(super) fn apply_outcome(
        &mut self,
        changes: Changes,
        after: After,
        outcome: CommitOutcome,
        now: Timestamp,
    ) -> State {
        match outcome {
            CommitOutcome::Committed { glance, .. } => {
                self.applied(&changes);
                self.outside.note_glance(glance);
                self.after(after, changes, now)
            }
            CommitOutcome::Lost => State::Finished(ActivationEnd::Lost),
            CommitOutcome::Canceled => {
                self.outside.cancel = true;
                match self.state_before(after) {
                    Some(At::Step(step)) => State::Ready(step),
                    Some(At::Acting(acting)) => State::Acting(acting),
                    None => State::Finished(ActivationEnd::Lost),
                }
            }
            CommitOutcome::Barred => match after {
                After::Acting(acting) => self.hold_back(acting),
                _ => State::Finished(ActivationEnd::Lost),
            },
            CommitOutcome::Answered(answers) => match self.state_before(after) {
                Some(At::Acting(mut acting)) => {
                    acting.answered(answers);
                    // A cycle that was being failed includes the new outcomes and is failed again.
                    let given_up = changes.kind == CommitKind::Close && !self.outside.cancel;
                    if given_up { self.fail_cycle_again(acting, now) } else { State::Acting(acting) }
                }
                _ => State::Finished(ActivationEnd::Lost),
            },
            CommitOutcome::Gone(gone) => match self.state_before(after) {
                Some(At::Step(step)) => self.retry_without(step, &gone, now),
                _ => State::Finished(ActivationEnd::Lost),
            },
            CommitOutcome::Refused(refusals) => match after {
                After::Decided(step, decision, _) => self.refused(step, decision, &refusals, now),
                // Only decisions can be refused: a store that breaks its contract loses the activation.
                _ => State::Finished(ActivationEnd::Lost),
            },
        }
    }

    /// What the cycle was doing when it requested a commit that failed. A reply that is discarded is charged.
    fn state_before(&mut self, after: After) -> Option<At> {
        match after {
            After::Opened(opening) => Some(opening.at),
            After::Ready(step) | After::Sent(step) => Some(At::Step(step)),
            After::Arrived(step, model_reply) => {
                self.charge_discarded(&step, &model_reply.reply.usage);
                Some(At::Step(step))
            }
            After::Decided(step, decision, _) => {
                self.charge_discarded(&step, &decision.model_reply.reply.usage);
                Some(At::Step(step))
            }
            After::Acting(acting) | After::Settled(acting) => Some(At::Acting(acting)),
            After::Finished(_, at) => Some(at),
            After::ViewThenFinished(_) => None,
        }
    }

    /// Updates the machine to the life row after `changes`.
    pub(super) fn applied(&mut self, changes: &Changes) {
        self.life.commit_n = changes.expect + 1;
        self.log.append(&changes.entries);
        if changes.kind == CommitKind::Decide {
            self.log.layers_stored(&changes.layers);
        }
        if changes.inward.active_space.is_some() {
            (self.life.active_space, self.life.entered) = (changes.inward.active_space, None);
        }
        if let Some(view) = &changes.view {
            self.log.replace(view.clone());
        }
        if let Some(open) = &changes.open {
            self.open = open.clone();
        }
        self.life.failures = changes.failures.unwrap_or(self.life.failures);
        if let Some(notice) = &changes.notice {
            self.life.notice.clone_from(notice);
        }
    }

    fn after(&mut self, after: After, changes: Changes, now: Timestamp) -> State {
        match after {
            After::Opened(opening) => self.opened(*opening, now),
            After::Ready(step) => State::Ready(step),
            After::Sent(step) if self.outside.cancel || self.outside.park.is_some() => State::Ready(step),
            After::Sent(mut step) => {
                step.first_called.get_or_insert(now);
                State::Thinking(step)
            }
            After::Arrived(step, model_reply) => self.decide(step, *model_reply, now),
            After::Decided(_, decision, end) => self.decided(&decision, changes, end, now),
            After::Acting(mut acting) => {
                acting.written(&changes.call_changes);
                State::Acting(acting)
            }
            After::Settled(_) => State::Ready(Step::next(&self.open)),
            After::Finished(end, _) => {
                self.log.widen();
                self.finish_or_cut(end, now)
            }
            After::ViewThenFinished(end) => State::Finished(end),
        }
    }
}
