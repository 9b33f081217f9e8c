//! Which servers are trusted. The certificates in `tls/` are valid for a hundred years; nobody has the key of their
//! authority any more.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use models::catalog;
use models::listing::{Reach, reach};
use models::model_book::{KeyRing, ModelConfig};
use net::roots;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Serves a list of one model under a certificate of the test's authority; returns the address. The thread ends with the
/// test's process.
fn serve() -> String {
    net::install_crypto();
    let certificate = CertificateDer::from_pem_slice(include_bytes!("tls/server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/server.key")).unwrap();
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), socket);
            // A client that trusts no such certificate hangs up.
            if stream.read(&mut [0; 4096]).is_ok() {
                let body = r#"{"data": [{"id": "a"}]}"#;
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        }
    });
    format!("https://{address}/v1")
}

#[tokio::test]
async fn a_server_is_trusted_once_its_authority_is_added() {
    let provider = catalog::provider("openai-compatible").unwrap();
    let at = ModelConfig { base_url: Some(serve()), ..ModelConfig::default() };
    let keys = KeyRing::default();
    let ask = || reach(provider, &at, &keys, Duration::from_secs(20));
    let Reach::Unreachable(why) = ask().await else { panic!("trusted without its authority") };
    assert!(why.contains("UnknownIssuer") && why.contains("`ca_file`"), "{why}");
    roots::add(include_bytes!("tls/ca.pem")).unwrap();
    assert_eq!(ask().await.as_str(), "reachable");
}
