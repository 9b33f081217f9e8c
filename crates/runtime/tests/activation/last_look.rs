//! A call that waits for its place after its decision: what has changed meanwhile counts, until it leaves.

use std::sync::Arc;

use agent::approval::{PersonVerdict, Remember};
use agent::limits;
use jiff::SignedDuration;
use serde_json::{Value, json};
use testkit::test_tools::{TestToolbox, queued};

use crate::fixture::{Fixture, everything};
use crate::people::{Scene, caller};

/// Ada has the tool `queued`, whose calls wait for the fixture's gate; husam says please.
async fn queueing(mut with: Value) -> Scene {
    let mut fixture = Fixture::unsafely(caller("queued", json!({})));
    let (counters, gate) = (fixture.counters.clone(), fixture.gate.clone());
    fixture.dies_with(|tools| Arc::new(TestToolbox::new(tools).with(queued(&counters, &gate))));
    with["tools"] = json!(["queued", "look", "send_message", "done"]);
    Scene::of(fixture, with).await
}

#[tokio::test]
async fn a_call_that_waits_for_its_place_does_not_begin_by_a_rule_that_was_deleted_meanwhile() {
    let scene = queueing(json!({"approve": ["queued"]})).await;
    scene.fixture.gate.open();
    let span = SignedDuration::from_millis(limits::PAUSE_MS.cast_signed());
    let remember = Some(Remember { until: scene.fixture.now() + span, tainted: false });
    scene.answer(PersonVerdict::Approve { arguments: None, remember }).await.unwrap();
    assert_eq!(scene.runs("queued"), 1);
    scene.fixture.gate.close();
    scene.say("please again").await;
    scene.fixture.gate.begun(2).await;
    let approvals = Arc::clone(&scene.fixture.world.ports().approvals);
    assert_eq!(approvals.forget_rules(scene.ada, "queued".into(), None).await.unwrap().len(), 1);
    scene.fixture.gate.open();
    scene.quiet().await;
    assert_eq!(scene.runs("queued"), 1);
    let told = scene.posted().await.pop().unwrap();
    assert!(told.contains("the rule by which it needed no approval"), "{told}");
}

#[tokio::test]
async fn a_call_that_waits_for_its_place_does_not_begin_after_an_urgent_message_of_its_requester() {
    for barrier in [true, false] {
        let scene = queueing(json!({"barrier": barrier, "awareness": "none"})).await;
        scene.fixture.gate.begun(1).await;
        scene.say("stop!").await;
        scene.fixture.gate.open();
        scene.quiet().await;
        assert_eq!(scene.runs("queued"), u64::from(!barrier));
        let shown = everything(scene.fixture.model.prompts().last().unwrap());
        assert_eq!(shown.contains("not started: an urgent event"), barrier, "{shown}");
    }
}
