//! `viv up -d`, `viv stop` and `viv logs`: a server in the background. The server of a data directory is the process
//! that holds its lock; the lock file has its process id. Must not know how a server works.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::announce;
use super::log::{self, LOG, LogReader, lines_from};
use crate::args::{Global, LogsArgs};
use crate::errors::{Exit, Failure, Result};
use crate::listen;
use crate::output::{self, Screen};
use crate::progress::Progress;
use crate::settings;

const START_WAIT: Duration = Duration::from_secs(60);
/// Maximum time for a server to stop: longer than it gives its running steps.
const STOP_WAIT: Duration = Duration::from_secs(30);
/// Time between two looks at a lock or a log.
const LOOK: Duration = Duration::from_millis(100);

/// Starts this very command again as a process in the background, and waits until it is ready.
#[expect(clippy::disallowed_methods, reason = "a server in the background is to outlive this process")]
pub(super) fn start(screen: &Screen, data_dir: &Path) -> Result<Exit> {
    if listen::is_locked(data_dir) {
        return Err(listen::in_use(data_dir));
    }
    let path = data_dir.join(LOG);
    let unusable = |error: io::Error| {
        let message = format!("cannot start a server with the log `{}`: {error}", path.display());
        Failure::new(Exit::Failed, "cannot_start", message).hint("may this user write there?")
    };
    let log = log::open(data_dir).map_err(unusable)?;
    let begin = log.metadata().map_err(unusable)?.len();
    let mut command = Command::new(std::env::current_exe().map_err(unusable)?);
    command.args(std::env::args_os().skip(1)).arg("--detached");
    if !screen.json {
        command.arg("--json");
    }
    // A group of its own: Ctrl-C in this terminal, and its end, must not reach the server.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let progress = Progress::start(screen, "waiting for the server");
    let mut child = command.spawn().map_err(unusable)?;
    let out = child.stdout.take().map(BufReader::new);
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = out.map(|mut out| out.read_line(&mut line));
        sender.send(line)
    });
    let line = receiver.recv_timeout(START_WAIT);
    drop(progress);
    let Ok(line) = line else {
        // It may have ended at this moment.
        let _ = child.kill();
        let message = format!("the server was not ready within {} s and was ended", START_WAIT.as_secs());
        return Err(
            Failure::new(Exit::TimedOut, "not_ready", message).hint("`viv logs` shows how far it came")
        );
    };
    let Ok(mut ready) = serde_json::from_str::<Value>(&line) else {
        let exit = child.wait().ok().and_then(|status| status.code());
        return Err(why_it_ended(&path, begin, exit));
    };
    ready["pid"] = json!(child.id());
    ready["log"] = json!(path);
    match ready["admin_key"].as_str() {
        _ if screen.json => screen.json_line(&ready),
        // It is shown only this once.
        Some(key) if screen.quiet => screen.line(key),
        None if screen.quiet => {}
        _ => announce::print(screen, &ready),
    }
    Ok(Exit::Answered)
}

/// The failure that a server which did not get ready has written to its log.
fn why_it_ended(log: &Path, mut begin: u64, code: Option<i32>) -> Failure {
    let lines = File::open(log).and_then(|mut log| lines_from(&mut log, &mut begin)).unwrap_or_default();
    let error = lines.iter().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let error = error.map(|mut line| line["error"].take()).unwrap_or_default();
    let part = |name: &str| error[name].as_str();
    let known = [Exit::Usage, Exit::Refused, Exit::TimedOut];
    let exit = known.into_iter().find(|exit| Some(*exit as i32) == code).unwrap_or(Exit::Failed);
    Failure::new(
        exit,
        part("code").unwrap_or("not_ready"),
        part("message").unwrap_or("the server ended at once"),
    )
    .hint(part("hint").unwrap_or("`viv logs` shows what it said"))
}

pub(crate) async fn stop(global: &Global, screen: Screen) -> Result<Exit> {
    let dir = settings::data_dir(global)?;
    let shown = dir.display();
    let Some(pid) = server(&dir).await? else {
        screen.result(&json!({"stopped": false}), &format!("no server is running on `{shown}`"));
        return Ok(Exit::Answered);
    };
    kill_process(pid, Signal::TERM).map_err(|error| {
        let message = format!("cannot stop the server on `{shown}` (process {pid}): {error}");
        Failure::new(Exit::Refused, "cannot_stop", message).hint("stop it as the user that started it")
    })?;
    let progress = Progress::start(&screen, "waiting for the server to stop");
    let stopped = tokio::time::timeout(STOP_WAIT, async {
        while listen::is_locked(&dir) {
            tokio::time::sleep(LOOK).await;
        }
    });
    let stopped = stopped.await;
    drop(progress);
    stopped.map_err(|_| {
        let message =
            format!("the server on `{shown}` (process {pid}) still stops after {} s", STOP_WAIT.as_secs());
        Failure::new(Exit::TimedOut, "still_stopping", message).hint("run `viv stop` again to end it at once")
    })?;
    screen.result(&json!({"stopped": true}), &format!("the server on `{shown}` is stopped"));
    Ok(Exit::Answered)
}

async fn server(data_dir: &Path) -> Result<Option<Pid>> {
    let lock = data_dir.join(listen::LOCK);
    let read = || {
        let text = std::fs::read_to_string(&lock).unwrap_or_default();
        listen::is_locked(data_dir).then(|| text.trim().parse().ok().and_then(Pid::from_raw))
    };
    let before = read();
    // Who takes the lock empties the file first. So what is there twice is not left from a process that died.
    tokio::time::sleep(LOOK).await;
    match (before, read()) {
        (None, _) | (_, None) => Ok(None),
        (Some(Some(pid)), Some(Some(again))) if pid == again => Ok(Some(pid)),
        _ => {
            let message = format!("`{}` is in use, but not by a server that is ready", data_dir.display());
            Err(Failure::new(Exit::Refused, "data_dir_in_use", message).hint("try again in a moment"))
        }
    }
}

pub(crate) async fn logs(global: &Global, screen: Screen, args: &LogsArgs) -> Result<Exit> {
    let dir = settings::data_dir(global)?;
    let (path, mut log) = (dir.join(LOG), LogReader::of(&dir));
    let lines = log.lines().map_err(|error| {
        let message = format!("cannot read the log `{}`: {error}", path.display());
        Failure::new(Exit::NotFound, "no_log", message)
            .hint("`viv up -d` writes one; a server in a terminal logs to standard error")
    })?;
    if lines.is_empty() && is_full(&path) {
        screen.note("the log has no lines, and its disk is full: nothing more can be written there");
    } else if lines.is_empty() {
        screen.note("the log has no lines; `VIV_LOG=info viv up -d` logs each request and each cycle");
    }
    let mut newest = &lines[lines.len().saturating_sub(args.lines as usize)..];
    let mut grown;
    loop {
        newest.iter().for_each(|line| screen.line(&screen.clean(line)));
        if !args.follow || output::is_gone() {
            return Ok(Exit::Answered);
        }
        tokio::time::sleep(LOOK).await;
        // Between two files there may be none for a moment.
        grown = log.lines().unwrap_or_default();
        newest = &grown;
    }
}

/// Whether there is no space for another line.
fn is_full(log: &Path) -> bool {
    rustix::fs::statvfs(log).is_ok_and(|disk| disk.f_bavail == 0)
}
