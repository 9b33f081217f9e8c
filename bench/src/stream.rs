//! A delta from the model's socket to the subscriber's: its latency compared with a bare relay, and its CPU
//! compared with parsing and encoding it.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use agent::id::{AgentId, MessageId, SpaceId};
use agent::port::Piece;
use agent::update::Update;
use anyhow::{Context, Result, bail};
use models::model_book::{KeyRing, ModelBook, ModelConfig};
use models::wire::openai_chat::{Dialect, OpenAiChat, ToolMode};
use models::wire::{EventFeed, Wire};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::Bench;
use crate::measure::{Samples, own_cpu_us, process_cpu_us, short, us};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer};
use crate::talk::read_message;

/// Turns of the server and its floor, so that other load on the machine affects both. The medians of all
/// turns are reported.
const TURNS: usize = 5;
/// Timed deltas of a turn, one at a time.
const TIMED: usize = 200;
/// The time between two of them.
const PACE: Duration = Duration::from_millis(2);
/// Deltas of the run at full speed.
const MANY: usize = 12_000;
/// Longest wait for a whole reply and its deltas.
const PATIENCE: Duration = Duration::from_secs(60);
/// The text of one delta.
const WORD: &str = "word";

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let (mut latencies, mut relayed) = (Samples::default(), Samples::default());
    let (mut paced_cpu, mut cpu, mut floor) = (Samples::default(), Samples::default(), Samples::default());
    for turn in 0..TURNS {
        let paced = run(&threads, &dir.path().join(format!("paced-{turn}")), TIMED, PACE)?;
        latencies.extend(&paced.latencies);
        paced_cpu.push(paced.cpu_us);
        relayed.extend(&relay(&threads, TIMED, PACE)?);
        cpu.push(run(&threads, &dir.path().join(format!("fast-{turn}")), MANY, Duration::ZERO)?.cpu_us);
        floor.push(parse_and_encode()?);
    }
    let note = format!(
        "{TURNS} turns of {TIMED} deltas of a `send_message` text, one every {} ms, from the write at the model's \
         socket to the read at the subscriber's ({}); floor: a relay on the same threads, turn by turn ({})",
        PACE.as_millis(),
        latencies.spread(),
        relayed.spread(),
    );
    let middle = (latencies.median(), "us");
    let middle =
        Metric::new("stream.delta", middle, Floor::Bound(relayed.median()), Goal::RatioAtMost(2.0), note);
    let goal = Goal::ValueAtMost(relayed.quantile(0.99) + 500.0);
    let note = "the same, p99; goal: the relay's p99 plus half a millisecond".to_owned();
    let tail = (latencies.quantile(0.99), "us");
    let tail = Metric::new("stream.delta_p99", tail, Floor::Named(relayed.quantile(0.99)), goal, note);
    let note = format!(
        "CPU of the whole server per delta, {TURNS} turns of {MANY} at full speed ({}); one at a time, \
         with a wake-up of every involved thread, {} us; floor: decoding its event and encoding its draft ({})",
        cpu.spread(),
        short(paced_cpu.median()),
        floor.spread(),
    );
    let cpu = Metric::new(
        "stream.cpu",
        (cpu.median(), "us"),
        Floor::Bound(floor.median()),
        Goal::RatioAtMost(3.0),
        note,
    );
    Ok(vec![middle, tail, cpu])
}

struct RunResult {
    /// The latency of each delta, in microseconds.
    latencies: Samples,
    /// CPU of the server per delta, in microseconds.
    cpu_us: f64,
}

/// Runs one cycle whose reply has so many deltas.
fn run(threads: &Runtime, dir: &std::path::Path, deltas: usize, pace: Duration) -> Result<RunResult> {
    let model = Model::start(deltas, pace)?;
    let base_url = Some(format!("http://{}/v1", model.address));
    let _in = threads.enter();
    let server = BenchServer::build(dir, |clock| {
        let model = ModelConfig { base_url, ..ModelConfig::named("openai-compatible/stub") };
        Arc::new(ModelBook::new(model, KeyRing::default(), clock))
    })?;
    let home = threads.block_on(server.home("ada", server::config()))?;
    let (address, key) = threads.block_on(server.serve_api(&home))?;
    let mut listener = server.listen(home.agent);
    let path = format!("/v1/spaces/{}/stream", home.space);
    let mut socket = subscribe(address, &path, &key)?;
    let watcher = std::thread::spawn(move || watch(&mut socket, deltas));
    let before = process_cpu_us();
    threads.block_on(server.post(&home, "Tell me everything."))?;
    let (arrived, own) = watcher.join().map_err(|_| anyhow::anyhow!("the subscriber failed"))??;
    let (sent, stubs) = model.sent()?;
    let cpu_us = (process_cpu_us() - before - own - stubs) / deltas as f64;
    threads.block_on(listener.ended())?;
    threads.block_on(server.stop())?;
    let latencies =
        sent.iter().zip(&arrived).map(|(sent, came)| us(came.saturating_duration_since(*sent))).collect();
    Ok(RunResult { latencies, cpu_us })
}

/// Subscribes to a stream and reads its snapshot.
fn subscribe(address: SocketAddr, path: &str, key: &str) -> Result<TcpStream> {
    let mut socket = TcpStream::connect(address).context("the server cannot be reached")?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\r\n");
    socket.write_all(head.as_bytes())?;
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !contains(&seen, b"event: snapshot") {
        let read = socket.read(&mut buffer)?;
        if read == 0 {
            bail!("the stream ended: {}", String::from_utf8_lossy(&seen));
        }
        seen.extend_from_slice(&buffer[..read]);
    }
    Ok(socket)
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window == what)
}

/// Reads the stream; returns when each delta arrived and the CPU of this thread.
fn watch(socket: &mut TcpStream, deltas: usize) -> Result<(Vec<Instant>, f64)> {
    let mut arrived = Vec::with_capacity(deltas);
    let (mut text, mut buffer) = (String::new(), vec![0; 1 << 16]);
    let began = Instant::now();
    // A slow subscriber may miss drafts, but not the message that replaces them. The person's message
    // is shorter, so it is not mistaken for the reply.
    let whole_text = WORD.repeat(deltas);
    while arrived.len() < deltas {
        let read = socket.read(&mut buffer).context("no delta arrived")?;
        let now = Instant::now();
        // Heartbeats arrive even if the deltas do not, so `read` does not time out.
        if now - began > PATIENCE {
            bail!("wanted {deltas} deltas within {} s, got {}", PATIENCE.as_secs(), arrived.len());
        }
        if read == 0 {
            bail!("the stream ended after {} deltas", arrived.len());
        }
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        // Only complete events are read; the rest stays in the buffer.
        let whole = text.rfind("\n\n").map_or(0, |end| end + 2);
        for (at, key) in text[..whole].match_indices("\"chars\":") {
            let digits = text[at + key.len()..whole].split(|c: char| !c.is_ascii_digit()).next();
            let chars: usize = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
            arrived.resize((chars / WORD.len()).max(arrived.len()), now);
        }
        let said = text[..whole].split("\n\n").filter(|event| event.contains("event: message\n"));
        if said.into_iter().any(|event| event.contains(&whole_text)) {
            arrived.resize(deltas, now);
        }
        text.drain(..whole);
    }
    Ok((arrived, own_cpu_us()))
}

/// A model that streams one long message and then answers shortly.
struct Model {
    address: SocketAddr,
    sent: Receiver<(Vec<Instant>, f64)>,
}

impl Model {
    fn start(deltas: usize, pace: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no loopback port")?;
        let address = listener.local_addr().context("a socket without an address")?;
        let (sender, sent) = channel();
        let first = Arc::new(Mutex::new(Some(sender)));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let first = Arc::clone(&first);
                std::thread::spawn(move || -> Result<()> {
                    stream.set_nodelay(true)?;
                    read_message(&mut BufReader::new(stream.try_clone()?))?;
                    stream.write_all(
                        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
                    )?;
                    let sender = first.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let Some(sender) = sender else {
                        let end = chunk(&json!({"content": "Said."}), Some("stop"));
                        return Ok(stream.write_all(format!("{end}data: [DONE]\n\n").as_bytes())?);
                    };
                    let sent = send_deltas(&mut stream, deltas, pace)?;
                    Ok(sender.send((sent, own_cpu_us()))?)
                });
            }
        });
        Ok(Self { address, sent })
    }

    /// When each delta was written, and the CPU of the writing thread.
    fn sent(&self) -> Result<(Vec<Instant>, f64)> {
        self.sent.recv_timeout(PATIENCE).context("the model was not asked")
    }
}

fn send_deltas(stream: &mut TcpStream, deltas: usize, pace: Duration) -> Result<Vec<Instant>> {
    let function = json!({"name": "send_message", "arguments": "{\"text\":\""});
    let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
    stream.write_all(chunk(&json!({"role": "assistant", "tool_calls": [call]}), None).as_bytes())?;
    let word = word();
    let mut sent = Vec::with_capacity(deltas);
    if pace.is_zero() {
        sent.resize(deltas, Instant::now());
        stream.write_all(word.repeat(deltas).as_bytes())?;
    } else {
        for _ in 0..deltas {
            std::thread::sleep(pace);
            sent.push(Instant::now());
            stream.write_all(word.as_bytes())?;
        }
    }
    let end = json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"}"}}]});
    let end = format!("{}{}data: [DONE]\n\n", chunk(&end, None), chunk(&json!({}), Some("tool_calls")));
    stream.write_all(end.as_bytes())?;
    Ok(sent)
}

fn word() -> String {
    chunk(&json!({"tool_calls": [{"index": 0, "function": {"arguments": WORD}}]}), None)
}

fn chunk(delta: &Value, reason: Option<&str>) -> String {
    let choices = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
    let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices});
    format!("data: {chunk}\n\n")
}

/// The floor: sends the same bytes at the same pace through a task that copies them.
fn relay(threads: &Runtime, deltas: usize, pace: Duration) -> Result<Samples> {
    // Two listeners, since two connections to one may be accepted in any order.
    let listen = || threads.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
    let (here, there) = (listen()?, listen()?);
    let (from, to) = (here.local_addr()?, there.local_addr()?);
    threads.spawn(async move {
        let (mut from, _) = here.accept().await?;
        let (mut to, _) = there.accept().await?;
        to.set_nodelay(true)?;
        tokio::io::copy(&mut from, &mut to).await
    });
    let mut model = TcpStream::connect(from)?;
    model.set_nodelay(true)?;
    let mut socket = TcpStream::connect(to)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let word = word();
    let length = word.len();
    let watcher = std::thread::spawn(move || -> Result<Vec<Instant>> {
        let (mut arrived, mut bytes, mut buffer) = (Vec::new(), 0, vec![0; 1 << 16]);
        while arrived.len() < deltas {
            let read = socket.read(&mut buffer).context("nothing arrived through the relay")?;
            if read == 0 {
                bail!("the relay ended after {bytes} bytes");
            }
            bytes += read;
            let now = Instant::now();
            arrived.resize((bytes / length).max(arrived.len()), now);
        }
        Ok(arrived)
    });
    let mut sent = Vec::new();
    for _ in 0..deltas {
        std::thread::sleep(pace);
        sent.push(Instant::now());
        model.write_all(word.as_bytes())?;
    }
    let arrived = watcher.join().map_err(|_| anyhow::anyhow!("the subscriber failed"))??;
    Ok(sent.iter().zip(&arrived).map(|(sent, came)| us(came.saturating_duration_since(*sent))).collect())
}

/// CPU microseconds of decoding one event and encoding one draft.
fn parse_and_encode() -> Result<f64> {
    let wire = OpenAiChat::new("m", 1_000, ToolMode::Native, Dialect::OPENAI);
    let mut feed = EventFeed::new(wire.decoder());
    let function = json!({"name": "send_message", "arguments": ""});
    let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
    feed.bytes(chunk(&json!({"tool_calls": [call]}), None).as_bytes())?;
    let (space, message, agent) = (SpaceId(Uuid::nil()), MessageId(Uuid::nil()), AgentId(Uuid::nil()));
    let (word, mut chars, mut bytes) = (word(), 0, 0);
    let before = own_cpu_us();
    for _ in 0..MANY {
        for piece in feed.bytes(word.as_bytes())? {
            let Piece::Delta { text: delta, .. } = piece else { continue };
            chars += delta.len() as u64;
            let update = Update::Draft { space, message, agent, delta, chars };
            bytes += serde_json::to_vec(&update)?.len();
        }
    }
    let used = own_cpu_us() - before;
    if bytes == 0 {
        bail!("nothing was decoded");
    }
    Ok(used / MANY as f64)
}
