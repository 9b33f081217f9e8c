//! Damaged and foreign files.

use std::path::Path;
use std::sync::Arc;

use agent::port::{Registry, Store, StoreError};
use runtime::clock::SystemClock;
use rusqlite::Connection;
use storage::sqlite::{OpenError, Sqlite};

fn open(dir: &Path) -> Result<Sqlite, OpenError> {
    Sqlite::open(dir, Arc::new(SystemClock::new()))
}

async fn create_and_close(dir: &Path) {
    let store = open(dir).unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_store_written_by_a_newer_version_is_refused_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    create_and_close(dir.path()).await;
    let db = Connection::open(dir.path().join("vivarium.db")).unwrap();
    db.execute("UPDATE meta SET value = 99 WHERE key = 'min_reader'", []).unwrap();
    drop(db);
    let error = open(dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::Newer { min_reader: 99, .. }), "{error}");
    assert!(error.to_string().contains("this `viv` "), "{error}");
}

#[tokio::test]
async fn a_file_of_garbage_is_not_a_store() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("vivarium.db"), vec![b'x'; 8_192]).unwrap();
    let error = open(dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
    assert!(error.to_string().contains("is not a store of Vivarium"), "{error}");
}

#[tokio::test]
async fn an_empty_file_is_refused_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("vivarium.db");
    std::fs::write(&file, "").unwrap();
    let error = open(dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
    assert!(error.to_string().contains("it is empty"), "{error}");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
    // A file that a dead start has left does not stop the next one.
    std::fs::rename(&file, dir.path().join("vivarium.db.begun")).unwrap();
    create_and_close(dir.path()).await;
    assert!(!dir.path().join("vivarium.db.begun").exists());
}

#[tokio::test]
async fn a_store_with_a_torn_schema_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    create_and_close(dir.path()).await;
    let file = dir.path().join("vivarium.db");
    let mut bytes = std::fs::read(&file).unwrap();
    // Keep the header, overwrite the rest of the page with the schema.
    bytes[100..4_096].fill(0xff);
    std::fs::write(&file, bytes).unwrap();
    let error = open(dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("is damaged"), "{error}");
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_created_is_named_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let error = open(&file).err().unwrap();
    assert!(matches!(error, OpenError::Io { .. }) && error.to_string().contains("file"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_data_directory() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/inside");
    create_and_close(&path).await;
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn a_store_with_tables_of_a_newer_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    create_and_close(dir.path()).await;
    let db = Connection::open(dir.path().join("vivarium.db")).unwrap();
    db.pragma_update(None, "user_version", 999).unwrap();
    drop(db);
    let error = open(dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::NewerTables { version: 999, .. }), "{error}");
}

#[tokio::test]
async fn a_damaged_entry_is_named_and_affects_only_its_agent() {
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
        store.create_agent(NewAgent::new(agent, name, AgentConfig::default(), at)).await.unwrap();
    }
    store.close().await.unwrap();
    let db = Connection::open(dir.path().join("vivarium.db")).unwrap();
    for (agent, crc) in [(1, 1), (2, i64::from(crc32fast::hash(br#"{"role":"user","parts":[]}"#)))] {
        let sql = "INSERT INTO entry VALUES (?, 1, zeroblob(16), 0, 'inbox', 1, 0, 1, ?, '{\"role\":\"user\",\"parts\":[]}', 0)";
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

/// Opens the store of [`crate::upkeep::used_store`] after this SQL has changed its file.
async fn changed(dir: &Arc<tempfile::TempDir>, pristine: &[u8], sql: &str) -> Sqlite {
    let data = dir.path().join("data");
    std::fs::write(data.join("vivarium.db"), pristine).unwrap();
    // Remove the log of an earlier run.
    let _ = std::fs::remove_file(data.join("vivarium.db-wal"));
    let db = Connection::open(data.join("vivarium.db")).unwrap();
    for sql in sql.split(';') {
        assert!(db.execute(sql, []).unwrap() > 0, "{sql}");
    }
    drop(db);
    open(&data).unwrap()
}

#[tokio::test]
async fn a_message_whose_checksum_does_not_match_is_not_shown_and_quarantines_no_agent() {
    use agent::port::{Lookup, MessageFilter, Reader};

    let changes = [
        "text = replace(text, 'waits', 'wants')",
        "data = '{}'",
        "at = at + 1",
        "mentions = zeroblob(16)",
        "sender = 2",
        "crc = crc + 1",
    ];
    let dir = crate::upkeep::used_store().await;
    let pristine = std::fs::read(dir.path().join("data/vivarium.db")).unwrap();
    for change in changes {
        let sql = format!("UPDATE message SET {change} WHERE text = 'and this waits'");
        let store = changed(&dir, &pristine, &sql).await;
        let ada = store.entity("ada".into()).await.unwrap().unwrap().id.agent();
        let now = "2040-01-01T00:00:00Z".parse().unwrap();
        let activation = store.wake(ada, now, None).await.unwrap().unwrap();
        let texts = |messages: &[agent::event::NamedMessage]| -> Vec<String> {
            messages.iter().map(|message| message.text.clone()).collect()
        };
        let waiting: Vec<String> =
            activation.waiting.iter().map(|waiting| waiting.text().to_owned()).collect();
        assert!(waiting.iter().any(|text| text.contains("cannot be read")), "{change}: {waiting:?}");
        let family = Reader::space(&store, "family".into()).await.unwrap().unwrap().id;
        let posted = Reader::messages(&store, family, MessageFilter::default(), 10).await.unwrap().items;
        let looked_up = Lookup::messages(&store, ada, family, None, 10).await.unwrap().unwrap().0;
        let found: Vec<String> =
            posted.into_iter().map(|message| message.text).chain(texts(&looked_up)).collect();
        assert!(found.iter().any(|text| text.contains("weather")), "{change}: {found:?}");
        assert!(!found.iter().any(|text| text.contains("this wa")), "{change}: {found:?}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn an_unreadable_row_affects_only_its_agent() {
    use agent::port::Reader;

    let whose = |name: &str| format!("agent = (SELECT id FROM entity WHERE name = '{name}')");
    let changes = [
        ("bob", "call", "not a state of a call", "state = 'lost'"),
        ("bob", "call", "an outcome cannot be read", "outcome = '{}'"),
        ("ada", "memory", "is not a time", "at = 9000000000000000000"),
        ("ada", "event", "data cannot be read", "data = '{'"),
        ("ada", "event", "is not a trust level", "trust = 9"),
    ];
    let dir = crate::upkeep::used_store().await;
    let pristine = std::fs::read(dir.path().join("data/vivarium.db")).unwrap();
    for (name, table, what, change) in changes {
        let store =
            changed(&dir, &pristine, &format!("UPDATE {table} SET {change} WHERE {}", whose(name))).await;
        let now = "2040-01-01T00:00:00Z".parse().unwrap();
        for other in ["ada", "bob"] {
            let id = store.entity(other.into()).await.unwrap().unwrap().id.agent();
            let activation = store.wake(id, now, None).await;
            if other == name {
                let error = activation.unwrap_err();
                let expected = matches!(&error, StoreError::Damaged(why) if why.contains(what) && why.contains(&id.to_string()));
                assert!(expected, "{change}: {error}");
            } else {
                assert!(activation.unwrap().is_some(), "{change}");
            }
        }
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn damaged_rows_of_one_agent_stop_no_other() {
    use agent::id::MessageId;
    use agent::port::{Accept, Accepted, PageRequest, Reader};
    use agent::space::NewMessage;
    use uuid::Uuid;

    let ada = "(SELECT id FROM entity WHERE name = 'ada')";
    let changes = [
        format!("UPDATE life SET requesters = 'x' WHERE agent = {ada}"),
        format!("UPDATE life SET open = 'x' WHERE agent = {ada}"),
        format!("UPDATE life SET skips = -1 WHERE agent = {ada}"),
        format!("UPDATE agent SET urgency = 'x' WHERE id = {ada}"),
        format!("UPDATE agent SET wake_on = 9 WHERE id = {ada}"),
        format!("UPDATE agent SET hop_limit = -1 WHERE id = {ada}"),
        format!("UPDATE agent SET inbox_max = -1 WHERE id = {ada}"),
        format!("UPDATE inbox_head SET due_at = -9000000000000000000 WHERE agent = {ada}"),
        format!("UPDATE inbox_head SET hold_until = 9000000000000000000 WHERE agent = {ada}"),
        format!("UPDATE inbox_head SET held = -1 WHERE agent = {ada}"),
        format!(
            "UPDATE event SET state = 1, trust = 9, release_at = 0 WHERE agent = {ada} AND state = 0 \
             AND space IS NOT NULL; UPDATE inbox_head SET held = 1 WHERE agent = {ada}"
        ),
        format!(
            "UPDATE event SET state = 1, data = '{{', release_at = 0 WHERE id = 'waits' AND agent = {ada}"
        ),
    ];
    let dir = crate::upkeep::used_store().await;
    let pristine = std::fs::read(dir.path().join("data/vivarium.db")).unwrap();
    for sql in changes {
        let store = changed(&dir, &pristine, &sql).await;
        let flaws = store.verify().await.unwrap().flaws;
        assert!(flaws.iter().any(|flaw| flaw.agent.as_deref() == Some("ada")), "{sql}: {flaws:?}");
        let now = "2040-01-01T00:00:00Z".parse().unwrap();
        let husam = store.entity("husam".into()).await.unwrap().unwrap().id;
        let bob = store.entity("bob".into()).await.unwrap().unwrap().id.agent();
        let space = store.space("family".into()).await.unwrap().unwrap().id;
        let id = MessageId(Uuid::from_u128(0x4000_8000_0000_0000_0000));
        let message = NewMessage::of_person(id, space, husam, "is anybody there?", now);
        let accepted = store.accept(Accept::Message(message), None).await;
        assert!(matches!(accepted, Ok(Accepted::Fresh { .. })), "{sql}: {accepted:?}");
        store.fire_due(now, 10).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        store.due(now, None, 10).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        store.next_due(now).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let page = PageRequest { cursor: None, limit: 10 };
        let cards = store.agents(None, page).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let quarantined = cards.items.iter().map(|card| (card.entity.name.as_str(), card.damage.is_some()));
        assert_eq!(quarantined.collect::<Vec<_>>(), [("ada", true), ("bob", false)], "{sql}");
        assert!(store.wake(bob, now, None).await.unwrap().is_some(), "{sql}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_log_without_its_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    create_and_close(dir.path()).await;
    std::fs::remove_file(dir.path().join("vivarium.db")).unwrap();
    std::fs::write(dir.path().join("vivarium.db-wal"), "all messages").unwrap();
    let error = open(dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
    assert!(!dir.path().join("vivarium.db").exists());
}

#[tokio::test]
async fn a_clean_stop_leaves_no_log_beside_the_file() {
    let dir = crate::upkeep::used_store().await;
    let log = dir.path().join("data/vivarium.db-wal");
    let left = std::fs::metadata(log).map_or(0, |found| found.len());
    assert_eq!(left, 0);
}

/// The store of [`crate::upkeep::used_store`] as a process leaves it that is killed after this SQL: an unchanged file,
/// and the change in the log beside it.
fn killed_after(from: &Path, sql: &str) -> tempfile::TempDir {
    let db = Connection::open(from.join("vivarium.db")).unwrap();
    db.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    db.execute_batch(sql).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for name in ["vivarium.db", "vivarium.db-wal"] {
        std::fs::copy(from.join(name), dir.path().join(name)).unwrap();
    }
    dir
}

fn store_and_log(dir: &Path) -> [Vec<u8>; 2] {
    ["vivarium.db", "vivarium.db-wal"].map(|name| std::fs::read(dir.join(name)).unwrap())
}

#[tokio::test]
async fn a_refused_store_and_its_log_are_not_changed() {
    let used = crate::upkeep::used_store().await;
    let data = used.path().join("data");
    let cut = killed_after(&data, "UPDATE meta SET value = value + 1 WHERE key = 'boot'");
    let file = std::fs::File::options().write(true).open(cut.path().join("vivarium.db")).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let tables = killed_after(&data, "PRAGMA user_version = 999");
    let newer =
        killed_after(&data, "PRAGMA user_version = 11; UPDATE meta SET value = 99 WHERE key = 'min_reader'");
    for dir in [cut, tables, newer] {
        let before = store_and_log(dir.path());
        let error = open(dir.path()).err().unwrap();
        let expected = matches!(
            error,
            OpenError::Corrupt { written: false, .. }
                | OpenError::Newer { min_reader: 99, .. }
                | OpenError::NewerTables { version: 999, .. }
        );
        assert!(expected, "{error}");
        assert!(store_and_log(dir.path()) == before, "{error}");
    }
}

#[tokio::test]
async fn pages_that_are_only_in_the_log_are_not_damage() {
    let used = crate::upkeep::used_store().await;
    let grown = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) \
                 INSERT INTO meta SELECT 'grown' || i || hex(randomblob(500)), i FROM n";
    let dir = killed_after(&used.path().join("data"), grown);
    let store = open(dir.path()).unwrap();
    store.close().await.unwrap();
    let db = Connection::open(dir.path().join("vivarium.db")).unwrap();
    let sql = "SELECT count(*) FROM meta WHERE key LIKE 'grown%'";
    assert_eq!(db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 400);
}

#[tokio::test]
async fn an_empty_database_of_another_program_is_refused_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("vivarium.db");
    let db = Connection::open(&file).unwrap();
    db.pragma_update(None, "application_id", 77).unwrap();
    drop(db);
    let before = std::fs::read(&file).unwrap();
    let error = open(dir.path()).err().unwrap();
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn an_unreadable_agent_can_be_suspended_and_retired_but_not_resumed() {
    use agent::life::Standing;
    use agent::port::{Reader, RegistryError};

    let ada = "(SELECT id FROM entity WHERE name = 'ada')";
    let changes = [
        format!("UPDATE config_rev SET config = 'x' WHERE agent = {ada}"),
        format!("DELETE FROM config_rev WHERE agent = {ada}"),
        format!("UPDATE agent SET config_rev = -1 WHERE id = {ada}"),
        format!("UPDATE agent SET standing = 9 WHERE id = {ada}"),
        format!("UPDATE life SET open = 'x' WHERE agent = {ada}"),
        format!("UPDATE life SET open_cycle = x'00' WHERE agent = {ada}"),
        format!("UPDATE life SET commit_n = -1 WHERE agent = {ada}"),
        format!(
            "UPDATE commits SET n = -1 WHERE agent = {ada} AND n = 1; UPDATE life SET commit_n = -1 WHERE agent = {ada}"
        ),
        format!("DELETE FROM life WHERE agent = {ada}"),
    ];
    let dir = crate::upkeep::used_store().await;
    let pristine = std::fs::read(dir.path().join("data/vivarium.db")).unwrap();
    let now = "2040-01-01T00:00:00Z".parse().unwrap();
    for sql in changes {
        let store = changed(&dir, &pristine, &sql).await;
        let id = store.entity("ada".into()).await.unwrap().unwrap().id.agent();
        let error = store.set_standing(id, Standing::Active, now).await.unwrap_err();
        let named =
            matches!(&error, RegistryError::Store(StoreError::Damaged(why)) if why.contains(&id.to_string()));
        assert!(named, "{sql}: {error}");
        for standing in [Standing::Suspended, Standing::Retired] {
            store.set_standing(id, standing, now).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let denied = store.set_standing(id, Standing::Active, now).await.unwrap_err();
        assert!(matches!(denied, RegistryError::Denied(_) | RegistryError::Store(_)), "{sql}: {denied}");
        // Its open cycle can never be closed, and does not keep the server busy.
        if let Err(StoreError::Damaged(why)) = store.wake(id, now, None).await {
            store.quarantine(id, why).await.unwrap();
        }
        let due = store.due("2041-01-01T00:00:00Z".parse().unwrap(), None, 10).await.unwrap();
        assert!(due.iter().all(|due| due.agent != id), "{sql}");
        store.close().await.unwrap();
    }
}
