//! The address that a server listens on: parsed, checked and bound before anything is written.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;

use tokio::net::TcpListener;

use crate::errors::{Exit, Failure, Result};
use crate::settings::{Origin, Setting};

/// The address, if a server may listen there. Does not bind it.
pub(crate) fn permitted(listen: &Setting, allow_remote: bool) -> Result<SocketAddr> {
    let address = address(listen)?;
    if !address.ip().is_loopback() && !allow_remote {
        let message = format!(
            "{} can be reached from other machines, in plain HTTP; nothing was started",
            shown(listen)
        );
        return Err(Failure::new(Exit::Refused, "remote_refused", message)
            .hint("listen on 127.0.0.1, or add --allow-remote and put TLS in front of it"));
    }
    Ok(address)
}

pub(crate) async fn bind(listen: &Setting, allow_remote: bool, data_dir: &Path) -> Result<TcpListener> {
    let address = permitted(listen, allow_remote)?;
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        // Most often the port belongs to the server of this data directory.
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_locked(data_dir) => Err(in_use(data_dir)),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let message = format!("another program listens on {}", shown(listen));
            Err(Failure::new(Exit::Refused, "port_taken", message)
                .hint("choose another port, such as --listen 127.0.0.1:7879, or stop the other one"))
        }
        Err(error) => {
            let message = format!("cannot listen on {}: {error}", shown(listen));
            Err(Failure::new(Exit::Refused, "cannot_listen", message)
                .hint("choose another address with --listen"))
        }
    }
}

fn address(listen: &Setting) -> Result<SocketAddr> {
    let text = text(listen);
    let wrong = || {
        Failure::usage(format!(
            "wanted an address such as `127.0.0.1:7878` to listen on, got {}",
            shown(listen)
        ))
        .hint(match text.parse::<u16>() {
            Ok(port) => format!("a port needs an address: `--listen 127.0.0.1:{port}`"),
            Err(_) => "for example `--listen 127.0.0.1:7878`".to_owned(),
        })
    };
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    // A host name may have several addresses: a loopback address is preferred.
    let all: Vec<SocketAddr> = text.to_socket_addrs().map_err(|_| wrong())?.collect();
    let loopback = all.iter().find(|address| address.ip().is_loopback());
    loopback.or(all.first()).copied().ok_or_else(wrong)
}

fn text(listen: &Setting) -> &str {
    listen.value.as_str().unwrap_or_default()
}

/// The address as given, and its origin unless it is the command line, which the user sees.
fn shown(listen: &Setting) -> String {
    match &listen.origin {
        Origin::Default | Origin::Flag(_) => format!("`{}`", text(listen)),
        Origin::Env(name) => format!("`{}` (from `{name}`)", text(listen)),
        Origin::File(file, line) => format!("`{}` (from `{file}:{line}`)", text(listen)),
    }
}

/// The address as clients on this machine reach it.
pub(crate) fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

/// The file in the data directory whose lock its server holds.
pub(crate) const LOCK: &str = "lock";

pub(crate) fn is_locked(data_dir: &Path) -> bool {
    let Ok(lock) = std::fs::File::open(data_dir.join(LOCK)) else { return false };
    // The shared lock is released when the file is dropped.
    matches!(lock.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
}

/// The failure if another server uses the data directory.
pub(crate) fn in_use(data_dir: &Path) -> Failure {
    let message = format!("another server is running on `{}`", data_dir.display());
    Failure::new(Exit::Refused, "data_dir_in_use", message)
        .hint("talk to it with `viv chat`, stop it with `viv stop`, or name another --data-dir")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::keys;
    use serde_json::json;

    fn given(listen: &str, origin: Origin) -> Setting {
        Setting { key: keys::known("listen").unwrap(), value: json!(listen), origin }
    }

    fn flag(listen: &str) -> Setting {
        given(listen, Origin::Flag("--listen"))
    }

    fn nowhere() -> &'static Path {
        Path::new("/nonexistent")
    }

    #[tokio::test]
    async fn only_loopback_is_bound_without_allow_remote() {
        for remote in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let failure = bind(&flag(remote), false, nowhere()).await.unwrap_err();
            assert_eq!((failure.exit, failure.code.as_str()), (Exit::Refused, "remote_refused"), "{remote}");
        }
        assert!(bind(&flag("localhost:0"), false, nowhere()).await.is_ok());
        assert!(bind(&flag("0.0.0.0:0"), true, nowhere()).await.is_ok());
    }

    #[tokio::test]
    async fn an_invalid_address_is_a_usage_error() {
        for bad in ["nonsense", "127.0.0.1", "127.0.0.1:99999", ""] {
            assert_eq!(bind(&flag(bad), false, nowhere()).await.unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }

    #[tokio::test]
    async fn a_taken_port_and_a_taken_directory_give_different_errors() {
        let taken = bind(&flag("127.0.0.1:0"), false, nowhere()).await.unwrap();
        let listen = taken.local_addr().unwrap().to_string();
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(bind(&flag(&listen), false, dir.path()).await.unwrap_err().code, "port_taken");
        let lock = std::fs::File::create(dir.path().join("lock")).unwrap();
        lock.lock().unwrap();
        assert_eq!(bind(&flag(&listen), false, dir.path()).await.unwrap_err().code, "data_dir_in_use");
        drop(lock);
        assert!(!is_locked(dir.path()));
    }

    #[tokio::test]
    async fn the_error_of_a_wrong_address_names_its_origin() {
        let file = || Origin::File("vivarium.toml".to_owned(), 3);
        let message = async |listen: &str, origin: Origin| {
            bind(&given(listen, origin), false, nowhere()).await.unwrap_err().message
        };
        assert!(message("x", file()).await.ends_with(", got `x` (from `vivarium.toml:3`)"));
        assert!(message("x", Origin::Env("VIV_LISTEN")).await.ends_with(", got `x` (from `VIV_LISTEN`)"));
        assert!(message("x", Origin::Flag("--listen")).await.ends_with(", got `x`"));
        assert!(
            message("0.0.0.0:0", file()).await.starts_with("`0.0.0.0:0` (from `vivarium.toml:3`) can be")
        );
        let taken = bind(&flag("127.0.0.1:0"), false, nowhere()).await.unwrap();
        let listen = taken.local_addr().unwrap().to_string();
        let error = message(&listen, Origin::Env("VIV_LISTEN")).await;
        assert_eq!(error, format!("another program listens on `{listen}` (from `VIV_LISTEN`)"));
    }

    #[test]
    fn clients_get_an_address_that_they_can_reach() {
        assert_eq!(url("0.0.0.0:80".parse().unwrap()), "http://127.0.0.1:80");
        assert_eq!(url("[::]:80".parse().unwrap()), "http://[::1]:80");
        assert_eq!(url("127.0.0.1:7".parse().unwrap()), "http://127.0.0.1:7");
    }
}
