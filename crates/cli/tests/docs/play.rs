//! Plays a page: a scratch directory, the built binary on the path, its blocks in order. Knows no
//! page by name.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::page::{Manner, Step, steps};
use crate::{root, shown};

/// What a server of a reader listens on; each played page has one of its own.
const USUAL: &str = "127.0.0.1:7878";
/// How long a block may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a server prints when it serves, with its address behind it.
const READY: &str = "is up at http://";

/// Plays the page of that path below the repository's top.
pub(crate) fn play(path: &str) {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    let mut reader = Reader::new(path);
    for step in steps(&text) {
        reader.follow(&step);
    }
}

/// Somebody who does what the page says.
struct Reader {
    page: String,
    dir: TempDir,
    servers: Vec<Child>,
    /// What the last server says after its announcement.
    said: Option<mpsc::Receiver<String>>,
    address: String,
}

impl Reader {
    fn new(page: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let address = USUAL.to_owned();
        Self { page: page.to_owned(), dir, servers: Vec::new(), said: None, address }
    }

    fn follow(&mut self, step: &Step) {
        let place = format!("{}:{}", self.page, step.line);
        if let Some(file) = &step.file {
            let path = self.place().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, &step.commands).unwrap();
            return self.wait_for_the_server(&place, file);
        }
        let said = match step.manner {
            Manner::Runs => self.run(&place, step, 0),
            Manner::Fails(code) => self.run(&place, step, code),
            Manner::Follows => self.watch(&place, step),
            Manner::Background => self.start(&place, step),
            Manner::Kills => return self.kill_servers(),
            Manner::Elsewhere => return only_what_the_check_runs(&place, step),
        };
        let said = said.replace(&self.address, USUAL);
        if let Some(wanted) = &step.output {
            assert!(
                shown::fits(wanted, &said),
                "{place}: the page shows another output\n--- page\n{wanted}--- now\n{said}"
            );
        }
    }

    /// Bash in the reader's directory; what a block sets and where it goes is kept for the next one.
    fn bash(&self, commands: &str) -> Command {
        let home = self.dir.path();
        let project = home.join("project");
        std::fs::create_dir_all(&project).unwrap();
        // A refusal is no success, though `curl` alone says so.
        let mut script = String::from(
            "set -euo pipefail -o allexport\ncurl() { command curl --fail-with-body \"$@\"; }\n",
        );
        let state = home.join("state");
        if state.exists() {
            let _ = writeln!(script, "source {0}/state\ncd \"$(cat {0}/place)\"", home.display());
        }
        let keep = format!("code=$?; export -p >{0}/state; pwd >{0}/place; exit $code", home.display());
        let _ = writeln!(script, "trap '{keep}' EXIT\n{}", self.as_played(commands));
        let mut bash = Command::new("bash");
        for (name, _) in std::env::vars() {
            if name.starts_with("VIV_")
                || name.starts_with("USER")
                || name == "LOGNAME"
                || name.ends_with("_API_KEY")
                || name.starts_with("LC_")
            {
                bash.env_remove(name);
            }
        }
        let viv = Path::new(env!("CARGO_BIN_EXE_viv")).parent().unwrap();
        let path = std::env::join_paths(
            std::iter::once(viv.to_owned())
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        );
        bash.args(["-c", &script]).current_dir(project).env("PATH", path.unwrap());
        bash.env("LANG", "C.UTF-8").env("HOME", home).process_group_of_its_own();
        bash.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        bash
    }

    /// The commands on a port of this page's own, with no model that happens to be on this machine.
    fn as_played(&self, commands: &str) -> String {
        let mut played = String::new();
        for line in commands.lines() {
            let line = match line.strip_prefix("make run") {
                Some(rest) => format!("viv up{rest}"),
                None => line.replace("make chat", "viv chat"),
            };
            let model = if line.contains("--model") { "" } else { " --model demo" };
            let line = line.replace("viv up", &format!("viv up --listen 127.0.0.1:0{model}"));
            let _ = writeln!(played, "{}", line.replace(USUAL, &self.address));
        }
        played
    }

    /// A running server tells that it has read an agent's file; a reader sees that before going on.
    fn wait_for_the_server(&self, place: &str, file: &str) {
        let Some(said) = self.said.as_ref().filter(|_| file.starts_with("agents/")) else { return };
        let told = |line: String| line.contains(file);
        while let Ok(line) = said.recv_timeout(PATIENCE) {
            if told(line) {
                return;
            }
        }
        panic!("{place}: the server says nothing of `{file}`");
    }

    /// Where the reader is.
    fn place(&self) -> PathBuf {
        let kept = std::fs::read_to_string(self.dir.path().join("place"));
        kept.map_or_else(|_| self.dir.path().join("project"), |place| PathBuf::from(place.trim_end()))
    }

    fn run(&self, place: &str, step: &Step, code: i32) -> String {
        let mut child = self.bash(&step.commands).spawn().unwrap();
        let (out, err) = (drain(child.stdout.take().unwrap()), drain(child.stderr.take().unwrap()));
        let out = out.recv_timeout(PATIENCE);
        if out.is_err() {
            end(&mut child, Signal::KILL);
        }
        let (out, err) =
            (out.unwrap_or_else(|_| "(it did not end)".into()), err.recv_timeout(PATIENCE).unwrap());
        let ended = child.wait().unwrap().code();
        assert_eq!(ended, Some(code), "{place}: `{}`\n{out}{err}", step.commands.trim_end());
        out + &err
    }

    fn watch(&self, place: &str, step: &Step) -> String {
        let mut child = self.bash(&step.commands).spawn().unwrap();
        let (to, lines) = mpsc::channel();
        read_lines(child.stdout.take().unwrap(), to);
        let first = lines.recv_timeout(PATIENCE);
        end(&mut child, Signal::TERM);
        child.wait().unwrap();
        first.unwrap_or_else(|_| panic!("{place}: `{}` shows nothing", step.commands.trim_end()))
    }

    fn start(&mut self, place: &str, step: &Step) -> String {
        let mut child = self.bash(&step.commands).spawn().unwrap();
        let (to, lines) = mpsc::channel();
        read_lines(child.stdout.take().unwrap(), to.clone());
        read_lines(child.stderr.take().unwrap(), to);
        let mut said = String::new();
        let address = loop {
            let Ok(line) = lines.recv_timeout(PATIENCE) else {
                end(&mut child, Signal::KILL);
                panic!("{place}: `{}` does not serve\n{said}", step.commands.trim_end());
            };
            let _ = writeln!(said, "{line}");
            if let Some((_, address)) = line.split_once(READY) {
                break address.trim().to_owned();
            }
        };
        self.servers.push(child);
        self.address = address;
        // What follows is printed at once, up to the last line of the announcement.
        while let Ok(line) = lines.recv_timeout(Duration::from_millis(300)) {
            let _ = writeln!(said, "{line}");
        }
        self.said = Some(lines);
        said
    }

    fn kill_servers(&mut self) {
        self.said = None;
        for mut server in self.servers.drain(..) {
            end(&mut server, Signal::KILL);
            server.wait().unwrap();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.kill_servers();
    }
}

fn only_what_the_check_runs(place: &str, step: &Step) {
    for line in step.commands.lines().filter(|line| !line.trim().is_empty()) {
        let known = ["make ", "git clone ", "cd "].iter().any(|start| line.starts_with(start));
        assert!(known, "{place}: `{line}` is run by nobody");
    }
}

/// Reads all of it beside the test.
fn drain(mut from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (to, all) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read until the other side was ended is all there is.
        let _ = from.read_to_end(&mut bytes);
        to.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    all
}

/// ToolContext on its lines as they come.
fn read_lines(from: impl Read + Send + 'static, to: mpsc::Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            // Read to the end even when the reader of the output is gone.
            let _ = to.send(line);
        }
    });
}

fn end(child: &mut Child, signal: Signal) {
    // It may have ended by itself, which is as well.
    let _ = kill_process_group(Pid::from_child(child), signal);
}

trait OwnGroup {
    fn process_group_of_its_own(&mut self) -> &mut Self;
}

impl OwnGroup for Command {
    fn process_group_of_its_own(&mut self) -> &mut Self {
        std::os::unix::process::CommandExt::process_group(self, 0)
    }
}
