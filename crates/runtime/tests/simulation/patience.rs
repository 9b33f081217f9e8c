//! How long a bystander waits: an agent that nothing bad is aimed at (its model is healthy, its events are
//! innocent, its own commands are taken and its signals heard), beside others that meet everything. From the moment
//! that an event of its own is acknowledged until a request that shows it is begun, simulated time is counted but
//! for what is nobody's choice: no node was up, the store had something under way, its own model was at work, or
//! all places were taken by agents that really were at work.
//!
//! | since | at most | because |
//! |---|---|---|
//! | its event was acknowledged, a node was up, the store refused something last | 2 s | a signal or the first sweep wakes it at once; while the store refuses, it is tried each second |
//! | the same, where the only node that is up was halted when it came | 5 s more | it heard nothing of it: its sweep finds it |
//! | the same, where the process died while it lived | 10 s more for each other agent | suspects go on one by one |
//!
//! This module must not know how turns are given.

use std::collections::BTreeMap;
use std::sync::Mutex;

use agent::limits;

/// How long it waits at most.
const WAIT_MS: u64 = limits::STORE_PROBE_MS + 1_000;
/// Others in a world.
const OTHERS: u64 = 4;

/// One event that was acknowledged and not shown yet.
#[derive(Debug, Default)]
struct Wait {
    /// Since the last refusal.
    ms: u64,
    refusals: u64,
    /// Time that does not count, by what stood in the way.
    excused: BTreeMap<&'static str, u64>,
    /// Whether it lived when its process died.
    suspect: bool,
    /// The node that acknowledged it, and whether it waited for one that was there before and had slept.
    node: u64,
    woken: bool,
    /// What it was seen to wait for last.
    last: String,
}

#[derive(Default)]
struct WaitingRoom {
    waits: BTreeMap<String, Wait>,
    served: BTreeMap<String, ()>,
    /// It lived when a process died, and was not asked for anything since.
    suspect: bool,
    /// It ever lived when a process died: its events may be tried alone since.
    died: bool,
    /// How many requests of it are under way.
    under_way: u64,
    /// Questions that the store is slow to answer, by node.
    slow: BTreeMap<u64, u64>,
    longest: BTreeMap<&'static str, u64>,
}

/// What is known of the bystander of one world.
#[derive(Default)]
pub(crate) struct Patience(Mutex<WaitingRoom>);

impl Patience {
    /// An event of it was acknowledged.
    pub(crate) fn accepted(&self, token: &str, node: u64) {
        let mut hall = self.0.lock().unwrap();
        if !hall.served.contains_key(token) {
            let suspect = hall.suspect;
            hall.waits.entry(token.to_owned()).or_insert(Wait { suspect, node, ..Wait::default() });
        }
    }

    /// Time passes; `why` it does not count, where it does not.
    pub(crate) fn pass(
        &self,
        ms: u64,
        node: Option<u64>,
        why: Option<&'static str>,
        last: String,
        suspect: bool,
    ) {
        let mut hall = self.0.lock().unwrap();
        let slow = node.is_some_and(|node| hall.slow.get(&node).is_some_and(|slow| *slow > 0));
        let suspect = suspect || (hall.died && last.contains("Crash"));
        let own = (hall.under_way > 0).then_some("its own model");
        let why = why.or(slow.then_some("a slow question")).or(own);
        for wait in hall.waits.values_mut() {
            wait.suspect |= suspect;
            wait.woken |= why.is_none() && node.is_some_and(|node| node < wait.node);
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

    pub(crate) fn waits(&self) -> bool {
        !self.0.lock().unwrap().waits.is_empty()
    }

    /// The store refused something, to whomever.
    pub(crate) fn refused(&self) {
        for wait in self.0.lock().unwrap().waits.values_mut() {
            (wait.refusals, wait.ms) = (wait.refusals + 1, 0);
        }
    }

    /// The process died; whether it lived just then.
    pub(crate) fn died(&self, lived: bool) {
        let mut hall = self.0.lock().unwrap();
        (hall.suspect, hall.died, hall.under_way) = (hall.suspect || lived, hall.died || lived, 0);
        let suspect = hall.suspect;
        hall.waits.values_mut().for_each(|wait| wait.suspect |= suspect);
    }

    pub(crate) fn slow(&self, node: u64, by: i64) {
        let mut hall = self.0.lock().unwrap();
        let slow = hall.slow.entry(node).or_default();
        *slow = slow.saturating_add_signed(by);
    }

    pub(crate) fn answered(&self) {
        let mut hall = self.0.lock().unwrap();
        hall.under_way = hall.under_way.saturating_sub(1);
    }

    /// A request of it is begun that shows these events. For each that it waited for, of what kind the wait
    /// was, or that it was too long.
    pub(crate) fn served(&self, tokens: Vec<String>) -> Vec<(&'static str, Result<String, String>)> {
        let mut hall = self.0.lock().unwrap();
        hall.under_way += 1;
        hall.suspect = false;
        let mut all = Vec::new();
        for token in tokens {
            hall.served.insert(token.clone(), ());
            let Some(wait) = hall.waits.remove(&token) else { continue };
            let kind = match &wait {
                Wait { suspect: true, .. } => "waited as a suspect",
                Wait { refusals: 1.., .. } => "waited for a store that refused",
                Wait { excused, .. } if excused.contains_key("no node") => "waited for a node",
                Wait { excused, .. } if excused.contains_key("no place") => "waited for a place",
                _ => "waited",
            };
            let suspects = if wait.suspect { OTHERS * limits::SUSPECT_MS } else { 0 };
            let most = WAIT_MS + suspects + if wait.woken { limits::SWEEP_MS } else { 0 };
            let longest = hall.longest.entry(kind).or_default();
            *longest = (*longest).max(wait.ms);
            let told = format!("{token}: {} ms of at most {most} ms; {wait:?}", wait.ms);
            all.push((kind, if wait.ms <= most { Ok(told) } else { Err(told) }));
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
