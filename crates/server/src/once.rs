//! Runs a request with an `Idempotency-Key` once. Messages, events and keys do this themselves, in one
//! transaction of the store. Must not know routes.

use agent::port::{KnownRequest, RequestKey};
use uuid::Uuid;

use crate::app_state::AppState;
use crate::problem::{Code, Problem, WriteResponse};

/// Creates something with the id `fresh`, or finds what the same request created before. The id is noted before
/// anything is created: a request that was cut off by a crash continues with it.
pub(crate) async fn create<T, Made, Found>(
    app: &AppState,
    request: Option<RequestKey>,
    fresh: Uuid,
    make: impl FnOnce(Uuid) -> Made,
    find: impl Fn(Uuid) -> Found,
) -> Result<WriteResponse<T>, Problem>
where
    Made: Future<Output = Result<WriteResponse<T>, Problem>>,
    Found: Future<Output = Result<Option<T>, Problem>>,
{
    let Some(request) = request else { return make(fresh).await };
    let id = match app.ports.registry.note_request(request, fresh).await? {
        KnownRequest::New => return make(fresh).await,
        KnownRequest::Conflict => return Err(key_reused()),
        KnownRequest::Repeated(id) => id,
    };
    if let Some(found) = find(id).await? {
        return Ok(WriteResponse::Existing(found));
    }
    match make(id).await {
        // The first request may have created it in the meantime.
        Err(problem) if problem.code() == Code::NameTaken => {
            find(id).await?.map(WriteResponse::Existing).ok_or(problem)
        }
        made => made,
    }
}

/// Changes something with `run`, which returns the id of what it changed, or reads it `again` if the same request
/// changed it before. Repeating `run` must be harmless: after a crash in between it runs again.
pub(crate) async fn change<T>(
    app: &AppState,
    request: Option<RequestKey>,
    run: impl AsyncFnOnce() -> Result<(Uuid, T), Problem>,
    again: impl AsyncFnOnce(Uuid) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let Some(request) = request else { return Ok(run().await?.1) };
    match app.ports.registry.known_request(request.clone()).await? {
        KnownRequest::New => {
            let (subject, changed) = run().await?;
            app.ports.registry.note_request(request, subject).await?;
            Ok(changed)
        }
        KnownRequest::Repeated(subject) => again(subject).await,
        KnownRequest::Conflict => Err(key_reused()),
    }
}

/// The error for an idempotency key that was used for another request.
pub(crate) fn key_reused() -> Problem {
    Problem::new(Code::KeyReused, "`idempotency-key` was used for another request")
        .hint("use a new key for a new request")
}
