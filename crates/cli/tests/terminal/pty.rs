//! Commands in a real pseudo-terminal: keys and rows. The chat is tested here.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::world::{Server, viv};

/// Longer than any reply takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Pty {
    keys: File,
    slave: File,
    seen: String,
    output: Receiver<Vec<u8>>,
    pub(crate) child: Child,
}

impl Pty {
    fn chat(server: &Server, columns: u16) -> Self {
        Self::run(server, &["chat"], columns)
    }

    /// Runs a command in a terminal of this width.
    pub(crate) fn run(server: &Server, args: &[&str], columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let mut command = viv(server.dir.path(), args);
        let child = command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let keys = File::from(master);
        let mut reader = keys.try_clone().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0u8; 4096];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { keys, slave, seen: String::new(), output, child }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the text is printed, after the text that was waited for before.
    pub(crate) fn until(&mut self, text: &str) {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("`{text}` was not printed; seen: {:?}", self.tail()),
            }
        }
    }

    /// The end of the output.
    fn tail(&self) -> String {
        let count = self.seen.chars().count();
        self.seen.chars().skip(count.saturating_sub(2_000)).collect()
    }

    /// All rows that it prints until it ends, and its exit code.
    pub(crate) fn rows(mut self) -> (Vec<String>, i32) {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        // Its output is in the terminal; a marker that we write after it shows where it ends.
        self.slave.write_all(b"<end>").unwrap();
        while !self.seen.contains("<end>") {
            let bytes = self.output.recv_timeout(TIMEOUT).unwrap();
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        let rows = self.seen.lines().map(str::trim_end).filter(|row| *row != "<end>");
        (rows.map(str::to_owned).collect(), code)
    }

    /// Waits for its end and checks that the terminal is restored.
    pub(crate) fn exit_code(mut self) -> i32 {
        let end = Instant::now() + TIMEOUT;
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < end, "it did not end; seen: {:?}", self.tail());
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(20)) {
                self.seen.push_str(&String::from_utf8_lossy(&bytes));
            }
        };
        self.assert_restored();
        code
    }

    /// Checks that the terminal's modes are as before.
    pub(crate) fn assert_restored(&self) {
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "the terminal was not restored");
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn a_chat_works_in_a_narrow_terminal() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 40);
    chat.until("demo");
    chat.until("> ");
    chat.press("hello there\r");
    chat.until("Owner: hello there");
    chat.until("is thinking");
    chat.until("Ada: ");
    chat.press("\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn errors_and_hints_fit_a_narrow_terminal() {
    let server = Server::start();
    for columns in [40, 80] {
        let (rows, code) = Pty::run(&server, &["show", "agent", "nobody"], columns).rows();
        assert_eq!(code, 4);
        assert!(rows.iter().all(|row| row.chars().count() <= usize::from(columns)), "{rows:#?}");
        let whole = "error: no agent is called `nobody` \
            hint: `viv agents`, `viv spaces` and `viv entities` list what exists";
        assert_eq!(rows.iter().map(|row| row.trim()).collect::<Vec<_>>().join(" "), whole);
        assert!(rows[0].starts_with("error: ") && rows[1].starts_with("hint: "), "{rows:#?}");
    }
    // Without a terminal a line is not folded.
    assert_eq!(server.run(&["show", "agent", "nobody"]).err.lines().count(), 2);
}

#[test]
fn help_fits_a_narrow_terminal() {
    let server = Server::start();
    for args in [&["--help"][..], &["up", "--help"], &["spaces", "set", "--help"]] {
        let (rows, code) = Pty::run(&server, args, 40).rows();
        assert_eq!(code, 0);
        let wide: Vec<&String> = rows.iter().filter(|row| row.chars().count() > 40).collect();
        assert!(wide.is_empty() && rows.len() > 10, "{wide:#?}");
        let whole = server.run(args).out;
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&rows.join("\n")), words(&whole), "nothing is lost");
    }
}

#[test]
fn ctrl_c_cancels_running_cycles_and_pressed_again_quits() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 80);
    chat.until("> ");
    chat.press("please tell me everything about yourself\r");
    chat.until("Ada: ");
    chat.press("\x03");
    chat.until("(Ada stopped: canceled)");
    chat.press("\x03");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn ctrl_c_just_after_a_reply_does_not_end_the_chat() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 80);
    chat.until("> ");
    chat.press("\x03");
    chat.until("(Ctrl-C again quits)");
    // What is typed after it goes to the chat and not to a shell.
    chat.press("still here\r");
    chat.until("Owner: still here");
    chat.press("a line that is given up\x03");
    chat.press("\x03");
    chat.until("(Ctrl-C again quits)");
    chat.press("\x03");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn a_long_paste_arrives_whole_and_one_that_is_too_long_is_refused_aloud() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 80);
    chat.until("> ");
    let text = format!("begin\n{}end", "0123456789\tabcde\n".repeat(2_500));
    assert!(text.len() > 40_000);
    chat.press(&format!("\x1b[200~{}\x1b[201~", text.replace('\n', "\r")));
    chat.press("\r");
    chat.until("Owner: begin");
    let messages = server.run(&["spaces", "read", "home", "--json"]).json();
    let found = messages["items"].as_array().unwrap().iter().any(|message| message["text"] == text.as_str());
    assert!(found, "it is one message");
    chat.press(&format!("\x1b[200~{}\x1b[201~", "x".repeat(70_000)));
    chat.press("\r");
    chat.until("(not sent: a message has at most 65536 bytes, this text has 70000;");
    chat.press("\x03\x04");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn a_command_after_a_blank_line_is_a_command() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 80);
    chat.until("> ");
    chat.press("\x1b[200~\n/help\x1b[201~\r");
    chat.until("Ctrl-R searches them");
    chat.press("/q\t");
    chat.until("/quit ");
    chat.press("\r");
    assert_eq!(chat.exit_code(), 0);
}

#[test]
fn a_later_chat_recalls_what_was_typed_in_an_earlier_one() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 80);
    chat.until("> ");
    chat.press("green tea\r");
    chat.until("Owner: green tea");
    chat.press("\x04");
    assert_eq!(chat.exit_code(), 0);
    let file = server.dir.path().join("chat_history");
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions()) & 0o777,
        0o600
    );
    let mut chat = Pty::run(&server, &["chat", "--history", "0"], 80);
    chat.until("> ");
    chat.press("\x12tea");
    chat.until("(search: tea) green tea");
    chat.press("\r");
    chat.until("Owner: green tea");
}

#[test]
fn with_several_spaces_a_chat_asks_which_one() {
    let server = Server::start();
    assert_eq!(server.run(&["spaces", "open", "attic", "--members", "owner,ada"]).code, 0);
    let mut chat = Pty::chat(&server, 80);
    chat.until("attic");
    chat.until("Which space? (1-2 or its name) ");
    chat.press("cellar\r");
    chat.until("Which space?");
    chat.press("attic\r");
    chat.until("with Ada.");
    chat.press("\x04");
    assert_eq!(chat.exit_code(), 0);
    let ran = server.run(&["chat"]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    assert!(ran.err.contains("`attic`, `home`"), "without a terminal the error lists them: {}", ran.err);
}

#[test]
fn nothing_breaks_in_a_very_narrow_terminal() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 20);
    chat.until("> ");
    chat.press("an ordinary line\r");
    chat.until("Owner: an ordinary");
    chat.until("Ada: ");
    chat.press("\x04");
    assert_eq!(chat.exit_code(), 0);
    assert_eq!(server.run(&["say", "--wait", "hello"]).code, 0);
    for args in [&["tail", "--no-follow"][..], &["top", "--once"]] {
        let (rows, code) = Pty::run(&server, args, 20).rows();
        assert_eq!(code, 0, "{rows:#?}");
        let wide: Vec<&String> = rows.iter().filter(|row| row.chars().count() > 20).collect();
        assert!(wide.is_empty() && !rows.is_empty(), "{args:?}: {wide:#?}");
    }
    for args in
        [&["help"][..], &["top", "--help"], &["show", "run"], &["show", "context"], &["show", "agent"]]
    {
        let (rows, code) = Pty::run(&server, args, 20).rows();
        assert_eq!(code, 0, "{rows:#?}");
        // Only a word that is longer than a row may be cut.
        let cut = |row: &&String| row.chars().count() > 20 && row.trim().contains(' ');
        let wide: Vec<&String> = rows.iter().filter(cut).collect();
        assert!(wide.is_empty() && !rows.is_empty(), "{args:?}: {wide:#?}");
    }
    let mut top = Pty::run(&server, &["top"], 20);
    top.until("STATE");
    top.until("sleeping");
    top.press("?");
    top.until("filter");
    top.press("qq");
    assert_eq!(top.exit_code(), 0);
}

#[test]
fn a_chat_survives_the_servers_restart() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 80);
    chat.until("> ");
    let dir = server.kill();
    chat.until("connection lost");
    // Any free port will do: the credential file names it.
    let server = Server::start_in(dir);
    chat.until("reconnected");
    chat.press("still there?\r");
    chat.until("Owner: still there?");
    chat.until("Ada: ");
    drop(server);
}

#[test]
fn a_chat_says_that_a_message_waits_for_the_server_and_posts_it_then() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 80);
    chat.until("> ");
    let dir = server.kill();
    chat.until("connection lost");
    chat.press("are you there?\r");
    chat.until("(not sent yet, waits for the connection) are you there?");
    let server = Server::start_in(dir);
    chat.until("Owner: are you there?");
    chat.until("Ada: ");
    chat.press("\x04");
    assert_eq!(chat.exit_code(), 0);
    drop(server);
}

#[test]
fn a_chat_that_ends_with_unsent_text_prints_it() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 80);
    chat.until("> ");
    drop(server.kill());
    chat.until("connection lost");
    chat.press("are you there?\r");
    chat.until("(not sent yet, waits for the connection) are you there?");
    chat.press("and you?\r");
    chat.until("(not sent yet, waits for the connection) and you?");
    chat.press("\x04");
    chat.until("error: not sent, because no server accepted it:");
    chat.until("are you there?");
    chat.until("and you?");
    assert_eq!(chat.exit_code(), 5);
}
