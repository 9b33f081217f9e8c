//! A server in the background: `viv up -d`, `viv logs` and `viv stop`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::json;
use tempfile::TempDir;

use crate::world::{Ran, run, run_with, viv};

const UP: [&str; 6] = ["up", "-d", "--model", "demo", "--listen", "127.0.0.1:0"];

/// A data directory whose server, if one runs, is stopped at the end.
pub(crate) struct Background {
    pub(crate) dir: TempDir,
}

impl Background {
    /// A running server with these environment variables.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Self {
        let server = Self { dir: tempfile::tempdir().unwrap() };
        let up = run_with(server.dir.path(), &UP, "", settings);
        assert_eq!(up.code, 0, "{}", up.shown());
        server
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        run(self.dir.path(), args)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.run(&["stop"]);
    }
}

#[test]
fn a_server_in_the_background_is_announced_used_and_stopped() {
    let server = Background { dir: tempfile::tempdir().unwrap() };
    let log = server.dir.path().join("viv.log");
    std::fs::write(&log, "x".repeat(11 << 20)).unwrap();
    let up = server.run(&UP);
    assert_eq!(up.code, 0, "{}", up.shown());
    for part in ["is up at http://127.0.0.1:", "viv.log", "Admin key", "demo model", "` stops the server"] {
        assert!(up.out.contains(part), "{part}: {}", up.out);
    }
    assert!(server.dir.path().join("viv.log.1").exists() && log.metadata().unwrap().len() < 1 << 20);
    assert_eq!(server.run(&["say", "--wait", "hello"]).code, 0);
    let second = server.run(&["up", "-d", "--json"]);
    assert_eq!((second.code, &second.error()["error"]["code"]), (3, &json!("data_dir_in_use")));
    let stopped = server.run(&["stop"]);
    assert!(stopped.code == 0 && stopped.out.ends_with("is stopped\n"), "{}", stopped.shown());
    assert_eq!(server.run(&["ps"]).code, 5);
    let again = server.run(&["stop", "--json"]);
    assert_eq!((again.code, again.json()), (0, json!({"stopped": false})));
    let up = server.run(&["up", "-d", "--json", "--model", "demo", "--listen", "127.0.0.1:0"]);
    let ready = up.json();
    assert!(ready["ready"] == true && ready["pid"].is_u64() && ready["admin_key"].is_null(), "{ready}");
    assert_eq!(ready["log"].as_str(), log.to_str());
}

#[test]
fn with_quiet_a_start_in_the_background_prints_only_the_key_that_is_shown_once() {
    let server = Background { dir: tempfile::tempdir().unwrap() };
    let mut up = UP.to_vec();
    up.push("-q");
    let first = server.run(&up);
    assert!(
        first.code == 0 && first.out.starts_with("viv_") && first.out.lines().count() == 1,
        "{}",
        first.shown()
    );
    assert_eq!(server.run(&["stop"]).code, 0);
    let again = server.run(&up);
    assert_eq!((again.code, again.out.as_str(), again.err.as_str()), (0, "", ""));
}

#[test]
fn a_start_in_the_background_that_fails_says_why() {
    let server = Background { dir: tempfile::tempdir().unwrap() };
    let up = server.run(&["up", "-d", "--model", "demo", "--listen", "192.0.2.1:0"]);
    assert_eq!(up.code, 3, "{}", up.shown());
    assert!(up.err.contains("can be reached from other machines") && up.err.contains("--allow-remote"));
    assert!(server.run(&["stop"]).out.starts_with("no server is running"));
}

#[test]
fn what_is_advised_reaches_the_server_it_is_about() {
    let server = Background { dir: tempfile::tempdir().unwrap() };
    let (elsewhere, here) = (tempfile::tempdir().unwrap(), server.dir.path().to_str().unwrap());
    let up = ["--data-dir", here, "up", "-d", "--model", "demo", "--listen", "127.0.0.1:0"];
    let up = run(elsewhere.path(), &up);
    assert_eq!(up.code, 0, "{}", up.shown());
    for advice in ["viv chat", "viv stop", "viv logs -f"] {
        assert!(up.out.contains(&format!("`{advice} --data-dir {here}`")), "{advice}: {}", up.out);
    }
    let again = run(elsewhere.path(), &["up", "--data-dir", here, "--model", "demo"]);
    assert!(
        again.code == 3 && again.err.contains(&format!("`viv stop --data-dir {here}`")),
        "{}",
        again.shown()
    );
}

#[test]
fn only_the_process_that_holds_the_lock_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("lock");
    // A process id that a crash has left: here that of this test.
    std::fs::write(&lock, std::process::id().to_string()).unwrap();
    assert!(run(dir.path(), &["stop"]).out.starts_with("no server is running"));
    // Another command holds the lock.
    let held = File::create(&lock).unwrap();
    held.lock().unwrap();
    let ran = run(dir.path(), &["stop"]);
    assert!(ran.code == 3 && ran.err.contains("not by a server that is ready"), "{}", ran.shown());
}

#[test]
fn the_log_of_a_server_is_printed_and_followed() {
    let missing = tempfile::tempdir().unwrap();
    let ran = run(missing.path(), &["logs"]);
    assert!(ran.code == 4 && ran.err.contains("viv up -d"), "{}", ran.shown());
    let server = Background::start(&[("VIV_LOG", "info")]);
    assert_eq!(server.run(&["ps"]).code, 0);
    assert!(server.run(&["logs"]).out.contains("/v1/agents"));
    assert_eq!(server.run(&["logs", "-n", "1"]).out.lines().count(), 1);
    let mut follow =
        viv(server.dir.path(), &["logs", "-f", "-n", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().is_some());
    assert_eq!(server.run(&["show", "agent", "ada"]).code, 0);
    assert!(lines.any(|line| line.contains("/facts")));
    follow.kill().unwrap();
    follow.wait().unwrap();
}
