//! The machine of a run, and what its disk does by itself.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::Bench;
use crate::measure::{Samples, timed};

/// One frame of a write-ahead log: a page and its header.
const FRAME: usize = 4096 + 24;
/// Frames of the file that is written over and over, as a recycled log is.
const FRAMES: usize = 1_000;

/// Writes as the store's log does, and nothing else: the floor of everything durable.
pub(crate) struct Disk {
    file: File,
    at: usize,
}

impl Disk {
    /// A file of its own in `dir`, as long as it will ever be.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let file = File::create(dir.join("disk.bin")).context("no file to write to")?;
        file.write_all_at(&vec![1; FRAME * FRAMES], 0).context("no room to write")?;
        file.sync_all().context("the disk does not take what is written")?;
        Ok(Self { file, at: 0 })
    }

    /// Writes `frames` and waits until they are on disk: microseconds of the waiting alone.
    pub(crate) fn fsync(&mut self, frames: usize) -> Result<f64> {
        for _ in 0..frames {
            self.at = (self.at + 1) % FRAMES;
            // Other bytes each time: nothing may be found to be there already.
            let byte = u8::try_from(self.at % 251).unwrap_or(0);
            self.file.write_all_at(&[byte; FRAME], (self.at * FRAME) as u64).context("no room to write")?;
        }
        let (took, synced) = timed(|| self.file.sync_all());
        synced.context("the disk does not take what is written")?;
        Ok(took)
    }
}

/// What a table must say about where it was made.
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    fsync: Samples,
    load: String,
}

impl Machine {
    /// Looks.
    pub(crate) fn look(bench: &Bench) -> Result<Self> {
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

    /// In one line.
    pub(crate) fn line(&self) -> String {
        let median = self.fsync.median() / 1e3;
        let (low, high) = (self.fsync.quantile(0.1) / 1e3, self.fsync.quantile(0.9) / 1e3);
        format!(
            "{} cores of {}; fsync {median:.3} ms (p10 {low:.3}, p90 {high:.3}); load {} at the end",
            self.cores, self.cpu, self.load
        )
    }
}
