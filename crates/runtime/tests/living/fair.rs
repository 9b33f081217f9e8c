//! Nobody pays, waits or is kept out for what befalls somebody else: a store that refuses, agents that may
//! have been the death of the process, a provider that says nothing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::call::Effect;
use agent::changes::{Changes, CommitKind};
use agent::config::AgentConfig;
use agent::id::AgentId;
use agent::life::Lease;
use agent::limits;
use agent::port::{Clock, ModelInfo, ReasoningReplay, Store, StoreError};
use models::scripted::{Script, Scripted};
use runtime::waits::Wait;
use scenario::world::World;
use serde_json::json;

use crate::between::{Behind, Between, Committed, Woken};
use crate::play::{Play, Two, done, ground, inbox, step};

const SECOND: Duration = Duration::from_secs(1);

/// What a store refuses.
#[derive(Clone, Copy, Debug)]
enum Refuses {
    Nothing,
    /// Every commit, for want of room.
    All,
    /// Every commit, being busy.
    Busy,
    /// Whatever follows an opening.
    Decisions,
}

/// Refuses what it is told to, from one moment to the next.
#[derive(Clone, Default)]
struct Refusing(Arc<AtomicU8>);

impl Refusing {
    fn refuse(&self, what: Refuses) {
        self.0.store(what as u8, Ordering::SeqCst);
    }
}

impl Between for Refusing {
    fn commit<'a>(&'a self, store: &'a dyn Store, lease: Lease, changes: Changes) -> Committed<'a> {
        const ALL: u8 = Refuses::All as u8;
        const BUSY: u8 = Refuses::Busy as u8;
        const DECISIONS: u8 = Refuses::Decisions as u8;
        let error = match self.0.load(Ordering::SeqCst) {
            ALL => StoreError::Full("no room".into()),
            BUSY => StoreError::Busy("try again".into()),
            DECISIONS if changes.kind != CommitKind::Open => StoreError::Full("no room".into()),
            _ => return store.commit(lease, changes),
        };
        Box::pin(async move { Err(error) })
    }
}

/// What rings for the n-th agent.
fn bell(n: usize) -> String {
    format!("bell-{n:03}")
}

/// Agents that each can be given something to do, and a model that takes a while.
struct CrowdedServer {
    play: Play,
    agents: Vec<AgentId>,
}

impl CrowdedServer {
    async fn of(count: usize, thought: Duration) -> (Self, Refusing) {
        let store = Refusing::default();
        (Self::behind(count, thought, store.clone()).await, store)
    }

    async fn behind(count: usize, thought: Duration, by: impl Between + Clone + 'static) -> Self {
        let time = Arc::new(Mutex::new(None::<Arc<dyn Clock>>));
        let seen = Arc::clone(&time);
        let model = Scripted::answering(move |_| {
            let clock = seen.lock().unwrap().clone().expect("the world has a clock by now");
            Script::new().pause(&clock, thought).call("skip", &json!({}))
        });
        let play = Play::with(model, move |inner| Arc::new(Behind { inner, by: by.clone() }) as Arc<_>);
        *time.lock().unwrap() = Some(Arc::clone(play.world.clock()));
        let mut agents = Vec::new();
        for n in 0..count {
            agents.push(play.world.agent(&format!("agent-{n}"), AgentConfig::default()).await.unwrap());
        }
        Self { play, agents }
    }

    async fn call_all(&self) {
        for (n, agent) in self.agents.iter().enumerate() {
            self.play.world.service(*agent, &bell(n), &bell(n), json!({})).await.unwrap();
        }
    }

    /// What agents that have something to do and are not awake say that they wait for, each once.
    async fn told(&self) -> Vec<&'static str> {
        let live = &self.play.world.ports().live;
        let mut told = BTreeSet::new();
        for agent in self.agents.iter().filter(|agent| live.activity(**agent).is_none()) {
            if self.play.world.reader().agent(*agent).await.unwrap().unwrap().waiting > 0 {
                told.insert(live.waits(*agent).map_or("nothing", |wait| wait.class()));
            }
        }
        told.into_iter().collect()
    }

    async fn waiting(&self) -> u64 {
        self.play.world.reader().totals().await.unwrap().waiting
    }

    /// The most requests that were made for one agent.
    fn most_requests(&self) -> usize {
        let inboxes: Vec<String> = self.play.model.prompts().iter().map(inbox).collect();
        let of = |n: usize| inboxes.iter().filter(|inbox| inbox.contains(&bell(n))).count();
        (0..self.agents.len()).map(of).max().unwrap_or(0)
    }
}

/// A minute in which the store refuses, and what comes after it.
async fn a_minute_of(what: Refuses, requests: usize, served: Duration) {
    let (house, store) = CrowdedServer::of(20, SECOND / 10).await;
    store.refuse(what);
    house.call_all().await;
    house.play.world.pass(30 * SECOND).await.unwrap();
    // Whoever is told something more meanwhile asks no more often for it.
    house.play.world.pass(30 * SECOND).await.unwrap();
    assert_eq!(house.waiting().await, 20, "{what:?}");
    assert_eq!(house.told().await, ["store"], "{what:?}: all say what they wait for");
    store.refuse(Refuses::Nothing);
    house.play.world.pass(served).await.unwrap();
    assert_eq!(house.waiting().await, 0, "{what:?}: all are served");
    let most = house.most_requests();
    assert!(most <= requests, "{what:?}: {most} requests for one agent");
}

#[tokio::test]
async fn a_store_that_refuses_for_a_minute_costs_few_requests_and_all_are_served_soon_after() {
    a_minute_of(Refuses::All, 2, 5 * SECOND).await;
    a_minute_of(Refuses::Busy, 3, 5 * SECOND).await;
}

#[tokio::test]
async fn a_store_that_refuses_only_what_was_thought_costs_ever_fewer_requests() {
    a_minute_of(Refuses::Decisions, 8, 61 * SECOND).await;
}

#[tokio::test]
async fn an_agent_that_was_refused_is_opened_before_it_thinks_again() {
    let (house, store) = CrowdedServer::of(1, SECOND / 10).await;
    store.refuse(Refuses::All);
    house.call_all().await;
    house.play.world.pass(20 * SECOND).await.unwrap();
    assert_eq!(house.play.model.prompts().len(), 1, "one had begun before anybody knew");
    let id = house.agents[0];
    house.play.world.service(id, "again", "bell", json!({})).await.unwrap();
    house.play.world.pass(20 * SECOND).await.unwrap();
    assert_eq!(house.play.model.prompts().len(), 1, "nothing new that comes makes it ask");
    store.refuse(Refuses::Nothing);
    house.play.world.pass(2 * SECOND).await.unwrap();
    assert_eq!((house.waiting().await, house.play.model.prompts().len()), (0, 2));
}

/// Breaks whenever one agent is woken.
#[derive(Clone, Default)]
struct Breaking(Arc<Mutex<(Option<AgentId>, usize)>>);

impl Between for Breaking {
    fn wake<'a>(&'a self, agent: AgentId, read: Woken<'a>) -> Woken<'a> {
        let mut broken = self.0.lock().unwrap();
        if broken.0 == Some(agent) {
            broken.1 += 1;
            drop(broken);
            return Box::pin(async { panic!("on purpose") });
        }
        read
    }
}

#[tokio::test]
async fn an_activation_that_breaks_again_and_again_is_tried_ever_less_often_and_stops_nobody() {
    let breaking = Breaking::default();
    let by = breaking.clone();
    let play = Play::with(Scripted::answering(|_| done()), move |inner| {
        Arc::new(Behind { inner, by: by.clone() }) as Arc<_>
    });
    let world = &play.world;
    let bad = world.agent("bad", AgentConfig::default()).await.unwrap();
    let good = world.agent("good", AgentConfig::default()).await.unwrap();
    breaking.0.lock().unwrap().0 = Some(bad);
    for n in 0..60 {
        world.service(bad, &format!("bad {n}"), "bell", json!({})).await.unwrap();
        world.service(good, &format!("good {n}"), "bell", json!({})).await.unwrap();
        world.pass(SECOND).await.unwrap();
        assert_eq!(world.reader().agent(good).await.unwrap().unwrap().waiting, 0, "second {n}");
    }
    let told = world.ports().live.waits(bad).unwrap();
    assert!(told.class() == "broke" && told.until().is_some_and(|until| until > play.now()), "{told:?}");
    let tried = std::mem::take(&mut *breaking.0.lock().unwrap()).1;
    assert!((4..=6).contains(&tried), "{tried} times in a minute");
    world.node().unwrap().resume(bad);
    world.pass(SECOND).await.unwrap();
    assert_eq!(
        world.reader().agent(bad).await.unwrap().unwrap().waiting,
        0,
        "an operator's word ends the pause"
    );
}

/// Tells of agents that the last process left open that it may have died of them, as a store does after an
/// unclean stop: until their first decision.
#[derive(Clone, Default)]
struct Crashed(Arc<Mutex<BTreeSet<AgentId>>>);

impl Between for Crashed {
    fn wake<'a>(&'a self, agent: AgentId, read: Woken<'a>) -> Woken<'a> {
        let suspect = self.0.lock().unwrap().contains(&agent);
        Box::pin(async move {
            let mut read = read.await?;
            read.iter_mut().filter(|_| suspect).for_each(|activation| activation.clean = false);
            Ok(read)
        })
    }

    fn commit<'a>(&'a self, store: &'a dyn Store, lease: Lease, changes: Changes) -> Committed<'a> {
        if changes.kind != CommitKind::Open {
            self.0.lock().unwrap().remove(&lease.agent);
        }
        store.commit(lease, changes)
    }
}

#[tokio::test]
async fn after_a_crash_whoever_has_nothing_to_do_with_it_is_served_at_once_and_suspects_a_few_at_a_time() {
    const OPEN: usize = limits::REQUESTS_PER_PROVIDER;
    let crashed = Crashed::default();
    let by = crashed.clone();
    let mut house = CrowdedServer::behind(OPEN + 1, 3 * SECOND, by).await;
    let healthy = house.agents.pop().unwrap();
    house.call_all().await;
    house.play.world.pass(SECOND).await.unwrap();
    house.play.world.kill();
    assert_eq!(house.play.world.reader().totals().await.unwrap().open_cycles, OPEN as u64);
    crashed.0.lock().unwrap().extend(&house.agents);
    let before = house.play.model.prompts().len();
    house.play.world.start();
    house.play.world.pass(SECOND).await.unwrap();
    house.play.world.service(healthy, "new", "new", json!({})).await.unwrap();
    house.play.world.pass(2 * SECOND).await.unwrap();
    let asked = house.play.model.prompts().split_off(before);
    assert!(asked.iter().any(|prompt| inbox(prompt).contains("new")), "its model was asked within 2 s");
    let most = 2 * limits::SUSPECTS_AT_ONCE + 1;
    assert!(asked.len() <= most, "a few suspects at a time, beside the one that is none: {}", asked.len());
    assert_eq!(house.told().await, ["crash"]);
    house.play.world.pass(2 * SECOND).await.unwrap();
    assert_eq!(house.play.world.reader().agent(healthy).await.unwrap().unwrap().waiting, 0);
    let turns = u32::try_from(OPEN.div_ceil(limits::SUSPECTS_AT_ONCE)).unwrap();
    house.play.world.pass(SECOND * 8 * turns).await.unwrap();
    assert_eq!(house.waiting().await, 0, "and all of them are served soon");
}

#[tokio::test]
async fn a_suspect_that_an_operator_resumes_goes_before_the_others() {
    const OPEN: usize = 8 * limits::SUSPECTS_AT_ONCE;
    let crashed = Crashed::default();
    let mut house = CrowdedServer::behind(OPEN, 3 * SECOND, crashed.clone()).await;
    house.call_all().await;
    house.play.world.pass(SECOND).await.unwrap();
    house.play.world.kill();
    crashed.0.lock().unwrap().extend(&house.agents);
    let before = house.play.model.prompts().len();
    house.play.world.start();
    house.play.world.pass(SECOND).await.unwrap();
    let last = house.agents.pop().unwrap();
    house.play.world.node().unwrap().resume(last);
    house.play.world.pass(10 * SECOND).await.unwrap();
    assert_eq!(house.play.world.reader().agent(last).await.unwrap().unwrap().waiting, 0, "it was its turn");
    assert!(house.waiting().await > 0, "of the others not all had one");
    let asked = house.play.model.prompts().len() - before;
    assert!(asked < OPEN, "so many at once as before: {asked}");
}

fn info(provider: &str) -> ModelInfo {
    ModelInfo {
        name: format!("{provider}/m"),
        provider: provider.into(),
        context_window: 100_000,
        max_output: 1_000,
        reasoning_replay: ReasoningReplay::None,
        forced_tool_choice: false,
        price: None,
        demo: false,
    }
}

/// A world whose agents think with a model that says nothing any more, and one whose agent thinks with a
/// model of another provider.
struct Silent {
    world: World,
    silent: Arc<Scripted>,
    woken: Arc<Mutex<usize>>,
    agents: Vec<AgentId>,
    healthy: AgentId,
}

/// Counts who is woken.
struct Counting(Arc<Mutex<usize>>);

impl Between for Counting {
    fn wake<'a>(&'a self, _: AgentId, read: Woken<'a>) -> Woken<'a> {
        *self.0.lock().unwrap() += 1;
        read
    }
}

impl Silent {
    async fn of(count: usize, silent: Scripted) -> Self {
        let other = Scripted::answering(|_| done()).with_info(info("other"));
        let (silent, other) = (Arc::new(silent.with_info(info("silent"))), Arc::new(other));
        let models = Two(Arc::clone(&silent), other);
        let woken = Arc::<Mutex<usize>>::default();
        let counted = Arc::clone(&woken);
        let behind = move |inner| Arc::new(Behind { inner, by: Counting(Arc::clone(&counted)) }) as Arc<_>;
        let (world, ..) = ground(Arc::new(models), behind, Effect::ReadOnly);
        let mut agents = Vec::new();
        for n in 0..count {
            agents.push(world.agent(&format!("agent-{n}"), AgentConfig::default()).await.unwrap());
        }
        let config = AgentConfig { model: Some("other".into()), ..AgentConfig::default() };
        let healthy = world.agent("healthy", config).await.unwrap();
        Self { world, silent, woken, agents, healthy }
    }

    async fn call_all(&self, id: &str) {
        for (n, agent) in self.agents.iter().enumerate() {
            self.world.service(*agent, &format!("{id}-{n}"), "bell", json!({})).await.unwrap();
        }
    }

    /// The healthy agent is called, and answers at once.
    async fn healthy_is_served(&self, id: &str) {
        self.world.service(self.healthy, id, "bell", json!({})).await.unwrap();
        self.world.pass(Duration::from_millis(10)).await.unwrap();
        let card = self.world.reader().agent(self.healthy).await.unwrap().unwrap();
        assert_eq!(card.waiting, 0, "{id}");
    }
}

#[tokio::test]
async fn a_provider_that_says_nothing_keeps_nobody_from_another_one() {
    const COUNT: usize = 4 * limits::AWAKE_MAX;
    let silent = Silent::of(COUNT, Scripted::answering(|_| Script::new().hang())).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    silent.call_all("bell").await;
    silent.healthy_is_served("first").await;
    assert_eq!(silent.silent.prompts().len(), limits::REQUESTS_PER_PROVIDER);
    silent.world.pass(60 * SECOND).await.unwrap();
    silent.healthy_is_served("later").await;
    let last = silent.world.ports().live.waits(*silent.agents.last().unwrap());
    assert_eq!(last, Some(Wait::Requests("silent".into(), limits::REQUESTS_PER_PROVIDER)));
    let woken = *silent.woken.lock().unwrap();
    assert!(woken <= COUNT + 20, "{woken} times somebody was woken: whoever stands in line is left alone");
    assert!(tasks() <= limits::REQUESTS_PER_PROVIDER + 20, "{} tasks", tasks());
}

#[tokio::test]
async fn a_provider_that_falls_silent_in_the_middle_of_cycles_keeps_nobody_from_another_one() {
    let speaks = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&speaks);
    let silent = Scripted::answering(move |prompt| match (seen.load(Ordering::SeqCst), step(prompt)) {
        (false, _) => Script::new().hang(),
        (true, 0) => Script::new().call("slow", &json!({})),
        (true, _) => done(),
    });
    let silent = Silent::of(limits::AWAKE_MAX, silent).await;
    silent.call_all("bell").await;
    // All have made their first step, and wait for a tool until it takes too long.
    silent.world.pass(20 * SECOND).await.unwrap();
    assert_eq!(silent.world.reader().totals().await.unwrap().open_cycles, limits::AWAKE_MAX as u64);
    speaks.store(false, Ordering::SeqCst);
    silent.world.pass(20 * SECOND).await.unwrap();
    silent.call_all("again").await;
    silent.healthy_is_served("bell").await;
    speaks.store(true, Ordering::SeqCst);
    silent.world.pass(600 * SECOND).await.unwrap();
    assert_eq!(silent.world.reader().totals().await.unwrap().waiting, 0, "all come to their end");
}

/// Counts the looks for what is due.
struct Looks(Arc<Mutex<usize>>);

impl Between for Looks {
    fn fires(&self) {
        *self.0.lock().unwrap() += 1;
    }
}

#[tokio::test]
async fn many_times_close_together_are_met_by_one_look() {
    let looks = Arc::<Mutex<usize>>::default();
    let counted = Arc::clone(&looks);
    let play = Play::with(Scripted::answering(|_| done()), move |inner| {
        Arc::new(Behind { inner, by: Looks(Arc::clone(&counted)) }) as Arc<_>
    });
    for n in 0..200 {
        let config = AgentConfig { debounce: 1_000 + 2 * n, ..AgentConfig::default() };
        let agent = play.world.agent(&format!("agent-{n}"), config).await.unwrap();
        play.world.service(agent, &format!("bell-{n}"), "bell", json!({})).await.unwrap();
    }
    play.world.pass(3 * SECOND).await.unwrap();
    assert_eq!(play.world.reader().totals().await.unwrap().waiting, 0, "all were served");
    let most = 3_000 / limits::SWEEP_LEAST_MS as usize;
    assert!(*looks.lock().unwrap() <= most, "{} looks in 3 s", looks.lock().unwrap());
}
