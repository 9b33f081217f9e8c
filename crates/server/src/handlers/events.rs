//! Events sent to an agent, and its ledger.

use std::sync::Arc;

use agent::event::{Event, EventProgress};
use agent::id::{AgentId, EventId};
use agent::limits;
use agent::port::{Accept, Accepted, SentAgain};
use agent::update::{Topic, Update};
use axum::Json;
use axum::extract::State;
use serde_json::Value;

use super::agents::agent_called;
use crate::api::{EVENT_STATES, EventAccepted, InboxQuery, LoggedEvent, NewEvent, PageJson};
use crate::app_state::{AppState, HallState};
use crate::auth::Caller;
use crate::extract::{At, Body, Idempotency, Query, page, to_the_end};
use crate::problem::{Code, Made, Problem};

/// Sends an event to an agent. Durable when answered; under one `Idempotency-Key` it is processed once.
#[utoipa::path(post, path = "/v1/agents/{agent}/events", tag = "events", request_body = NewEvent,
    params(("agent" = String, Path, description = "Id or handle."),
           ("idempotency-key" = Option<String>, Header, description = "1 to 200 printable characters.")),
    responses((status = 201, description = "Accepted.", body = EventAccepted),
              (status = 200, description = "Accepted before.", body = EventAccepted)))]
pub(super) async fn send(
    State(app): HallState,
    At(name): At<String>,
    caller: Caller,
    idempotency: Idempotency,
    body: Body<NewEvent>,
) -> Result<Made<EventAccepted>, Problem> {
    let to = agent_called(&app, &name).await?.id;
    let request = idempotency.request(caller.credential.id, &format!("event {to}"), &body.raw);
    let NewEvent { service, payload, urgent } = body.value;
    let payload = payload.unwrap_or(Value::Null);
    check_service(&service, &payload)?;
    let id = fresh_id(&app, &caller, &idempotency);
    let credential = caller.credential.id.to_string();
    let event = Event::of_service(id.clone(), credential, service, payload, app.ports.clock.now());
    let event = Event { urgent, ..event };
    to_the_end(async move {
        let place = place(to, &id);
        match app.ports.store.accept(Accept::Event(to, event), request).await? {
            Accepted::Fresh { wake, .. } => {
                failpoint::hit!("accept.committed");
                app.node.signal(&wake);
                publish_progress(&app, to, id.clone(), EventProgress::Waiting);
                Ok(Made::At(place, EventAccepted { event_id: id, duplicate: false }))
            }
            Accepted::Duplicate { .. } => Ok(Made::Before(EventAccepted { event_id: id, duplicate: true })),
            Accepted::Conflict => Err(reused()),
            Accepted::Denied(denial) => Err(denial.into()),
        }
    })
    .await
}

/// The id of a new event: the same for the same key of the same credential.
fn fresh_id(app: &AppState, caller: &Caller, idempotency: &Idempotency) -> EventId {
    // The prefix is ours and the credential's id is in it: no client reaches another's ids.
    EventId(match &idempotency.0 {
        Some(key) => format!("api:{}:{key}", caller.credential.id),
        None => app.ports.ids.uuid().to_string(),
    })
}

fn place(agent: AgentId, event: &EventId) -> String {
    format!("/v1/agents/{agent}/events/{}", percent(&event.0))
}

fn check_service(service: &str, payload: &Value) -> Result<(), Problem> {
    let fits = (1..=limits::KEY_MAX_BYTES).contains(&service.len()) && !service.chars().any(char::is_control);
    if !fits {
        let detail =
            format!("`service` must be 1 to {} bytes without control characters", limits::KEY_MAX_BYTES);
        return Err(Problem::new(Code::BadValue, detail));
    }
    let size = payload.to_string().len();
    if size > limits::PAYLOAD_MAX_BYTES {
        let detail = format!("`payload` must be at most {} bytes, got {size}", limits::PAYLOAD_MAX_BYTES);
        return Err(Problem::new(Code::BadValue, detail));
    }
    Ok(())
}

/// Tells watchers of an agent how far an event of its inbox has come.
pub(super) fn publish_progress(app: &AppState, agent: AgentId, event: EventId, progress: EventProgress) {
    let update = Update::EventProgress { agent, event, progress, cycle: None, step: None };
    app.ports.live.bus().publish(&[Topic::Agent(agent)], Arc::new(update));
}

/// The refusal of a reused idempotency key.
pub(super) fn reused() -> Problem {
    Problem::new(Code::KeyReused, "`idempotency-key` was used for another request")
        .hint("use a new key for a new request")
}

/// One path segment.
fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// One event of an agent and what became of it.
#[utoipa::path(get, path = "/v1/agents/{agent}/events/{event}", tag = "events",
    params(("agent" = String, Path, description = "Id or handle."),
           ("event" = String, Path, description = "The event's id.")),
    responses((status = 200, description = "The event.", body = LoggedEvent)))]
pub(super) async fn get(
    State(app): HallState,
    At((name, event)): At<(String, String)>,
) -> Result<Json<LoggedEvent>, Problem> {
    let agent = agent_called(&app, &name).await?.id;
    logged(&app, agent, &event).await
}

async fn logged(app: &AppState, agent: AgentId, event: &str) -> Result<Json<LoggedEvent>, Problem> {
    let found = app.ports.reader.event(agent, EventId(event.to_owned())).await?;
    Ok(Json(found.ok_or_else(|| Problem::not_found("event", event))?.into()))
}

/// Takes back an event that waits or is held. What the open cycle has taken is refused: cancel the
/// cycle instead.
#[utoipa::path(post, path = "/v1/agents/{agent}/events/{event}/cancel", tag = "events",
    params(("agent" = String, Path, description = "Id or handle."),
           ("event" = String, Path, description = "The event's id.")),
    responses((status = 200, description = "The event as it is now.", body = LoggedEvent)))]
pub(super) async fn cancel(
    State(app): HallState,
    At((name, event)): At<(String, String)>,
) -> Result<Json<LoggedEvent>, Problem> {
    let agent = agent_called(&app, &name).await?.id;
    to_the_end(async move {
        app.ports.registry.cancel_event(agent, EventId(event.clone())).await?;
        // Whoever is just waking with it must look again.
        app.node.look(agent);
        publish_progress(&app, agent, EventId(event.clone()), EventProgress::Canceled);
        logged(&app, agent, &event).await
    })
    .await
}

/// Gives a dead event up for good; its row in the ledger stays.
#[utoipa::path(post, path = "/v1/agents/{agent}/events/{event}/drop", tag = "events",
    params(("agent" = String, Path, description = "Id or handle."),
           ("event" = String, Path, description = "The event's id.")),
    responses((status = 200, description = "The event as it is now.", body = LoggedEvent)))]
pub(super) async fn give_up(
    State(app): HallState,
    At((name, event)): At<(String, String)>,
) -> Result<Json<LoggedEvent>, Problem> {
    let agent = agent_called(&app, &name).await?.id;
    to_the_end(async move {
        app.ports.registry.drop_event(agent, EventId(event.clone())).await?;
        publish_progress(&app, agent, EventId(event.clone()), EventProgress::Dropped);
        logged(&app, agent, &event).await
    })
    .await
}

/// Sends an event again. A dead one waits again, and its attempts start again at zero; a held one is released with
/// all that is held of its space; a processed or skipped one is sent as a new event that cites it.
#[utoipa::path(post, path = "/v1/agents/{agent}/events/{event}/retry", tag = "events",
    params(("agent" = String, Path, description = "Id or handle."),
           ("event" = String, Path, description = "The event's id."),
           ("idempotency-key" = Option<String>, Header, description = "1 to 200 printable characters.")),
    responses((status = 201, description = "Sent as a new event.", body = EventAccepted),
              (status = 200, description = "It waits again, or was sent again before.", body = EventAccepted)))]
pub(super) async fn retry(
    State(app): HallState,
    At((name, event)): At<(String, String)>,
    caller: Caller,
    idempotency: Idempotency,
) -> Result<Made<EventAccepted>, Problem> {
    let agent = agent_called(&app, &name).await?.id;
    let request = idempotency.request(caller.credential.id, &format!("retry {agent} {event}"), &[]);
    let fresh = fresh_id(&app, &caller, &idempotency);
    let at = app.ports.clock.now();
    to_the_end(async move {
        let old = EventId(event);
        let sent = app.ports.registry.send_again(agent, old.clone(), fresh, request, at).await?;
        match sent {
            SentAgain::Waits(wake) => {
                app.node.signal(wake.as_slice());
                publish_progress(&app, agent, old.clone(), EventProgress::Waiting);
                Ok(Made::Before(EventAccepted { event_id: old, duplicate: false }))
            }
            SentAgain::Anew(event_id, wake) => {
                app.node.signal(wake.as_slice());
                publish_progress(&app, agent, event_id.clone(), EventProgress::Waiting);
                let place = place(agent, &event_id);
                Ok(Made::At(place, EventAccepted { event_id, duplicate: false }))
            }
            SentAgain::Before(event_id) => Ok(Made::Before(EventAccepted { event_id, duplicate: true })),
            SentAgain::Conflict => Err(reused()),
        }
    })
    .await
}

/// An agent's ledger, newest first.
#[utoipa::path(get, path = "/v1/agents/{agent}/inbox", tag = "events",
    params(("agent" = String, Path, description = "Id or handle."), InboxQuery),
    responses((status = 200, description = "A page.", body = PageJson<LoggedEvent>)))]
pub(super) async fn inbox(
    State(app): HallState,
    At(name): At<String>,
    Query(query): Query<InboxQuery>,
) -> Result<Json<PageJson<LoggedEvent>>, Problem> {
    if let Some(state) = query.state.as_deref().filter(|state| !EVENT_STATES.contains(state)) {
        let shown: String = state.chars().take(80).collect();
        return Err(Problem::new(Code::BadQuery, format!("`state`: no event state is `{shown}`"))
            .hint(format!("known are `{}`", EVENT_STATES.join("`, `"))));
    }
    let which = page(query.cursor, query.limit)?;
    let agent = agent_called(&app, &name).await?.id;
    let found = app.ports.reader.inbox(agent, query.state, which).await?;
    Ok(Json(PageJson::of(found, LoggedEvent::from)))
}
