//! Checks the tree against the code map in ARCHITECTURE.md, which names every crate, module, folder and port.

use std::collections::BTreeSet;
use std::fs;

use crate::none;
use crate::pages::{in_backticks, section};
use crate::tree;

const PAGE: &str = "ARCHITECTURE.md";
/// The heading of the code map for folders in the root that hold no crate.
const OTHER_FOLDERS: &str = "### Beside the crates";
/// Names that do not say what a module holds.
const VAGUE_NAMES: &[&str] = &["common", "core", "helper", "helpers", "misc", "shared", "util", "utils"];

type Names = BTreeSet<String>;

#[test]
fn the_code_map_names_what_is_there_and_nothing_else() {
    let page = tree::read(PAGE);
    let crates: Names = tree::text_files()
        .iter()
        .filter_map(|file| file.path.strip_suffix("/Cargo.toml").map(str::to_owned))
        .collect();
    let headings = section(&page, "## Code map");
    let headings = headings.iter().filter_map(|(_, line)| in_backticks(line.strip_prefix("### ")?).next());
    let mut found = differences("the code map", &headings.map(str::to_owned).collect(), &crates);
    for folder in &crates {
        found.extend(differences(folder, &bullets(&page, &format!("### `{folder}`")), &modules(folder)));
    }
    let folders = fs::read_dir(tree::root()).expect("the tree can be read").flatten();
    let folders = folders.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name());
    let folders = folders.map(|name| name.to_string_lossy().into_owned()).filter(|name| {
        let used = |path: &str| path.starts_with(&format!("{name}/"));
        !crates.iter().any(|folder| folder == name || used(folder))
            && tree::text_files().iter().any(|file| used(&file.path))
    });
    let folders = folders.map(|name| name + "/").collect();
    found.extend(differences(OTHER_FOLDERS, &bullets(&page, OTHER_FOLDERS), &folders));
    none(found);
}

#[test]
fn the_table_of_ports_names_every_port() {
    let page = tree::read(PAGE);
    let ports = modules_in("crates/agent/src/port").into_iter().filter(|port| port != "mod");
    let unnamed = ports.filter(|port| !page.contains(&format!("`port/{port}`")));
    none(unnamed.map(|port| format!("{PAGE}: the table of ports lacks `port/{port}`")).collect());
}

#[test]
fn every_file_begins_with_a_module_comment_and_has_a_name_that_says_what_it_holds() {
    let mut found = Vec::new();
    for file in tree::rust_files() {
        if !file.text.starts_with("//! ") {
            found.push(format!(
                "{}:1: begin with `//!`: what it is for, and what it must not know",
                file.path
            ));
        }
        let mut parts = file.path.trim_end_matches(".rs").split('/');
        if let Some(part) = parts.find(|part| VAGUE_NAMES.contains(part)) {
            found.push(format!("{}: `{part}` could hold anything: name it after what it holds", file.path));
        }
    }
    none(found);
}

/// The direct content of a crate's `src`: modules by name, folders with a slash. `cycle.rs` and `cycle/` are one.
fn modules(folder: &str) -> Names {
    let source = format!("{folder}/src");
    let mut found = modules_in(&source);
    found.retain(|name| !matches!(name.as_str(), "lib" | "main" | "tests"));
    for entry in fs::read_dir(tree::root().join(source)).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            let name = entry.file_name().to_string_lossy().into_owned();
            found.remove(&name);
            found.insert(name + "/");
        }
    }
    found
}

/// The Rust files in a folder, without their ending.
fn modules_in(folder: &str) -> Names {
    let entries = fs::read_dir(tree::root().join(folder)).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some(entry.file_name().to_string_lossy().strip_suffix(".rs")?.to_owned()))
        .collect()
}

/// The names of the bullets under a heading.
fn bullets(page: &str, heading: &str) -> Names {
    let lines = section(page, heading).into_iter().filter(|(_, line)| line.starts_with("- `"));
    lines.filter_map(|(_, line)| in_backticks(line).next().map(str::to_owned)).collect()
}

fn differences(part: &str, mapped: &Names, there: &Names) -> Vec<String> {
    let gone =
        mapped.difference(there).map(|name| format!("{PAGE}: `{name}` is not in `{part}`: remove its line"));
    let lacks = there
        .difference(mapped)
        .map(|name| format!("{PAGE}: `{part}` lacks a line on `{name}`: what it is for"));
    gone.chain(lacks).collect()
}
