//! The folder of agent files of a running server: read and checked before the start, applied, then looked at once a
//! second. A broken file leaves its agent unchanged and is reported once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::ProjectError;
use crate::agent_file::{AgentFile, FileProblem, FoundFile, Stamp, Vetting, load, scan, shown, tolerated};
use crate::reconcile::{ExistingFiles, ReconcileReport, Reconciler};

/// When a changed file is in use.
pub const IN_USE: &str = "used from its agent's next cycle on, within about two seconds of saving";

/// Interval between two scans. A change is applied when two scans found it the same, so that a half-written
/// file is not applied.
const INTERVAL: Duration = Duration::from_secs(1);

type Stamps = BTreeMap<PathBuf, Stamp>;

/// A folder of agent files, read.
pub struct AgentFolder {
    dir: PathBuf,
    /// Whether the folder exists.
    pub folder_exists: bool,
    stamps: Stamps,
    /// The agents that they define.
    pub agents: Vec<AgentFile>,
    /// What is wrong with files although it stops nothing.
    pub warnings: Vec<FileProblem>,
    /// The tools that there were when they were checked.
    tools: Vec<String>,
    /// Mistakes in files whose agents go on as they are in the store.
    pub broken: Vec<FileProblem>,
    broken_paths: BTreeSet<PathBuf>,
    vetting: Vetting,
}

impl AgentFolder {
    /// Reads and checks all files; the error lists all problems but warnings. Mistakes in files that are `in_use` are no error:
    /// one mistake must not keep all the other agents from coming back.
    pub fn read(dir: &Path, vetting: Vetting, in_use: &BTreeSet<String>) -> Result<Self, Vec<FileProblem>> {
        let found = scan(dir).map_err(|problem| vec![problem])?;
        let folder_exists = found.is_some();
        let stamps = found.unwrap_or_default();
        let tools = vetting.toolbox.names();
        let mut all = Batch::default();
        load(&stamps, &|config| vetting.check(config)).into_iter().for_each(|found| all.take(found, true));
        let Batch { apply: agents, existing, broken: broken_paths } = all;
        let (warnings, problems): (Vec<_>, _) = existing.problems.into_iter().partition(|one| one.warning);
        let broken = tolerated(problems, in_use)?;
        let dir = dir.to_owned();
        Ok(Self { dir, folder_exists, stamps, agents, warnings, tools, broken, broken_paths, vetting })
    }

    /// Sets files aside that the store contradicts, as if the mistake were in them; the error lists those that stop a start.
    pub fn set_aside(
        &mut self,
        conflicts: Vec<FileProblem>,
        in_use: &BTreeSet<String>,
    ) -> Result<(), Vec<FileProblem>> {
        let broken = tolerated(conflicts, in_use)?;
        let is_broken = |file: &str| broken.iter().any(|problem| problem.file == file);
        self.agents.retain(|agent| !is_broken(&agent.file));
        self.broken_paths.extend(self.stamps.keys().filter(|path| is_broken(&shown(path))).cloned());
        self.broken.extend(broken);
        Ok(())
    }

    /// The handles of the agents.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(|agent| agent.name.as_str())
    }

    fn problems(&self) -> Vec<FileProblem> {
        self.warnings.iter().chain(&self.broken).cloned().collect()
    }

    /// The files, as the reconciler wants them.
    pub fn existing(&self) -> ExistingFiles {
        let names = self.names().map(str::to_owned).collect();
        let broken = self.broken.iter().map(|problem| problem.file.clone()).collect();
        ExistingFiles { names, broken, problems: self.problems(), saved: BTreeSet::new() }
    }

    /// Follows the folder after `report` was the result of applying these files.
    pub fn follow(self, reconciler: Reconciler, mut report: ReconcileReport) -> FollowedFiles {
        let problems = self.problems();
        FollowedFiles {
            dir: self.dir,
            reconciler,
            vetting: self.vetting,
            before: self.stamps.clone(),
            seen: self.stamps,
            reported: report.drop_reported(&BTreeSet::new()),
            broken: self.broken_paths,
            tools: self.tools,
            problems,
            last_failure: None,
        }
    }
}

/// What changed in the folder.
#[derive(Debug)]
pub struct FolderChange {
    /// What happened to the agents.
    pub report: ReconcileReport,
    /// Mistakes in files that were saved, and those that were not there before.
    pub problems: Vec<FileProblem>,
}

/// A folder of agent files whose changes are applied.
pub struct FollowedFiles {
    dir: PathBuf,
    reconciler: Reconciler,
    vetting: Vetting,
    /// The files at the last scan.
    before: Stamps,
    /// The files as they were when last applied.
    seen: Stamps,
    /// Agents already reported as left without a file.
    reported: BTreeSet<String>,
    /// Broken files.
    broken: BTreeSet<PathBuf>,
    /// What is wrong with them.
    problems: Vec<FileProblem>,
    /// The tools that there were when the files were read.
    tools: Vec<String>,
    /// The last failure that was returned.
    last_failure: Option<ProjectError>,
}

impl FollowedFiles {
    /// Waits for the next change and applies it. A failure is retried at the next scan and returned once. May be
    /// dropped at any moment: what a crash leaves undone the next start completes.
    pub async fn next(&mut self) -> Result<FolderChange, ProjectError> {
        loop {
            tokio::time::sleep(INTERVAL).await;
            match self.look().await {
                Ok(None) => {}
                Ok(Some(change)) => {
                    self.last_failure = None;
                    return Ok(change);
                }
                Err(failure) if self.last_failure.as_ref() == Some(&failure) => {}
                Err(failure) => {
                    self.last_failure = Some(failure.clone());
                    return Err(failure);
                }
            }
        }
    }

    async fn look(&mut self) -> Result<Option<FolderChange>, ProjectError> {
        let dir = self.dir.clone();
        let found = tokio::task::spawn_blocking(move || scan(&dir)).await.map_err(unreadable)?;
        let stamps = found.map_err(unreadable)?.unwrap_or_default();
        let settled = stamps == self.before;
        self.before.clone_from(&stamps);
        // A tool that comes may be all that a file lacked, and one that goes may be what a file names.
        let tools = self.vetting.toolbox.names();
        let is_changed = stamps != self.seen || tools != self.tools;
        if !settled || !is_changed {
            return Ok(None);
        }
        // Before the files are read: a tool that comes meanwhile is noticed at the next scan.
        self.tools = tools;
        let change = self.apply(&stamps).await?;
        self.seen = stamps;
        Ok(Some(change))
    }

    async fn apply(&mut self, stamps: &Stamps) -> Result<FolderChange, ProjectError> {
        let (stamped, vetting) = (stamps.clone(), self.vetting.clone());
        let read = tokio::task::spawn_blocking(move || load(&stamped, &|config| vetting.check(config)));
        let mut batch = Batch::default();
        for found in read.await.map_err(unreadable)? {
            let changed = self.seen.get(&found.path) != stamps.get(&found.path);
            if changed {
                batch.existing.saved.insert(found.file.clone());
            }
            let apply = changed || self.broken.contains(&found.path);
            batch.take(found, apply);
        }
        let conflicts = self.reconciler.conflicts(&batch.apply).await?;
        batch.set_aside(conflicts, stamps);
        let mut report = self.reconciler.apply(&batch.apply, &batch.existing, false).await?;
        self.reported = report.drop_reported(&self.reported);
        self.broken = batch.broken;
        let ExistingFiles { problems, saved, .. } = batch.existing;
        let before = std::mem::replace(&mut self.problems, problems);
        let is_new = |one: &&FileProblem| saved.contains(&one.file) || !before.contains(one);
        let mut problems: Vec<FileProblem> = self.problems.iter().filter(is_new).cloned().collect();
        problems.extend(report.warnings.iter().filter(|one| !self.problems.contains(one)).cloned());
        Ok(FolderChange { report, problems })
    }
}

fn unreadable(why: impl std::fmt::Display) -> ProjectError {
    let hint = "no agent was changed; it is tried again every second";
    ProjectError { code: "agent_files_unreadable", message: why.to_string(), hint }
}

/// The result of a scan.
#[derive(Default)]
struct Batch {
    apply: Vec<AgentFile>,
    existing: ExistingFiles,
    broken: BTreeSet<PathBuf>,
}

impl Batch {
    /// Files that the store contradicts are not applied.
    fn set_aside(&mut self, conflicts: Vec<FileProblem>, stamps: &Stamps) {
        for problem in conflicts {
            self.apply.retain(|agent| agent.file != problem.file);
            self.broken.extend(stamps.keys().filter(|path| shown(path) == problem.file).cloned());
            self.existing.broken.insert(problem.file.clone());
            self.existing.problems.push(problem);
        }
    }

    /// A valid file is applied if it changed, or if it was broken before: another file can make it invalid.
    fn take(&mut self, found: FoundFile, apply: bool) {
        match found.read {
            Ok(agent) => {
                self.existing.names.insert(agent.name.clone());
                self.existing.problems.extend(agent.warnings.iter().cloned());
                if apply {
                    self.apply.push(agent);
                }
            }
            Err(problems) => {
                self.existing.broken.insert(found.file);
                self.existing.problems.extend(problems);
                self.broken.insert(found.path);
            }
        }
    }
}
