//! A model server on the loopback that records the first byte of every request. It uses plain threads and
//! sockets, so that it does not share a scheduler with the measured server.

use std::collections::VecDeque;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::measure::process_cpu_us;
use crate::talk::read_message;

/// Longest wait for a request.
const PATIENCE: Duration = Duration::from_secs(20);

/// The answer to a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A text.
    Text(String),
    /// A call of this tool with these arguments.
    Call(&'static str, Value),
}

/// The first byte of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// When the byte was read.
    pub(crate) at: Instant,
    /// CPU time of the process at that moment, in microseconds.
    pub(crate) cpu_us: f64,
}

/// A running stub; its threads end with the process.
pub(crate) struct Stub {
    address: SocketAddr,
    script: Arc<Mutex<VecDeque<Answer>>>,
    arrivals: Receiver<Arrival>,
}

impl Stub {
    /// Starts a stub on a free loopback port. Requests without a scripted answer get a short text.
    pub(crate) fn start() -> Result<Self> {
        Self::with_default(Answer::Text("Noted.".to_owned()))
    }

    /// Starts a stub with this answer for requests without a scripted one.
    pub(crate) fn with_default(default: Answer) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no loopback port")?;
        let address = listener.local_addr().context("a socket without an address")?;
        let script = Arc::<Mutex<VecDeque<Answer>>>::default();
        let (sender, arrivals) = channel();
        let (scripted, default) = (Arc::clone(&script), Arc::new(default));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (scripted, default, sender) =
                    (Arc::clone(&scripted), Arc::clone(&default), sender.clone());
                // If a connection breaks, the request does not arrive and `arrival` fails.
                std::thread::spawn(move || answer_all(stream, &scripted, &default, &sender));
            }
        });
        Ok(Self { address, script, arrivals })
    }

    /// The base URL for clients.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds answers to the next requests.
    pub(crate) fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).extend(answers);
    }

    /// Waits for the next request, which `began` caused. Fails if one came before `began`: then something made more requests than
    /// the measurement knows of, and the clock of a wrong one would be taken.
    pub(crate) fn arrival(&self, began: Instant) -> Result<Arrival> {
        caused(began, self.arrivals.recv_timeout(PATIENCE).context("no request arrived")?)
    }

    /// The requests of a cycle that has ended: exactly so many, all of them caused by `began`.
    pub(crate) fn arrivals(&self, began: Instant, count: usize) -> Result<Vec<Arrival>> {
        let all =
            self.arrivals.try_iter().map(|arrival| caused(began, arrival)).collect::<Result<Vec<_>>>()?;
        if all.len() != count {
            bail!("wanted {count} requests of the cycle, got {}", all.len());
        }
        Ok(all)
    }

    /// The next request, whatever caused it, if one arrives within this time.
    pub(crate) fn any_within(&self, patience: Duration) -> Option<Arrival> {
        self.arrivals.recv_timeout(patience).ok()
    }
}

fn caused(began: Instant, arrival: Arrival) -> Result<Arrival> {
    let early = began.saturating_duration_since(arrival.at);
    if !early.is_zero() {
        bail!("a request came {} us before what is measured began", early.as_micros());
    }
    Ok(arrival)
}

fn answer_all(
    stream: TcpStream,
    script: &Mutex<VecDeque<Answer>>,
    default: &Answer,
    arrivals: &Sender<Arrival>,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut out = stream.try_clone()?;
    let mut first = [0u8; 1];
    let mut stream = stream;
    loop {
        // Reads one byte first, so that the clock is read before the request is processed.
        stream.read_exact(&mut first)?;
        let arrival = Arrival { at: Instant::now(), cpu_us: process_cpu_us() };
        // An error means that the measurement has ended.
        arrivals.send(arrival)?;
        read_message(&mut BufReader::with_capacity(1 << 16, &stream))?;
        let answer = script.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        out.write_all(&encode(answer.as_ref().unwrap_or(default)))?;
    }
}

fn encode(answer: &Answer) -> Vec<u8> {
    let (delta, reason) = match answer {
        Answer::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
        Answer::Call(tool, arguments) => {
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn ask(stub: &Stub) -> TcpStream {
        let mut socket = TcpStream::connect(stub.address).unwrap();
        socket.write_all(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n").unwrap();
        // The answer begins after the arrival was recorded.
        socket.read_exact(&mut [0]).unwrap();
        socket
    }

    #[test]
    fn a_request_that_came_before_the_measurement_is_never_taken_for_its_own() {
        let stub = Stub::start().unwrap();
        let _earlier = ask(&stub);
        let began = Instant::now();
        let _own = ask(&stub);
        assert!(stub.arrival(began).unwrap_err().to_string().contains("before what is measured began"));
        assert!(stub.arrival(began).unwrap().at >= began);
    }

    #[test]
    fn a_cycle_with_more_or_fewer_requests_than_its_steps_is_not_measured() {
        let stub = Stub::start().unwrap();
        let began = Instant::now();
        let _both = [ask(&stub), ask(&stub)];
        assert!(
            stub.arrivals(began, 1)
                .unwrap_err()
                .to_string()
                .contains("wanted 1 requests of the cycle, got 2")
        );
        assert!(stub.arrivals(began, 1).unwrap_err().to_string().contains("got 0"));
    }
}
