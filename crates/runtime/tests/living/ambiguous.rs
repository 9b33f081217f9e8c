//! A server that fails: at everything, or at one event that it cannot digest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::config::AgentConfig;
use agent::life::IdleReason;
use agent::port::{ModelError, PageRequest};
use agent::run::Ending;
use models::scripted::Script;
use serde_json::json;

use crate::play::{Play, done, inbox, step};

const HOUR: Duration = Duration::from_secs(3_600);

fn failed() -> ModelError {
    ModelError::Failed { message: "HTTP 500: no".into(), retry_after: None }
}

/// Ways in which one request is failed at.
fn ways() -> [Script; 3] {
    let begun = || Script::new().text("I was about to");
    [
        Script::fails(failed()),
        begun().fail(failed()),
        begun().fail(ModelError::Cut("it ended without an ending".into())),
    ]
}

#[tokio::test]
async fn an_event_at_which_the_server_fails_dies_alone_and_all_others_are_answered() {
    for way in ways() {
        let play = Play::new(move |prompt| match inbox(prompt).contains("POISON") {
            true => way.clone(),
            false => done(),
        });
        let world = &play.world;
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

/// A server that is set up wrong refuses everything, in words of its own.
#[tokio::test]
async fn what_a_model_refuses_that_has_never_answered_waits_until_it_does() {
    for error in [ModelError::Invalid("400: bad request".into()), ModelError::Garbage("no JSON".into())] {
        let (mended, wrong) = (Arc::new(AtomicBool::new(false)), error.clone());
        let works = Arc::clone(&mended);
        let play = Play::new(move |_| match works.load(Ordering::SeqCst) {
            true => done(),
            false => Script::fails(wrong.clone()),
        });
        let world = &play.world;
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
        let asked = play.model.prompts().len();
        assert!(asked <= 4 * 6 * 13, "{asked} requests: a few each five minutes");
        mended.store(true, Ordering::SeqCst);
        world.pass(HOUR / 6).await.unwrap();
        for id in ids {
            assert_eq!(world.state(ada, &id).await.unwrap().as_str(), "processed", "{error}");
        }
    }
}

/// An outage looks the same as a request that cannot be digested; what tells them apart is how long it lasts.
#[tokio::test]
async fn a_server_that_fails_at_everything_buries_nothing_for_a_quarter_of_an_hour() {
    for way in ways() {
        let play = Play::new(move |_| way.clone());
        let world = &play.world;
        let husam = world.human("husam").await.unwrap();
        let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
        let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
        world.say(husam, lobby, "hello").await.unwrap();
        let attempts = async || {
            let all = PageRequest { cursor: None, limit: agent::limits::PAGE_MAX };
            let inbox = world.reader().inbox(ada, None, all).await.unwrap().items;
            inbox.iter().map(|row| row.attempts).max()
        };
        world.pass(HOUR / 20).await.unwrap();
        let card = world.reader().agent(ada).await.unwrap().unwrap();
        assert_eq!(card.idle_reason, Some(IdleReason::Provider));
        assert_eq!(attempts().await, Some(0), "nobody is blamed for three minutes");
        world.pass(HOUR / 5).await.unwrap();
        let card = world.reader().agent(ada).await.unwrap().unwrap();
        assert_eq!((card.idle_reason, card.waiting), (Some(IdleReason::Backoff), 1));
        assert!(attempts().await.is_some_and(|attempts| (1..5).contains(&attempts)));
        let asked = play.model.prompts().len();
        assert!(asked <= 4 * 12, "{asked} requests: ever fewer");
    }
}

#[tokio::test]
async fn what_one_agent_cannot_be_answered_stops_no_other_also_where_several_were_sent_it() {
    let play = Play::new(|prompt| match inbox(prompt).contains("POISON") {
        true => Script::fails(failed()),
        false => done(),
    });
    let world = &play.world;
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
        let asked = world.say(husam, shop, &format!("m{n}")).await.unwrap().to_string();
        world.pass(Duration::from_secs(30)).await.unwrap();
        assert_eq!(world.state(bob, &asked).await.unwrap().as_str(), "processed", "m{n}");
    }
    for ada in all {
        assert_eq!(world.state(ada, &poison).await.unwrap().as_str(), "dead");
    }
}

#[tokio::test]
async fn a_cycle_that_the_server_fails_at_in_its_middle_is_broken_off() {
    let play = Play::new(|prompt| match step(prompt) {
        0 if inbox(prompt).contains("begin") => Script::new().call("look", &json!({})),
        1 if inbox(prompt).contains("begin") => Script::fails(failed()),
        _ => done(),
    });
    let world = &play.world;
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
