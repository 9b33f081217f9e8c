//! Processes that die and activations that panic, over and over: innocent events are answered in the end, and only the
//! event that causes it dies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use agent::config::AgentConfig;
use agent::event::EventState;
use agent::id::{AgentId, EntityId, MessageId, SpaceId};
use agent::port::{InboxFilter, ModelError, PageRequest};
use agent::run::Ending;
use models::scripted::{Script, Scripted};
use serde_json::json;
use storage::sqlite::Sqlite;

use crate::fixture::{Fixture, answer, cut_off, done, everything, inbox, send, step};
use crate::store_wrapper::{Intercept, WakeRead, Wrapped};

const SECOND: Duration = Duration::from_secs(1);

async fn one_agent(fixture: &Fixture) -> (EntityId, AgentId, SpaceId) {
    let husam = fixture.world.human("husam").await.unwrap();
    // Messages within a second are taken together.
    let config = AgentConfig { debounce: 1_000, ..AgentConfig::default() };
    let ada = fixture.world.agent("ada", config).await.unwrap();
    (husam, ada, fixture.world.space("lab", &[husam, ada.entity()]).await.unwrap())
}

async fn state(fixture: &Fixture, agent: AgentId, message: MessageId) -> EventState {
    fixture.world.state(agent, &message.to_string()).await.unwrap()
}

#[tokio::test]
async fn an_innocent_event_survives_thirty_process_deaths_and_is_answered() {
    let mut fixture = Fixture::timed(|prompt, clock| {
        let thinking = Script::new().pause(clock, Duration::from_secs(60));
        match step(prompt) {
            0 => thinking.call("look", &json!({})),
            1 => thinking.call("send_message", &send("lab", "at last")),
            _ => done(),
        }
    });
    let (husam, ada, lab) = one_agent(&fixture).await;
    let question = fixture.world.say(husam, lab, "a question").await.unwrap();
    let dying = async |fixture: &mut Fixture, deaths: usize| {
        let requests = fixture.model.prompts().len();
        for death in 1..=deaths {
            fixture.world.pass(30 * SECOND).await.unwrap();
            // After a death, the request is built once before it is sent.
            let more = fixture.model.prompts().len() - requests;
            assert!((death - 1..=2 * death).contains(&more), "{more} requests in {death} processes");
            fixture.dies();
        }
    };
    dying(&mut fixture, 30).await;
    assert_eq!(state(&fixture, ada, question).await, EventState::Waiting);
    fixture.world.pass(70 * SECOND).await.unwrap();
    assert!(
        matches!(state(&fixture, ada, question).await, EventState::Processed { .. }),
        "its first step is decided"
    );
    dying(&mut fixture, 30).await;
    fixture.world.quiet().await.unwrap();
    assert_eq!(fixture.world.posted_texts(lab).await.unwrap().len(), 2);
    let runs = fixture.world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.ending).collect::<Vec<_>>(), [Ending::Completed]);
}

#[tokio::test]
async fn an_agent_that_backs_off_while_the_process_dies_thirty_times_is_not_blamed() {
    let down = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&down);
    let mut fixture = Fixture::new(move |prompt| match step(prompt) {
        0 => Script::new().call("slow", &json!({})),
        _ if seen.load(Ordering::SeqCst) => Script::fails(ModelError::Network("refused".into())),
        1 => Script::new().call("send_message", &send("lab", "at last")),
        _ => done(),
    });
    let (husam, ada, lab) = one_agent(&fixture).await;
    fixture.world.say(husam, lab, "a question").await.unwrap();
    fixture.world.pass(5 * SECOND).await.unwrap();
    down.store(true, Ordering::SeqCst);
    fixture.gate.open();
    for _ in 0..30 {
        fixture.world.pass(30 * SECOND).await.unwrap();
        let card = fixture.world.reader().agent(ada).await.unwrap().unwrap();
        assert!(card.open.is_some() && card.not_before.is_some(), "it backs off with an open cycle");
        fixture.dies();
    }
    down.store(false, Ordering::SeqCst);
    fixture.world.quiet().await.unwrap();
    assert_eq!(fixture.world.posted_texts(lab).await.unwrap().len(), 2);
    assert_eq!(fixture.world.runs(ada).await.unwrap()[0].ending, Ending::Completed);
}

#[tokio::test]
async fn an_event_that_kills_the_process_is_dead_within_twenty_restarts_and_all_others_are_answered() {
    let (store, fell) = (Arc::<OnceLock<Arc<Mutex<Sqlite>>>>::default(), Arc::<AtomicBool>::default());
    let (cut, falls) = (Arc::clone(&store), Arc::clone(&fell));
    let mut fixture = Fixture::new(move |prompt| {
        if inbox(prompt).contains("DEADLY") {
            // The process dies before the request is sent.
            cut_off(cut.get().unwrap());
            falls.store(true, Ordering::SeqCst);
            return Script::new().hang();
        }
        answer(prompt, "lab", &format!("heard in {}", prompt.cycle))
    });
    assert!(store.set(Arc::clone(&fixture.sqlite)).is_ok());
    let (husam, ada, lab) = one_agent(&fixture).await;
    let bob = fixture.world.agent("bob", AgentConfig::default()).await.unwrap();
    let mut ids = Vec::new();
    for n in 0..12 {
        let text = if n == 7 { "DEADLY".to_owned() } else { format!("m{n}") };
        ids.push(fixture.world.say(husam, lab, &text).await.unwrap());
    }
    fixture.world.service(bob, "bell", "bell", json!({})).await.unwrap();
    let mut restarts = 0;
    for _ in 0..600 {
        fixture.world.pass(SECOND).await.unwrap();
        if fell.swap(false, Ordering::SeqCst) {
            fixture.dies();
            restarts += 1;
            assert!(restarts <= 20, "it still kills");
        }
    }
    fixture.world.quiet().await.unwrap();
    for (n, id) in ids.into_iter().enumerate() {
        match (n, state(&fixture, ada, id).await) {
            (7, EventState::Dead { reason }) => assert!(reason.contains("the process died"), "{reason}"),
            (7, other) => panic!("the deadly event is {other:?}"),
            (_, state) => assert!(matches!(state, EventState::Processed { .. }), "event {n} is {state:?}"),
        }
    }
    assert_eq!(restarts, 20, "it had all its attempts");
    assert_eq!(fixture.world.state(bob, "bell").await.unwrap().as_str(), "processed");
}

#[tokio::test]
async fn an_event_whose_reply_kills_the_process_is_tried_alone_and_all_others_are_answered() {
    let fell = Arc::<AtomicBool>::default();
    let falls = Arc::clone(&fell);
    let mut fixture = Fixture::new(move |prompt| {
        if inbox(prompt).contains("DEADLY") {
            // The request is sent; its reply kills the process.
            falls.store(true, Ordering::SeqCst);
            return Script::new().hang();
        }
        answer(prompt, "lab", &format!("heard in {}", prompt.cycle))
    });
    let (husam, ada, lab) = one_agent(&fixture).await;
    let mut ids = Vec::new();
    for n in 0..12 {
        let text = if n == 7 { "DEADLY".to_owned() } else { format!("m{n}") };
        ids.push(fixture.world.say(husam, lab, &text).await.unwrap());
    }
    for _ in 0..240 {
        fixture.world.pass(SECOND).await.unwrap();
        if fell.swap(false, Ordering::SeqCst) {
            fixture.dies();
        }
    }
    for (n, id) in ids.into_iter().enumerate() {
        let state = state(&fixture, ada, id).await;
        // Earlier messages are answered; it waits, and so do the same person's later ones.
        assert!(
            if n < 7 { matches!(state, EventState::Processed { .. }) } else { state == EventState::Waiting },
            "{n}: {state:?}"
        );
    }
}

/// Panics while the request is built.
fn panics() -> Script {
    panic!("on purpose")
}

#[tokio::test]
async fn an_event_that_panics_is_dead_after_its_attempts_alone_and_all_others_are_answered() {
    let fixture = Fixture::new(|prompt| match inbox(prompt).contains("POISON") {
        true => panics(),
        false => answer(prompt, "lab", &format!("heard in {}", prompt.cycle)),
    });
    let (husam, ada, lab) = one_agent(&fixture).await;
    let mut ids = Vec::new();
    for n in 0..6 {
        let text = if n == 3 { "POISON".to_owned() } else { format!("m{n}") };
        ids.push(fixture.world.say(husam, lab, &text).await.unwrap());
    }
    fixture.world.quiet().await.unwrap();
    for (n, id) in ids.iter().enumerate() {
        match (n, state(&fixture, ada, *id).await) {
            (3, EventState::Dead { reason }) => assert_eq!(reason, "failed 5 times, the last ones alone"),
            (_, state) => {
                assert!(n != 3 && matches!(state, EventState::Processed { .. }), "event {n} is {state:?}")
            }
        }
    }
    let page = PageRequest { cursor: None, limit: 10 };
    let dead = fixture.world.reader().inbox(ada, InboxFilter::in_state("dead"), page).await.unwrap().items;
    assert_eq!(dead[0].attempts, 5);
    let runs = fixture.world.runs(ada).await.unwrap();
    assert!(runs.iter().all(|run| run.ending == Ending::Completed && run.events == 1), "{runs:?}");
    fixture.world.say(husam, lab, "after it").await.unwrap();
    fixture.world.quiet().await.unwrap();
    assert_eq!(fixture.world.runs(ada).await.unwrap().len(), 6);
}

/// How an event failed so far: its attempts and its state, by the API.
async fn tried(fixture: &Fixture, agent: AgentId, message: MessageId) -> (u32, &'static str) {
    let page = PageRequest { cursor: None, limit: 10 };
    let rows = fixture.world.reader().inbox(agent, InboxFilter::default(), page).await.unwrap().items;
    let row = rows.into_iter().find(|row| row.event.id.0 == message.to_string()).unwrap();
    (row.attempts, row.state.as_str())
}

#[tokio::test]
async fn a_panic_counts_once_whichever_process_opens_the_cycle_next() {
    let panics_now = Arc::<AtomicBool>::default();
    let panicked = Arc::clone(&panics_now);
    let mut fixture = Fixture::new(move |prompt| {
        if inbox(prompt).contains("POISON") {
            panicked.store(true, Ordering::SeqCst);
            panics();
        }
        answer(prompt, "lab", "heard")
    });
    let (husam, ada, lab) = one_agent(&fixture).await;
    let poison = fixture.world.say(husam, lab, "POISON").await.unwrap();
    for attempt in 1..=5 {
        for _ in 0..600 {
            if panics_now.swap(false, Ordering::SeqCst) {
                break;
            }
            fixture.world.pass(Duration::from_millis(100)).await.unwrap();
        }
        assert!(tried(&fixture, ada, poison).await <= (attempt, "waiting"), "attempt {attempt}");
        fixture.dies();
    }
    fixture.world.quiet().await.unwrap();
    assert_eq!(tried(&fixture, ada, poison).await, (5, "dead"), "each panic counted once, and no death");
    let EventState::Dead { reason } = state(&fixture, ada, poison).await else { panic!("it is dead") };
    assert_eq!(reason, "failed 5 times, the last ones alone");
    fixture.world.say(husam, lab, "after it").await.unwrap();
    fixture.world.quiet().await.unwrap();
    assert_eq!(fixture.world.runs(ada).await.unwrap().last().unwrap().ending, Ending::Completed);
}

/// Panics when an agent is read for work, before anything of it is opened.
#[derive(Clone, Default)]
struct AtTheWake(Arc<Mutex<Option<AgentId>>>, Arc<AtomicBool>);

impl Intercept for AtTheWake {
    fn wake<'a>(&'a self, agent: AgentId, read: WakeRead<'a>) -> WakeRead<'a> {
        if *self.0.lock().unwrap() != Some(agent) {
            return read;
        }
        self.1.store(true, Ordering::SeqCst);
        Box::pin(async { panic!("on purpose") })
    }
}

#[tokio::test]
async fn a_panic_before_the_opening_counts_for_what_waited_then_whichever_process_opens_next() {
    for dies in [false, true] {
        let by = AtTheWake::default();
        let wrapped = by.clone();
        let model = Scripted::answering(|_| Script::new().hang());
        let mut fixture =
            Fixture::with(model, move |inner| Arc::new(Wrapped { inner, by: wrapped.clone() }) as Arc<_>);
        let (husam, ada, lab) = one_agent(&fixture).await;
        *by.0.lock().unwrap() = Some(ada);
        let first = fixture.world.say(husam, lab, "first").await.unwrap();
        while !by.1.load(Ordering::SeqCst) {
            fixture.world.pass(Duration::from_millis(100)).await.unwrap();
        }
        let later = fixture.world.say(husam, lab, "later").await.unwrap();
        *by.0.lock().unwrap() = None;
        if dies {
            fixture.dies();
        }
        fixture.world.pass(5 * SECOND).await.unwrap();
        assert_eq!(tried(&fixture, ada, first).await, (1, "waiting"), "dies: {dies}");
        assert_eq!(tried(&fixture, ada, later).await, (0, "waiting"), "dies: {dies}");
    }
}

#[tokio::test]
async fn a_cycle_that_panics_in_its_middle_is_broken_off_whatever_dies_in_between() {
    let panics_now = Arc::<AtomicBool>::default();
    let panicked = Arc::clone(&panics_now);
    let mut fixture = Fixture::new(move |prompt| {
        if step(prompt) == 0 {
            return Script::new().call("look", &json!({}));
        }
        panicked.store(true, Ordering::SeqCst);
        panics()
    });
    let (husam, ada, lab) = one_agent(&fixture).await;
    fixture.world.say(husam, lab, "begin").await.unwrap();
    for _ in 0..5 {
        for _ in 0..600 {
            if panics_now.swap(false, Ordering::SeqCst) {
                break;
            }
            fixture.world.pass(Duration::from_millis(100)).await.unwrap();
        }
        fixture.dies();
    }
    fixture.world.quiet().await.unwrap();
    let runs = fixture.world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.ending).collect::<Vec<_>>(), [Ending::Failed]);
    assert!(runs[0].reason.as_ref().is_some_and(|reason| reason.contains("failed 5 times")), "{runs:?}");
}

#[tokio::test]
async fn a_cycle_that_panics_in_its_middle_is_broken_off_after_its_attempts() {
    let fixture = Fixture::with(
        Scripted::answering(|prompt| match step(prompt) {
            0 => Script::new().call("look", &json!({})),
            _ if everything(prompt).contains("next") => done(),
            _ => panics(),
        }),
        |store| store,
    );
    let (husam, ada, lab) = one_agent(&fixture).await;
    fixture.world.say(husam, lab, "begin").await.unwrap();
    fixture.world.quiet().await.unwrap();
    let runs = fixture.world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.ending).collect::<Vec<_>>(), [Ending::Failed]);
    assert!(runs[0].reason.as_ref().is_some_and(|reason| reason.contains("failed 5 times")), "{runs:?}");
    fixture.world.say(husam, lab, "next").await.unwrap();
    fixture.world.quiet().await.unwrap();
    assert_eq!(fixture.world.runs(ada).await.unwrap()[1].ending, Ending::Completed);
}

/// A cycle of one question whose second step previews the waiting event POISON.
async fn previewed(fails: impl Fn() -> Script + Send + Sync + 'static) -> (Fixture, AgentId, SpaceId) {
    let fixture = Fixture::new(move |prompt| {
        let seen = prompt.items.iter().any(|item| format!("{item:?}").contains("POISON"));
        match step(prompt) {
            _ if seen => fails(),
            0 => Script::new().call("slow", &json!({})).native("w", "m", "{}"),
            1 => Script::new().call("send_message", &send("lab", "answered")),
            _ => done(),
        }
    });
    let (husam, ada, lab) = one_agent(&fixture).await;
    fixture.world.say(husam, lab, "a question").await.unwrap();
    fixture.world.pass(2 * SECOND).await.unwrap();
    fixture.world.service(ada, "poison", "bell", json!({"n": "POISON"})).await.unwrap();
    fixture.gate.open();
    (fixture, ada, lab)
}

/// The question was answered in one cycle, and only the poisonous event died.
async fn only_the_poison_died(fixture: &Fixture, ada: AgentId, lab: SpaceId) {
    fixture.world.quiet().await.unwrap();
    assert_eq!(fixture.world.state(ada, "poison").await.unwrap().as_str(), "dead");
    let messages = fixture.world.posted_texts(lab).await.unwrap();
    assert_eq!(messages.iter().filter(|(_, said)| said == "answered").count(), 1, "{messages:?}");
    let runs = fixture.world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.ending).collect::<Vec<_>>(), [Ending::Completed], "{runs:?}");
}

#[tokio::test]
async fn a_cycle_that_fails_at_a_preview_of_a_waiting_event_continues_without_it() {
    for error in [ModelError::Garbage("an empty reply".into()), ModelError::Invalid("400".into())] {
        let (fixture, ada, lab) = previewed(move || Script::fails(error.clone())).await;
        only_the_poison_died(&fixture, ada, lab).await;
    }
}

#[tokio::test]
async fn a_cycle_that_panics_at_a_preview_of_a_waiting_event_continues_without_it() {
    let (fixture, ada, lab) = previewed(panics).await;
    only_the_poison_died(&fixture, ada, lab).await;
}

#[tokio::test]
async fn a_cycle_that_kills_the_process_at_a_preview_of_a_waiting_event_continues_without_it() {
    let (store, fell) = (Arc::<OnceLock<Arc<Mutex<Sqlite>>>>::default(), Arc::<AtomicBool>::default());
    let (cut, falls) = (Arc::clone(&store), Arc::clone(&fell));
    let (mut fixture, ada, lab) = previewed(move || {
        cut_off(cut.get().unwrap());
        falls.store(true, Ordering::SeqCst);
        Script::new().hang()
    })
    .await;
    assert!(store.set(Arc::clone(&fixture.sqlite)).is_ok());
    let mut restarts = 0;
    for _ in 0..600 {
        fixture.world.pass(SECOND).await.unwrap();
        if fell.swap(false, Ordering::SeqCst) {
            fixture.dies();
            restarts += 1;
            assert!(restarts <= 21, "it still kills");
        }
    }
    only_the_poison_died(&fixture, ada, lab).await;
}
