//! Calls of HTTP tools: what the server is asked, and what the model reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::call::{Outcome, OutcomeStatus};
use agent::changes::Inward;
use agent::id::{CallId, RootId};
use agent::life::Facts;
use agent::port::{CallGate, NoGate, Tool, ToolContext, ToolError};
use jiff::Timestamp;
use serde_json::{Value, json};
use tools::connector::Connector;
use tools::declare::read_json;
use tools::http::HttpTool;
use tools::secret::SecretValue;

use crate::loopback::{Loopback, Tripwire, page};
use crate::world::{CYCLE, SCOUT, Stored, now};

/// The secret of all tests here.
pub(crate) const CANARY: &str = "canary/7+x?9 k&Z";

/// A tool with the arguments `a`, `b`, … of any type.
pub(crate) fn tool(effect: &str, http: Value) -> HttpTool {
    declared(json!({"effect": effect, "http": http}))
}

pub(crate) fn declared(mut keys: Value) -> HttpTool {
    let any: BTreeMap<&str, Value> = ["a", "b", "c"].into_iter().map(|name| (name, json!({}))).collect();
    keys["name"] = json!("ask");
    keys["kind"] = json!("http");
    keys["description"] = json!("Asks.");
    keys["input"] = json!({"type": "object", "properties": any});
    keys["http"]["allow"] = json!(["127.0.0.1"]);
    let declaration = read_json(&keys, &[]).unwrap_or_else(|wrong| panic!("{wrong:#?}"));
    let secret = |name: &str, value: &str| (name.to_owned(), SecretValue::new(value));
    let secrets =
        BTreeMap::from([secret("key", CANARY), secret("short", "abc"), secret("lines", "abcdef\r\nx: y")]);
    HttpTool::new(declaration, Arc::new(Connector::default()), Arc::new(secrets)).expect("it was checked")
}

pub(crate) async fn call(tool: &dyn Tool, arguments: Value) -> Result<Outcome, ToolError> {
    call_at(tool, arguments, now()).await
}

pub(crate) async fn call_at(tool: &dyn Tool, arguments: Value, now: Timestamp) -> Result<Outcome, ToolError> {
    call_behind(&NoGate, tool, arguments, now).await
}

/// A call whose last look is at this gate.
pub(crate) async fn call_behind(
    gate: &dyn CallGate,
    tool: &dyn Tool,
    arguments: Value,
    now: Timestamp,
) -> Result<Outcome, ToolError> {
    let call = CallId::derive(SCOUT, CYCLE, 0, 0);
    let (root, facts, pending, lookup) =
        (RootId("root-1".into()), Facts::default(), Inward::default(), Stored::default());
    let context = ToolContext {
        agent: SCOUT,
        cycle: CYCLE,
        call: &call,
        now,
        active_space: None,
        root: &root,
        hop: 0,
        trust: agent::event::Trust::Agent,
        facts: &facts,
        pending: &pending,
        lookup: &lookup,
        gate,
    };
    let arguments = tool.check(&arguments.to_string()).map_err(ToolError::new)?;
    tool.call(arguments, context).await.map(|done| done.outcome)
}

async fn error_of(tool: &HttpTool, arguments: Value) -> String {
    call(tool, arguments).await.expect_err("the call fails").model
}

/// What the server is asked by one call.
async fn asked(effect: &str, http: impl Fn(&Loopback) -> Value, arguments: Value) -> String {
    let server = Loopback::ok("text/plain", "hi").await;
    let outcome = call(&tool(effect, http(&server)), arguments).await.expect("an answer");
    assert_eq!((outcome.status, outcome.text.as_str()), (OutcomeStatus::Ok, "hi"));
    server.requests().remove(0)
}

#[tokio::test]
async fn arguments_are_written_where_the_declaration_says() {
    let http = |server: &Loopback| {
        json!({
            "method": "POST",
            "url": server.url("/users/{{ a }}/notes?fixed=1"),
            "query": {"tag": "{{ c }}", "absent": "{{ d }}".replace('d', "b"), "text": "n-{{ a }}"},
            "headers": {"x-user": "u {{ a }}", "x-absent": "{{ b }}"},
            "json": {"whole": "{{ c }}", "text": "<{{ a }}>", "gone": "{{ b }}", "kept": [1, null, "{{ b }}"]},
        })
    };
    let request = asked("unsafe", http, json!({"a": "ä b", "c": [1, "x&y"]})).await;
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let line = "POST /users/%C3%A4%20b/notes?fixed=1&tag=1&tag=x%26y&text=n-%C3%A4%20b HTTP/1.1\r\n";
    assert!(head.starts_with(line), "{head}");
    assert!(head.contains("content-type: application/json") && !head.contains("x-absent"), "{head}");
    assert!(!head.contains("idempotency-key"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body, json!({"whole": [1, "x&y"], "text": "<ä b>", "kept": [1, null]}));
}

#[tokio::test]
async fn no_argument_leaves_its_place_in_the_url() {
    let http = |server: &Loopback| json!({"method": "GET", "url": server.url("/v1/{{ a }}/end"), "query": {"q": "{{ b }}"}});
    for hostile in [
        "x/y",
        "x?y=1",
        "x&y",
        "x#y",
        "x%2fy",
        "x;y",
        "@evil.example",
        ":80",
        "http://evil.example/",
        "x\\y",
        "x y\n",
    ] {
        let request = asked("read_only", http, json!({"a": hostile, "b": hostile})).await;
        let path = request.split(' ').nth(1).unwrap();
        let (path, query) = path.split_once('?').unwrap();
        assert_eq!(
            (path.split('/').count(), query.matches(['&', '=', '#', '?']).count()),
            (4, 1),
            "{hostile}: {request}"
        );
    }
    let server = Loopback::ok("text/plain", "hi").await;
    let tool = tool("read_only", http(&server));
    for hostile in ["..", ".", "../x", "x/../y", "..\\x", ""] {
        let error = error_of(&tool, json!({"a": hostile})).await;
        assert!(error.starts_with("the request cannot be written: `url`: "), "{hostile}: {error}");
    }
    for hostile in [json!([1]), json!({"x": 1}), json!(null)] {
        assert!(
            error_of(&tool, json!({ "a": hostile })).await.contains("wanted a text, a number"),
            "{hostile}"
        );
    }
    assert!(error_of(&tool, json!({})).await.contains("`url`: `a` is absent"));
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_dot_made_of_two_arguments_is_refused_too() {
    let server = Loopback::ok("text/plain", "hi").await;
    let tool =
        tool("read_only", json!({"method": "GET", "url": server.url("/v1/{{ a }}{{ b }}/x/.{{ c }}")}));
    for arguments in [json!({"a": ".", "b": ".", "c": "x"}), json!({"a": "x", "b": "y", "c": "."})] {
        assert!(error_of(&tool, arguments).await.contains("the path would lead elsewhere"));
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_header_takes_no_second_line() {
    let server = Loopback::ok("text/plain", "hi").await;
    let tool =
        tool("read_only", json!({"method": "GET", "url": server.url("/"), "headers": {"x-a": "{{ a }}"}}));
    for hostile in ["x\r\nhost: evil", "x\ny", "x\0y"] {
        assert!(error_of(&tool, json!({"a": hostile})).await.contains("characters that no header may have"));
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_text_body_is_written_as_its_type_needs() {
    let body = |kind: &'static str, body: &'static str| move |server: &Loopback| json!({"method": "POST", "url": server.url("/"), "headers": {"content-type": kind}, "body": body});
    let hostile = json!({"a": "x&admin=1\",\"b\":\"y"});
    let form = asked(
        "unsafe",
        body("application/x-www-form-urlencoded", "q={{ a }}&k={{ secret('key') }}"),
        hostile.clone(),
    )
    .await;
    assert!(
        form.ends_with("\r\n\r\nq=x%26admin%3D1%22%2C%22b%22%3A%22y&k=canary%2F7%2Bx%3F9%20k%26Z"),
        "{form}"
    );
    let text = asked("unsafe", body("application/json", r#"{"q":{{ a }}}"#), hostile.clone()).await;
    let json: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(json, json!({"q": hostile["a"]}));
    let plain = asked("unsafe", body("text/plain", "{{ a }}!"), hostile).await;
    assert!(plain.ends_with("\r\n\r\nx&admin=1\",\"b\":\"y!"), "{plain}");
}

#[tokio::test]
async fn a_repeatable_call_carries_its_key() {
    let http = |server: &Loopback| json!({"method": "PUT", "url": server.url("/")});
    let key = CallId::derive(SCOUT, CYCLE, 0, 0);
    let request = asked("idempotent", http, json!({})).await;
    assert!(request.contains(&format!("\r\nidempotency-key: {key}\r\n")), "{request}");
    assert!(!asked("unsafe", http, json!({})).await.contains("idempotency-key"));
}

#[tokio::test]
async fn the_model_reads_the_part_of_the_answer_that_the_declaration_names() {
    let server =
        Loopback::ok("application/json; charset=utf-8", r#"{"data":{"items":[1,2]},"text":"hi\nyou"}"#).await;
    let of =
        |pointer: &str| tool("unsafe", json!({"method": "POST", "url": server.url("/"), "outcome": pointer}));
    assert_eq!(call(&of("/data/items"), json!({})).await.unwrap().text, "[1,2]");
    assert_eq!(call(&of("/text"), json!({})).await.unwrap().text, "hi\nyou");
    assert!(server.requests()[0].contains("\r\naccept: application/json\r\n"));
    let half = Loopback::ok("application/json", "\u{feff}{\"text\":\"cut \\ud83d\",\"rate\":NaN}").await;
    let tool = tool("unsafe", json!({"method": "POST", "url": half.url("/"), "outcome": "/text"}));
    assert_eq!(call(&tool, json!({})).await.unwrap().text, "cut \u{fffd}");
    let error = error_of(&of("/data/none"), json!({})).await;
    assert!(
        error.contains("the request was done (status 200)")
            && error.contains("there is nothing at `/data/none`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_page_where_json_was_promised_is_an_error_that_shows_it() {
    let server = Loopback::ok("text/html", "<html>Please log in</html>").await;
    let tool = tool("read_only", json!({"method": "GET", "url": server.url("/"), "outcome": "/x"}));
    let error = error_of(&tool, json!({})).await;
    assert!(error.contains("wanted JSON, got text/html") && error.contains("Please log in"), "{error}");
}

#[tokio::test]
async fn an_answer_without_text_is_described() {
    let get = |server: &Loopback| tool("read_only", json!({"method": "GET", "url": server.url("/")}));
    let empty = Loopback::says("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(
        call(&get(&empty), json!({})).await.unwrap().text,
        "the server answered with status 204 and no content"
    );
    let image = Loopback::serve(|_, mut stream| async move {
        use tokio::io::AsyncWriteExt as _;
        let _ = stream
            .write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 4\r\n\r\n\x89\xff\x00\xfe",
            )
            .await;
    });
    assert_eq!(
        call(&get(&image.await), json!({})).await.unwrap().text,
        "[no text, but 4 bytes of image/png]"
    );
}

#[tokio::test]
async fn an_endless_answer_is_cut_at_the_size_that_is_stored() {
    let server = Loopback::serve(|_, mut stream| async move {
        use tokio::io::AsyncWriteExt as _;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n").await;
        while stream.write_all(&[b'x'; 65_536]).await.is_ok() {}
    });
    let server = server.await;
    let outcome =
        call(&tool("read_only", json!({"method": "GET", "url": server.url("/")})), json!({})).await.unwrap();
    let max = agent::limits::OUTCOME_STORED_MAX_BYTES;
    assert!(outcome.text.ends_with(&format!("\n[… cut: the answer is longer than {max} bytes …]")));
    assert!((max..max + 100).contains(&outcome.text.len()));
}

#[tokio::test]
async fn a_refusal_of_the_server_is_an_error_with_status_and_excerpt() {
    let fails = async |head: &str, body: &str| {
        let server = Loopback::says(page(head, "text/plain", body)).await;
        error_of(&tool("unsafe", json!({"method": "POST", "url": server.url("/")})), json!({})).await
    };
    assert_eq!(
        fails("404 Not Found", "no such user").await,
        "the server refused with status 404: no such user"
    );
    assert_eq!(fails("500 Oops", "").await, "the server refused with status 500");
    let error = fails("429 Slow\r\nretry-after: 17", "slow down").await;
    assert_eq!(error, "the server is busy (status 429); it may be asked again in 17 s: slow down");
    let error = fails("503 Busy\r\nretry-after: Sat, 21 Nov 2026 14:04:05 GMT", "").await;
    assert_eq!(error, "the server is busy (status 503); it may be asked again in 60 s");
    let error = fails("400 Bad", &"y".repeat(100_000)).await;
    assert!(error.len() < 3_000, "{}", error.len());
}

#[tokio::test]
async fn whether_an_unsafe_call_happened_is_unknown_once_it_may_have_arrived() {
    let lost = Loopback::serve(|_, stream| async move { drop(stream) }).await;
    let gateway = Loopback::says(page("504 Gateway Timeout", "text/plain", "late")).await;
    let cut = Loopback::says("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await;
    let post = |effect: &str, url: String| tool(effect, json!({"method": "POST", "url": url}));
    for server in [&lost, &gateway, &cut] {
        let outcome = call(&post("unsafe", server.url("/")), json!({})).await.unwrap();
        assert_eq!(outcome.status, OutcomeStatus::Unknown, "{}", outcome.text);
        assert!(
            outcome.text.ends_with("unknown whether it happened. Find out before you try again."),
            "{}",
            outcome.text
        );
        let repeatable = call(&post("idempotent", server.url("/")), json!({})).await;
        assert!(repeatable.is_err(), "it can be repeated: {repeatable:?}");
    }
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = error_of(&post("unsafe", format!("http://{closed}/")), json!({})).await;
    assert!(error.contains("cannot be reached") && !error.contains("unknown whether"), "{error}");
}

#[tokio::test]
async fn what_is_not_allowed_inside_is_not_asked() {
    let tripwire = Tripwire::new();
    let url = format!("http://127.0.0.2:{}/", tripwire.port);
    let error = error_of(&tool("unsafe", json!({"method": "POST", "url": url})), json!({})).await;
    assert!(
        error.contains("`127.0.0.2` is this machine") && error.contains("an operator can list it"),
        "{error}"
    );
    assert_eq!(tripwire.connections(), 0);
}

#[tokio::test]
async fn a_rate_is_kept() {
    let server = Loopback::ok("text/plain", "hi").await;
    let tool = declared(json!({"rate": "1/min", "http": {"method": "GET", "url": server.url("/")}}));
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    assert!(call_at(&tool, json!({}), at("2026-11-21T14:00:00Z")).await.is_ok());
    let error = call_at(&tool, json!({}), at("2026-11-21T14:00:20Z")).await.unwrap_err().model;
    assert!(error.contains("free again in 40 s, at 2026-11-21T14:01:00Z"), "{error}");
    assert!(call_at(&tool, json!({}), at("2026-11-21T14:01:00Z")).await.is_ok());
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_call_that_a_303_says_is_done_is_done_whatever_can_be_read_about_it() {
    let answered = |status: &'static str, location: &'static str, about: (&'static str, &'static str)| async move {
        let server = Loopback::serve(move |request, stream| {
            let head = format!("HTTP/1.1 {status}\r\n{location}content-length: 0\r\n\r\n");
            let answer =
                if request.starts_with("POST") { head } else { page(about.0, "application/json", about.1) };
            crate::loopback::write(stream, answer)
        });
        let http = json!({"method": "POST", "url": server.await.url("/jobs"), "json": {"a": "{{ a }}"}});
        call(&tool("unsafe", http), json!({"a": 1})).await
    };
    let there = "location: /jobs/7\r\n";
    let outcome = answered("303 See Other", there, ("200 OK", "{\"id\":7}")).await.unwrap();
    assert_eq!((outcome.status, outcome.text.as_str()), (OutcomeStatus::Ok, "{\"id\":7}"));
    for (location, about) in [
        (there, ("401 Unauthorized", "who are you?")),
        (there, ("404 Not Found", "")),
        ("location: https://other.example/jobs/7\r\n", ("200 OK", "")),
        ("", ("200 OK", "")),
    ] {
        let outcome = answered("303 See Other", location, about).await.unwrap();
        assert_eq!(outcome.status, OutcomeStatus::Ok, "{outcome:?}");
        assert!(outcome.text.contains("303"), "{outcome:?}");
    }
    let outcome = answered("302 Found", there, ("200 OK", "[]")).await.unwrap();
    assert_eq!((outcome.status, outcome.text.as_str()), (OutcomeStatus::Ok, "[]"));
    for about in [("404 Not Found", "no"), ("500 Oops", "")] {
        let outcome = answered("302 Found", there, about).await.unwrap();
        assert_eq!(outcome.status, OutcomeStatus::Unknown, "nobody knows: {outcome:?}");
    }
}

#[tokio::test]
async fn a_success_without_content_is_one_and_a_byte_order_mark_is_no_text() {
    let read = |answer: String, outcome: Option<&'static str>| async move {
        let server = Loopback::says(answer).await;
        let mut http = json!({"method": "POST", "url": server.url("/"), "json": {}});
        if let Some(pointer) = outcome {
            http["outcome"] = json!(pointer);
        }
        call(&tool("unsafe", http), json!({})).await
    };
    let empty = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
    for status in ["204 No Content", "205 Reset Content", "200 OK", "201 Created", "202 Accepted"] {
        for pointer in [None, Some(""), Some("/id")] {
            let outcome = read(empty(status), pointer).await.unwrap();
            let wanted = format!("the server answered with status {} and no content", &status[..3]);
            assert_eq!((outcome.status, outcome.text), (OutcomeStatus::Ok, wanted));
        }
    }
    let marked = || page("200 OK", "application/json", "\u{feff}{\"id\":7}");
    assert_eq!(read(marked(), Some("/id")).await.unwrap().text, "7");
    assert_eq!(read(marked(), None).await.unwrap().text, "{\"id\":7}");
    assert!(
        read(page("200 OK", "application/json", "\u{feff}"), Some("/id")).await.is_err(),
        "that is no JSON"
    );
}
