//! The random faults of one process: when it is paused, how it is ended, and which faults are injected.

use std::collections::BTreeMap;

use failpoint::POINTS;

use crate::binary::Faults;
use crate::random::Rng;
use crate::stub::ModelFailure;

/// In half of the rounds the load lasts so many milliseconds.
const LOAD_MS: (u64, u64) = (50, 400);
/// The other rounds end shortly after a commit or an effect outside: the largest number of them to wait for, the timeout
/// of the wait in milliseconds, and the longest time in milliseconds from the last one to the end.
const COMMITS: (u64, u64, u64) = (8, 1_500, 12);
const EFFECTS: (u64, u64, u64) = (6, 1_500, 8);
/// One in so many processes is killed before it is ready, within so many milliseconds.
const EARLY: (u64, u64) = (8, 80);
/// One in so many processes is paused for so many milliseconds.
const HALT: (u64, (u64, u64)) = (4, (20, 400));
/// One in so many processes is stopped by SIGTERM.
const TERM_ONE_IN: u64 = 6;
/// A worker dies while one in so many processes is under load, one in so many of those is only paused. Half of them do so
/// shortly after an effect of a worker (bounds as of `EFFECTS`), the others within so many milliseconds.
const WORKER: (u64, u64) = (3, 4);
const WORKER_EFFECTS: (u64, u64, u64) = (4, 500, 4);
const WORKER_MS: u64 = 150;

/// Failpoints between the opening of a cycle and its decision: there the sabotage `drain-first` loses events.
const BEFORE_DECISION: [&str; 4] = ["stream.first_byte", "stream.middle", "stream.done", "decide.before"];

/// Which binary runs, on which disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// The build that is shipped; faults come from outside only.
    Plain,
    /// The build with `failpoints`: each process ends at a failpoint.
    Points,
    /// The build with `failpoints` on a disk that loses everything that was not synced.
    Power,
}

impl Variant {
    /// The name, as in `VIV_ONLY`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Points => "points",
            Self::Power => "power",
        }
    }

    /// The reverse of [`Variant::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Plain, Self::Points, Self::Power].into_iter().find(|variant| variant.as_str() == text)
    }
}

/// A faulty protocol or setting that breaks promises, which the checks must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Events leave the inbox when a cycle opens.
    DrainFirst,
    /// Commits are confirmed before they are on disk.
    SyncNormal,
    /// The declarations of `unsafe` tools say that they only read, so that their calls are repeated.
    LyingTools,
}

impl Sabotage {
    const ALL: [Self; 3] = [Self::DrainFirst, Self::SyncNormal, Self::LyingTools];

    /// The name, as in `VIV_SABOTAGE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DrainFirst => "drain-first",
            Self::SyncNormal => "sync-normal",
            Self::LyingTools => "lying-tools",
        }
    }

    /// The reverse of [`Sabotage::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sabotage| sabotage.as_str() == text)
    }

    /// The fault of the same name in `VIV_FAULTS`, if the sabotage is one inside the binary.
    pub fn fault(self) -> Option<&'static str> {
        (self != Self::LyingTools).then(|| self.as_str())
    }

    /// The kind of world in which it does harm.
    pub fn variant(self) -> Variant {
        match self {
            Self::DrainFirst => Variant::Points,
            Self::SyncNormal => Variant::Power,
            Self::LyingTools => Variant::Plain,
        }
    }
}

/// How long a process is under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadLength {
    /// A time in milliseconds.
    Ms(u64),
    /// Until shortly after commits were streamed.
    Commits(ShortlyAfter),
    /// Until shortly after tools had effects outside.
    Effects(ShortlyAfter),
    /// Until it dies by itself, at most so many milliseconds.
    UntilItDies(u64),
}

/// Shortly after something has happened several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortlyAfter {
    /// How often it must happen.
    pub times: usize,
    /// The longest wait for that, in milliseconds.
    pub at_most_ms: u64,
    /// The time from the last one to the end, in milliseconds.
    pub then_ms: u64,
}

impl ShortlyAfter {
    fn random((most, at_most_ms, longest): (u64, u64, u64), rng: &mut Rng) -> Self {
        Self { times: rng.between(1, most) as usize, at_most_ms, then_ms: rng.between(0, longest) }
    }
}

/// How a process is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// SIGKILL.
    Kill,
    /// SIGTERM: the process must end by itself in time, successfully or at its failpoint.
    Term,
}

/// The end of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerEnd {
    /// SIGKILL.
    Kill,
    /// SIGSTOP: it continues when the agents have given it up.
    Pause,
}

/// The faults of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// Kill it so many milliseconds after its start, ready or not.
    pub early_ms: Option<u64>,
    /// The time under load.
    pub load: LoadLength,
    /// Pause it for so many milliseconds.
    pub halt_ms: Option<u64>,
    /// How it is ended if it has not died by itself.
    pub end: End,
    /// The failpoint at which it dies.
    pub point: Option<&'static str>,
    /// Its environment variables.
    pub faults: Faults,
    /// How its model fails, and whether only once.
    pub model_failure: Option<(ModelFailure, bool)>,
    /// When and how one of its workers ends: shortly after effects of workers, of which there may be none.
    pub worker: Option<(ShortlyAfter, WorkerEnd)>,
}

impl FaultPlan {
    /// The faults of the process of this round. `hit` is how often each failpoint was reached so far.
    pub fn of(
        variant: Variant,
        sabotage: Option<Sabotage>,
        (seed, round): (u64, u64),
        hit: &BTreeMap<&'static str, u64>,
    ) -> Self {
        let mut rng = Rng::derive(seed, &[round, 99]);
        let early_ms = (round > 0 && rng.one_in(EARLY.0)).then(|| rng.between(0, EARLY.1));
        let load = match rng.between(0, 3) {
            2 => LoadLength::Commits(ShortlyAfter::random(COMMITS, &mut rng)),
            3 => LoadLength::Effects(ShortlyAfter::random(EFFECTS, &mut rng)),
            _ => LoadLength::Ms(rng.between(LOAD_MS.0, LOAD_MS.1)),
        };
        let halt_ms = rng.one_in(HALT.0).then(|| rng.between(HALT.1.0, HALT.1.1));
        let end = if round > 0 && rng.one_in(TERM_ONE_IN) { End::Term } else { End::Kill };
        // The first process creates the world, which the checks need.
        let sabotage = sabotage.filter(|_| round > 0);
        let mut faults: Vec<&str> = sabotage.and_then(Sabotage::fault).into_iter().collect();
        if variant != Variant::Plain {
            // Every checkpoint of the write-ahead log syncs, which would hide the sabotage of missing syncs.
            faults.extend((sabotage != Some(Sabotage::SyncNormal)).then_some("small-log"));
            faults.extend(rng.one_in(4).then_some("answers-lost"));
        }
        if variant == Variant::Power {
            faults.push("power-loss");
        }
        let (point, model_failure, worker) = (None, None, worker_fault(seed, round));
        let mut plan =
            Self { early_ms, load, halt_ms, end, point, faults: Faults::new(), model_failure, worker };
        if variant == Variant::Points || (variant == Variant::Power && round > 0 && rng.one_in(3)) {
            let point = match sabotage {
                Some(Sabotage::DrainFirst) => *rng.pick(&BEFORE_DECISION),
                _ => least_reached(variant, round, hit, &mut rng),
            };
            plan = plan.with_failpoint(point, hit.contains_key(point), &mut rng);
        }
        if sabotage == Some(Sabotage::LyingTools) {
            plan = Self { early_ms: None, halt_ms: None, end: End::Kill, ..plan };
            plan.load = LoadLength::Effects(ShortlyAfter::random(EFFECTS, &mut rng));
        }
        if !faults.is_empty() {
            plan.faults.push(("VIV_FAULTS", faults.join(",")));
        }
        plan
    }

    /// The same faults, with a death at that failpoint: at its first occurrence if it was never reached before.
    fn with_failpoint(mut self, point: &'static str, hit_before: bool, rng: &mut Rng) -> Self {
        let most = match point {
            _ if !hit_before => 1,
            "migrate" => 8,
            "boot" | "shutdown" => 1,
            // Reached only by agents that were running a cycle when the previous process died.
            "sent.before" | "sent.committed" | "arrived.before" | "arrived.committed" => 1,
            "stream.middle" => 40,
            _ => 3,
        };
        let after = match point {
            // Long enough for the response to be sent.
            "accept.signalled" => rng.between(0, 30),
            _ if rng.one_in(3) => rng.between(1, 5),
            _ => 0,
        };
        self.early_ms = None;
        self.halt_ms = None;
        (self.load, self.end) = match point {
            "shutdown" => (LoadLength::Ms(rng.between(30, 200)), End::Term),
            _ => (LoadLength::UntilItDies(2_500), End::Kill),
        };
        self.model_failure = match point {
            "park.before" | "park.committed" => Some((ModelFailure::Overloaded, false)),
            "view.before" => Some((ModelFailure::TooLong, true)),
            _ => None,
        };
        self.point = Some(point);
        self.faults.push(("VIV_FAILPOINT", format!("{point}@{}+{after}", rng.between(1, most))));
        self
    }
}

/// When and how a worker ends in this round. Drawn apart: the other choices of a seed are the same without workers.
fn worker_fault(seed: u64, round: u64) -> Option<(ShortlyAfter, WorkerEnd)> {
    let mut rng = Rng::derive(seed, &[round, 98]);
    if !rng.one_in(WORKER.0) {
        return None;
    }
    let end = if rng.one_in(WORKER.1) { WorkerEnd::Pause } else { WorkerEnd::Kill };
    let after = match rng.between(0, 1) {
        0 => ShortlyAfter { times: 0, at_most_ms: 0, then_ms: rng.between(0, WORKER_MS) },
        _ => ShortlyAfter::random(WORKER_EFFECTS, &mut rng),
    };
    Some((after, end))
}

/// A failpoint that was reached least often. Only the first process migrates the store, and it gets only this point.
fn least_reached(
    variant: Variant,
    round: u64,
    hit: &BTreeMap<&'static str, u64>,
    rng: &mut Rng,
) -> &'static str {
    let times = |point: &str| hit.get(point).copied().unwrap_or(0);
    if round == 0 && variant == Variant::Points {
        return "migrate";
    }
    let fits = |point: &&&str| **point != "migrate";
    let least = POINTS.iter().filter(fits).map(|point| times(point)).min().unwrap_or(0);
    let least: Vec<&'static str> =
        POINTS.iter().filter(fits).copied().filter(|point| times(point) == least).collect();
    let at = rng.between(0, least.len() as u64 - 1) as usize;
    least[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_yields_the_same_faults_and_every_failpoint_is_chosen() {
        let mut hit = BTreeMap::new();
        for round in 0..POINTS.len() as u64 {
            let plan = FaultPlan::of(Variant::Points, None, (7, round), &hit);
            assert_eq!(plan, FaultPlan::of(Variant::Points, None, (7, round), &hit));
            *hit.entry(plan.point.unwrap()).or_default() += 1;
        }
        assert_eq!(hit.len(), POINTS.len());
    }

    #[test]
    fn no_faults_are_injected_into_the_plain_binary() {
        for round in 0..50 {
            let plan = FaultPlan::of(Variant::Plain, None, (3, round), &BTreeMap::new());
            assert!(plan.faults.is_empty() && plan.point.is_none());
        }
    }
}
