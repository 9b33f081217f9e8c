//! The table of `runtime::failure`, row by row: what a provider fails with. What is wrong with a reply
//! (malformed arguments, unknown tools, too many calls, ids that come twice) is played in `garbage`.

use std::time::Duration;

use agent::config::AgentConfig;
use agent::life::IdleReason;
use agent::message::Part;
use agent::port::{ModelError, PageRequest, TimeoutKind};
use models::scripted::Script;
use serde_json::json;

use crate::play::{Play, done, inbox, step};

/// How a class is met.
struct Row {
    error: ModelError,
    /// Whether the model has answered something before.
    answered: bool,
    /// Requests of one activation.
    requests: usize,
    /// Whether it is counted.
    counted: u32,
    /// Why the agent rests then.
    rest: IdleReason,
    /// Whether another agent behind the same provider still asks.
    others_ask: bool,
}

async fn play(row: Row) {
    let Row { error, answered, requests, counted, rest, others_ask } = row;
    let what = error.to_string();
    let failing = error.clone();
    let play = Play::new(move |prompt| match inbox(prompt).contains("FIRST") {
        true => done(),
        false => Script::fails(failing.clone()),
    });
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let bob = world.agent("bob", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let shop = world.space("shop", &[husam, bob.entity()]).await.unwrap();
    if answered {
        world.say(husam, shop, "FIRST").await.unwrap();
        world.quiet().await.unwrap();
    }
    let before = play.model.prompts().len();
    world.say(husam, lobby, "hello").await.unwrap();
    // Pauses of 1, 2 and 4 seconds, each with up to a quarter of chance, lie between four attempts.
    for _ in 0..100 {
        world.pass(Duration::from_millis(100)).await.unwrap();
        if world.reader().agent(ada).await.unwrap().unwrap().idle_reason.is_some() {
            break;
        }
    }
    assert_eq!(play.model.prompts().len() - before, requests, "{what}: requests of one activation");
    let card = world.reader().agent(ada).await.unwrap().unwrap();
    assert_eq!(card.idle_reason, Some(rest), "{what}");
    let page = PageRequest { cursor: None, limit: 10 };
    let inbox = world.reader().inbox(ada, None, page).await.unwrap().items;
    assert_eq!(inbox[0].attempts, counted, "{what}: counted attempts");
    world.say(husam, shop, "hello").await.unwrap();
    world.pass(Duration::from_millis(10)).await.unwrap();
    assert_eq!(play.model.prompts().len() - before > requests, others_ask, "{what}: whether others ask");
}

fn surroundings(error: ModelError, requests: usize, others_ask: bool) -> Row {
    Row { error, answered: false, requests, counted: 0, rest: IdleReason::Provider, others_ask }
}

fn content(error: ModelError, requests: usize, answered: bool) -> Row {
    let rest = if answered { IdleReason::Backoff } else { IdleReason::Provider };
    Row { error, answered, requests, counted: 1, rest, others_ask: true }
}

#[tokio::test]
async fn rate_limited_and_overloaded_are_tried_again_and_stop_all_who_ask_there() {
    let (message, retry_after) = ("x".to_owned(), None);
    play(surroundings(ModelError::RateLimited { message: message.clone(), retry_after }, 4, false)).await;
    play(surroundings(ModelError::Overloaded { message: message.clone(), retry_after }, 4, false)).await;
    let retry_after = Some(Duration::from_secs(600));
    play(surroundings(ModelError::RateLimited { message, retry_after }, 1, false)).await;
}

#[tokio::test]
async fn a_network_that_is_down_is_tried_again_and_stops_all_who_ask_there() {
    play(surroundings(ModelError::Network("refused".into()), 4, false)).await;
    play(surroundings(ModelError::TimedOut(TimeoutKind::Connect), 4, false)).await;
}

#[tokio::test]
async fn a_key_that_is_refused_is_not_tried_again_and_stops_all_who_have_it() {
    play(surroundings(ModelError::Auth("401".into()), 1, false)).await;
}

#[tokio::test]
async fn silence_cut_streams_and_failed_servers_stop_only_whom_they_meet() {
    for wait in [TimeoutKind::FirstByte, TimeoutKind::Idle, TimeoutKind::Total] {
        play(surroundings(ModelError::TimedOut(wait), 4, true)).await;
    }
    play(surroundings(ModelError::Cut("there".into()), 4, true)).await;
    let (message, retry_after) = ("500".to_owned(), None);
    play(surroundings(ModelError::Failed { message, retry_after }, 4, true)).await;
}

#[tokio::test]
async fn a_model_that_is_gone_stops_only_whoever_names_it() {
    play(surroundings(ModelError::NoModel("404".into()), 1, true)).await;
}

#[tokio::test]
async fn what_every_request_of_a_model_meets_stops_only_whoever_names_it() {
    play(surroundings(ModelError::Unsupported("400: no tools".into()), 1, true)).await;
}

#[tokio::test]
async fn what_is_the_contents_fault_is_counted_and_stops_nobody_else() {
    for answered in [true, false] {
        play(content(ModelError::Garbage("not JSON".into()), 4, answered)).await;
        play(content(ModelError::TooLong("of a first event".into()), 1, answered)).await;
        play(content(ModelError::Invalid("of a first event".into()), 1, answered)).await;
    }
}

#[tokio::test]
async fn what_a_policy_refuses_is_an_outcome_that_the_model_reads() {
    let play = Play::new(|prompt| match step(prompt) {
        0 => Script::new().call("look", &json!({})),
        _ => done(),
    });
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let gates = json!({"gates": [{"from": 0, "to": 0, "active_tools": ["send_message"]}]});
    let ada = world.agent("ada", AgentConfig::from_json(&gates).unwrap()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "look").await.unwrap();
    world.quiet().await.unwrap();
    let mind = world.mind(ada).await.unwrap();
    let Part::ToolResult { text, error: true, .. } = &mind[2].message.parts[0] else {
        panic!("an error, got {:?}", mind[2].message)
    };
    assert!(text.contains("may not be called now"), "{text}");
    assert_eq!(play.counters.calls("look"), 0);
}
