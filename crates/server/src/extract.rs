//! Extractors: every rejection is a problem with a stable code. Must not know routes.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::limits;
use agent::port::{BoxFuture, Clock};
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::app_state::AppState;
use crate::json;
use crate::problem::{Code, Problem};
use crate::quota::InFlight;

/// The parameters of the path. Each says by its type whether it may be written in more than one way.
pub(crate) struct PathParam<T>(pub(crate) T);

impl<S: Send + Sync, T: PathPart> FromRequestParts<S> for PathParam<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(PathRejection::FailedToDeserializePathParams(_)) => {
                Err(Problem::new(Code::NotUtf8, "the decoded path is not UTF-8"))
            }
            Err(error) => Err(Problem::internal(&error)),
        }
    }
}

/// What a path may contain.
pub(crate) trait PathPart: DeserializeOwned + Send {}

/// An id or a handle. Neither has upper case.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "String")]
pub(crate) struct Named(String);

/// A text that counts as it is written.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Exact(pub(crate) String);

impl PathPart for Named {}
impl PathPart for Exact {}
impl<A: PathPart, B: PathPart> PathPart for (A, B) {}

impl From<String> for Named {
    fn from(text: String) -> Self {
        Self(text.to_lowercase())
    }
}

impl Deref for Named {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Deref for Exact {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// The query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        read_query(&parts.uri).map(Self)
    }
}

/// Reads a query string. Lists are asked for with [`crate::listing::List`].
pub(crate) fn read_query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    if let Some(known) = json::fields::<T>() {
        check_query_names(uri, known)?;
    }
    match axum::extract::Query::<T>::try_from_uri(uri) {
        Ok(axum::extract::Query(query)) => Ok(query),
        Err(error) => Err(Problem::new(Code::BadQuery, error.body_text())),
    }
}

/// Rejects a query string with a parameter that is not in `known`: ignoring it would not do what the client
/// meant.
pub(crate) fn check_query_names(uri: &Uri, known: &[&'static str]) -> Result<(), Problem> {
    let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
    let pairs = pairs.map_err(|error| Problem::new(Code::BadQuery, error.body_text()))?.0;
    match pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some((name, _)) if name == "purge" => {
            let problem = json::unknown_name(name, known);
            Err(problem.hint("purging is not supported yet: nothing was changed and nothing was erased"))
        }
        Some((name, _)) => Err(json::unknown_name(name, known)),
    }
}

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<AppState>> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<AppState>) -> Result<Self, Problem> {
        check_type(request.headers())?;
        let raw = read_body(request, &*app.ports.clock).await?;
        Ok(Self(json::read(&raw)?))
    }
}

/// What a request that changes something may have as its body.
pub(crate) trait RequestBody: Sized {
    /// Whether there is one.
    const READ: bool = true;

    /// Reads it; `typed` is whether the content type is that of JSON.
    fn read(typed: Result<(), Problem>, raw: &[u8]) -> Result<Self, Problem>;
}

/// A JSON body that must be there.
pub(crate) struct Sent<T>(pub(crate) T);

/// A JSON body that may be missing; the value is then the default.
pub(crate) struct Optional<T>(pub(crate) T);

impl<T: DeserializeOwned> RequestBody for Sent<T> {
    fn read(typed: Result<(), Problem>, raw: &[u8]) -> Result<Self, Problem> {
        typed?;
        Ok(Self(json::read(raw)?))
    }
}

impl<T: DeserializeOwned + Default> RequestBody for Optional<T> {
    fn read(typed: Result<(), Problem>, raw: &[u8]) -> Result<Self, Problem> {
        if raw.is_empty() {
            return Ok(Self(T::default()));
        }
        typed?;
        Ok(Self(json::read(raw)?))
    }
}

impl RequestBody for () {
    const READ: bool = false;

    fn read(_: Result<(), Problem>, _: &[u8]) -> Result<Self, Problem> {
        Ok(())
    }
}

/// Requires `application/json`: a web page of another origin cannot send that type without a CORS preflight.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let shown: String = kind.chars().take(80).collect();
    Err(Problem::new(Code::NotJson, format!("wanted the content type `application/json`, got `{shown}`")))
}

/// Whether the body of a request was read to its end; the gate looks at it when the request is refused.
#[derive(Clone, Default)]
pub(crate) struct BodyRead(Arc<AtomicBool>);

impl BodyRead {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads the body of a request with a key.
pub(crate) async fn read_body(request: Request, clock: &dyn Clock) -> Result<Bytes, Problem> {
    let in_flight = request.extensions().get::<Arc<InFlight>>().cloned();
    let count = |bytes| in_flight.as_ref().map_or(Ok(()), |in_flight| in_flight.add(bytes));
    read_counted(request, clock, limits::BODY_MS, count).await
}

/// Reads the body byte for byte. `count` gets the size of each piece, and may refuse it.
pub(crate) async fn read_counted(
    request: Request,
    clock: &dyn Clock,
    within_ms: u64,
    count: impl Fn(usize) -> Result<(), Problem>,
) -> Result<Bytes, Problem> {
    let timeout = clock.sleep(Duration::from_millis(within_ms));
    tokio::select! {
        biased;
        read = read_body_to_end(request, count) => read,
        () = timeout => {
            let seconds = within_ms / 1_000;
            Err(Problem::new(Code::BodySlow, format!("the body did not arrive within {seconds} s")))
        }
    }
}

async fn read_body_to_end(
    request: Request,
    count: impl Fn(usize) -> Result<(), Problem>,
) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the body is larger than {} bytes", limits::BODY_MAX_BYTES);
        Problem::new(Code::BodyTooLarge, detail)
    };
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if announced.and_then(|text| text.parse::<usize>().ok()).is_some_and(|size| size > limits::BODY_MAX_BYTES)
    {
        return Err(too_large());
    }
    let done = request.extensions().get::<BodyRead>().cloned();
    let mut pieces = request.into_body().into_data_stream();
    let mut body = BytesMut::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Problem::new(Code::BadJson, "the body ended early"))?;
        if body.len() + piece.len() > limits::BODY_MAX_BYTES {
            return Err(too_large());
        }
        // Counted as it arrives: what a client only announces costs nothing.
        count(piece.len())?;
        body.extend_from_slice(&piece);
    }
    if let Some(done) = done {
        done.0.store(true, Ordering::Relaxed);
    }
    Ok(body.freeze())
}

/// The number of rows, with the default applied and the bounds checked.
pub(crate) fn rows(limit: Option<u32>) -> Result<u32, Problem> {
    limit_of(limit, limits::PAGE_DEFAULT, limits::PAGE_MAX)
}

/// The query's `limit`, or the default; it must be 1 to `max`.
pub(crate) fn limit_of(limit: Option<u32>, default: u32, max: u32) -> Result<u32, Problem> {
    match limit.unwrap_or(default) {
        limit if (1..=max).contains(&limit) => Ok(limit),
        other => Err(Problem::new(Code::BadQuery, format!("`limit` must be 1 to {max}, got {other}"))),
    }
}

/// Checks the length of a free text; the error names the field.
pub(crate) fn bounded_text(field: &str, value: String, max: usize) -> Result<String, Problem> {
    if value.len() <= max && !value.contains('\0') {
        return Ok(value);
    }
    let got = value.len();
    Err(Problem::new(Code::BadValue, format!("`{field}` must be at most {max} bytes without NUL, got {got}")))
}

/// Runs a write to its end, even if the client hangs up: a commit is never dropped half-way, and its updates are
/// published.
pub(crate) async fn run_to_completion<T, F>(work: F) -> Result<T, Problem>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let (done, answer) = oneshot::channel();
    // Boxed, so that the machinery of a task is compiled once and not for each kind of work.
    let work: BoxFuture<'static, ()> = Box::pin(async move {
        // An error means that the client is gone.
        let _ = done.send(work.await);
    });
    tokio::spawn(work).await.map_err(|error| Problem::internal(&error))?;
    answer.await.map_err(|error| Problem::internal(&error))?
}
