//! Servers that are reached by streamable HTTP: through the connector and its rules, like every other request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent::call::OutcomeStatus;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tools::mcp::{McpServer, McpServerConfig};

use super::fake::{CANARY, approved, call, server};
use crate::loopback::{Loopback, Tripwire, write};

fn settings(url: &str, more: Value) -> McpServerConfig {
    let mut keys = json!({
        "url": url, "allow": ["127.0.0.1"], "headers": {"authorization": "Bearer {{ secret('key') }}"},
    });
    keys.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    serde_json::from_value(keys).expect("valid settings")
}

fn reply(status: &str, head: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{head}content-length: {}\r\n\r\n{body}", body.len())
}

const JSON: &str = "content-type: application/json\r\n";

/// Answers as a server with one tool, which repeats its arguments and all headers. `calls` counts its calls.
async fn answer(request: String, stream: TcpStream, calls: Arc<AtomicUsize>) {
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
    if !head.starts_with("POST ") {
        return write(stream, reply("405 Method Not Allowed", "", "")).await;
    }
    let message: Value = serde_json::from_str(body).expect("JSON");
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    let said = match message["method"].as_str().expect("a method") {
        "initialize" => {
            let result = result(json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "fake", "version": "1"},
            }));
            reply("200 OK", &format!("{JSON}mcp-session-id: s-{}\r\n", calls.load(Ordering::SeqCst)), &result)
        }
        "tools/list" => {
            let tool =
                json!({"name": "repeat", "description": "Repeats.", "inputSchema": {"type": "object"}});
            reply("200 OK", JSON, &result(json!({"tools": [tool]})))
        }
        "tools/call" => {
            calls.fetch_add(1, Ordering::SeqCst);
            let text = format!("{} {head}", message["params"]["arguments"]);
            let data = result(json!({"content": [{"type": "text", "text": text}]}));
            match message["params"]["arguments"]["how"].as_str() {
                Some("lost") => return drop(stream),
                Some("cut") => {
                    reply("200 OK", "content-type: text/event-stream\r\n", ": nothing follows\n\n")
                }
                Some("gateway") => reply("502 Bad Gateway", "", CANARY),
                Some("page") => reply("200 OK", "content-type: text/html\r\n", "<p>hello"),
                Some("denied") => reply("403 Forbidden", "", &format!("not with {CANARY}")),
                Some("expired") if calls.load(Ordering::SeqCst) == 1 => reply("404 Not Found", "", ""),
                Some("large") => reply("200 OK", JSON, &format!("\"{}\"", "x".repeat(17 * 1024 * 1024))),
                _ => reply(
                    "200 OK",
                    "content-type: text/event-stream\r\n",
                    &format!("event: message\ndata: {data}\n\n"),
                ),
            }
        }
        _ => reply("202 Accepted", "", ""),
    };
    write(stream, said).await;
}

async fn fake(more: Value) -> (Loopback, Arc<McpServer>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let loopback = Loopback::serve(move |request, stream| answer(request, stream, Arc::clone(&calls))).await;
    let server = server(settings(&loopback.url("/mcp"), more));
    (loopback, server)
}

#[tokio::test]
async fn a_tool_is_listed_and_called_and_the_secret_is_hidden() {
    let (loopback, server) = fake(json!({})).await;
    let tools = approved(&server).await;
    let said = call(&server, &tools, "repeat", json!({"a": 1})).await.unwrap().text;
    assert!(said.starts_with("{\"a\":1} POST /mcp"), "{said}");
    assert!(
        said.contains("mcp-session-id: s-0") && said.contains("mcp-protocol-version: 2025-06-18"),
        "{said}"
    );
    assert!(said.contains("authorization: Bearer [secret key]") && !said.contains("canary"), "{said}");
    let sent = |request: &String| request.contains(&format!("authorization: Bearer {CANARY}"));
    assert!(loopback.requests().iter().all(sent));
    assert!(server.is_walled().await);
}

#[tokio::test]
async fn an_address_inside_is_refused_unless_it_is_allowed() {
    let tripwire = Tripwire::new();
    let url = format!("http://127.0.0.1:{}/mcp", tripwire.port);
    let server = server(settings(&url, json!({"allow": []})));
    let error = server.list().await.unwrap_err();
    assert!(error.model.contains("this machine") && error.model.contains("`allow`"), "{error}");
    assert_eq!(tripwire.connections(), 0);
}

#[tokio::test]
async fn a_failed_call_is_an_error_or_unknown_by_what_may_have_happened() {
    let (_loopback, server) = fake(json!({})).await;
    let tools = approved(&server).await;
    for how in ["lost", "cut", "gateway", "page", "large"] {
        server.stop().await;
        // Its answers show that the server is well.
        assert!(call(&server, &tools, "repeat", json!({})).await.is_ok());
        let outcome = call(&server, &tools, "repeat", json!({"how": how})).await.unwrap();
        assert_eq!(outcome.status, OutcomeStatus::Unknown, "{how}: {}", outcome.text);
        assert!(!outcome.text.contains("canary"), "{how}: {}", outcome.text);
    }
    let error = call(&server, &tools, "repeat", json!({"how": "denied"})).await.unwrap_err();
    assert!(error.model.contains("status 403: not with [secret key]"), "{error}");
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_opened_again() {
    let (_loopback, server) = fake(json!({})).await;
    let tools = approved(&server).await;
    let said = call(&server, &tools, "repeat", json!({"how": "expired"})).await.unwrap().text;
    assert!(said.contains("mcp-session-id: s-1"), "{said}");
}
