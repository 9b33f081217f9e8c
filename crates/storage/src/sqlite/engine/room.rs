//! Room for the index of a log, which SQLite maps into memory: on a full disk a write to a page of it that has no block ends the
//! process. SQLite writes one byte into each 4 KiB, which reserves too little where blocks are smaller.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The index of a log of half a gigabyte; the log is copied back long before.
#[cfg(target_os = "linux")]
pub(crate) const LOG_INDEX_BYTES: u64 = 1 << 20;
/// What the index of a log has when it is opened, twice: something else may be written in that moment.
const FIRST_BYTES: u64 = 2 * 32 * 1024;

/// Fails if the disk has no room for the index of a file's log, before SQLite maps it. One that has its blocks keeps them.
pub(crate) fn require_room(file: &Path) -> io::Result<()> {
    if has_blocks(&beside(file, "-shm")) { Ok(()) } else { try_room(&beside(file, ".room"), FIRST_BYTES) }
}

/// Reserves the room of the index of a log that is open. Returns it, to be closed after all connections: closing it drops
/// their locks. Without success it stays as SQLite has made it.
#[cfg(target_os = "linux")]
pub(crate) fn reserve_room(file: &Path) -> Option<File> {
    let index = File::options().read(true).write(true).open(beside(file, "-shm")).ok()?;
    let _ = rustix::fs::fallocate(&index, rustix::fs::FallocateFlags::empty(), 0, LOG_INDEX_BYTES);
    Some(index)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn reserve_room(_: &Path) -> Option<File> {
    None
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(target_os = "linux")]
fn has_blocks(index: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(index).is_ok_and(|found| found.blocks() * 512 >= FIRST_BYTES / 2)
}

#[cfg(not(target_os = "linux"))]
fn has_blocks(_: &Path) -> bool {
    true
}

/// Takes that much of the disk and gives it back. What cannot be tried, as in a folder that is read-only, is no failure.
#[cfg(target_os = "linux")]
fn try_room(at: &Path, bytes: u64) -> io::Result<()> {
    let Ok(file) = File::create(at) else { return Ok(()) };
    let tried = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes);
    drop(file);
    std::fs::remove_file(at)?;
    match tried.map_err(io::Error::from) {
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn try_room(_: &Path, _: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn what_takes_room_to_try_it_leaves_nothing_behind_and_an_index_with_its_blocks_needs_no_more() {
        use super::*;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.db");
        assert!(require_room(&file).is_ok());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(require_room(&dir.path().join("none/a.db")).is_ok(), "it cannot be tried there");
        let index = beside(&file, "-shm");
        std::fs::write(&index, []).unwrap();
        assert!(!has_blocks(&index));
        assert!(reserve_room(&file).is_some_and(|_| has_blocks(&index)));
    }
}
