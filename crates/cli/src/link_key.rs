//! The secret of links with which people answer calls: `link-key` in the data directory, made at the first start with a
//! `public_url`, which only its owner may read. Never printed, never in the store, so never in a backup or an export.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::errors::{Exit, Failure, Result};
use crate::settings;

const FILE: &str = "link-key";
const BYTES: usize = 32;

/// The secret, which is made if there is none. Only for the server that holds the lock of the data directory.
pub(crate) fn read_or_make(data_dir: &Path) -> Result<[u8; BYTES]> {
    let path = data_dir.join(FILE);
    let Some(text) = settings::text(&path)? else { return make(&path) };
    let shown = path.display();
    let unreadable = |error: io::Error| Failure::usage(format!("cannot read `{shown}`: {error}"));
    let mode = fs::metadata(&path).map_err(unreadable)?.permissions().mode();
    if mode & 0o077 != 0 {
        let message = format!("`{shown}` is readable by others (mode {:03o})", mode & 0o777);
        return Err(Failure::usage(message).hint(format!("chmod 600 {shown}")));
    }
    let digits = text.trim();
    let byte = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..BYTES).map(byte).collect();
    let whole = bytes.filter(|_| digits.len() == 2 * BYTES).and_then(|bytes| bytes.try_into().ok());
    whole.ok_or_else(|| {
        Failure::usage(format!("`{shown}` does not have {BYTES} bytes in hexadecimal"))
            .hint("remove it: the next start makes another one, and links from before no longer count")
    })
}

/// Writes the file completely or not at all.
fn make(path: &Path) -> Result<[u8; BYTES]> {
    let failed = |error: &dyn std::fmt::Display| {
        let message = format!("cannot write `{}`: {error}", path.display());
        Failure::new(Exit::Failed, "link_key_unwritable", message)
            .hint("may this user write there, and is there space on the disk? Without `public_url` it is not needed")
    };
    let mut key = [0; BYTES];
    getrandom::fill(&mut key).map_err(|error| failed(&error))?;
    let draft = path.with_extension("new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&error)),
        _ => {}
    }
    let written = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft);
    let written = written.and_then(|mut file| {
        file.write_all(agent::id::hex(&key).as_bytes())?;
        // A link that is given out must still count after a loss of power.
        file.sync_all()?;
        fs::rename(&draft, path)?;
        fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    });
    written.map_err(|error| failed(&error))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_made_once_and_only_its_owner_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("link-key.new"), "left by a crash").unwrap();
        let key = read_or_make(dir.path()).unwrap();
        assert_eq!(read_or_make(dir.path()).unwrap(), key);
        assert_ne!(read_or_make(tempfile::tempdir().unwrap().path()).unwrap(), key);
        let path = dir.path().join(FILE);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let failure = read_or_make(dir.path()).unwrap_err();
        assert!(failure.message.contains("mode 640") && failure.hint.unwrap().starts_with("chmod 600"));
    }

    #[test]
    fn a_damaged_secret_is_refused_without_being_shown_or_replaced() {
        for canary in ["canary", "é", &"0".repeat(63), &"0".repeat(66), &"g".repeat(64)] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(FILE);
            fs::write(&path, canary).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let failure = read_or_make(dir.path()).unwrap_err().to_string();
            assert!(failure.contains("32 bytes") && !failure.contains(canary), "{failure}");
            assert_eq!(fs::read_to_string(&path).unwrap(), canary);
        }
    }
}
