//! Clocks and medians.

use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::time::ClockId as AnyClock;
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

/// The clocks of the threads that [`know_threads`] found.
static THREADS: RwLock<Vec<AnyClock>> = RwLock::new(Vec::new());

/// CPU time of this process so far, in microseconds. Linux counts what a thread of another core has used since it last gave that
/// core up, or was interrupted, only when that thread's own clock is read: up to some milliseconds of a thread that was not there
/// at the last [`know_threads`] are missing.
pub(crate) fn process_cpu_us() -> f64 {
    for thread in THREADS.read().unwrap_or_else(PoisonError::into_inner).iter() {
        // A thread that has ended has no clock, and its time is counted already.
        let _ = thread.now();
    }
    cpu_us(ClockId::ProcessCPUTime)
}

/// Remembers the threads that run now, whose CPU time is then exact even while they work.
pub(crate) fn know_threads() -> Result<()> {
    let mut clocks = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").context("the threads cannot be listed")? {
        let name = task.context("the threads cannot be listed")?.file_name();
        let id = name.to_str().and_then(|text| text.parse().ok()).context("a thread's id is not a number")?;
        clocks.push(clock_of(id));
    }
    *THREADS.write().unwrap_or_else(PoisonError::into_inner) = clocks;
    Ok(())
}

/// The clock of a thread's CPU time; Linux makes its number of the thread's.
fn clock_of(thread: i32) -> AnyClock {
    const OF_A_THREAD: i32 = 0b100;
    const CPU_TIME: i32 = 0b010;
    AnyClock::from_raw(!thread << 3 | OF_A_THREAD | CPU_TIME)
}

/// CPU time of the calling thread so far, in microseconds.
pub(crate) fn own_cpu_us() -> f64 {
    cpu_us(ClockId::ThreadCPUTime)
}

fn cpu_us(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// CPU time of the thread with this name so far, in microseconds.
pub(crate) fn thread_cpu_us(name: &str) -> Result<f64> {
    for task in std::fs::read_dir("/proc/self/task").context("the threads cannot be listed")? {
        let task = task.context("the threads cannot be listed")?;
        // The files of a thread that has ended are gone.
        let Ok(comm) = std::fs::read_to_string(task.path().join("comm")) else { continue };
        if comm.trim() == name {
            let id = task.file_name().to_str().and_then(|text| text.parse().ok());
            let time = clock_of(id.context("a thread's id is not a number")?)
                .now()
                .context("the CPU time of a thread cannot be read")?;
            return Ok(time.tv_sec() as f64 * 1e6 + time.tv_nsec() as f64 / 1e3);
        }
    }
    anyhow::bail!("no thread is called `{name}`")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// A busy thread and one that asks, on two cores: what the busy one has used is counted before it stops. On a machine that has
    /// other work the two seldom run at once, so it is tried for a while.
    #[test]
    fn the_time_of_a_thread_that_runs_is_counted() {
        let (stop, began) = (AtomicBool::new(false), Instant::now());
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            know_threads().unwrap();
            let mut counted = false;
            while !counted && began.elapsed() < Duration::from_secs(30) {
                let work = Instant::now();
                while us(work.elapsed()) < 200.0 {}
                let plain = cpu_us(ClockId::ProcessCPUTime);
                counted = process_cpu_us() - plain > 100.0;
            }
            stop.store(true, Ordering::Relaxed);
            // Alone on one core, the busy thread never runs while its time is read.
            let cores = thread::available_parallelism().unwrap().get();
            assert!(cores == 1 || counted);
        });
    }
}
