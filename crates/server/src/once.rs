//! Runs a request with an `Idempotency-Key` once. Messages, events and keys do this themselves, in one
//! transaction of the store. Must not know routes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agent::port::{KnownRequest, RequestKey};
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use crate::app_state::AppState;
use crate::problem::{Code, Problem, WriteResponse};

/// The principal and the key of a request.
type Name = (String, String);

/// The requests with an idempotency key that run now: those with the same key one after the other.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>);

/// A request whose turn it is; dropping it lets the next one with its key run.
struct Turn<'a> {
    running: &'a Running,
    name: Name,
    held: Option<OwnedMutexGuard<()>>,
}

impl Running {
    /// Waits until no other request with the same key of the same principal runs.
    async fn turn(&self, request: &RequestKey) -> Turn<'_> {
        let name = (request.principal.clone(), request.key.clone());
        let turns = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(name.clone()).or_default())
        };
        let mut turn = Turn { running: self, name, held: None };
        turn.held = Some(turns.lock_owned().await);
        turn
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut all = self.running.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.held = None;
        // Whoever waits has a clone, and takes one only under the lock of the map.
        if all.get(&self.name).is_some_and(|turns| Arc::strong_count(turns) == 1) {
            all.remove(&self.name);
        }
    }
}

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
    let _turn = app.running.turn(&request).await;
    let id = match app.ports.registry.note_request(request, fresh).await? {
        KnownRequest::New => return make(fresh).await,
        KnownRequest::Conflict => return Err(key_reused()),
        KnownRequest::Repeated(id) => id,
    };
    match find(id).await? {
        Some(found) => Ok(WriteResponse::Existing(found)),
        None => make(id).await,
    }
}

/// Changes something with `run`, which returns the id of what it changed, or reads it `again` if the same request
/// changed it before. The key is reserved before `run`, so that no other request takes effect with it, not even at the
/// same time. Repeating `run` must be harmless: after a crash in between, the same request runs it again.
pub(crate) async fn change<T>(
    app: &AppState,
    request: Option<RequestKey>,
    run: impl AsyncFnOnce() -> Result<(Uuid, T), Problem>,
    again: impl AsyncFnOnce(Uuid) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let Some(request) = request else { return Ok(run().await?.1) };
    let _turn = app.running.turn(&request).await;
    match app.ports.registry.note_request(request.clone(), Uuid::nil()).await? {
        KnownRequest::Conflict => Err(key_reused()),
        KnownRequest::Repeated(subject) if !subject.is_nil() => again(subject).await,
        // Reserved, by this request or by the same one before a crash or an error.
        KnownRequest::New | KnownRequest::Repeated(_) => {
            let (subject, changed) = run().await?;
            app.ports.registry.note_request(request, subject).await?;
            Ok(changed)
        }
    }
}

/// The error for an idempotency key that was used for another request.
pub(crate) fn key_reused() -> Problem {
    Problem::new(Code::KeyReused, "`idempotency-key` was used for another request")
        .hint("use a new key for a new request")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn requests_with_one_key_have_turns_and_leave_nothing_behind() {
        let running = Running::default();
        let request = |principal: &str, key: &str| RequestKey {
            principal: principal.to_owned(),
            key: key.to_owned(),
            body_hash: String::new(),
        };
        let (one, other) = (request("admin", "k"), request("you", "k"));
        let first = running.turn(&one).now_or_never().unwrap();
        let mut second = Box::pin(running.turn(&one));
        assert!(second.as_mut().now_or_never().is_none());
        let elsewhere = running.turn(&other).now_or_never();
        assert!(elsewhere.is_some(), "the keys of another principal are apart");
        drop(first);
        let second = second.now_or_never().unwrap();
        assert!(running.turn(&one).now_or_never().is_none(), "one at a time");
        drop((second, elsewhere));
        assert!(running.0.lock().unwrap().is_empty());
    }
}
