//! A server for one test: the person `owner`, the agent `ada`, the space `home`, a stub of a model, a counter.

use std::time::{Duration, Instant};

use e2e::binary::{self, Faults, Launch, ServerProcess};
use e2e::client::{HttpAnswer, HttpClient};
use e2e::counter::Counter;
use e2e::history::{self, AgentTrace, HistoryMessage, InboxEvent};
use e2e::stub::ModelServer;
use serde_json::{Value, json};

/// The timeout of every wait.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Harness {
    /// The model stub; it runs until it is dropped.
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
            shipped: false,
        };
        Self { stub, counter, launch, dir, key: String::new() }
    }

    /// Starts a process and waits until it is ready.
    pub(crate) async fn start(&mut self, faults: &Faults) -> (ServerProcess, HttpClient) {
        self.try_start(faults).await.expect("the server becomes ready")
    }

    /// The same; `None` if the process died before it was ready.
    pub(crate) async fn try_start(&mut self, faults: &Faults) -> Option<(ServerProcess, HttpClient)> {
        let mut process = self.launch.start(faults).unwrap();
        let (ready, _) = process.ready().await.unwrap_or_else(|why| panic!("{why}"))?;
        if let Some(key) = ready.admin_key {
            self.key = key;
        }
        Some((process, HttpClient::new(&ready.url, &self.key).unwrap()))
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.launch.log).unwrap_or_default()
    }
}

/// The body of a message of `owner`.
pub(crate) fn message_body(text: &str, id: u128) -> Value {
    // A UUID of version 4, which clients may choose.
    let id = uuid::Builder::from_random_bytes(id.to_be_bytes()).into_uuid();
    json!({"text": text, "sender": "owner", "id": id})
}

/// Posts a message in `home`.
pub(crate) async fn post(client: &HttpClient, body: &Value) -> Option<HttpAnswer> {
    client.post("/v1/spaces/home/messages", body, None).await
}

pub(crate) async fn ada(client: &HttpClient) -> AgentTrace {
    history::agent(client, "ada").await.unwrap()
}

pub(crate) async fn home_messages(client: &HttpClient) -> Vec<HistoryMessage> {
    history::messages(client, "home").await.unwrap()
}

/// Repeats `ask` until the value is `accepted`; panics with the last value after the timeout.
pub(crate) async fn wait_for<T: std::fmt::Debug>(
    what: &str,
    mut ask: impl AsyncFnMut() -> T,
    accepted: impl Fn(&T) -> bool,
) -> T {
    let begun = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    loop {
        tick.tick().await;
        let seen = ask().await;
        if accepted(&seen) {
            return seen;
        }
        assert!(begun.elapsed() < TIMEOUT, "{what}: still {seen:?}");
    }
}

/// Waits until all events of ada are settled; returns them.
pub(crate) async fn wait_until_settled(client: &HttpClient, events: usize) -> Vec<InboxEvent> {
    let all = |events: &Vec<InboxEvent>| events.iter().all(|event| event.state != "waiting");
    let seen = async || ada(client).await.events;
    wait_for("the events of ada", seen, |seen| seen.len() >= events && all(seen)).await
}
