//! What the tests of this folder share: a world with one script-writer for all its models.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use agent::call::Effect;
use agent::config::{AgentConfig, Awareness};
use agent::entry::{Entry, EntryKind};
use agent::port::{Clock, Model, ModelError, Models, Store};
use agent::prompt::{Item, Prompt};
use jiff::Timestamp;
use models::scripted::{Script, Scripted};
use runtime::Ports;
use scenario::clock::{SimClock, SimIds};
use scenario::world::World;
use serde_json::{Value, json};
use storage::sqlite::Sqlite;
use testkit::test_tools::{Counters, TestToolbox, ToolGate};

/// One model for everyone.
pub(crate) struct One(pub(crate) Arc<Scripted>);

impl Models for One {
    fn model(&self, _: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::clone(&self.0) as Arc<dyn Model>)
    }
}

/// The agent's own model, and another one.
pub(crate) struct Two(pub(crate) Arc<Scripted>, pub(crate) Arc<Scripted>);

impl Models for Two {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::clone(if name.is_none() { &self.0 } else { &self.1 }) as Arc<dyn Model>)
    }
}

/// A world and everything that a test looks at from outside.
pub(crate) struct Play {
    pub(crate) world: World,
    pub(crate) model: Arc<Scripted>,
    pub(crate) counters: Counters,
    /// Holds the tool `slow` until it is opened.
    pub(crate) gate: ToolGate,
    pub(crate) clock: SimClock,
    /// What outlives its process.
    pub(crate) sqlite: Arc<Mutex<Sqlite>>,
    slow: Effect,
    starts: u64,
}

pub(crate) fn clock() -> SimClock {
    SimClock::new("2026-11-21T14:00:00Z".parse::<Timestamp>().unwrap())
}

impl Play {
    /// A world whose agents think as `author` writes.
    pub(crate) fn new(author: impl Fn(&Prompt) -> Script + Send + Sync + 'static) -> Self {
        Self::with(Scripted::answering(author), |store| store)
    }

    /// The same, where they take their time, on the world's clock.
    pub(crate) fn timed(author: impl Fn(&Prompt, &Arc<dyn Clock>) -> Script + Send + Sync + 'static) -> Self {
        let clock: Arc<OnceLock<Arc<dyn Clock>>> = Arc::default();
        let known = Arc::clone(&clock);
        let play =
            Self::new(move |prompt| author(prompt, known.get().expect("the world has a clock by now")));
        assert!(clock.set(Arc::clone(play.world.clock())).is_ok());
        play
    }

    /// The same with another model and a store that is wrapped.
    pub(crate) fn with(model: Scripted, wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        Self::set_up(model, wrap, Effect::ReadOnly)
    }

    /// The same, where the tool `slow` is of this effect.
    pub(crate) fn of_effect(
        slow: Effect,
        author: impl Fn(&Prompt) -> Script + Send + Sync + 'static,
    ) -> Self {
        Self::set_up(Scripted::answering(author), |store| store, slow)
    }

    /// The same, where the tool `slow` cannot be repeated.
    pub(crate) fn unsafely(author: impl Fn(&Prompt) -> Script + Send + Sync + 'static) -> Self {
        Self::set_up(Scripted::answering(author), |store| store, Effect::Unsafe)
    }

    fn set_up(model: Scripted, wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>, slow: Effect) -> Self {
        let (model, clock, starts) = (Arc::new(model), clock(), 7);
        let sqlite = Sqlite::in_memory(Arc::new(clock.clone())).unwrap();
        let (counters, gate) = (Counters::new(), ToolGate::closed());
        let (models, tools) = (Arc::new(One(Arc::clone(&model))), toolbox(slow, &counters, &gate));
        let world = World::new(ports_of(&sqlite, &clock, starts, wrap, models, tools), clock.clone());
        Self { world, model, counters, gate, clock, sqlite: Arc::new(Mutex::new(sqlite)), slow, starts }
    }

    /// The process dies, unclean, and another one starts on what is durable.
    pub(crate) fn dies(&mut self) {
        self.world.kill();
        let sqlite = cut_off(&self.sqlite);
        let models = Arc::new(One(Arc::clone(&self.model)));
        let tools = toolbox(self.slow, &self.counters, &self.gate);
        self.starts += 1;
        let ports = ports_of(&sqlite, &self.clock, self.starts, |store| store, models, tools);
        self.world = World::new(ports, self.clock.clone());
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.world.clock().now()
    }
}

/// The process is gone: nothing of what it still does reaches the store. The store as the next one finds it.
pub(crate) fn cut_off(sqlite: &Mutex<Sqlite>) -> Sqlite {
    let mut sqlite = sqlite.lock().unwrap();
    *sqlite = sqlite.restarted(false).unwrap();
    sqlite.clone()
}

/// A world whose agents think with these models, what its tools did, and what holds `slow`.
pub(crate) fn ground(
    models: Arc<dyn Models>,
    wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>,
    slow: Effect,
) -> (World, Counters, ToolGate) {
    ground_at(clock(), models, wrap, slow)
}

/// The same on that clock.
pub(crate) fn ground_at(
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

/// All prebuilt tools, and some that are only for tests.
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

/// Entries of the prompt, oldest first.
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

/// How many steps the open cycle has thought.
pub(crate) fn step(prompt: &Prompt) -> usize {
    entries(prompt).iter().filter(|e| e.cycle == prompt.cycle && e.kind == EntryKind::Assistant).count()
}

/// The inbox entry of the open cycle.
pub(crate) fn inbox(prompt: &Prompt) -> String {
    let inbox = entries(prompt).into_iter().rfind(|entry| entry.kind == EntryKind::Inbox);
    inbox.map(|entry| entry.message.text()).unwrap_or_default()
}

/// Everything the agent was ever told, as one text.
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

/// A config under which everything that comes waits for the next cycle.
pub(crate) fn unaware() -> AgentConfig {
    AgentConfig { awareness: Awareness::None, ..AgentConfig::default() }
}
