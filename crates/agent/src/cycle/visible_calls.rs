//! Calls of visible tools, and calls that wait for a person, as messages in a space. The store writes each message with its decision and keeps it
//! in step with its call row.

use jiff::Timestamp;

use super::decide::Decision;
use super::{Cycle, Step};
use crate::event::Principal;
use crate::id::MessageId;
use crate::space::{NewMessage, tool_data, tool_text};

impl Cycle {
    /// Names of the tools that may be called in the current step. Calls of other tools are refused.
    pub fn callable_tools(&self) -> Vec<String> {
        let gated = |name: &str| self.step_now().is_some_and(|step| step.gated(name).is_some());
        let names = self.pinned.setup.tools.iter().map(|spec| &spec.name);
        names.filter(|name| !gated(name)).cloned().collect()
    }

    /// Names of the tools whose calls are shown in spaces.
    pub fn visible_tools(&self) -> Vec<String> {
        self.pinned.setup.tools.iter().filter(|spec| spec.visible).map(|spec| spec.name.clone()).collect()
    }

    /// The messages of the decision's visible calls, each in the space that is active at that call, and the cards of those that
    /// wait for a person.
    pub(super) fn shown(&self, step: &Step, decision: &Decision, now: Timestamp) -> Vec<NewMessage> {
        let visible = self.visible_tools();
        let mut active = self.life.active_space;
        let (root, hop) =
            step.cause.as_ref().map_or((&self.open.root, self.open.hop), |cause| (&cause.root, cause.hop));
        let trust = self.trust_of_message(step);
        let mut shown = Vec::new();
        for call in &decision.calls {
            active = call.inward.active_space.or(active);
            let space = match &call.row.approval {
                Some(asked) => asked.space,
                None => self.outside.facts.default_space(active).filter(|_| visible.contains(&call.row.tool)),
            };
            let Some(space) = space else { continue };
            shown.push(NewMessage {
                id: MessageId::of_card(&call.row.id),
                space,
                sender: self.pinned.agent.entity(),
                text: tool_text(&call.row),
                mentions: Vec::new(),
                urgent: false,
                at: now,
                cycle: Some(self.open.id),
                call: Some(call.row.id.clone()),
                data: Some(tool_data(&call.row)),
                principal: Principal::Own,
                trust,
                root: root.clone(),
                hop,
            });
        }
        shown
    }
}
