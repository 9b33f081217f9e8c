//! Completions and man pages, generated from the command line's definitions.

use std::path::{Path, PathBuf};

use clap_complete::aot::{self, Shell};
use serde_json::json;

use crate::args;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;

/// Runs `viv completions`.
pub(crate) fn completions(screen: Screen, shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    aot::generate(shell, &mut args::command(), "viv", &mut script);
    let script = String::from_utf8_lossy(&script);
    if screen.json {
        screen.json_line(&json!({"shell": shell.to_string(), "script": script}));
    } else {
        screen.line(script.trim_end());
    }
    Ok(Exit::Answered)
}

/// Runs `viv man`.
pub(crate) fn man(screen: Screen, dir: Option<PathBuf>) -> Result<Exit> {
    if let Some(dir) = &dir {
        return pages_into(&screen, dir);
    }
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(args::command()).render(&mut page);
    rendered.map_err(|error| cannot_write(Path::new("-"), &error))?;
    let page = String::from_utf8_lossy(&page);
    if screen.json {
        screen.json_line(&json!({"page": page}));
    } else {
        screen.line(page.trim_end());
    }
    Ok(Exit::Answered)
}

fn pages_into(screen: &Screen, dir: &Path) -> Result<Exit> {
    std::fs::create_dir_all(dir).map_err(|error| cannot_write(dir, &error))?;
    let mut command = args::command();
    command.build();
    let mut written = Vec::new();
    let mut open = vec![command];
    while let Some(command) = open.pop() {
        open.extend(command.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        let file = dir.join(format!("{name}.1"));
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        rendered.and_then(|()| std::fs::write(&file, page)).map_err(|error| cannot_write(&file, &error))?;
        written.push(file.display().to_string());
    }
    written.sort();
    if screen.json {
        screen.json_list(written);
    } else {
        screen.line(&screen.clean_line(&format!("wrote {} pages into `{}`", written.len(), dir.display())));
    }
    Ok(Exit::Answered)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, "cannot_write", format!("cannot write to `{}`: {error}", path.display()))
        .hint("name another directory with --dir")
}
