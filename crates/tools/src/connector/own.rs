//! Where the server itself answers. What an agent asks for does not go to its API: by a link, or with a key that it has learned, an
//! agent could answer as if it were a person. What targets are told does not go there either: a link would reach an agent, and
//! an event could cause itself again. Must not know who asks.

use std::net::{IpAddr, SocketAddr};

use percent_encoding::percent_decode_str;
use reqwest::Url;

use super::address::{Reach, reach};
use super::allow::plain;
use super::machine;

/// The first parts of the paths of the API.
const API: [&str; 2] = ["v1", "metrics"];
/// What everybody may ask whether the server runs: it changes nothing, and says nothing else.
const PROBES: [&str; 2] = ["/v1/health", "/v1/ready"];
/// How often a path is decoded: what stands in front of a server may do so, too.
const DECODED: usize = 3;

/// The names and the address of a server.
#[derive(Clone, Debug)]
pub struct OwnAddress {
    names: Vec<String>,
    listen: SocketAddr,
}

impl OwnAddress {
    /// A server that people call by these names, and that listens there.
    pub fn new(names: &[String], listen: SocketAddr) -> Self {
        // The parser of URLs writes a name as it is asked for.
        let parsed = |name: &String| Url::parse(&format!("http://{name}/")).ok()?.host_str().map(plain);
        Self { names: names.iter().filter_map(parsed).collect(), listen }
    }

    /// Whether the path is one of the API, however it is written, and below whatever folder; but not a probe.
    pub(super) fn is_api(url: &Url) -> bool {
        if PROBES.contains(&url.path()) {
            return false;
        }
        let mut path = url.path().to_owned();
        for _ in 0..DECODED {
            path = percent_decode_str(&path).decode_utf8_lossy().into_owned();
        }
        path.split(['/', '\\']).any(|part| API.iter().any(|api| part.eq_ignore_ascii_case(api)))
    }

    pub(super) fn is_called(&self, host: &str) -> bool {
        self.names.contains(&plain(host))
    }

    pub(super) fn is_at(&self, address: IpAddr, port: u16) -> bool {
        let (address, listen) = (address.to_canonical(), self.listen.ip().to_canonical());
        let is_inside = reach(address) != Reach::Public || machine::has(address);
        let anywhere = listen.is_unspecified() && is_inside;
        port == self.listen.port() && (address == listen || address.is_unspecified() || anywhere)
    }
}
