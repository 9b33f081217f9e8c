//! Commands in a terminal: a real pseudo-terminal, keys and rows. The chat is tested here.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::world::{Server, viv};

/// Longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

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

    /// Runs a command in a terminal of that width.
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

    /// Waits until the text was printed, after what was waited for before.
    pub(crate) fn until(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
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

    /// The end of what was printed.
    fn tail(&self) -> String {
        let count = self.seen.chars().count();
        self.seen.chars().skip(count.saturating_sub(2_000)).collect()
    }

    /// Everything that it prints to its end, as rows.
    pub(crate) fn rows(mut self) -> (Vec<String>, i32) {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        // What it wrote is in the terminal; a word of ours behind it tells where that ends.
        self.slave.write_all(b"<end>").unwrap();
        while !self.seen.contains("<end>") {
            let bytes = self.output.recv_timeout(PATIENCE).unwrap();
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        let rows = self.seen.lines().map(str::trim_end).filter(|row| *row != "<end>");
        (rows.map(str::to_owned).collect(), code)
    }

    /// Waits for its end, which must leave the terminal as it was.
    pub(crate) fn leaves(mut self) -> i32 {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        self.is_given_back();
        code
    }

    /// The terminal is as it was before.
    pub(crate) fn is_given_back(&self) {
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "the terminal was not given back");
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn a_person_talks_in_a_narrow_terminal_and_leaves() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 40);
    chat.until("demo");
    chat.until("> ");
    chat.press("hello there\r");
    chat.until("Owner: hello there");
    chat.until("is thinking");
    chat.until("Ada: ");
    chat.press("\x04");
    assert_eq!(chat.leaves(), 0);
}

#[test]
fn errors_and_hints_fit_a_narrow_terminal() {
    let server = Server::start();
    for columns in [40, 80] {
        let (rows, code) = Pty::run(&server, &["show", "agent", "nobody"], columns).rows();
        assert_eq!(code, 4);
        assert!(rows.iter().all(|row| row.chars().count() <= usize::from(columns)), "{rows:#?}");
        let whole = "error: no agent is called `nobody` \
            hint: `viv agents`, `viv spaces` and `viv entities` list what there is";
        assert_eq!(rows.iter().map(|row| row.trim()).collect::<Vec<_>>().join(" "), whole);
        assert!(rows[0].starts_with("error: ") && rows[1].starts_with("hint: "), "{rows:#?}");
    }
    // Where nobody looks at it, a line stays a line.
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
fn ctrl_c_cancels_what_works_and_leaves_where_nobody_does() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 80);
    chat.until("> ");
    chat.press("please tell me everything about yourself\r");
    chat.until("Ada: ");
    chat.press("\x03");
    chat.until("(Ada stopped: canceled)");
    chat.press("\x03");
    assert_eq!(chat.leaves(), 0);
}

#[test]
fn a_chat_survives_the_servers_restart() {
    let server = Server::start();
    let mut chat = Pty::chat(&server, 80);
    chat.until("> ");
    let dir = server.kill();
    chat.until("the server is gone");
    // Any free port will do: the credential file names it.
    let server = Server::start_in(dir);
    chat.until("the server is back");
    chat.press("still there?\r");
    chat.until("Owner: still there?");
    chat.until("Ada: ");
    drop(server);
}
