//! How this process divides its memory among its threads. Must not know what the memory holds.
#![allow(unsafe_code, reason = "the C library's allocator is configured by a C function")]

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

/// Other allocators keep their defaults.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn limit_arenas() {}
