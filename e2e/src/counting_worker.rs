//! A worker of the torture worlds: runs calls of the counted tools by telling the counter that they happened.

use agent::call::Runner;
use api::ClaimedCallJson;
use client::{Client, ClientError, ErrorClass, Worker};
use e2e::counted::COUNTED;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

const CALLS_AT_ONCE: usize = 2;

#[tokio::main(flavor = "current_thread")]
async fn main() -> client::Result<()> {
    let wrong = |what: String| ClientError::new(ErrorClass::Usage, "setting", what);
    let counter = std::env::var("VIV_COUNTER").map_err(|error| wrong(format!("VIV_COUNTER: {error}")))?;
    let mut worker = Worker::new(Client::find(".viv".into())?).at_once(CALLS_AT_ONCE);
    let http = net::client().map_err(wrong)?.build().map_err(|error| wrong(error.to_string()))?;
    for tool in COUNTED.iter().filter(|tool| tool.runner == Runner::Worker) {
        let (http, counter) = (http.clone(), counter.clone());
        worker = worker.tool(tool.name, "1", move |call| count(http.clone(), counter.clone(), call));
    }
    let mut terminated =
        signal(SignalKind::terminate()).map_err(|error| wrong(format!("no signals: {error}")))?;
    worker.run_until(async move { terminated.recv().await.unwrap_or_default() }).await
}

async fn count(http: reqwest::Client, counter: String, call: ClaimedCallJson) -> Result<Value, String> {
    let body = json!({"tool": call.tool, "ticket": call.arguments["ticket"], "claims": call.times});
    let request = http.post(counter).header("idempotency-key", &call.call.0).json(&body);
    let answer = request.send().await.and_then(reqwest::Response::error_for_status);
    answer.map(|_| json!("counted")).map_err(|error| error.to_string())
}
