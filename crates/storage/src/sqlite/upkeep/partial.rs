//! A copy under another name as long as it is not whole, so that no name is ever given to half of one.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::error::UpkeepError;
use super::files::{folder, sync_dir};

/// How the names of such files end, behind the number of who writes them; nobody else's do.
const SUFFIX: &str = ".viv-partial";
/// And those of what SQLite has beside them.
const JOURNAL: &str = "-journal";

/// A file that is gone again unless it is kept.
pub(super) struct Partial {
    pub(super) file: PathBuf,
    kept: bool,
    /// Locked as long as it is written: one that nobody holds is what a death has left.
    _held: File,
}

impl Partial {
    /// An empty file that only its owner may read, beside where it is to stand. What others have left there is
    /// removed.
    pub(super) fn beside(target: &Path) -> Result<Self, UpkeepError> {
        // What cannot be removed stands in nobody's way.
        left_behind(folder(target)).iter().for_each(|copy| remove(copy));
        let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let file = target.with_file_name(format!("{name}.{}{SUFFIX}", std::process::id()));
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&file) {
            Ok(held) => {
                // Some file systems know no locks: there it is nobody's to remove.
                let _ = held.try_lock();
                Ok(Self { file, kept: false, _held: held })
            }
            Err(source) => Err(UpkeepError::Io { doing: "write", file: target.to_owned(), source }),
        }
    }

    /// Gives the file its name, which nobody may have.
    pub(super) fn keep(mut self, target: &Path) -> Result<(), UpkeepError> {
        let named = match std::fs::hard_link(&self.file, target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(UpkeepError::Exists { file: target.to_owned() });
            }
            // Some file systems know no second names.
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

    /// Gives the file a name that is its owner's to give.
    pub(super) fn put(mut self, target: &Path) -> Result<(), UpkeepError> {
        std::fs::rename(&self.file, target)
            .map(|()| self.kept = true)
            .and_then(|()| sync_dir(target))
            .map_err(|source| UpkeepError::Io { doing: "write", file: target.to_owned(), source })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            // What cannot be removed bears its name.
            remove(&self.file);
        }
    }
}

/// Whose copy is not written to its end in the file of that name, or in what SQLite has beside it.
pub(super) fn of(name: &str) -> Option<&str> {
    let (whose, number) =
        name.strip_suffix(JOURNAL).unwrap_or(name).strip_suffix(SUFFIX)?.rsplit_once('.')?;
    (!number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())).then_some(whose)
}

/// Copies in a folder that nobody writes any more: what backups and restores have left that were killed. The next
/// one to that folder removes them.
pub fn left_behind(folder: &Path) -> Vec<PathBuf> {
    let mut left: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            of(&name)?;
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
