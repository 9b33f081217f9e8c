//! What an operator allows besides the public internet: names, `host:port` and nets. Must not know how names are resolved.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;
use reqwest::Url;

use super::address::{Reach, reach};
use super::machine;

/// Targets inside that a request may reach. The public internet needs no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(Vec<AllowedTarget>);

/// One entry of an [`AllowList`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedTarget {
    place: Place,
    /// Without one, every port.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// In lower case, without a dot at the end.
    Name(String),
    Net(IpNet),
}

impl AllowList {
    /// A list of these entries.
    pub fn new(entries: Vec<AllowedTarget>) -> Self {
        Self(entries)
    }

    /// `Ok` if a request for this host and port may go to this address, else what the address is.
    pub(super) fn check(&self, host: &str, port: u16, address: IpAddr) -> Result<(), &'static str> {
        let (kind, by_name) = match reach(address) {
            Reach::Public if machine::has(address) => (machine::NAMED, true),
            Reach::Public => return Ok(()),
            Reach::Private(kind) => (kind, true),
            Reach::Special(kind) => (kind, false),
        };
        let permits = |entry: &AllowedTarget| {
            entry.port.is_none_or(|only| only == port)
                && match &entry.place {
                    Place::Name(name) => by_name && *name == plain(host),
                    Place::Net(net) => net.contains(&address.to_canonical()),
                }
        };
        if self.0.iter().any(permits) { Ok(()) } else { Err(kind) }
    }
}

/// A name as it is compared: `Example.com.` is `example.com`.
pub(super) fn plain(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

impl FromStr for AllowedTarget {
    type Err = String;

    /// Reads a host name, an address or a net, each but a net with an optional port. The error says what was wanted.
    fn from_str(text: &str) -> Result<Self, String> {
        let net = |net: IpNet, port| Ok(Self { place: Place::Net(net.trunc()), port });
        if let Ok(found) = text.parse::<IpNet>() {
            return net(found, None);
        }
        if let Ok(found) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return net(found.to_canonical().into(), None);
        }
        if let Ok(found) = text.parse::<SocketAddr>() {
            return net(found.ip().to_canonical().into(), Some(found.port()));
        }
        let wrong = || {
            format!(
                "wanted a host name, `host:port` or a net such as `10.0.0.0/8`, got `{text}`\n\
                 hint: no scheme, path or `*`"
            )
        };
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => (name, Some(port.parse::<u16>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let plain_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
        if name.is_empty() || !name.chars().all(plain_name) {
            return Err(wrong());
        }
        // The parser of URLs writes international names as they are asked for, and finds addresses in odd spellings.
        let url = Url::parse(&format!("http://{name}/")).map_err(|_| wrong())?;
        match url.host_str().map(|host| (host, host.parse::<IpAddr>())) {
            Some((_, Ok(address))) => net(address.into(), port),
            Some((host, Err(_))) => Ok(Self { place: Place::Name(plain(host)), port }),
            None => Err(wrong()),
        }
    }
}

impl fmt::Display for AllowedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, self.port) {
            (Place::Name(name), None) => f.write_str(name),
            (Place::Name(name), Some(port)) => write!(f, "{name}:{port}"),
            (Place::Net(net), None) => write!(f, "{net}"),
            (Place::Net(net), Some(port)) => SocketAddr::new(net.addr(), port).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(entry: &str, host: &str, port: u16, address: &str) -> bool {
        let list = AllowList::new(vec![entry.parse().unwrap()]);
        list.check(host, port, address.parse().unwrap()).is_ok()
    }

    #[test]
    fn an_entry_permits_only_what_it_names() {
        assert!(allows("intranet.corp", "Intranet.Corp.", 80, "10.1.2.3"));
        assert!(allows("localhost:8080", "localhost", 8080, "127.0.0.1"));
        assert!(!allows("localhost:8080", "localhost", 8081, "127.0.0.1"));
        assert!(!allows("localhost", "localhost.evil.example", 80, "127.0.0.1"));
        assert!(!allows("corp", "intranet.corp", 80, "10.1.2.3"));
        assert!(allows("10.0.0.0/8", "any.example", 80, "10.1.2.3"));
        assert!(allows("10.0.0.0/8", "any.example", 80, "::ffff:10.1.2.3"));
        assert!(allows("127.0.0.1:9", "127.0.0.1", 9, "127.0.0.1"));
        assert!(!allows("127.0.0.1:9", "127.0.0.1", 10, "127.0.0.1"));
        assert!(!allows("127.0.0.1", "127.0.0.1", 10, "127.0.0.2"));
        assert!(allows("[::1]", "[::1]", 10, "::1"));
        assert!(allows("[::1]:10", "[::1]", 10, "::1"));
    }

    #[test]
    fn a_name_does_not_permit_metadata_but_its_address_does() {
        assert!(!allows("intranet.corp", "intranet.corp", 80, "169.254.169.254"));
        assert!(allows("169.254.169.254", "intranet.corp", 80, "169.254.169.254"));
        assert!(AllowList::default().check("any", 80, "93.184.216.34".parse().unwrap()).is_ok());
    }

    #[test]
    fn an_entry_that_is_none_is_refused_with_words() {
        for text in ["", "*.corp", "http://a", "a/b", "a:b", "10.0.0.0/33", "me@host", ":80", "a b"] {
            let error = text.parse::<AllowedTarget>().unwrap_err();
            assert!(error.starts_with("wanted a host name"), "{text}: {error}");
        }
        for text in ["host.corp", "host.corp:80", "10.0.0.0/8", "[::1]:80", "10.0.0.1:80"] {
            assert_eq!(text.parse::<AllowedTarget>().unwrap().to_string(), text);
        }
    }
}
