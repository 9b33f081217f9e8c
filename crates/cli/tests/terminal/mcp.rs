//! MCP servers from the command line: added to a server that runs, asked, approved, seen by `doctor`; and what becomes of the
//! programs of a server that is killed.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::world::{Ran, Server, run_with, viv};

const PATIENCE: Duration = Duration::from_secs(60);

/// An MCP server with one tool.
const CLOCK: &str = r#"
while read -r line; do
  id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  case $line in
    *initialize\"*) r='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"clock","version":"1"}}' ;;
    *tools/list*) r='{"tools":[{"name":"now","description":"The time here.","inputSchema":{"type":"object"}}]}' ;;
    *tools/call*) r='{"content":[{"type":"text","text":"noon"}]}' ;;
    *) continue ;;
  esac
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$r}"
done
"#;

/// A server with a settings file of its own.
struct Settings {
    dir: TempDir,
    file: PathBuf,
}

impl Settings {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("settings.toml");
        fs::write(&file, text).unwrap();
        Self { dir, file }
    }

    fn script(&self, name: &str, text: &str) -> String {
        let script = self.dir.path().join(name);
        fs::write(&script, text).unwrap();
        script.to_str().unwrap().to_owned()
    }

    fn start(self, more: &[(&str, &str)]) -> (Server, PathBuf) {
        let config = self.file.to_str().unwrap().to_owned();
        let mut settings = vec![("VIV_CONFIG", config.as_str())];
        settings.extend(more);
        (Server::start_with(self.dir, &["--model", "demo"], &settings), self.file)
    }
}

fn asked(dir: &Path, file: &Path, args: &[&str]) -> Ran {
    run_with(dir, args, "", &[("VIV_CONFIG", file.to_str().unwrap())])
}

#[test]
fn a_server_that_is_added_from_another_folder_is_in_the_settings_of_the_server_that_runs() {
    let settings = Settings::new("");
    let dir = settings.dir.path().to_owned();
    let elsewhere = tempfile::tempdir().unwrap();
    let script = elsewhere.path().join("clock.sh");
    fs::write(&script, CLOCK).unwrap();
    let script = script.to_str().unwrap();
    let (server, file) = settings.start(&[]);
    let run = |more: &[&str]| {
        let args = [more, &["mcp", "add", "clock", "--yes", "--labels", "none", "--", "sh", script]].concat();
        let output = viv(&dir, &args).current_dir(elsewhere.path()).stdin(Stdio::null()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let other = elsewhere.path().join("other.toml");
    fs::write(&other, "").unwrap();
    let (code, said) = run(&["--config", other.to_str().unwrap()]);
    assert!(code == 2 && said.contains(&format!("the server reads `{}`", file.display())), "{said}");
    let (code, said) = run(&[]);
    assert!(code == 0 && said.contains("sees no files of this machine"), "{said}");
    assert!(fs::read_to_string(&file).unwrap().contains("[mcp.clock]"));
    assert!(!elsewhere.path().join("vivarium.toml").exists(), "no stray file is written");
    assert_eq!(fs::read_to_string(&other).unwrap(), "");
    assert_eq!(server.run(&["mcp", "--json"]).json()["items"][0]["tools"], json!(["clock__now"]));
}

#[test]
fn a_server_that_is_added_is_used_at_once() {
    let settings = Settings::new("");
    let dir = settings.dir.path().to_owned();
    // Not in the data directory, which no server sees.
    let scripts = tempfile::tempdir().unwrap();
    let script = scripts.path().join("clock.sh").to_str().unwrap().to_owned();
    fs::write(&script, CLOCK).unwrap();
    let (server, file) = settings.start(&[]);
    let added =
        asked(&dir, &file, &["mcp", "add", "clock", "--yes", "--labels", "none", "--", "sh", &script]);
    assert!(added.code == 0 && added.out.contains("list `clock:*`"), "{}", added.shown());
    assert_eq!(
        server.run(&["mcp", "--json"]).json()["items"],
        json!([{"name": "clock", "tools": ["clock__now"]}])
    );
    assert!(server.run(&["tools"]).out.contains("MCP server clock"), "{}", server.run(&["tools"]).shown());
    assert_eq!(
        server.run(&["agents", "set", "ada", "tools=[\"clock:*\", \"send_message\", \"done\"]"]).code,
        0
    );
    let said = server.run(&["say", "--wait", "call clock__now"]);
    assert!(said.out.contains("noon"), "{}", said.shown());
    // Only its owner looks into its home, which lasts.
    for folder in ["mcp", "mcp/clock"] {
        assert_eq!(fs::metadata(dir.join(folder)).unwrap().permissions().mode() & 0o777, 0o700, "{folder}");
    }
    let doctor = asked(&dir, &file, &["doctor", "--model", "demo"]);
    assert!(doctor.out.contains("`clock` answers, 1 of 1 tools approved"), "{}", doctor.shown());

    // Settings that were changed by hand count when they are read again.
    let other = CLOCK.replace("The time here", "Other").replace("\"name\":\"now\"", "\"name\":\"later\"");
    fs::write(&script, other).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}timeout = \"7s\"\n")).unwrap();
    assert_eq!(server.run(&["mcp", "reload"]).code, 0);
    let doctor = asked(&dir, &file, &["doctor", "--model", "demo"]);
    assert!(doctor.out.contains("`clock` answers, 0 of 1 tools approved"), "{}", doctor.shown());
    let unconfirmed = asked(&dir, &file, &["mcp", "remove", "clock"]);
    assert!(unconfirmed.code == 2 && unconfirmed.err.contains("1 approved tool"), "{}", unconfirmed.shown());
    let before = fs::read_to_string(&file).unwrap();
    let removed = asked(&dir, &file, &["mcp", "remove", "clock", "--yes"]);
    assert_eq!(removed.code, 0, "{}", removed.shown());
    assert!(!fs::read_to_string(&file).unwrap().contains("clock"));
    assert_eq!(server.run(&["mcp", "--json"]).json()["items"], json!([]));
    assert!(!server.run(&["tools"]).out.contains("MCP server clock"));
    assert_eq!(asked(&dir, &file, &["mcp", "rm", "clock", "--yes"]).code, 4);
    fs::write(&file, before).unwrap();
    assert_eq!(server.run(&["mcp", "reload"]).code, 0);
    fs::write(&file, "[mcp.clock]\ncommand = []\n").unwrap();
    let refused = server.run(&["mcp", "reload"]);
    assert!(refused.code == 1 && refused.err.contains("wanted a program"), "{}", refused.shown());
    assert_eq!(server.run(&["mcp", "--json"]).json()["items"][0]["name"], "clock", "nothing has changed");
}

/// A named pipe; whoever holds its other end is still alive.
fn pipe(dir: &Path) -> PathBuf {
    let pipe = dir.join("alive");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    pipe
}

/// Reads the pipe: whether somebody said that it is ready, then whether everybody let it go.
fn watch(pipe: PathBuf) -> mpsc::Receiver<&'static str> {
    let (told, news) = mpsc::channel();
    std::thread::spawn(move || {
        let mut file = fs::File::open(pipe).unwrap();
        let mut ready = [0; 1];
        file.read_exact(&mut ready).unwrap();
        told.send("ready").unwrap();
        file.read_to_end(&mut Vec::new()).unwrap();
        told.send("gone")
    });
    news
}

/// Starts something that has left its session, holds the pipe and refuses to end.
fn stubborn(pipe: &Path) -> String {
    format!(
        "trap '' TERM HUP INT PIPE\nexec 3>'{}'\n(setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1000; done' &)\necho >&3\nwhile :; do sleep 1000; done\n",
        pipe.display()
    )
}

/// A tool whose request needs a secret.
const SIGNED: &str = r#"
name = "signed"
description = "x"
labels = []
http = { method = "GET", url = "http://127.0.0.1:9/", headers = { x = "{{ secret('key') }}" }, allow = ["127.0.0.1"] }
"#;

#[test]
fn no_program_outlives_a_server_that_is_killed() {
    // What a server starts, with what makes it start it. Both without a wall: that one has tests of its own.
    for (start, ask) in [
        ("[mcp.stubborn]\ncommand = [\"sh\", \"SCRIPT\"]\n", ["mcp", "try", "stubborn"].as_slice()),
        ("secret_command = \"sh SCRIPT\"\n", &["tools", "try", "signed", "{}"]),
    ] {
        let settings = Settings::new("");
        let dir = settings.dir.path().to_owned();
        let (pipe, bin) = (pipe(&dir), dir.join("bin"));
        let script = settings.script("stubborn.sh", &stubborn(&pipe));
        fs::write(&settings.file, start.replace("SCRIPT", &script)).unwrap();
        let news = watch(pipe);
        let (server, _) = settings.start(&[("PATH", &without_wall(&bin))]);
        let tool = dir.join("signed.toml");
        fs::write(&tool, SIGNED).unwrap();
        assert_eq!(server.run(&["tools", "add", tool.to_str().unwrap()]).code, 0);
        let mut asking = viv(&dir, ask);
        asking.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut asking = asking.spawn().unwrap();
        assert_eq!(news.recv_timeout(PATIENCE), Ok("ready"), "{ask:?}");
        let _dir = server.kill();
        assert_eq!(news.recv_timeout(PATIENCE), Ok("gone"), "{ask:?}: it outlived the server");
        asking.wait().unwrap();
    }
}

/// A search path without bubblewrap: the same programs, but for that one.
fn without_wall(folder: &Path) -> String {
    fs::create_dir(folder).unwrap();
    for name in ["sh", "setsid", "sleep", "sed", "env"] {
        let found =
            ["/usr/bin", "/bin"].iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists());
        std::os::unix::fs::symlink(found.unwrap(), folder.join(name)).unwrap();
    }
    folder.to_str().unwrap().to_owned()
}

#[test]
fn as_the_first_process_of_a_container_a_server_reaps_what_others_leave_behind() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = pipe(dir.path());
    // The shell leaves a child to the program that it becomes.
    let script = "(cat \"$VIV_DATA_DIR/alive\" &); exec \"$0\" up --model demo --listen 127.0.0.1:0 --json";
    let wanted = viv(dir.path(), &[]);
    let mut command = Command::new("bwrap");
    for (name, value) in wanted.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.args([
        "--dev-bind",
        "/",
        "/",
        "--unshare-pid",
        "--as-pid-1",
        "--die-with-parent",
        "--proc",
        "/proc",
    ]);
    command.args(["--", "sh", "-c", script]).arg(wanted.get_program());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let started = command.spawn();
    let mut started =
        started.expect("`bwrap` starts: install it, for instance with `apt-get install bubblewrap`");
    let mut ready = String::new();
    BufReader::new(started.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.contains("\"url\""), "{ready}");
    let server = children(started.id())[0];
    let orphans = children(server);
    assert_eq!(orphans.len(), 1, "the orphan and nothing else");
    // It ends when it has read all.
    drop(fs::OpenOptions::new().write(true).open(pipe).unwrap());
    let began = Instant::now();
    while Path::new(&format!("/proc/{}", orphans[0])).exists() {
        assert!(began.elapsed() < PATIENCE, "the orphan was never reaped");
        std::thread::yield_now();
    }
    started.kill().unwrap();
    started.wait().unwrap();
}

fn children(of: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// What the unit forbids is forbidden to MCP servers, too.
#[test]
fn the_unit_leaves_mcp_servers_and_their_wall_what_they_need() {
    let unit =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/viv.service")).unwrap();
    let value = |key: &str| {
        let lines = unit.lines().filter_map(|line| line.split_once('=')).filter(|(name, _)| *name == key);
        lines.map(|(_, value)| value).collect::<Vec<_>>().join(" ")
    };
    for (key, why) in [
        ("MemoryDenyWriteExecute", "programs in JavaScript write code and run it"),
        ("ProtectKernelTunables", "it covers parts of /proc, so that no other /proc can be mounted"),
        ("ProtectKernelLogs", "the same"),
        ("ProcSubset", "the same"),
    ] {
        assert_eq!(value(key), "", "{key}: {why}");
    }
    for (key, wanted) in [
        ("RestrictNamespaces", ["user", "pid", "mnt", "ipc"].as_slice()),
        ("SystemCallFilter", &["@system-service", "@mount", "@pkey"]),
        ("RestrictAddressFamilies", &["AF_INET", "AF_INET6", "AF_UNIX"]),
    ] {
        let value = value(key);
        let words: Vec<&str> = value.split(' ').collect();
        assert!(wanted.iter().all(|word| words.contains(word)), "{key}: {value}");
        assert!(!words.iter().any(|word| word.starts_with('~')), "{key}: {value}");
    }
}
