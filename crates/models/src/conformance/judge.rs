//! Verdicts on answers. Pure functions.

use agent::port::{Reply, ReplyPart, StopReason};
use agent::run::Usage;
use agent::tool::names;
use serde_json::Value;

use super::ask::{Collected, TOOL, UNITS};
use super::{Verdict, calls};

/// Characters of the model's text that are quoted.
const QUOTED_CHARS: usize = 60;
/// So many pieces within [`AT_ONCE_MS`] were buffered: no model generates that fast.
const AT_ONCE_PIECES: usize = 8;
/// The time in which buffered pieces arrive.
const AT_ONCE_MS: u64 = 5;
/// A shorter answer is never taken for buffered.
const BUFFERED_MS: u64 = 500;
/// How much later than the first answer of the trial the answer after a canceled one may begin.
const CANCEL_GRACE_MS: u64 = 2_000;
const CANCEL_FACTOR: u64 = 3;

type Judged = (Verdict, String);

/// Judges [`super::Check::Stream`].
pub(super) fn stream(answer: &Collected) -> Judged {
    let text = text(&answer.reply);
    if text.trim().is_empty() {
        let why = match answer.reply.stop {
            StopReason::Length => "the output limit was reached before any text".to_owned(),
            StopReason::Refused(ref why) => format!("it refused: `{}`", cut(why)),
            StopReason::End => "asked for a text, it gave none".to_owned(),
        };
        return (Verdict::No, why);
    }
    let (count, first, end) = (answer.pieces.len(), answer.first_ms(), answer.end_ms);
    if count < 2 {
        return (Verdict::Partly, format!("the whole text came in one piece after {}", seconds(first)));
    }
    let spread = answer.pieces.last().copied().unwrap_or(first).saturating_sub(first);
    if end >= BUFFERED_MS && spread <= AT_ONCE_MS && count >= AT_ONCE_PIECES {
        return (Verdict::Partly, format!("all {count} pieces came at once after {}", seconds(first)));
    }
    let speed = answer.speed().tokens_per_second.map(|speed| format!(", {speed:.0} tokens/s"));
    let speed = speed.unwrap_or_default();
    (Verdict::Ok, format!("{count} pieces, the first after {}{speed}", seconds(first)))
}

/// Judges [`super::Check::Call`].
pub(super) fn one_call(reply: &Reply) -> Judged {
    let all: Vec<_> = calls(reply).collect();
    let [(name, arguments), rest @ ..] = all.as_slice() else { return (Verdict::No, no_call(reply)) };
    match city(name, arguments) {
        Err(why) => (Verdict::No, why),
        Ok(city) if !named(&city, "paris") => {
            (Verdict::Partly, format!("asked about Paris, it called for `{}`", cut(&city)))
        }
        Ok(_) if !rest.is_empty() => {
            (Verdict::Partly, format!("asked for one call, it made {}", rest.len() + 1))
        }
        Ok(_) => (Verdict::Ok, "right name, arguments fit the schema".to_owned()),
    }
}

/// Judges [`super::Check::Greeting`].
pub(super) fn greeting(reply: &Reply) -> Judged {
    let sends = |arguments: &str| {
        let arguments: Option<Value> = serde_json::from_str(arguments).ok();
        arguments.is_some_and(|given| given["text"].as_str().is_some_and(|text| !text.trim().is_empty()))
    };
    let named: Vec<&str> = calls(reply).map(|(name, _)| name).collect();
    if calls(reply).any(|(name, arguments)| name == names::SEND_MESSAGE && sends(arguments)) {
        return (
            Verdict::Ok,
            "greeted with the first agent's own prompt and tools, it sent an answer".to_owned(),
        );
    }
    let text = text(reply);
    if named.is_empty() && !text.trim().is_empty() {
        let why = "greeted, it answered in plain text, which agents are asked to send";
        return (Verdict::Partly, format!("{why}: `{}`", cut(text.trim())));
    }
    (Verdict::No, format!("greeted, it sent no answer; it called: `{}`", cut(&named.join(", "))))
}

/// Judges [`super::Check::Parallel`].
pub(super) fn two_calls(reply: &Reply) -> Judged {
    let all: Vec<_> = calls(reply).collect();
    if all.is_empty() {
        return (Verdict::No, no_call(reply));
    }
    let cities: Result<Vec<String>, String> =
        all.iter().map(|(name, arguments)| city(name, arguments)).collect();
    let cities = match cities {
        Err(why) => return (Verdict::No, why),
        Ok(cities) => cities,
    };
    let both = ["paris", "rom"].iter().all(|wanted| cities.iter().any(|city| named(city, wanted)));
    match (cities.as_slice(), both) {
        ([_], _) => (Verdict::No, "asked for two calls, it made one".to_owned()),
        (_, true) => (Verdict::Ok, format!("{} calls in one reply", cities.len())),
        (_, false) => {
            let cities = cut(&cities.join(", "));
            (Verdict::Partly, format!("asked about Paris and Rome, it called for `{cities}`"))
        }
    }
}

/// Judges [`super::Check::Usage`].
pub(super) fn usage(reported: &[Usage]) -> Judged {
    if reported.is_empty() {
        return (Verdict::No, "there was no reply to report on".to_owned());
    }
    let mut sum = Usage::default();
    reported.iter().for_each(|usage| sum.add(usage));
    let counted = |n: Option<u64>| n.map_or_else(|| "not reported".to_owned(), |n| n.to_string());
    let counts = format!(
        "input {}, cached {}, output {}",
        counted(sum.input),
        counted(sum.cached),
        counted(sum.output)
    );
    let nothing = |n: Option<u64>| n.is_none_or(|n| n == 0);
    match (nothing(sum.input), nothing(sum.output)) {
        (false, false) => (Verdict::Ok, counts),
        (true, true) => (Verdict::No, counts),
        _ => (Verdict::Partly, counts),
    }
}

/// Judges [`super::Check::Cancel`]: whether the server was free for the request after a canceled one.
pub(super) fn cancel(next_ms: u64, before_ms: u64) -> Judged {
    let latest_ms = (before_ms * CANCEL_FACTOR).max(before_ms + CANCEL_GRACE_MS);
    if next_ms <= latest_ms {
        return (Verdict::Ok, format!("the next answer began after {}", seconds(next_ms)));
    }
    let why = format!("the next answer began only after {}, {} before", seconds(next_ms), seconds(before_ms));
    (Verdict::No, why)
}

/// The city of a call that fits the tool's schema, or what is wrong with it.
fn city(name: &str, arguments: &str) -> Result<String, String> {
    if name != TOOL {
        return Err(format!("it called `{}`, which was not offered", cut(name)));
    }
    let bad = |what: &str| format!("{what}: `{}`", cut(arguments));
    let Ok(Value::Object(fields)) = serde_json::from_str(arguments) else {
        return Err(bad("the arguments are not a JSON object"));
    };
    let unit = fields.get("unit").and_then(Value::as_str).is_some_and(|unit| UNITS.contains(&unit));
    match fields.get("city").and_then(Value::as_str) {
        Some(city) if unit && fields.len() == 2 => Ok(city.to_owned()),
        _ => Err(bad("the arguments do not fit the schema")),
    }
}

fn no_call(reply: &Reply) -> String {
    let text = text(reply);
    if text.trim().is_empty() {
        return "asked for a call, it gave an empty reply".to_owned();
    }
    let as_text = text.contains(TOOL) && text.contains('{');
    let what = if as_text { "it wrote the call as plain text" } else { "it answered in words" };
    format!("{what}: `{}`", cut(text.trim()))
}

fn text(reply: &Reply) -> String {
    let texts = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn named(city: &str, wanted: &str) -> bool {
    city.to_lowercase().contains(wanted)
}

/// The beginning of the model's text, on one line.
pub(super) fn cut(text: &str) -> String {
    let line = text.replace(['\n', '\r', '`'], " ");
    match line.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn seconds(ms: u64) -> String {
    match ms {
        0..=999 => format!("{ms} ms"),
        _ => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(parts: Vec<ReplyPart>) -> Reply {
        Reply { parts, native: None, usage: Usage::default(), stop: StopReason::End }
    }

    fn call(name: &str, arguments: &str) -> ReplyPart {
        ReplyPart::Call { name: name.into(), arguments: arguments.into() }
    }

    fn text_part(text: &str) -> ReplyPart {
        ReplyPart::Text(text.into())
    }

    const PARIS: &str = r#"{"city":"Paris","unit":"celsius"}"#;

    #[test]
    fn a_call_passes_only_if_it_fits_the_schema() {
        for (parts, verdict, why) in [
            (vec![text_part("ok"), call(TOOL, PARIS)], Verdict::Ok, "fit the schema"),
            (vec![call(TOOL, r#"{"unit":"celsius","city":"PARIS, France"}"#)], Verdict::Ok, ""),
            (vec![call(TOOL, r#"{"city":"Lyon","unit":"celsius"}"#)], Verdict::Partly, "called for `Lyon`"),
            (vec![call(TOOL, PARIS), call(TOOL, PARIS)], Verdict::Partly, "it made 2"),
            (vec![call("weather", PARIS)], Verdict::No, "`weather`, which was not offered"),
            (vec![call(TOOL, r#"{"city":"Paris"}"#)], Verdict::No, "do not fit the schema"),
            (vec![call(TOOL, r#"{"city":"Paris","unit":"kelvin"}"#)], Verdict::No, "do not fit"),
            (vec![call(TOOL, r#"{"city":"Paris","unit":"celsius","x":1}"#)], Verdict::No, "do not fit"),
            (vec![call(TOOL, r#"{"city":"Par"#)], Verdict::No, "not a JSON object"),
            (vec![text_part("It is\nsunny.")], Verdict::No, "it answered in words: `It is sunny.`"),
            (
                vec![text_part("get_weather {\"city\": \"Paris\"}")],
                Verdict::No,
                "wrote the call as plain text",
            ),
            (vec![], Verdict::No, "an empty reply"),
        ] {
            let judged = one_call(&reply(parts));
            assert!(judged.0 == verdict && judged.1.contains(why), "{judged:?}, wanted {verdict:?} {why}");
        }
    }

    #[test]
    fn two_calls_name_both_cities() {
        let rome = r#"{"city":"Roma","unit":"celsius"}"#;
        let verdict = |parts| two_calls(&reply(parts)).0;
        assert_eq!(verdict(vec![call(TOOL, PARIS), call(TOOL, rome)]), Verdict::Ok);
        assert_eq!(verdict(vec![call(TOOL, PARIS), call(TOOL, PARIS)]), Verdict::Partly);
        assert_eq!(verdict(vec![call(TOOL, PARIS)]), Verdict::No);
        assert_eq!(verdict(vec![call(TOOL, PARIS), call(TOOL, "{}")]), Verdict::No);
    }

    #[test]
    fn a_stream_passes_only_if_its_pieces_were_not_buffered() {
        let answer = |pieces: &[u64], end_ms| Collected {
            reply: reply(vec![text_part("x")]),
            pieces: pieces.into(),
            end_ms,
        };
        let check = |pieces: &[u64], end_ms, verdict, why: &str| {
            let judged = stream(&answer(pieces, end_ms));
            assert!(judged.0 == verdict && judged.1.contains(why), "{judged:?}");
        };
        check(&[100, 140, 190], 200, Verdict::Ok, "3 pieces, the first after 100 ms");
        check(&[0, 0], 0, Verdict::Ok, "2 pieces");
        check(&[1_240], 1_300, Verdict::Partly, "in one piece after 1.2 s");
        check(&[3_000; 20], 3_001, Verdict::Partly, "all 20 pieces came at once after 3.0 s");
        let mut mute = answer(&[], 5);
        mute.reply = Reply { stop: StopReason::Length, ..reply(vec![]) };
        assert_eq!(stream(&mute).0, Verdict::No);
    }

    #[test]
    fn speed_is_reported_only_if_it_can_be_measured() {
        let mut answer = Collected { reply: reply(vec![text_part("x")]), pieces: vec![500], end_ms: 1_500 };
        assert_eq!(answer.speed().tokens_per_second, None);
        answer.reply.usage.output = Some(40);
        let speed = answer.speed();
        assert_eq!(speed.first_ms, Some(500));
        assert!(speed.tokens_per_second.is_some_and(|speed| (speed - 40.0).abs() < 0.01));
        answer.end_ms = 501;
        assert_eq!(answer.speed().tokens_per_second, None);
    }

    #[test]
    fn missing_usage_is_reported_as_missing() {
        let of = |input, output| usage(&[Usage { input, output, ..Usage::default() }]);
        assert_eq!(of(Some(9), Some(3)), (Verdict::Ok, "input 9, cached not reported, output 3".into()));
        assert_eq!(of(Some(9), Some(0)).0, Verdict::Partly);
        assert_eq!((of(None, None).0, usage(&[]).0), (Verdict::No, Verdict::No));
    }

    #[test]
    fn a_server_that_continues_a_canceled_answer_delays_the_next_one() {
        assert_eq!(cancel(1_900, 100).0, Verdict::Ok);
        assert_eq!(cancel(14_000, 5_000).0, Verdict::Ok);
        let (verdict, why) = cancel(9_000, 100);
        assert_eq!(
            (verdict, why.as_str()),
            (Verdict::No, "the next answer began only after 9.0 s, 100 ms before")
        );
    }
}
