//! Messages as lines of a process: each is bounded, and secrets in it are hidden before anything else reads it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::gate::{Gate, has_too_many_values};
use crate::secret::Mask;

const READ_BYTES: usize = 64 * 1024;

/// The two ends of a process.
pub(super) struct Lines<R, W> {
    /// `None` once the connection is closed.
    input: Arc<Mutex<Option<W>>>,
    output: BufReader<R>,
    /// The beginning of a line; it stays here if a read is given up.
    line: Vec<u8>,
    mask: Arc<Mask>,
    gate: Arc<Gate>,
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    pub(super) fn new(output: R, input: W, mask: Arc<Mask>, gate: Arc<Gate>) -> Self {
        let input = Arc::new(Mutex::new(Some(input)));
        Self { input, output: BufReader::with_capacity(READ_BYTES, output), line: Vec::new(), mask, gate }
    }

    /// Reads to the end of the line. `false` if no line will come.
    async fn read_line(&mut self) -> bool {
        loop {
            let Ok(available) = self.output.fill_buf().await else { return false };
            if available.is_empty() {
                return false;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let (text, taken) = match end {
                Some(end) => (&available[..end], end + 1),
                None => (available, available.len()),
            };
            if self.line.len() + text.len() > limits::MCP_MESSAGE_MAX_BYTES {
                self.gate.end(format!("it sent a line of more than {} bytes", limits::MCP_MESSAGE_MAX_BYTES));
                return false;
            }
            self.line.extend_from_slice(text);
            self.output.consume(taken);
            self.gate.count(0, taken);
            if end.is_some() {
                return true;
            }
        }
    }

    /// The message of the line, if it is one.
    fn message(&mut self) -> Option<ServerJsonRpcMessage> {
        let line = std::mem::take(&mut self.line);
        if has_too_many_values(&line) {
            self.gate
                .end(format!("it sent a message of more than {} values", limits::MCP_MESSAGE_VALUES_MAX));
            return None;
        }
        let text = self.mask.hide(String::from_utf8_lossy(&line).into_owned());
        match serde_json::from_str(text.trim()) {
            Ok(message) => Some(message),
            Err(_) => {
                // Many servers print to their standard output; only a flood of it is an error.
                self.gate.count(1, 0);
                None
            }
        }
    }
}

impl<R, W> Transport<RoleClient> for Lines<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (input, gate) = (Arc::clone(&self.input), Arc::clone(&self.gate));
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let Some(pipe) = input.as_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
            let writing = async {
                pipe.write_all(&line).await?;
                pipe.flush().await
            };
            match timeout(Duration::from_millis(limits::MCP_WRITE_MS), writing).await {
                Ok(written) => written,
                Err(_) => {
                    // Half a line may be written: nothing can follow it.
                    *input = None;
                    gate.end("it does not read what it is sent");
                    Err(io::ErrorKind::TimedOut.into())
                }
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        while self.gate.end_reason().is_none() && self.read_line().await {
            if let Some(message) = self.message() {
                return Some(message);
            }
        }
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        self.input.lock().await.take();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::SecretValue;

    async fn received(sent: &'static [u8]) -> (Vec<String>, Option<String>) {
        let (mut server, client) = tokio::io::duplex(4096);
        let gate = Gate::new("x");
        let mask = Mask::of([("key", &SecretValue::new("canary-123"))].into_iter());
        let (output, input) = tokio::io::split(client);
        let mut lines = Lines::new(output, input, Arc::new(mask), Arc::clone(&gate));
        let writing = tokio::spawn(async move {
            // The reader gives up before all is written if the line is too long.
            let _ = server.write_all(sent).await;
        });
        let mut found = Vec::new();
        while let Some(message) = lines.receive().await {
            found.push(serde_json::to_string(&message).unwrap());
        }
        drop(lines);
        writing.await.unwrap();
        (found, gate.end_reason())
    }

    #[tokio::test]
    async fn messages_are_found_among_other_lines_and_hold_no_secret() {
        let sent = b"starting\n\n\xff\xfe\n[]\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"canary-123\"}}\r\n{\"json";
        let (found, end) = received(sent).await;
        assert_eq!(found, [r#"{"jsonrpc":"2.0","id":1,"result":{"x":"[secret key]"}}"#]);
        assert_eq!(end, None);
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_read_up_to_the_limit() {
        let line: &'static [u8] = vec![b'x'; limits::MCP_MESSAGE_MAX_BYTES + 1].leak();
        let (found, end) = received(line).await;
        assert!(found.is_empty());
        assert!(end.unwrap().contains("more than 16777216 bytes"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_reads_nothing_is_given_up() {
        let (_server, client) = tokio::io::duplex(16);
        let gate = Gate::new("x");
        let (output, input) = tokio::io::split(client);
        let mut lines = Lines::new(output, input, Arc::new(Mask::default()), Arc::clone(&gate));
        let message = serde_json::from_str(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap();
        assert_eq!(lines.send(message).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(gate.end_reason().unwrap().contains("does not read"));
    }
}
