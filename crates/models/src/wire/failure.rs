//! Error classes: maps a vendor's error (status, headers, body) to a [`ModelError`].

use std::time::Duration;

use agent::limits;
use agent::port::ModelError;
use jiff::fmt::rfc2822;
use serde_json::Value;

use super::form;
use crate::bounds::{ERROR_BODY_MAX_BYTES, ERROR_SHOWN_MAX_CHARS};

/// The headers of an error that are used here.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// `retry-after`: seconds or a date.
    pub retry_after: Option<String>,
    /// `retry-after-ms`.
    pub retry_after_ms: Option<String>,
    /// `date`: the vendor's clock, which a date in `retry-after` is compared with.
    pub date: Option<String>,
    /// `x-should-retry`.
    pub should_retry: Option<String>,
}

/// The class of an error answer.
pub fn classify(status: u16, hints: &Hints, body: &str) -> ModelError {
    let error_text = ErrorText::read(body);
    let message = error_text.shown(status);
    let retry_after = retry_after(hints).or(error_text.retry_delay);
    let should_retry = hints.should_retry.as_deref().map(str::trim);
    let failed = |message| ModelError::Failed { message, retry_after };
    match status {
        400 | 413 | 422 | 500 if error_text.is_about(&TOO_LONG) => ModelError::TooLong(message),
        // A request that alone exceeds the limit per minute never succeeds; others only have to wait.
        429 if error_text.is_about(&["request too large"]) => ModelError::TooLong(message),
        403 if error_text.is_about(&FLAGGED) => ModelError::Invalid(message),
        401..=403 => ModelError::Auth(message),
        400 | 422 | 429 if error_text.is_about(&UNPAID) => ModelError::Auth(message),
        400 | 422 if error_text.is_about(&BAD_KEY) => ModelError::Auth(message),
        400 | 422 if error_text.is_about(&NO_MODEL) => ModelError::NoModel(message),
        400 | 422 | 500 if error_text.is_about_form() => ModelError::Unsupported(message),
        406 | 415 => ModelError::Unsupported(message),
        404 | 405 | 410 => ModelError::NoModel(message),
        300..=399 => ModelError::NoModel(format!("{message}; redirects are not followed, set `base_url`")),
        413 => ModelError::TooLong(message),
        429 => ModelError::RateLimited { message, retry_after },
        // llama.cpp sends this when the model's output does not fit the grammar of calls.
        500 if error_text.is_about(&GRAMMAR) => ModelError::Garbage(message),
        500..=599 if should_retry == Some("false") => ModelError::Invalid(message),
        // A plain 500 is no overload: any server may send one.
        498 | 503 | 529 => ModelError::Overloaded { message, retry_after },
        500..=599 if error_text.is_about(&BUSY) => ModelError::Overloaded { message, retry_after },
        _ if should_retry == Some("true") => failed(message),
        // A model server does not answer like this: the address is wrong, not the request.
        501 | 505 if error_text.page => ModelError::NoModel(message),
        501 | 505 => ModelError::Unsupported(message),
        408 | 409 | 425 | 500..=599 => failed(message),
        _ => ModelError::Invalid(message),
    }
}

/// Replaces the text of an HTML page in an error message.
const PAGE: &str = "text/html";

/// Whether the answer was an HTML page, which no model server sends.
pub fn is_page(error: &ModelError) -> bool {
    match error {
        ModelError::NoModel(why) | ModelError::Invalid(why) | ModelError::Garbage(why) => why.ends_with(PAGE),
        ModelError::Failed { message, .. } => message.ends_with(PAGE),
        _ => false,
    }
}

/// Whether a body is an HTML page.
pub(crate) fn looks_like_page(body: &str) -> bool {
    let begin: String = body.trim_start().chars().take(14).collect::<String>().to_lowercase();
    begin.starts_with("<!doctype html") || begin.starts_with("<html")
}

/// A short message for an answer that is an HTML page.
pub(crate) fn page(status: u16) -> String {
    format!("HTTP {status}, {PAGE}")
}

/// The message for an HTML page that came with a status of success.
pub(crate) fn not_a_model_server(status: u16) -> String {
    format!("the server there is not a model server: {}", page(status))
}

/// The class of an error inside a stream.
pub fn in_stream(data: &str) -> ModelError {
    let error_text = ErrorText::read(data);
    let status = error_text.code.or_else(|| status_of(&error_text.kind)).unwrap_or(500);
    classify(status, &Hints::default(), data)
}

const AT_ONCE: &str = "the server does not stream: it sent the whole reply at once. Turn on streaming (a \
gateway may buffer replies), or use another server";

/// The class of an answer with a status of success that is one document instead of a stream.
pub(crate) fn not_a_stream(text: &str) -> ModelError {
    let read = |text: &str| serde_json::from_str::<Value>(text.trim()).ok();
    // Some servers send one object per line, which is not a stream of events either.
    let value = read(text).or_else(|| read(text.trim_start().lines().next()?));
    let shown = || text.chars().take(200).collect::<String>();
    let Some(value) = value.filter(|value| value.is_object() || value.is_array()) else {
        return match text.trim_start().starts_with(['{', '[']) {
            true if text.len() < ERROR_BODY_MAX_BYTES => {
                ModelError::Cut("the answer is not a stream of events, and it was cut".to_owned())
            }
            true => ModelError::Unsupported(AT_ONCE.to_owned()),
            false => ModelError::Garbage(format!("wanted a stream of events, got `{}`", shown())),
        };
    };
    let value = value.get(0).unwrap_or(&value);
    if value.get("error").is_some_and(|error| !error.is_null()) {
        return in_stream(text);
    }
    let is_reply = ["choices", "content", "output", "candidates"].iter().any(|key| value.get(key).is_some());
    ModelError::Unsupported(match is_reply {
        true => AT_ONCE.to_owned(),
        false => format!("wanted a stream of events, got `{}`; is `base_url` right?", shown()),
    })
}

/// The HTTP status that corresponds to a vendor's error name.
fn status_of(kind: &str) -> Option<u16> {
    Some(match kind {
        "authentication_error" | "invalid_api_key" => 401,
        "billing_error" | "insufficient_quota" => 402,
        "permission_error" => 403,
        "not_found_error" | "model_not_found" => 404,
        "request_too_large" | "context_length_exceeded" | "exceed_context_size_error" => 413,
        "invalid_request_error" | "invalid_prompt" => 400,
        "rate_limit_error" | "rate_limit_exceeded" => 429,
        "overloaded_error" | "overloaded" => 529,
        "timeout_error" => 504,
        _ => return None,
    })
}

const TOO_LONG: [&str; 14] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "maximum context length",
    "model's context length",
    "context window",
    "exceed context limit",
    "available context size",
    "context size has been exceeded",
    "prompt is too long",
    "too many tokens",
    "reduce the length",
    "request too large",
    "input token count",
    "maximum prompt length",
];
const UNPAID: [&str; 6] = [
    "insufficient_quota",
    "credit balance is too low",
    "billing_error",
    "billing_hard_limit",
    "enable billing",
    "user location is not supported",
];
const FLAGGED: [&str; 2] = ["moderation", "flagged"];
const BAD_KEY: [&str; 3] = ["incorrect api key", "invalid api key", "api key not valid"];
const NO_MODEL: [&str; 3] = ["model_not_found", "model not found", "is not a valid model"];
const BUSY: [&str; 2] = ["overloaded", "at capacity"];
const GRAMMAR: [&str; 5] = [
    "does not match the expected",
    "failed to parse input at pos",
    "failed to parse tool call",
    "invalid diff:",
    "unexpected empty grammar stack",
];

/// A vendor's error, read from the fields that different vendors use.
#[derive(Debug, Default)]
struct ErrorText {
    message: String,
    kind: String,
    code: Option<u16>,
    /// The field of the request that it names, outside the message.
    named_field: Option<String>,
    /// When to retry, if the body says it (Google's `RetryInfo`).
    retry_delay: Option<Duration>,
    /// The texts above in lower case, for searching.
    all: String,
    /// Whether it is an HTML page; its text is not shown.
    page: bool,
}

impl ErrorText {
    fn read(body: &str) -> Self {
        let value: Value = serde_json::from_str(body.trim()).unwrap_or(Value::Null);
        let value = value.get(0).unwrap_or(&value);
        let error = value.get("error").unwrap_or(value);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let field = |name: &str| error.get(name).and_then(text);
        let message = field("message")
            .or_else(|| text(error))
            .or_else(|| value.get("message").and_then(text))
            .or_else(|| value.get("detail").map(Value::to_string))
            .unwrap_or_else(|| body.trim().to_owned());
        let code_name = field("code").unwrap_or_default();
        let kind = match field("type") {
            Some(kind) if kind != "error" && status_of(&kind).is_some() => kind,
            _ => code_name.clone(),
        };
        let number = error.get("code").or_else(|| error.get("status")).and_then(Value::as_u64);
        let code = number.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n));
        let kinds = field("type").unwrap_or_default();
        let retry_delay = retry_delay(error);
        let named_field = field("param").or_else(|| violated_field(value, error));
        let all = format!("{message} {code_name} {kinds}").to_lowercase();
        Self { message, kind, code, named_field, retry_delay, all, page: looks_like_page(body) }
    }

    fn is_about_form(&self) -> bool {
        form::is_refused(self.named_field.as_deref(), &self.message)
    }

    fn is_about(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.all.contains(phrase))
    }

    fn shown(&self, status: u16) -> String {
        if self.page {
            return page(status);
        }
        let one_line = self.message.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut shown: String = one_line.chars().take(ERROR_SHOWN_MAX_CHARS).collect();
        if shown.len() < one_line.len() {
            shown.push('…');
        }
        if shown.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {shown}") }
    }
}

/// The field that FastAPI's `detail` or Google's `fieldViolations` name first.
fn violated_field(value: &Value, error: &Value) -> Option<String> {
    let detail = value.get("detail").or_else(|| value.get("message")?.get("detail"));
    let loc = detail.and_then(|detail| detail.get(0)?.get("loc")?.get(1)?.as_str());
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    let violated =
        || details.filter_map(|detail| detail.get("fieldViolations")?.get(0)?.get("field")?.as_str());
    loc.or_else(|| violated().next()).map(str::to_owned)
}

/// A delay such as `37s` or `1.5s` among an error's details.
fn retry_delay(error: &Value) -> Option<Duration> {
    let details = error.get("details")?.as_array()?;
    let text = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    let most = Duration::from_millis(limits::RETRY_AFTER_MAX_MS);
    Duration::try_from_secs_f64(seconds.max(0.0)).ok().map(|wait| wait.min(most))
}

/// When to retry. A date is compared with the vendor's clock, so that ours may be wrong.
fn retry_after(hints: &Hints) -> Option<Duration> {
    let most = Duration::from_millis(limits::RETRY_AFTER_MAX_MS);
    let number = |text: &Option<String>| text.as_deref()?.trim().parse::<f64>().ok();
    let seconds = number(&hints.retry_after_ms).map(|ms| ms / 1_000.0).or_else(|| number(&hints.retry_after));
    if let Some(seconds) = seconds {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok().map(|wait| wait.min(most));
    }
    let read = |text: &Option<String>| {
        let text = text.as_deref()?.trim().replace("GMT", "+0000");
        rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
    };
    let (then, now) = (read(&hints.retry_after)?, read(&hints.date)?);
    let wait = Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO);
    Some(wait.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::port::Fault;

    fn check(status: u16, body: &str, expected: &str) {
        let error = classify(status, &Hints::default(), body);
        assert!(error.to_string().starts_with(expected), "{status} {body}: got `{error}`");
    }

    #[test]
    fn each_answer_has_its_class() {
        let error = |message: &str| format!(r#"{{"error":{{"message":"{message}","type":"x"}}}}"#);
        check(401, &error("no"), "auth: HTTP 401: no");
        check(403, "<html>", "auth");
        check(404, r#"{"error":"model \"m\" not found, try pulling it first"}"#, "no such model");
        check(429, &error("slow down"), "rate limited");
        check(429, &error("Too many tokens, please wait before trying again."), "rate limited");
        check(403, &error("your input was flagged"), "invalid request");
        check(429, r#"{"error":{"message":"pay","code":"insufficient_quota"}}"#, "auth");
        check(429, &error("Request too large for gpt-4o on tokens per min"), "context too long");
        check(400, &error("messages: must alternate"), "invalid request");
        check(400, &error("prompt is too long: 210000 tokens > 200000 maximum"), "context too long");
        check(
            400,
            r#"{"error":{"code":400,"message":"x","type":"exceed_context_size_error"}}"#,
            "context too long",
        );
        check(400, &error("Your credit balance is too low to access the API"), "auth");
        check(400, r#"{"error":"Incorrect API key provided: xa***n"}"#, "auth");
        check(413, "", "context too long: HTTP 413");
        check(
            500,
            &error("The model produced output that does not match the expected peg-native format"),
            "garbage",
        );
        check(500, &error("oops"), "the server failed: HTTP 500: oops");
        check(500, "<h1>Traceback</h1>", "the server failed: HTTP 500: <h1>Traceback</h1>");
        check(500, &error("The engine is currently overloaded"), "overloaded");
        check(502, "", "the server failed: HTTP 502");
        check(503, "", "overloaded");
        check(
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "overloaded",
        );
        check(302, "", "no such model");
        let google = |code: u16, message: &str| {
            format!(r#"{{"error":{{"code":{code},"message":"{message}","status":"X"}}}}"#)
        };
        check(400, &google(400, "API key not valid. Please pass a valid API key."), "auth");
        check(400, &google(400, "User location is not supported for the API use."), "auth");
        check(
            400,
            &google(400, "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
            "context",
        );
        check(404, &google(404, "models/x is not found for API version v1beta"), "no such model");
        check(503, &google(503, "The model is overloaded."), "overloaded");
        check(422, r#"{"detail":[{"loc":["body"]}]}"#, "invalid request");
        check(418, "[]", "invalid request: HTTP 418");
    }

    #[test]
    fn a_document_instead_of_a_stream_is_classed_by_its_content() {
        let class = |text: &str| not_a_stream(text).to_string();
        for reply in [
            r#"{"id":"c","object":"chat.completion","choices":[{"message":{"content":"hi"}}],"error":null}"#,
            r#"{"id":"m","type":"message","role":"assistant","content":[]}"#,
            r#"{"id":"r","object":"response","output":[],"error":null}"#,
            r#"[{"candidates":[]}]"#,
        ] {
            assert!(class(reply).starts_with("unsupported: the server does not stream"), "{}", class(reply));
        }
        assert!(class(r#"{"status":"ok"}"#).starts_with("unsupported: wanted a stream of events, got"));
        assert!(class("{\"model\":\"m\"}\n{\"done\":true}").starts_with("unsupported: wanted a stream"));
        assert!(class(r#"{"error":{"code":429,"message":"x"}}"#).starts_with("rate limited"));
        assert!(class(r#"{"choices":[{"mess"#).starts_with("the stream was cut"));
        let long = format!(r#"{{"choices":["{}"#, "x".repeat(ERROR_BODY_MAX_BYTES));
        assert!(class(&long).starts_with("unsupported"), "only the beginning of a long document is read");
        assert!(class("hello").starts_with("garbage"));
    }

    #[test]
    fn an_html_page_is_named_and_not_quoted() {
        let body = "\n<!DOCTYPE HTML>\n<html lang=\"en\"><p>Unsupported method ('POST').</p></html>";
        for (status, class) in [(501, "no such model"), (404, "no such model"), (502, "the server failed")] {
            let error = classify(status, &Hints::default(), body);
            assert_eq!(error.to_string(), format!("{class}: HTTP {status}, text/html"));
            assert!(is_page(&error) && error.fault() == Fault::Surroundings, "{error}");
        }
        let refused = classify(400, &Hints::default(), "<html><h1>Bad Request</h1></html>");
        assert_eq!(refused.fault(), Fault::Content, "a gateway may have refused the content");
        assert!(!is_page(&classify(404, &Hints::default(), "not found")));
    }

    #[test]
    fn an_error_inside_a_stream_is_classed_by_its_name_or_number() {
        let class = |data: &str| in_stream(data).to_string();
        assert!(
            class(r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#)
                .starts_with("over")
        );
        assert!(
            class(r#"{"type":"error","error":{"type":"rate_limit_error","message":"x"}}"#)
                .starts_with("rate")
        );
        assert!(class(r#"{"error":{"code":400,"message":"x"}}"#).starts_with("invalid"));
        assert!(
            class(r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#).starts_with("context")
        );
        assert!(class("nonsense").starts_with("the server failed: HTTP 500: nonsense"));
        assert_eq!(in_stream("{}").fault(), Fault::Surroundings);
    }

    #[test]
    fn retry_after_is_read_in_every_form_and_bounded() {
        let after = |value: &str| {
            let hints = Hints {
                retry_after: Some(value.into()),
                date: Some("Sat, 21 Nov 2026 10:00:00 GMT".into()),
                ..Hints::default()
            };
            classify(429, &hints, "").retry_after()
        };
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("1.5"), Some(Duration::from_millis(1_500)));
        assert_eq!(after("Sat, 21 Nov 2026 10:01:30 GMT"), Some(Duration::from_secs(90)));
        assert_eq!(after("Sat, 21 Nov 2026 09:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after("999999999"), Some(Duration::from_millis(limits::RETRY_AFTER_MAX_MS)));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-3"), Some(Duration::ZERO));
        let ms =
            Hints { retry_after_ms: Some("250".into()), retry_after: Some("9".into()), ..Hints::default() };
        assert_eq!(classify(529, &ms, "").retry_after(), Some(Duration::from_millis(250)));
    }

    #[test]
    fn a_delay_in_the_body_is_read_like_one_in_a_header() {
        let body = |delay: &str| {
            format!(
                r#"[{{"error":{{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[
                {{"@type":"type.googleapis.com/google.rpc.QuotaFailure"}},
                {{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{delay}"}}]}}}}]"#
            )
        };
        let after = |delay: &str| classify(429, &Hints::default(), &body(delay)).retry_after();
        assert_eq!(after("37s"), Some(Duration::from_secs(37)));
        assert_eq!(after("0.5s"), Some(Duration::from_millis(500)));
        assert_eq!(after("soon"), None);
        assert_eq!(in_stream(&body("2s")).retry_after(), Some(Duration::from_secs(2)));
        let header = Hints { retry_after: Some("7".into()), ..Hints::default() };
        assert_eq!(classify(429, &header, &body("37s")).retry_after(), Some(Duration::from_secs(7)));
    }

    #[test]
    fn a_vendors_should_retry_header_decides() {
        let says = |word: &str| Hints { should_retry: Some(word.into()), ..Hints::default() };
        assert!(classify(400, &says("true"), "").retryable());
        assert!(!classify(500, &says("false"), "").retryable());
        assert!(classify(429, &says("false"), "").to_string().starts_with("rate"));
    }
}
