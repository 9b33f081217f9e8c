//! A minimal HTTP client that keeps its connection: one blocking socket, whole messages.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// An HTTP connection.
pub(crate) struct HttpConnection {
    out: TcpStream,
    input: BufReader<TcpStream>,
    address: SocketAddr,
}

impl HttpConnection {
    /// Connects.
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let out = TcpStream::connect(address).context("the server cannot be reached")?;
        out.set_nodelay(true)?;
        out.set_read_timeout(Some(PATIENCE))?;
        let input = BufReader::new(out.try_clone()?);
        Ok(Self { out, input, address })
    }

    /// The bytes of a POST with a JSON body.
    pub(crate) fn post(&self, path: &str, key: &str, body: &str) -> Vec<u8> {
        self.request("POST", path, key, body)
    }

    /// The bytes of a request with a JSON body; `null` is none.
    pub(crate) fn request(&self, method: &str, path: &str, key: &str, body: &str) -> Vec<u8> {
        let body = if body == "null" { "" } else { body };
        let (host, length) = (self.address, body.len());
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// Sends a request; returns the time just before its first byte was sent.
    pub(crate) fn send(&mut self, request: &[u8]) -> Result<Instant> {
        let began = Instant::now();
        self.out.write_all(request).context("the server closed the connection")?;
        Ok(began)
    }

    /// Reads the answer to the last request.
    pub(crate) fn answer(&mut self) -> Result<()> {
        self.body().map(drop)
    }

    /// The body of the answer to the last request.
    pub(crate) fn body(&mut self) -> Result<Vec<u8>> {
        let (first, body) = read_whole(&mut self.input)?;
        if ![" 200 ", " 201 ", " 202 "].iter().any(|status| first.contains(status)) {
            bail!("wanted success, got `{}`", first.trim());
        }
        Ok(body)
    }

    /// The socket, for an answer that nobody reads.
    pub(crate) fn into_socket(self) -> TcpStream {
        self.out
    }
}

/// Reads one message, head and body; returns the rest of its first line.
pub(crate) fn read_message(input: &mut impl BufRead) -> Result<String> {
    Ok(read_whole(input)?.0)
}

/// Reads one message; returns the rest of its first line, and its body.
fn read_whole(input: &mut impl BufRead) -> Result<(String, Vec<u8>)> {
    let mut first = String::new();
    input.read_line(&mut first).context("the peer closed the connection")?;
    let mut length = 0u64;
    loop {
        let mut line = String::new();
        input.read_line(&mut line).context("the peer closed the connection")?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().context("the content length is not a number")?;
        }
    }
    let mut body = Vec::new();
    let got = input.take(length).read_to_end(&mut body)? as u64;
    if got < length {
        bail!("wanted a body of {length} bytes, got {got}");
    }
    Ok((first, body))
}
