//! The OpenAPI 3.1 document: adds what operations have in common, each from its policy, its parameters and its body.
//! Must not know individual routes.

use std::collections::BTreeMap;

use agent::limits;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApi, RefOr, Required};
use utoipa::{PartialSchema, ToSchema};

use crate::auth::Access;
use crate::problem::{Code, ProblemBody};

const SCHEME: &str = "bearer";
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The codes that an operation has beside the common ones. All of them are in its responses.
const CODES: &str = "x-codes";
/// The table of the common ones.
const COMMON_CODES: &str = "x-common-codes";
/// How deep an example goes into types that contain each other.
const EXAMPLE_DEPTH: usize = 8;

const ABOUT: &str = "\
A runtime for AI agents. An agent sleeps until an event arrives in its durable inbox, then works on it step by \
step, posts messages in spaces and sleeps again.\n\n\
Where a path contains an agent, an entity or a space, use its id or its handle. In JSON a field named after a thing \
(`agent`, `space`, `sender`, `cycle`) is its id, and `agent_handle` or `sender_display_name` the field of that name of the \
same thing; in what you send such a field takes the id or the handle. Lists are paged: pass `next` of \
one page as `cursor`, with the same filters, to get the next page. Every error is a problem document with a stable \
`code`; every response has the id of its request in `x-request-id`, which is also in the server's log.\n\n\
**Repeating a request.** Every route that changes something takes an `Idempotency-Key`, unless it says why not: 1 to 200 \
printable ASCII characters, chosen by the client. The same request (method, path and body) with the same key takes effect \
once, and the repeat is answered from what the first one did, as it is now. One that was refused has changed nothing: sent \
again, it is tried again. The same key with another request is refused (`key_reused`), also at the same time, and also if \
the first one was refused; only one that was refused access is not looked at, nor is its key. Keys are kept for 30 days, apart for each person, for each service and for all admin keys \
together; after that a key is new again. That an event or a message with an id of its client was accepted is known for as \
long as the store exists.\n\n\
**Compatibility.** Within `/v1` nothing is removed and nothing changes its meaning. Routes, optional fields, codes, \
values of enums, and events of streams may be added: ignore what you do not know. What is to be replaced is marked \
`deprecated` in this document and listed in the changelog, and works for at least six months and two minor versions \
after that. Before version 1.0 a minor version may break names; the changelog says so.";

/// What a route does, which decides what its part of the document has in common with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Reads,
    Lists,
    /// Once for each `Idempotency-Key`.
    Changes,
    /// It takes no key, for this reason.
    Keyless(&'static str),
}

/// Adds a name, the access policy, the security requirement and the error codes of its own to the operations of a path.
///
/// # Panics
/// If the kind of the route is not what its operations are documented to do.
pub(crate) fn mark(path: &str, item: &mut PathItem, access: Access, kind: Kind, codes: &[Code]) {
    let gets = item.get.is_some();
    let reads = matches!(kind, Kind::Reads | Kind::Lists);
    for operation in operations(item) {
        assert_eq!(gets, reads, "{path}: what changes something is no GET, and is added as what it is");
        let paged = ["limit", "cursor"].iter().all(|name| has_parameter(operation, name));
        let answers = serde_json::to_string(&operation.responses).unwrap_or_default();
        let of_page = answers.contains("/schemas/Page_");
        let lists = kind == Kind::Lists;
        assert!(
            lists == paged && (!gets || lists == of_page),
            "{path}: a list has `limit` and `cursor`, and answers a page"
        );
        if kind == Kind::Changes {
            operation.parameters.get_or_insert_default().push(RefOr::T(idempotency_key()));
        }
        if let Kind::Keyless(why) = kind {
            let about = operation.description.get_or_insert_default();
            if !about.is_empty() {
                about.push_str("\n\n");
            }
            about.push_str(&format!("It takes no `Idempotency-Key`: {why}."));
        }
        // Several modules have a handler `list`; the tag makes the operation id unique.
        if let (Some(tag), Some(name)) =
            (operation.tags.iter().flatten().next().cloned(), operation.operation_id.as_mut())
        {
            *name = format!("{tag}_{name}");
        }
        let codes: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
        let added = ExtensionsBuilder::new().add("x-access", access.as_str()).add(CODES, codes).build();
        operation.extensions.get_or_insert_default().merge(added);
        operation.security = Some(match access.is_keyless() {
            true => Vec::new(),
            false => vec![SecurityRequirement::new(SCHEME, Vec::<String>::new())],
        });
    }
}

/// Whether any operation of the path documents a query parameter.
pub(crate) fn takes_query(item: &mut PathItem) -> bool {
    operations(item).any(|operation| operation.parameters.iter().flatten().any(in_query))
}

fn has_parameter(operation: &Operation, name: &str) -> bool {
    let mut parameters = operation.parameters.iter().flatten();
    parameters.any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.name == name))
}

/// The header that makes a repeat harmless.
fn idempotency_key() -> Parameter {
    let about =
        "Makes it safe to repeat this request: with the same key it takes effect once. Kept for 30 days.";
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(limits::KEY_MAX_BYTES))
        .pattern(Some("^[!-~]([ -~]*[!-~])?$"));
    ParameterBuilder::new()
        .name(IDEMPOTENCY_KEY)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(about))
        .schema(Some(text))
        .build()
}

fn in_query(parameter: &RefOr<Parameter>) -> bool {
    matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query)
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch]
        .into_iter()
        .filter_map(Option::as_mut)
}

/// The whole document as JSON.
pub(crate) fn finish(mut document: OpenApi, version: &str) -> Bytes {
    document.info = InfoBuilder::new().title("Vivarium").version(version).description(Some(ABOUT)).build();
    let components = document.components.get_or_insert_default();
    let key = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("An API key")).build();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(key));
    components.schemas.insert(ProblemBody::name().into_owned(), ProblemBody::schema());
    components.schemas.insert(Code::name().into_owned(), Code::schema());
    // Built from types at start, and all of them serialise.
    let mut document = serde_json::to_value(&document).expect("the document serialises");
    document["components"]["headers"] = json!({
        "x-request-id": {"description": "Id of the request; also in the server's log.",
                         "required": true, "schema": {"type": "string", "format": "uuid"}},
        "location": {"description": "Path of what was created.",
                     "required": true, "schema": {"type": "string", "format": "uri-reference"}},
        "retry-after": {"description": "After how many seconds to try again.",
                        "required": true, "schema": {"type": "integer", "minimum": 1}},
    });
    let schemas = document["components"]["schemas"].take();
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            complete(operation, path, method);
            add_examples(operation, &schemas);
        }
    }
    document["components"]["schemas"] = schemas;
    document[COMMON_CODES] = common_codes();
    Bytes::from(document.to_string())
}

/// Adds bounds, the header for repeats, and the responses of an operation.
fn complete(operation: &mut Value, path: &str, method: &str) {
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        bound(parameter);
    }
    if let Some(body) = operation.get_mut("requestBody").filter(|body| is_json(body)) {
        // A body that may be left out is never `null`.
        let schema = &mut body["content"]["application/json"]["schema"];
        let mut variants = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
        if let Some(given) = variants.find(|variant| variant["type"] != "null").cloned() {
            *schema = given;
            body["required"] = json!(false);
        }
    }
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    let traits = Traits::of(operation, path, method);
    let own =
        |code: &Code| operation[CODES].as_array().is_some_and(|own| own.contains(&code.as_str().into()));
    for code in Code::ALL {
        if own(code) || is_common(*code, &traits) {
            by_status.entry(code.status()).or_default().push(*code);
        }
    }
    for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
        // A key has no path of its own.
        let located = status == "201" && !path.starts_with("/v1/keys");
        let headers: &[&str] = if located { &["x-request-id", "location"] } else { &["x-request-id"] };
        response["headers"] = header_refs(headers);
    }
    let is_page = operation["x-access"] == Access::Link.as_str();
    for (status, codes) in by_status {
        let mut response = problem(&codes);
        if is_page {
            // What is refused before the route is reached is a problem document there, too.
            response["content"]["text/html"] = page();
        }
        operation["responses"][status.to_string()] = response;
    }
    if is_page {
        operation["responses"]["200"]["content"] = json!({"text/html": page()});
    }
}

fn is_json(body: &Value) -> bool {
    body["content"]["application/json"].is_object()
}

/// What decides which refusals an operation has in common with others.
struct Traits<'a> {
    path: &'a str,
    reads: bool,
    access: &'a str,
    has_body: bool,
    takes_key: bool,
}

impl<'a> Traits<'a> {
    fn of(operation: &'a Value, path: &'a str, method: &str) -> Self {
        let mut parameters = operation["parameters"].as_array().into_iter().flatten();
        Self {
            path,
            reads: method == "get",
            access: operation["x-access"].as_str().unwrap_or_default(),
            has_body: operation["requestBody"].is_object(),
            takes_key: parameters.any(|parameter| parameter["name"] == IDEMPOTENCY_KEY),
        }
    }

    fn is(&self, access: Access) -> bool {
        self.access == access.as_str()
    }

    fn wants_key(&self) -> bool {
        ![Access::Probe, Access::Public, Access::Signed, Access::Link]
            .into_iter()
            .any(|access| self.is(access))
    }
}

/// Refusals that operations have in common.
struct CommonCodes {
    /// Of which requests, in words.
    of: &'static str,
    has: fn(&Traits<'_>) -> bool,
    codes: &'static [Code],
}

/// All of them. The reference shows this table once, not at each operation.
const COMMON: &[CommonCodes] = &[
    CommonCodes {
        of: "every request",
        has: |_| true,
        codes: &[
            Code::BadHttp,
            Code::UriTooLong,
            Code::HeadersTooLarge,
            Code::HostRefused,
            Code::OriginRefused,
            Code::BadQuery,
            Code::UnknownField,
            Code::TooManyRequests,
            Code::TooManyStreams,
            Code::TooManyBytes,
            Code::TooManyConnections,
            Code::Internal,
            Code::Damaged,
            Code::Broken,
            Code::Overloaded,
            Code::Closing,
            Code::TimedOut,
        ],
    },
    CommonCodes {
        of: "a request that wants a key",
        has: |of| of.wants_key(),
        codes: &[Code::KeyMissing, Code::KeyInvalid, Code::KeyExpired],
    },
    CommonCodes {
        of: "a request that wants more than any key",
        has: |of| of.wants_key() && !of.is(Access::AnyKey),
        codes: &[Code::Forbidden],
    },
    CommonCodes {
        of: "a path that names something",
        has: |of| of.path.contains('{'),
        codes: &[Code::NotFound, Code::NotUtf8],
    },
    CommonCodes {
        of: "a request with a body",
        has: |of| of.has_body,
        codes: &[Code::NotUtf8, Code::BodyTooLarge, Code::BodySlow],
    },
    CommonCodes {
        of: "a request with a JSON body",
        has: |of| of.has_body && !of.is(Access::Link),
        codes: &[Code::BadJson, Code::TooDeep, Code::NotJson, Code::WrongType, Code::BadValue],
    },
    CommonCodes {
        of: "a request that takes an `Idempotency-Key`",
        has: |of| of.takes_key,
        codes: &[Code::BadHeader, Code::KeyReused],
    },
    CommonCodes { of: "a request that changes something", has: |of| !of.reads, codes: &[Code::NoSpace] },
];

/// The common refusals as the document has them, for its readers.
fn common_codes() -> Value {
    let rows = COMMON.iter().map(|common| {
        let codes: Vec<&str> = common.codes.iter().map(|code| code.as_str()).collect();
        json!({"of": common.of, "codes": codes})
    });
    Value::Array(rows.collect())
}

/// Whether operations of this kind can fail with the code.
fn is_common(code: Code, of: &Traits<'_>) -> bool {
    COMMON.iter().any(|common| common.codes.contains(&code) && (common.has)(of))
}

/// The response with these codes.
fn problem(codes: &[Code]) -> Value {
    let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let lines: Vec<String> =
        codes.iter().map(|code| format!("- `{}`: {}", code.as_str(), code.title())).collect();
    let schema = json!({
        "allOf": [
            {"$ref": format!("#/components/schemas/{}", ProblemBody::name())},
            {"type": "object", "properties": {"code": {"type": "string", "enum": names}}},
        ]
    });
    let example = codes.first().map(|code| ProblemBody::example(*code));
    let headers: &[&str] = match codes.iter().any(|code| code.waits()) {
        true => &["x-request-id", "retry-after"],
        false => &["x-request-id"],
    };
    json!({
        "description": lines.join("\n"),
        "headers": header_refs(headers),
        "content": {"application/problem+json": {"schema": schema, "example": example}},
    })
}

/// A web page for people.
fn page() -> Value {
    json!({"schema": {"type": "string"}, "example": "<!doctype html>"})
}

fn header_refs(names: &[&str]) -> Value {
    let refs = names
        .iter()
        .map(|name| ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")})));
    Value::Object(refs.collect())
}

/// Adds the bounds of parameters that have the same meaning everywhere.
fn bound(parameter: &mut Value) {
    let bounds = match parameter["name"].as_str() {
        Some("limit") => json!({"minimum": 1, "maximum": limits::PAGE_MAX, "default": limits::PAGE_DEFAULT}),
        Some("cursor") => json!({"maxLength": limits::KEY_MAX_BYTES}),
        Some("agent" | "entity" | "space") => {
            json!({"pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]{0,39}$"})
        }
        _ if parameter["in"] == "path" => json!({"minLength": 1}),
        _ => return,
    };
    if let (Some(schema), Value::Object(bounds)) = (parameter["schema"].as_object_mut(), bounds) {
        schema.extend(bounds);
    }
}

/// Adds an example to the body and to every JSON response of an operation.
fn add_examples(operation: &mut Value, schemas: &Value) {
    let of_body = "/requestBody/content/application~1json";
    if let Some(content) = operation.pointer_mut(of_body) {
        content["example"] = example(&content["schema"], schemas, false, EXAMPLE_DEPTH);
    }
    for response in operation["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(content) = response.pointer_mut("/content/application~1json") {
            content["example"] = example(&content["schema"], schemas, true, EXAMPLE_DEPTH);
        }
    }
}

/// A value that fits the schema. Optional fields are in it if `whole`, else only those with an example of their own.
fn example(schema: &Value, schemas: &Value, whole: bool, depth: usize) -> Value {
    let inner = |schema: &Value| example(schema, schemas, whole, depth.saturating_sub(1));
    if let Some(own) = ["example", "const"].into_iter().find_map(|key| schema.get(key)) {
        return own.clone();
    }
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return inner(&schemas[name]);
    }
    if let Some(first) = schema["enum"].get(0).or(schema["examples"].get(0)) {
        return first.clone();
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let parts = parts.iter().map(inner).filter_map(|part| part.as_object().cloned());
        return Value::Object(parts.flatten().collect());
    }
    if let Some(variants) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        return variants.iter().find(|schema| schema["type"] != "null").map(inner).unwrap_or_default();
    }
    let kinds = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    match kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null") {
        Some("object") => {
            let required =
                |name: &String| schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
            let fields = schema["properties"].as_object().into_iter().flatten();
            let fields = fields.filter(|(name, of)| required(name) || whole || of.get("example").is_some());
            Value::Object(fields.map(|(name, of)| (name.clone(), inner(of))).collect())
        }
        Some("array") if depth > 0 => json!([inner(&schema["items"])]),
        Some("array") => json!([]),
        Some("string") => json!(match schema["format"].as_str() {
            Some("uuid") => "0199a1b2-0000-7000-8000-000000000001",
            Some("date-time") => "2026-01-02T03:04:05Z",
            _ => "text",
        }),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(false),
        _ => json!({}),
    }
}
