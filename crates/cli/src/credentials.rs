//! Where clients find a server and its key: the environment, else the file that a running server
//! leaves in its data directory (`credentials.json`, mode 0600, gone when it stops).

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::errors::{Exit, Failure, Result};

const FILE: &str = "credentials.json";
const DEFAULT_URL: &str = "http://127.0.0.1:7878";

/// A key. Prints nothing of itself (invariant 11).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub(crate) fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The key itself, where it is used.
    pub(crate) fn open(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A server and the key that opens it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Credentials {
    /// Such as `http://127.0.0.1:7878`, without a slash at the end.
    pub(crate) url: String,
    /// The key.
    pub(crate) key: Secret,
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// Writes the file whole or not at all, readable by its owner only. Where the disk has no room for another one,
/// over what a life before has left.
pub(crate) fn write(data_dir: &Path, credentials: &Credentials) -> io::Result<()> {
    let target = path(data_dir);
    let mut text = serde_json::to_vec(credentials)?;
    text.push(b'\n');
    match write_new(&target, &text) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            let mut left = fs::OpenOptions::new().write(true).open(&target).map_err(|_| error)?;
            left.write_all(&text)?;
            left.set_len(text.len() as u64)
        }
        written => written,
    }
}

fn write_new(target: &Path, text: &[u8]) -> io::Result<()> {
    let draft = target.with_extension("json.new");
    // A file left by a crash may have another mode, which opening it would keep.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = file.write_all(text).and_then(|()| fs::rename(&draft, target));
    // Half a file is of use to nobody.
    written.inspect_err(|_| drop(fs::remove_file(&draft)))
}

/// Removes the file, if it is the one with this key: a successor's is left alone.
pub(crate) fn remove(data_dir: &Path, written: &Credentials) {
    if read(data_dir).ok().flatten().as_ref() == Some(written) {
        // Where it cannot be removed it is only stale: its key is void at the next start.
        let _ = fs::remove_file(path(data_dir));
    }
}

/// The file's content; `None` where there is no file.
pub(crate) fn read(data_dir: &Path) -> Result<Option<Credentials>> {
    let file = path(data_dir);
    let unreadable = |why: String| {
        Failure::new(
            Exit::Failed,
            "credentials_unreadable",
            format!("cannot read `{}`: {why}", file.display()),
        )
        .hint("remove it and restart the server, which writes a new one")
    };
    match fs::read(&file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(error.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// Which server to speak to: `VIV_URL` and `VIV_KEY`, and the file for what they leave open.
pub(crate) fn find(data_dir: &Path) -> Result<Credentials> {
    choose(setting("VIV_URL")?, setting("VIV_KEY")?, data_dir)
}

fn setting(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) if value.trim().is_empty() => Ok(None),
        Ok(value) => Ok(Some(value.trim().to_owned())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(_) => Err(Failure::usage(format!("wanted text in `{name}`, got bytes that are none"))),
    }
}

fn choose(url: Option<String>, key: Option<String>, data_dir: &Path) -> Result<Credentials> {
    let url = url.map(|url| checked(&url)).transpose()?;
    match (url, key) {
        (Some(url), Some(key)) => Ok(Credentials { url, key: Secret::new(key) }),
        (None, Some(key)) => {
            let url = read(data_dir)?.map_or_else(|| DEFAULT_URL.to_owned(), |found| found.url);
            Ok(Credentials { url, key: Secret::new(key) })
        }
        // The key of the local server is for it alone, never for whatever `VIV_URL` names.
        (Some(url), None) => match read(data_dir)? {
            Some(found) if found.url == url => Ok(found),
            _ => Err(Failure::usage(format!("`VIV_URL` names `{url}`, but there is no key for it"))
                .hint("set `VIV_KEY`, or unset `VIV_URL` to speak to the local server")),
        },
        (None, None) => read(data_dir)?.ok_or_else(|| {
            let dir = data_dir.display();
            Failure::new(Exit::Unreachable, "no_server", format!("no server is running on `{dir}`"))
                .hint("start one with `viv up`, or set `VIV_URL` and `VIV_KEY`, or name another `--data-dir`")
        }),
    }
}

fn checked(url: &str) -> Result<String> {
    let wrong =
        || Failure::usage(format!("wanted an address such as `{DEFAULT_URL}` in `VIV_URL`, got `{url}`"));
    let parsed = reqwest::Url::parse(url).map_err(|_| wrong())?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(wrong());
    }
    Ok(url.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn local() -> Credentials {
        Credentials { url: DEFAULT_URL.into(), key: Secret::new("viv_local") }
    }

    #[test]
    fn the_file_is_for_its_owner_only_even_over_a_leftover() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("credentials.json.new"), "left by a crash").unwrap();
        write(dir.path(), &local()).unwrap();
        let mode = fs::metadata(path(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read(dir.path()).unwrap(), Some(local()));
    }

    #[test]
    fn a_stopping_server_leaves_its_successors_file() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &local()).unwrap();
        remove(dir.path(), &Credentials { url: DEFAULT_URL.into(), key: Secret::new("older") });
        assert!(read(dir.path()).unwrap().is_some());
        remove(dir.path(), &local());
        assert_eq!(read(dir.path()).unwrap(), None);
    }

    #[test]
    fn the_local_key_is_never_sent_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &local()).unwrap();
        let elsewhere = choose(Some("https://example.org".into()), None, dir.path()).unwrap_err();
        assert_eq!(elsewhere.exit, Exit::Usage);
        assert_eq!(choose(Some(format!("{DEFAULT_URL}/")), None, dir.path()).unwrap(), local());
        assert_eq!(choose(None, Some("k".into()), dir.path()).unwrap().key.open(), "k");
    }

    #[test]
    fn without_a_server_the_hint_says_how_to_start_one() {
        let dir = tempfile::tempdir().unwrap();
        let failure = choose(None, None, dir.path()).unwrap_err();
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Unreachable, "no_server"));
        assert!(failure.hint.unwrap().contains("viv up"));
        assert_eq!(choose(Some("nonsense".into()), None, dir.path()).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn a_key_prints_nothing_of_itself() {
        assert!(!format!("{:?}", local()).contains("viv_local"));
    }
}
