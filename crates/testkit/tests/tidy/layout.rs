//! Checks the tree against the code map in ARCHITECTURE.md, which lists every crate and module.

use std::collections::BTreeSet;
use std::fs;

use crate::documents::{in_backticks, section};
use crate::report::Report;
use crate::tree;

const PAGE: &str = "ARCHITECTURE.md";
const MAP: &str = "## Code map";
/// The heading of the code map for folders in the root that hold no crate.
const OTHER_FOLDERS: &str = "### Beside the crates";

/// Names that do not say what a module holds.
const VAGUE_NAMES: &[&str] = &["common", "core", "helper", "helpers", "misc", "shared", "util", "utils"];

#[test]
fn the_code_map_names_every_crate_and_no_other() {
    let mut report = Report::default();
    let page = tree::read(PAGE);
    let crates: BTreeSet<String> = crates().into_iter().collect();
    let mut mapped = BTreeSet::new();
    for (line, text) in section(&page, MAP) {
        let Some(name) = text.strip_prefix("### ").and_then(|title| in_backticks(title).into_iter().next())
        else {
            continue;
        };
        if !crates.contains(&name) {
            report.add(
                format!("{PAGE}:{line}"),
                format!("`{name}` is not a crate of the workspace: remove its section"),
            );
        }
        mapped.insert(name);
    }
    for name in crates.difference(&mapped) {
        report.add(
            PAGE,
            format!("the code map does not name `{name}`: add a heading ``### `{name}` `` with its modules"),
        );
    }
    report.finish();
}

#[test]
fn the_code_map_names_every_module_of_a_crate_and_no_other() {
    let mut report = Report::default();
    let page = tree::read(PAGE);
    for folder in crates() {
        let heading =
            page.lines().find(|line| line.starts_with(&format!("### `{folder}`"))).unwrap_or_default();
        compare(&bullets(&page, heading), &modules(&folder), &folder, &mut report);
    }
    report.finish();
}

#[test]
fn the_code_map_names_every_folder_without_a_crate() {
    let mut report = Report::default();
    let page = tree::read(PAGE);
    let packages = crates();
    let holds_no_crate = |name: &String| {
        !packages.iter().any(|package| package == name || package.starts_with(&format!("{name}/")))
    };
    let mut folders = BTreeSet::new();
    for file in tree::text_files() {
        if let Some((folder, _)) = file.path.split_once('/')
            && holds_no_crate(&folder.to_owned())
        {
            folders.insert(format!("{folder}/"));
        }
    }
    compare(&bullets(&page, OTHER_FOLDERS), &folders, OTHER_FOLDERS, &mut report);
    report.finish();
}

#[test]
fn the_table_of_ports_names_every_port() {
    let mut report = Report::default();
    let page = tree::read(PAGE);
    for (path, stem) in rust_stems("crates/agent/src/port") {
        if stem != "mod" && !page.contains(&format!("`port/{stem}`")) {
            report.add(
                path,
                format!("the port is not named in {PAGE}: add `port/{stem}` to its table of ports"),
            );
        }
    }
    report.finish();
}

#[test]
fn every_file_begins_with_a_module_comment() {
    let mut report = Report::default();
    for source in tree::rust_files() {
        if !source.lines.first().is_some_and(|line| line.raw.starts_with("//! ")) {
            report.add(
                format!("{}:1", source.path),
                "begin with `//!`: what the module is for, and what it must not know",
            );
        }
    }
    report.finish();
}

#[test]
fn no_crate_or_module_has_a_vague_name() {
    let mut report = Report::default();
    for source in tree::rust_files() {
        let parts = source.path.trim_end_matches(".rs").split('/');
        for part in parts.filter(|part| VAGUE_NAMES.contains(part)) {
            report.add(&source.path, format!("`{part}` could hold anything: name it after what it holds"));
        }
    }
    report.finish();
}

/// Folders of the workspace's crates, from the root.
fn crates() -> Vec<String> {
    let manifests = tree::text_files()
        .into_iter()
        .filter_map(|file| file.path.strip_suffix("/Cargo.toml").map(str::to_owned));
    manifests.collect()
}

/// The direct content of a crate's `src`: modules by name, folders with a slash.
fn modules(folder: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let source = format!("{folder}/src");
    for (_, stem) in rust_stems(&source) {
        if !matches!(stem.as_str(), "lib" | "main" | "tests") {
            found.insert(stem);
        }
    }
    for entry in fs::read_dir(tree::root().join(&source)).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // `cycle.rs` and `cycle/` are one module.
            found.remove(&name);
            found.insert(format!("{name}/"));
        }
    }
    found
}

fn rust_stems(folder: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(tree::root().join(folder)).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter_map(|name| Some((format!("{folder}/{name}"), name.strip_suffix(".rs")?.to_owned())))
        .collect()
}

/// The names of the bullets under a heading, with their line numbers.
fn bullets(page: &str, heading: &str) -> Vec<(usize, String)> {
    let lines = section(page, heading).into_iter();
    let bullets = lines.filter(|(_, line)| line.starts_with("- `"));
    bullets.filter_map(|(number, line)| Some((number, in_backticks(line).into_iter().next()?))).collect()
}

fn compare(mapped: &[(usize, String)], there: &BTreeSet<String>, part: &str, report: &mut Report) {
    for (line, name) in mapped {
        if !there.contains(name) {
            report.add(
                format!("{PAGE}:{line}"),
                format!("`{name}` is not in `{part}`: remove or rename the line"),
            );
        }
    }
    for name in there {
        if !mapped.iter().any(|(_, mapped)| mapped == name) {
            report.add(
                PAGE,
                format!("the part `{part}` of the code map lacks a line: ``- `{name}` — what it is for``"),
            );
        }
    }
}
