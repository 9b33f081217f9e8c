//! Who may import whom: the table of ARCHITECTURE.md against the manifests, and the few lines of it
//! that nobody may rewrite there.

use std::collections::{BTreeMap, BTreeSet};

use crate::documents::{in_backticks, section};
use crate::metadata::{self, Package};
use crate::report::Report;
use crate::tree;

const PAGE: &str = "ARCHITECTURE.md";
const TABLE: &str = "## Who may import whom";

/// Libraries that only compute: any crate but `agent` may use them without a word in the table.
const COMPUTES: &[&str] = &[
    "bytes",
    "clap_complete",
    "clap_mangen",
    "crc32fast",
    "futures-core",
    "futures-util",
    "jiff",
    "jsonschema",
    "schemars",
    "serde",
    "serde-saphyr",
    "serde_json",
    "serde_path_to_error",
    "sha2",
    "subtle",
    "thiserror",
    "toml",
    "unicode-width",
    "uuid",
];

/// All that the rules may use (invariant 1).
const RULES_USE: &[&str] =
    &["bytes", "croner", "futures-core", "jiff", "serde", "serde_json", "sha2", "strum", "thiserror", "uuid"];

/// Features that would give the rules a clock, randomness or the machine's files.
const IMPURE: &[&str] =
    &["default", "v1", "v4", "v6", "v7", "rng", "fast-rng", "now", "tz-system", "tzdb-zoneinfo"];

/// Crates that touch the outside world on one side of a port (invariant 3).
const ADAPTERS: &[&str] = &["storage", "models", "tools", "server"];

/// Programs, which put everything together.
const PROGRAMS: &[&str] = &["cli", "bench", "e2e"];

#[test]
fn a_crate_imports_only_what_the_table_of_architecture_md_gives_it() {
    let mut report = Report::default();
    let mut rows = rows();
    for package in metadata::ours() {
        let Some(row) = rows.remove(&package.name) else {
            report
                .add(PAGE, format!("`{}` has no row under `{TABLE}`: say what it may import", package.name));
            continue;
        };
        compare(package, &row, &mut report);
    }
    for name in rows.keys() {
        report.add(PAGE, format!("`{name}` has a row under `{TABLE}` but is no crate: remove the row"));
    }
    report.finish();
}

#[test]
fn the_rules_import_nothing_that_could_wait_or_read_the_world() {
    let mut report = Report::default();
    let rules = metadata::ours().find(|package| package.name == "agent").expect("the rules are a crate");
    for dependency in &rules.dependencies {
        let name = &dependency.name;
        if dependency.ours {
            report.add(
                "crates/agent/Cargo.toml",
                format!("`{name}` is ours: `agent` imports none of our crates, in tests neither"),
            );
        } else if !dependency.dev && !RULES_USE.contains(&name.as_str()) {
            report.add(
                "crates/agent/Cargo.toml",
                format!("`{name}` is not among {RULES_USE:?}: hand its result in through a port"),
            );
        }
        for feature in
            dependency.features.iter().filter(|feature| !dependency.dev && IMPURE.contains(&feature.as_str()))
        {
            report.add(
                "crates/agent/Cargo.toml",
                format!("feature `{feature}` of `{name}` reads the world: leave it out"),
            );
        }
    }
    report.finish();
}

#[test]
fn adapters_never_import_each_other_and_nobody_imports_a_program_or_the_testkit() {
    let mut report = Report::default();
    for package in metadata::ours() {
        let manifest = format!("crates/{}/Cargo.toml", package.name);
        let program = PROGRAMS.contains(&package.name.as_str());
        for dependency in package.dependencies.iter().filter(|dependency| dependency.ours && !dependency.dev)
        {
            let name = dependency.name.as_str();
            if ADAPTERS.contains(&name) && !program {
                report.add(
                    &manifest,
                    format!(
                        "`{name}` is an adapter: speak to its port in `agent`; only programs see adapters"
                    ),
                );
            }
            if PROGRAMS.contains(&name) {
                report.add(
                    &manifest,
                    format!("`{name}` is a program: move what is shared to where both may import it"),
                );
            }
            if name == "testkit" && !matches!(package.name.as_str(), "bench" | "e2e") {
                report.add(&manifest, "`testkit` is for tests: make it a dev-dependency");
            }
        }
        for dependency in package.dependencies.iter().filter(|dependency| dependency.ours && dependency.dev) {
            if PROGRAMS.contains(&dependency.name.as_str()) {
                report.add(
                    &manifest,
                    format!("tests import the program `{}`: start its binary instead", dependency.name),
                );
            }
        }
    }
    report.finish();
}

/// What one crate may import.
struct Row {
    ours: Column,
    outside: Column,
}

/// One cell of the table.
enum Column {
    /// The programs put everything together.
    Anything,
    /// These and no others.
    Only(BTreeSet<String>),
}

impl Column {
    fn read(cell: &str) -> Self {
        let anything = matches!(cell.trim(), "all" | "anything");
        if anything { Self::Anything } else { Self::Only(in_backticks(cell).into_iter().collect()) }
    }

    fn gives(&self, name: &str) -> bool {
        match self {
            Self::Anything => true,
            Self::Only(names) => names.contains(name),
        }
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        let names = match self {
            Self::Anything => None,
            Self::Only(names) => Some(names),
        };
        names.into_iter().flatten()
    }
}

/// The table: crate, ours, the outside world.
fn rows() -> BTreeMap<String, Row> {
    let page = tree::read(PAGE);
    let rows = section(&page, TABLE).into_iter().filter_map(|(_, line)| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').collect();
        let name = in_backticks(cells.first()?).into_iter().next()?;
        Some((name, Row { ours: Column::read(cells.get(1)?), outside: Column::read(cells.get(2)?) }))
    });
    rows.collect()
}

fn compare(package: &Package, row: &Row, report: &mut Report) {
    let computes = if package.name == "agent" { RULES_USE } else { COMPUTES };
    let mut unused: BTreeSet<&String> = row.ours.names().chain(row.outside.names()).collect();
    for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
        let name = &dependency.name;
        let column = if dependency.ours { &row.ours } else { &row.outside };
        unused.remove(name);
        if !column.gives(name) && (dependency.ours || !computes.contains(&name.as_str())) {
            let user = &package.name;
            report.add(PAGE, format!("`{user}` imports `{name}`, which its row under `{TABLE}` does not give it: do without it, or change the row on purpose"));
        }
    }
    for name in unused {
        report.add(
            PAGE,
            format!(
                "`{}` does not import `{name}` any more: take it out of its row under `{TABLE}`",
                package.name
            ),
        );
    }
}
