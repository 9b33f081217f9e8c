//! `viv keys`: creates, lists, rotates and revokes keys, and replaces a lost admin key. The last one opens the store of a stopped
//! server directly: without a key a server cannot be asked.

use agent::limits;
use api::{EntityJson, KeyJson, KeyRotation, NewKey};
use client::{Client, segment, typed};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use runtime::clock::{SystemClock, SystemIds};
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use storage::sqlite::{self, OpenError, Sqlite};

use super::up::cannot_open;
use super::upkeep;
use crate::args::{Global, KeysArgs, KeysVerb};
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::listen;
use crate::output::{Screen, ago};
use crate::settings;
use crate::world;

const KEYS_MAX: usize = 1_000;

pub(crate) async fn run(global: &Global, screen: Screen, args: KeysArgs) -> Result<Exit> {
    let client = || Ok::<_, Failure>(Client::find(settings::data_dir(global)?)?);
    match args.verb.unwrap_or(KeysVerb::List) {
        KeysVerb::List => list(&client()?, &screen).await,
        KeysVerb::Add { scope, entity: None, .. } if scope == "person" => {
            Err(Failure::usage("a key of the scope `person` needs a person")
                .hint("name one with `--entity NAME`; `viv entities --kind human` lists them"))
        }
        KeysVerb::Add { scope, entity, label, expires } => {
            let expires_at = expires.map(|span| after(Timestamp::now(), span)).transpose()?;
            create(&client()?, &screen, "/v1/keys", &NewKey { scope, entity, label, expires_at }).await
        }
        KeysVerb::Rotate { id, overlap } => {
            let now = Timestamp::now();
            let seconds = after(now, overlap)?.duration_since(now).as_secs().unsigned_abs();
            if seconds > limits::KEY_OVERLAP_MAX_S {
                let most = limits::KEY_OVERLAP_MAX_S / 86_400;
                let message = format!("wanted an `--overlap` of at most {most} days, got `{overlap:#}`");
                return Err(Failure::usage(message));
            }
            let body = KeyRotation { overlap_seconds: Some(seconds), expires_at: None };
            let client = client()?;
            let id = client.full_id("/v1/keys", "id", &id).await?;
            create(&client, &screen, &format!("/v1/keys/{}/rotate", segment(&id)), &body).await
        }
        KeysVerb::Revoke { id, yes } => {
            let client = client()?;
            let id = client.full_id("/v1/keys", "id", &id).await?;
            let keys = client.list("/v1/keys", KEYS_MAX).await?;
            if keys.len() < KEYS_MAX && keys.iter().all(|key| key["id"] != id) {
                return Err(Failure::new(Exit::NotFound, "not_found", format!("no key is called `{id}`")));
            }
            input::confirm(&screen, &format!("revoking the key `{id}` cannot be undone"), yes, None)?;
            // Before it is revoked: it may be the key of this command.
            let key = client.list("/v1/keys", KEYS_MAX).await?.into_iter().find(|key| key["id"] == id);
            client.delete(&format!("/v1/keys/{}", segment(&id))).await?;
            let answer = key.unwrap_or_else(|| json!({"id": id}));
            if answer["label"] == world::CLI_LABEL && answer["entity"].is_null() {
                screen.note(
                    "commands on the server's machine used this key: until the server starts again they need another \
                     in VIV_KEY",
                );
            }
            screen.result(&answer, &format!("the key {id} is revoked"));
            Ok(Exit::Answered)
        }
        KeysVerb::Admin { reset: _ } => reset(global, screen).await,
    }
}

/// The time after this span; days have 24 hours.
fn after(now: Timestamp, span: Span) -> Result<Timestamp> {
    let ends = now.to_zoned(TimeZone::UTC).checked_add(span).ok().filter(|ends| ends.timestamp() >= now);
    ends.map(|ends| ends.timestamp())
        .ok_or_else(|| Failure::usage(format!("wanted a time ahead, such as `24h` or `90d`, got `{span}`")))
}

/// Creates a key. The secret is alone on standard output, so that it can be piped.
async fn create(client: &Client, screen: &Screen, path: &str, body: &impl Serialize) -> Result<Exit> {
    let answer = client.post(path, body, None).await?;
    let key: KeyJson = typed(path, answer.clone())?;
    screen.result(&answer, key.secret.as_deref().unwrap_or_default());
    screen.note(&format!(
        "The key {} ({}), shown only this once and stored as a hash. Use it with VIV_URL={} and VIV_KEY.",
        key.id,
        key.scope,
        client.url()
    ));
    Ok(Exit::Answered)
}

async fn list(client: &Client, screen: &Screen) -> Result<Exit> {
    let rows = client.list("/v1/keys", KEYS_MAX).await?;
    let people: Vec<EntityJson> = client.list_as("/v1/entities?kind=human", KEYS_MAX).await?;
    let now = Timestamp::now();
    screen.rows(rows, "no keys", &["ID", "OF", "LABEL", "CREATED", "USED", "STATE"], |key: &KeyJson| {
        let person = people.iter().find(|person| Some(person.id) == key.entity);
        let of = person.map_or(&key.scope, |person| &person.handle).clone();
        let state = match (key.revoked_at, key.expires_at) {
            (Some(at), _) => format!("revoked {}", ago(at, now)),
            (None, Some(at)) if at <= now => format!("expired {}", ago(at, now)),
            (None, Some(at)) => format!("valid until {}", at.strftime("%Y-%m-%d %H:%MZ")),
            (None, None) => "valid".to_owned(),
        };
        let used = key.used_at.map_or_else(|| "-".to_owned(), |at| ago(at, now));
        vec![key.id.to_string(), of, key.label.clone(), ago(key.created_at, now), used, state]
    })?;
    Ok(Exit::Answered)
}

/// Replaces the admin key. The key is alone on standard output, so that it can be piped.
async fn reset(global: &Global, screen: Screen) -> Result<Exit> {
    let dir = settings::data_dir(global)?;
    // Opening would create a store if there is none.
    sqlite::look(&dir, 0).map_err(|error| upkeep::failure(&dir, error))?;
    let clock = Arc::new(SystemClock::new());
    let store = Sqlite::open(&dir, clock.clone()).map_err(|error| match error {
        OpenError::Locked { .. } => {
            listen::in_use(&dir).hint("stop viv first, then run this again; no key was changed")
        }
        error => cannot_open(&dir, error),
    })?;
    let key = world::new_admin_key(&store, &*clock, &SystemIds).await;
    let closed = store.close().await;
    // The new key is durable by now and valid, even if the store does not close cleanly.
    let key = key?;
    screen.result(&json!({"admin_key": key.open()}), key.open());
    screen.note(&format!(
        "The new admin key of `{}`, shown only this once and stored as a hash. The old one no longer works; the keys \
         of people still work.",
        dir.display()
    ));
    closed.map_err(|error| {
        Failure::new(Exit::Failed, "store_failed", format!("the store did not close cleanly: {error}"))
            .hint("the new key is valid; `viv verify` checks whether the store is intact")
    })?;
    Ok(Exit::Answered)
}
