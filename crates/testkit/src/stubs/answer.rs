//! What a stub answers: what is said, in no vendor's words, and how the bytes reach the client.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// One thing that is said.
#[derive(Clone, Debug)]
pub enum ReplyPiece {
    /// Text, in these pieces.
    Text(Vec<String>),
    /// Readable reasoning, in these pieces; signed by the stub where the vendor signs.
    Reasoning(Vec<String>),
    /// Reasoning that cannot be read.
    Redacted(String),
    /// A call: the vendor's id, the tool, the argument string in these pieces.
    Call {
        /// The vendor's id.
        id: String,
        /// The tool.
        name: String,
        /// The argument string.
        arguments: Vec<String>,
    },
    /// A block (Anthropic) or a field of the delta (OpenAI) that nobody knows, as it stands.
    Unknown(Value),
}

/// One answer to one request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) said: Vec<ReplyPiece>,
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
    /// A stream that says nothing and ends well.
    pub fn new() -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: None,
            said: Vec::new(),
            stop: None,
            usage: Value::Null,
            error: None,
            cut: None,
            chunk: usize::MAX,
            pace: None,
            hangs: false,
        }
    }

    /// An answer that is no stream: status and body as given.
    pub fn status(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: Some(body.into()), ..Self::new() }
    }

    /// A stream of these very bytes.
    pub fn raw(body: impl Into<Vec<u8>>) -> Self {
        Self { body: Some(body.into()), ..Self::new() }
    }

    /// A stream of these `data:` payloads, one per line.
    pub fn payloads(lines: &str) -> Self {
        let events =
            lines.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("data: {line}\n\n"));
        Self::raw(events.collect::<String>())
    }

    /// A header of the answer.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Says something.
    pub fn say(mut self, said: ReplyPiece) -> Self {
        self.said.push(said);
        self
    }

    /// Says a text in one piece.
    pub fn text(self, text: &str) -> Self {
        self.say(ReplyPiece::Text(vec![text.to_owned()]))
    }

    /// Reasons in one piece.
    pub fn reasoning(self, text: &str) -> Self {
        self.say(ReplyPiece::Reasoning(vec![text.to_owned()]))
    }

    /// Calls a tool, its argument string in pieces of `chunk` characters.
    pub fn call(self, id: &str, name: &str, arguments: &str, chunk: usize) -> Self {
        let chars: Vec<char> = arguments.chars().collect();
        let arguments = chars.chunks(chunk.max(1)).map(|piece| piece.iter().collect()).collect();
        self.say(ReplyPiece::Call { id: id.to_owned(), name: name.to_owned(), arguments })
    }

    /// The vendor's own word for why it stops, instead of the usual one.
    pub fn stop(mut self, reason: &str) -> Self {
        self.stop = Some(reason.to_owned());
        self
    }

    /// What it reports as used: tokens sent (cached ones included), cached, generated.
    pub fn usage(mut self, input: u64, cached: u64, output: u64) -> Self {
        self.usage = json!({"input": input, "cached": cached, "output": output});
        self
    }

    /// Says it all, then breaks off with an error of that type inside the stream.
    pub fn then_error(mut self, kind: &str, message: &str) -> Self {
        self.error = Some(json!({"type": kind, "message": message}));
        self
    }

    /// The connection breaks after so many bytes of the body.
    pub fn cut_at(mut self, bytes: usize) -> Self {
        self.cut = Some(bytes);
        self
    }

    /// The body comes in chunks of so many bytes.
    pub fn chunked(mut self, bytes: usize) -> Self {
        self.chunk = bytes.max(1);
        self
    }

    /// Each chunk waits for a permit: a slow drip without a clock.
    pub fn paced(mut self, permits: Arc<Semaphore>) -> Self {
        self.pace = Some(permits);
        self
    }

    /// Says it all, and neither stops nor ends.
    pub fn hangs(mut self) -> Self {
        self.hangs = true;
        self
    }
}
