//! `viv export agent` and `viv import agent`: one agent with its whole life as lines of JSON. An export
//! reads beside a running server; an import needs the directory for itself.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use agent::life::Standing;
use serde_json::json;
use storage::sqlite::{self, Import, Imported, LineFlaw, UpkeepError};

use crate::args::{ExportArgs, Global, ImportArgs};
use crate::commands::upkeep::failure;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;
use crate::settings;

/// Writes an agent.
pub(crate) fn export(global: &Global, screen: Screen, args: &ExportArgs) -> Result<Exit> {
    let dir = settings::data_dir(global)?;
    let Some(path) = &args.file else {
        let path = Path::new("standard output");
        let mut out = BufWriter::new(io::stdout().lock());
        sqlite::export(&dir, &args.agent, &mut out).map_err(|error| unwritten(&dir, path, error))?;
        out.flush().map_err(|error| unwritable(path, &error))?;
        return Ok(Exit::Answered);
    };
    let mut options = File::options();
    options.write(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let message = format!("`{}` already exists and is not overwritten", path.display());
            return Err(Failure::new(Exit::Refused, "would_overwrite", message).hint("name another file"));
        }
        Err(error) => return Err(unwritable(path, &error)),
    };
    let mut out = BufWriter::new(file);
    let written = sqlite::export(&dir, &args.agent, &mut out).map_err(|error| unwritten(&dir, path, error));
    let whole = out.flush().and_then(|()| out.get_ref().sync_all()).map_err(|error| unwritable(path, &error));
    let exported = written.and_then(|written| whole.map(|()| written)).inspect_err(|_| {
        // Half an agent is none; where it cannot be removed its last line tells.
        let _ = std::fs::remove_file(path);
    })?;
    if screen.json {
        screen.json_line(&json!({"agent": exported.name, "lines": exported.lines, "file": path}));
    } else {
        let line =
            format!("wrote agent `{}` to `{}`, {} lines", exported.name, path.display(), exported.lines);
        screen.line(&screen.clean_line(&line));
        screen.note(
            "run only one copy: suspend or retire it here before you resume it elsewhere; keys, spaces and their messages are not in it",
        );
    }
    Ok(Exit::Answered)
}

/// Takes an agent in.
pub(crate) fn import(global: &Global, screen: Screen, args: &ImportArgs) -> Result<Exit> {
    let dir = settings::data_dir(global)?;
    let done =
        sqlite::import(&dir, &args.file, args.name.as_deref()).map_err(|error| failure(&dir, error))?;
    let imported = match done {
        Import::Done(imported) => imported,
        Import::Flawed { flaws, more } => return Err(flawed(&args.file, &flaws, more)),
    };
    let Imported { name, records, waiting, open, standing } = imported;
    if screen.json {
        screen.json_line(&json!({
            "agent": name, "records": records, "waiting": waiting, "in_a_cycle": open, "standing": standing.as_str(),
        }));
        return Ok(Exit::Answered);
    }
    let lives = match standing {
        Standing::Active => "from the next `viv up` on",
        Standing::Suspended => "suspended, as it was",
        Standing::Retired => "retired, as it was",
    };
    screen.line(&format!("agent `{name}` lives here, {lives} ({records} records)"));
    let mut waits = Vec::new();
    match waiting {
        0 => {}
        1 => waits.push("1 event waits for it, as it did before".to_owned()),
        n => waits.push(format!("{n} events wait for it, as they did before")),
    }
    if open {
        waits.push("a cycle of its goes on where it was".to_owned());
    }
    if !waits.is_empty() {
        let when = if standing == Standing::Suspended { "once it is resumed" } else { "at the next start" };
        screen.line(&format!("{}: it wakes for that {when}", waits.join(", and ")));
    }
    screen.note(&format!("`viv spaces add SPACE {name}` lets it into a space"));
    Ok(Exit::Answered)
}

/// Flaws that are told; more are counted.
const TOLD: usize = 20;

fn flawed(file: &Path, flaws: &[LineFlaw], more: u64) -> Failure {
    let file = file.display();
    let mut message = format!("`{file}` cannot be imported; nothing was imported");
    for LineFlaw { line, what } in flaws.iter().take(TOLD) {
        let place = if *line == 0 { String::new() } else { format!("line {line}: ") };
        message += &format!("\n  {place}{what}");
    }
    let left = flaws.len().saturating_sub(TOLD) as u64 + more;
    if left > 0 {
        message += &format!("\n  and {left} more");
    }
    Failure::new(Exit::Usage, "bad_export", message)
        .hint("`viv export agent` writes it anew; with `--as NAME` it takes another handle here")
}

/// Why an export came to nothing. Where it could not be written, only the caller knows what it was to be.
fn unwritten(dir: &Path, path: &Path, error: UpkeepError) -> Failure {
    match error {
        UpkeepError::Io { doing: "write", source, .. } => unwritable(path, &source),
        error => failure(dir, error),
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, "file_unusable", format!("cannot write `{}`: {error}", path.display()))
        .hint("may this user write there, and is there room on the disk?")
}
