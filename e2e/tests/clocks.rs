//! Machines whose clock was wrong while the server ran, and was set right before it started again.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::binary::Faults;
use e2e::client::{Client, HttpAnswer};
use e2e::history;
use e2e::stub::Mishap;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::server::{Harness, PATIENCE, ada, say, until, words};

/// How far the clock is off.
const OFF: SignedDuration = SignedDuration::from_hours(72);
/// The longest that anybody rests whose own content failed.
const LONGEST: SignedDuration = SignedDuration::from_secs(5 * 60);
/// How soon whoever waits for nothing any more is served: far below every wait of this story.
const SOON: Duration = Duration::from_secs(20);

/// `libfaketime`, which tells a process another time of day. Where it is not installed the test is skipped.
fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|folder| folder.path());
    let places = folders.chain([PathBuf::from("/usr/lib"), PathBuf::from("/usr/local/lib")]);
    let found = places.map(|place| place.join("faketime/libfaketimeMT.so.1")).find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: libfaketime is not installed");
    }
    found
}

/// One life whose clock is off by so much. The clock that never jumps goes on as it does.
fn by(library: &std::path::Path, off: SignedDuration) -> Faults {
    vec![
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME", format!("{:+}", off.as_secs())),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("NO_FAKE_STAT", "1".to_owned()),
    ]
}

async fn agent(client: &Client, name: &str) -> Value {
    client.get(&format!("/v1/agents/{name}")).await.unwrap()
}

/// Until when it rests for that reason, counted from the server's own time of day.
fn rests(agent: &Value, reason: &str, off: SignedDuration) -> Option<SignedDuration> {
    let until: Timestamp = agent["not_before"].as_str()?.parse().unwrap();
    (agent["reason"] == reason).then(|| until.duration_since(Timestamp::now() + off))
}

async fn states(client: &Client, name: &str) -> Vec<String> {
    let lived = history::lived(client, name).await.unwrap();
    lived.events.into_iter().map(|event| event.state).collect()
}

/// Everyone waits: ben for more to come, cleo since her content fails, ada for the provider.
async fn let_all_wait(house: &Harness, client: &Client, off: SignedDuration) {
    client.make("/v1/agents", &json!({"name": "ben", "config": {"debounce": 60_000}})).await.unwrap();
    let limits = json!({"limits": {"max_attempts": 100}});
    client.make("/v1/agents", &json!({"name": "cleo", "config": limits})).await.unwrap();
    client.make("/v1/spaces", &json!({"name": "lab", "members": ["owner", "ben"]})).await.unwrap();
    let said = client.post("/v1/spaces/lab/messages", &words("note t-000001-t", 1), None).await;
    assert!(matches!(said, Some(HttpAnswer::Fresh(_))), "{said:?}");
    let waits = |ben: &Value| rests(ben, "debounce", off).is_some_and(|left| left.as_secs() > 30);
    until("ben", async || agent(client, "ben").await, waits).await;

    // What a model refuses that has never answered anything would be its provider's failure.
    say(client, &words("note t-000050-t", 50)).await;
    let served = |states: &Vec<String>| !states.is_empty() && states.iter().all(|state| state == "processed");
    until("ada is served", async || states(client, "ada").await, served).await;
    // What the model cannot read it refuses, again and again.
    let event = json!({"service": "bell", "payload": {"nothing": "to be read"}});
    client.make("/v1/agents/cleo/events", &event).await.unwrap();
    let waits = |cleo: &Value| rests(cleo, "backoff", off).is_some_and(|left| left.as_secs() >= 3);
    until("cleo", async || agent(client, "cleo").await, waits).await;

    house.stub.fail(Some(Mishap::Overloaded), true);
    let mut said = 1;
    let refused = async || {
        // Some words are answered in one step, and only a later one is refused.
        if states(client, "ada").await.iter().all(|state| state != "waiting") {
            said += 1;
            say(client, &words(&format!("note t-00000{said}-t"), said)).await;
        }
        agent(client, "ada").await
    };
    let waits = |ada: &Value| rests(ada, "provider", off).is_some_and(|left| left.as_secs() > 20);
    until("ada", refused, waits).await;
}

/// Lived with a clock that is off by `first`, killed, and started with one that is off by `second`.
async fn nobody_waits_for_a_clock(first: SignedDuration, second: SignedDuration) {
    let Some(library) = faketime() else { return };
    let mut house = Harness::new().await;
    let (mut life, client) = house.start(&by(&library, first)).await;
    let there = agent(&client, "ada").await["created_at"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let shift = there.duration_since(Timestamp::now()) - first;
    assert!(shift.abs() < SignedDuration::from_mins(5), "its clock is off by {first}, but for {shift}");
    let_all_wait(&house, &client, first).await;
    life.kill().unwrap();

    let (mut life, client) = house.start(&by(&library, second)).await;
    let begun = Instant::now();
    let said = say(&client, &words("note t-000099-t", 99)).await;
    assert!(matches!(said, Some(HttpAnswer::Fresh(_))), "{said:?}");
    let none_waits =
        |states: &Vec<String>| !states.is_empty() && states.iter().all(|state| state == "processed");
    until("ada is served", async || states(&client, "ada").await, none_waits).await;
    until("ben is served", async || states(&client, "ben").await, none_waits).await;
    let rests_not = |ada: &Value| ada["state"] == "sleeping" && ada["not_before"].is_null();
    until("ada's cycle ends", async || agent(&client, "ada").await, rests_not).await;
    assert!(begun.elapsed() < SOON, "after {:?}", begun.elapsed());

    // Whose content failed rests on, no longer than after one more failure.
    let left = rests(&agent(&client, "cleo").await, "backoff", second);
    assert!(left.is_some_and(|left| left <= LONGEST), "{left:?}");
    let mut ps = Command::new(&house.launch.viv);
    ps.args(["ps", "--data-dir"]).arg(&house.launch.data_dir).env("NO_COLOR", "1");
    let ps = String::from_utf8(ps.output().unwrap().stdout).unwrap();
    assert!(ps.lines().any(|line| line.contains("cleo") && line.contains("backoff")), "{ps}");
    let refused = house.stub.heard().wrong.len();
    client.make("/v1/agents/cleo/resume", &json!({})).await.unwrap();
    let asked = async || house.stub.heard().wrong.len();
    let begun = Instant::now();
    until("cleo tries again", asked, |wrong| *wrong > refused).await;
    assert!(begun.elapsed() < SOON, "after {:?}", begun.elapsed());
    assert!(!ada(&client).await.runs.is_empty());
    life.ask_to_stop().unwrap();
    life.gone(PATIENCE).await.unwrap().expect("it stops");
    assert_eq!(house.launch.verify().unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_clock_three_days_ahead_made_wait_is_served_once_it_is_right() {
    nobody_waits_for_a_clock(OFF, SignedDuration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_served_although_the_clock_was_set_back_three_days_between_two_starts() {
    nobody_waits_for_a_clock(SignedDuration::ZERO, -OFF).await;
}
