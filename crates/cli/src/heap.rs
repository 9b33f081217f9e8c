//! How this process divides its memory among its threads, and gives back what it no longer needs. Must not know what the memory
//! holds.
#![allow(unsafe_code, reason = "the C library's allocator is configured and asked by C functions")]

use std::time::Duration;

/// How often a server looks how much memory it uses.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// By how many bytes that must have fallen before what is free is given back: it may be needed again at once.
const FALLEN: usize = 4 * 1024 * 1024;

/// Limits the allocator's arenas to one per core; glibc's own limit is eight.
///
/// An arena keeps the memory that it once took, and a server has more threads than cores. A thousand
/// subscribers took 3.6 to 4.0 KiB each with eight arenas per core and 2.8 with one, while two threads that
/// run at the same time still have an arena each. If `MALLOC_ARENA_MAX` is set, changes nothing. Call it
/// before the first thread is created: an existing arena stays.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn limit_arenas() {
    if std::env::var_os("MALLOC_ARENA_MAX").is_some() {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let arenas = libc::c_int::try_from(cores).unwrap_or(libc::c_int::MAX).max(2);
    // SAFETY: `mallopt` takes two numbers and touches none of our memory. It returns 0 if it does not know
    // the setting, and then changes nothing.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
}

/// Gives unused memory back to the operating system now and again, for as long as the server runs: glibc itself keeps what lies
/// below anything still in use. A start leaves several megabytes, five hundred watchers that are gone leave thirty.
pub(crate) async fn keep_small() {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    // The most that was used since it was last given back; a start has used more than what it leaves.
    let mut most = usize::MAX;
    loop {
        looks.tick().await;
        let used = in_use();
        if most.saturating_sub(used) > FALLEN {
            give_back();
            most = used;
        }
        most = most.max(used);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn in_use() -> usize {
    // SAFETY: it takes nothing and returns numbers about the arenas.
    unsafe { libc::mallinfo2() }.uordblks
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn give_back() {
    // SAFETY: it takes a number, and returns to the system only pages on which nothing lives.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn in_use() -> usize {
    0
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back() {}

/// Other allocators keep their defaults.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn limit_arenas() {}
