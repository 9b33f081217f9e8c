//! A provider's server that fails: at every request, or at one event that it cannot handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::config::AgentConfig;
use agent::life::IdleReason;
use agent::port::{InboxFilter, ModelError, PageRequest};
use agent::run::Ending;
use models::scripted::Script;
use serde_json::json;

use crate::fixture::{Fixture, done, inbox, step};

const HOUR: Duration = Duration::from_secs(3_600);

fn failed() -> ModelError {
    ModelError::Failed { message: "HTTP 500: no".into(), retry_after: None }
}

/// Ways in which a request fails.
fn failures() -> [Script; 3] {
    let begun = || Script::new().text("I was about to");
    [
        Script::fails(failed()),
        begun().fail(failed()),
        begun().fail(ModelError::Cut("the stream ended without an end marker".into())),
    ]
}

#[tokio::test]
async fn an_event_at_which_the_server_fails_dies_alone_and_all_others_are_answered() {
    for failure in failures() {
        let fixture = Fixture::new(move |prompt| match inbox(prompt).contains("POISON") {
            true => failure.clone(),
            false => done(),
        });
        let world = &fixture.world;
        let husam = world.human("husam").await.unwrap();
        let config = AgentConfig { debounce: 1_000, ..AgentConfig::default() };
        let ada = world.agent("ada", config).await.unwrap();
        let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
        let mut ids = Vec::new();
        for n in 0..16 {
            let text = if n == 5 { "POISON".to_owned() } else { format!("m{n}") };
            ids.push(world.say(husam, lobby, &text).await.unwrap().to_string());
        }
        world.pass(HOUR).await.unwrap();
        for (n, id) in ids.iter().enumerate() {
            let state = world.state(ada, id).await.unwrap();
            assert_eq!(state.as_str(), if n == 5 { "dead" } else { "processed" }, "event {n}");
        }
        let later = world.say(husam, lobby, "after it").await.unwrap();
        world.pass(HOUR / 60).await.unwrap();
        assert_eq!(world.state(ada, &later.to_string()).await.unwrap().as_str(), "processed");
    }
}

/// A server with a wrong configuration refuses everything.
#[tokio::test]
async fn events_refused_by_a_model_that_has_never_answered_wait_until_it_does() {
    for error in [ModelError::Invalid("400: bad request".into()), ModelError::Garbage("no JSON".into())] {
        let (repaired, wrong) = (Arc::new(AtomicBool::new(false)), error.clone());
        let works = Arc::clone(&repaired);
        let fixture = Fixture::new(move |_| match works.load(Ordering::SeqCst) {
            true => done(),
            false => Script::fails(wrong.clone()),
        });
        let world = &fixture.world;
        let husam = world.human("husam").await.unwrap();
        let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
        let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
        let mut ids = Vec::new();
        for n in 0..6 {
            ids.push(world.say(husam, lobby, &format!("m{n}")).await.unwrap().to_string());
            world.pass(HOUR).await.unwrap();
        }
        let card = world.reader().agent(ada).await.unwrap().unwrap();
        assert_eq!((card.idle_reason, card.waiting), (Some(IdleReason::Provider), 6), "{error}");
        let requests = fixture.model.prompts().len();
        assert!(requests <= 4 * 6 * 13, "{requests} requests: a few each five minutes");
        repaired.store(true, Ordering::SeqCst);
        world.pass(HOUR / 6).await.unwrap();
        for id in ids {
            assert_eq!(world.state(ada, &id).await.unwrap().as_str(), "processed", "{error}");
        }
    }
}

/// An outage looks like a request that cannot be handled; only its duration tells them apart.
#[tokio::test]
async fn a_server_that_fails_at_everything_makes_no_event_dead_for_a_quarter_of_an_hour() {
    for failure in failures() {
        let fixture = Fixture::new(move |_| failure.clone());
        let world = &fixture.world;
        let husam = world.human("husam").await.unwrap();
        let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
        let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
        world.say(husam, lobby, "hello").await.unwrap();
        let attempts = async || {
            let all = PageRequest { cursor: None, limit: agent::limits::PAGE_MAX };
            let inbox = world.reader().inbox(ada, InboxFilter::default(), all).await.unwrap().items;
            inbox.iter().map(|row| row.attempts).max()
        };
        world.pass(HOUR / 20).await.unwrap();
        let card = world.reader().agent(ada).await.unwrap().unwrap();
        assert_eq!(card.idle_reason, Some(IdleReason::Provider));
        assert_eq!(attempts().await, Some(0), "no event is blamed for three minutes");
        world.pass(HOUR / 5).await.unwrap();
        let card = world.reader().agent(ada).await.unwrap().unwrap();
        assert_eq!((card.idle_reason, card.waiting), (Some(IdleReason::Backoff), 1));
        assert!(attempts().await.is_some_and(|attempts| (1..5).contains(&attempts)));
        let requests = fixture.model.prompts().len();
        assert!(requests <= 4 * 12, "{requests} requests: ever fewer");
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_answered_blocks_no_other_agent_even_if_several_got_it() {
    let fixture = Fixture::new(|prompt| match inbox(prompt).contains("POISON") {
        true => Script::fails(failed()),
        false => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let mut members = vec![husam];
    let mut all = Vec::new();
    for n in 0..5 {
        let one = world.agent(&format!("ada-{n}"), AgentConfig::default()).await.unwrap();
        members.push(one.entity());
        all.push(one);
    }
    let lobby = world.space("lobby", &members).await.unwrap();
    let bob = world.agent("bob", AgentConfig::default()).await.unwrap();
    let shop = world.space("shop", &[husam, bob.entity()]).await.unwrap();
    let poison = world.say(husam, lobby, "POISON").await.unwrap().to_string();
    for n in 0..20 {
        world.pass(Duration::from_secs(60)).await.unwrap();
        let requests = world.say(husam, shop, &format!("m{n}")).await.unwrap().to_string();
        world.pass(Duration::from_secs(30)).await.unwrap();
        assert_eq!(world.state(bob, &requests).await.unwrap().as_str(), "processed", "m{n}");
    }
    for ada in all {
        assert_eq!(world.state(ada, &poison).await.unwrap().as_str(), "dead");
    }
}

#[tokio::test]
async fn a_cycle_at_which_the_server_fails_after_its_first_step_is_broken_off() {
    let fixture = Fixture::new(|prompt| match step(prompt) {
        0 if inbox(prompt).contains("begin") => Script::new().call("look", &json!({})),
        1 if inbox(prompt).contains("begin") => Script::fails(failed()),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "begin").await.unwrap();
    world.pass(HOUR).await.unwrap();
    let runs = world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.ending).collect::<Vec<_>>(), [Ending::Failed]);
    world.say(husam, lobby, "next").await.unwrap();
    world.pass(HOUR / 60).await.unwrap();
    assert_eq!(world.runs(ada).await.unwrap()[1].ending, Ending::Completed);
}
