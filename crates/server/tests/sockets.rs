//! Connections over real sockets: behavior that the router alone does not have.

use std::sync::Arc;
use std::time::Duration;

use agent::id::{CycleId, MessageId};
use agent::limits;
use agent::update::{AgentState, Topic, Update};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::world::{ADMIN, World};

/// More than the sockets of both sides buffer.
const UNREAD_BYTES: usize = 16 * 1024 * 1024;

pub(crate) struct Served {
    pub(crate) world: Arc<World>,
    address: std::net::SocketAddr,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
    pub(crate) shutdown: CancellationToken,
}

pub(crate) async fn served() -> Served {
    let world = Arc::new(World::new().await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = world.shutdown.clone();
    let most = limits::CONNECTIONS_MAX;
    let server = tokio::spawn(server::serve(listener, world.router.clone(), shutdown.clone(), most));
    Served { world, address, server, shutdown }
}

pub(crate) async fn connect(served: &Served, head: &str) -> BufReader<TcpStream> {
    let mut socket = TcpStream::connect(served.address).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();
    BufReader::new(socket)
}

/// Reads lines until one begins with `prefix`, and returns it.
pub(crate) async fn line_with(socket: &mut BufReader<TcpStream>, prefix: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        let read = tokio::time::timeout(Duration::from_secs(20), socket.read_line(&mut line));
        assert_ne!(read.await.expect("a line comes").unwrap(), 0, "the connection ended before `{prefix}`");
        if line.starts_with(prefix) {
            return line.trim_end().to_owned();
        }
    }
}

#[tokio::test]
async fn a_stream_over_a_socket_delivers_updates_and_ends_at_shutdown() {
    let served = served().await;
    let head = format!(
        "GET /v1/spaces/home/stream HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {ADMIN}\r\n\r\n",
        served.address
    );
    let mut socket = connect(&served, &head).await;
    line_with(&mut socket, "event: snapshot").await;
    let posted =
        served.world.post("/v1/spaces/home/messages", json!({"text": "hello", "sender": "you"})).await;
    assert_eq!(posted.status, 201);
    line_with(&mut socket, "event: message").await;
    assert!(line_with(&mut socket, "data: ").await.contains("\"hello\""));
    served.shutdown.cancel();
    line_with(&mut socket, "event: closed").await;
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).await.unwrap();
    served.server.await.unwrap().unwrap();
}

/// The data of the next event with that name; other events are ignored.
async fn data_of(socket: &mut BufReader<TcpStream>, name: &str) -> Value {
    line_with(socket, &format!("event: {name}")).await;
    serde_json::from_str(line_with(socket, "data: ").await.strip_prefix("data: ").unwrap()).unwrap()
}

#[tokio::test]
async fn clients_that_connect_during_a_message_get_the_text_so_far_and_then_the_rest() {
    let served = served().await;
    let world = &served.world;
    let head = format!(
        "GET /v1/spaces/home/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\r\n"
    );
    let live = &world.ports.live;
    let [text, input] = [6, 7].map(|n| MessageId(Uuid::from_u128(n)));
    live.enter(world.agent, CycleId(Uuid::from_u128(5)), AgentState::Thinking, &[world.home]);
    let mut first = connect(&served, &head).await;
    assert_eq!(data_of(&mut first, "snapshot").await["drafts"], json!([]));
    live.draft(world.agent, world.home, text, "Salam é");
    live.draft_input(world.agent, world.home, input, "build", "{\"no");
    assert_eq!(data_of(&mut first, "draft").await["delta"], "Salam é");
    assert_eq!(data_of(&mut first, "tool.input").await["chars"], 4);
    drop(first);
    let mut tabs = [connect(&served, &head).await, connect(&served, &head).await];
    for tab in &mut tabs {
        let drafts = json!([
            {"space": world.home, "message": text, "agent": world.agent, "text": "Salam é"},
            {"space": world.home, "message": input, "agent": world.agent, "tool": "build", "text": "{\"no"},
        ]);
        assert_eq!(data_of(tab, "snapshot").await["drafts"], drafts);
    }
    live.draft(world.agent, world.home, text, "😀!");
    live.draft_input(world.agent, world.home, input, "build", "te\"");
    for tab in &mut tabs {
        let draft = data_of(tab, "draft").await;
        assert_eq!((&draft["delta"], &draft["chars"]), (&json!("😀!"), &json!(9)), "nothing is sent twice");
        let input = data_of(tab, "tool.input").await;
        assert_eq!((&input["delta"], &input["chars"]), (&json!("te\""), &json!(7)));
    }
    live.reset_drafts(world.agent);
    for tab in &mut tabs {
        data_of(tab, "draft.reset").await;
        data_of(tab, "draft.reset").await;
    }
    assert_eq!(data_of(&mut connect(&served, &head).await, "snapshot").await["drafts"], json!([]));
    served.shutdown.cancel();
    served.server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_an_error_does_not_close_it() {
    let served = served().await;
    let ask = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut socket = connect(&served, &ask("/v1/agents")).await;
    assert_eq!(line_with(&mut socket, "HTTP/1.1").await, "HTTP/1.1 401 Unauthorized");
    socket.get_mut().write_all(ask("/v1/health").as_bytes()).await.unwrap();
    // The problem document has no line end of its own: the next status follows it directly.
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\"status\":\"ok\"") {
        bytes.push(socket.read_u8().await.unwrap());
    }
    served.shutdown.cancel();
    served.server.await.unwrap().unwrap();
}

fn stream_of_home() -> String {
    format!("GET /v1/spaces/home/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\r\n")
}

#[tokio::test]
async fn a_stream_has_a_complete_response_head_and_ends_with_its_connection() {
    let served = served().await;
    let mut socket = connect(&served, &stream_of_home()).await;
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(socket.read_line(&mut head).await.unwrap(), 0, "{head}");
    }
    let mut lines = head.trim_end().lines();
    assert_eq!(lines.next(), Some("HTTP/1.1 200 OK"));
    let lines: Vec<&str> = lines.collect();
    for wanted in [
        "content-type: text/event-stream",
        "cache-control: no-store",
        "x-accel-buffering: no",
        "x-content-type-options: nosniff",
        "connection: close",
    ] {
        assert_eq!(lines.iter().filter(|line| **line == wanted).count(), 1, "`{wanted}` in {head}");
    }
    assert!(lines.iter().any(|line| line.starts_with("date: ") && line.ends_with(" GMT")), "{head}");
    assert!(!head.contains("length"), "{head}");
    line_with(&mut socket, "event: snapshot").await;
    served.shutdown.cancel();
    line_with(&mut socket, "event: closed").await;
    let mut rest = String::new();
    socket.read_to_string(&mut rest).await.unwrap();
    assert!(rest.starts_with("data: ") && rest.ends_with("}\n\n\r\n0\r\n\r\n"), "{rest}");
    served.server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stream_can_be_opened_on_a_used_connection_and_requested_with_head() {
    let served = served().await;
    let mut socket = connect(&served, &stream_of_home().replacen("GET", "HEAD", 1)).await;
    let mut head = String::new();
    socket.read_to_string(&mut head).await.unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
    let mut socket = connect(&served, "GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(line_with(&mut socket, "HTTP/1.1").await, "HTTP/1.1 200 OK");
    socket.get_mut().write_all(stream_of_home().as_bytes()).await.unwrap();
    line_with(&mut socket, "event: snapshot").await;
    served.shutdown.cancel();
    line_with(&mut socket, "event: closed").await;
    served.server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_disconnects_is_unsubscribed() {
    let served = served().await;
    let topic = Topic::Space(served.world.home);
    let mut socket = connect(&served, &stream_of_home()).await;
    line_with(&mut socket, "event: snapshot").await;
    assert_eq!(served.world.ports.live.bus().listeners(topic), 1);
    drop(socket);
    let gone = async {
        while served.world.ports.live.bus().listeners(topic) > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("the stream notices");
    served.shutdown.cancel();
    served.server.await.unwrap().unwrap();
}

/// All buffers of its connection are full, so that not even the reason can be sent to it.
#[tokio::test]
async fn the_connection_of_a_client_that_never_reads_is_ended() {
    let served = served().await;
    let (world, topic) = (&served.world, Topic::Space(served.world.home));
    let mut socket = connect(&served, &stream_of_home()).await;
    line_with(&mut socket, "event: snapshot").await;
    let message = json!({"text": "x".repeat(60_000), "sender": "you"});
    let mut bytes = 0;
    while bytes < UNREAD_BYTES {
        assert_eq!(world.post("/v1/spaces/home/messages", message.clone()).await.status, 201);
        bytes += 60_000;
    }
    while world.ports.live.bus().listeners(topic) > 0 {
        world.clock.pass(Duration::from_millis(limits::STREAM_PING_MS)).await.unwrap();
    }
    world.clock.pass(Duration::from_millis(limits::STREAM_FAREWELL_MS)).await.unwrap();
    let ended = async { while socket.get_mut().write_all(b"x").await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("the server hangs up");
    served.shutdown.cancel();
    served.server.await.unwrap().unwrap();
}

/// A lost wake-up would show as an update that never arrives: each of many updates is published alone, by its own
/// task, and awaited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_update_arrives_without_waiting_for_the_next_one() {
    let served = served().await;
    let (world, message) = (&served.world, MessageId(Uuid::from_u128(6)));
    let (agent, space) = (world.agent, world.home);
    let mut sockets = Vec::new();
    for _ in 0..3 {
        let mut socket = connect(&served, &stream_of_home()).await;
        line_with(&mut socket, "event: snapshot").await;
        sockets.push(socket);
    }
    for chars in 1..=2_000 {
        let update = Update::Draft { space, message, agent, delta: "x".to_owned(), chars };
        let bus = Arc::clone(world.ports.live.bus());
        tokio::spawn(async move { bus.publish(&[Topic::Space(space)], Arc::new(update)) });
        for socket in &mut sockets {
            assert_eq!(data_of(socket, "draft").await["chars"], chars);
        }
    }
    served.shutdown.cancel();
    served.server.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_endless_request_head_is_rejected() {
    let served = served().await;
    let mut socket = connect(&served, "GET /v1/health HTTP/1.1\r\n").await;
    let flood = format!("x-long: {}\r\n", "x".repeat(8_000));
    let mut sent = 0usize;
    // The limit is 64 KiB; the server responds or closes before it has read ten times as much.
    while sent < 640_000 && socket.get_mut().write_all(flood.as_bytes()).await.is_ok() {
        sent += flood.len();
    }
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    served.shutdown.cancel();
    served.server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_whose_client_never_reads_is_closed() {
    let served = served().await;
    let head = format!(
        "GET /v1/spaces/home/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n\r\n"
    );
    let mut socket = connect(&served, &head).await;
    line_with(&mut socket, "event: snapshot").await;
    // More than the kernel buffers for a client that does not read.
    let text = "x".repeat(64 * 1024);
    for _ in 0..256 {
        let message = served.world.post_unpublished(&text).await;
        served.world.publish(served.world.message_update(message));
    }
    let mut ended = false;
    for _ in 0..20 {
        served.world.clock.pass(Duration::from_millis(limits::STREAM_PING_MS)).await.unwrap();
        ended |= served.world.clock.pending().is_empty();
    }
    assert!(ended, "the stream's task has ended");
    let mut rest = Vec::new();
    let _ = socket.read_to_end(&mut rest).await;
    let rest = String::from_utf8_lossy(&rest);
    assert!(!rest.contains("event: closed"), "the connection is closed without a last event");
    served.shutdown.cancel();
    served.server.await.unwrap().unwrap();
}

/// Reads up to the message with the text `last`. Adds the ids of durable updates to `ids`, and pieces of the draft to
/// `text`.
async fn read_up_to(socket: &mut BufReader<TcpStream>, last: &str, ids: &mut Vec<u64>, text: &mut String) {
    let mut line = String::new();
    let mut id = None::<u64>;
    loop {
        line.clear();
        let read = tokio::time::timeout(Duration::from_secs(20), socket.read_line(&mut line));
        assert_ne!(read.await.expect("a line comes").unwrap(), 0, "the stream ended");
        if let Some(number) = line.strip_prefix("id: ") {
            id = Some(number.trim().parse().unwrap());
        }
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let data: Value = serde_json::from_str(data).unwrap();
        ids.extend(id.take());
        if data["delta"].is_string() {
            text.push_str(data["delta"].as_str().unwrap());
            assert_eq!(data["chars"], json!(text.chars().count()), "no piece is repeated or missing");
        }
        if data["message"]["text"] == json!(last) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_update_arrives_once_and_in_order_on_every_delivery_path() {
    let served = served().await;
    let world = &served.world;
    let mut all = Vec::new();
    for _ in 0..4 {
        let mut socket = connect(&served, &stream_of_home()).await;
        let rev = data_of(&mut socket, "snapshot").await["rev"].as_u64().unwrap();
        all.push((socket, rev, Vec::new(), String::new()));
    }
    let draft = MessageId(Uuid::from_u128(6));
    let live = &world.ports.live;
    live.enter(world.agent, CycleId(Uuid::from_u128(5)), AgentState::Thinking, &[world.home]);
    let posting = async {
        for n in 0..300 {
            live.draft(world.agent, world.home, draft, "é!");
            let message = world.post_unpublished(&n.to_string()).await;
            // Every seventh is not published: the next one shows that something is missing.
            if n % 7 != 0 {
                world.publish(world.message_update(message));
            }
            // No client may fall behind by more than its buffer holds, because its drafts would be dropped.
            if n % 14 == 13 {
                for (socket, _, ids, text) in &mut all {
                    read_up_to(socket, &n.to_string(), ids, text).await;
                }
            }
        }
    };
    let late = async {
        // A client that connects in between.
        let mut socket = connect(&served, &stream_of_home()).await;
        let snapshot = data_of(&mut socket, "snapshot").await;
        (socket, snapshot["rev"].as_u64().unwrap())
    };
    let ((), late) = tokio::join!(posting, late);
    let (mut socket, rev) = late;
    let last = world.post_unpublished("the last").await;
    world.publish(world.message_update(last));
    let ids = ids_up_to(&mut socket, "the last").await;
    assert_eq!(ids, (rev + 1..=rev + ids.len() as u64).collect::<Vec<_>>(), "the late client");
    for (socket, rev, ids, text) in &mut all {
        read_up_to(socket, "the last", ids, text).await;
        assert_eq!(*ids, (*rev + 1..=*rev + 301).collect::<Vec<_>>());
        // Messages that are read from the store may overtake the last drafts, but nothing else.
        assert!("é!".repeat(300).starts_with(&*text) && !text.is_empty());
    }
    served.shutdown.cancel();
    served.server.await.unwrap().unwrap();
}

/// The ids of durable updates, up to the message with the text `last`.
async fn ids_up_to(socket: &mut BufReader<TcpStream>, last: &str) -> Vec<u64> {
    let (mut ids, mut id) = (Vec::new(), None::<u64>);
    loop {
        let line = line_with(socket, "").await;
        if let Some(number) = line.strip_prefix("id: ") {
            id = Some(number.parse().unwrap());
        }
        let Some(data) = line.strip_prefix("data: ") else { continue };
        ids.extend(id.take());
        if serde_json::from_str::<Value>(data).unwrap()["message"]["text"] == json!(last) {
            return ids;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rest_of_an_incomplete_write_is_sent_before_everything_else() {
    let served = served().await;
    let world = &served.world;
    let mut slow = connect(&served, &stream_of_home()).await;
    let mut quick = connect(&served, &stream_of_home()).await;
    let rev = data_of(&mut slow, "snapshot").await["rev"].as_u64().unwrap();
    data_of(&mut quick, "snapshot").await;
    // Together more than the kernel buffers for a client that does not read.
    let long = "x".repeat(30_000);
    for n in 1..=400 {
        let message = world.post_unpublished(&format!("{n} {long}")).await;
        world.publish(world.message_update(message));
        assert!(
            data_of(&mut quick, "message").await["message"]["text"]
                .as_str()
                .unwrap()
                .starts_with(&format!("{n} "))
        );
    }
    let mut ids = Vec::new();
    while ids.last() != Some(&(rev + 400)) {
        if let Some(id) = line_with(&mut slow, "").await.strip_prefix("id: ") {
            ids.push(id.parse::<u64>().unwrap());
        }
    }
    assert_eq!(ids, (rev + 1..=rev + 400).collect::<Vec<_>>());
    served.shutdown.cancel();
    drop((slow, quick));
    served.server.await.unwrap().unwrap();
}

fn stream_of_home_as(key: &str) -> String {
    format!("GET /v1/spaces/home/stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n")
}

/// Connects so many clients that the relay merges drafts.
async fn connect_many(served: &Served) -> Vec<BufReader<TcpStream>> {
    let mut sockets = Vec::new();
    for _ in 0..=limits::STREAM_CROWD {
        let mut socket = connect(served, &stream_of_home()).await;
        line_with(&mut socket, "event: snapshot").await;
        sockets.push(socket);
    }
    sockets
}

async fn pass_gather_time(world: &World) {
    world.clock.pass(Duration::from_millis(limits::STREAM_GATHER_MS)).await.unwrap();
}

#[tokio::test]
async fn a_client_that_connects_while_drafts_are_merged_gets_only_later_updates() {
    let served = served().await;
    let world = &served.world;
    let mut sockets = connect_many(&served).await;
    let draft = MessageId(Uuid::from_u128(6));
    let live = &world.ports.live;
    live.enter(world.agent, CycleId(Uuid::from_u128(5)), AgentState::Thinking, &[world.home]);
    live.draft(world.agent, world.home, draft, "S");
    for socket in &mut sockets {
        line_with(socket, "event: draft").await;
    }
    live.draft(world.agent, world.home, draft, "alam");
    live.reset_drafts(world.agent);
    let mut late = connect(&served, &stream_of_home()).await;
    assert_eq!(data_of(&mut late, "snapshot").await["drafts"], json!([]));
    pass_gather_time(world).await;
    let next = world.post_unpublished("next").await;
    world.publish(world.message_update(next));
    pass_gather_time(world).await;
    loop {
        let line = line_with(&mut late, "event: ").await;
        assert_ne!(line, "event: draft", "the draft was discarded before");
        if line == "event: message" {
            break;
        }
    }
    served.shutdown.cancel();
}

#[tokio::test]
async fn a_removed_member_gets_no_message_that_is_read_from_the_store_later() {
    for late in [false, true] {
        let served = served().await;
        let world = &served.world;
        let key = world.your_key().await;
        world.post("/v1/entities", json!({"handle": "ahmad"})).await;
        world.post("/v1/spaces/home/members", json!({"entity": "ahmad"})).await;
        let mut socket = connect(&served, &stream_of_home_as(&key)).await;
        line_with(&mut socket, "event: snapshot").await;
        let _crowd = connect_many(&served).await;
        world.ports.live.draft(world.agent, world.home, MessageId(Uuid::from_u128(6)), "S");
        line_with(&mut socket, "event: draft").await;
        // Two messages are published in the wrong order, so the missing one is read from the store.
        let [one, two] = [world.post_unpublished("one").await, world.post_unpublished("two").await];
        world.publish(world.message_update(two));
        world.publish(world.message_update(one));
        let removed = || world.ports.registry.remove_member(world.home, world.you);
        if late {
            // The removal is not published.
            removed().await.unwrap();
        } else {
            let gone =
                world.ask(axum::http::Method::DELETE, "/v1/spaces/home/members/you", ADMIN, None).await;
            assert_eq!(gone.status, 204);
        }
        let posted =
            world.post("/v1/spaces/home/messages", json!({"text": "a secret", "sender": "ahmad"})).await;
        assert_eq!(posted.status, 201, "{posted:?}");
        pass_gather_time(world).await;
        let mut all = String::new();
        tokio::time::timeout(Duration::from_secs(20), socket.read_to_string(&mut all))
            .await
            .unwrap()
            .unwrap();
        assert!(!all.contains("a secret") && all.contains("not_member"), "{all}");
        served.shutdown.cancel();
    }
}

/// Resident memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn clients_that_never_read_share_the_bytes_of_what_they_miss() {
    const CLIENTS: usize = 100;
    const MESSAGES: usize = 150;
    let served = served().await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut socket = connect(&served, &stream_of_home()).await;
        line_with(&mut socket, "event: snapshot").await;
        clients.push(socket);
    }
    let text = "x".repeat(60_000);
    let before = resident();
    for _ in 0..MESSAGES {
        let posted =
            served.world.post("/v1/spaces/home/messages", json!({"text": text, "sender": "you"})).await;
        assert_eq!(posted.status, 201);
    }
    // The store in memory holds the messages; a buffer of its own for each client would be 12 MB more, or 100.
    let stored = MESSAGES * text.len();
    let grown = resident().saturating_sub(before);
    assert!(grown < stored + 24 * 1024 * 1024, "{CLIENTS} clients cost {grown} bytes, {stored} are stored");
    drop(clients);
    served.shutdown.cancel();
    served.server.await.unwrap().unwrap();
}
