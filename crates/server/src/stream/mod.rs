//! Event streams. One relay per topic listens to the bus and hands new updates to the tasks of all clients. Each client's
//! task has a bounded buffer: its snapshot, updates, and what it missed. A publisher never waits for a client. The store is
//! the source of truth: missed updates are read from it. Must not know where updates come from.

use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::app_state::AppState;
use crate::auth::Caller;
use crate::problem::{Code, Problem};
use crate::serve::HangUp;

pub(crate) mod ends;
mod frame;
mod outbox;
mod pump;
pub(crate) mod relay;
mod shared_frames;
mod snapshot;
mod subject;
mod subscriber;

use outbox::{Outbox, OutboxReader};
pub(crate) use subject::Subject;

/// Responds with the stream of a subject, unless too many streams are open.
pub(crate) fn open(
    app: Arc<AppState>,
    caller: Caller,
    subject: Subject,
    last_seen: Option<u64>,
    hang_up: Option<HangUp>,
) -> Result<Response, Problem> {
    let slot = app.quotas.stream(caller.credential.id, caller.is_operator())?;
    // Subscribe before the store is read, so that no update is lost in between.
    let subscription = app.relays.join(&**app.ports.live.bus(), &app.ports.clock, subject);
    let outbox = Arc::new(Outbox::default());
    let body = Body::from_stream(OutboxReader(Arc::clone(&outbox)));
    let (shared, clock) = (Arc::clone(subscription.shared()), Arc::clone(&app.ports.clock));
    let pump = pump::Pump::new(app, (caller, slot), subject, Arc::clone(&outbox), shared);
    tokio::spawn(async move {
        tokio::select! {
            () = pump.run(subscription, last_seen) => {}
            () = outbox.wait_gone() => return,
        }
        // A client that does not read the last frame in time is gone.
        clock.sleep(Duration::from_millis(limits::STREAM_FAREWELL_MS)).await;
        if let Some(HangUp(connection)) = hang_up {
            connection.cancel();
        }
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::CONNECTION, HeaderValue::from_static("close")),
        // Tells proxies not to buffer, which would delay every update.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    Ok((headers, body).into_response())
}

/// The last id that the client received, from the header `last-event-id`.
pub(crate) fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    match value.to_str().map(str::trim) {
        Ok("") => Ok(None),
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            // A number above `u64::MAX` is treated like any other id that does not exist yet.
            Ok(Some(text.parse().unwrap_or(u64::MAX)))
        }
        _ => {
            Err(Problem::new(Code::BadHeader, "`last-event-id` must be the `id` of an event of this stream"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_event_id_must_be_a_number() {
        let check = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("last-event-id", HeaderValue::from_static(text));
            last_seen(&headers).map_err(|problem| problem.code())
        };
        assert_eq!(check("12"), Ok(Some(12)));
        assert_eq!(check(""), Ok(None));
        assert_eq!(check("99999999999999999999999"), Ok(Some(u64::MAX)));
        assert_eq!(check("-1"), Err(Code::BadHeader));
        assert_eq!(check("abc"), Err(Code::BadHeader));
    }
}
