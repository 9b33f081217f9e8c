//! A thousand subscribers of one space: deliveries per CPU second of the server. The subscribers run in a
//! process of their own. The floor writes the same bytes to as many sockets, in turns with the server.
#![allow(clippy::print_stdout, reason = "the process of subscribers answers on its output")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::call::OutcomeStatus;
use agent::id::{CallId, CycleId, MessageId};
use agent::update::{Topic, Update};
use anyhow::{Context, Result, bail};
use models::model_book::{KeyRing, ModelBook, ModelConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::Bench;
use crate::measure::{Samples, own_cpu_us, process_cpu_us, short};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, Home};

/// The argument that makes this program the process of subscribers.
pub(crate) const CROWD_ARGUMENT: &str = "--subscribers";
/// Subscribers.
pub(crate) const CROWD: usize = 1_000;
/// Updates that each subscriber gets, one at a time.
const ROUNDS: usize = 200;
/// Turns of server and floor, so that other load on the machine affects both. Within a turn each works many
/// times in a row, as in a busy space.
const TURNS: usize = 5;
/// Drafts of the run with coalescing, and the time between two of them.
const DRAFTS: u64 = 2_000;
const PACE: Duration = Duration::from_micros(500);
/// Subscribers that connect at the same time. If a thousand connected at once, the memory of their requests
/// would be measured too.
pub(crate) const CONNECTING_AT_ONCE: usize = 16;
/// Longest wait for the process of subscribers.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let _in = threads.enter();
    let server = BenchServer::build(&dir.path().join("data"), |clock| {
        Arc::new(ModelBook::new(ModelConfig::named("demo"), KeyRing::default(), clock))
    })?;
    let home = threads.block_on(server.home("ada", server::config()))?;
    let (address, key) = threads.block_on(server.serve_api(&home))?;
    let mut crowd = Crowd::gather(address, &format!("/v1/spaces/{}/stream", home.space), &key, CROWD)?;
    let mut floor = SocketFloor::gather(frame(&home)?)?;
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for _ in 0..TURNS {
        for _ in 0..ROUNDS / TURNS {
            ours.push(round(&server, &home, &mut crowd)?);
        }
        for _ in 0..ROUNDS / TURNS {
            bare.push(floor.round()?);
        }
    }
    drop(floor);
    let gathered = drafts(&server, &home, &mut crowd)?;
    drop(crowd);
    threads.block_on(server.stop())?;
    let (each, floor) = (per_second(ours.median()), per_second(bare.median()));
    let note = format!(
        "{ROUNDS} updates of a tool to {CROWD} subscribers, one at a time, in {TURNS} turns with the floor, medians; us \
         of CPU for all: {} ({}); floor: a loop of writes of the same bytes, {} ({})",
        short(ours.median()),
        ours.spread(),
        short(bare.median()),
        bare.spread(),
    );
    let alone =
        Metric::new("stream.fanout", (each, "1/cpu s"), Floor::Ceiling(floor), Goal::RatioAtLeast(0.7), note);
    let note =
        format!("{DRAFTS} drafts, one every {} us, gathered for {CROWD} subscribers", PACE.as_micros());
    let together = Metric::new(
        "stream.fanout_drafts",
        (gathered, "1/cpu s"),
        Floor::Named(floor),
        Goal::RatioAtLeast(3.0),
        note,
    );
    Ok(vec![alone, together])
}

/// Deliveries per CPU second, from a round's CPU time in microseconds.
fn per_second(round: f64) -> f64 {
    CROWD as f64 / (round / 1e6)
}

fn done(home: &Home) -> Update {
    let (agent, cycle, call) = (home.agent, CycleId(Uuid::nil()), CallId("c0123456789abcdef01234567".into()));
    Update::ToolDone { agent, cycle, call, tool: "look".into(), status: OutcomeStatus::Ok, ms: Some(1) }
}

fn frame(home: &Home) -> Result<Vec<u8>> {
    Ok(format!("event: tool.done\ndata: {}\n\n", serde_json::to_string(&done(home))?).into_bytes())
}

/// CPU microseconds of the server for one update to all subscribers.
fn round(server: &BenchServer, home: &Home, crowd: &mut Crowd) -> Result<f64> {
    crowd.listen_for("event: tool.done")?;
    let before = process_cpu_us();
    server.publish(Topic::Space(home.space), done(home));
    crowd.wait_until_received()?;
    Ok(process_cpu_us() - before)
}

fn drafts(server: &BenchServer, home: &Home, crowd: &mut Crowd) -> Result<f64> {
    crowd.listen_for("!\",\"chars\"")?;
    let (space, agent, message) = (home.space, home.agent, MessageId(Uuid::from_u128(1)));
    let before = process_cpu_us();
    for n in 1..=DRAFTS {
        let delta = if n == DRAFTS { "wor!" } else { "word" }.to_owned();
        server.publish(Topic::Space(space), Update::Draft { space, message, agent, delta, chars: 4 * n });
        std::thread::sleep(PACE);
    }
    crowd.wait_until_received()?;
    Ok(CROWD as f64 * DRAFTS as f64 / ((process_cpu_us() - before) / 1e6))
}

/// The floor: a thread that writes the same bytes to as many sockets.
struct SocketFloor {
    crowd: Crowd,
    sockets: Vec<std::net::TcpStream>,
    frame: Vec<u8>,
}

impl SocketFloor {
    fn gather(frame: Vec<u8>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no loopback port")?;
        let address = listener.local_addr()?;
        let accepting = std::thread::spawn(move || -> Result<Vec<std::net::TcpStream>> {
            (0..CROWD)
                .map(|_| {
                    let (mut socket, _) = listener.accept()?;
                    socket.set_nodelay(true)?;
                    socket.write_all(b"event: snapshot\n\n")?;
                    Ok(socket)
                })
                .collect()
        });
        let crowd = Crowd::gather(address, "/", "none", CROWD)?;
        let sockets = accepting.join().map_err(|_| anyhow::anyhow!("the floor failed"))??;
        Ok(Self { crowd, sockets, frame })
    }

    /// CPU microseconds of one write to each socket.
    fn round(&mut self) -> Result<f64> {
        self.crowd.listen_for("event: tool.done")?;
        let before = own_cpu_us();
        for socket in &mut self.sockets {
            socket.write_all(&self.frame)?;
        }
        let used = own_cpu_us() - before;
        self.crowd.wait_until_received()?;
        Ok(used)
    }
}

/// Subscribers in a process of their own, which is killed when dropped.
pub(crate) struct Crowd {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Crowd {
    /// Connects all subscribers and waits until each has its snapshot.
    pub(crate) fn gather(address: SocketAddr, path: &str, key: &str, count: usize) -> Result<Self> {
        let me = std::env::current_exe().context("this program cannot be found")?;
        let mut command = Command::new(me);
        command.args([CROWD_ARGUMENT, &address.to_string(), path, key, &count.to_string()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the process of subscribers cannot be started")?;
        let input = child.stdin.take().context("the process has no input")?;
        let output = BufReader::new(child.stdout.take().context("the process has no output")?);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // An error means that the measurement has ended.
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let crowd = Self { child, input, lines };
        crowd.expect("received")?;
        Ok(crowd)
    }

    fn listen_for(&mut self, what: &str) -> Result<()> {
        writeln!(self.input, "{what}")?;
        self.input.flush()?;
        self.expect("listening")
    }

    fn wait_until_received(&self) -> Result<()> {
        self.expect("received")
    }

    fn expect(&self, word: &str) -> Result<()> {
        let line = self.lines.recv_timeout(PATIENCE);
        let line =
            line.with_context(|| format!("the subscribers did not report `{word}` within {PATIENCE:?}"))?;
        if line != word {
            bail!("wanted `{word}` from the subscribers, got `{line}`");
        }
        Ok(())
    }
}

/// The bytes that the subscribers wait for, how often they changed, and how many subscribers still wait.
struct Wanted {
    what: Vec<u8>,
    turn: u64,
    left: usize,
}

/// Runs the process of subscribers with the arguments `ADDRESS PATH KEY COUNT`.
pub(crate) fn run_subscribers(arguments: &[String]) -> Result<()> {
    let [address, path, key, count] = arguments else { bail!("wanted ADDRESS PATH KEY COUNT") };
    let (address, count): (SocketAddr, usize) = (address.parse()?, count.parse()?);
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\r\n");
    let wanted = Arc::new(Mutex::new(Wanted { what: b"event: snapshot".to_vec(), turn: 0, left: count }));
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no threads")?;
    let wanted_of_input = Arc::clone(&wanted);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let mut wanted = wanted_of_input.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = wanted.turn + 1;
            *wanted = Wanted { what: line.into_bytes(), turn, left: count };
            println!("listening");
        }
        std::process::exit(0);
    });
    threads.block_on(async move {
        let mut tasks = tokio::task::JoinSet::new();
        let connecting = Arc::new(Semaphore::new(CONNECTING_AT_ONCE));
        for _ in 0..count {
            tasks.spawn(listen(address, head.clone(), Arc::clone(&wanted), Arc::clone(&connecting)));
        }
        match tasks.join_next().await {
            Some(ended) => ended?,
            None => Ok(()),
        }
    })
}

async fn listen(
    address: SocketAddr,
    head: String,
    wanted: Arc<Mutex<Wanted>>,
    connecting: Arc<Semaphore>,
) -> Result<()> {
    // Held until the snapshot has arrived.
    let mut permit = Some(connecting.acquire_owned().await?);
    let mut socket = tokio::net::TcpStream::connect(address).await?;
    socket.write_all(head.as_bytes()).await?;
    let (mut seen, mut received) = (Vec::new(), None);
    let mut buffer = [0; 4096];
    loop {
        let read = socket.read(&mut buffer).await?;
        if read == 0 {
            bail!("a stream ended");
        }
        let mut wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend_from_slice(&buffer[..read]);
        if received != Some(wanted.turn)
            && seen.windows(wanted.what.len()).any(|window| window == wanted.what)
        {
            received = Some(wanted.turn);
            drop(permit.take());
            wanted.left -= 1;
            if wanted.left == 0 {
                println!("received");
            }
            seen.clear();
        }
        // The end is kept, because the searched bytes may be split between two reads. They are short.
        let kept = seen.len().saturating_sub(64);
        seen.drain(..kept);
    }
}
