//! What becomes of the programs that a process starts: nothing of them outlives it, however it ends.

#![allow(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _};
use tools::child::{Ended, HeldCommand, Holder, Wall, WallPolicy};

/// How long anything here may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Programs that do not end by themselves, each with what it starts; all of them hold the standard output.
const STUBBORN: [(&str, &str); 4] = [
    ("one that refuses every signal", "trap '' TERM HUP INT; echo ready; while :; do sleep 1000; done"),
    ("one with a child", "sleep 1000 & echo ready; wait"),
    (
        "one whose child has left its session",
        "setsid sh -c \"trap '' TERM HUP; sleep 1000; :\" & echo ready; wait",
    ),
    ("one whose orphan has left everything", "(setsid setsid sleep 1000 &); echo ready; exec sleep 1000"),
];

pub(crate) fn holder() -> Holder {
    Holder::of(env!("CARGO_BIN_EXE_hold"))
}

/// The wall of this machine: what it keeps out cannot be tested without one.
pub(crate) async fn wall() -> Wall {
    let wall = Wall::find(&holder()).await;
    wall.expect("bubblewrap builds a wall here: install it, for instance with `apt-get install bubblewrap`")
}

async fn command(script: &str, is_walled: bool) -> HeldCommand {
    let command: Vec<OsString> = ["sh", "-c", script].map(OsString::from).to_vec();
    match is_walled {
        true => wall().await.command(&WallPolicy::default(), &command).unwrap(),
        false => {
            let mut held = holder().command(&command[0]).unwrap();
            held.args(&command[1..]);
            held
        }
    }
}

/// A process that a test ends in a way that it would not survive itself.
#[tokio::test]
async fn stands_in_for_whoever_wants_a_child() {
    let Ok(script) = std::env::var("WANTED_CHILD") else { return };
    let child = command(&script, std::env::var_os("WALLED").is_some()).await.spawn().unwrap();
    child.ended().await;
}

#[test]
fn nothing_outlives_whoever_wanted_it() {
    for (what, script) in STUBBORN {
        for is_walled in [false, true] {
            let mut again = Command::new(std::env::current_exe().unwrap());
            again.args(["--exact", "child::stands_in_for_whoever_wants_a_child", "--nocapture"]);
            again.env("WANTED_CHILD", script).stdout(Stdio::piped());
            if is_walled {
                again.env("WALLED", "1");
            }
            let mut wanting = again.spawn().unwrap();
            let mut out = BufReader::new(wanting.stdout.take().unwrap());
            until_ready(&mut out);
            // No destructor runs: the signal cannot be caught.
            wanting.kill().unwrap();
            wanting.wait().unwrap();
            assert!(is_released(out), "{what} outlived a killed process (walled: {is_walled})");
        }
    }
}

fn until_ready(out: &mut BufReader<ChildStdout>) {
    let mut line = String::new();
    while !line.ends_with("ready\n") {
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended before it was ready: {line}");
    }
}

/// Whether nobody holds the other end any longer.
fn is_released(mut out: impl Read + Send + 'static) -> bool {
    let (told, end) = mpsc::channel();
    std::thread::spawn(move || told.send(out.read_to_end(&mut Vec::new())));
    end.recv_timeout(PATIENCE).is_ok()
}

#[tokio::test]
async fn nothing_outlives_a_child_that_is_dropped() {
    for (what, script) in STUBBORN {
        for is_walled in [false, true] {
            let mut command = command(script, is_walled).await;
            command.stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut out = tokio::io::BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            out.read_line(&mut line).await.unwrap();
            assert_eq!(line, "ready\n", "{what}");
            drop(child);
            let read = tokio::time::timeout(PATIENCE, out.read_to_end(&mut Vec::new())).await;
            assert!(read.is_ok(), "{what} outlived its end (walled: {is_walled})");
        }
    }
}

#[tokio::test]
async fn an_end_is_known_at_once_although_a_child_of_the_child_holds_its_output() {
    for is_walled in [false, true] {
        let script = "sleep 1000 & (setsid sleep 1000 &) ; exit 7";
        let mut command = command(script, is_walled).await;
        let printed = tokio::time::timeout(PATIENCE, command.printed(100)).await;
        assert_eq!(printed.unwrap().unwrap().ended, Ended::Exited(7));
    }
    let signaled = command("kill -9 $$", false).await.printed(100).await.unwrap();
    assert_eq!(signaled.ended, Ended::Signaled(9));
    let text = command("printf 12345", false).await.printed(3).await.unwrap().text;
    assert_eq!(text, b"123");
}

#[test]
fn a_program_that_is_not_there_is_named_before_anything_is_started() {
    for name in ["no-such-program", "/no/such/program"] {
        let error = holder().command(name).map(drop).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }
}
