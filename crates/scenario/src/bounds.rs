//! Limits of scenario files: their size, and how long a world may take.

use std::time::Duration;

/// Bytes of one file.
pub const FILE_MAX_BYTES: usize = 4 * 1024 * 1024;
/// YAML values in one file.
pub(crate) const NODES_MAX: usize = 500_000;
/// Nesting depth of one file.
pub(crate) const DEPTH_MAX: usize = 40;
/// Flaws reported for one file; the others are reported after these are fixed.
pub(crate) const FLAWS_MAX: usize = 20;
/// Characters of the file's text that an error shows.
pub(crate) const SHOWN_CHARS: usize = 80;
/// People, agents and spaces of one world, each.
pub(crate) const CAST_MAX: usize = 100;
/// Events of one story, or expectations of one file.
pub const LINES_MAX: usize = 1_000;
/// The latest time in a story, and the longest pause.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(30 * 86_400);
/// A simulated world that is not idle within this time is considered stuck.
pub(crate) const REST_MAX: Duration = Duration::from_secs(3_600);
/// Successive failed connections to a model after which a story in real time is aborted.
pub(crate) const UNREACHABLE_MAX: u32 = 2;
/// A model that has been silent for this long is mentioned if a story does not end.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);
/// Pages of one list that are read at the end.
pub(crate) const PAGES_MAX: usize = 100;
