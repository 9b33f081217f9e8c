//! One small house for a story of its own: `you`, `ada`, `home`, a stub of a model, a counter.

use std::time::{Duration, Instant};

use e2e::binary::{self, Faults, Launch, ServerLife};
use e2e::client::{Client, HttpAnswer};
use e2e::counter::Counter;
use e2e::history::{self, Happened, ProcessedEvent, Wording};
use e2e::stub::ModelServer;
use serde_json::{Value, json};

/// How long anything may take before the story counts as stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Harness {
    /// Answers as long as it is kept.
    pub(crate) stub: ModelServer,
    pub(crate) counter: Counter,
    pub(crate) launch: Launch,
    pub(crate) dir: tempfile::TempDir,
    key: String,
}

impl Harness {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (stub, counter) = (ModelServer::start().await.unwrap(), Counter::start().await.unwrap());
        let launch = Launch {
            viv: binary::find_failpoints().unwrap_or_else(|why| panic!("{why}")),
            data_dir: dir.path().join("data"),
            model_url: stub.url().to_owned(),
            log: dir.path().join("log"),
            counter: Some(counter.url().to_owned()),
        };
        Self { stub, counter, launch, dir, key: String::new() }
    }

    /// One more life, ready.
    pub(crate) async fn start(&mut self, faults: &Faults) -> (ServerLife, Client) {
        self.try_start(faults).await.expect("it lives until it is ready")
    }

    /// The same; `None` where it died before it was ready.
    pub(crate) async fn try_start(&mut self, faults: &Faults) -> Option<(ServerLife, Client)> {
        let mut life = self.launch.start(faults).unwrap();
        let (ready, _) = life.ready().await.unwrap_or_else(|why| panic!("{why}"))?;
        if let Some(key) = ready.admin_key {
            self.key = key;
        }
        Some((life, Client::new(&ready.url, &self.key).unwrap()))
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.launch.log).unwrap_or_default()
    }
}

/// The body of something that `you` say.
pub(crate) fn words(text: &str, id: u128) -> Value {
    // Version 4, as clients choose them.
    let id = uuid::Builder::from_random_bytes(id.to_be_bytes()).into_uuid();
    json!({"text": text, "sender": "owner", "id": id})
}

/// Says it at home.
pub(crate) async fn say(client: &Client, body: &Value) -> Option<HttpAnswer> {
    client.post("/v1/spaces/home/messages", body, None).await
}

pub(crate) async fn ada(client: &Client) -> ProcessedEvent {
    history::lived(client, "ada").await.unwrap()
}

pub(crate) async fn at_home(client: &Client) -> Vec<Wording> {
    history::messages(client, "home").await.unwrap()
}

/// Asks until it is so; panics with what was last seen.
pub(crate) async fn until<T: std::fmt::Debug>(
    what: &str,
    mut ask: impl AsyncFnMut() -> T,
    so: impl Fn(&T) -> bool,
) -> T {
    let begun = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    loop {
        tick.tick().await;
        let seen = ask().await;
        if so(&seen) {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: still {seen:?}");
    }
}

/// Waits until all events of ada are settled; the events.
pub(crate) async fn settled(client: &Client, events: usize) -> Vec<Happened> {
    let all = |events: &Vec<Happened>| events.iter().all(|event| event.state != "waiting");
    let seen = async || ada(client).await.events;
    until("her events", seen, |seen| seen.len() >= events && all(seen)).await
}
