//! HTTP to one life of the binary, with the one question that matters here: was there an answer?

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Result, Trouble};

/// Far above any answer of a living server; a dead one refuses at once.
const REQUEST: Duration = Duration::from_secs(30);

/// A client with the administrator's key.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
}

/// What a server said to a request that changes something.
#[derive(Clone, Debug, PartialEq)]
pub enum HttpAnswer {
    /// 201: it was not there before.
    Fresh(Value),
    /// 200: it was.
    Known(Value),
    /// Not now: 429 or 503.
    Later,
    /// Anything else.
    Refused(String),
}

impl Client {
    /// Nothing is connected yet.
    pub fn new(url: &str, key: &str) -> Result<Self> {
        // Somebody who installed one before us has made the choice.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build();
        let http = http.map_err(|error| Trouble::new(format!("no HTTP client could be made: {error}")))?;
        Ok(Self { http, url: url.to_owned(), key: key.to_owned() })
    }

    /// The server's host and port.
    pub fn address(&self) -> String {
        self.url.trim_start_matches("http://").trim_end_matches('/').to_owned()
    }

    /// The key that it is asked with.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Asks for something to be done. `None` where there was no whole answer: whether it was done is
    /// unknown then.
    pub async fn post(&self, path: &str, body: &Value, key: Option<&str>) -> Option<HttpAnswer> {
        let mut request = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.key).json(body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let response = request.timeout(REQUEST).send().await.ok()?;
        let status = response.status().as_u16();
        let body = response.bytes().await.ok()?;
        let json = || serde_json::from_slice(&body).ok();
        match status {
            201 => json().map(HttpAnswer::Fresh),
            200 => json().map(HttpAnswer::Known),
            429 | 503 => Some(HttpAnswer::Later),
            _ => Some(HttpAnswer::Refused(format!("{status}: {}", String::from_utf8_lossy(&body)))),
        }
    }

    /// Asks for something to be done that must be.
    pub async fn make(&self, path: &str, body: &Value) -> Result<Value> {
        match self.post(path, body, None).await {
            Some(HttpAnswer::Fresh(value) | HttpAnswer::Known(value)) => Ok(value),
            other => Err(Trouble::new(format!("wanted `{path}` to be done, got {other:?}"))),
        }
    }

    /// Changes something that must be changed.
    pub async fn amend(&self, path: &str, body: &Value) -> Result<()> {
        let request = self.http.patch(format!("{}{path}", self.url)).bearer_auth(&self.key).json(body);
        let answer = request.timeout(REQUEST).send().await.and_then(reqwest::Response::error_for_status);
        answer.map(|_| ()).map_err(|error| Trouble::new(format!("cannot amend `{path}`: {error}")))
    }

    /// A question.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key);
        let answer = request.timeout(REQUEST).send().await.and_then(reqwest::Response::error_for_status);
        let read = |error: reqwest::Error| Trouble::new(format!("cannot read `{path}`: {error}"));
        answer.map_err(read)?.json().await.map_err(read)
    }

    /// Opens a stream of updates behind `last_id`; it ends with the server.
    pub async fn open(
        &self,
        path: &str,
        last_id: u64,
    ) -> Result<impl Stream<Item = Bytes> + Unpin + Send + use<>> {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key);
        let request = request.header("last-event-id", last_id.to_string());
        let answer = request.send().await.and_then(reqwest::Response::error_for_status);
        let answer = answer.map_err(|error| Trouble::new(format!("cannot open `{path}`: {error}")))?;
        Ok(answer
            .bytes_stream()
            .take_while(|chunk| std::future::ready(chunk.is_ok()))
            .filter_map(|chunk| std::future::ready(chunk.ok())))
    }
}
