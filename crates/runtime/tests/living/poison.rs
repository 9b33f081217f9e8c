//! Processes that die and activations that panic, over and over: whoever was only there is answered in the
//! end, and what brings it about dies alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use agent::config::AgentConfig;
use agent::event::EventState;
use agent::id::{AgentId, EntityId, MessageId, SpaceId};
use agent::port::{ModelError, PageRequest};
use agent::run::Ending;
use models::scripted::{Script, Scripted};
use serde_json::json;
use storage::sqlite::Sqlite;

use crate::play::{Play, answer, cut_off, done, everything, inbox, send, step};

const SECOND: Duration = Duration::from_secs(1);

async fn one_agent(play: &Play) -> (EntityId, AgentId, SpaceId) {
    let husam = play.world.human("husam").await.unwrap();
    // What is said within a second comes together.
    let config = AgentConfig { debounce: 1_000, ..AgentConfig::default() };
    let ada = play.world.agent("ada", config).await.unwrap();
    (husam, ada, play.world.space("lab", &[husam, ada.entity()]).await.unwrap())
}

async fn state(play: &Play, agent: AgentId, message: MessageId) -> EventState {
    play.world.state(agent, &message.to_string()).await.unwrap()
}

#[tokio::test]
async fn thirty_deaths_while_a_slow_model_thinks_leave_an_innocent_event_alive_and_answered() {
    let mut play = Play::timed(|prompt, clock| {
        let thinking = Script::new().pause(clock, Duration::from_secs(60));
        match step(prompt) {
            0 => thinking.call("look", &json!({})),
            1 => thinking.call("send_message", &send("lab", "at last")),
            _ => done(),
        }
    });
    let (husam, ada, lab) = one_agent(&play).await;
    let question = play.world.say(husam, lab, "a question").await.unwrap();
    let dying = async |play: &mut Play, deaths: usize| {
        let asked = play.model.prompts().len();
        for death in 1..=deaths {
            play.world.pass(30 * SECOND).await.unwrap();
            // Where it died before, the request is built once before it is sent.
            let more = play.model.prompts().len() - asked;
            assert!((death - 1..=2 * death).contains(&more), "{more} requests in {death} lives");
            play.dies();
        }
    };
    dying(&mut play, 30).await;
    assert_eq!(state(&play, ada, question).await, EventState::Waiting);
    play.world.pass(70 * SECOND).await.unwrap();
    assert!(
        matches!(state(&play, ada, question).await, EventState::Processed { .. }),
        "its first step is decided"
    );
    dying(&mut play, 30).await;
    play.world.quiet().await.unwrap();
    assert_eq!(play.world.heard(lab).await.unwrap().len(), 2);
    let runs = play.world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.ending).collect::<Vec<_>>(), [Ending::Completed]);
}

#[tokio::test]
async fn whoever_rests_for_its_provider_while_the_process_dies_thirty_times_is_blamed_for_nothing() {
    let down = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&down);
    let mut play = Play::new(move |prompt| match step(prompt) {
        0 => Script::new().call("slow", &json!({})),
        _ if seen.load(Ordering::SeqCst) => Script::fails(ModelError::Network("refused".into())),
        1 => Script::new().call("send_message", &send("lab", "at last")),
        _ => done(),
    });
    let (husam, ada, lab) = one_agent(&play).await;
    play.world.say(husam, lab, "a question").await.unwrap();
    play.world.pass(5 * SECOND).await.unwrap();
    down.store(true, Ordering::SeqCst);
    play.gate.open();
    for _ in 0..30 {
        play.world.pass(30 * SECOND).await.unwrap();
        let card = play.world.reader().agent(ada).await.unwrap().unwrap();
        assert!(card.open.is_some() && card.not_before.is_some(), "its cycle rests");
        play.dies();
    }
    down.store(false, Ordering::SeqCst);
    play.world.quiet().await.unwrap();
    assert_eq!(play.world.heard(lab).await.unwrap().len(), 2);
    assert_eq!(play.world.runs(ada).await.unwrap()[0].ending, Ending::Completed);
}

#[tokio::test]
async fn an_event_that_kills_the_process_is_dead_within_twenty_restarts_and_all_others_are_answered() {
    let (store, fell) = (Arc::<OnceLock<Arc<Mutex<Sqlite>>>>::default(), Arc::<AtomicBool>::default());
    let (cut, falls) = (Arc::clone(&store), Arc::clone(&fell));
    let mut play = Play::new(move |prompt| {
        if inbox(prompt).contains("DEADLY") {
            // The process is gone before the request is there.
            cut_off(cut.get().unwrap());
            falls.store(true, Ordering::SeqCst);
            return Script::new().hang();
        }
        answer(prompt, "lab", &format!("heard in {}", prompt.cycle))
    });
    assert!(store.set(Arc::clone(&play.sqlite)).is_ok());
    let (husam, ada, lab) = one_agent(&play).await;
    let bob = play.world.agent("bob", AgentConfig::default()).await.unwrap();
    let mut ids = Vec::new();
    for n in 0..12 {
        let text = if n == 7 { "DEADLY".to_owned() } else { format!("m{n}") };
        ids.push(play.world.say(husam, lab, &text).await.unwrap());
    }
    play.world.service(bob, "bell", "bell", json!({})).await.unwrap();
    let mut restarts = 0;
    for _ in 0..600 {
        play.world.pass(SECOND).await.unwrap();
        if fell.swap(false, Ordering::SeqCst) {
            play.dies();
            restarts += 1;
            assert!(restarts <= 20, "it still kills");
        }
    }
    play.world.quiet().await.unwrap();
    for (n, id) in ids.into_iter().enumerate() {
        match (n, state(&play, ada, id).await) {
            (7, EventState::Dead { reason }) => assert!(reason.contains("the process died"), "{reason}"),
            (7, other) => panic!("the deadly event is {other:?}"),
            (_, state) => assert!(matches!(state, EventState::Processed { .. }), "event {n} is {state:?}"),
        }
    }
    assert_eq!(restarts, 20, "it had its chances");
    assert_eq!(play.world.state(bob, "bell").await.unwrap().as_str(), "processed");
}

#[tokio::test]
async fn whatever_kills_the_process_while_its_reply_is_waited_for_is_tried_alone_and_all_others_are_answered()
{
    let fell = Arc::<AtomicBool>::default();
    let falls = Arc::clone(&fell);
    let mut play = Play::new(move |prompt| {
        if inbox(prompt).contains("DEADLY") {
            // The request is there, its reply is what kills.
            falls.store(true, Ordering::SeqCst);
            return Script::new().hang();
        }
        answer(prompt, "lab", &format!("heard in {}", prompt.cycle))
    });
    let (husam, ada, lab) = one_agent(&play).await;
    let mut ids = Vec::new();
    for n in 0..12 {
        let text = if n == 7 { "DEADLY".to_owned() } else { format!("m{n}") };
        ids.push(play.world.say(husam, lab, &text).await.unwrap());
    }
    for _ in 0..240 {
        play.world.pass(SECOND).await.unwrap();
        if fell.swap(false, Ordering::SeqCst) {
            play.dies();
        }
    }
    for (n, id) in ids.into_iter().enumerate() {
        let state = state(&play, ada, id).await;
        // What was said before it is answered; it keeps its place, and what the same person said behind it too.
        assert!(
            if n < 7 { matches!(state, EventState::Processed { .. }) } else { state == EventState::Waiting },
            "{n}: {state:?}"
        );
    }
}

/// Panics where the request is built, and says so.
fn panics() -> Script {
    panic!("on purpose")
}

#[tokio::test]
async fn an_event_that_panics_is_dead_after_its_attempts_alone_and_all_others_are_answered() {
    let play = Play::new(|prompt| match inbox(prompt).contains("POISON") {
        true => panics(),
        false => answer(prompt, "lab", &format!("heard in {}", prompt.cycle)),
    });
    let (husam, ada, lab) = one_agent(&play).await;
    let mut ids = Vec::new();
    for n in 0..6 {
        let text = if n == 3 { "POISON".to_owned() } else { format!("m{n}") };
        ids.push(play.world.say(husam, lab, &text).await.unwrap());
    }
    play.world.quiet().await.unwrap();
    for (n, id) in ids.iter().enumerate() {
        match (n, state(&play, ada, *id).await) {
            (3, EventState::Dead { reason }) => assert_eq!(reason, "failed 5 times, the last ones alone"),
            (_, state) => {
                assert!(n != 3 && matches!(state, EventState::Processed { .. }), "event {n} is {state:?}")
            }
        }
    }
    let page = PageRequest { cursor: None, limit: 10 };
    let dead = play.world.reader().inbox(ada, Some("dead".into()), page).await.unwrap().items;
    assert_eq!(dead[0].attempts, 5);
    let runs = play.world.runs(ada).await.unwrap();
    assert!(runs.iter().all(|run| run.ending == Ending::Completed && run.events == 1), "{runs:?}");
    play.world.say(husam, lab, "after it").await.unwrap();
    play.world.quiet().await.unwrap();
    assert_eq!(play.world.runs(ada).await.unwrap().len(), 6);
}

#[tokio::test]
async fn a_cycle_that_panics_in_its_middle_is_broken_off_after_its_attempts() {
    let play = Play::with(
        Scripted::answering(|prompt| match step(prompt) {
            0 => Script::new().call("look", &json!({})),
            _ if everything(prompt).contains("next") => done(),
            _ => panics(),
        }),
        |store| store,
    );
    let (husam, ada, lab) = one_agent(&play).await;
    play.world.say(husam, lab, "begin").await.unwrap();
    play.world.quiet().await.unwrap();
    let runs = play.world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.ending).collect::<Vec<_>>(), [Ending::Failed]);
    assert!(runs[0].reason.as_ref().is_some_and(|reason| reason.contains("failed 5 times")), "{runs:?}");
    play.world.say(husam, lab, "next").await.unwrap();
    play.world.quiet().await.unwrap();
    assert_eq!(play.world.runs(ada).await.unwrap()[1].ending, Ending::Completed);
}

/// A cycle of one question that is shown, at its second step, that POISON waits.
async fn glimpsed(fails: impl Fn() -> Script + Send + Sync + 'static) -> (Play, AgentId, SpaceId) {
    let play = Play::new(move |prompt| {
        let seen = prompt.items.iter().any(|item| format!("{item:?}").contains("POISON"));
        match step(prompt) {
            _ if seen => fails(),
            0 => Script::new().call("slow", &json!({})).native("w", "m", "{}"),
            1 => Script::new().call("send_message", &send("lab", "answered")),
            _ => done(),
        }
    });
    let (husam, ada, lab) = one_agent(&play).await;
    play.world.say(husam, lab, "a question").await.unwrap();
    play.world.pass(2 * SECOND).await.unwrap();
    play.world.service(ada, "poison", "bell", json!({"n": "POISON"})).await.unwrap();
    play.gate.open();
    (play, ada, lab)
}

/// The question is answered in one cycle, and the poison died alone.
async fn only_the_poison_died(play: &Play, ada: AgentId, lab: SpaceId) {
    play.world.quiet().await.unwrap();
    assert_eq!(play.world.state(ada, "poison").await.unwrap().as_str(), "dead");
    let heard = play.world.heard(lab).await.unwrap();
    assert_eq!(heard.iter().filter(|(_, said)| said == "answered").count(), 1, "{heard:?}");
    let runs = play.world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.ending).collect::<Vec<_>>(), [Ending::Completed], "{runs:?}");
}

#[tokio::test]
async fn a_cycle_that_fails_at_a_glimpse_of_what_waits_goes_on_without_it() {
    for error in [ModelError::Garbage("an empty reply".into()), ModelError::Invalid("400".into())] {
        let (play, ada, lab) = glimpsed(move || Script::fails(error.clone())).await;
        only_the_poison_died(&play, ada, lab).await;
    }
}

#[tokio::test]
async fn a_cycle_that_panics_at_a_glimpse_of_what_waits_goes_on_without_it() {
    let (play, ada, lab) = glimpsed(panics).await;
    only_the_poison_died(&play, ada, lab).await;
}

#[tokio::test]
async fn a_cycle_that_kills_the_process_at_a_glimpse_of_what_waits_goes_on_without_it() {
    let (store, fell) = (Arc::<OnceLock<Arc<Mutex<Sqlite>>>>::default(), Arc::<AtomicBool>::default());
    let (cut, falls) = (Arc::clone(&store), Arc::clone(&fell));
    let (mut play, ada, lab) = glimpsed(move || {
        cut_off(cut.get().unwrap());
        falls.store(true, Ordering::SeqCst);
        Script::new().hang()
    })
    .await;
    assert!(store.set(Arc::clone(&play.sqlite)).is_ok());
    let mut restarts = 0;
    for _ in 0..600 {
        play.world.pass(SECOND).await.unwrap();
        if fell.swap(false, Ordering::SeqCst) {
            play.dies();
            restarts += 1;
            assert!(restarts <= 21, "it still kills");
        }
    }
    only_the_poison_died(&play, ada, lab).await;
}
