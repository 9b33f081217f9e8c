//! Stores of every version can be migrated, verified and used. A fixture is the rows of a store with processed events, written
//! as SQL; its tables are those of the migrations up to its version. A new migration needs a fixture of the version that it
//! creates: run this with `VIV_WRITE_FIXTURE` set. The fixture of a released version is never changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::event::Trust;
use agent::memory::Importance;
use agent::port::{Reader, Store};
use rusqlite::Connection;
use storage::sqlite::{self, Sqlite, verify};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn open(dir: &Path) -> Sqlite {
    Sqlite::open(dir, Arc::new(runtime::clock::SystemClock::new())).unwrap()
}

/// The version of the tables that this program creates.
async fn newest() -> i64 {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).close().await.unwrap();
    verify(dir.path()).unwrap().version
}

fn texts(db: &Connection, sql: &str) -> Vec<String> {
    let mut ask = db.prepare(sql).unwrap();
    ask.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// How a fixture for these tables begins. A migration that is changed makes other tables than the stores out there have.
fn head(db: &Connection, version: i64) -> String {
    let made =
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' ORDER BY name";
    let sum = crc32fast::hash(texts(db, made).join("\n").as_bytes());
    format!(
        "-- The rows of a store of version {version}: see `migrations.rs`. Checksum of its tables: {sum:08x}\n"
    )
}

/// The rows of the store as SQL that inserts them.
fn as_sql(db: &Connection, version: i64) -> String {
    let application: i64 = db.pragma_query_value(None, "application_id", |row| row.get(0)).unwrap();
    let mut out = head(db, version);
    out += &format!(
        "PRAGMA application_id = {application};\nPRAGMA user_version = {version};\nDELETE FROM meta;\n"
    );
    let names =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY rowid";
    for table in texts(db, names) {
        let columns = texts(db, &format!("SELECT name FROM pragma_table_info('{table}')"));
        let quoted: Vec<String> = columns.iter().map(|column| format!("quote({column})")).collect();
        for row in texts(db, &format!("SELECT {} FROM {table}", quoted.join(" || ', ' || "))) {
            out += &format!("INSERT INTO {table} ({}) VALUES ({row});\n", columns.join(", "));
        }
    }
    out
}

/// Writes the store of a fixture.
fn write_store(file: &Path, version: i64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite/engine/migrations");
    let mut migrations: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    migrations.sort();
    let db = Connection::open(file).unwrap();
    for migration in &migrations[..usize::try_from(version).unwrap()] {
        db.execute_batch(&std::fs::read_to_string(migration).unwrap()).unwrap();
    }
    let rows = std::fs::read_to_string(fixtures().join(format!("v{version}.sql")))
        .unwrap_or_else(|error| panic!("version {version} has no fixture: {error}"));
    let head = head(&db, version);
    assert!(
        rows.starts_with(&head),
        "a migration up to {version} was changed: wanted the fixture to begin with {head}"
    );
    db.execute_batch(&rows).unwrap();
}

#[tokio::test]
async fn the_newest_version_has_a_fixture() {
    let version = newest().await;
    let file = fixtures().join(format!("v{version}.sql"));
    if std::env::var_os("VIV_WRITE_FIXTURE").is_some() && !file.exists() {
        let dir = crate::upkeep::used_store().await;
        let db = Connection::open(dir.path().join("data/vivarium.db")).unwrap();
        std::fs::write(&file, as_sql(&db, version)).unwrap();
    }
    assert!(file.exists(), "run this with `VIV_WRITE_FIXTURE` set to write `{}`", file.display());
}

#[tokio::test]
async fn a_store_of_each_version_is_migrated_and_can_be_used() {
    let newest = newest().await;
    for version in 1..=newest {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        write_store(&data.join("vivarium.db"), version);

        // Before the migration: verified as far as possible, and backed up.
        let before = verify(&data).unwrap();
        assert_eq!(
            (before.version, before.records, before.flaws.as_slice()),
            (version, version == newest, &[][..])
        );
        let backup = sqlite::backup(&data, dir.path(), "before.db").unwrap();
        assert_eq!(backup.verified.figures, before.figures);

        let store = open(&data);
        let after = store.verify().await.unwrap();
        assert_eq!((after.version, after.flaws.as_slice()), (newest, &[][..]), "from version {version}");
        assert_eq!(after.figures, before.figures, "from version {version}");
        let ada = store.entity("ada".into()).await.unwrap().unwrap().id.agent();
        let bob = store.entity("bob".into()).await.unwrap().unwrap().id.agent();
        let now = "2040-01-01T00:00:00Z".parse().unwrap();
        let activation = store.wake(ada, now, None).await.unwrap().unwrap();
        assert!(activation.life.open.is_none() && activation.waiting.len() >= 3, "from version {version}");
        let activation = store.wake(bob, now, None).await.unwrap().unwrap();
        assert!(activation.life.open.is_some_and(|open| open.decided), "from version {version}");
        assert_eq!(activation.calls.len(), 1, "from version {version}");
        if version < 4 {
            // Nobody noted what older rows were made of.
            let entries = store.entries(bob, 0, 100).await.unwrap().items;
            assert!(!entries.is_empty() && entries.iter().all(|entry| entry.trust == Trust::Outside));
            let view = store.view(ada).await.unwrap();
            assert!(view.is_none_or(|view| view.trust == Trust::Outside), "from version {version}");
            for memory in store.facts(ada).await.unwrap().unwrap().memories {
                assert_eq!((memory.used_at, memory.trust), (memory.updated_at, Trust::Outside));
                assert_eq!((memory.importance, memory.pinned), (Importance::Normal, false));
            }
        }
        store.close().await.unwrap();

        // The backup from before undoes the migration.
        let restored = dir.path().join("restored");
        sqlite::restore(&backup.file, &restored, &[], None).unwrap();
        assert_eq!(verify(&restored).unwrap().version, version);
    }
}
