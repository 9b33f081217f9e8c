//! `viv backup`, `viv restore`, `viv verify` and `viv verify --rebuild-index`: the whole store, with or without a running server. They
//! open its file directly, because there may be no server to ask.

use std::path::{Path, PathBuf};

use agent::port::{Credential, Scope};
use jiff::Timestamp;
use serde_json::{Value, json};
use server::keys;
use storage::sqlite::{self, Figures, Flaw, Indexed, UpkeepError, Verified};

use crate::args::{Global, RestoreArgs};
use crate::commands::up::cannot_open;
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::output::{Screen, Style, counted};
use crate::progress::Progress;
use crate::settings;

/// Files of a data directory that are not part of the store.
const NOT_STORE: [&str; 5] = ["lock", "credentials.json", "secrets.toml", "viv.log", "viv.log.1"];

pub(crate) fn backup(global: &Global, screen: Screen, to: &Path) -> Result<Exit> {
    let dir = settings::data_dir(global)?;
    only_with_admin_key(&dir)?;
    let name = format!("vivarium-{}.db", stamp());
    let progress = Progress::start(&screen, "progress the store, and reading the copy back");
    let done = sqlite::backup(&dir, to, &name).map_err(|error| failure(&dir, error))?;
    drop(progress);
    let file = done.file.display().to_string();
    if screen.json {
        let mut answer = to_json(&done.verified);
        answer["file"] = json!(file);
        answer["bytes"] = json!(done.bytes);
        screen.json_line(&answer);
        return Ok(Exit::Answered);
    }
    screen.text(&format!("backed up `{}` to `{file}`", dir.display()));
    screen.pairs(&[("size", size(done.bytes)), ("holds", summary(&done.verified.figures))]);
    screen.note(
        "it holds the hashes of all keys of this server, but not secrets.toml, settings and agent files",
    );
    warn_of_flaws(&screen, &done.verified, "the store has");
    Ok(Exit::Answered)
}

/// Refuses to copy a store for a key in `VIV_KEY` that may not read all of it. Without a key the permissions of the
/// file decide.
pub(crate) fn only_with_admin_key(dir: &Path) -> Result<()> {
    let Some(given) = client::key_in_environment()? else { return Ok(()) };
    let found = sqlite::key(dir, &keys::hash(given.open())).map_err(|error| failure(dir, error))?;
    let reads_all = |key: &Credential| {
        !key.is_expired(Timestamp::now()) && matches!(key.scope, Scope::Admin | Scope::Read)
    };
    match found.filter(reads_all) {
        Some(_) => Ok(()),
        None => {
            let message =
                format!("the key in `VIV_KEY` may not read all of the store in `{}`", dir.display());
            Err(Failure::new(Exit::Refused, "forbidden", message)
                .hint("use an admin key, or unset `VIV_KEY`: then this user's file permissions decide"))
        }
    }
}

pub(crate) fn restore(global: &Global, screen: Screen, args: &RestoreArgs) -> Result<Exit> {
    let dir = settings::data_dir(global)?;
    if args.replace {
        let what = format!("the store in `{}` will be put aside and replaced by the backup", dir.display());
        input::confirm(&screen, &what, args.yes, Some("name another --data-dir"))?;
    }
    let aside = format!("before-restore-{}", stamp());
    let progress = Progress::start(&screen, "progress the backup, and reading the copy back");
    let done = sqlite::restore(&args.backup, &dir, &NOT_STORE, args.replace.then_some(&aside))
        .map_err(|error| failure(&dir, error))?;
    drop(progress);
    if screen.json {
        let mut answer = to_json(&done.verified);
        answer["file"] = json!(done.file.display().to_string());
        answer["before"] = json!(done.aside.map(|aside| aside.display().to_string()));
        screen.json_line(&answer);
        return Ok(Exit::Answered);
    }
    let from = args.backup.display();
    let dir = dir.display();
    screen.text(&format!("restored `{from}` into `{dir}`"));
    screen.pairs(&[("holds", summary(&done.verified.figures))]);
    if let Some(aside) = done.aside {
        screen.text(&format!("the previous store is in `{}`", aside.display()));
    }
    screen.note(
        "every key that was valid at the time of the backup is valid again; keys of model providers are not in a backup",
    );
    warn_of_flaws(&screen, &done.verified, "the backup has");
    Ok(Exit::Answered)
}

pub(crate) fn verify(global: &Global, screen: Screen, backup: Option<PathBuf>) -> Result<Exit> {
    let location = match backup {
        Some(backup) => backup,
        None => settings::data_dir(global)?,
    };
    let progress = Progress::start(&screen, "reading the whole store");
    let found = sqlite::verify(&location).map_err(|error| failure(&location, error))?;
    drop(progress);
    let sound = found.flaws.is_empty();
    if screen.json {
        screen.json_line(&to_json(&found));
    } else {
        for flaw in &found.flaws {
            screen.wrapped(&format!("{}  {}", screen.paint(Style::Red, "flaw"), line(&screen, flaw)), 6);
        }
        if found.more > 0 {
            screen.line(&format!("and {} more", found.more));
        }
        screen.pairs(&[("holds", summary(&found.figures))]);
        if let Some(why) = unread(&found) {
            screen.line(&format!("its records were not checked: {why}"));
        }
        let verdict = match (sound, found.records) {
            (true, true) => screen.paint(Style::Green, "nothing is wrong"),
            (true, false) => "nothing is wrong with the file".to_owned(),
            (false, _) => flaws(&found),
        };
        screen.line(&verdict);
    }
    Ok(if sound { Exit::Answered } else { Exit::Failed })
}

pub(crate) fn rebuild_index(global: &Global, screen: Screen) -> Result<Exit> {
    let dir = settings::data_dir(global)?;
    let progress = Progress::start(&screen, "reading the whole store");
    let Indexed { agents, texts } = sqlite::rebuild_index(&dir).map_err(|error| failure(&dir, error))?;
    drop(progress);
    let shown = format!("{} can be found, of {}", counted(texts, "text"), counted(agents, "agent"));
    screen.result(&json!({"agents": agents, "texts": texts}), &shown);
    Ok(Exit::Answered)
}

fn stamp() -> String {
    Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()
}

fn to_json(found: &Verified) -> Value {
    let mut json = json!(found);
    json["ok"] = found.flaws.is_empty().into();
    json
}

fn summary(figures: &Figures) -> String {
    let Figures { agents, spaces, messages, events, entries, commits } = figures;
    format!(
        "agents {agents}, spaces {spaces}, messages {messages}, events {events}, entries {entries}, commits {commits}"
    )
}

fn size(bytes: u64) -> String {
    match bytes {
        0..=1_048_575 => format!("{} KB", bytes.div_ceil(1024)),
        _ => format!("{}.{} MB", bytes >> 20, ((bytes % (1 << 20)) * 10) >> 20),
    }
}

fn line(screen: &Screen, flaw: &Flaw) -> String {
    let whose = flaw.agent.as_ref().map(|agent| format!("agent `{agent}`, ")).unwrap_or_default();
    let which = if flaw.id.is_empty() { String::new() } else { format!(" `{}`", flaw.id) };
    screen.clean_line(&format!("{whose}{}{which}: {}", flaw.table, flaw.what))
}

fn flaws(found: &Verified) -> String {
    counted(found.flaws.len() as u64 + found.more, "flaw")
}

fn unread(found: &Verified) -> Option<&'static str> {
    let why = match found.flaws.is_empty() {
        true => "its schema is older; the next `viv up` migrates it",
        false => "the file is damaged",
    };
    (!found.records).then_some(why)
}

/// Warns that a copy contains flaws; it is still usable.
fn warn_of_flaws(screen: &Screen, found: &Verified, whose: &str) {
    if !found.flaws.is_empty() {
        let warning = format!("{whose} {}: `viv verify` lists them", flaws(found));
        screen.line(&screen.paint(Style::Yellow, &warning));
    }
    if let Some(why) = unread(found).filter(|_| found.flaws.is_empty()) {
        screen.note(&format!("its records were not checked: {why}"));
    }
}

pub(crate) fn failure(location: &Path, error: UpkeepError) -> Failure {
    let message = error.to_string();
    match error {
        UpkeepError::Open(error) => cannot_open(location, error),
        UpkeepError::Missing { .. } => Failure::new(Exit::NotFound, "no_store", message)
            .hint("name the data directory with --data-dir, or a backup by its file"),
        UpkeepError::NoAgent { .. } => Failure::new(Exit::NotFound, "not_found", message),
        UpkeepError::Older { .. } => Failure::new(Exit::Refused, "store_older", message)
            .hint("`viv up` brings the store up to date"),
        UpkeepError::Exists { .. } => Failure::new(Exit::Refused, "would_overwrite", message)
            .hint("name another file, or a folder: then the backup's name is the time"),
        UpkeepError::NotEmpty { store, .. } => Failure::new(Exit::Refused, "not_empty", message).hint(match store {
            true => "name another --data-dir, or add --replace: the existing store is kept in a folder next to it",
            false => "name an empty --data-dir, or one that does not exist",
        }),
        UpkeepError::Unsound { .. } => Failure::new(Exit::Failed, "store_damaged", message)
            .hint("`viv verify` lists what is wrong; take an older backup"),
        UpkeepError::NoFile { .. } => Failure::new(Exit::Failed, "file_unusable", message)
            .hint("name a file; save piped input to a file first"),
        UpkeepError::Io { .. } => Failure::new(Exit::Failed, "file_unusable", message)
            .hint("may this user read and write there, and is there space on the disk?"),
        UpkeepError::Store(_) => Failure::new(Exit::Failed, "store_failed", message)
            .hint("`viv verify` lists what is wrong"),
    }
}
