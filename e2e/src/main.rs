//! `make torture`: kills the binary in many ways until the time is up, and looks for anything lost, doubled or
//! repeated. The last line of output counts everything. The exit code is a failure if a promise was broken or a
//! failpoint was never reached. With a sabotage it fails too, because the sabotage must break a promise.

#![allow(clippy::disallowed_methods, reason = "tests start programs as they need")]

use std::process::ExitCode;

use e2e::torture::{self, TortureSettings};

#[allow(clippy::print_stdout, reason = "a program whose output is its report")]
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let outcome = match TortureSettings::from_env() {
        Ok(settings) => {
            println!("seed {}: repeat this run with `VIV_SEED={}`", settings.seed, settings.seed);
            torture::run(&settings, |line| println!("{line}")).await
        }
        Err(why) => Err(why),
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(why) => {
            println!("torture: {why}");
            return ExitCode::FAILURE;
        }
    };
    let kept = outcome.breaches.is_empty() && outcome.never_hit.is_empty();
    let never = match outcome.never_hit.as_slice() {
        [] => String::new(),
        points => format!("; never reached: {}", points.join(", ")),
    };
    println!("torture: {}{never}: {}", outcome.tally, if kept { "all promises kept" } else { "FAILED" });
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
