//! Counts of what was done and what happened, which add up over worlds.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use failpoint::POINTS;

use crate::check::{Breach, BreachKind};
use crate::stub::StubCounts;

/// The counts of one or more worlds.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Worlds, each with its own data directory.
    pub worlds: u64,
    /// SIGKILLs, including those before the process was ready.
    pub kills: u64,
    /// SIGKILLs before the process was ready.
    pub early: u64,
    /// SIGSTOPs, each with its SIGCONT.
    pub halts: u64,
    /// SIGTERMs.
    pub terms: u64,
    /// Deaths at each failpoint.
    pub points: BTreeMap<&'static str, u64>,
    /// Items that the server accepted.
    pub accepted: u64,
    /// Repeated items that the server recognized.
    pub known: u64,
    /// Events that were processed.
    pub processed: u64,
    /// Events that were skipped.
    pub skipped: u64,
    /// Events that became dead.
    pub dead: u64,
    /// Cycles.
    pub cycles: u64,
    /// Cycles that were continued after a death.
    pub resumed: u64,
    /// Messages posted by agents.
    pub replies: u64,
    /// Outside effects, including repeats under the same key.
    pub effects: u64,
    /// Effects that happened again under the same key.
    pub repeats: u64,
    /// Calls whose outcome was reported to the agent as unknown.
    pub unknown: u64,
    /// Of those, the ones whose outcome was reported after all.
    pub answered_late: u64,
    /// SIGKILLs of workers.
    pub worker_kills: u64,
    /// SIGSTOPs of workers, which continue when their calls were given up.
    pub worker_pauses: u64,
    /// Calls that a second worker ran, because the first was gone.
    pub claimed_again: u64,
    /// Requests to the model.
    pub requests: u64,
    /// Model streams that were cut off and model requests that were rejected, on purpose.
    pub model_failures: u64,
    /// The duration of each start.
    pub ready: Vec<Duration>,
    /// Broken promises, by kind.
    pub broken: BTreeMap<BreachKind, u64>,
    /// The total duration.
    pub took: Duration,
}

impl Tally {
    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        let Self { worlds, kills, early, halts, terms, accepted, known, processed, skipped, dead, .. } =
            other;
        let Self { cycles, resumed, replies, effects, repeats, unknown, requests, model_failures, .. } =
            other;
        let Self { answered_late, worker_kills, worker_pauses, claimed_again, .. } = other;
        let pairs = [
            (&mut self.worlds, worlds),
            (&mut self.kills, kills),
            (&mut self.early, early),
            (&mut self.halts, halts),
            (&mut self.terms, terms),
            (&mut self.accepted, accepted),
            (&mut self.known, known),
            (&mut self.processed, processed),
            (&mut self.skipped, skipped),
            (&mut self.dead, dead),
            (&mut self.cycles, cycles),
            (&mut self.resumed, resumed),
            (&mut self.replies, replies),
            (&mut self.effects, effects),
            (&mut self.repeats, repeats),
            (&mut self.unknown, unknown),
            (&mut self.answered_late, answered_late),
            (&mut self.worker_kills, worker_kills),
            (&mut self.worker_pauses, worker_pauses),
            (&mut self.claimed_again, claimed_again),
            (&mut self.requests, requests),
            (&mut self.model_failures, model_failures),
        ];
        pairs.into_iter().for_each(|(sum, more)| *sum += more);
        for (point, hits) in &other.points {
            *self.points.entry(point).or_default() += hits;
        }
        for (kind, times) in &other.broken {
            *self.broken.entry(*kind).or_default() += times;
        }
        self.ready.extend(&other.ready);
        self.took += other.took;
    }

    /// Adds broken promises.
    pub fn count(&mut self, breaches: &[Breach]) {
        for breach in breaches {
            *self.broken.entry(breach.kind).or_default() += 1;
        }
    }

    /// Adds the counts of the model stub.
    pub fn add_model(&mut self, counts: &StubCounts) {
        self.requests += counts.requests;
        self.model_failures += counts.cut + counts.failed;
    }

    /// Deaths of the process of any kind.
    pub fn deaths(&self) -> u64 {
        self.kills + self.points.values().sum::<u64>()
    }

    /// Failpoints that were never reached.
    pub fn never_hit(&self) -> Vec<&'static str> {
        POINTS.iter().copied().filter(|point| !self.points.contains_key(point)).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worlds, kills, early, halts, terms, accepted, known, processed, skipped, dead, .. } = self;
        let Self { cycles, resumed, replies, effects, repeats, unknown, requests, model_failures, .. } = self;
        let Self { answered_late, worker_kills, worker_pauses, claimed_again, .. } = self;
        let mut ready = self.ready.clone();
        ready.sort_unstable();
        let ms = |at: usize| ready.get(at).map_or(0, Duration::as_millis);
        let (median, most) = (ms(ready.len() / 2), ms(ready.len().saturating_sub(1)));
        let broken = |kind| self.broken.get(&kind).copied().unwrap_or(0);
        let (points, hits) = (self.points.len(), self.points.values().sum::<u64>());
        write!(
            f,
            "{worlds} worlds: {kills} SIGKILL ({early} before ready), {hits} deaths at {points} of {} points, {halts} SIGSTOP, \
             {terms} SIGTERM; {accepted} accepted ({known} repeats recognized), {processed} events processed, {skipped} skipped, \
             {dead} dead, {cycles} cycles ({resumed} continued after a death), {replies} replies; {effects} outside effects \
             ({repeats} idempotent ones repeated, {unknown} reported as unknown, {answered_late} of those answered late); \
             {worker_kills} SIGKILL and {worker_pauses} SIGSTOP of workers, {claimed_again} calls taken by a second worker; \
             {requests} model requests ({model_failures} \
             failed on purpose); ready in {median} ms \
             (median; at most {most}); lost {}, doubled {}, unsafe repeated {}, unapproved {}, invalid histories {}; {:.0} s",
            POINTS.len(),
            broken(BreachKind::Lost),
            broken(BreachKind::Doubled),
            broken(BreachKind::Repeated),
            broken(BreachKind::Unapproved),
            broken(BreachKind::Invalid),
            self.took.as_secs_f64(),
        )
    }
}
