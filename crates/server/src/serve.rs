//! Connections: accepts, bounds and ends them. Must not know routes.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::limits;
use axum::Router;
use axum::body::Body;
use axum::http::response::Parts;
use axum::http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::stream::{Opened, SocketTakeover};

/// Serves until `shutdown`; then takes no more connections, lets requests in progress end for a bounded
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

/// One connection, from its first byte to its last. Either half of it is large for a while and then
/// gone, so that each has a box of its own.
fn talk(
    stream: TcpStream,
    router: Router,
    shutdown: CancellationToken,
    give_up: CancellationToken,
) -> impl Future<Output = ()> {
    // Updates are small and must not wait for more.
    let _ = stream.set_nodelay(true);
    let conversing = Box::pin(converse(stream, router, shutdown, give_up.clone()));
    async move {
        let Some((opened, head, stream)) = conversing.await else { return };
        let pouring = Box::pin(opened.pour(head, stream));
        tokio::select! {
            () = pouring => {}
            () = give_up.cancelled() => {}
        }
    }
}

/// A stream that takes its connection over, and the head of its answer.
type Handover = (Opened, Parts, TcpStream);

/// Requests and answers, until the connection ends or is taken over.
async fn converse(
    stream: TcpStream,
    router: Router,
    shutdown: CancellationToken,
    give_up: CancellationToken,
) -> Option<Handover> {
    let (first, taken) = oneshot::channel();
    let taken = async {
        match taken.await {
            Ok(taken) => taken,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::pin!(taken);
    // Only the first request has nothing unwritten before it.
    let first = Mutex::new(Some(first));
    let service = service_fn(move |request| answer(router.clone(), request, &first));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits::HEAD_MS))
        .max_headers(2 * limits::HEADERS_MAX)
        .max_buf_size(4 * limits::HEADERS_MAX_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // A connection that breaks is the client's business.
        _ = &mut connection => return None,
        (opened, head) = &mut taken => {
            return Some((opened, head, connection.into_parts().io.into_inner()));
        }
        () = give_up.cancelled() => return None,
        () = shutdown.cancelled() => Pin::new(&mut connection).graceful_shutdown(),
    }
    tokio::select! {
        _ = &mut connection => None,
        (opened, head) = taken => Some((opened, head, connection.into_parts().io.into_inner())),
        () = give_up.cancelled() => None,
    }
}

/// Where a request hands its connection over.
type Taker = oneshot::Sender<(Opened, Parts)>;

/// The router's answer; none if it is a stream that takes the connection over.
fn answer(
    router: Router,
    mut request: Request<Incoming>,
    first: &Mutex<Option<Taker>>,
) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<> {
    let taker = first.lock().unwrap_or_else(PoisonError::into_inner).take();
    let line =
        taker.filter(|_| request.method() == Method::GET).map(|taker| (taker, SocketTakeover::default()));
    if let Some((_, line)) = &line {
        request.extensions_mut().insert(line.clone());
    }
    let router = TowerToHyperService::new(router);
    async move {
        let answer = router.call(request).await?;
        let Some((taker, opened)) = line.and_then(|(taker, line)| Some((taker, line.opened()?))) else {
            return Ok(answer);
        };
        // Whoever takes it drops this with the connection; if nobody does, that is gone already.
        let _ = taker.send((opened, answer.into_parts().0));
        std::future::pending().await
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
