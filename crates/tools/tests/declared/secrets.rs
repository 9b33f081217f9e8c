//! A secret reaches the server and nothing else: no outcome, no error, no `Debug` form, no log.

use std::io;
use std::sync::{Arc, Mutex};

use agent::call::Outcome;
use agent::port::ToolError;
use serde_json::json;

use super::calling::{CANARY, call, declared, tool};
use crate::loopback::{Loopback, page, write};

/// Parts of the secret in every form in which it could appear.
const TRACES: [&str; 5] = ["canary", "7+x", "7%2Bx", "7%2bx", "x?9"];

pub(crate) fn assert_clean(text: &str, what: &str) {
    for trace in TRACES {
        assert!(!text.contains(trace), "{what} contains `{trace}`: {text}");
    }
    // Three bytes of the secret at each position in Base64.
    for base64 in ["Y2FuYXJ5", "NhbmFyeS", "jYW5hcnkv"] {
        assert!(!text.contains(base64), "{what} contains `{base64}`: {text}");
    }
}

/// All that a call says, as one text.
fn said(result: &Result<Outcome, ToolError>) -> String {
    match result {
        Ok(outcome) => format!("{} {:?}", outcome.text, outcome),
        Err(error) => format!("{error} {error:?}"),
    }
}

/// Keeps everything that is logged while a test runs.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no test panics with it")).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics with it").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_secret_that_a_server_repeats_is_masked_everywhere() {
    let log = Log::default();
    let writer = log.clone();
    let logging =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    let _logging = tracing::subscriber::set_default(logging.finish());
    // The server repeats the whole request in an answer of this kind.
    for (status, kind, outcome) in [
        ("200 OK", "text/plain", None),
        ("200 OK", "application/json", Some("/echo")),
        ("200 OK", "application/json", Some("/none")),
        ("200 OK", "text/html", Some("/echo")),
        ("401 No", "text/plain", None),
        ("429 Slow\r\nretry-after: REQUEST", "text/plain", None),
        ("500 Oops", "application/json", None),
        ("302 Found\r\nlocation: http://other.example/REQUEST", "text/plain", None),
        ("504 Late", "text/plain", None),
        ("200 OK\r\nx: REQUEST", "image/REQUEST", None),
        ("200 OK", "text/REQUEST", Some("/x")),
    ] {
        let server = Loopback::serve(move |request, stream| {
            let line = request.lines().next().unwrap_or_default().replace([' ', '?'], "+");
            let said = if kind == "application/json" {
                json!({"echo": request}).to_string()
            } else {
                request.clone()
            };
            let said = if kind.starts_with("image") { format!("\u{0}{said}") } else { said };
            write(stream, page(&status.replace("REQUEST", &line), &kind.replace("REQUEST", &line), &said))
        });
        let server = server.await;
        let mut http = json!({
            "method": "POST",
            "url": server.url("/x"),
            "query": {"key": "{{ secret('key') }}"},
            "headers": {"authorization": "Bearer {{ secret('key') }}"},
            "json": {"nested": ["pre-{{ secret('key') }}"]},
        });
        if let Some(pointer) = outcome {
            http["outcome"] = json!(pointer);
        }
        let tool = tool("unsafe", http);
        let result = call(&tool, json!({})).await;
        let asked = server.requests().remove(0);
        assert_eq!(asked.matches(CANARY).count(), 2, "the server got it in header and body: {asked}");
        assert!(asked.contains("?key=canary%2F7%2Bx%3F9%20k%26Z "), "{asked}");
        assert_clean(&said(&result), status);
        assert_clean(&format!("{tool:?} {:?}", tool.declaration()), "the tool");
    }
    assert_clean(&log.text(), "the log");
}

#[tokio::test]
async fn a_secret_that_a_server_repeats_in_other_letters_is_masked() {
    let basic = "dTpjYW5hcnkvNyt4PzkgayZa";
    let bodies = [
        format!("basic {basic}"),
        r#"{"you":"\u0063anary/7+x?9 k&Z"}"#.to_owned(),
        "canary%2f7%2bx%3f9+k%26Z".to_owned(),
        "canary%2F7%2Bx%3F9+k%26Z".to_owned(),
        "canary/7+x?9 k&amp;Z".to_owned(),
        "63616e6172792f372b783f39206b265a".to_owned(),
    ];
    for body in bodies {
        let server = Loopback::ok("application/json", &body).await;
        let http =
            json!({"method": "GET", "url": server.url("/"), "headers": {"x-key": "{{ secret('key') }}"}});
        let text = call(&tool("read_only", http), json!({})).await.unwrap().text;
        assert!(text.contains("[secret key]"), "{body}: {text}");
        assert_clean(&text, &body);
    }
}

#[tokio::test]
async fn a_secret_at_the_end_of_a_quotation_is_masked() {
    let long = format!("{}{CANARY}", "y".repeat(8 * 2_048 - 7));
    let server = Loopback::says(page("400 Bad", "text/plain", &long)).await;
    let http = json!({"method": "GET", "url": server.url("/"), "headers": {"x-key": "{{ secret('key') }}"}});
    let error = call(&tool("read_only", http), json!({})).await.unwrap_err().model;
    assert_clean(&error, "the quotation");
    assert!(error.ends_with("•••"), "{error}");
}

#[tokio::test]
async fn a_secret_that_cannot_be_used_is_named_and_nothing_is_sent() {
    let server = Loopback::ok("text/plain", "hi").await;
    let with = |name: &str| {
        let value = format!("{{{{ secret('{name}') }}}}");
        tool("read_only", json!({"method": "GET", "url": server.url("/"), "headers": {"x-key": value}}))
    };
    for (name, wanted) in [
        ("none", "there is no secret `none`"),
        ("short", "the secret `short` has fewer than 6 bytes"),
        ("lines", "the header `x-key` has a value with characters that no header may have"),
        ("a b", "wanted a secret's name"),
    ] {
        let error = call(&with(name), json!({})).await.unwrap_err().model;
        assert!(error.contains(wanted) && !error.contains("abc"), "{name}: {error}");
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn an_argument_cannot_ask_for_a_secret() {
    let server = Loopback::ok("text/plain", "hi").await;
    let http = json!({"method": "POST", "url": server.url("/"), "json": "{{ a }}", "headers": {"x-key": "{{ secret('key') }}"}});
    let tool = declared(json!({ "http": http }));
    for forged in ["{{ secret('key') }}", "\u{fdd0}key\u{fdd1}", "\u{fdd0}"] {
        match call(&tool, json!({"a": [{"x": forged}]})).await {
            Ok(_) => {}
            Err(error) => assert!(error.model.contains("U+FDD0"), "{error}"),
        }
        assert!(call(&tool, json!({"a": {forged: 1}})).await.is_ok() || forged.contains('\u{fdd0}'));
    }
    for request in server.requests() {
        assert!(!request.split_once("\r\n\r\n").unwrap().1.contains("canary"), "{request}");
    }
}

#[tokio::test]
async fn an_argument_cannot_choose_which_secret_is_sent() {
    let server = Loopback::ok("text/plain", "hi").await;
    let get = |value: &str| {
        tool("read_only", json!({"method": "GET", "url": server.url("/"), "headers": {"x-key": value}}))
    };
    for source in ["{{ secret(a) }}", "{% set open = secret %}{{ open(a) }}"] {
        let error = call(&get(source), json!({"a": "key"})).await.unwrap_err().model;
        assert!(error.contains("does not write out the name of the secret `key`"), "{error}");
    }
    let declared = get("{{ secret('key') }}").declaration().http.clone().unwrap();
    assert_eq!(declared.secrets(), ["key".to_owned()].into());
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_template_cannot_read_a_secret() {
    let server = Loopback::ok("text/plain", "hi").await;
    let http = json!({
        "method": "POST",
        "url": server.url("/"),
        "json": "{{ secret('key') | upper | length }}",
    });
    assert!(call(&tool("unsafe", http), json!({})).await.is_ok());
    let body = server.requests().remove(0);
    // The length of the mark, not of the secret.
    assert!(body.ends_with("\r\n\r\n5"), "{body}");
}
