//! `viv approvals` and the commands of a chat beside a real server: an agent asks, a person answers, and the server dies in between.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::{Server, run_with};

/// A server whose agent bea has a space with its owner and may ask.
fn asking() -> Server {
    let server = Server::start();
    for args in [
        &["agents", "create", "bea", "--instructions", "You ask."][..],
        &["agents", "set", "bea", r#"tools=["ask_person","send_message","done"]"#],
        &["entities", "add", "nour"],
        &["spaces", "open", "desk"],
        &["spaces", "add", "desk", "bea"],
        &["spaces", "add", "desk", "nour"],
    ] {
        let ran = server.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.shown());
    }
    server
}

fn ask(server: &Server, question: &Value) {
    let text = format!("call ask_person {question}");
    let said = server.run(&["say", "--space", "desk", "--as", "nour", &text]);
    assert_eq!(said.code, 0, "{}", said.shown());
}

/// The only call that waits, as soon as there is one.
fn waiting(server: &Server) -> Value {
    until(|| {
        let list = server.run(&["approvals", "list", "--space", "desk", "--json"]).json();
        list["items"].as_array().filter(|items| items.len() == 1).map(|items| items[0].clone())
    })
}

/// Waits until the space contains a text.
fn until_said(server: &Server, text: &str) -> String {
    until(|| Some(server.run(&["spaces", "read", "desk"]).out).filter(|read| read.contains(text)))
}

/// Asks again until it is found; each question starts a process, which takes its time.
pub(crate) fn until<T>(found: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "it did not happen within a minute");
    }
}

#[test]
fn a_question_survives_a_kill_and_is_answered_once() {
    let server = asking();
    ask(&server, &json!({"kind": "approval", "question": "May I?"}));
    let call = waiting(&server)["call"].as_str().unwrap().to_owned();
    let paused = server.run(&["ps"]);
    assert!(paused.out.contains("paused"), "{}", paused.shown());
    let dir = server.kill();
    let server = Server::start_in(dir);
    let shown = server.run(&["approvals", "show", &call]);
    assert!(shown.out.contains("May I?") && shown.out.contains("wanted"), "{}", shown.shown());
    let answered = server.run(&["approvals", "answer", &call, "approve", "--as", "nour"]);
    assert!(answered.code == 0 && answered.out.contains("answered"), "{}", answered.shown());
    let again = server.run(&["approvals", "answer", &call, "refuse"]);
    assert!(again.code == 3 && again.err.contains("answered by nour"), "{}", again.shown());
    until_said(&server, r#"{"answer":"approved","by":"nour"}"#);
    let over = server.run(&["approvals", "list", "--all", "--json"]).json();
    assert_eq!(over["items"][0]["state"], "answered");
}

#[test]
fn wrong_answers_say_what_was_wanted_and_a_chat_answers_in_place() {
    let server = asking();
    ask(&server, &json!({"kind": "choice", "question": "Which?", "options": ["red", "blue"]}));
    let call = waiting(&server)["call"].as_str().unwrap().to_owned();
    for (args, code, words) in [
        (vec!["approvals", "answer", &call], 2, "required"),
        (vec!["approvals", "answer", &call, "approve"], 3, "red"),
        (vec!["approvals", "answer", &call, "--text", "green"], 3, "blue"),
        (vec!["approvals", "answer", &call, "--form", "{"], 2, "not JSON"),
        (vec!["approvals", "answer", &call, "--text", "red", "--as", "bea"], 3, "agent"),
        (vec!["approvals", "answer", "c0", "refuse"], 4, "c0"),
        (vec!["approvals", "show", "c0"], 4, "c0"),
        (vec!["approvals", "forget", "bea", "ask_person"], 4, "ask_person"),
    ] {
        let ran = server.run(&args);
        assert!(ran.code == code && ran.err.contains(words), "{args:?}: {}", ran.shown());
    }
    let url = [("VIV_URL", server.url()), ("VIV_KEY", server.key())];
    let chat = ["chat", "--space", "desk", "--as", "nour", "--timeout", "30"];
    let typed = run_with(server.dir.path(), &chat, "/approve\n", &url);
    assert!(typed.code != 0 && typed.err.contains("nothing waits for such an answer"), "{}", typed.shown());
    let typed = run_with(server.dir.path(), &chat, "/answer blue\n", &url);
    assert_eq!(typed.code, 0, "{}", typed.shown());
    until_said(&server, r#"{"answer":"blue","by":"nour"}"#);
}
