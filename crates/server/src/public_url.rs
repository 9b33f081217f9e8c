//! The address under which people outside reach the server.

use axum::http::Uri;

use crate::gate::is_loopback_host;

/// An `https://` address, or an `http://` address of this machine, without user, query and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    /// The address without slashes at its end.
    pub base: String,
    /// Its host, which requests name.
    pub host: String,
}

impl PublicUrl {
    /// Reads an address; `None` if it is another one.
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
        let host = authority.host();
        let has_port = authority.as_str().len() > host.len();
        if has_port && authority.port_u16().is_none_or(|port| port == 0) {
            return None;
        }
        let safe = match uri.scheme_str()? {
            "https" => true,
            "http" => is_loopback_host(host),
            _ => false,
        };
        let plain = safe && !host.is_empty() && uri.query().is_none() && !text.contains(['?', '#']);
        plain.then(|| Self { base: text.trim_end_matches('/').to_owned(), host: host.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_may_carry_a_secret_are_public() {
        let parsed = |text| PublicUrl::parse(text).map(|url| (url.base, url.host));
        let is = |base: &str, host: &str| Some((base.to_owned(), host.to_owned()));
        assert_eq!(parsed("https://viv.example/"), is("https://viv.example", "viv.example"));
        assert_eq!(parsed("https://viv.example:8443/a/"), is("https://viv.example:8443/a", "viv.example"));
        assert_eq!(parsed("http://127.0.0.1:7878"), is("http://127.0.0.1:7878", "127.0.0.1"));
        assert_eq!(parsed("http://[::1]:7878"), is("http://[::1]:7878", "[::1]"));
        for bad in [
            "",
            "viv.example",
            "/a",
            "https://",
            "https:///a",
            "http://viv.example",
            "ftp://viv.example",
            "https://me:secret@viv.example",
            "https://viv.example/?a=1",
            "https://viv.example/?",
            "https://viv.example/#a",
            "https://viv example",
            "https://viv.example:99999",
            "https://viv.example:0",
            "https://viv.example:",
            "https://viv.example:x",
            "http://[::1]:99999",
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }
}
