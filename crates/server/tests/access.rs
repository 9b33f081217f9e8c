//! Access to all routes: no route is accessible without a key, and an entity's key gives access only where its policy
//! allows it. The routes come from the OpenAPI document, so that none is missing.

use agent::port::{CredentialKind, NewCredential};
use axum::body::Body;
use axum::http::{Method, Request};

use crate::world::{ADMIN, World, credential};

/// Every route: method, path with its parameters filled in, policy.
fn routes(world: &World) -> Vec<(Method, String, String)> {
    let mut all = Vec::new();
    for (path, item) in world.document()["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let policy = operation["x-access"].as_str().expect("every route has a policy").to_owned();
            all.push((method, path.clone(), policy));
        }
    }
    all
}

fn filled(path: &str) -> String {
    let nobody = "0192d3e4-0000-7000-8000-000000000000";
    path.replace("{agent}", "muhammad")
        .replace("{space}", "home")
        .replace("{entity}", "you")
        .replace("{event}", nobody)
        .replace("{run}", nobody)
        .replace("{message}", nobody)
}

fn request(method: &Method, path: &str, key: Option<&str>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(filled(path)).header("host", "localhost");
    if let Some(key) = key {
        request = request.header("authorization", key);
    }
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn no_route_is_accessible_without_a_valid_key() {
    let world = World::new().await;
    for (method, path, policy) in routes(&world) {
        if policy == "public" {
            continue;
        }
        let keys = [None, Some(""), Some("Bearer"), Some("Bearer "), Some("Bearer viv_wrong"), Some(ADMIN)];
        for key in keys {
            let answer = world.send(request(&method, &path, key)).await;
            assert_eq!(answer.status, 401, "{method} {path} with {key:?}: {answer:?}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
    }
}

#[tokio::test]
async fn an_entitys_key_gives_no_access_to_admin_routes_or_to_spaces_of_others() {
    let world = World::new().await;
    let key = format!("Bearer {}", world.your_key().await);
    let other = world.post("/v1/spaces", serde_json::json!({"name": "other"})).await;
    assert_eq!(other.status, 201);
    for (method, path, policy) in routes(&world) {
        match policy.as_str() {
            "admin" => {
                let answer = world.send(request(&method, &path, Some(&key))).await;
                assert_eq!((answer.status, answer.code()), (403, "forbidden"), "{method} {path}");
            }
            "member" => {
                let path = path.replace("{space}", "other");
                let answer = world.send(request(&method, &path, Some(&key))).await;
                assert_eq!((answer.status, answer.code()), (404, "not_found"), "{method} {path}");
                let nowhere = path.replace("other", "nowhere");
                let unknown = world.send(request(&method, &nowhere, Some(&key))).await;
                assert_eq!(
                    unknown.problem_text().replace("nowhere", "other"),
                    answer.problem_text(),
                    "the response must not show that the space exists"
                );
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn routes_and_their_policies_match_the_snapshot() {
    let world = World::new().await;
    let mut lines: Vec<String> =
        routes(&world).iter().map(|(method, path, policy)| format!("{path} {method} {policy}")).collect();
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_rejected_before_the_key_is_checked() {
    let world = World::new().await;
    let check = async |method: Method, path: &str, headers: &[(&str, &str)], expected: &str| {
        let mut request = Request::builder().method(&method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = world.send(request.body(Body::from("no json")).unwrap()).await;
        assert_eq!(answer.code(), expected, "{method} {path} {headers:?}: {answer:?}");
    };
    for path in ["/v1/health", "/v1/agents", "/v1/spaces/home/stream", "/openapi.json", "/nowhere"] {
        for method in [Method::GET, Method::POST] {
            check(method.clone(), path, &[("host", "evil.example")], "host_refused").await;
            check(method.clone(), path, &[("host", "localhost.evil.example:7878")], "host_refused").await;
            check(method.clone(), path, &[], "host_refused").await;
            for origin in ["https://evil.example", "null", "file://", "http://localhost@evil.example", ""] {
                let headers = [("host", "localhost"), ("origin", origin)];
                check(method.clone(), path, &headers, "origin_refused").await;
            }
        }
    }
    let absolute = "http://evil.example/v1/health";
    check(Method::GET, absolute, &[("host", "localhost")], "host_refused").await;
    for good in ["localhost:7878", "127.0.0.1:7878", "[::1]:7878", "VIV.example"] {
        check(Method::GET, "/v1/health", &[("host", good)], "").await;
    }
    let page = [("host", "127.0.0.1:7878"), ("origin", "http://localhost:3000")];
    check(Method::GET, "/v1/health", &page, "").await;
}

#[tokio::test]
async fn a_replaced_key_is_rejected() {
    let world = World::new().await;
    let clock = world.clock.clone();
    let add = async |key: &str| {
        let new = credential(&*world.ports.ids, key, CredentialKind::Admin, &clock);
        let mut of_this_start = new.credential.clone();
        of_this_start.label = "start".to_owned();
        let new = NewCredential { credential: of_this_start, replace_label: true, ..new };
        world.ports.registry.add_credential(new).await.unwrap();
    };
    let whoami = async |key: &str| world.ask(Method::GET, "/v1/whoami", key, None).await.status;
    add("viv_first").await;
    assert_eq!(whoami("viv_first").await, 200);
    add("viv_second").await;
    world.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(whoami("viv_first").await, 401);
    assert_eq!(whoami("viv_second").await, 200);
}

#[tokio::test]
async fn every_response_carries_the_id_of_its_request() {
    let world = World::new().await;
    let mut seen = std::collections::BTreeSet::new();
    for path in ["/v1/health", "/v1/agents", "/v1/agents/nobody", "/nowhere"] {
        let answer = world.get(path).await;
        assert!(seen.insert(answer.headers["x-request-id"].to_str().unwrap().to_owned()), "{path}");
    }
}
