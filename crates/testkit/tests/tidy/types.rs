//! A type name means the same type everywhere.

use std::collections::BTreeMap;

use crate::none;
use crate::tree::{self, TextFile};

/// Names that a file may use for a private type.
const PRIVATE: &[&str] = &["Args", "Error", "Row", "State"];
/// The usual alias of a crate for `std::result::Result` with its own error.
const SHARED: &str = "Result";

#[test]
fn every_type_name_is_unique() {
    let files = tree::rust_files();
    let declared = files
        .iter()
        .flat_map(|file| file.code().filter_map(move |(line, code)| Some((file, line, declaration(code)?))));
    // Where each name was seen first: in each crate, and as a public type of any crate.
    let (mut inside, mut public) = (BTreeMap::new(), BTreeMap::new());
    let mut found = Vec::new();
    for (file, line, (visibility, name)) in declared {
        let (own, place) = (unit(file), format!("{}:{line}", file.path));
        if name == SHARED || visibility.is_empty() && PRIVATE.contains(&name) {
            continue;
        }
        let mut other = inside.insert((own.clone(), name), place.clone());
        if visibility == "pub" {
            let (first, there) = public.entry(name).or_insert_with(|| (own.clone(), place.clone()));
            other = other.or_else(|| (*first != own).then(|| there.clone()));
        }
        if let Some(other) = other {
            found.push(format!("{place}: `{name}` is the name of another type in {other}: rename one"));
        }
    }
    none(found);
}

/// The crate; a test binary is one of its own.
fn unit(file: &TextFile) -> String {
    let inside = file.path.strip_prefix(file.package()).unwrap_or_default();
    let test = inside.strip_prefix("/tests/").and_then(|test| test.split(['/', '.']).next());
    test.map_or_else(|| file.package().to_owned(), |test| format!("{}/tests/{test}", file.package()))
}

/// The visibility and the name of the type that is declared at the left margin, or as a set of `names!`.
fn declaration(code: &str) -> Option<(&str, &str)> {
    let code = code.strip_prefix("    ").filter(|code| code.starts_with("pub enum ")).unwrap_or(code);
    let words = ["struct ", "enum ", "trait ", "type "];
    let (at, word) = words.iter().find_map(|word| code.find(word).map(|at| (at, word)))?;
    let visibility = code[..at].trim_end();
    let name = code[at + word.len()..].split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let begins = at == visibility.len() + usize::from(!visibility.is_empty());
    (begins
        && (visibility.is_empty() || visibility == "pub" || visibility.starts_with("pub("))
        && !visibility.contains(' '))
    .then_some((visibility, name))
}

#[test]
fn only_declarations_of_types_are_recognized() {
    assert_eq!(declaration("pub struct Page<T> {"), Some(("pub", "Page")));
    assert_eq!(declaration("pub(crate) enum End {"), Some(("pub(crate)", "End")));
    assert_eq!(declaration("type Judged = (Verdict, String);"), Some(("", "Judged")));
    assert_eq!(declaration("    type Item = u8;"), None);
    assert_eq!(declaration("pub use keys::Kind;"), None);
    let unit_of = |path: &str| unit(&TextFile { path: path.to_owned(), text: String::new() });
    assert_eq!(unit_of("crates/cli/tests/docs/page.rs"), "crates/cli/tests/docs");
    assert_eq!(unit_of("bench/src/main.rs"), "bench");
}
