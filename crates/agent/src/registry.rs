//! Rules for operations on agents, cycles, spaces and single events by administrators and people: the rules behind
//! [`crate::port::Registry`], the same for every store.
//!
//! This module must not know how rows are stored.

use uuid::Uuid;

use crate::changes::{GoalChange, GoalEdit, MemoryChange, PlanChange};
use crate::delivery::room_for;
use crate::event::{Event, EventState};
use crate::goals;
use crate::id::{AgentId, CycleId, EventId, GoalId, PlanId, SpaceId};
use crate::life::{Goal, Standing};
use crate::limits;
use crate::memory::{self, Memory};
use crate::plan::{Plan, PlanSource, counted};
use crate::port::Denial;

/// The effect of setting a new standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandingChange {
    /// The agent already has it.
    Nothing,
    /// The agent becomes active, and due at once if it has work, even if it was not suspended.
    Resume,
    /// The agent is no longer due, and its plans do not fire.
    Suspend,
    /// Its plans end, its waiting events are canceled, and a cancel of its open cycle is requested.
    Retire,
}

/// The effect of changing an agent's standing. Retiring is final.
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

/// The cycle to cancel: the open one. If a cycle is named, it must be the open one.
pub fn cancel_cycle(
    agent: AgentId,
    open: Option<CycleId>,
    named: Option<CycleId>,
) -> Result<CycleId, Denial> {
    let none = if named.is_some() { Denial::OtherCycle(agent) } else { Denial::NoOpenCycle(agent) };
    open.filter(|open| named.is_none_or(|named| named == *open)).ok_or(none)
}

/// Whether a space with `members` members accepts one more, or one who is already a member.
pub fn add_member(space: SpaceId, members: u64, is_member: bool) -> Result<(), Denial> {
    if !is_member && members >= limits::SPACE_MEMBERS_MAX as u64 {
        return Err(Denial::SpaceFull(space));
    }
    Ok(())
}

/// Whether the display name and the config of an agent may be changed: a retired one never uses them.
pub fn amend_agent(agent: AgentId, standing: Standing) -> Result<(), Denial> {
    if standing == Standing::Retired { Err(Denial::Retired(agent)) } else { Ok(()) }
}

/// Whether an operator may change a memory, given the one that the agent has, how many others, and which ones are pinned.
pub fn change_memory(
    agent: AgentId,
    standing: Standing,
    change: &MemoryChange,
    has: Option<&Memory>,
    others: usize,
    pinned: &[Memory],
) -> Result<(), Denial> {
    let fits = |change: &MemoryChange| {
        memory::check(&memory::after(pinned, [change]))
            .map_err(|why| Denial::PinnedFull { agent, why: why.to_string() })
    };
    match change {
        _ if standing == Standing::Retired => Err(Denial::Retired(agent)),
        MemoryChange::Set { .. } if others >= limits::MEMORIES_MAX => Err(Denial::MemoriesFull(agent)),
        MemoryChange::Mark { key, .. } | MemoryChange::Delete { key } if has.is_none() => {
            Err(Denial::NotFound { what: "memory", name: key.clone() })
        }
        MemoryChange::Set { .. } => fits(change),
        MemoryChange::Mark { key, pinned, .. } => {
            let value = has.map(|memory| memory.value.clone()).unwrap_or_default();
            fits(&MemoryChange::Set {
                key: key.clone(),
                value,
                importance: None,
                pinned: *pinned,
                trust: None,
            })
        }
        MemoryChange::Used { .. } | MemoryChange::Delete { .. } => Ok(()),
    }
}

/// What an operator's edit of a goal changes, given all goals of the agent.
pub fn change_goal(
    agent: AgentId,
    standing: Standing,
    edit: &GoalEdit,
    current: &[Goal],
) -> Result<Vec<GoalChange>, Denial> {
    let missing = |id: GoalId| Denial::NotFound { what: "goal", name: id.to_string() };
    let found = |id: GoalId| current.iter().find(|goal| goal.id == id).ok_or_else(|| missing(id));
    let changes = match edit {
        _ if standing == Standing::Retired => return Err(Denial::Retired(agent)),
        GoalEdit::Set(goal) => {
            goal.parent.map(found).transpose()?;
            vec![GoalChange::Set(goal.clone())]
        }
        GoalEdit::Change { id, description, priority, status } => {
            let mut goal = found(*id)?.clone();
            goal.description = description.clone().unwrap_or(goal.description);
            goal.priority = priority.unwrap_or(goal.priority);
            goal.status = status.unwrap_or(goal.status);
            vec![GoalChange::Set(goal)]
        }
        GoalEdit::Delete(id) => {
            let below = goals::below(current, found(*id)?.id);
            std::iter::once(*id).chain(below).map(GoalChange::Delete).collect()
        }
    };
    match goals::check(&goals::amended(current, &changes)) {
        Err(why) if !matches!(edit, GoalEdit::Delete(_)) => Err(Denial::BadGoals { agent, why }),
        _ => Ok(changes),
    }
}

/// Whether an operator may change a plan, given those that will fire. Returns those that it replaces: operators' plans of the
/// same name.
pub fn change_plan(
    agent: AgentId,
    standing: Standing,
    change: &PlanChange,
    current: &[Plan],
) -> Result<Vec<PlanId>, Denial> {
    if standing == Standing::Retired {
        return Err(Denial::Retired(agent));
    }
    let (id, name) = match change {
        PlanChange::Set(plan) => (plan.id, Some(&plan.name)),
        PlanChange::Delete(id) => (*id, None),
    };
    let is_replaced =
        |plan: &&Plan| plan.source == PlanSource::Operator && plan.id != id && Some(&plan.name) == name;
    let replaced: Vec<PlanId> = current.iter().filter(is_replaced).map(|plan| plan.id).collect();
    match (current.iter().find(|plan| plan.id == id), change) {
        (Some(plan), _) if matches!(plan.source, PlanSource::Config | PlanSource::Heartbeat) => {
            Err(Denial::PlanOfConfig(plan.name.clone()))
        }
        (None, PlanChange::Delete(id)) => Err(Denial::NotFound { what: "plan", name: id.to_string() }),
        (None, PlanChange::Set(_)) if counted(current) - replaced.len() >= limits::PLANS_MAX => {
            Err(Denial::PlansFull(agent))
        }
        _ => Ok(replaced),
    }
}

/// The name of a retired agent or a closed space after another one has taken its handle: the handle, and the end of its
/// id. It cannot be taken for a handle, which has no `~`.
pub fn former_name(handle: &str, id: Uuid) -> String {
    let id = id.simple().to_string();
    format!("{handle}~{}", &id[id.len() - 8..])
}

/// The handle that a name is or was.
pub fn handle_of(name: &str) -> &str {
    name.split_once('~').map_or(name, |(handle, _)| handle)
}

/// Whether an event may be canceled: it must wait or be held, and no open cycle may have taken it.
pub fn cancel_event(event: &EventId, state: &EventState, taken_by: Option<CycleId>) -> Result<(), Denial> {
    match (state, taken_by) {
        (EventState::Waiting | EventState::Held, None) => Ok(()),
        (EventState::Waiting | EventState::Held, Some(cycle)) => {
            Err(Denial::EventTaken { event: event.clone(), cycle })
        }
        _ => Err(wrong_state(event, state, "waiting or held")),
    }
}

/// Whether an event may be dropped: it must be dead.
pub fn drop_event(event: &EventId, state: &EventState) -> Result<(), Denial> {
    if matches!(state, EventState::Dead { .. }) { Ok(()) } else { Err(wrong_state(event, state, "dead")) }
}

/// The new state of waiting and held events that no open cycle has taken when their agent retires.
pub fn retired() -> EventState {
    EventState::Canceled { reason: Some("the agent is retired".to_owned()) }
}

/// How an event is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resend {
    /// The event is dead: it waits again, with its attempts reset.
    Revive,
    /// The event is held: it is released together with all held events of its space.
    Release,
    /// The event was processed or skipped: a new event that cites it is created.
    NewEvent,
}

/// Decides how the event `old` is sent again, given its agent's standing, number of waiting events and `inbox_max`.
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
        EventState::Processed { .. } | EventState::Skipped { .. } => Ok(Resend::NewEvent),
        EventState::Waiting | EventState::Canceled { .. } | EventState::Dropped => {
            Err(wrong_state(&old.id, state, "dead, held, processed or skipped"))
        }
    }
}

fn wrong_state(event: &EventId, state: &EventState, wanted: &'static str) -> Denial {
    Denial::EventState { event: event.clone(), state: state.as_str(), wanted }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use Standing::{Active, Retired, Suspended};

    const ADA: AgentId = AgentId(Uuid::from_u128(1));

    fn cycle(n: u128) -> CycleId {
        CycleId(Uuid::from_u128(n))
    }

    /// Every state, whether the event may be canceled or dropped in it, and how it is sent again.
    fn states() -> [(EventState, bool, bool, Option<Resend>); 7] {
        [
            (EventState::Waiting, true, false, None),
            (EventState::Held, true, false, Some(Resend::Release)),
            (EventState::Processed { cycle: cycle(1), step: 0 }, false, false, Some(Resend::NewEvent)),
            (EventState::Skipped { reason: None, cycle: None }, false, false, Some(Resend::NewEvent)),
            (EventState::Canceled { reason: None }, false, false, None),
            (EventState::Dead { reason: "bad".into() }, false, true, Some(Resend::Revive)),
            (EventState::Dropped, false, false, None),
        ]
    }

    fn event() -> Event {
        Event::of_service(EventId("e1".into()), "key", "bell", serde_json::json!({}), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn the_state_of_an_event_decides_which_operations_are_allowed() {
        let event = event();
        for (state, cancel, drop, again) in states() {
            assert_eq!(cancel_event(&event.id, &state, None).is_ok(), cancel, "{state:?}");
            assert_eq!(drop_event(&event.id, &state).is_ok(), drop, "{state:?}");
            assert_eq!(send_again(ADA, (Active, 0, 10), &event, &state).ok(), again, "{state:?}");
            assert!(cancel_event(&event.id, &state, Some(cycle(1))).is_err(), "{state:?}");
        }
        let taken = cancel_event(&event.id, &EventState::Waiting, Some(cycle(2)));
        assert_eq!(taken, Err(Denial::EventTaken { event: event.id.clone(), cycle: cycle(2) }));
    }

    #[test]
    fn nothing_is_sent_again_to_a_retired_agent_or_into_a_full_inbox() {
        let dead = EventState::Dead { reason: "bad".into() };
        for (standing, waiting, denial) in
            [(Retired, 0, Denial::Retired(ADA)), (Active, 10, Denial::InboxFull(ADA))]
        {
            assert_eq!(send_again(ADA, (standing, waiting, 10), &event(), &dead), Err(denial));
        }
        assert_eq!(send_again(ADA, (Suspended, 9, 10), &event(), &dead), Ok(Resend::Revive));
    }

    #[test]
    fn retiring_is_final_and_an_active_agent_may_be_resumed_too() {
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
    fn an_operator_changes_memories_within_the_agents_limit() {
        let set = MemoryChange::set("tea", "green");
        let delete = MemoryChange::Delete { key: "tea".into() };
        let tea = |value: &str| Memory {
            key: "tea".into(),
            value: value.into(),
            importance: memory::Importance::default(),
            pinned: false,
            updated_at: Timestamp::UNIX_EPOCH,
            used_at: Timestamp::UNIX_EPOCH,
            trust: crate::event::Trust::Member,
        };
        let has = |has: bool| has.then(|| tea("green"));
        let check = |standing, change, had, others| {
            change_memory(ADA, standing, change, has(had).as_ref(), others, &[])
        };
        assert_eq!(check(Active, &set, false, limits::MEMORIES_MAX - 1), Ok(()));
        assert_eq!(check(Active, &set, false, limits::MEMORIES_MAX), Err(Denial::MemoriesFull(ADA)));
        assert_eq!(check(Suspended, &delete, true, limits::MEMORIES_MAX), Ok(()));
        let unknown = Denial::NotFound { what: "memory", name: "tea".into() };
        assert_eq!(check(Active, &delete, false, 3), Err(unknown));
        assert_eq!(check(Retired, &set, true, 0), Err(Denial::Retired(ADA)));
        let pin = |value: &str, pin| MemoryChange::Set {
            key: "tea".into(),
            value: value.into(),
            importance: None,
            pinned: Some(pin),
            trust: None,
        };
        let long = "v".repeat(limits::PINNED_MEMORIES_MAX_BYTES);
        let refused = change_memory(ADA, Active, &pin(&long, true), None, 0, &[]).unwrap_err();
        assert!(matches!(refused, Denial::PinnedFull { agent: ADA, .. }), "{refused}");
        assert_eq!(change_memory(ADA, Active, &pin(&long, false), None, 0, &[]), Ok(()));
        let mark = MemoryChange::Mark { key: "tea".into(), importance: None, pinned: Some(true) };
        assert!(matches!(check(Active, &mark, false, 0), Err(Denial::NotFound { .. })));
        assert_eq!(check(Active, &mark, true, limits::MEMORIES_MAX), Ok(()));
        let refused = change_memory(ADA, Active, &mark, Some(&tea(&long)), 0, &[]).unwrap_err();
        assert!(
            matches!(refused, Denial::PinnedFull { agent: ADA, .. }),
            "a note that is too long to be pinned"
        );
    }

    #[test]
    fn a_former_name_is_no_handle_and_leads_back_to_one() {
        let name = former_name("ada", Uuid::from_u128(0x1a2b_3c4d));
        assert_eq!((name.as_str(), handle_of(&name), handle_of("ada")), ("ada~1a2b3c4d", "ada", "ada"));
        assert!(crate::entity::handle(&name).is_err());
    }

    #[test]
    fn only_the_open_cycle_is_canceled_and_a_full_space_accepts_no_new_member() {
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
