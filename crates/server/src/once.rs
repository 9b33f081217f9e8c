//! Runs a request that changes something once per `Idempotency-Key`. A handler gets its request as a [`Change`] and can answer
//! only with what came out of that: [`Done`] is made nowhere else. Must not know routes.

use std::sync::{Arc, OnceLock};

use agent::id::{hashed_uuid, hex};
use agent::limits;
use agent::port::{Clock, KnownRequest, Registry, RequestKey};
use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::app_state::AppState;
use crate::auth::Caller;
use crate::extract::{RequestBody, check_type, read_body};
use crate::problem::{Code, Problem, WriteResponse};
use crate::running::Turn;

/// What is noted of a request that changed something which needs no name.
const CHANGED: Uuid = Uuid::max();

/// A request with a key whose turn it is. The turn ends when the request has been answered, or has run to its end if its client
/// is gone.
#[derive(Debug)]
struct Keyed {
    request: RequestKey,
    _turn: Turn,
}

/// Where [`note_refusal`] finds the key of the request that it has let pass.
#[derive(Clone, Debug, Default)]
struct Slot(Arc<OnceLock<Arc<Keyed>>>);

/// A request that changes something: its body, and what makes it run once.
pub(crate) struct Change<B> {
    pub(crate) body: B,
    pub(crate) once: Once,
}

/// The one way to change something.
pub(crate) struct Once {
    registry: Arc<dyn Registry>,
    keyed: Option<Arc<Keyed>>,
    /// What the same request came to before, unless it changed nothing.
    before: Option<Before>,
}

enum Before {
    Noted(Uuid),
    Answered(String),
}

/// What a request came to that ran once.
pub(crate) struct Done<T>(T);

impl<T: IntoResponse> IntoResponse for Done<T> {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl<B: RequestBody> FromRequest<Arc<AppState>> for Change<B> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<AppState>) -> Result<Self, Problem> {
        let key = idempotency_key(request.headers())?;
        let typed = check_type(request.headers());
        let caller = request.extensions().get::<Caller>();
        let principal = caller.map(Caller::principal);
        let slot = request.extensions().get::<Slot>().cloned();
        let act = act(request.method(), request.uri().path());
        let raw = if B::READ { read_body(request, &*app.ports.clock).await? } else { Bytes::new() };
        let registry = Arc::clone(&app.ports.registry);
        let (Some(key), Some(principal)) = (key, principal) else {
            return Ok(Self {
                body: B::read(typed, &raw)?,
                once: Once { registry, keyed: None, before: None },
            });
        };
        let request = request_key(principal, key, &act, &raw, &*app.ports.clock);
        let turn = app.running.turn(&request).await;
        let before = match registry.known_request(request.clone()).await? {
            KnownRequest::Conflict => return Err(key_reused()),
            KnownRequest::Repeated(subject) if !subject.is_nil() => Some(Before::Noted(subject)),
            KnownRequest::Answered(answer) => Some(Before::Answered(answer)),
            KnownRequest::New | KnownRequest::Repeated(_) => None,
        };
        let keyed = Arc::new(Keyed { request, _turn: turn });
        if let Some(slot) = slot {
            // Each request has a slot of its own.
            let _ = slot.0.set(Arc::clone(&keyed));
        }
        // From here on the key belongs to this request, also if its body is refused.
        Ok(Self { body: B::read(typed, &raw)?, once: Once { registry, keyed: Some(keyed), before } })
    }
}

impl Once {
    /// The key of the request as the store keeps it.
    fn request(&self) -> Option<RequestKey> {
        self.keyed.as_ref().map(|keyed| keyed.request.clone())
    }

    /// What the same request created or changed before.
    pub(crate) fn noted(&self) -> Option<Uuid> {
        match self.before {
            Some(Before::Noted(subject)) => Some(subject),
            Some(Before::Answered(_)) | None => None,
        }
    }

    /// An id that the same request always gets and no other one; `None` without a key.
    pub(crate) fn fixed_id(&self, what: &str) -> Option<Uuid> {
        let request = &self.keyed.as_ref()?.request;
        // Both are part of it, so that nobody can produce an id of another one, and a key that is used anew has a new one.
        Some(hashed_uuid(&[what, &request.principal, &request.key, &request.body_hash]))
    }

    /// Creates something with the id `fresh`, or finds what the same request created before. The id is noted before anything is
    /// created: a request that was cut off by a crash continues with it.
    pub(crate) async fn create<T>(
        self,
        fresh: Uuid,
        make: impl AsyncFnOnce(Uuid) -> Result<WriteResponse<T>, Problem>,
        find: impl AsyncFnOnce(Uuid) -> Result<Option<T>, Problem>,
    ) -> Result<Done<WriteResponse<T>>, Problem> {
        let Some(request) = self.request() else { return make(fresh).await.map(Done) };
        let id = match self.registry.note_request(request, fresh).await? {
            KnownRequest::Repeated(id) if !id.is_nil() => id,
            KnownRequest::Conflict => return Err(key_reused()),
            KnownRequest::New | KnownRequest::Repeated(_) | KnownRequest::Answered(_) => {
                return make(fresh).await.map(Done);
            }
        };
        match find(id).await? {
            Some(found) => Ok(Done(WriteResponse::Existing(found))),
            None => make(id).await.map(Done),
        }
    }

    /// Changes something with `run`, or reads it `again` if the same request changed it before. Repeating `run` must be harmless:
    /// after a crash in between, the same request runs it again.
    pub(crate) async fn change<T>(
        self,
        run: impl AsyncFnOnce() -> Result<T, Problem>,
        again: impl AsyncFnOnce() -> Result<T, Problem>,
    ) -> Result<Done<T>, Problem> {
        let Some(request) = self.request() else { return run().await.map(Done) };
        if self.before.is_some() {
            return again().await.map(Done);
        }
        // Reserved, so that no other request takes effect with the key, not even after a crash.
        self.reserve(&request, Uuid::nil()).await?;
        let changed = run().await?;
        self.registry.note_request(request, CHANGED).await?;
        Ok(Done(changed))
    }

    /// As [`Once::change`], where the answer cannot be read again: a repeat gets that of the first one.
    pub(crate) async fn answer<T: Serialize + DeserializeOwned>(
        self,
        run: impl AsyncFnOnce() -> Result<T, Problem>,
    ) -> Result<Done<Json<T>>, Problem> {
        let Some(request) = self.request() else { return Ok(Done(Json(run().await?))) };
        if let Some(Before::Answered(answer)) = &self.before {
            return read_answer(answer);
        }
        self.reserve(&request, Uuid::nil()).await?;
        let done = run().await?;
        self.keep(request, &done).await?;
        Ok(Done(Json(done)))
    }

    /// Does what must not be done twice, not even after a crash: a request that was cut off is not run again.
    pub(crate) async fn at_most_once<T: Serialize + DeserializeOwned>(
        self,
        run: impl AsyncFnOnce() -> T,
    ) -> Result<Done<Json<T>>, Problem> {
        let Some(request) = self.request() else { return Ok(Done(Json(run().await))) };
        match &self.before {
            Some(Before::Answered(answer)) => return read_answer(answer),
            Some(Before::Noted(_)) => {
                let what = "the first request with this key was cut off: it is unknown what it has done";
                return Err(Problem::new(Code::OutcomeUnknown, what).hint("look, and use a new key"));
            }
            None => {}
        }
        self.reserve(&request, CHANGED).await?;
        let done = run().await;
        self.keep(request, &done).await?;
        Ok(Done(Json(done)))
    }

    /// Changes something in one transaction of the store, which notes the key in it.
    pub(crate) async fn in_store<T>(
        self,
        run: impl AsyncFnOnce(Option<RequestKey>) -> Result<T, Problem>,
    ) -> Result<Done<T>, Problem> {
        run(self.request()).await.map(Done)
    }

    /// Keeps the answer to the request.
    async fn keep<T: Serialize>(&self, request: RequestKey, done: &T) -> Result<(), Problem> {
        let answer = serde_json::to_string(done).map_err(|error| Problem::internal(&error))?;
        self.registry.note_request(request.clone(), CHANGED).await?;
        Ok(self.registry.answer_request(request, answer).await?)
    }

    async fn reserve(&self, request: &RequestKey, subject: Uuid) -> Result<(), Problem> {
        match self.registry.note_request(request.clone(), subject).await? {
            KnownRequest::Conflict => Err(key_reused()),
            KnownRequest::New | KnownRequest::Repeated(_) | KnownRequest::Answered(_) => Ok(()),
        }
    }
}

fn read_answer<T: DeserializeOwned>(answer: &str) -> Result<Done<Json<T>>, Problem> {
    serde_json::from_str(answer).map(|done| Done(Json(done))).map_err(|error| Problem::internal(&error))
}

/// Notes the key of a request that was refused: no other request may use it. Wraps every handler that takes a [`Change`].
pub(crate) async fn note_refusal(
    State(app): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let slot = Slot::default();
    request.extensions_mut().insert(slot.clone());
    let response = next.run(request).await;
    if !response.status().is_client_error() {
        return response;
    }
    let Some(keyed) = slot.0.get() else { return response };
    match app.ports.registry.note_request(keyed.request.clone(), Uuid::nil()).await {
        Ok(_) => response,
        Err(error) => Problem::from(error).into_response(),
    }
}

/// A request with a key, as the store keeps it. Two requests are the same if `act` and body are the same.
pub(crate) fn request_key(
    principal: String,
    key: String,
    act: &str,
    raw: &[u8],
    clock: &dyn Clock,
) -> RequestKey {
    let mut hash = Sha256::new();
    hash.update(act.as_bytes());
    hash.update([0]);
    hash.update(raw);
    RequestKey { principal, key, body_hash: hex(&hash.finalize()), at: clock.now() }
}

/// What a request does, apart from its body.
fn act(method: &Method, path: &str) -> String {
    format!("{method} {path}")
}

/// The `Idempotency-Key` header.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all("idempotency-key").iter();
    let Some(value) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(Problem::new(Code::BadHeader, "`idempotency-key` must be given once"));
    }
    let bytes = value.as_bytes();
    let fits = (1..=limits::KEY_MAX_BYTES).contains(&bytes.len())
        && bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    if !fits {
        let most = limits::KEY_MAX_BYTES;
        let detail = format!("`idempotency-key` must be 1 to {most} printable ASCII characters");
        return Err(Problem::new(Code::BadHeader, detail));
    }
    Ok(Some(bytes.iter().copied().map(char::from).collect()))
}

/// The error for an idempotency key that was used for another request.
pub(crate) fn key_reused() -> Problem {
    Problem::new(Code::KeyReused, "`idempotency-key` was used for another request")
        .hint("use a new key for a new request")
}
