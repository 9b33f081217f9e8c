//! Checks the agent files once a second and applies changes while the server runs. A broken file leaves its
//! agent unchanged and is reported once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::report;
use crate::errors::{Exit, Failure};
use crate::output::Screen;
use project::agent_file::{AgentFile, FileProblem, FoundFile, Stamp, Vetting, load, scan};
use project::reconcile::{ExistingFiles, Reconciler};

/// Interval between two scans. A change is applied when two scans found it the same, so that a half-written
/// file is not applied.
const INTERVAL: Duration = Duration::from_secs(1);

type Stamps = BTreeMap<PathBuf, Stamp>;

/// Watches the folder of agent files.
pub(super) struct Watch {
    /// The folder.
    pub(super) dir: PathBuf,
    /// Applies files.
    pub(super) reconciler: Reconciler,
    /// Checks files.
    pub(super) vetting: Vetting,
    /// The files as they were when last read.
    pub(super) seen: Stamps,
    /// Agents already reported as left without a file.
    pub(super) reported: BTreeSet<String>,
    /// Broken files.
    pub(super) broken: BTreeSet<PathBuf>,
    /// The last failure that was reported.
    pub(super) last_failure: Option<Failure>,
}

impl Watch {
    /// Runs forever; drop it to stop.
    pub(super) async fn run(mut self, screen: &Screen) {
        let mut before = self.seen.clone();
        loop {
            tokio::time::sleep(INTERVAL).await;
            let stamps = match self.scan_folder().await {
                Ok(stamps) => stamps,
                Err(failure) => {
                    self.report_once(screen, failure);
                    continue;
                }
            };
            if stamps == before && stamps != self.seen {
                match self.apply(&stamps, screen).await {
                    Ok(()) => {
                        self.seen.clone_from(&stamps);
                        self.last_failure = None;
                    }
                    // Retried at the next scan.
                    Err(failure) => self.report_once(screen, failure),
                }
            }
            before = stamps;
        }
    }

    async fn scan_folder(&self) -> Result<Stamps, Failure> {
        let dir = self.dir.clone();
        let unread = |why: String| Failure::new(Exit::Failed, "agent_files_unreadable", why);
        let found = tokio::task::spawn_blocking(move || scan(&dir)).await;
        let found = found.map_err(|error| unread(error.to_string()))?;
        Ok(found.map_err(|problem| unread(problem.to_string()))?.unwrap_or_default())
    }

    async fn apply(&mut self, stamps: &Stamps, screen: &Screen) -> Result<(), Failure> {
        let stamped = stamps.clone();
        let vetting = self.vetting.clone();
        let read = tokio::task::spawn_blocking(move || load(&stamped, &|config| vetting.check(config))).await;
        // A panic is reported where it happened; the agents stay unchanged.
        let Ok(all) = read else { return Ok(()) };
        let mut batch = Batch::default();
        for found in all {
            let changed = self.seen.get(&found.path) != stamps.get(&found.path);
            batch.take(found, changed, &self.broken);
        }
        let mut report = self.reconciler.apply(&batch.apply, &batch.existing, false).await?;
        self.broken = batch.broken;
        self.reported = report.drop_reported(&self.reported);
        for problem in &batch.problems {
            let failure = Failure::new(Exit::Usage, "bad_agent_file", problem.to_string());
            screen.failure(&failure.hint("no agent was changed; fix the file and save it"));
        }
        if screen.json {
            if !report.is_empty() {
                screen.json_line(&json!({"files": report.to_json()}));
            }
        } else if !report.is_empty() {
            report::print_changes(&report, screen);
        }
        Ok(())
    }

    fn report_once(&mut self, screen: &Screen, failure: Failure) {
        if self.last_failure.as_ref() != Some(&failure) {
            screen.failure(&failure);
            self.last_failure = Some(failure);
        }
    }
}

/// The result of a scan.
#[derive(Default)]
struct Batch {
    apply: Vec<AgentFile>,
    existing: ExistingFiles,
    problems: Vec<FileProblem>,
    broken: BTreeSet<PathBuf>,
}

impl Batch {
    /// A file is applied if it changed, or if another file made it invalid before.
    fn take(&mut self, found: FoundFile, changed: bool, broken_before: &BTreeSet<PathBuf>) {
        let was_broken = broken_before.contains(&found.path);
        match found.read {
            Ok(agent) => {
                self.existing.names.insert(agent.name.clone());
                if changed || was_broken {
                    self.apply.push(agent);
                }
            }
            Err(problems) => {
                self.existing.broken.insert(found.file);
                if changed || !was_broken {
                    self.problems.extend(problems);
                }
                self.broken.insert(found.path);
            }
        }
    }
}
