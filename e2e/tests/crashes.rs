//! Deaths that something in the server brings about.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use e2e::client::HttpAnswer;
use e2e::mind::DEADLY;
use e2e::world::TOOLS;
use serde_json::json;

use crate::server::{Harness, PATIENCE, ada, at_home, say, settled, until, words};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_kills_its_server_is_not_run_again() {
    let mut house = Harness::new().await;
    let (mut life, client) = house.start(&vec![]).await;
    client.amend("/v1/agents/ada", &json!({"config": {"tools": TOOLS}})).await.unwrap();
    let said = say(&client, &words(&format!("note t-000001-t {DEADLY}"), 1)).await;
    assert!(matches!(said, Some(HttpAnswer::Fresh(_))), "{said:?}");
    let ended = life.gone(PATIENCE).await.unwrap().expect("the tool kills the server");
    assert_eq!(ended.signal(), Some(9), "{}", house.log());
    let (mut life, client) = house.start(&vec![]).await;
    let events = settled(&client, 1).await;
    assert_eq!(events[0].state, "processed");
    let told = async || ada(&client).await.log.into_iter().flat_map(|entry| entry.words).collect();
    let unknown = |told: &Vec<String>| told.iter().any(|words| words.contains("unknown whether it happened"));
    until("what she is told", told, unknown).await;
    let killed = house.counter.effects();
    assert_eq!(killed.values().flatten().collect::<Vec<_>>(), ["kill_server"]);
    assert_eq!(life.kill().unwrap().signal(), Some(9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_aborts_the_process_ends_as_a_dead_letter_and_all_others_are_answered() {
    const POISON: &str = "t-000002-t";
    let mut house = Harness::new().await;
    let faults = vec![("VIV_POISON", POISON.to_owned())];
    let mut lives = 0;
    let mut said = false;
    let (events, messages) = loop {
        lives += 1;
        // Twenty deaths over it, and one of a cycle that was only shown that it waits.
        assert!(lives <= 22, "it dies again and again:\n{}", house.log());
        let Some((mut life, client)) = house.try_start(&faults).await else { continue };
        if !said {
            for number in 1..=4 {
                let body = words(&format!("note t-00000{number}-t"), number);
                // The poison may work before all of it was said: then the rest is said in the next life.
                said = say(&client, &body).await.is_some() && number == 4;
            }
        }
        let quiet = settled_or_dead(&mut life, &client).await;
        if let Some(events) = quiet {
            let messages = at_home(&client).await;
            life.kill().unwrap();
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
        "after {lives} lives"
    );
}

/// All events of ada settled, or `None` where the process died before.
async fn settled_or_dead(
    life: &mut e2e::binary::ServerLife,
    client: &e2e::client::Client,
) -> Option<Vec<e2e::history::Happened>> {
    for _ in 0..600 {
        if life.gone(Duration::from_millis(50)).await.unwrap().is_some() {
            return None;
        }
        let Ok(lived) = e2e::history::lived(client, "ada").await else { continue };
        if lived.events.len() >= 4 && lived.events.iter().all(|event| event.state != "waiting") {
            return Some(lived.events);
        }
    }
    panic!("it neither settles nor dies")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_every_signal_lost_the_sweep_finds_the_work() {
    let mut house = Harness::new().await;
    let (mut life, client) = house.start(&vec![("VIV_FAULTS", "signals-lost".to_owned())]).await;
    for number in 1..=3 {
        let said = say(&client, &words(&format!("note t-00000{number}-t"), number)).await;
        assert!(matches!(said, Some(HttpAnswer::Fresh(_))), "{said:?}");
    }
    let events = settled(&client, 3).await;
    assert!(events.iter().all(|event| event.state == "processed"), "{events:?}");
    life.kill().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_signal_died_with_the_process_is_lived_by_the_next_one() {
    let mut house = Harness::new().await;
    let point = vec![("VIV_FAILPOINT", "accept.committed".to_owned())];
    let (mut life, client) = house.start(&point).await;
    let body = words("note t-000001-t", 1);
    assert_eq!(say(&client, &body).await, None, "nobody was answered");
    assert_eq!(life.gone(PATIENCE).await.unwrap().and_then(|ended| ended.signal()), Some(6));
    let (mut life, client) = house.start(&vec![]).await;
    let again = say(&client, &body).await;
    assert!(matches!(again, Some(HttpAnswer::Known(_))), "{again:?}");
    let events = settled(&client, 1).await;
    assert_eq!((events.len(), events[0].state.as_str()), (1, "processed"));
    life.kill().unwrap();
}
