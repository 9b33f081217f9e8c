//! Keys: of each scope, wrong ones, revoked ones, and a lost admin key.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::{Ran, Server, run, run_with, viv};

/// Runs a command with this key.
fn entities_with_key(server: &Server, key: &str) -> Ran {
    let settings = [("VIV_URL", server.url()), ("VIV_KEY", key)];
    run_with(server.dir.path(), &["entities", "--json"], "", &settings)
}

#[test]
fn resetting_the_admin_key_needs_a_stopped_server_and_changes_no_other_key() {
    let server = Server::start();
    let old = server.key().to_owned();
    assert_eq!(server.run(&["entities", "add", "husam"]).code, 0);
    assert_eq!(server.run(&["spaces", "add", "home", "husam"]).code, 0);
    let person = server
        .run(&["keys", "add", "person", "--entity", "husam", "--label", "admin", "-q"])
        .out
        .trim()
        .to_owned();

    let refused = server.run(&["keys", "admin", "--reset", "--json"]);
    let error = refused.error();
    assert_eq!(
        (refused.code, &error["error"]["code"]),
        (3, &json!("data_dir_in_use")),
        "{}",
        refused.shown()
    );
    assert!(error["error"]["hint"].as_str().unwrap().contains("stop viv first"), "{error}");
    assert_eq!(entities_with_key(&server, &old).code, 0, "a refused reset changes nothing");

    // The first start may crash before anyone has read its output.
    let dir = server.kill();
    let reset = run_with(dir.path(), &["keys", "admin", "--reset"], "", &[("VIV_LOG", "trace")]);
    assert_eq!(reset.code, 0, "{}", reset.shown());
    let new = reset.out.strip_suffix('\n').unwrap().to_owned();
    assert!(new.starts_with("viv_") && new.len() == 68 && new != old, "{}", reset.shown());
    assert!(!reset.err.contains(&new) && reset.err.contains("shown only this once"), "{}", reset.shown());

    let server = Server::start_in(dir);
    assert_eq!(server.ready["admin_key"], json!(null));
    assert_eq!(entities_with_key(&server, &new).code, 0);
    let refused = entities_with_key(&server, &old);
    let error = refused.error();
    assert_eq!((refused.code, &error["error"]["code"]), (3, &json!("key_invalid")), "{}", refused.shown());
    assert!(error["error"]["hint"].as_str().unwrap().contains("viv keys admin --reset"), "{error}");
    let settings = [("VIV_URL", server.url()), ("VIV_KEY", person.as_str())];
    let read = run_with(server.dir.path(), &["spaces", "read", "home"], "", &settings);
    assert_eq!(read.code, 0, "the person's key still works: {}", read.shown());
    assert_eq!(server.run(&["ps"]).code, 0, "commands on this machine have a key of their own");

    let (_, dir) = server.stop();
    let again = run(dir.path(), &["keys", "admin", "--reset", "--json"]);
    let newest = again.json()["admin_key"].as_str().unwrap().to_owned();
    let server = Server::start_in(dir);
    assert_eq!((entities_with_key(&server, &newest).code, entities_with_key(&server, &new).code), (0, 3));
    let (_, dir) = server.stop();
    assert_eq!(run(dir.path(), &["verify"]).code, 0);
    let stored = fs::read(dir.path().join("vivarium.db")).unwrap();
    let kept = |key: &str| stored.windows(key.len()).any(|part| part == key.as_bytes());
    assert!(!kept(&newest) && !kept(&newest[4..]), "only its hash is kept");
}

#[test]
fn without_a_store_no_key_is_created_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere");
    for data_dir in [dir.path(), &nowhere] {
        let ran = run(data_dir, &["keys", "admin", "--reset", "--json"]);
        assert_eq!((ran.code, &ran.error()["error"]["code"]), (4, &json!("no_store")), "{}", ran.shown());
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_admin_key_is_replaced_only_with_reset() {
    let dir = tempfile::tempdir().unwrap();
    let ran = viv(dir.path(), &["keys", "admin"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("--reset"));
}

#[test]
fn a_persons_key_is_listed_and_revoked() {
    let server = Server::start();
    let made = server.run(&["keys", "add", "person", "--entity", "owner", "--json"]).json();
    let (id, key) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let listed = server.run(&["keys", "list"]);
    assert!(listed.out.contains(id) && listed.out.contains("owner"), "{}", listed.shown());
    assert!(!listed.out.contains(key), "{}", listed.shown());
    let ran = |args: &[&str]| run_with(server.dir.path(), args, "", &[("VIV_KEY", key)]);
    assert_eq!(ran(&["spaces"]).code, 0);
    for copies_all in [&["backup", "copy.db"][..], &["export", "agent", "ada"]] {
        let refused = ran(&[copies_all, &["--json"]].concat());
        assert_eq!((refused.code, &refused.error()["error"]["code"]), (3, &json!("forbidden")));
        assert_eq!(refused.out, "", "{}", refused.shown());
    }
    assert_eq!(server.run(&["keys", "revoke", id]).code, 2, "it asks first");
    assert_eq!(server.run(&["keys", "revoke", id, "--yes"]).code, 0);
    assert_eq!(ran(&["spaces"]).code, 3);
    assert!(server.run(&["keys", "list"]).out.contains("revoked"));
}

#[test]
fn keys_of_each_scope_are_added_and_rotated() {
    let server = Server::start();
    let json = |args: &[&str]| server.run(&[args, &["--json"]].concat()).json();
    let reads = json(&["keys", "add", "operator:read", "--label", "dashboard", "--expires", "90d"]);
    assert!(reads["expires_at"].is_string(), "{reads}");
    let with = |key: &Value, args: &[&str]| {
        let settings = [("VIV_URL", server.url()), ("VIV_KEY", key["secret"].as_str().unwrap())];
        run_with(server.dir.path(), args, "", &settings)
    };
    assert_eq!(with(&reads, &["ps"]).code, 0);
    let refused = with(&reads, &["say", "hello", "--json"]);
    assert_eq!((refused.code, &refused.error()["error"]["code"]), (3, &json!("forbidden")));
    let github = json(&["keys", "add", "service:github"]);
    assert_eq!(with(&github, &["event", "ada", "github", "{}"]).code, 0);
    assert_eq!(with(&github, &["event", "ada", "gitlab", "{}"]).code, 3);
    let next = json(&["keys", "rotate", github["id"].as_str().unwrap(), "--overlap", "1h"]);
    assert_eq!(next["scope"], "service:github");
    for key in [&github, &next] {
        assert_eq!(with(key, &["event", "ada", "github", "{}"]).code, 0);
    }
    let now = json(&["keys", "rotate", reads["id"].as_str().unwrap(), "--overlap", "0s"]);
    let expired = with(&reads, &["ps", "--json"]);
    assert_eq!((expired.code, &expired.error()["error"]["code"]), (3, &json!("key_expired")));
    assert_eq!(with(&now, &["ps"]).code, 0);
    let listed = server.run(&["keys", "list"]).out;
    for word in ["service:github", "operator:read", "dashboard", "expired", "valid until"] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    for (bad, code) in [(&["keys", "add", "root"][..], 3), (&["keys", "add", "admin", "--expires", "-1d"], 2)]
    {
        assert_eq!(server.run(bad).code, code, "{bad:?}");
    }
}

#[test]
fn a_wrong_key_in_the_environment_is_refused_at_once() {
    let server = Server::start();
    for args in [&["say", "--wait", "hello"][..], &["tail"], &["watch"], &["ps"], &["chat"], &["doctor"]] {
        let began = Instant::now();
        let ran = run_with(server.dir.path(), args, "hello\n", &[("VIV_KEY", "viv_wrong")]);
        assert!(ran.code != 0 && ran.shown().contains("unknown or revoked"), "{args:?}: {}", ran.shown());
        assert!(began.elapsed() < Duration::from_secs(10), "{args:?} took {:?}", began.elapsed());
    }
}

#[test]
fn a_watcher_whose_key_is_revoked_ends() {
    let server = Server::start();
    let made = server.run(&["keys", "add", "operator:read", "--json"]).json();
    let mut command = viv(server.dir.path(), &["tail"]);
    command.env("VIV_URL", server.url()).env("VIV_KEY", made["secret"].as_str().unwrap());
    let mut watcher = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines();
    assert_eq!(server.run(&["say", "hello"]).code, 0);
    assert!(lines.any(|line| line.unwrap().contains("hello")), "it follows");
    assert_eq!(server.run(&["keys", "revoke", made["id"].as_str().unwrap(), "--yes"]).code, 0);
    let _: Vec<_> = lines.collect();
    assert_eq!(watcher.wait().unwrap().code(), Some(3));
}
