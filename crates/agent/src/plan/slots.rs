//! The times at which a schedule fires, on both sides of a change of the clocks.

use std::str::FromStr;

use croner::Cron;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::terms::zone_of;
use super::{BadPlan, Schedule};

/// The first slot after `after`.
pub fn next_after(schedule: &Schedule, after: Timestamp) -> Result<Timestamp, BadPlan> {
    Slots::of(schedule)?.after(after).ok_or(BadPlan::Never(after))
}

/// The first `count` slots after `after`; fewer if there are no more.
pub fn times(schedule: &Schedule, after: Timestamp, count: usize) -> Result<Vec<Timestamp>, BadPlan> {
    let slots = Slots::of(schedule)?;
    Ok(std::iter::successors(slots.after(after), |slot| slots.after(*slot)).take(count).collect())
}

/// A parsed schedule. Parsing costs more than computing a slot, so it is done once.
pub(super) enum Slots {
    At(Timestamp),
    Every(i64, Timestamp),
    Cron(Box<Cron>, TimeZone),
    Hours(SignedDuration, Time, Time, TimeZone),
}

impl Slots {
    pub(super) fn of(schedule: &Schedule) -> Result<Self, BadPlan> {
        Ok(match schedule {
            Schedule::At { at } => Self::At(*at),
            Schedule::Every { every_ms, from } => {
                Self::Every(i64::try_from(*every_ms).unwrap_or(i64::MAX).max(1), *from)
            }
            Schedule::Cron { expression, zone } => {
                let cron = Cron::from_str(expression).map_err(|_| BadPlan::Cron(expression.clone()))?;
                Self::Cron(Box::new(cron), zone_of(zone)?)
            }
            Schedule::Hours { every_ms, from, to, zone } => {
                let every = SignedDuration::from_millis(i64::try_from(*every_ms).unwrap_or(i64::MAX).max(1));
                Self::Hours(every, *from, *to, zone_of(zone)?)
            }
        })
    }

    /// The first slot after that time. It depends on nothing else, so a jump of the clock neither repeats nor drops one.
    pub(super) fn after(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(*at).filter(|at| *at > after),
            Self::Every(_, from) if after < *from => Some(*from),
            Self::Every(every, from) => {
                let passed = (after.as_millisecond() - from.as_millisecond()) / every;
                let ahead = every.checked_mul(passed + 1)?;
                from.checked_add(SignedDuration::from_millis(ahead)).ok()
            }
            Self::Cron(cron, zone) => {
                let from = after.to_zoned(zone.clone());
                Some(cron.find_next_occurrence(&from, false).ok()?.timestamp())
            }
            Self::Hours(every, from, to, zone) => {
                let today = after.to_zoned(zone.clone()).date();
                let in_day = |date: Date| {
                    let at =
                        |time| date.to_datetime(time).to_zoned(zone.clone()).ok().map(|at| at.timestamp());
                    let (from, to) = (at(*from)?, at(*to)?);
                    let passed = after.duration_since(from).as_millis().div_euclid(every.as_millis()) + 1;
                    let ahead = every.as_millis().checked_mul(passed.max(0))?;
                    let ahead = SignedDuration::from_millis(i64::try_from(ahead).ok()?);
                    from.checked_add(ahead).ok().filter(|slot| *slot < to)
                };
                in_day(today).or_else(|| in_day(today.tomorrow().ok()?))
            }
        }
    }

    /// The first slot at that time or after it.
    pub(super) fn from(&self, at: Timestamp) -> Option<Timestamp> {
        self.after(at.checked_sub(SignedDuration::from_millis(1)).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn cron(expression: &str, zone: &str) -> Schedule {
        Schedule::Cron { expression: expression.into(), zone: zone.into() }
    }

    fn check(schedule: &Schedule, after: &str, expected: &[&str]) {
        let found = times(schedule, at(after), expected.len()).unwrap();
        assert_eq!(found, expected.iter().map(|text| at(text)).collect::<Vec<_>>(), "{schedule:?}");
    }

    #[test]
    fn a_daily_slot_keeps_its_local_time_over_both_changes_of_the_clocks() {
        let daily = cron("30 9 * * *", "Europe/Berlin");
        check(&daily, "2026-03-28T00:00:00Z", &["2026-03-28T08:30:00Z", "2026-03-29T07:30:00Z"]);
        check(&daily, "2026-10-24T00:00:00Z", &["2026-10-24T07:30:00Z", "2026-10-25T08:30:00Z"]);
    }

    #[test]
    fn a_daily_slot_in_a_skipped_hour_fires_after_it_and_in_a_repeated_hour_once() {
        let daily = cron("30 2 * * *", "Europe/Berlin");
        check(
            &daily,
            "2026-03-28T00:00:00Z",
            &["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        );
        check(
            &daily,
            "2026-10-24T00:00:00Z",
            &["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        );
    }

    #[test]
    fn an_hourly_slot_fires_in_every_hour_that_passes() {
        for day in ["2026-03-29", "2026-10-25", "2026-07-01"] {
            let start = at(&format!("{day}T00:00:00Z"));
            let slots = times(&cron("0 * * * *", "Europe/Berlin"), start, 48).unwrap();
            let hours = (1..=48).map(|hour| start + SignedDuration::from_hours(hour));
            assert_eq!(slots, hours.collect::<Vec<_>>(), "{day}");
        }
    }

    #[test]
    fn leap_days_come_every_four_years_and_a_day_that_never_comes_is_an_error() {
        check(
            &cron("0 12 29 2 *", "UTC"),
            "2026-01-01T00:00:00Z",
            &["2028-02-29T12:00:00Z", "2032-02-29T12:00:00Z"],
        );
        let never = next_after(&cron("0 0 30 2 *", "UTC"), at("2026-01-01T00:00:00Z"));
        assert!(never.is_err(), "{never:?}");
    }

    #[test]
    fn a_span_counts_from_its_anchor() {
        let every = Schedule::Every { every_ms: 90 * 60_000, from: at("2026-03-01T10:00:00Z") };
        check(&every, "2026-02-01T00:00:00Z", &["2026-03-01T10:00:00Z", "2026-03-01T11:30:00Z"]);
        check(&every, "2026-03-01T10:00:00Z", &["2026-03-01T11:30:00Z"]);
        check(&every, "2026-03-02T09:59:59Z", &["2026-03-02T10:00:00Z"]);
    }

    #[test]
    fn a_slot_is_the_same_from_wherever_it_is_searched() {
        let zones = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"];
        let crons =
            ["30 9 * * *", "30 2 * * *", "*/7 * * * *", "15 */2 * * *", "0 1,2,3 * * *", "59 23 31 * *"];
        for (zone, expression) in zones.iter().flat_map(|zone| crons.map(|cron| (zone, cron))) {
            let slots = Slots::of(&cron(expression, zone)).unwrap();
            for change in ["2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31"]
            {
                let start = at(&format!("{change}T00:00:00Z"));
                let mut slot = slots.after(start).unwrap();
                while slot < start + SignedDuration::from_hours(72) {
                    let next = slots.after(slot).unwrap();
                    assert_eq!(slots.from(slot), Some(slot), "{expression} in {zone}");
                    let between = slot + next.duration_since(slot) / 2;
                    assert_eq!(slots.after(between), Some(next), "{expression} in {zone}");
                    slot = next;
                }
            }
        }
    }
}
