//! The heartbeat of an agent: it is woken at intervals if there is something for it to look at. Whether there is, the store
//! finds out without a model.

use jiff::civil::Time;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::terms::{given, shown, span, zone_of};
use super::{BadPlan, Plan, PlanSource, Schedule, next_after, span_text};
use crate::id::{AgentId, PlanId};
use crate::limits;

const DAY_MS: u64 = 86_400_000;

/// The name of the plan that a heartbeat is.
const NAME: &str = "heartbeat";

/// A heartbeat as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatTerms {
    /// The interval.
    pub every: String,
    /// The time of the day at which it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The time of the day before which it ends, of the next day if it is earlier than `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The IANA zone of these times; UTC by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl HeartbeatTerms {
    /// The plan that it is.
    pub(super) fn plan(
        &self,
        agent: AgentId,
        before: Option<&Plan>,
        now: Timestamp,
    ) -> Result<Plan, BadPlan> {
        let anchor = match before.map(|before| &before.schedule) {
            Some(Schedule::Every { from, .. }) => *from,
            _ => now,
        };
        let schedule = self.schedule(anchor)?;
        let same = before.filter(|before| before.schedule == schedule);
        let next = match same.and_then(|before| before.next_at) {
            Some(next) => next,
            None => next_after(&schedule, now)?,
        };
        let plan = Plan::new(PlanId::of_config(agent, "\u{0}heartbeat"), NAME, "", schedule);
        Ok(Plan { next_at: Some(next), source: PlanSource::Heartbeat, ..plan })
    }

    /// Why it cannot be right.
    pub(crate) fn check(&self) -> Result<(), BadPlan> {
        self.schedule(Timestamp::UNIX_EPOCH).map(drop)
    }

    fn schedule(&self, anchor: Timestamp) -> Result<Schedule, BadPlan> {
        let every_ms = span("every", &self.every, limits::PLAN_INTERVAL_MIN_MS)?;
        let (from, to) = (given(&self.from), given(&self.to));
        if from.is_none() && to.is_none() {
            if let Some(zone) = given(&self.zone) {
                return Err(BadPlan::Unused { key: "zone", value: shown(zone), of: "from` and `to" });
            }
            return Ok(Schedule::Every { every_ms, from: anchor });
        }
        let time = |key, text: Option<&str>, default| match text {
            Some(text) => text.parse::<Time>().map_err(|_| BadPlan::TimeOfDay { key, got: shown(text) }),
            None => Ok(default),
        };
        let (from, to) = (time("from", from, Time::midnight())?, time("to", to, Time::MAX)?);
        if from == to {
            return Err(BadPlan::NoHours { at: from });
        }
        let hours = length_ms(from, to);
        if every_ms > hours && every_ms != DAY_MS {
            return Err(BadPlan::LongerThanHours {
                every: span_text(every_ms),
                hours: span_text(hours),
                from,
                to,
            });
        }
        let zone = given(&self.zone).unwrap_or("UTC");
        zone_of(zone)?;
        Ok(Schedule::Hours { every_ms, from, to, zone: zone.to_owned() })
    }
}

/// How long the hours are, in milliseconds; those that end at or before their beginning go on into the next day.
fn length_ms(from: Time, to: Time) -> u64 {
    // The end of the day is a nanosecond short of it.
    let length = to.duration_since(from) + SignedDuration::from_hours(24) + SignedDuration::from_nanos(1);
    u64::try_from(length.as_millis()).unwrap_or_default() % DAY_MS
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::plan::times;

    fn terms(value: Value) -> HeartbeatTerms {
        serde_json::from_value(value).unwrap()
    }

    fn plan(value: Value, now: &str) -> Plan {
        terms(value).plan(AgentId(Uuid::nil()), None, now.parse().unwrap()).unwrap()
    }

    #[test]
    fn it_beats_within_its_hours_of_each_day_on_both_sides_of_a_change_of_the_clocks() {
        let hours = json!({"every": "4h", "from": "09:00", "to": "18:00", "zone": "Europe/Berlin"});
        let plan = plan(hours, "2026-03-28T07:00:00Z");
        let slots = times(&plan.schedule, "2026-03-28T07:00:00Z".parse().unwrap(), 7).unwrap();
        let slots: Vec<String> = slots.iter().map(ToString::to_string).collect();
        let (winter, summer) = (["08", "12", "16"], ["07", "11", "15"]);
        let expected: Vec<String> = winter
            .iter()
            .map(|hour| format!("2026-03-28T{hour}:00:00Z"))
            .chain(summer.iter().map(|hour| format!("2026-03-29T{hour}:00:00Z")))
            .chain(["2026-03-30T07:00:00Z".to_owned()])
            .collect();
        assert_eq!(slots, expected);
        assert_eq!(plan.next_at.unwrap().to_string(), expected[0]);
    }

    #[test]
    fn hours_may_go_over_midnight() {
        let night = json!({"every": "3h", "from": "22:00", "to": "06:00", "zone": "Europe/Berlin"});
        let plan = plan(night, "2026-03-27T12:00:00Z");
        let beats = |after: &str, expected: &[&str]| {
            let slots = times(&plan.schedule, after.parse().unwrap(), expected.len()).unwrap();
            let slots: Vec<String> = slots.iter().map(ToString::to_string).collect();
            assert_eq!(slots, expected.iter().map(|at| format!("2026-03-{at}:00:00Z")).collect::<Vec<_>>());
        };
        let all = ["27T21", "28T00", "28T03", "28T21", "29T00", "29T03", "29T20", "29T23", "30T02", "30T20"];
        beats("2026-03-27T12:00:00Z", &all);
        for (n, after) in all.iter().enumerate().skip(1) {
            beats(&format!("2026-03-{}:00:00Z", all[n - 1]), &[after]);
        }
    }

    #[test]
    fn it_may_beat_once_a_day_at_the_first_of_its_hours() {
        for every in ["1d", "9h", "24h"] {
            let daily = plan(json!({"every": every, "from": "09:00", "to": "18:00"}), "2026-03-27T12:00:00Z");
            let slots = times(&daily.schedule, "2026-03-27T12:00:00Z".parse().unwrap(), 2).unwrap();
            let slots: Vec<String> = slots.iter().map(ToString::to_string).collect();
            assert_eq!(slots, ["2026-03-28T09:00:00Z", "2026-03-29T09:00:00Z"], "{every}");
        }
        plan(json!({"every": "15h", "from": "09:00"}), "2026-03-27T12:00:00Z");
    }

    #[test]
    fn without_hours_it_beats_at_any_time_and_keeps_its_rhythm() {
        let now: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        let first = plan(json!({"every": "2h"}), "2026-03-01T10:00:00Z");
        assert_eq!(first.next_at.unwrap().to_string(), "2026-03-01T12:00:00Z");
        let later = "2026-03-01T13:00:00Z".parse().unwrap();
        let again = terms(json!({"every": "2h"})).plan(AgentId(Uuid::nil()), Some(&first), later).unwrap();
        assert_eq!((again.next_at, &again.schedule), (first.next_at, &first.schedule), "it was read again");
        assert!(matches!(first.schedule, Schedule::Every { from, .. } if from == now));
    }

    #[test]
    fn what_cannot_be_right_is_refused_with_the_reason() {
        for (value, why) in [
            (json!({"every": "10s"}), "`every`: wanted at least 1m, got `10s`"),
            (
                json!({"every": "1h", "from": "9 o'clock"}),
                "`from`: wanted a time of the day such as `09:00`, got `9 o'clock`",
            ),
            (
                json!({"every": "1h", "from": "18:00", "to": "18:00"}),
                "`from` and `to` are both 18:00:00, which leaves no hours",
            ),
            (
                json!({"every": "3d", "from": "09:00", "to": "18:00"}),
                "`every` (3d) is longer than the hours from 09:00:00 to 18:00:00 (9h), which begin anew each day",
            ),
            (
                json!({"every": "9h", "from": "22:00", "to": "06:00"}),
                "`every` (9h) is longer than the hours from 22:00:00 to 06:00:00 (8h), which begin anew each day",
            ),
            (
                json!({"every": "16h", "from": "09:00"}),
                "`every` (16h) is longer than the hours from 09:00:00",
            ),
            (
                json!({"every": "1h", "zone": "UTC"}),
                "`zone` (`UTC`) is only used with `from` and `to`; leave it out",
            ),
            (json!({"every": "1h", "from": "09:00", "zone": "Berlin"}), "`Berlin` is not an IANA time zone"),
        ] {
            let said = terms(value.clone()).check().unwrap_err().to_string();
            assert!(said.starts_with(why), "{value}: {said}");
        }
    }
}
