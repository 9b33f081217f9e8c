//! The log of a server in the background: a file of the data directory, which is put aside when it is long, at a start and while the
//! server runs. Must not know what the lines say.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// The log, and the one before it.
pub(super) const LOG: &str = "viv.log";
const OLD_LOG: &str = "viv.log.1";
/// A longer log is put aside: with the one before it there are at most twice as many bytes.
const LOG_MAX_BYTES: u64 = 10 << 20;

/// Opens the log at its end; a long one is put aside first.
pub(super) fn open(data_dir: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir)?;
    let path = data_dir.join(LOG);
    if std::fs::metadata(&path).is_ok_and(|log| log.len() > LOG_MAX_BYTES) {
        std::fs::rename(&path, data_dir.join(OLD_LOG))?;
    }
    append(&path)
}

fn append(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).mode(0o600).open(path)
}

/// Where lines of the log are written.
#[derive(Clone)]
pub(super) struct LogWriter(Option<Arc<Mutex<Rotated>>>);

impl LogWriter {
    /// Standard error, whatever that is.
    pub(super) fn to_stderr() -> Self {
        Self(None)
    }

    /// Standard error of a server in the background, which is the log of the data directory.
    pub(super) fn to_log(data_dir: &Path) -> Self {
        let out = rustix::io::dup(rustix::stdio::stderr()).map(File::from);
        let rotated =
            out.map_err(io::Error::from).and_then(|out| Rotated::new(out, data_dir, LOG_MAX_BYTES, redirect));
        Self(rotated.ok().map(|rotated| Arc::new(Mutex::new(rotated))))
    }
}

impl MakeWriter<'_> for LogWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            Some(rotated) => rotated.lock().unwrap_or_else(PoisonError::into_inner).write(bytes),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A log that is put aside between two lines when it is long.
struct Rotated {
    out: File,
    dir: PathBuf,
    len: u64,
    max: u64,
    /// Whether the last byte has ended a line.
    between_lines: bool,
    /// Lets all else that writes to the log write to this file.
    redirect: fn(&File) -> io::Result<()>,
}

impl Rotated {
    fn new(out: File, dir: &Path, max: u64, redirect: fn(&File) -> io::Result<()>) -> io::Result<Self> {
        let len = out.metadata()?.len();
        Ok(Self { out, dir: dir.to_owned(), len, max, between_lines: true, redirect })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.between_lines && self.len.saturating_add(bytes.len() as u64) > self.max {
            // Where that cannot be, the log goes on, and it is tried again after as much more.
            let _ = self.put_aside();
            self.len = 0;
        }
        let written = self.out.write(bytes)?;
        self.len = self.len.saturating_add(written as u64);
        self.between_lines = bytes[..written].ends_with(b"\n");
        Ok(written)
    }

    /// Goes on in a new file. What is already there under the log's name, and is not this log, is left.
    fn put_aside(&mut self) -> io::Result<()> {
        let path = self.dir.join(LOG);
        if std::fs::metadata(&path)?.ino() == self.out.metadata()?.ino() {
            std::fs::rename(&path, self.dir.join(OLD_LOG))?;
        }
        let new = append(&path)?;
        (self.redirect)(&new)?;
        self.out = new;
        Ok(())
    }
}

/// What the process prints goes to this file: also what it prints on standard output, once that is the log, too.
fn redirect(log: &File) -> io::Result<()> {
    use rustix::stdio::{dup2_stderr, dup2_stdout, stderr, stdout};
    let same = match (rustix::fs::fstat(stdout()), rustix::fs::fstat(stderr())) {
        (Ok(out), Ok(err)) => (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino),
        _ => false,
    };
    if same {
        dup2_stdout(log)?;
    }
    Ok(dup2_stderr(log)?)
}

/// Reads the lines of a log as it grows, also while it is put aside.
pub(super) struct LogReader {
    dir: PathBuf,
    /// The file that was read, and up to where.
    read: Option<(u64, u64)>,
}

impl LogReader {
    /// Reads from the beginning: first the log that was put aside.
    pub(super) fn of(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), read: None }
    }

    /// The whole lines that were not read yet.
    pub(super) fn lines(&mut self) -> io::Result<Vec<String>> {
        let mut log = File::open(self.dir.join(LOG))?;
        let id = log.metadata()?.ino();
        let old = || File::open(self.dir.join(OLD_LOG));
        let (mut lines, mut at) = match self.read {
            None => (old().and_then(|mut old| lines_from(&mut old, &mut 0)).unwrap_or_default(), 0),
            Some((read, at)) if read == id => (Vec::new(), at),
            Some((read, mut at)) => {
                let rest = old().and_then(|mut old| match old.metadata()?.ino() == read {
                    true => lines_from(&mut old, &mut at),
                    false => Ok(Vec::new()),
                });
                (rest.unwrap_or_default(), 0)
            }
        };
        lines.extend(lines_from(&mut log, &mut at)?);
        self.read = Some((id, at));
        Ok(lines)
    }
}

/// The whole lines of a log from byte `at` on, which then is the byte behind them. A log that is shorter than that was emptied. Of a
/// very long one the beginning is left out.
pub(super) fn lines_from(log: &mut File, at: &mut u64) -> io::Result<Vec<String>> {
    let len = log.metadata()?.len();
    let from = if len < *at { 0 } else { *at };
    *at = log.seek(SeekFrom::Start(from.max(len.saturating_sub(LOG_MAX_BYTES))))?;
    let mut bytes = Vec::new();
    log.take(LOG_MAX_BYTES).read_to_end(&mut bytes)?;
    bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    *at += bytes.len() as u64;
    Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_put_aside_while_it_is_written_and_read_and_no_line_is_lost_or_cut() {
        let dir = tempfile::tempdir().unwrap();
        let out = append(&dir.path().join(LOG)).unwrap();
        let mut log = Rotated::new(out, dir.path(), 100, |_| Ok(())).unwrap();
        let mut follower = LogReader::of(dir.path());
        let (mut written, mut followed) = (Vec::new(), Vec::new());
        for n in 0..50 {
            let line = format!("line {n} {}", "x".repeat(n % 7));
            // A line in two pieces, as one that is written in part.
            let (one, two) = line.split_at(3);
            log.write(one.as_bytes()).unwrap();
            log.write(format!("{two}\n").as_bytes()).unwrap();
            written.push(line);
            if n % 3 == 0 {
                followed.extend(follower.lines().unwrap());
            }
        }
        followed.extend(follower.lines().unwrap());
        assert_eq!(followed, written);
        for file in [LOG, OLD_LOG] {
            let text = std::fs::read_to_string(dir.path().join(file)).unwrap();
            assert!(text.len() <= 120 && text.ends_with('\n') && text.starts_with("line"), "{text}");
        }
        let both = LogReader::of(dir.path()).lines().unwrap();
        assert!(written.ends_with(&both) && both.len() > 5, "{both:?}");
    }

    #[test]
    fn a_log_that_cannot_be_put_aside_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let out = append(&dir.path().join(LOG)).unwrap();
        std::fs::create_dir_all(dir.path().join(OLD_LOG).join("not empty")).unwrap();
        let mut log = Rotated::new(out, dir.path(), 10, |_| Ok(())).unwrap();
        for line in ["one line\n", "another line\n", "a third line\n"] {
            assert_eq!(log.write(line.as_bytes()).unwrap(), line.len());
        }
        let text = std::fs::read_to_string(dir.path().join(LOG)).unwrap();
        assert_eq!(text, "one line\nanother line\na third line\n");
    }
}
