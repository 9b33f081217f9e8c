//! A separate server for each test, and commands that are run against it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// The binary under test, without environment variables that would change its behaviour.
pub(crate) fn viv(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_viv"));
    for (name, _) in std::env::vars() {
        if name.starts_with("VIV_")
            || name.starts_with("USER")
            || name == "LOGNAME"
            || name.ends_with("_API_KEY")
            || name.starts_with("LC_")
        {
            command.env_remove(name);
        }
    }
    command.env("VIV_DATA_DIR", dir).env("LANG", "C.UTF-8").env("NO_COLOR", "1").args(args);
    command
}

/// The output and exit code of a command.
pub(crate) struct Ran {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: i32,
}

impl Ran {
    /// Everything as one text; values that differ from run to run are replaced by placeholders.
    pub(crate) fn shown(&self) -> String {
        stable(&format!("{}--- stderr\n{}--- exit {}\n", self.out, self.err, self.code))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.shown()))
    }

    pub(crate) fn error(&self) -> Value {
        serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {}", self.shown()))
    }
}

/// The JSON that a server answers to a request with that key, without the client.
pub(crate) fn get(url: &str, path: &str, key: Option<&str>) -> Value {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{key}connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {response}"))
}

/// Runs a command to its end.
pub(crate) fn run(dir: &Path, args: &[&str]) -> Ran {
    run_with(dir, args, "", &[])
}

/// Runs a command to its end, with input and environment variables.
pub(crate) fn run_with(dir: &Path, args: &[&str], input: &str, settings: &[(&str, &str)]) -> Ran {
    let mut command = viv(dir, args);
    command.envs(settings.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Ran {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap_or(-1),
    }
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) dir: TempDir,
    pub(crate) ready: Value,
}

impl Server {
    /// A new server with the demo model.
    pub(crate) fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    /// A server on a data directory that may have been used before.
    pub(crate) fn start_in(dir: TempDir) -> Self {
        Self::start_as(dir, &["--model", "demo"])
    }

    pub(crate) fn start_as(dir: TempDir, model: &[&str]) -> Self {
        Self::start_with(dir, model, &[])
    }

    /// A server with additional environment variables.
    pub(crate) fn start_with(dir: TempDir, model: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut command = viv(dir.path(), &["up", "--json", "--listen", "127.0.0.1:0"]);
        command.args(model).envs(settings.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: `{line}`"));
        Self { child, dir, ready }
    }

    pub(crate) fn url(&self) -> &str {
        self.ready["url"].as_str().unwrap()
    }

    pub(crate) fn key(&self) -> &str {
        self.ready["admin_key"].as_str().unwrap()
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        run(self.dir.path(), args)
    }

    /// Kills it, as a crash would, and returns the directory.
    pub(crate) fn kill(mut self) -> TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }

    /// Stops it; returns its exit code and the directory.
    pub(crate) fn stop(mut self) -> (i32, TempDir) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text with ids, keys, ports, times and directories replaced by placeholders.
pub(crate) fn stable(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (used, name) = if is_uuid(rest) {
            (36, "<id>")
        } else if rest.starts_with("viv_") && rest.get(4..68).is_some_and(is_hex) {
            (68, "<key>")
        } else if let Some(digits) = number_before(rest, &out, &[" ms", " s ago", " MB free"]) {
            (digits, "<n>")
        } else if out.ends_with("127.0.0.1:") {
            (rest.bytes().take_while(u8::is_ascii_digit).count().max(c.len_utf8()), "<port>")
        } else if rest.starts_with("/tmp/.tmp") {
            ("/tmp/.tmp".len() + 6, "<dir>")
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.push_str(name);
        rest = &rest[used..];
    }
    out
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_uuid(text: &str) -> bool {
    text.get(..36).is_some_and(|id| {
        id.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
    })
}

fn number_before(text: &str, before: &str, units: &[&str]) -> Option<usize> {
    if before.ends_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0 && units.iter().any(|unit| text[digits..].starts_with(unit))).then_some(digits)
}
