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
    found.map(|found| found.tools).map_err(|wrong| wrong.iter().map(DeclarationMistake::to_string).collect())
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
    assert_eq!(http.headers["authorization"], "Bearer {{ secret(\"eu.shop.example.token\") }}");
    assert_eq!(http.secrets(), ["eu.shop.example.token".to_owned()].into());
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
fn a_document_asks_for_no_secret_of_another_server() {
    let named = |server: &str, scheme: &str| {
        let document = json!({
            "openapi": "3.0.0", "servers": [{"url": server}], "security": [{scheme: []}],
            "components": {"securitySchemes": {scheme: {"type": "apiKey", "in": "header", "name": "X"}}},
            "paths": {"/a": {"get": {"operationId": "a", "responses": {}}}},
        });
        import(&document, &["a"]).map(|tools| tools[0].http.clone().unwrap().secrets().pop_first().unwrap())
    };
    for (server, scheme, name) in [
        ("https://evil.example/v1", "github_token", "evil.example.github_token"),
        ("https://evil.example:8443", "a.b c\"d", "evil.example.8443.a_b_c_d"),
        ("https://evil.example_8443", "k", "evil.example_8443.k"),
        ("https://evil-example.com", "Api-Key", "evil-example.com.api-key"),
        ("http://evil.example", "k", "evil.example.80.k"),
        ("https://[2606::1]:80/", "k", "IP6.2606--1.80.k"),
        ("https://EVIL.example.", "k", "evil.example..k"),
    ] {
        assert_eq!(named(server, scheme).unwrap(), name, "{server}");
    }
    assert!(named("https://a.example.8443", "k").unwrap_err()[0].contains("is no URL"));
    assert!(named("https://a!b.example", "k").unwrap_err()[0].contains("because of its `!`"));
    let one_name = |schemes: [String; 2]| {
        let own = schemes.iter().map(|name| (name.clone(), json!({"type": "http", "scheme": "bearer"})));
        let schemes_of: serde_json::Map<String, Value> = own.collect();
        let document = json!({
            "openapi": "3.0.0", "servers": [{"url": "https://a.example"}], "security": [{&schemes[0]: []}],
            "components": {"securitySchemes": schemes_of}, "paths": {"/a": {"get": {"operationId": "a"}}},
        });
        import(&document, &["a"]).unwrap_err().remove(0)
    };
    for (schemes, both) in [
        (["Key".to_owned(), "key".to_owned()], "`Key` and `key` would both use the secret `a.example.key`"),
        (["a.b".to_owned(), "a b".to_owned()], "would both use the secret `a.example.a_b`"),
        (["k".repeat(90), "k".repeat(91)], "would both use the secret `a.example.kkk"),
    ] {
        assert!(one_name(schemes).contains(both));
    }
    let long = named("https://evil.example", &"k".repeat(100)).unwrap();
    assert!(long.len() == 64 && long.starts_with("evil.example.k"));
    let host = format!("{}.{}.github.com", "a".repeat(40), "b".repeat(40));
    assert!(named(&format!("https://{host}"), "k").unwrap_err()[0].contains("longer than 64"));
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
        ("{{ secret(\"eu.shop.example.key\") }}", "{{ secret(\"eu.shop.example.session\") }}")
    );
    assert_eq!(tool.input["properties"]["note"], json!({"type": ["string", "null"]}));
    assert_eq!(tool.input["properties"]["body_order_id"], json!({"type": "string"}));
    let required = tool.input["required"].as_array().unwrap();
    assert!(required.len() == 3 && required.contains(&json!("body_order_id")), "{required:?}");
    assert_eq!(one("orders/create").http.unwrap().json, Some(json!("{{ body }}")));
    assert_eq!(one("orders/create").effect, Effect::Unsafe);
    assert_eq!(one("orders/delete").http.unwrap().secrets().len(), 0);
    assert_eq!(
        one("orders/list").http.unwrap().headers["authorization"],
        "Basic {{ secret(\"eu.shop.example.login\") }}"
    );
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
        "`photos/upload`: it takes `multipart/form-data` as its body, and only JSON, forms and text can be declared",
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
    let declared = import_openapi(shop().to_string().as_bytes(), &import).unwrap().tools;
    let named = declared.iter().flat_map(|declaration| declaration.http.as_ref().unwrap().secrets());
    let secrets = named.map(|name| (name, SecretValue::new("s3cret-value")));
    let secrets: Arc<BTreeMap<_, _>> = Arc::new(secrets.collect());
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

/// The tool of one operation with this key beside its id, and what it leaves out.
fn operation(method: &str, key: &str, value: Value) -> Result<(Declaration, Vec<String>), String> {
    let mut document = shop();
    document["paths"]["/things/{id}"] = json!({method: {"operationId": "thing", "security": [], key: value}});
    document["components"]["schemas"]["Cat"] =
        json!({"type": "object", "properties": {"purrs": {"type": "boolean"}}});
    let only = ["thing".to_owned()];
    let import = OpenApiImport { only: &only, server: Some("https://a.example") };
    let found = import_openapi(document.to_string().as_bytes(), &import);
    let mut found = found.map_err(|wrong| wrong[0].to_string())?;
    Ok((found.tools.remove(0), found.left_out.iter().map(DeclarationMistake::to_string).collect()))
}

fn with_body(kinds: Value, required: bool) -> Result<(Declaration, Vec<String>), String> {
    operation("post", "requestBody", json!({"required": required, "description": "It.", "content": kinds}))
}

#[test]
fn a_body_is_json_a_form_or_a_text_and_what_is_none_of_them_is_refused_or_named() {
    let object = || {
        json!({"schema": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "address": {"type": "object", "properties": {"city": {"type": "string"}}},
            "tags": {"type": "array", "items": {"type": "string"}},
        }}})
    };
    let fields = json!({"name": "{{ name }}", "address": "{{ address }}", "tags": "{{ tags }}"});
    let kind_of = |http: &tools::declare::HttpDeclaration| http.headers.get("content-type").cloned();
    for (kinds, json, kind) in [
        (json!({"application/json": object()}), true, None),
        (json!({"*/*": object()}), true, None),
        (json!({"application/*": object()}), true, None),
        (json!({"application/json; charset=utf-8": object()}), true, None),
        (json!({"application/merge-patch+json": object()}), true, Some("application/merge-patch+json")),
        (
            json!({"application/vnd.api+json": object(), "text/plain": {}}),
            true,
            Some("application/vnd.api+json"),
        ),
        (json!({"application/x-www-form-urlencoded": object()}), false, None),
        (
            json!({"multipart/form-data": object(), "application/x-www-form-urlencoded": object()}),
            false,
            None,
        ),
        (json!({"application/x-www-form-urlencoded": object(), "application/json": object()}), true, None),
    ] {
        for required in [true, false] {
            let (tool, left_out) = with_body(kinds.clone(), required).unwrap();
            let http = tool.http.unwrap();
            let (written, other) = if json {
                (http.json.clone(), http.form.clone())
            } else {
                (http.form.clone(), http.json.clone())
            };
            assert_eq!((written.as_ref(), other), (Some(&fields), None), "{kinds}");
            assert_eq!(kind_of(&http).as_deref(), kind, "{kinds}");
            assert_eq!(tool.input["properties"].as_object().unwrap().len(), 3, "{kinds}");
            assert_eq!(tool.input["required"], if required { json!(["name"]) } else { json!([]) });
            assert_eq!(left_out, Vec::<String>::new());
        }
    }
    for kind in [
        "text/plain",
        "text/csv",
        "application/xml",
        "application/atom+xml",
        "application/x-ndjson",
        "application/yaml",
    ] {
        let (tool, _) = with_body(json!({kind: {"schema": {"type": "object"}}}), true).unwrap();
        let http = tool.http.unwrap();
        assert_eq!((http.body.as_deref(), kind_of(&http).as_deref()), (Some("{{ body }}"), Some(kind)));
        assert_eq!(tool.input["properties"]["body"], json!({"type": "string", "description": "It."}));
    }
    for kind in ["multipart/form-data", "application/octet-stream", "image/png"] {
        let wrong = with_body(json!({kind: object()}), true).unwrap_err();
        assert!(wrong.contains(kind) && wrong.contains("only JSON, forms and text"), "{wrong}");
        let (tool, left_out) = with_body(json!({kind: object()}), false).unwrap();
        assert_eq!(tool.input["properties"], json!({}));
        assert!(left_out[0].starts_with("`thing`: it takes") && left_out[0].contains(kind), "{left_out:?}");
    }
    let binary = json!({"*/*": {"schema": {"type": "string", "format": "binary"}}});
    assert!(with_body(binary, true).is_err());
    let (tool, left_out) =
        operation("get", "requestBody", json!({"content": {"application/json": object()}})).unwrap();
    assert!(
        tool.http.unwrap().json.is_none() && left_out[0].contains("a `GET` request has no body"),
        "{left_out:?}"
    );
    let deep = json!({"application/x-www-form-urlencoded": {
        "schema": {"type": "object", "properties": {"expand": {"type": "array"}, "plain": {"type": "array"}}},
        "encoding": {"expand": {"style": "deepObject", "explode": true}},
    }});
    let form = with_body(deep, true).unwrap().0.http.unwrap().form.unwrap();
    assert_eq!(form, json!({"expand[]": "{{ expand }}", "plain": "{{ plain }}"}));
}

#[test]
fn a_body_that_is_more_than_its_fields_stays_one_argument() {
    let name = || json!({"name": {"type": "string"}});
    let cat = || json!({"$ref": "#/components/schemas/Cat"});
    for schema in [
        json!({"allOf": [{"properties": name()}], "oneOf": [cat(), {"properties": {"barks": {"type": "boolean"}}}]}),
        json!({"allOf": [{"properties": name()}, {"anyOf": [cat()]}]}),
        json!({"type": "object", "properties": name(), "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": name(), "additionalProperties": true}),
        json!({"type": "object", "properties": name(), "patternProperties": {"^x-": {}}}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"type": "integer"}}}]}),
        json!({"oneOf": [cat(), {"type": "array", "items": cat()}]}),
        json!({"type": "array", "items": cat()}),
        json!({}),
    ] {
        let (tool, _) = with_body(json!({"application/json": {"schema": schema}}), true).unwrap();
        assert_eq!(tool.http.unwrap().json, Some(json!("{{ body }}")), "{schema}");
        assert_eq!(tool.input["required"], json!(["body"]), "{schema}");
    }
    for schema in [
        json!({"type": "object", "properties": name(), "additionalProperties": false, "minProperties": 1}),
        json!({"type": ["object", "null"], "properties": name(), "anyOf": [{"required": ["name"]}, {"required": []}]}),
        json!({"allOf": [{"properties": name()}, {"properties": name(), "required": ["name"]}]}),
    ] {
        let (tool, _) = with_body(json!({"application/json": {"schema": schema}}), true).unwrap();
        assert_eq!(tool.http.unwrap().json, Some(json!({"name": "{{ name }}"})), "{schema}");
    }
}

/// What the document describes fits the tool: nothing that was left out of a schema makes it refuse a value.
#[tokio::test]
async fn what_the_document_allows_the_tool_accepts() {
    let cat = || json!({"$ref": "#/components/schemas/Cat"});
    for (schema, values) in [
        (
            json!({"allOf": [{"properties": {"name": {"type": "string"}}, "additionalProperties": false}], "oneOf": [cat(), {"properties": {"barks": {}}}]}),
            vec![json!({"name": "a", "purrs": true}), json!({"barks": 1})],
        ),
        (
            json!({"type": "object", "properties": {"a": {}}, "patternProperties": {"^x-": {}}, "additionalProperties": false}),
            vec![json!({"x-1": 1})],
        ),
        (
            json!({"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}}),
            vec![json!({"a": "x", "b": 2})],
        ),
        (
            json!({"allOf": [{"properties": {"a": {}}, "additionalProperties": false}, {"oneOf": [cat()]}]}),
            vec![json!({"a": 1, "purrs": true})],
        ),
        (json!({"type": "array", "prefixItems": [{}, {}], "items": false}), vec![json!([1, "a"])]),
    ] {
        let (declared, _) = with_body(json!({"application/json": {"schema": schema}}), true).unwrap();
        let tool = HttpTool::new(
            declared,
            Arc::new(Connector::default()),
            Arc::new(BTreeMap::<String, SecretValue>::new()),
        )
        .unwrap();
        for value in values {
            let arguments = json!({"body": value}).to_string();
            agent::port::Tool::check(&tool, &arguments).unwrap_or_else(|why| panic!("{schema}: {why}"));
        }
    }
}

#[test]
fn parameters_are_written_in_the_style_of_the_document() {
    let list = || json!({"type": "array", "items": {"type": "string"}});
    let object = || json!({"type": "object", "required": ["lat"], "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}});
    let free = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let query = |more: Value| {
        let mut parameter = json!({"name": "p", "in": "query", "required": true});
        parameter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        operation("get", "parameters", json!([parameter]))
    };
    let template = |more: Value| query(more).unwrap().0.http.unwrap().query["p"].clone();
    for (more, wanted) in [
        (json!({"schema": list()}), "{{ p }}"),
        (json!({"schema": list(), "explode": false}), "{{ p | join(',') if p is defined }}"),
        (json!({"schema": list(), "style": "pipeDelimited"}), "{{ p | join('|') if p is defined }}"),
        (json!({"schema": list(), "style": "pipeDelimited", "explode": true}), "{{ p }}"),
        (json!({"schema": list(), "style": "spaceDelimited"}), "{{ p | join(' ') if p is defined }}"),
        (json!({"schema": {"type": "string"}, "explode": false}), "{{ p }}"),
        (json!({"schema": object(), "style": "deepObject", "explode": true}), "{{ p }}"),
        (json!({"schema": free(), "style": "deepObject"}), "{{ p }}"),
        (json!({"content": {"application/json": {"schema": free()}}}), "{{ p | tojson if p is defined }}"),
    ] {
        assert_eq!(template(more.clone()), wanted, "{more}");
    }
    let (tool, _) = query(json!({"schema": object()})).unwrap();
    let http = tool.http.unwrap();
    assert_eq!(
        (http.query["lat"].as_str(), http.query["lon"].as_str(), http.query.len()),
        ("{{ lat }}", "{{ lon }}", 2)
    );
    assert_eq!(tool.input["required"], json!(["lat"]));
    for more in [
        json!({"schema": free()}),
        json!({"schema": object(), "explode": false}),
        json!({"in": "cookie", "schema": {}}),
        json!({"in": "header", "schema": object()}),
        json!({"in": "path", "schema": list(), "style": "matrix"}),
    ] {
        let wrong = query(more.clone()).unwrap_err();
        assert!(wrong.contains("the parameter `p` is"), "{more}: {wrong}");
        if more["in"] != "path" {
            let mut optional = more.clone();
            optional["required"] = json!(false);
            let (tool, left_out) = query(optional).unwrap();
            assert_eq!(tool.input["properties"], json!({}));
            assert!(left_out[0].contains("the parameter `p` is"), "{left_out:?}");
        }
    }
    let path = json!([{"name": "id", "in": "path", "schema": list()}]);
    assert_eq!(
        operation("get", "parameters", path).unwrap().0.http.unwrap().url,
        "https://a.example/things/{{ id | join(',') if id is defined }}"
    );
}

#[tokio::test]
async fn forms_texts_and_filters_arrive_as_servers_read_them() {
    let server = Loopback::ok("application/json", "{}").await;
    let tool = |declared: Declaration| {
        let mut declared = declared;
        let http = declared.http.as_mut().unwrap();
        http.allow = vec!["127.0.0.1".into()];
        http.url = server.url("/things");
        HttpTool::new(
            declared,
            Arc::new(Connector::default()),
            Arc::new(BTreeMap::<String, SecretValue>::new()),
        )
        .unwrap()
    };
    let form = json!({"application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": {
        "name": {"type": "string"}, "on": {"type": "boolean"}, "address": {"type": "object"}, "tags": {"type": "array"},
    }}}});
    let form = tool(with_body(form, false).unwrap().0);
    call(&form, json!({"name": "a b&c", "on": true, "address": {"city": "Rome", "lines": ["1", "2"]}, "tags": ["x", "y"]})).await.unwrap();
    call(&form, json!({})).await.unwrap();
    let text = tool(with_body(json!({"text/csv": {}}), true).unwrap().0);
    call(&text, json!({"body": "a,b\n1,\"2\""})).await.unwrap();
    let patch = json!({"application/merge-patch+json": {"schema": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}}});
    let patch = tool(operation("patch", "requestBody", json!({"content": patch})).unwrap().0);
    call(&patch, json!({"a": null})).await.unwrap();
    let deep = json!([{"name": "filter", "in": "query", "style": "deepObject", "explode": true, "schema": {"type": "object"}},
        {"name": "all", "in": "query", "schema": {"type": "boolean"}},
        {"name": "ids", "in": "query", "style": "pipeDelimited", "explode": false, "schema": {"type": "array"}}]);
    let deep = tool(operation("get", "parameters", deep).unwrap().0);
    call(&deep, json!({"filter": {"state": "open", "n": {"gt": 5}}, "all": false, "ids": [1, "b"]}))
        .await
        .unwrap();
    let asked = server.requests();
    let body = |at: usize| asked[at].split_once("\r\n\r\n").unwrap().1;
    let head = |at: usize| asked[at].split_once("\r\n\r\n").unwrap().0.to_lowercase();
    assert_eq!(
        body(0),
        "name=a%20b%26c&on=true&address%5Bcity%5D=Rome&address%5Blines%5D%5B%5D=1&address%5Blines%5D%5B%5D=2&tags=x&tags=y"
    );
    assert!(head(0).contains("content-type: application/x-www-form-urlencoded"), "{}", asked[0]);
    assert_eq!(body(1), "");
    assert_eq!(body(2), "a,b\n1,\"2\"");
    assert!(head(2).contains("content-type: text/csv"), "{}", asked[2]);
    assert_eq!(body(3), r#"{"a":null}"#);
    assert!(head(3).contains("content-type: application/merge-patch+json"), "{}", asked[3]);
    let line = "GET /things?all=false&filter%5Bn%5D%5Bgt%5D=5&filter%5Bstate%5D=open&ids=1%7Cb HTTP/1.1";
    assert!(asked[4].starts_with(line), "{}", asked[4]);
}
