//! `viv secrets`: the secrets of tools, hooks and targets, on the machine of the server. Values are read, never printed.

use std::path::Path;

use models::catalog::PROVIDERS;
use serde_json::json;

use crate::args::{Global, SecretsArgs, SecretsVerb};
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::output::Screen;
use crate::{settings, tool_secrets};

const SECRET_MAX_BYTES: usize = 16 * 1024;

pub(crate) fn run(global: &Global, screen: &Screen, args: SecretsArgs) -> Result<Exit> {
    let data_dir = settings::data_dir(global)?;
    match args.verb {
        None | Some(SecretsVerb::List) => list(&data_dir, screen)?,
        Some(SecretsVerb::Set { name }) => {
            check(&name)?;
            let value = input::text(SECRET_MAX_BYTES)?;
            if value.trim().is_empty() || value.len() > SECRET_MAX_BYTES {
                let message = format!("wanted a secret of 1 to {SECRET_MAX_BYTES} bytes on standard input");
                return Err(
                    Failure::usage(message).hint(format!("printf %s \"$TOKEN\" | viv secrets set {name}"))
                );
            }
            tool_secrets::change(&data_dir, |written| drop(written.insert(name.clone(), value)))?;
            screen.result(
                &json!({"set": name}),
                &format!("`{name}` is set; the next call uses it, and hooks within seconds"),
            );
            if let Some((variable, _)) = tool_secrets::from_environment(&name) {
                screen.warning(&format!("`{variable}` is set, too, and is used instead"));
            }
        }
        Some(SecretsVerb::Remove { name }) => {
            let mut found = false;
            tool_secrets::change(&data_dir, |written| found = written.remove(&name).is_some())?;
            if !found {
                let message = format!("there is no secret `{name}`");
                return Err(
                    Failure::new(Exit::NotFound, "not_found", message).hint("`viv secrets` lists them")
                );
            }
            screen.result(&json!({"removed": name}), &format!("`{name}` is removed"));
        }
    }
    Ok(Exit::Answered)
}

fn list(data_dir: &Path, screen: &Screen) -> Result<()> {
    let written = tool_secrets::read(data_dir)?;
    let names: Vec<&String> = written.keys().collect();
    if screen.json {
        screen.json_list(names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>());
    } else if names.is_empty() {
        screen.text("no secrets of tools or hooks are set here; `viv secrets set NAME` sets one");
    } else {
        names.iter().for_each(|name| screen.line(&screen.clean_line(name)));
    }
    Ok(())
}

fn check(name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if !(1..=64).contains(&name.len()) || !name.bytes().all(plain) {
        let message = "wanted a name of 1 to 64 characters from a-z, A-Z, 0-9, `_`, `-` and `.`";
        return Err(Failure::usage(message).hint("the secret itself is read from standard input"));
    }
    if PROVIDERS.iter().flat_map(|provider| provider.key_envs()).any(|known| known == name) {
        return Err(Failure::usage(format!(
            "`{name}` is the key of a model's provider, not of a tool or hook"
        ))
        .hint("write it into `secrets.toml` in the data directory: docs/models.md"));
    }
    Ok(())
}
