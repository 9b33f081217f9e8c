//! What administrators and people may do to agents, cycles, spaces and single events: the rules behind
//! [`crate::port::Registry`], the same for every store.
//!
//! This module must not know how rows are stored.

use crate::delivery::room_for;
use crate::event::{Event, Fate};
use crate::id::{AgentId, CycleId, EventId, SpaceId};
use crate::life::Standing;
use crate::limits;
use crate::port::Denial;

/// What a new standing asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandingChange {
    /// It is so already.
    Nothing,
    /// The agent lives (on), and is due at once where it has anything to do: also one that was not suspended.
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
pub fn cancel_event(event: &EventId, fate: &Fate, taken_by: Option<CycleId>) -> Result<(), Denial> {
    match (fate, taken_by) {
        (Fate::Waiting | Fate::Held, None) => Ok(()),
        (Fate::Waiting | Fate::Held, Some(cycle)) => Err(Denial::EventTaken { event: event.clone(), cycle }),
        _ => Err(not(event, fate, "waiting or held")),
    }
}

/// Whether an event may be given up: once it is dead.
pub fn drop_event(event: &EventId, fate: &Fate) -> Result<(), Denial> {
    if matches!(fate, Fate::Dead { .. }) { Ok(()) } else { Err(not(event, fate, "dead")) }
}

/// What becomes of all that waits or is held, and that no open cycle has taken, when its agent retires.
pub fn retired() -> Fate {
    Fate::Canceled { reason: Some("the agent is retired".to_owned()) }
}

/// How an event is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resend {
    /// It died: it waits again, its attempts begin anew.
    Revive,
    /// It is held: it is let go, with all that is held of its space. Whoever runs the server has a word there too.
    Release,
    /// It was processed or skipped: a new event cites it.
    Anew,
}

/// Decides it for the event `old`, whose agent has so much waiting.
pub fn send_again(
    agent: AgentId,
    (standing, waiting, inbox_max): (Standing, u32, u32),
    old: &Event,
    fate: &Fate,
) -> Result<Resend, Denial> {
    room_for(agent, (standing, waiting, inbox_max), old)?;
    match fate {
        Fate::Dead { .. } => Ok(Resend::Revive),
        Fate::Held => Ok(Resend::Release),
        Fate::Lived { .. } | Fate::Skipped { .. } => Ok(Resend::Anew),
        Fate::Waiting | Fate::Canceled { .. } | Fate::Dropped => {
            Err(not(&old.id, fate, "dead, held, lived or skipped"))
        }
    }
}

fn not(event: &EventId, fate: &Fate, wanted: &'static str) -> Denial {
    Denial::EventState { event: event.clone(), state: fate.as_str(), wanted }
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

    /// Every fate, with whether it may be canceled, dropped, and how it is sent again.
    fn fates() -> [(Fate, bool, bool, Option<Resend>); 7] {
        [
            (Fate::Waiting, true, false, None),
            (Fate::Held, true, false, Some(Resend::Release)),
            (Fate::Lived { cycle: cycle(1), step: 0 }, false, false, Some(Resend::Anew)),
            (Fate::Skipped { reason: None }, false, false, Some(Resend::Anew)),
            (Fate::Canceled { reason: None }, false, false, None),
            (Fate::Dead { reason: "bad".into() }, false, true, Some(Resend::Revive)),
            (Fate::Dropped, false, false, None),
        ]
    }

    fn event() -> Event {
        Event::of_service(EventId("e1".into()), "key", "bell", serde_json::json!({}), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn what_may_be_done_with_an_event_follows_from_its_state() {
        let event = event();
        for (fate, cancel, give_up, again) in fates() {
            assert_eq!(cancel_event(&event.id, &fate, None).is_ok(), cancel, "{fate:?}");
            assert_eq!(drop_event(&event.id, &fate).is_ok(), give_up, "{fate:?}");
            assert_eq!(send_again(ADA, (Active, 0, 10), &event, &fate).ok(), again, "{fate:?}");
            assert!(cancel_event(&event.id, &fate, Some(cycle(1))).is_err(), "{fate:?}");
        }
        let taken = cancel_event(&event.id, &Fate::Waiting, Some(cycle(2)));
        assert_eq!(taken, Err(Denial::EventTaken { event: event.id.clone(), cycle: cycle(2) }));
    }

    #[test]
    fn nothing_is_sent_again_to_an_agent_that_is_over_or_whose_inbox_is_full() {
        let dead = Fate::Dead { reason: "bad".into() };
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
