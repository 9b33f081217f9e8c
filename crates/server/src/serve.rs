//! Connections: accepts, bounds and ends them. Must not know routes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::stream::Hangup;

/// Serves until `shutdown`; then takes no more connections, lets requests in hand end for a bounded
/// time, and returns.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(limits::CONNECTIONS_MAX));
    let connections = TaskTracker::new();
    let give_up = CancellationToken::new();
    loop {
        // A full house lets newcomers wait in the kernel's queue.
        let slot = Arc::clone(&slots).acquire_owned();
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = async { (slot.await, listener.accept().await) } => accepted,
        };
        let (Ok(slot), accepted) = accepted else { break };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if is_about_one_connection(&error) => continue,
            Err(error) => {
                // Out of descriptors, most likely: closing connections will give some back.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(limits::BACKOFF_BASE_MS)).await;
                continue;
            }
        };
        let talk = talk(stream, router.clone(), shutdown.clone(), give_up.clone());
        connections.spawn(async move {
            talk.await;
            drop(slot);
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(Duration::from_millis(limits::DRAIN_MS), connections.wait()).await.is_err() {
        give_up.cancel();
        connections.wait().await;
    }
    Ok(())
}

/// One connection, from its first byte to its last.
async fn talk(stream: TcpStream, router: Router, shutdown: CancellationToken, give_up: CancellationToken) {
    // Updates are small and must not wait for more.
    let _ = stream.set_nodelay(true);
    let hangup = give_up.child_token();
    let connection = {
        let hangup = Hangup(hangup.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(hangup.clone());
            let router = TowerToHyperService::new(router.clone());
            async move { router.call(request).await }
        });
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(limits::HEAD_MS))
            .max_headers(2 * limits::HEADERS_MAX)
            .max_buf_size(4 * limits::HEADERS_MAX_BYTES)
            .serve_connection(TokioIo::new(stream), service)
    };
    tokio::pin!(connection);
    tokio::select! {
        // A connection that breaks is the client's business.
        _ = connection.as_mut() => return,
        () = hangup.cancelled() => return,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = connection => {}
        () = hangup.cancelled() => {}
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
