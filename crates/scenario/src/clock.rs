//! Simulated time and entropy: a clock that moves only on request, and ids that repeat with their seed. They
//! replace those of the machine in worlds that must run the same way every time.
//!
//! This module must not know what waits on the clock, and never waits for real time.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use agent::port::{BoxFuture, Clock, Ids};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

/// Turns of the executor without any use of the clock after which everything counts as idle. One turn lets
/// every ready task run once, so this limits the chain of tasks between two uses.
const QUIET_TURNS: u32 = 64;
/// Turns of the executor at one moment. More mean that a task never stops using the clock.
const TURNS_MAX: u32 = 1_000_000;
/// Jumps of one [`SimClock::run_until`]. Without this limit a future that never becomes ready would wait
/// forever while a sweep sleeps again and again.
const JUMPS_MAX: u32 = 10_000;

/// Milliseconds from one moment to a later one.
pub(crate) fn since(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millisecond() - from.as_millisecond()).unwrap_or(0)
}

/// The key of a sleeper: when it is due (milliseconds since the start), then the order of registration.
type Alarm = (u64, u64);

struct State {
    /// The wall-clock time of the start, shifted by every jump since.
    start: Timestamp,
    elapsed_ms: u64,
    registered: u64,
    /// Counts every use of the clock, so that [`SimClock::run_until`] sees activity.
    touches: u64,
    waiters: BTreeMap<Alarm, Option<Waker>>,
}

impl State {
    fn moment(&self, elapsed_ms: u64) -> Timestamp {
        let elapsed = SignedDuration::from_millis(i64::try_from(elapsed_ms).unwrap_or(i64::MAX));
        // Time stops at the year 9999, which no world reaches.
        self.start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}

/// A clock that stands still until it is moved. Clones share the same time.
#[derive(Clone)]
pub struct SimClock(Arc<Mutex<State>>);

/// Why [`SimClock::run_until`] gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// The future waits, but nothing sleeps on the clock, so passing time cannot wake it.
    NoSleepers {
        /// Where `run_until` was called, as `file:line`.
        position: String,
        /// The simulated time at that moment.
        now: Timestamp,
        /// Number of jumps before.
        jumps: u32,
    },
    /// Time passed again and again, and the future still waits.
    NeverReady {
        /// Where `run_until` was called, as `file:line`.
        position: String,
        /// The simulated time at that moment.
        now: Timestamp,
        /// When the remaining sleepers are due, earliest first; at most ten.
        sleepers: Vec<Timestamp>,
    },
    /// A task uses the clock without end and never sleeps.
    NeverIdle {
        /// Where `run_until` was called, as `file:line`.
        position: String,
        /// The simulated time at that moment.
        now: Timestamp,
    },
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSleepers { position, now, jumps } => write!(
                f,
                "the future of `{position}` is stuck at {now} after {jumps} jumps: it waits, but nothing sleeps \
                 on the simulated clock\nhint: it waits for a signal that was never sent, or for real time \
                 or another thread"
            ),
            Self::NeverReady { position, now, sleepers } => {
                let sleepers: Vec<_> = sleepers.iter().map(Timestamp::to_string).collect();
                write!(
                    f,
                    "the future of `{position}` is stuck at {now}: it is not ready after {JUMPS_MAX} jumps; \
                     still asleep until {}",
                    sleepers.join(", ")
                )
            }
            Self::NeverIdle { position, now } => write!(
                f,
                "the future of `{position}` is stuck at {now}: a task uses the clock without end and \
                 never sleeps"
            ),
        }
    }
}

impl std::error::Error for Stuck {}

impl SimClock {
    /// A clock that shows `start`, truncated to whole milliseconds.
    pub fn new(start: Timestamp) -> Self {
        let start = Timestamp::from_millisecond(start.as_millisecond()).unwrap_or(start);
        Self(Arc::new(Mutex::new(State {
            start,
            elapsed_ms: 0,
            registered: 0,
            touches: 0,
            waiters: BTreeMap::new(),
        })))
    }

    /// Moves the time forward and wakes all sleepers that are due by then, earliest first, among equals in the
    /// order of registration. All of them see the later time; use [`SimClock::pass`] to let each sleeper wake
    /// at its own time.
    pub fn advance(&self, duration: Duration) {
        let to = self.lock().elapsed_ms.saturating_add(millis(duration));
        self.move_to(to);
    }

    /// Sets the wall clock forward or back, as a person or a time service does. No time passes: no sleeper
    /// wakes, and [`Clock::monotonic_ms`] is not affected.
    pub fn jump_wall(&self, by: SignedDuration) {
        let mut state = self.lock();
        state.start = state.start.checked_add(by).unwrap_or(state.start);
        state.touches += 1;
    }

    /// Jumps to the moment at which the next sleeper is due and wakes all that are due then. Returns `None` and
    /// leaves the time unchanged if nothing sleeps.
    pub fn advance_to_next(&self) -> Option<Timestamp> {
        let next = {
            let state = self.lock();
            // A sleep of zero length is due already; time never goes back for it.
            state.waiters.keys().next().map(|(due, _)| (*due).max(state.elapsed_ms))?
        };
        self.move_to(next);
        Some(self.lock().moment(next))
    }

    /// When each sleeper is due, earliest first. Dropped sleeps are not listed.
    pub fn pending(&self) -> Vec<Timestamp> {
        let state = self.lock();
        state.waiters.keys().map(|(due, _)| state.moment(*due)).collect()
    }

    /// Lets `duration` pass step by step: each sleeper wakes at its own time, and all tasks run until they are
    /// idle before the time moves on. Needs a current-thread executor.
    #[track_caller]
    pub fn pass(&self, duration: Duration) -> impl Future<Output = Result<(), Stuck>> + use<> {
        let position = position(Location::caller());
        let clock = self.clone();
        async move {
            let end = clock.lock().elapsed_ms.saturating_add(millis(duration));
            for _ in 0..JUMPS_MAX {
                clock.idle(&position, &mut pin!(std::future::pending::<()>())).await?;
                let next = clock.lock().waiters.keys().next().map(|(due, _)| *due);
                match next {
                    Some(due) if due <= end => clock.move_to(due),
                    _ => {
                        clock.move_to(end);
                        clock.idle(&position, &mut pin!(std::future::pending::<()>())).await?;
                        return Ok(());
                    }
                }
            }
            Err(clock.never_ready(position))
        }
    }

    /// Runs `future` to its end on a current-thread executor and jumps to the next sleeper whenever everything
    /// is idle, so that simulated hours take no real time. Everything that the future waits for must be in this
    /// process and on this clock; work of other threads and real timers are not seen.
    #[track_caller]
    pub fn run_until<'a, F: Future + 'a>(
        &self,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Stuck>> + use<'a, F> {
        let position = position(Location::caller());
        let clock = self.clone();
        async move {
            let mut future = pin!(future);
            for jumps in 0..=JUMPS_MAX {
                if let Some(output) = clock.idle(&position, &mut future).await? {
                    return Ok(output);
                }
                if jumps < JUMPS_MAX && clock.advance_to_next().is_none() {
                    return Err(Stuck::NoSleepers { position, now: clock.now(), jumps });
                }
            }
            Err(clock.never_ready(position))
        }
    }

    /// Polls `future` and lets all tasks run until none has used the clock for [`QUIET_TURNS`]. Returns `Some` as
    /// soon as the future is ready.
    async fn idle<F: Future>(
        &self,
        position: &str,
        future: &mut Pin<&mut F>,
    ) -> Result<Option<F::Output>, Stuck> {
        let mut quiet = 0;
        let mut seen = self.lock().touches;
        for _ in 0..TURNS_MAX {
            if let Poll::Ready(output) = futures_util::poll!(future.as_mut()) {
                return Ok(Some(output));
            }
            tokio::task::yield_now().await;
            let touches = self.lock().touches;
            quiet = if touches == seen { quiet + 1 } else { 0 };
            seen = touches;
            if quiet >= QUIET_TURNS {
                return Ok(None);
            }
        }
        Err(Stuck::NeverIdle { position: position.to_owned(), now: self.now() })
    }

    fn never_ready(&self, position: String) -> Stuck {
        let sleepers = self.pending().into_iter().take(10).collect();
        Stuck::NeverReady { position, now: self.now(), sleepers }
    }

    fn move_to(&self, elapsed_ms: u64) {
        let woken: Vec<_> = {
            let mut state = self.lock();
            state.elapsed_ms = state.elapsed_ms.max(elapsed_ms);
            state.touches += 1;
            let after = (state.elapsed_ms.saturating_add(1), 0);
            let later = state.waiters.split_off(&after);
            std::mem::replace(&mut state.waiters, later).into_values().flatten().collect()
        };
        // Outside the lock, because a waker may run code that uses the clock.
        woken.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for SimClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        write!(f, "SimClock({}, {} asleep)", state.moment(state.elapsed_ms), state.waiters.len())
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let mut state = self.lock();
        state.touches += 1;
        state.moment(state.elapsed_ms)
    }

    fn monotonic_ms(&self) -> u64 {
        let mut state = self.lock();
        state.touches += 1;
        state.elapsed_ms
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut state = self.lock();
        state.touches += 1;
        state.registered += 1;
        let alarm = (state.elapsed_ms.saturating_add(millis(duration)), state.registered);
        state.waiters.insert(alarm, None);
        Box::pin(Sleep { clock: self.clone(), alarm })
    }
}

/// One sleep. It is registered when it is created, not at the first poll, as real sleeps are. Dropping it
/// removes it.
struct Sleep {
    clock: SimClock,
    alarm: Alarm,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.lock();
        if state.elapsed_ms >= self.alarm.0 {
            state.touches += 1;
            state.waiters.remove(&self.alarm);
            return Poll::Ready(());
        }
        state.waiters.insert(self.alarm, Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let mut state = self.clock.lock();
        if state.waiters.remove(&self.alarm).is_some() {
            state.touches += 1;
        }
    }
}

/// Whole milliseconds, rounded up, so that no sleep is shorter than requested.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn position(caller: &Location<'_>) -> String {
    format!("{}:{}", caller.file(), caller.line())
}

/// Entropy that repeats with its seed: UUIDs v7 in the order of simulated time, and jitter from a separate
/// sequence, so that an additional id changes no pause.
#[derive(Debug)]
pub struct SimIds {
    clock: SimClock,
    seed: u64,
    created: AtomicU64,
    drawn: AtomicU64,
}

impl SimIds {
    /// Ids for the seed, with times from `clock`.
    pub fn new(seed: u64, clock: SimClock) -> Self {
        Self { clock, seed, created: AtomicU64::new(0), drawn: AtomicU64::new(0) }
    }
}

impl Ids for SimIds {
    fn uuid(&self) -> Uuid {
        let millis = u64::try_from(self.clock.now().as_millisecond()).unwrap_or(0);
        let count = self.created.fetch_add(1, Ordering::Relaxed);
        // The counter fills the first 42 free bits after the time (12 next to the version, 30 after the
        // variant), so that ids of one millisecond are in order. The seed makes ids of worlds different.
        let mut bytes = [0u8; 10];
        bytes[..2].copy_from_slice(&u16::try_from((count >> 30) & 0xFFF).unwrap_or(0).to_be_bytes());
        bytes[2..6].copy_from_slice(&u32::try_from(count & 0x3FFF_FFFF).unwrap_or(0).to_be_bytes());
        bytes[6..].copy_from_slice(&mixed(self.seed, count).to_be_bytes()[..4]);
        uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
    }

    fn jitter(&self, bound: u64) -> u64 {
        let count = self.drawn.fetch_add(1, Ordering::Relaxed);
        mixed(!self.seed, count) % bound.max(1)
    }
}

/// SplitMix64: well distributed numbers from a seed and a counter, without a dependency.
fn mixed(seed: u64, count: u64) -> u64 {
    let mut z = seed.wrapping_add(count.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tokio::sync::oneshot;

    const SECOND: Duration = Duration::from_secs(1);

    fn start() -> Timestamp {
        "2026-11-21T14:03:05Z".parse().unwrap()
    }

    type Log = Arc<Mutex<Vec<String>>>;

    fn sleeper(clock: &SimClock, log: &Log, name: &str, seconds: u64) -> tokio::task::JoinHandle<()> {
        let (clock, log, name) = (clock.clone(), Arc::clone(log), name.to_owned());
        let sleep = clock.sleep(SECOND * u32::try_from(seconds).unwrap());
        tokio::spawn(async move {
            sleep.await;
            log.lock().unwrap().push(format!("{name}@{}", clock.monotonic_ms() / 1000));
        })
    }

    #[test]
    fn time_stands_still_until_it_is_moved() {
        let clock = SimClock::new(start());
        assert_eq!((clock.now(), clock.monotonic_ms()), (start(), 0));
        clock.advance(SECOND * 90);
        assert_eq!(clock.now(), "2026-11-21T14:04:35Z".parse().unwrap());
        assert_eq!(clock.monotonic_ms(), 90_000);
        assert_eq!(clock.advance_to_next(), None);
        assert_eq!(clock.monotonic_ms(), 90_000);
    }

    #[tokio::test]
    async fn a_jump_of_the_wall_clock_lets_no_time_pass() {
        let clock = SimClock::new(start());
        let sleep = clock.sleep(SECOND);
        clock.jump_wall(SignedDuration::from_hours(24));
        assert_eq!((clock.now(), clock.monotonic_ms()), (start() + SECOND * 86_400, 0));
        clock.jump_wall(SignedDuration::from_hours(-48));
        assert_eq!(clock.now(), start() - SECOND * 86_400);
        clock.run_until(sleep).await.unwrap();
        assert_eq!(clock.monotonic_ms(), 1_000);
    }

    #[tokio::test]
    async fn sleepers_wake_in_order_of_time_and_then_of_registration() {
        let (clock, log) = (SimClock::new(start()), Log::default());
        let tasks = [("c", 3), ("a", 1), ("b", 2), ("b2", 2)].map(|(n, s)| sleeper(&clock, &log, n, s));
        assert_eq!(clock.pending().len(), 4);
        clock.run_until(futures_util::future::join_all(tasks)).await.unwrap();
        assert_eq!(*log.lock().unwrap(), ["a@1", "b@2", "b2@2", "c@3"]);
    }

    #[tokio::test]
    async fn passing_time_wakes_each_sleeper_at_its_own_time() {
        let (clock, log) = (SimClock::new(start()), Log::default());
        for (name, seconds) in [("a", 1), ("b", 5), ("c", 9)] {
            sleeper(&clock, &log, name, seconds);
        }
        clock.pass(SECOND * 6).await.unwrap();
        assert_eq!(*log.lock().unwrap(), ["a@1", "b@5"]);
        assert_eq!(clock.monotonic_ms(), 6_000);
        assert_eq!(clock.pending(), [start() + SECOND * 9]);
    }

    #[tokio::test]
    async fn a_chain_of_sleeps_across_tasks_takes_no_real_time() {
        let clock = SimClock::new(start());
        let (sender, receiver) = oneshot::channel();
        let inner = clock.clone();
        tokio::spawn(async move {
            for _ in 0..24 {
                inner.sleep(SECOND * 3600).await;
            }
            sender.send(inner.now()).unwrap();
        });
        let ended = clock.run_until(receiver).await.unwrap().unwrap();
        assert_eq!(ended, start() + SECOND * 86_400);
    }

    #[tokio::test]
    async fn work_that_needs_no_time_is_done_before_time_moves() {
        let clock = SimClock::new(start());
        let inner = clock.clone();
        let long = clock.sleep(SECOND * 10);
        let work = tokio::spawn(async move {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            inner.monotonic_ms()
        });
        let (at, ()) = clock.run_until(futures_util::future::join(work, long)).await.unwrap();
        assert_eq!(at.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_dropped_sleep_is_not_waited_for() {
        let clock = SimClock::new(start());
        drop(clock.sleep(SECOND));
        assert!(clock.pending().is_empty());
        let never = clock.run_until(std::future::pending::<()>()).await.unwrap_err();
        assert!(matches!(never, Stuck::NoSleepers { jumps: 0, .. }));
        assert!(never.to_string().contains("clock.rs:"), "the position is named: {never}");
    }

    #[tokio::test]
    async fn a_future_that_never_becomes_ready_while_others_sleep_is_reported() {
        let clock = SimClock::new(start());
        let inner = clock.clone();
        tokio::spawn(async move {
            loop {
                inner.sleep(SECOND * 5).await;
            }
        });
        let stuck = clock.run_until(std::future::pending::<()>()).await.unwrap_err();
        let Stuck::NeverReady { now, sleepers, .. } = stuck else { panic!("got {stuck}") };
        assert_eq!(sleepers, [now + SECOND * 5]);
    }

    #[tokio::test]
    async fn a_sleep_is_rounded_up_and_one_of_zero_ends_at_once() {
        let clock = SimClock::new(start());
        clock.sleep(Duration::ZERO).await;
        clock.run_until(clock.sleep(Duration::from_micros(1))).await.unwrap();
        assert_eq!(clock.monotonic_ms(), 1);
    }

    #[test]
    fn ids_are_v7_in_the_order_of_time_and_repeat_with_their_seed() {
        let world = |seed| {
            let clock = SimClock::new(start());
            let ids = SimIds::new(seed, clock.clone());
            let mut created = Vec::new();
            for round in 0..40 {
                created.push(ids.uuid());
                if round % 10 == 9 {
                    clock.advance(Duration::from_millis(1));
                }
            }
            created
        };
        let created = world(7);
        assert!(created.is_sorted() && created.iter().collect::<BTreeSet<_>>().len() == 40);
        assert!(created.iter().all(|id| id.get_version_num() == 7));
        let (seconds, _) = created[0].get_timestamp().unwrap().to_unix();
        assert_eq!(i64::try_from(seconds).unwrap(), start().as_second());
        assert_eq!(created, world(7));
        assert_ne!(created, world(8));
    }

    #[test]
    fn jitter_stays_below_its_bound_and_does_not_depend_on_ids() {
        let draw = |ids: usize| {
            let entropy = SimIds::new(3, SimClock::new(start()));
            (0..ids).for_each(|_| assert!(!entropy.uuid().is_nil()));
            (0..50).map(|_| entropy.jitter(10)).collect::<Vec<_>>()
        };
        let drawn = draw(0);
        assert!(drawn.iter().all(|n| *n < 10) && drawn.iter().collect::<BTreeSet<_>>().len() > 5);
        assert_eq!(drawn, draw(9));
        assert_eq!(SimIds::new(3, SimClock::new(start())).jitter(0), 0);
    }
}
