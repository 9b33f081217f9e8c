//! When plans fire. The next slot is computed from the previous slot, never from "now", so that a clock jump neither
//! repeats nor drops a slot.

use std::str::FromStr;

use croner::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::event::{Cause, Channel, Envelope, Event, EventData, EventKind, Principal};
use crate::id::{EventId, RootId};
use crate::life::{Plan, Schedule};
use crate::limits;

/// Why a schedule never fires.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    /// The expression is invalid.
    #[error("`{0}` is not a cron expression of five fields")]
    Expression(String),
    /// The zone is unknown.
    #[error("`{0}` is not an IANA time zone")]
    Zone(String),
    /// The schedule has no slot after that time.
    #[error("the schedule never fires after {0}")]
    Never(Timestamp),
}

/// The first slot after `after`.
pub fn next_after(schedule: &Schedule, after: Timestamp) -> Result<Timestamp, BadSchedule> {
    Slots::of(schedule)?.after(after)
}

/// A parsed schedule. Parsing costs more than computing a slot, so it is done once.
enum Slots {
    At(Timestamp),
    Cron(Box<Cron>, TimeZone),
}

impl Slots {
    fn of(schedule: &Schedule) -> Result<Self, BadSchedule> {
        match schedule {
            Schedule::At { at } => Ok(Self::At(*at)),
            Schedule::Cron { expression, zone } => {
                let cron =
                    Cron::from_str(expression).map_err(|_| BadSchedule::Expression(expression.clone()))?;
                let zone = TimeZone::get(zone).map_err(|_| BadSchedule::Zone(zone.clone()))?;
                Ok(Self::Cron(Box::new(cron), zone))
            }
        }
    }

    fn after(&self, after: Timestamp) -> Result<Timestamp, BadSchedule> {
        match self {
            Self::At(at) if *at > after => Ok(*at),
            Self::At(_) => Err(BadSchedule::Never(after)),
            Self::Cron(cron, zone) => {
                let from = after.to_zoned(zone.clone());
                let next = cron.find_next_occurrence(&from, false).map_err(|_| BadSchedule::Never(after))?;
                Ok(next.timestamp())
            }
        }
    }
}

/// How a due plan fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firing {
    /// It creates an event.
    Event,
    /// Its last event still waits: the new slots are added to that event.
    Extend,
    /// The inbox is full: the plan is due again a little later, with all slots until then.
    Postpone,
}

impl Firing {
    /// `waits`: the plan's last event waits and no cycle has taken it. `waiting`: number of the agent's waiting events.
    pub fn of(waits: bool, waiting: u32, inbox_max: u32) -> Self {
        match waits {
            true => Self::Extend,
            false if waiting >= inbox_max => Self::Postpone,
            false => Self::Event,
        }
    }
}

/// The event of a due plan, and the plan after firing. Several missed slots become one event that lists them. Its id is
/// `plan:<id>:<first slot in ms>`, so that a second firing is a duplicate. Its trust is that of the cause for which the
/// agent made the plan.
pub fn fire(plan: &Plan, cause: &Cause, now: Timestamp) -> Option<(Event, Plan)> {
    let first = plan.next_at.filter(|at| *at <= now)?;
    let schedule = Slots::of(&plan.schedule).ok();
    let after = |slot| schedule.as_ref().and_then(|schedule| schedule.after(slot).ok());
    let mut slots = vec![first];
    let mut next = after(first);
    while let Some(slot) = next.filter(|slot| *slot <= now) {
        if slots.len() == limits::PLAN_SLOTS_MAX {
            // The server was down for very long: skip to the first slot after now.
            next = after(now);
            break;
        }
        slots.push(slot);
        next = after(slot);
    }
    let id = format!("plan:{}:{}", plan.id, first.as_millisecond());
    let root = if cause.root.0.is_empty() { RootId(id.clone()) } else { cause.root.clone() };
    let event = Event {
        id: EventId(id),
        kind: EventKind::Plan,
        urgent: false,
        at: now,
        envelope: Envelope {
            principal: Principal::Own,
            channel: Channel::Timer,
            trust: cause.trust,
            root,
            hop: cause.hop,
        },
        data: EventData::Plan {
            plan: plan.id,
            name: plan.name.clone(),
            instruction: plan.instruction.clone(),
            slots,
        },
        cites: None,
    };
    Some((event, Plan { next_at: next, ..plan.clone() }))
}

/// The data of a waiting event after its plan has fired again: the slots of both, up to the limit.
pub fn extended(mut waits: EventData, fired: EventData) -> EventData {
    if let (EventData::Plan { slots, .. }, EventData::Plan { slots: more, .. }) = (&mut waits, fired) {
        slots.extend(more);
        slots.truncate(limits::PLAN_SLOTS_MAX);
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Trust;
    use crate::id::PlanId;
    use uuid::Uuid;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn hourly() -> Plan {
        Plan {
            id: PlanId(Uuid::from_u128(1)),
            name: "health".into(),
            instruction: "check".into(),
            schedule: Schedule::Cron { expression: "0 * * * *".into(), zone: "UTC".into() },
            next_at: Some(at("2026-03-01T10:00:00Z")),
        }
    }

    #[test]
    fn missed_slots_become_one_event_that_lists_them() {
        let (event, plan) = fire(&hourly(), &Cause::default(), at("2026-03-01T12:30:00Z")).unwrap();
        assert_eq!(slots(&event.data).len(), 3);
        assert_eq!(plan.next_at, Some(at("2026-03-01T13:00:00Z")));
        assert_eq!(fire(&plan, &Cause::default(), at("2026-03-01T12:59:59Z")), None);
    }

    fn slots(data: &EventData) -> &[Timestamp] {
        let EventData::Plan { slots, .. } = data else { panic!("a plan's event") };
        slots
    }

    #[test]
    fn a_waiting_event_gets_later_slots_up_to_a_limit() {
        let cause = Cause::default();
        let (first, plan) = fire(&hourly(), &cause, at("2026-03-01T10:30:00Z")).unwrap();
        let (second, plan) = fire(&plan, &cause, at("2026-03-01T12:30:00Z")).unwrap();
        let both = extended(first.data, second.data);
        let hours = ["2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z", "2026-03-01T12:00:00Z"];
        assert_eq!(slots(&both), hours.map(at));
        let (late, plan) = fire(&plan, &cause, at("2026-04-01T00:00:00Z")).unwrap();
        assert_eq!(plan.next_at, Some(at("2026-04-01T01:00:00Z")));
        let all = extended(both, late.data);
        assert_eq!((slots(&all).len(), slots(&all)[0]), (limits::PLAN_SLOTS_MAX, at(hours[0])));
    }

    #[test]
    fn a_plan_extends_its_waiting_event_else_needs_room_in_the_inbox() {
        for (waits, waiting, firing) in [
            (false, 0, Firing::Event),
            (false, 9, Firing::Event),
            (false, 10, Firing::Postpone),
            (true, 1, Firing::Extend),
            (true, 10, Firing::Extend),
        ] {
            assert_eq!(Firing::of(waits, waiting, 10), firing, "{waits} {waiting}");
        }
    }

    #[test]
    fn the_event_of_a_plan_has_the_root_and_trust_of_its_cause() {
        let fired = |cause: Cause| fire(&hourly(), &cause, at("2026-03-01T10:00:00Z")).unwrap().0;
        let cause = Cause { root: RootId("request".into()), hop: 3, trust: Trust::Agent };
        let envelope = fired(cause).envelope;
        assert_eq!((envelope.root.0.as_str(), envelope.hop, envelope.trust), ("request", 3, Trust::Agent));
        let alone = fired(Cause::default());
        assert_eq!((alone.envelope.root.0, alone.envelope.trust), (alone.id.0, Trust::Outside));
    }

    #[test]
    fn a_slot_keeps_its_local_time_when_summer_time_starts() {
        let schedule = Schedule::Cron { expression: "30 9 * * *".into(), zone: "Europe/Berlin".into() };
        let before = next_after(&schedule, at("2026-03-28T00:00:00Z")).unwrap();
        let after = next_after(&schedule, before).unwrap();
        assert_eq!(before, at("2026-03-28T08:30:00Z"));
        assert_eq!(after, at("2026-03-29T07:30:00Z"));
    }

    #[test]
    fn a_schedule_that_never_fires_is_an_error_with_the_reason() {
        let bad = Schedule::Cron { expression: "every day".into(), zone: "UTC".into() };
        assert!(matches!(next_after(&bad, Timestamp::UNIX_EPOCH), Err(BadSchedule::Expression(_))));
        let past = Schedule::At { at: at("2020-01-01T00:00:00Z") };
        assert!(matches!(next_after(&past, at("2026-01-01T00:00:00Z")), Err(BadSchedule::Never(_))));
    }
}
