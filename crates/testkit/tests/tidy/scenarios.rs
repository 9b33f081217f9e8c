//! The table in docs/reliability.md: each scenario has a row, and each test that a row names exists.

use std::collections::BTreeSet;

use crate::documents::{in_backticks, section};
use crate::report::Report;
use crate::tree;

const PAGE: &str = "docs/reliability.md";
/// The numbers of the scenarios that must have a row.
const ROWS: &[u32] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 20, 22, 23, 24, 25, 26, 27, 30, 31, 32, 33, 36, 37, 39, 41,
    42, 44, 45, 46, 47, 48, 49,
];

#[test]
fn every_scenario_has_a_row_and_every_test_that_a_row_names_exists() {
    let mut report = Report::default();
    let page = tree::read(PAGE);
    let mut missing: BTreeSet<u32> = ROWS.iter().copied().collect();
    for (line, text) in section(&page, "## Scenarios") {
        let place = format!("{PAGE}:{line}");
        let Some(number) = text.split('|').nth(1).and_then(|cell| cell.trim().parse().ok()) else { continue };
        missing.remove(&number);
        named(&mut report, &place, text);
        let shown = text.split('|').nth(4).unwrap_or_default();
        if !["::", "loop", "the same", "nothing yet"].iter().any(|words| shown.contains(words)) {
            report.add(&place, "the row names no test: name one, or say `nothing yet`");
        }
    }
    for number in missing {
        report.add(PAGE, format!("scenario {number} has no row"));
    }
    for (line, text) in section(&page, "## Bad files and directories") {
        named(&mut report, &format!("{PAGE}:{line}"), text);
    }
    report.finish();
}

/// Checks that each test that the line names exists.
fn named(report: &mut Report, place: &str, text: &str) {
    for (path, name) in in_backticks(text).iter().filter_map(|named| named.split_once("::")) {
        let there = tree::root().join(path).is_file();
        if !there || !tree::read(path).contains(&format!("fn {name}(")) {
            report
                .add(place, format!("there is no test `{name}` in `{path}`: name the one that covers this"));
        }
    }
}
