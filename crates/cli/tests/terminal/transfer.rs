//! One agent as a file, with the built binary: exported from a running server, imported into a stopped one.

use std::fs;
use std::process::Stdio;

use serde_json::json;

use crate::world::{Server, run, viv};

#[test]
fn an_agent_moves_to_another_server_and_continues() {
    let server = Server::start();
    assert_eq!(server.run(&["say", "--wait", "my name is Husam and I like rain"]).code, 0);
    let away = tempfile::tempdir().unwrap();
    let file = away.path().join("ada.jsonl").to_str().unwrap().to_owned();
    assert_eq!(server.run(&["agents", "suspend", "ada"]).code, 0);
    let out = server.run(&["export", "agent", "ada", &file, "--json"]);
    assert_eq!(out.code, 0, "{}", out.shown());
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(out.json()["lines"], json!(text.lines().count()));
    assert_eq!(server.run(&["export", "agent", "ada"]).out, text, "without a file it is printed");
    assert!(!text.contains(server.key()) && !text.contains("secret_hash"), "keys are not exported");
    let again = server.run(&["export", "agent", "ada", &file, "--json"]);
    assert_eq!((again.code, &again.error()["error"]["code"]), (3, &json!("would_overwrite")));
    let nobody = server.run(&["export", "agent", "eve", "--json"]);
    assert_eq!((nobody.code, &nobody.error()["error"]["code"]), (4, &json!("not_found")));
    let running = server.run(&["import", "agent", &file, "--json"]);
    assert_eq!((running.code, &running.error()["error"]["code"]), (3, &json!("data_dir_in_use")));
    drop(server);

    let fresh = tempfile::tempdir().unwrap();
    let imported = run(fresh.path(), &["import", "agent", &file, "--as", "grace", "--trusted"]);
    assert_eq!(imported.code, 0, "{}", imported.shown());
    assert!(imported.out.contains("imported agent `grace`: suspended, as before"), "{}", imported.shown());
    assert!(imported.err.contains("guard `ask`, tools all"), "{}", imported.shown());
    assert!(!imported.shown().contains("counts as written by strangers"), "{}", imported.shown());
    let strange = tempfile::tempdir().unwrap();
    let unknown = run(strange.path(), &["import", "agent", &file]);
    assert!(
        unknown.code == 0 && unknown.out.contains("counts as written by strangers"),
        "{}",
        unknown.shown()
    );
    assert_eq!(run(fresh.path(), &["verify"]).code, 0);
    let twice = run(fresh.path(), &["import", "agent", &file, "--json"]);
    assert_eq!((twice.code, &twice.error()["error"]["code"]), (2, &json!("bad_export")));

    // The first person and the first space are created as in every server, and the imported agent is in the
    // space.
    let server = Server::start_in(fresh);
    let before = server.run(&["show", "context", "grace"]);
    assert!(before.out.contains("my name is Husam and I like rain"), "{}", before.shown());
    assert_eq!(server.run(&["agents", "resume", "grace"]).code, 0);
    let answer = server.run(&["say", "--wait", "--agent", "grace", "do you remember?"]);
    assert_eq!(answer.code, 0, "{}", answer.shown());
    let after = server.run(&["show", "context", "grace"]);
    assert!(
        after.out.contains("my name is Husam") && after.out.contains("do you remember?"),
        "{}",
        after.shown()
    );
    assert!(!server.run(&["ps"]).out.contains("ada"));
    assert_eq!(server.run(&["show", "inbox", "grace"]).code, 0);
    assert_eq!(server.run(&["verify"]).code, 0);
}

#[test]
fn a_truncated_or_changed_export_is_refused_with_its_lines() {
    let server = Server::start();
    assert_eq!(server.run(&["say", "--wait", "hello"]).code, 0);
    let text = server.run(&["export", "agent", "ada"]).out;
    drop(server);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ada.jsonl");
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&file, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
    let name = file.to_str().unwrap();
    let cut = run(dir.path(), &["import", "agent", name]);
    assert_eq!(cut.code, 2, "{}", cut.shown());
    assert!(cut.err.contains(&format!("line {}: it breaks off", lines.len() - 1)), "{}", cut.shown());
    fs::write(&file, text.replacen("hello", "jello", 1)).unwrap();
    let changed = run(dir.path(), &["import", "agent", name]);
    assert_eq!(changed.code, 2, "{}", changed.shown());
    assert!(changed.err.contains("a line was changed"), "{}", changed.shown());
    fs::write(&file, &text).unwrap();
    assert_eq!(run(dir.path(), &["import", "agent", name]).code, 0, "a refused import leaves nothing");
}

#[test]
fn pipes_are_refused_where_files_are_needed() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    let created = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(created.success());
    let pipe = pipe.to_str().unwrap();
    for args in
        [&["verify", pipe, "--json"][..], &["restore", pipe, "--json"], &["import", "agent", pipe, "--json"]]
    {
        let ran = run(&dir.path().join("house"), args);
        let error = ran.error();
        assert_eq!((ran.code, &error["error"]["code"]), (1, &json!("file_unusable")), "{}", ran.shown());
        assert!(error["error"]["message"].as_str().unwrap().contains("it is a pipe, not a file"), "{error}");
    }
    assert!(!dir.path().join("house").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn an_export_onto_a_full_disk_names_the_file() {
    let server = Server::start();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut export = viv(server.dir.path(), &["export", "agent", "ada", "--json"]);
    let ended = export.stdin(Stdio::null()).stdout(full).output().unwrap();
    let error: serde_json::Value = serde_json::from_slice(&ended.stderr).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert_eq!((ended.status.code(), &error["error"]["code"]), (Some(1), &json!("file_unusable")), "{error}");
    assert!(message.contains("`standard output`") && message.contains("No space left"), "{message}");
}
