//! The folder of agent files: lists them, detects changes and reads them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{AgentFile, FILE_MAX_BYTES, FileProblem, Vet, parse};

/// Maximum number of agent files in one folder.
const FILES_MAX: usize = 1_000;

/// Changes when the file changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// A file of this size, last modified at this time.
    File(u64, Option<SystemTime>),
    /// Not a file, or its metadata cannot be read.
    Other(String),
}

/// One file, read.
#[derive(Debug)]
pub struct FoundFile {
    /// Its path.
    pub path: PathBuf,
    /// The file, as shown to people.
    pub file: String,
    /// Its content, or what is wrong with it.
    pub read: Result<AgentFile, Vec<FileProblem>>,
}

/// A path, as shown to people.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}

/// The agent files in the folder, by path; `None` if there is no such folder.
pub fn scan(dir: &Path) -> Result<Option<BTreeMap<PathBuf, Stamp>>, FileProblem> {
    let unreadable =
        |why: String| FileProblem::new(&shown(dir), None, format!("cannot read the folder: {why}"));
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(error.to_string()))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Editors create such names next to the file that they edit.
        if !name.ends_with(".md") || name.starts_with(['.', '#']) {
            continue;
        }
        if found.len() == FILES_MAX {
            return Err(unreadable(format!("it holds more than {FILES_MAX} agent files")));
        }
        found.insert(entry.path(), stamp(&entry.path()));
    }
    Ok(Some(found))
}

fn stamp(path: &Path) -> Stamp {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Stamp::File(metadata.len(), metadata.modified().ok()),
        // Reading a pipe would block forever, reading a device would never end.
        Ok(_) => Stamp::Other("it is not a file".to_owned()),
        Err(error) => Stamp::Other(error.to_string()),
    }
}

/// Reads all files that were found. If two agents have the same name, both files are refused.
pub fn load(stamps: &BTreeMap<PathBuf, Stamp>, vet: &Vet<'_>) -> Vec<FoundFile> {
    let read = |(path, stamp): (&PathBuf, &Stamp)| FoundFile {
        path: path.clone(),
        file: shown(path),
        read: read_as(path, stamp, vet),
    };
    let mut all: Vec<FoundFile> = stamps.iter().map(read).collect();
    refuse_duplicates(&mut all);
    all
}

/// Reads one file that a user named.
pub fn read_one(path: &Path, vet: &Vet<'_>) -> Result<AgentFile, Vec<FileProblem>> {
    read_as(path, &stamp(path), vet)
}

fn read_as(path: &Path, stamp: &Stamp, vet: &Vet<'_>) -> Result<AgentFile, Vec<FileProblem>> {
    let file = shown(path);
    let bytes = bytes(path, stamp, &file)?;
    parse(&file, &path.file_stem().unwrap_or_default().to_string_lossy(), &bytes, vet)
}

fn bytes(path: &Path, stamp: &Stamp, file: &str) -> Result<Vec<u8>, Vec<FileProblem>> {
    let unreadable = |why: String| vec![FileProblem::new(file, None, format!("cannot read it: {why}"))];
    if let Stamp::Other(why) = stamp {
        return Err(unreadable(why.clone()));
    }
    let mut bytes = Vec::new();
    let opened = fs::File::open(path).and_then(|file| file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes));
    opened.map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(unreadable(format!("it is larger than {FILE_MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

fn refuse_duplicates(all: &mut [FoundFile]) {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for agent in all.iter().filter_map(|found| found.read.as_ref().ok()) {
        files.entry(agent.name.clone()).or_default().push(agent.file.clone());
    }
    for found in all.iter_mut() {
        let Ok(agent) = &found.read else { continue };
        let others = files.get(&agent.name).into_iter().flatten().filter(|file| **file != found.file);
        let others: Vec<&str> = others.map(String::as_str).collect();
        if !others.is_empty() {
            let what = format!(
                "its agent `{}` has the same name as the one in `{}`; names are compared in lower case",
                agent.name,
                others.join("`, `")
            );
            found.read = Err(vec![FileProblem::new(&found.file, None, what)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    fn load_all(dir: &Path) -> Vec<FoundFile> {
        load(&scan(dir).unwrap().unwrap(), &|_| Vec::new())
    }

    fn problems(dir: &Path) -> String {
        let all = load_all(dir);
        let all = all.iter().filter_map(|found| found.read.as_ref().err()).flatten();
        all.map(|problem| format!("{problem}\n").replace(&dir.display().to_string(), "D")).collect()
    }

    const VALID: &str = "---\n---\nYou are here.\n";

    #[test]
    fn only_agent_files_are_read() {
        let dir = folder(&[("a.md", VALID), ("b.txt", "x"), (".c.md", "x"), ("#d.md", "x"), ("e.md~", "x")]);
        fs::create_dir(dir.path().join("old")).unwrap();
        let all = load_all(dir.path());
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].read.as_ref().unwrap().name, "a");
        assert_eq!(scan(&dir.path().join("nowhere")).unwrap(), None);
    }

    #[test]
    fn two_files_with_one_name_are_both_refused_ignoring_case() {
        let dir = folder(&[("a.md", VALID), ("b.md", "---\nname: A\n---\nx"), ("c.md", VALID)]);
        assert_eq!(
            problems(dir.path()),
            "D/a.md: its agent `a` has the same name as the one in `D/b.md`; names are compared in lower case\n\
             D/b.md: its agent `a` has the same name as the one in `D/a.md`; names are compared in lower case\n"
                .replace("`D/", &format!("`{}/", "D"))
        );
    }

    #[test]
    fn only_regular_files_are_opened() {
        let dir = folder(&[]);
        fs::create_dir(dir.path().join("a.md")).unwrap();
        std::os::unix::fs::symlink("b.md", dir.path().join("b.md")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("c.md")).unwrap();
        let found = problems(dir.path());
        assert_eq!(found.lines().count(), 3, "{found}");
        assert!(found.contains("D/a.md: cannot read it: it is not a file"), "{found}");
        assert!(found.contains("D/b.md: cannot read it: "), "{found}");
    }

    #[test]
    fn an_oversized_file_is_refused() {
        let dir = folder(&[]);
        let file = fs::File::create(dir.path().join("a.md")).unwrap();
        file.set_len(1 << 40).unwrap();
        assert!(problems(dir.path()).contains("larger than"));
    }

    #[test]
    fn a_changed_file_has_another_stamp() {
        let dir = folder(&[("a.md", VALID)]);
        let before = scan(dir.path()).unwrap().unwrap();
        fs::write(dir.path().join("a.md"), format!("{VALID}more")).unwrap();
        assert_ne!(scan(dir.path()).unwrap().unwrap(), before);
    }
}
