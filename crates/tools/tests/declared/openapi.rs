//! Declarations from an OpenAPI document.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::call::Effect;
use serde_json::{Value, json};
use tools::connector::Connector;
use tools::declare::{Declaration, DeclarationMistake};
use tools::http::HttpTool;
use tools::openapi::{OpenApiImport, import_openapi};
use tools::secret::SecretValue;

use super::calling::call;
use crate::loopback::Loopback;

/// A small shop with most of what documents contain.
fn shop() -> Value {
    json!({
        "openapi": "3.0.3",
        "servers": [{"url": "https://{region}.shop.example/v1/", "variables": {"region": {"default": "eu"}}}],
        "security": [{"token": []}],
        "paths": {
            "/orders/{order-id}": {
                "parameters": [{"$ref": "#/components/parameters/order"}],
                "get": {
                    "operationId": "orders/get",
                    "summary": "Get an order.",
                    "description": "Returns one order\n  with its items.",
                    "parameters": [
                        {"name": "fields", "in": "query", "explode": false, "schema": {"type": "array", "items": {"type": "string"}}},
                        {"name": "X-Trace", "in": "header", "schema": {"type": "string", "nullable": true}},
                        {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                    ],
                },
                "put": {
                    "operationId": "orders/replace",
                    "security": [{"key": [], "session": []}],
                    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}},
                },
                "delete": {"operationId": "orders/delete", "security": []},
            },
            "/orders": {
                "get": {
                    "operationId": "orders/list",
                    "security": [{"login": []}],
                    "parameters": [
                        {"name": "state", "in": "query", "required": true, "schema": {"enum": ["open", "done"]}},
                        {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    ],
                },
                "post": {
                    "operationId": "orders/create",
                    "requestBody": {"content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Item"}}}}},
                },
            },
            "/trees": {"post": {
                "operationId": "trees/plant",
                "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}},
            }},
            "/photos": {"post": {
                "operationId": "photos/upload",
                "requestBody": {"required": true, "content": {"multipart/form-data": {"schema": {"type": "object"}}}},
            }},
            "/odd": {"get": {
                "operationId": "odd",
                "parameters": [{"name": "f", "in": "query", "required": true, "schema": {"type": "object"}}],
            }},
        },
        "components": {
            "parameters": {"order": {"name": "order-id", "in": "path", "required": true, "schema": {"type": "integer"}}},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                "session": {"type": "apiKey", "in": "query", "name": "session"},
                "login": {"type": "http", "scheme": "Basic"},
            },
            "schemas": {
                "Order": {"allOf": [{"$ref": "#/components/schemas/Base"}, {
                    "type": "object",
                    "required": ["items", "order-id"],
                    "properties": {
                        "items": {"type": "array", "items": {"$ref": "#/components/schemas/Item"}},
                        "order-id": {"type": "string", "pattern": "^(?!x)"},
                        "total": {"type": "number", "readOnly": true},
                    },
                }]},
                "Base": {"properties": {"note": {"type": "string", "nullable": true, "example": "x", "x-internal": 1}}},
                "Item": {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}},
                "Tree": {"type": "object", "properties": {
                    "name": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
                    "self": {"$ref": "#/components/schemas/Loop"},
                }},
                "Loop": {"$ref": "#/components/schemas/Loop"},
            },
        },
    })
}

fn import(document: &Value, ids: &[&str]) -> Result<Vec<Declaration>, Vec<String>> {
    let only: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let found = import_openapi(document.to_string().as_bytes(), &OpenApiImport { only: &only, server: None });
    found.map_err(|wrong| wrong.iter().map(DeclarationMistake::to_string).collect())
}

fn one(id: &str) -> Declaration {
    import(&shop(), &[id]).unwrap_or_else(|wrong| panic!("{wrong:#?}")).remove(0)
}

#[test]
fn an_operation_becomes_one_tool() {
    let tool = one("orders/get");
    assert_eq!((tool.name.as_str(), tool.effect), ("orders_get", Effect::ReadOnly));
    assert_eq!(tool.description, "Get an order. Returns one order with its items.");
    let http = tool.http.clone().unwrap();
    assert_eq!(http.url, "https://eu.shop.example/v1/orders/{{ order_id }}");
    let queries: Vec<_> = http.query.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(queries, [("fields", "{{ fields | join(',') if fields is defined }}")]);
    assert_eq!(http.headers["X-Trace"], "{{ X_Trace }}");
    assert_eq!(http.headers["authorization"], "Bearer {{ secret(\"token\") }}");
    assert_eq!(http.secrets(), ["token".to_owned()].into());
    let wanted = json!({
        "type": "object",
        "properties": {
            "order_id": {"type": "integer"},
            "fields": {"type": "array", "items": {"type": "string"}},
            "X_Trace": {"type": ["string", "null"]},
        },
        "required": ["order_id"],
        "additionalProperties": false,
    });
    assert_eq!(tool.input, wanted);
}

#[test]
fn the_fields_of_a_body_become_arguments_beside_the_parameters() {
    let tool = one("orders/replace");
    assert_eq!(tool.effect, Effect::Idempotent);
    let http = tool.http.clone().unwrap();
    let json = json!({"note": "{{ note }}", "items": "{{ items }}", "order-id": "{{ body_order_id }}"});
    assert_eq!(http.json.as_ref().unwrap().as_object().unwrap().len(), 3);
    assert_eq!(http.json.unwrap(), json);
    assert_eq!(
        (http.headers["X-Key"].as_str(), http.query["session"].as_str()),
        ("{{ secret(\"key\") }}", "{{ secret(\"session\") }}")
    );
    assert_eq!(tool.input["properties"]["note"], json!({"type": ["string", "null"]}));
    assert_eq!(tool.input["properties"]["body_order_id"], json!({"type": "string"}));
    let required = tool.input["required"].as_array().unwrap();
    assert!(required.len() == 3 && required.contains(&json!("body_order_id")), "{required:?}");
    assert_eq!(one("orders/create").http.unwrap().json, Some(json!("{{ body }}")));
    assert_eq!(one("orders/create").effect, Effect::Unsafe);
    assert_eq!(one("orders/delete").http.unwrap().secrets().len(), 0);
    assert_eq!(one("orders/list").http.unwrap().headers["authorization"], "Basic {{ secret(\"login\") }}");
}

#[test]
fn schemas_that_contain_themselves_are_cut() {
    let tree = one("trees/plant").input;
    assert_eq!(tree["properties"]["self"], json!({}));
    let child = &tree["properties"]["children"]["items"];
    assert_eq!(child["properties"]["name"], json!({"type": "string"}));
    assert_eq!(child["properties"]["children"]["items"], json!({}));
}

#[test]
fn schemas_that_grow_without_end_are_cut() {
    // Each level names the next one four times: 4^40 parts.
    let mut document = shop();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/components/schemas/L{}", level + 1)});
        let fields: BTreeMap<String, &Value> = (0..4).map(|n| (format!("f{n}"), &next)).collect();
        document["components"]["schemas"][format!("L{level}")] =
            json!({"type": "object", "properties": fields});
    }
    document["paths"]["/trees"]["post"]["requestBody"]["content"]["application/json"]["schema"] =
        json!({"$ref": "#/components/schemas/L0"});
    let tool = import(&document, &["trees/plant"]).unwrap().remove(0);
    let bytes = tool.input.to_string().len();
    assert!((1_000..=agent::limits::TOOL_SCHEMA_MAX_BYTES).contains(&bytes), "{bytes}");
}

#[test]
fn what_cannot_be_declared_is_said_for_each_operation() {
    let wrong = import(&shop(), &["order/get", "photos/upload", "odd", "list", "zzzzzz"]).unwrap_err();
    let wanted = [
        "`order/get`: the document has no operation with this id\nhint: did you mean `orders/get`?",
        "`photos/upload`: it takes `multipart/form-data` as its body, and only JSON can be declared",
        "`odd`: the parameter `f` is an object, which cannot be written into a query",
        "`list`: the document has no operation with this id\nhint: did you mean `orders/list`?",
        "`zzzzzz`: the document has no operation with this id\nhint: it has 8, such as `odd`, `orders/create`",
    ];
    for (wrong, wanted) in wrong.iter().zip(wanted) {
        assert!(wrong.starts_with(wanted), "wanted `{wanted}`, got `{wrong}`");
    }
    assert_eq!(wrong.len(), wanted.len());
    let twice = import(&shop(), &["orders/get", "orders/get"]).unwrap_err();
    assert!(twice[0].contains("another operation becomes a tool named `orders_get` already"), "{twice:?}");
    let mut relative = shop();
    relative["servers"] = json!([{"url": "/v1"}]);
    assert!(
        import(&relative, &["odd", "orders/get"]).unwrap_err()[1].contains("names no server with a full URL")
    );
}

#[test]
fn ids_that_differ_only_at_their_end_become_different_names() {
    let long = |end: &str| format!("{}{end}", "x".repeat(80));
    let mut document = shop();
    document["paths"]["/odd"]["get"] = json!({"operationId": long("a")});
    document["paths"]["/odd"]["put"] = json!({"operationId": long("b")});
    let found = import(&document, &[&long("a"), &long("b")]).unwrap();
    assert_ne!(found[0].name, found[1].name);
    assert!(found.iter().all(|tool| tool.name.len() == 64 && tool.name.starts_with("xxxx")));
}

#[test]
fn a_document_that_is_none_is_refused() {
    let refused = |document: &[u8]| {
        let only = ["a".to_owned()];
        import_openapi(document, &OpenApiImport { only: &only, server: None }).unwrap_err()[0].to_string()
    };
    assert!(refused(b"openapi: 3.0.0").contains("wanted an OpenAPI document as JSON"));
    assert!(refused(br#"{"swagger":"2.0"}"#).contains("of version 3"));
    assert!(refused(&vec![b' '; 17 << 20]).contains("at most 16777216 bytes, got 17825792"));
    assert!(import(&shop(), &[]).unwrap_err()[0].contains("wanted the ids of 1 to 256 operations, got 0"));
}

#[tokio::test]
async fn an_imported_tool_can_be_called() {
    let server = Loopback::ok("application/json", "{}").await;
    let only = ["orders/get".to_owned(), "orders/replace".to_owned()];
    let import = OpenApiImport { only: &only, server: Some(&server.url("/v1")) };
    let declared = import_openapi(shop().to_string().as_bytes(), &import).unwrap();
    let secrets = ["token", "key", "session"].map(|name| (name.to_owned(), SecretValue::new("s3cret-value")));
    let secrets = Arc::new(BTreeMap::from(secrets));
    let tools = declared.into_iter().map(|mut declaration| {
        declaration.http.as_mut().unwrap().allow = vec!["127.0.0.1".into()];
        HttpTool::new(declaration, Arc::new(Connector::default()), secrets.clone()).unwrap()
    });
    let tools: Vec<HttpTool> = tools.collect();
    call(&tools[0], json!({"order_id": 7, "fields": ["a", "b"], "X_Trace": null})).await.unwrap();
    call(&tools[0], json!({"order_id": 8})).await.unwrap();
    call(&tools[1], json!({"order_id": 7, "items": [{"sku": "x"}], "body_order_id": "7"})).await.unwrap();
    let asked = server.requests();
    assert!(asked[0].starts_with("GET /v1/orders/7?fields=a%2Cb HTTP/1.1\r\n"), "{}", asked[0]);
    assert!(asked[1].starts_with("GET /v1/orders/8 HTTP/1.1\r\n"), "{}", asked[1]);
    assert!(asked[2].starts_with("PUT /v1/orders/7?session=s3cret-value HTTP/1.1\r\n"), "{}", asked[2]);
    assert!(asked[2].ends_with(r#"{"items":[{"sku":"x"}],"order-id":"7"}"#), "{}", asked[2]);
}
