//! The access policies of routes, and the guard that enforces them before the body is read and the handler runs.
//! Must not know what the routes do.

use std::sync::Arc;

use agent::entity::{Entity, Member, Space};
use agent::id::EntityId;
use agent::limits;
use agent::port::{Credential, Scope};
use axum::RequestExt;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};

use crate::app_state::AppState;
use crate::gate::closing;
use crate::problem::{Code, Problem};
use crate::quota::{Crowded, InFlight};
use crate::{extract, keys};

/// The access policy of a route. A route cannot be added without one (invariant 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No key needed, and it does not matter by which name or address the server is called: it says nothing but that it runs.
    Probe,
    /// No key needed.
    Public,
    /// A signature that the hook in the path verifies; only what it has verified is read.
    Signed,
    /// The token in the path, which is that of one call.
    Link,
    /// Any key.
    AnyKey,
    /// Admin keys and keys of people; the handler limits its response to what the caller may see.
    Person,
    /// An admin key, or the key of a person who is a member of the space in the path.
    Member,
    /// Admin keys and keys of services; the handler checks the name of the service.
    Service,
    /// Admin keys and keys of workers; the handler checks the names of the tools.
    Worker,
    /// Admin keys.
    Admin,
}

impl Access {
    /// The name in the OpenAPI document and in snapshots.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Public => "public",
            Self::Signed => "signed",
            Self::Link => "link",
            Self::AnyKey => "any_key",
            Self::Person => "person",
            Self::Member => "member",
            Self::Service => "service",
            Self::Worker => "worker",
            Self::Admin => "admin",
        }
    }

    /// Whether no key is asked for.
    pub(crate) fn is_keyless(self) -> bool {
        matches!(self, Self::Probe | Self::Public | Self::Signed | Self::Link)
    }

    /// Whether a key of this scope may send a request of this kind.
    fn permits(self, scope: &Scope, reads: bool) -> bool {
        match scope {
            Scope::Admin => true,
            Scope::Read => reads,
            Scope::Person(_) => matches!(self, Self::AnyKey | Self::Person | Self::Member),
            Scope::Service(_) => matches!(self, Self::AnyKey | Self::Service),
            Scope::Worker(_) => matches!(self, Self::AnyKey | Self::Worker),
        }
    }

    /// What to say to a key of this scope that may not do this.
    fn refusal(self, scope: &Scope) -> Problem {
        let detail = match scope {
            Scope::Read => "this key may only read",
            Scope::Service(_) => "this key may only send events of its service",
            Scope::Worker(_) => "this key may only claim and answer calls of its tools",
            Scope::Admin | Scope::Person(_) => "this needs an admin key",
        };
        Problem::new(Code::Forbidden, detail)
    }
}

/// The sender of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The key.
    pub(crate) credential: Credential,
    /// The key's hash, to check the key again later.
    pub(crate) hash: String,
    /// The entity that the key is bound to, if the guard has already read it.
    pub(crate) member: Option<Arc<Entity>>,
}

impl Caller {
    /// The person whose view limits the response; `None` for a key that sees everything its route shows.
    pub(crate) fn entity(&self) -> Option<EntityId> {
        match self.credential.scope {
            Scope::Person(entity) => Some(entity),
            Scope::Admin | Scope::Read | Scope::Service(_) | Scope::Worker(_) => None,
        }
    }

    /// Whether the key sees everything: an admin key, or one that may read what an admin key may read.
    pub(crate) fn is_operator(&self) -> bool {
        matches!(self.credential.scope, Scope::Admin | Scope::Read)
    }

    /// Whose requests these are: all admin keys together, or a person or a service with all their keys.
    pub(crate) fn principal(&self) -> String {
        self.entity().map_or_else(|| self.credential.scope.to_string(), |entity| entity.to_string())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Problem::internal(&"a public route needs a caller"))
    }
}

/// The space in the path of an [`Access::Member`] route; the caller may see it.
#[derive(Clone, Debug)]
pub(crate) struct InSpace(pub(crate) Arc<Space>);

impl<S: Send + Sync> FromRequestParts<S> for InSpace {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let space = parts.extensions.get::<Self>().cloned();
        space.ok_or_else(|| Problem::internal(&"a route without the policy `member` needs a space"))
    }
}

/// The state of the guard of one route.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) app: Arc<AppState>,
    pub(crate) access: Access,
    /// Whether the route takes a query string, or ignores it.
    pub(crate) takes_query: bool,
}

/// Enforces the policy of one route.
pub(crate) async fn guard(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let admitted = match admit(&guard, &mut request).await {
        Ok(()) if !guard.takes_query => extract::check_query_names(request.uri(), &[]),
        admitted => admitted,
    };
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let crowded = request.extensions().get::<Crowded>().is_some();
    let key = request.extensions().get::<Caller>().map(|caller| (caller.credential.id, caller.is_operator()));
    let response = match admitted.and_then(|()| begin(&guard, &mut request)) {
        // Held until the response is made: a stream counts as a stream from then on.
        Ok(_in_flight) => {
            let _read = match key.filter(|_| reads) {
                Some((key, operator)) => Some(guard.app.reads.turn(key, operator).await),
                None => None,
            };
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    // The reserve is for administrators: nobody else keeps a connection of it.
    if crowded && !key.is_some_and(|(_, operator)| operator) { closing(response) } else { response }
}

/// Counts the request to its key. On a crowded connection only administrators and probes are served.
fn begin(guard: &Guard, request: &mut Request) -> Result<Option<Arc<InFlight>>, Problem> {
    let caller = request.extensions().get::<Caller>();
    let served = guard.access == Access::Probe || caller.is_some_and(Caller::is_operator);
    if request.extensions().get::<Crowded>().is_some() && !served {
        let detail = "too many connections are open: only administrators are served until some are closed";
        return Err(Problem::new(Code::TooManyConnections, detail));
    }
    let in_flight = caller
        .map(|caller| guard.app.quotas.request(caller.credential.id, caller.is_operator()))
        .transpose()?
        .map(Arc::new);
    if let Some(in_flight) = &in_flight {
        request.extensions_mut().insert(Arc::clone(in_flight));
    }
    Ok(in_flight)
}

async fn admit(guard: &Guard, request: &mut Request) -> Result<(), Problem> {
    if guard.access.is_keyless() {
        return Ok(());
    }
    let mut caller = authenticate(&guard.app, request.headers()).await?;
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !guard.access.permits(&caller.credential.scope, reads) {
        return Err(guard.access.refusal(&caller.credential.scope));
    }
    if guard.access == Access::Member {
        let space = named_space(&guard.app, request).await?;
        if let Some(entity) = caller.entity() {
            let Some(member) = membership(&guard.app, &space, entity).await? else {
                // A non-member must not learn that the space exists.
                return Err(Problem::not_found("space", &space_name(request).await?));
            };
            caller.member = Some(Arc::new(member.entity));
        }
        request.extensions_mut().insert(InSpace(Arc::new(space)));
    }
    request.extensions_mut().insert(caller);
    Ok(())
}

/// The entity's membership of the space.
pub(crate) async fn membership(
    app: &AppState,
    space: &Space,
    entity: EntityId,
) -> Result<Option<Member>, Problem> {
    let members = app.ports.reader.members(space.id).await?;
    Ok(members.into_iter().find(|member| member.entity.id == entity))
}

async fn named_space(app: &AppState, request: &mut Request) -> Result<Space, Problem> {
    let name = space_name(request).await?;
    let space = app.ports.reader.space(name.clone()).await?;
    space.ok_or_else(|| Problem::not_found("space", &name))
}

async fn space_name(request: &mut Request) -> Result<String, Problem> {
    let params: RawPathParams = request
        .extract_parts()
        .await
        .map_err(|_| Problem::new(Code::NotUtf8, "the decoded path is not UTF-8"))?;
    let space = params.iter().find(|(key, _)| *key == "space");
    space.map(|(_, value)| value.to_lowercase()).ok_or_else(|| Problem::internal(&"a route without a space"))
}

pub(crate) async fn authenticate(app: &AppState, headers: &HeaderMap) -> Result<Caller, Problem> {
    let hash = keys::hash(bearer(headers)?);
    let credential = valid_credential(app, &hash).await?;
    Ok(Caller { credential, hash, member: None })
}

/// The key in the `authorization` header.
fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let wanted = "wanted the header `authorization: Bearer KEY`";
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let value = given.next().ok_or_else(|| Problem::new(Code::KeyMissing, wanted))?;
    if given.next().is_some() {
        return Err(Problem::new(Code::KeyInvalid, format!("{wanted} once")));
    }
    let (scheme, key) = value.to_str().ok().and_then(|text| text.split_once(' ')).unwrap_or(("", ""));
    let key = key.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || key.is_empty() || key.len() > limits::KEY_MAX_BYTES {
        return Err(Problem::new(Code::KeyInvalid, wanted));
    }
    if !key.starts_with(keys::PREFIX) {
        return Err(Problem::new(
            Code::KeyInvalid,
            "what follows `Bearer` is no key: keys begin with `viv_`",
        ));
    }
    Ok(key)
}

/// The credential with that hash, from the cache or the registry. Refuses one that is revoked or expired.
pub(crate) async fn valid_credential(app: &AppState, hash: &str) -> Result<Credential, Problem> {
    let clock = &app.ports.clock;
    let credential = match app.keys.get(hash, clock.monotonic_ms()) {
        Some(credential) => credential,
        None => {
            let asked = app.keys.ask();
            let found = app.ports.registry.credential(hash.to_owned()).await?;
            let found =
                found.ok_or_else(|| Problem::new(Code::KeyInvalid, "the key is unknown or revoked"))?;
            if app.keys.put(hash, &found, asked, clock.monotonic_ms()) {
                note_use(app, &found);
            }
            found
        }
    };
    match credential.expires_at.filter(|_| credential.is_expired(clock.now())) {
        None => Ok(credential),
        Some(at) => Err(Problem::new(Code::KeyExpired, format!("the key expired at {at}"))
            .hint("ask an administrator for a new one: `POST /v1/keys`")),
    }
}

/// Writes when the key was last used, unless that is known well enough. The request does not wait for it.
fn note_use(app: &AppState, key: &Credential) {
    let now = app.ports.clock.now();
    let known =
        |at: Timestamp| now.duration_since(at) < SignedDuration::from_millis(limits::KEY_USED_MS as i64);
    if key.is_expired(now) || key.used_at.is_some_and(known) {
        return;
    }
    let (registry, id) = (Arc::clone(&app.ports.registry), key.id);
    tokio::spawn(async move {
        if let Err(error) = registry.credential_used(id, now).await {
            tracing::debug!(%error, key = %id, "the last use of a key was not written");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn exactly_one_bearer_header_with_a_key_is_accepted() {
        let check = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            bearer(&headers).map(str::to_owned).map_err(|problem| problem.code())
        };
        assert_eq!(check(&["bearer viv_1"]), Ok("viv_1".to_owned()));
        assert_eq!(check(&[]), Err(Code::KeyMissing));
        for bad in [&["Bearer "][..], &[""], &["Basic abc"], &["viv_1"], &["Bearer a", "Bearer a"]] {
            assert_eq!(check(bad), Err(Code::KeyInvalid), "{bad:?}");
        }
    }
}
