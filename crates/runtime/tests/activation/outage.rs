//! A provider that fails for all agents, and recovers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::config::AgentConfig;
use agent::life::IdleReason;
use agent::port::{InboxFilter, ModelError, ModelInfo, PageRequest, ReasoningReplay};
use agent::run::Ending;
use models::scripted::{Script, Scripted};
use serde_json::json;

use crate::fixture::{Fixture, answer, done, step};

const HOUR: Duration = Duration::from_secs(3_600);

fn waiting() -> PageRequest {
    PageRequest { cursor: None, limit: agent::limits::PAGE_MAX }
}

fn refused() -> ModelError {
    ModelError::Network("refused".into())
}

/// That many agents, each alone with one person, get messages while the provider is down for an hour. Returns the
/// number of requests in that hour.
async fn an_hour(agents: usize, error: ModelError) -> usize {
    let down = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&down);
    let fixture = Fixture::new(move |prompt| match step(prompt) {
        _ if seen.load(Ordering::SeqCst) => Script::fails(error.clone()),
        0 => Script::new().call("send_message", &json!({"text": "back"})),
        _ => done(),
    });
    let world = &fixture.world;
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
        assert_eq!(card.idle_reason, Some(IdleReason::Provider), "backing off is durable and visible");
        assert!(card.open.is_none() && card.waiting == 2);
    }
    world.pass(HOUR / 2).await.unwrap();
    for (ada, _) in &all {
        let inbox = world.reader().inbox(*ada, InboxFilter::default(), waiting()).await.unwrap().items;
        assert!(inbox.iter().all(|row| row.attempts == 0), "no attempt is counted");
    }
    let within = fixture.model.prompts().len();
    down.store(false, Ordering::SeqCst);
    world
        .pass(Duration::from_millis(agent::limits::PARK_MAX_MS + 2 * agent::limits::BREAKER_SPREAD_MAX_MS))
        .await
        .unwrap();
    for (ada, room) in &all {
        let runs = world.runs(*ada).await.unwrap();
        let ended: Vec<_> = runs.iter().map(|run| (run.events, run.ending)).collect();
        assert_eq!(ended, [(2, Ending::Completed)], "one cycle answers everything");
        assert_eq!(world.posted_texts(*room).await.unwrap().len(), 3);
    }
    let totals = world.reader().totals().await.unwrap();
    assert_eq!((totals.dead, totals.waiting), (0, 0));
    within
}

#[tokio::test]
async fn one_agent_probes_at_intervals_whether_its_provider_is_back() {
    let requests = an_hour(1, refused()).await;
    assert!((10..=30).contains(&requests), "{requests} requests");
}

#[tokio::test]
async fn of_fifty_agents_one_probes_for_all() {
    let requests = an_hour(50, refused()).await;
    assert!((10..=80).contains(&requests), "{requests} requests: each agent at most one, then one for all");
}

#[tokio::test]
async fn a_provider_that_says_at_once_is_asked_ever_less_often_all_the_same() {
    let (message, retry_after) = (String::from("429"), Some(Duration::ZERO));
    for error in [
        ModelError::RateLimited { message: message.clone(), retry_after },
        ModelError::Overloaded { message: message.clone(), retry_after: Some(Duration::from_millis(1)) },
        ModelError::Failed { message, retry_after },
    ] {
        let requests = an_hour(1, error.clone()).await;
        assert!(requests <= 500, "{requests} requests of one agent: {error}");
        if !matches!(error, ModelError::Failed { .. }) {
            let requests = an_hour(5, error.clone()).await;
            assert!(requests <= 250, "{requests} requests of five agents: {error}");
        }
    }
}

#[tokio::test]
async fn a_fallback_is_called_within_two_seconds() {
    let info = |name: &str| ModelInfo { provider: name.into(), ..ModelInfo::default() };
    for error in
        [refused(), ModelError::Cut("cut".into()), ModelError::TimedOut(agent::port::TimeoutKind::Connect)]
    {
        let own = Scripted::answering(move |_| Script::fails(error.clone())).with_info(info("own"));
        let other = Scripted::answering(|prompt| answer(prompt, "lobby", "here")).with_info(info("other"));
        let models = crate::fixture::two(&Arc::new(own), &Arc::new(other));
        let (world, ..) = crate::fixture::world_with(models, |store| store, agent::call::Effect::ReadOnly);
        let husam = world.human("husam").await.unwrap();
        let config = AgentConfig { fallback: vec!["other".into()], ..AgentConfig::default() };
        let ada = world.agent("ada", config).await.unwrap();
        let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
        world.say(husam, lobby, "hello").await.unwrap();
        world.pass(Duration::from_secs(2)).await.unwrap();
        assert_eq!(world.posted_texts(lobby).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_fallback_of_another_provider_is_used_meanwhile() {
    let info = |name: &str| ModelInfo {
        name: name.into(),
        provider: name.into(),
        context_window: 100_000,
        max_output: 1_000,
        reasoning_replay: ReasoningReplay::None,
        ..ModelInfo::default()
    };
    let down = ModelError::Network("refused".into());
    let own = Scripted::answering(move |_| Script::fails(down.clone())).with_info(info("own"));
    let other = Scripted::answering(|prompt| answer(prompt, "lobby", "here")).with_info(info("other"));
    let (own, other) = (Arc::new(own), Arc::new(other));
    let models = crate::fixture::two(&own, &other);
    let (world, ..) = crate::fixture::world_with(models, |store| store, agent::call::Effect::ReadOnly);
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
    assert!(own.prompts().len() <= 4 + 5, "{} requests to the failing provider", own.prompts().len());
}

#[tokio::test]
async fn an_agent_that_an_operator_resumes_sends_at_once_however_long_the_retry_after() {
    let down = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&down);
    let fixture = Fixture::new(move |prompt| {
        let retry_after = Some(Duration::from_secs(100_000_000));
        match seen.load(Ordering::SeqCst) {
            true => Script::fails(ModelError::RateLimited { message: "come back".into(), retry_after }),
            false => answer(prompt, "lobby", "back"),
        }
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "hello").await.unwrap();
    world.pass(Duration::from_secs(10)).await.unwrap();
    let resume = async || {
        world.registry().set_standing(ada, agent::life::Standing::Active, fixture.now()).await.unwrap();
        world.node().unwrap().resume(ada);
        world.pass(Duration::from_secs(5)).await.unwrap();
    };
    assert_eq!(fixture.model.prompts().len(), 1);
    resume().await;
    assert_eq!(fixture.model.prompts().len(), 2, "it sent one request, and must wait again");
    assert!(world.reader().agent(ada).await.unwrap().unwrap().idle_reason.is_some());
    down.store(false, Ordering::SeqCst);
    resume().await;
    assert_eq!(world.posted_texts(lobby).await.unwrap().len(), 2, "it is answered");
}

#[tokio::test]
async fn a_waiting_space_is_notified_that_its_agent_cannot_run() {
    use agent::port::Delivered;
    use agent::update::{AgentState, Topic, Update};
    use futures_util::FutureExt as _;
    let fixture = Fixture::new(|_| Script::fails(ModelError::Network("refused".into())));
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let mut listener = world.ports().live.bus().subscribe(Topic::Space(lobby));
    world.say(husam, lobby, "hello").await.unwrap();
    world.pass(Duration::from_secs(60)).await.unwrap();
    let mut times = Vec::new();
    while let Some(Some(Delivered::Update(update))) = listener.next().now_or_never() {
        if let Update::State { state, idle: Some(idle), reason, .. } = &**update {
            assert_eq!((*state, idle.reason), (AgentState::Sleeping, IdleReason::Provider));
            assert!(reason.as_ref().is_some_and(|reason| reason.contains("refused")));
            times.push(idle.until);
        }
    }
    assert!(times.len() >= 3 && times.is_sorted(), "{times:?}");
    let resting = world.reader().idle_agents(lobby, fixture.now()).await.unwrap();
    assert_eq!(resting.iter().map(|(agent, _)| *agent).collect::<Vec<_>>(), [ada]);
    // The reason can be read later, for this time and no other.
    let (live, until) = (&world.ports().live, resting[0].1.until);
    assert!(live.idle_reason(ada, until).is_some_and(|why| why.contains("refused")));
    assert_eq!(live.idle_reason(ada, times[0]), None);
}
