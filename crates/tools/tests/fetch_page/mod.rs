//! Reading pages: what a model reads of them, what is not asked, and what is given up. How HTML becomes text is tested where
//! it is done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::call::{Effect, Outcome, OutcomeStatus};
use agent::limits;
use agent::port::{ToolError, Toolbox as _};
use agent::tool::ToolLabel;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tools::connector::{AllowList, Connector, TrafficLimits};
use tools::fetch_page::FetchPage;
use tools::secret::Secrets;

use crate::declared::calling;
use crate::loopback::{Loopback, Names, Tripwire, page};

/// The tool with this network and these limits, for servers on this machine.
fn tool(names: Names, limits: TrafficLimits) -> FetchPage {
    let allow = AllowList::new(vec!["127.0.0.0/8".parse().expect("a net")]);
    FetchPage::within(Arc::new(Connector::new(Arc::new(names))), allow, limits)
}

async fn call(tool: &FetchPage, url: &str) -> Result<Outcome, ToolError> {
    calling::call(tool, json!({ "url": url })).await
}

async fn fetch(url: &str) -> Result<Outcome, ToolError> {
    call(&tool(Names::default(), TrafficLimits::default()), url).await
}

/// What a model reads of this answer.
async fn text_of(kind: &str, body: &str) -> String {
    let outcome = fetch(&Loopback::ok(kind, body).await.url("/")).await.expect("an answer");
    assert_eq!(outcome.status, OutcomeStatus::Ok);
    outcome.text
}

async fn error_of(tool: &FetchPage, url: &str) -> String {
    call(tool, url).await.expect_err("the call fails").model
}

/// A server that answers with these bytes.
async fn bytes(answer: Vec<u8>) -> Loopback {
    Loopback::serve(move |_, mut stream| {
        let answer = answer.clone();
        async move {
            let _ = stream.write_all(&answer).await;
        }
    })
    .await
}

#[test]
fn only_a_server_with_a_connector_offers_it_and_only_to_agents_that_name_it() {
    assert!(tools::prebuilt().tool("fetch_page").is_none());
    let secrets: Arc<dyn Secrets> = Arc::new(std::collections::BTreeMap::new());
    let kit = tools::prebuilt().declaring(Arc::new(Connector::default()), secrets, Vec::new());
    let tool = kit.tool("fetch_page").expect("it is offered");
    assert!(!kit.is_prebuilt("fetch_page"));
    let spec = tool.spec();
    assert_eq!((spec.effect, spec.foreign, spec.version.as_str()), (Effect::ReadOnly, false, "1"));
    let labels: Vec<ToolLabel> = spec.labels.iter().collect();
    assert_eq!(labels, [ToolLabel::Exfiltrates, ToolLabel::Outside]);
    let taken = json!({
        "name": "fetch_page", "kind": "http", "description": "Mine.", "effect": "read_only",
        "input": {"type": "object"}, "http": {"method": "GET", "url": "https://a.example/"},
    });
    let wrong = kit.check(&taken).expect_err("the name is taken").join("; ");
    assert!(wrong.contains("`fetch_page`"), "{wrong}");
}

#[tokio::test]
async fn a_page_is_returned_as_text_with_its_title_and_whole_links() {
    let html = "<!doctype html><html><head><title> A &amp; B\n</title><style>p{}</style></head><body>\
        <h1>Head</h1><p>Some <a href='/x?y=1'>link</a>.<script>alert(1)</script></body></html>";
    let server = Loopback::ok("text/html; charset=utf-8", html).await;
    let outcome = fetch(&server.url("/dir/page#part")).await.unwrap();
    let link = server.url("/x?y=1");
    assert_eq!(outcome.text, format!("title: A & B\n\n# Head\n\nSome [link]({link})."));
    let asked = &server.requests()[0];
    assert!(asked.starts_with("GET /dir/page HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("\r\naccept: text/html, "), "{asked}");
}

#[tokio::test]
async fn a_page_without_a_type_is_recognised() {
    let server = Loopback::says("HTTP/1.1 200 OK\r\n\r\n<!DOCTYPE html><p>a<b>b</b>").await;
    assert_eq!(fetch(&server.url("/")).await.unwrap().text, "ab");
    let server = Loopback::says("HTTP/1.1 200 OK\r\n\r\na <b> c").await;
    assert_eq!(fetch(&server.url("/")).await.unwrap().text, "a <b> c");
}

#[tokio::test]
async fn characters_are_read_as_the_server_or_the_page_says() {
    for (kind, body) in [
        ("text/html; charset=iso-8859-1", &b"<p>caf\xe9"[..]),
        ("text/html", b"<meta charset='windows-1252'><p>caf\xe9"),
        ("text/html", b"<p>caf\xe9"),
        ("text/html", "<p>café".as_bytes()),
        ("text/plain; charset=latin1", b"caf\xe9"),
    ] {
        let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n").into_bytes();
        answer.extend_from_slice(body);
        assert_eq!(fetch(&bytes(answer).await.url("/")).await.unwrap().text, "café", "{kind}");
    }
}

#[tokio::test]
async fn other_text_comes_as_it_is() {
    for (kind, body) in [
        ("application/json", "{\"a\":  [1,\n2]}"),
        ("text/plain", "a  <b>\n\n\n c"),
        ("application/rss+xml", "<rss>\n <a/></rss>"),
        ("application/octet-stream", "key = 1"),
    ] {
        assert_eq!(text_of(kind, body).await, body, "{kind}");
    }
}

#[tokio::test]
async fn what_is_no_text_is_named_and_not_received() {
    let endless = Loopback::serve(|_, mut stream| async move {
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 9000000000\r\n\r\n")
            .await;
        std::future::pending::<()>().await;
    });
    let text = fetch(&endless.await.url("/")).await.unwrap().text;
    assert_eq!(text, "[no text, but 9000000000 bytes of image/png; only text can be read]");
    let office = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
    assert!(text_of(office, "PK").await.contains("but 2 bytes of application/vnd"));
    let text = text_of("application/octet-stream", "a\0b").await;
    assert_eq!(text, "[no text, but 3 bytes of application/octet-stream]");
}

#[tokio::test]
async fn a_page_without_text_says_so() {
    let text = text_of("text/html", "<script>write()</script>").await;
    assert_eq!(text, "the server answered with 24 bytes in which there is no readable text");
}

#[tokio::test]
async fn a_redirect_to_another_host_is_named_whole_and_not_followed() {
    let tripwire = Tripwire::at("127.0.0.3:0".parse().unwrap());
    let names = Names::default().with("a.example", &["127.0.0.1"]).with("b.example", &["127.0.0.3"]);
    let answer = page("302 Found\r\nlocation: https://b.example/q?id=5&x=y", "text/plain", "");
    let server = Loopback::says(answer).await;
    let tool = tool(names, TrafficLimits::default());
    let error = error_of(&tool, &format!("http://a.example:{}/", server.address.port())).await;
    assert!(error.contains("redirects to `https://b.example/q?id=5&x=y`, which is another host"), "{error}");
    assert!(error.contains("use it instead"), "{error}");
    assert_eq!(tripwire.connections(), 0);
}

#[tokio::test]
async fn a_redirect_on_the_same_host_is_followed_and_links_are_relative_to_its_end() {
    let server = Loopback::serve(|request, mut stream| async move {
        let answer = if request.starts_with("GET /old ") {
            page("301 Moved\r\nlocation: /new/", "text/plain", "")
        } else {
            page("200 OK", "text/html", "<a href=x>y</a>")
        };
        let _ = stream.write_all(answer.as_bytes()).await;
    });
    let server = server.await;
    let text = fetch(&server.url("/old")).await.unwrap().text;
    assert_eq!(text, format!("[y]({})", server.url("/new/x")));
}

#[tokio::test]
async fn no_page_leads_inside() {
    let metadata = "http://169.254.169.254/latest/meta-data/";
    let server = Loopback::says(page(&format!("302 Found\r\nlocation: {metadata}"), "text/plain", "")).await;
    let lenient = tool(Names::default(), TrafficLimits::default());
    let error = error_of(&lenient, &server.url("/")).await;
    assert!(error.contains("was not followed"), "{error}");
    let error = error_of(&lenient, metadata).await;
    assert!(error.contains("link-local") && error.contains("nothing was sent"), "{error}");

    let tripwire = Tripwire::new();
    let names = Names::default().with("inside.example", &["127.0.0.1"]);
    let shipped = FetchPage::new(Arc::new(Connector::new(Arc::new(names))));
    for host in ["127.0.0.1", "[::1]", "inside.example"] {
        let error = error_of(&shipped, &format!("http://{host}:{}/", tripwire.port)).await;
        assert!(error.contains("is this machine, not the public internet"), "{host}: {error}");
    }
    for url in ["file:///etc/passwd", "ftp://a.example/", "a.example"] {
        assert!(error_of(&shipped, url).await.contains("wanted an `http` or `https` URL"), "{url}");
    }
    assert_eq!(tripwire.connections(), 0);
}

#[tokio::test]
async fn an_endless_page_is_cut() {
    let endless = async |kind: &str, piece: &'static str| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n");
        let server = Loopback::serve(move |_, mut stream| {
            let head = head.clone();
            async move {
                let _ = stream.write_all(head.as_bytes()).await;
                let pieces = piece.repeat(10_000);
                while stream.write_all(pieces.as_bytes()).await.is_ok() {}
            }
        });
        let text = fetch(&server.await.url("/")).await.unwrap().text;
        assert!(text.ends_with("\n[… cut: the page is longer than what is read of one …]"), "{kind}");
        text.len()
    };
    let html = endless("text/html", "<p>word").await;
    assert!((1_000_000..limits::PAGE_HTML_MAX_BYTES + 100).contains(&html), "{html}");
    let plain = endless("text/plain", "word ").await;
    assert!((limits::PAGE_TEXT_MAX_BYTES..limits::OUTCOME_STORED_MAX_BYTES).contains(&plain), "{plain}");
    // Each byte becomes a character of three.
    let wide = endless("text/plain; charset=windows-1252", "word\n").await;
    assert!(wide < limits::OUTCOME_STORED_MAX_BYTES, "{wide}");
}

#[tokio::test]
async fn a_page_that_stalls_is_given_up() {
    let server = Loopback::serve(|_, mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<p>a").await;
        std::future::pending::<()>().await;
    });
    let limits = TrafficLimits { idle: Duration::from_millis(60), ..TrafficLimits::default() };
    let error = error_of(&tool(Names::default(), limits), &server.await.url("/")).await;
    assert_eq!(error, "`127.0.0.1` gave no further part of the answer within 60 ms");
}

#[tokio::test]
async fn a_refusal_is_an_error_with_what_the_page_says() {
    let html = "<html><style>x</style><h1>Not here</h1><p>Try <a href=/s>search</a>";
    let server = Loopback::says(page("404 Not Found", "text/html", html)).await;
    let error = error_of(&tool(Names::default(), TrafficLimits::default()), &server.url("/")).await;
    let search = server.url("/s");
    let wanted = format!("the server refused with status 404: # Not here\n\nTry [search]({search})");
    assert_eq!(error, wanted);
    let busy = Loopback::says(page("429 Slow\r\nretry-after: 7", "text/html", "")).await;
    let error = error_of(&tool(Names::default(), TrafficLimits::default()), &busy.url("/")).await;
    assert_eq!(error, "the server is busy (status 429); it may be asked again in 7 s");
}

#[tokio::test]
async fn hostile_nesting_costs_little() {
    for part in
        ["<div>", "<ul><li>", "<table><tr><td>", "<blockquote>", "<a href=x>", "<h1>", "<nav>", "<pre>"]
    {
        let html = format!("<p>begin</p>{}end", part.repeat(100_000));
        let begun = Instant::now();
        let text = text_of("text/html", &html).await;
        // A menu that never ends is left out with what follows.
        assert!(text.contains("begin") && (text.contains("end") || part == "<nav>"), "{part}");
        assert!(text.len() < 1_000_000, "{part}: {}", text.len());
        // A stack or a search through the open elements would take minutes.
        assert!(begun.elapsed() < Duration::from_secs(10), "{part}: {:?}", begun.elapsed());
    }
}
