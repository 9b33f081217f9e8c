//! What came of a commit: where the life row is now, and what comes next.

use jiff::Timestamp;

use super::{ActivationEnd, After, At, Cycle, State, Step};
use crate::changes::{Changes, CommitKind, CommitOutcome};

impl Cycle {
    pub(super) fn came_of(
        &mut self,
        changes: Changes,
        after: After,
        outcome: CommitOutcome,
        now: Timestamp,
    ) -> State {
        match outcome {
            CommitOutcome::Committed { glance, .. } => {
                self.applied(&changes);
                self.outside.noted(glance);
                self.after(after, changes, now)
            }
            CommitOutcome::Lost => State::Finished(ActivationEnd::Lost),
            CommitOutcome::Canceled => {
                self.outside.cancel = true;
                match self.undone(after) {
                    Some(At::Step(step)) => State::Ready(step),
                    Some(At::Acting(acting)) => State::Acting(acting),
                    None => State::Finished(ActivationEnd::Lost),
                }
            }
            CommitOutcome::Barred => match after {
                After::Acting(acting) => self.hold_back(acting),
                _ => State::Finished(ActivationEnd::Lost),
            },
            CommitOutcome::Answered(answers) => match self.undone(after) {
                Some(At::Acting(mut acting)) => {
                    acting.answered(answers);
                    // A cycle that is given up looks again at what is open, and gives up again.
                    let given_up = changes.kind == CommitKind::Close && !self.outside.cancel;
                    if given_up { self.broken_again(acting, now) } else { State::Acting(acting) }
                }
                _ => State::Finished(ActivationEnd::Lost),
            },
            CommitOutcome::Gone(gone) => match self.undone(after) {
                Some(At::Step(step)) => self.without(step, &gone, now),
                _ => State::Finished(ActivationEnd::Lost),
            },
            CommitOutcome::Refused(refusals) => match after {
                After::Decided(step, decision, _) => self.refused(step, decision, &refusals, now),
                // Only decisions carry what can be refused: a store that breaks its promise is let go.
                _ => State::Finished(ActivationEnd::Lost),
            },
        }
    }

    /// What the cycle was doing when it asked for a commit that was not done. A reply of which nothing comes
    /// is charged.
    fn undone(&mut self, after: After) -> Option<At> {
        match after {
            After::Opened(opening) => Some(opening.at),
            After::Ready(step) | After::Sent(step) => Some(At::Step(step)),
            After::Arrived(step, model_reply) => {
                self.discard(&model_reply.reply.usage);
                Some(At::Step(step))
            }
            After::Decided(step, decision, _) => {
                self.discard(&decision.model_reply.reply.usage);
                Some(At::Step(step))
            }
            After::Acting(acting) | After::Settled(acting) => Some(At::Acting(acting)),
            After::Finished(_, at) => Some(at),
            After::ViewThenFinished(_) => None,
        }
    }

    /// Brings the machine to where the life row is after `changes`.
    pub(super) fn applied(&mut self, changes: &Changes) {
        self.row.commit_n = changes.expect + 1;
        self.log.append(&changes.entries);
        self.log.layers_stored(changes.layers.len());
        self.row.active_space = changes.inward.active_space.or(self.row.active_space);
        if let Some(view) = &changes.view {
            self.log.replace(view.clone());
        }
        if let Some(open) = &changes.open {
            self.open = open.clone();
        }
        self.row.failures = changes.failures.unwrap_or(self.row.failures);
        if let Some(notice) = &changes.notice {
            self.row.notice.clone_from(notice);
        }
    }

    fn after(&mut self, after: After, changes: Changes, now: Timestamp) -> State {
        match after {
            After::Opened(opening) => self.opened(*opening, now),
            After::Ready(step) => State::Ready(step),
            After::Sent(step) if self.outside.cancel || self.outside.park.is_some() => State::Ready(step),
            After::Sent(mut step) => {
                step.asked_first.get_or_insert(now);
                State::Thinking(step)
            }
            After::Arrived(step, model_reply) => self.decide(step, *model_reply, now),
            After::Decided(_, decision, rested) => self.decided(&decision, changes, rested, now),
            After::Acting(mut acting) => {
                acting.written(&changes.call_changes);
                State::Acting(acting)
            }
            After::Settled(_) => State::Ready(Step::next(&self.open)),
            After::Finished(rested, _) => {
                self.log.widen();
                self.rest_or_cut(rested, now)
            }
            After::ViewThenFinished(rested) => State::Finished(rested),
        }
    }
}
