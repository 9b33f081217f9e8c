//! The machine of a run, and the speed of its disk alone.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::Bench;
use crate::measure::{Samples, timed};

/// One frame of a write-ahead log: a page and its header.
const FRAME: usize = 4096 + 24;
/// Frames of the file, which is overwritten again and again like a recycled log.
const FRAMES: usize = 1_000;

/// Writes like the store's log and does nothing else: the floor of durable operations.
pub(crate) struct Disk {
    file: File,
    at: usize,
}

impl Disk {
    /// Creates a file of its final length in `dir`.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let file = File::create(dir.join("disk.bin")).context("the file cannot be created")?;
        file.write_all_at(&vec![1; FRAME * FRAMES], 0).context("the file cannot be written")?;
        file.sync_all().context("the file cannot be synced")?;
        Ok(Self { file, at: 0 })
    }

    /// Writes `frames` and syncs them; returns the microseconds of the sync alone.
    pub(crate) fn fsync(&mut self, frames: usize) -> Result<f64> {
        for _ in 0..frames {
            self.at = (self.at + 1) % FRAMES;
            // Different bytes each time, so that the disk cannot skip unchanged data.
            let byte = u8::try_from(self.at % 251).unwrap_or(0);
            self.file
                .write_all_at(&[byte; FRAME], (self.at * FRAME) as u64)
                .context("the file cannot be written")?;
        }
        let (took, synced) = timed(|| self.file.sync_all());
        synced.context("the file cannot be synced")?;
        Ok(took)
    }
}

/// The machine that a report was made on.
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    fsync: Samples,
    load: String,
}

impl Machine {
    /// Inspects the machine.
    pub(crate) fn inspect(bench: &Bench) -> Result<Self> {
        let dir = bench.scratch()?;
        let mut disk = Disk::open(dir.path())?;
        let fsync = (0..300).map(|_| disk.fsync(5)).collect::<Result<Samples>>()?;
        let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = about.lines().find_map(|line| line.strip_prefix("model name"));
        let cpu = model.map_or("unknown", |text| text.trim_start_matches([' ', '\t', ':'])).to_owned();
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split_whitespace().next().unwrap_or("unknown").to_owned();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { cpu, cores, fsync, load })
    }

    /// The description as one line.
    pub(crate) fn line(&self) -> String {
        let median = self.fsync.median() / 1e3;
        let (low, high) = (self.fsync.quantile(0.1) / 1e3, self.fsync.quantile(0.9) / 1e3);
        format!(
            "{} cores of {}; fsync {median:.3} ms (p10 {low:.3}, p90 {high:.3}); load {} at the end",
            self.cores, self.cpu, self.load
        )
    }
}
