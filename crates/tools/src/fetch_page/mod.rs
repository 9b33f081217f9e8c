//! `fetch_page`: asks a server for one page and returns its text. It reaches the public internet only and sends nothing but
//! the address; which addresses are public is known to the connector.

mod charset;
mod hidden;
mod html;
mod lines;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::call::{Effect, Outcome, head_and_tail};
use agent::changes::Inward;
use agent::limits;
use agent::port::{BoxFuture, Done, Tool, ToolContext, ToolError, ToolSpec};
use agent::tool::ToolLabel;
use bytes::Bytes;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use crate::arguments::Checker;
use crate::connector::{AllowList, CollectedBody, ConnectError, Connector, Outgoing, TrafficLimits};
use crate::http::{AnswerHead, is_text, refusal};
use crate::turn::Turns;

const NAME: &str = agent::tool::names::FETCH_PAGE;
const DESCRIPTION: &str = "Read a page of the public web by its address: its text with headings, lists, tables and links. JSON and other text come as they are.";
/// What is asked for; a server may answer with something else.
const ACCEPT: &str = "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.5";

/// `fetch_page`.
pub struct FetchPage {
    spec: ToolSpec,
    checker: Checker,
    turns: Turns,
    connector: Arc<Connector>,
    allow: AllowList,
    limits: TrafficLimits,
}

/// What the text of a page is made of.
struct RawPage {
    bytes: Bytes,
    is_cut: bool,
    content_type: String,
    url: Url,
}

/// The text of a page for a model.
struct ReadPage {
    text: String,
    is_cut: bool,
}

impl FetchPage {
    /// The tool for agents: it reaches no target inside.
    pub fn new(connector: Arc<Connector>) -> Self {
        let limits = TrafficLimits {
            head: Duration::from_millis(limits::PAGE_MS),
            idle: Duration::from_millis(limits::PAGE_IDLE_MS),
            total: Duration::from_millis(limits::PAGE_MS),
            ..TrafficLimits::default()
        };
        Self::within(connector, AllowList::default(), limits)
    }

    /// The same with targets inside and limits of its own, for servers on this machine.
    pub fn within(connector: Arc<Connector>, allow: AllowList, limits: TrafficLimits) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {"url": {
                "type": "string",
                "maxLength": limits::PAGE_URL_MAX_BYTES,
                "description": "The whole address, `http` or `https`.",
            }},
            "required": ["url"],
            "additionalProperties": false,
        });
        let checker = Checker::new(NAME, &schema).expect("the schema above is valid");
        let spec = ToolSpec {
            name: NAME.to_owned(),
            description: DESCRIPTION.to_owned(),
            schema: Arc::new(schema),
            effect: Effect::ReadOnly,
            visible: false,
            timeout: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
            asynchronous: false,
            version: "1".to_owned(),
            labels: [ToolLabel::Exfiltrates, ToolLabel::Outside].into_iter().collect(),
            worker: None,
            foreign: false,
            counted: OnceLock::new(),
        };
        Self { spec, checker, turns: Turns::new(limits::PAGES_AT_ONCE, None), connector, allow, limits }
    }

    async fn run(&self, url: &str, context: &ToolContext<'_>) -> Result<Outcome, ToolError> {
        let _place = self.turns.take(NAME, context.now).await.map_err(ToolError::new)?;
        let request =
            Outgoing::new(Method::GET, url).and_then(|request| request.header("accept", ACCEPT, false));
        let request =
            request.map_err(failed)?.allow(self.allow.clone()).limits(self.limits).without_secrets();
        context.gate.may_begin().await?;
        let answer = self.connector.send(request).await.map_err(failed)?;
        let (head, url) = (AnswerHead::of(&answer), answer.url.clone());
        let content_type = answer.header("content-type").unwrap_or_default().to_owned();
        let kind = head.kind().to_ascii_lowercase();
        if is_binary(&kind) && head.is_success() {
            let size = answer.header("content-length").and_then(|size| size.trim().parse::<u64>().ok());
            let size = size.map_or_else(|| "an unknown number of".to_owned(), |size| size.to_string());
            return Ok(Outcome::ok(format!("[no text, but {size} bytes of {kind}; only text can be read]")));
        }
        let most = if is_plain(&kind) { limits::PAGE_TEXT_MAX_BYTES } else { limits::PAGE_HTML_MAX_BYTES };
        let CollectedBody { bytes, is_cut } = answer.body.at_most(most).collect().await.map_err(failed)?;
        let count = bytes.len();
        let raw = RawPage { bytes, is_cut, content_type, url };
        // A large page takes longer than a task may keep its thread.
        let page = tokio::task::spawn_blocking(move || read(&raw, &kind)).await;
        let page = page.map_err(|error| ToolError {
            model: "the page was received, but could not be read".to_owned(),
            operator: Some(error.to_string()),
        })?;
        if !head.is_success() {
            let said = head_and_tail(&page.text, limits::FAILURE_SHOWN_BYTES);
            return Err(ToolError::new(refusal(&head, &said, context.now)));
        }
        let mut text = page.text;
        if text.is_empty() {
            text = format!("the server answered with {count} bytes in which there is no readable text");
        }
        if page.is_cut {
            text.push_str("\n[… cut: the page is longer than what is read of one …]");
        }
        Ok(Outcome::ok(text))
    }
}

fn failed(error: ConnectError) -> ToolError {
    ToolError::new(error.to_string())
}

fn is_html(kind: &str) -> bool {
    matches!(kind, "text/html" | "application/xhtml+xml")
}

/// Whether it is text that is returned as it is.
fn is_plain(kind: &str) -> bool {
    is_text(kind) && !is_html(kind)
}

/// Whether the server says that it is no text. Some send any file as a stream of octets.
fn is_binary(kind: &str) -> bool {
    !is_text(kind) && !is_html(kind) && !matches!(kind, "" | "application/octet-stream")
}

fn read(raw: &RawPage, kind: &str) -> ReadPage {
    let text = charset::decode(&raw.bytes, &raw.content_type, raw.is_cut);
    let is_said = is_html(kind) || is_plain(kind);
    let is_odd = || raw.bytes.contains(&0) || !raw.is_cut && std::str::from_utf8(&raw.bytes).is_err();
    if !is_said && is_odd() {
        let kind = if kind.is_empty() { "unknown type" } else { kind };
        let text = format!("[no text, but {} bytes of {kind}]", raw.bytes.len());
        return ReadPage { text, is_cut: false };
    }
    let begins =
        |tag: &str| text.trim_start().get(..tag.len()).is_some_and(|head| head.eq_ignore_ascii_case(tag));
    if is_html(kind) || kind.is_empty() && (begins("<!doctype html") || begins("<html")) {
        let page = html::read(&text, &raw.url);
        let title = if page.title.is_empty() { String::new() } else { format!("title: {}\n\n", page.title) };
        return ReadPage {
            text: (title + &page.text).trim_end().to_owned(),
            is_cut: raw.is_cut || page.is_cut,
        };
    }
    // Another character set may take more bytes.
    let end = text.floor_char_boundary(limits::PAGE_TEXT_MAX_BYTES);
    ReadPage { text: text[..end].to_owned(), is_cut: raw.is_cut || end < text.len() }
}

impl Tool for FetchPage {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &str) -> Result<Value, String> {
        self.checker.check(arguments)
    }

    fn call<'a>(
        &'a self,
        arguments: Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<Done, ToolError>> {
        Box::pin(async move {
            let outcome = self.run(arguments["url"].as_str().unwrap_or_default(), &context).await?;
            Ok(Done { outcome, inward: Inward::default() })
        })
    }
}

impl fmt::Debug for FetchPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FetchPage")
    }
}
