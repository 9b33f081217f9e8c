//! An answer of a stub: its content, independent of a vendor, and how its bytes reach the client.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// One piece of a reply.
#[derive(Clone, Debug)]
pub enum ReplyPiece {
    /// Text, streamed in these pieces.
    Text(Vec<String>),
    /// Readable reasoning, streamed in these pieces. The stub signs it if the vendor does.
    Reasoning(Vec<String>),
    /// Unreadable reasoning.
    Redacted(String),
    /// A tool call.
    Call {
        /// The vendor's id.
        id: String,
        /// The tool.
        name: String,
        /// The argument string, streamed in these pieces.
        arguments: Vec<String>,
    },
    /// An unknown block (Anthropic) or an unknown field of the delta (OpenAI), sent unchanged.
    Unknown(Value),
}

/// One answer to one request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) pieces: Vec<ReplyPiece>,
    pub(super) stop: Option<String>,
    pub(super) usage: Value,
    pub(super) error: Option<Value>,
    pub(super) cut: Option<usize>,
    pub(super) chunk: usize,
    pub(super) pace: Option<Arc<Semaphore>>,
    pub(super) hangs: bool,
}

impl Default for Answer {
    fn default() -> Self {
        Self::new()
    }
}

impl Answer {
    /// An empty stream that ends normally.
    pub fn new() -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: None,
            pieces: Vec::new(),
            stop: None,
            usage: Value::Null,
            error: None,
            cut: None,
            chunk: usize::MAX,
            pace: None,
            hangs: false,
        }
    }

    /// An answer without a stream: a status and a body.
    pub fn status(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: Some(body.into()), ..Self::new() }
    }

    /// A stream of exactly these bytes.
    pub fn raw(body: impl Into<Vec<u8>>) -> Self {
        Self { body: Some(body.into()), ..Self::new() }
    }

    /// A stream of these `data:` payloads, one per line.
    pub fn payloads(lines: &str) -> Self {
        let events =
            lines.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("data: {line}\n\n"));
        Self::raw(events.collect::<String>())
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a piece to the reply.
    pub fn say(mut self, piece: ReplyPiece) -> Self {
        self.pieces.push(piece);
        self
    }

    /// Adds a text in one piece.
    pub fn text(self, text: &str) -> Self {
        self.say(ReplyPiece::Text(vec![text.to_owned()]))
    }

    /// Adds reasoning in one piece.
    pub fn reasoning(self, text: &str) -> Self {
        self.say(ReplyPiece::Reasoning(vec![text.to_owned()]))
    }

    /// Adds a tool call. Its argument string is streamed in pieces of `chunk` characters.
    pub fn call(self, id: &str, name: &str, arguments: &str, chunk: usize) -> Self {
        let chars: Vec<char> = arguments.chars().collect();
        let arguments = chars.chunks(chunk.max(1)).map(|piece| piece.iter().collect()).collect();
        self.say(ReplyPiece::Call { id: id.to_owned(), name: name.to_owned(), arguments })
    }

    /// Sets the stop reason, in the vendor's spelling, instead of the usual one.
    pub fn stop(mut self, reason: &str) -> Self {
        self.stop = Some(reason.to_owned());
        self
    }

    /// Sets the reported usage: input tokens (including cached ones), cached tokens, output tokens.
    pub fn usage(mut self, input: u64, cached: u64, output: u64) -> Self {
        self.usage = json!({"input": input, "cached": cached, "output": output});
        self
    }

    /// Sends the whole reply, then an error of this type inside the stream.
    pub fn then_error(mut self, kind: &str, message: &str) -> Self {
        self.error = Some(json!({"type": kind, "message": message}));
        self
    }

    /// Breaks the connection after this many bytes of the body.
    pub fn cut_at(mut self, bytes: usize) -> Self {
        self.cut = Some(bytes);
        self
    }

    /// Sends the body in chunks of this many bytes.
    pub fn chunked(mut self, bytes: usize) -> Self {
        self.chunk = bytes.max(1);
        self
    }

    /// Lets each chunk wait for a permit, so that a test controls the pace without a clock.
    pub fn paced(mut self, permits: Arc<Semaphore>) -> Self {
        self.pace = Some(permits);
        self
    }

    /// Sends the whole reply, but no stop reason, and never ends the stream.
    pub fn hangs(mut self) -> Self {
        self.hangs = true;
        self
    }
}
