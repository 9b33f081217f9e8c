//! The folder of agent files: lists them, detects changes and reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use agent::approver::Approver;

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
    /// It looks like agent files, but is not read, for this reason.
    Unread(String),
}

/// One file, read.
#[derive(Debug)]
pub struct FoundFile {
    /// Its path.
    pub path: PathBuf,
    /// The file, as shown to people.
    pub file: String,
    /// Its content, or what is wrong with it; nothing if the problem of another file says so.
    pub read: Result<AgentFile, Vec<FileProblem>>,
}

/// A path, as shown to people.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}

/// The agent files in the folder, by path; `None` if there is no such folder.
pub fn scan(dir: &Path) -> Result<Option<BTreeMap<PathBuf, Stamp>>, FileProblem> {
    let unreadable =
        |why: &dyn Display| FileProblem::new(&shown(dir), None, format!("cannot read the folder: {why}"));
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound && dir.is_symlink() => {
            return Err(unreadable(&"it is a link to nothing; create the folder, or remove the link"));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(&error)),
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(&error))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Editors create such names next to the file that they edit.
        if name.starts_with(['.', '#']) {
            continue;
        }
        let stamp = match name.ends_with(".md") {
            true => stamp(&entry.path()),
            false => match why_unread(&entry.path(), &name) {
                Some(why) => Stamp::Unread(why),
                None => continue,
            },
        };
        if found.len() == FILES_MAX {
            return Err(unreadable(&format_args!("it holds more than {FILES_MAX} agent files")));
        }
        found.insert(entry.path(), stamp);
    }
    Ok(Some(found))
}

/// Why something in the folder is not read although somebody may expect it; `None` if nobody does.
fn why_unread(path: &Path, name: &str) -> Option<String> {
    let name = name.to_lowercase();
    if [".md", ".markdown", ".mdown", ".mdx"].iter().any(|ending| name.ends_with(ending)) {
        return Some("it is not read: the name of an agent file ends with `.md`; rename it".to_owned());
    }
    let holds_files = |entries: fs::ReadDir| {
        entries.flatten().any(|entry| entry.path().extension().is_some_and(|ending| ending == "md"))
    };
    let what = "the files in it are not read: agent files are not in subfolders; move them up, or out";
    fs::read_dir(path).is_ok_and(holds_files).then(|| what.to_owned())
}

/// Whether a file is a note about the folder: a `README.md` without an agent's keys.
fn is_note(path: &Path, stamp: &Stamp) -> bool {
    let named = path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("readme"));
    let has_keys = |bytes: Vec<u8>| bytes.starts_with(b"---") || bytes.starts_with(b"\xef\xbb\xbf---");
    named && !bytes(path, stamp, "").is_ok_and(has_keys)
}

fn stamp(path: &Path) -> Stamp {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Stamp::File(metadata.len(), metadata.modified().ok()),
        // Reading a pipe would block forever, reading a device would never end.
        Ok(_) => Stamp::Other("it is not a file".to_owned()),
        Err(error) => Stamp::Other(error.to_string()),
    }
}

/// Reads all files that were found, but for a `README.md`. If two agents have the same name, both files are refused; so is one
/// that names an agent of the folder in `approvers`.
pub fn load(stamps: &BTreeMap<PathBuf, Stamp>, vet: &Vet<'_>) -> Vec<FoundFile> {
    let read = |(path, stamp): (&PathBuf, &Stamp)| FoundFile {
        path: path.clone(),
        file: shown(path),
        read: read_as(path, stamp, vet),
    };
    let mut all: Vec<FoundFile> =
        stamps.iter().filter(|(path, stamp)| !is_note(path, stamp)).map(read).collect();
    refuse_duplicates(&mut all);
    refuse_agents_as_approvers(&mut all);
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
    match stamp {
        Stamp::File(..) => {}
        Stamp::Other(why) => return Err(unreadable(why.clone())),
        Stamp::Unread(why) => {
            return Err(vec![FileProblem { warning: true, ..FileProblem::new(file, None, why.clone()) }]);
        }
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
        let Some(same) = files.get(&agent.name).filter(|same| same.len() > 1) else { continue };
        // One mistake is reported once: with the last file.
        let others = &same[..same.len() - 1];
        let what = format!(
            "it defines the agent `{}`, as `{}` does: remove one, or give one another `name`",
            agent.name,
            others.join("`, `")
        );
        let is_last = same.last() == Some(&found.file);
        found.read = Err(is_last.then(|| FileProblem::new(&found.file, None, what)).into_iter().collect());
    }
}

/// Agents approve nothing, whether or not the server has them yet.
fn refuse_agents_as_approvers(all: &mut [FoundFile]) {
    let agents: BTreeSet<String> =
        all.iter().filter_map(|found| found.read.as_ref().ok()).map(|agent| agent.name.clone()).collect();
    for found in all.iter_mut() {
        let Ok(agent) = &found.read else { continue };
        let handles = agent.config.approvers.iter().filter_map(|entry| Approver::of(entry).handle());
        let named: Vec<String> =
            handles.map(str::to_ascii_lowercase).filter(|handle| agents.contains(handle)).collect();
        if named.is_empty() {
            continue;
        }
        let wrong = |handle| {
            let what = format!("`approvers`: `{handle}` is an agent; only people approve");
            FileProblem::new(&found.file, None, what)
        };
        found.read = Err(named.iter().map(wrong).collect());
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
    fn two_files_with_one_name_are_both_refused_with_one_error() {
        let dir = folder(&[("a.md", VALID), ("b.md", "---\nname: A\n---\nx"), ("c.md", VALID)]);
        let dir = dir.path();
        assert_eq!(
            problems(dir),
            "D/b.md: it defines the agent `a`, as `D/a.md` does: remove one, or give one another `name`\n"
        );
        assert_eq!(load_all(dir).iter().filter(|found| found.read.is_ok()).count(), 1);
    }

    #[test]
    fn an_agent_of_the_folder_approves_nothing() {
        let approvers = |names: &str| format!("---\napprovers: {names}\n---\nYou are here.\n");
        let (bad, good) = (approvers("[tom, \"@B\"]"), approvers("[tom]"));
        let dir = folder(&[("a.md", &bad), ("b.md", VALID), ("c.md", &good)]);
        let found = problems(dir.path());
        assert_eq!(found, "D/a.md: `approvers`: `b` is an agent; only people approve\n");
        assert_eq!(load_all(dir.path()).iter().filter(|found| found.read.is_ok()).count(), 2);
    }

    #[test]
    fn a_readme_is_ignored_unless_it_has_the_keys_of_an_agent() {
        for name in ["README.md", "readme.md", "Readme.MD", "README.markdown"] {
            let dir = folder(&[("a.md", VALID), (name, "# Our agents\n")]);
            assert_eq!((load_all(dir.path()).len(), problems(dir.path()).as_str()), (1, ""), "{name}");
        }
        let dir = folder(&[("readme.md", VALID), ("notes.md", "# Notes\n")]);
        let found = problems(dir.path());
        assert!(found.starts_with("D/notes.md:1: wanted a first line `---`"), "{found}");
        assert!(found.contains("notes belong into `README.md`") && found.lines().count() == 1, "{found}");
        assert_eq!(load_all(dir.path())[1].read.as_ref().unwrap().name, "readme");
    }

    #[test]
    fn what_looks_like_an_agent_file_but_is_not_read_is_a_warning() {
        let dir = folder(&[("a.MD", VALID), ("b.markdown", VALID), ("c.md.bak", VALID), ("d.txt", VALID)]);
        for name in ["team", "empty"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("team/e.md"), VALID).unwrap();
        let all = load_all(dir.path());
        let warnings: Vec<_> = all.iter().filter_map(|found| found.read.as_ref().err()).flatten().collect();
        assert!(warnings.len() == 3 && warnings.iter().all(|one| one.warning), "{warnings:?}");
        let shown = problems(dir.path());
        for part in
            ["D/a.MD: it is not read", "D/b.markdown: it is not read", "D/team: the files in it are not"]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn a_folder_that_is_a_link_to_nothing_is_an_error() {
        let dir = folder(&[("file", "x")]);
        let (link, file) = (dir.path().join("agents"), dir.path().join("file"));
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(scan(&link).unwrap_err().what.contains("a link to nothing"));
        assert!(scan(&file).unwrap_err().what.starts_with("cannot read the folder: "));
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
