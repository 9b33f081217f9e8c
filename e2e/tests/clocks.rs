//! A machine whose clock is changed between two starts of the server.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::binary::Faults;
use e2e::client::{HttpAnswer, HttpClient};
use e2e::history;
use e2e::stub::ModelFailure;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::harness::{Harness, TIMEOUT, ada, message_body, post, wait_for};

/// The error of the clock.
const OFF: SignedDuration = SignedDuration::from_hours(72);
/// The longest back-off of an agent whose own content fails.
const LONGEST: SignedDuration = SignedDuration::from_secs(5 * 60);
/// The time within which an agent that need not wait is served: far below every wait in these tests.
const SOON: Duration = Duration::from_secs(20);

/// The library `libfaketime`, which gives a process another time of day. Without it the test fails.
fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|folder| folder.path());
    let directories = folders.chain([PathBuf::from("/usr/lib"), PathBuf::from("/usr/local/lib")]);
    let mut files = directories.map(|directory| directory.join("faketime/libfaketimeMT.so.1"));
    files
        .find(|file| file.is_file())
        .expect("libfaketime is here: install it, for instance with `apt-get install libfaketime`")
}

/// Starts the process with a clock that is off by this much. The monotonic clock is not changed.
fn with_clock_off(library: &std::path::Path, off: SignedDuration) -> Faults {
    vec![
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME", format!("{:+}", off.as_secs())),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("NO_FAKE_STAT", "1".to_owned()),
    ]
}

async fn agent(client: &HttpClient, name: &str) -> Value {
    client.get(&format!("/v1/agents/{name}")).await.unwrap()
}

/// How long the agent still backs off for that reason, by the server's clock.
fn backoff_left(agent: &Value, reason: &str, off: SignedDuration) -> Option<SignedDuration> {
    let until: Timestamp = agent["not_before"].as_str()?.parse().unwrap();
    (agent["reason"] == reason).then(|| until.duration_since(Timestamp::now() + off))
}

async fn states(client: &HttpClient, name: &str) -> Vec<String> {
    let agent = history::agent(client, name).await.unwrap();
    agent.events.into_iter().map(|event| event.state).collect()
}

/// Makes three agents wait: ben debounces, cleo backs off because her content fails, ada waits for the provider.
async fn make_all_wait(harness: &Harness, client: &HttpClient, off: SignedDuration) {
    client.create("/v1/agents", &json!({"handle": "ben", "config": {"debounce": 60_000}})).await.unwrap();
    let limits = json!({"limits": {"max_attempts": 100}});
    client.create("/v1/agents", &json!({"handle": "cleo", "config": limits})).await.unwrap();
    client.create("/v1/spaces", &json!({"handle": "lab", "members": ["owner", "ben"]})).await.unwrap();
    let posted = client.post("/v1/spaces/lab/messages", &message_body("note t-000001-t", 1), None).await;
    assert!(matches!(posted, Some(HttpAnswer::Created(_))), "{posted:?}");
    let waits = |ben: &Value| backoff_left(ben, "debounce", off).is_some_and(|left| left.as_secs() > 30);
    wait_for("ben", async || agent(client, "ben").await, waits).await;

    // A model must have replied once: otherwise a rejected request would count as a failure of the provider.
    post(client, &message_body("note t-000050-t", 50)).await;
    let served = |states: &Vec<String>| !states.is_empty() && states.iter().all(|state| state == "processed");
    wait_for("ada is served", async || states(client, "ada").await, served).await;
    // The stub rejects an inbox that it cannot parse, at every attempt.
    let event = json!({"service": "bell", "payload": {"nothing": "to be read"}});
    client.create("/v1/agents/cleo/events", &event).await.unwrap();
    let waits = |cleo: &Value| backoff_left(cleo, "backoff", off).is_some_and(|left| left.as_secs() >= 3);
    wait_for("cleo", async || agent(client, "cleo").await, waits).await;

    harness.stub.fail(Some(ModelFailure::Overloaded), true);
    let mut posted = 1;
    let ada_after_message = async || {
        // Some messages are processed in one step, and only later steps are rejected.
        if states(client, "ada").await.iter().all(|state| state != "waiting") {
            posted += 1;
            post(client, &message_body(&format!("note t-00000{posted}-t"), posted)).await;
        }
        agent(client, "ada").await
    };
    let waits = |ada: &Value| backoff_left(ada, "provider", off).is_some_and(|left| left.as_secs() > 20);
    wait_for("ada", ada_after_message, waits).await;
}

/// Runs with a clock that is off by `first`, is killed, and starts with a clock that is off by `second`.
async fn check_waits_end(first: SignedDuration, second: SignedDuration) {
    let library = faketime();
    let mut harness = Harness::new().await;
    let (mut process, client) = harness.start(&with_clock_off(&library, first)).await;
    let created_at =
        agent(&client, "ada").await["created_at"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let shift = created_at.duration_since(Timestamp::now()) - first;
    assert!(
        shift.abs() < SignedDuration::from_mins(5),
        "its clock is off by {first}, but its error is {shift}"
    );
    make_all_wait(&harness, &client, first).await;
    process.kill().unwrap();

    let (mut process, client) = harness.start(&with_clock_off(&library, second)).await;
    let begun = Instant::now();
    let posted = post(&client, &message_body("note t-000099-t", 99)).await;
    assert!(matches!(posted, Some(HttpAnswer::Created(_))), "{posted:?}");
    let none_waits =
        |states: &Vec<String>| !states.is_empty() && states.iter().all(|state| state == "processed");
    wait_for("ada is served", async || states(&client, "ada").await, none_waits).await;
    wait_for("ben is served", async || states(&client, "ben").await, none_waits).await;
    let idle = |ada: &Value| ada["state"] == "sleeping" && ada["not_before"].is_null();
    wait_for("ada's cycle ends", async || agent(&client, "ada").await, idle).await;
    assert!(begun.elapsed() < SOON, "after {:?}", begun.elapsed());

    // The agent whose content fails still backs off, but not longer than after one more failure.
    let left = backoff_left(&agent(&client, "cleo").await, "backoff", second);
    assert!(left.is_some_and(|left| left <= LONGEST), "{left:?}");
    let mut ps = Command::new(&harness.launch.viv);
    ps.args(["ps", "--data-dir"]).arg(&harness.launch.data_dir).env("NO_COLOR", "1");
    let ps = String::from_utf8(ps.output().unwrap().stdout).unwrap();
    assert!(ps.lines().any(|line| line.contains("cleo") && line.contains("backoff")), "{ps}");
    let rejected = harness.stub.counts().errors.len();
    client.create("/v1/agents/cleo/resume", &json!({})).await.unwrap();
    let asked = async || harness.stub.counts().errors.len();
    let begun = Instant::now();
    wait_for("cleo tries again", asked, |wrong| *wrong > rejected).await;
    assert!(begun.elapsed() < SOON, "after {:?}", begun.elapsed());
    assert!(!ada(&client).await.runs.is_empty());
    process.terminate().unwrap();
    process.wait_for_end(TIMEOUT).await.unwrap().expect("it stops");
    assert_eq!(harness.launch.verify().unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_set_by_a_clock_three_days_ahead_end_once_the_clock_is_corrected() {
    check_waits_end(OFF, SignedDuration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_end_although_the_clock_was_set_back_three_days_between_two_starts() {
    check_waits_end(SignedDuration::ZERO, -OFF).await;
}
