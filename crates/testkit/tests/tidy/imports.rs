//! Which crate may import which: checks the table in ARCHITECTURE.md against the manifests, and some rules
//! that the table must not change.

use std::collections::{BTreeMap, BTreeSet};

use crate::documents::{in_backticks, section};
use crate::metadata::{self, Package};
use crate::report::Report;
use crate::tree;

const PAGE: &str = "ARCHITECTURE.md";
const TABLE: &str = "## Who may import whom";

/// Libraries that only compute or hold data. Any crate except `agent` may use them without an entry in the table.
const COMPUTES: &[&str] = &[
    "any_ascii",
    "base64",
    "bytes",
    "clap_complete",
    "clap_mangen",
    "crc32fast",
    "encoding_rs",
    "flate2",
    "futures-core",
    "futures-util",
    "html5gum",
    "icu_normalizer",
    "ipnet",
    "jiff",
    "jsonschema",
    "minijinja",
    "percent-encoding",
    "ring",
    "schemars",
    "serde",
    "serde-saphyr",
    "serde_json",
    "serde_path_to_error",
    "sha2",
    "similar",
    "subtle",
    "thiserror",
    "toml",
    "unicode-width",
    "uuid",
    "webpki-root-certs",
];

/// Everything that `agent` may use (invariant 1).
const RULES_USE: &[&str] = &[
    "bytes",
    "croner",
    "futures-core",
    "icu_properties",
    "jiff",
    "serde",
    "serde_json",
    "sha2",
    "strum",
    "thiserror",
    "uuid",
];

/// Features that would give `agent` a clock, randomness or files of the machine.
const IMPURE: &[&str] =
    &["default", "v1", "v4", "v6", "v7", "rng", "fast-rng", "now", "tz-system", "tzdb-zoneinfo"];

/// Crates that touch the outside world on one side of a port (invariant 3).
const ADAPTERS: &[&str] = &["storage", "models", "tools", "server"];

/// Programs, which assemble all crates.
const PROGRAMS: &[&str] = &["cli", "bench", "e2e"];

#[test]
fn a_crate_imports_only_what_the_table_in_architecture_md_allows() {
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
        report.add(PAGE, format!("`{name}` has a row under `{TABLE}` but is not a crate: remove the row"));
    }
    report.finish();
}

#[test]
fn the_agent_crate_imports_nothing_that_waits_or_reads_the_outside_world() {
    let mut report = Report::default();
    let rules = metadata::ours().find(|package| package.name == "agent").expect("the rules are a crate");
    for dependency in &rules.dependencies {
        let name = &dependency.name;
        if dependency.ours {
            report.add(
                "crates/agent/Cargo.toml",
                format!(
                    "`{name}` is a crate of this workspace: `agent` imports none of them, not even in tests"
                ),
            );
        } else if !dependency.dev && !RULES_USE.contains(&name.as_str()) {
            report.add(
                "crates/agent/Cargo.toml",
                format!("`{name}` is not among {RULES_USE:?}: pass its result in through a port"),
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
fn adapters_import_no_adapters_and_no_crate_imports_a_program_or_the_testkit() {
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
                    format!("`{name}` is an adapter: use its port in `agent`; only programs import adapters"),
                );
            }
            if PROGRAMS.contains(&name) {
                report.add(
                    &manifest,
                    format!("`{name}` is a program: move shared code to a crate that both may import"),
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
    external: Column,
}

/// One cell of the table.
enum Column {
    /// No restriction, for programs.
    Anything,
    /// Only these.
    Only(BTreeSet<String>),
}

impl Column {
    fn read(cell: &str) -> Self {
        let anything = matches!(cell.trim(), "all" | "anything");
        if anything { Self::Anything } else { Self::Only(in_backticks(cell).into_iter().collect()) }
    }

    fn allows(&self, name: &str) -> bool {
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

/// The rows of the table: crate, workspace crates, external crates.
fn rows() -> BTreeMap<String, Row> {
    let page = tree::read(PAGE);
    let rows = section(&page, TABLE).into_iter().filter_map(|(_, line)| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').collect();
        let name = in_backticks(cells.first()?).into_iter().next()?;
        Some((name, Row { ours: Column::read(cells.get(1)?), external: Column::read(cells.get(2)?) }))
    });
    rows.collect()
}

fn compare(package: &Package, row: &Row, report: &mut Report) {
    let computes = if package.name == "agent" { RULES_USE } else { COMPUTES };
    let mut unused: BTreeSet<&String> = row.ours.names().chain(row.external.names()).collect();
    for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
        let name = &dependency.name;
        let column = if dependency.ours { &row.ours } else { &row.external };
        unused.remove(name);
        if !column.allows(name) && (dependency.ours || !computes.contains(&name.as_str())) {
            let user = &package.name;
            report.add(PAGE, format!("`{user}` imports `{name}`, which its row under `{TABLE}` does not allow: do without it, or change the row deliberately"));
        }
    }
    for name in unused {
        report.add(
            PAGE,
            format!(
                "`{}` does not import `{name}` any more: remove it from its row under `{TABLE}`",
                package.name
            ),
        );
    }
}
