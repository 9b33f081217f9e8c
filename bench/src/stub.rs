//! A model server on the loopback that notes the first byte of every request. Plain threads and
//! plain sockets: it must not share a scheduler with what is measured.

use std::collections::VecDeque;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::measure::process_cpu_us;
use crate::talk::read_message;

/// How long a request may let us wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is answered to one request.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    /// A text, and nothing else.
    Text(String),
    /// A call of this tool with these arguments.
    Call(&'static str, Value),
}

/// The first byte of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// When it was read.
    pub(crate) at: Instant,
    /// What the process had used by then, in microseconds.
    pub(crate) cpu_us: f64,
}

/// A running stub; its threads end with the process.
pub(crate) struct Stub {
    address: SocketAddr,
    script: Arc<Mutex<VecDeque<Say>>>,
    arrivals: Receiver<Arrival>,
}

impl Stub {
    /// Listens on a free port of the loopback; what is not scripted is answered by a short text.
    pub(crate) fn start() -> Result<Self> {
        Self::saying(Say::Text("Noted.".to_owned()))
    }

    /// The same, where this answers whatever is not scripted.
    pub(crate) fn saying(otherwise: Say) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no loopback port")?;
        let address = listener.local_addr().context("a socket without an address")?;
        let script = Arc::<Mutex<VecDeque<Say>>>::default();
        let (sender, arrivals) = channel();
        let (said, otherwise) = (Arc::clone(&script), Arc::new(otherwise));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (said, otherwise, sender) = (Arc::clone(&said), Arc::clone(&otherwise), sender.clone());
                // A connection that breaks shows as a request that never comes.
                std::thread::spawn(move || answer_all(stream, &said, &otherwise, &sender));
            }
        });
        Ok(Self { address, script, arrivals })
    }

    /// The base URL to give to a client.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What is answered to the next requests.
    pub(crate) fn script(&self, says: impl IntoIterator<Item = Say>) {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).extend(says);
    }

    /// The first byte of the next request.
    pub(crate) fn arrival(&self) -> Result<Arrival> {
        self.arrivals.recv_timeout(PATIENCE).context("no request came")
    }

    /// The same, if it comes within that time.
    pub(crate) fn arrival_within(&self, patience: Duration) -> Option<Arrival> {
        self.arrivals.recv_timeout(patience).ok()
    }
}

fn answer_all(
    stream: TcpStream,
    script: &Mutex<VecDeque<Say>>,
    otherwise: &Say,
    arrivals: &Sender<Arrival>,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut out = stream.try_clone()?;
    let mut first = [0u8; 1];
    let mut stream = stream;
    loop {
        // One byte alone: the clock is read before anything else is done with the request.
        stream.read_exact(&mut first)?;
        let arrival = Arrival { at: Instant::now(), cpu_us: process_cpu_us() };
        // A receiver that is gone means that the measuring is over.
        arrivals.send(arrival)?;
        read_message(&mut BufReader::with_capacity(1 << 16, &stream))?;
        let say = script.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        out.write_all(&answer(say.as_ref().unwrap_or(otherwise)))?;
    }
}

fn answer(say: &Say) -> Vec<u8> {
    let (delta, reason) = match say {
        Say::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
        Say::Call(tool, arguments) => {
            let function = json!({"name": tool, "arguments": arguments.to_string()});
            let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
            (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
        }
    };
    let chunk = |delta: Value, reason: Value| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices});
        format!("data: {chunk}\n\n")
    };
    let body = format!("{}{}data: [DONE]\n\n", chunk(delta, Value::Null), chunk(json!({}), json!(reason)));
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}
