//! Tests of the commands that follow a running server: `watch`, `tail`, `top`.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::pty::Pty;
use crate::world::{Server, run_with, stable, viv};

/// A running command whose output is read line by line.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(server: &Server, args: &[&str]) -> Self {
        let mut command = viv(server.dir.path(), args);
        let mut child = command.env("TZ", "UTC").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Lines up to the one that contains the text.
    pub(crate) fn until(&mut self, text: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).unwrap();
            assert!(read > 0, "`{text}` was not printed; seen: {seen:#?}");
            let found = line.contains(text);
            seen.push(line.trim_end().to_owned());
            if found {
                return seen;
            }
        }
    }

    /// Terminates it, as a supervisor would.
    pub(crate) fn end(mut self) -> i32 {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

/// The line without its time of day.
fn without_time(line: &str) -> String {
    let (time, rest) = line.split_at(9.min(line.len()));
    assert!(time.len() == 9 && time.as_bytes()[2] == b':', "{line:?} begins with no time");
    stable(rest)
}

#[test]
fn runs_are_listed_found_by_the_beginning_of_their_id_and_shown_with_their_calls() {
    let server = Server::start();
    assert_eq!(server.run(&["say", "--wait", "remember that I like tea"]).code, 0);
    let tools = r#"tools=["ask_person","send_message","done"]"#;
    assert_eq!(server.run(&["agents", "set", "ada", tools]).code, 0);
    assert_eq!(server.run(&["say", "--wait", r#"call ask_person {"kind": 1}"#]).code, 0);
    let list = server.run(&["runs"]);
    assert!(
        list.out.starts_with("RUN") && list.out.contains("ada #2") && list.out.contains("in home"),
        "{}",
        list.shown()
    );
    let rows = server.run(&["runs", "ada", "--json"]).json()["items"].clone();
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["ordinal"]), (2, &2.into()), "{rows}");
    let shown = |row: usize| {
        let id = rows[row]["id"].as_str().unwrap();
        assert!(list.out.contains(&id[..13]), "{id}: {}", list.out);
        let ran = server.run(&["show", "run", &id[..20]]);
        assert!(ran.code == 0 && ran.out.contains(id), "{}", ran.shown());
        ran.out
    };
    let (failed, found) = (shown(0), shown(1));
    assert!(failed.contains(r#"ask_person {"kind""#) && failed.contains("} -> failed: "), "{failed}");
    assert!(found.contains("set_memories {") && found.contains("} -> "), "{found}");
    assert!(!found.contains("failed:"), "{found}");
    let none = server.run(&["show", "run", "aaaaaa1"]);
    assert!(none.code == 4, "{}", none.shown());
    let mut watch = Running::start(&server, &["watch", "ada"]);
    let past = watch.until("ask_person: failed");
    assert!(past.iter().any(|line| line.contains("set_memories: ok")), "{past:#?}");
    watch.end();
}

#[test]
fn a_piped_watch_prints_past_and_new_updates() {
    let server = Server::start();
    assert_eq!(server.run(&["say", "--wait", "remember that I like tea"]).code, 0);
    let mut watch = Running::start(&server, &["watch"]);
    let past: Vec<String> = watch.until("completed").iter().map(|line| without_time(line)).collect();
    assert_eq!(past[0], "owner → home: remember that I like tea");
    assert!(
        past[1..3].iter().any(|line| line.starts_with("ada → home: "))
            && past[1..3].iter().any(|line| line.starts_with("ada set_memories: ok, "))
            && past[3].starts_with("ada completed: 2 steps, "),
        "{past:#?}"
    );
    assert_eq!(server.run(&["say", "and coffee"]).code, 0);
    let now: Vec<String> = watch.until("completed").iter().map(|line| without_time(line)).collect();
    assert_eq!(now[0], "owner → home: and coffee");
    assert!(now.iter().all(|line| !line.contains('\x1b')), "{now:?}");
    assert_eq!(watch.end(), 0);
}

#[test]
fn a_watch_reports_once_that_an_agent_backs_off_and_why() {
    let nobody = "http://127.0.0.1:1/v1";
    let model = ["--model", "openai-compatible/x", "--base-url", nobody];
    let server = Server::start_as(tempfile::tempdir().unwrap(), &model);
    assert_eq!(server.run(&["agents", "set", "ada", "limits.model_retries=0"]).code, 0);
    let mut watch = Running::start(&server, &["watch", "home"]);
    assert_eq!(server.run(&["say", "anybody?"]).code, 0);
    let lines = watch.until("is backing off: ");
    let line = without_time(lines.last().unwrap());
    assert!(line.starts_with("ada is backing off: ") && line.contains("; retries at "), "{lines:#?}");
    assert_eq!(watch.end(), 0);
    // A later watcher gets it from the snapshot.
    let mut late = Running::start(&server, &["watch", "home", "--history", "0"]);
    let lines = late.until("is backing off: ");
    assert_eq!((lines.len(), lines[0].matches("backing off").count()), (1, 1), "{lines:#?}");
    assert_eq!(late.end(), 0);
}

#[test]
fn agents_that_do_not_reply_are_one_short_row_each() {
    let server = Server::start();
    let created =
        server.run(&["agents", "create", "bob", "--instructions", "You listen.", "--space", "home"]);
    assert_eq!(created.code, 0, "{}", created.shown());
    assert_eq!(server.run(&["say", "--space", "home", "first"]).code, 0);
    let subjects =
        [(&["watch", "home", "--history", "100"][..], "second"), (&["watch", "--history", "100"], "third")];
    for (subject, text) in subjects {
        let mut watch = Running::start(&server, subject);
        watch.until("owner → home: first");
        assert_eq!(server.run(&["say", "--space", "home", text]).code, 0);
        watch.until(&format!("owner → home: {text}"));
        // Both reply to the person; then each receives the other's message.
        let lines = watch.until("skipped");
        let last = without_time(lines.last().unwrap());
        let who = last.split(' ').next().unwrap();
        assert_eq!(last, format!("{who} skipped (agents talking among themselves)"), "{lines:#?}");
        assert!(["ada", "bob"].contains(&who), "{lines:#?}");
        assert_eq!(watch.end(), 0);
    }
}

#[test]
fn a_watch_of_a_space_or_an_agent_includes_tool_calls() {
    let server = Server::start();
    for subject in ["home", "agent:ada", "space:home"] {
        let mut watch = Running::start(&server, &["watch", subject, "--history", "0", "--json"]);
        let first: Value = serde_json::from_str(&watch.until("snapshot")[0]).unwrap();
        assert_eq!(first["type"], "snapshot", "{subject}");
        assert_eq!(server.run(&["say", "--wait", "remember that I like tea"]).code, 0);
        let lines = watch.until("cycle.ended");
        let types: Vec<String> = lines
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned())
            .collect();
        for wanted in ["message", "draft", "agent.state", "tool.started", "tool.done", "cycle.ended"] {
            assert!(types.iter().any(|name| name == wanted), "{subject}: no {wanted} in {types:?}");
        }
        let ended: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
        assert_eq!(
            (&ended["ending"], &ended["spent"]["steps"]),
            (&"completed".into(), &2.into()),
            "{subject}"
        );
        assert_eq!(watch.end(), 0);
    }
}

#[test]
fn a_watch_survives_a_restart_and_prints_what_it_missed() {
    let server = Server::start();
    let mut watch = Pty::run(&server, &["watch"], 80);
    assert_eq!(server.run(&["say", "--wait", "hello"]).code, 0);
    watch.until("owner → home: hello");
    watch.until("completed");
    let dir = server.kill();
    watch.until("(connection lost; reconnecting, Ctrl-C quits)");
    let server = Server::start_in(dir);
    // It may be posted before or after the reconnect.
    assert_eq!(server.run(&["say", "still there?"]).code, 0);
    watch.until("(reconnected)");
    watch.until("owner → home: still there?");
    watch.until("completed");
    kill_process(Pid::from_child(&watch.child), Signal::INT).unwrap();
    assert_eq!(watch.exit_code(), 0);
}

#[test]
fn after_a_restart_no_old_line_is_printed() {
    let server = Server::start();
    for text in ["first", "second", "third"] {
        assert_eq!(server.run(&["say", "--wait", text]).code, 0);
    }
    let all = [
        &["tail", "-n", "1", "--json"][..],
        &["watch", "--history", "0", "--json"],
        &["watch", "home", "--history", "1", "--json"],
    ];
    let mut logs = all.map(|args| Running::start(&server, args));
    logs.iter_mut().for_each(|log| drop(log.until("snapshot")));
    assert_eq!(server.run(&["say", "--wait", "before"]).code, 0);
    let mut lines: Vec<Vec<String>> = logs.iter_mut().map(|log| log.until("\"before\"")).collect();
    let server = Server::start_in(server.kill());
    logs.iter_mut().zip(&mut lines).for_each(|(log, lines)| lines.extend(log.until("\"back\"")));
    assert_eq!(server.run(&["say", "after"]).code, 0);
    for (mut log, mut lines) in logs.into_iter().zip(lines) {
        lines.extend(log.until("\"after\""));
        let old = |line: &&String| ["\"first\"", "\"second\""].iter().any(|text| line.contains(text));
        assert_eq!(lines.iter().filter(old).count(), 0, "{lines:#?}");
        assert_eq!(log.end(), 0);
    }
}

#[test]
fn a_reader_that_goes_away_ends_a_log_silently() {
    let server = Server::start();
    assert_eq!(server.run(&["say", "--wait", "hello"]).code, 0);
    for args in [&["watch"][..], &["tail"], &["watch", "--json"], &["tail", "--no-follow"]] {
        let mut command = viv(server.dir.path(), args);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        // Nothing happens meanwhile: it must notice by itself.
        let ended = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), errors.as_ref()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_tail_prints_one_line_for_each_item() {
    let server = Server::start();
    assert_eq!(server.run(&["say", "--wait", "two\nlines"]).code, 0);
    let ran = server.run(&["tail", "--no-follow"]);
    let lines: Vec<String> = ran.out.lines().map(without_time).collect();
    assert_eq!(
        (ran.code, lines.len(), lines[0].as_str()),
        (0, 3, "owner → home: two lines"),
        "{}",
        ran.shown()
    );
    assert!(lines[2].starts_with("ada completed: "), "{lines:?}");
    let last = server.run(&["tail", "-n", "1", "--no-follow", "ada"]).out;
    assert!(last.lines().count() == 1 && last.contains("ada completed: 2 steps, "), "{last}");
    assert_eq!(server.run(&["tail", "-n", "0", "--no-follow"]).out, "");
    let json = server.run(&["tail", "--no-follow", "--json"]);
    let first: Value = serde_json::from_str(json.out.lines().next().unwrap()).unwrap();
    assert_eq!((&first["type"], &first["message"]["text"]), (&"message".into(), &"two\nlines".into()));
    let ascii = run_with(server.dir.path(), &["tail", "--no-follow"], "", &[("LC_ALL", "C")]);
    assert!(ascii.out.is_ascii(), "{}", ascii.out);
}

#[test]
fn a_subject_that_cannot_be_followed_is_refused_with_a_hint() {
    let server = Server::start();
    for (args, code) in [
        (&["watch", "nobody"][..], 4),
        (&["watch", "--since", "yesterday"], 2),
        (&["watch", "home", "--thoughts"], 2),
        (&["watch", "home", "--all"], 2),
        (&["tail", "nobody", "--no-follow"], 4),
        (&["top", "--sort", "colour"], 2),
    ] {
        let ran = server.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{args:?}: {}", ran.shown());
        assert!(ran.err.starts_with("error: "), "{args:?}: {}", ran.shown());
    }
    let ran = server.run(&["watch", "nobody"]);
    assert!(ran.err.contains("`nobody` is neither a space nor an agent"), "{}", ran.shown());
    let elsewhere = tempfile::tempdir().unwrap();
    for command in ["watch", "tail", "top"] {
        let ran = crate::world::run(elsewhere.path(), &[command]);
        assert_eq!((ran.code, ran.err.lines().count()), (5, 2), "{}", ran.shown());
    }
}

#[test]
fn without_a_terminal_top_prints_one_table() {
    let server = Server::start();
    insta::assert_snapshot!("top_fresh", server.run(&["top"]).shown());
    assert_eq!(server.run(&["say", "--wait", "hello"]).code, 0);
    let ran = server.run(&["top", "--json"]);
    let agents = ran.json()["items"].clone();
    assert_eq!(
        (&agents[0]["handle"], &agents[0]["last_run"]["ending"]),
        (&"ada".into(), &"completed".into())
    );
    assert!(agents[0].get("config").is_none() && agents[0]["cost_micros"].is_null(), "{agents}");
    assert_eq!(agents[0]["unpriced"], 1);
    let none = server.run(&["top", "--filter", "nobody"]);
    assert_eq!((none.out.as_str(), none.err.as_str()), ("", "no agent matches the filter\n"));
}

#[test]
fn top_shows_working_agents_and_restores_the_terminal() {
    let server = Server::start();
    let mut top = Pty::run(&server, &["top"], 80);
    top.until("sleeping");
    assert_eq!(server.run(&["say", "please tell me everything about yourself"]).code, 0);
    top.until("thinking");
    top.until("completed");
    top.press("\r");
    top.until("held");
    top.until("everything");
    top.press("\x1b");
    top.until("COST");
    top.press("s");
    top.until("resumed");
    top.press("y");
    top.until("suspended");
    top.press("s");
    top.until("resumed");
    top.press("q");
    assert_eq!(top.exit_code(), 0);
}

#[test]
fn top_restores_the_terminal_when_terminated() {
    let server = Server::start();
    let mut top = Pty::run(&server, &["top"], 40);
    top.until("sleeping");
    let pid = Pid::from_child(&top.child);
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(top.exit_code(), 0);
}

#[test]
fn top_reconnects_to_a_restarted_server() {
    let server = Server::start();
    let mut top = Pty::run(&server, &["top"], 80);
    top.until("sleeping");
    let dir = server.kill();
    top.until("connected");
    let server = Server::start_in(dir);
    // Only changed cells are redrawn: wait for a word that shares no character with the old text in its
    // position.
    top.until("state");
    drop(server);
    top.press("\x03");
    assert_eq!(top.exit_code(), 0);
}
