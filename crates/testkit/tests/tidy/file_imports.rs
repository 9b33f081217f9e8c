//! Imports between the files of a crate: no cycles, and no imports from a higher layer.

use std::collections::{BTreeMap, BTreeSet};

use crate::none;
use crate::tree::{self, TextFile};

/// Crates whose files must not import each other in a cycle. The aim is to list all crates.
const WITHOUT_CYCLES: &[&str] = &["crates/net/src", "crates/server/src", "crates/storage/src"];
/// Layers from the top down: a file imports only from its own folder and from those after it in this list.
const LAYERS: (&str, &[&str]) =
    ("crates/storage/src/sqlite", &["upkeep", "verify", "ports", "index", "tables", "engine"]);

#[test]
fn no_files_import_each_other_in_a_cycle() {
    let mut found = Vec::new();
    for root in WITHOUT_CYCLES {
        let mut imports = imports(root);
        // A file that imports no remaining file, or is imported by none, is in no cycle.
        loop {
            let before = imports.len();
            let left: BTreeSet<String> = imports.keys().cloned().collect();
            imports.values_mut().for_each(|of| of.retain(|file| left.contains(file)));
            let imported: BTreeSet<String> = imports.values().flatten().cloned().collect();
            imports.retain(|file, of| !of.is_empty() && imported.contains(file));
            if imports.len() == before {
                break;
            }
        }
        let cycles = imports.iter();
        found.extend(
            cycles.map(|(file, of)| format!("{file}: imports {of:?} in a cycle: move what both need down")),
        );
    }
    none(found);
}

#[test]
fn no_folder_of_the_store_imports_from_a_higher_layer() {
    let (home, layers) = LAYERS;
    let layer = |file: &str| {
        let folder = file.strip_prefix(home)?.trim_start_matches('/').split('/').next()?;
        layers.iter().position(|known| *known == folder)
    };
    let mut found = Vec::new();
    for (file, of) in imports(home) {
        if layer(&file).is_none() && !file.ends_with("sqlite/mod.rs") {
            found.push(format!("{file}: is in none of the layers {layers:?}"));
        }
        let above = of.iter().filter(|above| layer(above) < layer(&file));
        found.extend(above.map(|above| format!("{file}: imports {above} from a higher layer: {layers:?}")));
    }
    none(found);
}

#[test]
fn imports_are_found_in_every_notation() {
    let text = "mod child;\nuse super::{beside::Thing, other::{self, A}};\nuse crate::a::b;\n\
                fn f() { child::run(self::child::X, self::f) }\n#[cfg(test)]\nmod tests {\n    use crate::never;\n}\n";
    let file = TextFile { path: "crates/x/src/here/mod.rs".into(), text: text.into() };
    let found: BTreeSet<String> = paths(&file, "crates/x/src").iter().map(|path| path.join("::")).collect();
    for wanted in ["beside::Thing", "other::A", "other", "a::b", "here::child::run", "here::child::X"] {
        assert!(found.contains(wanted), "{wanted} in {found:?}");
    }
    assert!(!found.contains("never"), "{found:?}");
}

/// The files below `root`, each with the files that its shipped code imports.
fn imports(root: &str) -> BTreeMap<String, BTreeSet<String>> {
    let home = root.split_inclusive("/src").next().expect("a split has a part");
    let files: Vec<TextFile> =
        tree::rust_files().into_iter().filter(|file| file.path.starts_with(home)).collect();
    let modules: BTreeMap<Vec<String>, &str> =
        files.iter().map(|file| (module(&file.path, home), file.path.as_str())).collect();
    let below = files.iter().filter(|file| file.path.starts_with(root) && file.shipped_lines() > 0);
    let imported = |file: &TextFile| {
        let found = paths(file, home);
        let files =
            found.iter().filter_map(|path| (0..=path.len()).rev().find_map(|end| modules.get(&path[..end])));
        files.filter(|other| **other != file.path).map(|other| (*other).to_owned()).collect()
    };
    below.map(|file| (file.path.clone(), imported(file))).collect()
}

/// The module path of a file, from the root of the crate.
fn module(path: &str, home: &str) -> Vec<String> {
    let inner = path.trim_start_matches(home).trim_start_matches('/').trim_end_matches(".rs");
    let names = inner.split('/').filter(|name| !matches!(*name, "mod" | "lib" | "main"));
    names.map(str::to_owned).collect()
}

/// All paths in shipped code that lead into this crate, from its root.
fn paths(file: &TextFile, home: &str) -> Vec<Vec<String>> {
    let code: Vec<&str> = file.shipped().map(|(_, line)| line).collect();
    let child = |line: &&str| Some(line.trim_end().strip_suffix(';')?.rsplit_once("mod ")?.1.to_owned());
    let children: BTreeSet<String> = code.iter().filter_map(child).collect();
    let (here, code) = (module(&file.path, home), code.join("\n"));
    let mut found = Vec::new();
    for (at, _) in code.match_indices("::") {
        let first = code[..at].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        let from = match first {
            _ if code[..at - first.len()].ends_with("::") => continue,
            "crate" => Vec::new(),
            "self" => here.clone(),
            "super" => here[..here.len().saturating_sub(1)].to_vec(),
            child if children.contains(child) => here.iter().cloned().chain([first.to_owned()]).collect(),
            _ => continue,
        };
        branches(&code[at + 2..], from, &mut found);
    }
    found
}

/// Adds the paths of one import tree below `from`. Returns the code after it.
fn branches<'a>(code: &'a str, mut from: Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let code = code.trim_start();
    if let Some(mut group) = code.strip_prefix('{') {
        while !group.is_empty() && !group.starts_with('}') {
            group = branches(group, from.clone(), found).trim_start().trim_start_matches(',').trim_start();
        }
        return group.strip_prefix('}').unwrap_or(group);
    }
    let (name, code) =
        code.split_at(code.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(code.len()));
    match name {
        "super" => drop(from.pop()),
        "self" => {}
        _ => from.push(name.to_owned()),
    }
    if let Some(more) = code.strip_prefix("::") {
        return branches(more, from, found);
    }
    found.push(from);
    // Skip an alias or anything that is not a path.
    code.find([',', '}', ';']).map_or("", |end| &code[end..])
}
