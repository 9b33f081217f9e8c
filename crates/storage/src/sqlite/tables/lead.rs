//! Whose stored times are based on which clock, in memory. Says how far they are to be shifted; must not know how they are
//! stored.

use std::collections::HashMap;
use std::sync::Mutex;

use agent::port::Clock;
use agent::waits;

use crate::sqlite::engine::mutex::lock;

/// On which clock stored times are based: by the lead of the wall clock before the monotonic one, in milliseconds.
pub(crate) struct Lead(Mutex<Bases>);

struct Bases {
    /// Of agents that are not shifted yet.
    old: i64,
    /// Of those that are: the agents up to `until`. Equal to `old` while no shift is under way.
    new: i64,
    /// The last agent that was shifted.
    until: i64,
    /// Of agents that a command has shifted before their turn.
    apart: HashMap<i64, i64>,
    /// What the open transaction has changed, as it was before.
    undo: Vec<Undo>,
}

enum Undo {
    Shift(i64, i64, i64),
    Apart(i64, Option<i64>),
}

impl Bases {
    /// A clock set forward shifts nothing: waits end earlier, and go on by the new clock.
    fn follow(&mut self, lead: i64) {
        if lead > self.new {
            self.apart.values_mut().for_each(|base| *base = lead.max(*base));
        }
        (self.old, self.new) = (self.old.max(lead), self.new.max(lead));
    }

    fn of(&self, agent: i64) -> i64 {
        let shifted = if agent <= self.until { self.new } else { self.old };
        self.apart.get(&agent).copied().unwrap_or(shifted)
    }

    fn is_shifting(&self) -> bool {
        self.new < self.old
    }

    fn note(&mut self) {
        self.undo.push(Undo::Shift(self.old, self.new, self.until));
    }
}

impl Lead {
    pub(crate) fn new(clock: &dyn Clock) -> Self {
        let lead = clock.lead();
        let (apart, undo) = (HashMap::new(), Vec::new());
        Self(Mutex::new(Bases { old: lead, new: lead, until: 0, apart, undo }))
    }

    /// By how much the stored times of an agent are ahead, if the clock was set back since.
    pub(crate) fn behind(&self, clock: &dyn Clock, agent: i64) -> Option<i64> {
        let (mut bases, lead) = (lock(&self.0), clock.lead());
        bases.follow(lead);
        waits::set_back(bases.of(agent), lead)
    }

    /// Whether stored times of any agent may be ahead.
    pub(crate) fn is_behind(&self, clock: &dyn Clock) -> bool {
        let (mut bases, lead) = (lock(&self.0), clock.lead());
        bases.follow(lead);
        waits::set_back(bases.old, lead).is_some()
    }

    /// The stored times of an agent were shifted by so much.
    pub(crate) fn settled(&self, agent: i64, by: i64) {
        let mut bases = lock(&self.0);
        let base = bases.of(agent) - by;
        let before = bases.apart.insert(agent, base);
        bases.undo.push(Undo::Apart(agent, before));
    }

    /// The agent after which the shift goes on, and by how much the clock was set back; `None` if there is none to do.
    pub(crate) fn next(&self, clock: &dyn Clock) -> Option<(i64, i64)> {
        let (mut bases, lead) = (lock(&self.0), clock.lead());
        bases.follow(lead);
        if !bases.is_shifting() {
            waits::set_back(bases.old, lead)?;
            bases.note();
            (bases.new, bases.until) = (lead, 0);
        }
        Some((bases.until, bases.old - bases.new))
    }

    /// It is an agent's turn in the shift that is under way. Returns by how much its stored times are ahead of that.
    pub(crate) fn turn(&self, agent: i64) -> i64 {
        let mut bases = lock(&self.0);
        let (base, new) = (bases.of(agent), bases.new);
        if base > new
            && let Some(before) = bases.apart.get_mut(&agent).map(|base| std::mem::replace(base, new))
        {
            bases.undo.push(Undo::Apart(agent, Some(before)));
        }
        base - new
    }

    /// The agents up to this one are shifted, or all.
    pub(crate) fn shifted(&self, until: Option<i64>) {
        let mut bases = lock(&self.0);
        bases.note();
        match until {
            Some(until) => bases.until = until,
            None => (bases.old, bases.until) = (bases.new, 0),
        }
    }

    /// What was shifted is on disk.
    pub(crate) fn committed(&self) {
        let mut bases = lock(&self.0);
        bases.undo.clear();
        if !bases.is_shifting() && !bases.apart.is_empty() {
            let base = bases.old;
            bases.apart.retain(|_, of| *of < base);
        }
    }

    /// What the open transaction has shifted was rolled back.
    pub(crate) fn rolled_back(&self) {
        let mut bases = lock(&self.0);
        while let Some(undo) = bases.undo.pop() {
            match undo {
                Undo::Shift(old, new, until) => (bases.old, bases.new, bases.until) = (old, new, until),
                Undo::Apart(agent, Some(base)) => _ = bases.apart.insert(agent, base),
                Undo::Apart(agent, None) => _ = bases.apart.remove(&agent),
            }
        }
    }
}
