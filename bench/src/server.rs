//! A server in this process, built as `viv up` builds it, and the people, agents and spaces in it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::config::{AgentConfig, ReplyMode};
use agent::id::{AgentId, CredentialId, EntityId, MessageId, SpaceId};
use agent::port::{
    Accept, Accepted, Clock, Credential, Delivered, Listener, Models, NewAgent, NewCredential, NewHuman,
    NewSpace, Reader, Registry, Scope, Store, Wakeup,
};
use agent::run::Ending;
use agent::space::NewMessage;
use agent::update::{Topic, Update};
use anyhow::{Context, Result, bail};
use runtime::clock::{SystemClock, SystemIds};
use runtime::{Bounds, Keeper, Ports};
use server::{Options, keys};
use storage::sqlite::{Sqlite, Stats};
use testkit::test_tools::{Counters, TestToolbox, fire, look, put};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tools::ToolKit;

use crate::watched::{Marks, Watched, WatchedModels};

/// Longest wait for an expected event; after it the measurement fails with an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server for measurements.
pub(crate) struct BenchServer {
    /// The store, which records what passes it.
    pub(crate) watched: Arc<Watched>,
    /// The recorded points.
    pub(crate) marks: Arc<Marks>,
    store: Sqlite,
    keeper: Keeper,
    ports: Ports,
    shutdown: CancellationToken,
}

/// A person, an agent, and the space that both are members of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    /// The person.
    pub(crate) you: EntityId,
    /// The agent.
    pub(crate) agent: AgentId,
    /// The space.
    pub(crate) space: SpaceId,
}

/// A Tokio runtime like that of a server.
pub(crate) fn threads() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no threads")
}

/// The config of an agent that is measured: a text ends its cycle, so that a message costs one request. By default a text without
/// a call is asked about once, which is a second request.
pub(crate) fn config() -> AgentConfig {
    AgentConfig { reply: ReplyMode::Text, ..AgentConfig::default() }
}

impl BenchServer {
    /// Opens the store in `dir` and starts the keeper. Must be called within a runtime.
    pub(crate) fn build(dir: &Path, models: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Models>) -> Result<Self> {
        Self::within(dir, Bounds::default(), models)
    }

    /// Builds a server with these bounds.
    pub(crate) fn within(
        dir: &Path,
        bounds: Bounds,
        models: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Models>,
    ) -> Result<Self> {
        Self::with_kit(dir, bounds, tools::prebuilt(), models)
    }

    /// Builds a server with this kit and the test tools.
    pub(crate) fn with_kit(
        dir: &Path,
        bounds: Bounds,
        kit: ToolKit,
        models: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Models>,
    ) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = Sqlite::open(dir, Arc::clone(&clock)).context("the store does not open")?;
        let marks = Arc::new(Marks::default());
        let watched = Arc::new(Watched::new(store.clone(), Arc::clone(&marks)));
        let counters = Counters::new();
        let toolbox = TestToolbox::new(Arc::new(kit));
        let toolbox = toolbox.with(look(&counters)).with(put(&counters)).with(fire(&counters));
        let models = Arc::new(WatchedModels { inner: models(Arc::clone(&clock)), marks: Arc::clone(&marks) });
        let shared = Arc::new(store.clone());
        let ports = Ports::new(shared, models, Arc::new(toolbox), clock, Arc::new(SystemIds));
        let ports = Ports { store: watched.clone(), bounds, ..ports };
        let keeper = runtime::start(ports.clone());
        Ok(Self { watched, marks, store, keeper, ports, shutdown: CancellationToken::new() })
    }

    /// The number of open cycles.
    pub(crate) async fn open_cycles(&self) -> Result<u64> {
        Ok(self.store.totals().await?.open_cycles)
    }

    /// From now on nothing is added to the search index, whose thread would take CPU at any moment.
    pub(crate) fn stop_indexing(&self) {
        self.store.stop_indexing();
    }

    /// Statistics of the store's writer.
    pub(crate) fn stats(&self) -> Stats {
        self.store.stats()
    }

    /// Creates a person, an agent with this config, and their space.
    pub(crate) async fn home(&self, name: &str, config: AgentConfig) -> Result<Home> {
        let at = self.ports.clock.now();
        let you = EntityId(self.ports.ids.uuid());
        let agent = AgentId(self.ports.ids.uuid());
        let space = SpaceId(self.ports.ids.uuid());
        self.store.create_human(NewHuman::new(you, format!("you-{name}"), at)).await?;
        self.store.create_agent(NewAgent::new(agent, name, config, at)).await?;
        let members = vec![you, agent.entity()];
        self.store.open_space(NewSpace::new(space, format!("home-{name}"), members, at)).await?;
        Ok(Home { you, agent, space })
    }

    /// Creates a message of the person.
    pub(crate) fn message(&self, home: &Home, text: &str) -> NewMessage {
        let id = MessageId(self.ports.ids.uuid());
        NewMessage::of_person(id, home.space, home.you, text, self.ports.clock.now())
    }

    /// Accepts a message without a signal to the keeper.
    pub(crate) async fn accept(&self, message: NewMessage) -> Result<Accepted> {
        self.watched.accept(Accept::Message(message), None).await.context("the store does not accept")
    }

    /// Posts a message, as the API does.
    pub(crate) async fn post(&self, home: &Home, text: &str) -> Result<()> {
        self.post_message(self.message(home, text)).await
    }

    /// Posts an existing message.
    pub(crate) async fn post_message(&self, message: NewMessage) -> Result<()> {
        match self.accept(message).await? {
            Accepted::Fresh { wake, .. } => self.signal(&wake),
            other => bail!("wanted a fresh message, got {other:?}"),
        }
        Ok(())
    }

    /// Signals the keeper which agents have something to do.
    pub(crate) fn signal(&self, wake: &[Wakeup]) {
        self.keeper.node().signal(wake);
    }

    /// Publishes an update to the subscribers of the topic.
    pub(crate) fn publish(&self, topic: Topic, update: Update) {
        self.ports.live.bus().publish(&[topic], Arc::new(update));
    }

    /// The ports.
    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    /// The handle of the running node.
    pub(crate) fn node(&self) -> &runtime::node::Node {
        self.keeper.node()
    }

    /// Subscribes to the agent's updates.
    pub(crate) fn listen(&self, agent: AgentId) -> CycleListener {
        CycleListener(self.ports.live.bus().subscribe(Topic::Agent(agent)))
    }

    /// Serves the API on a free loopback port; returns its address and a key of the person.
    pub(crate) async fn serve_api(&self, home: &Home) -> Result<(SocketAddr, String)> {
        // A different secret each time that the same data is opened.
        let mut secret = [7; 32];
        secret[..16].copy_from_slice(self.ports.ids.uuid().as_bytes());
        let key = keys::key(&secret);
        let credential =
            Credential::new(CredentialId(self.ports.ids.uuid()), Scope::Person(home.you), "bench");
        let (secret_hash, at) = (keys::hash(&key), self.ports.clock.now());
        let new = NewCredential { credential, secret_hash, at, replace_label: false };
        self.store.add_credential(new, None).await?;
        // The API creates no keys here.
        let options = Options { shutdown: self.shutdown.clone(), ..Options::new(|| [0; 32]) };
        let router = server::router(self.ports.clone(), self.keeper.node().clone(), options);
        Ok((serve(router, self.shutdown.clone()).await?, key))
    }

    /// Stops at once like a crash: the store is not closed.
    pub(crate) async fn kill(self) {
        self.shutdown.cancel();
        self.keeper.kill();
    }

    /// Stops the server and closes the store.
    pub(crate) async fn stop(self) -> Result<()> {
        self.shutdown.cancel();
        let stopped = tokio::time::timeout(PATIENCE, async {
            self.keeper.stop().await;
            self.store.close().await.context("the store did not close cleanly")
        });
        stopped.await.with_context(|| format!("the server did not stop within {} s", PATIENCE.as_secs()))?
    }
}

/// Serves a router on a free loopback port, with the server's own connection code.
pub(crate) async fn serve(router: axum::Router, shutdown: CancellationToken) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("no free loopback port")?;
    let address = listener.local_addr().context("a socket without an address")?;
    tokio::spawn(server::serve(listener, router, shutdown, agent::limits::CONNECTIONS_MAX));
    Ok(address)
}

/// Listens to the updates of one agent.
pub(crate) struct CycleListener(Box<dyn Listener>);

impl CycleListener {
    /// Waits until a cycle of the agent completes; fails after [`PATIENCE`].
    pub(crate) async fn ended(&mut self) -> Result<()> {
        let ended = tokio::time::timeout(PATIENCE, self.wait_for_end()).await;
        ended.with_context(|| format!("no cycle ended within {} s", PATIENCE.as_secs()))?
    }

    async fn wait_for_end(&mut self) -> Result<()> {
        loop {
            match self.0.next().await {
                Some(Delivered::Update(update)) => match &**update {
                    Update::CycleEnded { ending: Ending::Completed, .. } => return Ok(()),
                    Update::CycleEnded { ending, reason, .. } => {
                        bail!("wanted a completed cycle, got {ending:?}: {reason:?}")
                    }
                    _ => {}
                },
                Some(Delivered::Missed(_)) => {}
                None => bail!("the bus is closed"),
            }
        }
    }
}
