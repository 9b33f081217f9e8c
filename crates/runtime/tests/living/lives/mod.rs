//! Lives as chance writes them, cut behind every commit: whatever was said, canceled, stopped or revoked
//! meanwhile, the agent goes on, nothing is lost or done twice, and every request is one that each vendor
//! accepts. `VIV_LIVES` says how many, `VIV_SEED` where to begin.

mod checks;
pub(crate) mod life;
mod live;

use std::panic::{AssertUnwindSafe, catch_unwind};

use life::{Deed, Life, Moment, Part};
use live::{Death, Flaw, NEVER, live};

/// Lives in a test run; each is processed once for every commit of it, and once more for every answer that is lost.
const LIVES: u64 = 6;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// How the life fails with the cut, in words.
fn lived(life: &Life, cut: Death, flaw: Flaw) -> Result<i64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(live(life, cut, flaw))));
    let ended = ended.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
    });
    ended.map_err(|why| format!("{cut}: {why}"))
}

/// The life uncut, then cut at every commit in both ways: the worlds that were processed, or how it fails.
fn everywhere(life: &Life, flaw: Flaw) -> Result<u64, String> {
    let commits = lived(life, Death { at: NEVER, written: false }, flaw)?;
    for at in 0..commits {
        for written in [false, true] {
            lived(life, Death { at, written }, flaw)?;
        }
    }
    Ok(1 + 2 * u64::try_from(commits).unwrap())
}

#[test]
fn random_lives_cut_behind_every_commit_lose_and_double_nothing() {
    let (first, lives) = (number("VIV_SEED", 0), number("VIV_LIVES", LIVES));
    let mut worlds = 0;
    for seed in first..first + lives {
        let life = Life::of(seed);
        match everywhere(&life, Flaw::None) {
            Ok(more) => worlds += more,
            Err(why) => {
                let (life, why) = life.shrunk(why, |life| everywhere(life, Flaw::None).err());
                panic!("VIV_SEED={seed} VIV_LIVES=1: {why}\nat its smallest this life:\n{life}");
            }
        }
    }
    println!("{lives} lives, {worlds} worlds");
    assert!(worlds > 10 * lives, "{worlds} worlds of {lives} lives: hardly anything was cut");
}

/// A store that does not mark unsafe calls as begun: what is cut behind the call repeats it.
#[test]
fn a_start_that_leaves_no_mark_is_caught_by_a_life_that_is_cut() {
    let part = Part(vec![vec![Deed::Look, Deed::Fire], vec![Deed::Say]]);
    let life = Life {
        awareness: agent::config::Awareness::None,
        slow: agent::call::Effect::ReadOnly,
        moments: vec![Moment::Said(part)],
    };
    everywhere(&life, Flaw::None).unwrap();
    let why = everywhere(&life, Flaw::Unmarked).unwrap_err();
    assert!(why.contains("`fire` was made 2 times"), "{why}");
}
