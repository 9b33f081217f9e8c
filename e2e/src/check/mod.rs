//! Whether ledger, history and what watchers were told are one story. Pure: it is given all three.

mod effects;
mod minds;
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

/// Which promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorldKind {
    /// Something that was promised is not there.
    Lost,
    /// Something is there twice.
    Doubled,
    /// An effect that must not happen twice did.
    Repeated,
    /// The story does not hold together.
    Invalid,
}

/// A promise that was broken, with the exact ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which.
    pub kind: WorldKind,
    what: String,
}

impl Breach {
    /// In words.
    pub fn new(kind: WorldKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Gathers breaches.
#[derive(Debug, Default)]
struct Found(Vec<Breach>);

impl Found {
    fn add(&mut self, breach: impl Into<String>) {
        self.0.push(Breach::new(WorldKind::Invalid, breach));
    }

    fn lost(&mut self, breach: impl Into<String>) {
        self.0.push(Breach::new(WorldKind::Lost, breach));
    }

    fn doubled(&mut self, breach: impl Into<String>) {
        self.0.push(Breach::new(WorldKind::Doubled, breach));
    }

    /// Adds the breach unless it is kept.
    fn expect(&mut self, kept: bool, breach: impl FnOnce() -> String) {
        if !kept {
            self.add(breach());
        }
    }

    /// 1, 2, 3 … without gaps.
    fn gapless(&mut self, what: &str, numbers: impl IntoIterator<Item = u64>) {
        let mut last = 0;
        for number in numbers {
            self.expect(number == last + 1, || format!("{what}: {number} stands behind {last}"));
            last = number;
        }
    }
}

/// Every promise that was broken.
pub fn check(
    ledger: &Ledger,
    history: &History,
    told: &BTreeMap<String, SeenUpdates>,
    effects: &Effects,
) -> Vec<Breach> {
    let mut found = Found::default();
    effects::effects(history, effects, &mut found);
    promises::answers(ledger, &mut found);
    promises::timelines(ledger, history, &mut found);
    promises::replies(history, &mut found);
    let words = promises::words(history);
    for agent in &history.agents {
        promises::events(agent, ledger, history, &mut found);
        minds::log(agent, &mut found);
        minds::shown(agent, &words, &mut found);
        minds::order(agent, history, &mut found);
        minds::quotes(agent, &words, history, &mut found);
        minds::notes(agent, &mut found);
        minds::runs(agent, &mut found);
        match told.get(&agent.name) {
            Some(told) => minds::commits(agent, told, &mut found),
            None => found.add(format!("{}: nobody followed it", agent.name)),
        }
    }
    found.0
}
