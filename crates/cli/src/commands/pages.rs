//! Completions and man pages, generated from the command line's definitions.

use std::path::{Path, PathBuf};

use clap::{Arg, Command, ValueHint};
use clap_complete::aot::{self, Shell};
use serde_json::json;

use crate::args;
use crate::errors::{Exit, Failure, Result};
use crate::output::Screen;

pub(crate) fn completions(screen: Screen, shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    let mut command = without_file_names(args::command());
    aot::generate(shell, &mut command, "viv", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Bash {
        script = without_wrong_words(&script, &command);
    }
    if screen.json {
        screen.json_line(&json!({"shell": shell.to_string(), "script": script}));
    } else {
        screen.line(script.trim_end());
    }
    Ok(Exit::Answered)
}

/// Names of agents, spaces and so on are not known here; the names of files in their place would be wrong.
fn without_file_names(command: Command) -> Command {
    let nothing = |arg: Arg| match arg.get_value_hint() {
        ValueHint::Unknown if arg.is_positional() || arg.get_action().takes_values() => {
            arg.value_hint(ValueHint::Other)
        }
        _ => arg,
    };
    command.mut_args(nothing).mut_subcommands(without_file_names)
}

/// What the hints of arguments do not change in a script for bash: it offers files wherever it knows nothing, and the
/// verbs of `viv memories` in place of the agent.
fn without_wrong_words(script: &str, root: &Command) -> String {
    const NOTHING: &str = "            compopt +o default +o bashdefault 2>/dev/null\n";
    const AGENT_FIRST: &str = "            if [[ ${COMP_CWORD} -eq 2 && ${cur} != -* ]]; then return 0; fi\n";
    let mut out = String::new();
    let mut section = "";
    for line in script.lines() {
        out.extend([line, "\n"]);
        section = line
            .strip_prefix("        viv__subcmd__")
            .and_then(|rest| rest.strip_suffix(')'))
            .unwrap_or(section);
        if !section.is_empty() && line.starts_with("            opts=") {
            let mut names = section.split("__subcmd__");
            let command = names.try_fold(root, |command, name| command.find_subcommand(name));
            let is_file = |arg: &Arg| arg.get_value_hint() != ValueHint::Other;
            if command.is_some_and(|command| !command.get_positionals().any(is_file)) {
                out.push_str(NOTHING);
            }
            out.push_str(if section == "memories" { AGENT_FIRST } else { "" });
        }
    }
    out
}

/// A page with the usage line of the command's help.
fn page(mut command: Command) -> std::io::Result<Vec<u8>> {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let source = concat!("viv ", env!("CARGO_PKG_VERSION"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.override_usage(usage)).source(source).render(&mut page)?;
    Ok(page)
}

pub(crate) fn man(screen: Screen, dir: Option<PathBuf>) -> Result<Exit> {
    if let Some(dir) = &dir {
        return pages_into(&screen, dir);
    }
    let page = page(args::command()).map_err(|error| cannot_write(Path::new("-"), &error))?;
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
        let written_page = page(command).and_then(|page| std::fs::write(&file, page));
        written_page.map_err(|error| cannot_write(&file, &error))?;
        written.push(file.display().to_string());
    }
    written.sort();
    if screen.json {
        screen.json_list(written);
    } else {
        screen.text(&format!("wrote {} pages into `{}`", written.len(), dir.display()));
    }
    Ok(Exit::Answered)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, "cannot_write", format!("cannot write to `{}`: {error}", path.display()))
        .hint("name another directory with --dir")
}
