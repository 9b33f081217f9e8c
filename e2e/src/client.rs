//! An HTTP client for one process of the binary. It distinguishes whether there was a complete response.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{HarnessError, Result};

/// Far longer than any response of a running server; a dead one refuses the connection at once.
const REQUEST: Duration = Duration::from_secs(30);
/// A connection that was idle for longer is not used again: the server closes it after twice that time.
const IDLE: Duration = Duration::from_secs(5);

/// A client with the administrator's key.
#[derive(Clone, Debug)]
pub struct HttpClient {
    http: reqwest::Client,
    url: String,
    key: String,
}

/// The response to a request that changes something.
#[derive(Clone, Debug, PartialEq)]
pub enum HttpAnswer {
    /// 201: created.
    Created(Value),
    /// 200: it existed before.
    Existing(Value),
    /// 429 or 503: try again later.
    RetryLater,
    /// Any other status.
    Rejected(String),
}

impl HttpClient {
    /// A client that is not connected yet.
    pub fn new(url: &str, key: &str) -> Result<Self> {
        let wrong = |why: String| HarnessError::new(format!("cannot create an HTTP client: {why}"));
        let http = net::client().map_err(wrong)?.pool_idle_timeout(IDLE).build();
        let http = http.map_err(|error| wrong(error.to_string()))?;
        Ok(Self { http, url: url.to_owned(), key: key.to_owned() })
    }

    /// The server's host and port.
    pub fn address(&self) -> String {
        self.url.trim_start_matches("http://").trim_end_matches('/').to_owned()
    }

    /// The key that requests are sent with.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Sends a POST request. `None` if there was no complete response: it is then unknown whether the server did it.
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
            201 => json().map(HttpAnswer::Created),
            200 => json().map(HttpAnswer::Existing),
            429 | 503 => Some(HttpAnswer::RetryLater),
            _ => Some(HttpAnswer::Rejected(format!("{status}: {}", String::from_utf8_lossy(&body)))),
        }
    }

    /// Sends a POST request that must succeed.
    pub async fn create(&self, path: &str, body: &Value) -> Result<Value> {
        match self.post(path, body, None).await {
            Some(HttpAnswer::Created(value) | HttpAnswer::Existing(value)) => Ok(value),
            other => Err(HarnessError::new(format!("wanted success for `{path}`, got {other:?}"))),
        }
    }

    /// Sends a PATCH request that must succeed.
    pub async fn change(&self, path: &str, body: &Value) -> Result<()> {
        let request = self.http.patch(format!("{}{path}", self.url)).bearer_auth(&self.key).json(body);
        let answer = request.timeout(REQUEST).send().await.and_then(reqwest::Response::error_for_status);
        answer.map(|_| ()).map_err(|error| HarnessError::new(format!("cannot change `{path}`: {error}")))
    }

    /// Sends a PUT request that must succeed.
    pub async fn put(&self, path: &str, body: &Value) -> Result<()> {
        let request = self.http.put(format!("{}{path}", self.url)).bearer_auth(&self.key).json(body);
        let wrong = |why: String| HarnessError::new(format!("cannot put `{path}`: {why}"));
        let response = request.timeout(REQUEST).send().await.map_err(|error| wrong(error.to_string()))?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(wrong(response.text().await.unwrap_or_default()))
    }

    /// Sends a GET request that must succeed.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key);
        let answer = request.timeout(REQUEST).send().await.and_then(reqwest::Response::error_for_status);
        let read = |error: reqwest::Error| {
            let mut causes =
                std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
            let last = causes.by_ref().last().map(ToString::to_string).unwrap_or_default();
            HarnessError::new(format!("cannot read `{path}`: {error}: {last}"))
        };
        answer.map_err(read)?.json().await.map_err(read)
    }

    /// Opens a stream of the updates after `last_id`; it ends with the server.
    pub async fn open(
        &self,
        path: &str,
        last_id: u64,
    ) -> Result<impl Stream<Item = Bytes> + Unpin + Send + use<>> {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key);
        let request = request.header("last-event-id", last_id.to_string());
        let answer = request.send().await.and_then(reqwest::Response::error_for_status);
        let answer = answer.map_err(|error| HarnessError::new(format!("cannot open `{path}`: {error}")))?;
        Ok(answer
            .bytes_stream()
            .take_while(|chunk| std::future::ready(chunk.is_ok()))
            .filter_map(|chunk| std::future::ready(chunk.ok())))
    }
}
