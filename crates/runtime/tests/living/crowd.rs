//! Very many agents on one node: those who sleep cost nothing, those who are due at once are admitted
//! in order, and nobody who is flooded goes before the others.

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

use crate::between::{Behind, Between, Woken};
use crate::play::{Play, unaware};

/// What one thought takes.
const THOUGHT: Duration = Duration::from_millis(100);

/// Notes who is woken, in their order.
struct Noting(Arc<Mutex<Vec<AgentId>>>);

impl Between for Noting {
    fn wake<'a>(&'a self, agent: AgentId, read: Woken<'a>) -> Woken<'a> {
        self.0.lock().unwrap().push(agent);
        read
    }
}

/// A world, and who was woken in it.
struct Crowd {
    play: Play,
    woken: Arc<Mutex<Vec<AgentId>>>,
    /// When each thought ended, in milliseconds since the clock began.
    thought: Arc<Mutex<Vec<i64>>>,
}

impl Crowd {
    /// Whose every thought takes [`THOUGHT`] and changes nothing.
    fn new() -> Self {
        let (woken, thought) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let time = Arc::new(Mutex::new(None::<Arc<dyn Clock>>));
        let (seen, ends) = (Arc::clone(&time), Arc::clone(&thought));
        let model = Scripted::answering(move |_: &Prompt| {
            let clock = seen.lock().unwrap().clone().expect("the world has a clock by now");
            ends.lock().unwrap().push(clock.now().as_millisecond() + 100);
            Script::new().pause(&clock, THOUGHT).call("skip", &json!({}))
        });
        let noted = Arc::clone(&woken);
        let play = Play::with(model, move |inner| {
            Arc::new(Behind { inner, by: Noting(Arc::clone(&noted)) }) as Arc<_>
        });
        *time.lock().unwrap() = Some(Arc::clone(play.world.clock()));
        Self { play, woken, thought }
    }

    async fn agents(&self, name: &str, count: usize) -> Vec<AgentId> {
        let mut made = Vec::new();
        for n in 0..count {
            let name = format!("{name}-{n}");
            made.push(self.play.world.agent(&name, AgentConfig::default()).await.unwrap());
        }
        made
    }

    async fn call(&self, agent: AgentId, id: &str) {
        self.play.world.service(agent, id, "bell", json!({})).await.unwrap();
    }

    fn woken(&self) -> Vec<AgentId> {
        std::mem::take(&mut self.woken.lock().unwrap())
    }

    async fn pass(&self, by: Duration) {
        self.play.world.pass(by).await.unwrap();
    }
}

/// Row 39 of docs/reliability.md, in small: the real store has its own tests that no question reads who sleeps.
#[tokio::test]
async fn a_start_wakes_those_who_have_something_to_do_and_asks_for_nobody_else() {
    let mut crowd = Crowd::new();
    let agents = crowd.agents("agent", 2_000).await;
    crowd.play.world.kill();
    let busy = [agents[7], agents[400], agents[1_999]];
    for (n, agent) in busy.iter().enumerate() {
        crowd.call(*agent, &format!("bell-{n}")).await;
    }
    crowd.play.world.start();
    crowd.pass(Duration::from_secs(60)).await;
    let mut woken = crowd.woken();
    woken.sort();
    let mut busy = busy.to_vec();
    busy.sort();
    assert_eq!(woken, busy);
    assert_eq!(crowd.play.world.reader().totals().await.unwrap().waiting, 0);
}

#[tokio::test]
async fn ten_thousand_that_are_due_at_a_start_are_admitted_in_order_and_no_place_stays_empty() {
    const DUE: usize = 10_000;
    let mut crowd = Crowd::new();
    let agents = crowd.agents("agent", DUE).await;
    crowd.play.world.kill();
    // The one that was made last has waited longest.
    let mut order = agents;
    order.reverse();
    for (n, agent) in order.iter().enumerate() {
        crowd.call(*agent, &format!("bell-{n}")).await;
        if n % 100 == 99 {
            crowd.pass(Duration::from_millis(1)).await;
        }
    }
    crowd.play.world.start();
    let start = crowd.play.now().as_millisecond();
    crowd.pass(Duration::from_secs(10)).await;
    bounded_and_fair(&crowd, &order, start, 100);
}

#[tokio::test]
async fn thousands_that_are_signalled_at_once_are_admitted_in_order() {
    const DUE: usize = 2_000;
    let crowd = Crowd::new();
    let agents = crowd.agents("agent", DUE).await;
    let start = crowd.play.now().as_millisecond();
    for (n, agent) in agents.iter().enumerate() {
        crowd.call(*agent, &format!("bell-{n}")).await;
    }
    crowd.pass(Duration::from_secs(10)).await;
    bounded_and_fair(&crowd, &agents, start, 1);
}

/// Woken in the order given, up to the order within a moment of `tie` agents; as many at a time as one
/// provider may be asked and never more; the last one waited no more than twice as long as the one in the middle.
fn bounded_and_fair(crowd: &Crowd, order: &[AgentId], start: i64, tie: usize) {
    let place: HashMap<AgentId, usize> = order.iter().enumerate().map(|(n, agent)| (*agent, n)).collect();
    let (woken, mut last) = (crowd.woken(), HashMap::new());
    assert!(woken.len() <= 2 * order.len(), "each is woken once, and once more where it waits for a permit");
    last.extend(woken.iter().enumerate().map(|(n, agent)| (*agent, n)));
    let mut woken: Vec<AgentId> = last.keys().copied().collect();
    woken.sort_by_key(|agent| last[agent]);
    let places: Vec<usize> = woken.iter().map(|agent| place[agent] / tie).collect();
    assert_eq!(places.len(), order.len(), "each is woken");
    assert!(places.is_sorted(), "who is due longer goes first");
    let mut waited: Vec<i64> = crowd.thought.lock().unwrap().iter().map(|at| at - start).collect();
    waited.sort_unstable();
    assert_eq!(waited.len(), order.len());
    let mut waves: HashMap<i64, usize> = HashMap::new();
    waited.iter().for_each(|at| *waves.entry(*at).or_default() += 1);
    assert!(waves.values().all(|wave| *wave <= limits::REQUESTS_PER_PROVIDER), "{waves:?}");
    let (middle, last) = (waited[order.len() / 2], waited[order.len() - 1]);
    let full = order.len().div_ceil(limits::REQUESTS_PER_PROVIDER);
    assert_eq!((waves.len(), last), (full, 100 * i64::try_from(full).unwrap()), "no place stays empty");
    assert!(last <= 2 * middle, "the last waited {last} ms, the one in the middle {middle} ms");
}

#[tokio::test]
async fn an_agent_that_is_flooded_takes_its_turn_like_all_others() {
    const QUIET: usize = 3 * limits::AWAKE_MAX;
    let mut crowd = Crowd::new();
    let one = Limits { events_per_cycle: 1, ..Limits::default() };
    let one = AgentConfig { limits: one, ..unaware() };
    let flooded = crowd.play.world.agent("flooded", one).await.unwrap();
    let quiet = crowd.agents("quiet", QUIET).await;
    crowd.play.world.kill();
    // What waits for it is older than anything of the others.
    for n in 0..20 {
        crowd.call(flooded, &format!("flood-{n}")).await;
    }
    crowd.pass(Duration::from_secs(1)).await;
    for (n, agent) in quiet.iter().enumerate() {
        crowd.call(*agent, &format!("bell-{n}")).await;
    }
    crowd.play.world.start();
    crowd.pass(Duration::from_secs(60)).await;
    let woken = crowd.woken();
    let turns: Vec<usize> =
        woken.iter().enumerate().filter(|(_, agent)| **agent == flooded).map(|(n, _)| n).collect();
    assert_eq!(turns[0], 0, "it is due longest");
    assert!(turns[1] >= QUIET, "all others go before its second turn: {turns:?}");
    assert!(turns.len() >= 20, "and it gets all its turns: {turns:?}");
    assert_eq!(crowd.play.world.reader().totals().await.unwrap().waiting, 0);
}

#[tokio::test]
async fn those_who_stay_due_hide_nobody_who_became_due_later() {
    let mut crowd = Crowd::new();
    let stuck = crowd.agents("stuck", 2 * limits::DUE_BATCH as usize).await;
    let late = crowd.play.world.agent("late", AgentConfig::default()).await.unwrap();
    crowd.play.world.kill();
    for (n, agent) in stuck.iter().enumerate() {
        crowd.call(*agent, &format!("bell-{n}")).await;
    }
    crowd.pass(Duration::from_secs(1)).await;
    crowd.call(late, "late").await;
    crowd.play.world.start();
    // All places are taken for one thought, and as many again wait in line before it.
    crowd.pass(3 * THOUGHT).await;
    assert!(crowd.woken().contains(&late), "found without a sweep, which comes after seconds");
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
    assert_eq!(tasks(), before, "being there costs none");
    for (n, agent) in many.iter().enumerate() {
        crowd.call(*agent, &format!("bell-{n}")).await;
    }
    crowd.pass(Duration::from_millis(50)).await;
    assert!(tasks() > before, "those who are awake have one each");
    crowd.pass(Duration::from_secs(60)).await;
    assert_eq!(crowd.play.world.reader().totals().await.unwrap().waiting, 0);
    assert_eq!(tasks(), before, "having lived costs none");
}
