//! `viv export agent` and `viv import agent`: one agent with its flushed history as lines of JSON. An export
//! reads while a server runs; an import needs the data directory exclusively.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use agent::life::Standing;
use serde_json::json;
use storage::sqlite::{self, Import, Imported, LineFlaw, UpkeepError};

use crate::args::{ExportArgs, Global, ImportArgs};
use crate::commands::upkeep::{failure, only_with_admin_key};
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, new_file, unwritable};
use crate::settings;

/// Exports an agent.
pub(crate) fn export(global: &Global, screen: Screen, args: &ExportArgs) -> Result<Exit> {
    let dir = settings::data_dir(global)?;
    only_with_admin_key(&dir)?;
    let Some(path) = &args.file else {
        let path = Path::new("standard output");
        let mut out = BufWriter::new(io::stdout().lock());
        let written = match sqlite::export(&dir, &args.agent, &mut out) {
            Ok(_) => out.flush(),
            Err(UpkeepError::Io { doing: "write", source, .. }) => Err(source),
            Err(error) => return Err(failure(&dir, error)),
        };
        return match written {
            // The reader wants no more.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritable(path, &error)),
            _ => Ok(Exit::Answered),
        };
    };
    let mut out = BufWriter::new(new_file(path)?);
    let written =
        sqlite::export(&dir, &args.agent, &mut out).map_err(|error| export_failure(&dir, path, error));
    let flushed =
        out.flush().and_then(|()| out.get_ref().sync_all()).map_err(|error| unwritable(path, &error));
    let exported = written.and_then(|written| flushed.map(|()| written)).inspect_err(|_| {
        // Half an export is useless. If it cannot be removed, its missing last line shows that it is
        // incomplete.
        let _ = std::fs::remove_file(path);
    })?;
    let answer = json!({"agent": exported.name, "lines": exported.lines, "file": path});
    screen.result(
        &answer,
        &format!("wrote agent `{}` to `{}`, {} lines", exported.name, path.display(), exported.lines),
    );
    screen.note(
        "run only one copy: suspend or retire it here before you resume it elsewhere; keys, spaces and their messages are not in it",
    );
    Ok(Exit::Answered)
}

/// Imports an agent.
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
    let state = match standing {
        Standing::Active => "active from the next `viv up` on",
        Standing::Suspended => "suspended, as before",
        Standing::Retired => "retired, as before",
    };
    screen.line(&format!("imported agent `{name}`: {state} ({records} records)"));
    let mut pending = Vec::new();
    match waiting {
        0 => {}
        1 => pending.push("1 event is waiting".to_owned()),
        n => pending.push(format!("{n} events are waiting")),
    }
    if open {
        pending.push("an open cycle continues".to_owned());
    }
    if !pending.is_empty() {
        let when = if standing == Standing::Suspended { "once it is resumed" } else { "at the next start" };
        screen.line(&format!("{}: it wakes {when}", pending.join(", and ")));
    }
    screen.note(&format!("`viv spaces add SPACE {name}` adds it to a space"));
    Ok(Exit::Answered)
}

/// Flaws that are listed; more are counted.
const FLAWS_SHOWN: usize = 20;

fn flawed(file: &Path, flaws: &[LineFlaw], more: u64) -> Failure {
    let file = file.display();
    let mut message = format!("`{file}` cannot be imported; nothing was imported");
    for LineFlaw { line, what } in flaws.iter().take(FLAWS_SHOWN) {
        let location = if *line == 0 { String::new() } else { format!("line {line}: ") };
        message += &format!("\n  {location}{what}");
    }
    let left = flaws.len().saturating_sub(FLAWS_SHOWN) as u64 + more;
    if left > 0 {
        message += &format!("\n  and {left} more");
    }
    Failure::new(Exit::Usage, "bad_export", message)
        .hint("export it again with `viv export agent`; `--as NAME` imports it under another handle")
}

/// The failure of an export. For a write error only the caller knows the target's name.
fn export_failure(dir: &Path, path: &Path, error: UpkeepError) -> Failure {
    match error {
        UpkeepError::Io { doing: "write", source, .. } => unwritable(path, &source),
        error => failure(dir, error),
    }
}
