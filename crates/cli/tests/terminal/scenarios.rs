//! `viv scenario`: the shipped scenarios pass, failures are reported, processed events can be recorded.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;

use crate::world::{Ran, Server, run, run_with};

/// A file with one person, one agent and one space.
const FILE: &str = "scenario: Hello\npeople: [husam]\nagents:\n  ada:\n    script:\n      - say: good morning\n\
                    spaces:\n  lobby: [husam, ada]\nstory:\n  - husam says in lobby: hi\n\
                    expect:\n  - ada said in lobby: good morning\n";

fn written(dir: &Path, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Runs one file in its own directory.
fn played(text: impl AsRef<[u8]>, args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let file = written(dir.path(), "one.yaml", text);
    let mut line = vec!["scenario", "run", &file];
    line.extend(args);
    let ran = run(dir.path(), &line);
    let prefix = format!("{}/", dir.path().display());
    Ran { out: ran.out.replace(&prefix, ""), err: ran.err.replace(&prefix, ""), code: ran.code }
}

#[test]
fn the_shipped_scenarios_pass() {
    let dir = tempfile::tempdir().unwrap();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let ran = run(dir.path(), &["scenario", "run", shipped, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let report = ran.json();
    assert_eq!((&report["passed"], &report["ok"]), (&report["runs"], &true.into()));
    assert!(report["runs"].as_u64().unwrap() >= 7, "{report}");
    assert_eq!(run(dir.path(), &["scenario", "check", shipped]).code, 0);
}

#[test]
fn without_a_file_the_scenarios_of_the_project_are_run() {
    let dir = tempfile::tempdir().unwrap();
    let viv = |args: &[&str]| {
        let command = &mut crate::world::viv(dir.path(), args);
        let ran = command.current_dir(dir.path()).output().unwrap();
        (
            ran.status.code().unwrap(),
            String::from_utf8(ran.stdout).unwrap(),
            String::from_utf8(ran.stderr).unwrap(),
        )
    };
    let (code, _, err) = viv(&["scenario", "run"]);
    assert!(code == 2 && err.contains("there is no folder `./scenarios`"), "{err}");
    std::fs::create_dir(dir.path().join("scenarios")).unwrap();
    written(&dir.path().join("scenarios"), "one.yaml", FILE);
    let (code, out, err) = viv(&["scenario", "run"]);
    assert!(code == 0 && out.contains("one.yaml  Hello"), "{out}{err}");
    written(&dir.path().join("scenarios"), "two.yaml", "scenario: x\n");
    let (code, out, _) = viv(&["scenario", "check"]);
    assert!(code == 2 && out.contains("two.yaml  ") && out.contains(" flaw"), "{out}");
}

#[test]
fn a_passed_scenario_is_one_line_and_none_with_quiet() {
    let ran = played(FILE, &[]);
    assert!(ran.out.starts_with("✓ one.yaml  Hello\n1 scenario: 1 passed ("), "{}", ran.shown());
    let quiet = played(FILE, &["--quiet"]);
    assert!(quiet.out.starts_with("1 scenario: 1 passed"), "{}", quiet.shown());
    let report = played(FILE, &["--transcript"]);
    assert!(report.out.contains("0.1 s  lobby  ada    good morning\n"), "{}", report.shown());
}

#[test]
fn a_failed_scenario_shows_the_difference_and_the_transcript() {
    let ran = played(FILE.replace("lobby: good morning", "lobby: good evening"), &[]);
    assert_eq!(ran.code, 1);
    let expected = "✗ one.yaml  Hello\n    one.yaml:12: ada said in lobby\n      \
        wanted   a message of `ada` in `lobby` with `good evening` in it\n      \
        got      1 there, none of them matches\n      \
        - wanted good evening\n      + said   good morning\n                    ^\n    \
        what happened (0.2 s, 1 cycle)\n      0.0 s  lobby  husam  hi\n      0.1 s  lobby  ada    good morning\n      \
        0.2 s         ada    [cycle 1: 1 event, 2 steps]\n1 scenario: 0 passed, 1 failed (";
    assert!(ran.out.starts_with(expected), "{}", ran.shown());
}

#[test]
fn errors_of_bad_files_have_positions_and_nothing_is_run() {
    let check = |text: &[u8], code: i32, report: &str| {
        let ran = played(text, &[]);
        assert_eq!(ran.code, code, "{}", ran.shown());
        assert!(ran.err.contains(report), "{}", ran.shown());
        assert!(ran.out.is_empty() && ran.err.contains("\nhint: "), "{}", ran.shown());
    };
    check(
        FILE.replace("husam says", "husan says").as_bytes(),
        2,
        "error: not a valid scenario:\n  one.yaml:10:5: there is no person or agent `husan`",
    );
    check(b"scenario: \xff\n", 2, "one.yaml:1:1: wanted UTF-8 text");
    check(b"", 2, "one.yaml: the file is empty");
    check(FILE.replace("  - husam", "  - at: -1s\n    husam").as_bytes(), 2, "time does not run backwards");
    check(
        FILE.replace("    script:\n      - say: good morning", "    debounce: 5").as_bytes(),
        2,
        "no script",
    );
}

#[test]
fn missing_files_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display().to_string();
    let none = run(dir.path(), &["scenario", "check", &path]);
    assert!(none.code == 4 && none.err.contains("there is no scenario in `"), "{}", none.shown());
    let missing = run(dir.path(), &["scenario", "run", "nowhere.yaml"]);
    assert!(missing.code == 4 && missing.err.contains("cannot read `nowhere.yaml`"), "{}", missing.shown());
    let repeat = run(dir.path(), &["scenario", "run", &path, "--repeat", "3"]);
    assert!(repeat.code == 2 && repeat.err.contains("--model"), "{}", repeat.shown());
}

#[test]
fn a_check_lists_every_flaw() {
    let dir = tempfile::tempdir().unwrap();
    let story = "story:\n  - at: 5s\n    husam says in lobby: a\n  - at: 1s\n    husam says in lobby: b\n";
    let backwards = FILE.replace("story:\n  - husam says in lobby: hi\n", story);
    written(dir.path(), "a.yaml", &backwards);
    let refused = played(&backwards, &[]);
    assert!(refused.code == 2 && refused.err.contains("one.yaml:12:9: `at: 1s`"), "{}", refused.shown());
    written(dir.path(), "b.yaml", FILE.replace("expect", "exepct"));
    let path = dir.path().display().to_string();
    let ran = run(dir.path(), &["scenario", "check", &path, "--json"]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    let report = ran.json();
    assert_eq!(report["files"][0]["flaws"][0]["line"], 12, "{report}");
    let message = report["files"][0]["flaws"][0]["message"].as_str().unwrap();
    assert_eq!(message, "`at: 1s` is impossible: line 10 has reached 5s, and time does not run backwards");
    assert_eq!(report["files"][1]["flaws"][0]["message"], "unknown key `exepct`; did you mean `expect`?");
}

#[test]
fn each_flaw_keeps_its_own_hint() {
    let text =
        FILE.replace("- husam says in lobby: hi", "- \"husam says in lobby: hi\"\n  - the server is killed");
    let text = text.replace("- ada said in lobby: good morning", "- ada sings");
    let ran = played(&text, &[]);
    assert_eq!((ran.code, ran.err.matches("hint: ").count()), (2, 1), "{}", ran.shown());
    for report in [
        "    (put no quotes around",
        "    (end with `- the server starts`)",
        "    (known sentences: ",
        "nothing was run",
    ] {
        assert!(ran.err.contains(report), "{report}: {}", ran.shown());
    }
    let one = played(FILE.replace("- husam says in lobby: hi", "- \"husam says in lobby: hi\""), &[]);
    assert!(one.err.contains("    (put no quotes around"), "{}", one.shown());
}

#[test]
fn a_real_model_runs_a_scenario_repeatedly_in_real_time() {
    let text = FILE.replace("    script:\n      - say: good morning\n", "    tools: [send_message, done]\n");
    let text = text.replace("ada said in lobby: good morning", "ada said in lobby: Hello Husam");
    let ran = played(text, &["--model", "demo", "--repeat", "2", "--at-least", "50%"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(
        ran.out.starts_with("✓ one.yaml  2/2  Hello\n1 scenario, 2 runs: 2 passed, 100%"),
        "{}",
        ran.shown()
    );
}

#[test]
fn a_missing_model_is_reported_before_anything_is_run() {
    for (answer, exit, report) in [
        (
            None,
            5,
            "error: cannot reach `openai-compatible/x`: `http://127.0.0.1:<port>/v1/chat/completions` cannot be",
        ),
        (Some("HTTP/1.1 500 Oops\r\n\r\n<h1>Oops</h1>"), 2, "failed: HTTP 500: <h1>Oops</h1>\n"),
        (Some(""), 6, "accepted the request and sent nothing within 1 s\n"),
    ] {
        let url = serve_answers(answer.into_iter().collect());
        let ran = played(FILE, &["--model", "openai-compatible/x", "--base-url", &url, "--timeout", "1"]);
        assert!(ran.code == exit && ran.out.is_empty() && ran.shown().contains(report), "{}", ran.shown());
        assert!(ran.err.matches("hint: ").count() == 1, "{}", ran.shown());
    }
}

#[test]
fn a_model_that_fails_during_a_run_ends_it_with_its_error() {
    let started = std::time::Instant::now();
    let hello = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
                 data: {\"choices\":[{\"delta\":{\"content\":\"Yes\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let url = serve_answers(vec![hello]);
    // A later part of the story must not be waited for.
    let story = FILE.replace("expect:", "  - after: 1h\n    husam says in lobby: still there?\nexpect:");
    let ran = played(story, &["--model", "openai-compatible/x", "--base-url", &url, "--timeout", "100"]);
    let report = "aborted: line 11: the model does not answer: network: `http://127.0.0.1:<port>/v1/chat/completions` cannot be";
    assert!(ran.code == 1 && ran.shown().contains(report), "{}", ran.shown());
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}

/// A server that gives each answer once, to one `POST` each (an empty one: never), then closes.
fn serve_answers(answers: Vec<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                let header = line.to_lowercase();
                length = header.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap());
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            if answer.is_empty() {
                kept.push((stream, listener.try_clone().unwrap()));
            }
        }
        drop(listener);
        // Unanswered connections stay open as long as the test runs.
        kept.into_iter().for_each(std::mem::forget);
    });
    url
}

#[test]
fn an_agent_file_with_tools_of_its_own_is_played_with_those_of_the_scenario() {
    let dir = tempfile::tempdir().unwrap();
    let agent = "---\ntools: [restart, 'clock:*', send_message, done]\napprove: [restart]\nmodel: x/y\nfallback: [x/z]\n---\nBe.\n";
    written(dir.path(), "oncall.md", agent);
    let text = FILE.replace("  ada:\n", "  ada:\n    file: oncall.md\n");
    let alone = written(dir.path(), "alone.yaml", &text);
    let ran = run(dir.path(), &["scenario", "check", &alone]);
    assert!(ran.code == 2 && ran.out.contains("there is no tool `restart`"), "{}", ran.shown());
    assert!(ran.out.contains("name it under `tools`, with an `outcome`"), "{}", ran.shown());
    let tools = "tools:\n  restart: {outcome: ok}\n  clock__now: {outcome: '9:00'}\nagents:\n";
    let script = "      - steps:\n          - call clock__now:\n          - call restart: {host: a}\n          - say: good morning\n";
    let text = text.replace("agents:\n", tools).replace("      - say: good morning\n", script);
    let text = text.replace("lobby: hi\n", "lobby: hi\n  - husam approves restart of ada\n");
    let whole = written(dir.path(), "whole.yaml", text + "  - restart ran: 1\n  - clock__now ran: 1\n");
    let ran = run(dir.path(), &["scenario", "run", &whole]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
}

/// A server with a tool of its own that fails at its first call, and an agent `bea` that asks before it is called.
#[test]
fn what_an_agent_did_with_tools_approvals_and_deliveries_is_recorded_and_passes() {
    let server = Server::start();
    let viv = |args: &[&str]| {
        let ran = server.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.shown());
        ran
    };
    let address = server.url().strip_prefix("http://").unwrap();
    let tool = |name: &str, path: &str| {
        let text = format!(
            "name = \"{name}\"\ndescription = \"Does: it\"\nlabels = [\"outside\"]\n\n[input]\ntype = \"object\"\n\n\
             [http]\nmethod = \"GET\"\nurl = \"http://{address}{path}\"\nallow = [\"{address}\"]\n"
        );
        written(server.dir.path(), &format!("{name}.toml"), text)
    };
    viv(&[
        "tools",
        "add",
        &tool("look", "/v1/ready"),
        &tool("fail", "/v1/agents"),
        &tool("unused", "/v1/ready"),
    ]);
    viv(&["agents", "create", "bea", "--instructions", "Be."]);
    let tools = r#"tools=["look","fail","unused","ask_person","send_message","done"]"#;
    viv(&["agents", "set", "bea", tools, r#"approve=["look"]"#]);
    viv(&["spaces", "open", "desk", "--members", "owner,bea"]);
    assert_eq!(run_with(server.dir.path(), &["secrets", "set", "door"], "canary-secret-0815", &[]).code, 0);
    let hook = ["hooks", "add", "door", "--kind", "shared_secret", "--secret", "door", "--to", "bea"];
    viv(&[&hook[..], &["--event", "{{ body.text }}"]].concat());
    let answer = |how: &[&str]| {
        let call = crate::approvals::until(|| {
            let list = viv(&["approvals", "list", "--json"]).json();
            list["items"][0]["call"].as_str().map(str::to_owned)
        });
        viv(&[&["approvals", "answer", &call], how].concat());
    };
    let idle = || {
        crate::approvals::until(|| {
            (viv(&["ps", "--json"]).json()["items"]
                .as_array()?
                .iter()
                .all(|one| one["state"] == "sleeping" && one["waiting"] == 0))
            .then_some(())
        })
    };
    let say = |text: &str| viv(&["say", "--space", "desk", text]);
    say("call fail");
    idle();
    say("call look");
    answer(&["approve", "--yes"]);
    idle();
    say("call look");
    answer(&["refuse", "--reason", "not now", "--as", "owner"]);
    idle();
    say(r#"call ask_person {"kind": "text", "question": "Which?"}"#);
    answer(&["--text", "the blue one", "--as", "owner"]);
    idle();
    viv(&["hooks", "send", "door", r#"{"text": "the door is open"}"#]);
    idle();
    let file = server.dir.path().join("recorded.yaml").display().to_string();
    let ran = viv(&["scenario", "record", "bea", "-o", &file]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(ran.err.is_empty() && ran.out.contains("run it with"), "{}\n{text}", ran.shown());
    for part in [
        "operator approves look of bea",
        "owner refuses look of bea: \"not now\"",
        "owner answers bea",
        "hook door delivers: \"the door is open\"",
        "{\"error\":",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    viv(&["scenario", "check", &file]);
    viv(&["scenario", "run", &file]);
}

#[test]
fn recorded_cycles_become_a_scenario_that_passes() {
    let server = Server::start();
    let none = server.run(&["scenario", "record", "ada"]);
    assert!(none.code == 4 && none.err.contains("has run no cycle yet"), "{}", none.shown());
    for text in ["remember that the code is blue", "what do you remember?", "line one\nand: \"two\" #3"] {
        assert_eq!(server.run(&["say", "--wait", text]).code, 0);
    }
    let file = server.dir.path().join("recorded.yaml").display().to_string();
    let ran = server.run(&["scenario", "record", "ada", "-o", &file]);
    assert!(ran.code == 0 && ran.err.is_empty(), "{}", ran.shown());
    assert!(ran.out.contains("wrote 3 cycles of `ada`"), "{}", ran.shown());
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("owner says in home: remember that the code is blue"), "{text}");
    let played = server.run(&["scenario", "run", &file]);
    assert!(played.code == 0 && played.out.contains("1 scenario: 1 passed"), "{}\n{text}", played.shown());
    let again = server.run(&["scenario", "record", "ada", "-o", &file]);
    assert!(again.code == 3 && again.err.contains("exists"), "{}", again.shown());
    let newest = server.run(&["scenario", "record", "--cycles", "1", "--json"]).json();
    assert_eq!((&newest["cycles"], &newest["passes"]), (&1.into(), &true.into()), "{newest}");
}
