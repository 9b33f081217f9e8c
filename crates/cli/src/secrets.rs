//! Keys of model providers: from the environment, else from `secrets.toml` in the data directory, which
//! only its owner may read. They are never printed and never stored elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agent::config::nearest;
use models::catalog::PROVIDERS;
use models::model_book::KeyRing;
use models::secret::Secret;
use toml::Value;

use crate::errors::{Failure, Result};
use crate::output::shortened;
use crate::settings;

const FILE: &str = "secrets.toml";
const EXAMPLE: &str = "one line for each key, such as OPENAI_API_KEY = \"sk-...\"";
/// Columns of a wrong name that are shown: keys are longer.
const NAME_COLUMNS: usize = 20;

pub(crate) struct Secrets {
    pub(crate) ring: KeyRing,
    written: Vec<(String, Secret)>,
}

impl Secrets {
    /// The secret with that name: from the environment, else from the file.
    pub(crate) fn named(&self, name: &str) -> Option<Secret> {
        let found = std::env::var(name).ok().filter(|key| !key.trim().is_empty());
        let written = || self.written.iter().find(|(known, _)| known == name).map(|(_, key)| key.clone());
        found.map(|key| Secret::new(&key)).or_else(written).filter(|key| !key.is_empty())
    }
}

/// Gathers the secrets. `refs` are names that the settings use in addition to the providers' own.
pub(crate) fn gather(data_dir: &Path, refs: &[&str]) -> Result<Secrets> {
    let written = read(data_dir, refs)?.unwrap_or_default();
    let file = data_dir.join(FILE).display().to_string();
    let ring = KeyRing::gather(|name| std::env::var(name).ok(), &written, &file);
    Ok(Secrets { ring, written })
}

fn read(data_dir: &Path, refs: &[&str]) -> Result<Option<Vec<(String, Secret)>>> {
    let path = data_dir.join(FILE);
    let shown = path.display();
    let unreadable = |error| Failure::usage(format!("cannot read `{shown}`: {error}"));
    let Some(text) = settings::text(&path)? else { return Ok(None) };
    let mode = fs::metadata(&path).map_err(unreadable)?.permissions().mode();
    if mode & 0o077 != 0 {
        let message = format!("`{shown}` is readable by others (mode {:03o})", mode & 0o777);
        return Err(Failure::usage(message).hint(format!("chmod 600 {shown}")));
    }
    // The parser's own message would quote the line and with it the key.
    let Ok(table) = text.parse::<toml::Table>() else {
        return Err(Failure::usage(format!("`{shown}` is not a table of keys")).hint(EXAMPLE));
    };
    let entry = |(name, value)| {
        entry(name, value, refs)
            .map_err(|(what, hint)| Failure::usage(format!("in `{shown}`, {what}")).hint(hint))
    };
    table.into_iter().map(entry).collect::<Result<_>>().map(Some)
}

/// One entry of the file, or what is wrong with it and what to do. The error never contains the value.
fn entry(
    name: String,
    value: Value,
    refs: &[&str],
) -> std::result::Result<(String, Secret), (String, String)> {
    // Several providers may share a key name.
    let known: BTreeSet<&str> = PROVIDERS.iter().flat_map(|provider| provider.key_envs()).collect();
    if !known.contains(name.as_str()) && !refs.contains(&name.as_str()) {
        let hint = match nearest(&name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are `{}`", known.into_iter().collect::<Vec<_>>().join("`, `")),
        };
        // A key written where its name belongs must not be printed in full.
        let shown = shortened(&name, NAME_COLUMNS);
        return Err((format!("`{shown}` is not the name of a key"), hint));
    }
    match value {
        Value::String(key) => Ok((name, Secret::new(&key))),
        other => {
            let what = format!("`{name}` must be a string in quotes and is of type {}", other.type_str());
            Err((what, EXAMPLE.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, mode: u32) -> Result<Option<Vec<(String, Secret)>>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        read(dir.path(), &["MINE"])
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
    fn without_a_file_there_are_no_keys() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path(), &[]).unwrap(), None);
    }

    #[test]
    fn keys_may_use_every_toml_string_syntax() {
        let text = "# mine\n\"OPENAI_API_KEY\" = 'sk-#1' # from work\nGROQ_API_KEY = \"\"\"gsk\"\"\"\n";
        let pairs = [("OPENAI_API_KEY", "sk-#1"), ("GROQ_API_KEY", "gsk")];
        let pairs = pairs.map(|(name, key)| (name.to_owned(), Secret::new(key)));
        let mut read = with(text, 0o600).unwrap().unwrap();
        read.sort_by(|(a, _), (b, _)| b.cmp(a));
        assert_eq!(read, pairs);
    }

    #[test]
    fn a_name_used_by_the_settings_is_accepted() {
        assert_eq!(with("MINE = 'k'", 0o600).unwrap().unwrap(), [("MINE".to_owned(), Secret::new("k"))]);
    }

    #[test]
    fn an_unknown_name_is_refused_without_printing_its_value() {
        let check = |text: &str, words: &str| {
            let failure = with(text, 0o600).unwrap_err().to_string();
            assert!(failure.contains(words) && !failure.contains("canary"), "{failure}");
        };
        check("OPENAI_API_KEY = 5", "`OPENAI_API_KEY` must be a string in quotes and is of type integer");
        check("[OPENAI_API_KEY]\nkey = \"canary\"", "`OPENAI_API_KEY` must be a string in quotes");
        check("[openai]\nkey = \"canary\"", "`openai` is not the name of a key");
        check("OPENAI_APY_KEY = \"canary\"", "did you mean `OPENAI_API_KEY`?");
        check("sk-0123456789012345678901234567-canary = \"\"", "known are `ANTHROPIC_API_KEY`");
    }
}
