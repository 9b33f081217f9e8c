//! How long an urgent message takes to stop a generation: from the commit of its accept until the model
//! sees its connection closed.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use agent::config::AgentConfig;
use agent::port::Accepted;
use anyhow::{Context, Result, bail};
use models::model_book::{KeyRing, ModelBook, ModelConfig};
use serde_json::json;

use crate::Bench;
use crate::floor::BareWake;
use crate::machine::Disk;
use crate::measure::{Samples, us};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, CycleListener, Home};
use crate::talk::read_message;

/// Interruptions before the first counted one, and counted interruptions.
const WARM_UP: usize = 20;
const SAMPLES: usize = 300;
/// Frames of the log that one accept writes.
const FRAMES: usize = 9;
/// Longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause between the model's first text and the urgent message; the opening is committed by then.
const PAUSE: Duration = Duration::from_millis(5);
/// Goal of the p99, in microseconds.
const GOAL_US: f64 = 5_000.0;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let model = Endless::start()?;
    let base_url = Some(format!("http://{}/v1", model.address));
    let _in = threads.enter();
    let server = BenchServer::build(&dir.path().join("data"), |clock| {
        let model = ModelConfig { base_url, ..ModelConfig::named("openai-compatible/stub") };
        Arc::new(ModelBook::new(model, KeyRing::default(), clock))
    })?;
    let config: AgentConfig = serde_json::from_value(json!({"awareness": "interrupt"}))?;
    let home = threads.block_on(server.home("ada", config))?;
    let mut listener = server.listen(home.agent);
    let mut disk = Disk::open(dir.path())?;
    let mut floor = BareWake::start(&threads, "{}")?;
    let (mut latencies, mut floors) = (Samples::default(), Samples::default());
    for n in 0..WARM_UP + SAMPLES {
        let latency = threads.block_on(interrupted(&server, &home, &model, &mut listener))?;
        let bare = floor.round_trip()? + disk.fsync(FRAMES)?;
        if n >= WARM_UP {
            latencies.push(latency);
            floors.push(bare);
        }
    }
    threads.block_on(server.stop())?;
    let note = format!(
        "p99, from the commit of the urgent message's accept to the end of the connection at the model ({}, p50 \
         {:.0}); floor: p99 of a round trip over the loopback and an fsync",
        latencies.spread(),
        latencies.median(),
    );
    let value = (latencies.quantile(0.99), "us");
    Ok(vec![Metric::new(
        "stream.interrupt",
        value,
        Floor::Named(floors.quantile(0.99)),
        Goal::ValueBelow(GOAL_US),
        note,
    )])
}

/// Runs a cycle that is interrupted once; returns the latency in microseconds.
async fn interrupted(
    server: &BenchServer,
    home: &Home,
    model: &Endless,
    listener: &mut CycleListener,
) -> Result<f64> {
    model.endless.store(true, Ordering::Release);
    server.post(home, "Tell me everything.").await?;
    model.begun.recv_timeout(PATIENCE).context("the model was not asked")?;
    model.endless.store(false, Ordering::Release);
    tokio::time::sleep(PAUSE).await;
    let mut message = server.message(home, "Stop.");
    message.urgent = true;
    let accepted = server.accept(message).await?;
    let committed = Instant::now();
    let Accepted::Fresh { wake, .. } = accepted else { bail!("wanted a fresh message, got {accepted:?}") };
    server.signal(&wake);
    let dropped = model.dropped.recv_timeout(PATIENCE).context("the generation was not dropped")?;
    listener.ended().await?;
    Ok(us(dropped.saturating_duration_since(committed)))
}

/// A model whose answer does not end while `endless` is set.
struct Endless {
    address: SocketAddr,
    endless: Arc<AtomicBool>,
    /// An endless answer has begun.
    begun: Receiver<()>,
    /// The connection of an endless answer ended.
    dropped: Receiver<Instant>,
}

impl Endless {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no loopback port")?;
        let address = listener.local_addr().context("a socket without an address")?;
        let endless = Arc::<AtomicBool>::default();
        let ((begin, begun), (drop, dropped)) = (channel(), channel());
        let asked = Arc::clone(&endless);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, begin, drop) = (Arc::clone(&asked), begin.clone(), drop.clone());
                // If the connection breaks in another latency, `dropped` gets nothing.
                std::thread::spawn(move || answer(stream, &asked, &begin, &drop));
            }
        });
        Ok(Self { address, endless, begun, dropped })
    }
}

fn answer(
    mut stream: TcpStream,
    endless: &AtomicBool,
    begin: &Sender<()>,
    drop: &Sender<Instant>,
) -> Result<()> {
    stream.set_nodelay(true)?;
    read_message(&mut BufReader::new(stream.try_clone()?))?;
    let chunk = |reason| {
        let choices =
            json!([{"index": 0, "delta": {"role": "assistant", "content": "Well"}, "finish_reason": reason}]);
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices});
        format!("data: {chunk}\n\n")
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    if !endless.load(Ordering::Acquire) {
        let whole = format!("{head}{}data: [DONE]\n\n", chunk(Some("stop")));
        return Ok(stream.write_all(whole.as_bytes())?);
    }
    stream.write_all(format!("{head}{}", chunk(None)).as_bytes())?;
    begin.send(())?;
    // The client sends nothing more, so this returns when it disconnects.
    let _ = stream.read(&mut [0]);
    Ok(drop.send(Instant::now())?)
}
