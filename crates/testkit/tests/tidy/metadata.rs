//! What cargo knows about the workspace and its dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::tree;

/// One crate of the graph.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) licence: String,
    /// Whether it is a crate of this workspace.
    pub(crate) ours: bool,
    pub(crate) dependencies: Vec<Dependency>,
    /// Names of the crates that cargo resolved for it. Optional ones are included only if something enables them.
    pub(crate) resolved: BTreeSet<String>,
}

/// One dependency in a manifest.
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) dev: bool,
    /// Whether it is a crate of this workspace.
    pub(crate) ours: bool,
    pub(crate) features: Vec<String>,
}

/// Every crate of the graph, for every platform.
pub(crate) fn packages() -> &'static [Package] {
    static PACKAGES: OnceLock<Vec<Package>> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        let metadata = load();
        let members: BTreeSet<&str> = strings(&metadata["workspace_members"]).collect();
        let all = metadata["packages"].as_array().expect("cargo lists packages");
        let names: BTreeMap<&str, String> = all
            .iter()
            .map(|package| (package["id"].as_str().unwrap_or_default(), text(&package["name"])))
            .collect();
        let nodes = metadata["resolve"]["nodes"].as_array().expect("cargo lists what it resolved");
        let resolved: BTreeMap<&str, &Value> = nodes
            .iter()
            .map(|node| (node["id"].as_str().unwrap_or_default(), &node["dependencies"]))
            .collect();
        let read_one = |package: &Value| {
            let mut read = read(package, &members);
            let ids = resolved.get(package["id"].as_str().unwrap_or_default());
            read.resolved = ids
                .into_iter()
                .flat_map(|ids| strings(ids))
                .filter_map(|id| names.get(id))
                .cloned()
                .collect();
            read
        };
        all.iter().map(read_one).collect()
    })
}

/// The crates of this workspace.
pub(crate) fn ours() -> impl Iterator<Item = &'static Package> {
    packages().iter().filter(|package| package.ours)
}

fn load() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .current_dir(tree::root())
        .output()
        .expect("cargo can be run");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`cargo metadata` failed; run `cargo fetch --locked` once\n{stderr}");
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

fn read(package: &Value, members: &BTreeSet<&str>) -> Package {
    let dependencies = package["dependencies"].as_array().expect("cargo lists dependencies");
    Package {
        name: text(&package["name"]),
        version: text(&package["version"]),
        licence: text(&package["license"]),
        ours: members.contains(package["id"].as_str().unwrap_or_default()),
        dependencies: dependencies
            .iter()
            .map(|dependency| Dependency {
                name: text(&dependency["name"]),
                dev: dependency["kind"] == "dev",
                ours: dependency["path"].is_string(),
                features: strings(&dependency["features"]).map(str::to_owned).collect(),
            })
            .collect(),
        resolved: BTreeSet::new(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}
