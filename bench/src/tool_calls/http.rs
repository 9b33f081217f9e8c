//! A call of an HTTP tool beside the bare request that it makes, in fsyncs and CPU. Cycles with few calls are compared with
//! cycles with many, so that the cost of beginning and ending a cycle cancels out.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agent::config::AgentConfig;
use anyhow::{Context, Result};
use axum::Router;
use axum::routing::get;
use models::scripted::Script;
use runtime::Bounds;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::declared;
use crate::Bench;
use crate::instant;
use crate::measure::{Samples, know_threads, process_cpu_us, short};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, CycleListener, Home};

/// Calls of the short cycles and of the long ones; each is a step of its own.
const FEW: usize = 2;
const MANY: usize = 12;
/// Pairs of a short and a long cycle, and those before the first counted one.
const PAIRS: usize = 60;
const WARM_UP: usize = 10;

/// What the model does in the open cycle: the number of calls, and whether their tool is in this process.
#[derive(Default)]
struct WantedCalls {
    steps: AtomicUsize,
    is_inside: AtomicBool,
}

#[derive(Default)]
struct HttpCost {
    fsyncs: Samples,
    cpu_us: Samples,
    /// The same with a tool in this process.
    inside_us: Samples,
    /// CPU of the bare request and of its answer.
    bare_us: Samples,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let cost = threads.block_on(run(dir.path()))?;
    let note = "transactions of one more step with a call of an HTTP tool; floor: the bare request, which has none, and the \
                decision that asks for it";
    let fsyncs = (cost.fsyncs.median(), "fsyncs");
    let counted =
        Metric::new("tools.http_fsyncs", fsyncs, Floor::Bound(1.0), Goal::ValueAtMost(2.0), note.to_owned());
    let (all, bare) = (cost.cpu_us.median() / 1e3, cost.bare_us.median() / 1e3);
    let note = format!(
        "CPU of the process for one more step with a call, without that of the bare request; with it {} ms (us: {}), and a step \
         with a tool in this process {} ms; floor: the request over a new connection and its answer by the same server (us: {})",
        short(all),
        cost.cpu_us.spread(),
        short(cost.inside_us.median() / 1e3),
        cost.bare_us.spread(),
    );
    let cpu =
        Metric::new("tools.http_cpu_ms", (all - bare, "ms"), Floor::Named(bare), Goal::ValueBelow(1.0), note);
    Ok(vec![counted, cpu])
}

async fn run(dir: &Path) -> Result<HttpCost> {
    let shutdown = CancellationToken::new();
    let answer = || async { axum::Json(json!({"city": "Rome", "degrees": 17, "sky": "clear"})) };
    let address = server::serve(Router::new().route("/weather", get(answer)), shutdown.clone()).await?;
    let tool = declared(&json!({
        "name": "weather", "kind": "http", "description": "The weather of a city.", "effect": "read_only",
        "labels": [],
        "input": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "http": {"method": "GET", "url": format!("http://{address}/weather"), "query": {"city": "{{ city }}"}, "allow": ["127.0.0.1"]},
    }))?;
    let plan = Arc::new(WantedCalls::default());
    let wanted = Arc::clone(&plan);
    let author = move |step| match step >= wanted.steps.load(Ordering::Relaxed) {
        true => Script::new().text("That is all."),
        false if wanted.is_inside.load(Ordering::Relaxed) => Script::new().call("look", &json!({})),
        false => Script::new().call("weather", &json!({"city": "Rome"})),
    };
    let kit = tools::prebuilt().with(tool).context("the kit refuses the tool")?;
    let server = BenchServer::with_kit(&dir.join("data"), Bounds::default(), kit, |clock| {
        instant::models(clock, author)
    })?;
    let config =
        AgentConfig { tools: Some(["weather", "look"].map(str::to_owned).to_vec()), ..server::config() };
    let home = server.home("ada", config).await?;
    let mut listener = server.listen(home.agent);
    let mut cost = HttpCost::default();
    for pair in 0..WARM_UP + PAIRS {
        know_threads()?;
        plan.is_inside.store(true, Ordering::Relaxed);
        let few_inside = cycle(&server, &home, &mut listener, &plan, FEW).await?;
        let many_inside = cycle(&server, &home, &mut listener, &plan, MANY).await?;
        plan.is_inside.store(false, Ordering::Relaxed);
        let few = cycle(&server, &home, &mut listener, &plan, FEW).await?;
        let many = cycle(&server, &home, &mut listener, &plan, MANY).await?;
        let began = process_cpu_us();
        for _ in FEW..MANY {
            ask(address).await?;
        }
        let bare = process_cpu_us() - began;
        if pair >= WARM_UP {
            let each = (MANY - FEW) as f64;
            cost.fsyncs.push((many.0 - few.0) / each);
            cost.cpu_us.push((many.1 - few.1) / each);
            cost.inside_us.push((many_inside.1 - few_inside.1) / each);
            cost.bare_us.push(bare / each);
        }
    }
    shutdown.cancel();
    server.stop().await?;
    Ok(cost)
}

/// Runs one cycle of so many calls; returns its transactions and its microseconds of CPU.
async fn cycle(
    server: &BenchServer,
    home: &Home,
    listener: &mut CycleListener,
    plan: &WantedCalls,
    steps: usize,
) -> Result<(f64, f64)> {
    plan.steps.store(steps, Ordering::Relaxed);
    let (groups, began) = (server.stats().groups, process_cpu_us());
    server.post(home, "What is the weather in Rome?").await?;
    listener.ended().await?;
    let cpu = process_cpu_us() - began;
    Ok(((server.stats().groups - groups) as f64, cpu))
}

/// The request of the tool, by hand.
async fn ask(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(address).await.context("the server does not answer")?;
    let request = format!("GET /weather?city=Rome HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    anyhow::ensure!(answer.starts_with(b"HTTP/1.1 200"), "wanted an answer with status 200");
    Ok(())
}
