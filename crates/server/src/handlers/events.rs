//! Events of an agent: send, read, cancel, retry, drop, list.

use std::sync::Arc;

use agent::event::{Event, EventProgress, Trust};
use agent::id::{AgentId, EventId};
use agent::limits;
use agent::port::{Accept, Accepted, InboxFilter, RequestKey, Scope, SentAgain};
use agent::quote::is_hidden;
use agent::update::{Topic, Update};
use axum::Json;
use axum::extract::State;
use serde_json::Value;

use super::agents::find_agent;
use super::denied::{denied, refused};
use crate::app_state::{AppState, SharedState};
use crate::auth::Caller;
use crate::extract::{Exact, Named, PathParam, Sent, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done, Once, key_reused};
use crate::problem::{Code, Problem, WriteResponse};
use api::{EVENT_STATES, EventAccepted, InboxQuery, LoggedEvent, NewEvent, PageJson};

/// Sends an event to an agent. After the response the event is on disk. Sent again with the same
/// `Idempotency-Key`, it is processed only once.
#[utoipa::path(post, path = "/v1/agents/{agent}/events", tag = "events", request_body = NewEvent,
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 201, description = "The event is accepted.", body = EventAccepted),
              (status = 200, description = "The event was accepted before.", body = EventAccepted)))]
pub(super) async fn send(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    caller: Caller,
    Change { body: Sent(new), once }: Change<Sent<NewEvent>>,
) -> Result<Done<WriteResponse<EventAccepted>>, Problem> {
    let to = find_agent(&app, &name).await?.id;
    let NewEvent { service, payload, urgent } = new;
    let payload = payload.unwrap_or(Value::Null);
    check_service_name("service", &service)?;
    check_sender(&caller, &service)?;
    check_payload(&payload)?;
    let id = new_event_id(&app, &once);
    let credential = caller.credential.id.to_string();
    let event = Event::of_service(id, credential, service, payload, app.ports.clock.now());
    let mut event = Event { urgent, ..event };
    if let Scope::Service(_) = caller.credential.scope {
        // A service passes on what others wrote.
        event.envelope.trust = Trust::Outside;
    }
    accept_once(app, to, event, once).await
}

/// Gives the agent an event, once for each request.
pub(super) async fn accept_once(
    app: Arc<AppState>,
    to: AgentId,
    event: Event,
    once: Once,
) -> Result<Done<WriteResponse<EventAccepted>>, Problem> {
    run_to_completion(async move {
        let id = event.id.clone();
        let accept = async |request| match app.ports.store.accept(Accept::Event(to, event), request).await? {
            Accepted::Fresh { wake, .. } => {
                failpoint::hit!("accept.committed");
                app.node.signal(&wake);
                publish_progress(&app, to, id.clone(), EventProgress::Waiting);
                let location = event_location(to, &id);
                Ok(WriteResponse::Created(location, EventAccepted { id, duplicate: false }))
            }
            Accepted::Duplicate { .. } => Ok(WriteResponse::Existing(EventAccepted { id, duplicate: true })),
            Accepted::Conflict => Err(key_reused()),
            Accepted::Denied(denial) => Err(denied(&app, denial).await),
        };
        once.in_store(accept).await
    })
    .await
}

/// The id of a new event. The same request with the same idempotency key yields the same id. It is hashed: the id is in paths,
/// and it is the `root` of messages that others read.
pub(super) fn new_event_id(app: &AppState, once: &Once) -> EventId {
    let fixed = once.fixed_id("event").map(|id| format!("api:{id}"));
    EventId(fixed.unwrap_or_else(|| app.ports.ids.uuid().to_string()))
}

fn event_location(agent: AgentId, event: &EventId) -> String {
    format!("/v1/agents/{agent}/events/{}", percent_encode(&event.0))
}

/// Checks the name of a service; the error names the field.
pub(super) fn check_service_name(field: &str, service: &str) -> Result<(), Problem> {
    if (1..=limits::KEY_MAX_BYTES).contains(&service.len()) && !service.chars().any(is_hidden) {
        return Ok(());
    }
    let most = limits::KEY_MAX_BYTES;
    let detail = format!(
        "`{field}`: the service must have 1 to {most} bytes without control characters and other invisible ones"
    );
    Err(Problem::new(Code::BadValue, detail))
}

/// Checks that the key may send events of this service.
fn check_sender(caller: &Caller, service: &str) -> Result<(), Problem> {
    match &caller.credential.scope {
        Scope::Service(own) if own != service => {
            let detail = format!("this key can send events only as the service `{own}`");
            Err(Problem::new(Code::Forbidden, detail).hint(format!("set `service` to `{own}`")))
        }
        _ => Ok(()),
    }
}

fn check_payload(payload: &Value) -> Result<(), Problem> {
    let size = payload.to_string().len();
    if size > limits::PAYLOAD_MAX_BYTES {
        let detail = format!("`payload` must be at most {} bytes, got {size}", limits::PAYLOAD_MAX_BYTES);
        return Err(Problem::new(Code::BadValue, detail));
    }
    Ok(())
}

/// Publishes the progress of an event to the streams of its agent.
pub(super) fn publish_progress(app: &AppState, agent: AgentId, event: EventId, progress: EventProgress) {
    let update = Update::EventProgress { agent, event, progress, cycle: None, step: None, reason: None };
    app.ports.live.bus().publish(&[Topic::Agent(agent)], Arc::new(update));
}

/// Percent-encodes a path segment.
fn percent_encode(text: &str) -> String {
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

/// Returns an event of an agent, with its state.
#[utoipa::path(get, path = "/v1/agents/{agent}/events/{event}", tag = "events",
    params(("agent" = String, Path, description = "Id or handle."),
           ("event" = String, Path, description = "The event's id.")),
    responses((status = 200, description = "The event.", body = LoggedEvent)))]
pub(super) async fn get(
    State(app): SharedState,
    PathParam((name, event)): PathParam<(Named, Exact)>,
) -> Result<Json<LoggedEvent>, Problem> {
    let agent = find_agent(&app, &name).await?.id;
    read_event(&app, agent, &event).await
}

async fn read_event(app: &AppState, agent: AgentId, event: &str) -> Result<Json<LoggedEvent>, Problem> {
    let found = app.ports.reader.event(agent, EventId(event.to_owned())).await?;
    Ok(Json(found.ok_or_else(|| Problem::not_found("event", event))?.into()))
}

/// Cancels an event that is waiting or held. An event that the open cycle has taken cannot be canceled: cancel the
/// cycle instead.
#[utoipa::path(post, path = "/v1/agents/{agent}/events/{event}/cancel", tag = "events",
    params(("agent" = String, Path, description = "Id or handle."),
           ("event" = String, Path, description = "The event's id.")),
    responses((status = 200, description = "The event as it is now.", body = LoggedEvent)))]
pub(super) async fn cancel(
    State(app): SharedState,
    PathParam((name, event)): PathParam<(Named, Exact)>,
    Change { once, .. }: Change<()>,
) -> Result<Done<Json<LoggedEvent>>, Problem> {
    let Exact(event) = event;
    let agent = find_agent(&app, &name).await?.id;
    run_to_completion(async move {
        let run = async || {
            app.ports.registry.cancel_event(agent, EventId(event.clone())).await?;
            // An activation that starts right now may have taken the event: it must check again.
            app.node.recheck(agent);
            publish_progress(&app, agent, EventId(event.clone()), EventProgress::Canceled);
            read_event(&app, agent, &event).await
        };
        once.change(run, async || read_event(&app, agent, &event).await).await
    })
    .await
}

/// Drops a dead event: it cannot be retried any more. The event stays listed in the inbox.
#[utoipa::path(post, path = "/v1/agents/{agent}/events/{event}/drop", tag = "events",
    params(("agent" = String, Path, description = "Id or handle."),
           ("event" = String, Path, description = "The event's id.")),
    responses((status = 200, description = "The event as it is now.", body = LoggedEvent)))]
pub(super) async fn drop_event(
    State(app): SharedState,
    PathParam((name, event)): PathParam<(Named, Exact)>,
    Change { once, .. }: Change<()>,
) -> Result<Done<Json<LoggedEvent>>, Problem> {
    let Exact(event) = event;
    let agent = find_agent(&app, &name).await?.id;
    run_to_completion(async move {
        let run = async || {
            app.ports.registry.drop_event(agent, EventId(event.clone())).await?;
            publish_progress(&app, agent, EventId(event.clone()), EventProgress::Dropped);
            read_event(&app, agent, &event).await
        };
        once.change(run, async || read_event(&app, agent, &event).await).await
    })
    .await
}

/// Retries an event. A dead event waits again, with its attempts reset to zero. A held event is released, together
/// with all held events of its space. A processed or skipped event is sent as a new event that refers to it.
#[utoipa::path(post, path = "/v1/agents/{agent}/events/{event}/retry", tag = "events",
    params(("agent" = String, Path, description = "Id or handle."),
           ("event" = String, Path, description = "The event's id.")),
    responses((status = 201, description = "Sent as a new event.", body = EventAccepted),
              (status = 200, description = "The event waits again, or was retried before.", body = EventAccepted)))]
pub(super) async fn retry(
    State(app): SharedState,
    PathParam((name, event)): PathParam<(Named, Exact)>,
    Change { once, .. }: Change<()>,
) -> Result<Done<WriteResponse<EventAccepted>>, Problem> {
    let Exact(event) = event;
    let agent = find_agent(&app, &name).await?.id;
    let fresh = new_event_id(&app, &once);
    run_to_completion(async move {
        let retry = async |request| send_again(&app, agent, EventId(event), fresh, request).await;
        once.in_store(retry).await
    })
    .await
}

async fn send_again(
    app: &AppState,
    agent: AgentId,
    old: EventId,
    fresh: EventId,
    request: Option<RequestKey>,
) -> Result<WriteResponse<EventAccepted>, Problem> {
    let at = app.ports.clock.now();
    let sent = match app.ports.registry.send_again(agent, old.clone(), fresh, request, at).await {
        Ok(sent) => sent,
        Err(error) => return Err(refused(app, error).await),
    };
    match sent {
        SentAgain::Waits(wake) => {
            app.node.signal(wake.as_slice());
            publish_progress(app, agent, old.clone(), EventProgress::Waiting);
            Ok(WriteResponse::Existing(EventAccepted { id: old, duplicate: false }))
        }
        SentAgain::AsNew(event_id, wake) => {
            app.node.signal(wake.as_slice());
            publish_progress(app, agent, event_id.clone(), EventProgress::Waiting);
            let location = event_location(agent, &event_id);
            Ok(WriteResponse::Created(location, EventAccepted { id: event_id, duplicate: false }))
        }
        SentAgain::Repeated(event_id) => {
            Ok(WriteResponse::Existing(EventAccepted { id: event_id, duplicate: true }))
        }
        SentAgain::Conflict => Err(key_reused()),
    }
}

/// Lists the events of an agent, newest first.
#[utoipa::path(get, path = "/v1/agents/{agent}/events", tag = "events",
    params(("agent" = String, Path, description = "Id or handle."), InboxQuery),
    responses((status = 200, description = "A page of events.", body = PageJson<LoggedEvent>)))]
pub(super) async fn inbox(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    list: List<InboxQuery>,
) -> Result<Listed<LoggedEvent>, Problem> {
    let query = &list.filters;
    if let Some(state) = query.state.as_deref().filter(|state| !EVENT_STATES.contains(state)) {
        let shown: String = state.chars().take(80).collect();
        return Err(Problem::new(Code::BadQuery, format!("`state`: there is no event state `{shown}`"))
            .hint(format!("known are `{}`", EVENT_STATES.join("`, `"))));
    }
    let agent = find_agent(&app, &name).await?.id;
    let filter = InboxFilter { state: query.state.clone(), kind: query.kind, since: query.since };
    let found = app.ports.reader.inbox(agent, filter, list.page.clone()).await?;
    Ok(list.answer(found, LoggedEvent::from))
}
