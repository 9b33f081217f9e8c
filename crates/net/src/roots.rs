//! Which authorities may certify a server: those of this machine, or Mozilla's list inside this binary if the machine has none, and
//! those that the operator adds. `SSL_CERT_FILE` and `SSL_CERT_DIR` replace those of the machine: who names authorities there wants
//! no others, so what is named and cannot be read is an error and never a wider trust. Must not know where the operator adds some.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;

const FILE: &str = "SSL_CERT_FILE";
const FOLDERS: &str = "SSL_CERT_DIR";

/// What the operator adds.
static ADDED: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();

/// The settings of all connections, once they were made: the certificates of a machine are a few hundred files. They also remember
/// sessions, so that the next connection to a server costs less.
static TLS: Mutex<Option<ClientConfig>> = Mutex::new(None);

/// Adds the authorities in this PEM text for the whole process; only the first call adds some. The error says what is wrong with
/// the text.
pub fn add(pem: &[u8]) -> Result<(), String> {
    let certificates = read(pem)?;
    ADDED.get_or_init(|| certificates);
    *TLS.lock().unwrap_or_else(PoisonError::into_inner) = None;
    Ok(())
}

/// The settings of every encrypted connection of this process.
pub fn tls() -> Result<ClientConfig, String> {
    let mut made = TLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(made) = &*made {
        return Ok(made.clone());
    }
    let config = config(ADDED.get().map_or(&[], Vec::as_slice), |name| env::var_os(name))?;
    Ok(made.insert(config).clone())
}

/// Reads the certificates of a PEM text.
fn read(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = read.map_err(|error| format!("the certificates cannot be read: {error}"))?;
    if certificates.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Verifier::new_with_extra_roots(certificates.clone(), provider)
        .map(|_| certificates)
        .map_err(|error| format!("a certificate in it cannot be used: {error}"))
}

fn config(
    added: &[CertificateDer<'static>],
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let with = |roots: Vec<_>| Verifier::new_with_extra_roots(roots, Arc::clone(&provider));
    let named = named(variable)?;
    let verifier = match Verifier::new(Arc::clone(&provider)) {
        Ok(found) if added.is_empty() => Ok(found),
        Ok(_) => with(added.to_vec()),
        Err(error) if named => Err(error),
        // A container from scratch has no authorities.
        Err(_) => with(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().chain(added).cloned().collect()),
    };
    let verifier = verifier.map_err(|error| match named {
        true => format!("`{FILE}` or `{FOLDERS}` names authorities, and none can be used: {error}"),
        false => format!("no certificate can be checked here: {error}"),
    })?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| format!("encryption is not available: {error}"))?;
    // The only way to name a verifier; this one checks against the authorities above.
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_no_client_auth())
}

/// Whether the environment names authorities. What it names must be there.
fn named(variable: impl Fn(&str) -> Option<OsString>) -> Result<bool, String> {
    let unreadable = |name: &str, path: &Path, error: std::io::Error| {
        let path = path.display();
        format!("`{name}` names `{path}`, which cannot be read: {error}; so no server is trusted")
    };
    let file = variable(FILE);
    if let Some(path) = &file {
        let path = Path::new(path);
        let read = File::open(path).and_then(|mut file| file.read(&mut [0]));
        read.map_err(|error| unreadable(FILE, path, error))?;
    }
    let folders = variable(FOLDERS);
    for folder in folders.iter().flat_map(env::split_paths) {
        std::fs::read_dir(&folder).map_err(|error| unreadable(FOLDERS, &folder, error))?;
    }
    Ok(file.is_some() || folders.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_a_certificate_is_refused_with_the_reason() {
        for pem in [
            "",
            "a key",
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            assert!(read(pem.as_bytes()).is_err_and(|why| why.contains("certificate")), "{pem}");
        }
    }

    #[test]
    fn encryption_is_ready_with_the_authorities_of_the_machine_or_the_binary() {
        config(&[], |_| None).unwrap();
    }

    #[test]
    fn authorities_that_are_named_and_cannot_be_read_are_an_error_and_never_a_wider_trust() {
        let here = env!("CARGO_MANIFEST_DIR");
        for (name, value) in [
            (FILE, "/nowhere/ca.pem"),
            // A folder where a file is wanted.
            (FILE, here),
            (FILE, ""),
            (FOLDERS, "/nowhere"),
            (FOLDERS, concat!(env!("CARGO_MANIFEST_DIR"), ":/nowhere")),
        ] {
            let variable = |asked: &str| (asked == name).then(|| OsString::from(value));
            let why = config(&[], variable).unwrap_err();
            assert!(why.contains(name) && why.contains("no server is trusted"), "{why}");
            // Nor with authorities of the operator beside them.
            let added = [webpki_root_certs::TLS_SERVER_ROOT_CERTS[0].clone()];
            assert!(config(&added, variable).is_err(), "{value}");
        }
    }
}
