//! A thousand subscribers of one space: deliveries per CPU second of the server. They live in a
//! process of their own; the floor writes the same bytes to as many, turn by turn with the server.
#![allow(clippy::print_stdout, reason = "the crowd answers on its output")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::call::OutcomeStatus;
use agent::config::AgentConfig;
use agent::id::{CallId, CycleId, MessageId};
use agent::update::{Topic, Update};
use anyhow::{Context, Result, bail};
use models::model_book::{KeyRing, ModelBook, ModelConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::Bench;
use crate::measure::{Samples, own_cpu_us, process_cpu_us, short};
use crate::report::{Goal, Metric};
use crate::server::{self, BenchServer, Home};

/// Makes this program the crowd instead.
pub(crate) const CROWD_ARGUMENT: &str = "--be-the-crowd";
/// Subscribers.
pub(crate) const CROWD: usize = 1_000;
/// Updates that each is told, one at a time.
const ROUNDS: usize = 200;
/// Turns that server and floor take: whatever else the machine does falls on both, and each still does
/// its own work many times in a row, as a busy space does.
const TURNS: usize = 5;
/// Drafts of the run with coalescing, and the time between two.
const DRAFTS: u64 = 2_000;
const PACE: Duration = Duration::from_micros(500);
/// Subscribers that arrive at the same moment: they come one after another, as people do. What a
/// thousand requests in one instant need for that instant is not what subscribers weigh.
pub(crate) const AT_THE_DOOR: usize = 16;
/// Longest wait for the crowd.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let _in = threads.enter();
    let house = BenchServer::build(&dir.path().join("data"), |clock| {
        Arc::new(ModelBook::new(ModelConfig::named("demo"), KeyRing::default(), clock))
    })?;
    let home = threads.block_on(house.home("ada", AgentConfig::default()))?;
    let (address, key) = threads.block_on(house.open_doors(&home))?;
    let mut crowd = Crowd::gather(address, &format!("/v1/spaces/{}/stream", home.space), &key, CROWD)?;
    let mut floor = SocketFloor::gather(frame(&home)?)?;
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for _ in 0..TURNS {
        for _ in 0..ROUNDS / TURNS {
            ours.push(round(&house, &home, &mut crowd)?);
        }
        for _ in 0..ROUNDS / TURNS {
            bare.push(floor.round()?);
        }
    }
    drop(floor);
    let gathered = drafts(&house, &home, &mut crowd)?;
    drop(crowd);
    threads.block_on(house.stop())?;
    let (each, floor) = (per_second(ours.median()), per_second(bare.median()));
    let note = format!(
        "{ROUNDS} updates of a tool to {CROWD} subscribers, one at a time, in {TURNS} turns with the floor, medians; us \
         of CPU for all: {} ({}); floor: a loop of writes of the same bytes, {} ({})",
        short(ours.median()),
        ours.spread(),
        short(bare.median()),
        bare.spread(),
    );
    let alone = Metric::new("stream.fanout", (each, "1/cpu s"), floor, Goal::RatioAtLeast(0.7), note);
    let note =
        format!("{DRAFTS} drafts, one every {} us, gathered for {CROWD} subscribers", PACE.as_micros());
    let together =
        Metric::new("stream.fanout_drafts", (gathered, "1/cpu s"), floor, Goal::RatioAtLeast(3.0), note);
    Ok(vec![alone, together])
}

/// Deliveries per CPU second, of a round's CPU time in microseconds.
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

/// CPU microseconds that one update to all costs the server.
fn round(house: &BenchServer, home: &Home, crowd: &mut Crowd) -> Result<f64> {
    crowd.listen_for("event: tool.done")?;
    let before = process_cpu_us();
    house.publish(Topic::Space(home.space), done(home));
    crowd.all_heard()?;
    Ok(process_cpu_us() - before)
}

fn drafts(house: &BenchServer, home: &Home, crowd: &mut Crowd) -> Result<f64> {
    crowd.listen_for("!\",\"chars\"")?;
    let (space, agent, message) = (home.space, home.agent, MessageId(Uuid::from_u128(1)));
    let before = process_cpu_us();
    for n in 1..=DRAFTS {
        let delta = if n == DRAFTS { "wor!" } else { "word" }.to_owned();
        house.publish(Topic::Space(space), Update::Draft { space, message, agent, delta, chars: 4 * n });
        std::thread::sleep(PACE);
    }
    crowd.all_heard()?;
    Ok(CROWD as f64 * DRAFTS as f64 / ((process_cpu_us() - before) / 1e6))
}

/// The floor: one thread that writes the same bytes to as many sockets.
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
        let sockets = accepting.join().map_err(|_| anyhow::anyhow!("the floor broke"))??;
        Ok(Self { crowd, sockets, frame })
    }

    /// CPU microseconds of one write to each.
    fn round(&mut self) -> Result<f64> {
        self.crowd.listen_for("event: tool.done")?;
        let before = own_cpu_us();
        for socket in &mut self.sockets {
            socket.write_all(&self.frame)?;
        }
        let used = own_cpu_us() - before;
        self.crowd.all_heard()?;
        Ok(used)
    }
}

/// Subscribers in a process of their own, ended when dropped.
pub(crate) struct Crowd {
    child: Child,
    ask: ChildStdin,
    said: Receiver<String>,
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // Gone already, or gone now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Crowd {
    /// Connects them all and waits until each has its snapshot.
    pub(crate) fn gather(address: SocketAddr, path: &str, key: &str, count: usize) -> Result<Self> {
        let me = std::env::current_exe().context("this program cannot be found")?;
        let mut command = Command::new(me);
        command.args([CROWD_ARGUMENT, &address.to_string(), path, key, &count.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("no crowd")?;
        let ask = child.stdin.take().context("a process without input")?;
        let output = BufReader::new(child.stdout.take().context("a process without output")?);
        let (sender, said) = channel();
        std::thread::spawn(move || {
            // A receiver that is gone means that the measuring is over.
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let crowd = Self { child, ask, said };
        crowd.expect("heard")?;
        Ok(crowd)
    }

    fn listen_for(&mut self, what: &str) -> Result<()> {
        writeln!(self.ask, "{what}")?;
        self.ask.flush()?;
        self.expect("listening")
    }

    fn all_heard(&self) -> Result<()> {
        self.expect("heard")
    }

    fn expect(&self, word: &str) -> Result<()> {
        let line = self.said.recv_timeout(PATIENCE);
        let line = line.with_context(|| format!("the crowd did not say `{word}` in {PATIENCE:?}"))?;
        if line != word {
            bail!("wanted `{word}` of the crowd, got `{line}`");
        }
        Ok(())
    }
}

/// What the crowd listens for, how often that changed, and how many have not heard it.
struct Wanted {
    what: Vec<u8>,
    turn: u64,
    left: usize,
}

/// The crowd: `ADDRESS PATH KEY COUNT`.
pub(crate) fn be_the_crowd(arguments: &[String]) -> Result<()> {
    let [address, path, key, count] = arguments else { bail!("wanted ADDRESS PATH KEY COUNT") };
    let (address, count): (SocketAddr, usize) = (address.parse()?, count.parse()?);
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\r\n");
    let wanted = Arc::new(Mutex::new(Wanted { what: b"event: snapshot".to_vec(), turn: 0, left: count }));
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no threads")?;
    let hearing = Arc::clone(&wanted);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let mut wanted = hearing.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = wanted.turn + 1;
            *wanted = Wanted { what: line.into_bytes(), turn, left: count };
            println!("listening");
        }
        std::process::exit(0);
    });
    threads.block_on(async move {
        let mut tasks = tokio::task::JoinSet::new();
        let door = Arc::new(Semaphore::new(AT_THE_DOOR));
        for _ in 0..count {
            tasks.spawn(listen(address, head.clone(), Arc::clone(&wanted), Arc::clone(&door)));
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
    door: Arc<Semaphore>,
) -> Result<()> {
    // Held until the snapshot is there.
    let mut at_the_door = Some(door.acquire_owned().await?);
    let mut socket = tokio::net::TcpStream::connect(address).await?;
    socket.write_all(head.as_bytes()).await?;
    let (mut seen, mut heard) = (Vec::new(), None);
    let mut buffer = [0; 4096];
    loop {
        let read = socket.read(&mut buffer).await?;
        if read == 0 {
            bail!("a stream ended");
        }
        let mut wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend_from_slice(&buffer[..read]);
        if heard != Some(wanted.turn) && seen.windows(wanted.what.len()).any(|window| window == wanted.what) {
            heard = Some(wanted.turn);
            drop(at_the_door.take());
            wanted.left -= 1;
            if wanted.left == 0 {
                println!("heard");
            }
            seen.clear();
        }
        // What is looked for may be cut, and is short.
        let kept = seen.len().saturating_sub(64);
        seen.drain(..kept);
    }
}
