//! A provider that fails for everybody, and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::config::AgentConfig;
use agent::life::IdleReason;
use agent::port::{ModelError, ModelInfo, PageRequest, ReasoningReplay};
use agent::run::Ending;
use models::scripted::{Script, Scripted};
use serde_json::json;

use crate::play::{Play, answer, done, step};

const HOUR: Duration = Duration::from_secs(3_600);

fn waiting() -> PageRequest {
    PageRequest { cursor: None, limit: agent::limits::PAGE_MAX }
}

/// So many agents, each alone with one person, are spoken to when the provider is gone. Returns how
/// often it was asked within the hour.
async fn an_hour(agents: usize) -> usize {
    let down = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&down);
    let play = Play::new(move |prompt| match step(prompt) {
        _ if seen.load(Ordering::SeqCst) => Script::fails(ModelError::Network("refused".into())),
        0 => Script::new().call("send_message", &json!({"text": "back"})),
        _ => done(),
    });
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let mut all = Vec::new();
    for n in 0..agents {
        let ada = world.agent(&format!("ada-{n}"), AgentConfig::default()).await.unwrap();
        let room = world.space(&format!("room-{n}"), &[husam, ada.entity()]).await.unwrap();
        world.say(husam, room, "hello").await.unwrap();
        all.push((ada, room));
    }
    world.pass(HOUR / 2).await.unwrap();
    for (ada, room) in &all {
        world.say(husam, *room, "are you there?").await.unwrap();
        let card = world.reader().agent(*ada).await.unwrap().unwrap();
        assert_eq!(card.idle_reason, Some(IdleReason::Provider), "durably, and visibly");
        assert!(card.open.is_none() && card.waiting == 2);
    }
    world.pass(HOUR / 2).await.unwrap();
    for (ada, _) in &all {
        let inbox = world.reader().inbox(*ada, None, waiting()).await.unwrap().items;
        assert!(inbox.iter().all(|row| row.attempts == 0), "no attempt is counted");
    }
    let within = play.model.prompts().len();
    down.store(false, Ordering::SeqCst);
    world
        .pass(Duration::from_millis(agent::limits::PARK_MAX_MS + 2 * agent::limits::BREAKER_SPREAD_MAX_MS))
        .await
        .unwrap();
    for (ada, room) in &all {
        let runs = world.runs(*ada).await.unwrap();
        let lived: Vec<_> = runs.iter().map(|run| (run.events, run.ending)).collect();
        assert_eq!(lived, [(2, Ending::Completed)], "one cycle answers everything");
        assert_eq!(world.heard(*room).await.unwrap().len(), 3);
    }
    let totals = world.reader().totals().await.unwrap();
    assert_eq!((totals.dead, totals.waiting), (0, 0));
    within
}

#[tokio::test]
async fn one_agent_asks_now_and_then_whether_its_provider_is_back() {
    let asked = an_hour(1).await;
    assert!((10..=30).contains(&asked), "{asked} requests");
}

#[tokio::test]
async fn of_fifty_agents_one_asks_for_all() {
    let asked = an_hour(50).await;
    assert!((10..=80).contains(&asked), "{asked} requests: each at most once, and then one for all");
}

#[tokio::test]
async fn a_fallback_behind_another_key_is_asked_meanwhile() {
    let info = |name: &str| ModelInfo {
        name: name.into(),
        provider: name.into(),
        context_window: 100_000,
        max_output: 1_000,
        reasoning_replay: ReasoningReplay::None,
        forced_tool_choice: false,
        price: None,
        demo: false,
    };
    let down = ModelError::Network("refused".into());
    let own = Scripted::answering(move |_| Script::fails(down.clone())).with_info(info("own"));
    let other = Scripted::answering(|prompt| answer(prompt, "lobby", "here")).with_info(info("other"));
    let (own, other) = (Arc::new(own), Arc::new(other));
    let models = crate::play::Two(Arc::clone(&own), Arc::clone(&other));
    let (world, ..) = crate::play::ground(Arc::new(models), |store| store, agent::call::Effect::ReadOnly);
    let husam = world.human("husam").await.unwrap();
    let config = AgentConfig { fallback: vec!["other".into()], ..AgentConfig::default() };
    let ada = world.agent("ada", config).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    for n in 0..5 {
        world.say(husam, lobby, &format!("m{n}")).await.unwrap();
        world.quiet().await.unwrap();
    }
    let runs = world.runs(ada).await.unwrap();
    assert_eq!(runs.len(), 5);
    let by = runs.iter().flat_map(|run| &run.steps).map(|step| step.model.as_deref());
    assert!(by.clone().all(|model| model == Some("other")), "{:?}", by.collect::<Vec<_>>());
    assert!(own.prompts().len() <= 4 + 5, "{} requests to the one that fails", own.prompts().len());
}

#[tokio::test]
async fn an_operator_who_resumes_an_agent_has_it_ask_at_once_however_long_the_provider_wants_to_be_left_alone()
 {
    let down = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&down);
    let play = Play::new(move |prompt| {
        let retry_after = Some(Duration::from_secs(100_000_000));
        match seen.load(Ordering::SeqCst) {
            true => Script::fails(ModelError::RateLimited { message: "come back".into(), retry_after }),
            false => answer(prompt, "lobby", "back"),
        }
    });
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hello").await.unwrap();
    world.pass(Duration::from_secs(10)).await.unwrap();
    let resume = async || {
        world.registry().set_standing(ada, agent::life::Standing::Active, play.now()).await.unwrap();
        world.node().unwrap().resume(ada);
        world.pass(Duration::from_secs(5)).await.unwrap();
    };
    assert_eq!(play.model.prompts().len(), 1);
    resume().await;
    assert_eq!(play.model.prompts().len(), 2, "it asked, and is told again to wait");
    assert!(world.reader().agent(ada).await.unwrap().unwrap().idle_reason.is_some());
    down.store(false, Ordering::SeqCst);
    resume().await;
    assert_eq!(world.heard(lobby).await.unwrap().len(), 2, "it is answered");
}

#[tokio::test]
async fn the_space_that_waits_is_told_that_its_agent_cannot_think() {
    use agent::port::Delivered;
    use agent::update::{AgentState, Topic, Update};
    use futures_util::FutureExt as _;
    let play = Play::new(|_| Script::fails(ModelError::Network("refused".into())));
    let world = &play.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let mut listener = world.ports().live.bus().subscribe(Topic::Space(lobby));
    world.say(husam, lobby, "hello").await.unwrap();
    world.pass(Duration::from_secs(60)).await.unwrap();
    let mut told = Vec::new();
    while let Some(Some(Delivered::Update(update))) = listener.next().now_or_never() {
        if let Update::State { state, rest: Some(rest), reason, .. } = &**update {
            assert_eq!((*state, rest.reason), (AgentState::Sleeping, IdleReason::Provider));
            assert!(reason.as_ref().is_some_and(|reason| reason.contains("refused")));
            told.push(rest.until);
        }
    }
    assert!(told.len() >= 3 && told.is_sorted(), "{told:?}");
    let resting = world.reader().resting(lobby, play.now()).await.unwrap();
    assert_eq!(resting.iter().map(|(agent, _)| *agent).collect::<Vec<_>>(), [ada]);
    // Whoever looks later is told why in words, of this rest and no other.
    let (live, until) = (&world.ports().live, resting[0].1.until);
    assert!(live.why(ada, until).is_some_and(|why| why.contains("refused")));
    assert_eq!(live.why(ada, told[0]), None);
}
