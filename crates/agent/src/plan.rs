//! When plans fire. The next slot is computed from the scheduled one, never from "now", so that a
//! clock that jumps neither repeats nor drops a slot.

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
    /// It has no slot after that time.
    #[error("the schedule never fires after {0}")]
    Never(Timestamp),
}

/// The first slot after `after`.
pub fn next_after(schedule: &Schedule, after: Timestamp) -> Result<Timestamp, BadSchedule> {
    Slots::of(schedule)?.after(after)
}

/// A schedule that was read once: reading it costs more than a slot of it.
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

/// What becomes of a plan that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firing {
    /// It becomes an event.
    Event,
    /// Its last event waits: that one lists the new slots too.
    More,
    /// There is no room: it is due again a little later, with the slots until then.
    Later,
}

impl Firing {
    /// `waits` says whether the plan's last event does and no cycle has taken it, `waiting` how many events of
    /// the agent wait.
    pub fn of(waits: bool, waiting: u32, inbox_max: u32) -> Self {
        match waits {
            true => Self::More,
            false if waiting >= inbox_max => Self::Later,
            false => Self::Event,
        }
    }
}

/// A due plan's event and the plan afterwards. Several missed slots are one event that lists them;
/// its id is `plan:<id>:<first slot in ms>`, so that firing twice is a duplicate. It is as trustworthy as what
/// made the agent plan it.
pub fn fire(plan: &Plan, cause: &Cause, now: Timestamp) -> Option<(Event, Plan)> {
    let first = plan.next_at.filter(|at| *at <= now)?;
    let schedule = Slots::of(&plan.schedule).ok();
    let after = |slot| schedule.as_ref().and_then(|schedule| schedule.after(slot).ok());
    let mut slots = vec![first];
    let mut next = after(first);
    while let Some(slot) = next.filter(|slot| *slot <= now) {
        if slots.len() == limits::PLAN_SLOTS_MAX {
            // Down for very long: go on after the present, in one step.
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

/// What an event that waits says once its plan has fired again; it lists so many slots at most.
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
    fn missed_slots_are_one_event_that_lists_them() {
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
    fn an_event_that_waits_lists_later_slots_too_but_not_without_end() {
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
    fn a_plan_fires_into_its_event_that_waits_else_where_there_is_room() {
        for (waits, waiting, firing) in [
            (false, 0, Firing::Event),
            (false, 9, Firing::Event),
            (false, 10, Firing::Later),
            (true, 1, Firing::More),
            (true, 10, Firing::More),
        ] {
            assert_eq!(Firing::of(waits, waiting, 10), firing, "{waits} {waiting}");
        }
    }

    #[test]
    fn a_plans_event_is_as_trustworthy_as_what_made_the_agent_plan_it() {
        let fired = |cause: Cause| fire(&hourly(), &cause, at("2026-03-01T10:00:00Z")).unwrap().0;
        let cause = Cause { root: RootId("asked".into()), hop: 3, trust: Trust::Agent };
        let envelope = fired(cause).envelope;
        assert_eq!((envelope.root.0.as_str(), envelope.hop, envelope.trust), ("asked", 3, Trust::Agent));
        let alone = fired(Cause::default());
        assert_eq!((alone.envelope.root.0, alone.envelope.trust), (alone.id.0, Trust::Outside));
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
