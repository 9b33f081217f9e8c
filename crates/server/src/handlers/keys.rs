//! Keys: listing and revoking them. People's keys are created with their entity.

use agent::id::CredentialId;
use axum::Json;
use axum::extract::State;

use crate::app_state::SharedState;
use crate::extract::{PathParam, Query, run_to_completion};
use crate::listing::Listing;
use crate::problem::Problem;
use api::{KeyRecord, PageJson, PageQuery};

/// Lists all keys, the newest first, also revoked ones. Secrets are never shown again.
#[utoipa::path(get, path = "/v1/keys", tag = "keys", params(PageQuery),
    responses((status = 200, description = "A page of keys.", body = PageJson<KeyRecord>)))]
pub(super) async fn list(
    State(app): SharedState,
    Query(query): Query<PageQuery>,
) -> Result<Json<PageJson<KeyRecord>>, Problem> {
    let list = Listing::new("keys", &query, query.cursor.as_deref(), query.limit)?;
    let found = app.ports.reader.credentials(list.page.clone()).await?;
    Ok(list.answer(found, KeyRecord::from))
}

/// Revokes a key. It stops working at once, and its open streams end within a second. Revoking it again changes
/// nothing.
#[utoipa::path(delete, path = "/v1/keys/{key}", tag = "keys",
    params(("key" = String, Path, description = "The key's id.")),
    responses((status = 200, description = "The key as it is now.", body = KeyRecord)))]
pub(super) async fn revoke(
    State(app): SharedState,
    PathParam(name): PathParam<String>,
) -> Result<Json<KeyRecord>, Problem> {
    let id = name.parse().map(CredentialId).map_err(|_| Problem::not_found("key", &name))?;
    run_to_completion(async move {
        let revoked = app.ports.registry.revoke_credential(id, app.ports.clock.now()).await?;
        app.keys.forget(id);
        app.stream_ends.end(id);
        Ok(Json(revoked.into()))
    })
    .await
}
