//! The table of `runtime::failure`, row by row: failures of a provider. Flaws of a reply (malformed arguments, unknown
//! tools, too many calls, duplicate ids) are tested in `garbage`.

use std::time::Duration;

use agent::config::AgentConfig;
use agent::life::IdleReason;
use agent::message::Part;
use agent::port::{InboxFilter, ModelError, PageRequest, TimeoutKind};
use models::scripted::Script;
use serde_json::json;

use crate::fixture::{Fixture, done, inbox, step};

/// What a class of failure causes.
struct Row {
    error: ModelError,
    /// Whether the model has answered before.
    answered: bool,
    /// Requests of one activation.
    requests: usize,
    /// The attempts counted.
    counted: u32,
    /// Why the agent backs off.
    idle: IdleReason,
    /// Whether another agent of the same provider still sends requests.
    others_send: bool,
}

async fn check(row: Row) {
    let Row { error, answered, requests, counted, idle, others_send } = row;
    let what = error.to_string();
    let failing = error.clone();
    let fixture = Fixture::new(move |prompt| match inbox(prompt).contains("FIRST") {
        true => done(),
        false => Script::fails(failing.clone()),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let bob = world.agent("bob", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let shop = world.space("shop", &[husam, bob.entity()]).await.unwrap();
    if answered {
        world.say(husam, shop, "FIRST").await.unwrap();
        world.quiet().await.unwrap();
    }
    let before = fixture.model.prompts().len();
    world.say(husam, lobby, "hello").await.unwrap();
    // Between four attempts are pauses of 1, 2 and 4 seconds, each with up to a quarter of jitter.
    for _ in 0..100 {
        world.pass(Duration::from_millis(100)).await.unwrap();
        if world.reader().agent(ada).await.unwrap().unwrap().idle_reason.is_some() {
            break;
        }
    }
    assert_eq!(fixture.model.prompts().len() - before, requests, "{what}: requests of one activation");
    let card = world.reader().agent(ada).await.unwrap().unwrap();
    assert_eq!(card.idle_reason, Some(idle), "{what}");
    let page = PageRequest { cursor: None, limit: 10 };
    let inbox = world.reader().inbox(ada, InboxFilter::default(), page).await.unwrap().items;
    assert_eq!(inbox[0].attempts, counted, "{what}: counted attempts");
    world.say(husam, shop, "hello").await.unwrap();
    world.pass(Duration::from_millis(10)).await.unwrap();
    assert_eq!(fixture.model.prompts().len() - before > requests, others_send, "{what}: whether others send");
}

fn surroundings(error: ModelError, requests: usize, others_send: bool) -> Row {
    Row { error, answered: false, requests, counted: 0, idle: IdleReason::Provider, others_send }
}

fn content(error: ModelError, requests: usize, answered: bool) -> Row {
    let idle = if answered { IdleReason::Backoff } else { IdleReason::Provider };
    Row { error, answered, requests, counted: 1, idle, others_send: true }
}

#[tokio::test]
async fn rate_limits_and_overload_are_retried_and_open_the_breaker_for_all() {
    let (message, retry_after) = ("x".to_owned(), None);
    check(surroundings(ModelError::RateLimited { message: message.clone(), retry_after }, 4, false)).await;
    check(surroundings(ModelError::Overloaded { message: message.clone(), retry_after }, 4, false)).await;
    let retry_after = Some(Duration::from_secs(600));
    check(surroundings(ModelError::RateLimited { message, retry_after }, 1, false)).await;
}

#[tokio::test]
async fn a_network_failure_is_retried_and_opens_the_breaker_for_all() {
    check(surroundings(ModelError::Network("refused".into()), 4, false)).await;
    check(surroundings(ModelError::TimedOut(TimeoutKind::Connect), 4, false)).await;
}

#[tokio::test]
async fn a_refused_key_is_not_retried_and_opens_the_breaker_for_all() {
    check(surroundings(ModelError::Auth("401".into()), 1, false)).await;
}

#[tokio::test]
async fn silence_cut_streams_and_failed_servers_affect_only_their_own_agent() {
    for wait in [TimeoutKind::FirstByte, TimeoutKind::Idle, TimeoutKind::Total] {
        check(surroundings(ModelError::TimedOut(wait), 4, true)).await;
    }
    check(surroundings(ModelError::Cut("there".into()), 4, true)).await;
    let (message, retry_after) = ("500".to_owned(), None);
    check(surroundings(ModelError::Failed { message, retry_after }, 4, true)).await;
}

#[tokio::test]
async fn a_missing_model_affects_only_agents_that_use_it() {
    check(surroundings(ModelError::NoModel("404".into()), 1, true)).await;
}

#[tokio::test]
async fn an_unsupported_request_affects_only_agents_that_use_the_model() {
    check(surroundings(ModelError::Unsupported("400: no tools".into()), 1, true)).await;
}

#[tokio::test]
async fn a_failure_of_the_content_is_counted_and_affects_no_other_agent() {
    for answered in [true, false] {
        check(content(ModelError::Garbage("not JSON".into()), 4, answered)).await;
        check(content(ModelError::TooLong("of a first event".into()), 1, answered)).await;
        check(content(ModelError::Invalid("of a first event".into()), 1, answered)).await;
    }
}

#[tokio::test]
async fn a_call_refused_by_a_policy_is_an_outcome_that_the_model_reads() {
    let fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new().call("look", &json!({})),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let gates = json!({"gates": [{"from": 0, "to": 0, "active_tools": ["send_message"]}]});
    let ada = world.agent("ada", AgentConfig::from_json(&gates).unwrap()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "look").await.unwrap();
    world.quiet().await.unwrap();
    let mind = world.consciousness(ada).await.unwrap();
    let Part::ToolResult { text, error: true, .. } = &mind[2].message.parts[0] else {
        panic!("an error, got {:?}", mind[2].message)
    };
    assert!(text.contains("may not be called now"), "{text}");
    assert_eq!(fixture.counters.calls("look"), 0);
}
