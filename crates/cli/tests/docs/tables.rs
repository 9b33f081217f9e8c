//! Generates and checks tables in pages: between two marks of a page are the rows that a command prints as JSON.

use std::process::Command;

use serde_json::{Map, Value};

use crate::root;

/// Set by `make docs`: write tables instead of comparing them.
const WRITE: &str = "VIV_WRITE_DOCS";

/// The page, the name of its marks, and the command that prints the rows between them.
const TABLES: &[(&str, &str, &[&str])] = &[
    ("docs/agents.md", "keys", &["config", "keys", "--agent", "--json"]),
    ("docs/operating.md", "settings", &["config", "keys", "--json"]),
];

#[test]
fn the_generated_tables_are_up_to_date() {
    for (page, mark, command) in TABLES {
        let path = root().join(page);
        let text = std::fs::read_to_string(&path).unwrap();
        let (begin, end) = (format!("<!-- {mark}: generated -->\n"), format!("<!-- {mark}: end -->"));
        let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{page} has no `{begin}`"));
        let (is, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{page} has no `{end}`"));
        let output = Command::new(env!("CARGO_BIN_EXE_viv")).args(*command).output().unwrap();
        assert!(output.status.success(), "{command:?} fails: {}", String::from_utf8_lossy(&output.stderr));
        let mut list: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows: Vec<Map<String, Value>> = serde_json::from_value(list["items"].take()).unwrap();
        let wanted = format!("\n{}\n", table(&rows));
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, format!("{before}{begin}{wanted}{end}{after}")).unwrap();
        } else {
            assert!(is == wanted, "the table `{mark}` of {page} is out of date: run `make docs`");
        }
    }
}

/// The rows as a Markdown table.
fn table(rows: &[Map<String, Value>]) -> String {
    let heads: Vec<&str> = rows[0].keys().map(String::as_str).collect();
    let mut page = format!("| {} |\n|{}\n", heads.join(" | "), " --- |".repeat(heads.len()));
    for row in rows {
        let cells = row.iter().map(|(head, cell)| match (head.as_str(), cell.as_str().unwrap()) {
            (_, "") => String::new(),
            ("key" | "default" | "env" | "flag", cell) => format!("`{cell}`"),
            (_, cell) => cell.replace('|', "\\|"),
        });
        page.push_str(&format!("| {} |\n", cells.collect::<Vec<_>>().join(" | ")));
    }
    page
}
