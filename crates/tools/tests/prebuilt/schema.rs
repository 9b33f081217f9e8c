//! What the model sees of each tool.

use agent::call::Effect;
use agent::port::Toolbox;
use serde_json::{Value, json};

fn walk(schema: &Value, visit: &mut impl FnMut(&serde_json::Map<String, Value>)) {
    match schema {
        Value::Object(map) => {
            visit(map);
            map.values().for_each(|value| walk(value, visit));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
        _ => {}
    }
}

#[test]
fn the_prebuilt_tools_match_their_snapshot() {
    let kit = tools::prebuilt();
    let shown: Vec<_> = kit
        .names()
        .iter()
        .map(|name| {
            let spec = kit.tool(name).unwrap().spec().clone();
            json!({"name": spec.name, "description": spec.description, "schema": *spec.schema})
        })
        .collect();
    insta::assert_json_snapshot!("prebuilt", shown);
}

#[test]
fn every_schema_is_an_inline_object() {
    let kit = tools::prebuilt();
    for name in kit.names() {
        let tool = kit.tool(&name).unwrap();
        let schema = &tool.spec().schema;
        assert_eq!(schema["type"], "object", "{name}");
        walk(schema, &mut |map| {
            assert!(!map.contains_key("$ref") && !map.contains_key("$defs"), "{name}: {map:?}");
            assert!(!map.contains_key("$schema") && !map.contains_key("title"), "{name}: {map:?}");
        });
    }
}

#[test]
fn the_space_of_a_message_comes_before_its_text() {
    let tool = tools::prebuilt().tool("send_message").unwrap();
    let fields: Vec<_> = tool.spec().schema["properties"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, ["space", "text", "mentions"]);
}

#[test]
fn prebuilt_tools_are_inward_and_invisible() {
    let kit = tools::prebuilt();
    for name in kit.names().into_iter().filter(|name| name != agent::tool::names::ASK_PERSON) {
        let spec = kit.tool(&name).unwrap().spec().clone();
        assert_eq!((spec.effect, spec.visible, spec.version.as_str()), (Effect::Inward, false, "1"));
    }
}
