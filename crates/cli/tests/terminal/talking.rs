//! One agent, used by scripts and people.

use std::os::unix::fs::PermissionsExt;

use crate::world::{Server, run, run_with};

#[test]
fn the_first_start_prints_the_admin_key_once() {
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
fn a_message_gets_a_reply_and_its_run_can_be_inspected() {
    let server = Server::start();
    let ran = server.run(&["say", "--wait", "--json", "remember that I like tea"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let reply = ran.json();
    let keys: Vec<&String> = reply.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["message_id", "cycle_id", "ending", "replies", "reply"]);
    assert_eq!(reply["ending"], "completed");
    assert_eq!(reply["reply"], reply["replies"][0]["text"]);

    let mind = server.run(&["show", "context", "--json"]).json();
    assert_eq!(mind["entries"][0]["kind"], "inbox");
    assert_eq!(mind["entries"][0]["cycle"], reply["cycle_id"]);
    let sum: u64 = mind["entries"].as_array().unwrap().iter().map(|e| e["tokens"].as_u64().unwrap()).sum();
    assert_eq!(mind["total_tokens"], sum);

    // What was sent then: the entries of the history up to that run, the workspace, and the request.
    let id = reply["cycle_id"].as_str().unwrap();
    let sent = server.run(&["show", "context", "ada", "--at", id, "--json"]).json();
    assert_eq!(sent["items"][0]["seq"], 1);
    assert!(sent["items"][1]["text"].as_str().unwrap().starts_with("[WORKSPACE"), "{sent}");
    let shown = server.run(&["show", "context", "--at", id]);
    let hash = sent["run"]["steps"][0]["sent"]["prefix"].as_str().unwrap();
    assert!(shown.out.contains("text that is not kept (") && shown.out.contains(hash), "{}", shown.shown());
    let unknown = server.run(&["show", "context", "--at", "019a0000-0000-7000-8000-000000000000"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (4, ""), "{}", unknown.shown());

    insta::assert_snapshot!("ps", server.run(&["ps"]).shown());
    insta::assert_snapshot!("show_agent", server.run(&["show", "agent"]).shown());
    // The width of a column depends on an age.
    let inbox = server.run(&["show", "inbox", "ada"]).shown();
    let inbox: Vec<String> =
        inbox.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    insta::assert_snapshot!("show_inbox", inbox.join("\n"));
    let run = server.run(&["show", "run", reply["cycle_id"].as_str().unwrap(), "--json"]);
    assert_eq!(run.json()["messages"][0]["id"], reply["replies"][0]["id"]);
    assert_eq!(server.run(&["show", "run", "ada", "--json"]).json()["id"], reply["cycle_id"]);
    assert_eq!(server.run(&["ps", "--json"]).json()["items"][0]["last_run"]["ending"], "completed");
}

#[test]
fn without_utf8_punctuation_is_printed_as_ascii() {
    let server = Server::start();
    let plain = |args: &[&str], code: i32| {
        let ran = run_with(server.dir.path(), args, "", &[("LC_ALL", "C")]);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.shown());
        let text = ran.out + &ran.err;
        assert!(text.is_ascii() && !text.contains("\\u{"), "{args:?}: {text}");
        text
    };
    let text = plain(&["say", "--wait", "remember that tea – the “green” one – isn’t bad…"], 0);
    assert!(text.contains("I read \"remember that tea - the \"green\" one - isn't bad...\"."), "{text}");
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
fn the_admin_key_works_elsewhere_and_text_may_be_piped() {
    let server = Server::start();
    let elsewhere = tempfile::tempdir().unwrap();
    let settings = [("VIV_URL", server.url()), ("VIV_KEY", server.key())];
    let ran = run_with(elsewhere.path(), &["say", "--json", "-"], "by pipe\n", &settings);
    assert_eq!((ran.code, &ran.json()["seq"]), (0, &1.into()), "{}", ran.shown());
}

#[test]
fn a_message_survives_a_crash_and_gets_its_reply() {
    let server = Server::start();
    let sent = server.run(&["say", "--json", "are you there?"]);
    assert_eq!(sent.code, 0, "{}", sent.shown());
    let server = Server::start_in(server.kill());
    let reply = server.run(&["say", "--wait", "--json", "and now?"]);
    assert_eq!(reply.code, 0, "{}", reply.shown());
    let inbox = server.run(&["show", "inbox", "--json"]).json();
    let states: Vec<&str> =
        inbox["items"].as_array().unwrap().iter().map(|e| e["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["processed", "processed"]);
}

#[test]
fn an_unreachable_model_is_a_time_out_and_loses_no_event() {
    let model = ["--model", "vllm/x", "--base-url", "http://127.0.0.1:1/v1"];
    let server = Server::start_as(tempfile::tempdir().unwrap(), &model);
    let ran = server.run(&["say", "--wait", "--json", "--timeout", "1", "anyone?"]);
    assert_eq!((ran.code, &ran.error()["error"]["code"]), (6, &"timed_out".into()), "{}", ran.shown());
    let inbox = server.run(&["show", "inbox", "--json"]).json();
    assert_eq!(inbox["items"][0]["state"], "waiting");
    // The agent backs off; a waiting or later command must report why, and until when.
    let backing_off = || server.run(&["show", "agent", "--json"]).json()["agent"]["reason"] == "provider";
    let ran = server.run(&["say", "--wait", "--json", "--timeout", "20", "still there?"]);
    assert!(backing_off(), "{}", ran.shown());
    let message = ran.error()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("it is backing off until ") && message.contains("network: "), "{message}");
    for command in [["show", "agent"].as_slice(), &["ps"], &["doctor"]] {
        let shown = server.run(command).shown();
        assert!(shown.contains("network: "), "{command:?}: {shown}");
    }
}

#[test]
fn a_model_that_is_called_again_shows_why_at_once() {
    let model = ["--model", "vllm/x", "--base-url", "http://127.0.0.1:1/v1"];
    let server = Server::start_as(tempfile::tempdir().unwrap(), &model);
    assert_eq!(server.run(&["say", "anyone?"]).code, 0);
    let retrying = |ran: &crate::world::Ran| ran.out.contains("thinking (retrying)");
    let ps = (0..1_000).map(|_| server.run(&["ps"])).find(retrying).unwrap();
    assert!(ps.err.contains("`ada` makes no progress: the model is called again in "), "{}", ps.shown());
    assert!(ps.err.contains("network: "), "{}", ps.shown());
    let top = server.run(&["top"]).shown();
    assert!(top.contains("ada   retrying") || top.contains("ada   provider"), "{top}");
    let agent = server.run(&["show", "agent"]).shown();
    assert!(agent.contains("network: "), "{agent}");
    let run = server.run(&["show", "run"]).shown();
    assert!(run.contains("still open") && run.contains("network: "), "{run}");
    let doctor = server.run(&["doctor"]).shown();
    assert!(doctor.contains("skip  model ") && doctor.contains("`viv models try vllm/x`"), "{doctor}");
}

#[test]
fn a_canceled_cycle_of_the_demo_model_reports_no_tokens_either() {
    let server = Server::start();
    let none = |when: &str| {
        for command in [["ps"].as_slice(), &["top"], &["show", "agent"]] {
            let shown = server.run(command).out;
            assert!(!shown.contains("unknown") && !shown.contains('?'), "{when}: {shown}");
        }
        assert!(
            server.run(&["show", "agent"]).out.contains("tokens   - (no model has reported any)"),
            "{when}"
        );
    };
    none("at first");
    assert_eq!(server.run(&["say", "please tell me everything about yourself"]).code, 0);
    let canceled = |ran: &crate::world::Ran| ran.code == 0;
    assert!((0..1_000).map(|_| server.run(&["agents", "cancel", "ada"])).any(|ran| canceled(&ran)));
    let ended = |ran: crate::world::Ran| ran.out.contains("canceled");
    assert!((0..1_000).map(|_| server.run(&["ps"])).any(ended));
    none("after a canceled cycle");
}

#[test]
fn doctor_passes_on_a_healthy_server() {
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
