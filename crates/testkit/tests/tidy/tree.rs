//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Generated folders that are not part of the repository.
const GENERATED: &[&str] = &["target", ".git", ".cache", ".viv", "node_modules"];

/// One text file.
pub(crate) struct TextFile {
    /// The path from the root, with `/`.
    pub(crate) path: String,
    /// The content.
    pub(crate) text: String,
}

impl TextFile {
    /// The crate's folder, such as `crates/agent` or `bench`.
    pub(crate) fn package(&self) -> &str {
        let depth = if self.path.starts_with("crates/") { 1 } else { 0 };
        self.path.match_indices('/').nth(depth).map_or(&self.path, |(at, _)| &self.path[..at])
    }

    /// How many lines are before the tests at the bottom; none of a file of tests.
    pub(crate) fn shipped_lines(&self) -> usize {
        if self.path.contains("/tests/") || self.path.ends_with("/tests.rs") {
            return 0;
        }
        let lines: Vec<&str> = self.text.lines().collect();
        let module = |line: &&str| !line.starts_with("#[");
        let tests = |at: &usize| {
            lines[*at] == "#[cfg(test)]"
                && lines[at + 1..]
                    .iter()
                    .find(|line| module(line))
                    .is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
        };
        (0..lines.len()).find(tests).unwrap_or(lines.len())
    }

    /// The code before the tests at the bottom, by line from 1, without comments.
    pub(crate) fn shipped(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code().take(self.shipped_lines())
    }

    /// The code of all lines, from 1, without comments.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().map(without_comment).enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// The line up to its comment: two slashes of which an even number of quotes stand before.
fn without_comment(line: &str) -> &str {
    let outside = |at: &usize| line[..*at].matches('"').count().is_multiple_of(2);
    line.match_indices("//").map(|(at, _)| at).find(outside).map_or(line, |at| &line[..at])
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("testkit lies in crates/").to_path_buf()
}

/// The content of a file, by its path from the root. Panics if it cannot be read.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: cannot be read: {error}"))
}

/// Every text file of the tree, in order of path.
pub(crate) fn text_files() -> Vec<TextFile> {
    let root = root();
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    let texts = paths.into_iter().filter_map(|path| {
        let text = fs::read_to_string(&path).ok()?;
        let path = path.strip_prefix(&root).expect("found below the root").to_string_lossy().into_owned();
        Some(TextFile { path, text })
    });
    texts.collect()
}

/// Every Rust file.
pub(crate) fn rust_files() -> Vec<TextFile> {
    text_files().into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the tree can be read").flatten() {
        // In a git worktree `.git` is a file.
        if GENERATED.iter().any(|generated| entry.file_name() == *generated) {
            continue;
        }
        match entry.path() {
            path if path.is_dir() => walk(&path, found),
            path => found.push(path),
        }
    }
}

#[test]
fn comments_and_tests_are_told_from_code() {
    let text = "let a = \"// no\"; // yes\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n}\n";
    let file = TextFile { path: "crates/x/src/a.rs".to_owned(), text: text.to_owned() };
    let shipped: Vec<_> = file.shipped().collect();
    assert_eq!((shipped, file.package()), (vec![(1, "let a = \"// no\"; ")], "crates/x"));
}
