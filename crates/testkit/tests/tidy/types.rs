//! A type name means the same type everywhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::Report;
use crate::tree;

/// Names that a file may use for a private type.
const PRIVATE: &[&str] = &["Args", "Error", "Row", "State"];
/// Names that several types share, each with the reason. At most ten.
const SHARED: &[(&str, &str)] =
    &[("Result", "the usual alias of a crate for `std::result::Result` with its own error")];

/// A type and where it is declared.
struct Declared {
    /// The crate. A test binary counts as a separate crate.
    unit: String,
    place: String,
    /// Where the type can be used.
    visibility: Visibility,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visibility {
    Everywhere,
    Crate,
    File,
}

#[test]
fn every_type_name_is_unique() {
    let mut report = Report::default();
    assert!(SHARED.len() <= 10, "at most ten names may be shared");
    let shared: BTreeSet<&str> = SHARED.iter().map(|(name, _)| *name).collect();
    for (name, types) in declared() {
        if shared.contains(name.as_str()) {
            continue;
        }
        let public: Vec<&Declared> =
            types.iter().filter(|declared| declared.visibility == Visibility::Everywhere).collect();
        if let Some(other) = public.iter().find(|declared| declared.unit != public[0].unit) {
            let text = format!("`{name}` is the name of another type in {}: rename one", public[0].place);
            report.add(&other.place, text);
        }
        let mut by_unit: BTreeMap<&str, &Declared> = BTreeMap::new();
        for declared in &types {
            let private = PRIVATE.contains(&name.as_str()) && declared.visibility == Visibility::File;
            if private {
                continue;
            }
            if let Some(other) = by_unit.insert(&declared.unit, declared) {
                let text = format!("`{name}` is the name of another type in {}: rename one", other.place);
                report.add(&declared.place, text);
            }
        }
    }
    report.finish();
}

/// All types that are declared at the left margin, by name.
fn declared() -> BTreeMap<String, Vec<Declared>> {
    let mut found: BTreeMap<String, Vec<Declared>> = BTreeMap::new();
    for source in tree::rust_files() {
        for (line, text) in source.numbered() {
            if let Some((visibility, name)) = type_name(&text.code) {
                let unit = unit(&source.path, source.package());
                let place = format!("{}:{line}", source.path);
                found.entry(name.to_owned()).or_default().push(Declared { unit, place, visibility });
            }
        }
    }
    found
}

fn unit(path: &str, package: &str) -> String {
    let inside = path.strip_prefix(package).unwrap_or(path).trim_start_matches('/');
    match inside.strip_prefix("tests/") {
        Some(test) => {
            let binary = test.split(['/', '.']).next().unwrap_or(test);
            format!("{package}/tests/{binary}")
        }
        None => package.to_owned(),
    }
}

fn type_name(code: &str) -> Option<(Visibility, &str)> {
    let (visibility, rest) = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => (Visibility::Crate, rest.split_once(") ")?.1),
        Some(rest) => (Visibility::Everywhere, rest.strip_prefix(' ')?),
        None => (Visibility::File, code),
    };
    let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|word| rest.strip_prefix(word))?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    Some((visibility, &rest[..end]))
}

#[test]
fn only_declarations_of_types_are_recognized() {
    let at = |code| type_name(code).map(|(visibility, name)| (visibility as u8, name));
    assert_eq!(at("pub struct Page<T> {"), Some((0, "Page")));
    assert_eq!(at("pub(crate) enum End {"), Some((1, "End")));
    assert_eq!(at("type Judged = (Verdict, String);"), Some((2, "Judged")));
    assert_eq!(at("    type Item = u8;"), None);
    assert_eq!(at("pub use keys::Kind;"), None);
    assert_eq!(unit("crates/cli/tests/docs/page.rs", "crates/cli"), "crates/cli/tests/docs");
    assert_eq!(unit("bench/src/main.rs", "bench"), "bench");
}
