//! Backups, restores and verification of whole stores.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::event::Event;
use agent::id::{AgentId, EventId};
use agent::port::{Accept, Accepted, Store};
use jiff::Timestamp;
use rusqlite::Connection;
use storage::sqlite::{self, Flaw, OpenError, Sqlite, UpkeepError, verify};

use crate::promises::on_a_file;

/// A directory with a closed store that has processed events.
pub(crate) async fn used_store() -> Arc<tempfile::TempDir> {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let backend = testkit::contract::sample::full(on_a_file::open(&dir).unwrap()).await;
    (backend.close)().await;
    dir
}

pub(crate) fn data(dir: &Arc<tempfile::TempDir>) -> std::path::PathBuf {
    dir.path().join("data")
}

fn service(id: &str) -> Event {
    let payload = serde_json::json!({"id": id});
    Event::of_service(EventId(id.into()), "key", "load", payload, Timestamp::UNIX_EPOCH)
}

/// The flaws of a store after these statements have changed its file.
fn after(dir: &Path, sql: &str) -> Vec<Flaw> {
    let db = Connection::open(dir.join("vivarium.db")).unwrap();
    db.execute_batch(sql).unwrap();
    drop(db);
    verify(dir).unwrap().flaws
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_can_read_a_store_even_in_a_directory_that_others_can_read() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let store = Sqlite::open(dir.path(), Arc::new(runtime::clock::SystemClock::new())).unwrap();
    for name in ["vivarium.db", "vivarium.db-wal", "vivarium.db-shm"] {
        let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_used_store_has_no_flaw() {
    let dir = used_store().await;
    let found = verify(&data(&dir)).unwrap();
    assert_eq!(found.flaws, []);
    assert!(found.records);
    let figures = found.figures;
    assert_eq!((figures.agents, figures.spaces, figures.messages, figures.entries), (2, 2, 4, 6));
}

/// Also one that is named as if it were the engine's: it would run with the first message.
#[tokio::test]
async fn triggers_and_views_do_not_belong_there_whatever_they_are_called() {
    let trigger = "AFTER INSERT ON message BEGIN UPDATE entity SET display_name = 'x'; END";
    for (name, sql) in [
        ("trigger evil", format!("CREATE TRIGGER evil {trigger}")),
        ("trigger sqliteevil", format!("CREATE TRIGGER sqliteevil {trigger}")),
        ("view sqlitelike", "CREATE VIEW sqlitelike AS SELECT 1".to_owned()),
    ] {
        let dir = used_store().await;
        let flaws = after(&data(&dir), &sql);
        assert!(
            flaws.iter().any(|flaw| flaw.id == name && flaw.what.contains("belong")),
            "{name}: {flaws:?}"
        );
    }
}

/// Makes a later message of husam processed in an earlier step than his first one.
const OUT_OF_ORDER: &str = "UPDATE event SET step = 1 WHERE seq = 1 AND agent = @ada; \
    DELETE FROM waiting WHERE seq = 7 AND agent = @ada; UPDATE event SET state = 2, step = 0, \
    cycle = (SELECT cycle FROM event WHERE seq = 1 AND agent = @ada) WHERE seq = 7 AND agent = @ada";

/// Statements that break an invariant, each with the agent, table, record and text of the expected flaw.
const BREAKS: &[(&str, &str, &str, &str, &str)] = &[
    (
        "UPDATE entry SET message = replace(message, 'rains', 'pours') WHERE seq = 4 AND agent = @ada",
        "ada",
        "entry",
        "4",
        "checksum",
    ),
    ("DELETE FROM entry WHERE seq = 3 AND agent = @ada", "ada", "entry", "4", "entry 3 before it is missing"),
    ("DELETE FROM entry WHERE seq = 3 AND agent = @ada", "ada", "entry", "2", "position of the transcript"),
    ("DELETE FROM entry WHERE seq = 4 AND agent = @ada", "ada", "entry", "3", "`life` counts 4"),
    (
        "UPDATE event SET state = 3 WHERE id = 'waits' AND agent = @ada",
        "ada",
        "event",
        "8",
        "skipped, but it is still in the inbox",
    ),
    (
        "DELETE FROM waiting WHERE seq = 8 AND agent = @ada",
        "ada",
        "event",
        "8",
        "waiting, but the inbox does not have it",
    ),
    ("DELETE FROM event WHERE seq = 8 AND agent = @ada", "ada", "waiting", "8", "no such event"),
    (
        "UPDATE event SET cycle = zeroblob(16) WHERE seq = 2 AND agent = @ada",
        "ada",
        "event",
        "2",
        "the log has no entry",
    ),
    (OUT_OF_ORDER, "ada", "event", "7", "before an earlier event of its sender"),
    (
        "UPDATE event SET from_seq = 77 WHERE seq = 1 AND agent = @ada",
        "ada",
        "event",
        "1",
        "message 77, which does not exist",
    ),
    ("UPDATE event SET data = '{' WHERE seq = 2 AND agent = @ada", "ada", "event", "2", "cannot be read"),
    (
        "UPDATE inbox_head SET waiting = 7 WHERE 1 AND agent = @ada",
        "ada",
        "inbox_head",
        "waiting",
        "it counts 7",
    ),
    (
        "UPDATE inbox_head SET due_at = NULL WHERE 1 AND agent = @ada",
        "ada",
        "inbox_head",
        "due_at",
        "never due",
    ),
    (
        "UPDATE waiting SET taken = 1 WHERE seq = 8 AND agent = @ada",
        "ada",
        "waiting",
        "8",
        "no open cycle has taken it",
    ),
    (
        "UPDATE waiting SET speaker = speaker + 1 WHERE seq = 8 AND agent = @ada",
        "ada",
        "waiting",
        "8",
        "the event's sender",
    ),
    (
        "DELETE FROM commits WHERE n = 2 AND agent = @ada",
        "ada",
        "commits",
        "3",
        "commit 2 before it is missing",
    ),
    (
        "UPDATE commits SET epoch = 9 WHERE n = 3 AND agent = @ada",
        "ada",
        "commits",
        "3",
        "epoch is 9, wanted 1",
    ),
    ("UPDATE life SET epoch = 9 WHERE 1 AND agent = @ada", "ada", "life", "epoch", "the last commit's"),
    ("UPDATE life SET open = NULL WHERE 1 AND agent = @bob", "bob", "life", "open", "name different cycles"),
    (
        "UPDATE call SET state = 'planned', outcome = NULL WHERE idx = 1 AND agent = @ada",
        "ada",
        "call",
        "c",
        "the log has its outcome",
    ),
    ("DELETE FROM call WHERE idx = 1 AND agent = @ada", "ada", "call", "c", "it has no row"),
    (
        "UPDATE call SET outcome = '{' WHERE idx = 1 AND agent = @ada",
        "ada",
        "call",
        "c",
        "an outcome cannot be read",
    ),
    ("UPDATE call SET outcome = NULL WHERE idx = 0 AND agent = @ada", "ada", "call", "c", "no outcome"),
    ("UPDATE call SET effect = 'none' WHERE agent = @bob", "bob", "call", "c", "is not an effect"),
    (
        "UPDATE message SET text = replace(text, 'waits', 'wants')",
        "",
        "message",
        "0",
        "of `family`: its checksum does not match",
    ),
    ("UPDATE message SET data = '{}' WHERE seq = 1", "", "message", "0", "its checksum does not match"),
    ("UPDATE message SET at = at + 1 WHERE seq = 1", "", "message", "0", "its checksum does not match"),
    ("UPDATE message SET crc = crc + 1 WHERE seq = 1", "", "message", "0", "its checksum does not match"),
    (
        "UPDATE message SET sender = sender + 1 WHERE seq = 1",
        "",
        "message",
        "0",
        "its checksum does not match",
    ),
    (
        "UPDATE memory SET at = 9000000000000000000 WHERE agent = @ada",
        "ada",
        "memory",
        "husam",
        "is not a time",
    ),
    ("UPDATE call SET state = 'done' WHERE 1 AND agent = @bob", "bob", "call", "c", "no outcome"),
    (
        "INSERT INTO step SELECT agent, open_cycle, 9, '{}' FROM life WHERE agent = @bob",
        "bob",
        "step",
        "9",
        "has not begun",
    ),
    ("INSERT INTO step VALUES (@bob, zeroblob(16), 0, '{}')", "bob", "step", "0", "cycle is not open"),
    (
        "INSERT INTO step SELECT agent, open_cycle, 0, '{' FROM life WHERE agent = @bob",
        "bob",
        "step",
        "0",
        "a record cannot be read",
    ),
    ("DELETE FROM run WHERE ordinal = 1 AND agent = @ada", "ada", "run", "0", "`life` counts 1"),
    ("DELETE FROM config_rev WHERE 1 AND agent = @ada", "ada", "config_rev", "0", "the agent has 1"),
    (
        "UPDATE config_rev SET config = 'x' WHERE 1 AND agent = @ada",
        "ada",
        "config_rev",
        "1",
        "cannot be read",
    ),
    ("UPDATE view SET ranges = '[[5,9]]' WHERE 1 AND agent = @ada", "ada", "view", "1", "overlap"),
    (
        "UPDATE memory SET to_commit = NULL WHERE 1 AND agent = @ada",
        "ada",
        "memory",
        "husam",
        "valid at once",
    ),
    (
        "UPDATE memory SET importance = 9 WHERE agent = @ada",
        "ada",
        "memory",
        "husam",
        "is not a level of importance",
    ),
    ("UPDATE memory SET trust = 9 WHERE agent = @ada", "ada", "memory", "husam", "is not a trust level"),
    (
        "UPDATE entry SET trust = 9 WHERE seq = 1 AND agent = @ada",
        "ada",
        "entry",
        "1",
        "is not a trust level",
    ),
    ("UPDATE view SET compaction = '{' WHERE 1 AND agent = @ada", "ada", "view", "1", "its compaction"),
    ("UPDATE view SET trust = 9 WHERE 1 AND agent = @ada", "ada", "view", "1", "is not a trust level"),
    ("UPDATE plan SET schedule = 'never' WHERE 1 AND agent = @ada", "ada", "plan", "0", "a schedule"),
    ("UPDATE plan SET source = 9 WHERE 1 AND agent = @ada", "ada", "plan", "0", "is not a source of a plan"),
    ("UPDATE message SET rev = 99 WHERE seq = 1", "", "message", "0", "above the space's"),
    ("DELETE FROM message WHERE seq = 1", "", "message", "family/", "message 1 before it is missing"),
    ("DELETE FROM message WHERE seq = 1", "ada", "event", "1", "message 1, which does not exist"),
    (
        "DELETE FROM member; DELETE FROM space WHERE name = 'team'",
        "",
        "message",
        "0",
        "its space does not exist",
    ),
    ("DELETE FROM agent WHERE id = @ada", "", "event", "", "which does not exist"),
    ("CREATE TABLE theirs (x)", "", "file", "table theirs", "does not belong"),
    ("DROP INDEX event_held", "", "file", "index event_held", "missing"),
];

#[tokio::test]
async fn every_broken_invariant_is_reported_with_agent_table_and_row() {
    let dir = used_store().await;
    let pristine = fs::read(data(&dir).join("vivarium.db")).unwrap();
    let row = |name: &str| format!("(SELECT id FROM entity WHERE name = '{name}')");
    let mut missed = Vec::new();
    for (sql, agent, table, id, what) in BREAKS {
        let sql = sql.replace("@ada", &row("ada")).replace("@bob", &row("bob"));
        fs::write(data(&dir).join("vivarium.db"), &pristine).unwrap();
        let flaws = after(&data(&dir), &sql);
        let agent = (!agent.is_empty()).then(|| (*agent).to_owned());
        let named = |flaw: &&Flaw| {
            flaw.agent == agent && flaw.table == *table && flaw.id.starts_with(id) && flaw.what.contains(what)
        };
        if !flaws.iter().any(|flaw| named(&flaw)) {
            missed.push(format!("`{sql}`, wanted {table} {id} {what}: {flaws:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[tokio::test]
async fn a_dead_event_that_was_sent_again_may_come_after_later_events() {
    let dir = used_store().await;
    let died = "UPDATE event SET reason = 'it broke the model' WHERE seq = 1 AND agent = @ada";
    let sql = format!("{OUT_OF_ORDER}; {died}").replace("@ada", "(SELECT id FROM entity WHERE name = 'ada')");
    let flaws = after(&data(&dir), &sql);
    assert!(!flaws.iter().any(|flaw| flaw.what.contains("earlier event")), "{flaws:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_has_every_event_that_was_answered_before_it_began() {
    let dir = used_store().await;
    let store = Sqlite::open(&data(&dir), Arc::new(runtime::clock::SystemClock::new())).unwrap();
    let reader: &dyn agent::port::Reader = &store;
    let ada: AgentId = reader.entity("ada".into()).await.unwrap().unwrap().id.agent();
    let stop = Arc::new(AtomicBool::new(false));
    let (sent_to, mut sent_so_far) = tokio::sync::watch::channel(0);
    let loading = tokio::spawn({
        let (store, stop) = (store.clone(), Arc::clone(&stop));
        async move {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                let done = store.accept(Accept::Event(ada, service(&format!("load-{sent}"))), None).await;
                assert!(matches!(done, Ok(Accepted::Fresh { .. })), "{done:?}");
                sent += 1;
                sent_to.send_replace(sent);
            }
        }
    });
    for round in 0..3 {
        let answered = *sent_so_far.wait_for(|sent| *sent >= (round + 1) * 40).await.unwrap();
        let (from, to) = (data(&dir), dir.path().join(format!("backup-{round}.db")));
        let copied = to.clone();
        let backup = tokio::task::spawn_blocking(move || sqlite::backup(&from, &copied, "")).await.unwrap();
        let backup = backup.unwrap();
        assert_eq!((backup.verified.flaws.as_slice(), backup.verified.records), (&[][..], true));
        assert_eq!(backup.bytes, fs::metadata(&to).unwrap().len());
        let fresh = dir.path().join(format!("restored-{round}"));
        let restored = sqlite::restore(&to, &fresh, &[], None).unwrap();
        assert_eq!((restored.verified.flaws.as_slice(), restored.aside), (&[][..], None));
        let second = Sqlite::open(&fresh, Arc::new(runtime::clock::SystemClock::new())).unwrap();
        for n in 0..answered {
            let again = second.accept(Accept::Event(ada, service(&format!("load-{n}"))), None).await.unwrap();
            assert_eq!(again, Accepted::Duplicate { message: None }, "load-{n} was answered before");
        }
        second.close().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    loading.await.unwrap();
    assert_eq!(verify(&data(&dir)).unwrap().flaws, []);
    store.close().await.unwrap();
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("partial")), "{left:?}");
}

#[tokio::test]
async fn a_backup_overwrites_nothing_and_only_its_owner_can_read_it() {
    let dir = used_store().await;
    let file = dir.path().join("notes.txt");
    fs::write(&file, "mine").unwrap();
    let error = sqlite::backup(&data(&dir), &file, "").unwrap_err();
    assert!(matches!(error, UpkeepError::Exists { .. }), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let backup = sqlite::backup(&data(&dir), dir.path(), "named.db").unwrap();
    assert_eq!(backup.file, dir.path().join("named.db"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&backup.file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let nowhere = dir.path().join("no/such/folder.db");
    assert!(matches!(sqlite::backup(&data(&dir), &nowhere, ""), Err(UpkeepError::Io { .. })));
    let missing = sqlite::backup(&dir.path().join("elsewhere"), &nowhere, "").unwrap_err();
    assert!(matches!(missing, UpkeepError::Missing { .. }), "{missing}");
}

#[tokio::test]
async fn a_restore_refuses_a_directory_in_use_and_keeps_the_store_that_it_replaces() {
    let dir = used_store().await;
    let backup = sqlite::backup(&data(&dir), dir.path(), "backup.db").unwrap().file;
    let running = Sqlite::open(&data(&dir), Arc::new(runtime::clock::SystemClock::new())).unwrap();
    let error = sqlite::restore(&backup, &data(&dir), &["lock"], Some("before")).unwrap_err();
    assert!(matches!(error, UpkeepError::Open(OpenError::Locked { .. })), "{error}");
    running.close().await.unwrap();
    let error = sqlite::restore(&backup, &data(&dir), &["lock"], None).unwrap_err();
    assert!(matches!(error, UpkeepError::NotEmpty { store: true, .. }), "{error}");

    // A damaged store, with its log beside it.
    let old = data(&dir).join("vivarium.db");
    fs::write(&old, "broken").unwrap();
    fs::write(data(&dir).join("vivarium.db-wal"), "its log").unwrap();
    let restored = sqlite::restore(&backup, &data(&dir), &["lock"], Some("before")).unwrap();
    assert_eq!(restored.aside, Some(data(&dir).join("before")));
    assert_eq!(fs::read_to_string(data(&dir).join("before/vivarium.db")).unwrap(), "broken");
    assert_eq!(fs::read_to_string(data(&dir).join("before/vivarium.db-wal")).unwrap(), "its log");
    assert!(!data(&dir).join("vivarium.db-wal").exists());
    assert_eq!(verify(&data(&dir)).unwrap().flaws, []);

    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("diary.txt"), "mine").unwrap();
    let error = sqlite::restore(&backup, &other, &["lock"], None).unwrap_err();
    assert!(
        matches!(&error, UpkeepError::NotEmpty { what, store: false, .. } if what == "diary.txt"),
        "{error}"
    );
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1, "no other file was left there");
}

#[tokio::test]
async fn an_interrupted_restore_leaves_no_usable_store_and_can_be_run_again() {
    let dir = used_store().await;
    let backup = sqlite::backup(&data(&dir), dir.path(), "backup.db").unwrap().file;
    // A process that died after it removed the log leaves the file without it, and the mark.
    fs::write(data(&dir).join("restore-unfinished"), "before").unwrap();
    let refused = Sqlite::open(&data(&dir), Arc::new(runtime::clock::SystemClock::new())).err().unwrap();
    assert!(refused.to_string().contains("complete in `before`"), "{refused}");
    let refused = verify(&data(&dir)).unwrap_err();
    assert!(refused.to_string().contains("interrupted"), "{refused}");
    sqlite::restore(&backup, &data(&dir), &["lock"], Some("again")).unwrap();
    assert!(!data(&dir).join("restore-unfinished").exists());
    assert_eq!(verify(&data(&dir)).unwrap().flaws, []);
}

#[tokio::test]
async fn a_damaged_backup_is_refused_before_anything_is_replaced() {
    let dir = used_store().await;
    let whole = fs::read(sqlite::backup(&data(&dir), dir.path(), "backup.db").unwrap().file).unwrap();
    let mut torn = whole.clone();
    let quarter = torn.len() / 4;
    torn[quarter..3 * quarter].fill(0xa5);
    let cases: [(&str, Vec<u8>); 5] = [
        ("empty", Vec::new()),
        ("truncated", whole[..whole.len() / 2].to_vec()),
        ("a stump", whole[..50].to_vec()),
        ("foreign", b"not a database, just words ".repeat(400)),
        ("torn", torn),
    ];
    let before = fs::read(data(&dir).join("vivarium.db")).unwrap();
    for (name, bytes) in cases {
        let file = dir.path().join("bad.db");
        fs::write(&file, &bytes).unwrap();
        let error = sqlite::restore(&file, &data(&dir), &["lock"], Some("before")).unwrap_err();
        let expected =
            matches!(error, UpkeepError::Open(_) | UpkeepError::Unsound { .. } | UpkeepError::Store(_));
        assert!(expected, "{name}: {error}");
        assert!(sqlite::restore(&file, &dir.path().join("fresh"), &["lock"], None).is_err(), "{name}");
        assert_eq!(fs::read(&file).unwrap(), bytes, "{name}: it is not changed");
        assert_eq!(fs::read(data(&dir).join("vivarium.db")).unwrap(), before, "{name}");
        assert!(!data(&dir).join("before").exists(), "{name}");
        fs::remove_file(&file).unwrap();
    }
}

#[tokio::test]
async fn files_left_by_killed_restores_and_backups_block_no_retry_and_are_removed() {
    let dir = used_store().await;
    let fresh = dir.path().join("fresh");
    fs::create_dir(&fresh).unwrap();
    let backups = dir.path().join("backups");
    fs::create_dir(&backups).unwrap();
    let left = [
        fresh.join("vivarium.db.4194399.viv-partial"),
        fresh.join("vivarium.db.4194399.viv-partial-journal"),
        fresh.join("vivarium.db.4194398.viv-partial-journal"),
        fresh.join("vivarium.db.begun"),
        backups.join("vivarium-20250101T000000Z.db.4194399.viv-partial"),
        backups.join("vivarium-20250101T000000Z.db.4194399.viv-partial-journal"),
        backups.join("friday.db.4194397.viv-partial"),
    ];
    left.iter().for_each(|file| fs::write(file, "half of a copy").unwrap());
    // Another process is writing this copy; the other file is not a copy of viv.
    let written = backups.join("vivarium-20250202T000000Z.db.4194399.viv-partial");
    let held = fs::File::create(&written).unwrap();
    held.lock().unwrap();
    let foreign = backups.join("film.4194399.partial");
    fs::write(&foreign, "half of a film").unwrap();

    assert_eq!(sqlite::left_behind(&fresh).len(), 2);
    assert_eq!(sqlite::left_behind(&backups).len(), 2);

    let backup = sqlite::backup(&data(&dir), &backups.join("monday.db"), "").unwrap().file;
    sqlite::restore(&backup, &fresh, &["lock"], None).unwrap();
    assert_eq!(verify(&fresh).unwrap().flaws, []);
    for file in left {
        assert!(!file.exists(), "{}", file.display());
    }
    assert!(written.exists() && foreign.exists());
}

#[tokio::test]
async fn a_second_restore_within_a_second_keeps_the_replaced_store_in_its_own_folder() {
    let dir = used_store().await;
    let backup = sqlite::backup(&data(&dir), dir.path(), "backup.db").unwrap().file;
    for aside in ["before", "before-2", "before-3"] {
        let restored = sqlite::restore(&backup, &data(&dir), &["lock"], Some("before")).unwrap();
        assert_eq!(restored.aside, Some(data(&dir).join(aside)));
        assert_eq!(verify(&data(&dir).join(aside)).unwrap().flaws, []);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_path_that_is_not_a_regular_file_is_refused_at_once() {
    let dir = used_store().await;
    let socket = dir.path().join("socket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let device = Path::new("/dev/zero");
    for (place, what) in [(socket.as_path(), "a socket"), (device, "a device")] {
        let verified = verify(place).map(drop);
        let restored = sqlite::restore(place, &dir.path().join("fresh"), &[], None).map(drop);
        let imported = sqlite::import(&data(&dir), place, None, agent::archive::FileOrigin::Own).map(drop);
        for done in [verified, restored, imported] {
            let error = done.unwrap_err();
            assert!(error.to_string().ends_with(&format!("it is {what}, not a file")), "{error}");
        }
    }
    let target = dir.path().join("target");
    fs::create_dir(&target).unwrap();
    std::os::unix::fs::symlink(device, target.join("vivarium.db")).unwrap();
    let error = Sqlite::open(&target, Arc::new(runtime::clock::SystemClock::new())).err().unwrap();
    assert!(error.to_string().contains("it is a device, not a file"), "{error}");
}
