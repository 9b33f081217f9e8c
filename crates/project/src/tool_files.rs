//! Tools as files: each `.toml` file in the folder declares one. Read and checked before the start, kept in the store, then
//! looked at once a second. A broken file leaves its tool unchanged and is reported once, at a start too if its tool was in use. Must not know what a declaration
//! means.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent::limits;
use agent::port::{StoredTool, Toolbox};
use runtime::Ports;

use crate::ProjectError;
use crate::agent_file::{self, FileProblem, shown};

/// Interval between two scans. A change is applied when two scans found it the same, so that a half-written
/// file is not applied.
const INTERVAL: Duration = Duration::from_secs(1);

/// Changes when a file changes: its size, and when it was last modified.
type ToolStamps = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

/// The folder of tool files, read.
pub struct ToolFolder {
    dir: PathBuf,
    stamps: ToolStamps,
    /// The tools that they declare.
    pub tools: Vec<StoredTool>,
    /// Mistakes in files whose tools stay as they are in the store.
    pub broken: Vec<FileProblem>,
}

/// What changed in the folder.
#[derive(Debug, Default)]
pub struct ToolNews {
    /// Tools that are new or were changed.
    pub changed: Vec<String>,
    /// Tools whose files are gone.
    pub gone: Vec<String>,
    /// Mistakes in files.
    pub problems: Vec<FileProblem>,
}

impl ToolFolder {
    /// Reads and checks all files; the error lists all problems. Mistakes in files that are `in_use` are no error: one tool must
    /// not keep all agents from coming back. A folder that is missing holds none.
    pub fn read(
        dir: &Path,
        toolbox: &dyn Toolbox,
        in_use: &BTreeSet<String>,
    ) -> Result<Self, Vec<FileProblem>> {
        let stamps = scan(dir).map_err(|problem| vec![problem])?;
        let Loaded { tools, problems, .. } = load(&stamps, toolbox);
        let broken = agent_file::tolerated(problems, in_use)?;
        Ok(Self { dir: dir.to_owned(), stamps, tools, broken })
    }

    /// Whether the file of this name is there, and not in use because of a mistake in it.
    pub fn is_broken(&self, file: &str) -> bool {
        self.broken.iter().any(|problem| problem.file == file)
    }

    /// Keeps the tools in the store, in place of those that earlier files declared, and uses them. Returns the valid files that
    /// are not used, too.
    pub async fn apply(
        self,
        ports: &Ports,
        data_dir: &Path,
    ) -> Result<(FollowedTools, Vec<FileProblem>), ProjectError> {
        let broken = self.broken.iter().map(|problem| problem.file.clone()).collect();
        let news = apply(ports, &self.tools, &broken).await?;
        note(data_dir, &[self.broken, news.problems.clone()].concat());
        let (before, seen) = (self.stamps.clone(), self.stamps);
        let (dir, data_dir, ports) = (self.dir, data_dir.to_owned(), ports.clone());
        let followed = FollowedTools { dir, data_dir, ports, before, seen, last_failure: None };
        Ok((followed, news.problems))
    }
}

/// A folder of tool files whose changes are applied.
pub struct FollowedTools {
    dir: PathBuf,
    /// Where mistakes in the files are noted.
    data_dir: PathBuf,
    ports: Ports,
    /// The files at the last scan.
    before: ToolStamps,
    /// The files as they were when last applied.
    seen: ToolStamps,
    last_failure: Option<ProjectError>,
}

impl FollowedTools {
    /// Waits for the next change and applies it. A failure is retried at the next scan and returned once. May be
    /// dropped at any moment: what a crash leaves undone the next start completes.
    pub async fn next(&mut self) -> Result<ToolNews, ProjectError> {
        loop {
            tokio::time::sleep(INTERVAL).await;
            match self.look().await {
                Ok(None) => {}
                Ok(Some(news)) => {
                    self.last_failure = None;
                    return Ok(news);
                }
                Err(failure) if self.last_failure.as_ref() == Some(&failure) => {}
                Err(failure) => {
                    self.last_failure = Some(failure.clone());
                    return Err(failure);
                }
            }
        }
    }

    async fn look(&mut self) -> Result<Option<ToolNews>, ProjectError> {
        let (dir, toolbox) = (self.dir.clone(), Arc::clone(&self.ports.toolbox));
        let stamps = tokio::task::spawn_blocking(move || scan(&dir)).await.map_err(unreadable)?;
        let stamps = stamps.map_err(unreadable)?;
        let settled = stamps == self.before && stamps != self.seen;
        self.before.clone_from(&stamps);
        if !settled {
            return Ok(None);
        }
        let found = stamps.clone();
        let read = tokio::task::spawn_blocking(move || load(&found, &*toolbox)).await.map_err(unreadable)?;
        let mut news = apply(&self.ports, &read.tools, &read.broken).await?;
        self.seen = stamps;
        news.problems.extend(read.problems);
        note(&self.data_dir, &news.problems);
        Ok(Some(news))
    }
}

/// Makes the store's tools of files those; tools of the files `broken` stay. A tool that was declared otherwise stays, and its
/// file is a problem.
async fn apply(
    ports: &Ports,
    tools: &[StoredTool],
    broken: &BTreeSet<String>,
) -> Result<ToolNews, ProjectError> {
    let hint = "no tool was changed; it is tried again";
    let failed = |message: String| ProjectError { code: "tool_files", message, hint };
    let stored = ports.tool_book.tools().await.map_err(|error| failed(error.to_string()))?;
    let is_kept = |tool: &&StoredTool| {
        tools.iter().any(|new| new.name == tool.name)
            || tool.file.as_ref().is_none_or(|file| broken.contains(file))
    };
    let gone: Vec<String> =
        stored.iter().filter(|tool| !is_kept(tool)).map(|tool| tool.name.clone()).collect();
    let taken = |new: &&StoredTool| stored.iter().any(|old| old.name == new.name && old.file.is_none());
    let (taken, tools): (Vec<&StoredTool>, Vec<&StoredTool>) = tools.iter().partition(taken);
    let problems = taken.into_iter().map(|tool| {
        let name = &tool.name;
        let what =
            format!("`{name}` is declared without a file already; `viv tools remove {name}` removes that");
        FileProblem::new(tool.file.as_deref().unwrap_or_default(), None, what)
    });
    let is_new = |new: &&&StoredTool| {
        let same = |old: &StoredTool| {
            (&old.name, &old.declaration, &old.file) == (&new.name, &new.declaration, &new.file)
        };
        !stored.iter().any(same)
    };
    let at = ports.clock.now();
    let put: Vec<StoredTool> =
        tools.iter().filter(is_new).map(|tool| StoredTool { at, ..(*tool).clone() }).collect();
    let changed = put.iter().map(|tool| tool.name.clone()).collect();
    runtime::change_tools(ports, put, gone.clone()).await.map_err(|error| failed(error.to_string()))?;
    Ok(ToolNews { changed, gone, problems: problems.collect() })
}

/// The mistakes in tool files, in the data directory.
const NOTED: &str = "tool-files.json";

/// Notes the mistakes for other commands. Without the note they are only in the log.
fn note(data_dir: &Path, problems: &[FileProblem]) {
    let noted = data_dir.join(NOTED);
    let _ = match problems.is_empty() {
        true => fs::remove_file(noted),
        false => fs::write(noted, serde_json::to_vec(problems).unwrap_or_default()),
    };
}

/// The mistakes in the tool files of the server that runs on this data directory, as it last saw them.
pub(crate) fn problems(data_dir: &Path) -> Vec<FileProblem> {
    let noted = fs::read(data_dir.join(NOTED)).unwrap_or_default();
    serde_json::from_slice(&noted).unwrap_or_default()
}

fn unreadable(why: impl std::fmt::Display) -> ProjectError {
    let hint = "no tool was changed; it is tried again every second";
    ProjectError { code: "tool_files_unreadable", message: why.to_string(), hint }
}

fn scan(dir: &Path) -> Result<ToolStamps, FileProblem> {
    let unreadable = |error: std::io::Error| {
        FileProblem::new(&shown(dir), None, format!("cannot read the folder: {error}"))
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ToolStamps::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut found = ToolStamps::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Editors create such names next to the file that they edit.
        if name.starts_with(['.', '#']) || !name.ends_with(".toml") {
            continue;
        }
        let stamp = fs::metadata(&path).ok().filter(fs::Metadata::is_file);
        let stamp = stamp.map_or((0, None), |metadata| (metadata.len(), metadata.modified().ok()));
        found.insert(path, stamp);
    }
    Ok(found)
}

#[derive(Default)]
struct Loaded {
    tools: Vec<StoredTool>,
    problems: Vec<FileProblem>,
    /// Files with problems, as shown to people.
    broken: BTreeSet<String>,
}

fn load(stamps: &ToolStamps, toolbox: &dyn Toolbox) -> Loaded {
    let mut loaded = Loaded::default();
    for path in stamps.keys() {
        let file = shown(path);
        let read = text(path).map_err(|why| vec![why]).and_then(|text| toolbox.read_file(&text));
        let read = read.and_then(|tool| match loaded.tools.iter().find(|other| other.name == tool.name) {
            None => Ok(tool),
            Some(StoredTool { name, file, .. }) => {
                let other = file.as_deref().unwrap_or_default();
                Err(vec![format!("`name`: `{name}` is declared in `{other}` already; give it another name")])
            }
        });
        match read {
            Ok(tool) => loaded.tools.push(StoredTool {
                name: tool.name,
                declaration: tool.declaration,
                file: Some(file),
                at: jiff::Timestamp::UNIX_EPOCH,
            }),
            Err(wrong) => {
                loaded.problems.extend(wrong.into_iter().map(|what| FileProblem::new(&file, None, what)));
                loaded.broken.insert(file);
            }
        }
    }
    loaded
}

fn text(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot read it: {error}");
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        // Reading a pipe would block forever.
        return Err("cannot read it: it is not a file".to_owned());
    }
    let mut text = String::new();
    let most = limits::DECLARATION_MAX_BYTES as u64 + 1;
    let read = fs::File::open(path).and_then(|file| file.take(most).read_to_string(&mut text));
    read.map_err(unreadable)?;
    Ok(text)
}
