//! The process between a child and the process that wanted it. It adopts all that the child starts, and ends it as soon as
//! the child has ended, or whoever wanted it.
//!
//! A signal at the death of a parent would not do: it is sent when a *thread* ends, it reaches no grandchildren, and a
//! program may refuse it.

use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, pidfd_open,
    set_child_subreaper, wait,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::orphans::children;

/// The first argument of a holder; the next ones are the process that wanted it, the program and its arguments.
pub(super) const HELD_BY: &str = "held-by";
/// As a shell says that a program was ended by a signal.
pub(super) const SIGNAL_EXIT: i32 = 128;
/// As a shell says that there is no such program.
const NOT_STARTED: i32 = 127;
/// Between two looks, where the kernel cannot tell of an end.
const LOOK: Duration = Duration::from_millis(200);
/// Between two rounds against programs that start others while they are ended, and how many rounds there are.
const ROUND: Duration = Duration::from_millis(10);
const ROUNDS: u32 = 500;

/// Holds a child, if this program was started for that: returns how the child ended. To be called before anything else.
pub fn hold_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != HELD_BY {
        return None;
    }
    let parent = arguments.next().and_then(|number| Pid::from_raw(number.to_str()?.parse().ok()?));
    let command: Vec<OsString> = arguments.collect();
    let held = match (parent, command.split_first()) {
        (Some(parent), Some((program, arguments))) => hold(parent, program, arguments),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    let code = held.unwrap_or(NOT_STARTED);
    Some(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

fn hold(parent: Pid, program: &OsString, arguments: &[OsString]) -> io::Result<i32> {
    set_child_subreaper(Some(getpid()))?;
    // Whoever ends processes by the name of this program means others.
    let _ = rustix::thread::set_name(c"child-holder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stops = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
            .into_iter()
            .map(signal)
            .collect::<io::Result<Vec<_>>>()?;
        let mut changes = signal(SignalKind::child())?;
        let gone = Arc::new(Notify::new());
        tell_end(parent, Arc::clone(&gone))?;
        #[expect(clippy::disallowed_methods, reason = "this is what holds a child")]
        let child = Command::new(program).args(arguments).spawn()?;
        let child = Pid::from_child(&child);
        let_go();
        let status = loop {
            if let Some(status) = reap(child) {
                break Some(status);
            }
            let stop = std::future::poll_fn(|context| {
                let is_stopped = stops.iter_mut().any(|stop| stop.poll_recv(context).is_ready());
                if is_stopped { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            });
            tokio::select! {
                biased;
                () = stop => break None,
                () = gone.notified() => break None,
                _ = changes.recv() => {}
            }
        };
        end_all().await;
        let signal = |status: WaitStatus| status.terminating_signal().map(|signal| SIGNAL_EXIT + signal);
        Ok(status.and_then(|status| status.exit_status().or_else(|| signal(status))).unwrap_or(SIGNAL_EXIT))
    })
}

/// Forgets the ends of the child's pipes: while they are open here nobody notices that the child has closed them.
fn let_go() {
    if let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Reaps whatever has ended, orphans that were adopted, too. Returns how the child ended, if it did.
fn reap(child: Pid) -> Option<WaitStatus> {
    let mut status = None;
    while let Ok(Some((ended, how))) = wait(WaitOptions::NOHANG) {
        if ended == child {
            status = Some(how);
        }
    }
    status
}

/// Ends every process that was started here. Each one that ends leaves its own children to this process.
async fn end_all() {
    for _ in 0..ROUNDS {
        for child in children(getpid()) {
            // It fails only if it has ended, or is another user's by now.
            let _ = kill_process(child.id, Signal::KILL);
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                // Nobody is left.
                Err(_) => return,
            }
        }
        sleep(ROUND).await;
    }
}

/// Tells of the end of a parent. An error if it has ended already.
fn tell_end(parent: Pid, end: Arc<Notify>) -> io::Result<()> {
    let process = pidfd_open(parent, PidfdFlags::empty());
    // Only now it is certain whose number that is.
    if getppid() != Some(parent) {
        return Err(io::ErrorKind::NotConnected.into());
    }
    std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
        if let Ok(process) = &process {
            // It can be read once the process has ended.
            while poll(&mut [PollFd::new(process, PollFlags::IN)], None) == Err(Errno::INTR) {}
        }
        // Also where the kernel cannot tell of an end.
        while getppid() == Some(parent) {
            std::thread::sleep(LOOK);
        }
        end.notify_one();
    })?;
    Ok(())
}
