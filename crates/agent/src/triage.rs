//! Whether an event is addressed to an agent, decided by rules alone: the optional filter before the model (`triage`).

use crate::entity::Entity;
use crate::event::{EventData, EventKind, Waiting};
use crate::life::Facts;

/// Whether an event is addressed to the agent. A message of another agent is if it mentions this agent; a person's
/// message is if it mentions this agent or nobody else. In a space of two, every message is. Events that are not
/// messages always are, and so are events that an operator sends again.
pub fn is_addressed(waiting: &Waiting, me: &Entity, facts: &Facts) -> bool {
    let EventData::Message { space, .. } = waiting.event.data else { return true };
    if waiting.event.kind == EventKind::Mention || waiting.event.cites.is_some() {
        return true;
    }
    let Some(space) = facts.space(space).filter(|space| space.members.len() + space.more_members > 2) else {
        return true;
    };
    if waiting.event.envelope.is_by_agent() {
        return false;
    }
    let named = waiting.message.as_ref().map_or(&[][..], |message| &message.mentions);
    // Somebody who has left the space does not count, if all members are known.
    let is_member = |id| space.more_members > 0 || space.members.iter().any(|member| member.entity.id == id);
    !named.iter().any(|id| *id != me.id && is_member(*id))
}
