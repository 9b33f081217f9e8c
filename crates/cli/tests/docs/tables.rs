//! Generates and checks tables in pages: between two marks of a page is the output of a command.

use std::process::Command;

use crate::root;

/// Set by `make docs`: write tables instead of comparing them.
const WRITE: &str = "VIV_WRITE_DOCS";

/// The page, the name of its marks, and the command whose output is between them.
const TABLES: &[(&str, &str, &[&str])] = &[
    ("docs/agents.md", "keys", &["config", "keys", "--agent", "--markdown"]),
    ("docs/operating.md", "settings", &["config", "keys", "--markdown"]),
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
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{command:?} fails: {}", String::from_utf8_lossy(&output.stderr));
        let wanted = format!("\n{}\n\n", printed.trim());
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, format!("{before}{begin}{wanted}{end}{after}")).unwrap();
        } else {
            assert!(is == wanted, "the table `{mark}` of {page} is out of date: run `make docs`");
        }
    }
}
