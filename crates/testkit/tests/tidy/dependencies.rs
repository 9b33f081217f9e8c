//! Checks `deny.toml` against the dependency graph: licences, banned crates, and a reason for each dependency.

use std::collections::{BTreeMap, BTreeSet};

use toml::Table;

use crate::metadata;
use crate::report::Report;
use crate::tree;

const DENY: &str = "deny.toml";

#[test]
fn direct_dependencies_and_their_reasons_in_deny_toml_agree() {
    let mut report = Report::default();
    let reasons = reasons(&tree::read(DENY), &mut report);
    let mut used = BTreeSet::new();
    for package in metadata::ours() {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.ours) {
            used.insert(dependency.name.as_str());
            if !reasons.contains_key(&dependency.name) {
                let (name, user) = (&dependency.name, &package.name);
                report.add(
                    DENY,
                    format!(
                        "`{name}` (of `{user}`) has no reason: add the line `#   {name}: why it is here`"
                    ),
                );
            }
        }
    }
    for (name, line) in &reasons {
        if !used.contains(name.as_str()) {
            report.add(
                format!("{DENY}:{line}"),
                format!("no crate of this workspace uses `{name}` any more: remove its line"),
            );
        }
    }
    report.finish();
}

#[test]
fn every_dependency_has_an_allowed_licence_and_every_allowed_licence_is_needed() {
    let mut report = Report::default();
    let allowed = strings(deny()["licenses"]["allow"].as_array().expect("licences are a list"));
    let mut needed = BTreeSet::new();
    for package in metadata::packages() {
        match permits(&package.licence, &allowed) {
            Some(by) => needed.extend(by),
            None => {
                let (name, version, licence) = (&package.name, &package.version, &package.licence);
                report.add(
                    DENY,
                    format!("`{name}` {version} is under `{licence}`, which is not allowed: do without it, or allow the licence with a reason"),
                );
            }
        }
    }
    for licence in allowed.iter().filter(|licence| !needed.contains(*licence)) {
        report.add(DENY, format!("no crate needs the licence `{licence}`: remove it from `licenses.allow`"));
    }
    report.finish();
}

#[test]
fn no_dependency_is_banned() {
    let mut report = Report::default();
    let deny = deny();
    for ban in deny["bans"]["deny"].as_array().expect("bans are a list") {
        let name = ban["crate"].as_str().expect("a ban names a crate");
        let reason = ban["reason"].as_str().expect("a ban has its reason");
        let wrappers = ban.get("wrappers").and_then(|list| list.as_array()).map_or(&[][..], Vec::as_slice);
        let wrapped =
            |package: &&metadata::Package| wrappers.iter().any(|name| name.as_str() == Some(&package.name));
        let mut users = metadata::packages().iter().filter(|package| package.resolved.contains(name));
        if !users.all(|package| wrapped(&package)) {
            report.add(
                DENY,
                format!("`{name}` is banned ({reason}): see `cargo tree --invert {name}` for the crates that bring it in"),
            );
        }
    }
    report.finish();
}

fn deny() -> Table {
    tree::read(DENY).parse().expect("deny.toml is TOML")
}

fn strings(values: &[toml::Value]) -> Vec<String> {
    values.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect()
}

/// The lines `#   name: reason`, with their numbers.
fn reasons(text: &str, report: &mut Report) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    let mut last = String::new();
    for (index, line) in text.lines().enumerate() {
        let Some((name, reason)) = line.strip_prefix("#   ").and_then(|line| line.split_once(": ")) else {
            continue;
        };
        if reason.trim().is_empty() || name <= last.as_str() {
            report.add(
                format!("{DENY}:{}", index + 1),
                format!("`{name}` is out of order, listed twice, or without a reason"),
            );
        }
        last = name.to_owned();
        reasons.insert(name.to_owned(), index + 1);
    }
    reasons
}

/// The allowed licences that satisfy an SPDX expression; `None` if they do not. If several alternatives are
/// allowed, the first one counts.
fn permits(expression: &str, allowed: &[String]) -> Option<Vec<String>> {
    // `/` is an older spelling of OR that cargo still accepts.
    let expression = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = expression.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    either(&mut rest, allowed).filter(|_| rest.is_empty())
}

fn either(rest: &mut &[&str], allowed: &[String]) -> Option<Vec<String>> {
    let mut found = both(rest, allowed);
    while take(rest, "OR") {
        let other = both(rest, allowed);
        found = found.or(other);
    }
    found
}

fn both(rest: &mut &[&str], allowed: &[String]) -> Option<Vec<String>> {
    let mut found = one(rest, allowed);
    while take(rest, "AND") {
        let other = one(rest, allowed);
        found = found.zip(other).map(|(mut left, right)| {
            left.extend(right);
            left
        });
    }
    found
}

fn one(rest: &mut &[&str], allowed: &[String]) -> Option<Vec<String>> {
    if take(rest, "(") {
        let inner = either(rest, allowed);
        return if take(rest, ")") { inner } else { None };
    }
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    let mut name = (*first).to_owned();
    if take(rest, "WITH") {
        let (exception, tail) = rest.split_first()?;
        *rest = tail;
        name = format!("{name} WITH {exception}");
    }
    allowed.contains(&name).then(|| vec![name])
}

fn take(rest: &mut &[&str], word: &str) -> bool {
    let is_next = rest.first() == Some(&word);
    if is_next {
        *rest = &rest[1..];
    }
    is_next
}

#[test]
fn licence_expressions_are_evaluated_correctly() {
    let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("MIT/GPL-3.0", true),
        ("MIT AND GPL-3.0", false),
        ("MIT AND (GPL-3.0 OR ISC)", true),
        ("Apache-2.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("", false),
    ] {
        assert_eq!(permits(expression, &allowed).is_some(), expected, "{expression}");
    }
}
