//! Helpers for files and folders.

use std::fs::File;
use std::io;
use std::path::Path;

use super::error::UpkeepError;
use crate::sqlite::engine::file::kind;

/// Checks that a path is an existing regular file.
pub(super) fn check_regular_file(file: &Path) -> Result<(), UpkeepError> {
    match std::fs::metadata(file) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(found) => Err(UpkeepError::NoFile { file: file.to_owned(), what: kind(&found) }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(UpkeepError::Missing { file: file.to_owned() })
        }
        Err(source) => Err(UpkeepError::Io { doing: "read", file: file.to_owned(), source }),
    }
}

/// Syncs the folder of a file, which makes the file's name durable.
pub(super) fn sync_dir(file: &Path) -> io::Result<()> {
    File::open(folder(file))?.sync_all()
}

pub(super) fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
