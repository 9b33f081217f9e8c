//! `make torture`: kills the binary in every way there is, until the time is up, and looks for
//! anything lost, doubled or repeated. Ends with one line of counts, and with failure where a promise
//! broke or a named point was never hit. A sabotage that is asked for must break one: it fails too.

use std::process::ExitCode;

use e2e::torture::{self, Orders};

#[allow(clippy::print_stdout, reason = "a program that reports")]
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let outcome = match Orders::from_env() {
        Ok(orders) => {
            println!("seed {}: `VIV_SEED={}` runs it again", orders.seed, orders.seed);
            torture::run(&orders, |line| println!("{line}")).await
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
        points => format!("; never hit: {}", points.join(", ")),
    };
    println!("torture: {}{never}: {}", outcome.tally, if kept { "all promises kept" } else { "FAILED" });
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
