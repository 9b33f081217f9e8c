//! Crashes caused from inside the server, and lost signals.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use agent::call::Runner;
use e2e::client::HttpAnswer;
use e2e::counted::{self, KILL_SERVER};
use e2e::replies::KILL_REQUEST;
use e2e::world::TOOLS;
use serde_json::json;

use crate::harness::{
    Harness, TIMEOUT, ada, home_messages, message_body, post, wait_for, wait_until_settled,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_kills_its_server_is_not_run_again() {
    let mut harness = Harness::new().await;
    let (mut process, client) = harness.start(&vec![]).await;
    counted::declare(&client, Runner::Node, harness.counter.url(), false).await.unwrap();
    client.change("/v1/agents/ada", &json!({"config": {"tools": TOOLS}})).await.unwrap();
    let posted = post(&client, &message_body(&format!("note t-000001-t {KILL_REQUEST}"), 1)).await;
    assert!(matches!(posted, Some(HttpAnswer::Created(_))), "{posted:?}");
    assert!(harness.counter.wait_for_effects(1, TIMEOUT).await, "{}", harness.log());
    assert_eq!(process.kill().unwrap().signal(), Some(9), "{}", harness.log());
    let (mut process, client) = harness.start(&vec![]).await;
    let events = wait_until_settled(&client, 1).await;
    assert_eq!(events[0].state, "processed");
    let texts = async || ada(&client).await.log.into_iter().flat_map(|entry| entry.texts).collect();
    let unknown =
        |texts: &Vec<String>| texts.iter().any(|words| words.contains("unknown whether it happened"));
    wait_for("what she is texts", texts, unknown).await;
    let killed = harness.counter.effects();
    assert_eq!(
        killed.values().flatten().map(|effect| effect.tool.as_str()).collect::<Vec<_>>(),
        [KILL_SERVER]
    );
    assert_eq!(process.kill().unwrap().signal(), Some(9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_aborts_the_process_becomes_dead_and_all_others_are_processed() {
    const POISONOUS: &str = "t-000002-t";
    let mut harness = Harness::new().await;
    let faults = vec![("VIV_POISON", POISONOUS.to_owned())];
    let mut starts = 0;
    let mut posted = false;
    let (events, messages) = loop {
        starts += 1;
        // Twenty crashes by the event, and one of a cycle that was only shown a preview of it.
        assert!(starts <= 22, "it dies again and again:\n{}", harness.log());
        let Some((mut process, client)) = harness.try_start(&faults).await else { continue };
        if !posted {
            for number in 1..=4 {
                let body = message_body(&format!("note t-00000{number}-t"), number);
                // The process may crash before all messages are sent: the rest is sent to the next process.
                posted = post(&client, &body).await.is_some() && number == 4;
            }
        }
        let quiet = settled_or_dead(&mut process, &client).await;
        if let Some(events) = quiet {
            let messages = home_messages(&client).await;
            process.kill().unwrap();
            break (events, messages);
        }
    };
    let state = |number: u64| {
        let token = e2e::inbox::token(number);
        let id = messages
            .iter()
            .find(|words| words.call.is_none() && words.text.contains(&token))
            .map(|words| &words.id);
        let event = events.iter().find(|event| event.message.as_ref() == id);
        event.map_or_else(|| format!("{number} is gone"), |event| event.state.clone())
    };
    assert_eq!(
        [1, 2, 3, 4].map(state),
        ["processed", "dead", "processed", "processed"],
        "after {starts} starts"
    );
}

/// The events of ada once all are settled; `None` if the process died before.
async fn settled_or_dead(
    process: &mut e2e::binary::ServerProcess,
    client: &e2e::client::HttpClient,
) -> Option<Vec<e2e::history::InboxEvent>> {
    for _ in 0..600 {
        if process.wait_for_end(Duration::from_millis(50)).await.unwrap().is_some() {
            return None;
        }
        let Ok(agent) = e2e::history::agent(client, "ada").await else { continue };
        if agent.events.len() >= 4 && agent.events.iter().all(|event| event.state != "waiting") {
            return Some(agent.events);
        }
    }
    panic!("it neither settles nor dies")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_every_signal_is_lost_the_sweep_finds_the_events() {
    let mut harness = Harness::new().await;
    let (mut process, client) = harness.start(&vec![("VIV_FAULTS", "signals-lost".to_owned())]).await;
    for number in 1..=3 {
        let posted = post(&client, &message_body(&format!("note t-00000{number}-t"), number)).await;
        assert!(matches!(posted, Some(HttpAnswer::Created(_))), "{posted:?}");
    }
    let events = wait_until_settled(&client, 3).await;
    assert!(events.iter().all(|event| event.state == "processed"), "{events:?}");
    process.kill().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_signal_is_lost_in_a_crash_is_processed_after_the_restart() {
    let mut harness = Harness::new().await;
    let point = vec![("VIV_FAILPOINT", "accept.committed".to_owned())];
    let (mut process, client) = harness.start(&point).await;
    let body = message_body("note t-000001-t", 1);
    assert_eq!(post(&client, &body).await, None, "there was no response");
    assert_eq!(process.wait_for_end(TIMEOUT).await.unwrap().and_then(|ended| ended.signal()), Some(6));
    let (mut process, client) = harness.start(&vec![]).await;
    let again = post(&client, &body).await;
    assert!(matches!(again, Some(HttpAnswer::Existing(_))), "{again:?}");
    let events = wait_until_settled(&client, 1).await;
    assert_eq!((events.len(), events[0].state.as_str()), (1, "processed"));
    process.kill().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_with_failpoints_does_not_pass_for_the_shipped_one() {
    let mut harness = Harness::new().await;
    harness.launch.shipped = true;
    assert!(harness.try_start(&vec![]).await.is_none());
    assert!(harness.log().contains("VIV_FAILPOINT"), "{}", harness.log());
}
