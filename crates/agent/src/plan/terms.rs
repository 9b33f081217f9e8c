//! A plan as people, files and models write it, and every reason why it is refused.

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, db};
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use serde::{Deserialize, Serialize};

use super::slots::instant;
use super::{BadPlan, Missed, Plan, PlanSource, Schedule, next_after};
use crate::config::nearest;
use crate::event::Trust;
use crate::id::PlanId;
use crate::limits;

/// A plan as it is written. Of `at`, `after`, `every` and `cron`, a new plan has exactly one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlanTerms {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What to do when it fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// Once, at this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Once, after this span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Again and again, after this span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// The time from which `every` counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// A cron expression of five fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// The IANA zone of `cron`, and of a time without an offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What becomes of slots that could not fire in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// How late a slot may fire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lateness: Option<String>,
}

impl PlanTerms {
    /// The plan with these terms, or the plan `before` amended by them: what is left out stays as it is.
    pub fn plan(
        &self,
        id: PlanId,
        before: Option<&Plan>,
        source: PlanSource,
        now: Timestamp,
    ) -> Result<Plan, BadPlan> {
        let known = |text: fn(&Plan) -> &String| before.map(text).cloned();
        let name = given(&self.name).map(str::to_owned).or_else(|| known(|plan| &plan.name));
        let instruction =
            given(&self.instruction).map(str::to_owned).or_else(|| known(|plan| &plan.instruction));
        let name = bounded("name", name, limits::PLAN_NAME_MAX_BYTES)?;
        let instruction = bounded("instruction", instruction, limits::PLAN_INSTRUCTION_MAX_BYTES)?;
        let schedule = self.schedule(before, now)?;
        let same = before.filter(|before| before.schedule == schedule);
        let next_at = match same.and_then(|before| before.next_at) {
            Some(next) => next,
            None => first_slot(&schedule, now)?,
        };
        let max_late_ms = match given(&self.max_lateness) {
            Some(text) => Some(span("max_lateness", text, 1_000)?),
            None => before.and_then(|before| before.max_late_ms),
        };
        Ok(Plan {
            missed: self.missed.or(before.map(|before| before.missed)).unwrap_or_default(),
            max_late_ms,
            next_at: Some(next_at),
            source,
            trust: before.map_or(Trust::default(), |before| before.trust),
            ..Plan::new(id, &name, &instruction, schedule)
        })
    }

    /// Checks what can be checked without knowing the time, which a file cannot.
    pub(crate) fn check(&self) -> Result<(), BadPlan> {
        if given(&self.after).is_some() {
            return Err(BadPlan::AfterInFile);
        }
        // A time that has passed is not a mistake: it was right when the file was written.
        let early = match given(&self.at) {
            Some(text) => {
                let at = time("at", text, given(&self.zone))?;
                at.checked_sub(SignedDuration::from_secs(1)).unwrap_or(at)
            }
            None => Timestamp::UNIX_EPOCH,
        };
        self.plan(PlanId(uuid::Uuid::nil()), None, PlanSource::Config, early).map(drop)
    }

    fn schedule(&self, before: Option<&Plan>, now: Timestamp) -> Result<Schedule, BadPlan> {
        let zone = given(&self.zone);
        let kinds = [("at", &self.at), ("after", &self.after), ("every", &self.every), ("cron", &self.cron)];
        let kinds: Vec<(&str, &str)> =
            kinds.into_iter().filter_map(|(kind, text)| Some((kind, given(text)?))).collect();
        let (kind, text) = match kinds[..] {
            [one] => one,
            [] => return self.kept(before),
            _ => return Err(BadPlan::Kinds(kinds.into_iter().map(|(kind, _)| kind).collect())),
        };
        if let Some(other) = given(&self.from).filter(|_| kind != "every") {
            return Err(BadPlan::Unused { key: "from", value: other.to_owned(), of: "every" });
        }
        match (kind, zone) {
            ("at", _) => Ok(Schedule::At { at: time("at", text, zone)? }),
            ("cron", _) => cron(text, zone.unwrap_or("UTC")),
            (_, Some(zone)) if given(&self.from).is_none() => {
                Err(BadPlan::Unused { key: "zone", value: zone.to_owned(), of: "cron` and `at" })
            }
            ("after", _) => {
                let after_ms = span("after", text, 1_000)?;
                let at = now.checked_add(SignedDuration::from_millis(after_ms.cast_signed()));
                Ok(Schedule::After { at: at.map_err(|_| BadPlan::TooFar)?, after_ms })
            }
            _ => {
                let every_ms = span("every", text, limits::PLAN_INTERVAL_MIN_MS)?;
                let from = given(&self.from).map_or(Ok(whole(now)), |from| time("from", from, zone))?;
                Ok(Schedule::Every { every_ms, from })
            }
        }
    }

    /// The schedule of the plan before; with a zone, its expression in that zone.
    fn kept(&self, before: Option<&Plan>) -> Result<Schedule, BadPlan> {
        let before = before.ok_or(BadPlan::NoKind)?;
        if let Some(from) = given(&self.from) {
            return Err(BadPlan::Unused { key: "from", value: from.to_owned(), of: "every" });
        }
        match (&before.schedule, given(&self.zone)) {
            (schedule, None) => Ok(schedule.clone()),
            (Schedule::Cron { expression, .. }, Some(zone)) => cron(expression, zone),
            (_, Some(zone)) => {
                Err(BadPlan::Unused { key: "zone", value: zone.to_owned(), of: "cron` and `at" })
            }
        }
    }
}

/// An optional text. Some models send an empty text instead of none.
pub(super) fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

fn bounded(key: &'static str, text: Option<String>, max: usize) -> Result<String, BadPlan> {
    let text = text.ok_or(BadPlan::Missing(key))?;
    if text.len() > max { Err(BadPlan::TooLong { key, max, got: text.len() }) } else { Ok(text) }
}

/// A schedule must have a slot ahead, and not too far ahead.
fn first_slot(schedule: &Schedule, now: Timestamp) -> Result<Timestamp, BadPlan> {
    let first = match (next_after(schedule, now), schedule) {
        (Ok(first), _) => first,
        (Err(BadPlan::Never(_)), Schedule::At { at } | Schedule::After { at, .. }) => {
            return Err(BadPlan::Past { at: *at, now: whole(now) });
        }
        (Err(BadPlan::Never(_)), Schedule::Cron { expression, .. }) => {
            return Err(BadPlan::NeverFires(expression.clone()));
        }
        (Err(other), _) => return Err(other),
    };
    let ahead = first.duration_since(now).as_millis();
    match u64::try_from(ahead).is_ok_and(|ahead| ahead <= limits::PLAN_AHEAD_MAX_MS) {
        true => Ok(first),
        false => Err(BadPlan::TooFar),
    }
}

fn cron(text: &str, zone: &str) -> Result<Schedule, BadPlan> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    if text.len() > limits::PLAN_WHEN_MAX_BYTES || fields.len() != 5 {
        return Err(BadPlan::Cron { got: shown(text), why: not_five_fields(text, fields.len()) });
    }
    let zone = match zone.len() <= limits::PLAN_WHEN_MAX_BYTES {
        true => TimeZone::get(zone).ok().and_then(|zone| zone.iana_name().map(str::to_owned)),
        false => None,
    }
    .ok_or_else(|| BadPlan::Zone(shown(zone)))?;
    let schedule = Schedule::Cron { expression: fields.join(" "), zone };
    super::Slots::of(&schedule).map(|_| schedule)
}

/// Names of schedules that other programs have, as five fields.
const CRON_NAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

fn not_five_fields(text: &str, count: usize) -> String {
    match CRON_NAMES.iter().find(|(name, _)| text.trim().eq_ignore_ascii_case(name)) {
        Some((_, fields)) => format!("write `{fields}`"),
        None if count == 6 => "it has six; leave out the seconds, which are first, or the year".to_owned(),
        None => format!("it has {count}"),
    }
}

/// The fields of an expression, with the least and the greatest number of each.
const CRON_FIELDS: [(&str, u8, u8); 5] =
    [("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7)];

/// The first field that is wrong, and why.
pub(super) fn wrong_cron_field(expression: &str) -> String {
    let fields = expression.split_whitespace().zip(CRON_FIELDS);
    let wrong = |(text, (name, least, most)): (&str, (&str, u8, u8))| {
        let why = text.split(',').find_map(|part| wrong_cron_part(part, least, most))?;
        Some(format!("the {name} `{text}` is wrong: {why}"))
    };
    fields.into_iter().find_map(wrong).unwrap_or_else(|| "one of its fields cannot be read".to_owned())
}

/// What is wrong with one part of a field; names of days and months are left to the parser.
fn wrong_cron_part(part: &str, least: u8, most: u8) -> Option<String> {
    let wanted = || format!("wanted {least} to {most}");
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (part, None),
    };
    if let Some(step) = step {
        let is_number = step.parse::<u8>().is_ok_and(|step| step > 0);
        if !is_number {
            return Some(format!("wanted a step such as `*/5`, got `/{step}`"));
        }
        if range.parse::<u8>().is_ok() {
            return Some(format!("a step needs a range: `{range}-{most}/{step}`, or `*/{step}`"));
        }
    }
    let numbers: Vec<Result<u8, _>> = range.split('-').map(str::parse).collect();
    if numbers.iter().flatten().any(|number| !(least..=most).contains(number)) {
        return Some(wanted());
    }
    match numbers.as_slice() {
        [Ok(from), Ok(to)] if from > to => Some(format!("the range runs backwards: {from} to {to}")),
        _ if range.is_empty() => Some(wanted()),
        _ => None,
    }
}

/// A time with an offset, or a local time in that zone.
fn time(key: &'static str, text: &str, zone: Option<&str>) -> Result<Timestamp, BadPlan> {
    let wrong = || BadPlan::Time { key, got: shown(text) };
    if text.len() > limits::PLAN_WHEN_MAX_BYTES {
        return Err(wrong());
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(whole(at));
    }
    let local: DateTime = text.parse().map_err(|_| wrong())?;
    let zone = zone.ok_or_else(|| BadPlan::NoZone { key, got: shown(text) })?;
    let zone = TimeZone::get(zone).map_err(|_| BadPlan::Zone(shown(zone)))?;
    instant(&zone, local).map(whole).ok_or_else(wrong)
}

/// A span such as `30m`, `2 hours` or `1d 12h`, in milliseconds. A day is 24 hours.
pub(super) fn span(key: &'static str, text: &str, least: u64) -> Result<u64, BadPlan> {
    let wrong = || BadPlan::Span { key, got: shown(text) };
    if text.len() > limits::PLAN_WHEN_MAX_BYTES {
        return Err(wrong());
    }
    let span: Span = text.parse().map_err(|_| wrong())?;
    let span = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    let ms = u64::try_from(span.as_millis()).map_err(|_| wrong())?;
    if ms < least {
        return Err(BadPlan::TooShort { key, least: super::span_text(least), got: shown(text) });
    }
    if ms > limits::PLAN_AHEAD_MAX_MS { Err(BadPlan::TooFar) } else { Ok(ms) }
}

/// A span as people write it, in milliseconds.
pub fn span_ms(key: &'static str, text: &str) -> Result<u64, BadPlan> {
    span(key, text, 1)
}

/// Times are stored in milliseconds.
fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

/// What was given, shortened.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

/// The zone with this name.
pub(super) fn zone_of(name: &str) -> Result<TimeZone, BadPlan> {
    TimeZone::get(name).map_err(|_| BadPlan::Zone(shown(name)))
}

/// Abbreviations and offsets that are no zone, or several, and what to write instead: a model follows a hint as it stands.
const ZONES_MEANT: [(&[&str], &str); 11] = [
    (&["PST", "PDT", "PT", "PACIFIC"], "write the place, such as `America/Los_Angeles`"),
    (&["MST", "MDT", "MT"], "write the place, such as `America/Denver`"),
    (
        &["CST", "CDT", "CT"],
        "it means several zones: write the place, such as `America/Chicago` or `Asia/Shanghai`",
    ),
    (&["EST", "EDT", "ET", "EASTERN"], "write the place, such as `America/New_York`"),
    (
        &["IST"],
        "it means several zones: write the place, such as `Asia/Kolkata`, `Europe/Dublin` or `Asia/Jerusalem`",
    ),
    (&["BST"], "it means several zones: write the place, such as `Europe/London` or `Asia/Dhaka`"),
    (&["CET", "CEST", "MEZ", "MESZ"], "write the place, such as `Europe/Berlin`"),
    (&["WET", "WEST"], "write the place, such as `Europe/Lisbon`"),
    (&["EET", "EEST", "MSK"], "write the place, such as `Europe/Kyiv` or `Europe/Moscow`"),
    (&["JST", "KST"], "write the place, such as `Asia/Tokyo` or `Asia/Seoul`"),
    (&["AEST", "AEDT", "AET"], "write the place, such as `Australia/Sydney`"),
];

/// What to write instead of this, which is no zone.
pub(super) fn zone_like(zone: &str) -> String {
    let wanted = zone.trim().to_uppercase();
    if let Some((_, hint)) = ZONES_MEANT.iter().find(|(names, _)| names.contains(&wanted.as_str())) {
        return (*hint).to_owned();
    }
    if let Some(hint) = offset_like(&wanted) {
        return hint;
    }
    let names: Vec<String> = db().available().map(|name| name.to_string()).collect();
    let city = |name: &&str| {
        let city = name.rsplit('/').next().unwrap_or(name);
        city.eq_ignore_ascii_case(&zone.trim().replace(' ', "_"))
    };
    let names = || names.iter().map(String::as_str);
    match names().find(city).or_else(|| nearest(zone, names())) {
        Some(like) => format!("did you mean `{like}`?"),
        None => "such as `Europe/Berlin` or `UTC`".to_owned(),
    }
}

/// What to write instead of an offset such as `GMT+2`; `None` if it is none. The names of the zones with a fixed offset have
/// the opposite sign: `Etc/GMT-2` is ahead of UTC.
fn offset_like(zone: &str) -> Option<String> {
    let offset = ["UTC", "GMT", "Z"].iter().find_map(|name| zone.strip_prefix(name)).unwrap_or(zone);
    let ahead = match offset.as_bytes().first()? {
        b'+' => true,
        b'-' => false,
        _ => return None,
    };
    let (hours, minutes) = match offset[1..].split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None if offset.len() == 5 => offset[1..].split_at(2),
        None => (&offset[1..], "0"),
    };
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    let place = "write the place, such as `Europe/Berlin`, whose clocks also change in spring and autumn";
    match (minutes, ahead, hours) {
        (0, _, 0) => Some("write `UTC`".to_owned()),
        (0, true, ..=14) => Some(format!("{place}; `Etc/GMT-{hours}` is always {hours} h ahead of UTC")),
        (0, false, ..=12) => Some(format!("{place}; `Etc/GMT+{hours}` is always {hours} h behind UTC")),
        _ => Some(place.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_hint_for_a_zone_leads_to_the_zone_that_was_meant() {
        for (zone, hint) in [
            ("GMT+2", "`Etc/GMT-2` is always 2 h ahead"),
            ("utc-05:00", "`Etc/GMT+5` is always 5 h behind"),
            ("+0530", "write the place"),
            ("UTC+0", "write `UTC`"),
            ("PST", "`America/Los_Angeles`"),
            ("ist", "`Asia/Kolkata`, `Europe/Dublin`"),
            ("BST", "`Europe/London`"),
            ("Berlin", "did you mean `Europe/Berlin`?"),
            ("New York", "did you mean `America/New_York`?"),
        ] {
            let got = zone_like(zone);
            assert!(got.contains(hint), "{zone}: {got}");
            let named = got.split('`').skip(1).step_by(2);
            named.for_each(|name| assert!(TimeZone::get(name).is_ok(), "{zone}: {name}"));
        }
    }

    fn now() -> Timestamp {
        "2026-03-01T10:00:00Z".parse().unwrap()
    }

    fn read(mut terms: Value) -> Result<Plan, BadPlan> {
        terms["name"] = json!("look");
        terms["instruction"] = json!("look out");
        let terms: PlanTerms = serde_json::from_value(terms).unwrap();
        terms.plan(PlanId(uuid::Uuid::nil()), None, PlanSource::Agent, now())
    }

    #[test]
    fn each_kind_has_its_first_slot() {
        for (terms, schedule, next) in [
            (
                json!({"at": "2026-03-02T09:00:00+01:00"}),
                "once at 2026-03-02T08:00:00Z",
                "2026-03-02T08:00:00Z",
            ),
            (
                json!({"at": "2026-03-02T09:00", "zone": "Europe/Berlin"}),
                "once at 2026-03-02T08:00:00Z",
                "2026-03-02T08:00:00Z",
            ),
            (
                // The clocks go from 2:00 to 3:00.
                json!({"at": "2026-03-29T02:30", "zone": "Europe/Berlin"}),
                "once at 2026-03-29T01:00:00Z",
                "2026-03-29T01:00:00Z",
            ),
            (
                json!({"at": "2026-03-29T02:00", "zone": "Europe/Berlin"}),
                "once at 2026-03-29T01:00:00Z",
                "2026-03-29T01:00:00Z",
            ),
            (json!({"after": "30 minutes"}), "once at 2026-03-01T10:30:00Z", "2026-03-01T10:30:00Z"),
            (json!({"after": "1d 12h"}), "once at 2026-03-02T22:00:00Z", "2026-03-02T22:00:00Z"),
            (json!({"every": "90m"}), "every 1h 30m from 2026-03-01T10:00:00Z", "2026-03-01T11:30:00Z"),
            (
                json!({"every": "1w", "from": "2026-02-25T09:00", "zone": "Europe/Berlin"}),
                "every 7d from 2026-02-25T08:00:00Z",
                "2026-03-04T08:00:00Z",
            ),
            (
                json!({"cron": " 30  9 * * 1-5", "zone": "europe/berlin"}),
                "cron `30 9 * * 1-5` in Europe/Berlin",
                "2026-03-02T08:30:00Z",
            ),
            (json!({"cron": "0 12 29 2 *"}), "cron `0 12 29 2 *` in UTC", "2028-02-29T12:00:00Z"),
        ] {
            let plan = read(terms.clone()).unwrap_or_else(|why| panic!("{terms}: {why}"));
            assert_eq!((plan.schedule.to_string().as_str(), plan.next_at), (schedule, next.parse().ok()));
        }
    }

    #[test]
    fn what_can_never_be_right_is_refused_with_the_reason() {
        for (terms, wanted) in [
            (json!({}), "wanted one of `at`, `after`, `every` and `cron`, got none"),
            (
                json!({"at": "2026-03-02T09:00:00Z", "cron": "0 9 * * *"}),
                "wanted one of `at`, `after`, `every` and `cron`, got `at` and `cron`",
            ),
            (
                json!({"cron": "* * * * * *"}),
                "`cron`: wanted five fields (minute, hour, day, month, weekday) such as `30 9 * * 1-5`, got `* * * * * *`: it \
                 has six; leave out the seconds",
            ),
            (json!({"cron": "5 4"}), "got `5 4`: it has 2"),
            (json!({"cron": "@daily"}), "got `@daily`: write `0 0 * * *`"),
            (json!({"cron": "61 * * * *"}), "got `61 * * * *`: the minute `61` is wrong: wanted 0 to 59"),
            (json!({"cron": "0 24 * * *"}), "the hour `24` is wrong: wanted 0 to 23"),
            (json!({"cron": "0 9 * * 8"}), "the weekday `8` is wrong: wanted 0 to 7"),
            (
                json!({"cron": "5/15 * * * *"}),
                "the minute `5/15` is wrong: a step needs a range: `5-59/15`, or `*/15`",
            ),
            (
                json!({"cron": "*/x * * * *"}),
                "the minute `*/x` is wrong: wanted a step such as `*/5`, got `/x`",
            ),
            (json!({"cron": "0 17-9 * * *"}), "the hour `17-9` is wrong: the range runs backwards: 17 to 9"),
            (json!({"cron": "0 9 * * mo"}), "got `0 9 * * mo`: one of its fields cannot be read"),
            (json!({"cron": "0 0 30 2 *"}), "`0 0 30 2 *` never fires: no such day comes"),
            (
                json!({"cron": "0 9 * * *", "zone": "Berlin"}),
                "`Berlin` is not an IANA time zone; did you mean `Europe/Berlin`?",
            ),
            (
                json!({"cron": "0 9 * * *", "zone": "Mars/Olympus"}),
                "`Mars/Olympus` is not an IANA time zone; such as",
            ),
            (
                json!({"cron": "0 9 * * *", "zone": "../../etc/passwd"}),
                "`../../etc/passwd` is not an IANA time zone",
            ),
            (
                json!({"at": "2026-03-01T09:59:59Z"}),
                "`at` must be ahead: 2026-03-01T09:59:59Z is not after now, 2026-03-01T10:00:00Z",
            ),
            (json!({"at": "2026-03-01T10:00:00Z"}), "`at` must be ahead"),
            (
                json!({"at": "2026-03-02T09:00"}),
                "`at`: 2026-03-02T09:00 has no offset; add one such as `Z`, or give a `zone`",
            ),
            (json!({"at": "tomorrow"}), "`at`: wanted a time such as `2026-03-01T09:00:00Z`, got `tomorrow`"),
            (json!({"at": "2226-03-01T10:00:00Z"}), "wanted a time or span within 10 years"),
            (json!({"after": "soon"}), "`after`: wanted a span such as `30m`, `2h` or `1d`, got `soon`"),
            (json!({"after": "-5m"}), "`after`: wanted a span"),
            (json!({"after": "1 month"}), "`after`: wanted a span"),
            (json!({"after": "0s"}), "`after`: wanted at least 1s, got `0s`"),
            (json!({"after": "9000 weeks"}), "wanted a time or span within 10 years"),
            (json!({"every": "1s"}), "`every`: wanted at least 1m, got `1s`"),
            (json!({"every": "1h", "from": "noon"}), "`from`: wanted a time"),
            (json!({"every": "1h", "zone": "UTC"}), "`zone` (`UTC`) is only used with `cron` and `at`"),
            (
                json!({"cron": "0 9 * * *", "from": "2026-03-02T09:00:00Z"}),
                "`from` (`2026-03-02T09:00:00Z`) is only used with `every`",
            ),
            (json!({"after": "5m", "max_lateness": "0s"}), "`max_lateness`: wanted at least 1s"),
            (json!({"after": "m".repeat(10_000)}), "`after`: wanted a span"),
            (json!({"cron": "* ".repeat(10_000)}), "`* * "),
        ] {
            let error = read(terms.clone()).expect_err(&terms.to_string()).to_string();
            // Of an expression that has something wrong, the reason comes last.
            let found =
                if terms["cron"].is_string() { error.contains(wanted) } else { error.starts_with(wanted) };
            assert!(found, "{terms}: {error}");
        }
        let named = |name: &str, instruction: &str| {
            let terms = json!({"name": name, "instruction": instruction, "after": "5m"});
            let terms: PlanTerms = serde_json::from_value(terms).unwrap();
            terms.plan(PlanId(uuid::Uuid::nil()), None, PlanSource::Agent, now()).unwrap_err().to_string()
        };
        assert_eq!(named(" ", "x"), "a plan needs its `name`");
        assert_eq!(named("x", ""), "a plan needs its `instruction`");
        assert_eq!(named(&"x".repeat(121), "x"), "`name`: wanted at most 120 bytes, got 121");
    }

    #[test]
    fn a_changed_plan_keeps_what_is_left_out_and_its_next_slot_with_its_schedule() {
        let before = read(json!({"cron": "0 9 * * *", "zone": "UTC", "missed": "skip"})).unwrap();
        let change = |terms: Value| {
            let terms: PlanTerms = serde_json::from_value(terms).unwrap();
            let later = now() + SignedDuration::from_hours(72);
            terms.plan(before.id, Some(&before), PlanSource::Agent, later)
        };
        let renamed = change(json!({"name": "watch"})).unwrap();
        assert_eq!(renamed, Plan { name: "watch".into(), ..before.clone() });
        let moved = change(json!({"zone": "Europe/Berlin", "missed": "all"})).unwrap();
        assert_eq!(moved.next_at, "2026-03-05T08:00:00Z".parse().ok());
        assert_eq!((moved.missed, moved.instruction.as_str()), (Missed::All, "look out"));
    }
}
