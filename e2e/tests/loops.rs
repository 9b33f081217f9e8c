//! A short version of the kill loop: each variant, and each sabotage that must be caught.

use std::collections::BTreeMap;

use e2e::binary;
use e2e::check::BreachKind;
use e2e::faults::{FaultPlan, LoadLength, Sabotage, Variant};
use e2e::kill::{self, Report, WorldOptions};

async fn run_world(variant: Variant, rounds: u64, change: impl FnOnce(&mut WorldOptions)) -> Report {
    let viv = binary::of(variant).unwrap_or_else(|why| panic!("{why}"));
    let seed = e2e::random::new_seed();
    let mut options =
        WorldOptions { viv, variant, sabotage: None, rounds, seed, forget: None, workers: false };
    change(&mut options);
    println!("seed {seed}: repeat it with `make torture VIV_ONLY={} VIV_SEED={seed}`", variant.as_str());
    let report = kill::run(&options, &BTreeMap::new()).await.unwrap_or_else(|why| panic!("{why}"));
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

/// The breaches of a sabotaged world; its data is deleted.
fn caught(report: Report) -> BTreeMap<BreachKind, u64> {
    if let Some(left) = report.left {
        std::fs::remove_dir_all(left).unwrap();
    }
    report.tally.broken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_kills_lose_nothing_and_double_nothing() {
    let report = run_world(Variant::Plain, 16, |options| options.workers = true).await;
    assert_kept(&report);
    assert!(report.tally.effects > 0, "no tool of the shipped binary had an effect outside");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declaration_that_lets_an_unsafe_call_be_repeated_is_caught() {
    let found =
        caught(run_world(Variant::Plain, 14, |options| options.sabotage = Some(Sabotage::LyingTools)).await);
    assert!(found.contains_key(&BreachKind::Repeated), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deaths_at_every_failpoint_lose_nothing_and_double_nothing() {
    let report = {
        let rounds = failpoint::POINTS.len() as u64;
        run_world(Variant::Points, rounds, |options| options.workers = true).await
    };
    assert_kept(&report);
    assert_eq!(report.tally.never_hit(), [""; 0], "failpoints that were never reached");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_forgets_one_round_is_caught() {
    // A seed whose second round is long enough for something to be accepted in it.
    let long =
        |plan: FaultPlan| plan.early_ms.is_none() && matches!(plan.load, LoadLength::Ms(ms) if ms > 250);
    let seed = (1..).find(|seed| long(FaultPlan::of(Variant::Plain, None, (*seed, 1), &BTreeMap::new())));
    let found = caught(
        run_world(Variant::Plain, 3, |options| {
            options.seed = seed.unwrap();
            options.forget = Some(1);
        })
        .await,
    );
    assert!(found.contains_key(&BreachKind::Lost), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_events_when_a_cycle_opens_is_caught_as_loss() {
    let found =
        caught(run_world(Variant::Points, 12, |options| options.sabotage = Some(Sabotage::DrainFirst)).await);
    assert!(found.contains_key(&BreachKind::Lost), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_of_power_loses_nothing_that_was_accepted() {
    assert_kept(&run_world(Variant::Power, 12, |_| {}).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confirming_commits_before_they_are_synced_is_caught_at_a_loss_of_power() {
    let found =
        caught(run_world(Variant::Power, 10, |options| options.sabotage = Some(Sabotage::SyncNormal)).await);
    assert!(found.contains_key(&BreachKind::Lost), "{found:?}");
}
