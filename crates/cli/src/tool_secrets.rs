//! Secrets of tools and hooks: from the environment (`VIV_SECRET_NAME`), else from `tool-secrets.toml` in the data directory, which only
//! its owner may read, else from a program that the settings name. Asked for each call, so that a change counts at once;
//! never printed, never stored elsewhere, never in a backup.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use agent::port::BoxFuture;
use tools::child::{Ended, Holder};
use tools::secret::{SecretValue, Secrets};

use crate::errors::{Exit, Failure, Result};
use crate::settings::{self, Settings};

const FILE: &str = "tool-secrets.toml";
/// How long the program may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// What is read of what it prints.
const OUTPUT_MAX_BYTES: u64 = 1 << 20;

/// Where the secrets of one server are.
pub(crate) struct ToolSecrets {
    data_dir: PathBuf,
    /// The program and its arguments; empty if there is none.
    command: Vec<String>,
}

/// The secrets in the file by name. A `BTreeMap` of texts: it must not be printed.
type WrittenSecrets = BTreeMap<String, String>;

impl ToolSecrets {
    pub(crate) fn of(settings: &Settings) -> Self {
        let command = settings.text("secret_command").split_whitespace().map(str::to_owned).collect();
        Self { data_dir: settings.data_dir().to_owned(), command }
    }

    async fn find(&self, name: &str) -> Option<SecretValue> {
        if let Some((_, found)) = from_environment(name) {
            return Some(SecretValue::new(&found));
        }
        match read(&self.data_dir) {
            Ok(written) => {
                if let Some(found) = written.get(name) {
                    return Some(SecretValue::new(found));
                }
            }
            Err(failure) => tracing::warn!("{failure}"),
        }
        self.ask(name).await
    }

    /// What the program prints.
    async fn ask(&self, name: &str) -> Option<SecretValue> {
        let (program, arguments) = self.command.split_first()?;
        let asking = async {
            let mut command = Holder::default().command(program)?;
            command.args(arguments.iter().map(|argument| argument.replace("{name}", name)));
            command.stderr(Stdio::null());
            command.printed(OUTPUT_MAX_BYTES).await
        };
        let output = match tokio::time::timeout(COMMAND_TIMEOUT, asking).await {
            Ok(Ok(output)) if output.ended == Ended::Exited(0) => output,
            Ok(Ok(output)) => {
                tracing::warn!("`secret_command` has no secret `{name}`: {}", output.ended);
                return None;
            }
            Ok(Err(error)) => {
                tracing::warn!("`secret_command` could not be run: {error}");
                return None;
            }
            Err(_) => {
                let seconds = COMMAND_TIMEOUT.as_secs();
                tracing::warn!("`secret_command` did not print the secret `{name}` within {seconds} s");
                return None;
            }
        };
        // Programs print more behind the first line, such as a user's name.
        let text = String::from_utf8(output.text).ok()?;
        text.lines().next().filter(|line| !line.trim().is_empty()).map(SecretValue::new)
    }
}

impl Secrets for ToolSecrets {
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<SecretValue>> {
        Box::pin(self.find(name))
    }
}

/// How the characters are written of which variables have none of their own.
const WRITTEN: [(char, &str); 3] = [('_', "_"), ('.', "__"), ('-', "___")];
/// A setting, and so no secret.
const NO_SECRET: &str = "VIV_SECRET_COMMAND";

/// The name of its environment variable, which no other secret has: what one server is sent is not what was meant for another. A
/// secret has none if its name has capital letters, or two of `_`, `.` and `-` side by side.
pub(crate) fn variable(name: &str) -> Option<String> {
    let special = |c: char| WRITTEN.iter().find(|(special, _)| *special == c).map(|(_, written)| *written);
    let mut variable = "VIV_SECRET_".to_owned();
    let mut before = None;
    for c in name.chars() {
        match special(c) {
            Some(written) if before.is_none() => variable.push_str(written),
            None if c.is_ascii_lowercase() || c.is_ascii_digit() => variable.push(c.to_ascii_uppercase()),
            _ => return None,
        }
        before = special(c);
    }
    (variable != NO_SECRET).then_some(variable)
}

/// The variable that is set for this secret, and its value.
pub(crate) fn from_environment(name: &str) -> Option<(String, String)> {
    let variable = variable(name)?;
    let value = std::env::var(&variable).ok().filter(|value| !value.trim().is_empty())?;
    Some((variable, value))
}

/// The secrets in the file. An error never quotes what it holds.
pub(crate) fn read(data_dir: &Path) -> Result<WrittenSecrets> {
    let path = data_dir.join(FILE);
    let shown = path.display();
    let unreadable = |error: io::Error| Failure::usage(format!("cannot read `{shown}`: {error}"));
    let Some(text) = settings::text(&path)? else { return Ok(WrittenSecrets::new()) };
    let mode = fs::metadata(&path).map_err(unreadable)?.permissions().mode();
    if mode & 0o077 != 0 {
        let message = format!("`{shown}` is readable by others (mode {:03o})", mode & 0o777);
        return Err(Failure::usage(message).hint(format!("chmod 600 {shown}")));
    }
    toml::from_str(&text).map_err(|_| {
        Failure::usage(format!("`{shown}` is not a table of texts"))
            .hint("one line for each secret, such as crm_token = \"...\"")
    })
}

/// Changes the file, which is replaced as a whole.
pub(crate) fn change(data_dir: &Path, change: impl FnOnce(&mut WrittenSecrets)) -> Result<()> {
    let mut written = read(data_dir)?;
    change(&mut written);
    let path = data_dir.join(FILE);
    let failed = |error: io::Error| {
        let message = format!("cannot write `{}`: {error}", path.display());
        Failure::new(Exit::Failed, "secrets_unwritable", message).hint("nothing was changed")
    };
    let text = toml::to_string(&written).map_err(|error| failed(io::Error::other(error)))?;
    fs::create_dir_all(data_dir).map_err(failed)?;
    let draft = path.with_extension("toml.new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
    let done = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    done.and_then(|()| fs::rename(&draft, &path)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(dir: &Path, command: &[&str]) -> ToolSecrets {
        let command = command.iter().map(|&word| word.to_owned()).collect();
        ToolSecrets { data_dir: dir.to_owned(), command }
    }

    #[tokio::test]
    async fn a_secret_is_found_in_the_file_that_only_its_owner_may_read() {
        let dir = tempfile::tempdir().unwrap();
        let all = secrets(dir.path(), &[]);
        assert_eq!(all.find("crm.token").await, None);
        change(dir.path(), |written| drop(written.insert("crm.token".into(), "filed".into()))).unwrap();
        assert_eq!(all.find("crm.token").await, Some(SecretValue::new("filed")));
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        change(dir.path(), |written| drop(written.remove("crm.token"))).unwrap();
        assert_eq!(secrets(dir.path(), &["/nowhere"]).find("crm.token").await, None);
        assert_eq!(all.find("crm.token").await, None);
    }

    #[test]
    fn no_two_secrets_share_a_variable() {
        for (name, wanted) in [
            ("crm_token", Some("VIV_SECRET_CRM_TOKEN")),
            ("crm.token-2", Some("VIV_SECRET_CRM__TOKEN___2")),
            ("api.example.com.token", Some("VIV_SECRET_API__EXAMPLE__COM__TOKEN")),
            ("api-example.com.token", Some("VIV_SECRET_API___EXAMPLE__COM__TOKEN")),
            ("Token", None),
            ("a..b", None),
            ("a_.b", None),
            ("a__b", None),
            ("command", None),
            ("a b", None),
        ] {
            assert_eq!(variable(name).as_deref(), wanted, "{name}");
        }
        // Every name of up to five characters that have the same shape.
        let mut names = vec![String::new()];
        let mut found = BTreeMap::new();
        for _ in 0..5 {
            names =
                (names.iter()).flat_map(|name| "aA1_.-".chars().map(move |c| format!("{name}{c}"))).collect();
            for name in &names {
                let Some(variable) = variable(name) else { continue };
                assert_eq!(found.insert(variable, name.clone()), None, "{name}");
            }
        }
        assert!(found.len() > 500, "{}", found.len());
    }

    #[tokio::test]
    async fn a_file_that_others_may_read_or_that_is_broken_is_not_used_and_not_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        fs::write(&path, "a = \"canary\"").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let failure = read(dir.path()).unwrap_err();
        assert!(failure.message.contains("mode 644") && !failure.to_string().contains("canary"));
        assert_eq!(secrets(dir.path(), &[]).find("a").await, None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "a = canary").unwrap();
        assert!(!read(dir.path()).unwrap_err().to_string().contains("canary"));
        fs::write(&path, "a = 5").unwrap();
        assert!(change(dir.path(), |_| {}).is_err(), "what cannot be read is not overwritten");
    }
}
