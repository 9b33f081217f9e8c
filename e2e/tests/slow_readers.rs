//! Many clients that open streams and do not read them.

use std::time::{Duration, Instant};

use e2e::client::{HttpAnswer, HttpClient};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::{Harness, home_messages, message_body, post, wait_until_settled};

/// Number of clients that never read. `make bench` measures a thousand.
const SLOW_READERS: usize = 200;
/// Number of messages, each with such clients and without.
const MESSAGES: u128 = 40;

/// The median response time of so many messages.
async fn median_response(client: &HttpClient, from: u128) -> Duration {
    let filler = "x".repeat(8_000);
    let mut took = Vec::new();
    for number in from..from + MESSAGES {
        let begun = Instant::now();
        let posted = post(client, &message_body(&format!("SKIP t-{number:06}-t {filler}"), number)).await;
        assert!(matches!(posted, Some(HttpAnswer::Created(_))), "{posted:?}");
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    took[took.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posting_a_message_does_not_wait_for_clients_that_do_not_read() {
    let mut harness = Harness::new().await;
    let (mut process, client) = harness.start(&vec![]).await;
    let before = median_response(&client, 1).await;
    let (address, key) = (client.address(), client.key().to_owned());
    let mut slow = Vec::new();
    for _ in 0..SLOW_READERS {
        let mut socket = TcpStream::connect(&address).await.unwrap();
        let head = format!(
            "GET /v1/spaces/home/stream HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        slow.push(socket);
    }
    let with = median_response(&client, 1_000).await;
    // Far above noise, and far below a response that waits for a client.
    let most = before * 10 + Duration::from_millis(100);
    assert!(
        with < most,
        "{before:?} per message alone, {with:?} with {SLOW_READERS} clients that do not read"
    );
    wait_until_settled(&client, 2 * MESSAGES as usize).await;
    assert_eq!(
        home_messages(&client).await.iter().filter(|words| words.call.is_none()).count() as u128,
        2 * MESSAGES
    );
    drop(slow);
    process.kill().unwrap();
}
