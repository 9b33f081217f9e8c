//! Named points at which a process can be made to die, and faults that can be switched on: for the
//! torture harness (`e2e/`), in a build that is never shipped.
//!
//! `hit!("decide.before")` marks a point; `on!("signals-lost")` returns whether a fault is on. Without
//! the feature `armed` they compile to nothing and to `false`, and this crate does not read the
//! environment. With it, two variables choose what happens to the process:
//!
//! - `VIV_FAILPOINT=NAME[@N][+MS]`: the process aborts when it reaches the point for the Nth time
//!   (default 1), after a delay of MS milliseconds (default 0);
//! - `VIV_FAULTS=NAME,…`: these faults are on as long as the process runs.
//!
//! This crate must not know what happens at any point.

/// Every point, in the order in which an event passes them. The harness goes through all of them and
/// fails if a point is never hit.
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
    "summary.asked",
    "summary.replied",
    "decide.before",
    "decide.committed",
    "start.before",
    "start.committed",
    "tool.begins",
    "tool.running",
    "tool.done",
    "worker.claimed",
    "worker.answered",
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
    "firing.before",
    "firing.committed",
    "answer.before",
    "answer.committed",
    "shutdown",
];

/// Every fault and its effect.
pub const FAULTS: &[(&str, &str)] = &[
    ("answers-lost", "every third commit is answered as if the connection had dropped during it"),
    ("signals-lost", "no signal reaches the keeper"),
    ("small-log", "the write-ahead log is copied back after a few frames"),
    ("power-loss", "data that was not synced is lost when the process dies"),
    ("drain-first", "sabotage: taken events leave the inbox when a cycle opens, not when they are processed"),
    ("sync-normal", "sabotage: commits are answered before they are on disk"),
];

#[cfg(feature = "armed")]
mod armed;
#[cfg(feature = "armed")]
pub use armed::{is_on, poison, reach};

/// A point at which the process can be made to die. The argument is its name, one of [`POINTS`].
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! hit {
    ($name:expr) => {
        $crate::reach($name)
    };
}

/// A point at which the process can be made to die. Expands to nothing in this build.
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

/// Whether a fault is on. Always `false` in this build.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! on {
    ($name:expr) => {
        false
    };
}

/// Aborts if the shown text contains the text of `VIV_POISON`. This simulates an event that kills the process.
#[cfg(feature = "armed")]
#[macro_export]
macro_rules! poison {
    ($shown:expr) => {
        $crate::poison(|| $shown)
    };
}

/// A point at which an event can kill the process. Expands to nothing in this build.
#[cfg(not(feature = "armed"))]
#[macro_export]
macro_rules! poison {
    ($shown:expr) => {};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_used_for_two_points_or_faults() {
        let mut names: Vec<&str> =
            POINTS.iter().copied().chain(FAULTS.iter().map(|(name, _)| *name)).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[cfg(not(feature = "armed"))]
    #[test]
    fn without_the_feature_points_and_faults_do_nothing() {
        hit!("decide.before");
        poison!(panic!("never evaluated"));
        let lost: bool = on!("power-loss");
        assert!(!lost);
    }
}
