//! Accepts connections, bounds their number and closes them. Must not know routes.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::limits;
use agent::port::BoxFuture;
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
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connections::Connections;
use crate::gate::Refused;
use crate::problem::Problem;
use crate::quota::Crowded;
use crate::refusal::{Exchanges, RefusalSocket, until_written};
use crate::takeover::{OwnsSocket, SocketTakeover};

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
        let ends = (shutdown.clone(), abort.clone());
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

/// Handles one connection from its first byte to its last. Both phases have large futures of which only one is
/// needed at a time, so each is boxed.
fn handle_connection(
    stream: TcpStream,
    router: Router,
    (shutdown, abort): (CancellationToken, CancellationToken),
    crowded: bool,
) -> impl Future<Output = ()> {
    // Updates are small and must be sent without delay.
    let _ = stream.set_nodelay(true);
    let http = Box::pin(serve_http(stream, router, (shutdown, abort.clone()), crowded));
    async move {
        let Some((owner, head, stream)) = http.await else { return };
        tokio::select! {
            () = owner.serve(head, stream) => {}
            () = abort.cancelled() => {}
        }
    }
}

/// What takes over a connection, the head of its response, and the socket.
type Handover = (Box<dyn OwnsSocket>, Parts, TcpStream);

/// Serves HTTP requests until the connection ends or a response takes it over.
async fn serve_http(
    stream: TcpStream,
    router: Router,
    (shutdown, abort): (CancellationToken, CancellationToken),
    crowded: bool,
) -> Option<Handover> {
    let (first, taken) = oneshot::channel();
    let taken = async {
        match taken.await {
            Ok(taken) => taken,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::pin!(taken);
    // Only the first request may be taken over: no response is still unwritten before it.
    let first = Mutex::new(Some(first));
    let exchanges = Arc::<Exchanges>::default();
    let refusing = router.clone();
    let last_response = Box::new(move |problem| -> BoxFuture<'static, Vec<u8>> {
        Box::pin(refuse(refusing.clone(), problem))
    });
    let socket = RefusalSocket::new(stream, Arc::clone(&exchanges), last_response);
    let service = service_fn(move |mut request: Request<Incoming>| {
        if crowded {
            request.extensions_mut().insert(Crowded);
        }
        let answered = respond(router.clone(), request, &first);
        let exchange = exchanges.begin();
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
        // A broken connection is not an error of the server.
        _ = &mut connection => return None,
        (owner, head) = &mut taken => {
            return Some((owner, head, connection.into_parts().io.into_inner().into_inner()));
        }
        () = abort.cancelled() => return None,
        () = shutdown.cancelled() => Pin::new(&mut connection).graceful_shutdown(),
    }
    tokio::select! {
        _ = &mut connection => None,
        (owner, head) = taken => Some((owner, head, connection.into_parts().io.into_inner().into_inner())),
        () = abort.cancelled() => None,
    }
}

/// Sends what takes over the connection.
type HandoverSender = oneshot::Sender<(Box<dyn OwnsSocket>, Parts)>;

/// The router's response. If it takes over the connection, the future never ends.
fn respond(
    router: Router,
    mut request: Request<Incoming>,
    first: &Mutex<Option<HandoverSender>>,
) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<> {
    let sender = first.lock().unwrap_or_else(PoisonError::into_inner).take();
    // A response to `HEAD` has no body.
    let takeover =
        sender.filter(|_| request.method() != Method::HEAD).map(|sender| (sender, SocketTakeover::default()));
    if let Some((_, takeover)) = &takeover {
        request.extensions_mut().insert(takeover.clone());
    }
    let router = TowerToHyperService::new(router);
    async move {
        let response = router.call(request).await?;
        let Some((sender, owner)) = takeover.and_then(|(sender, takeover)| Some((sender, takeover.take()?)))
        else {
            return Ok(response);
        };
        // The receiver drops this future with the connection; without one it is closed already.
        let _ = sender.send((owner, response.into_parts().0));
        std::future::pending().await
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
