//! A thousand plans due in each second: how late their events are on disk. The agents wait before they look, so that no
//! cycle runs meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent::changes::PlanChange;
use agent::config::AgentConfig;
use agent::id::{AgentId, PlanId};
use agent::limits;
use agent::plan::{Plan, PlanSource, PlanTerms};
use agent::port::Wakeup;
use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use models::scripted::Script;
use serde_json::json;
use tokio::task::JoinSet;

use crate::density::population::{Population, agent};
use crate::machine::Disk;
use crate::measure::{Samples, process_cpu_us, short};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer};
use crate::{Bench, instant};

/// Plans, each of another agent; one is due in each millisecond.
const PLANS: usize = 10_000;
/// Time to set them, before the first is due.
const LEAD: Duration = Duration::from_secs(10);
/// How long the agents wait before they look, in milliseconds: longer than the measurement.
const DEBOUNCE: u64 = 60_000;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let data = dir.path().join("data");
    let population = Population::open(&threads, &data)?;
    let config = AgentConfig { debounce: DEBOUNCE, ..AgentConfig::default() };
    population.create_agents_with(0, PLANS, &config)?;
    population.close()?;
    let _in = threads.enter();
    let server = BenchServer::build(&data, |clock| instant::models(clock, |_| Script::new().text("Noted.")))?;
    let due = threads.block_on(set_plans(&server))?;
    drop(server.watched.take_fired());
    let last = due.values().max().copied().context("no plans")?;
    threads.block_on(wait_until(&server, last.checked_sub(Duration::from_millis(PLANS as u64))?));
    let cpu_us = process_cpu_us();
    threads.block_on(wait_until(&server, last));
    let busy = (process_cpu_us() - cpu_us) / (PLANS as f64 * 1e3);
    threads.block_on(wait_until(&server, last + Duration::from_secs(1)));
    let mut late = Samples::default();
    let fired = server.watched.take_fired();
    let commands = fired.iter().filter(|(_, wakeups)| !wakeups.is_empty()).count();
    for (at, Wakeup { agent, .. }) in fired.iter().flat_map(|(at, all)| all.iter().map(move |one| (at, one)))
    {
        let due = due.get(agent).context("an agent without a plan was woken")?;
        late.push((at.as_microsecond() - due.as_microsecond()) as f64 / 1e3);
    }
    ensure!(late.len() == PLANS, "wanted {PLANS} events, got {}", late.len());
    ensure!(threads.block_on(server.open_cycles())? == 0, "cycles ran");
    threads.block_on(server.stop())?;
    let mut disk = Disk::open(dir.path())?;
    let syncs: Samples = (0..50).map(|_| Ok(disk.fsync(20)? / 1e3)).collect::<Result<_>>()?;
    let note = format!(
        "from the time of a plan until its event is on disk, 99 of 100, with 1 000 plans due per second for {} s, each of \
         another agent; median {}, longest {} ms; {commands} commands; {:.0} % of one core; floor: one sync of the disk",
        PLANS / 1_000,
        short(late.median()),
        short(late.quantile(1.0)),
        busy * 100.0,
    );
    let value = (late.quantile(0.99), "ms");
    Ok(vec![Metric::new("alarms.late", value, Floor::Bound(syncs.median()), Goal::ValueAtMost(10.0), note)])
}

/// Sets a plan for each agent; returns when they are due.
async fn set_plans(server: &BenchServer) -> Result<HashMap<AgentId, Timestamp>> {
    let ports = server.ports();
    let first = ports.clock.now() + LEAD;
    let mut due = HashMap::new();
    let mut set = JoinSet::new();
    for n in 0..PLANS {
        let at = Timestamp::from_millisecond(first.as_millisecond() + i64::try_from(n)?)?;
        let plan = once(at, ports.ids.uuid(), ports.clock.now())?;
        let registry = Arc::clone(&ports.registry);
        set.spawn(async move { registry.change_plan(agent(n), PlanChange::Set(plan)).await });
        due.insert(agent(n), at);
        if set.len() == limits::GROUP_MAX || n + 1 == PLANS {
            while let Some(done) = set.join_next().await {
                ensure!(done??.is_some(), "a plan was not set");
            }
        }
    }
    ensure!(ports.clock.now() < first, "setting the plans took longer than {} s", LEAD.as_secs());
    server.node().planned(Some(first));
    Ok(due)
}

fn once(at: Timestamp, id: uuid::Uuid, now: Timestamp) -> Result<Plan> {
    let terms: PlanTerms =
        serde_json::from_value(json!({"name": "look", "instruction": "Look.", "at": at.to_string()}))?;
    terms.plan(PlanId(id), None, PlanSource::Operator, now).map_err(anyhow::Error::msg)
}

async fn wait_until(server: &BenchServer, at: Timestamp) {
    let clock = &server.ports().clock;
    let ahead = at.as_millisecond() - clock.now().as_millisecond();
    clock.sleep(Duration::from_millis(u64::try_from(ahead).unwrap_or(0))).await;
}
