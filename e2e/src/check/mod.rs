//! Checks that ledger, history, effects and streamed commits agree. Pure functions.

mod agents;
mod effects;
mod promises;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use crate::counter::Effects;
use crate::follow::SeenUpdates;
use crate::history::History;
use crate::ledger::Ledger;

pub use effects::unknown;

/// The kind of a broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BreachKind {
    /// Something that was promised is missing.
    Lost,
    /// Something exists twice.
    Doubled,
    /// An effect that must not happen twice happened twice.
    Repeated,
    /// Something happened that a person had to approve and had not.
    Unapproved,
    /// The history is inconsistent.
    Invalid,
}

/// A broken promise, with the exact ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The kind.
    pub kind: BreachKind,
    what: String,
}

impl Breach {
    /// A broken promise with its description.
    pub fn new(kind: BreachKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Collects breaches.
#[derive(Debug, Default)]
struct Breaches(Vec<Breach>);

impl Breaches {
    fn add(&mut self, breach: impl Into<String>) {
        self.0.push(Breach::new(BreachKind::Invalid, breach));
    }

    fn lost(&mut self, breach: impl Into<String>) {
        self.0.push(Breach::new(BreachKind::Lost, breach));
    }

    fn doubled(&mut self, breach: impl Into<String>) {
        self.0.push(Breach::new(BreachKind::Doubled, breach));
    }

    /// Adds the breach unless the promise is kept.
    fn expect(&mut self, kept: bool, breach: impl FnOnce() -> String) {
        if !kept {
            self.add(breach());
        }
    }

    /// Expects the numbers 1, 2, 3 … without gaps.
    fn gapless(&mut self, what: &str, numbers: impl IntoIterator<Item = u64>) {
        let mut last = 0;
        for number in numbers {
            self.expect(number == last + 1, || format!("{what}: {number} follows {last}"));
            last = number;
        }
    }
}

/// Returns all broken promises.
pub fn check(
    ledger: &Ledger,
    history: &History,
    streamed: &BTreeMap<String, SeenUpdates>,
    effects: &Effects,
) -> Vec<Breach> {
    let mut breaches = Breaches::default();
    effects::effects(history, effects, &mut breaches);
    promises::responses(ledger, &mut breaches);
    promises::timelines(ledger, history, &mut breaches);
    promises::replies(history, &mut breaches);
    let messages = promises::messages(history);
    for agent in &history.agents {
        promises::events(agent, ledger, history, &mut breaches);
        agents::log(agent, &mut breaches);
        agents::shown(agent, &messages, &mut breaches);
        agents::order(agent, history, &mut breaches);
        agents::quotes(agent, &messages, history, &mut breaches);
        agents::memories(agent, &mut breaches);
        agents::runs(agent, &mut breaches);
        match streamed.get(&agent.name) {
            Some(streamed) => agents::commits(agent, streamed, &mut breaches),
            None => breaches.add(format!("{}: it was not followed", agent.name)),
        }
    }
    breaches.0
}
