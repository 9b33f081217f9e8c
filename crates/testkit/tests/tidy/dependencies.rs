//! What crates depend on: checks the manifests against the table in ARCHITECTURE.md, against rules that the table must not
//! change, and the whole graph against `deny.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::OnceLock;

use serde::Deserialize;
use toml::{Table, Value};

use crate::none;
use crate::pages::section;
use crate::tree;

const DENY: &str = "deny.toml";

/// Libraries that only compute or hold data. Any crate except `agent` may use them without an entry in the table.
const COMPUTES: &str = "\
    any_ascii base64 bytes clap_complete clap_mangen crc32fast encoding_rs flate2 futures-core futures-util \
    html5gum icu_normalizer ipnet jiff jsonschema minijinja percent-encoding ring schemars serde serde-saphyr \
    serde_json serde_path_to_error sha2 similar subtle thiserror toml unicode-width uuid webpki-root-certs";
/// Everything that `agent` may use (invariant 1).
const RULES_USE: &str =
    "bytes croner futures-core icu_properties jiff serde serde_json sha2 strum thiserror uuid";
/// Features that would give `agent` a clock, randomness or files of the machine.
const IMPURE: &str = "default v1 v4 v6 v7 rng fast-rng now tz-system tzdb-zoneinfo";
/// Crates that touch the outside world on one side of a port (invariant 3).
const ADAPTERS: &[&str] = &["storage", "models", "tools", "server"];
/// Programs, which assemble all crates.
const PROGRAMS: &[&str] = &["cli", "bench", "e2e"];

/// What cargo knows of the workspace and all it depends on, for every platform.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    license: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    /// Only of crates of this workspace.
    path: Option<String>,
    features: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

/// What a crate was resolved to use. Optional dependencies are included only if something enables them.
#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

fn metadata() -> &'static Metadata {
    static METADATA: OnceLock<Metadata> = OnceLock::new();
    METADATA.get_or_init(|| {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let arguments = ["metadata", "--format-version", "1", "--locked", "--offline"];
        let output = Command::new(cargo).args(arguments).current_dir(tree::root()).output();
        let output = output.expect("cargo can be run");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "`cargo metadata` failed; run `cargo fetch --locked` once\n{stderr}"
        );
        serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
    })
}

/// The crates of this workspace.
fn ours() -> impl Iterator<Item = &'static Package> {
    let all = metadata();
    all.packages.iter().filter(|package| all.workspace_members.contains(&package.id))
}

impl Package {
    /// What its shipped code uses, or what only its tests use.
    fn uses(&self, tests: bool) -> impl Iterator<Item = &Dependency> {
        self.dependencies
            .iter()
            .filter(move |dependency| (dependency.kind.as_deref() == Some("dev")) == tests)
    }
}

#[test]
fn the_table_in_architecture_md_says_which_crate_may_import_which() {
    const PAGE: &str = "ARCHITECTURE.md";
    let page = tree::read(PAGE);
    let mut found = Vec::new();
    for package in ours() {
        let computes = words(if package.name == "agent" { RULES_USE } else { COMPUTES });
        let cell = |ours: bool| {
            let named = |name: &&str| ours || !computes.contains(name);
            let used = package.uses(false).filter(|dependency| dependency.path.is_some() == ours);
            let names: BTreeSet<&str> =
                used.map(|dependency| dependency.name.as_str()).filter(named).collect();
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            if names.is_empty() { "—".to_owned() } else { names.join(", ") }
        };
        let row = match package.name.as_str() {
            name @ ("bench" | "e2e") => format!("| `{name}` | all | anything |"),
            name @ "cli" => format!("| `{name}` | all | {} |", cell(false)),
            name => format!("| `{name}` | {} | {} |", cell(true), cell(false)),
        };
        if !page.lines().any(|line| line == row) {
            found.push(format!(
                "{PAGE}: the manifest says `{row}`: do without it, or change the row deliberately"
            ));
        }
    }
    let rows =
        section(&page, "## Who may import whom").iter().filter(|(_, line)| line.starts_with("| `")).count();
    assert_eq!(rows, ours().count(), "{PAGE}: a row of the table is of no crate");
    none(found);
}

#[test]
fn the_agent_crate_imports_nothing_that_waits_or_reads_the_outside_world() {
    let rules = ours().find(|package| package.name == "agent").expect("the rules are a crate");
    let mut found = Vec::new();
    for dependency in &rules.dependencies {
        let name = &dependency.name;
        if dependency.path.is_some() {
            found.push(format!(
                "crates/agent: imports `{name}` of this workspace, which it may not even in tests"
            ));
        }
    }
    for dependency in rules.uses(false) {
        let name = &dependency.name;
        if !words(RULES_USE).contains(&name.as_str()) {
            found.push(format!(
                "crates/agent: `{name}` is not among {RULES_USE}: pass its result in through a port"
            ));
        }
        for feature in dependency.features.iter().filter(|feature| words(IMPURE).contains(&feature.as_str()))
        {
            found
                .push(format!("crates/agent: feature `{feature}` of `{name}` reads the world: leave it out"));
        }
    }
    none(found);
}

#[test]
fn adapters_import_no_adapters_and_no_crate_imports_a_program_or_the_testkit() {
    let mut found = Vec::new();
    for package in ours() {
        let user = package.name.as_str();
        for name in package.uses(false).map(|dependency| dependency.name.as_str()) {
            if ADAPTERS.contains(&name) && !PROGRAMS.contains(&user) {
                found.push(format!(
                    "`{user}`: `{name}` is an adapter: use its port; only programs import adapters"
                ));
            }
            if name == "testkit" && !matches!(user, "bench" | "e2e") {
                found.push(format!("`{user}`: `testkit` is for tests: make it a dev-dependency"));
            }
        }
        for program in
            package.dependencies.iter().filter(|dependency| PROGRAMS.contains(&dependency.name.as_str()))
        {
            let name = &program.name;
            found.push(format!(
                "`{user}`: `{name}` is a program: start its binary, or move the code to a crate"
            ));
        }
    }
    none(found);
}

#[test]
fn direct_dependencies_and_their_reasons_in_deny_toml_agree() {
    let text = tree::read(DENY);
    let reasons: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("#   ")?.split_once(": "))
        .map(|(name, _)| name)
        .collect();
    assert!(reasons.is_sorted(), "{DENY}: reasons stand in alphabetical order");
    let used =
        ours().flat_map(|package| &package.dependencies).filter(|dependency| dependency.path.is_none());
    let used: BTreeSet<&str> = used.map(|dependency| dependency.name.as_str()).collect();
    let known: BTreeSet<&str> = reasons.iter().copied().collect();
    let without =
        used.difference(&known).map(|name| format!("{DENY}: add the line `#   {name}: why it is here`"));
    let unused =
        known.difference(&used).map(|name| format!("{DENY}: no crate uses `{name}`: remove its line"));
    none(without.chain(unused).collect());
}

#[test]
fn every_dependency_has_an_allowed_licence_and_every_allowed_licence_is_needed() {
    let deny = deny();
    let allowed: Vec<&str> = strings(&deny["licenses"]["allow"]).collect();
    let mut needed = BTreeSet::new();
    let mut found = Vec::new();
    for package in &metadata().packages {
        let licence = package.license.as_deref().unwrap_or_default();
        match permits(licence, &allowed) {
            Some(by) => needed.extend(by),
            None => {
                found.push(format!("{DENY}: `{}` is under `{licence}`, which is not allowed", package.name))
            }
        }
    }
    let unneeded = allowed.iter().filter(|licence| !needed.contains(**licence));
    found
        .extend(unneeded.map(|licence| format!("{DENY}: no crate needs the licence `{licence}`: remove it")));
    none(found);
}

#[test]
fn no_dependency_is_banned() {
    let names: BTreeMap<&str, &str> =
        metadata().packages.iter().map(|package| (package.id.as_str(), package.name.as_str())).collect();
    let deny = deny();
    let mut found = Vec::new();
    for ban in deny["bans"]["deny"].as_array().expect("bans are a list") {
        let name = ban["crate"].as_str().expect("a ban names a crate");
        let wrappers: Vec<&str> = ban.get("wrappers").into_iter().flat_map(strings).collect();
        let uses = |node: &&Node| node.dependencies.iter().any(|id| names[id.as_str()] == name);
        let users = metadata().resolve.nodes.iter().filter(uses).map(|node| names[node.id.as_str()]);
        let not_wrapped = users.filter(|user| !wrappers.contains(user));
        found.extend(not_wrapped.map(|user| format!("{DENY}: `{user}` uses `{name}`: {}", ban["reason"])));
    }
    none(found);
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn deny() -> Table {
    tree::read(DENY).parse().expect("deny.toml is TOML")
}

fn strings(values: &Value) -> impl Iterator<Item = &str> {
    values.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The allowed licences that satisfy an SPDX expression: one of the alternatives of each of its parts. An expression that
/// is no list of parts with alternatives is not satisfied.
fn permits<'a>(expression: &str, allowed: &[&'a str]) -> Option<Vec<&'a str>> {
    let part = |part: &str| {
        // `/` is an older spelling of OR that cargo still accepts.
        let part = part.trim_matches(['(', ')', ' ']).replace('/', " OR ");
        let mut alternatives = part.split(" OR ").map(str::trim);
        alternatives.find_map(|one| allowed.iter().copied().find(|known| *known == one))
    };
    expression.split(" AND ").map(part).collect()
}

#[test]
fn licence_expressions_are_evaluated_correctly() {
    let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("MIT/GPL-3.0", true),
        ("MIT AND GPL-3.0", false),
        ("MIT AND (GPL-3.0 OR ISC)", true),
        ("MIT OR (GPL-3.0 AND ISC)", true),
        ("GPL-3.0 AND (MIT OR ISC)", false),
        ("Apache-2.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("", false),
    ] {
        assert_eq!(permits(expression, &allowed).is_some(), expected, "{expression}");
    }
}
