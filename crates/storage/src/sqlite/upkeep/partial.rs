//! A copy that has a temporary name until it is complete, so that an incomplete copy never has a final name.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::error::UpkeepError;
use super::files::{folder, sync_dir};

/// The suffix of temporary names, after the id of the process that writes the file.
const SUFFIX: &str = ".viv-partial";
/// The suffix of SQLite's journal of such a file.
const JOURNAL: &str = "-journal";

/// A file that is removed when this is dropped, unless it was given its final name.
pub(super) struct Partial {
    pub(super) file: PathBuf,
    kept: bool,
    /// Locked while it is written: an unlocked one was left behind by a process that died.
    _held: File,
}

impl Partial {
    /// Creates an empty file next to `target` that only its owner may read. Removes files that dead processes have
    /// left there.
    pub(super) fn next_to(target: &Path) -> Result<Self, UpkeepError> {
        // If one cannot be removed, it does no harm.
        left_behind(folder(target)).iter().for_each(|copy| remove(copy));
        let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let file = target.with_file_name(format!("{name}.{}{SUFFIX}", std::process::id()));
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&file) {
            Ok(held) => {
                // Some file systems do not support locks. There no process removes the file.
                let _ = held.try_lock();
                Ok(Self { file, kept: false, _held: held })
            }
            Err(source) => Err(UpkeepError::Io { doing: "write", file: target.to_owned(), source }),
        }
    }

    /// Gives the file its final name, which no other file may have.
    pub(super) fn finish_new(mut self, target: &Path) -> Result<(), UpkeepError> {
        let named = match std::fs::hard_link(&self.file, target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(UpkeepError::Exists { file: target.to_owned() });
            }
            // Some file systems do not support hard links.
            Err(_) if !target.exists() => std::fs::rename(&self.file, target).map(|()| self.kept = true),
            linked => linked,
        };
        named.and_then(|()| sync_dir(target)).map_err(|source| UpkeepError::Io {
            doing: "write",
            file: target.to_owned(),
            source,
        })
    }

    pub(super) fn name(&self) -> String {
        self.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Gives the file its final name, and replaces a file of that name.
    pub(super) fn finish_replacing(mut self, target: &Path) -> Result<(), UpkeepError> {
        std::fs::rename(&self.file, target)
            .map(|()| self.kept = true)
            .and_then(|()| sync_dir(target))
            .map_err(|source| UpkeepError::Io { doing: "write", file: target.to_owned(), source })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            // If it cannot be removed, its name shows what it is.
            remove(&self.file);
        }
    }
}

/// The final name of the copy, if `name` is that of an incomplete copy or of its journal.
pub(super) fn final_name(name: &str) -> Option<&str> {
    let (target, number) =
        name.strip_suffix(JOURNAL).unwrap_or(name).strip_suffix(SUFFIX)?.rsplit_once('.')?;
    (!number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())).then_some(target)
}

/// Incomplete copies in a folder that no process writes any more: killed backups and restores have left them. The
/// next backup or restore to that folder removes them.
pub fn left_behind(folder: &Path) -> Vec<PathBuf> {
    let mut left: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            final_name(&name)?;
            Some(folder.join(name.strip_suffix(JOURNAL).unwrap_or(&name)))
        })
        .filter(|copy| match File::open(copy) {
            Ok(held) => held.try_lock().is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        })
        .collect();
    left.sort();
    left.dedup();
    left
}

fn remove(copy: &Path) {
    let mut journal = copy.as_os_str().to_owned();
    journal.push(JOURNAL);
    let _ = std::fs::remove_file(PathBuf::from(journal));
    let _ = std::fs::remove_file(copy);
}
