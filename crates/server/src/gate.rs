//! The outer gate: checks every request before routing, authentication and reading the body. Also catches panics
//! and bounds the time of a request. Must not know routes.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use axum::Router;
use axum::body::HttpBody;
use axum::extract::{MatchedPath, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;

use crate::app_state::AppState;
use crate::extract::BodyRead;
use crate::problem::{Code, Problem};
use crate::quota::Crowded;

/// What the log says in place of the template of a route that does not exist.
const NO_ROUTE: &str = "-";

/// The route of workers that ask for a call.
const CLAIM: &str = "/v1/workers/claim";

/// Marks a request that the HTTP library refused: it is only answered and logged.
#[derive(Clone, Debug)]
pub(crate) struct Refused(pub(crate) Problem);

/// Wraps all routes in the gate. A panic in a handler becomes an error response; the process continues.
pub(crate) fn wrap(router: Router, app: Arc<AppState>) -> Router {
    router
        .layer(CatchPanicLayer::custom(|_| Problem::internal(&"a handler panicked").into_response()))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), gate))
        .layer(middleware::from_fn_with_state(app, identify))
}

/// Gives every response the id of its request, and logs one line for each request: its method and the template of its
/// route, never what the client put into path, query, headers or body.
async fn identify(State(app): State<Arc<AppState>>, mut request: Request, next: Next) -> Response {
    let id = app.ports.ids.uuid().to_string();
    let refused = request.extensions_mut().remove::<Refused>();
    let method = match &refused {
        None => request.method().to_string(),
        Some(_) => NO_ROUTE.to_owned(),
    };
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let began = app.ports.clock.monotonic_ms();
    let mut response = match refused {
        None => next.run(request).await,
        Some(Refused(problem)) => closing(problem.into_response()),
    };
    let ms = app.ports.clock.monotonic_ms().saturating_sub(began);
    let status = response.status().as_u16();
    let route = route.as_deref().unwrap_or(NO_ROUTE);
    // A worker without calls asks again and again, and its lines would be all that a log has.
    match response.body().is_end_stream() && route == CLAIM {
        true => tracing::debug!(request = id, method, route, status, ms, "answered"),
        false => tracing::info!(request = id, method, route, status, ms, "answered"),
    }
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}

async fn gate(State(app): State<Arc<AppState>>, mut request: Request, next: Next) -> Response {
    if let Err(problem) = admit(&app, &request) {
        return closing(problem.into_response());
    }
    let crowded = request.extensions().get::<Crowded>().is_some();
    let has_body = !request.body().is_end_stream();
    let body_read = BodyRead::default();
    request.extensions_mut().insert(body_read.clone());
    let limit = app.ports.clock.sleep(Duration::from_millis(limits::REQUEST_MS));
    // Bounds the time until the response head, including reading the request's body. An event stream sends its
    // head at once, and its body is not bounded by this.
    let mut response = tokio::select! {
        biased;
        response = next.run(request) => response,
        () = limit => Problem::new(Code::TimedOut, "the request took too long").into_response(),
    };
    let refused = response.status().is_client_error() || response.status().is_server_error();
    // The rest of the request is not read, or its place is needed.
    if refused && (crowded || (has_body && !body_read.is_set())) {
        response = closing(response);
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Announces that the connection ends with this response.
pub(crate) fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn admit(app: &AppState, request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    let allowed = |host: &str| is_allowed_host(host, &app.options.hosts);
    // Probes of an orchestrator call the server by whatever address it has, and there is nothing to protect.
    if !app.probes.get().is_some_and(|probes| probes.iter().any(|path| path == request.uri().path())) {
        check_host(request, &allowed)?;
    }
    check_origin(headers, &allowed)?;
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.len() > limits::HEADERS_MAX || bytes > limits::HEADERS_MAX_BYTES {
        let detail = format!(
            "wanted at most {} headers of {} bytes together, got {} of {bytes}",
            limits::HEADERS_MAX,
            limits::HEADERS_MAX_BYTES,
            headers.len()
        );
        return Err(Problem::new(Code::HeadersTooLarge, detail));
    }
    Ok(())
}

/// Checks the host that the request is addressed to. That a name resolves to this machine proves nothing: a
/// foreign web page can make its own name do so (DNS rebinding).
fn check_host(request: &Request, allowed: &dyn Fn(&str) -> bool) -> Result<(), Problem> {
    let rejected = |got: &str| {
        let shown: String = got.chars().take(80).collect();
        Problem::new(Code::HostRefused, format!("this server does not serve the host `{shown}`"))
            .hint("use the address that it listens on")
    };
    let mut named = request.headers().get_all(header::HOST).iter();
    let host = named.next().ok_or_else(|| rejected(""))?;
    let host = host.to_str().map_err(|_| rejected("?"))?;
    if named.next().is_some() || !is_of(host, allowed) {
        return Err(rejected(host));
    }
    match request.uri().authority() {
        Some(authority) if !is_of(authority.as_str(), allowed) => Err(rejected(authority.as_str())),
        _ => Ok(()),
    }
}

/// Browsers send the origin of the page that makes the request; pages of other origins are rejected.
fn check_origin(headers: &HeaderMap, allowed: &dyn Fn(&str) -> bool) -> Result<(), Problem> {
    for origin in headers.get_all(header::ORIGIN) {
        let text = origin.to_str().unwrap_or("?");
        let authority = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        if !authority.is_some_and(|authority| is_of(authority, allowed)) {
            let shown: String = text.chars().take(80).collect();
            let detail = format!("requests from the origin `{shown}` are not allowed");
            return Err(Problem::new(Code::OriginRefused, detail));
        }
    }
    Ok(())
}

/// Whether this is an allowed host, alone or with a port, and nothing else: an `Authority` takes any text for a port.
fn is_of(text: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let Ok(authority) = text.parse::<Authority>() else { return false };
    let host = authority.host();
    let is_port = |rest: &str| {
        rest.strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok())
    };
    text.strip_prefix(host).is_some_and(|rest| rest.is_empty() || is_port(rest)) && allowed(host)
}

fn is_allowed_host(host: &str, hosts: &[String]) -> bool {
    is_loopback_host(host) || hosts.iter().any(|configured| plain(configured) == plain(host))
}

/// Whether the host is this machine.
pub(crate) fn is_loopback_host(host: &str) -> bool {
    let host = plain(host);
    host == "localhost"
        || host == "127.0.0.1"
        || host.parse::<IpAddr>().is_ok_and(|address| address == IpAddr::V6(Ipv6Addr::LOCALHOST))
}

fn plain(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port_and_nothing_else() {
        let allowed = |host: &str| is_allowed_host(host, &[]);
        for good in ["localhost", "localhost:7878", "127.0.0.1:1", "[::1]:65535", "[::1]"] {
            assert!(is_of(good, &allowed), "{good}");
        }
        for bad in [
            "",
            "localhost:",
            "127.0.0.1:7878.evil.example",
            "localhost:7878@evil.example",
            "evil@localhost",
            "localhost:+80",
            "localhost:65536",
            "[::1]:x",
            "[::1].evil.example",
            "[::1]evil:80",
            "localhost:80:80",
            "localhost/",
            "localhost:80/x",
        ] {
            assert!(!is_of(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn only_loopback_names_and_configured_hosts_are_allowed() {
        let hosts = vec!["viv.example".to_owned(), "192.0.2.7".to_owned()];
        for good in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]", "::1", "Viv.Example", "192.0.2.7"] {
            assert!(is_allowed_host(good, &hosts), "{good}");
        }
        for bad in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil", "127.0.0.2", "0.0.0.0"] {
            assert!(!is_allowed_host(bad, &hosts), "{bad}");
        }
    }
}
