//! One living agent, spoken to by scripts and people.

use std::os::unix::fs::PermissionsExt;

use crate::world::{Server, run, run_with};

#[test]
fn the_first_start_says_how_to_go_on_and_shows_the_admin_key_once() {
    let server = Server::start();
    assert_eq!(server.ready["ready"], true);
    assert_eq!((&server.ready["model"], &server.ready["demo"]), (&"demo".into(), &true.into()));
    assert!(server.key().starts_with("viv_"));
    let file = server.dir.path().join("credentials.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!std::fs::read_to_string(&file).unwrap().contains(server.key()));

    let (code, dir) = server.stop();
    assert_eq!(code, 0);
    assert!(!dir.path().join("credentials.json").exists());
    let again = Server::start_in(dir);
    assert!(again.ready["admin_key"].is_null());
}

#[test]
fn a_message_is_answered_and_everything_about_it_can_be_seen() {
    let server = Server::start();
    let ran = server.run(&["say", "--wait", "--json", "remember that I like tea"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let lived = ran.json();
    let keys: Vec<&String> = lived.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["message_id", "cycle_id", "ending", "replies", "reply"]);
    assert_eq!(lived["ending"], "completed");
    assert_eq!(lived["reply"], lived["replies"][0]["text"]);

    let mind = server.run(&["show", "context", "--json"]).json();
    assert_eq!(mind["entries"][0]["kind"], "inbox");
    assert_eq!(mind["entries"][0]["cycle"], lived["cycle_id"]);
    let sum: u64 = mind["entries"].as_array().unwrap().iter().map(|e| e["tokens"].as_u64().unwrap()).sum();
    assert_eq!(mind["total_tokens"], sum);

    insta::assert_snapshot!("ps", server.run(&["ps"]).shown());
    insta::assert_snapshot!("show_agent", server.run(&["show", "agent"]).shown());
    // Columns are as wide as the time that passed is long.
    let inbox = server.run(&["show", "inbox", "ada"]).shown();
    let inbox: Vec<String> =
        inbox.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    insta::assert_snapshot!("show_inbox", inbox.join("\n"));
    let run = server.run(&["show", "run", lived["cycle_id"].as_str().unwrap(), "--json"]);
    assert_eq!(run.json()["messages"][0]["id"], lived["replies"][0]["id"]);
    assert_eq!(server.run(&["show", "run", "ada", "--json"]).json()["id"], lived["cycle_id"]);
    assert_eq!(server.run(&["ps", "--json"]).json()["agents"][0]["last_ending"], "completed");
}

#[test]
fn without_utf8_punctuation_is_printed_plain() {
    let server = Server::start();
    let plain = |args: &[&str], code: i32| {
        let ran = run_with(server.dir.path(), args, "", &[("LC_ALL", "C")]);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.shown());
        let text = ran.out + &ran.err;
        assert!(text.is_ascii() && !text.contains("\\u{"), "{args:?}: {text}");
        text
    };
    let said = plain(&["say", "--wait", "remember that tea – the “green” one – isn’t bad…"], 0);
    assert!(said.contains("I read \"remember that tea - the \"green\" one - isn't bad...\"."), "{said}");
    for args in [
        &["show", "context"][..],
        &["show", "run"],
        &["show", "agent"],
        &["spaces", "read", "home"],
        &["tail", "--no-follow"],
        &["ps"],
        &["--help"],
        &["spaces", "open", "--help"],
        &["man"],
        &["completions", "fish"],
        &["config", "keys", "--agent"],
    ] {
        plain(args, 0);
    }
    assert!(plain(&["up", "--listen", "127.0.0.1:0", "--model", "openai/gpt-5"], 2).contains("= \"...\""));
    plain(&["show", "agent", "“ada”"], 4);
}

#[test]
fn the_admin_key_works_from_anywhere_and_text_comes_by_pipe_too() {
    let server = Server::start();
    let elsewhere = tempfile::tempdir().unwrap();
    let settings = [("VIV_URL", server.url()), ("VIV_KEY", server.key())];
    let ran = run_with(elsewhere.path(), &["say", "--json", "-"], "by pipe\n", &settings);
    assert_eq!((ran.code, &ran.json()["seq"]), (0, &1.into()), "{}", ran.shown());
}

#[test]
fn what_was_said_survives_a_crash_and_is_answered_after_it() {
    let server = Server::start();
    let said = server.run(&["say", "--json", "are you there?"]);
    assert_eq!(said.code, 0, "{}", said.shown());
    let server = Server::start_in(server.kill());
    let lived = server.run(&["say", "--wait", "--json", "and now?"]);
    assert_eq!(lived.code, 0, "{}", lived.shown());
    let inbox = server.run(&["show", "inbox", "--json"]).json();
    let fates: Vec<&str> =
        inbox["events"].as_array().unwrap().iter().map(|e| e["state"]["state"].as_str().unwrap()).collect();
    assert_eq!(fates, ["processed", "processed"]);
}

#[test]
fn a_model_that_cannot_be_reached_is_a_time_out_and_loses_nothing() {
    let model = ["--model", "vllm/x", "--base-url", "http://127.0.0.1:1/v1"];
    let server = Server::start_as(tempfile::tempdir().unwrap(), &model);
    let ran = server.run(&["say", "--wait", "--json", "--timeout", "1", "anyone?"]);
    assert_eq!((ran.code, &ran.error()["error"]["code"]), (6, &"timed_out".into()), "{}", ran.shown());
    let inbox = server.run(&["show", "inbox", "--json"]).json();
    assert_eq!(inbox["events"][0]["state"]["state"], "waiting");
    // It gives up asking for a while; whoever waits or looks then is told why, and until when.
    let resting = || server.run(&["show", "agent", "--json"]).json()["agent"]["reason"] == "provider";
    let ran = server.run(&["say", "--wait", "--json", "--timeout", "20", "still there?"]);
    assert!(resting(), "{}", ran.shown());
    let told = ran.error()["error"]["message"].as_str().unwrap().to_owned();
    assert!(told.contains("it backs off until ") && told.contains("network: "), "{told}");
    for command in [["show", "agent"].as_slice(), &["ps"], &["doctor"]] {
        let shown = server.run(command).shown();
        assert!(shown.contains("network: "), "{command:?}: {shown}");
    }
}

#[test]
fn the_doctor_finds_a_healthy_house() {
    let server = Server::start();
    let report = server.run(&["doctor", "--json", "--model", "demo"]);
    assert_eq!(report.code, 0, "{}", report.shown());
    let checks = report.json()["checks"].clone();
    let status = |name: &str| {
        let all = checks.as_array().unwrap();
        all.iter().find(|check| check["name"] == name).map(|check| check["status"].clone())
    };
    assert_eq!((status("server"), status("key")), (Some("ok".into()), Some("ok".into())), "{checks}");
    let nowhere = tempfile::tempdir().unwrap();
    assert_eq!(run(&nowhere.path().join("none"), &["doctor", "--model", "demo"]).code, 0);
}
