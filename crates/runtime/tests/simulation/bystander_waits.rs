//! Checks how long the bystander waits: an agent that no fault is aimed at. Its model works, its events are innocent,
//! its own commands are accepted and its signals arrive, while the other agents meet every fault. Simulated time
//! counts from the acknowledgement of one of its events until a request that shows the event begins, except for
//! unavoidable waits: no node was up, a sync of the store was pending, its own model was busy, or working agents took
//! all slots.
//!
//! | since | at most | because |
//! |---|---|---|
//! | the latest of: its event was acknowledged, a node was up, the store refused something | 2 s | a signal or the first sweep activates it at once; while the store refuses, it is retried each second |
//! | the same, if the only node that is up was halted when the event came | 5 s more | that node got no signal: its sweep finds the event |
//! | the same, if the process died while the bystander was awake | 10 s more for each other agent | suspects run one by one |
//!
//! Must not know how turns are given.

use std::collections::BTreeMap;
use std::sync::Mutex;

use agent::limits;

/// How long it may wait.
const WAIT_MS: u64 = limits::STORE_PROBE_MS + 1_000;
/// The most other agents in a world.
const OTHERS: u64 = 4;

/// An event that was acknowledged and not shown yet.
#[derive(Debug, Default)]
struct Wait {
    /// Time since the last refusal.
    ms: u64,
    refusals: u64,
    /// Time that does not count, by its reason.
    excused: BTreeMap<&'static str, u64>,
    /// Whether the bystander was awake when its process died.
    suspect: bool,
    /// The node that acknowledged it.
    node: u64,
    /// Whether it waited for an older node that had been halted.
    after_halt: bool,
    /// What it was last seen waiting for.
    last: String,
}

#[derive(Default)]
struct State {
    waits: BTreeMap<String, Wait>,
    served: BTreeMap<String, ()>,
    /// It was awake when a process died, and has sent no request since.
    suspect: bool,
    /// It was ever awake when a process died: since then its events may be tried alone.
    died: bool,
    /// How many of its requests are in flight.
    in_flight: u64,
    /// Slow reads of the store, by node.
    slow: BTreeMap<u64, u64>,
    longest: BTreeMap<&'static str, u64>,
}

/// The waits of the bystander of one world.
#[derive(Default)]
pub(crate) struct BystanderWaits(Mutex<State>);

impl BystanderWaits {
    /// One of its events was acknowledged.
    pub(crate) fn accepted(&self, token: &str, node: u64) {
        let mut state = self.0.lock().unwrap();
        if !state.served.contains_key(token) {
            let suspect = state.suspect;
            state.waits.entry(token.to_owned()).or_insert(Wait { suspect, node, ..Wait::default() });
        }
    }

    /// Time passes; `why` is set if it does not count.
    pub(crate) fn pass(
        &self,
        ms: u64,
        node: Option<u64>,
        why: Option<&'static str>,
        last: String,
        suspect: bool,
    ) {
        let mut state = self.0.lock().unwrap();
        let slow = node.is_some_and(|node| state.slow.get(&node).is_some_and(|slow| *slow > 0));
        let suspect = suspect || (state.died && last.contains("Crash"));
        let own = (state.in_flight > 0).then_some("its own model");
        let why = why.or(slow.then_some("a slow read")).or(own);
        for wait in state.waits.values_mut() {
            wait.suspect |= suspect;
            wait.after_halt |= why.is_none() && node.is_some_and(|node| node < wait.node);
            match why {
                Some(why) => *wait.excused.entry(why).or_default() += ms,
                None => {
                    wait.ms += ms;
                    if ms > 0 {
                        wait.last.clone_from(&last);
                    }
                }
            }
        }
    }

    pub(crate) fn any(&self) -> bool {
        !self.0.lock().unwrap().waits.is_empty()
    }

    /// The store refused a command, of any agent.
    pub(crate) fn refused(&self) {
        for wait in self.0.lock().unwrap().waits.values_mut() {
            (wait.refusals, wait.ms) = (wait.refusals + 1, 0);
        }
    }

    /// The process died; `awake` says whether the bystander was awake.
    pub(crate) fn died(&self, awake: bool) {
        let mut state = self.0.lock().unwrap();
        (state.suspect, state.died, state.in_flight) = (state.suspect || awake, state.died || awake, 0);
        let suspect = state.suspect;
        state.waits.values_mut().for_each(|wait| wait.suspect |= suspect);
    }

    pub(crate) fn slow(&self, node: u64, by: i64) {
        let mut state = self.0.lock().unwrap();
        let slow = state.slow.entry(node).or_default();
        *slow = slow.saturating_add_signed(by);
    }

    pub(crate) fn answered(&self) {
        let mut state = self.0.lock().unwrap();
        state.in_flight = state.in_flight.saturating_sub(1);
    }

    /// One of its requests begins and shows these events. Returns for each the kind of its wait, and an error if it was
    /// too long.
    pub(crate) fn served(&self, tokens: Vec<String>) -> Vec<(&'static str, Result<String, String>)> {
        let mut state = self.0.lock().unwrap();
        state.in_flight += 1;
        state.suspect = false;
        let mut all = Vec::new();
        for token in tokens {
            state.served.insert(token.clone(), ());
            let Some(wait) = state.waits.remove(&token) else { continue };
            let kind = match &wait {
                Wait { suspect: true, .. } => "waited as a suspect",
                Wait { refusals: 1.., .. } => "waited for a store that refused",
                Wait { excused, .. } if excused.contains_key("no node") => "waited for a node",
                Wait { excused, .. } if excused.contains_key("no slot") => "waited for a slot",
                _ => "waited",
            };
            let suspects = if wait.suspect { OTHERS * limits::SUSPECT_MS } else { 0 };
            let most = WAIT_MS + suspects + if wait.after_halt { limits::SWEEP_MS } else { 0 };
            let longest = state.longest.entry(kind).or_default();
            *longest = (*longest).max(wait.ms);
            let how = format!("{token}: {} ms of at most {most} ms; {wait:?}", wait.ms);
            all.push((kind, if wait.ms <= most { Ok(how) } else { Err(how) }));
        }
        all
    }

    /// The longest wait of each kind.
    pub(crate) fn longest(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap().longest.clone()
    }

    /// Events that it was never shown.
    pub(crate) fn never(&self) -> Vec<String> {
        self.0.lock().unwrap().waits.iter().map(|(token, wait)| format!("{token}: {wait:?}")).collect()
    }
}
