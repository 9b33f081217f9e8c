//! From an answer, or from the lack of one, to what the model reads. Must not know how the request was made.

use std::time::Duration;

use agent::call::{Effect, Outcome, OutcomeStatus, head_and_tail};
use agent::limits;
use agent::port::ToolError;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde_json::Value;

use crate::connector::{Before, CollectedBody, ConnectError, Incoming};
use crate::json::{self, Scan};
use crate::secret::Mask;

/// Characters of a media type; an error shows it.
const KIND_MAX_CHARS: usize = 256;

/// What is known of a call's answer from its head.
pub(crate) struct AnswerHead {
    status: u16,
    /// The media type as the server writes it, such as `text/html`; it may repeat a secret.
    kind: String,
    retry_after: Option<String>,
    before: Before,
}

impl AnswerHead {
    pub(crate) fn of(answer: &Incoming) -> Self {
        let kind = answer.header("content-type").and_then(|kind| kind.split(';').next()).unwrap_or_default();
        let kind = kind.trim().chars().take(KIND_MAX_CHARS).collect();
        let retry_after = answer.header("retry-after").map(|text| text.trim().chars().take(80).collect());
        Self { status: answer.status, kind, retry_after, before: answer.before }
    }

    /// The media type as the server writes it; empty if it names none.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// Whether the answer is a success, so that its body is what the model wants.
    pub(crate) fn is_success(&self) -> bool {
        // A 303 that names no place to read about it says all that there is.
        (200..300).contains(&self.status) || self.status == 303
    }
}

/// No answer: an error, or an unknown outcome if the effect must not happen twice and may have happened.
pub(super) fn failed(error: &ConnectError, effect: Effect, mask: &Mask) -> Result<Outcome, ToolError> {
    let text = mask.hide(error.to_string());
    if let ConnectError::SeeOther(_) = error {
        return Ok(done(&text));
    }
    if effect == Effect::Unsafe && error.may_have_arrived() {
        Ok(unknown(&text))
    } else {
        Err(ToolError::new(text))
    }
}

/// A status that is no success.
pub(super) fn refused(
    head: &AnswerHead,
    body: &CollectedBody,
    effect: Effect,
    now: Timestamp,
    mask: &Mask,
) -> Result<Outcome, ToolError> {
    let text = refusal(head, &head_and_tail(&said(head, body, mask), limits::FAILURE_SHOWN_BYTES), now);
    let text = mask.hide(text);
    if head.before == Before::Done {
        return Ok(done(&text));
    }
    // A gateway lost the server's answer, or a redirect led to one; the server may have done what was asked.
    if effect == Effect::Unsafe && (matches!(head.status, 502 | 504) || head.before == Before::Sent) {
        Ok(unknown(&text))
    } else {
        Err(ToolError::new(text))
    }
}

/// What a model reads of a status that is no success, with what the server said.
pub(crate) fn refusal(head: &AnswerHead, said: &str, now: Timestamp) -> String {
    let mut text = format!("the server refused with status {}", head.status);
    if matches!(head.status, 429 | 503) && head.retry_after.is_some() {
        text = format!("the server is busy (status {}); {}", head.status, retry(head, now));
    }
    if !said.is_empty() {
        text.push_str(&format!(": {said}"));
    }
    text
}

/// The outcome of a call that may have happened, although no answer says so.
pub(crate) fn unknown(text: &str) -> Outcome {
    let text = format!("{text}\nunknown whether it happened. Find out before you try again.");
    Outcome { status: OutcomeStatus::Unknown, text, detail: None, trust: None }
}

/// The outcome of a call that happened, of which nothing more could be read.
fn done(why: &str) -> Outcome {
    Outcome::ok(format!(
        "the request was done (status 303); what the server tells about it was not read: {why}"
    ))
}

/// How long a server wants to be left alone: it says seconds or a time.
pub(crate) fn retry_after(said: Option<&str>, now: Timestamp) -> Option<Duration> {
    let said = said?.trim();
    let at = || {
        rfc2822::parse(said).ok().map(|at| at.timestamp().duration_since(now).as_secs().max(0).unsigned_abs())
    };
    said.parse::<u64>().ok().or_else(at).map(Duration::from_secs)
}

fn retry(head: &AnswerHead, now: Timestamp) -> String {
    match retry_after(head.retry_after.as_deref(), now) {
        Some(wait) => format!("it may be asked again in {} s", wait.as_secs()),
        None => "it may be asked again later".to_owned(),
    }
}

/// A success: the body, or the part of it to which the pointer leads.
pub(super) fn succeeded(
    head: &AnswerHead,
    body: &CollectedBody,
    pointer: Option<&str>,
    mask: &Mask,
) -> Result<Outcome, ToolError> {
    let Some(pointer) = pointer.filter(|_| !body.bytes.is_empty()) else {
        let said = said(head, body, mask);
        return Ok(Outcome::ok(if said.is_empty() {
            format!("the server answered with status {} and no content", head.status)
        } else if body.is_cut {
            format!("{said}\n[… cut: the answer is longer than {} bytes …]", body.bytes.len())
        } else {
            said
        }));
    };
    let status = head.status;
    let promised = |why: String| {
        let said = head_and_tail(&said(head, body, mask), limits::FAILURE_SHOWN_BYTES);
        let text =
            format!("the request was done (status {status}), but its answer cannot be read: {why}: {said}");
        ToolError::new(mask.hide(text))
    };
    if body.is_cut {
        return Err(promised(format!("it is longer than {} bytes", body.bytes.len())));
    }
    if Scan::of(&body.bytes).has_too_many_values() {
        return Err(promised(format!("it has more than {} values", limits::JSON_VALUES_MAX)));
    }
    let json: Value = json::read(&String::from_utf8_lossy(without_mark(&body.bytes))).map_err(|error| {
        let kind = if head.kind.is_empty() { "no type" } else { &head.kind };
        promised(format!("wanted JSON, got {kind} ({error})"))
    })?;
    let found = json.pointer(pointer).ok_or_else(|| promised(format!("there is nothing at `{pointer}`")))?;
    let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    Ok(Outcome::ok(mask.hide(text)))
}

/// An answer came, but whoever read it failed.
pub(super) fn unread(error: &tokio::task::JoinError) -> ToolError {
    ToolError {
        model: "the server answered, but its answer could not be read".to_owned(),
        operator: Some(error.to_string()),
    }
}

/// A text without the byte order mark that some programs put in front.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes)
}

/// The body as text, without secrets. Of one that is no text only its type and size.
fn said(head: &AnswerHead, body: &CollectedBody, mask: &Mask) -> String {
    let kind = if head.kind.is_empty() { "unknown type" } else { &head.kind };
    let text = match std::str::from_utf8(without_mark(&body.bytes)) {
        Ok(text) => text.to_owned(),
        // The end may have been cut within a character.
        Err(_) if is_text(&head.kind.to_ascii_lowercase()) || body.is_cut && !body.bytes.contains(&0) => {
            String::from_utf8_lossy(&body.bytes).into_owned()
        }
        Err(_) => {
            return mask.hide_cut(format!("[no text, but {} bytes of {kind}", body.bytes.len())) + "]";
        }
    };
    if body.is_cut {
        return mask.hide_cut(text);
    }
    mask.hide(text)
}

/// Whether a media type in lower case is one of text. Some of office files only contain the name of one.
pub(crate) fn is_text(kind: &str) -> bool {
    let names = ["json", "xml", "javascript", "csv", "yaml", "toml"];
    kind.starts_with("text/") || names.iter().any(|name| kind.ends_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_is_one_of_text_by_its_end() {
        for kind in ["text/html", "application/ld+json", "image/svg+xml", "application/x-yaml"] {
            assert!(is_text(kind), "{kind}");
        }
        let office = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
        for kind in [office, "image/png", "application/pdf", ""] {
            assert!(!is_text(kind), "{kind}");
        }
    }

    #[test]
    fn of_an_answer_with_too_many_values_no_part_is_looked_up() {
        let head = AnswerHead {
            status: 200,
            kind: "application/json".into(),
            retry_after: None,
            before: Before::Nothing,
        };
        for (values, is_read) in [(1_000, true), (limits::JSON_VALUES_MAX + 1, false)] {
            for value in ["0,", "[],", "{\"a\":0},"] {
                let bytes = format!("{{\"x\":1,\"y\":[{}0]}}", value.repeat(values)).into_bytes();
                let body = CollectedBody { bytes: bytes.into(), is_cut: false };
                match succeeded(&head, &body, Some("/x"), &Mask::default()) {
                    Ok(outcome) => assert!(is_read && outcome.text == "1", "{value}"),
                    Err(error) => {
                        assert!(!is_read && error.model.contains("more than 500000 values"), "{value}")
                    }
                }
            }
        }
    }

    #[test]
    fn the_time_to_wait_is_read_in_both_forms() {
        let now = "2026-11-21T14:03:05Z".parse().unwrap();
        let check = |said: &str, wanted: &str| {
            let head = AnswerHead {
                status: 429,
                kind: String::new(),
                retry_after: Some(said.into()),
                before: Before::Nothing,
            };
            assert_eq!(retry(&head, now), format!("it may be asked again {wanted}"), "{said}");
        };
        check("30", "in 30 s");
        check("Sat, 21 Nov 2026 14:04:05 GMT", "in 60 s");
        check("Sat, 21 Nov 2026 14:02:05 GMT", "in 0 s");
        check("soon", "later");
    }
}
