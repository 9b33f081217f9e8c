//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use crate::rust::Source;

/// Generated folders that are not part of the repository.
const GENERATED: &[&str] = &["target", ".git", ".cache", ".viv", "node_modules"];

/// One text file.
pub(crate) struct TextFile {
    /// The path from the root, with `/`.
    pub(crate) path: String,
    /// The content.
    pub(crate) text: String,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("testkit lies in crates/").to_path_buf()
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

/// The content of a file, by its path from the root. Panics if it cannot be read.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: cannot be read: {error}"))
}

/// Every Rust file, split into code, strings and comments.
pub(crate) fn rust_files() -> Vec<Source> {
    let rust = text_files().into_iter().filter(|file| file.path.ends_with(".rs"));
    rust.map(|file| Source::new(file.path, &file.text)).collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the tree can be read").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        // In a git worktree `.git` is a file.
        if GENERATED.iter().any(|generated| name == *generated) {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}
