//! What is addressed to an agent, by rules alone: the optional gate before the model (`triage`).

use crate::entity::Entity;
use crate::event::{EventData, EventKind, Trust, Waiting};
use crate::life::Facts;

/// Whether the agent is meant. A message of another agent means it only by name, a person's by name or
/// where nobody else is named; in a space of two everything does. What is not said in a space always
/// does, and so does what an operator sends again.
pub fn is_addressed(waiting: &Waiting, me: &Entity, facts: &Facts) -> bool {
    let EventData::Message { space, .. } = waiting.event.data else { return true };
    if waiting.event.kind == EventKind::Mention || waiting.event.cites.is_some() {
        return true;
    }
    let Some(space) = facts.space(space).filter(|space| space.members.len() + space.more_members > 2) else {
        return true;
    };
    if waiting.event.envelope.trust == Trust::Agent {
        return false;
    }
    let named = waiting.message.as_ref().map_or(&[][..], |said| &said.mentions);
    // A member that has left does not count as somebody else, if all members are known.
    let there = |id| space.more_members > 0 || space.members.iter().any(|member| member.entity.id == id);
    !named.iter().any(|id| *id != me.id && there(*id))
}
