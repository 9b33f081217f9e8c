//! Readers and the one writer, when a reader takes long.

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

/// A store with one agent.
async fn store_with_ada(dir: &tempfile::TempDir) -> Sqlite {
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
async fn a_long_reader_does_not_stop_the_writer_and_the_log_is_reused_after_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_ada(&dir).await;
    let reader =
        Connection::open_with_flags(dir.path().join("vivarium.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)
            .unwrap();
    let events = || -> i64 { reader.query_row("SELECT count(*) FROM event", [], |row| row.get(0)).unwrap() };
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(events(), 0);
    let log = || std::fs::metadata(dir.path().join("vivarium.db-wal")).unwrap().len();
    // Several times the size at which the log is copied back.
    for number in 0..600 {
        write(&store, number).await;
    }
    assert_eq!(events(), 0, "its snapshot does not change");
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(events(), 600);
    // The next writes copy the log back; from then on its file is used again from the start.
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
