//! The cost of one more tool step, in fsyncs and time. Cycles with few steps are compared with cycles with
//! many, so that the cost of beginning and ending a cycle cancels out.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use agent::config::AgentConfig;
use anyhow::Result;
use models::scripted::Script;
use serde_json::json;

use crate::Bench;
use crate::instant;
use crate::machine::Disk;
use crate::measure::{Samples, short};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, CycleListener, Home};

/// Steps of the short cycles and of the long ones.
const FEW: usize = 2;
const MANY: usize = 12;
/// Pairs of a short and a long cycle, per tool.
const PAIRS: usize = 40;
/// Pairs before the first counted one.
const WARM_UP: usize = 5;
/// Measurements of the disk after each pair.
const DISK_SAMPLES: usize = 10;
/// Frames of the log that one step writes in each of its transactions.
const FRAMES: usize = 6;
/// The tools: an inward one, which takes effect in the step's commit, an outward one that may be repeated,
/// and an outward one that may not.
const TOOLS: [(&str, &str); 3] =
    [("set_memories", "inward"), ("put", "outward, repeatable"), ("fire", "outward, unsafe")];
/// The tool whose figures are in the table.
const REPORTED: usize = 1;

/// The cost of one more step with a tool.
#[derive(Default)]
struct Cost {
    fsyncs: Samples,
    ms: Samples,
    /// An fsync of the disk alone, measured between the cycles.
    fsync_us: Samples,
}

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let disk = Disk::open(dir.path())?;
    let costs = threads.block_on(run(dir.path(), disk))?;
    let each = |what: fn(&Cost) -> f64| {
        let words = TOOLS.iter().zip(&costs).map(|((_, kind), cost)| format!("{kind} {}", short(what(cost))));
        words.collect::<Vec<_>>().join(", ")
    };
    let cost = &costs[REPORTED];
    let fsync_ms = cost.fsync_us.median() / 1e3;
    let note = format!(
        "transactions of one more step with an outward, repeatable tool; {}; floor: the decision alone. An \
         unsafe call needs one more, the commit that marks it as begun",
        each(|cost| cost.fsyncs.median()),
    );
    let value = (cost.fsyncs.median(), "fsyncs");
    let counted = Metric::new("core.step_fsyncs", value, Floor::Bound(1.0), Goal::ValueAtMost(2.0), note);
    // The goal of 3 ms is for an fsync of 0.3 ms. It is adjusted by the time of this disk's two fsyncs.
    let goal = 3.0 + 2.0 * (fsync_ms - 0.3);
    let floor = cost.fsyncs.median() * fsync_ms;
    let note = format!(
        "{}; an fsync takes {} ms here, so the goal of 3 ms at 0.3 ms is {} ms; floor: the step's fsyncs; {}",
        cost.ms.spread(),
        short(fsync_ms),
        short(goal),
        each(|cost| cost.ms.median()),
    );
    let value = (cost.ms.median(), "ms");
    Ok(vec![counted, Metric::new("core.step_ms", value, Floor::Bound(floor), Goal::ValueBelow(goal), note)])
}

/// What the model does in the open cycle: the number of steps, and the tool.
#[derive(Default)]
struct Plan {
    steps: AtomicUsize,
    tool: AtomicUsize,
}

async fn run(dir: &Path, mut disk: Disk) -> Result<Vec<Cost>> {
    let plan = Arc::new(Plan::default());
    let plan_of_model = Arc::clone(&plan);
    let author = move |step| match TOOLS[plan_of_model.tool.load(Ordering::Relaxed)].0 {
        _ if step >= plan_of_model.steps.load(Ordering::Relaxed) => Script::new().text("That is all."),
        tool @ "set_memories" => {
            let memory = json!({"key": "mood", "value": format!("calm, for the {step}. time")});
            Script::new().call(tool, &json!({"memories": [memory]}))
        }
        tool => Script::new().call(tool, &json!({"note": "a note of some length that is written down"})),
    };
    let server = BenchServer::build(&dir.join("data"), |clock| instant::models(clock, author))?;
    let names = TOOLS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let config = AgentConfig { tools: Some(names), ..server::config() };
    let home = server.home("ada", config).await?;
    let mut listener = server.listen(home.agent);
    let mut costs = Vec::new();
    for tool in 0..TOOLS.len() {
        plan.tool.store(tool, Ordering::Relaxed);
        let mut cost = Cost::default();
        for pair in 0..WARM_UP + PAIRS {
            let few = cycle(&server, &home, &mut listener, &plan, FEW).await?;
            let many = cycle(&server, &home, &mut listener, &plan, MANY).await?;
            if pair >= WARM_UP {
                cost.fsyncs.push((many.0 - few.0) / (MANY - FEW) as f64);
                cost.ms.push((many.1 - few.1) / (MANY - FEW) as f64);
                for _ in 0..DISK_SAMPLES {
                    cost.fsync_us.push(disk.fsync(FRAMES)?);
                }
            }
        }
        costs.push(cost);
    }
    server.stop().await?;
    Ok(costs)
}

/// Runs one cycle of so many steps; returns its transactions and its milliseconds.
async fn cycle(
    server: &BenchServer,
    home: &Home,
    listener: &mut CycleListener,
    plan: &Plan,
    steps: usize,
) -> Result<(f64, f64)> {
    plan.steps.store(steps, Ordering::Relaxed);
    let (groups, began) = (server.stats().groups, Instant::now());
    server.post(home, "Please do what you do.").await?;
    listener.ended().await?;
    let took = began.elapsed().as_secs_f64() * 1e3;
    Ok(((server.stats().groups - groups) as f64, took))
}
