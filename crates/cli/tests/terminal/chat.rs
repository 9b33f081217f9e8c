//! Chats with piped input.

use crate::world::{Server, run_with};

#[test]
fn piped_lines_are_posted_one_by_one_and_their_replies_printed() {
    let server = Server::start();
    let ran = run_with(server.dir.path(), &["chat"], "hello\n\n/quit\nnever said\n", &[]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert_eq!(ran.out.lines().filter(|line| line.starts_with("Ada: ")).count(), 1, "{}", ran.shown());
    let inbox = server.run(&["show", "inbox", "--json"]).json();
    assert_eq!(inbox["items"].as_array().unwrap().len(), 1);
}

#[test]
fn foreign_text_cannot_control_the_terminal() {
    let server = Server::start();
    let ran = run_with(server.dir.path(), &["say", "--wait", "-"], "a\x1b[31mb\u{9b}2J", &[]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(!ran.out.contains('\x1b') && !ran.out.contains('\u{9b}'), "{:?}", ran.out);
    assert!(ran.out.contains("a^[[31mb"), "{:?}", ran.out);
    let ran = run_with(server.dir.path(), &["show", "context"], "", &[("LC_ALL", "C")]);
    assert!(ran.out.is_ascii(), "{:?}", ran.out);
}
