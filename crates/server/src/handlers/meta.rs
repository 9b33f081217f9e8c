//! The server itself: health, readiness, the document, whose key it is.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::api::{Health, ModelSummary, ReadyJson, Whoami};
use crate::app_state::HallState;
use crate::auth::Caller;

use crate::problem::Problem;

/// Whether the process answers.
#[utoipa::path(get, path = "/v1/health", tag = "server",
    responses((status = 200, description = "It does.", body = Health)))]
pub(super) async fn health(State(app): HallState) -> Json<Health> {
    Json(Health { status: "ok".to_owned(), version: app.options.version.clone() })
}

/// Whether the server can do its work: the store answers.
#[utoipa::path(get, path = "/v1/ready", tag = "server",
    responses((status = 200, description = "It can.", body = ReadyJson)))]
pub(super) async fn ready(State(app): HallState) -> Result<Json<ReadyJson>, Problem> {
    let totals = app.ports.reader.totals().await?;
    let model = app.ports.models.model(None).ok().map(|model| {
        let info = model.info();
        ModelSummary { name: info.name.clone(), demo: info.demo, context_window: info.context_window }
    });
    Ok(Json(ReadyJson { ready: true, version: app.options.version.clone(), model, totals }))
}

/// This document, OpenAPI 3.1.
#[utoipa::path(get, path = "/openapi.json", tag = "server",
    responses((status = 200, description = "The document.", body = Object)))]
pub(super) async fn document(State(app): HallState) -> Result<impl IntoResponse, Problem> {
    let document = app.document.get().cloned();
    let document = document.ok_or_else(|| Problem::internal(&"the document was not made"))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], document))
}

/// Whose key this is.
#[utoipa::path(get, path = "/v1/whoami", tag = "server",
    responses((status = 200, description = "Whose.", body = Whoami)))]
pub(super) async fn whoami(State(app): HallState, caller: Caller) -> Result<Json<Whoami>, Problem> {
    let Some(id) = caller.entity() else {
        return Ok(Json(Whoami { kind: "admin".to_owned(), entity: None }));
    };
    let entity = app.ports.reader.entity(id.to_string()).await?;
    Ok(Json(Whoami { kind: "entity".to_owned(), entity: entity.map(Into::into) }))
}
