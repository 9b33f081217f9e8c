//! Events that a cycle shows in its middle, and what happens to them from outside: withdrawn, flooded, canceled. Also
//! events whose content fails, and that the window is whole afterwards.

use std::time::Duration;

use agent::config::{AgentConfig, Awareness};
use agent::entry::EntryKind;
use agent::event::EventProgress;
use agent::id::{AgentId, EntityId, EventId, MessageId, SpaceId};
use agent::life::Standing;
use agent::port::ModelError;
use agent::run::Ending;
use models::scripted::Script;
use serde_json::json;

use crate::fixture::{Fixture, answer, done, everything, inbox, send, step};

/// A cycle whose step 1 shows the correction and takes ten seconds.
async fn showing(inbox_max: u32) -> (Fixture, EntityId, AgentId, SpaceId, MessageId) {
    let fixture = Fixture::timed(|prompt, clock| match (inbox(prompt).contains("analyze"), step(prompt)) {
        (true, 0) => Script::new().call("slow", &json!({})),
        (true, 1) => {
            let posted = send("lab", "the marketing one");
            Script::new().pause(clock, Duration::from_secs(10)).call("send_message", &posted).usage(50, 0, 5)
        }
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let limits = json!({"limits": {"inbox_max": inbox_max}});
    let ada = world.agent("ada", AgentConfig::from_json(&limits).unwrap()).await.unwrap();
    let lab = world.space("lab", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lab, "analyze the sales").await.unwrap();
    world.pass(Duration::from_millis(100)).await.unwrap();
    fixture.gate.begun(1).await;
    let correction = world.say(husam, lab, "no, the marketing data").await.unwrap();
    fixture.gate.open();
    world.pass(Duration::from_secs(1)).await.unwrap();
    assert_eq!(fixture.model.prompts().len(), 2, "step 1 is requested");
    (fixture, husam, ada, lab, correction)
}

fn event(message: MessageId) -> EventId {
    EventId(message.to_string())
}

#[tokio::test]
async fn a_shown_event_waits_until_the_decision_processes_it() {
    let (fixture, _, ada, _, correction) = showing(100).await;
    let world = &fixture.world;
    let row = async || world.reader().event(ada, event(correction)).await.unwrap().unwrap();
    assert_eq!((row().await.progress, row().await.step), (EventProgress::Waiting, None));
    world.quiet().await.unwrap();
    assert_eq!((row().await.ordinal, row().await.step), (Some(1), Some(1)));
    let runs = world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending, runs[0].events), (1, Ending::Completed, 2));
}

#[tokio::test]
async fn an_event_withdrawn_while_it_is_shown_is_not_processed_and_the_step_is_repeated_without_it() {
    let (fixture, _, ada, lab, correction) = showing(100).await;
    let world = &fixture.world;
    world.registry().cancel_event(ada, event(correction)).await.unwrap();
    world.quiet().await.unwrap();
    assert_eq!(world.state(ada, &correction.to_string()).await.unwrap().as_str(), "canceled");
    let requests = fixture.model.prompts();
    let shows: Vec<bool> =
        requests.iter().map(|prompt| everything(prompt).contains("marketing data")).collect();
    assert_eq!(shows, [false, true, false, false], "step 1 was requested again, and its first reply dropped");
    assert!(
        !world
            .consciousness(ada)
            .await
            .unwrap()
            .iter()
            .any(|entry| entry.message.text().contains("marketing data"))
    );
    let runs = world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending, runs[0].events), (1, Ending::Completed, 1));
    assert_eq!(
        runs[0].steps[1].discarded.input,
        Some(50),
        "the usage of the dropped reply is recorded: {runs:?}"
    );
    assert_eq!(runs[0].usage.input, Some(100), "and counted");
    assert_eq!(world.posted_texts(lab).await.unwrap().len(), 3, "the reply is posted once");
}

#[tokio::test]
async fn a_flood_of_events_does_not_drop_a_shown_event() {
    let (fixture, husam, ada, lab, correction) = showing(10).await;
    let world = &fixture.world;
    for n in 0..30 {
        world.say(husam, lab, &format!("flood {n}")).await.unwrap();
    }
    world.quiet().await.unwrap();
    let runs = world.runs(ada).await.unwrap();
    assert!(runs.iter().all(|run| run.ending == Ending::Completed), "{runs:?}");
    assert_eq!(world.state(ada, &correction.to_string()).await.unwrap().as_str(), "processed");
}

#[tokio::test]
async fn a_cancel_while_an_event_is_shown_cancels_that_event_as_well() {
    let (fixture, _, ada, _, correction) = showing(100).await;
    let world = &fixture.world;
    world.registry().cancel(ada, None).await.unwrap();
    world.node().unwrap().recheck(ada);
    world.quiet().await.unwrap();
    assert_eq!(world.state(ada, &correction.to_string()).await.unwrap().as_str(), "canceled");
    let runs = world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending), (1, Ending::Canceled), "it is not activated again");
    assert!(runs[0].estimated().input.is_some_and(|input| input > 0), "the dropped generation is counted");
}

#[tokio::test]
async fn the_parked_cycle_of_a_suspended_agent_is_canceled_at_once() {
    let (fixture, _, ada, _, _) = showing(100).await;
    let world = &fixture.world;
    world.registry().set_standing(ada, Standing::Suspended, fixture.now()).await.unwrap();
    world.node().unwrap().recheck(ada);
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert!(world.reader().agent(ada).await.unwrap().unwrap().open.is_some(), "it is parked");
    world.registry().cancel(ada, None).await.unwrap();
    world.node().unwrap().recheck(ada);
    world.pass(Duration::from_secs(1)).await.unwrap();
    let runs = world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending), (1, Ending::Canceled));
    assert_eq!(world.reader().agent(ada).await.unwrap().unwrap().standing, Standing::Suspended);
}

#[tokio::test]
async fn the_parked_cycle_of_a_retired_agent_is_closed_at_once() {
    let (fixture, _, ada, _, _) = showing(100).await;
    let world = &fixture.world;
    world.registry().set_standing(ada, Standing::Suspended, fixture.now()).await.unwrap();
    world.node().unwrap().recheck(ada);
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert!(world.reader().agent(ada).await.unwrap().unwrap().open.is_some(), "it is parked");
    world.registry().set_standing(ada, Standing::Retired, fixture.now()).await.unwrap();
    world.node().unwrap().recheck(ada);
    world.pass(Duration::from_secs(1)).await.unwrap();
    let runs = world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending), (1, Ending::Canceled));
    let card = world.reader().agent(ada).await.unwrap().unwrap();
    assert_eq!((card.standing, card.open), (Standing::Retired, None));
}

#[tokio::test]
async fn a_poisonous_event_that_may_interrupt_dies_alone() {
    let fixture = Fixture::timed(|prompt, clock| {
        if everything(prompt).contains("POISON") {
            return Script::fails(ModelError::Garbage("an empty reply".into()));
        }
        match step(prompt) {
            0 => {
                let posted = send("lab", "answered");
                Script::new().pause(clock, Duration::from_secs(3)).call("send_message", &posted)
            }
            _ => done(),
        }
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let config = AgentConfig { awareness: Awareness::Interrupt, ..AgentConfig::default() };
    let ada = world.agent("ada", config).await.unwrap();
    let lab = world.space("lab", &[husam, ada.entity()]).await.unwrap();
    let innocent = world.say(husam, lab, "a question").await.unwrap();
    world.pass(Duration::from_secs(1)).await.unwrap();
    let poison = world.say(husam, lab, "POISON").await.unwrap();
    world.quiet().await.unwrap();
    assert_eq!(world.state(ada, &innocent.to_string()).await.unwrap().as_str(), "processed");
    assert_eq!(world.state(ada, &poison.to_string()).await.unwrap().as_str(), "dead");
    let runs = world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.ending).collect::<Vec<_>>(), [Ending::Completed], "{runs:?}");
    assert_eq!(
        world.posted_texts(lab).await.unwrap().iter().filter(|(_, posted)| posted == "answered").count(),
        1
    );
}

#[tokio::test]
async fn an_event_that_no_vendor_accepts_does_not_shorten_the_window_of_later_cycles() {
    let fixture = Fixture::new(|prompt| match inbox(prompt).contains("ENDLESS") {
        true => Script::fails(ModelError::TooLong("prompt is too long".into())),
        false => answer(prompt, "lab", "ok"),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lab = world.space("lab", &[husam, ada.entity()]).await.unwrap();
    for text in ["one", "two", "three", "ENDLESS", "four"] {
        world.say(husam, lab, text).await.unwrap();
        world.quiet().await.unwrap();
    }
    let view = world.reader().view(ada).await.unwrap();
    assert!(
        view.is_none_or(|view| view.tail == 1 && view.ranges.is_empty()),
        "the whole log is in view again"
    );
    let requests = fixture.model.prompts();
    let last = crate::fixture::entries(requests.last().unwrap());
    assert_eq!(last.iter().filter(|entry| entry.kind == EntryKind::Inbox).count(), 4);
}
