//! What happens while a call waits for a person: others are served, and the call still runs at most once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use agent::approval::{AnswerRefused, Answerer};
use agent::call::CallState;
use agent::port::AskedCall;
use models::scripted::Scripted;
use runtime::approvals::AnswerError;
use serde_json::json;

use crate::fixture::Fixture;
use crate::people::{PAUSE, Scene, caller, config, questioned, yes};
use crate::prefix::{cut_at_commit, restart_if_cut};

/// An agent that waits for a person is there for all others: their events do not wait with it, and the call still runs once.
#[tokio::test]
async fn whoever_writes_to_an_agent_that_waits_for_a_person_is_served_at_once() {
    for early in [false, true] {
        let scene = Scene::asking("fire").await;
        let id = scene.wanted().await.id;
        let mira = scene.fixture.world.human("mira").await.unwrap();
        let den = scene.fixture.world.space("den", &[mira, scene.ada.entity()]).await.unwrap();
        scene.pass(PAUSE / 3).await;
        scene.fixture.world.say(mira, den, "are you there?").await.unwrap();
        if early {
            // The answer and the message race.
            scene.answer_by(Answerer::Person(scene.husam), &id, yes()).await.unwrap();
        }
        scene.quiet().await;
        let agent = scene.fixture.world.reader().agent(scene.ada).await.unwrap().unwrap();
        assert_eq!((agent.waiting, agent.idle_reason, agent.open), (0, None, None));
        let texts = scene.posted().await;
        assert!(texts.iter().any(|text| text == "heard"), "mira was read: {texts:?}");
        if !early {
            let pending = texts.iter().find(|text| text.contains("pending")).unwrap();
            assert!(
                pending.contains("whoever is in the space lobby"),
                "it can say whom it waits for: {pending}"
            );
            assert_eq!((scene.runs("fire"), scene.wanted().await.state), (0, CallState::Detached));
            scene.answer(yes()).await.unwrap();
            scene.pass(Duration::from_secs(10)).await;
            assert!(scene.posted().await.last().unwrap().contains("[tool result \"fire\""));
        }
        assert_eq!(scene.runs("fire"), 1);
        scene.pass(PAUSE * 2).await;
        assert_eq!(scene.runs("fire"), 1);
    }
}

#[tokio::test]
async fn a_question_is_answered_by_the_next_message_of_whoever_is_asked() {
    for deferred in [false, true] {
        let wait = if deferred { "defer" } else { "pause" };
        let scene = questioned(json!({"kind": "text", "question": "Which door?", "wait": wait})).await;
        assert_eq!(scene.list(false).await.len(), 1);
        scene.say("the blue one").await;
        let texts = scene.posted().await;
        assert!(texts.iter().any(|text| text.starts_with("[question answered by husam]")), "{texts:?}");
        let is_read =
            |text: &&String| text.contains("the blue one") && text.contains("by") && text.contains("husam");
        let read = texts.iter().rfind(is_read).expect("the agent posts what it reads");
        assert!(read.contains("message"), "it knows that it is the same message: {read}");
        assert_eq!(scene.list(false).await.len(), 0);
        let agent = scene.fixture.world.reader().agent(scene.ada).await.unwrap().unwrap();
        assert_eq!((agent.waiting, agent.idle_reason), (0, None), "the message itself is processed, too");
    }
    // A call is approved by its card alone.
    let scene = Scene::asking("fire").await;
    for text in ["yes", "approve"] {
        scene.say(text).await;
    }
    assert_eq!((scene.runs("fire"), scene.list(false).await.len()), (0, 1));
}

#[tokio::test]
async fn what_waits_in_a_space_ends_when_the_space_is_closed_and_its_agent_reads_why() {
    let scene = Scene::asking("fire").await;
    let id = scene.wanted().await.id;
    scene.fixture.world.registry().set_space_closed(scene.lobby, true).await.unwrap();
    for by in [Answerer::Person(scene.husam), Answerer::Operator, Answerer::Link] {
        let refused = scene.answer_by(by, &id, yes()).await;
        assert!(matches!(refused, Err(AnswerError::Refused(AnswerRefused::Over(_)))), "{refused:?}");
    }
    // Opened again in the meantime: what was withdrawn stays so.
    scene.fixture.world.registry().set_space_closed(scene.lobby, false).await.unwrap();
    scene.pass(Duration::from_secs(30)).await;
    let texts = scene.posted().await;
    assert!(texts.last().unwrap().contains("the space where it was asked was closed"), "{texts:?}");
    let agent = scene.fixture.world.reader().agent(scene.ada).await.unwrap().unwrap();
    assert_eq!((agent.waiting, agent.idle_reason, scene.runs("fire")), (0, None, 0));
}

/// What happens between the question and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meanwhile {
    Nothing,
    /// The pause ends.
    Long,
    /// Something else wants the agent.
    Event,
}

/// The whole story, cut at its n-th commit; husam approves whatever waits.
async fn story(cut_at: i64, written: bool, meanwhile: Meanwhile) -> (u64, Vec<&'static str>, i64) {
    let left = Arc::new(AtomicI64::new(cut_at));
    let counter = Arc::clone(&left);
    let fixture = Fixture::with(Scripted::answering(caller("fire", json!({}))), move |inner| {
        cut_at_commit(inner, Arc::clone(&counter), written)
    });
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", config(json!({"approve": ["fire"]}))).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let mut scene = Scene { fixture, ada, husam, lobby };
    scene.fixture.world.say(husam, lobby, "please").await.unwrap();
    for round in 0..6 {
        scene.fixture.world.pass(Duration::from_secs(2)).await.unwrap();
        restart_if_cut(&mut scene.fixture, &left);
        match meanwhile {
            Meanwhile::Long if round == 2 => {
                scene.fixture.world.pass(PAUSE).await.unwrap();
                restart_if_cut(&mut scene.fixture, &left);
            }
            Meanwhile::Event if round == 1 => {
                scene.fixture.world.say(husam, lobby, "are you there?").await.unwrap();
            }
            Meanwhile::Nothing | Meanwhile::Long | Meanwhile::Event => {}
        }
        if round == 3 {
            for AskedCall { row, .. } in scene.list(false).await {
                assert_eq!(scene.runs("fire"), 0, "nothing runs without an approval");
                scene.answer_by(Answerer::Operator, &row.id, yes()).await.unwrap();
            }
        }
    }
    scene.pass(Duration::from_secs(20)).await;
    let runs = scene.fixture.world.runs(ada).await.unwrap();
    let used = 1_000_000 - left.load(Ordering::SeqCst);
    (scene.runs("fire"), runs.iter().map(|run| run.ending.as_str()).collect(), used)
}

#[tokio::test]
async fn an_approval_survives_a_death_at_every_commit_and_its_call_runs_at_most_once() {
    for meanwhile in [Meanwhile::Nothing, Meanwhile::Long, Meanwhile::Event] {
        let (fired, endings, commits) = story(1_000_000, false, meanwhile).await;
        assert_eq!(fired, 1, "{meanwhile:?}: {endings:?}");
        assert!(commits >= 6, "{commits}");
        for (cut, written) in (0..commits).flat_map(|cut| [(cut, false), (cut, true)]) {
            let (fired, ended, _) = story(cut, written, meanwhile).await;
            assert!(fired <= 1, "cut at {cut}, written: {written}, {meanwhile:?}");
            let completed = ended.iter().all(|ending| *ending == "completed");
            let as_before = if meanwhile == Meanwhile::Event { completed } else { ended == endings };
            assert!(as_before, "cut at {cut}, written: {written}, {meanwhile:?}: {ended:?}");
        }
    }
}
