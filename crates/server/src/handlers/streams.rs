//! The event streams.

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::agents::find_agent;
use crate::app_state::SharedState;
use crate::auth::{Caller, InSpace};
use crate::extract::{Named, PathParam};
use crate::frames::{AgentFrame, ServerFrame, SpaceFrame};
use crate::problem::Problem;
use crate::serve::HangUp;
use crate::stream::{Subject, last_seen, open};

/// Streams everything that happens on the server (`text/event-stream`). The first event is a `snapshot` with the
/// agents that are running a cycle. It is followed by the events of all streams of spaces and agents, except
/// `thought` and `commit`. Events have no `id`: a client that was disconnected reads `/v1/recent`. If updates were
/// lost, a new `snapshot` is sent. The last event is `closed`, with the reason.
#[utoipa::path(get, path = "/v1/stream", tag = "streams",
    responses((status = 200, description = "The stream.", body = ServerFrame, content_type = "text/event-stream")))]
pub(super) async fn server_stream(
    State(app): SharedState,
    caller: Caller,
    hang_up: Option<Extension<HangUp>>,
) -> Result<Response, Problem> {
    open(app, caller, Subject::Everything, None, hang_up.map(|Extension(hang_up)| hang_up))
}

/// Streams what happens in a space (`text/event-stream`). The first event is a `snapshot`. It is followed by
/// `message`, `member`, `draft`, `tool.input`, `draft.reset`, `agent.state` and `cycle.ended`. The field `message` of
/// the event `message` has the same form as in `GET …/messages`. A call of a visible tool is a message of kind
/// `tool`, which is sent again under the same id when it changes; other calls are sent only on the stream of the
/// agent. An `agent.state` of an agent that is backing off has an object `idle` with `reason` and `until`; the reason
/// as text is sent only with an admin key. Durable events (`message`, `member`) have the space's `rev` as `id`. With
/// `Last-Event-ID` the messages after that id are replayed; if there are too many, a `gap` is sent instead. The last
/// event is `closed`, with the reason.
#[utoipa::path(get, path = "/v1/spaces/{space}/stream", tag = "streams",
    params(("space" = String, Path, description = "Id or handle."),
           ("last-event-id" = Option<u64>, Header, description = "The last `id` that the client received.")),
    responses((status = 200, description = "The stream.", body = SpaceFrame, content_type = "text/event-stream")))]
pub(super) async fn space(
    State(app): SharedState,
    caller: Caller,
    InSpace(space): InSpace,
    headers: HeaderMap,
    hang_up: Option<Extension<HangUp>>,
) -> Result<Response, Problem> {
    let seen = last_seen(&headers)?;
    open(app, caller, Subject::Space(space.id), seen, hang_up.map(|Extension(hang_up)| hang_up))
}

/// Streams what an agent does (`text/event-stream`). The first event is a `snapshot`. It is followed by
/// `agent.state`, `draft`, `tool.input`, `draft.reset`, `thought`, `commit`, `cycle.ended`, the progress of tool calls
/// and the progress of events. A tool call is `tool.started`, then `tool.done` with a `status` (`ok`, or `pending` if
/// the result comes later), or `tool.error` with a `reason`. An `event.progress` has the progress of an event in the
/// inbox: `waiting`, `taken`, `shown`, then `addressed`, `read`, `skipped`, `canceled` or `dead`. Durable events
/// (`commit`) have the number of the commit as `id`. With `Last-Event-ID` the commits after that id are replayed; if
/// there are too many, a `gap` is sent instead. The last event is `closed`, with the reason.
#[utoipa::path(get, path = "/v1/agents/{agent}/stream", tag = "streams",
    params(("agent" = String, Path, description = "Id or handle."),
           ("last-event-id" = Option<u64>, Header, description = "The last `id` that the client received.")),
    responses((status = 200, description = "The stream.", body = AgentFrame, content_type = "text/event-stream")))]
pub(super) async fn agent(
    State(app): SharedState,
    caller: Caller,
    PathParam(name): PathParam<Named>,
    headers: HeaderMap,
    hang_up: Option<Extension<HangUp>>,
) -> Result<Response, Problem> {
    let seen = last_seen(&headers)?;
    let id = find_agent(&app, &name).await?.id;
    open(app, caller, Subject::Agent(id), seen, hang_up.map(|Extension(hang_up)| hang_up))
}
