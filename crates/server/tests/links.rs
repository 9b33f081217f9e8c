//! Links to calls that wait for people: what the page shows, that only a POST answers and only once, and what each wrong
//! link and each wrong answer is told.

use std::time::Duration;

use agent::approval::{Approval, AskKind, Patience, hash_of};
use agent::call::{CallRow, Runner};
use agent::id::CallId;
use agent::limits;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request};
use runtime::node::Signal;
use serde_json::{Value, json};

use crate::approvals::asked;
use crate::calls::open_row;
use crate::world::{ADMIN, World, links};

const FORM: &str = "application/x-www-form-urlencoded";

/// A web page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    headers: HeaderMap,
    text: String,
}

impl Page {
    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    #[track_caller]
    fn says(&self, status: u16, words: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        for words in words {
            assert!(self.text.contains(words), "{words}: {self:?}");
        }
    }
}

async fn send(world: &World, request: Request<Body>) -> Page {
    let (head, body) = world.open(request).await.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    Page { status: head.status.as_u16(), headers: head.headers, text }
}

/// The path of the link that an operator is given.
pub(crate) async fn link(world: &World, id: &CallId) -> String {
    let shown = world.get(&format!("/v1/approvals/{id}?link=true")).await;
    let link = shown.json["link"].as_str().unwrap_or_else(|| panic!("{shown:?}")).to_owned();
    link.strip_prefix("https://viv.example").unwrap().to_owned()
}

fn request(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header("host", "viv.example")
}

pub(crate) async fn open(world: &World, path: &str) -> Page {
    send(world, request(Method::GET, path).body(Body::empty()).unwrap()).await
}

pub(crate) async fn answer(world: &World, path: &str, form: &str) -> Page {
    let request = request(Method::POST, path).header("content-type", FORM);
    // As browsers send it.
    let request = request.header("origin", "https://viv.example");
    send(world, request.body(Body::from(form.to_owned())).unwrap()).await
}

async fn state(world: &World, id: &CallId) -> Value {
    world.get(&format!("/v1/approvals/{id}")).await.json["state"].clone()
}

#[tokio::test]
async fn a_link_shows_a_call_without_a_key_and_changes_nothing() {
    let world = World::new().await;
    let id = asked(&world, |asked| asked).await;
    // With what mail programs add.
    let path = link(&world, &id).await + "?utm_source=mail";
    let before = world.get(&format!("/v1/approvals/{id}")).await.json;
    world.signals();
    for method in [Method::GET, Method::GET, Method::HEAD] {
        let page = send(&world, request(method.clone(), &path).body(Body::empty()).unwrap()).await;
        let words = ["muhammad", "fire (version 1)", "{&quot;note&quot;:&quot;one&quot;}", "it costs money"];
        page.says(200, if method == Method::HEAD { &[] } else { &words });
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(
            (page.header("cache-control"), page.header("referrer-policy")),
            ("no-store", "same-origin")
        );
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        let policy = page.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none';") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        for outside in ["http", "src=", "href=", "<script", "action="] {
            assert!(!page.text.contains(outside), "{outside}: {page:?}");
        }
    }
    assert_eq!(world.get(&format!("/v1/approvals/{id}")).await.json, before);
    assert_eq!(world.signals(), []);
}

#[tokio::test]
async fn a_link_answers_once_and_whoever_is_later_reads_who_was_faster() {
    let world = World::new().await;
    let id = asked(&world, |asked| asked).await;
    let path = link(&world, &id).await;
    world.signals();
    let tracked = format!("{path}?utm_source=mail");
    let page = answer(&world, &tracked, "verdict=approve&reason=").await;
    page.says(200, &["Approved", "somebody with the link"]);
    assert!(world.signals().contains(&Signal::Granted));
    let shown = world.get(&format!("/v1/approvals/{id}")).await.json;
    let by = ["state", "by", "reason"].map(|key| shown[key].clone());
    assert_eq!(by, [json!("granted"), json!("somebody with the link"), json!(null)]);
    let late = answer(&world, &path, "verdict=refuse").await;
    late.says(409, &["Somebody has answered the call already", "granted by somebody with the link"]);
    let page = open(&world, &path).await;
    page.says(200, &["Approved", "somebody with the link"]);
    assert!(!page.text.contains("<form"), "{page:?}");
    let card = world.get("/v1/spaces/home/messages").await.json.to_string();
    assert!(card.contains("granted by somebody with the link"), "{card}");
    assert!(!card.contains(path.rsplit('/').next().unwrap()), "who reads the space may not answer by link");
    let over = world.get(&format!("/v1/approvals/{id}?link=true")).await;
    assert_eq!((over.status, over.code()), (409, "call_over"));
}

#[tokio::test]
async fn a_link_refuses_with_a_reason() {
    let world = World::new().await;
    let id = asked(&world, |asked| asked).await;
    let path = link(&world, &id).await;
    answer(&world, &path, "verdict=refuse&reason=too+dear+%3Cb%3E").await.says(200, &["too dear &lt;b&gt;"]);
    let shown = world.get(&format!("/v1/approvals/{id}")).await.json;
    assert_eq!((&shown["state"], &shown["reason"]), (&json!("refused"), &json!("too dear <b>")));
}

#[tokio::test]
async fn every_wrong_link_is_told_the_same_and_answers_nothing() {
    let world = World::new().await;
    let id = asked(&world, |asked| asked).await;
    let path = link(&world, &id).await;
    let token = path.rsplit('/').next().unwrap();
    let flipped: String = token
        .chars()
        .enumerate()
        .map(|(at, c)| if at == 9 { if c == '0' { '1' } else { '0' } } else { c })
        .collect();
    let shown = world.get(&format!("/v1/approvals/{id}")).await.json;
    let (hash, end) =
        (shown["hash"].as_str().unwrap(), shown["expires_at"].as_str().unwrap().parse().unwrap());
    let longer = world.ports.clock.now().checked_add(Duration::from_secs(900_000)).unwrap();
    let token_of = |link: String| link.rsplit('/').next().unwrap().to_owned();
    let other = token_of(links().link(&CallId("c0".into()), hash, end));
    let edited = token_of(links().link(&id, &hash_of("fire", "1", r#"{"note":"two"}"#), end));
    let longer = token_of(links().link(&id, hash, longer));
    let to = |call: &str, token: &str| format!("/v1/approvals/{call}/answer/{token}");
    let mut texts = std::collections::BTreeSet::new();
    for path in [
        to(&id.0, &flipped),
        to(&id.0, &other),
        to(&id.0, &edited),
        to(&id.0, &longer),
        to(&id.0, "x"),
        to(&id.0, &token.to_uppercase()),
        to("c0", &other),
        to("c0", token),
    ] {
        for page in [open(&world, &path).await, answer(&world, &path, "verdict=approve").await] {
            page.says(404, &["copy the whole link"]);
            assert!(page.headers.contains_key("content-security-policy"), "{page:?}");
            texts.insert(page.text);
        }
    }
    assert_eq!(texts.len(), 1, "nobody learns which calls there are");
    assert_eq!(state(&world, &id).await, "wanted");
}

#[tokio::test]
async fn a_link_ends_with_its_question_and_does_not_count_for_a_changed_tool() {
    let world = World::new().await;
    let id = asked(&world, |asked| asked).await;
    let path = link(&world, &id).await;
    world.clock.advance(Duration::from_millis(limits::APPROVAL_MS));
    let page = open(&world, &path).await;
    page.says(200, &["Nobody answered in time"]);
    assert!(!page.text.contains("<form"), "{page:?}");
    answer(&world, &path, "verdict=approve").await.says(409, &["nobody answered in time"]);
    assert_eq!(state(&world, &id).await, "wanted", "it ends by itself");

    let world = World::new().await;
    let now = world.ports.clock.now();
    let older = |row: CallRow| {
        let patience = Patience { pause_ms: limits::PAUSE_MS, expires_ms: limits::APPROVAL_MS };
        let hash = hash_of(&row.tool, "0", &row.arguments);
        let approval = Approval::wanted(AskKind::Approval, "why".into(), hash, patience, now);
        CallRow { tool_version: "0".into(), approval: Some(Box::new(approval)), ..row }
    };
    let id = open_row(&world, "fire", Runner::Node, older).await;
    let path = link(&world, &id).await;
    answer(&world, &path, "verdict=approve").await.says(409, &["not the one that was shown"]);
    assert_eq!(state(&world, &id).await, "wanted");
    answer(&world, &path, "verdict=refuse").await.says(200, &["Refused"]);
}

#[tokio::test]
async fn what_others_have_written_is_shown_as_text_and_what_is_invisible_as_escapes() {
    let world = World::new().await;
    let why = "</pre><script>alert(1)</script> \"'&\u{202e}\u{200b}";
    let choice = |asked| {
        let options = vec!["<img src=x>".to_owned(), "b\u{2066}".to_owned()];
        Approval { question: true, kind: AskKind::Choice, why: why.into(), options, ..asked }
    };
    let id = asked(&world, choice).await;
    let page = open(&world, &link(&world, &id).await).await;
    page.says(
        200,
        &[
            "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt; &quot;&#39;&amp;\\u202e\\u200b",
            "&lt;img src=x&gt;",
            "b\\u2066",
        ],
    );
    assert!(!page.text.contains(['\u{202e}', '\u{200b}', '\u{2066}']), "{page:?}");
    assert!(!page.text.contains("<script") && !page.text.contains("<img"), "{page:?}");
}

#[tokio::test]
async fn each_kind_of_question_is_answered_and_what_was_typed_is_not_lost() {
    let question = |kind| move |asked| Approval { question: true, kind, ..asked };

    let world = World::new().await;
    let choice = |asked| {
        let options = vec!["red".to_owned(), "blue".to_owned()];
        Approval { options, ..question(AskKind::Choice)(asked) }
    };
    let id = asked(&world, choice).await;
    let path = link(&world, &id).await;
    for wrong in [
        "option=2",
        "verdict=approve",
        "verdict=answer&text=blue",
        "option=x",
        "",
        "colour=1",
        "verdict=maybe",
    ] {
        assert_eq!(answer(&world, &path, wrong).await.status, 422, "{wrong}");
    }
    answer(&world, &path, "reason=&option=1").await.says(200, &["Answered"]);
    let outcome = world.get(&format!("/v1/approvals/{id}")).await.json["outcome"].clone();
    assert!(outcome.as_str().unwrap().contains("blue"), "{outcome}");

    let world = World::new().await;
    let id = asked(&world, question(AskKind::Text)).await;
    let path = link(&world, &id).await;
    let long = format!("verdict=answer&text={}", "x".repeat(limits::APPROVAL_TEXT_MAX_BYTES + 1));
    answer(&world, &path, &long).await.says(422, &["at most 8192 bytes", "<form", "xxxxxxxx"]);
    answer(&world, &path, "verdict=answer&text=one%0D%0Atwo").await.says(200, &["Answered"]);
    let outcome = world.get(&format!("/v1/approvals/{id}")).await.json["outcome"].clone();
    assert!(outcome.as_str().unwrap().contains(r"one\ntwo"), "{outcome}");

    let world = World::new().await;
    let id = asked(&world, question(AskKind::Approval)).await;
    answer(&world, &link(&world, &id).await, "verdict=approve").await.says(200, &["Answered"]);
    assert_eq!(state(&world, &id).await, "answered");

    let world = World::new().await;
    let schema = Some(json!({"type": "object", "title": "<b>"}));
    let id = asked(&world, |asked| Approval { schema, ..question(AskKind::Form)(asked) }).await;
    let path = link(&world, &id).await;
    open(&world, &path).await.says(200, &["JSON Schema", "&lt;b&gt;"]);
    answer(&world, &path, "verdict=answer&text=%7Bno").await.says(400, &["<form", "{no</textarea>"]);
    answer(&world, &path, "verdict=answer&text=%7B%7D")
        .await
        .says(422, &["checks no forms", "{}</textarea>"]);
    let deep = format!("verdict=answer&text={}", "[".repeat(5_000));
    answer(&world, &path, &deep).await.says(400, &["<form"]);
    assert_eq!(state(&world, &id).await, "wanted");
}

#[tokio::test]
async fn only_a_form_of_a_browser_that_is_not_too_large_answers() {
    let world = World::new().await;
    let id = asked(&world, |asked| asked).await;
    let path = link(&world, &id).await;
    for kind in ["application/json", "text/plain", "multipart/form-data; boundary=a"] {
        let request = request(Method::POST, &path).header("content-type", kind);
        let page = send(&world, request.body(Body::from("verdict=approve")).unwrap()).await;
        page.says(415, &["web browser"]);
    }
    let bare = request(Method::POST, &path).body(Body::from("verdict=approve")).unwrap();
    send(&world, bare).await.says(415, &[]);
    let large = format!("verdict=approve&reason={}", "x".repeat(2 << 20));
    answer(&world, &path, &large).await.says(413, &[]);
    answer(&world, &path, &format!("verdict=approve&reason={}", "x".repeat(20_000)))
        .await
        .says(422, &["<form"]);
    let foreign =
        request(Method::POST, &path).header("content-type", FORM).header("origin", "https://evil.example");
    send(&world, foreign.body(Body::from("verdict=approve")).unwrap()).await.says(403, &["origin_refused"]);
    let other = request(Method::DELETE, &path).body(Body::empty()).unwrap();
    send(&world, other).await.says(405, &["method_not_allowed"]);
    assert_eq!(state(&world, &id).await, "wanted");
}

#[tokio::test]
async fn only_an_admin_key_is_given_a_link_and_only_if_it_asks() {
    let world = World::new().await;
    let id = asked(&world, |asked| asked).await;
    let path = format!("/v1/approvals/{id}");
    let read = world.key(json!({"scope": "operator:read"})).await.1;
    for key in [world.your_key().await, read] {
        assert_eq!(world.ask(Method::GET, &path, &key, None).await.status, 200);
        let refused = world.ask(Method::GET, &format!("{path}?link=true"), &key, None).await;
        assert_eq!((refused.status, refused.code()), (403, "forbidden"));
    }
    for path in [&path, &format!("{path}?link=false"), "/v1/approvals"] {
        let shown = world.ask(Method::GET, path, ADMIN, None).await.json.to_string();
        assert!(!shown.contains("\"link\""), "{shown}");
    }
}

#[tokio::test]
async fn a_server_without_a_public_address_has_no_links() {
    let world = World::without_links().await;
    let id = asked(&world, |asked| asked).await;
    let none = world.get(&format!("/v1/approvals/{id}?link=true")).await;
    assert_eq!((none.status, none.code()), (400, "bad_query"));
    assert!(none.problem_text().contains("public_url"), "{none:?}");
    let shown = world.get(&format!("/v1/approvals/{id}")).await.json;
    let (hash, end) =
        (shown["hash"].as_str().unwrap(), shown["expires_at"].as_str().unwrap().parse().unwrap());
    let link = links().link(&id, hash, end);
    let path = link.strip_prefix("https://viv.example").unwrap();
    for method in [Method::GET, Method::POST] {
        let missing = world.ask(method, path, ADMIN, None).await;
        assert_eq!((missing.status, missing.code()), (404, "no_route"));
    }
    assert_eq!(state(&world, &id).await, "wanted");
}
