//! Standard input, a full output, and help where people look for it.

use std::fs::File;
use std::process::Stdio;

use crate::background::Background;
use crate::pty::Pty;
use crate::world::{Server, run, run_with, viv};

#[test]
fn an_event_reads_its_payload_from_a_pipe() {
    let server = Server::start();
    let dir = server.dir.path();
    for args in [&["event", "ada", "deploys"][..], &["event", "ada", "deploys", "-"]] {
        let ran = run_with(dir, args, "{\"x\": 1}\n", &[]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let id = ran.out.trim_end().rsplit(' ').next().unwrap().to_owned();
        let inbox = server.run(&["show", "inbox", "ada", "--json"]).json();
        let event =
            inbox["items"].as_array().unwrap().iter().find(|event| event["id"] == id.as_str()).unwrap();
        assert_eq!(event["data"]["payload"]["x"], 1, "{event}");
    }
    let inbox = server.run(&["show", "inbox", "ada"]).out;
    assert!(inbox.contains(r#"deploys: {"x":1}"#), "{inbox}");
    let empty = run_with(dir, &["event", "ada", "deploys"], "", &[]);
    assert_eq!(empty.code, 0, "nothing in the pipe is no payload: {}", empty.shown());
    let wrong = run_with(dir, &["event", "ada", "deploys"], "{x", &[]);
    assert_eq!(wrong.code, 2, "{}", wrong.shown());
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let server = Server::start();
    for args in [&["ps"][..], &["ps", "--json"], &["agents"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = viv(server.dir.path(), args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(ran.status.code(), Some(1), "{args:?}");
        assert!(String::from_utf8_lossy(&ran.stderr).contains("cannot write"), "{args:?}");
    }
}

#[test]
fn an_export_whose_reader_has_enough_is_no_failure() {
    let server = Server::start();
    let mut export = viv(server.dir.path(), &["export", "agent", "ada"]);
    let mut export = export.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(export.stdout.take());
    let ended = export.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn an_export_is_not_written_to_a_terminal() {
    let server = Server::start();
    let (rows, code) = Pty::run(&server, &["export", "agent", "ada"], 80).rows();
    assert_eq!(code, 2, "{rows:#?}");
    assert!(rows.iter().any(|row| row.contains("viv agents export ada ada.jsonl")), "{rows:#?}");
}

#[test]
fn an_inbox_is_a_table_on_a_usual_terminal() {
    let server = Server::start();
    assert_eq!(server.run(&["say", "--wait", &"a long story ".repeat(20)]).code, 0);
    let mut terminal = Pty::run(&server, &["show", "inbox", "ada"], 80);
    terminal.until("SEQ  WHEN");
    terminal.until("a long");
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn revoking_the_key_of_the_local_commands_says_what_that_means() {
    let server = Server::start();
    let keys = server.run(&["keys", "list", "--json"]).json();
    let cli = keys["items"].as_array().unwrap().iter().find(|key| key["label"] == "cli").unwrap();
    let ran = server.run(&["keys", "revoke", cli["id"].as_str().unwrap(), "--yes"]);
    assert!(ran.code == 0 && ran.err.contains("until the server starts again"), "{}", ran.shown());
}

#[test]
fn a_retired_agent_is_listed_only_on_request() {
    let server = Server::start();
    assert_eq!(server.run(&["agents", "create", "bob"]).code, 0);
    assert_eq!(server.run(&["agents", "retire", "bob", "--yes"]).code, 0);
    assert!(!server.run(&["ps"]).out.contains("bob"));
    assert!(!server.run(&["top"]).out.contains("bob"));
    assert!(server.run(&["ps", "--all"]).out.contains("bob"));
}

#[test]
fn nothing_is_posted_to_a_retired_agent_and_its_config_does_not_change() {
    let server = Server::start();
    assert_eq!(server.run(&["agents", "create", "dan", "--space", "home"]).code, 0);
    assert_eq!(server.run(&["agents", "retire", "dan", "--yes"]).code, 0);
    for command in [
        &["say", "--agent", "dan", "hi"][..],
        &["say", "--agent", "dan", "--space", "home", "hi"],
        &["say", "--agent", "dan", "--wait", "hi"],
        &["chat", "--agent", "dan"],
        &["agents", "set", "dan", "debounce=5"],
    ] {
        let ran = server.run(&[command, &["--json"]].concat());
        assert_eq!((ran.code, &ran.error()["error"]["code"]), (3, &"agent_retired".into()), "{command:?}");
        assert_eq!(ran.error()["error"]["message"], "the agent `dan` is retired");
        assert!(ran.error()["error"]["hint"].as_str().unwrap().contains("viv agents create"));
    }
    assert_eq!(server.run(&["agents", "retire", "ada", "--yes"]).code, 0);
    assert_eq!(server.run(&["say", "--wait", "--agent", "ada", "hi"]).code, 3);
    let tail = server.run(&["spaces", "read", "home", "--json"]);
    assert!(!tail.out.contains("\"hi\""), "{}", tail.shown());
}

#[test]
fn help_is_where_people_look_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let page = run(dir.path(), &["--help"]);
    assert_eq!((run(dir.path(), &["help"]).out, 0), (page.out.clone(), page.code));
    let as_json = run(dir.path(), &["--json", "help"]).json();
    assert!(as_json["page"].as_str().unwrap().contains("Observe:"), "{as_json}");
    let run_page = run(dir.path(), &["show", "run", "--help"]).out;
    assert_eq!(run(dir.path(), &["--data-dir", "x", "-q", "help", "show", "run"]).out, run_page);
    assert_eq!(run(dir.path(), &["help", "show", "run"]).out, run_page);
    assert!(!page.out.contains("console"), "what does not exist is not offered: {}", page.out);
    for group in ["config", "scenario"] {
        let ran = run(dir.path(), &[group]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.shown());
        assert!(ran.err.contains("Commands:"), "{}", ran.shown());
    }
}

#[test]
fn what_cannot_be_undone_wants_a_confirmation() {
    let server = Server::start();
    for args in [&["agents", "create", "bob"][..], &["spaces", "open", "attic"]] {
        assert_eq!(server.run(args).code, 0);
    }
    let copy = server.dir.path().join("copy.db").display().to_string();
    let other = tempfile::tempdir().unwrap();
    let dir = other.path().to_str().unwrap();
    assert_eq!((server.run(&["backup", &copy]).code, run(other.path(), &["restore", &copy]).code), (0, 0));
    for args in [
        &["agents", "retire", "bob"][..],
        &["spaces", "close", "attic"],
        &["restore", &copy, "--replace", "--data-dir", dir],
    ] {
        let ran = server.run(args);
        assert_eq!((ran.code, ran.err.contains("--yes")), (2, true), "{}", ran.shown());
        for (answer, code) in [("n\r", 3), ("y\r", 0)] {
            let mut terminal = Pty::run(&server, args, 80);
            terminal.until("(y/N)");
            terminal.press(answer);
            assert_eq!(terminal.exit_code(), code, "{args:?} {answer}");
        }
    }
}

#[test]
fn the_project_is_found_from_a_folder_inside_it() {
    let server = Server::start();
    let project = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(server.dir.path(), project.path().join(".viv")).unwrap();
    let inside = project.path().join("agents/drafts");
    std::fs::create_dir_all(&inside).unwrap();
    let viv =
        |args| viv(server.dir.path(), args).env_remove("VIV_DATA_DIR").current_dir(&inside).output().unwrap();
    let ps = viv(&["ps"]);
    assert!(ps.status.success() && String::from_utf8_lossy(&ps.stdout).contains("ada"), "{ps:?}");
    std::fs::write(project.path().join("vivarium.toml"), "agents_dir = \"people\"\n").unwrap();
    let shown = viv(&["config", "show"]);
    let wanted = project.path().join("people").display().to_string();
    assert!(String::from_utf8_lossy(&shown.stdout).contains(&wanted), "{shown:?}");
}

#[test]
fn the_log_has_a_line_for_each_request_and_cycle_and_no_content() {
    let server = Background::start(&[("VIV_LOG", "info"), ("VIV_LOG_FORMAT", "json")]);
    assert_eq!(server.run(&["say", "--wait", "the canary sings"]).code, 0);
    assert_eq!(server.run(&["stop"]).code, 0);
    let log = std::fs::read_to_string(server.dir.path().join("viv.log")).unwrap();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let posted = lines.iter().find(|line| line["method"] == "POST").unwrap();
    assert_eq!((&posted["status"], posted["request"].is_string()), (&201.into(), true), "{posted}");
    assert!(
        lines.iter().any(|line| line["message"] == "a cycle ended" && line["ending"] == "completed"),
        "{log}"
    );
    assert!(!log.contains("canary"), "{log}");
}
