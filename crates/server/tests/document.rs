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
