//! Memory of `viv up` while 500 clients that never read watch a space in which large messages are posted, and after
//! they are gone. The floor is the same server without watchers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::Bench;
use crate::measure::short;
use crate::process::{self, Running};
use crate::report::{Floor, Goal, Metric};
use crate::talk::HttpConnection;

/// Clients that open a stream and never read again.
const WATCHERS: usize = 500;
/// Messages posted in their space, and bytes of each.
const MESSAGES: usize = 200;
const MESSAGE_BYTES: usize = 60_000;
/// Messages and streams before anything is measured.
const WARMING: usize = 20;
/// The memory that they may cost, in MiB.
const MOST: f64 = 64.0;
/// The time in which it must be free again after they close, and how much of it may remain, in MiB.
const RECOVERY: Duration = Duration::from_secs(30);
const REST: f64 = 16.0;
/// Time between two looks at the memory.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait for the beginning of a stream.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let viv = process::viv(bench)?;
    let (quiet, watched) = (bench.scratch()?, bench.scratch()?);
    let floor = memory(&process::up(&viv, quiet.path())?, 0)?;
    let ours = memory(&process::up(&viv, watched.path())?, WATCHERS)?;
    let note = format!(
        "anonymous memory of `viv up` above that before, highest of {MESSAGES} messages of {MESSAGE_BYTES} bytes to {WATCHERS} \
         streams that nobody reads; floor: the same without watchers"
    );
    let most = Metric::new(
        "stream.idle_watchers",
        (ours.most, "MiB"),
        Floor::Named(floor.most),
        Goal::ValueAtMost(MOST),
        note,
    );
    let note = format!(
        "the same after all have closed: no more than {} MiB above the floor after {} s, looked at for {} s; floor: the same \
         without watchers; goal: the floor plus {} MiB",
        short(REST),
        ours.after(floor.rest()).map_or("-".to_owned(), short),
        RECOVERY.as_secs(),
        short(REST)
    );
    let (rest, goal) = ((ours.rest(), "MiB"), Goal::ValueAtMost(floor.rest() + REST));
    let rest = Metric::new("stream.idle_watchers_after", rest, Floor::Residue(floor.rest()), goal, note);
    Ok(vec![most, rest])
}

struct Memory {
    /// The highest memory above that before, in MiB.
    most: f64,
    /// The memory above that before after all watchers were closed: after how many seconds, and how many MiB.
    closed: Vec<(f64, f64)>,
}

impl Memory {
    /// The lowest memory after the watchers were closed.
    fn rest(&self) -> f64 {
        self.closed.iter().map(|(_, used)| *used).fold(f64::MAX, f64::min)
    }

    /// After how many seconds it was no more than [`REST`] above that of the floor.
    fn after(&self, floor: f64) -> Option<f64> {
        self.closed.iter().find(|(_, used)| *used <= floor + REST).map(|(seconds, _)| *seconds)
    }
}

fn memory(viv: &Running, watchers: usize) -> Result<Memory> {
    let address = viv.ready_line["url"].as_str().and_then(|url| url.strip_prefix("http://"));
    let address: SocketAddr = address.context("the server did not report its address")?.parse()?;
    let key = viv.ready_line["admin_key"].as_str().context("the server did not report an admin key")?;
    let mut http = HttpConnection::open(address)?;
    let mut post = |path: &str, body: &str| -> Result<()> {
        http.send(&http.post(path, key, body))?;
        http.answer()
    };
    // No agent is a member, so that only the streams and the store work.
    post("/v1/entities", &json!({"handle": "poster"}).to_string())?;
    for name in ["warm", "watched"] {
        post("/v1/spaces", &json!({"handle": name, "members": ["poster"]}).to_string())?;
    }
    let message = json!({"text": "x".repeat(MESSAGE_BYTES), "sender": "poster"}).to_string();
    // What the first messages and streams allocate stays: connections to the store, their caches.
    drop(watch(address, key, "warm", WARMING)?);
    for _ in 0..WARMING {
        post("/v1/spaces/warm/messages", &message)?;
    }
    let own = || -> Result<f64> { Ok(viv.own_bytes()? / 1024.0 / 1024.0) };
    std::thread::sleep(process::IDLE);
    let before = own()?;
    let sockets = watch(address, key, "watched", watchers)?;
    let mut most = 0.0_f64;
    for _ in 0..MESSAGES {
        post("/v1/spaces/watched/messages", &message)?;
        most = most.max(own()? - before);
    }
    std::thread::sleep(process::IDLE);
    most = most.max(own()? - before);
    drop(sockets);
    let (began, mut closed) = (Instant::now(), Vec::new());
    while began.elapsed() < RECOVERY {
        std::thread::sleep(LOOK);
        closed.push((began.elapsed().as_secs_f64(), own()? - before));
    }
    Ok(Memory { most, closed })
}

/// Opens streams, reads of each only the beginning, and never again.
fn watch(address: SocketAddr, key: &str, space: &str, count: usize) -> Result<Vec<TcpStream>> {
    let path = format!("/v1/spaces/{space}/stream");
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\r\n");
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let mut socket = TcpStream::connect(address).context("the server cannot be reached")?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.write_all(head.as_bytes())?;
        let (mut seen, mut buffer) = (String::new(), [0; 1024]);
        while !seen.contains("event: snapshot") {
            let read = socket.read(&mut buffer).context("a stream did not begin")?;
            if read == 0 {
                bail!("a stream ended: {seen}");
            }
            seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        sockets.push(socket);
    }
    Ok(sockets)
}
