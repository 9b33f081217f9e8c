//! Full and failing disks.

use e2e::client::HttpAnswer;

use crate::harness::{Harness, TIMEOUT, home_messages, message_body, post, wait_until_settled};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_nothing_is_accepted_reads_work_and_the_server_recovers_by_itself() {
    let mut harness = Harness::new().await;
    let faults = vec![("VIV_DISK", harness.dir.path().display().to_string())];
    let full = harness.dir.path().join("full");
    let (mut process, client) = harness.start(&faults).await;
    let first = post(&client, &message_body("note t-000001-t", 1)).await;
    assert!(matches!(first, Some(HttpAnswer::Created(_))), "{first:?}");
    std::fs::write(&full, "").unwrap();
    for _ in 0..3 {
        let rejected = post(&client, &message_body("note t-000002-t", 2)).await;
        let Some(HttpAnswer::Rejected(why)) = rejected else { panic!("{rejected:?}") };
        let (status, body) = why.split_once(": ").unwrap();
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((status, problem["status"].as_u64()), ("507", Some(507)), "{problem}");
        assert_eq!(problem["code"], "no_space", "{problem}");
        assert!(problem["hint"].is_string() && problem["detail"].is_string(), "{problem}");
    }
    let there = home_messages(&client).await;
    assert!(there.iter().all(|words| !words.text.contains("t-000002-t")), "{there:?}");
    assert!(there.iter().any(|words| words.text.contains("t-000001-t")), "{there:?}");
    std::fs::remove_file(&full).unwrap();
    let second = post(&client, &message_body("note t-000002-t", 2)).await;
    assert!(matches!(second, Some(HttpAnswer::Created(_))), "{second:?}");
    let events = wait_until_settled(&client, 2).await;
    assert!(events.iter().all(|event| event.state == "processed"), "{events:?}");
    process.kill().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_started_on_a_full_disk_serves_reads_and_recovers_once_there_is_room() {
    let mut harness = Harness::new().await;
    let faults = vec![("VIV_DISK", harness.dir.path().display().to_string())];
    let full = harness.dir.path().join("full");
    let (mut process, client) = harness.start(&faults).await;
    let first = post(&client, &message_body("note t-000001-t", 1)).await;
    assert!(matches!(first, Some(HttpAnswer::Created(_))), "{first:?}");
    wait_until_settled(&client, 1).await;
    process.kill().unwrap();
    process.wait_for_end(TIMEOUT).await.unwrap();
    std::fs::write(&full, "").unwrap();
    let (mut process, client) = harness.start(&faults).await;
    let there = home_messages(&client).await;
    assert!(there.iter().any(|words| words.text.contains("t-000001-t")), "{there:?}");
    let rejected = post(&client, &message_body("note t-000002-t", 2)).await;
    assert!(matches!(&rejected, Some(HttpAnswer::Rejected(why)) if why.starts_with("507")), "{rejected:?}");
    std::fs::remove_file(&full).unwrap();
    let second = post(&client, &message_body("note t-000002-t", 2)).await;
    assert!(matches!(second, Some(HttpAnswer::Created(_))), "{second:?}");
    let events = wait_until_settled(&client, 2).await;
    assert!(events.iter().all(|event| event.state == "processed"), "{events:?}");
    process.kill().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_a_sync_fails_the_process_ends_and_the_next_one_has_everything_accepted() {
    let mut harness = Harness::new().await;
    let faults = vec![("VIV_DISK", harness.dir.path().display().to_string())];
    let (mut process, client) = harness.start(&faults).await;
    let first = post(&client, &message_body("note t-000001-t", 1)).await;
    assert!(matches!(first, Some(HttpAnswer::Created(_))), "{first:?}");
    wait_until_settled(&client, 1).await;
    std::fs::write(harness.dir.path().join("eio"), "").unwrap();
    let second = post(&client, &message_body("note t-000002-t", 2)).await;
    assert!(!matches!(second, Some(HttpAnswer::Created(_) | HttpAnswer::Existing(_))), "{second:?}");
    let ended = process.wait_for_end(TIMEOUT).await.unwrap().expect("it ends by itself");
    assert_eq!(ended.code(), Some(1), "{}", harness.log());
    assert!(harness.log().contains("store_broken"), "{}", harness.log());
    let (mut process, client) = harness.start(&faults).await;
    let again = post(&client, &message_body("note t-000002-t", 2)).await;
    assert!(matches!(again, Some(HttpAnswer::Created(_) | HttpAnswer::Existing(_))), "{again:?}");
    let events = wait_until_settled(&client, 2).await;
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|event| event.state == "processed"), "{events:?}");
    process.kill().unwrap();
}
