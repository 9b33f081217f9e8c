//! `viv event`: sends an agent an event, as a service would.

use agent::limits;
use api::{EventAccepted, NewEvent};
use serde_json::Value;

use crate::args::EventArgs;
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::output::Screen;
use client::{Client, segment, typed};

/// Sends the event.
pub(crate) async fn run(client: Client, screen: Screen, args: EventArgs) -> Result<Exit> {
    let payload = match args.payload.as_deref() {
        Some("-") => Some(input::text(limits::PAYLOAD_MAX_BYTES)?),
        None if input::is_piped() => {
            Some(input::piped_text(limits::PAYLOAD_MAX_BYTES)?).filter(|text| !text.trim().is_empty())
        }
        given => given.map(str::to_owned),
    };
    let payload = payload.as_deref().map(serde_json::from_str::<Value>).transpose().map_err(|error| {
        Failure::usage(format!("wanted JSON as the payload: {error}"))
            .hint("a text needs JSON quotes: '\"like this\"'")
    })?;
    let body = NewEvent { service: args.service, payload, urgent: args.urgent };
    let path = format!("/v1/agents/{}/events", segment(&args.agent));
    let answer = client.post(&path, &body, args.key.as_deref()).await?;
    let accepted: EventAccepted = typed(&path, answer.clone())?;
    let result = if accepted.duplicate { "had already accepted it" } else { "accepted it" };
    screen.result(&answer, &format!("`{}` {result}: event {}", args.agent, accepted.event_id));
    Ok(Exit::Answered)
}
