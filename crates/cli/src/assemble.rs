//! Puts the house together: the only place that sees two adapters at once.

use std::sync::Arc;

use agent::port::{Clock, Ids, Store, Toolbox, Voices};
use runtime::bus::LocalBus;
use runtime::live::Live;
use runtime::{Bounds, Keeper, Ports};
use server::{Doors, Options};
use storage::sqlite::Sqlite;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::errors::{Exit, Failure, Result};

/// A house in which agents live.
pub(crate) struct House {
    store: Sqlite,
    keeper: Keeper,
    doors: Arc<Doors>,
    options: Options,
}

/// Puts it together and starts the keeper; the doors stay shut until [`House::open_doors`].
pub(crate) fn assemble(
    store: Sqlite,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    voices: Arc<dyn Voices>,
    hosts: Vec<String>,
    bounds: Bounds,
) -> House {
    let bus = Arc::new(LocalBus::new());
    let live = Arc::new(Live::new(bus.clone()));
    let kit = tools::prebuilt();
    #[cfg(feature = "failpoints")]
    let kit = crate::torture::with_counted(kit);
    let toolbox: Arc<dyn Toolbox> = Arc::new(kit);
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let keeper = runtime::start(Ports {
        store: Arc::clone(&shared),
        calls: Arc::new(store.clone()),
        lookup: Arc::new(store.clone()),
        voices: Arc::clone(&voices),
        toolbox: Arc::clone(&toolbox),
        clock: Arc::clone(&clock),
        ids: Arc::clone(&ids),
        live,
        bounds,
    });
    let doors = Doors {
        store: shared,
        registry: Arc::new(store.clone()),
        reader: Arc::new(store.clone()),
        bus,
        node: keeper.node().clone(),
        clock,
        ids,
        voices,
        toolbox,
        key_source: Box::new(|| {
            let mut random = [0u8; 32];
            // A machine without randomness cannot make keys at all: end this request.
            getrandom::fill(&mut random).expect("the operating system gives randomness");
            random
        }),
    };
    let shutdown = CancellationToken::new();
    let options = Options { hosts, shutdown, version: env!("CARGO_PKG_VERSION").to_owned() };
    House { store, keeper, doors: Arc::new(doors), options }
}

impl House {
    /// What doors open to.
    pub(crate) fn doors(&self) -> &Doors {
        &self.doors
    }

    /// Serves on the listener until the house is stopped.
    pub(crate) fn open_doors(&self, listener: TcpListener) -> JoinHandle<std::io::Result<()>> {
        let router = server::router(Arc::clone(&self.doors), self.options.clone());
        tokio::spawn(server::serve(listener, router, self.options.shutdown.clone()))
    }

    /// Waits until the store is broken, and tells why.
    pub(crate) async fn broken(&self) -> String {
        self.store.broken().await
    }

    /// Shuts the doors, lets the steps in hand end, closes the store.
    pub(crate) async fn stop(self) -> Result<()> {
        self.options.shutdown.cancel();
        self.keeper.stop().await;
        self.store.close().await.map_err(|error| {
            Failure::new(Exit::Failed, "store_failed", format!("the store did not close in peace: {error}"))
                .hint("nothing that was acknowledged is lost; the next start looks after the rest")
        })
    }
}
