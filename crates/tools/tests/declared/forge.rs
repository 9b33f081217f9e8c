//! A document in the shape of a large forge's: every construct of it once. Its operations are called at a server that checks
//! each request by the document.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tools::connector::Connector;
use tools::declare::{Declaration, read_toml};
use tools::http::HttpTool;
use tools::openapi::{OpenApiImport, import_openapi};
use tools::secret::SecretValue;

use super::calling::call;
use crate::loopback::{Loopback, page, write};

const FORGE: &str = include_str!("forge.json");

fn forge() -> Value {
    serde_json::from_str(FORGE).expect("JSON")
}

fn imported(server: Option<&str>) -> Vec<Declaration> {
    let only = ["issues/create", "issues/list-for-repo", "repos/replace-all-topics"].map(str::to_owned);
    import_openapi(FORGE.as_bytes(), &OpenApiImport { only: &only, server })
        .unwrap_or_else(|wrong| panic!("{wrong:#?}"))
        .tools
}

/// What is wrong with a request, by the document. The server takes no `null`, which its version says in a way of its own.
fn wrong_with(request: &str) -> Vec<String> {
    let document = forge();
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
    let mut line = head.split(' ');
    let (method, target) = (line.next().unwrap_or_default(), line.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |known: &&String| {
        let known: Vec<&str> = known.split('/').collect();
        known.len() == parts.len()
            && known.iter().zip(&parts).all(|(k, part)| k.starts_with('{') || k == part)
    };
    let known = document["paths"].as_object().and_then(|paths| paths.keys().find(fits));
    let operation = &document["paths"][known.map_or("", String::as_str)][method.to_lowercase()];
    if operation.is_null() {
        return vec![format!("no operation {method} {path}")];
    }
    let check = |schema: &Value, value: &Value| {
        let schema = json!({"components": document["components"], "allOf": [schema]});
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        validator.iter_errors(value).map(|error| error.to_string()).collect::<Vec<_>>()
    };
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let parameters: Vec<&Value> = parameters
        .map(|one| one["$ref"].as_str().and_then(|name| document.pointer(&name[1..])).unwrap_or(one))
        .collect();
    let mut wrong = Vec::new();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let Some(known) = parameters.iter().find(|one| one["in"] == "query" && one["name"] == name) else {
            wrong.push(format!("unknown query {name}"));
            continue;
        };
        let value = value.parse::<i64>().map_or_else(|_| json!(value), |number| json!(number));
        wrong.extend(check(&known["schema"], &value));
    }
    match &operation["requestBody"]["content"]["application/json"]["schema"] {
        Value::Null if body.is_empty() => {}
        Value::Null => wrong.push("a body that is not declared".to_owned()),
        schema => match serde_json::from_str(body) {
            Ok(body) => wrong.extend(check(schema, &body)),
            Err(error) => wrong.push(error.to_string()),
        },
    }
    wrong
}

#[tokio::test]
async fn operations_of_a_forge_are_called_as_its_document_says() {
    let server = Loopback::serve(|request, stream| {
        let wrong = wrong_with(&request);
        let status = if wrong.is_empty() { "200 OK" } else { "422 Unprocessable Content" };
        write(stream, page(status, "application/json", &json!({"wrong": wrong}).to_string()))
    })
    .await;
    let secrets = Arc::new(BTreeMap::<String, SecretValue>::new());
    let tools: Vec<HttpTool> = imported(Some(&server.url("")))
        .into_iter()
        .map(|mut declaration| {
            declaration.http.as_mut().expect("an HTTP tool").allow = vec!["127.0.0.1".into()];
            HttpTool::new(declaration, Arc::new(Connector::default()), secrets.clone()).expect("it is valid")
        })
        .collect();
    let issue = json!({
        "owner": "octo", "repo": "hello/world", "title": 7, "body": "It {{ breaks }}", "milestone": 3,
        "labels": ["bug", {"name": "new", "color": "f00"}], "parent": {"number": 1, "title": "a", "children": []},
    });
    let list = json!({"owner": "octo", "repo": "hello", "state": "all", "labels": "bug", "per_page": 5});
    let topics = json!({"owner": "octo", "repo": "hello", "names": []});
    for (tool, arguments) in tools.iter().zip([issue, list, topics]) {
        let outcome = call(tool, arguments).await.unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(outcome.text, r#"{"wrong":[]}"#);
    }
    let asked = server.requests();
    assert!(asked[0].starts_with("POST /repos/octo/hello%2Fworld/issues HTTP/1.1\r\n"), "{}", asked[0]);
    assert!(asked[2].ends_with(r#"{"names":[]}"#), "{}", asked[2]);
    // The document is looked at before a request is made.
    for wrong in [
        json!({"owner": "octo", "repo": "hello"}),
        json!({"owner": "octo", "repo": "hello", "title": [1]}),
        json!({"owner": "octo", "repo": "hello", "title": "a", "state_reason": "other"}),
        json!({"owner": "octo", "repo": "hello", "title": "a", "colour": "red"}),
    ] {
        assert!(call(&tools[0], wrong.clone()).await.is_err(), "{wrong}");
    }
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn null_is_allowed_where_the_document_allows_it_and_a_file_can_hold_the_declaration() {
    let declarations = imported(None);
    let fields = &declarations[0].input["properties"];
    let null = json!({"type": "null"});
    let parts = |field: &str| fields[field]["anyOf"].as_array().expect("parts").clone();
    assert_eq!(fields["assignee"]["type"], json!(["string", "null"]));
    assert_eq!(parts("milestone")[2], null);
    assert_eq!(parts("state_reason"), [json!({"type": "string", "enum": ["done", "dropped"]}), null.clone()]);
    assert_eq!(parts("parent")[1], null);
    // An issue contains issues: the inner ones are cut.
    assert_eq!(parts("parent")[0]["allOf"][0]["properties"]["parent"], json!({}));
    assert_eq!(fields["reviewed_by"]["type"], json!(["object", "null"]));
    for declaration in &declarations {
        let text = toml::to_string_pretty(declaration).expect("a declaration without null");
        assert_eq!(read_toml("x.toml", &text, &[]).as_ref(), Ok(declaration));
    }
}
