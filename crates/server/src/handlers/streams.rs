//! The event streams.

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::agents::agent_called;
use crate::app_state::HallState;
use crate::auth::{Caller, InSpace};
use crate::extract::At;
use crate::problem::Problem;
use crate::stream::{SocketTakeover, Subject, last_seen, open};

/// Everything that happens on the server, as it happens: `text/event-stream`. First a `snapshot` of the
/// agents at work; then everything of the streams of spaces and agents, except `thought` and `commit`.
/// Nothing has an `id`: a client that was away reads `/v1/recent`. If updates were lost, a `snapshot` comes
/// again. Before the end, `closed` says why.
#[utoipa::path(get, path = "/v1/stream", tag = "streams",
    responses((status = 200, description = "The stream.", body = String, content_type = "text/event-stream")))]
pub(super) async fn everything(
    State(app): HallState,
    caller: Caller,
    line: Option<Extension<SocketTakeover>>,
) -> Result<Response, Problem> {
    Ok(open(app, caller, Subject::Everything, None, line.map(|Extension(line)| line)))
}

/// What happens in a space, as it happens: `text/event-stream`. First a `snapshot`; then `message`,
/// `member`, `draft`, `tool.input`, `draft.reset`, `agent.state`, `cycle.ended`. A call of a visible
/// tool is a message of kind `tool`, sent again under the same id when it changes; other calls are sent
/// only on the agent's stream. The `message` of a `message` is as `GET …/messages` has it, with `sender_name`
/// and `sender_kind`. An `agent.state` of an agent that cannot think has a `rest` with its `reason` and `until`;
/// only operators get the reason in words. Durable ones (`message`, `member`) carry the space's `rev` as `id`;
/// `Last-Event-ID` replays messages after it, or a `gap` says that they are too many. Before the end,
/// `closed` says why.
#[utoipa::path(get, path = "/v1/spaces/{space}/stream", tag = "streams",
    params(("space" = String, Path, description = "Id or handle."),
           ("last-event-id" = Option<u64>, Header, description = "The last `id` seen.")),
    responses((status = 200, description = "The stream.", body = String, content_type = "text/event-stream")))]
pub(super) async fn space(
    State(app): HallState,
    caller: Caller,
    InSpace(space): InSpace,
    headers: HeaderMap,
    line: Option<Extension<SocketTakeover>>,
) -> Result<Response, Problem> {
    let seen = last_seen(&headers)?;
    Ok(open(app, caller, Subject::Space(space.id), seen, line.map(|Extension(line)| line)))
}

/// What an agent does, as it does it: `text/event-stream`. First a `snapshot`; then `agent.state`,
/// `draft`, `tool.input`, `draft.reset`, `tool.started`, then `tool.done` (with its `status`: `ok`, or
/// `pending` where the answer comes later) or, for a call that failed, `tool.error` (with the `reason`);
/// `event.progress` (how far an event of its inbox has come: `waiting`, `taken`, `shown`, then `addressed`, `read`,
/// `skipped`, `canceled` or `dead`), `thought`, `commit`, `cycle.ended`. The durable ones (`commit`) carry the number
/// of the commit as `id`; `Last-Event-ID` replays those after it, or a `gap` says that they are too many. Before
/// the end, `closed` says why.
#[utoipa::path(get, path = "/v1/agents/{agent}/stream", tag = "streams",
    params(("agent" = String, Path, description = "Id or handle."),
           ("last-event-id" = Option<u64>, Header, description = "The last `id` seen.")),
    responses((status = 200, description = "The stream.", body = String, content_type = "text/event-stream")))]
pub(super) async fn agent(
    State(app): HallState,
    caller: Caller,
    At(name): At<String>,
    headers: HeaderMap,
    line: Option<Extension<SocketTakeover>>,
) -> Result<Response, Problem> {
    let seen = last_seen(&headers)?;
    let id = agent_called(&app, &name).await?.id;
    Ok(open(app, caller, Subject::Agent(id), seen, line.map(|Extension(line)| line)))
}
