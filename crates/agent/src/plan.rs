//! When plans fire. The next slot is computed from the scheduled one, never from "now", so that a
//! clock that jumps neither repeats nor drops a slot.

use std::str::FromStr;

use croner::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::event::{Channel, Envelope, Event, EventData, EventKind, Principal, Trust};
use crate::id::{EventId, RootId};
use crate::life::{Plan, Schedule};

/// Slots that one late event lists at most.
const SLOTS_MAX: usize = 100;

/// Why a schedule never fires.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSchedule {
    /// The expression is none.
    #[error("`{0}` is not a cron expression of five fields")]
    Expression(String),
    /// The zone is unknown.
    #[error("`{0}` is not an IANA time zone")]
    Zone(String),
    /// It has no slot after that time.
    #[error("the schedule never fires after {0}")]
    Never(Timestamp),
}

/// The first slot after `after`.
pub fn next_after(schedule: &Schedule, after: Timestamp) -> Result<Timestamp, BadSchedule> {
    match schedule {
        Schedule::At { at } if *at > after => Ok(*at),
        Schedule::At { .. } => Err(BadSchedule::Never(after)),
        Schedule::Cron { expression, zone } => {
            let cron = Cron::from_str(expression).map_err(|_| BadSchedule::Expression(expression.clone()))?;
            let zone = TimeZone::get(zone).map_err(|_| BadSchedule::Zone(zone.clone()))?;
            let from = after.to_zoned(zone);
            let next = cron.find_next_occurrence(&from, false).map_err(|_| BadSchedule::Never(after))?;
            Ok(next.timestamp())
        }
    }
}

/// A due plan's event and the plan afterwards. Several missed slots are one event that lists them;
/// its id is `plan:<id>:<first slot in ms>`, so that firing twice is a duplicate.
pub fn fire(plan: &Plan, now: Timestamp) -> Option<(Event, Plan)> {
    let first = plan.next_at.filter(|at| *at <= now)?;
    let mut slots = vec![first];
    let mut next = next_after(&plan.schedule, first).ok();
    while let Some(slot) = next.filter(|slot| *slot <= now) {
        if slots.len() == SLOTS_MAX {
            // Down for very long: go on after the present, in one step.
            next = next_after(&plan.schedule, now).ok();
            break;
        }
        slots.push(slot);
        next = next_after(&plan.schedule, slot).ok();
    }
    let id = format!("plan:{}:{}", plan.id, first.as_millisecond());
    let event = Event {
        id: EventId(id.clone()),
        kind: EventKind::Plan,
        urgent: false,
        at: now,
        envelope: Envelope {
            principal: Principal::Own,
            channel: Channel::Timer,
            trust: Trust::Member,
            root: RootId(id),
            hop: 0,
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

#[cfg(test)]
mod tests {
    use super::*;
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
    fn missed_slots_are_one_event_that_lists_them() {
        let (event, plan) = fire(&hourly(), at("2026-03-01T12:30:00Z")).unwrap();
        let EventData::Plan { slots, .. } = &event.data else { panic!("a plan's event") };
        assert_eq!(slots.len(), 3);
        assert_eq!(plan.next_at, Some(at("2026-03-01T13:00:00Z")));
        assert_eq!(fire(&plan, at("2026-03-01T12:59:59Z")), None);
    }

    #[test]
    fn a_wall_clock_slot_survives_the_change_to_summer_time() {
        let schedule = Schedule::Cron { expression: "30 9 * * *".into(), zone: "Europe/Berlin".into() };
        let before = next_after(&schedule, at("2026-03-28T00:00:00Z")).unwrap();
        let after = next_after(&schedule, before).unwrap();
        assert_eq!(before, at("2026-03-28T08:30:00Z"));
        assert_eq!(after, at("2026-03-29T07:30:00Z"));
    }

    #[test]
    fn a_schedule_that_never_fires_says_why() {
        let bad = Schedule::Cron { expression: "every day".into(), zone: "UTC".into() };
        assert!(matches!(next_after(&bad, Timestamp::UNIX_EPOCH), Err(BadSchedule::Expression(_))));
        let past = Schedule::At { at: at("2020-01-01T00:00:00Z") };
        assert!(matches!(next_after(&past, at("2026-01-01T00:00:00Z")), Err(BadSchedule::Never(_))));
    }
}
