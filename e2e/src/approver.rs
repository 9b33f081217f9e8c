//! The person of the torture worlds who answers calls that wait for one: yes or no, always the same to the same call.

use std::time::Duration;

use api::{ApprovalJson, PageJson};
use serde_json::{Value, json};

use crate::client::HttpClient;
use crate::counter::ApprovedTickets;

/// How often the person looks.
const LOOKS: Duration = Duration::from_millis(40);
/// Failed requests in a row after which the server is taken to be dead.
const FAILURES: u32 = 3;

/// Whether the person approves the call with that id.
pub fn approves(call: &str) -> bool {
    call.bytes().map(u32::from).sum::<u32>() % 3 != 0
}

/// Answers whatever waits, until the server is gone.
pub async fn answer_all(client: HttpClient, approved: ApprovedTickets) {
    let mut failures = 0;
    while failures < FAILURES {
        tokio::time::sleep(LOOKS).await;
        match client.get::<PageJson<ApprovalJson>>("/v1/approvals").await {
            Ok(page) => {
                failures = 0;
                for one in page.items {
                    let verdict = if approves(&one.call.0) { "approve" } else { "refuse" };
                    let arguments: Value = serde_json::from_str(&one.arguments).unwrap_or_default();
                    if let Some(ticket) = arguments["ticket"].as_str().filter(|_| verdict == "approve") {
                        approved.note(ticket.to_owned());
                    }
                    let path = format!("/v1/approvals/{}/answer", one.call);
                    // Without an answer it is asked again, and then the first one counts.
                    drop(client.post(&path, &json!({"verdict": verdict}), None).await);
                }
            }
            Err(_) => failures += 1,
        }
    }
}
