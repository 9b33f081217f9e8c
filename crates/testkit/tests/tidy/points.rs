//! The failpoints at which the torture harness lets the process die: all of them are in the code, and no
//! shipped build enables them.

use std::collections::BTreeSet;

use crate::report::Report;
use crate::tree;

const LIST: &str = "crates/failpoint/src/lib.rs";

#[test]
fn only_the_command_line_can_enable_failpoints() {
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
fn the_list_of_failpoints_and_the_code_agree() {
    let mut report = Report::default();
    let sources = tree::rust_files();
    let list = sources.iter().find(|source| source.path == LIST).expect("the points have a list");
    let inside = list.lines.iter().skip_while(|line| !line.raw.starts_with("pub const POINTS")).skip(1);
    let listed: BTreeSet<String> =
        inside.take_while(|line| line.raw != "];").filter_map(|line| quoted(&line.raw)).collect();
    let mut used = BTreeSet::new();
    for source in sources.iter().filter(|source| !source.path.starts_with("crates/failpoint/")) {
        let mut open = 0;
        // If the point depends on the operation, a function named `points` returns its name.
        let functions = source.functions();
        let points: Vec<_> = functions.iter().filter(|function| function.name == "points").collect();
        for (number, line) in source.shipped() {
            let begins = line.code.contains("failpoint::hit!(");
            let within = points.iter().any(|of| (of.line..of.line + of.length).contains(&number));
            // A macro call over several lines can have a name on each line.
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
        report.add(LIST, format!("no code has the point `{name}`: remove it from the list"));
    }
    report.finish();
}

fn quoted(line: &str) -> Option<String> {
    line.split('"').nth(1).map(str::to_owned)
}
