//! Limits of what one key, one address and all clients together may hold.

use std::sync::Arc;
use std::time::Duration;

use agent::limits;
use axum::body::Body;
use axum::http::{Method, Request};
use futures_util::StreamExt;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{ADMIN, World};

fn request(method: Method, path: &str, key: &str, body: Body) -> Request<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {key}"));
    request.body(body).unwrap()
}

#[tokio::test]
async fn a_key_that_holds_all_its_streams_leaves_the_others_unharmed() {
    let world = World::new().await;
    let yours = world.your_key().await;
    let open = |key: &str| world.open(request(Method::GET, "/v1/spaces/home/stream", key, Body::empty()));
    let mut held = Vec::new();
    for _ in 0..limits::STREAMS_PER_KEY {
        let response = open(&yours).await;
        assert_eq!(response.status(), 200);
        held.push(response);
    }
    let refused = world.ask(Method::GET, "/v1/spaces/home/stream", &yours, None).await;
    assert_eq!((refused.status, refused.code()), (429, "too_many_streams"));
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(world.ask(Method::GET, "/v1/whoami", &yours, None).await.status, 200);
    assert_eq!(world.get("/v1/health").await.status, 200);
    assert_eq!(open(ADMIN).await.status(), 200);
    drop(held);
    let freed = async {
        while open(&yours).await.status() != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), freed).await.expect("closed streams are free again");
}

#[tokio::test]
async fn unfinished_bodies_are_bounded_in_bytes_and_in_time() {
    let world = Arc::new(World::new().await);
    let unfinished = || {
        let piece = Ok::<_, std::io::Error>(vec![b' '; limits::BODY_MAX_BYTES]);
        let body = futures_util::stream::iter([piece]).chain(futures_util::stream::pending());
        request(Method::POST, "/v1/entities", ADMIN, Body::from_stream(body))
    };
    let most = limits::BODIES_PER_KEY_BYTES / limits::BODY_MAX_BYTES;
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..most {
        let (world, request) = (Arc::clone(&world), unfinished());
        waiting.spawn(async move { world.send(request).await });
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let refused = world.send(unfinished()).await;
    assert_eq!((refused.status, refused.code()), (429, "too_many_bytes"), "{refused:?}");
    assert_eq!(
        (&refused.headers["retry-after"], &refused.headers["connection"]),
        (&"1".parse().unwrap(), &"close".parse().unwrap())
    );
    let all = async {
        while let Some(answer) = waiting.join_next().await {
            let answer = answer.unwrap();
            assert_eq!((answer.status, answer.code()), (408, "body_slow"));
        }
    };
    world.clock.run_until(all).await.unwrap();
    assert_eq!(world.post("/v1/entities", json!({"handle": "after"})).await.status, 201);
}

async fn exchange(socket: &mut TcpStream, request: &str) -> String {
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let read = async {
        let mut buffer = [0; 4096];
        loop {
            let count = socket.read(&mut buffer).await.unwrap_or(0);
            bytes.extend_from_slice(&buffer[..count]);
            let text = String::from_utf8_lossy(&bytes);
            if count == 0 || text.ends_with('}') {
                return text.into_owned();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), read).await.expect("an answer comes")
}

fn get(path: &str, key: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n")
}

#[tokio::test]
async fn above_the_limit_of_connections_administrators_and_the_health_check_are_served() {
    let world = World::new().await;
    let yours = world.your_key().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = world.shutdown.clone();
    // Six places, of which one address may have four, and a reserve of two.
    let server = tokio::spawn(server::serve(listener, world.router.clone(), shutdown.clone(), 8));
    let connect = || async { TcpStream::connect(address).await.unwrap() };
    let mut first = Vec::new();
    for _ in 0..4 {
        let mut socket = connect().await;
        assert!(exchange(&mut socket, &get("/v1/whoami", &yours)).await.starts_with("HTTP/1.1 200"));
        first.push(socket);
    }
    let mut crowded = connect().await;
    let refused = exchange(&mut crowded, &get("/v1/whoami", &yours)).await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("too_many_connections"), "{refused}");
    assert!(refused.contains("connection: close") && refused.contains("retry-after: 1"), "{refused}");
    for path in ["/v1/whoami", "/v1/health"] {
        let mut socket = connect().await;
        let answer = exchange(&mut socket, &get(path, ADMIN)).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    let keyless = "GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut socket = connect().await;
    let answer = exchange(&mut socket, keyless).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    let mut socket = connect().await;
    let answer = exchange(&mut socket, &get("/v1/whoami", ADMIN)).await;
    assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("connection: close"), "{answer}");
    shutdown.cancel();
    drop((first, socket));
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn refusals_of_the_http_layer_have_a_problem_document_and_close_the_connection() {
    let world = World::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let most = limits::CONNECTIONS_MAX;
    let server = tokio::spawn(server::serve(listener, world.router.clone(), world.shutdown.clone(), most));
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    let long = "x".repeat(65_600);
    let posted = "POST /v1/entities HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{";
    for (request, status, code) in [
        ("no http\r\n\r\n".to_owned(), "400", "bad_http"),
        (format!("GET /v1/health HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"), "431", "headers_too_large"),
        (format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n\r\n"), "414", "uri_too_long"),
        (posted.to_owned(), "401", "key_missing"),
    ] {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let answer = exchange(&mut socket, &request).await;
        let shown: String = request.chars().take(60).collect();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{shown}: {answer}");
        assert!(answer.contains("content-type: application/problem+json"), "{shown}: {answer}");
        assert!(answer.contains("connection: close"), "{shown}: {answer}");
        assert!(answer.contains(&format!("\"code\":\"{code}\"")), "{shown}: {answer}");
        assert!(answer.contains("\r\nx-request-id: "), "{shown}: {answer}");
    }
    let mut socket = TcpStream::connect(address).await.unwrap();
    let served = exchange(&mut socket, &get("/v1/health", ADMIN)).await;
    assert!(served.starts_with("HTTP/1.1 200"), "{served}");
    let refused = exchange(&mut socket, "no http\r\n\r\n").await;
    assert!(refused.contains("bad_http") && refused.contains("x-request-id"), "after an answer: {refused}");
    world.shutdown.cancel();
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_message_that_looks_like_a_refusal_reaches_a_slow_reader_as_it_is() {
    let world = World::new().await;
    let text = "HTTP/1.1 400 ".repeat(4_600);
    for _ in 0..16 {
        let posted = world.post("/v1/spaces/home/messages", json!({"text": text, "sender": "you"})).await;
        assert_eq!(posted.status, 201);
    }
    let path = "/v1/spaces/home/messages?limit=200";
    let whole = world.get(path).await.json;
    // Small buffers make the server write in pieces, which begin anywhere in the body.
    let listening = tokio::net::TcpSocket::new_v4().unwrap();
    listening.set_send_buffer_size(8_192).unwrap();
    listening.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = listening.listen(16).unwrap();
    let address = listener.local_addr().unwrap();
    let most = limits::CONNECTIONS_MAX;
    let server = tokio::spawn(server::serve(listener, world.router.clone(), world.shutdown.clone(), most));
    for n in 0..4 {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096 + 512 * n).unwrap();
        let mut socket = socket.connect(address).await.unwrap();
        let request = get(path, ADMIN).replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), socket.read_to_end(&mut bytes));
        read.await.expect("the answer ends").unwrap();
        let body = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let got: serde_json::Value = serde_json::from_slice(&bytes[body..]).expect("the body is whole");
        assert!(got == whole, "connection {n} got another body");
    }
    world.shutdown.cancel();
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn members_are_not_shown_the_external_ids_of_others() {
    let world = World::new().await;
    world.post("/v1/entities", json!({"handle": "zainab", "external_id": "sso-7"})).await;
    world.post("/v1/spaces/home/members", json!({"entity": "zainab"})).await;
    let yours = world.your_key().await;
    let shown = async |key: &str| {
        let members = world.ask(Method::GET, "/v1/spaces/home/members", key, None).await.json;
        let of =
            members["items"].as_array().unwrap().iter().find(|member| member["entity"]["handle"] == "zainab");
        of.unwrap()["entity"]["external_id"].clone()
    };
    assert_eq!((shown(ADMIN).await, shown(&yours).await), (json!("sso-7"), json!(null)));
}
