//! No agent waits or pays for a failure that does not concern it: a store that refuses, agents that may have crashed
//! the process, a provider that is silent.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::call::Effect;
use agent::changes::{Changes, CommitKind, PlanChange};
use agent::config::AgentConfig;
use agent::id::{AgentId, PlanId};
use agent::life::Lease;
use agent::limits;
use agent::plan::{PlanSource, PlanTerms};
use agent::port::{Clock, ModelInfo, ReasoningReplay, Store, StoreError};
use models::scripted::{Script, Scripted};
use runtime::waits::Wait;
use scenario::world::World;
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Fixture, done, inbox, step, two, world_with};
use crate::store_wrapper::{Committed, Intercept, WakeRead, Wrapped};

const SECOND: Duration = Duration::from_secs(1);

/// What a store refuses.
#[derive(Clone, Copy, Debug)]
enum Refuses {
    Nothing,
    /// Every commit, as full.
    All,
    /// Every commit, as busy.
    Busy,
    /// Every commit after an opening.
    Decisions,
}

/// Refuses what a test sets.
#[derive(Clone, Default)]
struct Refusing(Arc<AtomicU8>);

impl Refusing {
    fn refuse(&self, what: Refuses) {
        self.0.store(what as u8, Ordering::SeqCst);
    }
}

impl Intercept for Refusing {
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

/// The event of the n-th agent.
fn bell(n: usize) -> String {
    format!("bell-{n:03}")
}

/// Many agents, and a model that takes a while.
struct CrowdedServer {
    fixture: Fixture,
    agents: Vec<AgentId>,
}

impl CrowdedServer {
    async fn of(count: usize, duration: Duration) -> (Self, Refusing) {
        let store = Refusing::default();
        (Self::behind(count, duration, store.clone()).await, store)
    }

    async fn behind(count: usize, duration: Duration, by: impl Intercept + Clone + 'static) -> Self {
        let time = Arc::new(Mutex::new(None::<Arc<dyn Clock>>));
        let seen = Arc::clone(&time);
        let model = Scripted::answering(move |_| {
            let clock = seen.lock().unwrap().clone().expect("the world has a clock by now");
            Script::new().pause(&clock, duration).call("skip", &json!({}))
        });
        let fixture =
            Fixture::with(model, move |inner| Arc::new(Wrapped { inner, by: by.clone() }) as Arc<_>);
        *time.lock().unwrap() = Some(Arc::clone(fixture.world.clock()));
        let mut agents = Vec::new();
        for n in 0..count {
            agents.push(fixture.world.agent(&format!("agent-{n}"), AgentConfig::default()).await.unwrap());
        }
        Self { fixture, agents }
    }

    async fn call_all(&self) {
        for (n, agent) in self.agents.iter().enumerate() {
            self.fixture.world.service(*agent, &bell(n), &bell(n), json!({})).await.unwrap();
        }
    }

    /// What the agents with work that are not awake wait for, each class once.
    async fn waits(&self) -> Vec<&'static str> {
        let live = &self.fixture.world.ports().live;
        let mut waits = BTreeSet::new();
        for agent in self.agents.iter().filter(|agent| live.activity(**agent).is_none()) {
            if self.fixture.world.reader().agent(*agent).await.unwrap().unwrap().waiting > 0 {
                waits.insert(live.waiting_for(*agent).map_or("nothing", |wait| wait.class()));
            }
        }
        waits.into_iter().collect()
    }

    async fn waiting(&self) -> u64 {
        self.fixture.world.reader().totals().await.unwrap().waiting
    }

    /// The most requests that were made for one agent.
    fn most_requests(&self) -> usize {
        let inboxes: Vec<String> = self.fixture.model.prompts().iter().map(inbox).collect();
        let of = |n: usize| inboxes.iter().filter(|inbox| inbox.contains(&bell(n))).count();
        (0..self.agents.len()).map(of).max().unwrap_or(0)
    }
}

/// The store refuses for a minute, and then accepts again.
async fn a_minute_of(what: Refuses, requests: usize, served: Duration) {
    let (crowd, store) = CrowdedServer::of(20, SECOND / 10).await;
    store.refuse(what);
    crowd.call_all().await;
    crowd.fixture.world.pass(30 * SECOND).await.unwrap();
    crowd.fixture.world.pass(30 * SECOND).await.unwrap();
    assert_eq!(crowd.waiting().await, 20, "{what:?}");
    assert_eq!(crowd.waits().await, ["store"], "{what:?}: what all wait for");
    store.refuse(Refuses::Nothing);
    crowd.fixture.world.pass(served).await.unwrap();
    assert_eq!(crowd.waiting().await, 0, "{what:?}: all are served");
    let most = crowd.most_requests();
    assert!(most <= requests, "{what:?}: {most} requests for one agent");
}

#[tokio::test]
async fn a_store_that_refuses_for_a_minute_costs_few_requests_and_all_are_served_soon_after() {
    a_minute_of(Refuses::All, 2, 5 * SECOND).await;
    a_minute_of(Refuses::Busy, 3, 5 * SECOND).await;
}

#[tokio::test]
async fn a_store_that_refuses_only_decisions_costs_ever_fewer_requests() {
    a_minute_of(Refuses::Decisions, 8, 61 * SECOND).await;
}

#[tokio::test]
async fn an_agent_that_was_refused_opens_its_cycle_before_its_next_request() {
    let (crowd, store) = CrowdedServer::of(1, SECOND / 10).await;
    store.refuse(Refuses::All);
    crowd.call_all().await;
    crowd.fixture.world.pass(20 * SECOND).await.unwrap();
    assert_eq!(crowd.fixture.model.prompts().len(), 1, "one request began before the refusal was known");
    let id = crowd.agents[0];
    crowd.fixture.world.service(id, "again", "bell", json!({})).await.unwrap();
    crowd.fixture.world.pass(20 * SECOND).await.unwrap();
    assert_eq!(crowd.fixture.model.prompts().len(), 1, "new events cause no request");
    store.refuse(Refuses::Nothing);
    crowd.fixture.world.pass(2 * SECOND).await.unwrap();
    assert_eq!((crowd.waiting().await, crowd.fixture.model.prompts().len()), (0, 2));
}

/// Panics whenever one agent is activated.
#[derive(Clone, Default)]
struct Panicking(Arc<Mutex<(Option<AgentId>, usize)>>);

impl Intercept for Panicking {
    fn wake<'a>(&'a self, agent: AgentId, read: WakeRead<'a>) -> WakeRead<'a> {
        let mut state = self.0.lock().unwrap();
        if state.0 == Some(agent) {
            state.1 += 1;
            drop(state);
            return Box::pin(async { panic!("on purpose") });
        }
        read
    }
}

#[tokio::test]
async fn an_activation_that_panics_repeatedly_is_tried_ever_less_often_and_blocks_no_other_agent() {
    let panicking = Panicking::default();
    let by = panicking.clone();
    let fixture = Fixture::with(Scripted::answering(|_| done()), move |inner| {
        Arc::new(Wrapped { inner, by: by.clone() }) as Arc<_>
    });
    let world = &fixture.world;
    let bad = world.agent("bad", AgentConfig::default()).await.unwrap();
    let good = world.agent("good", AgentConfig::default()).await.unwrap();
    panicking.0.lock().unwrap().0 = Some(bad);
    for n in 0..60 {
        world.service(bad, &format!("bad {n}"), "bell", json!({})).await.unwrap();
        world.service(good, &format!("good {n}"), "bell", json!({})).await.unwrap();
        world.pass(SECOND).await.unwrap();
        assert_eq!(world.reader().agent(good).await.unwrap().unwrap().waiting, 0, "second {n}");
    }
    let wait = world.ports().live.waiting_for(bad).unwrap();
    assert!(wait.class() == "broke" && wait.until().is_some_and(|until| until > fixture.now()), "{wait:?}");
    let tried = std::mem::take(&mut *panicking.0.lock().unwrap()).1;
    assert!((4..=6).contains(&tried), "{tried} times in a minute");
    world.node().unwrap().resume(bad);
    world.pass(SECOND).await.unwrap();
    assert_eq!(
        world.reader().agent(bad).await.unwrap().unwrap().waiting,
        0,
        "an operator's resume ends the pause"
    );
}

/// Marks agents as suspects until their first decision, as a store does after an unclean stop for agents with an open
/// cycle.
#[derive(Clone, Default)]
struct Crashed(Arc<Mutex<BTreeSet<AgentId>>>);

impl Intercept for Crashed {
    fn wake<'a>(&'a self, agent: AgentId, read: WakeRead<'a>) -> WakeRead<'a> {
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
async fn after_a_crash_uninvolved_agents_run_at_once_and_suspects_a_few_at_a_time() {
    const OPEN: usize = limits::REQUESTS_PER_PROVIDER;
    let crashed = Crashed::default();
    let by = crashed.clone();
    let mut crowd = CrowdedServer::behind(OPEN + 1, 3 * SECOND, by).await;
    let healthy = crowd.agents.pop().unwrap();
    crowd.call_all().await;
    crowd.fixture.world.pass(SECOND).await.unwrap();
    crowd.fixture.world.kill();
    assert_eq!(crowd.fixture.world.reader().totals().await.unwrap().open_cycles, OPEN as u64);
    crashed.0.lock().unwrap().extend(&crowd.agents);
    let before = crowd.fixture.model.prompts().len();
    crowd.fixture.world.start();
    crowd.fixture.world.pass(SECOND).await.unwrap();
    crowd.fixture.world.service(healthy, "new", "new", json!({})).await.unwrap();
    crowd.fixture.world.pass(2 * SECOND).await.unwrap();
    let requests = crowd.fixture.model.prompts().split_off(before);
    assert!(requests.iter().any(|prompt| inbox(prompt).contains("new")), "its model was called within 2 s");
    let most = 2 * limits::SUSPECTS_AT_ONCE + 1;
    assert!(requests.len() <= most, "a few suspects at a time, and the healthy agent: {}", requests.len());
    assert_eq!(crowd.waits().await, ["crash"]);
    crowd.fixture.world.pass(2 * SECOND).await.unwrap();
    assert_eq!(crowd.fixture.world.reader().agent(healthy).await.unwrap().unwrap().waiting, 0);
    let turns = u32::try_from(OPEN.div_ceil(limits::SUSPECTS_AT_ONCE)).unwrap();
    crowd.fixture.world.pass(SECOND * 8 * turns).await.unwrap();
    assert_eq!(crowd.waiting().await, 0, "all of them are served soon");
}

#[tokio::test]
async fn a_suspect_that_an_operator_resumes_goes_before_the_others() {
    const OPEN: usize = 8 * limits::SUSPECTS_AT_ONCE;
    let crashed = Crashed::default();
    let mut crowd = CrowdedServer::behind(OPEN, 3 * SECOND, crashed.clone()).await;
    crowd.call_all().await;
    crowd.fixture.world.pass(SECOND).await.unwrap();
    crowd.fixture.world.kill();
    crashed.0.lock().unwrap().extend(&crowd.agents);
    let before = crowd.fixture.model.prompts().len();
    crowd.fixture.world.start();
    crowd.fixture.world.pass(SECOND).await.unwrap();
    let last = crowd.agents.pop().unwrap();
    crowd.fixture.world.node().unwrap().resume(last);
    crowd.fixture.world.pass(10 * SECOND).await.unwrap();
    assert_eq!(
        crowd.fixture.world.reader().agent(last).await.unwrap().unwrap().waiting,
        0,
        "it was its turn"
    );
    assert!(crowd.waiting().await > 0, "not all others had their turn");
    let requests = crowd.fixture.model.prompts().len() - before;
    assert!(requests < OPEN, "as many at once as before: {requests}");
}

fn info(provider: &str) -> ModelInfo {
    ModelInfo {
        name: format!("{provider}/m"),
        provider: provider.into(),
        context_window: 100_000,
        max_output: 1_000,
        reasoning_replay: ReasoningReplay::None,
        ..ModelInfo::default()
    }
}

/// A world with many agents of a silent provider, and one agent of another provider.
struct Silent {
    world: World,
    silent: Arc<Scripted>,
    activations: Arc<Mutex<usize>>,
    agents: Vec<AgentId>,
    healthy: AgentId,
}

/// Counts activations.
struct Counting(Arc<Mutex<usize>>);

impl Intercept for Counting {
    fn wake<'a>(&'a self, _: AgentId, read: WakeRead<'a>) -> WakeRead<'a> {
        *self.0.lock().unwrap() += 1;
        read
    }
}

impl Silent {
    async fn of(count: usize, silent: Scripted) -> Self {
        let other = Scripted::answering(|_| done()).with_info(info("other"));
        let (silent, other) = (Arc::new(silent.with_info(info("silent"))), Arc::new(other));
        let models = two(&silent, &other);
        let activations = Arc::<Mutex<usize>>::default();
        let counted = Arc::clone(&activations);
        let behind = move |inner| Arc::new(Wrapped { inner, by: Counting(Arc::clone(&counted)) }) as Arc<_>;
        let (world, ..) = world_with(models, behind, Effect::ReadOnly);
        let mut agents = Vec::new();
        for n in 0..count {
            agents.push(world.agent(&format!("agent-{n}"), AgentConfig::default()).await.unwrap());
        }
        let config = AgentConfig { model: Some("other".into()), ..AgentConfig::default() };
        let healthy = world.agent("healthy", config).await.unwrap();
        Self { world, silent, activations, agents, healthy }
    }

    async fn call_all(&self, id: &str) {
        for (n, agent) in self.agents.iter().enumerate() {
            self.world.service(*agent, &format!("{id}-{n}"), "bell", json!({})).await.unwrap();
        }
    }

    /// The healthy agent gets an event and answers at once.
    async fn healthy_is_served(&self, id: &str) {
        self.world.service(self.healthy, id, "bell", json!({})).await.unwrap();
        self.world.pass(Duration::from_millis(10)).await.unwrap();
        let card = self.world.reader().agent(self.healthy).await.unwrap().unwrap();
        assert_eq!(card.waiting, 0, "{id}");
    }
}

#[tokio::test]
async fn a_silent_provider_does_not_block_agents_of_another_one() {
    const COUNT: usize = 4 * limits::AWAKE_MAX;
    let silent = Silent::of(COUNT, Scripted::answering(|_| Script::new().hang())).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    silent.call_all("bell").await;
    silent.healthy_is_served("first").await;
    assert_eq!(silent.silent.prompts().len(), limits::REQUESTS_PER_PROVIDER);
    silent.world.pass(60 * SECOND).await.unwrap();
    silent.healthy_is_served("later").await;
    let last = silent.world.ports().live.waiting_for(*silent.agents.last().unwrap());
    assert_eq!(last, Some(Wait::Requests("silent".into(), limits::REQUESTS_PER_PROVIDER)));
    let activations = *silent.activations.lock().unwrap();
    assert!(activations <= COUNT + 20, "{activations} activations: a queued agent is not activated again");
    assert!(tasks() <= limits::REQUESTS_PER_PROVIDER + 20, "{} tasks", tasks());
}

#[tokio::test]
async fn a_provider_that_falls_silent_within_cycles_does_not_block_agents_of_another_one() {
    let replies = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&replies);
    let silent = Scripted::answering(move |prompt| match (seen.load(Ordering::SeqCst), step(prompt)) {
        (false, _) => Script::new().hang(),
        (true, 0) => Script::new().call("slow", &json!({})),
        (true, _) => done(),
    });
    let silent = Silent::of(limits::AWAKE_MAX, silent).await;
    silent.call_all("bell").await;
    // All have taken their first step, and wait for a tool until its time-out.
    silent.world.pass(20 * SECOND).await.unwrap();
    assert_eq!(silent.world.reader().totals().await.unwrap().open_cycles, limits::AWAKE_MAX as u64);
    replies.store(false, Ordering::SeqCst);
    silent.world.pass(20 * SECOND).await.unwrap();
    silent.call_all("again").await;
    silent.healthy_is_served("bell").await;
    replies.store(true, Ordering::SeqCst);
    silent.world.pass(600 * SECOND).await.unwrap();
    assert_eq!(silent.world.reader().totals().await.unwrap().waiting, 0, "all are served in the end");
}

/// Counts the sweeps.
struct Sweeps(Arc<Mutex<usize>>);

impl Intercept for Sweeps {
    fn sweeps(&self) {
        *self.0.lock().unwrap() += 1;
    }
}

#[tokio::test]
async fn many_due_times_close_together_need_one_sweep() {
    let sweeps = Arc::<Mutex<usize>>::default();
    let counted = Arc::clone(&sweeps);
    let fixture = Fixture::with(Scripted::answering(|_| done()), move |inner| {
        Arc::new(Wrapped { inner, by: Sweeps(Arc::clone(&counted)) }) as Arc<_>
    });
    for n in 0..200 {
        let config = AgentConfig { debounce: 1_000 + 2 * n, ..AgentConfig::default() };
        let agent = fixture.world.agent(&format!("agent-{n}"), config).await.unwrap();
        fixture.world.service(agent, &format!("bell-{n}"), "bell", json!({})).await.unwrap();
    }
    fixture.world.pass(3 * SECOND).await.unwrap();
    assert_eq!(fixture.world.reader().totals().await.unwrap().waiting, 0, "all were served");
    let most = 3_000 / limits::SWEEP_LEAST_MS as usize;
    assert!(*sweeps.lock().unwrap() <= most, "{} sweeps in 3 s", sweeps.lock().unwrap());
}

#[tokio::test]
async fn plans_due_a_thousand_a_second_fire_in_time_with_a_bounded_number_of_commands() {
    let sweeps = Arc::<Mutex<usize>>::default();
    let counted = Arc::clone(&sweeps);
    let asked = Arc::<AtomicUsize>::default();
    let counts = Arc::clone(&asked);
    let model = Scripted::answering(move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
        done()
    });
    let fixture = Fixture::with(model, move |inner| {
        Arc::new(Wrapped { inner, by: Sweeps(Arc::clone(&counted)) }) as Arc<_>
    });
    let (world, start) = (&fixture.world, fixture.now());
    for n in 0..500 {
        let config = AgentConfig { debounce: 0, ..AgentConfig::default() };
        let agent = world.agent(&format!("agent-{n}"), config).await.unwrap();
        let terms: PlanTerms = serde_json::from_value(json!({
            "name": "look", "instruction": "look", "at": (start + Duration::from_millis(2_000 + n)).to_string(),
        }))
        .unwrap();
        let id = PlanId(Uuid::from_u128(u128::from(n)));
        let plan = terms.plan(id, None, PlanSource::Operator, fixture.now()).unwrap();
        world.registry().change_plan(agent, PlanChange::Set(plan)).await.unwrap();
    }
    world.pass(SECOND).await.unwrap();
    *sweeps.lock().unwrap() = 0;
    for passed in 1_001..2_600_usize {
        world.pass(Duration::from_millis(1)).await.unwrap();
        let due = (passed + 1).saturating_sub(2_000 + 10).min(500);
        let fired = asked.load(Ordering::SeqCst);
        assert!(fired >= due, "{fired} of {due} have fired {passed} ms after the start");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 500);
    let firings = *sweeps.lock().unwrap();
    assert!(firings <= 1_600 / limits::FIRING_LEAST_MS as usize, "{firings} firings in 1.6 s");
}
