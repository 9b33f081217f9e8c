//! Accepts connections, bounds their number and closes them. Must not know routes.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use agent::port::BoxFuture;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connections::Connections;
use crate::gate::Refused;
use crate::problem::Problem;
use crate::quota::Crowded;
use crate::refusal::{Exchanges, RefusalSocket, until_written};

/// Serves until `shutdown`. Then it accepts no more connections, gives requests in progress a bounded time to
/// finish, and returns.
/// At most `most` connections are open at once.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
    most: usize,
) -> io::Result<()> {
    let places = Connections::new(most.min(limits::CONNECTIONS_MAX));
    let connections = TaskTracker::new();
    let abort = CancellationToken::new();
    loop {
        // At the limit, new connections wait in the kernel's queue.
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = async { (places.free().await, listener.accept().await) } => accepted,
        };
        let (Some(free), accepted) = accepted else { break };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_about_one_connection(&error) => continue,
            Err(error) => {
                // Most likely out of file descriptors: connections that close free some.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(limits::BACKOFF_BASE_MS)).await;
                continue;
            }
        };
        let Some(place) = places.enter(address.ip(), free) else { continue };
        // Its own: all connections would lock a shared one whenever one of them does something.
        let ends = (shutdown.child_token(), abort.child_token());
        let handle_connection = handle_connection(stream, router.clone(), ends, place.crowded);
        connections.spawn(async move {
            handle_connection.await;
            drop(place);
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(Duration::from_millis(limits::DRAIN_MS), connections.wait()).await.is_err() {
        abort.cancel();
        connections.wait().await;
    }
    Ok(())
}

/// Ends the connection of a request, whatever of the response is unwritten.
#[derive(Clone)]
pub(crate) struct HangUp(pub(crate) CancellationToken);

/// Handles one connection from its first byte to its last.
async fn handle_connection(
    stream: TcpStream,
    router: Router,
    (shutdown, abort): (CancellationToken, CancellationToken),
    crowded: bool,
) {
    // Updates are small and must be sent without delay.
    let _ = stream.set_nodelay(true);
    let exchanges = Arc::<Exchanges>::default();
    let refusing = router.clone();
    let last_response = Box::new(move |problem| -> BoxFuture<'static, Vec<u8>> {
        Box::pin(refuse(refusing.clone(), problem))
    });
    let socket = RefusalSocket::new(stream, Arc::clone(&exchanges), last_response);
    let router = TowerToHyperService::new(router);
    let hang_up = HangUp(abort.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        if crowded {
            request.extensions_mut().insert(Crowded);
        }
        request.extensions_mut().insert(hang_up.clone());
        let (exchange, answered) = (exchanges.begin(), router.call(request));
        async move { Ok::<_, Infallible>(until_written(exchange, answered.await?)) }
    });
    // A place of the reserve must be free again soon.
    let head_ms = if crowded { limits::CROWDED_HEAD_MS } else { limits::HEAD_MS };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(head_ms))
        .max_headers(2 * limits::HEADERS_MAX)
        .max_buf_size(4 * limits::HEADERS_MAX_BYTES)
        .serve_connection(TokioIo::new(socket), service);
    tokio::select! {
        // Before the handlers see it, so that their last answers say that the connection ends.
        biased;
        () = abort.cancelled() => return,
        () = shutdown.cancelled() => Pin::new(&mut connection).graceful_shutdown(),
        // A broken connection is not an error of the server.
        _ = &mut connection => return,
    }
    tokio::select! {
        _ = connection => {}
        () = abort.cancelled() => {}
    }
}

/// The whole response to a request that the HTTP library refused, for a connection that ends with it. It passes the
/// router, which gives it an id and a line in the log.
async fn refuse(router: Router, problem: Problem) -> Vec<u8> {
    let mut request = Request::new(Body::empty());
    request.extensions_mut().insert(Refused(problem));
    let (head, body) = match TowerToHyperService::new(router).call(request).await {
        Ok(response) => response.into_parts(),
        Err(never) => match never {},
    };
    let body = axum::body::to_bytes(body, limits::BODY_MAX_BYTES).await.unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
