//! The values of a declaration that are written as text: spans of time, rates, schemas. Must not know a tool.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use agent::call::Effect;
use agent::names::one_of;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Units of a span of time, with their milliseconds.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// How often a tool may be called, such as `10/min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Calls.
    pub count: u32,
    /// In each span of this length.
    pub per: RateUnit,
}

/// The span of a [`Rate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateUnit {
    /// `s`
    Second,
    /// `min`
    Minute,
    /// `h`
    Hour,
    /// `day`
    Day,
}

impl RateUnit {
    const ALL: [Self; 4] = [Self::Second, Self::Minute, Self::Hour, Self::Day];

    fn as_str(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "min",
            Self::Hour => "h",
            Self::Day => "day",
        }
    }
}

impl Rate {
    /// The span in which `count` calls are allowed.
    pub fn span(self) -> Duration {
        Duration::from_secs(match self.per {
            RateUnit::Second => 1,
            RateUnit::Minute => 60,
            RateUnit::Hour => 3_600,
            RateUnit::Day => 86_400,
        })
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (count, unit) = text.split_once('/')?;
            let per = RateUnit::ALL.into_iter().find(|known| known.as_str() == unit.trim())?;
            Some(Self { count: count.trim().parse().ok()?, per })
        };
        read().ok_or_else(|| {
            format!("wanted a rate such as `10/min` (per `s`, `min`, `h` or `day`), got `{text}`")
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.per.as_str())
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A span of time as text, such as `30s`, `1500ms`, `5m` or `1h`.
pub(crate) mod span {
    use serde::de::Error as _;

    use super::{Deserialize, Deserializer, Duration, Serializer, UNITS};

    pub(crate) fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let whole = |(_, unit): &&(&str, u64)| ms.is_multiple_of(*unit);
        let (name, unit) = UNITS.iter().rev().find(whole).unwrap_or(&UNITS[0]);
        serializer.collect_str(&format_args!("{}{name}", ms / unit))
    }

    pub(crate) fn deserialize<'de, X: Deserializer<'de>>(deserializer: X) -> Result<Duration, X::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim()).map(|(_, ms)| ms);
        let ms = unit.and_then(|unit| number.parse::<u64>().ok()?.checked_mul(*unit));
        ms.map(Duration::from_millis).ok_or_else(|| {
            X::Error::custom(format!(
                "wanted a span of time such as `30s`, `1500ms`, `5m` or `1h`, got `{text}`"
            ))
        })
    }
}

/// The effects of tools that reach outside: only prebuilt tools are inward.
const EFFECTS: &[&str] = &["read_only", "idempotent", "unsafe"];

/// The effect of a tool that reaches outside.
pub(crate) fn effect<'de, X: Deserializer<'de>>(deserializer: X) -> Result<Effect, X::Error> {
    one_of(deserializer, EFFECTS)
}

/// A schema, or a string that contains one as JSON.
pub(super) fn schema<'de, X: Deserializer<'de>>(deserializer: X) -> Result<Value, X::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => serde_json::from_str(&text).map_err(|error| {
            X::Error::custom(format!("wanted a JSON Schema, but this is not JSON: {error}"))
        }),
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spans_and_rates_are_read_and_written_the_same() {
        for text in ["30s", "1500ms", "5m", "2h"] {
            let span = span::deserialize(json!(text)).unwrap();
            assert_eq!(span::serialize(&span, serde_json::value::Serializer).unwrap(), json!(text));
        }
        for text in
            ["", "30", "s", "-1s", "1.5s", "30 weeks", "99999999999999999999s", "18446744073709551615h"]
        {
            assert!(span::deserialize(json!(text)).is_err(), "{text}");
        }
        for text in ["10/min", "1/s", "100/h", "5/day"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        for text in ["", "10", "/min", "x/min", "10/week", "-1/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }
}
