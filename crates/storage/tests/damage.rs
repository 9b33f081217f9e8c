//! Files that are not as they should be.

use std::path::Path;
use std::sync::Arc;

use agent::port::{Registry, Store, StoreError};
use runtime::clock::SystemClock;
use rusqlite::Connection;
use storage::sqlite::{OpenError, Sqlite};

fn open(dir: &Path) -> Result<Sqlite, OpenError> {
    Sqlite::open(dir, Arc::new(SystemClock::new()))
}

async fn closed(dir: &Path) {
    let store = open(dir).unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_store_made_by_a_newer_version_is_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    closed(dir.path()).await;
    let db = Connection::open(dir.path().join("vivarium.db")).unwrap();
    db.execute("UPDATE meta SET value = 99 WHERE key = 'min_reader'", []).unwrap();
    drop(db);
    let error = open(dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::Newer { min_reader: 99, .. }), "{error}");
    assert!(error.to_string().contains("made by a newer viv"), "{error}");
}

#[tokio::test]
async fn a_file_of_garbage_is_no_store() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("vivarium.db"), vec![b'x'; 8_192]).unwrap();
    let error = open(dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
    assert!(error.to_string().contains("move it away"), "{error}");
}

#[tokio::test]
async fn a_store_whose_schema_is_torn_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    closed(dir.path()).await;
    let file = dir.path().join("vivarium.db");
    let mut bytes = std::fs::read(&file).unwrap();
    // The header stays, the page of the schema is overwritten.
    bytes[100..4_096].fill(0xff);
    std::fs::write(&file, bytes).unwrap();
    let error = open(dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("restore it from a copy"), "{error}");
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_made_says_where() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let error = open(&file).err().unwrap();
    assert!(matches!(error, OpenError::Io { .. }) && error.to_string().contains("file"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn the_data_directory_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/inside");
    closed(&path).await;
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn a_store_with_tables_of_a_newer_version_is_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    closed(dir.path()).await;
    let db = Connection::open(dir.path().join("vivarium.db")).unwrap();
    db.pragma_update(None, "user_version", 999).unwrap();
    drop(db);
    let error = open(dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::NewerTables { version: 999, .. }), "{error}");
}

#[tokio::test]
async fn an_event_whose_bytes_have_changed_is_found_wherever_it_changed() {
    use agent::port::Reader;

    let changes = [
        "data = replace(data, 'jira', 'jura')",
        "trust = 3",
        "principal_kind = 3, principal = NULL",
        "urgent = 1",
        "hop = 7",
        "at = at + 1",
        "root = 'another'",
        "crc = NULL",
        "crc = crc + 1",
    ];
    let dir = crate::upkeep::lived().await;
    let data = dir.path().join("data");
    let pristine = std::fs::read(data.join("vivarium.db")).unwrap();
    for change in changes {
        std::fs::write(data.join("vivarium.db"), &pristine).unwrap();
        let db = Connection::open(data.join("vivarium.db")).unwrap();
        let sql = format!("UPDATE event SET {change} WHERE id = 'waits'");
        assert_eq!(db.execute(&sql, []).unwrap(), 1, "{change}");
        drop(db);
        let store = open(&data).unwrap();
        let named = |name: &str| store.entity(name.to_owned());
        let ada = named("ada").await.unwrap().unwrap().id.agent();
        let bob = named("bob").await.unwrap().unwrap().id.agent();
        let now = "2040-01-01T00:00:00Z".parse().unwrap();
        let error = store.wake(ada, now, None).await.unwrap_err();
        assert!(matches!(&error, StoreError::Damaged(why) if why.contains("event 8")), "{change}: {error}");
        assert!(store.wake(bob, now, None).await.unwrap().is_some(), "{change}");
        store.close().await.unwrap();
        let flaws = storage::sqlite::verify(&data).unwrap().flaws;
        assert!(flaws.iter().any(|flaw| flaw.what.contains("event 8: its checksum")), "{change}: {flaws:?}");
    }
}

#[tokio::test]
async fn a_damaged_entry_is_named_and_harms_only_its_agent() {
    use agent::config::AgentConfig;
    use agent::id::AgentId;
    use agent::port::NewAgent;
    use jiff::Timestamp;
    use uuid::Uuid;

    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let agents = [AgentId(Uuid::from_u128(1)), AgentId(Uuid::from_u128(2))];
    for (agent, name) in agents.into_iter().zip(["ada", "bob"]) {
        let at = Timestamp::UNIX_EPOCH;
        let (name, config) = (name.to_owned(), AgentConfig::default());
        store
            .create_agent(NewAgent { id: agent, display_name: name.clone(), name, config, at })
            .await
            .unwrap();
    }
    store.close().await.unwrap();
    let db = Connection::open(dir.path().join("vivarium.db")).unwrap();
    for (agent, crc) in [(1, 1), (2, i64::from(crc32fast::hash(br#"{"role":"user","parts":[]}"#)))] {
        let sql = "INSERT INTO entry VALUES (?, 1, zeroblob(16), 0, 'inbox', 1, 0, 1, ?, '{\"role\":\"user\",\"parts\":[]}')";
        db.execute(sql, (agent, crc)).unwrap();
    }
    drop(db);
    let store = open(dir.path()).unwrap();
    let error = store.wake(agents[0], Timestamp::UNIX_EPOCH, None).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains(&agents[0].to_string()) && text.contains("entry 1"), "{text}");
    assert!(store.wake(agents[1], Timestamp::UNIX_EPOCH, None).await.unwrap().is_some());
}
