//! A store that refuses commits for a while: how many model requests that costs, and how soon all agents are
//! served when it works again.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::paced;
use crate::Bench;
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer};

/// Agents with something to do.
const AGENTS: usize = 20;
/// How long the store refuses commits.
const REFUSES: Duration = Duration::from_secs(15);
/// The delay of a model reply.
const REPLY_DELAY: Duration = Duration::from_millis(100);
/// Most requests for one agent, from its message to its answer.
const REQUESTS: f64 = 6.0;
/// Longest time until all are served, in seconds.
const SERVED_S: f64 = 5.0;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let threads = server::threads()?;
    let (models, requests) = paced(Some(REPLY_DELAY));
    let _in = threads.enter();
    let server = BenchServer::build(&dir.path().join("data"), models)?;
    let served = threads.block_on(async {
        let (mut homes, mut listener) = (Vec::new(), Vec::new());
        for n in 0..AGENTS {
            let home = server.home(&name(n), server::config()).await?;
            listener.push(server.listen(home.agent));
            homes.push(home);
        }
        server.watched.refuse(true);
        for home in &homes {
            server.post(home, "What do you make of this?").await?;
        }
        tokio::time::sleep(REFUSES).await;
        server.watched.refuse(false);
        let works = Instant::now();
        for listener in &mut listener {
            listener.ended().await?;
        }
        anyhow::Ok(works.elapsed())
    })?;
    threads.block_on(server.stop())?;
    let asked: Vec<String> = requests.try_iter().map(|asked| asked.system).collect();
    let of = |n: usize| asked.iter().filter(|system| system.contains(&format!("@{}", name(n)))).count();
    let most = (0..AGENTS).map(of).max().unwrap_or(0) as f64;
    let note = format!(
        "the most requests for one of {AGENTS} agents with a message each, while every commit is refused for {} s \
         (a minute costs as many: no model is asked again before the opening is committed), and afterwards; {} in all; floor: \
         one for each",
        REFUSES.as_secs(),
        asked.len(),
    );
    let cost = Metric::new(
        "fair.store_failure",
        (most, "requests"),
        Floor::Bound(1.0),
        Goal::ValueAtMost(REQUESTS),
        note,
    );
    let note = format!("from the store working again until the last of {AGENTS} is served; floor: one reply");
    let value = (served.as_secs_f64(), "s");
    let back = Metric::new(
        "fair.store_back",
        value,
        Floor::Named(REPLY_DELAY.as_secs_f64()),
        Goal::ValueAtMost(SERVED_S),
        note,
    );
    Ok(vec![cost, back])
}

fn name(n: usize) -> String {
    format!("agent-{n:03}")
}
