//! A worker that waits: how soon it holds a call that was decided, and what its wait weighs in the process `viv up` beside a
//! subscriber of a space.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use agent::call::{Effect, Outcome};
use agent::changes::CommitKind;
use agent::config::AgentConfig;
use agent::port::CallError;
use anyhow::{Context, Result};
use models::scripted::Script;
use runtime::workers::{self, WorkerTool};
use serde_json::{Value, json};
use testkit::test_tools::{Counters, ToolGate, by_workers, slow};

use crate::crowd::{CONNECTING_AT_ONCE, CROWD, Crowd};
use crate::machine::Disk;
use crate::measure::{Samples, short};
use crate::process::{self, Running};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer};
use crate::talk::HttpConnection;
use crate::watched::Point;
use crate::{Bench, instant};

/// Cycles that are measured, and those before the first counted one.
const CYCLES: usize = 200;
const WARM_UP: usize = 20;
const PATIENCE: Duration = Duration::from_secs(60);
/// Processes whose memory is measured; the median counts.
const MEMORY_RUNS: usize = 3;
/// Waiting claims of one key.
const PER_KEY: usize = 100;

#[derive(Default)]
struct ClaimCost {
    took_ms: Samples,
    fsync_ms: Samples,
    fsyncs: Samples,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let cost = threads.block_on(run(dir.path()))?;
    let (took, fsync) = (cost.took_ms.median(), cost.fsync_ms.median());
    let note = format!(
        "from the decision's commit to the worker that holds the call, beyond one sync of the disk; with it {} ms ({}); floor: the \
         sync",
        short(took),
        cost.took_ms.spread()
    );
    let claim = Metric::new(
        "tools.claim_ms",
        (took - fsync, "ms"),
        Floor::Named(fsync),
        Goal::ValueAtMost(2.0),
        note,
    );
    let note =
        "transactions from the decision's commit to the worker that holds the call; floor: one".to_owned();
    let fsyncs = (cost.fsyncs.median(), "fsyncs");
    let counted = Metric::new("tools.claim_fsyncs", fsyncs, Floor::Bound(1.0), Goal::ValueAtMost(1.0), note);
    Ok(vec![claim, counted, weigh(bench)?])
}

async fn run(dir: &std::path::Path) -> Result<ClaimCost> {
    let counters = Counters::new();
    let tool = by_workers("resize", slow(&counters, Effect::Unsafe, &ToolGate::closed()));
    let kit = tools::prebuilt().with(tool).context("the kit refuses the tool")?;
    let author = |step| match step {
        0 => Script::new().call("resize", &json!({})),
        _ => Script::new().text("That is all."),
    };
    let server = BenchServer::with_kit(&dir.join("data"), runtime::Bounds::default(), kit, |clock| {
        instant::models(clock, author)
    })?;
    let config = AgentConfig { tools: Some(vec!["resize".to_owned()]), ..server::config() };
    let home = server.home("ada", config).await?;
    let mut listener = server.listen(home.agent);
    let mut disk = Disk::open(dir)?;
    let mut cost = ClaimCost::default();
    let tools: [WorkerTool; 1] = [("resize".to_owned(), "1".to_owned())];
    let valid = async || Ok::<(), CallError>(());
    for cycle in 0..WARM_UP + CYCLES {
        let groups = server.stats().groups;
        let ports = server.ports();
        let worker = async {
            let claimed =
                workers::claim(ports, &tools, PATIENCE, None, valid).await?.context("no call came")?;
            let (at, groups) = (Instant::now(), server.stats().groups);
            let call = ports.calls.worker_call(claimed.row.id.clone()).await?.context("no such call")?;
            workers::finish(ports, server.node(), &call, claimed.claim, Outcome::ok("done")).await?;
            anyhow::Ok((at, groups))
        };
        let (claimed, posted) = tokio::join!(worker, server.post(&home, "Make it smaller."));
        posted?;
        let ((at, claimed_groups), ended) = (claimed?, listener.ended().await);
        ended?;
        let marks = server.marks.take();
        let decided = marks.iter().find(|mark| mark.point == Point::Committed(CommitKind::Decide));
        let decided = decided.context("no decision was committed")?.at;
        if cycle >= WARM_UP {
            cost.took_ms.push(at.duration_since(decided).as_secs_f64() * 1e3);
            // The accept, the opening and the decision go before it.
            let before = marks
                .iter()
                .filter(|mark| mark.at <= decided)
                .filter(|mark| matches!(mark.point, Point::Accepted | Point::Committed(_)))
                .count();
            cost.fsyncs.push((claimed_groups - groups) as f64 - before as f64);
            cost.fsync_ms.push(disk.fsync(5)? / 1e3);
        }
    }
    server.stop().await?;
    Ok(cost)
}

fn weigh(bench: &Bench) -> Result<Metric> {
    let viv = process::viv(bench)?;
    let (mut workers, mut subscribers) = (Samples::default(), Samples::default());
    for _ in 0..MEMORY_RUNS {
        let dir = bench.scratch()?;
        let running = process::up(&viv, dir.path())?;
        let address = running.ready_line["url"].as_str().and_then(|url| url.strip_prefix("http://"));
        let address: SocketAddr = address.context("the server did not report its address")?.parse()?;
        let key = running.ready_line["admin_key"].as_str().context("no admin key was reported")?;
        let path = "/v1/spaces/home/stream";
        drop(Crowd::gather(address, path, key, 4 * CONNECTING_AT_ONCE)?);
        let before = running.own_bytes()?;
        let crowd = Crowd::gather(address, path, key, CROWD)?;
        let with_crowd = running.own_bytes()?;
        drop(crowd);
        subscribers.push((with_crowd - before) / 1024.0 / CROWD as f64);
        workers.push(weigh_workers(bench, &viv)?);
    }
    let (one, other) = (workers.median(), subscribers.median());
    let note = format!(
        "anonymous memory of `viv up` per worker of {CROWD} that wait for a call ({}); floor: a subscriber of a space ({})",
        workers.spread(),
        subscribers.spread()
    );
    Ok(Metric::new("tools.worker_memory", (one, "KiB"), Floor::Named(other), Goal::RatioAtMost(2.0), note))
}

/// KiB per waiting worker.
fn weigh_workers(bench: &Bench, viv: &std::path::Path) -> Result<f64> {
    let dir = bench.scratch()?;
    let running = process::up(viv, dir.path())?;
    let door = Door::open(&running)?;
    door.ask("PUT", "/v1/tools/resize", &json!({"kind": "worker", "description": "Makes it smaller."}))?;
    let keys = (0..CROWD.div_ceil(PER_KEY)).map(|_| {
        let key = door.ask("POST", "/v1/keys", &json!({"scope": "worker:resize"}))?;
        Ok(key["secret"].as_str().context("the key has no secret")?.to_owned())
    });
    let keys: Vec<String> = keys.collect::<Result<_>>()?;
    // The first ones allocate what all share.
    drop(door.waiting(&keys, 4 * CONNECTING_AT_ONCE)?);
    door.until_waiting(0)?;
    let before = running.own_bytes()?;
    let _workers = door.waiting(&keys, CROWD)?;
    Ok((running.own_bytes()? - before) / 1024.0 / CROWD as f64)
}

/// The server's address and its admin key.
struct Door {
    address: SocketAddr,
    key: String,
}

impl Door {
    fn open(running: &Running) -> Result<Self> {
        let address = running.ready_line["url"].as_str().and_then(|url| url.strip_prefix("http://"));
        let address = address.context("the server did not report its address")?.parse()?;
        let key = running.ready_line["admin_key"].as_str().context("no admin key was reported")?.to_owned();
        Ok(Self { address, key })
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let mut connection = HttpConnection::open(self.address)?;
        let request = connection.request(method, path, &self.key, &body.to_string());
        connection.send(&request)?;
        serde_json::from_slice(&connection.body()?).context("the answer is not JSON")
    }

    /// So many workers that wait, spread over the keys.
    fn waiting(&self, keys: &[String], count: usize) -> Result<Vec<TcpStream>> {
        let body = json!({"tools": [{"name": "resize"}]}).to_string();
        let mut workers = Vec::with_capacity(count);
        for key in keys.iter().cycle().take(count) {
            let connection = HttpConnection::open(self.address)?;
            let request = connection.request("POST", "/v1/workers/claim", key, &body);
            let mut socket = connection.into_socket();
            socket.write_all(&request)?;
            workers.push(socket);
            if workers.len() % CONNECTING_AT_ONCE == 0 {
                self.until_waiting(workers.len())?;
            }
        }
        self.until_waiting(count)?;
        Ok(workers)
    }

    fn until_waiting(&self, count: usize) -> Result<()> {
        let began = Instant::now();
        loop {
            let tool = self.ask("GET", "/v1/tools/resize", &Value::Null)?;
            if tool["workers"]["waiting_workers"] == json!(count) {
                return Ok(());
            }
            anyhow::ensure!(began.elapsed() < PATIENCE, "wanted {count} workers to wait, got {tool}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
