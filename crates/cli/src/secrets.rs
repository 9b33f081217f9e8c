//! Keys of model providers: from the environment, else from `secrets.toml` in the data directory,
//! which only its owner may read. They are never printed and never stored elsewhere.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use models::voices::KeyRing;

use crate::errors::{Failure, Result};

const FILE: &str = "secrets.toml";

/// Gathers the keys that this server has.
pub(crate) fn keys(data_dir: &Path) -> Result<KeyRing> {
    let written = read(data_dir)?.unwrap_or_default();
    let file = data_dir.join(FILE).display().to_string();
    Ok(KeyRing::gather(|name| std::env::var(name).ok(), &written, &file))
}

fn read(data_dir: &Path) -> Result<Option<String>> {
    let path = data_dir.join(FILE);
    let shown = path.display();
    let unreadable = |error| Failure::usage(format!("cannot read `{shown}`: {error}"));
    let mode = match fs::metadata(&path) {
        Ok(metadata) => metadata.permissions().mode(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
    };
    if mode & 0o077 != 0 {
        let message = format!("others may read `{shown}` (mode {:03o})", mode & 0o777);
        return Err(Failure::usage(message).hint(format!("chmod 600 {shown}")));
    }
    let text = fs::read_to_string(&path).map_err(unreadable)?;
    // The parser's own message would quote the line, and with it the key.
    if text.parse::<toml::Table>().is_err() {
        return Err(Failure::usage(format!("`{shown}` is not a table of keys"))
            .hint("one line for each key, such as OPENAI_API_KEY = \"sk-...\""));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, mode: u32) -> Result<Option<String>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        read(dir.path())
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let failure = with("OPENAI_API_KEY = \"canary\"", 0o644).unwrap_err();
        assert!(failure.message.contains("mode 644") && failure.hint.unwrap().starts_with("chmod 600"));
        assert!(with("OPENAI_API_KEY = \"canary\"", 0o600).unwrap().is_some());
    }

    #[test]
    fn an_error_in_the_file_never_quotes_a_key() {
        let failure = with("OPENAI_API_KEY = sk-canary", 0o600).unwrap_err();
        assert!(!failure.to_string().contains("canary"), "{failure}");
    }

    #[test]
    fn no_file_is_no_keys() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap(), None);
    }
}
