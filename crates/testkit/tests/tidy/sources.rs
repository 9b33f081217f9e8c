//! The content of files: their sizes, words that are allowed only in certain places, and forbidden words.

use std::collections::BTreeSet;

use crate::report::Report;
use crate::rust::Source;
use crate::tree;

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 100;

/// Files that may be longer, but must not grow: path and lines. The aim is an empty list.
const LONG_FILES: &[(&str, usize)] = &[];
/// The same for functions: path, name and lines.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];
/// Limits that are not used yet. The aim is an empty list.
const UNUSED_LIMITS: &[&str] = &[];

#[test]
fn no_file_is_too_long() {
    let mut report = Report::default();
    let mut known: BTreeSet<&str> = LONG_FILES.iter().map(|(path, _)| *path).collect();
    for source in tree::rust_files() {
        // Tests at the bottom of a file do not count; in a file of tests all lines count.
        let lines = if source.tests_from == 0 { source.lines.len() } else { source.tests_from };
        let cap =
            LONG_FILES.iter().find(|(path, _)| *path == source.path).map_or(FILE_LINES, |(_, lines)| *lines);
        if lines > cap {
            report.add(
                &source.path,
                format!("{lines} lines, wanted at most {cap}: split it by what it is about"),
            );
        }
        if lines > FILE_LINES {
            known.remove(source.path.as_str());
        }
    }
    for path in known {
        report.add(path, "is short enough now: take it out of LONG_FILES");
    }
    report.finish();
}

#[test]
fn no_function_is_too_long() {
    let mut report = Report::default();
    let mut known: BTreeSet<(&str, &str)> =
        LONG_FUNCTIONS.iter().map(|(path, name, _)| (*path, *name)).collect();
    for source in tree::rust_files() {
        for function in source.functions() {
            let key = (source.path.as_str(), function.name.as_str());
            let cap = LONG_FUNCTIONS
                .iter()
                .find(|(path, name, _)| (*path, *name) == key)
                .map_or(FUNCTION_LINES, |f| f.2);
            let (name, lines) = (&function.name, function.length);
            if lines > cap {
                report.add(
                    place(&source, function.line),
                    format!("`{name}` has {lines} lines, wanted at most {cap}: name its parts"),
                );
            }
            if lines > FUNCTION_LINES {
                known.retain(|known| *known != key);
            }
        }
    }
    for (path, name) in known {
        report.add(path, format!("`{name}` is short enough now: take it out of LONG_FUNCTIONS"));
    }
    report.finish();
}

#[test]
fn sql_is_written_only_in_storage() {
    let mut report = Report::default();
    let words = [
        "SELECT ",
        "INSERT INTO",
        "INSERT OR",
        "DELETE FROM",
        "CREATE TABLE",
        "PRAGMA ",
        "BEGIN IMMEDIATE",
        "rusqlite",
    ];
    // The benchmark `core.accepts_per_fsync` compares with a bare insert.
    let homes = ["crates/storage/", "bench/", TIDY];
    for source in tree::rust_files().iter().filter(|source| outside(source, &homes)) {
        for (line, text) in source.numbered() {
            if let Some(word) = words.iter().find(|word| text.uncommented.contains(*word)) {
                report.add(
                    place(source, line),
                    format!("`{}` belongs in crates/storage, behind a port", word.trim()),
                );
            }
        }
    }
    report.finish();
}

#[test]
fn http_statuses_are_chosen_only_in_problem_rs() {
    let mut report = Report::default();
    // Clients read statuses, and test stubs act as a vendor's server.
    let homes = [
        "crates/server/src/problem.rs",
        "crates/models/",
        "crates/client/",
        "crates/cli/",
        "crates/testkit/",
        "crates/tools/src/connector/",
        "crates/tools/src/http/",
        "crates/tools/src/mcp/web.rs",
        "bench/",
        "e2e/",
    ];
    for source in tree::rust_files().iter().filter(|source| outside(source, &homes)) {
        for (line, text) in source.shipped() {
            if text.code.contains("StatusCode") || status_number(&text.code) {
                report.add(
                    place(source, line),
                    "an HTTP status: give the outcome a name and its status in crates/server/src/problem.rs",
                );
            }
        }
    }
    report.finish();
}

#[test]
fn vendors_are_named_only_in_models() {
    let mut report = Report::default();
    let vendors = [
        "anthropic",
        "claude",
        "deepseek",
        "gemini",
        "groq",
        "llama.cpp",
        "llamacpp",
        "mistral",
        "ollama",
        "openai",
        "openrouter",
        "qwen",
        "vllm",
    ];
    let homes = [
        "crates/models/",
        // Servers that speak the vendors' wire formats, and their rules for transcripts.
        "crates/testkit/src/stubs/",
        "crates/testkit/src/contract/",
        TIDY,
        // Code where a person chooses a provider and where models are assembled.
        "crates/cli/src/args/",
        "crates/cli/src/assemble.rs",
        "crates/cli/src/secrets.rs",
        "crates/cli/src/commands/doctor.rs",
        "crates/cli/src/commands/up/announce.rs",
        "bench/",
        "e2e/",
    ];
    for source in tree::rust_files().iter().filter(|source| outside(source, &homes)) {
        for (line, text) in source.shipped() {
            let lower = text.raw.to_lowercase();
            if let Some(vendor) = vendors.iter().find(|vendor| lower.contains(*vendor)) {
                report.add(
                    place(source, line),
                    format!(
                        "`{vendor}` is a vendor: say what is true of any model, or move it to crates/models"
                    ),
                );
            }
        }
    }
    report.finish();
}

#[test]
fn shipped_code_never_unwraps() {
    let mut report = Report::default();
    let homes = ["crates/testkit/", "e2e/"];
    for source in tree::rust_files().iter().filter(|source| outside(source, &homes)) {
        for (line, text) in source.shipped() {
            if text.code.contains(".unwrap()") || text.code.contains(".unwrap_err()") {
                report.add(place(source, line), "`unwrap` outside tests: return the error, or `expect` with the invariant that rules it out");
            }
        }
    }
    report.finish();
}

#[test]
fn no_test_sleeps_or_is_ignored() {
    let mut report = Report::default();
    for source in tree::rust_files().iter().filter(|source| outside(source, &[TIDY])) {
        for (line, text) in source.numbered() {
            if text.code.contains("#[ignore") {
                report.add(place(source, line), "an ignored test proves nothing: fix it or delete it");
            }
        }
        for (line, text) in source.tests() {
            if text.code.contains("thread::sleep") || text.code.contains("time::sleep") {
                report.add(
                    place(source, line),
                    "a test that sleeps is slow or flaky: advance the clock, or wait for what it waits for",
                );
            }
        }
    }
    report.finish();
}

#[test]
fn no_file_contains_a_to_do_marker() {
    let words = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
        concat!("dbg", "!("),
        concat!("todo", "!("),
        concat!("unimple", "mented!("),
    ];
    let mut report = Report::default();
    for file in tree::text_files() {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                let what = format!(
                    "`{}` marks unfinished work: do it, or open an issue",
                    word.trim_end_matches('(')
                );
                report.add(format!("{}:{}", file.path, index + 1), what);
            }
        }
    }
    report.finish();
}

#[test]
fn no_file_contains_a_path_or_host_of_one_machine() {
    let words = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/Us", "ers/"),
        concat!("/tmp/", "plan"),
        concat!("pypi", ".org"),
        concat!("python", "hosted"),
        concat!("registry.", "npmjs"),
        concat!("index.", "crates"),
        concat!("static.", "crates"),
        concat!("proxy.", "golang"),
    ];
    let mut report = Report::default();
    // Cargo writes the index into its lock file.
    for file in tree::text_files().iter().filter(|file| file.path != "Cargo.lock") {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| names_machine(line, word)) {
                report.add(
                    format!("{}:{}", file.path, index + 1),
                    format!("`{word}` is true of one machine only: leave it out"),
                );
            }
        }
    }
    report.finish();
}

/// Operators know agents by their handles. Spans have both.
#[test]
fn no_line_of_the_log_names_an_agent_by_its_id() {
    let mut report = Report::default();
    for source in tree::rust_files().iter().filter(|source| source.path.contains("/src/")) {
        let code = &source.lines[..source.tests_from.min(source.lines.len())];
        for (index, line) in code.iter().enumerate() {
            let code = &line.code;
            let by_id = code.contains("%agent,") || code.contains("%agent)") || code.contains("agent = %");
            if by_id && !code.contains("gen_ai.") {
                report.add(
                    format!("{}:{}", source.path, index + 1),
                    "name the agent by its handle: `agent = live.name(agent)`".to_owned(),
                );
            }
        }
    }
    report.finish();
}

#[test]
fn no_file_names_its_author() {
    let words = [
        concat!("co-authored", "-by"),
        concat!("generated ", "with"),
        concat!("generated ", "by an"),
        concat!("written ", "by an ai"),
        concat!("as an ", "ai "),
        concat!("language model", " wrote"),
        concat!("@au", "thor"),
        concat!("helper ", "session"),
    ];
    let mut report = Report::default();
    for file in tree::text_files() {
        for (index, line) in file.text.lines().enumerate() {
            let lower = line.to_lowercase();
            if let Some(word) = words.iter().find(|word| lower.contains(*word)) {
                report.add(
                    format!("{}:{}", file.path, index + 1),
                    format!("`{word}`: authors belong in the git history only"),
                );
            }
        }
    }
    report.finish();
}

#[test]
fn no_channel_is_unbounded() {
    let mut report = Report::default();
    for source in tree::rust_files().iter().filter(|source| outside(source, &[TIDY])) {
        for (line, text) in source.shipped() {
            if text.code.contains("unbounded") || text.code.contains("mpsc::channel()") {
                report.add(
                    place(source, line),
                    "a channel without a limit: give it one from crates/agent/src/limits.rs",
                );
            }
        }
    }
    report.finish();
}

#[test]
fn every_limit_is_used() {
    const LIMITS: &str = "crates/agent/src/limits";
    let mut report = Report::default();
    let sources = tree::rust_files();
    let limits = sources.iter().filter(|source| source.path.starts_with(LIMITS));
    for (limits, (line, text)) in limits.flat_map(|file| file.numbered().map(move |line| (file, line))) {
        let Some(name) = text.code.strip_prefix("pub const ").and_then(|rest| rest.split(':').next()) else {
            continue;
        };
        let users =
            sources.iter().filter(|source| ![LIMITS, TIDY].iter().any(|own| source.path.starts_with(own)));
        let used =
            users.into_iter().any(|source| source.shipped().any(|(_, text)| has_word(&text.code, name)));
        if !used && !UNUSED_LIMITS.contains(&name) {
            report.add(
                place(limits, line),
                format!(
                    "the limit `{name}` is not used: apply it where the limited thing grows, or remove it"
                ),
            );
        }
        if used && UNUSED_LIMITS.contains(&name) {
            report.add(place(limits, line), format!("`{name}` is used now: remove it from UNUSED_LIMITS"));
        }
    }
    report.finish();
}

/// This test contains the words that it forbids.
const TIDY: &str = "crates/testkit/tests/tidy/";

fn place(source: &Source, line: usize) -> String {
    format!("{}:{line}", source.path)
}

fn outside(source: &Source, homes: &[&str]) -> bool {
    !homes.iter().any(|home| source.path.starts_with(home))
}

/// Whether the line contains the host, or the path from the machine's root. `/v1/spaces/home/` does not match.
fn names_machine(line: &str, word: &str) -> bool {
    let begins = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "}_-.".contains(c));
    line.match_indices(word).any(|(at, _)| !word.starts_with('/') || begins(at))
}

fn has_word(text: &str, word: &str) -> bool {
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        !inside(text[..at].chars().next_back()) && !inside(text[at + word.len()..].chars().next())
    })
}

/// Whether the line contains a number that is almost certainly an HTTP status. The documentation of routes
/// (`status = 404`) only repeats what `problem.rs` chose.
fn status_number(code: &str) -> bool {
    let numbers =
        ["201", "204", "401", "403", "404", "405", "409", "413", "415", "422", "429", "502", "503", "504"];
    !code.contains("status = ") && numbers.iter().any(|number| has_word(code, number))
}
