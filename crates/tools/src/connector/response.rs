//! An answer: its head, and its body piece by piece within the limits of the request. Must not know what the body means.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use net::causes;
use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{Response, Url};
use tokio::time::{Instant, timeout_at};

use super::failure::{ConnectError, ExchangePhase};
use super::request::{TrafficLimits, shown};
use super::unpack::Unpacker;

/// What compressed bytes may be more than what they become: heads, and blocks that could not be made smaller.
const PACKED_MORE_BYTES: usize = 64 * 1024;

/// An answer whose head has come. Its `Debug` form shows no header values and no query: they may repeat secrets.
pub struct Incoming {
    /// The status code.
    pub status: u16,
    /// The headers, as the server sent them.
    pub headers: HeaderMap,
    /// Where it came from, after redirects.
    pub url: Url,
    /// What the requests before the one that was answered have done.
    pub before: Before,
    /// The rest.
    pub body: IncomingBody,
}

/// What is known of the request that led to an answer by a redirect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Before {
    /// There was none, or it changed nothing.
    #[default]
    Nothing,
    /// It was sent, and may have been carried out.
    Sent,
    /// A server said that it was carried out (303): the answer only tells more about it.
    Done,
}

impl Incoming {
    /// The header's value, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("Incoming")
            .field("status", &self.status)
            .field("url", &shown(&self.url))
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// The body of an answer. Dropping it closes the connection.
pub struct IncomingBody {
    response: Response,
    host: String,
    /// Bytes that may still come.
    left: usize,
    is_cut: bool,
    idle: Duration,
    total: Duration,
    deadline: Instant,
    /// Of a compressed body, what unpacks it. Its bytes are counted unpacked.
    unpacker: Option<Unpacker>,
    /// Its bytes as they came: what becomes nothing could come for ever.
    packed: usize,
    /// Whether its first piece has come.
    has_begun: bool,
}

/// A body that was read up to its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectedBody {
    /// What came.
    pub bytes: Bytes,
    /// Whether the server had more.
    pub is_cut: bool,
}

impl IncomingBody {
    /// The next piece, `None` at the end or at the limit of bytes.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ConnectError> {
        loop {
            let Some(piece) = self.piece().await? else { return self.last() };
            self.has_begun = true;
            let unpacked = self.unpacker.as_mut().map(|unpacker| unpacker.piece(&piece));
            let Some(unpacked) = unpacked else { return Ok(Some(piece)) };
            let (unpacked, is_full) = unpacked.map_err(|error| self.not_unpacked(&error))?;
            self.is_cut = is_full;
            if !unpacked.is_empty() {
                return Ok(Some(unpacked.into()));
            }
            if self.is_cut {
                return Ok(None);
            }
            if self.packed > self.left.saturating_add(self.left / 64 + PACKED_MORE_BYTES) {
                return Err(ConnectError::Broken(format!(
                    "the answer of `{}` is compressed and has more bytes than it may have unpacked",
                    self.host
                )));
            }
        }
    }

    /// What is left of a compressed body behind its last piece.
    fn last(&mut self) -> Result<Option<Bytes>, ConnectError> {
        let Some(mut unpacker) = self.unpacker.take().filter(|_| self.has_begun && !self.is_cut) else {
            return Ok(None);
        };
        let (unpacked, is_full) = unpacker.rest().map_err(|error| self.not_unpacked(&error))?;
        self.is_cut = is_full;
        Ok(Some(unpacked).filter(|unpacked| !unpacked.is_empty()).map(Bytes::from))
    }

    fn not_unpacked(&self, error: &std::io::Error) -> ConnectError {
        ConnectError::Broken(format!(
            "the answer of `{}` is compressed and cannot be unpacked: {error}",
            self.host
        ))
    }

    /// The next piece as it comes.
    async fn piece(&mut self) -> Result<Option<Bytes>, ConnectError> {
        if self.is_cut {
            return Ok(None);
        }
        let silent = Instant::now() + self.idle;
        let (until, phase, after) = if silent < self.deadline {
            (silent, ExchangePhase::Idle, self.idle)
        } else {
            (self.deadline, ExchangePhase::Total, self.total)
        };
        let host = &self.host;
        let chunk = timeout_at(until, self.response.chunk()).await;
        let chunk = chunk.map_err(|_| ConnectError::TimedOut { host: host.clone(), phase, after })?;
        let chunk = chunk.map_err(|error| {
            ConnectError::Broken(format!("the answer of `{host}` ended too early: {}", causes(&error)))
        })?;
        let Some(mut chunk) = chunk else { return Ok(None) };
        if self.unpacker.is_some() {
            self.packed = self.packed.saturating_add(chunk.len());
            return Ok(Some(chunk));
        }
        if chunk.len() > self.left {
            self.is_cut = true;
            chunk.truncate(self.left);
        }
        self.left -= chunk.len();
        Ok(Some(chunk))
    }

    /// Reads the body to its end, or to the limit of bytes.
    pub async fn collect(mut self) -> Result<CollectedBody, ConnectError> {
        let mut bytes = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(CollectedBody { bytes: bytes.freeze(), is_cut: self.is_cut })
    }

    /// Whether the server had more than the limit of bytes.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Lowers the limit of bytes.
    pub fn at_most(mut self, bytes: usize) -> Self {
        self.left = self.left.min(bytes);
        if let Some(unpacker) = &mut self.unpacker {
            unpacker.at_most(bytes);
        }
        self
    }
}

impl fmt::Debug for IncomingBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingBody").field("left", &self.left).finish_non_exhaustive()
    }
}

/// Takes an answer over. It is refused if its head is too large. A compressed body, which nobody has asked for, is unpacked
/// within the limit of bytes, for a small one can become a huge one.
pub(super) fn accept(
    response: Response,
    limits: &TrafficLimits,
    deadline: Instant,
) -> Result<Incoming, ConnectError> {
    let host = response.url().host_str().unwrap_or_default().to_owned();
    let headers = response.headers().clone();
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if size > limits.head_bytes {
        let max = limits.head_bytes;
        return Err(ConnectError::Broken(format!(
            "the answer of `{host}` has {size} bytes of headers, wanted at most {max}"
        )));
    }
    let packed =
        headers.get_all("content-encoding").iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    let packed = packed.collect::<Vec<_>>().join(", ");
    let unpacker = Unpacker::of(&packed, limits.body_bytes);
    if unpacker.is_none() && !matches!(packed.trim().to_ascii_lowercase().as_str(), "" | "identity") {
        return Err(ConnectError::Broken(format!(
            "the answer of `{host}` is compressed ({}), which was not asked for",
            packed.chars().take(20).collect::<String>()
        )));
    }
    let status = response.status().as_u16();
    let url = response.url().clone();
    let (idle, total, left) = (limits.idle, limits.total, limits.body_bytes);
    let (is_cut, has_begun, packed) = (false, false, 0);
    let body =
        IncomingBody { response, host, left, is_cut, idle, total, deadline, unpacker, packed, has_begun };
    Ok(Incoming { status, headers, url, before: Before::default(), body })
}

/// The address that the answer refers to, if it is a redirect.
pub(super) fn redirect(answer: &Incoming) -> Option<Result<Url, ConnectError>> {
    if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = String::from_utf8_lossy(answer.headers.get("location")?.as_bytes());
    let from = shown(&answer.url);
    // A reference to the same page would repeat the query, and with it what could be a credential.
    if location.trim().is_empty() || location.trim().starts_with('#') {
        return Some(Err(ConnectError::Redirected(format!("`{from}` redirects to itself"))));
    }
    Some(answer.url.join(&location).map_err(|error| {
        ConnectError::Redirected(format!("`{from}` redirects to something that is not a URL: {error}"))
    }))
}
