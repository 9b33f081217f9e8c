//! `viv init`: writes a project, completely or not at all, and never overwrites a file.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::errors::{Exit, Failure, Result};
use crate::output::{Screen, Style};
use crate::templates::{GITIGNORE, IGNORED, TEMPLATES, Template};
use project::live::IN_USE;

pub(crate) fn run(screen: Screen, dir: &Path) -> Result<Exit> {
    let ignored = dir.join(GITIGNORE.path);
    let has_ignore_file = fs::symlink_metadata(&ignored).is_ok();
    let mut wanted: Vec<Template> = TEMPLATES.to_vec();
    if !has_ignore_file {
        wanted.push(GITIGNORE);
    }
    let taken: Vec<&str> = wanted
        .iter()
        .map(|file| file.path)
        .filter(|path| fs::symlink_metadata(dir.join(path)).is_ok())
        .collect();
    if !taken.is_empty() {
        let names = taken.join("`, `");
        let message = format!("`{names}` in `{}` would be overwritten; nothing was written", dir.display());
        return Err(Failure::new(Exit::Refused, "would_overwrite", message)
            .hint("name another folder, such as `viv init my-agents`"));
    }
    let mut written = Vec::new();
    if let Err(error) = write_all(dir, &wanted, &mut written) {
        // A failure to remove is ignored: only new files would remain.
        written.iter().for_each(|path| drop(fs::remove_file(path)));
        let message =
            format!("cannot write the project into `{}`: {error}; nothing was written", dir.display());
        return Err(Failure::new(Exit::Failed, "project_unwritable", message)
            .hint("may this user write there, and is there space on the disk?"));
    }
    let advice = has_ignore_file && !ignores_data(&ignored);
    print_result(&screen, dir, &wanted, advice);
    Ok(Exit::Answered)
}

fn ignores_data(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().any(|line| line.trim().trim_matches('/') == IGNORED.trim_matches('/'))
}

/// Writes all files; those that were created are in `written`, also after an error.
fn write_all(dir: &Path, wanted: &[Template], written: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for template in wanted {
        let path = dir.join(template.path);
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        let mut file = fs::File::create_new(&path)?;
        written.push(path);
        file.write_all(template.text.as_bytes())?;
    }
    Ok(())
}

fn print_result(screen: &Screen, dir: &Path, written: &[Template], advice: bool) {
    let shown = screen.clean_line(&dir.display().to_string());
    let elsewhere = dir != Path::new(".");
    let next = [
        ("viv up", "starts the server with these agents; stop another one first (Ctrl-C)"),
        ("viv chat --agent helper", "in a second terminal: talk to the agent `helper`"),
        ("viv events send ops deploy '{\"ok\": false}'", "wake the agent `ops` as a service would"),
        ("viv scenario run scenarios", "run the scenario tests, without a server"),
    ];
    if screen.json {
        let paths: Vec<&str> = written.iter().map(|file| file.path).collect();
        let next: Vec<&str> = next.iter().map(|(command, _)| *command).collect();
        screen.json_line(&json!({"dir": dir, "written": paths, "next": next}));
        return;
    }
    screen.line(&format!("A project in {}\n", screen.paint(Style::Bold, &shown)));
    screen.pairs(&written.iter().map(|file| (file.path, file.what.to_owned())).collect::<Vec<_>>());
    if advice {
        screen.line(&format!("\nYour `{}` was not changed; add the line `{IGNORED}` to it.", GITIGNORE.path));
    }
    screen.line("\nNext:");
    if elsewhere {
        screen.line(&format!("  {}", screen.paint(Style::Bold, &format!("cd {shown}"))));
    }
    for (command, what) in next {
        screen.line(&format!("  {}\n      {what}", screen.paint(Style::Bold, command)));
    }
    screen.line(&format!("\nThen edit `agents/helper.md` while the server runs: a change is {IN_USE}."));
}
