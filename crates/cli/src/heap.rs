//! How this process divides its memory among its threads. Knows nothing of what is kept in it.
#![allow(unsafe_code, reason = "the C library's allocator is set by a function of C")]

/// Bounds the allocator's arenas to one per core; glibc's own bound is eight.
///
/// What an arena has once taken it keeps for itself, and a server has more threads than cores. A
/// thousand subscribers weighed 3.6 to 4.0 KiB each with eight arenas per core and 2.8 with one, while
/// two threads that run at the same time still have an arena each. Whoever sets `MALLOC_ARENA_MAX`
/// is left alone. To be called before the first thread is made: an arena that exists stays.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn settle() {
    if std::env::var_os("MALLOC_ARENA_MAX").is_some() {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let arenas = libc::c_int::try_from(cores).unwrap_or(libc::c_int::MAX).max(2);
    // SAFETY: `mallopt` takes two numbers and touches no memory of ours. It answers 0 where it does
    // not know the setting, and then all is as it was.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
}

/// Other allocators divide as they like.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn settle() {}
