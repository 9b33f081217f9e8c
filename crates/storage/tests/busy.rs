//! Readers and the one writer, when somebody takes long.

use std::sync::Arc;

use agent::port::Blobs as _;
use runtime::clock::SystemClock;
use rusqlite::{Connection, OpenFlags};
use storage::sqlite::Sqlite;

/// Bytes that no other number gives, so that each is written.
fn bytes(number: usize) -> Vec<u8> {
    number.to_le_bytes().iter().copied().cycle().take(40_000).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_reader_stops_no_writer_and_the_log_is_used_again_once_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(dir.path(), Arc::new(SystemClock::new())).unwrap();
    let reader =
        Connection::open_with_flags(dir.path().join("vivarium.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)
            .unwrap();
    let blobs = || -> i64 { reader.query_row("SELECT count(*) FROM blob", [], |row| row.get(0)).unwrap() };
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(blobs(), 0);
    let log = || std::fs::metadata(dir.path().join("vivarium.db-wal")).unwrap().len();
    // Ten pages each: several times what the log holds before it is copied back.
    for number in 0..600 {
        store.put(bytes(number)).await.unwrap();
    }
    assert_eq!(blobs(), 0, "its moment stays its moment");
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(blobs(), 600);
    // One more round copies it back, and from then on its file is used again from the start.
    for number in 600..900 {
        store.put(bytes(number)).await.unwrap();
    }
    let grown = log();
    for number in 900..1_500 {
        store.put(bytes(number)).await.unwrap();
    }
    assert_eq!(log(), grown);
    store.close().await.unwrap();
}
