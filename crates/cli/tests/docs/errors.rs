//! Generates and checks `docs/errors.md`: the API's codes from their enum, the commands' codes and exit
//! codes from where they are raised.

use std::collections::BTreeMap;
use std::path::Path;

use server::problem::Code;

use crate::root;

const PAGE: &str = "docs/errors.md";
/// Set by `make docs`: write pages instead of comparing them.
const WRITE: &str = "VIV_WRITE_DOCS";

#[test]
fn the_errors_page_lists_every_code() {
    let path = root().join(PAGE);
    let wanted = page();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let is = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(is == wanted, "{PAGE} is out of date: run `make docs`");
}

fn page() -> String {
    let mut page = String::from(
        "# Errors\n\n\
         Every error states what was wanted and what stood in the way, and has a hint if something can be done. Its\n\
         code is stable: scripts may rely on it, the message may change. This page is generated from the code\n\
         (`make docs`).\n\n\
         ## Exit codes of `viv`\n\n| code | means |\n|---|---|\n",
    );
    for (_, number, meaning) in exits() {
        page += &format!("| {number} | {meaning} |\n");
    }
    page += "\n## Codes of the API\n\n\
             Refusals are `application/problem+json` with `code`, `title`, `status`, `detail` and often `hint`.\n\n\
             | code | status | means |\n|---|---|---|\n";
    for code in Code::ALL {
        page += &format!("| `{}` | {} | {} |\n", code.as_str(), code.status(), code.title());
    }
    page += "\n## Codes of the commands\n\n\
             With `--json` a failure is one line on standard error: `{\"error\": {\"code\", \"message\", \"hint\"}}`. A refusal by\n\
             the server keeps the server's code.\n\n| code | exit | for example |\n|---|---|---|\n";
    let exits = exits();
    for ((code, exit), example) in raised() {
        let number = exits.iter().find(|(name, ..)| *name == exit).map_or(1, |(_, number, _)| *number);
        page += &format!("| `{code}` | {number} | {example} |\n");
    }
    page
}

/// The exit codes from their enum: name, number and first line of documentation.
fn exits() -> Vec<(String, i32, String)> {
    let text = std::fs::read_to_string(root().join("crates/cli/src/errors.rs")).unwrap();
    let body = text.split("enum Exit {").nth(1).unwrap().split('}').next().unwrap();
    let mut meaning = String::new();
    let mut exits = Vec::new();
    for line in body.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("/// ") {
            meaning = doc.to_owned();
        } else if let Some((name, number)) = line.trim_end_matches(',').split_once(" = ") {
            exits.push((name.to_owned(), number.parse().unwrap(), std::mem::take(&mut meaning)));
        }
    }
    assert!(exits.len() > 4, "the exit codes are not where this test looks");
    exits
}

/// Every code that a command raises, its exit code and the message of its first occurrence.
fn raised() -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    let mut files = Vec::new();
    // The classes of the client's errors have the names of the exit codes.
    for folder in ["crates/cli/src", "crates/client/src"] {
        rust_files(&root().join(folder), &mut files);
    }
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let calls = text.split("Failure::new(").skip(1).chain(text.split("ClientError::new(").skip(1));
        for call in calls {
            let call = call.trim_start();
            let exit = call.strip_prefix("Exit::").or_else(|| call.strip_prefix("ErrorClass::"));
            let Some(exit) = exit else { continue };
            let family: String = exit.chars().take_while(char::is_ascii_alphanumeric).collect();
            let mut parts = exit.split('"').skip(1);
            let (Some(code), Some(gap), Some(words)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            // If the message is built elsewhere, the next string is a hint or belongs to the next
            // statement.
            let example = if gap.contains([';', '}']) || gap.contains(".hint(") { "" } else { words };
            let example =
                without_placeholders(&example.replace("\\\n", " ").replace("\\n", " ").replace('|', "\\|"));
            let example = example.split_whitespace().collect::<Vec<_>>().join(" ");
            let known: &mut String = found.entry((code.to_owned(), family)).or_default();
            if known.is_empty() {
                *known = example;
            }
        }
    }
    assert!(found.len() > 10, "the failures are not where this test looks");
    found
}

/// The message with `…` for each part that differs.
fn without_placeholders(message: &str) -> String {
    let mut parts = message.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push('…');
        out.push_str(part.split_once('}').map_or("", |(_, after)| after));
    }
    out
}

fn rust_files(folder: &Path, into: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}
