//! The write-ahead log beside the file, where SQLite says nothing of it: behind a frame that is damaged it leaves
//! out everything, without a word.
//!
//! A frame is sound where it carries the salts of the log's header and the sum of all before it. What is not
//! sound is no damage by itself: frames of an earlier use of the file have other salts, and a kill or a loss of
//! power tears the last transaction, which was never answered. But nobody writes behind a commit before it is on
//! disk. So what stands behind a commit that is not sound was synced once, and cannot be read any more.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Bytes of the log's header, and of the header of each frame in it.
const HEADER: usize = 32;
const FRAME: usize = 24;
/// How a log begins; its last bit says in which order its sums take bytes.
const MAGIC: u32 = 0x377f_0682;
/// The size that pages have where the header does not say it.
const USUAL_PAGE: usize = 4_096;
/// Bytes of the log that are looked at together.
const CHUNK: u64 = 1 << 20;
/// Sizes that a page may have.
const PAGES: std::ops::RangeInclusive<usize> = 512..=65_536;

/// Where the log of a store is.
pub(crate) fn of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// Frames that stand behind a damaged one, and are lost; none where the log is sound or is not there. The last
/// transaction is not judged: damage in it looks like a loss of power. Nobody may write meanwhile.
pub(crate) fn lost(log: &Path) -> io::Result<u64> {
    let mut log = match File::open(log) {
        Ok(log) => BufReader::with_capacity(1 << 20, log),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut header = [0; HEADER];
    if !fill(&mut log, &mut header)? {
        return Ok(0);
    }
    let (magic, size) = (word(&header[..4]), word(&header[8..12]) as usize);
    let big = magic & 1 == 1;
    let mut sum = add(big, &header[..24], [0, 0]);
    if magic & !1 != MAGIC || sum != sum_at(&header[24..]) || !PAGES.contains(&size) {
        // No frame is read behind such a header. It is written whole, before any frame is.
        let rest = io::copy(&mut log, &mut io::sink())?;
        let page = if PAGES.contains(&size) { size } else { USUAL_PAGE };
        return Ok(rest.div_ceil((FRAME + page) as u64));
    }
    let mut frame = vec![0; FRAME + size];
    while fill(&mut log, &mut frame)? {
        sum = add(big, &frame[FRAME..], add(big, &frame[..8], sum));
        if frame[8..16] != header[16..24] || sum != sum_at(&frame[16..]) {
            return behind(&mut log, &header[16..24], frame);
        }
    }
    Ok(0)
}

/// Frames with these salts behind the one that is not sound, wherever they stand: bytes may be missing before
/// them. None, where no commit stands before the last of them.
fn behind(log: &mut impl Read, salts: &[u8], broken: Vec<u8>) -> io::Result<u64> {
    let (mut bytes, mut start) = (broken, 0);
    let (mut behind, mut over, mut lost, mut seen) = (0, false, false, 4);
    loop {
        let mut at = seen - start;
        while let Some(next) = bytes.get(at..).and_then(|rest| rest.windows(8).position(|it| it == salts)) {
            at += next;
            // The broken frame itself is not one that stands behind it.
            if start + at > 8 {
                behind += 1;
                lost |= over;
            }
            // The last frame of a transaction says how many pages the store has then.
            over |= word(&bytes[at - 4..at]) != 0;
            at += 8;
        }
        // What could be the beginning of one more, with the four bytes before it, is looked at again.
        seen = (start + at).max(start + bytes.len().saturating_sub(7));
        let kept = (seen - start).saturating_sub(4);
        bytes.drain(..kept);
        start += kept;
        if log.take(CHUNK).read_to_end(&mut bytes)? == 0 {
            return Ok(if lost { behind } else { 0 });
        }
    }
}

/// Reads as much as there is room for; `false` at the end.
fn fill(log: &mut impl Read, room: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(room) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn sum_at(bytes: &[u8]) -> [u32; 2] {
    [word(&bytes[..4]), word(&bytes[4..8])]
}

/// SQLite's sum, continued over these bytes.
fn add(big: bool, bytes: &[u8], [mut first, mut second]: [u32; 2]) -> [u32; 2] {
    let word = |bytes: &[u8]| if big { word(bytes) } else { word(bytes).swap_bytes() };
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

    const PAGE: usize = 4_096;

    /// A store as a kill leaves it, whose log holds so many transactions.
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
            std::fs::read(of(&self.file)).unwrap()
        }

        /// What is said of the log where it is these bytes, and how many rows SQLite still finds.
        fn judged(&self, log: &[u8]) -> (u64, i64) {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("vivarium.db");
            std::fs::copy(&self.file, &file).unwrap();
            std::fs::write(of(&file), log).unwrap();
            let lost = lost(&of(&file)).unwrap();
            let db = Connection::open(&file).unwrap();
            (lost, db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap())
        }
    }

    /// Where each frame begins, and whether it ends a transaction.
    fn frames(log: &[u8]) -> Vec<(usize, bool)> {
        (HEADER..log.len()).step_by(FRAME + PAGE).map(|at| (at, word(&log[at + 4..at + 8]) != 0)).collect()
    }

    #[test]
    fn a_log_as_a_kill_leaves_it_is_sound_and_one_that_is_not_there_too() {
        let killed = Killed::after(5);
        assert_eq!(killed.judged(&killed.log()), (0, 5));
        assert_eq!(killed.judged(&[]), (0, 0));
        assert_eq!(lost(Path::new("/nowhere/vivarium.db-wal")).unwrap(), 0);
    }

    #[test]
    fn a_bit_that_changed_before_the_last_transaction_is_told_with_what_stands_behind_it() {
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
                let said = (frames.len() - n - 1) as u64;
                // Behind the end of a transaction whose own salts changed another end must be seen.
                let seen = ends.iter().filter(|end| **end >= n + usize::from(offset == 9)).count();
                let said = if seen > 1 { said } else { 0 };
                assert_eq!(killed.judged(&changed), (said, kept as i64), "frame {n}, byte {offset}");
            }
        }
        let mut changed = log.clone();
        changed[25] ^= 1;
        let all = (frames.len() as u64, 0);
        assert_eq!(killed.judged(&changed), all, "the log's own header");
        for offset in [1, 9, 13, 17, 21] {
            let mut changed = log.clone();
            changed[offset] ^= 4;
            assert_eq!(killed.judged(&changed), all, "byte {offset} of the header");
        }
        let mut zeroed = log.clone();
        zeroed[..PAGE].fill(0);
        assert_eq!(killed.judged(&zeroed), all, "the header and the first frame");
        let mut shorter = log;
        shorter.drain(frames[2].0 + 1_000..frames[2].0 + 1_512);
        let (lost, rows) = killed.judged(&shorter);
        assert_eq!((lost, rows), (frames.len() as u64 - 3, 0), "bytes in the middle");
    }

    #[test]
    fn a_log_that_was_cut_is_sound_as_far_as_it_goes() {
        let killed = Killed::after(5);
        let log = killed.log();
        for length in (0..log.len()).step_by(1_000) {
            assert_eq!(killed.judged(&log[..length]).0, 0, "{length} bytes");
        }
    }

    #[test]
    fn what_a_loss_of_power_tore_in_the_last_transaction_is_no_damage() {
        let killed = Killed::after(5);
        let log = killed.log();
        let frames = frames(&log);
        let last = frames.len() - frames.iter().rev().skip(1).position(|(_, end)| *end).unwrap() - 1;
        assert!(frames.len() - last > 2, "it has several frames");
        for (at, _) in &frames[last..] {
            let mut torn = log.clone();
            torn[*at..at + FRAME + PAGE].fill(0);
            assert_eq!(killed.judged(&torn), (0, 4));
        }
    }

    #[test]
    fn frames_of_an_earlier_use_of_the_file_are_no_damage() {
        let killed = Killed::after(5);
        let long = killed.log().len();
        killed.db.wal_checkpoint_v2(None::<&str>, CheckpointMode::RESTART).unwrap();
        killed.write();
        let log = killed.log();
        assert_eq!(log.len(), long, "its file keeps its size");
        assert_eq!(killed.judged(&log), (0, 6));
    }
}
