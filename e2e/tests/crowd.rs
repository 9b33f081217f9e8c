//! Many who watch and do not read.

use std::time::{Duration, Instant};

use e2e::client::{Client, HttpAnswer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::server::{Harness, at_home, say, settled, words};

/// Watchers that never read. A thousand of them are measured by `make bench`.
const SLOW: usize = 200;
/// Messages with watchers and without.
const SAID: u128 = 40;

/// How long the middle one of so many messages took to be answered.
async fn spoken(client: &Client, from: u128) -> Duration {
    let filler = "x".repeat(8_000);
    let mut took = Vec::new();
    for number in from..from + SAID {
        let begun = Instant::now();
        let said = say(client, &words(&format!("SKIP t-{number:06}-t {filler}"), number)).await;
        assert!(matches!(said, Some(HttpAnswer::Fresh(_))), "{said:?}");
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    took[took.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_speaks_does_not_wait_for_those_who_watch_and_do_not_read() {
    let mut house = Harness::new().await;
    let (mut life, client) = house.start(&vec![]).await;
    let before = spoken(&client, 1).await;
    let (address, key) = (client.address(), client.key().to_owned());
    let mut slow = Vec::new();
    for _ in 0..SLOW {
        let mut socket = TcpStream::connect(&address).await.unwrap();
        let head = format!(
            "GET /v1/spaces/home/stream HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        slow.push(socket);
    }
    let with = spoken(&client, 1_000).await;
    // Far above noise, far below one that waits for somebody.
    let most = before * 10 + Duration::from_millis(100);
    assert!(with < most, "answered in {before:?} alone and in {with:?} with {SLOW} who do not read");
    settled(&client, 2 * SAID as usize).await;
    assert_eq!(at_home(&client).await.iter().filter(|words| words.call.is_none()).count() as u128, 2 * SAID);
    drop(slow);
    life.kill().unwrap();
}
