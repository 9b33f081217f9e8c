//! The loop, in short: each variant, and each sabotage that it must catch.

use std::collections::BTreeMap;

use e2e::binary;
use e2e::blow::{Blow, LoadLength, Sabotage, Variant};
use e2e::check::WorldKind;
use e2e::kill::{self, Report, Torture};

async fn tortured(variant: Variant, lives: u64, change: impl FnOnce(&mut Torture)) -> Report {
    let viv = match variant {
        Variant::Plain => binary::find(),
        Variant::Points | Variant::Power => binary::find_failpoints(),
    };
    let viv = viv.unwrap_or_else(|why| panic!("{why}"));
    let seed = e2e::dice::new_seed();
    let mut torture = Torture { viv, variant, sabotage: None, lives, seed, forget: None };
    change(&mut torture);
    println!("seed {seed}: `make torture VIV_ONLY={} VIV_SEED={seed}` runs it again", variant.as_str());
    let report = kill::run(&torture, &BTreeMap::new()).await.unwrap_or_else(|why| panic!("{why}"));
    for breach in &report.breaches {
        println!("{breach}");
    }
    println!("{}", report.tally);
    report
}

fn assert_kept(report: &Report) {
    let left = report.left.clone().unwrap_or_default();
    assert!(
        report.breaches.is_empty(),
        "promises were broken; data and log are left in `{}`",
        left.display()
    );
}

/// The breaches of a world that was sabotaged; its data is not kept.
fn caught(report: Report) -> BTreeMap<WorldKind, u64> {
    if let Some(left) = report.left {
        std::fs::remove_dir_all(left).unwrap();
    }
    report.tally.broken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_after_kill_loses_nothing_and_doubles_nothing() {
    assert_kept(&tortured(Variant::Plain, 16, |_| {}).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn death_at_every_named_point_loses_nothing_and_doubles_nothing() {
    let report = tortured(Variant::Points, failpoint::POINTS.len() as u64, |_| {}).await;
    assert_kept(&report);
    assert_eq!(report.tally.never_hit(), [""; 0], "points that no life came to");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_forgets_one_life_is_caught() {
    // One that is long enough for something to be accepted in it.
    let long = |blow: Blow| blow.early.is_none() && matches!(blow.load, LoadLength::Ms(ms) if ms > 250);
    let seed = (1..).find(|seed| long(Blow::of(Variant::Plain, None, (*seed, 1), &BTreeMap::new())));
    let found = caught(
        tortured(Variant::Plain, 3, |torture| {
            torture.seed = seed.unwrap();
            torture.forget = Some(1);
        })
        .await,
    );
    assert!(found.contains_key(&WorldKind::Lost), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_protocol_that_drains_first_and_saves_later_is_caught_losing_events() {
    let found =
        caught(tortured(Variant::Points, 12, |torture| torture.sabotage = Some(Sabotage::DrainFirst)).await);
    assert!(found.contains_key(&WorldKind::Lost), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_of_power_loses_nothing_that_was_answered() {
    assert_kept(&tortured(Variant::Power, 12, |_| {}).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_are_answered_before_they_are_synced_are_caught_at_the_loss_of_power() {
    let found =
        caught(tortured(Variant::Power, 6, |torture| torture.sabotage = Some(Sabotage::SyncNormal)).await);
    assert!(found.contains_key(&WorldKind::Lost), "{found:?}");
}
