//! Keys: create, list, rotate, revoke.

use std::time::Duration;

use agent::id::CredentialId;
use agent::limits;
use agent::port::{Credential, KeyAdded, NewCredential, Rotation, Scope};
use axum::extract::State;
use jiff::Timestamp;

use super::entities::find_entity;
use super::events::check_service_name;
use crate::app_state::{AppState, SharedState};
use crate::extract::{Exact, Optional, PathParam, Sent, bounded_text, run_to_completion};
use crate::keys;
use crate::listing::{List, Listed};
use crate::once::{Change, Done, Once, key_reused};
use crate::problem::{Code, Problem, WriteResponse};
use agent::entity::EntityKind;
use api::{KeyJson, KeyRotation, NewKey, PageJson, PageQuery};

/// Creates a key. The secret is only in this answer: only its hash is stored. Sent again with the same
/// `Idempotency-Key`, the answer is the key without its secret.
#[utoipa::path(post, path = "/v1/keys", tag = "keys", request_body = NewKey,
    responses((status = 201, description = "The new key, with its secret.", body = KeyJson),
              (status = 200, description = "The key was created before.", body = KeyJson)))]
pub(super) async fn create(
    State(app): SharedState,
    Change { body: Sent(new), once }: Change<Sent<NewKey>>,
) -> Result<Done<WriteResponse<KeyJson>>, Problem> {
    let NewKey { scope, entity, label, expires_at } = new;
    let scope = read_scope(&app, &scope, entity.as_deref()).await?;
    let label = bounded_text("label", label.unwrap_or_default(), limits::DESCRIPTION_MAX_BYTES)?;
    if scope == Scope::Admin && keys::RESERVED_LABELS.contains(&&*label) {
        let detail =
            format!("`label`: `{label}` is kept for the admin keys that the program itself replaces");
        return Err(Problem::new(Code::BadValue, detail).hint("choose another label"));
    }
    let at = app.ports.clock.now();
    check_expiry(&once, expires_at, at)?;
    let secret = keys::key(&(app.options.key_source)());
    let credential =
        Credential { expires_at, ..Credential::new(CredentialId(app.ports.ids.uuid()), scope, label) };
    let secret_hash = keys::hash(&secret);
    let new = NewCredential { credential, secret_hash, at, replace_label: false };
    run_to_completion(async move {
        let add = async |request| added(app.ports.registry.add_credential(new, request).await?, secret);
        once.in_store(add).await
    })
    .await
}

async fn read_scope(app: &AppState, scope: &str, entity: Option<&str>) -> Result<Scope, Problem> {
    let wanted = "`admin`, `operator:read`, `person`, `service:NAME` or `worker:TOOL`";
    let scope = match (scope, entity) {
        ("person", None) => {
            return Err(Problem::new(
                Code::BadValue,
                "`entity` is missing: a key of the scope `person` needs it",
            ));
        }
        ("person", Some(name)) => {
            let entity = find_entity(app, name).await?;
            if entity.kind != EntityKind::Human {
                return Err(Problem::new(Code::NotHuman, "keys are for people; agents need none"));
            }
            return Ok(Scope::Person(entity.id));
        }
        ("admin", _) => Scope::Admin,
        ("operator:read", _) => Scope::Read,
        (other, _) => match other.split_once(':') {
            Some(("service", name)) => {
                check_service_name("scope", name)?;
                Scope::Service(name.to_owned())
            }
            Some(("worker", tools)) => {
                check_worker_tools(tools)?;
                Scope::Worker(tools.to_owned())
            }
            _ => {
                let shown: String = other.chars().take(80).collect();
                return Err(Problem::new(Code::BadValue, format!("`scope` must be {wanted}, got `{shown}`")));
            }
        },
    };
    match entity {
        None => Ok(scope),
        Some(_) => Err(Problem::new(Code::BadValue, "`entity` is only for keys of the scope `person`")),
    }
}

fn check_worker_tools(tools: &str) -> Result<(), Problem> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'*');
    if (1..=64).contains(&tools.len()) && tools.bytes().all(plain) {
        return Ok(());
    }
    let shown: String = tools.chars().take(80).collect();
    let what =
        format!("`scope`: wanted `worker:` and the name of a tool, or a pattern with `*`, got `{shown}`");
    Err(Problem::new(Code::BadValue, what))
}

/// Checks that a new key is not expired. A repeat of a request asks for no new key: its time may have passed since.
fn check_expiry(once: &Once, expires_at: Option<Timestamp>, now: Timestamp) -> Result<(), Problem> {
    match expires_at.filter(|at| *at <= now && once.noted().is_none()) {
        None => Ok(()),
        Some(at) => {
            Err(Problem::new(Code::BadValue, format!("`expires_at` must be in the future, got {at}")))
        }
    }
}

/// The answer to a request for a key.
fn added(answer: KeyAdded, secret: String) -> Result<WriteResponse<KeyJson>, Problem> {
    match answer {
        KeyAdded::Added(row) => {
            Ok(WriteResponse::CreatedOnce(KeyJson { secret: Some(secret), ..KeyJson::from(row) }))
        }
        KeyAdded::Repeated(row) => Ok(WriteResponse::Existing(row.into())),
        KeyAdded::Conflict => Err(key_reused()),
    }
}

/// Lists all keys, the newest first, also expired and revoked ones. Secrets are never shown again.
#[utoipa::path(get, path = "/v1/keys", tag = "keys", params(PageQuery),
    responses((status = 200, description = "A page of keys.", body = PageJson<KeyJson>)))]
pub(super) async fn list(State(app): SharedState, list: List<PageQuery>) -> Result<Listed<KeyJson>, Problem> {
    let found = app.ports.reader.credentials(list.page.clone()).await?;
    Ok(list.answer(found, KeyJson::from))
}

/// Rotates a key: creates a key with a new secret and the same scope and label. The old key stays valid for the
/// overlap, so that its users can change to the new one in the meantime; then it expires and its open streams end.
#[utoipa::path(post, path = "/v1/keys/{key}/rotate", tag = "keys", request_body = Option<KeyRotation>,
    params(("key" = String, Path, description = "The key's id.")),
    responses((status = 201, description = "The new key, with its secret.", body = KeyJson),
              (status = 200, description = "The key was rotated before by this request.", body = KeyJson)))]
pub(super) async fn rotate(
    State(app): SharedState,
    PathParam(name): PathParam<Exact>,
    Change { body: Optional(rotation), once }: Change<Optional<KeyRotation>>,
) -> Result<Done<WriteResponse<KeyJson>>, Problem> {
    let old = key_id(&name)?;
    let KeyRotation { overlap_seconds, expires_at } = rotation;
    let overlap = overlap_seconds.unwrap_or(limits::KEY_OVERLAP_S);
    if overlap > limits::KEY_OVERLAP_MAX_S {
        let most = limits::KEY_OVERLAP_MAX_S;
        let detail = format!("`overlap_seconds` must be at most {most}, got {overlap}");
        return Err(Problem::new(Code::BadValue, detail));
    }
    let at = app.ports.clock.now();
    check_expiry(&once, expires_at, at)?;
    let old_until =
        at.checked_add(Duration::from_secs(overlap)).map_err(|error| Problem::internal(&error))?;
    let secret = keys::key(&(app.options.key_source)());
    let new = CredentialId(app.ports.ids.uuid());
    let rotation = Rotation { old, old_until, new, secret_hash: keys::hash(&secret), at, expires_at };
    run_to_completion(async move {
        let rotate = async |request| {
            let answer = app.ports.registry.rotate_credential(rotation, request).await?;
            if matches!(answer, KeyAdded::Added(_)) {
                app.keys.forget(old);
                app.stream_ends.expire(old, old_until, &app.ports.clock);
            }
            added(answer, secret)
        };
        once.in_store(rotate).await
    })
    .await
}

/// Revokes a key. It stops working at once, and its open streams end within a second. Revoking it again changes
/// nothing.
#[utoipa::path(delete, path = "/v1/keys/{key}", tag = "keys",
    params(("key" = String, Path, description = "The key's id.")),
    responses((status = 204, description = "The key is revoked.")))]
pub(super) async fn revoke(
    State(app): SharedState,
    PathParam(name): PathParam<Exact>,
    Change { once, .. }: Change<()>,
) -> Result<Done<WriteResponse<KeyJson>>, Problem> {
    let id = key_id(&name)?;
    run_to_completion(async move {
        let run = async || {
            app.ports.registry.revoke_credential(id, app.ports.clock.now()).await?;
            app.keys.forget(id);
            app.stream_ends.end(id);
            Ok(WriteResponse::Removed)
        };
        once.change(run, async || Ok(WriteResponse::Removed)).await
    })
    .await
}

fn key_id(name: &str) -> Result<CredentialId, Problem> {
    name.parse().map(CredentialId).map_err(|_| Problem::not_found("key", name))
}
