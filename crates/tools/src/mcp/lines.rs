//! Messages as lines of a process: each is bounded, and secrets in it are hidden before anything else reads it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use futures_util::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::gate::Gate;
use super::reading::{is_message, messages, nonsense};
use crate::json::{self, Scan};
use crate::secret::Mask;

const READ_BYTES: usize = 64 * 1024;

/// The two ends of a process.
pub(super) struct Lines<R, W> {
    /// `None` once the connection is closed.
    input: Arc<Mutex<Option<W>>>,
    output: BufReader<R>,
    /// The beginning of a line; it stays here if a read is given up.
    line: Vec<u8>,
    /// A whole line from which secrets are being removed; it stays here, too.
    hiding: Option<BoxFuture<'static, String>>,
    /// The lines of a message that is not whole yet.
    begun: Begun,
    /// Messages that were read and not given out yet.
    heard: VecDeque<ServerJsonRpcMessage>,
    mask: Arc<Mask>,
    gate: Arc<Gate>,
}

/// The beginning of a message over several lines.
#[derive(Default)]
struct Begun {
    text: String,
    scan: Scan,
    /// How long it was when it was read last.
    read: usize,
}

impl Begun {
    /// Adds a line. Whether it is worth reading all of it again: for each line, that would take for ever.
    fn add(&mut self, line: &str) -> bool {
        for part in [line, "\n"] {
            self.text.push_str(part);
            self.scan.over(part.as_bytes());
        }
        let worth = self.scan.is_even() || self.text.len() >= 2 * self.read;
        if worth {
            self.read = self.text.len();
        }
        worth
    }
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    pub(super) fn new(output: R, input: W, mask: Arc<Mask>, gate: Arc<Gate>) -> Self {
        let input = Arc::new(Mutex::new(Some(input)));
        let output = BufReader::with_capacity(READ_BYTES, output);
        Self {
            input,
            output,
            line: Vec::new(),
            hiding: None,
            begun: Begun::default(),
            heard: VecDeque::new(),
            mask,
            gate,
        }
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

    /// Nothing reads the line before its secrets are hidden.
    fn hide(&mut self) {
        let line = std::mem::take(&mut self.line);
        if self.is_too_much(Scan::of(&line)) {
            return;
        }
        let (mask, text) = (Arc::clone(&self.mask), String::from_utf8_lossy(&line).into_owned());
        self.hiding = Some(Box::pin(async move { mask.hide_apart(text).await }));
    }

    /// What the line says. One that is not whole may be the beginning of a message over several lines.
    fn hear(&mut self, text: &str) {
        let whole = json::read(text.trim());
        match whole {
            Ok(value) if is_message(&value) => {
                self.give_up();
                self.heard.extend(messages(value, &self.gate));
            }
            Err(error)
                if !self.begun.text.is_empty()
                    || error.is_eof() && text.trim_start().starts_with(['{', '[']) =>
            {
                self.go_on(text);
            }
            Ok(_) if !self.begun.text.is_empty() => self.go_on(text),
            // Many servers print to their standard output; only a flood of it is an error.
            Ok(_) => self.gate.count(1, 0),
            Err(_) => self.nonsense(text),
        }
    }

    /// Adds a line to the message that has begun.
    fn go_on(&mut self, text: &str) {
        let worth_reading = self.begun.add(text);
        if self.begun.text.len() > limits::MCP_MESSAGE_MAX_BYTES {
            return self.give_up();
        }
        if self.is_too_much(self.begun.scan) {
            self.begun = Begun::default();
            return;
        }
        if !worth_reading {
            return;
        }
        match json::read(self.begun.text.trim()) {
            Ok(value) if is_message(&value) => {
                self.begun = Begun::default();
                self.heard.extend(messages(value, &self.gate));
            }
            Err(error) if error.is_eof() && !self.begun.scan.is_even() => {}
            _ => self.give_up(),
        }
    }

    /// What has begun is no message.
    fn give_up(&mut self) {
        let Begun { text, .. } = std::mem::take(&mut self.begun);
        if !text.is_empty() {
            self.nonsense(&text);
        }
    }

    fn nonsense(&mut self, text: &str) {
        self.gate.count(1, 0);
        self.heard.extend(nonsense(text, &self.gate));
    }

    fn is_too_much(&self, message: Scan) -> bool {
        let is_too_much = message.has_too_many_values();
        if is_too_much {
            let max = limits::JSON_VALUES_MAX;
            self.gate.end(format!("it sent a message of more than {max} values"));
        }
        is_too_much
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
        loop {
            if let Some(message) = self.heard.pop_front() {
                return Some(message);
            }
            if let Some(hiding) = &mut self.hiding {
                let text = hiding.await;
                self.hiding = None;
                self.hear(&text);
                continue;
            }
            if self.gate.end_reason().is_some() || !self.read_line().await {
                return None;
            }
            self.hide();
        }
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

    async fn received(sent: &[u8]) -> (Vec<String>, Option<String>) {
        let (mut server, client) = tokio::io::duplex(4096);
        let gate = Gate::new("x");
        let mask = Mask::of([("key", &SecretValue::new("canary-123"))].into_iter());
        let (output, input) = tokio::io::split(client);
        let mut lines = Lines::new(output, input, Arc::new(mask), Arc::clone(&gate));
        let sent = sent.to_vec();
        let writing = tokio::spawn(async move {
            // The reader gives up before all is written if the line is too long.
            let _ = server.write_all(&sent).await;
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
    async fn a_message_may_be_cut_go_over_lines_or_be_several() {
        let sent = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"\\ud83d\",\"y\":NaN}}\n\
            {\n  \"jsonrpc\": \"2.0\",\n  \"id\": 2,\n  \"result\": {\"x\": \"a\nb\"}\n}\n\
            [{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}},\n{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}]\n\
            [1,2\n{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}\n";
        let (found, end) = received(sent.as_bytes()).await;
        let ids: Vec<String> = found
            .iter()
            .map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap()["id"].to_string())
            .collect();
        assert_eq!(ids, ["1", "2", "3", "4", "5"], "{found:#?}");
        assert!(found[0].contains("\u{fffd}") && found[1].contains("a\\nb"), "{found:#?}");
        assert_eq!(end, None);
    }

    #[tokio::test]
    async fn a_message_over_many_lines_is_read_a_few_times_and_not_once_for_each() {
        let whole = "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n";
        for (first, line) in [
            ("{\"x\":[[", "],[0\n"),
            ("[", "1,\n"),
            ("{\"x\":[", "{\n},\n"),
            ("{\"x\":\"", "}\n"),
            ("[[", "]\n,[\n"),
            ("{", "\n"),
        ] {
            let sent = format!("{first}\n{}{whole}", line.repeat(30_000 / line.len()));
            let before = json::READ_BYTES.get();
            let (found, end) = received(sent.as_bytes()).await;
            let read = json::READ_BYTES.get() - before;
            assert!(read <= 8 * sent.len(), "{first}{line}: {read} bytes were read of {}", sent.len());
            assert_eq!((found.len(), end), (1, None), "{first}{line}");
        }
        let row = format!("{}\n", "0,".repeat(1_000));
        let rows = format!("{}0]", row.repeat(100));
        let (found, end) =
            received(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[\n{rows}}}\n").as_bytes()).await;
        assert_eq!((found.len(), end), (1, None));
        let (found, end) = received(format!("[\n{}", row.repeat(600)).as_bytes()).await;
        assert!(found.is_empty() && end.unwrap().contains("more than 500000 values"));
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
