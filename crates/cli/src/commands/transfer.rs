//! `viv agents export` and `viv agents import`: one agent with its flushed history as lines of JSON. An export
//! reads while a server runs; an import needs the data directory exclusively.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use agent::archive::FileOrigin;
use agent::guard::GuardMode;
use agent::life::Standing;
use serde_json::json;
use storage::sqlite::{self, Import, Imported, LineFlaw, UpkeepError};

use crate::args::Global;
use crate::commands::upkeep::{failure, only_with_admin_key};
use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, new_file, unwritable};
use crate::settings;

pub(crate) fn export(global: &Global, screen: Screen, agent: &str, file: Option<&Path>) -> Result<Exit> {
    let dir = settings::data_dir(global)?;
    only_with_admin_key(&dir)?;
    if file.is_none() && screen.width.is_some() {
        let message = "an export is many lines of JSON, which a terminal is not for";
        let hint = format!("name a file: `viv agents export {agent} {agent}.jsonl`, or pipe it");
        return Err(Failure::usage(message).hint(hint));
    }
    let path = file.unwrap_or(Path::new("standard output"));
    let mut out: BufWriter<Box<dyn Write>> = BufWriter::new(match file {
        Some(path) => Box::new(new_file(path)?),
        None => Box::new(io::stdout().lock()),
    });
    let exported = sqlite::export(&dir, agent, &mut out).and_then(|exported| {
        let synced = file.map_or(Ok(()), |path| File::open(path)?.sync_all());
        let failed = |source| UpkeepError::Io { doing: "write", file: path.to_owned(), source };
        out.flush().and(synced).map(|()| exported).map_err(failed)
    });
    let exported = match exported {
        // The reader of the pipe wants no more.
        Err(UpkeepError::Io { source, .. }) if source.kind() == ErrorKind::BrokenPipe => {
            return Ok(Exit::Answered);
        }
        Err(UpkeepError::Io { doing: "write", source, .. }) => Err(unwritable(path, &source)),
        other => other.map_err(|error| failure(&dir, error)),
    };
    let Some(path) = file else { return exported.map(|_| Exit::Answered) };
    let exported = exported.inspect_err(|_| {
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
        "run only one copy: suspend or retire it here before you resume it elsewhere, with `viv agents import --trusted`; keys, spaces \
         and their messages are not in it",
    );
    Ok(Exit::Answered)
}

pub(crate) fn import(
    global: &Global,
    screen: Screen,
    file: &Path,
    name: Option<&str>,
    origin: FileOrigin,
) -> Result<Exit> {
    let dir = settings::data_dir(global)?;
    let done = sqlite::import(&dir, file, name, origin).map_err(|error| failure(&dir, error))?;
    let imported = match done {
        Import::Done(imported) => imported,
        Import::Flawed { flaws, more } => return Err(flawed(file, &flaws, more)),
    };
    let Imported { name, records, waiting, open, standing, guard, tools, plans, open_calls } = imported;
    let state = match standing {
        Standing::Active => "active from the next `viv up` on",
        Standing::Suspended => "suspended, as before",
        Standing::Retired => "retired, as before",
    };
    let cycle = if open { ", an open cycle" } else { "" };
    screen.result(
        &json!({
            "agent": name, "records": records, "waiting": waiting, "in_a_cycle": open, "standing": standing.as_str(),
            "trusted": origin == FileOrigin::Own, "guard": guard.as_str(), "tools": tools, "plans": plans, "open_calls": open_calls,
        }),
        &format!("imported agent `{name}`: {state} (records {records}, waiting events {waiting}{cycle})"),
    );
    screen.note(&format!("`viv spaces add SPACE {name}` adds it to a space"));
    believed(&screen, origin, (guard, tools, &plans, &open_calls));
    Ok(Exit::Answered)
}

/// Says what a file is believed in.
fn believed(
    screen: &Screen,
    origin: FileOrigin,
    (guard, tools, plans, open_calls): (GuardMode, Option<Vec<String>>, &[String], &[String]),
) {
    let named = |names: &[String]| {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        screen.clean_line(&names.join(", "))
    };
    let tools = tools.map_or_else(|| "all".to_owned(), |tools| named(&tools));
    screen.note(&format!("its config is taken as it is: guard `{}`, tools {tools}", guard.as_str()));
    if guard == GuardMode::Off {
        screen.warning("its guard is off: while it reads what strangers wrote, nobody is asked before it sends something out");
    }
    if !plans.is_empty() {
        screen.note(&format!("its plans will wake it: {}", named(plans)));
    }
    if !open_calls.is_empty() {
        screen.note(&format!("its calls go on: {}", named(open_calls)));
    }
    if origin == FileOrigin::Unknown {
        screen.warning(
            "all that it has read and remembers counts as written by strangers, whatever its file says: a call that sends something \
             out asks a person. `--trusted` believes a file that you have written yourself",
        );
    }
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
        .hint("if the file is damaged, export it again with `viv agents export`")
}
