//! The search index is a file that may be lost: whatever happens to it, everything is found again.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::port::{Reader, Recall, RecallQuery};
use runtime::clock::SystemClock;
use rusqlite::Connection;
use storage::sqlite::{self, Sqlite, UpkeepError};

use crate::upkeep::{data, used_store};

/// Longer than any of these small stores takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn open(dir: &Path) -> Sqlite {
    Sqlite::open(dir, Arc::new(SystemClock::new())).unwrap()
}

/// What Ada finds for these words once the index is complete.
async fn finds(store: &Sqlite, text: &str) -> Vec<String> {
    let ada = store.entity("ada".into()).await.unwrap().unwrap().id.agent();
    let query = RecallQuery { text: text.into(), limit: 10, ..RecallQuery::default() };
    let complete = async {
        loop {
            let complete = store.unindexed_since().await.unwrap().is_none();
            let found = store.recall(ada, query.clone()).await.unwrap();
            if complete && !found.building {
                return found.excerpts.into_iter().map(|excerpt| excerpt.text).collect();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, complete).await.expect("the index becomes complete")
}

/// Why the index was built anew.
async fn reason(store: &Sqlite) -> String {
    tokio::time::timeout(PATIENCE, store.index_rebuilding()).await.expect("the index is built anew")
}

/// Closes a store that is complete, does this to its index, opens it again, and finds the same.
async fn check(harm: impl FnOnce(&Path), reason_wanted: &str) {
    let dir = used_store().await;
    let store = open(&data(&dir));
    let before = finds(&store, "rains").await;
    assert_eq!(before, ["It rains."]);
    store.close().await.unwrap();
    harm(&data(&dir).join("index.db"));
    let store = open(&data(&dir));
    let why = reason(&store).await;
    assert!(why.contains(reason_wanted), "{why}");
    assert_eq!(finds(&store, "rains").await, before);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_deleted_index_is_built_anew() {
    check(|file| fs::remove_file(file).unwrap(), "missing").await;
}

#[tokio::test]
async fn a_torn_index_is_built_anew() {
    let cut = |file: &Path| {
        let length = fs::metadata(file).unwrap().len();
        fs::File::options().write(true).open(file).unwrap().set_len(length - 100).unwrap();
    };
    check(cut, "truncated").await;
    check(|file| fs::write(file, "torn").unwrap(), "cannot be read").await;
    check(|file| fs::write(file, "").unwrap(), "version 0").await;
}

#[tokio::test]
async fn an_index_of_another_version_or_store_is_built_anew() {
    let change =
        |sql: &'static str| move |file: &Path| Connection::open(file).unwrap().execute_batch(sql).unwrap();
    check(change("PRAGMA user_version = 99"), "it is of version 99, and this program writes").await;
    check(change("UPDATE meta SET value = 7 WHERE key = 'store'"), "another store").await;
    check(change("UPDATE meta SET value = 999999 WHERE key = 'n'"), "changed without it").await;
}

#[tokio::test]
async fn damage_that_a_search_meets_is_repaired_while_the_store_is_open() {
    let dir = used_store().await;
    let store = open(&data(&dir));
    finds(&store, "rains").await;
    store.close().await.unwrap();
    let file = data(&dir).join("index.db");
    let mut bytes = fs::read(&file).unwrap();
    // The first page stays, so that the file opens.
    bytes[4_096..].fill(0xaa);
    fs::write(&file, bytes).unwrap();
    let store = open(&data(&dir));
    let ada = store.entity("ada".into()).await.unwrap().unwrap().id.agent();
    let query = RecallQuery { text: "rains".into(), limit: 10, ..RecallQuery::default() };
    let repaired = async {
        while store.recall(ada, query.clone()).await.map_or(true, |found| found.excerpts.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, repaired).await.expect("the index is repaired");
    assert_eq!(finds(&store, "rains").await, ["It rains."]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn an_index_that_cannot_be_written_is_reported_until_it_can() {
    let dir = used_store().await;
    let store = open(&data(&dir));
    finds(&store, "rains").await;
    assert_eq!(*store.index_failing().borrow(), None);
    store.close().await.unwrap();
    let file = data(&dir).join("index.db");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let store = open(&data(&dir));
    let mut failing = store.index_failing();
    let state = tokio::time::timeout(PATIENCE, failing.wait_for(Option::is_some)).await.expect("it fails");
    let why = state.unwrap().clone().unwrap();
    assert!(why.contains("index.db") && why.contains("tried again every second"), "{why}");
    fs::remove_dir(&file).unwrap();
    let recovered = tokio::time::timeout(PATIENCE, failing.wait_for(Option::is_none)).await;
    recovered.expect("it recovers").unwrap();
    assert_eq!(finds(&store, "rains").await, ["It rains."]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_restored_store_is_found_by_an_index_of_its_own() {
    let dir = used_store().await;
    let store = open(&data(&dir));
    finds(&store, "rains").await;
    store.close().await.unwrap();
    let backup = sqlite::backup(&data(&dir), dir.path(), "backup.db").unwrap();

    let other = used_store().await;
    let elsewhere = open(&data(&other));
    finds(&elsewhere, "rains").await;
    elsewhere.close().await.unwrap();
    sqlite::restore(&backup.file, &data(&other), &[], Some("aside")).unwrap();
    assert!(!data(&other).join("index.db").exists(), "the index of the replaced store is gone");
    let store = open(&data(&other));
    assert_eq!(finds(&store, "rains").await, ["It rains."]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn an_index_is_rebuilt_on_demand_unless_a_server_has_the_store_open() {
    let dir = used_store().await;
    let store = open(&data(&dir));
    finds(&store, "rains").await;
    let refused = sqlite::rebuild_index(&data(&dir)).unwrap_err();
    assert!(matches!(refused, UpkeepError::Open(_)), "{refused}");
    store.close().await.unwrap();
    let indexed = sqlite::rebuild_index(&data(&dir)).unwrap();
    // Four entries with a text, one memory, four messages.
    assert_eq!((indexed.agents, indexed.texts), (2, 9));
    assert_eq!(indexed, sqlite::rebuild_index(&data(&dir)).unwrap());
    let store = open(&data(&dir));
    assert_eq!(finds(&store, "rains").await, ["It rains."]);
    store.close().await.unwrap();
}
