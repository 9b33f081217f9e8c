//! Plans: what they are, and when they fire. The next slot is computed from the previous slot, never from "now", so that
//! a clock jump neither repeats nor drops a slot.

mod heartbeat;
mod slots;
mod terms;

use std::fmt;

use jiff::civil::Time;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::changes::PlanChange;
use crate::config::AgentConfig;
use crate::event::{Cause, Channel, Envelope, Event, EventData, EventKind, Principal, Trust};
use crate::id::{AgentId, EventId, PlanId, RootId};
use crate::limits;

pub use heartbeat::HeartbeatTerms;
use slots::Slots;
pub use slots::{next_after, times};
pub use terms::{PlanTerms, span_ms};

/// When a plan fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Schedule {
    /// Once.
    At {
        /// When.
        at: Timestamp,
    },
    /// Once, when so much time has passed since it was set.
    After {
        /// When.
        at: Timestamp,
        /// Milliseconds from when it was set.
        after_ms: u64,
    },
    /// Again and again, whatever the clocks on the wall do.
    Every {
        /// Milliseconds between two slots.
        every_ms: u64,
        /// A slot, from which the others are counted.
        from: Timestamp,
    },
    /// At times of the day in a zone.
    Cron {
        /// Five fields.
        expression: String,
        /// IANA zone.
        zone: String,
    },
    /// Again and again from one time of each day on, until another one.
    Hours {
        /// Milliseconds between two slots of a day.
        every_ms: u64,
        /// The first slot of each day.
        from: Time,
        /// No slot is at this time or later; before `from`, it is of the next day.
        to: Time,
        /// IANA zone.
        zone: String,
    },
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At { at } | Self::After { at, .. } => write!(f, "once at {at}"),
            Self::Every { every_ms, from } => write!(f, "every {} from {from}", span_text(*every_ms)),
            Self::Cron { expression, zone } => write!(f, "cron `{expression}` in {zone}"),
            Self::Hours { every_ms, from, to, zone } => {
                write!(f, "every {} from {from} to {to} in {zone}", span_text(*every_ms))
            }
        }
    }
}

names! {
    /// What becomes of slots at which a plan could not fire, because the server was down or its agent was suspended.
    #[derive(Default)]
    pub enum Missed {
        /// One event lists them.
        #[default]
        Once,
        /// They are dropped.
        Skip,
        /// Each becomes an event.
        All,
    }
}

names! {
    /// Who set a plan, and so who may change it.
    #[derive(Default)]
    pub enum PlanSource {
        /// The agent itself.
        #[default]
        Agent,
        /// An operator.
        Operator,
        /// The agent's config.
        Config,
        /// The heartbeat in the agent's config: it fires only if there is something to look at.
        Heartbeat,
    }
}

/// A scheduled activation of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Identity.
    pub id: PlanId,
    /// Its name.
    pub name: String,
    /// What to do when it fires.
    pub instruction: String,
    /// When.
    pub schedule: Schedule,
    /// What becomes of slots at which it could not fire.
    #[serde(default)]
    pub missed: Missed,
    /// A slot that could not fire within so many milliseconds is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_late_ms: Option<u64>,
    /// The next slot; `None` once it never fires again.
    pub next_at: Option<Timestamp>,
    /// Who set it.
    #[serde(default)]
    pub source: PlanSource,
    /// The lowest trust of what had been read when it was set; the store sets it.
    #[serde(default)]
    pub trust: Trust,
}

impl Plan {
    /// A plan of the agent itself that has no next slot yet.
    pub fn new(id: PlanId, name: &str, instruction: &str, schedule: Schedule) -> Self {
        Self {
            id,
            name: name.to_owned(),
            instruction: instruction.to_owned(),
            schedule,
            missed: Missed::default(),
            max_late_ms: None,
            next_at: None,
            source: PlanSource::Agent,
            trust: Trust::default(),
        }
    }

    /// Whether the agent has set itself a timer: a plan of its own that fires once.
    fn is_timer(&self) -> bool {
        let once = matches!(self.schedule, Schedule::At { .. } | Schedule::After { .. });
        once && self.source == PlanSource::Agent
    }

    /// The longest time after a slot at which it still fires.
    fn lateness(&self) -> Option<SignedDuration> {
        let skips = (self.missed == Missed::Skip).then_some(limits::PLAN_SKIPS_AFTER_MS);
        self.max_late_ms.or(skips).map(|ms| SignedDuration::from_millis(ms.cast_signed()))
    }
}

/// Why a plan is refused. Each is said to whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPlan {
    /// A text is missing.
    #[error("a plan needs its `{0}`")]
    Missing(&'static str),
    /// A text is too long.
    #[error("`{key}`: wanted at most {max} bytes, got {got}")]
    TooLong {
        /// Which.
        key: &'static str,
        /// The limit.
        max: usize,
        /// Its length.
        got: usize,
    },
    /// Nothing says when.
    #[error("wanted one of `at`, `after`, `every` and `cron`, got none")]
    NoKind,
    /// More than one thing says when.
    #[error("wanted one of `at`, `after`, `every` and `cron`, got `{}`", .0.join("` and `"))]
    Kinds(Vec<&'static str>),
    /// A key that the kind does not use.
    #[error("`{key}` (`{value}`) is only used with `{of}`; leave it out")]
    Unused {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// The kind that uses it.
        of: &'static str,
    },
    /// A span counts from now, and a file is read at every start.
    #[error("`after` counts from now, and a config is read again and again; use `at`, `every` or `cron`")]
    AfterInFile,
    /// The expression is invalid.
    #[error(
        "`cron`: wanted five fields (minute, hour, day, month, weekday) such as `30 9 * * 1-5`, got `{got}`: {why}"
    )]
    Cron {
        /// What was given.
        got: String,
        /// What is wrong with it.
        why: String,
    },
    /// The expression names a day that does not exist.
    #[error("`{0}` never fires: no such day comes")]
    NeverFires(String),
    /// The zone is unknown.
    #[error("`{0}` is not an IANA time zone; {like}", like = terms::zone_like(.0))]
    Zone(String),
    /// Not a time.
    #[error("`{key}`: wanted a time such as `2026-03-01T09:00:00Z`, got `{got}`")]
    Time {
        /// Which.
        key: &'static str,
        /// What was given.
        got: String,
    },
    /// A local time whose zone is unknown.
    #[error("`{key}`: {got} has no offset; add one such as `Z`, or give a `zone`")]
    NoZone {
        /// Which.
        key: &'static str,
        /// What was given.
        got: String,
    },
    /// Not a time of the day.
    #[error("`{key}`: wanted a time of the day such as `09:00`, got `{got}`")]
    TimeOfDay {
        /// Which.
        key: &'static str,
        /// What was given.
        got: String,
    },
    /// A heartbeat without hours.
    #[error("`from` and `to` are both {at}, which leaves no hours; leave both out to beat at any time")]
    NoHours {
        /// When it begins and ends.
        at: Time,
    },
    /// A heartbeat that is too slow for its hours.
    #[error(
        "`every` ({every}) is longer than the hours from {from} to {to} ({hours}), which begin anew each day; \
         wanted at most {hours}, or `1d` to beat once a day at `from`"
    )]
    LongerThanHours {
        /// The interval.
        every: String,
        /// How long its hours are.
        hours: String,
        /// When it begins.
        from: Time,
        /// When it ends.
        to: Time,
    },
    /// Not a span.
    #[error("`{key}`: wanted a span such as `30m`, `2h` or `1d`, got `{got}`")]
    Span {
        /// Which.
        key: &'static str,
        /// What was given.
        got: String,
    },
    /// A span that is too short.
    #[error("`{key}`: wanted at least {least}, got `{got}`")]
    TooShort {
        /// Which.
        key: &'static str,
        /// The least.
        least: String,
        /// What was given.
        got: String,
    },
    /// A time or a span that is too long.
    #[error("wanted a time or span within 10 years; put it off until later")]
    TooFar,
    /// The only slot has passed.
    #[error("`at` must be ahead: {at} is not after now, {now}")]
    Past {
        /// The slot.
        at: Timestamp,
        /// Now.
        now: Timestamp,
    },
    /// The schedule has no slot after that time.
    #[error("the schedule never fires after {0}")]
    Never(Timestamp),
}

/// A span in words such as `1d 12h`.
pub fn span_text(ms: u64) -> String {
    const UNITS: [(&str, u64); 5] =
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
    let mut rest = ms;
    let mut parts = Vec::new();
    for (unit, length) in UNITS {
        if rest >= length {
            parts.push(format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// Changes that bring an agent's plans in line with its config. Plans that it or an operator has set stay, and so does a
/// plan whose terms are the same: its next slot is not computed again.
pub fn of_config(agent: AgentId, config: &AgentConfig, current: &[Plan], now: Timestamp) -> Vec<PlanChange> {
    let wanted = &config.plans;
    let mut changes = Vec::new();
    let of_config = || current.iter().filter(|plan| plan.source == PlanSource::Config);
    let mut kept = Vec::new();
    for terms in wanted {
        let id = PlanId::of_config(agent, terms.name.as_deref().unwrap_or_default().trim());
        kept.push(id);
        let before = of_config().find(|plan| plan.id == id);
        let anchor = before.filter(|_| terms.from.is_none()).and_then(|before| match before.schedule {
            Schedule::Every { from, .. } => Some(from.to_string()),
            _ => None,
        });
        let terms = match (&terms.every, anchor) {
            (Some(_), Some(anchor)) => PlanTerms { from: Some(anchor), ..terms.clone() },
            _ => terms.clone(),
        };
        // A time that has passed is not set again.
        let Ok(new) = terms.plan(id, None, PlanSource::Config, now) else { continue };
        match before {
            Some(before) if same_terms(before, &new) => {}
            Some(before) if before.schedule == new.schedule => {
                changes.push(PlanChange::Set(Plan { next_at: before.next_at, ..new }));
            }
            _ => changes.push(PlanChange::Set(new)),
        }
    }
    let gone = of_config().filter(|plan| !kept.contains(&plan.id));
    changes.extend(gone.map(|plan| PlanChange::Delete(plan.id)));
    let before = current.iter().find(|plan| plan.source == PlanSource::Heartbeat);
    let heartbeat = config.heartbeat.as_ref().and_then(|terms| terms.plan(agent, before, now).ok());
    match (before, heartbeat) {
        (Some(before), None) => changes.push(PlanChange::Delete(before.id)),
        (Some(before), Some(new)) if same_terms(before, &new) => {}
        (_, Some(new)) => changes.push(PlanChange::Set(new)),
        (None, None) => {}
    }
    changes
}

/// Whether two versions of a plan differ in nothing that is written in a config.
fn same_terms(a: &Plan, b: &Plan) -> bool {
    let terms = |plan: &Plan| (plan.name.clone(), plan.instruction.clone(), plan.missed, plan.max_late_ms);
    a.schedule == b.schedule && terms(a) == terms(b)
}

/// The plans after these changes.
pub fn amended(plans: &[Plan], changes: &[PlanChange]) -> Vec<Plan> {
    let mut plans = plans.to_vec();
    for change in changes {
        match change {
            PlanChange::Set(plan) => match plans.iter_mut().find(|known| known.id == plan.id) {
                Some(known) => *known = plan.clone(),
                None => plans.push(plan.clone()),
            },
            PlanChange::Delete(id) => plans.retain(|plan| plan.id != *id),
        }
    }
    plans
}

/// How many of these count against [`limits::PLANS_MAX`].
pub fn counted(plans: &[Plan]) -> usize {
    let is_counted = |plan: &&Plan| matches!(plan.source, PlanSource::Agent | PlanSource::Operator);
    plans.iter().filter(is_counted).count()
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
    pub fn of(missed: Missed, waits: bool, waiting: u32, inbox_max: u32) -> Self {
        match waits && missed != Missed::All {
            true => Self::Extend,
            false if waiting >= inbox_max => Self::Postpone,
            false => Self::Event,
        }
    }
}

/// What a due plan does.
#[derive(Clone, Debug, PartialEq)]
pub struct Fired {
    /// The event that it creates; `None` if all due slots are dropped.
    pub event: Option<Event>,
    /// The plan afterwards.
    pub plan: Plan,
    /// The first slot that was dropped because it was too late.
    pub late: Option<Timestamp>,
}

/// What a due plan does; `None` if it is not due. Several missed slots become one event that lists them, unless the plan
/// wants another thing. The event's id is `plan:<id>:<first slot in ms>`, so that a second firing is a duplicate. Its trust is that
/// of the cause for which the plan was set.
pub fn fire(plan: &Plan, cause: &Cause, now: Timestamp) -> Option<Fired> {
    let stored = plan.next_at.filter(|at| *at <= now)?;
    let schedule = Slots::of(&plan.schedule).ok();
    let after = |slot| schedule.as_ref().and_then(|schedule| schedule.after(slot));
    let from = |at| schedule.as_ref().and_then(|schedule| schedule.from(at));
    let oldest = plan.lateness().and_then(|late| now.checked_sub(late).ok());
    let late = oldest.filter(|oldest| stored < *oldest).map(|_| stored);
    let fired = |event, late, next_at| Fired { event, plan: Plan { next_at, ..plan.clone() }, late };
    // The rules of a zone may have changed since the slot was computed.
    let moved = from(stored).filter(|slot| *slot > now && is_shifted(stored, *slot));
    if moved.is_some() {
        return Some(fired(None, None, moved));
    }
    let first = match oldest.filter(|_| late.is_some()) {
        Some(oldest) => from(oldest),
        None => Some(stored),
    };
    let Some(first) = first.filter(|slot| *slot <= now) else { return Some(fired(None, late, first)) };
    let mut slots = vec![first];
    let mut next = after(first);
    if plan.missed != Missed::All {
        while let Some(slot) = next.filter(|slot| *slot <= now) {
            if slots.len() == limits::PLAN_SLOTS_MAX {
                // The server was down for very long: skip to the first slot after now.
                next = after(now);
                break;
            }
            slots.push(slot);
            next = after(slot);
        }
    }
    let event = event_of(plan, cause, slots, now);
    Some(fired(Some(event), late, next))
}

/// The plan with a next slot that is no further ahead than its own length, if it is now: it was set, or has fired, while the
/// clock was ahead. Plans that name a time or a day mean the clock on the wall, and stay.
pub fn bounded(plan: &Plan, now: Timestamp) -> Option<Plan> {
    let next = plan.next_at?;
    let ahead = |ms: u64| now.checked_add(SignedDuration::from_millis(i64::try_from(ms).ok()?)).ok();
    match plan.schedule {
        Schedule::After { after_ms, .. } => {
            let at = ahead(after_ms).filter(|at| *at < next)?;
            let schedule = Schedule::After { at, after_ms };
            Some(Plan { schedule, next_at: Some(at), ..plan.clone() })
        }
        // A start that has not come yet is meant, so its first slot stays.
        Schedule::Every { every_ms, from } if from < next && ahead(every_ms)? < next => {
            let schedule = Schedule::Every { every_ms, from: begun(from, every_ms, now)? };
            let next_at = next_after(&schedule, now).ok();
            Some(Plan { schedule, next_at, ..plan.clone() })
        }
        _ => None,
    }
}

/// A slot that is not ahead, of the same row of slots.
fn begun(from: Timestamp, every_ms: u64, now: Timestamp) -> Option<Timestamp> {
    let ahead = u64::try_from(from.duration_since(now).as_millis()).unwrap_or(0);
    let back = ahead.div_ceil(every_ms.max(1)).checked_mul(every_ms)?;
    from.checked_sub(SignedDuration::from_millis(i64::try_from(back).ok()?)).ok()
}

/// Whether a slot is the stored one by newer rules of its zone.
fn is_shifted(stored: Timestamp, slot: Timestamp) -> bool {
    let later = SignedDuration::from_millis(limits::PLAN_SHIFT_MAX_MS.cast_signed());
    slot > stored && slot.duration_since(stored) <= later
}

fn event_of(plan: &Plan, cause: &Cause, slots: Vec<Timestamp>, now: Timestamp) -> Event {
    let first = slots.first().map_or(0, |slot| slot.as_millisecond());
    let id = format!("plan:{}:{first}", plan.id);
    let root = if cause.root.0.is_empty() { RootId(id.clone()) } else { cause.root.clone() };
    let (kind, data) = match plan.source {
        PlanSource::Heartbeat => (EventKind::Heartbeat, EventData::Heartbeat),
        _ => {
            let (name, instruction) = (plan.name.clone(), plan.instruction.clone());
            let kind = if plan.is_timer() { EventKind::Timer } else { EventKind::Plan };
            (kind, EventData::Plan { plan: plan.id, name, instruction, slots })
        }
    };
    Event {
        id: EventId(id),
        kind,
        urgent: false,
        at: now,
        envelope: Envelope {
            principal: Principal::Own,
            channel: Channel::Timer,
            trust: cause.trust,
            root,
            hop: cause.hop,
        },
        data,
        cites: None,
    }
}

/// The event, with this id, of a plan that an operator lets fire now. Its schedule goes on as if it had not.
pub fn fired_now(plan: &Plan, id: EventId, now: Timestamp) -> Event {
    // Somebody else may have written what the agent is told to do.
    let cause = Cause { root: RootId(id.0.clone()), hop: 0, trust: plan.trust };
    Event { id, ..event_of(plan, &cause, vec![now], now) }
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
    use uuid::Uuid;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn hourly() -> Plan {
        let schedule = Schedule::Cron { expression: "0 * * * *".into(), zone: "UTC".into() };
        let next_at = Some(at("2026-03-01T10:00:00Z"));
        Plan { next_at, ..Plan::new(PlanId(Uuid::from_u128(1)), "health", "check", schedule) }
    }

    #[test]
    fn no_plan_with_a_length_waits_longer_than_that_once_the_clock_is_right_again() {
        let (now, hour) = (at("2026-03-01T10:00:00Z"), 3_600_000);
        let plan = |schedule, next: &str| Plan {
            next_at: Some(at(next)),
            ..Plan::new(PlanId(Uuid::from_u128(1)), "n", "i", schedule)
        };
        let after = |next: &str| plan(Schedule::After { at: at(next), after_ms: hour }, next);
        let every = |from: &str, next: &str| plan(Schedule::Every { every_ms: hour, from: at(from) }, next);
        for (plan, expected) in [
            (after("2026-03-03T11:00:00Z"), Some("2026-03-01T11:00:00Z")),
            (after("2026-03-01T11:00:00Z"), None),
            (after("2026-03-01T10:30:00Z"), None),
            // It fired while the clock was ahead.
            (every("2026-03-01T09:15:00Z", "2026-03-03T10:15:00Z"), Some("2026-03-01T10:15:00Z")),
            (every("2026-03-01T09:15:00Z", "2026-03-01T10:15:00Z"), None),
            // It was set while the clock was ahead: its first slot has passed by that clock.
            (every("2026-03-03T10:00:00Z", "2026-03-03T11:00:00Z"), Some("2026-03-01T11:00:00Z")),
            (every("2026-03-03T10:20:00Z", "2026-03-03T11:20:00Z"), Some("2026-03-01T10:20:00Z")),
            // It begins later.
            (every("2026-03-03T10:00:00Z", "2026-03-03T10:00:00Z"), None),
            (every("2026-03-01T10:30:00Z", "2026-03-01T11:30:00Z"), Some("2026-03-01T10:30:00Z")),
            (plan(Schedule::At { at: at("2026-03-03T11:00:00Z") }, "2026-03-03T11:00:00Z"), None),
            (Plan { next_at: Some(at("2026-03-03T11:00:00Z")), ..hourly() }, None),
        ] {
            let bounded = bounded(&plan, now);
            assert_eq!(bounded.as_ref().and_then(|plan| plan.next_at), expected.map(at), "{plan:?}");
            // It fires at that time, and then as it would.
            if let Some(plan) = bounded {
                assert!(fire(&plan, &Cause::default(), plan.next_at.unwrap()).unwrap().event.is_some());
            }
        }
    }

    #[test]
    fn missed_slots_become_one_event_that_lists_them() {
        let (event, plan) = fired(&hourly(), &Cause::default(), at("2026-03-01T12:30:00Z"));
        assert_eq!(slots(&event.data).len(), 3);
        assert_eq!(plan.next_at, Some(at("2026-03-01T13:00:00Z")));
        assert_eq!(fire(&plan, &Cause::default(), at("2026-03-01T12:59:59Z")), None);
    }

    fn fired(plan: &Plan, cause: &Cause, now: Timestamp) -> (Event, Plan) {
        let Fired { event, plan, .. } = fire(plan, cause, now).unwrap();
        (event.unwrap(), plan)
    }

    fn slots(data: &EventData) -> &[Timestamp] {
        let EventData::Plan { slots, .. } = data else { panic!("a plan's event") };
        slots
    }

    #[test]
    fn an_operator_lets_a_plan_fire_with_what_it_says_and_no_more_trust_than_it_has() {
        let (plan, now) = (Plan { trust: Trust::Outside, ..hourly() }, at("2026-03-01T09:30:00Z"));
        let event = fired_now(&plan, EventId("e".into()), now);
        assert_eq!((event.id.0.as_str(), event.envelope.root.0.as_str()), ("e", "e"));
        assert_eq!((slots(&event.data), event.envelope.trust), (&[now][..], Trust::Outside));
        let (scheduled, _) = fired(&plan, &Cause::default(), at("2026-03-01T10:00:00Z"));
        assert_eq!(event.kind, scheduled.kind);
    }

    #[test]
    fn a_waiting_event_gets_later_slots_up_to_a_limit() {
        let cause = Cause::default();
        let (first, plan) = fired(&hourly(), &cause, at("2026-03-01T10:30:00Z"));
        let (second, plan) = fired(&plan, &cause, at("2026-03-01T12:30:00Z"));
        let both = extended(first.data, second.data);
        let hours = ["2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z", "2026-03-01T12:00:00Z"];
        assert_eq!(slots(&both), hours.map(at));
        let (late, plan) = fired(&plan, &cause, at("2026-04-01T00:00:00Z"));
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
            assert_eq!(Firing::of(Missed::Once, waits, waiting, 10), firing, "{waits} {waiting}");
        }
    }

    #[test]
    fn a_plan_of_the_agents_own_that_fires_once_is_a_timer() {
        let time = at("2026-03-01T10:00:00Z");
        let (once, after) = (Schedule::At { at: time }, Schedule::After { at: time, after_ms: 60_000 });
        for (schedule, source, kind) in [
            (once.clone(), PlanSource::Agent, EventKind::Timer),
            (after.clone(), PlanSource::Agent, EventKind::Timer),
            (hourly().schedule, PlanSource::Agent, EventKind::Plan),
            (once, PlanSource::Operator, EventKind::Plan),
            (after, PlanSource::Config, EventKind::Plan),
        ] {
            let plan = Plan { schedule, source, ..hourly() };
            let event = fired(&plan, &Cause::default(), time).0;
            assert_eq!((event.kind, slots(&event.data)), (kind, &[time][..]), "{plan:?}");
        }
    }

    #[test]
    fn the_event_of_a_plan_has_the_root_and_trust_of_its_cause() {
        let fired = |cause: Cause| fired(&hourly(), &cause, at("2026-03-01T10:00:00Z")).0;
        let cause = Cause { root: RootId("request".into()), hop: 3, trust: Trust::Agent };
        let envelope = fired(cause).envelope;
        assert_eq!((envelope.root.0.as_str(), envelope.hop, envelope.trust), ("request", 3, Trust::Agent));
        let alone = fired(Cause::default());
        assert_eq!((alone.envelope.root.0, alone.envelope.trust), (alone.id.0, Trust::Outside));
    }

    #[test]
    fn a_plan_that_skips_fires_only_for_slots_that_are_not_late() {
        let skip = Plan { missed: Missed::Skip, ..hourly() };
        let fired = |plan: &Plan, now: &str| fire(plan, &Cause::default(), at(now)).unwrap();
        let late = fired(&skip, "2026-03-01T12:30:00Z");
        assert_eq!((late.event, late.plan.next_at), (None, Some(at("2026-03-01T13:00:00Z"))));
        assert_eq!(late.late, Some(at("2026-03-01T10:00:00Z")));
        let in_part = fired(&skip, "2026-03-01T12:00:59Z");
        assert_eq!(slots(&in_part.event.unwrap().data), [at("2026-03-01T12:00:00Z")]);
        assert_eq!(in_part.late, Some(at("2026-03-01T10:00:00Z")));
        assert_eq!(fired(&skip, "2026-03-01T10:00:59Z").late, None);
        let patient = Plan { max_late_ms: Some(3_600_000), ..hourly() };
        let event = fired(&patient, "2026-03-01T12:30:00Z").event.unwrap();
        assert_eq!(slots(&event.data), [at("2026-03-01T12:00:00Z")]);
        let far = fired(&skip, "2036-03-01T12:30:00Z");
        assert_eq!(far.plan.next_at, Some(at("2036-03-01T13:00:00Z")));
        let once = Schedule::At { at: at("2026-03-01T10:00:00Z") };
        let once = Plan { schedule: once, ..skip };
        let over = fired(&once, "2026-03-01T12:00:00Z");
        assert_eq!((over.event, over.plan.next_at), (None, None));
    }

    #[test]
    fn a_plan_that_wants_all_fires_once_for_each_slot() {
        let mut plan = Plan { missed: Missed::All, ..hourly() };
        for hour in 10..13 {
            let fired = fire(&plan, &Cause::default(), at("2026-03-01T12:30:00Z")).unwrap();
            let slot = at(&format!("2026-03-01T{hour}:00:00Z"));
            assert_eq!(slots(&fired.event.unwrap().data), [slot]);
            plan = fired.plan;
        }
        assert_eq!(fire(&plan, &Cause::default(), at("2026-03-01T12:30:00Z")), None);
    }

    #[test]
    fn a_slot_that_the_rules_of_its_zone_have_moved_fires_at_its_new_time() {
        let daily = Schedule::Cron { expression: "0 9 * * *".into(), zone: "Europe/Berlin".into() };
        let stored = |next: &str| Plan { schedule: daily.clone(), next_at: Some(at(next)), ..hourly() };
        let early =
            fire(&stored("2026-03-01T07:00:00Z"), &Cause::default(), at("2026-03-01T07:00:01Z")).unwrap();
        assert_eq!((early.event, early.plan.next_at), (None, Some(at("2026-03-01T08:00:00Z"))));
        let late =
            fire(&stored("2026-03-01T09:00:00Z"), &Cause::default(), at("2026-03-01T09:00:01Z")).unwrap();
        assert_eq!((late.event.is_some(), late.plan.next_at), (true, Some(at("2026-03-02T08:00:00Z"))));
    }

    fn with(plans: &[PlanTerms]) -> AgentConfig {
        AgentConfig { plans: plans.to_vec(), ..AgentConfig::default() }
    }

    #[test]
    fn a_heartbeat_follows_the_config_and_counts_as_no_plan_of_the_agent() {
        let (agent, now) = (AgentId(Uuid::from_u128(9)), at("2026-03-01T10:00:00Z"));
        let beating = AgentConfig::from_json(&serde_json::json!({"heartbeat": {"every": "1h"}})).unwrap();
        let set = amended(&[hourly()], &of_config(agent, &beating, &[hourly()], now));
        assert_eq!((set.len(), counted(&set), set[1].source), (2, 1, PlanSource::Heartbeat));
        assert_eq!(of_config(agent, &beating, &set, at("2026-03-01T10:30:00Z")), [], "nothing has changed");
        let Fired { event, plan, .. } = fire(&set[1], &Cause::default(), at("2026-03-01T11:00:00Z")).unwrap();
        assert_eq!(event.unwrap().data, EventData::Heartbeat);
        assert_eq!(plan.next_at, Some(at("2026-03-01T12:00:00Z")));
        assert_eq!(amended(&set, &of_config(agent, &with(&[]), &set, now)), [hourly()]);
    }

    #[test]
    fn the_plans_of_a_config_follow_it_and_leave_the_others_alone() {
        let terms = |name: &str, instruction: &str| PlanTerms {
            name: Some(name.into()),
            instruction: Some(instruction.into()),
            every: Some("1h".into()),
            ..PlanTerms::default()
        };
        let agent = AgentId(Uuid::from_u128(9));
        let now = at("2026-03-01T10:00:00Z");
        let later = at("2026-03-01T10:40:00Z");
        let wanted = [terms("health", "check"), terms("mail", "read")];
        let set = amended(&[hourly()], &of_config(agent, &with(&wanted), &[hourly()], now));
        assert_eq!((set.len(), counted(&set)), (3, 1));
        assert_eq!(of_config(agent, &with(&wanted), &set, later), [], "nothing has changed");
        let wanted = [terms("health", "look")];
        let set = amended(&set, &of_config(agent, &with(&wanted), &set, later));
        assert_eq!(set.len(), 2);
        assert_eq!((set[0].clone(), set[1].instruction.as_str()), (hourly(), "look"));
        assert_eq!(set[1].next_at, Some(at("2026-03-01T11:00:00Z")), "it keeps its anchor");
        let past = PlanTerms { at: Some("2026-01-01T00:00:00Z".into()), every: None, ..terms("past", "x") };
        assert_eq!(of_config(agent, &with(&[past]), &[], now), []);
    }

    #[test]
    fn spans_are_shown_in_the_largest_units() {
        let shown = [0, 1, 61_000, 86_400_000, 129_600_000].map(span_text);
        assert_eq!(shown, ["0s", "1ms", "1m 1s", "1d", "1d 12h"]);
    }
}
