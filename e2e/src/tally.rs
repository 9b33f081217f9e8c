//! What was done and what came of it, in numbers that add up over worlds.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use failpoint::POINTS;

use crate::check::{Breach, WorldKind};
use crate::stub::ReceivedRequest;

/// Counts of one world or of many.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Data directories that were begun, lived in and judged.
    pub worlds: u64,
    /// SIGKILLs, those before a life was ready included.
    pub kills: u64,
    /// SIGKILLs before a life was ready.
    pub early: u64,
    /// SIGSTOPs, each with its SIGCONT.
    pub halts: u64,
    /// SIGTERMs.
    pub terms: u64,
    /// Deaths at each named point.
    pub points: BTreeMap<&'static str, u64>,
    /// What was answered with a promise, and how often a repeat was answered as known.
    pub accepted: u64,
    /// Repeats that were answered as known.
    pub known: u64,
    /// Events that were processed.
    pub lived: u64,
    /// Events that were skipped.
    pub skipped: u64,
    /// Events that became dead events.
    pub dead: u64,
    /// Cycles.
    pub cycles: u64,
    /// Cycles that a death had cut in two.
    pub resumed: u64,
    /// Messages of agents.
    pub replies: u64,
    /// Effects outside, repeats under the same key included.
    pub effects: u64,
    /// Effects that were had once more under the same key.
    pub repeats: u64,
    /// Calls of which agents were told that nobody knows whether they happened.
    pub unknown: u64,
    /// What happened at the model.
    pub requests: u64,
    /// Streams that were broken off and requests that were refused, on purpose.
    pub mishaps: u64,
    /// How long each start took.
    pub ready: Vec<Duration>,
    /// Broken promises of each kind.
    pub broken: BTreeMap<WorldKind, u64>,
    /// How long it all took.
    pub took: Duration,
}

impl Tally {
    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        let Self { worlds, kills, early, halts, terms, accepted, known, lived, skipped, dead, .. } = other;
        let Self { cycles, resumed, replies, effects, repeats, unknown, requests, mishaps, .. } = other;
        let pairs = [
            (&mut self.worlds, worlds),
            (&mut self.kills, kills),
            (&mut self.early, early),
            (&mut self.halts, halts),
            (&mut self.terms, terms),
            (&mut self.accepted, accepted),
            (&mut self.known, known),
            (&mut self.lived, lived),
            (&mut self.skipped, skipped),
            (&mut self.dead, dead),
            (&mut self.cycles, cycles),
            (&mut self.resumed, resumed),
            (&mut self.replies, replies),
            (&mut self.effects, effects),
            (&mut self.repeats, repeats),
            (&mut self.unknown, unknown),
            (&mut self.requests, requests),
            (&mut self.mishaps, mishaps),
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

    /// Counts broken promises.
    pub fn count(&mut self, breaches: &[Breach]) {
        for breach in breaches {
            *self.broken.entry(breach.kind).or_default() += 1;
        }
    }

    /// Counts what the model met.
    pub fn hear(&mut self, heard: &ReceivedRequest) {
        self.requests += heard.requests;
        self.mishaps += heard.cut + heard.failed;
    }

    /// Deaths of any kind.
    pub fn deaths(&self) -> u64 {
        self.kills + self.points.values().sum::<u64>()
    }

    /// Points that no life came to.
    pub fn never_hit(&self) -> Vec<&'static str> {
        POINTS.iter().copied().filter(|point| !self.points.contains_key(point)).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worlds, kills, early, halts, terms, accepted, known, lived, skipped, dead, .. } = self;
        let Self { cycles, resumed, replies, effects, repeats, unknown, requests, mishaps, .. } = self;
        let mut ready = self.ready.clone();
        ready.sort_unstable();
        let ms = |at: usize| ready.get(at).map_or(0, Duration::as_millis);
        let (median, most) = (ms(ready.len() / 2), ms(ready.len().saturating_sub(1)));
        let broken = |kind| self.broken.get(&kind).copied().unwrap_or(0);
        let (points, hits) = (self.points.len(), self.points.values().sum::<u64>());
        write!(
            f,
            "{worlds} worlds: {kills} SIGKILL ({early} before ready), {hits} deaths at {points} of {} points, {halts} SIGSTOP, \
             {terms} SIGTERM; {accepted} accepted ({known} repeats known), {lived} events lived, {skipped} skipped, {dead} dead, \
             {cycles} cycles ({resumed} taken up again), {replies} replies; {effects} effects outside ({repeats} idempotent ones \
             repeated, {unknown} told as unknown); {requests} model requests ({mishaps} failed on purpose); ready in {median} ms \
             (median; at most {most}); lost {}, doubled {}, unsafe repeated {}, invalid histories {}; {:.0} s",
            POINTS.len(),
            broken(WorldKind::Lost),
            broken(WorldKind::Doubled),
            broken(WorldKind::Repeated),
            broken(WorldKind::Invalid),
            self.took.as_secs_f64(),
        )
    }
}
