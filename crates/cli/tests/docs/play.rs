//! Runs a page: in a scratch directory, with the built binary on the path, its blocks in order. Must not
//! know the pages by name.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::page::{BlockKind, Step, steps};
use crate::{root, shown};

/// The server's usual address; while a page is run, its server uses another.
const DEFAULT_ADDRESS: &str = "127.0.0.1:7878";
/// How long a block may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What a server prints when it is ready, followed by its address.
const READY: &str = "is up at http://";

/// Runs the page with this path.
pub(crate) fn play(path: &str) {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    let mut reader = Reader::new(path);
    for step in steps(&text) {
        reader.follow(&step);
    }
}

/// A reader who does what the page says.
struct Reader {
    page: String,
    dir: TempDir,
    servers: Vec<Child>,
    /// The last server's output after its announcement.
    output: Option<mpsc::Receiver<String>>,
    address: String,
}

impl Reader {
    fn new(page: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let address = DEFAULT_ADDRESS.to_owned();
        Self { page: page.to_owned(), dir, servers: Vec::new(), output: None, address }
    }

    fn follow(&mut self, step: &Step) {
        let position = format!("{}:{}", self.page, step.line);
        if let Some(file) = &step.file {
            let path = self.current_dir().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, &step.commands).unwrap();
            return self.wait_for_the_server(&position, file);
        }
        let output = match step.kind {
            BlockKind::Runs => self.run(&position, step, 0),
            BlockKind::Fails(code) => self.run(&position, step, code),
            BlockKind::Follows => self.watch(&position, step),
            BlockKind::Background => self.start(&position, step),
            BlockKind::Kills => return self.kill_servers(),
            BlockKind::Elsewhere => return check_elsewhere(&position, step),
        };
        let output = output.replace(&self.address, DEFAULT_ADDRESS);
        if let Some(wanted) = &step.output {
            assert!(
                shown::fits(wanted, &output),
                "{position}: the page shows a different output\n--- page\n{wanted}--- now\n{output}"
            );
        }
    }

    /// Bash in the reader's directory; variables and the current directory are kept for the next block.
    fn bash(&self, commands: &str) -> Command {
        let home = self.dir.path();
        let project = home.join("project");
        std::fs::create_dir_all(&project).unwrap();
        // `curl` must fail for an error status.
        let mut script = String::from(
            "set -euo pipefail -o allexport\ncurl() { command curl --fail-with-body \"$@\"; }\n",
        );
        let state = home.join("state");
        if state.exists() {
            let _ = writeln!(script, "source {0}/state\ncd \"$(cat {0}/place)\"", home.display());
        }
        let keep = format!("code=$?; export -p >{0}/state; pwd >{0}/place; exit $code", home.display());
        let _ = writeln!(script, "trap '{keep}' EXIT\n{}", self.adapted(commands));
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
        bash.env("LANG", "C.UTF-8").env("HOME", home).own_process_group();
        bash.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        bash
    }

    /// The commands with the port of this page's server, and without a model found on this machine.
    fn adapted(&self, commands: &str) -> String {
        let mut played = String::new();
        for line in commands.lines() {
            let line = match line.strip_prefix("make run") {
                Some(rest) => format!("viv up{rest}"),
                None => line.replace("make chat", "viv chat"),
            };
            let model = if line.contains("--model") { "" } else { " --model demo" };
            let line = line.replace("viv up", &format!("viv up --listen 127.0.0.1:0{model}"));
            let _ = writeln!(played, "{}", line.replace(DEFAULT_ADDRESS, &self.address));
        }
        played
    }

    /// Waits until the server reports that it has read an agent's file, as a reader would.
    fn wait_for_the_server(&self, position: &str, file: &str) {
        let Some(output) = self.output.as_ref().filter(|_| file.starts_with("agents/")) else { return };
        let names_file = |line: String| line.contains(file);
        while let Ok(line) = output.recv_timeout(TIMEOUT) {
            if names_file(line) {
                return;
            }
        }
        panic!("{position}: the server does not report `{file}`");
    }

    /// The reader's current directory.
    fn current_dir(&self) -> PathBuf {
        let kept = std::fs::read_to_string(self.dir.path().join("place"));
        kept.map_or_else(|_| self.dir.path().join("project"), |place| PathBuf::from(place.trim_end()))
    }

    fn run(&self, position: &str, step: &Step, code: i32) -> String {
        let mut child = self.bash(&step.commands).spawn().unwrap();
        let (out, err) = (drain(child.stdout.take().unwrap()), drain(child.stderr.take().unwrap()));
        let out = out.recv_timeout(TIMEOUT);
        if out.is_err() {
            end(&mut child, Signal::KILL);
        }
        let (out, err) =
            (out.unwrap_or_else(|_| "(it did not end)".into()), err.recv_timeout(TIMEOUT).unwrap());
        let ended = child.wait().unwrap().code();
        assert_eq!(ended, Some(code), "{position}: `{}`\n{out}{err}", step.commands.trim_end());
        out + &err
    }

    fn watch(&self, position: &str, step: &Step) -> String {
        let mut child = self.bash(&step.commands).spawn().unwrap();
        let (to, lines) = mpsc::channel();
        read_lines(child.stdout.take().unwrap(), to);
        let first = lines.recv_timeout(TIMEOUT);
        end(&mut child, Signal::TERM);
        child.wait().unwrap();
        first.unwrap_or_else(|_| panic!("{position}: `{}` prints nothing", step.commands.trim_end()))
    }

    fn start(&mut self, position: &str, step: &Step) -> String {
        let mut child = self.bash(&step.commands).spawn().unwrap();
        let (to, lines) = mpsc::channel();
        read_lines(child.stdout.take().unwrap(), to.clone());
        read_lines(child.stderr.take().unwrap(), to);
        let mut output = String::new();
        let address = loop {
            let Ok(line) = lines.recv_timeout(TIMEOUT) else {
                end(&mut child, Signal::KILL);
                panic!("{position}: `{}` does not serve\n{output}", step.commands.trim_end());
            };
            let _ = writeln!(output, "{line}");
            if let Some((_, address)) = line.split_once(READY) {
                break address.trim().to_owned();
            }
        };
        self.servers.push(child);
        self.address = address;
        // The rest of the announcement follows at once.
        while let Ok(line) = lines.recv_timeout(Duration::from_millis(300)) {
            let _ = writeln!(output, "{line}");
        }
        self.output = Some(lines);
        output
    }

    fn kill_servers(&mut self) {
        self.output = None;
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

fn check_elsewhere(position: &str, step: &Step) {
    for line in step.commands.lines().filter(|line| !line.trim().is_empty()) {
        let known = ["make ", "git clone ", "cd "].iter().any(|start| line.starts_with(start));
        assert!(known, "{position}: `{line}` is never run");
    }
}

/// Reads everything in a thread.
fn drain(mut from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (to, all) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Whatever could be read before the other side was ended is everything.
        let _ = from.read_to_end(&mut bytes);
        to.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    all
}

/// Passes lines on as they arrive.
fn read_lines(from: impl Read + Send + 'static, to: mpsc::Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            // Reads to the end even if the receiver is gone.
            let _ = to.send(line);
        }
    });
}

fn end(child: &mut Child, signal: Signal) {
    // It may already have ended.
    let _ = kill_process_group(Pid::from_child(child), signal);
}

trait OwnGroup {
    fn own_process_group(&mut self) -> &mut Self;
}

impl OwnGroup for Command {
    fn own_process_group(&mut self) -> &mut Self {
        std::os::unix::process::CommandExt::process_group(self, 0)
    }
}
