//! Event streams. One relay per topic listens to the bus and writes what is news for all to their sockets.
//! Each client has a task besides, and a bounded buffer, for whatever is its own: its snapshot, what it
//! missed, what its socket did not take. The publisher never waits for any of them. Updates carry no
//! truth: whatever was missed is read from the store. Must not know how updates come about.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::app_state::AppState;
use crate::auth::Caller;
use crate::problem::{Code, Problem};

mod frame;
mod outbox;
mod pump;
pub(crate) mod relay;
mod snapshot;
mod subject;
mod subscriber;
mod takeover;

use outbox::{Outbox, Outlet};
pub(crate) use subject::Subject;
pub(crate) use takeover::{Opened, SocketTakeover};

/// Answers with the stream of a subject.
pub(crate) fn open(
    app: Arc<AppState>,
    caller: Caller,
    subject: Subject,
    last_seen: Option<u64>,
    line: Option<SocketTakeover>,
) -> Response {
    // Listening begins before anything is read, so that nothing falls between the two.
    let operator = caller.entity().is_none();
    let place = app.relays.join(&**app.ports.live.bus(), &app.ports.clock, subject, operator);
    let outbox = Arc::new(Outbox::default());
    let outlet = Outlet(Arc::clone(&outbox));
    let pump = pump::Pump::new(app, caller, subject, Arc::clone(&outbox));
    let body = match line {
        Some(line) => {
            line.open(Opened { pump, place, last_seen, outlet });
            Body::empty()
        }
        None => {
            tokio::spawn(async move {
                tokio::select! {
                    () = pump.run(place, last_seen) => {}
                    () = outbox.gone() => {}
                }
            });
            Body::from_stream(outlet)
        }
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Proxies that buffer would hold every update back.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

/// What the client had seen when it was here last.
pub(crate) fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    match value.to_str().map(str::trim) {
        Ok("") => Ok(None),
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            // A number beyond all numbers is from the future.
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
    fn the_last_id_seen_is_a_number_or_refused() {
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
