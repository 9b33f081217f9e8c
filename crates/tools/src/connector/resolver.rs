//! From a name to addresses: asked once for each request. Must not know which addresses are allowed.

use std::io;
use std::net::{IpAddr, SocketAddr};

use agent::port::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Looks up the addresses of a name. A seam for tests, which answer as an attacker's name server would.
pub trait Resolver: Send + Sync {
    /// All addresses of the name.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Answers the HTTP client with the addresses that were checked, for the one name that was asked for.
pub(super) struct Pinned {
    /// The name; empty if the host is an address, which the client does not look up.
    pub(super) host: String,
    pub(super) addresses: Vec<SocketAddr>,
}

impl Resolve for Pinned {
    fn resolve(&self, name: Name) -> Resolving {
        let answer: Result<Addrs, _> = if !self.host.is_empty() && name.as_str() == self.host {
            Ok(Box::new(self.addresses.clone().into_iter()))
        } else {
            Err(io::Error::other("a name that was not checked").into())
        };
        Box::pin(std::future::ready(answer))
    }
}
