//! A request as a tool describes it, with its limits. Must not know how it is sent.

use std::fmt;
use std::time::Duration;

use agent::limits;
use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};

use super::{AllowList, ConnectError};

/// Headers that belong to the connection; a request that names one could be read in two ways.
const RESERVED: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// How an operator allows a target of a tool.
const ALLOWING: &str =
    "if agents may reach it, an operator can list it under `allow` of an HTTP tool or an MCP server";

/// What an agent does instead of asking the API of its server.
const INSTEAD: &str = "if a person has to answer, wait for the answer; it comes by itself";

/// How long each phase of an exchange may take, and how much may come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficLimits {
    /// To find the addresses of a name; the same again to connect to one and to agree on encryption.
    pub connect: Duration,
    /// From then until the head of the answer has come; sending the body included.
    pub head: Duration,
    /// Silence between two pieces of the answer's body.
    pub idle: Duration,
    /// The whole exchange, redirects and the answer's body included.
    pub total: Duration,
    /// Names and values of the answer's headers together. A head that is far larger is not read to its end.
    pub head_bytes: usize,
    /// The answer's body; reading stops there.
    pub body_bytes: usize,
    /// Redirects that are followed.
    pub redirects: u32,
}

impl Default for TrafficLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(limits::CONNECT_MS),
            head: Duration::from_millis(limits::ANSWER_HEAD_MS),
            idle: Duration::from_millis(limits::ANSWER_IDLE_MS),
            total: Duration::from_millis(limits::EXCHANGE_MS),
            head_bytes: limits::ANSWER_HEAD_MAX_BYTES,
            body_bytes: limits::OUTCOME_STORED_MAX_BYTES,
            redirects: limits::REDIRECTS_MAX,
        }
    }
}

/// A request. Its `Debug` form shows no header values, no body and no query: they may hold secrets.
#[derive(Clone)]
pub struct Outgoing {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    pub(super) allow: AllowList,
    pub(super) limits: TrafficLimits,
    /// Whether an error may name the whole address of a redirect.
    pub(super) is_open: bool,
    /// How an operator allows a target inside.
    pub(super) allowing: &'static str,
    /// What to do instead of sending to the API of the server itself.
    pub(super) instead: &'static str,
}

impl Outgoing {
    /// A request without headers and body, to the public internet only. The URL is `http` or `https` and has no user name.
    pub fn new(method: Method, url: &str) -> Result<Self, ConnectError> {
        let url = Url::parse(url).map_err(|error| {
            ConnectError::Refused(format!(
                "wanted an `http` or `https` URL, got one that is not valid: {error}"
            ))
        })?;
        Self::to(method, url)
    }

    /// The same for a URL that was parsed before.
    pub fn to(method: Method, mut url: Url) -> Result<Self, ConnectError> {
        check_url(&url)?;
        url.set_fragment(None);
        let (headers, allow, limits) = (HeaderMap::new(), AllowList::default(), TrafficLimits::default());
        Ok(Self {
            method,
            url,
            headers,
            body: None,
            allow,
            limits,
            is_open: false,
            allowing: ALLOWING,
            instead: INSTEAD,
        })
    }

    /// Adds a header. A header that belongs to the connection (`host`, `content-length`, …) is refused.
    pub fn header(mut self, name: &str, value: &str, is_secret: bool) -> Result<Self, ConnectError> {
        let refused = |why: &str| ConnectError::Refused(format!("the header `{name}` {why}"));
        if is_reserved(name) {
            return Err(refused("is set by the connection itself\nhint: leave it out"));
        }
        let name = HeaderName::try_from(name).map_err(|_| refused("has a name that no header may have"))?;
        let value = HeaderValue::try_from(value);
        let mut value = value.map_err(|_| refused("has a value with characters that no header may have"))?;
        value.set_sensitive(is_secret);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Allows targets inside.
    pub fn allow(mut self, allow: AllowList) -> Self {
        self.allow = allow;
        self
    }

    /// Says how an operator allows a target inside, in place of what holds for tools.
    pub fn allowed_by(mut self, how: &'static str) -> Self {
        self.allowing = how;
        self
    }

    /// Says what to do instead of sending to the API of the server itself, in place of what holds for tools.
    pub fn instead(mut self, what: &'static str) -> Self {
        self.instead = what;
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: TrafficLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Says that no part of it is secret, so that an error may name the whole address to which a server redirects it.
    pub fn without_secrets(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// The request that follows a redirect: to another address of the same host, without what could be a credential.
    pub(super) fn redirected(&self, url: Url, status: u16) -> Result<Self, ConnectError> {
        let becomes_get = super::becomes_get(&self.method, status);
        let method = if becomes_get { Method::GET } else { self.method.clone() };
        let mut next = Self::to(method, url)?;
        let plain = self.headers.iter().filter(|(_, value)| !value.is_sensitive());
        next.headers = plain.map(|(name, value)| (name.clone(), value.clone())).collect();
        for name in ["authorization", "cookie", "proxy-authorization"] {
            next.headers.remove(name);
        }
        // What describes a body or names a change belongs to the request that had it.
        for name in ["content-type", "content-encoding", "content-language", "idempotency-key"] {
            if becomes_get {
                next.headers.remove(name);
            }
        }
        (next.is_open, next.allowing, next.instead) = (self.is_open, self.allowing, self.instead);
        Ok(next.allow(self.allow.clone()).limits(self.limits))
    }
}

/// Whether the header belongs to the connection, so that no request may name it.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name.to_ascii_lowercase().as_str())
}

fn check_url(url: &Url) -> Result<(), ConnectError> {
    let refused = |why: &str| Err(ConnectError::Refused(format!("`{}` {why}", shown(url))));
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = url.scheme();
        return Err(ConnectError::Refused(format!("wanted an `http` or `https` URL, got `{scheme}:`")));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return refused("names no host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refused("contains a user name or password\nhint: put credentials into a header");
    }
    Ok(())
}

/// A URL for people: without user name, query and fragment, which may hold credentials.
pub fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path: String = url.path().chars().take(limits::URL_SHOWN_CHARS).collect();
    format!("{}://{host}{port}{path}", url.scheme())
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("Outgoing")
            .field("method", &self.method)
            .field("url", &shown(&self.url))
            .field("headers", &headers)
            .field("body_bytes", &self.body.as_ref().map(Bytes::len))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_could_be_read_in_two_ways_is_refused() {
        for url in
            ["ftp://a.example/", "file:///etc/passwd", "gopher://a/", "javascript:1", "a.example", "http://"]
        {
            let error = Outgoing::new(Method::GET, url).unwrap_err().to_string();
            assert!(error.contains("wanted an `http` or `https` URL"), "{url}: {error}");
        }
        for url in ["http://me@a.example/", "http://me:canary@a.example/", "http://:canary@a.example/"] {
            let error = Outgoing::new(Method::GET, url).unwrap_err().to_string();
            assert!(
                error.contains("put credentials into a header") && !error.contains("canary"),
                "{url}: {error}"
            );
        }
        let request = || Outgoing::new(Method::GET, "http://a.example/").unwrap();
        for (name, value) in
            [("Host", "b"), ("Transfer-Encoding", "chunked"), ("x y", "1"), ("x", "a\r\nb: c")]
        {
            assert!(request().header(name, value, false).is_err(), "{name}");
        }
    }

    #[test]
    fn a_request_is_printed_without_query_values_and_body() {
        let request = Outgoing::new(Method::POST, "http://a.example:8/p?key=canary#canary").unwrap();
        let request = request.header("x-key", "canary", true).unwrap().body("canary");
        let text = format!("{request:?}");
        assert!(text.contains("http://a.example:8/p") && text.contains("x-key"), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
}
