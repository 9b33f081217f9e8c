//! An address on loopback that outlives the server: it leads to the process that runs now. Workers need one, since each
//! process listens on a port of its own.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::{HarnessError, Result};

/// A running gateway. Dropping it ends it.
#[derive(Debug)]
pub struct Gateway {
    url: String,
    server: Arc<watch::Sender<String>>,
    task: JoinHandle<()>,
}

impl Gateway {
    /// Starts one that leads nowhere.
    pub async fn start() -> Result<Self> {
        let error_of =
            |error: std::io::Error| HarnessError::new(format!("no loopback port for the gateway: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(error_of)?;
        let url = format!("http://{}", listener.local_addr().map_err(error_of)?);
        let server = Arc::new(watch::Sender::new(String::new()));
        let current = server.subscribe();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let address = current.borrow().clone();
                tokio::spawn(connect(client, address));
            }
        });
        Ok(Self { url, server, task })
    }

    /// Its own URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// New connections lead to the server at this URL.
    pub fn lead_to(&self, url: &str) {
        self.server.send_replace(url.trim_start_matches("http://").trim_end_matches('/').to_owned());
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Lasts as long as both sides; a server that is gone closes the connection.
async fn connect(mut client: TcpStream, address: String) {
    if let Ok(mut server) = TcpStream::connect(address).await {
        // Ends with an error when a side is killed.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
