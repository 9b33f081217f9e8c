//! Through which proxy the servers of models are reached: those of the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, without
//! the hosts of `NO_PROXY`), one that the operator names, or none. Tools use none: a proxy resolves names itself, and what a tool may
//! reach is decided by the addresses that were found here. Must not know who is reached.

use std::env;
use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;

use crate::display_url;

/// The word for the proxies of the environment.
pub const ENVIRONMENT: &str = "environment";
/// The word for no proxy.
pub const NONE: &str = "none";

/// What the operator set.
static CHOICE: OnceLock<ProxyChoice> = OnceLock::new();

/// Which proxies are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxyChoice {
    /// Those that the environment names.
    #[default]
    Environment,
    /// None.
    None,
    /// This one, but for the hosts of `NO_PROXY`.
    Named(Url),
}

/// A proxy and who named it.
#[derive(Clone, PartialEq, Eq)]
pub struct ChosenProxy {
    url: Url,
    from: &'static str,
}

impl ChosenProxy {
    /// Its address, with the credentials that it may hold.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

impl fmt::Display for ChosenProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the proxy `{}` (`{}`)", display_url(self.url.as_str()).trim_end_matches('/'), self.from)
    }
}

impl fmt::Debug for ChosenProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ProxyChoice {
    /// Reads the setting: `environment`, `none` or the address of a proxy. The error never repeats it, since it may hold a
    /// password.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            ENVIRONMENT => Ok(Self::Environment),
            NONE => Ok(Self::None),
            address => address_of(address).map(Self::Named),
        }
    }

    /// The proxy for this address; the error says what is wrong with what the environment names.
    fn of(
        &self,
        url: &Url,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<ChosenProxy>, String> {
        if *self == Self::None || is_loopback(url) || is_excluded(url, &variable) {
            return Ok(None);
        }
        if let Self::Named(proxy) = self {
            return Ok(Some(ChosenProxy { url: proxy.clone(), from: "proxy" }));
        }
        let names = match url.scheme() {
            "https" => ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
            _ => ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
        };
        let set = |from: &&'static str| Some((*from, variable(from).filter(|value| !value.is_empty())?));
        let Some((from, value)) = names.iter().find_map(set) else { return Ok(None) };
        let url = address_of(&value).map_err(|why| format!("`{from}` is not usable: {why}"))?;
        Ok(Some(ChosenProxy { url, from }))
    }
}

/// Chooses the proxies of this process; only the first call does.
pub fn choose(choice: ProxyChoice) {
    CHOICE.get_or_init(|| choice);
}

/// The proxy through which this address is reached, if any. The error says what is wrong with what the environment names.
pub fn of(url: &Url) -> Result<Option<ChosenProxy>, String> {
    CHOICE.get_or_init(ProxyChoice::default).of(url, |name| env::var(name).ok())
}

fn address_of(text: &str) -> Result<Url, String> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let wanted = "wanted the address of an HTTP proxy, such as `http://proxy.example:3128`";
    let url = Url::parse(&with_scheme).map_err(|error| format!("{wanted}: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!("{wanted}, got one of `{}`", url.scheme()));
    }
    Ok(url)
}

/// A server on this machine is never asked through another one.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Whether `NO_PROXY` names the host, its domain, or the net of its address.
fn is_excluded(url: &Url, variable: impl Fn(&str) -> Option<String>) -> bool {
    let Some(excluded) = variable("NO_PROXY").or_else(|| variable("no_proxy")) else { return false };
    let matcher = Matcher::builder().all("http://proxy.invalid").no(excluded).build();
    url.as_str().parse().is_ok_and(|url| matcher.intercept(&url).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(choice: &ProxyChoice, url: &str, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let value =
            |name: &str| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
        let found = choice.of(&Url::parse(url).unwrap(), value)?;
        Ok(found.map(|proxy| proxy.to_string()))
    }

    #[test]
    fn the_environment_chooses_by_scheme_and_excludes_hosts_domains_and_nets() {
        let set = [
            ("HTTPS_PROXY", "http://me:canary@proxy.example:3128"),
            ("http_proxy", "plain.example:8080"),
            ("NO_PROXY", "lab.example,.inside.example,10.0.0.0/8"),
        ];
        let through = |url: &str| of(&ProxyChoice::Environment, url, &set).unwrap();
        assert_eq!(
            through("https://models.example/v1").unwrap(),
            "the proxy `http://proxy.example:3128` (`HTTPS_PROXY`)"
        );
        assert_eq!(
            through("http://models.example").unwrap(),
            "the proxy `http://plain.example:8080` (`http_proxy`)"
        );
        for direct in [
            "https://lab.example/v1",
            "https://a.inside.example",
            "http://10.1.2.3:8080/v1",
            "http://localhost:11434",
            "http://127.0.0.1:1234/v1",
            "https://[::1]:8443",
            "https://[::ffff:127.0.0.1]",
        ] {
            assert_eq!(through(direct), None, "{direct}");
        }
    }

    #[test]
    fn a_named_proxy_is_used_for_both_schemes_and_none_for_nobody() {
        let named = ProxyChoice::parse("http://me:canary@proxy.example:3128").unwrap();
        let set = [("HTTPS_PROXY", "http://other.example:1"), ("NO_PROXY", "lab.example")];
        for url in ["https://models.example", "http://models.example"] {
            let shown = of(&named, url, &set).unwrap().unwrap();
            assert_eq!(shown, "the proxy `http://proxy.example:3128` (`proxy`)");
            assert_eq!(of(&ProxyChoice::parse("none").unwrap(), url, &set), Ok(None));
        }
        assert_eq!(of(&named, "https://lab.example", &set), Ok(None));
        assert_eq!(of(&ProxyChoice::Environment, "http://models.example", &set), Ok(None));
        assert_eq!(of(&ProxyChoice::Environment, "https://models.example", &[("HTTPS_PROXY", "")]), Ok(None));
    }

    #[test]
    fn what_is_no_http_proxy_is_an_error_that_does_not_repeat_it() {
        for bad in ["socks5://me:canary@proxy.example", "http://", "://canary", "http://a:canary@[x"] {
            let why = ProxyChoice::parse(bad).unwrap_err();
            assert!(why.contains("wanted the address of an HTTP proxy") && !why.contains("canary"), "{why}");
            let why =
                of(&ProxyChoice::Environment, "https://models.example", &[("HTTPS_PROXY", bad)]).unwrap_err();
            assert!(why.starts_with("`HTTPS_PROXY` is not usable"), "{why}");
        }
    }
}
