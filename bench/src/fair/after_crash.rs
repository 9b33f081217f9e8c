//! A start after a crash of a busy server: how soon an agent is served that was idle during the crash.

use std::path::Path;
use std::time::{Duration, Instant};

use agent::config::AgentConfig;
use anyhow::{Context, Result, bail};
use runtime::Bounds;
use serde_json::json;

use super::{PATIENCE, next_request_of, paced};
use crate::Bench;
use crate::measure::{Samples, us};
use crate::report::{Floor, Goal, Metric};
use crate::server::{self, BenchServer, Home};
use crate::talk::HttpConnection;

/// Cycles that are open when the server crashes.
const OPEN: usize = 300;
/// Messages before the crash, after one that loads what all of them share.
const BEFORE: usize = 15;
/// The delay of a model reply after the crash.
const REPLY_DELAY: Duration = Duration::from_secs(3);
/// Longest time from the message's first byte to the request to the model, in milliseconds.
const GOAL_MS: f64 = 2_000.0;
/// The name of the idle agent.
const HEALTHY: &str = "healthy";

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let dir = bench.scratch()?;
    let data = dir.path().join("data");
    let (home, alone) = die(&data)?;
    let threads = server::threads()?;
    let _in = threads.enter();
    let (server, requests) = threads.block_on(async {
        let end = Instant::now() + PATIENCE;
        loop {
            let (models, requests) = paced(Some(REPLY_DELAY));
            match BenchServer::build(&data, models) {
                Ok(server) => return anyhow::Ok((server, requests)),
                // The first server may still hold the lock of the directory.
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })?;
    let left = threads.block_on(server.open_cycles())?;
    let (address, key) = threads.block_on(server.serve_api(&home))?;
    let mut connection = HttpConnection::open(address)?;
    let began = connection.send(&hello(&connection, &home, &key))?;
    let asked = next_request_of(&requests, HEALTHY)?;
    connection.answer()?;
    threads.block_on(server.kill());
    drop(threads);
    let note = format!(
        "from a message's first byte to the request to its model ({} s per reply), right after an unclean start \
         with {left} cycles open; floor: the same message before the crash ({})",
        REPLY_DELAY.as_secs(),
        alone.spread()
    );
    let (value, floor) = (waited(began, asked)?, Floor::Twin(alone.median()));
    Ok(vec![Metric::new("fair.after_crash", (value, "ms"), floor, Goal::ValueAtMost(GOAL_MS), note)])
}

/// Milliseconds from a message to the request that it caused.
fn waited(began: Instant, asked: Instant) -> Result<f64> {
    let took = asked.checked_duration_since(began);
    Ok(us(took.context("the model was asked before the message was sent")?) / 1e3)
}

fn hello(connection: &HttpConnection, home: &Home, key: &str) -> Vec<u8> {
    let body = json!({"text": "What do you make of this?"}).to_string();
    connection.post(&format!("/v1/spaces/{}/messages", home.space), key, &body)
}

/// Runs a server that crashes with many open cycles. Returns the idle agent, and how soon it is served
/// before the crash.
fn die(data: &Path) -> Result<(Home, Samples)> {
    let threads = server::threads()?;
    let _in = threads.enter();
    let (models, requests) = paced(None);
    let bounds = Bounds { awake: 2 * OPEN, requests_per_provider: 2 * OPEN, ..Bounds::default() };
    let server = BenchServer::within(data, bounds, models)?;
    let config = AgentConfig { model: Some(super::HEALTHY.to_owned()), ..server::config() };
    let home = threads.block_on(server.home(HEALTHY, config))?;
    let (address, key) = threads.block_on(server.serve_api(&home))?;
    let mut connection = HttpConnection::open(address)?;
    let mut listener = server.listen(home.agent);
    let mut alone = Samples::default();
    for n in 0..=BEFORE {
        let began = connection.send(&hello(&connection, &home, &key))?;
        let took = waited(began, next_request_of(&requests, HEALTHY)?)?;
        connection.answer()?;
        threads.block_on(listener.ended())?;
        if n > 0 {
            alone.push(took);
        }
    }
    threads.block_on(async {
        for n in 0..OPEN {
            let home = server.home(&format!("busy{n}"), server::config()).await?;
            server.post(&home, "What do you make of this?").await?;
        }
        let end = Instant::now() + PATIENCE;
        while server.open_cycles().await? < OPEN as u64 {
            if Instant::now() > end {
                bail!("not all of {OPEN} cycles opened");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    })?;
    threads.block_on(server.kill());
    threads.shutdown_timeout(Duration::from_secs(5));
    Ok((home, alone))
}
