//! From the arguments of a call to its request. Secrets are opened here, when everything else of the request is known, and
//! nowhere else. Must not know what the answer means.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agent::call::Effect;
use agent::id::CallId;
use agent::limits;
use minijinja::Value;
use minijinja::value::ValueKind;
use percent_encoding::percent_decode_str;
use reqwest::{Method, Url};

use crate::connector::{AllowList, ConnectError, Outgoing, TrafficLimits};
use crate::declare::{Declaration, HttpDeclaration, body_slot};
use crate::secret::{self, Mask, SecretValue, Secrets};
use crate::template::{self, Slot};

/// A request that is ready, and what hides its secrets in the answer.
pub(super) struct Prepared {
    pub(super) request: Outgoing,
    pub(super) mask: Mask,
}

/// A request with marks in the place of secrets.
struct Draft {
    url: Url,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    body: Option<Body>,
}

enum Body {
    Json(serde_json::Value),
    Form(serde_json::Value),
    Text(String, Slot),
}

/// Builds the request of a call. The error is for the model; nothing was sent.
pub(super) async fn prepare(
    declaration: &Declaration,
    http: &HttpDeclaration,
    arguments: &serde_json::Value,
    call: &CallId,
    secrets: &dyn Secrets,
) -> Result<Prepared, String> {
    // JSON writes these characters as they are.
    if template::has_mark(&arguments.to_string()) {
        return Err("the arguments contain U+FDD0 or U+FDD1, which no text has".to_owned());
    }
    let mut draft = draft(http, &template::context(arguments))?;
    if declaration.effect == Effect::Idempotent {
        add_header(&mut draft.headers, "idempotency-key", &call.0);
    }
    let opened = open(&draft, &http.secrets(), secrets).await?;
    let mask = Mask::of(opened.iter().map(|(name, value)| (name.as_str(), value)));
    match write(declaration, http, draft, &opened) {
        Ok(request) => Ok(Prepared { request, mask }),
        Err(why) => Err(mask.hide(why)),
    }
}

fn draft(http: &HttpDeclaration, context: &Value) -> Result<Draft, String> {
    let at = |key: &str| {
        let key = key.to_owned();
        move |why: String| format!("the request cannot be written: `{key}`: {why}")
    };
    let url = url(&http.url, context).map_err(at("url"))?;
    let mut query = Vec::new();
    for (name, source) in &http.query {
        let value =
            template::value(source, Slot::Value, context).and_then(|value| pairs(name, value.as_ref()));
        query.extend(value.map_err(at(&format!("query.{name}")))?);
    }
    let mut headers = Vec::new();
    for (name, source) in &http.headers {
        let at = at(&format!("headers.{name}"));
        let value = template::value(source, Slot::Value, context).map_err(&at)?;
        if let Some(value) = value.filter(|value| !value.is_none()) {
            headers.push((name.clone(), template::scalar(&value).map_err(at)?));
        }
    }
    let structured = |source, key| {
        template::structured(source, Slot::Value, context).map_err(at(key)).map(Option::unwrap_or_default)
    };
    let body = match (&http.json, &http.form, &http.body) {
        (Some(json), ..) => {
            let written = structured(json, "json")?;
            add_header(&mut headers, "content-type", "application/json");
            Some(Body::Json(written))
        }
        (None, Some(form), _) => {
            let written = structured(form, "form")?;
            if !written.is_object() && !written.is_null() {
                return Err(at("form")("wanted an object: a form has named fields".to_owned()));
            }
            add_header(&mut headers, "content-type", "application/x-www-form-urlencoded");
            Some(Body::Form(written))
        }
        (None, None, Some(source)) => {
            let slot = body_slot(http);
            Some(Body::Text(template::text(source, slot, context).map_err(at("body"))?, slot))
        }
        (None, None, None) => None,
    };
    if http.outcome.is_some() {
        add_header(&mut headers, "accept", "application/json");
    }
    Ok(Draft { url, query, headers, body })
}

/// Adds a header that the declaration does not name itself.
fn add_header(headers: &mut Vec<(String, String)>, name: &str, value: &str) {
    if !headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
        headers.push((name.to_owned(), value.to_owned()));
    }
}

/// The URL. No value has changed its origin or left its place in the path.
fn url(source: &str, context: &Value) -> Result<Url, String> {
    let origin = template::origin(source)?;
    let text = template::text(source, Slot::Url, context)?;
    let path = text.get(origin.len()..).unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    for segment in path.split('/') {
        let decoded = percent_decode_str(segment).decode_utf8_lossy();
        if decoded.split(['/', '\\']).any(|part| part == "." || part == "..") {
            return Err("the path would lead elsewhere: it contains `.` or `..` as a part".to_owned());
        }
    }
    let url = Url::parse(&text).map_err(|error| format!("this is not a URL: {error}"))?;
    let wanted = Url::parse(origin).map_err(|error| format!("this is not a URL: {error}"))?;
    if url.origin() != wanted.origin() || !url.username().is_empty() || url.password().is_some() {
        return Err("the arguments would change where the request goes".to_owned());
    }
    Ok(url)
}

/// The pairs of a parameter: none if it is absent, several for a list or an object.
fn pairs(name: &str, value: Option<&Value>) -> Result<Vec<(String, String)>, String> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(Vec::new()) };
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
        return template::scalar(value).map(|text| vec![(name.to_owned(), text)]);
    }
    let value = serde_json::to_value(value).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    template::form::pairs(Some(name), &value, &mut found);
    Ok(found)
}

/// Opens the secrets that a request names.
async fn open(
    draft: &Draft,
    declared: &BTreeSet<String>,
    secrets: &dyn Secrets,
) -> Result<BTreeMap<String, SecretValue>, String> {
    let mut named = BTreeSet::new();
    let pairs = draft.query.iter().chain(&draft.headers);
    pairs.for_each(|(_, value)| named.extend(template::names(value)));
    match &draft.body {
        Some(Body::Json(json) | Body::Form(json)) => named.extend(template::names(&json.to_string())),
        Some(Body::Text(text, _)) => named.extend(template::names(text)),
        None => {}
    }
    // A template may compute a name, but an argument must not choose which secret is sent.
    if let Some(name) = named.iter().find(|name| !declared.contains(*name)) {
        return Err(format!(
            "the declaration does not write out the name of the secret `{name}`, so nothing was sent"
        ));
    }
    secret::open(named, secrets).await
}

/// Puts the secrets in and builds the request.
fn write(
    declaration: &Declaration,
    http: &HttpDeclaration,
    draft: Draft,
    opened: &BTreeMap<String, SecretValue>,
) -> Result<Outgoing, String> {
    let value = |name: &str| opened.get(name).map(|secret| secret.reveal().to_owned());
    let unknown = |name: String| format!("there is no secret `{name}`");
    let fill = |text: &str| template::fill(text, &value).map_err(unknown);
    let refused = |error: ConnectError| error.to_string();

    let method = Method::from_bytes(http.method.as_bytes()).map_err(|error| error.to_string())?;
    let url = with_query(draft.url, &draft.query, &fill)?;
    let mut request = Outgoing::to(method, url).map_err(refused)?;
    for (name, text) in &draft.headers {
        request = request.header(name, &fill(text)?, template::has_mark(text)).map_err(refused)?;
    }
    request = match draft.body {
        Some(Body::Json(mut json)) => {
            fill_json(&mut json, &fill)?;
            request.body(json.to_string())
        }
        Some(Body::Form(mut form)) => {
            fill_json(&mut form, &fill)?;
            let form = if form.is_null() { serde_json::Map::new().into() } else { form };
            request.body(template::form::written(&form)?)
        }
        Some(Body::Text(text, slot)) => {
            let encoded = |name: &str| value(name).map(|secret| encode(&secret, slot));
            request.body(template::fill(&text, &encoded).map_err(unknown)?)
        }
        None => request,
    };
    let allow = http.allow.iter().map(|entry| entry.parse()).collect::<Result<_, String>>()?;
    Ok(request.allow(AllowList::new(allow)).limits(traffic(declaration)))
}

/// A secret as the text around it needs it.
fn encode(secret: &str, slot: Slot) -> String {
    match slot {
        Slot::Form => template::percent_encoded(secret),
        Slot::JsonText => {
            let quoted = serde_json::Value::from(secret).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        }
        Slot::Url | Slot::Value | Slot::Text | Slot::Event => secret.to_owned(),
    }
}

fn with_query(
    mut url: Url,
    query: &[(String, String)],
    fill: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Url, String> {
    let mut parts: Vec<String> =
        url.query().filter(|query| !query.is_empty()).map(str::to_owned).into_iter().collect();
    for (name, text) in query {
        let (name, text) = (template::percent_encoded(name), template::percent_encoded(&fill(text)?));
        parts.push(format!("{name}={text}"));
    }
    let joined = parts.join("&");
    url.set_query(Some(joined.as_str()).filter(|query| !query.is_empty()));
    Ok(url)
}

fn fill_json(
    json: &mut serde_json::Value,
    fill: &dyn Fn(&str) -> Result<String, String>,
) -> Result<(), String> {
    match json {
        serde_json::Value::String(text) => *text = fill(text)?,
        serde_json::Value::Array(items) => items.iter_mut().try_for_each(|item| fill_json(item, fill))?,
        serde_json::Value::Object(map) => map.values_mut().try_for_each(|value| fill_json(value, fill))?,
        _ => {}
    }
    Ok(())
}

/// A cycle stops waiting after the tool's time-out, but a late answer still becomes an event; so the request may take as
/// long as the runtime keeps a call.
fn traffic(declaration: &Declaration) -> TrafficLimits {
    let total =
        if declaration.asynchronous { declaration.timeout } else { Duration::from_millis(limits::LATE_MS) };
    TrafficLimits { head: total, total, ..TrafficLimits::default() }
}
