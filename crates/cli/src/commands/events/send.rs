//! `viv events send`: sends an agent an event, as a service would.

use agent::limits;
use api::{EventAccepted, NewEvent};
use serde_json::Value;

use crate::args::EventArgs;
use crate::errors::{Failure, Result};
use crate::input;
use crate::output::{Screen, shortened};
use client::{Client, ErrorClass, segment, typed};

/// Columns of a wrong payload that are quoted.
const GOT_COLUMNS: usize = 40;

pub(super) async fn run(client: &Client, screen: &Screen, args: EventArgs) -> Result<()> {
    let payload = match args.payload.as_deref() {
        Some("-") => Some(input::text(limits::PAYLOAD_MAX_BYTES)?),
        None if input::is_piped() => Some(input::piped_text(limits::PAYLOAD_MAX_BYTES)?),
        given => given.map(str::to_owned),
    };
    let payload = payload.filter(|text| !text.trim().is_empty());
    let payload = payload.as_deref().map(serde_json::from_str::<Value>).transpose().map_err(|_| {
        let got = shortened(payload.as_deref().unwrap_or_default(), GOT_COLUMNS);
        Failure::usage(format!("wanted JSON as the payload, got `{got}`"))
            .hint("a text needs JSON quotes: '\"like this\"'")
    })?;
    let body = NewEvent { service: args.service, payload, urgent: args.urgent };
    let path = format!("/v1/agents/{}/events", segment(&args.agent));
    let answer = match client.post(&path, &body, args.key.as_deref()).await {
        // Whoever may read agents learns which one was meant.
        Err(missing) if missing.class == ErrorClass::NotFound => {
            return Err(client.agent(&args.agent).await.err().unwrap_or(missing).into());
        }
        answer => answer?,
    };
    let accepted: EventAccepted = typed(&path, answer.clone())?;
    let result = if accepted.duplicate { "had already accepted it" } else { "accepted it" };
    let without = if body.payload.is_none() { " without a payload" } else { "" };
    screen.result(&answer, &format!("`{}` {result}{without}: event {}", args.agent, accepted.event_id));
    Ok(())
}
