//! The server itself: health, readiness, the OpenAPI document, the owner of a key.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;

use crate::app_state::SharedState;
use crate::auth::{Caller, authenticate};
use api::{Health, ModelSummary, ReadyJson, Whoami};

use crate::problem::Problem;

/// Mistakes in files that are shown.
const MISTAKES_SHOWN: usize = 20;

/// Returns whether the server process responds.
#[utoipa::path(get, path = "/v1/health", tag = "server",
    responses((status = 200, description = "The process responds.", body = Health)))]
pub(super) async fn health(State(app): SharedState) -> Json<Health> {
    Json(Health { status: "ok".to_owned(), version: app.options.version.clone() })
}

/// Returns whether the server can serve requests: it reads from the store. It also says how many files of agents and tools are
/// not in use because of mistakes in them, which is no reason not to serve. With an admin key the answer has these mistakes,
/// and counts of the whole store, too.
#[utoipa::path(get, path = "/v1/ready", tag = "server",
    responses((status = 200, description = "The server is ready.", body = ReadyJson)))]
pub(super) async fn ready(State(app): SharedState, headers: HeaderMap) -> Result<Json<ReadyJson>, Problem> {
    let totals = app.ports.reader.totals().await?;
    let caller = if headers.contains_key(header::AUTHORIZATION) {
        authenticate(&app, &headers).await.ok()
    } else {
        None
    };
    let operator = caller.is_some_and(|caller| caller.is_operator());
    let (totals, settings) = match operator {
        true => (Some(totals), app.options.settings.clone()),
        false => (None, None),
    };
    let found = app.options.mistakes.read().await;
    let broken_files = found.iter().map(|mistake| &mistake.file).collect::<BTreeSet<_>>().len();
    let shown = found.into_iter().filter(|_| operator);
    let mistakes = shown.take(MISTAKES_SHOWN).map(|mistake| mistake.text).collect();
    let model = app.ports.models.model(None).ok().map(|model| {
        let info = model.info();
        ModelSummary { name: info.name.clone(), demo: info.demo, context_window: info.context_window }
    });
    Ok(Json(ReadyJson {
        ready: true,
        version: app.options.version.clone(),
        model,
        totals,
        broken_files,
        mistakes,
        settings,
    }))
}

/// Returns the OpenAPI 3.1 document of this API.
#[utoipa::path(get, path = "/openapi.json", tag = "server",
    responses((status = 200, description = "The document.", body = Object)))]
pub(super) async fn document(State(app): SharedState) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], app.document())
}

/// Returns what the key that the request was sent with may do, and whose it is.
#[utoipa::path(get, path = "/v1/whoami", tag = "server",
    responses((status = 200, description = "The key's scope and owner.", body = Whoami)))]
pub(super) async fn whoami(State(app): SharedState, caller: Caller) -> Result<Json<Whoami>, Problem> {
    let entity = match caller.entity() {
        Some(id) => app.ports.reader.entity(id.to_string()).await?.map(Into::into),
        None => None,
    };
    Ok(Json(Whoami { scope: caller.credential.scope.to_string(), entity }))
}
