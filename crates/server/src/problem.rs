//! Errors of the API: the list of stable codes with their HTTP statuses, and the response of a write. The
//! documentation of the codes is generated from this list. Must not know routes.

use std::borrow::Cow;

use agent::config::BadConfig;
use agent::entity::BadHandle;
use agent::port::{CallError, Denial, RecallError, RegistryError, StoreError};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $status:literal;)+) => {
        /// The stable error codes. Each has one HTTP status and one title.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// All codes, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The code in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code),+ }
            }

            /// The HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status),+ }
            }

            /// The meaning, in one sentence.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii()),+ }
            }
        }
    };
}

codes! {
    /// The request is not HTTP/1.1.
    BadHttp = "bad_http", 400;
    /// The body is not JSON.
    BadJson = "bad_json", 400;
    /// The body or the path is not UTF-8.
    NotUtf8 = "not_utf8", 400;
    /// The body is nested too deeply.
    TooDeep = "too_deep", 400;
    /// A query parameter has a value that is not valid.
    BadQuery = "bad_query", 400;
    /// A header has a value that is not valid.
    BadHeader = "bad_header", 400;
    /// The request carries no key.
    KeyMissing = "key_missing", 401;
    /// The key is unknown or revoked.
    KeyInvalid = "key_invalid", 401;
    /// The key is expired.
    KeyExpired = "key_expired", 401;
    /// The delivery carries no signature or secret, or one that cannot be read.
    SignatureMissing = "signature_missing", 401;
    /// The signature or secret of the delivery is wrong.
    SignatureInvalid = "signature_invalid", 401;
    /// The delivery was signed too long ago, or in the future.
    SignatureOld = "signature_old", 401;
    /// The request is addressed to another host.
    HostRefused = "host_refused", 403;
    /// The request comes from a web page of another origin.
    OriginRefused = "origin_refused", 403;
    /// The key may not do this.
    Forbidden = "forbidden", 403;
    /// Other people may answer the call.
    NotYours = "not_yours", 403;
    /// The sender is not a member of the space.
    NotMember = "not_member", 403;
    /// Nothing with that id or handle exists.
    NotFound = "not_found", 404;
    /// There is no such route.
    NoRoute = "no_route", 404;
    /// The route has no such method.
    MethodNotAllowed = "method_not_allowed", 405;
    /// The body did not arrive in time.
    BodySlow = "body_slow", 408;
    /// The handle is taken.
    HandleTaken = "handle_taken", 409;
    /// The message id belongs to another message.
    IdTaken = "id_taken", 409;
    /// The idempotency key was used for another request.
    KeyReused = "key_reused", 409;
    /// It is unknown what the first request with this idempotency key has done.
    OutcomeUnknown = "outcome_unknown", 409;
    /// The space is closed to new messages.
    SpaceClosed = "space_closed", 409;
    /// The space has as many members as it can have.
    SpaceFull = "space_full", 409;
    /// The agent keeps as many memories as it can keep.
    MemoriesFull = "memories_full", 409;
    /// The pinned memories of the agent would be too many or too long.
    PinnedMemoriesFull = "pinned_memories_full", 409;
    /// The goals of the agent would be too many or too deep.
    BadGoals = "bad_goals", 409;
    /// The agent has as many plans as it can have.
    PlansFull = "plans_full", 409;
    /// The plan is one of the agent's config.
    PlanOfConfig = "plan_of_config", 409;
    /// The plan has ended.
    PlanOver = "plan_over", 409;
    /// The agent is retired.
    AgentRetired = "agent_retired", 409;
    /// The agent is not running that cycle.
    NoOpenCycle = "no_open_cycle", 409;
    /// The MCP server offers something else than what was shown.
    McpChanged = "mcp_changed", 409;
    /// The agent is running a cycle.
    CycleOpen = "cycle_open", 409;
    /// A file declares the tool.
    ToolOfFile = "tool_of_file", 409;
    /// The event's state does not allow this.
    EventState = "event_state", 409;
    /// The open cycle has taken the event.
    EventTaken = "event_taken", 409;
    /// The key is revoked or expired.
    KeyOver = "key_over", 409;
    /// The call already has its outcome.
    CallOver = "call_over", 409;
    /// Somebody has answered the call already.
    AnsweredAlready = "answered_already", 409;
    /// The call waits for no answer.
    NotAsked = "not_asked", 409;
    /// The call is not the one that was shown.
    CallChanged = "call_changed", 409;
    /// The worker does not have the call any more.
    ClaimLost = "claim_lost", 409;
    /// The tool is declared for another version of workers.
    WorkerVersion = "worker_version", 409;
    /// The body is too large.
    BodyTooLarge = "body_too_large", 413;
    /// The path and query of the request are too long.
    UriTooLong = "uri_too_long", 414;
    /// The body must be sent as application/json.
    NotJson = "not_json", 415;
    /// The answer must be sent as a web form.
    NotForm = "not_form", 415;
    /// A value is missing or has the wrong type.
    WrongType = "wrong_type", 422;
    /// A field or query parameter is unknown.
    UnknownField = "unknown_field", 422;
    /// A value is outside its bounds.
    BadValue = "bad_value", 422;
    /// The declaration of a tool is not valid.
    BadTool = "bad_tool", 422;
    /// The declaration of a hook is not valid.
    BadHook = "bad_hook", 422;
    /// The delivery is verified, but not what its service sends.
    BadDelivery = "bad_delivery", 422;
    /// The hook's template cannot be written with this delivery.
    HookTemplate = "hook_template", 422;
    /// The target is not valid.
    BadTarget = "bad_target", 422;
    /// The answer is not one to this call.
    BadAnswer = "bad_answer", 422;
    /// The plan is not valid.
    BadPlan = "bad_plan", 422;
    /// A handle is not valid.
    BadHandle = "bad_handle", 422;
    /// A client may not choose this message id.
    BadId = "bad_id", 422;
    /// With an admin key a message must name its sender.
    SenderRequired = "sender_required", 422;
    /// With a person's key a message must not name a sender.
    SenderRefused = "sender_refused", 422;
    /// Only people can post through the API.
    NotHuman = "not_human", 422;
    /// A mention names no member of the space.
    BadMention = "bad_mention", 422;
    /// The agent's config is not valid.
    BadConfig = "bad_config", 422;
    /// The config names a model that the server does not know.
    NoSuchModel = "no_such_model", 422;
    /// The config names a tool that the server does not have.
    NoSuchTool = "no_such_tool", 422;
    /// The agent's inbox is full.
    InboxFull = "inbox_full", 429;
    /// Too many requests of the key, or deliveries to hooks, are in flight.
    TooManyRequests = "too_many_requests", 429;
    /// Too many streams are open.
    TooManyStreams = "too_many_streams", 429;
    /// The bodies of the requests in flight are too large together.
    TooManyBytes = "too_many_bytes", 429;
    /// Too many connections are open.
    TooManyConnections = "too_many_connections", 429;
    /// The request has too many or too large headers.
    HeadersTooLarge = "headers_too_large", 431;
    /// The server failed; its log has the reason.
    Internal = "internal", 500;
    /// A record in the store is damaged.
    Damaged = "damaged", 500;
    /// The store failed and the server ends: start it again.
    Broken = "broken", 500;
    /// An MCP server cannot be asked.
    McpFailed = "mcp_failed", 502;
    /// The server is busy; try again.
    Overloaded = "overloaded", 503;
    /// The hook has no secret to verify deliveries with.
    HookUnready = "hook_unready", 503;
    /// The server is stopping.
    Closing = "closing", 503;
    /// The request took too long.
    TimedOut = "timed_out", 503;
    /// The disk is full.
    NoSpace = "no_space", 507;
}

impl Code {
    /// Whether the response says when to try again, in `retry-after`.
    pub(crate) fn waits(self) -> bool {
        matches!(self.status(), 429 | 503)
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let lines: Vec<String> =
            Self::ALL.iter().map(|c| format!("- `{}` ({}): {}", c.as_str(), c.status(), c.title())).collect();
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(lines.join("\n")))
            .enum_values(Some(Self::ALL.iter().map(|code| code.as_str())))
            .into()
    }
}

impl ToSchema for Code {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Code")
    }
}

/// An error as clients receive it (`application/problem+json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemBody {
    /// A URN: `urn:viv:problem:` followed by the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The meaning of the code, in one sentence.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable error code, for programs to check.
    #[schema(value_type = Code)]
    pub code: String,
    /// What went wrong in this request.
    pub detail: String,
    /// What to do about it; left out if there is no advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ProblemBody {
    /// An error with this code, as the document shows it.
    pub(crate) fn example(code: Code) -> Self {
        Problem::new(code, "what went wrong in this request").body()
    }
}

/// An error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    code: Code,
    detail: String,
    hint: Option<String>,
}

impl Problem {
    /// An error with its reason.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), hint: None }
    }

    /// An error with its reason, whose last line may be the advice: `hint: …`.
    pub(crate) fn explained(code: Code, text: &str) -> Self {
        match text.split_once("\nhint: ") {
            Some((detail, hint)) if !hint.contains('\n') => Self::new(code, detail).hint(hint),
            _ => Self::new(code, text),
        }
    }

    /// Adds advice on what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The error code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What went wrong in this request.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The error for an unknown id or handle; `what` is the kind of thing.
    pub fn not_found(what: &str, name: &str) -> Self {
        let shown: String = name.chars().take(80).collect();
        Self::new(Code::NotFound, format!("no {what} is called `{shown}`"))
    }

    /// What to do about it.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same response with a web page for people in place of the document for programs.
    pub(crate) fn with_page(self, html: String) -> Response {
        let (mut head, _) = self.into_response().into_parts();
        head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        head.headers.remove(header::CONTENT_LENGTH);
        Response::from_parts(head, html.into())
    }

    /// Replaces an id in the detail with the name that people know.
    #[must_use]
    pub fn with_name(mut self, id: &dyn std::fmt::Display, name: &str) -> Self {
        self.detail = self.detail.replace(&id.to_string(), name);
        self
    }

    /// A failure of the server; the reason is logged, not sent.
    pub fn internal(reason: &dyn std::fmt::Display) -> Self {
        tracing::error!(%reason, "a request failed");
        Self::new(Code::Internal, "the server failed to answer")
    }

    fn body(&self) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:viv:problem:{}", self.code.as_str()),
            title: self.code.title().to_owned(),
            status: self.code.status(),
            code: self.code.as_str().to_owned(),
            detail: self.detail.clone(),
            hint: self.hint.clone(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(self.body())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.code.waits() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// The response to a request that creates or removes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteResponse<T> {
    /// Created; the URL path of the new thing, and its JSON.
    Created(String, T),
    /// Created; it cannot be read again later.
    CreatedOnce(T),
    /// Accepted: what it leads to happens later.
    Accepted(T),
    /// It existed before.
    Existing(T),
    /// Removed.
    Removed,
    /// There is nothing to answer with.
    Nothing,
}

impl<T: Serialize> IntoResponse for WriteResponse<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Created(location, body) => {
                (StatusCode::CREATED, [(header::LOCATION, location)], axum::Json(body)).into_response()
            }
            Self::CreatedOnce(body) => (StatusCode::CREATED, axum::Json(body)).into_response(),
            Self::Accepted(body) => (StatusCode::ACCEPTED, axum::Json(body)).into_response(),
            Self::Existing(body) => axum::Json(body).into_response(),
            Self::Removed | Self::Nothing => StatusCode::NO_CONTENT.into_response(),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match &error {
            // The client is told to retry; there may be too many of these to log each.
            StoreError::Busy(_) | StoreError::Closed => tracing::debug!(%error, "a request was rejected"),
            error => tracing::error!(%error, "the store failed a request"),
        }
        let detail = error.to_string();
        match error {
            StoreError::Busy(_) => Self::new(Code::Overloaded, detail).hint("try again in a moment"),
            StoreError::Full(_) => Self::new(Code::NoSpace, detail).hint("free some disk space"),
            StoreError::Damaged(_) => {
                Self::new(Code::Damaged, detail).hint("check the store, or restore a backup")
            }
            StoreError::Bug(_) => Self::new(Code::Internal, detail),
            StoreError::Closed => Self::new(Code::Closing, detail),
            StoreError::Broken(_) => Self::new(Code::Broken, detail).hint("start the server again"),
        }
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unknown(call) => Self::not_found("call", &call.0),
            CallError::Store(error) => error.into(),
        }
    }
}

impl From<Denial> for Problem {
    fn from(denial: Denial) -> Self {
        let detail = denial.to_string();
        let code = match denial {
            Denial::NotFound { .. } => Code::NotFound,
            Denial::NameTaken { .. } => Code::HandleTaken,
            Denial::NotMember { .. } => Code::NotMember,
            Denial::SpaceClosed(_) => Code::SpaceClosed,
            Denial::SpaceFull(_) => Code::SpaceFull,
            Denial::MemoriesFull(_) => Code::MemoriesFull,
            Denial::PinnedFull { .. } => Code::PinnedMemoriesFull,
            Denial::BadGoals { .. } => Code::BadGoals,
            Denial::PlansFull(_) => Code::PlansFull,
            Denial::PlanOfConfig(_) => Code::PlanOfConfig,
            Denial::Retired(_) => Code::AgentRetired,
            Denial::InboxFull(_) => Code::InboxFull,
            Denial::MessageIdTaken => Code::IdTaken,
            Denial::NoOpenCycle(_) | Denial::OtherCycle(_) => Code::NoOpenCycle,
            Denial::EventState { .. } => Code::EventState,
            Denial::CallOver { .. } => Code::CallOver,
            Denial::KeyOver(_) => Code::KeyOver,
            Denial::EventTaken { cycle, .. } => {
                return Self::new(Code::EventTaken, detail).hint(format!(
                    "let cycle `{cycle}` end, or cancel it with `POST /v1/agents/AGENT/cancel`; \
                         `GET /v1/agents/AGENT/events` shows what it took"
                ));
            }
        };
        Self::new(code, detail)
    }
}

impl From<RecallError> for Problem {
    fn from(error: RecallError) -> Self {
        let (named, searchable) = match error {
            RecallError::NoSuchSpace { named, searchable } => (named, searchable),
            RecallError::Store(error) => return error.into(),
        };
        let hint = match searchable.is_empty() {
            true => "it has no spaces yet: leave out `space`".to_owned(),
            false => format!("it can search `{}`", searchable.join("`, `")),
        };
        Self::not_found("space that the agent can search", &named).hint(hint)
    }
}

impl From<BadConfig> for Problem {
    fn from(error: BadConfig) -> Self {
        Self::new(Code::BadConfig, error.to_string())
    }
}

impl From<BadHandle> for Problem {
    fn from(error: BadHandle) -> Self {
        Self::new(Code::BadHandle, error.to_string())
    }
}

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::Denied(denial) => denial.into(),
            RegistryError::Config(error) => error.into(),
            RegistryError::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_unique_snake_case_and_an_error_status() {
        for (i, code) in Code::ALL.iter().enumerate() {
            let text = code.as_str();
            assert!(
                text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{text}"
            );
            assert!((400..600).contains(&code.status()), "{text}");
            assert!(code.title().ends_with('.'), "{text}");
            assert!(Code::ALL.iter().skip(i + 1).all(|other| other.as_str() != text), "{text} twice");
        }
    }

    #[test]
    fn advice_at_the_end_of_a_reason_is_the_hint() {
        let read = |text| {
            let problem = Problem::explained(Code::BadHook, text);
            (problem.detail, problem.hint)
        };
        assert_eq!(read("no\nhint: do"), ("no".to_owned(), Some("do".to_owned())));
        for several in ["no", "no\nhint: do\nnor this\nhint: that"] {
            assert_eq!(read(several), (several.to_owned(), None));
        }
    }

    #[test]
    fn a_full_disk_is_507_and_a_busy_store_is_503_with_retry_after() {
        let full = Problem::from(StoreError::Full("disk".into())).into_response();
        assert_eq!(full.status().as_u16(), 507);
        let busy = Problem::from(StoreError::Busy("queue".into())).into_response();
        assert_eq!(busy.status().as_u16(), 503);
        assert_eq!(busy.headers()["retry-after"], "1");
    }
}
