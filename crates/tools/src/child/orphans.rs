//! Children that nobody waits for: the first process of a container gets those of all others there, and has to reap them.
//! Must not take the end of a child from whoever waits for it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

/// After each look: many that end at once are one look.
const PAUSE: Duration = Duration::from_millis(200);

/// The children that this process has started and waits for.
static OWN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// A process as `/proc` shows it.
pub(super) struct Child {
    pub(super) id: Pid,
    is_over: bool,
}

/// The children of a process. None where `/proc` is not there.
pub(super) fn children(of: Pid) -> Vec<Child> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let child = |name: &str| {
        let id = Pid::from_raw(name.parse().ok()?)?;
        let stat = std::fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
        // The name of the program stands in brackets, and may have brackets itself.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let is_over = fields.next()? == "Z";
        let parent: i32 = fields.next()?.parse().ok()?;
        (parent == of.as_raw_pid()).then_some(Child { id, is_over })
    };
    entries.filter_map(|entry| child(entry.file_name().to_str()?)).collect()
}

/// Those that this process waits for; while it is locked none begins.
pub(super) fn own() -> MutexGuard<'static, BTreeSet<i32>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// If this is the first process of a container, reaps what others there leave to it. Never ends.
pub async fn reap_orphans() {
    let Ok(mut changes) = signal(SignalKind::child()) else { return std::future::pending().await };
    if getpid().as_raw_pid() != 1 {
        return std::future::pending().await;
    }
    loop {
        {
            let own = own();
            for child in children(getpid()) {
                if child.is_over && !own.contains(&child.id.as_raw_pid()) {
                    let _ = waitpid(Some(child.id), WaitOptions::NOHANG);
                }
            }
        }
        sleep(PAUSE).await;
        changes.recv().await;
    }
}
