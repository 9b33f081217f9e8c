//! The OpenAPI document is valid and complete. Every response in every test is checked against it, see `world`.

use std::collections::HashSet;

use serde_json::Value;
use server::problem::Code;

use crate::world::World;

#[tokio::test]
async fn the_document_is_openapi_3_1_and_all_its_references_resolve() {
    let world = World::new().await;
    let document = world.document();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut refs = Vec::new();
    collect_refs(document, &mut refs);
    assert!(!refs.is_empty());
    for reference in refs {
        let pointer = reference.strip_prefix('#').expect("references point into the document");
        assert!(document.pointer(pointer).is_some(), "{reference} does not resolve");
    }
    let mut ids = HashSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().expect("an operation has a name");
            assert!(ids.insert(id.to_owned()), "{id} is there twice");
            assert!(
                operation["summary"].is_string() || operation["description"].is_string(),
                "{method} {path}"
            );
            let of_operation = operation.as_object().unwrap();
            assert!(of_operation.values().all(|value| !value.is_null()), "{method} {path}: {of_operation:?}");
            for name in path.split('/').filter_map(|part| part.strip_prefix('{')) {
                let name = name.trim_end_matches('}');
                let parameters = operation["parameters"].as_array().unwrap();
                assert!(parameters.iter().any(|p| p["name"] == name && p["in"] == "path"), "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn the_document_lists_every_code() {
    let world = World::new().await;
    let listed = world.document()["components"]["schemas"]["Code"]["enum"].as_array().unwrap();
    let listed: Vec<&str> = listed.iter().map(|code| code.as_str().unwrap()).collect();
    let known: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(listed, known);
}

/// Every operation, with its name for messages.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            all.push((format!("{method} {path}"), operation));
        }
    }
    all
}

#[tokio::test]
async fn every_body_and_every_json_response_has_an_example_that_fits_its_schema() {
    let world = World::new().await;
    let document = world.document();
    let check = |what: &str, content: &Value| {
        let mut root = content["schema"].clone();
        root["components"] = document["components"].clone();
        let validator = jsonschema::validator_for(&root).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&content["example"]).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{what}: {errors:?}: {}", content["example"]);
    };
    for (what, operation) in operations(document) {
        if let Some(body) = operation.get("requestBody") {
            check(&what, &body["content"]["application/json"]);
            assert_ne!(body["content"]["application/json"]["example"]["type"], "null", "{what}");
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            assert!(response["headers"]["x-request-id"].is_object(), "{what} {status}");
            let waits = matches!(status.as_str(), "429" | "503");
            assert_eq!(response["headers"]["retry-after"].is_object(), waits, "{what} {status}");
            for (media, content) in response["content"].as_object().into_iter().flatten() {
                if media != "text/event-stream" {
                    check(&format!("{what} {status}"), content);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_body_that_may_be_left_out_is_not_documented_as_null_and_null_is_refused() {
    let world = World::new().await;
    let document = world.document();
    let optional: Vec<_> = operations(document)
        .into_iter()
        .filter(|(_, operation)| operation["requestBody"]["required"] == false)
        .collect();
    assert!(optional.len() >= 2, "{optional:?}");
    for (what, operation) in optional {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        assert!(schema["$ref"].is_string(), "{what}: {schema}");
    }
    let null = world.post("/v1/agents/muhammad/cancel", Value::Null).await;
    assert_eq!((null.status, null.code()), (422, "wrong_type"));
}

#[tokio::test]
async fn parameters_have_their_bounds() {
    let world = World::new().await;
    for (what, operation) in operations(world.document()) {
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        for parameter in &parameters {
            let schema = &parameter["schema"];
            let bounded = match parameter["name"].as_str().unwrap() {
                "limit" => schema["minimum"] == 1 && schema["maximum"] == 200,
                "cursor" => schema["maxLength"].is_u64(),
                "agent" | "space" | "entity" => schema["pattern"].is_string(),
                _ => true,
            };
            assert!(bounded, "{what}: {parameter}");
        }
    }
}

#[tokio::test]
async fn every_stream_lists_its_frames_by_event_name() {
    let world = World::new().await;
    let document = world.document();
    let mut streams = 0;
    for (what, operation) in operations(document) {
        let content = &operation["responses"]["200"]["content"]["text/event-stream"];
        let Some(reference) = content["schema"]["$ref"].as_str() else { continue };
        let frames = &document.pointer(reference.strip_prefix('#').unwrap()).unwrap()["oneOf"];
        let names: Vec<_> = frames
            .as_array()
            .unwrap()
            .iter()
            .map(|frame| frame["properties"]["event"]["enum"][0].as_str().unwrap())
            .collect();
        assert!(names.contains(&"snapshot") && names.contains(&"closed"), "{what}: {names:?}");
        streams += 1;
    }
    assert_eq!(streams, 3);
}

fn collect_refs(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if key == "$ref" => into.push(text.clone()),
                    value => collect_refs(value, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_refs(item, into)),
        _ => {}
    }
}
