//! Servers on the loopback that answer as a test says, listeners that nobody may reach, and a resolver that answers as an
//! attacker's name server would.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as Listener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agent::port::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tools::connector::Resolver;

/// A server that reads one request from each connection and answers it.
pub(crate) struct Loopback {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Loopback {
    /// Answers with what the function writes.
    pub(crate) async fn serve<F, A>(answer: F) -> Self
    where
        F: Fn(String, TcpStream) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        Self::serve_at("127.0.0.1:0", answer).await
    }

    /// The same at this address.
    pub(crate) async fn serve_at<F, A>(address: &str, answer: F) -> Self
    where
        F: Fn(String, TcpStream) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.expect("the loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                tokio::spawn(async move {
                    if let Ok(request) = read_request(&mut stream).await {
                        seen.lock().expect("no test panics with it").push(request.clone());
                        answer(request, stream).await;
                    }
                });
            }
        });
        Self { address, requests }
    }

    /// Answers every request with this text.
    pub(crate) async fn says(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        Self::serve(move |_, stream| write(stream, answer.clone())).await
    }

    /// Answers with 200 and this body.
    pub(crate) async fn ok(kind: &str, body: &str) -> Self {
        Self::says(page("200 OK", kind, body)).await
    }

    /// What it was asked, in order.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no test panics with it").clone()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// An answer with a length.
pub(crate) fn page(status: &str, kind: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Writes an answer and closes the connection.
pub(crate) async fn write(mut stream: TcpStream, answer: String) {
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn read_request(stream: &mut TcpStream) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            |line: &str| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok();
        if body.len() >= head.lines().find_map(length).unwrap_or(0) {
            return Ok(text);
        }
    }
}

/// A listener that nobody may reach.
pub(crate) struct Tripwire {
    listeners: Vec<Listener>,
    pub(crate) port: u16,
}

impl Tripwire {
    /// Listens at every address of this machine.
    pub(crate) fn new() -> Self {
        let first = Listener::bind("0.0.0.0:0").expect("the loopback has a free port");
        let port = first.local_addr().expect("a bound listener has an address").port();
        // A machine may have no IPv6.
        let listeners = [Some(first), Listener::bind(("::1", port)).ok()];
        Self::of(listeners.into_iter().flatten().collect(), port)
    }

    /// Listens at this address only.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self::of(vec![Listener::bind(address).expect("the address is free")], address.port())
    }

    fn of(listeners: Vec<Listener>, port: u16) -> Self {
        listeners.iter().for_each(|listener| listener.set_nonblocking(true).expect("a socket"));
        Self { listeners, port }
    }

    /// How many connections were made. The kernel accepts them, so that none is missed.
    pub(crate) fn connections(&self) -> usize {
        let count = |listener: &Listener| std::iter::from_fn(|| listener.accept().ok()).count();
        self.listeners.iter().map(count).sum()
    }
}

/// Answers from a table; a name with several answers gets them in turn.
#[derive(Default)]
pub(crate) struct Names {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    pub(crate) asked: AtomicUsize,
}

impl Names {
    pub(crate) fn with(mut self, name: &str, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        self.answers.entry(name.to_owned()).or_default().push(addresses);
        self
    }
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        let answers = self.answers.get(host.trim_end_matches('.'));
        let answer = answers.map(|answers| answers[turn % answers.len()].clone());
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}
