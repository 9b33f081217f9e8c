//! What a subscriber of a stream weighs, in the process that a person starts: `viv up`. How its bytes
//! are sent is `crowd`'s.

use std::net::SocketAddr;

use anyhow::{Context, Result};

use crate::Bench;
use crate::crowd::{AT_THE_DOOR, CROWD, Crowd};
use crate::measure::{Samples, short};
use crate::process::{self, Running};
use crate::report::{Goal, Metric};

/// Processes that are weighed; the middle one counts.
const LOOKS: usize = 5;
/// What a stream cannot do without, in KiB: one buffer of the socket's.
const BUFFER: f64 = 1.0;

pub(crate) fn measure(bench: &Bench) -> Result<Vec<Metric>> {
    let viv = process::viv(bench)?;
    let mut weights = Samples::default();
    for _ in 0..LOOKS {
        let dir = bench.scratch()?;
        weights.push(weigh(&process::up(&viv, dir.path())?)?);
    }
    let note = format!(
        "memory of `viv up` that is no file's, per subscriber of {CROWD} that came {AT_THE_DOOR} at a time; {LOOKS} \
         processes ({}); floor: {} KiB, a bare buffer of its own",
        weights.spread(),
        short(BUFFER)
    );
    let memory = (weights.median(), "KiB");
    Ok(vec![Metric::new("stream.memory", memory, BUFFER, Goal::ValueAtMost(3.5), note)])
}

/// KiB of each subscriber.
fn weigh(viv: &Running) -> Result<f64> {
    let address = viv.said["url"].as_str().and_then(|url| url.strip_prefix("http://"));
    let address: SocketAddr = address.context("a server that does not say where it is")?.parse()?;
    let key = viv.said["admin_key"].as_str().context("a new world without a key")?;
    let path = "/v1/spaces/home/stream";
    // Whatever the first streams make once (readers of the store, their caches) is not the crowd's.
    drop(Crowd::gather(address, path, key, 4 * AT_THE_DOOR)?);
    let before = viv.resident_mb("RssAnon")?;
    let _crowd = Crowd::gather(address, path, key, CROWD)?;
    Ok((viv.resident_mb("RssAnon")? - before) * 1e6 / 1024.0 / CROWD as f64)
}
