//! A child as whoever wants it has it: a command that is held, the child, how it ended.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal};
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use super::holder::{HELD_BY, SIGNAL_EXIT};
use super::orphans;
use super::wall::search_path;

/// This program, also if its file was replaced since.
const SELF: &str = "/proc/self/exe";

/// The program that holds children: one whose `main` begins with [`super::hold_if_asked`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder(PathBuf);

impl Default for Holder {
    fn default() -> Self {
        Self(SELF.into())
    }
}

impl Holder {
    /// Another program than this one.
    pub fn of(program: impl Into<PathBuf>) -> Self {
        Self(program.into())
    }

    /// A command that runs this program held. An error if there is no such program.
    pub fn command(&self, program: impl AsRef<OsStr>) -> io::Result<HeldCommand> {
        let program = program.as_ref();
        if find(Path::new(program)).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut command = Command::new(&self.0);
        command.arg(HELD_BY).arg(getpid().as_raw_pid().to_string()).arg(program);
        Ok(HeldCommand(command))
    }
}

/// The file of a program, as a shell would find it.
pub(super) fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 || program.is_absolute() {
        return program.exists().then(|| program.to_owned());
    }
    std::env::split_paths(&search_path()).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// What is to be started. Its builder is that of an ordinary command; it is started only here.
pub struct HeldCommand(Command);

impl HeldCommand {
    /// Starts it.
    #[expect(clippy::disallowed_methods, reason = "a holder is the only child of this process")]
    pub fn spawn(&mut self) -> io::Result<HeldChild> {
        let mut own = orphans::own();
        let mut child = self.0.spawn()?;
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let id = id.ok_or(io::ErrorKind::NotFound)?;
        own.insert(id.as_raw_pid());
        drop(own);
        let process = pidfd_open(id, PidfdFlags::empty()).ok();
        let ends = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (told, ended) = watch::channel(None);
        tokio::spawn(async move {
            let status = child.wait().await;
            orphans::own().remove(&id.as_raw_pid());
            told.send_replace(Some(status.map_or(Ended::Exited(-1), Ended::of)))
        });
        Ok(HeldChild { id, process, stdin: ends.0, stdout: ends.1, stderr: ends.2, ended })
    }

    /// Runs it to its end, and reads what it prints, at most so many bytes. Dropping the future ends it.
    pub async fn printed(&mut self, most: u64) -> io::Result<Output> {
        self.0.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = self.spawn()?;
        let mut text = Vec::new();
        if let Some(out) = child.stdout.take() {
            out.take(most).read_to_end(&mut text).await?;
        }
        Ok(Output { ended: child.ended().await, text })
    }
}

impl Deref for HeldCommand {
    type Target = Command;

    fn deref(&self) -> &Command {
        &self.0
    }
}

impl DerefMut for HeldCommand {
    fn deref_mut(&mut self) -> &mut Command {
        &mut self.0
    }
}

/// What a program printed.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub ended: Ended,
    /// Its standard output.
    pub text: Vec<u8>,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "it ended with status {code}"),
            Self::Signaled(signal) => write!(f, "it was ended by signal {signal}"),
        }
    }
}

impl Ended {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) if code > SIGNAL_EXIT => Self::Signaled(code - SIGNAL_EXIT),
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Signaled(signal.unwrap_or_default()),
        }
    }
}

/// A child. Dropping it ends it and all that it started.
pub struct HeldChild {
    /// Of the holder.
    id: Pid,
    /// The same, for ever: a number may become another process's.
    process: Option<OwnedFd>,
    /// The end of its standard input, if it is a pipe.
    pub stdin: Option<ChildStdin>,
    /// The end of its standard output, if it is a pipe.
    pub stdout: Option<ChildStdout>,
    /// The end of its standard error, if it is a pipe.
    pub stderr: Option<ChildStderr>,
    ended: watch::Receiver<Option<Ended>>,
}

impl HeldChild {
    /// Ends it and all that it started.
    pub fn end(&self) {
        // It fails only if it has ended.
        let _ = match &self.process {
            Some(process) => pidfd_send_signal(process, Signal::TERM),
            None if self.look().is_none() => kill_process(self.id, Signal::TERM),
            None => Ok(()),
        };
    }

    /// Waits for its end.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| *ended);
        // Nothing tells of it while this process ends itself.
        ended.unwrap_or(Ended::Exited(-1))
    }

    /// How it ended, if it did.
    pub fn look(&self) -> Option<Ended> {
        *self.ended.borrow()
    }
}

impl Drop for HeldChild {
    fn drop(&mut self) {
        self.end();
    }
}
