//! What a long history costs a step: CPU from the commit that settles one step to the first byte of
//! the next request at the model, with ten times the history behind it.

use std::path::Path;
use std::sync::Arc;

use agent::changes::CommitKind;
use agent::config::{AgentConfig, Limits};
use anyhow::{Context, Result};
use models::model_book::{KeyRing, ModelBook, ModelConfig};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::Bench;
use crate::measure::{Samples, short, us};
use crate::report::{Goal, Metric};
use crate::server::{self, BenchServer, Ears, Home};
use crate::stub::{Say, Stub};
use crate::watched::Point;

/// Tokens of history, in thousands: the short one and the long one.
const SHORT: usize = 10;
const LONG: usize = 100;
/// Words of a message and of its answer; a cycle comes to about a thousand tokens.
const WORDS: usize = 450;
/// Steps of one cycle that is measured, all but the first counted.
const STEPS: usize = 15;
/// Cycles that are measured for each length.
const CYCLES: usize = 20;
/// Cycles of each length before the first that counts.
const WARM_UP: usize = 3;

/// An agent with a past.
struct AgentHistory {
    home: Home,
    ears: Ears,
    cpu: Samples,
    wall: Samples,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let stub = Stub::start()?;
    let house = build(&threads, &stub, dir.path())?;
    let mut short_life = life(&threads, &house, &stub, "young", SHORT)?;
    let mut long_life = life(&threads, &house, &stub, "old", LONG)?;
    for round in 0..WARM_UP + CYCLES {
        // In turns, so that whatever else the machine does falls on both alike.
        for life in [&mut short_life, &mut long_life] {
            let counts = round >= WARM_UP;
            steps(&threads, &house, &stub, life, counts)?;
        }
    }
    threads.block_on(house.stop())?;
    let note = format!(
        "CPU of the process from the settled step to the first byte of the next request at the model, {LONG}k \
         tokens of history ({}) against {SHORT}k ({}); wall clock {} us against {} us",
        long_life.cpu.spread(),
        short_life.cpu.spread(),
        short(long_life.wall.median()),
        short(short_life.wall.median()),
    );
    let value = (long_life.cpu.median(), "us");
    let floor = short_life.cpu.median();
    Ok(vec![Metric::new("core.step_overhead_ratio", value, floor, Goal::RatioAtMost(1.3), note)])
}

fn build(threads: &Runtime, stub: &Stub, dir: &Path) -> Result<BenchServer> {
    let _in = threads.enter();
    BenchServer::build(&dir.join("data"), |clock| {
        let model = ModelConfig {
            base_url: Some(stub.url()),
            context_window: Some(1_000_000),
            ..ModelConfig::named("openai-compatible/stub")
        };
        Arc::new(ModelBook::new(model, KeyRing::default(), clock))
    })
}

/// Lives until so many thousand tokens are behind the agent.
fn life(
    threads: &Runtime,
    house: &BenchServer,
    stub: &Stub,
    name: &str,
    thousands: usize,
) -> Result<AgentHistory> {
    let limits = Limits { max_steps: 1_000, token_budget: 10_000_000, ..Limits::default() };
    let tools = Some(vec!["put".to_owned()]);
    let config = AgentConfig { limits, tools, ..AgentConfig::default() };
    let home = threads.block_on(house.home(name, config))?;
    let mut ears = house.listen(home.agent);
    for cycle in 0..thousands {
        stub.script([Say::Text(prose(2 * cycle, WORDS))]);
        threads.block_on(house.say(&home, &prose(2 * cycle + 1, WORDS)))?;
        threads.block_on(ears.ended())?;
        stub.arrival()?;
    }
    Ok(AgentHistory { home, ears, cpu: Samples::default(), wall: Samples::default() })
}

/// So many plain words, never the same twice.
pub(crate) fn prose(seed: usize, words: usize) -> String {
    const WORD: [&str; 16] = [
        "river", "because", "morning", "they", "wrote", "quiet", "letters", "about", "gardens", "and",
        "winter", "roads", "while", "someone", "carried", "lanterns",
    ];
    let word = |n: usize| WORD[(n * 7 + seed * 5 + n * n * (seed % 7 + 1)) % WORD.len()];
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}

/// One cycle of tool steps, each of them measured.
fn steps(
    threads: &Runtime,
    house: &BenchServer,
    stub: &Stub,
    life: &mut AgentHistory,
    counts: bool,
) -> Result<()> {
    let call = Say::Call("put", json!({"note": "written down"}));
    stub.script((1..STEPS).map(|_| call.clone()).chain([Say::Text("That is all.".to_owned())]));
    drop(house.marks.take());
    threads.block_on(house.say(&life.home, "Please do what you do."))?;
    threads.block_on(life.ears.ended())?;
    let arrivals = (0..STEPS).map(|_| stub.arrival()).collect::<Result<Vec<_>>>()?;
    let marks = house.marks.take();
    let mut settled = marks.iter().filter(|mark| mark.point == Point::Committed(CommitKind::Settle));
    for arrival in arrivals.iter().skip(1) {
        let settled = settled.next().context("a step that was not settled")?;
        if counts {
            life.cpu.push(arrival.cpu_us - settled.cpu_us.context("a commit without its CPU time")?);
            life.wall.push(us(arrival.at.saturating_duration_since(settled.at)));
        }
    }
    Ok(())
}
