//! Imports between the files of a crate: no cycles, and no imports from a higher layer.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::Report;
use crate::rust::Source;
use crate::tree;

/// Crates whose files must not import each other in a cycle. The aim is to list all crates.
const WITHOUT_CYCLES: &[&str] = &["crates/storage/src"];

/// Layers from the top down: a file imports only from its own folder and from those after it in this list.
const LAYERS: (&str, &[&str]) =
    ("crates/storage/src/sqlite", &["upkeep", "verify", "ports", "index", "tables", "engine"]);

#[test]
fn no_files_import_each_other_in_a_cycle() {
    let mut report = Report::default();
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
        for (file, of) in imports {
            report.add(file, format!("imports {of:?} in a cycle: move what both need into a lower module"));
        }
    }
    report.finish();
}

#[test]
fn no_folder_of_the_store_imports_from_a_higher_layer() {
    let mut report = Report::default();
    let (home, layers) = LAYERS;
    let layer = |file: &str| {
        let folder = file.strip_prefix(home)?.trim_start_matches('/').split('/').next()?;
        layers.iter().position(|known| *known == folder)
    };
    for (file, of) in imports(home) {
        if layer(&file).is_none() && !file.ends_with("sqlite/mod.rs") {
            report.add(&file, format!("is in none of the layers {layers:?}"));
        }
        for above in of.iter().filter(|above| layer(above) < layer(&file)) {
            report.add(&file, format!("imports {above} from a higher layer: {layers:?}"));
        }
    }
    report.finish();
}

#[test]
fn imports_are_found_in_every_notation() {
    let text = "mod child;\nuse super::{beside::Thing, other::{self, A}};\nuse crate::a::b;\n\
                fn f() { child::run(self::child::X, self::f) }\n#[cfg(test)]\nmod tests {\n    use crate::never;\n}\n";
    let source = Source::new("crates/x/src/here/mod.rs".into(), text);
    let found: BTreeSet<String> = paths(&source, "crates/x/src").iter().map(|path| path.join("::")).collect();
    for wanted in ["beside::Thing", "other::A", "other", "a::b", "here::child::run", "here::child::X"] {
        assert!(found.contains(wanted), "{wanted} in {found:?}");
    }
    assert!(!found.contains("never"), "{found:?}");
}

/// The files below `root`, each with the files that its shipped code imports.
fn imports(root: &str) -> BTreeMap<String, BTreeSet<String>> {
    let home = root.split_inclusive("/src").next().expect("a split has a part");
    let sources: Vec<Source> =
        tree::rust_files().into_iter().filter(|source| source.path.starts_with(home)).collect();
    let files: BTreeMap<Vec<String>, &str> =
        sources.iter().map(|source| (module(&source.path, home), source.path.as_str())).collect();
    let below = sources.iter().filter(|source| source.path.starts_with(root) && source.tests_from > 0);
    let found = below.map(|source| {
        let named = paths(source, home).into_iter().filter_map(|path| {
            (0..=path.len())
                .rev()
                .find_map(|length| files.get(&path[..length]).map(|file| (*file).to_owned()))
        });
        (source.path.clone(), named.filter(|file| *file != source.path).collect())
    });
    found.collect()
}

/// The module path of a file, from the root of the crate.
fn module(path: &str, home: &str) -> Vec<String> {
    let inner = path.trim_start_matches(home).trim_start_matches('/').trim_end_matches(".rs");
    let names = inner.split('/').filter(|name| !matches!(*name, "mod" | "lib" | "main"));
    names.map(str::to_owned).collect()
}

/// All paths in shipped code that lead into this crate, from its root.
fn paths(source: &Source, home: &str) -> Vec<Vec<String>> {
    let code: String = source.shipped().flat_map(|(_, line)| [line.code.as_str(), "\n"]).collect();
    let here = module(&source.path, home);
    let children: BTreeSet<&str> = code
        .lines()
        .filter_map(|line| line.trim_end().strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| name))
        .collect();
    let mut found = Vec::new();
    let mut before = ' ';
    for (at, character) in code.char_indices() {
        let begins = !before.is_alphanumeric() && !matches!(before, '_' | ':');
        before = character;
        let first: String = code[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !begins || !code[at + first.len()..].starts_with("::") {
            continue;
        }
        let from = match first.as_str() {
            "crate" => Vec::new(),
            "self" => here.clone(),
            "super" => here[..here.len().saturating_sub(1)].to_vec(),
            child if children.contains(child) => here.iter().cloned().chain([first.clone()]).collect(),
            _ => continue,
        };
        branches(&code[at + first.len() + 2..], &from, &mut found);
    }
    found
}

/// Adds the paths of one import tree below `from`. Returns the code after it.
fn branches<'a>(code: &'a str, from: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    let mut code = code.trim_start();
    if let Some(mut group) = code.strip_prefix('{') {
        while !group.is_empty() && !group.starts_with('}') {
            group = branches(group, from, found).trim_start().trim_start_matches(',').trim_start();
        }
        return group.strip_prefix('}').unwrap_or(group);
    }
    let name: String = code.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut path = from.to_vec();
    code = &code[name.len()..];
    match name.as_str() {
        "super" => drop(path.pop()),
        "self" => {}
        _ => path.push(name.clone()),
    }
    if let Some(more) = code.strip_prefix("::") {
        return branches(more, &path, found);
    }
    found.push(path);
    // Skip an alias or anything that is not a path.
    match code.find([',', '}', ';']) {
        Some(end) => &code[end..],
        None => "",
    }
}
