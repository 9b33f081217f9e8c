//! Where clients find a server and its key: the environment, else the file that a running server keeps in
//! its data directory (`credentials.json`, mode 0600, removed when it stops).

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{ClientError, ErrorClass, Result};

const FILE: &str = "credentials.json";
const KEY: &str = "VIV_KEY";
const PREFIX: &str = "viv_";
const DEFAULT_URL: &str = "http://127.0.0.1:7878";

/// A key. Its debug output never contains it (invariant 11).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The key itself, for use in a request.
    pub fn open(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

/// A server and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Such as `http://127.0.0.1:7878`, without a trailing slash.
    pub url: String,
    /// The key.
    pub key: ApiKey,
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// Writes the file completely or not at all, readable by its owner only. If the disk has no room for a new
/// file, overwrites the one that an earlier start left.
pub fn write(data_dir: &Path, credentials: &Credentials) -> io::Result<()> {
    let target = path(data_dir);
    let mut text = serde_json::to_vec(credentials)?;
    text.push(b'\n');
    match write_new(&target, &text) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            let mut existing = fs::OpenOptions::new().write(true).open(&target).map_err(|_| error)?;
            existing.write_all(&text)?;
            existing.set_len(text.len() as u64)
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
    // Half a file is useless.
    written.inspect_err(|_| drop(fs::remove_file(&draft)))
}

/// Removes the file if it contains this key; a file written by a later server is kept.
pub fn remove(data_dir: &Path, written: &Credentials) {
    if read(data_dir).ok().flatten().as_ref() == Some(written) {
        // If it cannot be removed it is only stale: its key becomes invalid at the next start.
        let _ = fs::remove_file(path(data_dir));
    }
}

/// The file's content; `None` if there is no file.
pub fn read(data_dir: &Path) -> Result<Option<Credentials>> {
    let file = path(data_dir);
    let unreadable = |why: &dyn fmt::Display| {
        let file = file.display();
        ClientError::new(ErrorClass::Failed, "credentials_unreadable", format!("cannot read `{file}`: {why}"))
            .hint("remove it and restart the server, which writes a new one")
    };
    match fs::read(&file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(&error)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(unreadable(&error)),
    }
}

/// The key in `VIV_KEY`, if it is set.
pub fn key_in_environment() -> Result<Option<ApiKey>> {
    variable(KEY)?.map(given).transpose()
}

fn given(key: String) -> Result<ApiKey> {
    plausible(ApiKey(key), &format!("`{KEY}`"))
}

/// The key, if it has the form of one.
fn plausible(key: ApiKey, place: &str) -> Result<ApiKey> {
    if key.0.starts_with(PREFIX) && key.0.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(key);
    }
    let message = format!("the value in {place} is no key: keys begin with `{PREFIX}` and have no spaces");
    Err(ClientError::usage(message)
        .hint("`viv keys add` creates a key; if `VIV_KEY` is not set, commands use that of the local server"))
}

/// Which server to use: `VIV_URL` and `VIV_KEY`, and the file for what they leave unset.
pub(crate) fn find(data_dir: &Path) -> Result<Credentials> {
    choose(variable("VIV_URL")?, variable(KEY)?, data_dir)
}

/// What the file holds, if its key has the form of one.
fn read_plausible(data_dir: &Path) -> Result<Option<Credentials>> {
    let found = read(data_dir)?;
    let place = format!("`{}`", path(data_dir).display());
    let check = |found: Credentials| Ok(Credentials { key: plausible(found.key, &place)?, ..found });
    found.map(check).transpose()
}

/// An environment variable; an empty one counts as unset.
pub fn variable(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) if value.trim().is_empty() => Ok(None),
        Ok(value) => Ok(Some(value.trim().to_owned())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(_) => Err(ClientError::new(
            ErrorClass::Usage,
            "usage",
            format!("wanted text in `{name}`, got bytes that are not UTF-8"),
        )),
    }
}

fn choose(url: Option<String>, key: Option<String>, data_dir: &Path) -> Result<Credentials> {
    let url = url.as_deref().map(checked).transpose()?;
    let key = key.map(given).transpose()?;
    match (url, key) {
        (Some(url), Some(key)) => Ok(Credentials { url, key }),
        (None, Some(key)) => {
            let url = read(data_dir)?.map_or_else(|| DEFAULT_URL.to_owned(), |found| found.url);
            Ok(Credentials { url, key })
        }
        // The key of the local server is sent only to that server, never to another address in `VIV_URL`.
        (Some(url), None) => match read_plausible(data_dir)? {
            Some(found) if found.url == url => Ok(found),
            _ => Err(ClientError::usage(format!("`VIV_URL` names `{url}`, but there is no key for it"))
                .hint("set `VIV_KEY`, or unset `VIV_URL` to use the local server")),
        },
        (None, None) => read_plausible(data_dir)?.ok_or_else(|| {
            let dir = data_dir.display();
            ClientError::new(ErrorClass::Unreachable, "no_server", format!("no server is running on `{dir}`"))
                .hint("start one with `viv up`, or set `VIV_URL` and `VIV_KEY`, or name another `--data-dir`")
        }),
    }
}

/// The address without slashes at its end.
pub(crate) fn checked(url: &str) -> Result<String> {
    let wrong = || {
        ClientError::usage(format!("wanted an address such as `{DEFAULT_URL}`, got `{url}`"))
            .hint("it comes from `VIV_URL` if that is set")
    };
    let parsed = reqwest::Url::parse(url).map_err(|_| wrong())?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(wrong());
    }
    if parsed.path().trim_end_matches('/').ends_with("/v1") {
        let message = format!("wanted the server's address without the path of the API, got `{url}`");
        return Err(ClientError::usage(message)
            .hint("leave out `/v1`; the address comes from `VIV_URL` if that is set"));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn local() -> Credentials {
        Credentials { url: DEFAULT_URL.into(), key: ApiKey::new("viv_local") }
    }

    #[test]
    fn the_file_is_readable_only_by_its_owner_even_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("credentials.json.new"), "left by a crash").unwrap();
        write(dir.path(), &local()).unwrap();
        let mode = fs::metadata(path(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read(dir.path()).unwrap(), Some(local()));
    }

    #[test]
    fn a_stopping_server_keeps_the_file_of_a_later_server() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &local()).unwrap();
        remove(dir.path(), &Credentials { url: DEFAULT_URL.into(), key: ApiKey::new("older") });
        assert!(read(dir.path()).unwrap().is_some());
        remove(dir.path(), &local());
        assert_eq!(read(dir.path()).unwrap(), None);
    }

    #[test]
    fn the_local_key_is_never_sent_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &local()).unwrap();
        let elsewhere = choose(Some("https://example.org".into()), None, dir.path()).unwrap_err();
        assert_eq!(elsewhere.class, ErrorClass::Usage);
        assert_eq!(choose(Some(format!("{DEFAULT_URL}/")), None, dir.path()).unwrap(), local());
        assert_eq!(choose(None, Some("viv_k".into()), dir.path()).unwrap().key.open(), "viv_k");
    }

    #[test]
    fn without_a_server_the_hint_names_viv_up() {
        let dir = tempfile::tempdir().unwrap();
        let error = choose(None, None, dir.path()).unwrap_err();
        assert_eq!((error.class, error.code.as_str()), (ErrorClass::Unreachable, "no_server"));
        assert!(error.hint.unwrap().contains("viv up"));
        assert_eq!(choose(Some("nonsense".into()), None, dir.path()).unwrap_err().class, ErrorClass::Usage);
    }

    #[test]
    fn what_cannot_be_a_key_is_refused_before_a_request_and_not_quoted() {
        let dir = tempfile::tempdir().unwrap();
        for wrong in ["sk-secret", "Bearer viv_secret", "viv_se cret"] {
            let error = choose(None, Some(wrong.into()), dir.path()).unwrap_err();
            assert_eq!(error.class, ErrorClass::Usage);
            assert!(error.message.starts_with("the value in `VIV_KEY` is no key"), "{error}");
            assert!(!error.to_string().contains("cret"), "{error}");
        }
        write(dir.path(), &Credentials { url: DEFAULT_URL.into(), key: ApiKey::new("broken") }).unwrap();
        let error = choose(None, None, dir.path()).unwrap_err();
        assert!(error.message.contains("credentials.json` is no key"), "{error}");
    }

    #[test]
    fn the_path_of_the_api_is_not_part_of_the_address() {
        for url in ["http://127.0.0.1:7878/v1", "http://127.0.0.1:7878/v1/"] {
            let error = checked(url).unwrap_err();
            assert!(error.message.contains("without the path"), "{error}");
            assert!(error.hint.unwrap().contains("leave out `/v1`"));
        }
        assert_eq!(checked("https://example.org/vivarium/").unwrap(), "https://example.org/vivarium");
    }

    #[test]
    fn debug_output_never_contains_a_key() {
        assert!(!format!("{:?}", local()).contains("viv_local"));
    }
}
