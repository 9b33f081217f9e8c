//! Finds damage in the write-ahead log, which SQLite does not report: it silently ignores all frames after a
//! damaged one.
//!
//! A frame is valid if it has the salts of the log's header and the checksum of everything before it. An invalid
//! frame alone is not damage: frames of an earlier use of the file have other salts, and a kill or a loss of power
//! may tear the last transaction, which was never answered. But nothing is written after a commit before that
//! commit is on disk. So frames after an invalid commit were on disk once, and are lost.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Bytes of the log's header.
const HEADER: usize = 32;
/// Bytes of the header of a frame.
const FRAME: usize = 24;
/// The first bytes of a log. The lowest bit is the byte order of its checksums.
const MAGIC: u32 = 0x377f_0682;
/// The page size to assume if the header has none.
const USUAL_PAGE: usize = 4_096;
/// Bytes of the log that are read at a time.
const CHUNK: u64 = 1 << 20;
/// Valid page sizes.
const PAGES: std::ops::RangeInclusive<usize> = 512..=65_536;

/// The path of a store's log.
pub(crate) fn path_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// What a log has for its store.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    /// Frames after a damaged one, which are lost; 0 if the log is valid or missing. The last transaction is not checked:
    /// damage in it looks like a loss of power.
    pub(crate) lost_frames: u64,
    /// The pages of its transactions.
    pub(crate) pages: HashSet<u32>,
    /// How many pages the store has after the last one; `None` if there is none.
    pub(crate) store_pages: Option<u32>,
}

/// Reads a log as SQLite does, without changing anything. No process may write meanwhile.
pub(crate) fn read(log: &Path) -> io::Result<Logged> {
    let mut found = Logged::default();
    found.lost_frames = walk(log, &mut found)?;
    Ok(found)
}

/// Notes the pages of valid transactions; returns the number of lost frames.
fn walk(log: &Path, found: &mut Logged) -> io::Result<u64> {
    let mut log = match File::open(log) {
        Ok(log) => BufReader::with_capacity(1 << 20, log),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut header = [0; HEADER];
    if !fill(&mut log, &mut header)? {
        return Ok(0);
    }
    let (magic, size) = (u32_from(&header[..4]), u32_from(&header[8..12]) as usize);
    let big = magic & 1 == 1;
    let mut sum = add(big, &header[..24], [0, 0]);
    if magic & !1 != MAGIC || sum != sum_at(&header[24..]) || !PAGES.contains(&size) {
        // SQLite reads no frame after such a header. The header is written before any frame.
        let rest = io::copy(&mut log, &mut io::sink())?;
        let page = if PAGES.contains(&size) { size } else { USUAL_PAGE };
        return Ok(rest.div_ceil((FRAME + page) as u64));
    }
    let (mut frame, mut open) = (vec![0; FRAME + size], Vec::new());
    while fill(&mut log, &mut frame)? {
        sum = add(big, &frame[FRAME..], add(big, &frame[..8], sum));
        if frame[8..16] != header[16..24] || sum != sum_at(&frame[16..]) {
            return frames_after(&mut log, &header[16..24], frame);
        }
        open.push(u32_from(&frame[..4]));
        let store_pages = u32_from(&frame[4..8]);
        if store_pages != 0 {
            found.pages.extend(open.drain(..));
            found.store_pages = Some(store_pages);
        }
    }
    Ok(0)
}

/// The number of frames with these salts after the broken one, at any offset: bytes may be missing before
/// them. 0 if none of the frames before the last one is a commit.
fn frames_after(log: &mut impl Read, salts: &[u8], broken: Vec<u8>) -> io::Result<u64> {
    let (mut bytes, mut start) = (broken, 0);
    let (mut count, mut committed, mut lost, mut seen) = (0, false, false, 4);
    loop {
        let mut at = seen - start;
        while let Some(next) = bytes.get(at..).and_then(|rest| rest.windows(8).position(|it| it == salts)) {
            at += next;
            // Do not count the broken frame itself.
            if start + at > 8 {
                count += 1;
                lost |= committed;
            }
            // Only the last frame of a transaction has the number of pages of the store.
            committed |= u32_from(&bytes[at - 4..at]) != 0;
            at += 8;
        }
        // Keep the bytes that may be the beginning of one more, with the four bytes before it.
        seen = (start + at).max(start + bytes.len().saturating_sub(7));
        let kept = (seen - start).saturating_sub(4);
        bytes.drain(..kept);
        start += kept;
        if log.take(CHUNK).read_to_end(&mut bytes)? == 0 {
            return Ok(if lost { count } else { 0 });
        }
    }
}

/// Fills `room`; `false` at the end of the log.
fn fill(log: &mut impl Read, room: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(room) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn u32_from(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn sum_at(bytes: &[u8]) -> [u32; 2] {
    [u32_from(&bytes[..4]), u32_from(&bytes[4..8])]
}

/// SQLite's checksum, continued over these bytes.
fn add(big: bool, bytes: &[u8], [mut first, mut second]: [u32; 2]) -> [u32; 2] {
    let word = |bytes: &[u8]| if big { u32_from(bytes) } else { u32_from(bytes).swap_bytes() };
    for pair in bytes.chunks_exact(8) {
        first = first.wrapping_add(word(&pair[..4])).wrapping_add(second);
        second = second.wrapping_add(word(&pair[4..])).wrapping_add(first);
    }
    [first, second]
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use rusqlite::wal::CheckpointMode;

    use super::*;

    fn lost_frames(log: &Path) -> io::Result<u64> {
        read(log).map(|found| found.lost_frames)
    }

    const PAGE: usize = 4_096;

    /// A store after a kill, with transactions in its log.
    struct Killed {
        _dir: tempfile::TempDir,
        file: PathBuf,
        db: Connection,
    }

    impl Killed {
        fn after(transactions: usize) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("vivarium.db");
            let db = Connection::open(&file).unwrap();
            db.pragma_update(None, "journal_mode", "WAL").unwrap();
            db.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
            db.execute_batch("CREATE TABLE t (x)").unwrap();
            db.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE).unwrap();
            let killed = Self { _dir: dir, file, db };
            (0..transactions).for_each(|_| killed.write());
            killed
        }

        /// A transaction of several frames.
        fn write(&self) {
            self.db.execute("INSERT INTO t VALUES (randomblob(10000))", []).unwrap();
        }

        fn log(&self) -> Vec<u8> {
            std::fs::read(path_of(&self.file)).unwrap()
        }

        /// The lost frames of the store with this log, and how many rows SQLite still finds.
        fn check(&self, log: &[u8]) -> (u64, i64) {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("vivarium.db");
            std::fs::copy(&self.file, &file).unwrap();
            std::fs::write(path_of(&file), log).unwrap();
            let lost = lost_frames(&path_of(&file)).unwrap();
            let db = Connection::open(&file).unwrap();
            (lost, db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap())
        }
    }

    /// Where each frame begins, and whether it ends a transaction.
    fn frames(log: &[u8]) -> Vec<(usize, bool)> {
        (HEADER..log.len())
            .step_by(FRAME + PAGE)
            .map(|at| (at, u32_from(&log[at + 4..at + 8]) != 0))
            .collect()
    }

    #[test]
    fn a_log_after_a_kill_is_valid_and_so_is_a_missing_one() {
        let killed = Killed::after(5);
        assert_eq!(killed.check(&killed.log()), (0, 5));
        assert_eq!(killed.check(&[]), (0, 0));
        assert_eq!(lost_frames(Path::new("/nowhere/vivarium.db-wal")).unwrap(), 0);
    }

    #[test]
    fn a_changed_bit_before_the_last_transaction_is_reported_with_the_frames_lost_after_it() {
        let killed = Killed::after(5);
        let (log, rows) = (killed.log(), 5);
        let frames = frames(&log);
        let ends: Vec<usize> = (0..frames.len()).filter(|n| frames[*n].1).collect();
        assert!(ends.len() == rows && frames.len() > 2 * rows, "{frames:?}");
        for (n, (at, _)) in frames.iter().enumerate() {
            // In the frame's salts, its sum, and its page.
            for offset in [9, 17, FRAME + 1, FRAME + PAGE - 1] {
                let mut changed = log.clone();
                changed[at + offset] ^= 0x10;
                let kept = ends.iter().filter(|end| **end < n).count();
                let expected = (frames.len() - n - 1) as u64;
                // If the salts of a commit frame changed, that frame is not recognized as a commit any more.
                let seen = ends.iter().filter(|end| **end >= n + usize::from(offset == 9)).count();
                let expected = if seen > 1 { expected } else { 0 };
                assert_eq!(killed.check(&changed), (expected, kept as i64), "frame {n}, byte {offset}");
            }
        }
        let mut changed = log.clone();
        changed[25] ^= 1;
        let all = (frames.len() as u64, 0);
        assert_eq!(killed.check(&changed), all, "the log's own header");
        for offset in [1, 9, 13, 17, 21] {
            let mut changed = log.clone();
            changed[offset] ^= 4;
            assert_eq!(killed.check(&changed), all, "byte {offset} of the header");
        }
        let mut zeroed = log.clone();
        zeroed[..PAGE].fill(0);
        assert_eq!(killed.check(&zeroed), all, "the header and the first frame");
        let mut shorter = log;
        shorter.drain(frames[2].0 + 1_000..frames[2].0 + 1_512);
        let (lost, rows) = killed.check(&shorter);
        assert_eq!((lost, rows), (frames.len() as u64 - 3, 0), "bytes in the middle");
    }

    #[test]
    fn a_truncated_log_is_valid() {
        let killed = Killed::after(5);
        let log = killed.log();
        for length in (0..log.len()).step_by(1_000) {
            assert_eq!(killed.check(&log[..length]).0, 0, "{length} bytes");
        }
    }

    #[test]
    fn a_last_transaction_torn_by_a_power_loss_is_not_damage() {
        let killed = Killed::after(5);
        let log = killed.log();
        let frames = frames(&log);
        let last = frames.len() - frames.iter().rev().skip(1).position(|(_, end)| *end).unwrap() - 1;
        assert!(frames.len() - last > 2, "it has several frames");
        for (at, _) in &frames[last..] {
            let mut torn = log.clone();
            torn[*at..at + FRAME + PAGE].fill(0);
            assert_eq!(killed.check(&torn), (0, 4));
        }
    }

    #[test]
    fn frames_of_an_earlier_use_of_the_file_are_not_damage() {
        let killed = Killed::after(5);
        let long = killed.log().len();
        killed.db.wal_checkpoint_v2(None::<&str>, CheckpointMode::RESTART).unwrap();
        killed.write();
        let log = killed.log();
        assert_eq!(log.len(), long, "its file keeps its size");
        assert_eq!(killed.check(&log), (0, 6));
    }
}
