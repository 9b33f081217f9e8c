//! `viv event`: tells an agent what happened, as a service would.

use serde_json::{Value, json};

use crate::args::EventArgs;
use crate::client::{Client, segment};
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;

/// Sends it.
pub(crate) async fn run(client: Client, screen: Screen, args: EventArgs) -> Result<Exit> {
    let payload: Value = match &args.payload {
        None => Value::Null,
        Some(text) => serde_json::from_str(text).map_err(|error| {
            Failure::usage(format!("wanted JSON as the payload: {error}"))
                .hint("a text stands in quotes of its own: '\"like this\"'")
        })?,
    };
    let body = json!({"service": args.service, "payload": payload, "urgent": args.urgent});
    let path = format!("/v1/agents/{}/events", segment(&args.agent));
    let answer = client.post(&path, &body, args.key.as_deref()).await?;
    if screen.json {
        screen.json_line(&answer);
    } else {
        let before = answer["duplicate"] == json!(true);
        let said = if before { "was told that before" } else { "will hear of it" };
        screen.line(&screen.clean_line(&format!(
            "`{}` {said}: event {}",
            args.agent,
            answer["event_id"].as_str().unwrap_or("-")
        )));
    }
    Ok(Exit::Answered)
}
