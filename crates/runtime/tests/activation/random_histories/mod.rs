//! Random histories, cut after every commit: whatever was posted, canceled, stopped or revoked meanwhile, the agent
//! continues, nothing is lost or done twice, and each vendor accepts every request. `VIV_HISTORIES` sets how many run,
//! `VIV_SEED` the first one.

mod checks;
pub(crate) mod history;
mod run;

use std::panic::{AssertUnwindSafe, catch_unwind};

use history::{Call, History, Moment, Reply};
use run::{Death, Flaw, NEVER, run};

/// Histories in a test run. Each runs twice for every commit: with the commit lost, and with its answer lost.
const HISTORIES: u64 = 6;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Runs the history with the cut; an error says how it fails.
fn run_cut(history: &History, cut: Death, flaw: Flaw) -> Result<i64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(history, cut, flaw))));
    let ended = ended.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
    });
    ended.map_err(|why| format!("{cut}: {why}"))
}

/// Runs the history whole, then cut at every commit in both ways. Returns the number of worlds, or how it fails.
fn run_all_cuts(history: &History, flaw: Flaw) -> Result<u64, String> {
    let commits = run_cut(history, Death { at: NEVER, written: false }, flaw)?;
    for at in 0..commits {
        for written in [false, true] {
            run_cut(history, Death { at, written }, flaw)?;
        }
    }
    Ok(1 + 2 * u64::try_from(commits).unwrap())
}

#[test]
fn random_histories_cut_after_every_commit_lose_and_double_nothing() {
    let (first, histories) = (number("VIV_SEED", 0), number("VIV_HISTORIES", HISTORIES));
    let mut worlds = 0;
    for seed in first..first + histories {
        let history = History::of(seed);
        match run_all_cuts(&history, Flaw::None) {
            Ok(more) => worlds += more,
            Err(why) => {
                let (history, why) = history.shrunk(why, |history| run_all_cuts(history, Flaw::None).err());
                panic!("VIV_SEED={seed} VIV_HISTORIES=1: {why}\nreduced to this history:\n{history}");
            }
        }
    }
    println!("{histories} histories, {worlds} worlds");
    assert!(worlds > 10 * histories, "{worlds} worlds of {histories} histories: hardly anything was cut");
}

/// With a store that does not mark unsafe calls as started, a cut after the call repeats it.
#[test]
fn a_call_that_is_not_marked_as_started_is_caught_by_a_cut_history() {
    let reply = Reply(vec![vec![Call::Look, Call::Fire], vec![Call::Post]]);
    let history = History {
        awareness: agent::config::Awareness::None,
        slow: agent::call::Effect::ReadOnly,
        moments: vec![Moment::Message(reply)],
    };
    run_all_cuts(&history, Flaw::None).unwrap();
    let why = run_all_cuts(&history, Flaw::Unmarked).unwrap_err();
    assert!(why.contains("`fire` was made 2 times"), "{why}");
}
