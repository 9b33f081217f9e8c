//! The cost of a long history per step: CPU from the commit that settles a step to the first byte of the
//! next request at the model, compared with a tenth of the history.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use agent::changes::CommitKind;
use agent::config::{AgentConfig, Limits};
use anyhow::{Context, Result};
use models::model_book::{KeyRing, ModelBook, ModelConfig};
use runtime::Bounds;
use serde_json::json;
use tokio::runtime::Runtime;
use tools::ToolKit;

use crate::Bench;
use crate::measure::{Samples, know_threads, short, us};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, CycleListener, Home};
use crate::stub::{Answer, Stub};
use crate::watched::Point;

/// Tokens of the short and of the long history, in thousands.
const SHORT: usize = 10;
const LONG: usize = 100;
/// Tokens of a cycle that fills a history, in thousands, and words of its message and of its answer.
const FILL: usize = 2;
const WORDS: usize = 900;
/// Steps of one measured cycle; the first is not counted.
const STEPS: usize = 12;
/// Measured cycles of each history. A history stays below the 400 entries at which it would be compacted.
const CYCLES: usize = 9;
/// Cycles of each history before the first measured one.
const WARM_UP: usize = 2;

/// An agent with a history.
pub(crate) struct AgentHistory {
    home: Home,
    listener: CycleListener,
    /// CPU and time of its steps, in microseconds.
    pub(crate) cpu: Samples,
    pub(crate) wall: Samples,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    compared(bench, "core.step_overhead_ratio", &server::config())
}

/// Compares the histories of two agents with this config.
pub(crate) fn compared(bench: &Bench, metric: &'static str, config: &AgentConfig) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let stub = Stub::start()?;
    let server = build(&threads, &stub, dir.path(), tools::prebuilt())?;
    let config = AgentConfig { tools: Some(vec!["put".to_owned()]), ..config.clone() };
    let mut short_history = build_history(&threads, &server, &stub, "young", SHORT, config.clone())?;
    let mut long_history = build_history(&threads, &server, &stub, "old", LONG, config)?;
    alternate(&threads, &server, &stub, [&mut short_history, &mut long_history])?;
    threads.block_on(server.stop())?;
    let note = format!(
        "CPU of the process from the settled step to the first byte of the next request at the model, {LONG}k \
         tokens of history ({}) against {SHORT}k ({}); wall clock {} us against {} us",
        long_history.cpu.spread(),
        short_history.cpu.spread(),
        short(long_history.wall.median()),
        short(short_history.wall.median()),
    );
    let value = (long_history.cpu.median(), "us");
    let floor = Floor::Twin(short_history.cpu.median());
    Ok(vec![Metric::new(metric, value, floor, Goal::RatioAtMost(1.3), note)])
}

/// Measures the steps of two agents in turns, so that other load on the machine affects both equally; the index is not fed meanwhile.
pub(crate) fn alternate(
    threads: &Runtime,
    server: &BenchServer,
    stub: &Stub,
    mut agents: [&mut AgentHistory; 2],
) -> Result<()> {
    server.stop_indexing();
    for round in 0..WARM_UP + CYCLES {
        for history in &mut agents {
            measure_steps(threads, server, stub, history, round >= WARM_UP)?;
        }
    }
    Ok(())
}

/// A server whose agents have the tools of this kit, and `put`.
pub(crate) fn build(threads: &Runtime, stub: &Stub, dir: &Path, kit: ToolKit) -> Result<BenchServer> {
    let _in = threads.enter();
    BenchServer::with_kit(&dir.join("data"), Bounds::default(), kit, |clock| {
        let model = ModelConfig {
            base_url: Some(stub.url()),
            context_window: Some(1_000_000),
            ..ModelConfig::named("openai-compatible/stub")
        };
        Arc::new(ModelBook::new(model, KeyRing::default(), clock))
    })
}

/// Runs cycles until the agent has a history of so many thousand tokens.
pub(crate) fn build_history(
    threads: &Runtime,
    server: &BenchServer,
    stub: &Stub,
    name: &str,
    thousands: usize,
    config: AgentConfig,
) -> Result<AgentHistory> {
    let limits = Limits { max_steps: 1_000, token_budget: 10_000_000, ..Limits::default() };
    let config = AgentConfig { limits, ..config };
    let home = threads.block_on(server.home(name, config))?;
    let mut listener = server.listen(home.agent);
    for cycle in 0..thousands / FILL {
        stub.script([Answer::Text(prose(2 * cycle, WORDS))]);
        let began = Instant::now();
        threads.block_on(server.post(&home, &prose(2 * cycle + 1, WORDS)))?;
        threads.block_on(listener.ended())?;
        stub.arrivals(began, 1)?;
    }
    Ok(AgentHistory { home, listener, cpu: Samples::default(), wall: Samples::default() })
}

/// A text of so many words, different for each seed.
pub(crate) fn prose(seed: usize, words: usize) -> String {
    const WORD: [&str; 16] = [
        "river", "because", "morning", "they", "wrote", "quiet", "letters", "about", "gardens", "and",
        "winter", "roads", "while", "someone", "carried", "lanterns",
    ];
    let word = |n: usize| WORD[(n * 7 + seed * 5 + n * n * (seed % 7 + 1)) % WORD.len()];
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}

/// Runs one cycle of tool steps and measures each.
fn measure_steps(
    threads: &Runtime,
    server: &BenchServer,
    stub: &Stub,
    history: &mut AgentHistory,
    counts: bool,
) -> Result<()> {
    let call = Answer::Call("put", json!({"note": "written down"}));
    stub.script((1..STEPS).map(|_| call.clone()).chain([Answer::Text("That is all.".to_owned())]));
    drop(server.marks.take());
    // While the request arrives here, its sender still writes it, on another core.
    know_threads()?;
    let began = Instant::now();
    threads.block_on(server.post(&history.home, "Please do what you do."))?;
    threads.block_on(history.listener.ended())?;
    let arrivals = stub.arrivals(began, STEPS)?;
    let marks = server.marks.take();
    let mut settled = marks.iter().filter(|mark| mark.point == Point::Committed(CommitKind::Settle));
    for arrival in arrivals.iter().skip(1) {
        let settled = settled.next().context("a step was not settled")?;
        if counts {
            history.cpu.push(arrival.cpu_us - settled.cpu_us.context("a commit has no CPU time")?);
            let took = arrival.at.checked_duration_since(settled.at);
            history.wall.push(us(took.context("a request left before the step before it was settled")?));
        }
    }
    Ok(())
}
