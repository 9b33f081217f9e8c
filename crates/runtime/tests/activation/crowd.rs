//! Very many agents on one node: sleeping ones cost nothing, agents that are due at once are admitted in order, and a
//! flooded agent does not go before others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::config::{AgentConfig, Limits};
use agent::id::AgentId;
use agent::limits;
use agent::port::Clock;
use agent::prompt::Prompt;
use models::scripted::{Script, Scripted};
use serde_json::json;

use crate::fixture::{Fixture, unaware};
use crate::store_wrapper::{Intercept, WakeRead, Wrapped};

/// How long one generation takes.
const GENERATION: Duration = Duration::from_millis(100);

/// Records the activated agents, in order.
struct Recording(Arc<Mutex<Vec<AgentId>>>);

impl Intercept for Recording {
    fn wake<'a>(&'a self, agent: AgentId, read: WakeRead<'a>) -> WakeRead<'a> {
        self.0.lock().unwrap().push(agent);
        read
    }
}

/// A world, and the agents activated in it.
struct Crowd {
    fixture: Fixture,
    activated: Arc<Mutex<Vec<AgentId>>>,
    /// When each generation ended, in milliseconds since the clock began.
    generated: Arc<Mutex<Vec<i64>>>,
}

impl Crowd {
    /// Every generation takes [`GENERATION`] and skips.
    fn new() -> Self {
        let (activated, generated) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let time = Arc::new(Mutex::new(None::<Arc<dyn Clock>>));
        let (seen, ends) = (Arc::clone(&time), Arc::clone(&generated));
        let model = Scripted::answering(move |_: &Prompt| {
            let clock = seen.lock().unwrap().clone().expect("the world has a clock by now");
            ends.lock().unwrap().push(clock.now().as_millisecond() + 100);
            Script::new().pause(&clock, GENERATION).call("skip", &json!({}))
        });
        let recorded = Arc::clone(&activated);
        let fixture = Fixture::with(model, move |inner| {
            Arc::new(Wrapped { inner, by: Recording(Arc::clone(&recorded)) }) as Arc<_>
        });
        *time.lock().unwrap() = Some(Arc::clone(fixture.world.clock()));
        Self { fixture, activated, generated }
    }

    async fn agents(&self, name: &str, count: usize) -> Vec<AgentId> {
        let mut agents = Vec::new();
        for n in 0..count {
            let name = format!("{name}-{n}");
            agents.push(self.fixture.world.agent(&name, AgentConfig::default()).await.unwrap());
        }
        agents
    }

    async fn call(&self, agent: AgentId, id: &str) {
        self.fixture.world.service(agent, id, "bell", json!({})).await.unwrap();
    }

    fn activated(&self) -> Vec<AgentId> {
        std::mem::take(&mut self.activated.lock().unwrap())
    }

    async fn pass(&self, by: Duration) {
        self.fixture.world.pass(by).await.unwrap();
    }
}

/// Row 39 of docs/reliability.md, on a small scale. Tests of the real store check that no query reads sleeping agents.
#[tokio::test]
async fn a_start_activates_agents_with_work_and_no_others() {
    let mut crowd = Crowd::new();
    let agents = crowd.agents("agent", 2_000).await;
    crowd.fixture.world.kill();
    let busy = [agents[7], agents[400], agents[1_999]];
    for (n, agent) in busy.iter().enumerate() {
        crowd.call(*agent, &format!("bell-{n}")).await;
    }
    crowd.fixture.world.start();
    crowd.pass(Duration::from_secs(60)).await;
    let mut activated = crowd.activated();
    activated.sort();
    let mut busy = busy.to_vec();
    busy.sort();
    assert_eq!(activated, busy);
    assert_eq!(crowd.fixture.world.reader().totals().await.unwrap().waiting, 0);
}

#[tokio::test]
async fn thousands_of_agents_due_at_a_start_are_admitted_in_order_and_no_slot_stays_empty() {
    const DUE: usize = 3_000;
    let mut crowd = Crowd::new();
    let agents = crowd.agents("agent", DUE).await;
    crowd.fixture.world.kill();
    // The agent created last has waited longest.
    let mut order = agents;
    order.reverse();
    for (n, agent) in order.iter().enumerate() {
        crowd.call(*agent, &format!("bell-{n}")).await;
        if n % 100 == 99 {
            crowd.pass(Duration::from_millis(1)).await;
        }
    }
    crowd.fixture.world.start();
    let start = crowd.fixture.now().as_millisecond();
    crowd.pass(Duration::from_secs(10)).await;
    bounded_and_fair(&crowd, &order, start, 100);
}

#[tokio::test]
async fn thousands_of_agents_signalled_at_once_are_admitted_in_order() {
    const DUE: usize = 2_000;
    let crowd = Crowd::new();
    let agents = crowd.agents("agent", DUE).await;
    let start = crowd.fixture.now().as_millisecond();
    for (n, agent) in agents.iter().enumerate() {
        crowd.call(*agent, &format!("bell-{n}")).await;
    }
    crowd.pass(Duration::from_secs(10)).await;
    bounded_and_fair(&crowd, &agents, start, 1);
}

/// The agents were activated in the given order, except within groups of `tie` agents; never more at a time than one
/// provider allows, and always that many; the last one waited at most twice as long as the one in the middle.
fn bounded_and_fair(crowd: &Crowd, order: &[AgentId], start: i64, tie: usize) {
    let position: HashMap<AgentId, usize> = order.iter().enumerate().map(|(n, agent)| (*agent, n)).collect();
    let (activated, mut last) = (crowd.activated(), HashMap::new());
    assert!(
        activated.len() <= 2 * order.len(),
        "each is activated once, and once more if it waits for a permit"
    );
    last.extend(activated.iter().enumerate().map(|(n, agent)| (*agent, n)));
    let mut activated: Vec<AgentId> = last.keys().copied().collect();
    activated.sort_by_key(|agent| last[agent]);
    let positions: Vec<usize> = activated.iter().map(|agent| position[agent] / tie).collect();
    assert_eq!(positions.len(), order.len(), "each is activated");
    assert!(positions.is_sorted(), "agents that are due longer go first");
    let mut waited: Vec<i64> = crowd.generated.lock().unwrap().iter().map(|at| at - start).collect();
    waited.sort_unstable();
    assert_eq!(waited.len(), order.len());
    let mut waves: HashMap<i64, usize> = HashMap::new();
    waited.iter().for_each(|at| *waves.entry(*at).or_default() += 1);
    assert!(waves.values().all(|wave| *wave <= limits::REQUESTS_PER_PROVIDER), "{waves:?}");
    let (middle, last) = (waited[order.len() / 2], waited[order.len() - 1]);
    let full = order.len().div_ceil(limits::REQUESTS_PER_PROVIDER);
    assert_eq!((waves.len(), last), (full, 100 * i64::try_from(full).unwrap()), "no slot stays empty");
    assert!(last <= 2 * middle, "the last waited {last} ms, the middle one {middle} ms");
}

#[tokio::test]
async fn a_flooded_agent_takes_turns_like_all_others() {
    const QUIET: usize = 3 * limits::AWAKE_MAX;
    let mut crowd = Crowd::new();
    let one = Limits { events_per_cycle: 1, ..Limits::default() };
    let one = AgentConfig { limits: one, ..unaware() };
    let flooded = crowd.fixture.world.agent("flooded", one).await.unwrap();
    let quiet = crowd.agents("quiet", QUIET).await;
    crowd.fixture.world.kill();
    // Its events are older than those of all others.
    for n in 0..20 {
        crowd.call(flooded, &format!("flood-{n}")).await;
    }
    crowd.pass(Duration::from_secs(1)).await;
    for (n, agent) in quiet.iter().enumerate() {
        crowd.call(*agent, &format!("bell-{n}")).await;
    }
    crowd.fixture.world.start();
    crowd.pass(Duration::from_secs(60)).await;
    let activated = crowd.activated();
    let turns: Vec<usize> =
        activated.iter().enumerate().filter(|(_, agent)| **agent == flooded).map(|(n, _)| n).collect();
    assert_eq!(turns[0], 0, "it is due longest");
    assert!(turns[1] >= QUIET, "all others go before its second turn: {turns:?}");
    assert!(turns.len() >= 20, "it gets all its turns: {turns:?}");
    assert_eq!(crowd.fixture.world.reader().totals().await.unwrap().waiting, 0);
}

#[tokio::test]
async fn agents_that_stay_due_do_not_hide_those_that_became_due_later() {
    let mut crowd = Crowd::new();
    let stuck = crowd.agents("stuck", 2 * limits::DUE_BATCH as usize).await;
    let late = crowd.fixture.world.agent("late", AgentConfig::default()).await.unwrap();
    crowd.fixture.world.kill();
    for (n, agent) in stuck.iter().enumerate() {
        crowd.call(*agent, &format!("bell-{n}")).await;
    }
    crowd.pass(Duration::from_secs(1)).await;
    crowd.call(late, "late").await;
    crowd.fixture.world.start();
    // All slots are taken for one generation, and as many agents again are queued before it.
    crowd.pass(3 * GENERATION).await;
    assert!(crowd.activated().contains(&late), "found without a sweep, which comes after seconds");
}

#[tokio::test]
async fn a_sleeping_agent_has_no_task() {
    let crowd = Crowd::new();
    crowd.pass(Duration::from_secs(1)).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let first = crowd.agents("first", 1).await[0];
    crowd.call(first, "first bell").await;
    crowd.pass(Duration::from_secs(1)).await;
    let before = tasks();
    let many = crowd.agents("agent", 1_000).await;
    assert_eq!(tasks(), before, "a new agent has no task");
    for (n, agent) in many.iter().enumerate() {
        crowd.call(*agent, &format!("bell-{n}")).await;
    }
    crowd.pass(Duration::from_millis(50)).await;
    assert!(tasks() > before, "each awake agent has one task");
    crowd.pass(Duration::from_secs(60)).await;
    assert_eq!(crowd.fixture.world.reader().totals().await.unwrap().waiting, 0);
    assert_eq!(tasks(), before, "an agent that ran has no task any more");
}
