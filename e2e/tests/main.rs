//! The built binary from outside. `VIV_BIN` names it, `VIV_KILLS` says how often it is killed,
//! `VIV_SEED` replays a run.

use e2e::kill::{self, Torture};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_after_kill_loses_nothing_and_doubles_nothing() {
    let torture = Torture::from_env().unwrap_or_else(|why| panic!("{why}"));
    println!("seed {}: `VIV_SEED={}` runs it again", torture.seed, torture.seed);
    let report = kill::run(torture).await.unwrap_or_else(|why| panic!("{why}"));
    for breach in &report.breaches {
        println!("{breach}");
    }
    println!("{report}");
    let left = report.left.unwrap_or_default();
    assert!(
        report.breaches.is_empty(),
        "promises were broken; data and log are left in `{}`",
        left.display()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_forgets_one_life_is_caught() {
    let viv = e2e::binary::find().unwrap_or_else(|why| panic!("{why}"));
    let torture = Torture { viv, kills: 3, seed: 11, forget: Some(1) };
    let report = kill::run(torture).await.unwrap_or_else(|why| panic!("{why}"));
    let said: Vec<String> = report.breaches.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|breach| breach.contains("lost from space")), "{report}\n{said:#?}");
    if let Some(left) = report.left {
        std::fs::remove_dir_all(left).unwrap();
    }
}
