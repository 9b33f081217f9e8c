//! Clocks and medians.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// Measurements of one quantity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds a measurement.
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Adds all measurements of another set.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    /// The number of measurements.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The value below which this `part` (0 to 1) of the measurements lies.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        // At most the last index, rounded down.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let at = ((sorted.len() as f64 - 1.0).max(0.0) * part) as usize;
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }

    /// The median.
    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The spread as text: p10, p90 and the number of measurements.
    pub(crate) fn spread(&self) -> String {
        format!("p10 {} p90 {} n {}", short(self.quantile(0.1)), short(self.quantile(0.9)), self.len())
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// A number with about three significant digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A duration in microseconds.
pub(crate) fn us(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Runs `work` and returns its time in microseconds.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let began = Instant::now();
    let done = work();
    (us(began.elapsed()), done)
}

/// CPU time of this process so far, in microseconds.
pub(crate) fn process_cpu_us() -> f64 {
    cpu_us(ClockId::ProcessCPUTime)
}

/// CPU time of the calling thread so far, in microseconds.
pub(crate) fn own_cpu_us() -> f64 {
    cpu_us(ClockId::ThreadCPUTime)
}

fn cpu_us(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// CPU time of the thread with this name so far, in microseconds. Exact only while the thread sleeps.
pub(crate) fn thread_cpu_us(name: &str) -> Result<f64> {
    for task in std::fs::read_dir("/proc/self/task").context("the threads cannot be listed")? {
        let task = task.context("the threads cannot be listed")?.path();
        // The files of a thread that has ended are gone.
        let Ok(comm) = std::fs::read_to_string(task.join("comm")) else { continue };
        if comm.trim() == name {
            let stat = std::fs::read_to_string(task.join("schedstat"))
                .context("the CPU time of a thread cannot be read")?;
            let nanos = stat.split_whitespace().next().and_then(|text| text.parse::<f64>().ok());
            return Ok(nanos.context("a thread's CPU time is not a number")? / 1e3);
        }
    }
    anyhow::bail!("no thread is called `{name}`")
}
