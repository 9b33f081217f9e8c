//! Requests to a server: problem+json becomes a typed error. Knows the wire format, not what a program does
//! with it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use agent::config::nearest;
use agent::id::AgentId;
use api::{Agent, PageJson, RecallParams, RecalledJson, SpaceJson};
use net::proxy;
use reqwest::{ClientBuilder, Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::credentials::{self, Credentials};
use crate::error::{ClientError, ErrorClass, Result};

/// Names among which the one that was meant is looked for.
const SIMILAR_MAX: usize = 200;

const CONNECT: Duration = Duration::from_secs(5);
/// A little longer than the server's own limit, so that the client receives its answer about a time-out.
const REQUEST: Duration = Duration::from_secs(40);
/// The server pings every 15 s: after three missed ones the connection is dead.
const SILENCE: Duration = Duration::from_secs(45);

/// Fewer characters name no id.
const ID_PREFIX_MIN: usize = 4;
/// Rows that are looked at to complete an id, and ids that are shown where several begin so.
const ID_ROWS_MAX: usize = 1_000;
const IDS_SHOWN: usize = 4;
/// Most rows of a list that is wanted whole.
const ALL_MAX: usize = 10_000;

/// For a request whose path contains everything.
const NO_BODY: Option<&()> = None;

/// A client of one server.
pub struct Client {
    /// For requests: limited in total time.
    http: reqwest::Client,
    /// For streams: limited in silence.
    streams: reqwest::Client,
    /// Where address and key are read again after a restart of the server; `None` if they were given.
    data_dir: Option<PathBuf>,
    /// The key was given or comes from the environment: reading it again changes nothing.
    fixed_key: bool,
    server: RwLock<Arc<Credentials>>,
}

impl Client {
    /// A client of the server at this address, with this key. Does not connect yet.
    ///
    /// # Errors
    /// Class `Usage` if the address is not one such as `http://127.0.0.1:7878`.
    pub fn new(mut server: Credentials) -> Result<Self> {
        server.url = credentials::checked(&server.url)?;
        Self::of(server, None)
    }

    /// A client of the server that `VIV_URL` and `VIV_KEY` name, else of the one that runs on this data directory. Does
    /// not connect yet. If that server is restarted, [`Client::refresh`] finds its new address and key.
    ///
    /// # Errors
    /// Class `Unreachable` if no server runs there, `Usage` if a variable is wrong.
    pub fn find(data_dir: PathBuf) -> Result<Self> {
        Self::of(credentials::find(&data_dir)?, Some(data_dir))
    }

    /// The data directory of the server, if it was found by that: it runs on this machine.
    pub fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref().filter(|_| std::env::var_os("VIV_URL").is_none_or(|url| url.is_empty()))
    }

    fn of(server: Credentials, data_dir: Option<PathBuf>) -> Result<Self> {
        let common = || {
            let way = |url: &Url| proxy::of(url).ok().flatten().map(|proxy| proxy.url().clone());
            let builder = net::client()?
                .proxy(reqwest::Proxy::custom(way))
                .connect_timeout(CONNECT)
                .user_agent(concat!("viv/", env!("CARGO_PKG_VERSION")));
            Ok::<_, String>(builder)
        };
        let built = |builder: ClientBuilder| builder.build().map_err(|error| root_cause(&error));
        let no_client = |why: String| {
            ClientError::new(ErrorClass::Failed, "no_client", format!("cannot create an HTTP client: {why}"))
        };
        let asked = Url::parse(&server.url).map_err(|error| no_client(error.to_string()))?;
        proxy::of(&asked).map_err(no_client)?;
        let http = common().and_then(|builder| built(builder.timeout(REQUEST))).map_err(no_client)?;
        let streams = common().and_then(|builder| built(builder.read_timeout(SILENCE))).map_err(no_client)?;
        let fixed_key = data_dir.is_none() || credentials::key_in_environment()?.is_some();
        Ok(Self { http, streams, data_dir, fixed_key, server: RwLock::new(Arc::new(server)) })
    }

    /// The server's address.
    pub fn url(&self) -> String {
        self.server().url.clone()
    }

    /// Reads address and key again if they were found and not given: a restarted server has another key and possibly
    /// another port.
    pub fn refresh(&self) {
        if let Some(dir) = &self.data_dir
            && let Ok(found) = credentials::find(dir)
        {
            *self.server.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(found);
        }
    }

    /// A GET request.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.ask(Method::GET, path, NO_BODY, None).await
    }

    /// A GET request with a typed answer.
    pub async fn get_as<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        typed(path, self.get(path).await?)
    }

    /// The agent with this handle or id.
    pub async fn agent(&self, agent: &str) -> Result<Agent> {
        let found = self.get_as(&format!("/v1/agents/{}", segment(agent))).await;
        self.or_similar(found, "/v1/agents?brief=true", agent).await
    }

    /// What was found, or a failure that names the most similar of the names in that list.
    async fn or_similar<T>(&self, found: Result<T>, list: &str, wanted: &str) -> Result<T> {
        let missing = match found {
            Err(missing) if missing.class == ErrorClass::NotFound && missing.hint.is_none() => missing,
            found => return found,
        };
        let rows = self.list(list, SIMILAR_MAX).await.unwrap_or_default();
        let names = rows.iter().filter_map(|row| row["handle"].as_str());
        Err(match nearest(wanted, names) {
            Some(similar) => missing.hint(format!("did you mean `{similar}`?")),
            None => missing,
        })
    }

    /// Searches an agent's archive.
    pub async fn recall(&self, agent: AgentId, wanted: &RecallParams) -> Result<RecalledJson> {
        let Value::Object(wanted) = serde_json::json!(wanted) else { unreachable!("a struct is an object") };
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let pair = |(name, value)| format!("{name}={}", segment(&text(value)));
        let pairs: Vec<String> = wanted.iter().map(pair).collect();
        self.get_as(&agent_path(agent, &format!("/recall?{}", pairs.join("&")))).await
    }

    /// The space with this handle or id.
    pub async fn space(&self, space: &str) -> Result<SpaceJson> {
        let found = self.get_as(&format!("/v1/spaces/{}", segment(space))).await;
        self.or_similar(found, "/v1/spaces", space).await
    }

    /// A request that changes something; `key` makes repeating it harmless.
    pub async fn post(&self, path: &str, body: &impl Serialize, key: Option<&str>) -> Result<Value> {
        self.ask(Method::POST, path, Some(body), key).await
    }

    /// Sends a body to a hook as its service would: with these headers, and with the key of the service if the hook wants one.
    pub async fn deliver(
        &self,
        path: &str,
        headers: &[(String, String)],
        body: String,
        key: Option<&str>,
    ) -> Result<Value> {
        let server = self.server();
        let mut request = self.http.post(format!("{}{path}", server.url)).body(body);
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        let response = self.send(request, &server).await?;
        let bytes = response.bytes().await.map_err(|error| unreachable(&server.url, &error))?;
        serde_json::from_slice(&bytes).map_err(|_| not_vivarium(&server.url, "its answer is not JSON"))
    }

    /// A POST request without a body.
    pub async fn post_empty(&self, path: &str) -> Result<Value> {
        self.ask(Method::POST, path, NO_BODY, None).await
    }

    /// A request that changes an existing resource.
    pub async fn patch(&self, path: &str, body: &impl Serialize) -> Result<Value> {
        self.ask(Method::PATCH, path, Some(body), None).await
    }

    /// A request that creates or replaces a resource.
    pub async fn put(&self, path: &str, body: &impl Serialize) -> Result<Value> {
        self.ask(Method::PUT, path, Some(body), None).await
    }

    /// A request that deletes a resource.
    pub async fn delete(&self, path: &str) -> Result<Value> {
        self.ask(Method::DELETE, path, NO_BODY, None).await
    }

    /// The only id of a list that begins with what was given; that itself if none does, for the server to refuse it. `field` is
    /// where a row has its id.
    pub async fn full_id(&self, list: &str, field: &str, given: &str) -> Result<String> {
        if given.len() < ID_PREFIX_MIN {
            return Ok(given.to_owned());
        }
        let rows = self.list(list, ID_ROWS_MAX).await?;
        let ids: Vec<&str> = rows.iter().filter_map(|row| row[field].as_str()).collect();
        let begin: Vec<&&str> = ids.iter().filter(|id| id.starts_with(given)).collect();
        match begin.as_slice() {
            [one] => Ok((**one).to_owned()),
            [] => Ok(given.to_owned()),
            several if several.iter().any(|id| **id == given) => Ok(given.to_owned()),
            several => {
                let shown: Vec<String> = several.iter().take(IDS_SHOWN).map(|id| format!("`{id}`")).collect();
                let message = format!("{} ids begin with `{given}`", several.len());
                Err(ClientError::usage(message).hint(format!("name one in full: {}", shown.join(", "))))
            }
        }
    }

    /// All rows of a list of what operators have declared, in their type: there are never more.
    pub async fn all_as<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>> {
        self.list_as(path, ALL_MAX).await
    }

    /// All rows of a paged list, at most `max`.
    pub async fn list(&self, path: &str, max: usize) -> Result<Vec<Value>> {
        let mut rows = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut page_path = format!("{path}{}limit=200", if path.contains('?') { '&' } else { '?' });
            if let Some(cursor) = &cursor {
                page_path.push_str(&format!("&cursor={}", segment(cursor)));
            }
            let page: PageJson<Value> = self.get_as(&page_path).await?;
            rows.extend(page.items);
            match page.next {
                // A page may be empty although more follow; one that names itself would be requested forever.
                Some(next) if rows.len() < max && cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => break,
            }
        }
        rows.truncate(max);
        Ok(rows)
    }

    /// All rows of a paged list in their type, at most `max`.
    pub async fn list_as<T: DeserializeOwned>(&self, path: &str, max: usize) -> Result<Vec<T>> {
        typed(path, Value::Array(self.list(path, max).await?))
    }

    /// Opens a stream of updates, after `last_id` if one was received before.
    pub async fn open_stream(&self, path: &str, last_id: Option<&str>) -> Result<Response> {
        let server = self.server();
        let mut request = self
            .streams
            .get(format!("{}{path}", server.url))
            .bearer_auth(server.key.open())
            .header("accept", "text/event-stream");
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        self.send(request, &server).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        key: Option<&str>,
    ) -> Result<Value> {
        let server = self.server();
        let mut request =
            self.http.request(method, format!("{}{path}", server.url)).bearer_auth(server.key.open());
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let response = self.send(request, &server).await?;
        let no_content = response.status() == StatusCode::NO_CONTENT;
        let bytes = response.bytes().await.map_err(|error| unreachable(&server.url, &error))?;
        if no_content {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|_| not_vivarium(&server.url, "its answer is not JSON"))
    }

    /// The answer to a request that succeeded.
    async fn send(&self, request: RequestBuilder, server: &Credentials) -> Result<Response> {
        let response = request.send().await.map_err(|error| unreachable(&server.url, &error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let mut error = refusal(response, &server.url).await;
        if error.code == "key_invalid" && !self.fixed_key {
            error.class = ErrorClass::KeyReplaced;
        }
        Err(error)
    }

    fn server(&self) -> Arc<Credentials> {
        Arc::clone(&self.server.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

#[derive(Deserialize)]
struct ProblemDetails {
    code: String,
    title: Option<String>,
    detail: Option<String>,
    hint: Option<String>,
}

/// The hint for a refused key.
const KEY_REFUSED: &str = "check `VIV_KEY`, or unset it to use the data directory's credential file; \
    a lost admin key is replaced with `viv keys admin --reset`";

/// Parses an answer into the type that this program expects.
pub fn typed<T: DeserializeOwned>(what: &str, answer: Value) -> Result<T> {
    serde_json::from_value(answer).map_err(|error| {
        let message = format!("cannot read the answer to `{what}`: {error}");
        ClientError::new(ErrorClass::Failed, "unknown_answer", message).hint(
            "is the server a different version than this `viv`? Compare `viv version` with `viv doctor`",
        )
    })
}

/// The API path of an agent; `rest` begins with `/`, or is empty for the agent itself.
pub fn agent_path(agent: AgentId, rest: &str) -> String {
    format!("/v1/agents/{agent}{rest}")
}

/// Text escaped as one segment of a path or one value of a query.
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => out.push(char::from(byte)),
            // URL parsers take one or two dots alone for a directory.
            b'.' if text.bytes().any(|b| b != b'.') => out.push('.'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

async fn refusal(response: Response, url: &str) -> ClientError {
    let status = response.status();
    let body = response.bytes().await.unwrap_or_default();
    match serde_json::from_slice::<ProblemDetails>(&body) {
        Ok(problem) => from_problem(status, problem),
        Err(_) => not_vivarium(url, &format!("it answered {} without a problem body", status.as_u16())),
    }
}

fn from_problem(status: StatusCode, problem: ProblemDetails) -> ClientError {
    let message = problem.detail.or(problem.title).unwrap_or_else(|| format!("the server answered {status}"));
    let class = match status.as_u16() {
        404 => ErrorClass::NotFound,
        503 | 504 => ErrorClass::Unreachable,
        400..=499 | 507 => ErrorClass::Refused,
        _ => ErrorClass::Failed,
    };
    let hint = problem.hint.or_else(|| (status == StatusCode::UNAUTHORIZED).then(|| KEY_REFUSED.to_owned()));
    ClientError { class, code: problem.code, message, hint }
}

fn unreachable(url: &str, error: &reqwest::Error) -> ClientError {
    let (message, hint) = match error.is_timeout() && !error.is_connect() {
        true => (
            format!("the server at `{url}` did not answer in time"),
            "try again; if it continues, look at the server's log",
        ),
        false => (
            format!("no server answers at `{url}`: {}", root_cause(error)),
            "start one with `viv up`, or check `VIV_URL`",
        ),
    };
    ClientError::new(ErrorClass::Unreachable, "unreachable", message).hint(hint)
}

fn not_vivarium(url: &str, why: &str) -> ClientError {
    let message = format!("the server at `{url}` is not Vivarium: {why}");
    ClientError::new(ErrorClass::Unreachable, "not_vivarium", message).hint("check `VIV_URL`")
}

/// The innermost cause: it states what happened; the outer ones only state that a request was sent.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    // The address is already in the sentence around this.
    cause.to_string().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, body: &str, class: ErrorClass, code: &str) {
        let problem = serde_json::from_str(body).unwrap();
        let error = from_problem(StatusCode::from_u16(status).unwrap(), problem);
        assert_eq!((error.class, error.code.as_str()), (class, code));
    }

    #[test]
    fn a_problem_keeps_its_code_and_maps_to_a_class() {
        check(404, r#"{"code":"not_found","title":"t"}"#, ErrorClass::NotFound, "not_found");
        check(403, r#"{"code":"not_member","title":"t"}"#, ErrorClass::Refused, "not_member");
        check(413, r#"{"code":"too_large","title":"t"}"#, ErrorClass::Refused, "too_large");
        check(503, r#"{"code":"overloaded","title":"t"}"#, ErrorClass::Unreachable, "overloaded");
        check(500, r#"{"code":"internal","title":"t"}"#, ErrorClass::Failed, "internal");
    }

    #[test]
    fn a_name_cannot_escape_its_path_segment() {
        assert_eq!(segment("ada"), "ada");
        assert_eq!(segment("a/../b?c"), "a%2F..%2Fb%3Fc");
        assert_eq!(segment(".."), "%2E%2E");
        assert_eq!(segment("é"), "%C3%A9");
    }
}
