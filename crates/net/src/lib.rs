//! What all connections to other servers have in common: whom they trust, through which proxy they go, and how a stream of events
//! is read. Must not know models, tools or the API.

pub mod bounds;
pub mod proxy;
pub mod roots;
pub mod sse;

use std::sync::Once;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};

/// The beginning of every HTTP client: it trusts whom [`roots`] say, follows no redirect and uses no proxy. The error says why no
/// server can be trusted here.
#[expect(clippy::disallowed_methods, reason = "the one place where a client begins")]
pub fn client() -> Result<ClientBuilder, String> {
    Ok(Client::builder().tls_backend_preconfigured(roots::tls()?).redirect(Policy::none()).no_proxy())
}

/// Installs `ring` as the provider of all cryptography of this process, unless it has one. Further calls do nothing.
pub fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that a provider is already installed; it is kept.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Why a connection failed: the causes of its error, the innermost last. Addresses are left out, since they may hold
/// credentials.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut messages = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        messages.push(error.to_string());
        cause = error.source();
    }
    if messages.is_empty() {
        return "the connection broke".to_owned();
    }
    messages.dedup();
    let message = messages.join(": ");
    if message.contains("UnknownIssuer") {
        return format!(
            "{message}: no authority that is known here signed its certificate; if you trust the one that did, name its \
             certificate as `ca_file`"
        );
    }
    message
}

/// An address for display: without user name, password and query, which may hold credentials.
pub fn display_url(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or(url);
    let (scheme, rest) = bare.split_once("://").map_or(("", bare), |(scheme, rest)| (scheme, rest));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or(host);
    if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_displayed_without_credentials() {
        for (url, shown) in [
            ("https://me:canary@lab.example/v1?key=canary#canary", "https://lab.example/v1"),
            ("http://me:can@ary@lab.example", "http://lab.example"),
            ("me:canary@lab.example/v1", "lab.example/v1"),
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        ] {
            assert_eq!(display_url(url), shown);
        }
    }
}
