//! Disks that are full, and disks that fail.

use e2e::client::HttpAnswer;

use crate::server::{Harness, PATIENCE, at_home, say, settled, words};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_nothing_is_accepted_all_can_be_read_and_it_goes_on_by_itself() {
    let mut house = Harness::new().await;
    let faults = vec![("VIV_DISK", house.dir.path().display().to_string())];
    let full = house.dir.path().join("full");
    let (mut life, client) = house.start(&faults).await;
    let first = say(&client, &words("note t-000001-t", 1)).await;
    assert!(matches!(first, Some(HttpAnswer::Fresh(_))), "{first:?}");
    std::fs::write(&full, "").unwrap();
    for _ in 0..3 {
        let refused = say(&client, &words("note t-000002-t", 2)).await;
        let Some(HttpAnswer::Refused(why)) = refused else { panic!("{refused:?}") };
        let (status, body) = why.split_once(": ").unwrap();
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((status, problem["status"].as_u64()), ("507", Some(507)), "{problem}");
        assert_eq!(problem["code"], "no_space", "{problem}");
        assert!(problem["hint"].is_string() && problem["detail"].is_string(), "{problem}");
    }
    let there = at_home(&client).await;
    assert!(there.iter().all(|words| !words.text.contains("t-000002-t")), "{there:?}");
    assert!(there.iter().any(|words| words.text.contains("t-000001-t")), "{there:?}");
    std::fs::remove_file(&full).unwrap();
    let second = say(&client, &words("note t-000002-t", 2)).await;
    assert!(matches!(second, Some(HttpAnswer::Fresh(_))), "{second:?}");
    let events = settled(&client, 2).await;
    assert!(events.iter().all(|event| event.state == "processed"), "{events:?}");
    life.kill().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_on_a_full_disk_shows_all_and_goes_on_by_itself_once_there_is_room() {
    let mut house = Harness::new().await;
    let faults = vec![("VIV_DISK", house.dir.path().display().to_string())];
    let full = house.dir.path().join("full");
    let (mut life, client) = house.start(&faults).await;
    let first = say(&client, &words("note t-000001-t", 1)).await;
    assert!(matches!(first, Some(HttpAnswer::Fresh(_))), "{first:?}");
    settled(&client, 1).await;
    life.kill().unwrap();
    life.gone(PATIENCE).await.unwrap();
    std::fs::write(&full, "").unwrap();
    let (mut life, client) = house.start(&faults).await;
    let there = at_home(&client).await;
    assert!(there.iter().any(|words| words.text.contains("t-000001-t")), "{there:?}");
    let refused = say(&client, &words("note t-000002-t", 2)).await;
    assert!(matches!(&refused, Some(HttpAnswer::Refused(why)) if why.starts_with("507")), "{refused:?}");
    std::fs::remove_file(&full).unwrap();
    let second = say(&client, &words("note t-000002-t", 2)).await;
    assert!(matches!(second, Some(HttpAnswer::Fresh(_))), "{second:?}");
    let events = settled(&client, 2).await;
    assert!(events.iter().all(|event| event.state == "processed"), "{events:?}");
    life.kill().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_sync_fails_the_process_ends_and_the_next_one_has_all_that_was_answered() {
    let mut house = Harness::new().await;
    let faults = vec![("VIV_DISK", house.dir.path().display().to_string())];
    let (mut life, client) = house.start(&faults).await;
    let first = say(&client, &words("note t-000001-t", 1)).await;
    assert!(matches!(first, Some(HttpAnswer::Fresh(_))), "{first:?}");
    settled(&client, 1).await;
    std::fs::write(house.dir.path().join("eio"), "").unwrap();
    let second = say(&client, &words("note t-000002-t", 2)).await;
    assert!(!matches!(second, Some(HttpAnswer::Fresh(_) | HttpAnswer::Known(_))), "{second:?}");
    let ended = life.gone(PATIENCE).await.unwrap().expect("it ends by itself");
    assert_eq!(ended.code(), Some(1), "{}", house.log());
    assert!(house.log().contains("store_broken"), "{}", house.log());
    let (mut life, client) = house.start(&faults).await;
    let again = say(&client, &words("note t-000002-t", 2)).await;
    assert!(matches!(again, Some(HttpAnswer::Fresh(_) | HttpAnswer::Known(_))), "{again:?}");
    let events = settled(&client, 2).await;
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|event| event.state == "processed"), "{events:?}");
    life.kill().unwrap();
}
