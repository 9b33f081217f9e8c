//! Which authorities may certify a model's server: those of this machine, or Mozilla's list inside this binary if the
//! machine has none, and those that the operator adds. Must not know where the operator names them.

use std::env;
use std::sync::{LazyLock, OnceLock};

use reqwest::{Certificate, Client, ClientBuilder};

use crate::client::{causes, install_crypto};

/// What the operator adds.
static ADDED: OnceLock<Vec<Certificate>> = OnceLock::new();

/// Mozilla's list if this machine has no authorities (a container from scratch), else nothing. Who names authorities with
/// these variables wants no others, even if they cannot be read.
static BUNDLED: LazyLock<Vec<Certificate>> = LazyLock::new(|| {
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().any(|name| env::var_os(name).is_some());
    if named || Client::builder().build().is_ok() {
        return Vec::new();
    }
    let list = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
    list.filter_map(|certificate| Certificate::from_der(certificate).ok()).collect()
});

/// Adds the authorities in this PEM text for the whole process; only the first call adds some. The error says what is
/// wrong with the text.
pub fn add(pem: &[u8]) -> Result<(), String> {
    let certificates = read(pem)?;
    ADDED.get_or_init(|| certificates);
    Ok(())
}

/// Lets the client trust the bundled and the added authorities beside those of this machine.
pub(crate) fn trusted_by(builder: ClientBuilder) -> ClientBuilder {
    install_crypto();
    let added = ADDED.get().into_iter().flatten();
    builder.tls_certs_merge(BUNDLED.iter().chain(added).cloned())
}

fn read(pem: &[u8]) -> Result<Vec<Certificate>, String> {
    install_crypto();
    let certificates = Certificate::from_pem_bundle(pem).map_err(|error| causes(&error))?;
    if certificates.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    // A certificate is only decoded when a client is built with it.
    let built = Client::builder().tls_certs_only(certificates.clone()).build();
    built.map(|_| certificates).map_err(|error| causes(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_a_certificate_is_refused_with_the_reason() {
        for pem in ["", "a key", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(read(pem.as_bytes()).is_err_and(|why| why.contains("certificate")), "{pem}");
        }
    }
}
