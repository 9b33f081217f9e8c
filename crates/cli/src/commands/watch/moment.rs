//! Times and money in readable form. The time zone is this machine's, found without a system library: `TZ`,
//! else the target of `/etc/localtime`, else UTC.

use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};

use crate::errors::{Failure, Result};

pub(crate) fn zone() -> TimeZone {
    let named = std::env::var("TZ").ok().map(|name| name.trim_start_matches(':').to_owned());
    let named = named.filter(|name| !name.is_empty()).or_else(|| {
        let link = std::fs::read_link("/etc/localtime").ok()?;
        link.to_str()?.split_once("zoneinfo/").map(|(_, name)| name.to_owned())
    });
    named.and_then(|name| TimeZone::get(&name).ok()).unwrap_or(TimeZone::UTC)
}

pub(crate) fn clock(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

/// Parses `--since`: a time, or how long ago.
/// The time that an option names, if it is given.
pub(crate) fn since_given(text: Option<&str>) -> Result<Option<Timestamp>> {
    text.map(|text| since(text, Timestamp::now())).transpose()
}

pub(crate) fn since(text: &str, now: Timestamp) -> Result<Timestamp> {
    moment("--since", text, now)
}

/// Parses the value of an option: a time, or how long ago.
pub(crate) fn moment(option: &str, text: &str, now: Timestamp) -> Result<Timestamp> {
    let ago = || {
        let ago = text.parse::<Span>().ok()?.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
        now.checked_sub(ago).ok().filter(|at| *at <= now)
    };
    text.parse().ok().or_else(ago).ok_or_else(|| {
        Failure::usage(format!("wanted a time in `{option}`, got `{text}`"))
            .hint("write `90s`, `10m`, `2h`, `1d` or `2026-11-21T14:03:05Z`")
    })
}

/// An amount of money with two significant digits; a small amount is never shown as 0.
pub(crate) fn money(micros: u64) -> String {
    match micros {
        0 => "$0".to_owned(),
        1..=99 => "<$0.0001".to_owned(),
        100..=9_999 => format!("${:.4}", micros as f64 / 1e6),
        _ => format!("${:.2}", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_takes_a_time_or_a_duration() {
        let now: Timestamp = "2026-11-21T14:00:00Z".parse().unwrap();
        let check = |text: &str, expected: &str| {
            assert_eq!(since(text, now).unwrap().to_string(), expected, "{text}");
        };
        check("90s", "2026-11-21T13:58:30Z");
        check("2h", "2026-11-21T12:00:00Z");
        check("1d", "2026-11-20T14:00:00Z");
        check("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
        for wrong in ["", "h", "-1h", "yesterday", "99999999999999999d", "1é"] {
            assert!(since(wrong, now).unwrap_err().hint.is_some(), "{wrong}");
        }
    }

    #[test]
    fn an_amount_of_money_is_short() {
        let shown = [0, 12, 1_234, 4_560_000].map(money);
        assert_eq!(shown, ["$0", "<$0.0001", "$0.0012", "$4.56"]);
    }

    #[test]
    fn a_time_of_day_is_in_the_given_zone() {
        let at: Timestamp = "2026-11-21T14:03:05Z".parse().unwrap();
        assert_eq!(clock(at, &TimeZone::UTC), "14:03:05");
        assert_eq!(clock(at, &TimeZone::get("Asia/Riyadh").unwrap()), "17:03:05");
    }
}
