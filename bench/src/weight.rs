//! Memory per subscriber of a stream in the process `viv up`. The module `crowd` measures the CPU of
//! sending.

use std::net::SocketAddr;

use anyhow::{Context, Result};

use crate::Bench;
use crate::crowd::{CONNECTING_AT_ONCE, CROWD, Crowd};
use crate::measure::{Samples, short};
use crate::process::{self, Running};
use crate::report::{Floor, Goal, Metric};

/// Processes whose memory is measured; the median counts.
const MEMORY_RUNS: usize = 5;
/// The least memory of a stream, in KiB: one buffer of the socket.
const BUFFER: f64 = 1.0;
/// The most, so that a server with a thousand idle streams stays below 60 MB.
const MOST: f64 = 40.0;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let viv = process::viv(bench)?;
    let mut weights = Samples::default();
    for _ in 0..MEMORY_RUNS {
        let dir = bench.scratch()?;
        weights.push(weigh(&process::up(&viv, dir.path())?)?);
    }
    let note = format!(
        "anonymous memory of `viv up` per subscriber of {CROWD} that connected {CONNECTING_AT_ONCE} at a time; {MEMORY_RUNS} \
         processes ({}); floor: {} KiB, one buffer",
        weights.spread(),
        short(BUFFER)
    );
    let memory = (weights.median(), "KiB");
    Ok(vec![Metric::new("stream.memory", memory, Floor::Bound(BUFFER), Goal::ValueAtMost(MOST), note)])
}

/// KiB per subscriber.
fn weigh(viv: &Running) -> Result<f64> {
    let address = viv.ready_line["url"].as_str().and_then(|url| url.strip_prefix("http://"));
    let address: SocketAddr = address.context("the server did not report its address")?.parse()?;
    let key = viv.ready_line["admin_key"].as_str().context("the server did not report an admin key")?;
    let path = "/v1/spaces/home/stream";
    // The first streams allocate what all share (readers of the store, their caches).
    drop(Crowd::gather(address, path, key, 4 * CONNECTING_AT_ONCE)?);
    let before = viv.resident_mb("RssAnon")?;
    let _crowd = Crowd::gather(address, path, key, CROWD)?;
    Ok((viv.resident_mb("RssAnon")? - before) * 1e6 / 1024.0 / CROWD as f64)
}
