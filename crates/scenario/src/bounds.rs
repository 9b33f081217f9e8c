//! Bounds of scenario files: what a person may write, and how long a world may take.

use std::time::Duration;

/// One file.
pub const FILE_MAX_BYTES: usize = 256 * 1024;
/// Values of one file.
pub(crate) const NODES_MAX: usize = 50_000;
/// Nesting of one file.
pub(crate) const DEPTH_MAX: usize = 40;
/// Flaws told of one file; the rest are told once these are mended.
pub(crate) const FLAWS_MAX: usize = 20;
/// Characters of what was written that an error shows.
pub(crate) const SHOWN_CHARS: usize = 80;
/// People, agents or spaces of one world, each.
pub(crate) const CAST_MAX: usize = 100;
/// Happenings of one story, or expectations of one file.
pub(crate) const LINES_MAX: usize = 1_000;
/// The latest time that may be named, and the longest pause.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(30 * 86_400);
/// A simulated world comes to rest within this time or never.
pub(crate) const REST_MAX: Duration = Duration::from_secs(3_600);
/// Connections to a model that fail one after the other before a story in real time is broken off.
pub(crate) const UNREACHABLE_MAX: u32 = 2;
/// A model that says nothing for so long is told of where a story does not come to its end.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);
/// Pages of one list that is looked at in the end.
pub(crate) const PAGES_MAX: usize = 100;
