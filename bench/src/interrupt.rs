//! How long an urgent word takes to stop a generation: from its accept committed to the model's
//! connection dropped, as the model sees it.

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
use crate::floor::Floor;
use crate::machine::Disk;
use crate::measure::{Samples, us};
use crate::report::{Goal, Metric};
use crate::server::{self, BenchServer, Ears, Home};
use crate::talk::read_message;

/// Interruptions before the first that counts, and those that count.
const WARM_UP: usize = 20;
const SAMPLES: usize = 300;
/// Frames of the log that one accept writes.
const FRAMES: usize = 9;
/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_secs(20);
/// From the model's first word to the urgent one: the opening is committed by then.
const PAUSE: Duration = Duration::from_millis(5);
/// Longest way of 99 in 100, in microseconds.
const GOAL_US: f64 = 5_000.0;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let model = Endless::start()?;
    let base_url = Some(format!("http://{}/v1", model.address));
    let _in = threads.enter();
    let house = BenchServer::build(&dir.path().join("data"), |clock| {
        let model = ModelConfig { base_url, ..ModelConfig::named("openai-compatible/stub") };
        Arc::new(ModelBook::new(model, KeyRing::default(), clock))
    })?;
    let config: AgentConfig = serde_json::from_value(json!({"awareness": "interrupt"}))?;
    let home = threads.block_on(house.home("ada", config))?;
    let mut ears = house.listen(home.agent);
    let mut disk = Disk::open(dir.path())?;
    let mut floor = Floor::start(&threads, "{}")?;
    let (mut ways, mut floors) = (Samples::default(), Samples::default());
    for n in 0..WARM_UP + SAMPLES {
        let way = threads.block_on(interrupted(&house, &home, &model, &mut ears))?;
        let bare = floor.round_trip()? + disk.fsync(FRAMES)?;
        if n >= WARM_UP {
            ways.push(way);
            floors.push(bare);
        }
    }
    threads.block_on(house.stop())?;
    let note = format!(
        "99 of 100, from the urgent message's accept committed to the end of the connection at the model ({}, p50 \
         {:.0}); floor: 99 of 100 of a round trip over the loopback and an fsync",
        ways.spread(),
        ways.median(),
    );
    let value = (ways.quantile(0.99), "us");
    Ok(vec![Metric::new("stream.interrupt", value, floors.quantile(0.99), Goal::ValueBelow(GOAL_US), note)])
}

/// One cycle that is interrupted once, in microseconds.
async fn interrupted(house: &BenchServer, home: &Home, model: &Endless, ears: &mut Ears) -> Result<f64> {
    model.endless.store(true, Ordering::Release);
    house.say(home, "Tell me everything.").await?;
    model.begun.recv_timeout(PATIENCE).context("the model was not asked")?;
    model.endless.store(false, Ordering::Release);
    tokio::time::sleep(PAUSE).await;
    let mut message = house.message(home, "Stop.");
    message.urgent = true;
    let accepted = house.accept(message).await?;
    let committed = Instant::now();
    let Accepted::Fresh { wake, .. } = accepted else { bail!("wanted a fresh message, got {accepted:?}") };
    house.signal(&wake);
    let dropped = model.dropped.recv_timeout(PATIENCE).context("the generation was not dropped")?;
    ears.ended().await?;
    Ok(us(dropped.saturating_duration_since(committed)))
}

/// A model that begins to speak and does not stop, where it is told so.
struct Endless {
    address: SocketAddr,
    endless: Arc<AtomicBool>,
    /// It was asked, and has said its first word.
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
                // A connection that breaks otherwise shows as a drop that never comes.
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
    // It says nothing more: this returns when it hangs up, in peace or not.
    let _ = stream.read(&mut [0]);
    Ok(drop.send(Instant::now())?)
}
