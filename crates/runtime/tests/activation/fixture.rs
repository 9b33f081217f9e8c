//! What the tests of this folder share: a world whose models reply as one function says.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use agent::call::Effect;
use agent::config::{AgentConfig, Awareness};
use agent::entry::{Entry, EntryKind};
use agent::port::{Clock, Model, Models, Store};
use agent::prompt::{Item, Prompt};
use jiff::Timestamp;
use models::scripted::{Script, Scripted};
use runtime::Ports;
use scenario::clock::{SimClock, SimIds};
use scenario::world::World;
use serde_json::{Value, json};
use storage::sqlite::Sqlite;
use testkit::test_tools::{Counters, TestToolbox, ToolGate};

/// One model for all agents.
pub(crate) fn one(model: &Arc<Scripted>) -> Arc<dyn Models> {
    two(model, model)
}

/// The agent's own model, and another one.
pub(crate) fn two(own: &Arc<Scripted>, other: &Arc<Scripted>) -> Arc<dyn Models> {
    let (own, other) = (Arc::clone(own), Arc::clone(other));
    Arc::new(move |name: Option<&str>| {
        Ok(Arc::clone(if name.is_none() { &own } else { &other }) as Arc<dyn Model>)
    })
}

/// A world and everything that a test inspects from outside.
pub(crate) struct Fixture {
    pub(crate) world: World,
    pub(crate) model: Arc<Scripted>,
    pub(crate) counters: Counters,
    /// Blocks the tool `slow` until it is opened.
    pub(crate) gate: ToolGate,
    pub(crate) clock: SimClock,
    /// The store, which outlives the process.
    pub(crate) sqlite: Arc<Mutex<Sqlite>>,
    slow: Effect,
    starts: u64,
}

pub(crate) fn clock() -> SimClock {
    SimClock::new("2026-11-21T14:00:00Z".parse::<Timestamp>().unwrap())
}

impl Fixture {
    /// A world whose models reply as `author` says.
    pub(crate) fn new(author: impl Fn(&Prompt) -> Script + Send + Sync + 'static) -> Self {
        Self::with(Scripted::answering(author), |store| store)
    }

    /// The same, with replies that take time on the world's clock.
    pub(crate) fn timed(author: impl Fn(&Prompt, &Arc<dyn Clock>) -> Script + Send + Sync + 'static) -> Self {
        let clock: Arc<OnceLock<Arc<dyn Clock>>> = Arc::default();
        let known = Arc::clone(&clock);
        let fixture =
            Self::new(move |prompt| author(prompt, known.get().expect("the world has a clock by now")));
        assert!(clock.set(Arc::clone(fixture.world.clock())).is_ok());
        fixture
    }

    /// The same, with another model and a wrapped store.
    pub(crate) fn with(model: Scripted, wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        Self::set_up(model, wrap, Effect::ReadOnly)
    }

    /// The same; the tool `slow` has this effect.
    pub(crate) fn of_effect(
        slow: Effect,
        author: impl Fn(&Prompt) -> Script + Send + Sync + 'static,
    ) -> Self {
        Self::set_up(Scripted::answering(author), |store| store, slow)
    }

    /// The same; the tool `slow` is unsafe.
    pub(crate) fn unsafely(author: impl Fn(&Prompt) -> Script + Send + Sync + 'static) -> Self {
        Self::set_up(Scripted::answering(author), |store| store, Effect::Unsafe)
    }

    pub(crate) fn set_up(
        model: Scripted,
        wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>,
        slow: Effect,
    ) -> Self {
        let (model, clock, starts) = (Arc::new(model), clock(), 7);
        let sqlite = Sqlite::in_memory(Arc::new(clock.clone())).unwrap();
        let (counters, gate) = (Counters::new(), ToolGate::closed());
        let (models, tools) = (one(&model), toolbox(slow, &counters, &gate));
        let world = World::new(ports_of(&sqlite, &clock, starts, wrap, models, tools), clock.clone());
        Self { world, model, counters, gate, clock, sqlite: Arc::new(Mutex::new(sqlite)), slow, starts }
    }

    /// The process dies uncleanly, and another one starts on the stored data.
    pub(crate) fn dies(&mut self) {
        self.dies_with(|tools| tools);
    }

    /// The same; the next process has these tools.
    pub(crate) fn dies_with(
        &mut self,
        change: impl FnOnce(Arc<dyn agent::port::Toolbox>) -> Arc<dyn agent::port::Toolbox>,
    ) {
        self.dies_as(|ports| ports.toolbox = change(Arc::clone(&ports.toolbox)));
    }

    /// The same; the next process has these ports.
    pub(crate) fn dies_as(&mut self, change: impl FnOnce(&mut Ports)) {
        self.world.kill();
        let sqlite = cut_off(&self.sqlite);
        let models = one(&self.model);
        let tools = toolbox(self.slow, &self.counters, &self.gate);
        self.starts += 1;
        let mut ports = ports_of(&sqlite, &self.clock, self.starts, |store| store, models, tools);
        change(&mut ports);
        self.world = World::new(ports, self.clock.clone());
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.world.clock().now()
    }
}

/// Cuts a dead process off: nothing that it still does reaches the store. Returns the store for the next one.
pub(crate) fn cut_off(sqlite: &Mutex<Sqlite>) -> Sqlite {
    let mut sqlite = sqlite.lock().unwrap();
    *sqlite = sqlite.restarted(false).unwrap();
    sqlite.clone()
}

/// A world with these models, the counters of its tools, and the gate of `slow`.
pub(crate) fn world_with(
    models: Arc<dyn Models>,
    wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>,
    slow: Effect,
) -> (World, Counters, ToolGate) {
    world_at(clock(), models, wrap, slow)
}

/// The same on that clock.
pub(crate) fn world_at(
    clock: SimClock,
    models: Arc<dyn Models>,
    wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>,
    slow: Effect,
) -> (World, Counters, ToolGate) {
    let sqlite = Sqlite::in_memory(Arc::new(clock.clone())).unwrap();
    let (counters, gate) = (Counters::new(), ToolGate::closed());
    let ports = ports_of(&sqlite, &clock, 7, wrap, models, toolbox(slow, &counters, &gate));
    (World::new(ports, clock), counters, gate)
}

/// All prebuilt tools, and some that exist only for tests.
fn toolbox(slow: Effect, counters: &Counters, gate: &ToolGate) -> TestToolbox {
    let slow = testkit::test_tools::slow(counters, slow, gate);
    let build = testkit::test_tools::visible("build", Arc::clone(&slow));
    let order = testkit::test_tools::asynchronous("order", Arc::clone(&slow), Duration::from_secs(3_600));
    let deliver = testkit::test_tools::visible("deliver", Arc::clone(&order));
    let ask =
        testkit::test_tools::asynchronous("ask", testkit::test_tools::look(counters), Duration::from_secs(1));
    let toolbox = TestToolbox::with_all(Arc::new(tools::prebuilt()), counters).with(slow).with(build);
    toolbox.with(order).with(deliver).with(ask)
}

fn ports_of(
    sqlite: &Sqlite,
    clock: &SimClock,
    start: u64,
    wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>,
    models: Arc<dyn Models>,
    toolbox: TestToolbox,
) -> Ports {
    let ids = Arc::new(SimIds::new(start, clock.clone()));
    let ports = Ports::new(Arc::new(sqlite.clone()), models, Arc::new(toolbox), Arc::new(clock.clone()), ids);
    Ports { store: wrap(Arc::new(sqlite.clone())), ..ports }
}

/// The entries of a prompt, oldest first.
pub(crate) fn entries(prompt: &Prompt) -> Vec<&Entry> {
    prompt
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Entry(entry) => Some(&**entry),
            Item::Layer(_) => None,
        })
        .collect()
}

/// How many steps the open cycle has taken.
pub(crate) fn step(prompt: &Prompt) -> usize {
    entries(prompt).iter().filter(|e| e.cycle == prompt.cycle && e.kind == EntryKind::Assistant).count()
}

/// The inbox entry of the open cycle.
pub(crate) fn inbox(prompt: &Prompt) -> String {
    let inbox = entries(prompt).into_iter().rfind(|entry| entry.kind == EntryKind::Inbox);
    inbox.map(|entry| entry.message.text()).unwrap_or_default()
}

/// All entries of a prompt as one text.
pub(crate) fn everything(prompt: &Prompt) -> String {
    entries(prompt).iter().map(|entry| entry.message.countable()).collect::<Vec<_>>().join("\n")
}

pub(crate) fn send(space: &str, text: &str) -> Value {
    json!({"space": space, "text": text})
}

/// Ends the cycle.
pub(crate) fn done() -> Script {
    Script::new().call("done", &json!({}))
}

/// Answers in one space, then ends.
pub(crate) fn answer(prompt: &Prompt, space: &str, text: &str) -> Script {
    match step(prompt) {
        0 => Script::new().call("send_message", &send(space, text)),
        _ => done(),
    }
}

/// A config under which all new events wait for the next cycle.
pub(crate) fn unaware() -> AgentConfig {
    AgentConfig { awareness: Awareness::None, ..AgentConfig::default() }
}
