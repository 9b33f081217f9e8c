//! The times at which a schedule fires, on both sides of a change of the clocks.

use std::str::FromStr;

use croner::Cron;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

use super::terms::{wrong_cron_field, zone_of};
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
    /// An expression that leaves out no hour: by the time that passes.
    Hourly(Box<Cron>, TimeZone),
    /// An expression that names hours: each of its local times once a day.
    Daily(Box<Cron>, TimeZone),
    Hours(SignedDuration, Time, Time, TimeZone),
}

impl Slots {
    pub(super) fn of(schedule: &Schedule) -> Result<Self, BadPlan> {
        Ok(match schedule {
            Schedule::At { at } | Schedule::After { at, .. } => Self::At(*at),
            Schedule::Every { every_ms, from } => {
                Self::Every(i64::try_from(*every_ms).unwrap_or(i64::MAX).max(1), *from)
            }
            Schedule::Cron { expression, zone } => {
                let cron = Cron::from_str(expression).map_err(|_| BadPlan::Cron {
                    got: expression.clone(),
                    why: wrong_cron_field(expression),
                })?;
                let zone = zone_of(zone)?;
                match (0..24).all(|hour| cron.pattern.hour_match(hour).unwrap_or(false)) {
                    true => Self::Hourly(Box::new(cron), zone),
                    false => Self::Daily(Box::new(cron), zone),
                }
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
            Self::Hourly(cron, zone) => {
                next_match(cron, &after.to_zoned(zone.clone())).map(|at| at.timestamp())
            }
            Self::Daily(cron, zone) => {
                // In UTC no local time is skipped or repeated.
                let mut local = after.to_zoned(zone.clone()).datetime().to_zoned(TimeZone::UTC).ok()?;
                loop {
                    local = next_match(cron, &local)?;
                    match instant(zone, local.datetime())? {
                        // In a repeated hour: the local time has fired when it came first.
                        fired if fired <= after => {}
                        slot => return Some(slot),
                    }
                }
            }
            Self::Hours(every, from, to, zone) => {
                let today = after.to_zoned(zone.clone()).date();
                let in_day = |date: Date| {
                    let until = if to < from { date.tomorrow().ok()? } else { date };
                    let (from, to) =
                        (instant(zone, date.to_datetime(*from))?, instant(zone, until.to_datetime(*to))?);
                    let passed = after.duration_since(from).as_millis().div_euclid(every.as_millis()) + 1;
                    let ahead = every.as_millis().checked_mul(passed.max(0))?;
                    let ahead = SignedDuration::from_millis(i64::try_from(ahead).ok()?);
                    from.checked_add(ahead).ok().filter(|slot| *slot < to)
                };
                [today.yesterday().ok(), Some(today), today.tomorrow().ok()]
                    .into_iter()
                    .flatten()
                    .find_map(in_day)
            }
        }
    }

    /// The first slot at that time or after it.
    pub(super) fn from(&self, at: Timestamp) -> Option<Timestamp> {
        self.after(at.checked_sub(SignedDuration::from_millis(1)).ok()?)
    }
}

fn next_match(cron: &Cron, after: &Zoned) -> Option<Zoned> {
    cron.find_next_occurrence(after, false).ok()
}

/// When the clocks of a zone show that time: the first time if they show it twice, and if they skip it the moment at which they
/// do.
pub(super) fn instant(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    let found = zone.to_ambiguous_timestamp(local);
    match found.offset() {
        AmbiguousOffset::Gap { after, .. } => {
            let before_gap = after.to_timestamp(local).ok()?;
            zone.following(before_gap).next().map(|jump| jump.timestamp())
        }
        _ => found.compatible().ok(),
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
    fn each_time_that_an_expression_names_fires_once_a_day_whatever_the_clocks_do() {
        let (spring, autumn) = ("2027-03-27T22:00:00Z", "2027-10-30T21:00:00Z");
        for (expression, after, expected) in [
            ("0 2,14 * * *", spring, &["03-28T01:00", "03-28T12:00", "03-29T00:00"][..]),
            ("0 2,14 * * *", autumn, &["10-31T00:00", "10-31T13:00", "11-01T01:00"]),
            ("0,30 2 * * *", spring, &["03-28T01:00", "03-29T00:00", "03-29T00:30"]),
            ("0,30 2 * * *", autumn, &["10-31T00:00", "10-31T00:30", "11-01T01:00"]),
            ("*/20 2 * * *", spring, &["03-28T01:00", "03-29T00:00"]),
            ("*/20 2 * * *", autumn, &["10-31T00:00", "10-31T00:20", "10-31T00:40", "11-01T01:00"]),
            ("0 1,2,3 * * *", spring, &["03-28T00:00", "03-28T01:00", "03-28T23:00"]),
            ("0 1,2,3 * * *", autumn, &["10-30T23:00", "10-31T00:00", "10-31T02:00", "11-01T00:00"]),
            ("0 */2 * * *", spring, &["03-27T23:00", "03-28T01:00", "03-28T02:00", "03-28T04:00"]),
            ("0 */2 * * *", autumn, &["10-30T22:00", "10-31T00:00", "10-31T03:00", "10-31T05:00"]),
        ] {
            let expected: Vec<String> = expected.iter().map(|slot| format!("2027-{slot}:00Z")).collect();
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check(&cron(expression, "Europe/Berlin"), after, &expected);
        }
        // From 2:00 to 2:30, and from 2:00 back to 1:30.
        let lord_howe = |expression| cron(expression, "Australia/Lord_Howe");
        let spring = ["2027-10-02T14:45:00Z", "2027-10-02T15:30:00Z", "2027-10-03T14:15:00Z"];
        check(&lord_howe("15 1,2 * * *"), "2027-10-02T12:00:00Z", &spring);
        let autumn = ["2027-04-03T14:45:00Z", "2027-04-03T16:15:00Z", "2027-04-04T15:15:00Z"];
        check(&lord_howe("45 1,2 * * *"), "2027-04-03T12:00:00Z", &autumn);
    }

    #[test]
    fn an_hourly_slot_fires_in_every_hour_that_passes() {
        for day in ["2026-03-29", "2026-10-25", "2026-07-01"] {
            let start = at(&format!("{day}T00:00:00Z"));
            let slots = times(&cron("0 0-23 * * *", "Europe/Berlin"), start, 48).unwrap();
            assert_eq!(slots, times(&cron("0 * * * *", "Europe/Berlin"), start, 48).unwrap());
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
        let crons = [
            "30 9 * * *",
            "30 2 * * *",
            "*/7 * * * *",
            "15 */2 * * *",
            "0 1,2,3 * * *",
            "*/13 0-4 * * *",
            "59 23 31 * *",
        ];
        for (zone, expression) in zones.iter().flat_map(|zone| crons.map(|cron| (zone, cron))) {
            let slots = Slots::of(&cron(expression, zone)).unwrap();
            for change in ["2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31"]
            {
                let start = at(&format!("{change}T00:00:00Z"));
                let mut slot = slots.after(start).unwrap();
                while slot < start + SignedDuration::from_hours(72) {
                    let next = slots.after(slot).unwrap();
                    assert!(
                        next.duration_since(slot) >= SignedDuration::from_mins(1),
                        "{expression} in {zone}"
                    );
                    assert_eq!(slots.from(slot), Some(slot), "{expression} in {zone}");
                    let between = slot + next.duration_since(slot) / 2;
                    assert_eq!(slots.after(between), Some(next), "{expression} in {zone}");
                    slot = next;
                }
            }
        }
    }
}
