//! The one way out: every request to another server goes through here, whether of an HTTP tool, an MCP server, a page or a
//! webhook.
//!
//! A name is resolved once, every address of the answer is checked, and the connection goes to one of exactly these
//! addresses; so an answer that changes between check and connection gains nothing. Each request has a connection of its
//! own, which ends with its answer: nothing stays open while an agent sleeps, and no request travels on a connection that
//! was allowed for another one. Proxies of the environment are not used, and nothing is sent twice.
//!
//! This module must not know tools, templates or secrets.

mod address;
mod allow;
mod failure;
mod machine;
mod own;
mod request;
mod resolver;
mod response;
mod unpack;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use net::causes;
use reqwest::{Client, Method, Url};
use tokio::time::{Instant, timeout, timeout_at};

pub use self::allow::{AllowList, AllowedTarget};
pub use self::failure::{ConnectError, ExchangePhase};
pub use self::own::OwnAddress;
pub(crate) use self::request::is_reserved;
pub use self::request::{Outgoing, TrafficLimits, shown};
pub use self::resolver::{Resolver, SystemResolver};
pub use self::response::{Before, CollectedBody, Incoming, IncomingBody};

use self::resolver::Pinned;

/// Sends requests to other servers. Cheap to create; the certificates are read at the first request.
pub struct Connector {
    resolver: Arc<dyn Resolver>,
    /// Whose API is not asked.
    own: Option<OwnAddress>,
}

impl Default for Connector {
    fn default() -> Self {
        Self::new(Arc::new(SystemResolver))
    }
}

impl Connector {
    /// A connector that asks this resolver.
    pub fn new(resolver: Arc<dyn Resolver>) -> Self {
        Self { resolver, own: None }
    }

    /// Sends nothing to the API of this server, whatever a request allows.
    #[must_use]
    pub fn sparing(self, own: OwnAddress) -> Self {
        Self { own: Some(own), ..self }
    }

    /// Sends a request and returns the head of its answer; the body follows. Dropping the future closes the connection.
    ///
    /// A redirect is followed only for `GET` and `HEAD`, to the same host, never from `https` to `http`, without headers
    /// that are secret, and only after the same checks as the first request. A 303 says that the request is done, and where
    /// to read about it: that is asked for with `GET` under the same rules, and so is what a `POST` leads to by a 302.
    pub async fn send(&self, request: Outgoing) -> Result<Incoming, ConnectError> {
        let deadline = Instant::now() + request.limits.total;
        let mut request = request;
        let mut before = Before::Nothing;
        for _ in 0..=request.limits.redirects {
            let exchange = timeout_at(deadline, self.exchange(&request, deadline)).await;
            let answer = exchange.unwrap_or_else(|_| {
                Err(ConnectError::TimedOut {
                    host: host(&request.url).to_owned(),
                    phase: ExchangePhase::Total,
                    after: request.limits.total,
                })
            });
            let answer = answer.map_err(|error| error.after(before))?;
            let Some(target) = response::redirect(&answer) else { return Ok(Incoming { before, ..answer }) };
            let status = answer.status;
            if status == 303 && !reads(&request.method) {
                before = Before::Done;
            }
            let next =
                target.and_then(|target| request.redirected(follow(&request, status, target)?, status));
            let next = next.map_err(|error| error.after(before))?;
            if before == Before::Nothing && !reads(&request.method) {
                before = Before::Sent;
            }
            request = next;
        }
        let (from, count) = (shown(&request.url), request.limits.redirects);
        let error = format!("`{from}` is reached only after more than {count} redirects");
        Err(ConnectError::Redirected(error).after(before))
    }

    /// One request and the head of its answer.
    async fn exchange(&self, request: &Outgoing, deadline: Instant) -> Result<Incoming, ConnectError> {
        let limits = &request.limits;
        let client = self.client(self.find(request).await?, limits.connect)?;
        let mut building = client.request(request.method.clone(), request.url.clone());
        building = building.headers(request.headers.clone());
        if let Some(body) = &request.body {
            building = building.body(body.clone());
        }
        let sending = timeout(limits.connect + limits.head, building.send()).await;
        let host = host(&request.url);
        let timed_out = |phase, after| ConnectError::TimedOut { host: host.to_owned(), phase, after };
        let response = sending.map_err(|_| timed_out(ExchangePhase::Head, limits.head))?;
        let response = response.map_err(|error| {
            if error.is_builder() {
                ConnectError::Refused(format!("the request to `{host}` cannot be built: {}", causes(&error)))
            } else if !error.is_connect() {
                ConnectError::Broken(format!("`{host}` gave no answer: {}", causes(&error)))
            } else if error.is_timeout() {
                timed_out(ExchangePhase::Connect, limits.connect)
            } else {
                ConnectError::Unreachable(format!("`{host}` cannot be reached: {}", causes(&error)))
            }
        })?;
        response::accept(response, limits, deadline)
    }

    /// Refuses a request to the API of this server, as far as its URL alone shows it.
    pub(crate) fn check_own(&self, request: &Outgoing) -> Result<(), ConnectError> {
        let name = host(&request.url);
        let port = request.url.port_or_known_default().unwrap_or_default();
        let address = address_in(name);
        let is_own = |own: &OwnAddress| own.is_called(name) || address.is_some_and(|at| own.is_at(at, port));
        if self.api_of(request).is_some_and(is_own) { Err(own_api(request)) } else { Ok(()) }
    }

    /// The own server, if the request may be one to its API.
    fn api_of(&self, request: &Outgoing) -> Option<&OwnAddress> {
        self.own.as_ref().filter(|_| OwnAddress::is_api(&request.url))
    }

    /// The addresses of the request's host, all of which are allowed.
    async fn find(&self, request: &Outgoing) -> Result<Pinned, ConnectError> {
        let name = host(&request.url);
        let port = request.url.port_or_known_default().unwrap_or_default();
        self.check_own(request)?;
        let check = |address: IpAddr| {
            if self.api_of(request).is_some_and(|own| own.is_at(address, port)) {
                return Err(own_api(request));
            }
            is_allowed(request, address).map_err(|why| {
                let hint = request.allowing;
                ConnectError::Refused(format!("{why}, so nothing was sent\nhint: {hint}"))
            })
        };
        // The parser of URLs has turned every spelling of an address into this one.
        if let Some(address) = literal(name) {
            check(address)?;
            return Ok(Pinned { host: String::new(), addresses: Vec::new() });
        }
        let looking = timeout(request.limits.connect, self.resolver.resolve(name)).await;
        let found = looking.map_err(|_| ConnectError::TimedOut {
            host: name.to_owned(),
            phase: ExchangePhase::Resolve,
            after: request.limits.connect,
        })?;
        let found = found.map_err(|error| {
            ConnectError::Unreachable(format!("the name `{name}` was not found: {error}"))
        })?;
        if found.is_empty() {
            return Err(ConnectError::Unreachable(format!("the name `{name}` has no address")));
        }
        // One address inside makes the whole answer suspect.
        found.iter().try_for_each(|address| check(*address))?;
        let addresses = found.into_iter().take(limits::ADDRESSES_TRIED).map(|ip| SocketAddr::new(ip, port));
        Ok(Pinned { host: name.to_owned(), addresses: addresses.collect() })
    }

    /// A client for one request, which knows no address but these.
    fn client(&self, pinned: Pinned, connect: Duration) -> Result<Client, ConnectError> {
        let client = net::client()
            .map_err(ConnectError::Unreachable)?
            .dns_resolver(Arc::new(pinned))
            .retry(reqwest::retry::never())
            .referer(false)
            .pool_max_idle_per_host(0)
            .connect_timeout(connect)
            .user_agent(concat!("vivarium/", env!("CARGO_PKG_VERSION")))
            .build();
        client.map_err(|error| {
            ConnectError::Unreachable(format!("the HTTP client could not be created: {}", causes(&error)))
        })
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

fn own_api(request: &Outgoing) -> ConnectError {
    let (host, instead) = (host(&request.url), request.instead);
    ConnectError::Refused(format!(
        "`{host}` is the API of the server itself, which neither its agents nor its targets reach, so nothing was sent\n\
         hint: {instead}"
    ))
}

/// Where a redirect may lead.
fn follow(request: &Outgoing, status: u16, target: Url) -> Result<Url, ConnectError> {
    let is_named = request.is_open && target.as_str().len() <= limits::PAGE_URL_MAX_BYTES;
    let to = if is_named { target.to_string() } else { shown(&target) };
    let from = shown(&request.url);
    let not_followed = |why: &str| {
        Err(ConnectError::Redirected(format!(
            "`{from}` redirects to `{to}`, {why}, so it was not followed\n\
             hint: if that is the right address, use it instead"
        )))
    };
    if !matches!(target.scheme(), "http" | "https") {
        return not_followed("which is not a page");
    }
    if host(&target) != host(&request.url) {
        return not_followed("which is another host");
    }
    if request.url.scheme() == "https" && target.scheme() == "http" {
        return not_followed("which is not encrypted");
    }
    let is_read = becomes_get(&request.method, status) && request.limits.redirects > 0;
    if !reads(&request.method) && !is_read {
        return not_followed("and the request might happen twice");
    }
    Ok(target)
}

/// Whether a request with this method only reads, so that it may be sent again elsewhere.
fn reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Whether a redirect asks for a `GET` in place of what was sent: a 303 says so, and a 302 after a `POST` means it.
fn becomes_get(method: &Method, status: u16) -> bool {
    !reads(method) && (status == 303 || status == 302 && *method == Method::POST)
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default()
}

/// Why that address of the request's host may not be reached.
fn is_allowed(request: &Outgoing, address: IpAddr) -> Result<(), String> {
    let name = host(&request.url);
    let port = request.url.port_or_known_default().unwrap_or_default();
    request.allow.check(name, port, address).map_err(|kind| {
        let place = if is_address(name) { String::new() } else { format!(" at {address}") };
        format!("`{name}`{place} is {kind}, not the public internet")
    })
}

/// Why the request can never be sent, as far as its URL alone shows it; without what to do.
pub(crate) fn refused_by_name(request: &Outgoing) -> Option<String> {
    is_allowed(request, address_in(host(&request.url))?).err()
}

/// The address that a host is, if its name alone shows it.
fn address_in(name: &str) -> Option<IpAddr> {
    let is_loopback = name.trim_end_matches('.').eq_ignore_ascii_case("localhost");
    literal(name).or(is_loopback.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)))
}

fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn is_address(host: &str) -> bool {
    literal(host).is_some()
}
