//! What a cycle shows besides what it took, in the hands of those outside: taken back, flooded, canceled;
//! and what is shown and fails alone, a window that comes back.

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

use crate::play::{Play, answer, done, everything, inbox, send, step};

/// A cycle that is asked for step 1 and shows the correction, for ten seconds.
async fn showing(inbox_max: u32) -> (Play, EntityId, AgentId, SpaceId, MessageId) {
    let play = Play::timed(|prompt, clock| match (inbox(prompt).contains("analyze"), step(prompt)) {
        (true, 0) => Script::new().call("slow", &json!({})),
        (true, 1) => {
            let said = send("lab", "the marketing one");
            Script::new().pause(clock, Duration::from_secs(10)).call("send_message", &said).usage(50, 0, 5)
        }
        _ => done(),
    });
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let limits = json!({"limits": {"inbox_max": inbox_max}});
    let ada = world.agent("ada", AgentConfig::from_json(&limits).unwrap()).await.unwrap();
    let lab = world.space("lab", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lab, "analyze the sales").await.unwrap();
    world.pass(Duration::from_millis(100)).await.unwrap();
    play.gate.begun(1).await;
    let correction = world.say(husam, lab, "no, the marketing data").await.unwrap();
    play.gate.open();
    world.pass(Duration::from_secs(1)).await.unwrap();
    assert_eq!(play.model.prompts().len(), 2, "step 1 is asked");
    (play, husam, ada, lab, correction)
}

fn event(message: MessageId) -> EventId {
    EventId(message.to_string())
}

#[tokio::test]
async fn what_is_being_shown_waits_until_the_decision_lives_it() {
    let (play, _, ada, _, correction) = showing(100).await;
    let world = &play.world;
    let row = async || world.reader().event(ada, event(correction)).await.unwrap().unwrap();
    assert_eq!((row().await.progress, row().await.step), (EventProgress::Waiting, None));
    world.quiet().await.unwrap();
    assert_eq!((row().await.ordinal, row().await.step), (Some(1), Some(1)));
    let runs = world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending, runs[0].events), (1, Ending::Completed, 2));
}

#[tokio::test]
async fn what_is_taken_back_while_it_is_shown_is_not_lived_and_the_step_is_thought_without_it() {
    let (play, _, ada, lab, correction) = showing(100).await;
    let world = &play.world;
    world.registry().cancel_event(ada, event(correction)).await.unwrap();
    world.quiet().await.unwrap();
    assert_eq!(world.state(ada, &correction.to_string()).await.unwrap().as_str(), "canceled");
    let asked = play.model.prompts();
    let shows: Vec<bool> = asked.iter().map(|prompt| everything(prompt).contains("marketing data")).collect();
    assert_eq!(shows, [false, true, false, false], "step 1 was asked again, and its first answer dropped");
    assert!(
        !world.mind(ada).await.unwrap().iter().any(|entry| entry.message.text().contains("marketing data"))
    );
    let runs = world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending, runs[0].events), (1, Ending::Completed, 1));
    assert_eq!(runs[0].steps[1].discarded.input, Some(50), "what the dropped answer used is told: {runs:?}");
    assert_eq!(runs[0].usage.input, Some(100), "and paid for");
    assert_eq!(world.heard(lab).await.unwrap().len(), 3, "it is said once");
}

#[tokio::test]
async fn a_flood_in_the_middle_leaves_what_is_being_shown_alone() {
    let (play, husam, ada, lab, correction) = showing(10).await;
    let world = &play.world;
    for n in 0..30 {
        world.say(husam, lab, &format!("flood {n}")).await.unwrap();
    }
    world.quiet().await.unwrap();
    let runs = world.runs(ada).await.unwrap();
    assert!(runs.iter().all(|run| run.ending == Ending::Completed), "{runs:?}");
    assert_eq!(world.state(ada, &correction.to_string()).await.unwrap().as_str(), "processed");
}

#[tokio::test]
async fn a_cancel_while_a_step_is_shown_something_takes_that_back_as_well() {
    let (play, _, ada, _, correction) = showing(100).await;
    let world = &play.world;
    world.registry().cancel(ada, None).await.unwrap();
    world.node().unwrap().look(ada);
    world.quiet().await.unwrap();
    assert_eq!(world.state(ada, &correction.to_string()).await.unwrap().as_str(), "canceled");
    let runs = world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending), (1, Ending::Canceled), "nothing wakes it again");
    assert!(runs[0].estimated().input.is_some_and(|input| input > 0), "the dropped generation is counted");
}

#[tokio::test]
async fn the_parked_cycle_of_a_suspended_agent_is_canceled_at_once() {
    let (play, _, ada, _, _) = showing(100).await;
    let world = &play.world;
    world.registry().set_standing(ada, Standing::Suspended, play.now()).await.unwrap();
    world.node().unwrap().look(ada);
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert!(world.reader().agent(ada).await.unwrap().unwrap().open.is_some(), "it is parked");
    world.registry().cancel(ada, None).await.unwrap();
    world.node().unwrap().look(ada);
    world.pass(Duration::from_secs(1)).await.unwrap();
    let runs = world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending), (1, Ending::Canceled));
    assert_eq!(world.reader().agent(ada).await.unwrap().unwrap().standing, Standing::Suspended);
}

#[tokio::test]
async fn the_parked_cycle_of_an_agent_that_is_retired_is_closed_at_once() {
    let (play, _, ada, _, _) = showing(100).await;
    let world = &play.world;
    world.registry().set_standing(ada, Standing::Suspended, play.now()).await.unwrap();
    world.node().unwrap().look(ada);
    world.pass(Duration::from_secs(60)).await.unwrap();
    assert!(world.reader().agent(ada).await.unwrap().unwrap().open.is_some(), "it is parked");
    world.registry().set_standing(ada, Standing::Retired, play.now()).await.unwrap();
    world.node().unwrap().look(ada);
    world.pass(Duration::from_secs(1)).await.unwrap();
    let runs = world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending), (1, Ending::Canceled));
    let card = world.reader().agent(ada).await.unwrap().unwrap();
    assert_eq!((card.standing, card.open), (Standing::Retired, None));
}

#[tokio::test]
async fn a_poison_that_may_interrupt_dies_alone() {
    let play = Play::timed(|prompt, clock| {
        if everything(prompt).contains("POISON") {
            return Script::fails(ModelError::Garbage("an empty reply".into()));
        }
        match step(prompt) {
            0 => {
                let said = send("lab", "answered");
                Script::new().pause(clock, Duration::from_secs(3)).call("send_message", &said)
            }
            _ => done(),
        }
    });
    let world = &play.world;
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
    assert_eq!(world.heard(lab).await.unwrap().iter().filter(|(_, said)| said == "answered").count(), 1);
}

#[tokio::test]
async fn an_event_that_no_vendor_takes_costs_the_later_cycles_nothing_of_their_window() {
    let play = Play::new(|prompt| match inbox(prompt).contains("ENDLESS") {
        true => Script::fails(ModelError::TooLong("prompt is too long".into())),
        false => answer(prompt, "lab", "ok"),
    });
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lab = world.space("lab", &[husam, ada.entity()]).await.unwrap();
    for text in ["one", "two", "three", "ENDLESS", "four"] {
        world.say(husam, lab, text).await.unwrap();
        world.quiet().await.unwrap();
    }
    let view = world.reader().view(ada).await.unwrap();
    assert!(view.is_none_or(|view| view.tail == 1 && view.ranges.is_empty()), "all of it is in view again");
    let asked = play.model.prompts();
    let last = crate::play::entries(asked.last().unwrap());
    assert_eq!(last.iter().filter(|entry| entry.kind == EntryKind::Inbox).count(), 4);
}
