//! Which authorities may certify a server: those of this machine, or Mozilla's list inside this binary if the machine has
//! none, and those that the operator adds. Must not know where the operator names them.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;

/// Reads the certificates of a PEM text. The error says what is wrong with it.
pub(super) fn read(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = read.map_err(|error| format!("the certificates cannot be read: {error}"))?;
    if certificates.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    Ok(certificates)
}

/// The settings of every encrypted connection. They also remember sessions, so that the next connection to a server
/// costs less.
pub(super) fn config(added: &[CertificateDer<'static>]) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = |roots: Vec<_>| Verifier::new_with_extra_roots(roots, Arc::clone(&provider));
    let bundled = || webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned();
    let verifier = match Verifier::new(Arc::clone(&provider)) {
        Ok(found) if added.is_empty() => Ok(found),
        Ok(_) => verifier(added.to_vec()),
        // A container from scratch has no authorities.
        Err(_) => verifier(bundled().chain(added.iter().cloned()).collect()),
    };
    let verifier = verifier.map_err(|error| format!("no certificate can be checked here: {error}"))?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| format!("encryption is not available: {error}"))?;
    // The only way to name a verifier; this one checks against the authorities above.
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_a_certificate_is_refused_with_the_reason() {
        for pem in ["", "a key", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            assert!(read(pem.as_bytes()).is_err_and(|why| why.contains("certificate")), "{pem}");
        }
    }

    #[test]
    fn encryption_is_ready_with_the_authorities_of_the_machine_or_the_binary() {
        assert!(config(&[]).is_ok());
    }
}
