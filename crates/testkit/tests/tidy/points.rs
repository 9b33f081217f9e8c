//! Named points at which the torture harness lets the process die: all of them are in the code, and
//! none is in what is shipped.

use std::collections::BTreeSet;

use crate::report::Report;
use crate::tree;

const LIST: &str = "crates/failpoint/src/lib.rs";

#[test]
fn no_default_feature_arms_the_failpoints_and_nobody_asks_for_them() {
    let mut report = Report::default();
    for file in tree::text_files().iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let manifest: toml::Table = file.text.parse().expect("a manifest is TOML");
        let features = manifest.get("features").and_then(toml::Value::as_table).cloned().unwrap_or_default();
        for (name, enables) in &features {
            let arms = enables.to_string().contains("failpoint");
            if arms && name != "failpoints" {
                report
                    .add(&file.path, format!("the feature `{name}` arms failpoints: only `failpoints` may"));
            }
        }
        let asks = ["dependencies", "dev-dependencies", "build-dependencies", "workspace"];
        for table in asks.iter().filter_map(|name| manifest.get(*name)) {
            let text = table.to_string();
            if text.contains("\"failpoints\"") || text.contains("\"armed\"") {
                report.add(&file.path, "a dependency arms failpoints: only the command line may");
            }
        }
    }
    report.finish();
}

#[test]
fn every_point_of_the_list_is_in_the_code_and_every_point_of_the_code_in_the_list() {
    let mut report = Report::default();
    let sources = tree::rust_files();
    let list = sources.iter().find(|source| source.path == LIST).expect("the points have a list");
    let inside = list.lines.iter().skip_while(|line| !line.raw.starts_with("pub const POINTS")).skip(1);
    let listed: BTreeSet<String> =
        inside.take_while(|line| line.raw != "];").filter_map(|line| quoted(&line.raw)).collect();
    let mut used = BTreeSet::new();
    for source in sources.iter().filter(|source| !source.path.starts_with("crates/failpoint/")) {
        let mut open = 0;
        // Where a point depends on what is done there, a function of that name tells which it is.
        let functions = source.functions();
        let points: Vec<_> = functions.iter().filter(|function| function.name == "points").collect();
        for (number, line) in source.shipped() {
            let begins = line.code.contains("failpoint::hit!(");
            let within = points.iter().any(|of| (of.line..of.line + of.length).contains(&number));
            // A macro over several lines may have a name on each.
            if begins || within || open > 0 {
                let names = line.uncommented.split('"').skip(1).step_by(2);
                for name in names {
                    used.insert(name.to_owned());
                    if !listed.contains(name) {
                        report.add(
                            format!("{}:{number}", source.path),
                            format!("the point `{name}` is not in the list of {LIST}: add it"),
                        );
                    }
                }
                let round = line.code.matches('(').count() as i32 - line.code.matches(')').count() as i32;
                open += if within { 0 } else { round };
            }
        }
    }
    for name in listed.difference(&used) {
        report.add(LIST, format!("no code comes to the point `{name}`: remove it from the list"));
    }
    report.finish();
}

fn quoted(line: &str) -> Option<String> {
    line.split('"').nth(1).map(str::to_owned)
}
