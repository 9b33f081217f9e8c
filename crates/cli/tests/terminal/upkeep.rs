//! The intact store, with the built binary: backed up while a server runs, restored, verified.

use std::fs;

use serde_json::json;

use crate::world::{Server, run};

#[test]
fn a_running_server_is_backed_up_and_the_backup_starts() {
    let server = Server::start();
    assert_eq!(server.run(&["say", "--wait", "remember me"]).code, 0);
    let away = tempfile::tempdir().unwrap();
    let folder = away.path().to_str().unwrap();
    let backup = server.run(&["backup", folder, "--json"]);
    assert_eq!(backup.code, 0, "{}", backup.shown());
    let file = backup.json()["file"].as_str().unwrap().to_owned();
    assert!(file.starts_with(folder) && file.ends_with("Z.db"), "{file}");
    assert_eq!((&backup.json()["ok"], &backup.json()["agents"]), (&json!(true), &json!(1)));
    // A running server is reported before an existing store.
    let refused = server.run(&["restore", &file, "--json"]);
    assert_eq!((refused.code, &refused.error()["error"]["code"]), (3, &json!("data_dir_in_use")));
    let again = server.run(&["backup", &file, "--json"]);
    assert_eq!((again.code, &again.error()["error"]["code"]), (3, &json!("would_overwrite")));
    assert_eq!(server.run(&["verify"]).code, 0);

    let (_, dir) = server.stop();
    let refused = run(dir.path(), &["restore", &file, "--json"]);
    assert_eq!((refused.code, &refused.error()["error"]["code"]), (3, &json!("not_empty")));
    let asked = run(dir.path(), &["restore", &file, "--replace"]);
    assert!(asked.code == 2 && asked.err.contains("--yes"), "{}", asked.shown());
    let replaced = run(dir.path(), &["restore", &file, "--replace", "--yes", "--json"]);
    assert_eq!(replaced.code, 0, "{}", replaced.shown());
    assert!(fs::metadata(replaced.json()["before"].as_str().unwrap()).unwrap().is_dir());

    let fresh = tempfile::tempdir().unwrap();
    let restored = run(fresh.path(), &["restore", &file]);
    assert_eq!(restored.code, 0, "{}", restored.shown());
    let server = Server::start_in(fresh);
    assert!(server.run(&["spaces", "read", "home"]).out.contains("remember me"));
    assert_eq!(server.run(&["say", "--wait", "do you?"]).code, 0);
    let verified = server.run(&["verify", "--json"]);
    assert_eq!((verified.code, &verified.json()["flaws"]), (0, &json!([])), "{}", verified.shown());
}

#[test]
fn foreign_and_damaged_stores_give_different_errors() {
    let server = Server::start();
    assert_eq!(server.run(&["say", "--wait", "hello"]).code, 0);
    let (_, dir) = server.stop();
    let intact = fs::read(dir.path().join("vivarium.db")).unwrap();
    let code = |bytes: &[u8], args: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("vivarium.db"), bytes).unwrap();
        let ran = run(dir.path(), args);
        assert_eq!(fs::read(dir.path().join("vivarium.db")).unwrap(), bytes, "it is not changed");
        let code = ran.error()["error"]["code"].as_str().unwrap_or_default().to_owned();
        (ran.code, code)
    };
    for args in [&["verify", "--json"][..], &["backup", "nowhere.db", "--json"]] {
        assert_eq!(code(&[], args), (1, "store_foreign".into()));
        assert_eq!(code(&intact[..60], args), (1, "store_damaged".into()));
        assert_eq!(code(&b"just words ".repeat(900), args), (1, "store_foreign".into()));
        assert_eq!(code(&intact[..intact.len() / 2], args), (1, "store_damaged".into()));
        let nothing = tempfile::tempdir().unwrap();
        let ran = run(nothing.path(), args);
        assert_eq!((ran.code, &ran.error()["error"]["code"]), (4, &json!("no_store")), "{}", ran.shown());
        assert_eq!(fs::read_dir(nothing.path()).unwrap().count(), 0);
    }
    let up = ["up", "--listen", "127.0.0.1:0", "--model", "demo", "--json"];
    assert_eq!(code(&intact[..intact.len() / 2], &up), (1, "store_damaged".into()));
    assert_eq!(code(&intact[..60], &up), (1, "store_damaged".into()));
    assert_eq!(code(&[], &up), (1, "store_foreign".into()));
    assert_eq!(code(&b"just words ".repeat(900), &up), (1, "store_foreign".into()));
    let flipped = |at: usize| {
        let mut bytes = intact.clone();
        bytes[at] ^= 0x04;
        bytes
    };
    // One bit in the format's name, in the kind of the first page, and in the application id.
    assert_eq!(code(&flipped(3), &up), (1, "store_foreign".into()));
    assert_eq!(code(&flipped(100), &up), (1, "store_damaged".into()));
    assert_eq!(code(&flipped(70), &up), (1, "store_foreign".into()));
    // One bit in the header's schema version makes it a newer one.
    let mut newer = intact.clone();
    newer[63] |= 0x80;
    assert_eq!(code(&newer, &up), (3, "store_newer".into()));
    assert_eq!(code(&newer, &["verify", "--json"]), (3, "store_newer".into()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_data_directory_that_cannot_be_written_is_refused_and_named() {
    // Nobody may write there, not even root.
    let there = std::path::Path::new("/sys/kernel");
    for dir in [there.to_owned(), there.join("viv")] {
        let up = ["up", "--listen", "127.0.0.1:0", "--model", "demo", "--json"];
        let ran = run(&dir, &up);
        let error = ran.error();
        assert_eq!((ran.code, &error["error"]["code"]), (1, &json!("data_dir_unusable")), "{}", ran.shown());
        assert!(error["error"]["message"].as_str().unwrap().contains("/sys/kernel"), "{}", ran.shown());
        assert!(error["error"]["hint"].as_str().unwrap().contains("may this user write there"));
    }
}

#[test]
fn verify_lists_flaws_and_fails() {
    let server = Server::start();
    assert_eq!(server.run(&["say", "--wait", "a word to be found again"]).code, 0);
    let (_, dir) = server.stop();
    // A copy has no log that could hide the damage.
    let file = dir.path().join("copy.db").to_str().unwrap().to_owned();
    assert_eq!(run(dir.path(), &["backup", &file]).code, 0);
    let mut bytes = fs::read(&file).unwrap();
    let shown = br#"{"role":"user","parts":[{"type":"text","text":""#;
    let begins: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(shown)).collect();
    assert!(!begins.is_empty(), "what the agent was shown is in its log");
    begins.iter().for_each(|at| bytes[at + shown.len()] ^= 0x02);
    fs::write(&file, bytes).unwrap();
    let ran = run(dir.path(), &["verify", &file]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(ran.out.contains("agent `ada`, entry `1`: entry 1: its checksum does not match"), "{}", ran.out);
    let listed = run(dir.path(), &["verify", &file, "--json"]);
    assert_eq!((listed.code, &listed.json()["flaws"][0]["agent"]), (1, &json!("ada")));
    // One damaged record is no reason to lose all others.
    let restored = run(dir.path(), &["restore", &file, "--replace", "--yes"]);
    assert!(restored.code == 0 && restored.out.contains("`viv verify` lists"), "{}", restored.shown());
    let backup = run(dir.path(), &["backup", dir.path().join("b.db").to_str().unwrap()]);
    assert!(backup.code == 0 && backup.out.contains("the store has 1 flaw"), "{}", backup.shown());

    // An agent whose log cannot be read is quarantined; all others keep running.
    let server = Server::start_in(dir);
    assert_eq!(server.run(&["agents", "create", "bob", "--space", "home"]).code, 0);
    assert_eq!(server.run(&["say", "--agent", "ada", "are you there?"]).code, 0);
    let damage = (0..200).find_map(|_| {
        let shown = server.run(&["show", "agent", "ada", "--json"]).json();
        shown["agent"]["damage"].as_str().map(str::to_owned)
    });
    assert!(damage.is_some_and(|why| why.contains("entry 1: its checksum does not match")));
    assert!(server.run(&["show", "agent", "ada"]).out.contains("quarantined"));
    let ps = server.run(&["ps"]);
    assert!(ps.out.contains("sleeping (damaged)"), "{}", ps.shown());
    let doctor = server.run(&["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains("ada: agent"), "{}", doctor.shown());
    let bob = server.run(&["say", "--wait", "--agent", "bob", "and you?"]);
    assert_eq!(bob.code, 0, "{}", bob.shown());
}

/// A byte in the middle of the frames in use: behind them are frames of the log before the last checkpoint, which have other
/// salts.
fn middle_of_log(log: &[u8]) -> usize {
    let page = usize::try_from(u32::from_be_bytes(log[8..12].try_into().unwrap())).unwrap();
    let frames = log[32..].chunks(24 + page).take_while(|frame| frame[8..16] == log[16..24]).count();
    32 + frames / 2 * (24 + page) + 24 + page / 2
}

#[test]
fn a_damaged_log_is_reported_and_the_next_start_continues_without_the_lost_frames() {
    let server = Server::start();
    for word in ["one", "two", "three", "four"] {
        assert_eq!(server.run(&["say", "--agent", "ada", word]).code, 0);
    }
    let dir = server.kill();
    let log = dir.path().join("vivarium.db-wal");
    let mut bytes = fs::read(&log).unwrap();
    let middle = middle_of_log(&bytes);
    bytes[middle] ^= 0x01;
    fs::write(&log, bytes).unwrap();

    let doctor = run(dir.path(), &["doctor", "--model", "demo"]);
    assert!(doctor.code == 1 && doctor.out.contains("frames follow a broken one"), "{}", doctor.shown());
    assert!(doctor.out.contains("`viv restore` restores a backup"), "{}", doctor.shown());
    let verified = run(dir.path(), &["verify", "--json"]);
    let flaw = &verified.json()["flaws"][0];
    assert_eq!((verified.code, flaw["table"].as_str(), flaw["id"].as_str()), (1, Some("file"), Some("log")));

    let server = Server::start_in(dir);
    assert!(server.ready["lost_frames"].as_u64() > Some(0), "{}", server.ready);
    assert_eq!(server.run(&["doctor"]).code, 0);
    let (_, dir) = server.stop();
    assert_eq!(run(dir.path(), &["verify"]).code, 0);
}

#[test]
fn doctor_lists_leftovers_of_a_killed_backup() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("friday.db.4194399.viv-partial"), "half of a copy").unwrap();
    let doctor = run(dir.path(), &["doctor", "--model", "demo", "--json"]);
    let checks = doctor.json()["checks"].as_array().unwrap().clone();
    let found = checks.iter().find(|check| check["name"] == "backups").unwrap();
    assert_eq!(found["status"], "warn");
    assert!(found["detail"].as_str().unwrap().contains("friday.db.4194399.viv-partial"), "{found}");
}
