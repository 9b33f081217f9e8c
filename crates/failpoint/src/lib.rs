//! Named places at which a process can be made to die, and faults that it can be made to suffer: for
//! the torture harness (`e2e/`), on a build that is never shipped.
//!
//! `hit!("decide.before")` is one line at the place; `on!("signals-lost")` asks for a fault. Without
//! the feature `armed` both are nothing and `false`, and nothing here reads the environment. With it
//! one life of the process is told by two variables what befalls it:
//!
//! - `VIV_FAILPOINT=NAME[@N][+MS]`: the process aborts the Nth time (1) that it comes to the point,
//!   MS milliseconds (0) after it came there;
//! - `VIV_FAULTS=NAME,…`: these faults are on for the whole life.
//!
//! This crate must not know what stands at any point.

/// Every point, in the order in which an event passes them. The harness goes through all of them; a
/// point that is never hit fails it.
pub const POINTS: &[&str] = &[
    "migrate",
    "boot",
    "accept.before_commit",
    "accept.committed",
    "accept.signalled",
    "group.before_commit",
    "group.committed",
    "open.before",
    "open.committed",
    "stream.first_byte",
    "stream.middle",
    "stream.done",
    "decide.before",
    "decide.committed",
    "start.before",
    "start.committed",
    "tool.begins",
    "tool.running",
    "tool.done",
    "settle.before",
    "settle.committed",
    "close.before",
    "close.committed",
    "park.before",
    "park.committed",
    "view.before",
    "view.committed",
    "sent.before",
    "sent.committed",
    "arrived.before",
    "arrived.committed",
    "checkpoint.before",
    "checkpoint.done",
    "shutdown",
];

/// Every fault, and what it does.
pub const FAULTS: &[(&str, &str)] = &[
    ("answers-lost", "every third commit is answered as if the connection had dropped during it"),
    ("signals-lost", "no signal reaches the keeper"),
    ("small-log", "the write-ahead log is copied back after few frames"),
    ("power-loss", "what was not synced is lost with the process"),
    ("drain-first", "sabotage: taken events leave the inbox when a cycle opens, not when they are processed"),
    ("sync-normal", "sabotage: commits are answered before they are on disk"),
];

#[cfg(feature = "armed")]
mod armed;
#[cfg(feature = "armed")]
pub use armed::{is_on, poison, strike};

/// A place at which the process may be made to die. The argument is its name, one of [`POINTS`].
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! hit {
    ($name:expr) => {
        $crate::strike($name)
    };
}

/// A place at which the process may be made to die: nothing, in this build.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! hit {
    ($name:expr) => {};
}

/// Whether a fault of [`FAULTS`] is on.
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! on {
    ($name:expr) => {
        $crate::is_on($name)
    };
}

/// Whether a fault is on: never, in this build.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! on {
    ($name:expr) => {
        false
    };
}

/// Aborts where what is shown contains the text of `VIV_POISON`: an event that kills its process.
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! poison {
    ($shown:expr) => {
        $crate::poison(|| $shown)
    };
}

/// Where an event could kill its process: nothing, in this build.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! poison {
    ($shown:expr) => {};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_points_and_faults_are_unlike_each_other() {
        let mut names: Vec<&str> =
            POINTS.iter().copied().chain(FAULTS.iter().map(|(name, _)| *name)).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[cfg(not(feature = "armed"))]
    #[test]
    fn nothing_happens_in_a_build_that_is_shipped() {
        hit!("decide.before");
        poison!(panic!("nobody looks"));
        let lost: bool = on!("power-loss");
        assert!(!lost);
    }
}
