//! Whether ledger, history and what watchers were told are one story. Pure: it is given all three.

mod minds;
mod promises;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use crate::follow::Told;
use crate::history::History;
use crate::ledger::Ledger;

/// A promise that was broken, with the exact ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach(String);

impl Breach {
    /// In words.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Gathers breaches.
#[derive(Debug, Default)]
struct Found(Vec<Breach>);

impl Found {
    fn add(&mut self, breach: impl Into<String>) {
        self.0.push(Breach::new(breach));
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
pub fn check(ledger: &Ledger, history: &History, told: &BTreeMap<String, Told>) -> Vec<Breach> {
    let mut found = Found::default();
    promises::answers(ledger, &mut found);
    promises::timelines(ledger, history, &mut found);
    promises::replies(history, &mut found);
    let words = promises::words(history);
    for agent in &history.agents {
        promises::events(agent, ledger, history, &mut found);
        minds::log(agent, &mut found);
        minds::shown(agent, &words, &mut found);
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
