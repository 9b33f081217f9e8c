//! What administrators and people may do to agents, cycles, spaces and single events: the rules behind
//! [`crate::port::Registry`], the same for every store.
//!
//! This module must not know how rows are stored.

use crate::delivery::room_for;
use crate::event::{Event, EventState};
use crate::id::{AgentId, CycleId, EventId, SpaceId};
use crate::life::Standing;
use crate::limits;
use crate::port::Denial;

/// What a new standing asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandingChange {
    /// It is so already.
    Nothing,
    /// The agent is active, and due at once if it has anything to do, even if it was not suspended.
    Resume,
    /// It is not due, and its plans do not fire.
    Suspend,
    /// Its plans end, what waits is canceled, its open cycle is to be canceled.
    Retire,
}

/// What becomes of an agent's standing. Retiring is final.
pub fn change_standing(agent: AgentId, was: Standing, wanted: Standing) -> Result<StandingChange, Denial> {
    Ok(match (was, wanted) {
        (Standing::Retired, Standing::Retired) | (Standing::Suspended, Standing::Suspended) => {
            StandingChange::Nothing
        }
        (Standing::Retired, _) => return Err(Denial::Retired(agent)),
        (_, Standing::Active) => StandingChange::Resume,
        (_, Standing::Suspended) => StandingChange::Suspend,
        (_, Standing::Retired) => StandingChange::Retire,
    })
}

/// Which cycle is canceled: the open one, where it is the one that is named.
pub fn cancel_cycle(
    agent: AgentId,
    open: Option<CycleId>,
    named: Option<CycleId>,
) -> Result<CycleId, Denial> {
    let none = if named.is_some() { Denial::OtherCycle(agent) } else { Denial::NoOpenCycle(agent) };
    open.filter(|open| named.is_none_or(|named| named == *open)).ok_or(none)
}

/// Whether a space with so many members takes one more, or one that is there already.
pub fn add_member(space: SpaceId, members: u64, is_member: bool) -> Result<(), Denial> {
    if !is_member && members >= limits::SPACE_MEMBERS_MAX as u64 {
        return Err(Denial::SpaceFull(space));
    }
    Ok(())
}

/// Whether an event may be canceled: while it waits or is held, and no open cycle has taken it.
pub fn cancel_event(event: &EventId, state: &EventState, taken_by: Option<CycleId>) -> Result<(), Denial> {
    match (state, taken_by) {
        (EventState::Waiting | EventState::Held, None) => Ok(()),
        (EventState::Waiting | EventState::Held, Some(cycle)) => {
            Err(Denial::EventTaken { event: event.clone(), cycle })
        }
        _ => Err(not(event, state, "waiting or held")),
    }
}

/// Whether an event may be given up: once it is dead.
pub fn drop_event(event: &EventId, state: &EventState) -> Result<(), Denial> {
    if matches!(state, EventState::Dead { .. }) { Ok(()) } else { Err(not(event, state, "dead")) }
}

/// What becomes of all that waits or is held, and that no open cycle has taken, when its agent retires.
pub fn retired() -> EventState {
    EventState::Canceled { reason: Some("the agent is retired".to_owned()) }
}

/// How an event is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resend {
    /// It died: it waits again, its attempts begin anew.
    Revive,
    /// It is held: it is released with all that is held of its space. Operators may do that, too.
    Release,
    /// It was processed or skipped: a new event cites it.
    Anew,
}

/// Decides it for the event `old`, whose agent has so much waiting.
pub fn send_again(
    agent: AgentId,
    (standing, waiting, inbox_max): (Standing, u32, u32),
    old: &Event,
    state: &EventState,
) -> Result<Resend, Denial> {
    room_for(agent, (standing, waiting, inbox_max), old)?;
    match state {
        EventState::Dead { .. } => Ok(Resend::Revive),
        EventState::Held => Ok(Resend::Release),
        EventState::Processed { .. } | EventState::Skipped { .. } => Ok(Resend::Anew),
        EventState::Waiting | EventState::Canceled { .. } | EventState::Dropped => {
            Err(not(&old.id, state, "dead, held, processed or skipped"))
        }
    }
}

fn not(event: &EventId, state: &EventState, wanted: &'static str) -> Denial {
    Denial::EventState { event: event.clone(), state: state.as_str(), wanted }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;
    use Standing::{Active, Retired, Suspended};

    const ADA: AgentId = AgentId(Uuid::from_u128(1));

    fn cycle(n: u128) -> CycleId {
        CycleId(Uuid::from_u128(n))
    }

    /// Every state, with whether the event may be canceled or dropped, and how it is sent again.
    fn fates() -> [(EventState, bool, bool, Option<Resend>); 7] {
        [
            (EventState::Waiting, true, false, None),
            (EventState::Held, true, false, Some(Resend::Release)),
            (EventState::Processed { cycle: cycle(1), step: 0 }, false, false, Some(Resend::Anew)),
            (EventState::Skipped { reason: None }, false, false, Some(Resend::Anew)),
            (EventState::Canceled { reason: None }, false, false, None),
            (EventState::Dead { reason: "bad".into() }, false, true, Some(Resend::Revive)),
            (EventState::Dropped, false, false, None),
        ]
    }

    fn event() -> Event {
        Event::of_service(EventId("e1".into()), "key", "bell", serde_json::json!({}), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn what_may_be_done_with_an_event_follows_from_its_state() {
        let event = event();
        for (state, cancel, give_up, again) in fates() {
            assert_eq!(cancel_event(&event.id, &state, None).is_ok(), cancel, "{state:?}");
            assert_eq!(drop_event(&event.id, &state).is_ok(), give_up, "{state:?}");
            assert_eq!(send_again(ADA, (Active, 0, 10), &event, &state).ok(), again, "{state:?}");
            assert!(cancel_event(&event.id, &state, Some(cycle(1))).is_err(), "{state:?}");
        }
        let taken = cancel_event(&event.id, &EventState::Waiting, Some(cycle(2)));
        assert_eq!(taken, Err(Denial::EventTaken { event: event.id.clone(), cycle: cycle(2) }));
    }

    #[test]
    fn nothing_is_sent_again_to_an_agent_that_is_over_or_whose_inbox_is_full() {
        let dead = EventState::Dead { reason: "bad".into() };
        for (standing, waiting, denial) in
            [(Retired, 0, Denial::Retired(ADA)), (Active, 10, Denial::InboxFull(ADA))]
        {
            assert_eq!(send_again(ADA, (standing, waiting, 10), &event(), &dead), Err(denial));
        }
        assert_eq!(send_again(ADA, (Suspended, 9, 10), &event(), &dead), Ok(Resend::Revive));
    }

    #[test]
    fn retiring_is_final_and_resuming_helps_also_whoever_lives() {
        use StandingChange::{Nothing, Resume, Retire, Suspend};
        for (was, wanted, change) in [
            (Active, Active, Some(Resume)),
            (Active, Suspended, Some(Suspend)),
            (Active, Retired, Some(Retire)),
            (Suspended, Active, Some(Resume)),
            (Suspended, Suspended, Some(Nothing)),
            (Suspended, Retired, Some(Retire)),
            (Retired, Active, None),
            (Retired, Suspended, None),
            (Retired, Retired, Some(Nothing)),
        ] {
            assert_eq!(change_standing(ADA, was, wanted).ok(), change, "{was:?} {wanted:?}");
        }
    }

    #[test]
    fn only_the_open_cycle_is_canceled_and_a_full_space_takes_nobody_new() {
        for (open, named, expected) in [
            (Some(1), None, Ok(cycle(1))),
            (Some(1), Some(1), Ok(cycle(1))),
            (Some(1), Some(2), Err(Denial::OtherCycle(ADA))),
            (None, Some(2), Err(Denial::OtherCycle(ADA))),
            (None, None, Err(Denial::NoOpenCycle(ADA))),
        ] {
            assert_eq!(cancel_cycle(ADA, open.map(cycle), named.map(cycle)), expected);
        }
        let (space, most) = (SpaceId(Uuid::nil()), limits::SPACE_MEMBERS_MAX as u64);
        assert!(add_member(space, most - 1, false).is_ok() && add_member(space, most, true).is_ok());
        assert_eq!(add_member(space, most, false), Err(Denial::SpaceFull(space)));
    }
}
