//! Readers and the one writer, when somebody takes long.

use std::sync::Arc;

use agent::config::AgentConfig;
use agent::event::Event;
use agent::id::{AgentId, EventId};
use agent::port::{Accept, Accepted, NewAgent, Registry, Store};
use jiff::Timestamp;
use runtime::clock::SystemClock;
use rusqlite::{Connection, OpenFlags};
use storage::sqlite::Sqlite;
use uuid::Uuid;

const ADA: AgentId = AgentId(Uuid::from_u128(1));

/// A store in which somebody lives.
async fn house(dir: &tempfile::TempDir) -> Sqlite {
    let store = Sqlite::open(dir.path(), Arc::new(SystemClock::new())).unwrap();
    let new = NewAgent::new(ADA, "ada", AgentConfig::default(), Timestamp::UNIX_EPOCH);
    store.create_agent(new).await.unwrap();
    store
}

/// Writes about ten pages.
async fn write(store: &Sqlite, number: usize) {
    let id = EventId(format!("event-{number}"));
    let payload = serde_json::json!("x".repeat(40_000));
    let event = Event::of_service(id, "key", "load", payload, Timestamp::UNIX_EPOCH);
    let accepted = store.accept(Accept::Event(ADA, event), None).await.unwrap();
    assert!(matches!(accepted, Accepted::Fresh { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_reader_stops_no_writer_and_the_log_is_used_again_once_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let store = house(&dir).await;
    let reader =
        Connection::open_with_flags(dir.path().join("vivarium.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)
            .unwrap();
    let events = || -> i64 { reader.query_row("SELECT count(*) FROM event", [], |row| row.get(0)).unwrap() };
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(events(), 0);
    let log = || std::fs::metadata(dir.path().join("vivarium.db-wal")).unwrap().len();
    // Several times what the log holds before it is copied back.
    for number in 0..600 {
        write(&store, number).await;
    }
    assert_eq!(events(), 0, "its moment stays its moment");
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(events(), 600);
    // One more round copies it back, and from then on its file is used again from the start.
    for number in 600..900 {
        write(&store, number).await;
    }
    let grown = log();
    for number in 900..1_500 {
        write(&store, number).await;
    }
    assert_eq!(log(), grown);
    store.close().await.unwrap();
}
