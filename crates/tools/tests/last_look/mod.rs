//! Every tool that reaches outside asks once more whether it may, after all that it waits for, and else sends nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use agent::port::NoGate;
use serde_json::json;
use tokio::sync::Notify;
use tools::connector::{AllowList, Connector, TrafficLimits};
use tools::fetch_page::FetchPage;

use crate::declared::calling::{call_behind, declared};
use crate::loopback::{Loopback, page, write};
use crate::mcp::{fake, web};
use crate::world::{ShutGate, now};

#[tokio::test]
async fn an_http_call_that_had_to_wait_for_its_place_is_not_sent_if_it_may_not_begin_any_more() {
    let (asked, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (seen, free) = (Arc::clone(&asked), Arc::clone(&release));
    let server = Loopback::serve(move |_, stream| {
        let (seen, free) = (Arc::clone(&seen), Arc::clone(&free));
        async move {
            seen.notify_one();
            free.notified().await;
            write(stream, page("200 OK", "text/plain", "hi")).await;
        }
    })
    .await;
    let http = json!({"method": "POST", "url": server.url("/")});
    let tool = declared(json!({"effect": "unsafe", "concurrency": 1, "http": http}));
    let gate = ShutGate::default();
    let first = call_behind(&NoGate, &tool, json!({}), now());
    let second = async {
        asked.notified().await;
        let waiting = call_behind(&gate, &tool, json!({}), now());
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(gate.0.load(Ordering::SeqCst), 0, "it looks when it has its place, and not before");
        release.notify_one();
        waiting.await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.unwrap().text.as_str(), second.unwrap_err().model.as_str()), ("hi", "kept"));
    assert_eq!((server.requests().len(), gate.0.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_page_is_not_fetched_if_the_call_may_not_begin() {
    let server = Loopback::ok("text/plain", "hi").await;
    let allow = AllowList::new(vec!["127.0.0.0/8".parse().unwrap()]);
    let tool = FetchPage::within(Arc::new(Connector::default()), allow, TrafficLimits::default());
    let gate = ShutGate::default();
    let kept = call_behind(&gate, &tool, json!({"url": server.url("/")}), now()).await.unwrap_err();
    assert_eq!((kept.model.as_str(), server.requests().len()), ("kept", 0));
    assert_eq!(gate.0.load(Ordering::SeqCst), 1);
}

/// Its server is started, asked for its tools, and not called; that is no failure of the server.
#[tokio::test]
async fn a_tool_of_an_mcp_server_is_not_called_if_the_call_may_not_begin() {
    let (loopback, server) = web::fake(json!({})).await;
    let calls = || loopback.requests().iter().filter(|request| request.contains("tools/call")).count();
    let approved = fake::approved(&server).await;
    let (tools, _) = server.tools(&approved);
    let gate = ShutGate::default();
    for asked in 1..=10 {
        let kept = call_behind(&gate, &*tools[0], json!({}), now()).await.unwrap_err();
        assert_eq!(kept.model, "kept");
        assert_eq!((calls(), gate.0.load(Ordering::SeqCst)), (0, asked));
    }
    assert!(call_behind(&NoGate, &*tools[0], json!({}), now()).await.is_ok());
    assert_eq!(calls(), 1);
}
